// Package routes says what the catalogue answers, and nothing of who asks.
//
// Each route is a function from "the next request" to the bytes of its body.
// The three servers of package serve put the same routes behind three HTTP
// implementations, so what differs between them is the implementation alone.
//
//	/simple       one constant
//	/read         a product, serialized at start; index from a pool of draws
//	/read-locked  the same; index drawn per request under one lock
//	/read-gz      the same products in the order of /read, in gzip
//	/list         20 to 30 products, about 100 KB, serialized at start
//	/compute      statistics of 100 products, computed and serialized per request
//
// Every route walks a sequence of its own: request number n of a route gets
// the same bytes from every server with the same seed, whatever went to the
// other routes meanwhile.
package routes

import (
	"wallfinder.dev/subjects/catalogue/products"
)

// ContentType is the type of every answer, errors included.
const ContentType = "application/json"

// Bodies of the answers that no route gives.
var (
	NotFound         = []byte(`{"error":"no such route"}`)
	MethodNotAllowed = []byte(`{"error":"only GET and HEAD are answered here"}`)
)

// Allow is the header that goes with MethodNotAllowed.
const Allow = "GET, HEAD"

// FullParameter and FullValue are the query, body=full, that asks for a
// route's full answer.
const (
	FullParameter = "body"
	FullValue     = "full"
)

// simple is served as it stands, so /simple allocates nothing.
var simple = []byte(`{"message":"hi"}`)

// Route is one path and its answers.
type Route struct {
	Path            string
	ContentEncoding string // "gzip", or empty

	// Answer returns the body for the next request. The caller must not write
	// to it; it stays valid for ever. Safe for concurrent use.
	Answer func() []byte

	// Full answers a request with ?body=full. It is nil where the query has no
	// meaning, so that such routes need not parse one.
	Full func() []byte
}

// New makes the routes over a pool of products. Draws are a function of the seed.
func New(pool *products.Pool, seed uint64) []Route {
	return NewContended(pool, seed, 1)
}

// NewContended makes the same routes, where a request of /read-locked draws so
// many indices, and is answered by the last: its lock is fought for as if by so
// many times the requests.
func NewContended(pool *products.Pool, seed uint64, lockedDraws int) []Route {
	draws := newDraws(seed, pool.Len())
	read := newSequence(draws)
	readGzip := newSequence(draws)
	locked := newLockedSource(seed, pool.Len(), lockedDraws)
	list := newPages(pool, draws)
	compute := newComputation(pool, draws)

	return []Route{
		{Path: "/simple", Answer: func() []byte { return simple }},
		{Path: "/read", Answer: func() []byte { return pool.JSON[read.next()] }},
		{Path: "/read-locked", Answer: func() []byte { return pool.JSON[locked.next()] }},
		{Path: "/read-gz", ContentEncoding: "gzip", Answer: func() []byte { return pool.Gzip[readGzip.next()] }},
		{Path: "/list", Answer: list.next},
		{Path: "/compute", Answer: compute.summary, Full: compute.full},
	}
}
