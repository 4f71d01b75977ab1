package routes

import "wallfinder.dev/subjects/catalogue/products"

const (
	pageCount       = 64 // about 6.5 MB in all
	pageBytes       = 100_000
	pageProductsMin = 20
	pageProductsMax = 30
)

// pages are the answers of /list, taken in turn.
type pages struct {
	bodies [][]byte
	cursor cursor
}

func newPages(pool *products.Pool, d draws) *pages {
	p := &pages{bodies: make([][]byte, pageCount)}
	var position uint64
	for i := range p.bodies {
		p.bodies[i], position = newPage(pool, d, position)
	}
	return p
}

// newPage adds products until the page holds pageBytes, within the bounds on
// their number. It returns the page and the position of the first draw unused.
func newPage(pool *products.Pool, d draws, position uint64) (page []byte, next uint64) {
	page = make([]byte, 0, pageBytes+pageBytes/8)
	page = append(page, `{"products":[`...)
	for n := 0; n < pageProductsMax && (n < pageProductsMin || len(page) < pageBytes); n++ {
		if n > 0 {
			page = append(page, ',')
		}
		page = append(page, pool.JSON[d.at(position)]...)
		position++
	}
	return append(page, "]}"...), position
}

func (p *pages) next() []byte { return p.bodies[p.cursor.next()%pageCount] }
