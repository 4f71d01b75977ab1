package files

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/andybalholm/brotli"

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
	if len(one.(inMemory)) != 22+7+2+4+3 {
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
		"types/picture.png": "image/png", "types/picture.jpg": "image/jpeg", "types/picture.gif": "image/gif",
		"types/picture.ico": "image/x-icon", "types/prose.pdf": "application/pdf", "types/font.ttf": "font/ttf",
		"types/font.otf": "font/otf", "types/font.woff2": "font/woff2"} {
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
	for _, name := range []string{"types/prose.gz", "types/prose.pdf", "types/picture.ico", "types/font.woff2"} {
		if got := ratio(name); got > 1.05 {
			t.Errorf("%s is compressed and compresses again: 1:%.2f", name, got)
		}
	}
	if got := ratio("types/font.ttf"); got < 1.2 {
		t.Errorf("a font as TrueType does not compress: 1:%.2f", got)
	}
}

func found(t *testing.T, name string) []byte {
	t.Helper()
	file, err := Made(1).Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return file.Body
}

func TestAFontAddsUpAndWOFF2HasItsTables(t *testing.T) {
	plain, packed := found(t, "types/font.ttf"), found(t, "types/font.woff2")
	if got := sum(plain); got != 0xb1b0afba {
		t.Errorf("the font adds up to %#x", got)
	}
	bodies := 0
	for at := range int(binary.BigEndian.Uint16(plain[4:])) {
		record := plain[12+16*at:]
		place, size := binary.BigEndian.Uint32(record[8:]), binary.BigEndian.Uint32(record[12:])
		bodies += int(size)
		table := bytes.Clone(plain[place : place+size])
		if string(record[:4]) == "head" {
			clear(table[8:12]) // left out of its own sum
		}
		if sum(table) != binary.BigEndian.Uint32(record[4:]) {
			t.Errorf("%s adds up to another number than it says", record[:4])
		}
	}
	if got := binary.BigEndian.Uint32(packed[8:]); int(got) != len(packed) {
		t.Errorf("%d bytes, and it says %d", len(packed), got)
	}
	body := packed[len(packed)-int(binary.BigEndian.Uint32(packed[20:])):]
	unpacked, err := io.ReadAll(brotli.NewReader(bytes.NewReader(body)))
	if err != nil || len(unpacked) != bodies {
		t.Errorf("%d bytes of tables, %d in the plain font: %v", len(unpacked), bodies, err)
	}
}

func TestAPDFHasItsTextAndItsObjectsWhereItSays(t *testing.T) {
	file := found(t, "types/prose.pdf")
	_, rest, _ := bytes.Cut(file, []byte("stream\n"))
	reader, err := zlib.NewReader(bytes.NewReader(rest))
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(reader)
	if err != nil || len(page) < 64<<10 || !bytes.HasPrefix(page, []byte("BT ")) {
		t.Errorf("%d bytes on its page: %v", len(page), err)
	}
	_, table, _ := bytes.Cut(file, []byte("f \n"))
	for number := 1; number <= 5; number++ {
		place, err := strconv.Atoi(string(table[20*(number-1) : 20*(number-1)+10]))
		if err != nil || !bytes.HasPrefix(file[place:], fmt.Appendf(nil, "%d 0 obj\n", number)) {
			t.Errorf("object %d is not at %d: %v", number, place, err)
		}
	}
}

func TestAnIconHoldsThePicture(t *testing.T) {
	file := found(t, "types/picture.ico")
	place := binary.LittleEndian.Uint32(file[18:])
	inside := file[place:]
	if int(binary.LittleEndian.Uint32(file[14:])) != len(inside) {
		t.Errorf("%d bytes at %d", len(file), place)
	}
	picture, err := png.Decode(bytes.NewReader(inside))
	if err != nil || picture.Bounds() != image.Rect(0, 0, side, side) {
		t.Fatalf("%v, %v", picture, err)
	}
	// Colours with alpha, of 8 bits each, are type 6.
	if bits := binary.LittleEndian.Uint16(file[12:]); bits != 32 || inside[24] != 8 || inside[25] != 6 {
		t.Errorf("%d bits said of a picture of type %d with %d bits", bits, inside[25], inside[24])
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
