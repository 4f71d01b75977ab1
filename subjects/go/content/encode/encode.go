// Package encode compresses bodies by the codings of HTTP.
package encode

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Codings are those that can be had, in the order in which the server prefers
// them where a client does not mind.
var Codings = []string{"zstd", "br", "gzip", "deflate"}

// Levels say how hard each coding tries.
type Levels struct {
	Zstd   int // 1 to 22
	Brotli int // 0 to 11
	Gzip   int // 1 to 9, of gzip and of deflate
}

// Defaults are those of the libraries' own tools for content that is kept.
func Defaults() Levels { return Levels{Zstd: 3, Brotli: 5, Gzip: 6} }

// Encode compresses a body. The coding deflate is zlib's format (RFC 9110, section 8.4.1.2).
func (l Levels) Encode(coding string, body []byte) ([]byte, error) {
	var out bytes.Buffer
	writer, err := l.writer(coding, &out)
	if err != nil {
		return nil, err
	}
	if _, err := writer.Write(body); err != nil {
		return nil, fmt.Errorf("%s: %w", coding, err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", coding, err)
	}
	return out.Bytes(), nil
}

func (l Levels) writer(coding string, out io.Writer) (io.WriteCloser, error) {
	switch coding {
	case "gzip":
		return gzip.NewWriterLevel(out, l.Gzip)
	case "deflate":
		return zlib.NewWriterLevel(out, l.Gzip)
	case "br":
		return brotli.NewWriterLevel(out, l.Brotli), nil
	case "zstd":
		// Browsers and curl refuse windows above 8 MiB (RFC 9659).
		level := zstd.EncoderLevelFromZstd(l.Zstd)
		return zstd.NewWriter(out, zstd.WithEncoderLevel(level), zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1))
	}
	return nil, fmt.Errorf("%q is no coding that can be had", coding)
}
