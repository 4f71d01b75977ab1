// Command overlay writes what `go build` takes to build a program with another constant of Go's runtime or of
// grpc-go, and prints the flag that says so. No toolchain and no module is changed: the compiler is told to
// read one file elsewhere, or a module.
//
//	go build $(go run ./overlay --limit 20480 --into /tmp/overlay) ./cmd/echo
//	go build $(go run ./overlay --frames 8192 --into /tmp/overlay) ./cmd/echo
//
// --limit is the allocator's: objects up to it come from size classes, larger ones from the heap itself. It
// must be a size class of the toolchain's own table, which is cut off behind it. --frames is the largest
// HTTP/2 frame that grpc-go sends.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// change makes what `go build` is to be told, in a folder, and says how: a flag.
type change interface {
	write(into string) (flag string, err error)
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
	flag, err := made(*limit, *frame, *into)
	if err != nil {
		fmt.Fprintln(os.Stderr, "overlay:", err)
		os.Exit(1)
	}
	fmt.Println(flag)
}

func made(limit, frame int, into string) (string, error) {
	wanted, err := chosen(limit, frame)
	if err != nil {
		return "", err
	}
	if into, err = filepath.Abs(into); err != nil {
		return "", err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return "", err
	}
	return wanted.write(into)
}

func chosen(limit, frame int) (change, error) {
	switch {
	case limit != 0 && frame == 0:
		return smallObjects{limit}, nil
	case frame != 0 && limit == 0:
		return newFrames(frame)
	}
	return nil, errors.New("either --limit or --frames")
}
