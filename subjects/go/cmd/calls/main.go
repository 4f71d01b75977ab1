// Command calls is a gRPC server with a method of each kind, for tests of
// clients: what they stream, what they say in metadata, and what they make of
// a status. It has server reflection. It is no subject of a load.
//
// Standard output carries one line, once the server listens. Exit codes: 0
// ended by a signal, 1 could not run, 2 bad arguments.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"wallfinder.dev/subjects/announce"
	"wallfinder.dev/subjects/lifetime"
	"wallfinder.dev/subjects/listen"
	"wallfinder.dev/subjects/secure"
	"wallfinder.dev/subjects/settings"
)

const usage = `Usage: calls [flags]

A gRPC server with a method of each kind, for tests; see calls.proto.

  --host ADDRESS      where to listen (default 127.0.0.1)
  --port N            0 takes a free one, and the start-up line says which (default 8086)
  --reflection WHICH  both, v1, v1alpha or none (default both)
` + secure.Usage + `
  --help              print this and exit
`

const (
	exitDone    = 0
	exitFailed  = 1
	exitBadArgs = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	host, port, which := "127.0.0.1", 8086, "both"
	flags := flag.NewFlagSet("calls", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&host, "host", host, "")
	flags.Func("port", "", settings.Number(&port, 0, settings.PortMax))
	flags.Func("reflection", "", settings.OneOf(&which, []string{"both", "v1", "v1alpha", "none"}))
	var tls secure.Settings
	tls.Define(flags)
	err := flags.Parse(args)
	if err == nil {
		err = tls.Check()
	}
	switch {
	case err == flag.ErrHelp:
		fmt.Fprint(stdout, usage)
		return exitDone
	case err != nil:
		fmt.Fprintf(stderr, "calls: %v\nTry 'calls --help'.\n", err)
		return exitBadArgs
	}
	if err := start(net.JoinHostPort(host, strconv.Itoa(port)), which, tls, stdout); err != nil {
		fmt.Fprintf(stderr, "calls: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// start answers until a signal.
func start(address, which string, tls secure.Settings, stdout io.Writer) error {
	if err := lifetime.FollowStarter(); err != nil {
		return err
	}
	signals := lifetime.Ended()
	listener, err := listen.One(address)
	if err != nil {
		return err
	}
	secured, err := tls.Listener(listener, "h2")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	if err := register(server); err != nil {
		return err
	}
	switch which {
	case "both":
		reflection.Register(server)
	case "v1":
		reflection.RegisterV1(server)
	case "v1alpha":
		alpha := reflection.NewServer(reflection.ServerOptions{Services: server})
		grpc_reflection_v1alpha.RegisterServerReflectionServer(server, alpha)
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(secured) }()
	line := announce.Subject{
		Listening:  listener.Addr().String(),
		PID:        os.Getpid(),
		Server:     "calls",
		Children:   []int{},
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		Pprof:      []string{},
		Versions:   announce.Versions("google.golang.org/grpc"),
	}
	if err := announce.Write(stdout, line); err != nil {
		return err
	}
	return lifetime.Wait(signals, failed)
}
