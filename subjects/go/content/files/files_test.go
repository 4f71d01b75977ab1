package files

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"wallfinder.dev/subjects/content/encode"
)

func TestElevenSizesOfEachKindAreTheSameEachTime(t *testing.T) {
	one, other := Made(1), Made(1)
	sizes := map[string]int{"1k": 1 << 10, "32k": 1 << 15, "512k": 1 << 19, "1m": 1 << 20}
	for name, size := range sizes {
		for _, kind := range []string{"realistic", "repeated"} {
			file, err := one.Find(kind + "/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			again, _ := other.Find(file.Name)
			if len(file.Body) != size || !bytes.Equal(file.Body, again.Body) || file.Tag != again.Tag {
				t.Errorf("%s: %d bytes", file.Name, len(file.Body))
			}
		}
	}
	if len(one.(inMemory)) != 22+7+1+3 {
		t.Errorf("%d files", len(one.(inMemory)))
	}
	if _, err := one.Find("realistic/3k.txt"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestEachTypeIsThatOfItsNameAndTheSameEachTime(t *testing.T) {
	one, other := Made(1), Made(1)
	for name, kind := range map[string]string{"types/prose.svg": "image/svg+xml", "types/prose.css": "text/css; charset=utf-8",
		"types/prose.xhtml": "application/xhtml+xml", "types/prose.gz": "application/gzip",
		"types/picture.png": "image/png", "types/picture.jpg": "image/jpeg", "types/picture.gif": "image/gif"} {
		file, err := one.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := other.Find(name)
		if file.Type != kind || len(file.Body) < 2000 || !bytes.Equal(file.Body, again.Body) {
			t.Errorf("%s: %s, %d bytes", name, file.Type, len(file.Body))
		}
	}
}

func TestOneKindCompressesAsTextAndTheOtherAsTheSourceSays(t *testing.T) {
	ratio := func(name string) float64 {
		file, err := Made(1).Find(name)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := encode.Defaults().Encode("gzip", file.Body)
		if err != nil {
			t.Fatal(err)
		}
		return float64(len(file.Body)) / float64(len(encoded))
	}
	if got := ratio("realistic/64k.txt"); got < 2 || got > 5 {
		t.Errorf("realistic text: 1:%.1f", got)
	}
	// small-files.txt: 1:2 to 1:64 up to 32 KB, as high as 1:200 above.
	for name, said := range map[string]float64{"repeated/1k.txt": 2, "repeated/32k.txt": 64, "repeated/1m.txt": 200} {
		if got := ratio(name); got < said*0.75 || got > said*1.25 {
			t.Errorf("%s: 1:%.1f, and the source says 1:%.0f", name, got, said)
		}
	}
	if got := ratio("types/prose.gz"); got > 1.01 {
		t.Errorf("what is compressed compresses again: 1:%.2f", got)
	}
}

func TestAFolderIsServedAndNothingOutside(t *testing.T) {
	outside := t.TempDir()
	folder := filepath.Join(outside, "served")
	for name, text := range map[string]string{"a.html": "<p>", "deep/b.svg": "<svg/>", "../secret": "no"} {
		place := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(place, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	files, err := In(folder)
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{"a.html": "text/html; charset=utf-8", "deep/b.svg": "image/svg+xml"} {
		file, err := files.Find(name)
		if err != nil || file.Type != kind {
			t.Errorf("%s: %v, %v", name, file, err)
		}
	}
	for _, name := range []string{"../secret", "link", "deep", "", "/etc/passwd", "deep/../a.html", "none"} {
		if _, err := files.Find(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is found: %v", name, err)
		}
	}
	if _, err := In(filepath.Join(folder, "none")); err == nil {
		t.Error("a folder that is not there is served")
	}
}
