package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// frameDefault is what HTTP/2 allows without asking, and what grpc-go sends and takes.
const frameDefault = 16384

// frames is grpc-go with other frames, in bytes: it has a constant for them and no option. Smaller ones are
// smaller as they are sent; larger ones have to be announced and taken too.
func frames(bytes int) (change, error) {
	if bytes < 1024 || bytes > 1<<24-1 || bytes == frameDefault {
		return change{}, fmt.Errorf("%d is no other size of frames: 1024 to 16777215, without %d", bytes, frameDefault)
	}
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "google.golang.org/grpc").Output()
	if err != nil {
		return change{}, fmt.Errorf("go list -m google.golang.org/grpc: %w", err)
	}
	file, old, put := "controlbuf.go", "\tmaxSize := http2MaxFrameLen\n", "\tmaxSize := %d\n"
	if bytes > frameDefault {
		file, old, put = "http_util.go", "\thttp2MaxFrameLen = 16384", "\thttp2MaxFrameLen = %d"
	}
	return change{
		file: filepath.Join(strings.TrimSpace(string(module)), "internal", "transport", file),
		edit: func(text string) (string, error) {
			if count := strings.Count(text, old); count != 1 {
				return "", fmt.Errorf("%q stands there %d times, not once", strings.TrimSpace(old), count)
			}
			return strings.Replace(text, old, fmt.Sprintf(put, bytes), 1), nil
		},
	}, nil
}
