package products

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestProductsDependOnSeedAndNumberAlone(t *testing.T) {
	few, many, other := NewPool(1, 20), NewPool(1, 60), NewPool(2, 20)
	for i := range few.JSON {
		if !bytes.Equal(few.JSON[i], many.JSON[i]) || !bytes.Equal(few.Gzip[i], many.Gzip[i]) {
			t.Errorf("product %d depends on the size of the pool", i)
		}
		if bytes.Equal(few.JSON[i], other.JSON[i]) {
			t.Errorf("product %d does not depend on the seed", i)
		}
	}
	if few.Digest() != NewPool(1, 20).Digest() {
		t.Error("equal pools have different digests")
	}
	if few.Digest() == other.Digest() || few.Digest() == many.Digest() {
		t.Error("different pools have one digest")
	}
}

func TestSizesAreThoseOfTheSources(t *testing.T) {
	for seed := range uint64(3) {
		pool := NewPool(seed, 500)
		raw, compressed := totalLength(pool.JSON)/500, totalLength(pool.Gzip)/500
		ratio := float64(raw) / float64(compressed)
		if raw < 4_400 || raw > 4_640 {
			t.Errorf("seed %d: a product is %d bytes on average, want about 4,520", seed, raw)
		}
		if compressed < 2_230 || compressed > 2_350 {
			t.Errorf("seed %d: a product is %d bytes in gzip on average, want about 2,289", seed, compressed)
		}
		if ratio < 1.93 || ratio > 2.01 {
			t.Errorf("seed %d: gzip divides by %.3f, want about 1.97", seed, ratio)
		}
	}
}

func TestGzipInflatesToJSON(t *testing.T) {
	pool := NewPool(1, 50)
	for i := range pool.Gzip {
		reader, err := gzip.NewReader(bytes.NewReader(pool.Gzip[i]))
		if err != nil {
			t.Fatal(err)
		}
		inflated, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(inflated, pool.JSON[i]) {
			t.Errorf("product %d inflates to something else", i)
		}
	}
}

func TestEveryProductIsWhole(t *testing.T) {
	pool := NewPool(1, 500)
	ids := make(map[string]bool)
	for i := range pool.JSON {
		var p Product
		if err := json.Unmarshal(pool.JSON[i], &p); err != nil {
			t.Fatal(err)
		}
		ids[p.ID] = true
		if p.Name == "" || p.Brand == "" || p.Category == "" || p.Price <= 0 || p.Rating < 1 || p.Rating > 5 {
			t.Errorf("product %d lacks something: %+v", i, p)
		}
		if got := strings.Count(p.Description, "\n\n") + 1; got != 5 {
			t.Errorf("product %d has %d paragraphs, want 5", i, got)
		}
		if n := len(p.Tags); n < 5 || n > 15 {
			t.Errorf("product %d has %d tags, want 5 to 15", i, n)
		}
		if n := len(p.Images); n < 3 || n > 8 {
			t.Errorf("product %d has %d images, want 3 to 8", i, n)
		}
		var whole struct {
			Attributes map[string]string `json:"attributes"`
		}
		if err := json.Unmarshal(pool.JSON[i], &whole); err != nil {
			t.Fatal(err)
		}
		if len(whole.Attributes) != 7 {
			t.Errorf("product %d has %d attributes, want 7", i, len(whole.Attributes))
		}
	}
	if len(ids) != 500 {
		t.Errorf("500 products have %d different ids", len(ids))
	}
}

func totalLength(bodies [][]byte) int {
	total := 0
	for _, body := range bodies {
		total += len(body)
	}
	return total
}
