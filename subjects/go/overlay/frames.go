package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// frameDefault is what HTTP/2 allows without asking, and what grpc-go sends and takes.
const frameDefault = 16384

// module is who speaks HTTP/2 here. It has a constant for its frames and no option.
const module = "google.golang.org/grpc"

// frames is a copy of the module with other frames, for files in its cache are not to be laid over.
type frames struct {
	// The largest, in bytes.
	bytes int
	// What is changed, and where.
	file, old, new string
}

// newFrames takes any size that HTTP/2 has. Smaller frames are smaller as they are sent; larger ones have to be
// announced and taken too.
func newFrames(bytes int) (change, error) {
	switch {
	case bytes < 1024 || bytes > 1<<24-1 || bytes == frameDefault:
		return nil, fmt.Errorf("%d is no other size of frames: 1024 to 16777215, without %d", bytes, frameDefault)
	case bytes < frameDefault:
		return frames{bytes, "controlbuf.go", "\tmaxSize := http2MaxFrameLen\n", fmt.Sprintf("\tmaxSize := %d\n", bytes)}, nil
	}
	return frames{bytes, "http_util.go", "\thttp2MaxFrameLen = 16384", fmt.Sprintf("\thttp2MaxFrameLen = %d", bytes)}, nil
}

func (f frames) write(into string) (string, error) {
	listed, err := exec.Command("go", "list", "-m", "-json", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", module, err)
	}
	var original struct{ Dir string }
	if err := json.Unmarshal(listed, &original); err != nil {
		return "", err
	}
	here, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	changed := filepath.Join(into, "grpc")
	if err := os.RemoveAll(changed); err != nil {
		return "", err
	}
	if err := os.CopyFS(changed, os.DirFS(original.Dir)); err != nil {
		return "", err
	}
	if err := f.edit(filepath.Join(changed, "internal", "transport", f.file)); err != nil {
		return "", err
	}
	return replaced(strings.TrimSpace(string(here)), changed, into)
}

// edit changes the one place in a file.
func (f frames) edit(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if count := strings.Count(string(text), f.old); count != 1 {
		return fmt.Errorf("%s: %q stands there %d times, not once", file, strings.TrimSpace(f.old), count)
	}
	return os.WriteFile(file, []byte(strings.Replace(string(text), f.old, f.new, 1)), 0o644)
}

// replaced writes this module's own file once more, with the copy in the place of the original.
func replaced(mod, changed, into string) (string, error) {
	text, err := os.ReadFile(mod)
	if err != nil {
		return "", err
	}
	sums, err := os.ReadFile(strings.TrimSuffix(mod, ".mod") + ".sum")
	if err != nil {
		return "", err
	}
	text = fmt.Appendf(text, "\nreplace %s => %s\n", module, changed)
	file := filepath.Join(into, "go.mod")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return "", err
	}
	return "-modfile=" + file, os.WriteFile(filepath.Join(into, "go.sum"), sums, 0o644)
}
