package serve

import (
	"net"
	"net/http"
	"strconv"

	"wallfinder.dev/subjects/catalogue/routes"
)

type netHTTPServer struct{ server *http.Server }

func newNetHTTP(table []routes.Route) netHTTPServer {
	mux := http.NewServeMux()
	for _, route := range table {
		mux.HandleFunc("GET "+route.Path, netHTTPHandler(route)) // the mux sends HEAD here too
		mux.HandleFunc(route.Path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", routes.Allow)
			netHTTPSend(w, http.StatusMethodNotAllowed, routes.MethodNotAllowed)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		netHTTPSend(w, http.StatusNotFound, routes.NotFound)
	})
	return netHTTPServer{server: &http.Server{Handler: mux}}
}

func (s netHTTPServer) Serve(listener net.Listener) error { return s.server.Serve(listener) }

func netHTTPHandler(route routes.Route) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		if route.ContentEncoding != "" {
			w.Header().Set("Content-Encoding", route.ContentEncoding)
		}
		if route.Full != nil && request.URL.Query().Get(routes.FullParameter) == routes.FullValue {
			netHTTPSend(w, http.StatusOK, route.Full())
			return
		}
		netHTTPSend(w, http.StatusOK, route.Answer())
	}
}

// netHTTPSend states the length, without which net/http would send larger
// answers in chunks.
func netHTTPSend(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", routes.ContentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// A failed write means that the client has gone; net/http closes the connection.
	_, _ = w.Write(body)
}
