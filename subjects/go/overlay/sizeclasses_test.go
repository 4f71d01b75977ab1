package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func theTable(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(runtime.GOROOT(), "src", filepath.FromSlash(table)))
	if err != nil {
		t.Fatal("the standard library's source is not here:", err)
	}
	return string(text)
}

func TestTheTableEndsWithTheLimit(t *testing.T) {
	cut, err := cutOff(theTable(t), 20480)
	if err != nil {
		t.Fatal(err)
	}
	sizes, err := array(cut, "SizeClassToSize")
	if err != nil {
		t.Fatal(err)
	}
	if last := sizes[len(sizes)-1]; last != "20480" {
		t.Errorf("it ends with %s", last)
	}
	for _, name := range []string{"SizeClassToNPages", "SizeClassToDivMagic"} {
		if values, _ := array(cut, name); len(values) != len(sizes) {
			t.Errorf("%s has %d values for %d classes", name, len(values), len(sizes))
		}
	}
	if steps, _ := array(cut, "SizeToSizeClass128"); len(steps) != (20480-1024)/128+1 {
		t.Errorf("SizeToSizeClass128 has %d values", len(steps))
	}
	if strings.Contains(cut, "= 32768\n") {
		t.Error("the old limit still stands there")
	}
}

func TestOnlyAClassThatIsThereCanBeTheLimit(t *testing.T) {
	for _, limit := range []int{0, 1024, 16384, 20000, 65536} {
		if _, err := cutOff(theTable(t), limit); err == nil {
			t.Errorf("%d was taken", limit)
		}
	}
	if _, err := cutOff("package gc\n", 20480); err == nil {
		t.Error("a file without a table was taken")
	}
}
