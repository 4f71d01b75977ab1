// Package rest is the echo as a POST of a binary body to /echo, over HTTP/1.1.
package rest

import (
	"io"
	"net"
	"net/http"
	"strconv"

	"google.golang.org/protobuf/proto"

	"wallfinder.dev/subjects/echo/answer"
	"wallfinder.dev/subjects/echo/payload"
)

// ContentType is that of bodies in both directions.
const ContentType = "application/x-protobuf"

const bodyBytesMax = answer.BytesMax + 1024

// Serve answers requests until the listener closes.
func Serve(listener net.Listener, kind answer.Kind) error {
	return (&http.Server{Handler: Handler(kind)}).Serve(listener)
}

// Handler answers POST /echo.
func Handler(kind answer.Kind) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, bodyBytesMax))
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		var message payload.Payload
		if err := proto.Unmarshal(body, &message); err != nil {
			http.Error(w, "the body is no payload", http.StatusBadRequest)
			return
		}
		kind.To(&message)
		encoded, err := proto.Marshal(&message)
		if err != nil {
			http.Error(w, "the answer has no encoding", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", ContentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(encoded)))
		// A failed write means that the client has gone; net/http closes the connection.
		_, _ = w.Write(encoded)
	})
	return mux
}
