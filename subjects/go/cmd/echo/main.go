// Command echo is a subject: it gives payloads back, over a plain stream,
// HTTP/1.1 or gRPC, so that what the protocols themselves cost can be compared.
//
// Standard output carries one line, once the server listens; everything else
// goes to standard error. Exit codes: 0 ended by a signal, 1 could not run,
// 2 bad arguments.
package main

import (
	"fmt"
	"io"
	"net"

	"wallfinder.dev/subjects/announce"
	"wallfinder.dev/subjects/command"
	"wallfinder.dev/subjects/echo/grpc"
	"wallfinder.dev/subjects/echo/rest"
	"wallfinder.dev/subjects/echo/tcp"
)

// version is the echo's own: it changes when answers do.
const version = "0.1.0"

// startupLine is the one line on standard output.
type startupLine struct {
	announce.Subject
	Protocol string `json:"protocol"`
	Answer   string `json:"answer"`
	Credit   string `json:"credit,omitempty"`
	Pool     string `json:"buffer_pool,omitempty"`
}

var echo = command.Command[options]{
	Name:    "echo",
	Usage:   usage,
	Parse:   parseOptions,
	Version: asked,
	Run:     run,
}

func main() { echo.Main() }

func run(options options, stdout, _ io.Writer) error {
	answer := func(listener net.Listener) error { return serve(options, listener) }
	return options.service.Stand(stdout, offered[options.protocol], options.describe, answer)
}

// offered are the protocols inside of TLS, by ALPN.
var offered = map[string][]string{
	"rest": {"h2", "http/1.1"},
	"grpc": {"h2"},
}

func serve(options options, listener net.Listener) error {
	switch options.protocol {
	case "rest":
		return rest.Serve(listener, options.answer)
	case "grpc":
		return grpc.Serve(listener, options.answer, options.grpc)
	default:
		return tcp.Serve(listener, options.answer, options.credit)
	}
}

func (o options) describe(subject announce.Subject) any {
	subject.Server, subject.Versions = "echo-"+o.protocol, versions()
	line := startupLine{
		Subject:  subject,
		Protocol: o.protocol,
		Answer:   o.answer.String(),
		Credit:   o.credit.String(),
	}
	if o.protocol == "grpc" {
		line.Pool = o.grpc.Pool.String()
	}
	return line
}

func asked(options options) (string, bool) {
	versions := versions()
	return fmt.Sprintf("echo %s (grpc %s, protobuf %s, %s)",
		version, versions["grpc"], versions["protobuf"], versions["go"]), options.version
}

func versions() map[string]string {
	return announce.Versions("google.golang.org/grpc", "google.golang.org/protobuf")
}
