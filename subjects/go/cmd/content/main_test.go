package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wallfinder.dev/subjects/command"
	"wallfinder.dev/subjects/testsubject"
)

func TestMain(m *testing.M) { testsubject.Main(m, main) }

func started(t *testing.T, flags ...string) startupLine {
	t.Helper()
	return testsubject.Started[startupLine](t, flags...)
}

func coding(t *testing.T, address, path, says string) string {
	t.Helper()
	request, err := http.NewRequest("GET", "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept-Encoding", says)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, err)
	}
	return response.Header.Get("Content-Encoding")
}

func TestCodingsThresholdAndTableAreFlags(t *testing.T) {
	line := started(t)
	if !slices.Equal(line.Codings, []string{"zstd", "br", "gzip", "deflate"}) || line.Threshold != 1400 || line.Server != "content" {
		t.Errorf("%+v", line)
	}
	if got := coding(t, line.Listening, "/realistic/4k.txt", "gzip, br"); got != "gzip" {
		t.Errorf("%q", got)
	}
	line = started(t, "--codings", "br", "--threshold", "8192")
	for path, want := range map[string]string{"/realistic/4k.txt": "", "/realistic/16k.txt": "br"} {
		if got := coding(t, line.Listening, path, "gzip, br"); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
	list := filepath.Join(t.TempDir(), "table")
	if err := os.WriteFile(list, []byte("text/plain none\ntext/html gzip\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	line = started(t, "--table", list, "--root", t.TempDir())
	if response, err := http.Get("http://" + line.Listening + "/none.html"); err != nil || response.StatusCode != http.StatusNotFound {
		t.Error(response, err)
	}
	line = started(t, "--table", list, "--cache", "0")
	if got := coding(t, line.Listening, "/realistic/4k.txt", "gzip"); got != "" {
		t.Errorf("what the table leaves alone is sent by %q", got)
	}
}

// Ends a test that this machine lacks something for: as skipped, or, in strict mode (as in continuous
// integration), as failed.
func lacks(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("WALLFINDER_STRICT") == "1" {
		t.Fatal("skipped in strict mode:", what)
	}
	t.Skip(what)
}

// curl is another's reading of the same standards.
func TestCurlDecodesWhatItAskedFor(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		lacks(t, "curl is not installed")
	}
	certificate := filepath.Join(t.TempDir(), "cert.pem")
	clear, secured := started(t), started(t, "--tls", "--tls-cert-out", certificate)
	plain, err := exec.Command(curl, "-sS", "http://"+clear.Listening+"/realistic/64k.txt").Output()
	if err != nil {
		t.Fatal(err)
	}
	can, _ := exec.Command(curl, "--version").Output()
	for _, asked := range []string{"gzip", "deflate", "br", "zstd"} {
		feature := map[string]string{"gzip": "libz", "deflate": "libz", "br": "brotli", "zstd": "zstd"}[asked]
		if !bytes.Contains(can, []byte(feature)) {
			lacks(t, "this curl knows no "+asked)
		}
		for _, target := range [][]string{{"http://" + clear.Listening}, {"--cacert", certificate, "https://" + secured.Listening}} {
			target[len(target)-1] += "/realistic/64k.txt"
			// --compressed decodes; the second field takes the place of its own list.
			args := append([]string{"-sS", "--compressed", "-H", "Accept-Encoding: " + asked}, target...)
			got, err := exec.Command(curl, args...).Output()
			if err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%s of %v: %d bytes, %v", asked, target, len(got), err)
			}
		}
	}
}

func TestBadArgumentsAreToldApart(t *testing.T) {
	for args, says := range map[string]string{
		"--codings lzw":           "some of zstd",
		"--gzip-level 0":          "from 1 to 9",
		"--threshold -1":          "whole number",
		"--root /tmp --seed 2":    "--seed is of made texts",
		"--block-rate 1":          "needs --pprof",
		"--tls-cert x":            "go together",
		"realistic/1k.txt":        "everything is a flag",
		"--root /no/such/folder":  "no such file",
		"--table /no/such/folder": "no such file",
	} {
		var stdout, stderr bytes.Buffer
		code := content.Exit(strings.Fields(args), &stdout, &stderr)
		if code == command.Done || !strings.Contains(stderr.String(), says) || stdout.Len() > 0 {
			t.Errorf("%s: exit %d, %q", args, code, stderr.String())
		}
	}
	var stdout, stderr bytes.Buffer
	if code := content.Exit([]string{"--help"}, &stdout, &stderr); code != command.Done || !strings.Contains(stdout.String(), "--threshold") {
		t.Errorf("--help: exit %d, %q", code, stdout.String())
	}
	if code := content.Exit([]string{"--version"}, &stdout, &stderr); code != command.Done || !strings.Contains(stdout.String(), "content 0.2.0") {
		t.Errorf("--version: exit %d, %q", code, stdout.String())
	}
}
