// Command echo is a subject: it gives payloads back, over a plain stream,
// HTTP/1.1 or gRPC, so that what the protocols themselves cost can be compared.
//
// Standard output carries one line, once the server listens; everything else
// goes to standard error. Exit codes: 0 ended by a signal, 1 could not run,
// 2 bad arguments.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"

	"wallfinder.dev/subjects/announce"
	"wallfinder.dev/subjects/echo/grpc"
	"wallfinder.dev/subjects/echo/rest"
	"wallfinder.dev/subjects/echo/tcp"
	"wallfinder.dev/subjects/lifetime"
	"wallfinder.dev/subjects/listen"
	"wallfinder.dev/subjects/profiling"
)

// version is the echo's own: it changes when answers do.
const version = "0.1.0"

const (
	exitDone    = 0
	exitFailed  = 1
	exitBadArgs = 2
)

// startupLine is the one line on standard output.
type startupLine struct {
	announce.Subject
	Protocol string `json:"protocol"`
	Answer   string `json:"answer"`
	Credit   string `json:"credit,omitempty"`
	Pool     string `json:"buffer_pool,omitempty"`
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	options, err := parseOptions(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitDone
	case err != nil:
		fmt.Fprintf(stderr, "echo: %v\nTry 'echo --help'.\n", err)
		return exitBadArgs
	case options.version:
		fmt.Fprintf(stdout, "echo %s (grpc %s, protobuf %s, %s)\n",
			version, versions()["grpc"], versions()["protobuf"], versions()["go"])
		return exitDone
	}
	if err := start(options, stdout); err != nil {
		fmt.Fprintf(stderr, "echo: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// start answers until a signal.
func start(options options, stdout io.Writer) error {
	if err := lifetime.FollowStarter(); err != nil {
		return err
	}
	signals := lifetime.Ended()
	listener, err := listen.One(options.address())
	if err != nil {
		return err
	}
	secured, err := options.tls.Listener(listener, offered[options.protocol]...)
	if err != nil {
		return err
	}
	options.memory.Apply()
	failed := make(chan error, 2)
	line := describe(options, listener)
	if options.profiles.On {
		profiles, err := listen.One(options.pprofAddress())
		if err != nil {
			return err
		}
		line.Pprof = append(line.Pprof, profiles.Addr().String())
		profiling.Set(options.profiles.Rates)
		go func() { failed <- fmt.Errorf("the profiles stopped: %w", profiling.Serve(profiles)) }()
	}
	go func() {
		failed <- fmt.Errorf("%s stopped serving: %w", options.protocol, serve(options, secured))
	}()
	if err := announce.Write(stdout, line); err != nil {
		return err
	}
	return lifetime.Wait(signals, failed)
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

func describe(options options, listener net.Listener) startupLine {
	line := startupLine{
		Subject: announce.Subject{
			Listening:  listener.Addr().String(),
			PID:        os.Getpid(),
			Server:     "echo-" + options.protocol,
			Children:   []int{},
			GOMAXPROCS: runtime.GOMAXPROCS(0),
			Pprof:      []string{},
			Versions:   versions(),
		},
		Protocol: options.protocol,
		Answer:   options.answer.String(),
		Credit:   options.credit.String(),
	}
	if options.protocol == "grpc" {
		line.Pool = options.grpc.Pool.String()
	}
	return line
}

func versions() map[string]string {
	return announce.Versions("google.golang.org/grpc", "google.golang.org/protobuf")
}
