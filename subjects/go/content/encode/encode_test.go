package encode

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

func decoded(t *testing.T, coding string, body []byte) []byte {
	t.Helper()
	var reader io.Reader
	var err error
	switch coding {
	case "gzip":
		reader, err = gzip.NewReader(bytes.NewReader(body))
	case "deflate":
		reader, err = zlib.NewReader(bytes.NewReader(body))
	case "br":
		reader = brotli.NewReader(bytes.NewReader(body))
	case "zstd":
		reader, err = zstd.NewReader(bytes.NewReader(body))
	}
	if err != nil {
		t.Fatal(coding, err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(coding, err)
	}
	return plain
}

func TestWhatIsEncodedComesBackAndIsSmaller(t *testing.T) {
	for _, size := range []int{0, 1, 1400, 1 << 20} {
		body := bytes.Repeat([]byte("a line of text that says little\n"), size/32+1)[:size]
		for _, coding := range Codings {
			encoded, err := Defaults().Encode(coding, body)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(decoded(t, coding, encoded), body) {
				t.Errorf("%s: %d bytes come back otherwise", coding, size)
			}
			if size > 1000 && len(encoded) > size/10 {
				t.Errorf("%s: %d bytes become %d", coding, size, len(encoded))
			}
		}
	}
}

func TestAnUnknownCodingIsRefused(t *testing.T) {
	if _, err := Defaults().Encode("compress", nil); err == nil {
		t.Error("it was taken")
	}
}
