package products

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Pool is a number of products in every form that is served. It is immutable;
// all slices may be shared between requests but never written to.
type Pool struct {
	Values []Product
	JSON   [][]byte // JSON[i] is Values[i]
	Gzip   [][]byte // Gzip[i] inflates to JSON[i]
}

// NewPool makes count products from a seed, serialized and compressed once so
// that serving them costs neither. All processors the process may use share
// the work.
func NewPool(seed uint64, count int) *Pool {
	pool := &Pool{
		Values: make([]Product, count),
		JSON:   make([][]byte, count),
		Gzip:   make([][]byte, count),
	}
	generator := newGenerator(seed)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			compressor := newCompressor()
			for i := next.Add(1) - 1; i < int64(count); i = next.Add(1) - 1 {
				pool.Values[i] = generator.product(int(i))
				pool.JSON[i] = mustMarshal(pool.Values[i])
				pool.Gzip[i] = compressor.compress(pool.JSON[i])
			}
		})
	}
	workers.Wait()
	return pool
}

// Len is the number of products.
func (p *Pool) Len() int { return len(p.Values) }

// Digest identifies the bytes of the pool: two processes with one digest serve
// the same products in the same encodings.
func (p *Pool) Digest() string {
	hash := sha256.New()
	for i := range p.JSON {
		hash.Write(p.JSON[i])
		hash.Write(p.Gzip[i])
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// compressor is a reusable gzip writer; making one costs more than running it
// over a product.
type compressor struct {
	out    bytes.Buffer
	writer *gzip.Writer
}

func newCompressor() *compressor {
	c := &compressor{}
	writer, err := gzip.NewWriterLevel(&c.out, gzip.BestCompression)
	if err != nil {
		panic(fmt.Sprintf("products: gzip refuses its own best level: %v", err))
	}
	c.writer = writer
	return c
}

func (c *compressor) compress(raw []byte) []byte {
	c.out.Reset()
	c.writer.Reset(&c.out)
	// Writing to memory cannot fail.
	_, _ = c.writer.Write(raw)
	_ = c.writer.Close()
	return bytes.Clone(c.out.Bytes())
}

func mustMarshal(product Product) []byte {
	encoded, err := json.Marshal(product)
	if err != nil {
		panic(fmt.Sprintf("products: a product has no JSON form: %v", err))
	}
	return encoded
}
