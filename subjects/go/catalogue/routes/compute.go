package routes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"wallfinder.dev/subjects/catalogue/products"
)

const (
	sampleSize    = 100
	bucketCount   = 8
	topBrandCount = 3
)

// computation answers /compute: the work is done anew for each request, on the
// next hundred draws.
type computation struct {
	pool   *products.Pool
	draws  draws
	cursor cursor
}

func newComputation(pool *products.Pool, d draws) *computation {
	return &computation{pool: pool, draws: d}
}

// statistics is the answer of /compute, about 520 bytes of JSON.
type statistics struct {
	Count     int          `json:"count"`
	Price     prices       `json:"price"`
	Histogram []bucket     `json:"histogram"`
	TopBrands []brandCount `json:"top_brands"`
}

// prices are in whole cents.
type prices struct {
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Mean   float64 `json:"mean"`
	StdDev float64 `json:"std_dev"`
}

// bucket counts the prices in [From, To), and in the last bucket those at To too.
type bucket struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Count int     `json:"count"`
}

type brandCount struct {
	Brand string `json:"brand"`
	Count int    `json:"count"`
}

// sample is the products one request computes with.
type sample [sampleSize]*products.Product

// sortedSample takes the next draws and sorts their products by price.
func (c *computation) sortedSample() *sample {
	first := c.cursor.next() * sampleSize
	var s sample
	for i := range s {
		s[i] = &c.pool.Values[c.draws.at(first+uint64(i))]
	}
	slices.SortStableFunc(s[:], func(a, b *products.Product) int { return cmp.Compare(a.Price, b.Price) })
	return &s
}

// summary is the short answer of /compute.
func (c *computation) summary() []byte {
	s := c.sortedSample()
	return mustMarshal(statistics{
		Count:     len(s),
		Price:     s.prices(),
		Histogram: s.histogram(),
		TopBrands: s.topBrands(),
	})
}

// full is the answer of /compute?body=full: the hundred products themselves.
func (c *computation) full() []byte {
	return mustMarshal(c.sortedSample()[:])
}

func (s *sample) prices() prices {
	var sum float64
	for _, product := range s {
		sum += product.Price
	}
	mean := sum / sampleSize
	var squares float64
	for _, product := range s {
		squares += (product.Price - mean) * (product.Price - mean)
	}
	return prices{
		Min:    s[0].Price,
		Max:    s[sampleSize-1].Price,
		Mean:   cents(mean),
		StdDev: cents(math.Sqrt(squares / (sampleSize - 1))),
	}
}

// histogram divides the range from the lowest to the highest price evenly.
func (s *sample) histogram() []bucket {
	lowest := s[0].Price
	width := (s[sampleSize-1].Price - lowest) / bucketCount
	buckets := make([]bucket, bucketCount)
	for i := range buckets {
		buckets[i].From = cents(lowest + float64(i)*width)
		buckets[i].To = cents(lowest + float64(i+1)*width)
	}
	for _, product := range s {
		i := 0
		if width > 0 {
			i = min(int((product.Price-lowest)/width), bucketCount-1)
		}
		buckets[i].Count++
	}
	return buckets
}

// topBrands are the most frequent, and among equals the first by name.
func (s *sample) topBrands() []brandCount {
	counts := make(map[string]int)
	for _, product := range s {
		counts[product.Brand]++
	}
	brands := make([]brandCount, 0, len(counts))
	for brand, count := range counts {
		brands = append(brands, brandCount{Brand: brand, Count: count})
	}
	slices.SortFunc(brands, func(a, b brandCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Brand, b.Brand))
	})
	return brands[:min(topBrandCount, len(brands))]
}

// cents rounds to two decimals.
func cents(amount float64) float64 { return math.Round(amount*100) / 100 }

func mustMarshal(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("routes: an answer has no JSON form: %v", err))
	}
	return encoded
}
