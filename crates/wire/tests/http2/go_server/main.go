// Go's own HTTP/2 server without TLS, as a peer for the tests of wallfinder-wire.
// It says where it listens on one line, and ends with its standard input.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

func main() {
	mux := http.NewServeMux()
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)

	mux.HandleFunc("/bytes/{count}", func(w http.ResponseWriter, r *http.Request) {
		count, err := strconv.Atoi(r.PathValue("count"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		io.Copy(w, io.LimitReader(zeros{}, int64(count)))
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	})
	mux.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	})
	mux.HandleFunc("/trailers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusEarlyHints)
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", strings.Repeat("7", 100))
	})
	mux.HandleFunc("/abort", func(w http.ResponseWriter, r *http.Request) {
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/bye", func(w http.ResponseWriter, r *http.Request) {
		go server.Shutdown(context.Background())
		io.WriteString(w, "bye")
	})

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(listener.Addr())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	server.Serve(listener)
	select {}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
