package table

import (
	"slices"
	"strings"
	"testing"

	"wallfinder.dev/subjects/content/encode"
)

func TestTextIsCompressedAndPicturesAreNot(t *testing.T) {
	table := Default()
	// small-files.txt has these 22.
	compressed := []string{"text/css", "text/html", "text/plain", "application/javascript", "application/json",
		"application/xhtml+xml", "application/xml", "image/svg+xml", "font/otf", "font/ttf"}
	whole := []string{"application/pdf", "application/gzip", "image/gif", "image/jpeg", "image/png", "image/webp",
		"image/x-icon", "audio/mpeg", "video/mp4", "audio/webm", "video/webm", "font/woff2"}
	if len(table) != 22 || len(compressed)+len(whole) != 22 {
		t.Errorf("%d types", len(table))
	}
	for _, name := range append(compressed, "text/html; charset=utf-8") {
		if got := table.Of(name); !slices.Equal(got, []string{"zstd", "br", "gzip", "deflate"}) {
			t.Errorf("%s: %v", name, got)
		}
	}
	for _, name := range append(whole, "application/octet-stream", "") {
		if got := table.Of(name); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestEveryTypeIsCompressedWhereATableSaysSo(t *testing.T) {
	if got := Any().Of("image/png"); !slices.Equal(got, encode.Codings) {
		t.Errorf("%v", got)
	}
	table, err := Parse(strings.NewReader("image/png none\n*/* gzip"))
	if err != nil {
		t.Fatal(err)
	}
	if png, other := table.Of("image/png"), table.Of("font/woff2"); len(png) != 0 || !slices.Equal(other, []string{"gzip"}) {
		t.Errorf("%v, %v", png, other)
	}
}

func TestAFileIsReadAsServersHaveIt(t *testing.T) {
	table, err := Parse(strings.NewReader("content-encoding {\ntext/css gzip\n  Text/HTML br, gzip # first br\n\nimage/gif none\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := table.Of("text/html"); !slices.Equal(got, []string{"br", "gzip"}) {
		t.Errorf("%v", got)
	}
	if got := table.Of("text/css"); !slices.Equal(got, []string{"gzip"}) {
		t.Errorf("%v", got)
	}
	for text, says := range map[string]string{"text/css": "line 1", "css gzip": "no type", "a/b\nc/d lzw": "line 2"} {
		if _, err := Parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) && !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
