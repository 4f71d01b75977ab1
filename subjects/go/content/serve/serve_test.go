package serve

import (
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"wallfinder.dev/subjects/content/encode"
	"wallfinder.dev/subjects/content/files"
	"wallfinder.dev/subjects/content/store"
	"wallfinder.dev/subjects/content/table"
)

func settings() Settings {
	return Settings{
		Files:     files.Made(1),
		Table:     table.Default(),
		Codings:   encode.Codings,
		Levels:    encode.Defaults(),
		Threshold: 1400,
		Kept:      store.New(1 << 20),
	}
}

func answered(t *testing.T, s Settings, method, path string, fields ...string) *http.Response {
	t.Helper()
	request := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(fields); i += 2 {
		request.Header.Add(fields[i], fields[i+1])
	}
	recorder := httptest.NewRecorder()
	Handler(s).ServeHTTP(recorder, request)
	return recorder.Result()
}

func body(t *testing.T, response *http.Response) []byte {
	t.Helper()
	bytes, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func TestAClientGetsTheCodingThatItWants(t *testing.T) {
	s := settings()
	plain := body(t, answered(t, s, "GET", "/realistic/16k.txt"))
	for says, want := range map[string]string{
		"gzip": "gzip", "br, gzip": "br", "zstd": "zstd", "deflate": "deflate", "compress": "", "": "",
		"gzip;q=0.5, br;q=0.1": "gzip", "identity": "", "gzip;q=0": "",
	} {
		response := answered(t, s, "GET", "/realistic/16k.txt", "Accept-Encoding", says)
		if got := response.Header.Get("Content-Encoding"); got != want || response.StatusCode != 200 {
			t.Errorf("%q gets %q, %d", says, got, response.StatusCode)
		}
		if response.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: Vary %q", says, response.Header.Get("Vary"))
		}
		if want == "" && !bytes.Equal(body(t, response), plain) {
			t.Errorf("%q: another text", says)
		}
	}
	response := answered(t, s, "GET", "/realistic/16k.txt", "Accept-Encoding", "gzip")
	reader, err := gzip.NewReader(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(reader); err != nil || !bytes.Equal(got, plain) {
		t.Error("gzip comes back otherwise:", err)
	}
}

func TestSmallFilesAreSentAsTheyAre(t *testing.T) {
	s := settings()
	response := answered(t, s, "GET", "/repeated/1k.txt", "Accept-Encoding", "gzip")
	if response.Header.Get("Content-Encoding") != "" || response.Header.Get("Vary") != "" {
		t.Errorf("%v", response.Header)
	}
	s.Threshold = 0
	response = answered(t, s, "GET", "/repeated/1k.txt", "Accept-Encoding", "gzip")
	if response.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("without a threshold: %v", response.Header)
	}
}

func TestRangesAreOfTheFileAsItIs(t *testing.T) {
	response := answered(t, settings(), "GET", "/realistic/16k.txt", "Accept-Encoding", "gzip", "Range", "bytes=100-199")
	if response.StatusCode != http.StatusPartialContent || response.Header.Get("Content-Encoding") != "" {
		t.Errorf("%d, %v", response.StatusCode, response.Header)
	}
	if got := len(body(t, response)); got != 100 {
		t.Errorf("%d bytes", got)
	}
}

func TestTagsDifferByCodingAndAreHonoured(t *testing.T) {
	s := settings()
	tags := map[string]bool{}
	for _, says := range []string{"identity", "gzip", "br"} {
		response := answered(t, s, "GET", "/realistic/16k.txt", "Accept-Encoding", says)
		tag := response.Header.Get("ETag")
		tags[tag] = true
		for _, had := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
			again := answered(t, s, "GET", "/realistic/16k.txt", "Accept-Encoding", says, "If-None-Match", had)
			if again.StatusCode != http.StatusNotModified || len(body(t, again)) != 0 {
				t.Errorf("%s: %s is sent again: %d", says, had, again.StatusCode)
			}
		}
		other := answered(t, s, "GET", "/realistic/16k.txt", "Accept-Encoding", says, "If-None-Match", `"other"`)
		if other.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", says, other.StatusCode)
		}
	}
	if len(tags) != 3 {
		t.Errorf("%v", tags)
	}
}

