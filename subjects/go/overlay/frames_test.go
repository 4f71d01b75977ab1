package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestACopyOfTheModuleHasOtherFrames(t *testing.T) {
	for bytes, wanted := range map[int]string{
		8192:  "\tmaxSize := 8192\n",
		32768: "\thttp2MaxFrameLen = 32768",
	} {
		into := t.TempDir()
		flag, err := made(0, bytes, into)
		if err != nil {
			t.Fatal(err)
		}
		if flag != "-modfile="+filepath.Join(into, "go.mod") {
			t.Errorf("it says %s", flag)
		}
		change, err := newFrames(bytes)
		if err != nil {
			t.Fatal(err)
		}
		changed := change.(frames)
		file := filepath.Join(into, "grpc", "internal", "transport", changed.file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), wanted) {
			t.Errorf("%d bytes: %q is not there", bytes, wanted)
		}
		if changed.edit(file) == nil {
			t.Errorf("%d bytes: what is not there was changed", bytes)
		}
	}
}

func TestFramesThatAreNone(t *testing.T) {
	for _, bytes := range []int{-1, 10, frameDefault, 1 << 24} {
		if _, err := newFrames(bytes); err == nil {
			t.Errorf("%d was taken", bytes)
		}
	}
}

func TestOneConstantAtATime(t *testing.T) {
	for _, both := range [][2]int{{0, 0}, {20480, 8192}} {
		if _, err := chosen(both[0], both[1]); err == nil {
			t.Errorf("%v was taken", both)
		}
	}
}
