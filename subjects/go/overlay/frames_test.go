package main

import (
	"os"
	"strings"
	"testing"
)

func TestFramesAreChangedInOnePlace(t *testing.T) {
	for bytes, wanted := range map[int]string{
		8192:  "\tmaxSize := 8192\n",
		32768: "\thttp2MaxFrameLen = 32768",
	} {
		change, err := frames(bytes)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(change.file)
		if err != nil {
			t.Fatal(err)
		}
		edited, err := change.edit(string(text))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(edited, wanted) {
			t.Errorf("%d bytes: %q is not there", bytes, wanted)
		}
		if _, err := change.edit(edited); err == nil {
			t.Errorf("%d bytes: what is not there was changed", bytes)
		}
	}
}

func TestFramesThatAreNone(t *testing.T) {
	for _, bytes := range []int{-1, 10, frameDefault, 1 << 24} {
		if _, err := frames(bytes); err == nil {
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