func TestATimeIsHonouredWhereThereIsNoTag(t *testing.T) {
	for since, want := range map[string]int{
		"Thu, 01 Jan 2026 00:00:00 GMT": http.StatusNotModified,
		"Wed, 31 Dec 2025 00:00:00 GMT": http.StatusOK,
		"yesterday":                     http.StatusOK,
	} {
		for _, says := range []string{"", "gzip"} {
			got := answered(t, settings(), "GET", "/realistic/16k.txt", "Accept-Encoding", says, "If-Modified-Since", since)
			if got.StatusCode != want {
				t.Errorf("%q since %q: %d", says, since, got.StatusCode)
			}
		}
	}
	both := answered(t, settings(), "GET", "/realistic/16k.txt", "If-None-Match", `"other"`, "If-Modified-Since", "Thu, 01 Jan 2026 00:00:00 GMT")
	if both.StatusCode != http.StatusOK {
		t.Errorf("a tag that differs: %d", both.StatusCode)
	}
}

func TestHeadSaysWhatGetWouldSend(t *testing.T) {
	for _, says := range []string{"", "gzip"} {
		get := answered(t, settings(), "GET", "/realistic/16k.txt", "Accept-Encoding", says)
		head := answered(t, settings(), "HEAD", "/realistic/16k.txt", "Accept-Encoding", says)
		if len(body(t, head)) != 0 || head.Header.Get("Content-Length") != get.Header.Get("Content-Length") {
			t.Errorf("%q: %v, %v", says, head.Header, get.Header)
		}
	}
}

func TestWhatCannotBeAnsweredIsSaid(t *testing.T) {
	for _, c := range []struct {
		method, path, says string
		want               int
	}{
		{"POST", "/realistic/16k.txt", "", http.StatusMethodNotAllowed},
		{"GET", "/realistic/3k.txt", "", http.StatusNotFound},
		{"GET", "/", "", http.StatusNotFound},
		{"GET", "/realistic/16k.txt", "identity;q=0", http.StatusNotAcceptable},
		{"GET", "/realistic/16k.txt", "*;q=0", http.StatusNotAcceptable},
	} {
		if got := answered(t, settings(), c.method, c.path, "Accept-Encoding", c.says).StatusCode; got != c.want {
			t.Errorf("%s %s, %q: %d", c.method, c.path, c.says, got)
		}
	}
}

func TestACompressedBodyIsKept(t *testing.T) {
	s := settings()
	for range 3 {
		answered(t, s, "GET", "/realistic/16k.txt", "Accept-Encoding", "gzip")
	}
	one := s.Kept.Bytes()
	answered(t, s, "GET", "/realistic/16k.txt", "Accept-Encoding", "br")
	if one == 0 || s.Kept.Bytes() <= one {
		t.Errorf("%d bytes, then %d", one, s.Kept.Bytes())
	}
}

func TestBothVersionsOfHTTPAreSpoken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { _ = Serve(listener, settings()) }()
	for version, set := range map[int]func(*http.Protocols, bool){
		1: (*http.Protocols).SetHTTP1,
		2: (*http.Protocols).SetUnencryptedHTTP2,
	} {
		var protocols http.Protocols
		set(&protocols, true)
		client := http.Client{Transport: &http.Transport{Protocols: &protocols, DisableCompression: true}}
		response, err := client.Get("http://" + listener.Addr().String() + "/repeated/64k.txt")
		if err != nil {
			t.Fatal(err)
		}
		if got := len(body(t, response)); response.ProtoMajor != version || got != 64<<10 {
			t.Errorf("HTTP/%d: %d bytes", response.ProtoMajor, got)
		}
		client.CloseIdleConnections()
	}
}
