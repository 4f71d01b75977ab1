package serve

import (
	"net"

	"github.com/valyala/fasthttp"

	"wallfinder.dev/subjects/catalogue/routes"
)

type fastHTTPServer struct{ server *fasthttp.Server }

func newFastHTTP(table []routes.Route, buffers Buffers) fastHTTPServer {
	return fastHTTPServer{server: &fasthttp.Server{
		Handler:               fastHTTPHandler(table),
		NoDefaultServerHeader: true,
		ReadBufferSize:        buffers.Read,
		WriteBufferSize:       buffers.Write,
	}}
}

func (s fastHTTPServer) Serve(listener net.Listener) error { return s.server.Serve(listener) }

// fastHTTPHandler routes by a map, as fasthttp has no router.
func fastHTTPHandler(table []routes.Route) fasthttp.RequestHandler {
	byPath := make(map[string]routes.Route, len(table))
	for _, route := range table {
		byPath[route.Path] = route
	}
	return func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType(routes.ContentType)
		route, found := byPath[string(ctx.Path())]
		switch {
		case !found:
			ctx.SetStatusCode(fasthttp.StatusNotFound)
			ctx.Response.SetBodyRaw(routes.NotFound)
		case !ctx.IsGet() && !ctx.IsHead():
			ctx.SetStatusCode(fasthttp.StatusMethodNotAllowed)
			ctx.Response.Header.Set(fasthttp.HeaderAllow, routes.Allow)
			ctx.Response.SetBodyRaw(routes.MethodNotAllowed)
		default:
			fastHTTPAnswer(ctx, route)
		}
	}
}

func fastHTTPAnswer(ctx *fasthttp.RequestCtx, route routes.Route) {
	if route.ContentEncoding != "" {
		ctx.Response.Header.SetContentEncoding(route.ContentEncoding)
	}
	if route.Full != nil && string(ctx.QueryArgs().Peek(routes.FullParameter)) == routes.FullValue {
		ctx.Response.SetBodyRaw(route.Full())
		return
	}
	ctx.Response.SetBodyRaw(route.Answer())
}
