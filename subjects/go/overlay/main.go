// Command overlay writes what `go build -overlay` takes to build a program with another constant of Go's runtime
// or of grpc-go. No toolchain and no module is changed: the compiler is told to read one file elsewhere.
//
//	go run ./overlay --limit 20480 --into /tmp/overlay
//	go run ./overlay --frames 8192 --into /tmp/overlay
//	go build -overlay /tmp/overlay/overlay.json ./cmd/echo
//
// --limit is the allocator's: objects up to it come from size classes, larger ones from the heap itself. It
// must be a size class of the toolchain's own table, which is cut off behind it. --frames is the largest
// HTTP/2 frame that grpc-go sends.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// change is a file that the compiler is to read otherwise.
type change struct {
	file string
	edit func(text string) (string, error)
}

func main() {
	limit := flag.Int("limit", 0, "largest small object, in bytes")
	frame := flag.Int("frames", 0, "largest HTTP/2 frame that grpc-go sends, in bytes")
	into := flag.String("into", "", "folder to write to")
	flag.Parse()
	if *into == "" {
		fmt.Fprintln(os.Stderr, "overlay: --into is missing")
		os.Exit(2)
	}
	wanted, err := chosen(*limit, *frame)
	if err == nil {
		err = write(wanted, *into)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "overlay:", err)
		os.Exit(1)
	}
}

func chosen(limit, frame int) (change, error) {
	switch {
	case limit != 0 && frame == 0:
		return smallObjects(limit)
	case frame != 0 && limit == 0:
		return frames(frame)
	}
	return change{}, errors.New("either --limit or --frames")
}

func write(wanted change, into string) error {
	text, err := os.ReadFile(wanted.file)
	if err != nil {
		return err
	}
	edited, err := wanted.edit(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", wanted.file, err)
	}
	if into, err = filepath.Abs(into); err != nil {
		return err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	replacement := filepath.Join(into, filepath.Base(wanted.file))
	if err := os.WriteFile(replacement, []byte(edited), 0o644); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{wanted.file: replacement}})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(into, "overlay.json"), overlay, 0o644)
}
