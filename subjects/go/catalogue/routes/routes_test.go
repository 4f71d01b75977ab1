package routes

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"slices"
	"sync"
	"testing"

	"wallfinder.dev/subjects/catalogue/products"
)

// pool is shared by the tests, which only read it.
var pool = sync.OnceValue(func() *products.Pool { return products.NewPool(1, 500) })

// table returns fresh routes by path.
func table(seed uint64) map[string]Route {
	byPath := make(map[string]Route)
	for _, route := range New(pool(), seed) {
		byPath[route.Path] = route
	}
	return byPath
}

func TestSizesOfAnswers(t *testing.T) {
	const requests = 2000
	for path, want := range map[string]struct{ lowest, highest int }{
		"/simple":      {16, 16},
		"/read":        {4_400, 4_640},
		"/read-locked": {4_400, 4_640},
		"/read-gz":     {2_230, 2_350},
		"/list":        {98_000, 106_000},
		"/compute":     {490, 550},
	} {
		answer := table(1)[path].Answer
		total := 0
		for range requests {
			total += len(answer())
		}
		if mean := total / requests; mean < want.lowest || mean > want.highest {
			t.Errorf("%s answers %d bytes on average, want %d to %d", path, mean, want.lowest, want.highest)
		}
	}
}

func TestReadAndReadGzipServeOneSequence(t *testing.T) {
	byPath := table(1)
	for n := range 1000 {
		raw, compressed := byPath["/read"].Answer(), byPath["/read-gz"].Answer()
		reader, err := gzip.NewReader(bytes.NewReader(compressed))
		if err != nil {
			t.Fatal(err)
		}
		inflated, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(inflated, raw) {
			t.Fatalf("request %d: /read-gz inflates to something else than /read", n)
		}
	}
}

func TestARouteDependsOnSeedAndItsOwnRequestsAlone(t *testing.T) {
	alone, disturbed, other := table(1), table(1), table(2)
	for path := range alone {
		differs := false
		for n := range 50 {
			for elsewhere := range disturbed {
				if elsewhere != path && n%3 == 0 {
					disturbed[elsewhere].Answer()
				}
			}
			answer := alone[path].Answer()
			if !bytes.Equal(answer, disturbed[path].Answer()) {
				t.Fatalf("%s: request %d depends on other routes' requests", path, n)
			}
			differs = differs || !bytes.Equal(answer, other[path].Answer())
		}
		if !differs && path != "/simple" {
			t.Errorf("%s does not depend on the seed", path)
		}
		disturbed = table(1)
	}
}

func TestEveryDrawIsServedOnceUnderConcurrency(t *testing.T) {
	const clients, each = 8, 2000
	for _, path := range []string{"/read", "/read-locked"} {
		concurrent, sequential := table(1)[path].Answer, table(1)[path].Answer
		served := make([][]int, clients)
		var running sync.WaitGroup
		for client := range clients {
			running.Go(func() {
				for range each {
					served[client] = append(served[client], len(concurrent()))
				}
			})
		}
		running.Wait()
		var expected []int
		for range clients * each {
			expected = append(expected, len(sequential()))
		}
		got := slices.Concat(served...)
		slices.Sort(got)
		slices.Sort(expected)
		if !slices.Equal(got, expected) {
			t.Errorf("%s: concurrent requests got other products than sequential ones", path)
		}
	}
}

func TestAContendedRouteServesItsLastDraw(t *testing.T) {
	const draws = 3
	contended := func(draws int) func() []byte {
		for _, route := range NewContended(pool(), 1, draws) {
			if route.Path == "/read-locked" {
				return route.Answer
			}
		}
		t.Fatal("no route draws under a lock")
		return nil
	}
	one, several := contended(1), contended(draws)
	for range 100 {
		var last []byte
		for range draws {
			last = one()
		}
		if !bytes.Equal(several(), last) {
			t.Fatal("an answer is not that of the last draw")
		}
	}
}

func TestListIsAPageOfProducts(t *testing.T) {
	list := table(1)["/list"].Answer
	for range 2 * pageCount {
		body := list()
		var page struct {
			Products []products.Product `json:"products"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			t.Fatal(err)
		}
		if n := len(page.Products); n < 20 || n > 30 {
			t.Errorf("a page has %d products, want 20 to 30", n)
		}
	}
}

func TestComputeSummarizesTheProductsOfItsFullAnswer(t *testing.T) {
	short, full := table(1)["/compute"].Answer, table(1)["/compute"].Full
	for n := range 20 {
		var got statistics
		if err := json.Unmarshal(short(), &got); err != nil {
			t.Fatal(err)
		}
		var sample []products.Product
		if err := json.Unmarshal(full(), &sample); err != nil {
			t.Fatal(err)
		}
		checkSummary(t, n, got, sample)
	}
}

func checkSummary(t *testing.T, request int, got statistics, sample []products.Product) {
	t.Helper()
	if len(sample) != 100 || got.Count != 100 {
		t.Fatalf("request %d: %d products, count %d, want 100", request, len(sample), got.Count)
	}
	if !slices.IsSortedFunc(sample, func(a, b products.Product) int { return int(100*a.Price) - int(100*b.Price) }) {
		t.Errorf("request %d: the products are not sorted by price", request)
	}
	var sum, squares float64
	brands := make(map[string]int)
	for _, p := range sample {
		sum += p.Price
		squares += p.Price * p.Price
		brands[p.Brand]++
	}
	mean := sum / 100
	deviation := math.Sqrt((squares - 100*mean*mean) / 99)
	if math.Abs(got.Price.Mean-mean) > 0.01 || math.Abs(got.Price.StdDev-deviation) > 0.01 {
		t.Errorf("request %d: mean %.2f and deviation %.2f, want %.2f and %.2f",
			request, got.Price.Mean, got.Price.StdDev, mean, deviation)
	}
	inBuckets := 0
	for _, b := range got.Histogram {
		inBuckets += b.Count
	}
	if inBuckets != 100 {
		t.Errorf("request %d: the histogram counts %d products", request, inBuckets)
	}
	for _, top := range got.TopBrands {
		if brands[top.Brand] != top.Count {
			t.Errorf("request %d: brand %q counts %d, want %d", request, top.Brand, top.Count, brands[top.Brand])
		}
	}
}

func TestPreparedAnswersAllocateNothing(t *testing.T) {
	for path, route := range table(1) {
		if path == "/compute" {
			continue
		}
		if allocations := testing.AllocsPerRun(1000, func() { route.Answer() }); allocations != 0 {
			t.Errorf("%s allocates %.1f times per request", path, allocations)
		}
	}
}

func TestAPoolOfOneProductIsServed(t *testing.T) {
	one := products.NewPool(1, 1)
	for _, route := range New(one, 1) {
		if !json.Valid(route.Answer()) && route.ContentEncoding == "" {
			t.Errorf("%s does not answer JSON", route.Path)
		}
	}
}
