package routes

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/brianvoe/gofakeit/v7"
	"golang.org/x/sys/cpu"
)

const (
	// drawCount is a power of two, so that walking round the draws is a mask.
	drawCount = 1 << 20

	// ProductsMax is the largest pool whose indices fit a draw.
	ProductsMax = 1 << 16
)

// Random streams of a seed. Package products uses one per product, and no
// product has a number as large as these.
const (
	drawStream   = 1<<63 + iota // the pool of pre-drawn indices
	lockedStream                // the draws of /read-locked
)

// draws are indices into a pool of products, drawn at start so that a request
// needs neither a random source nor the lock around one.
type draws []uint16

func newDraws(seed uint64, products int) draws {
	random := rand.New(rand.NewPCG(seed, drawStream))
	d := make(draws, drawCount)
	for i := range d {
		d[i] = uint16(random.IntN(products))
	}
	return d
}

// at returns the draw at a position; positions beyond the last begin again.
func (d draws) at(position uint64) int {
	return int(d[position&(drawCount-1)])
}

// cursor counts requests. It has its cache line to itself: it is written on
// every request, by every processor, and what lies beside it is read as often.
type cursor struct {
	_     cpu.CacheLinePad
	count atomic.Uint64
	_     cpu.CacheLinePad
}

// next returns 0, then 1, and so on.
func (c *cursor) next() uint64 { return c.count.Add(1) - 1 }

// sequence walks draws one at a time: one atomic addition per request.
type sequence struct {
	draws  draws
	cursor cursor
}

func newSequence(d draws) *sequence { return &sequence{draws: d} }

func (s *sequence) next() int { return s.draws.at(s.cursor.next()) }

// lockedSource draws an index per request from one random source under one
// mutex: the contention that draws exist to avoid. The lock is gofakeit's own,
// so that a profile shows the path users of that library meet.
type lockedSource struct {
	fake     *gofakeit.Faker
	products int
	draws    int // of each request, under the lock one by one
}

func newLockedSource(seed uint64, products, draws int) *lockedSource {
	const locked = true
	return &lockedSource{
		fake:     gofakeit.NewFaker(rand.NewPCG(seed, lockedStream), locked),
		products: products,
		draws:    draws,
	}
}

func (s *lockedSource) next() int {
	for range s.draws - 1 {
		s.fake.Number(0, s.products-1)
	}
	return s.fake.Number(0, s.products-1)
}
