package serve

import (
	"errors"
	"net"

	"github.com/gofiber/fiber/v3"

	"wallfinder.dev/subjects/catalogue/routes"
)

// fiberServer is a Fiber app; it differs from the app only in how it is started.
type fiberServer struct{ app *fiber.App }

func newFiber(table []routes.Route, buffers Buffers) fiberServer {
	app := fiber.New(fiber.Config{
		StrictRouting:   true,
		CaseSensitive:   true,
		ReadBufferSize:  buffers.Read,
		WriteBufferSize: buffers.Write,
		ErrorHandler:    fiberError,
	})
	for _, route := range table {
		app.Get(route.Path, fiberHandler(route)) // Fiber answers HEAD where it answers GET
	}
	return fiberServer{app: app}
}

// Serve never uses Fiber's own prefork: package prefork gives every twin the
// same one.
func (s fiberServer) Serve(listener net.Listener) error {
	return s.app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true})
}

func fiberHandler(route routes.Route) fiber.Handler {
	return func(c fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, routes.ContentType)
		if route.ContentEncoding != "" {
			c.Set(fiber.HeaderContentEncoding, route.ContentEncoding)
		}
		if route.Full != nil && c.Query(routes.FullParameter) == routes.FullValue {
			return c.Send(route.Full())
		}
		return c.Send(route.Answer())
	}
}

// fiberError words what Fiber's router refuses. The router has set Allow.
func fiberError(c fiber.Ctx, err error) error {
	status, body := fiber.StatusNotFound, routes.NotFound
	if refusal := (*fiber.Error)(nil); errors.As(err, &refusal) && refusal.Code == fiber.StatusMethodNotAllowed {
		status, body = fiber.StatusMethodNotAllowed, routes.MethodNotAllowed
	}
	c.Set(fiber.HeaderContentType, routes.ContentType)
	return c.Status(status).Send(body)
}
