// Package serve puts the routes of the catalogue behind three HTTP servers:
// Fiber, fasthttp and net/http. They are twins: the same request gets the same
// status, the same headers and the same body from each.
//
//	GET, HEAD  a route         200, Content-Type, Content-Length, Content-Encoding where it has one
//	any        no route        404
//	another    a route         405, Allow
//
// A twin is written the way users of its library write, without tricks that
// only a benchmark would play.
package serve

import (
	"fmt"
	"net"

	"wallfinder.dev/subjects/catalogue/routes"
)

// The names of the twins, as the command line has them.
const (
	Fiber    = "fiber"
	FastHTTP = "fasthttp"
	NetHTTP  = "nethttp"
)

// Names lists the twins.
var Names = []string{Fiber, FastHTTP, NetHTTP}

// NetHTTPBuffer is the size in bytes of both buffers of a net/http connection,
// which net/http does not let anyone choose.
const NetHTTPBuffer = 4096

// Buffers are the bytes each connection may hold. Fiber and fasthttp flush
// their answers when the write buffer is full, or when no whole request is
// left in the read buffer; so the two sizes set how many pipelined answers
// share a system call.
type Buffers struct {
	Read  int // also the limit on the size of a request's head
	Write int
}

// Server answers the connections of a listener until the process ends.
type Server interface {
	Serve(net.Listener) error
}

// New makes the twin of a name. Buffers are for Fiber and fasthttp.
func New(name string, table []routes.Route, buffers Buffers) (Server, error) {
	switch name {
	case Fiber:
		return newFiber(table, buffers), nil
	case FastHTTP:
		return newFastHTTP(table, buffers), nil
	case NetHTTP:
		return newNetHTTP(table), nil
	default:
		return nil, fmt.Errorf("no server is called %q", name)
	}
}
