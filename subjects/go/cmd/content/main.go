// Command content is a subject: it serves texts, or the files of a folder, in
// the coding that a client wants most, to be put under load.
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
	"wallfinder.dev/subjects/content/serve"
	"wallfinder.dev/subjects/lifetime"
	"wallfinder.dev/subjects/listen"
	"wallfinder.dev/subjects/profiling"
)

// version is the subject's own: it changes when answers do.
const version = "0.1.0"

const (
	exitDone    = 0
	exitFailed  = 1
	exitBadArgs = 2
)

// startupLine is the one line on standard output.
type startupLine struct {
	announce.Subject
	Codings   []string `json:"codings"`
	Threshold int      `json:"threshold"`
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
		fmt.Fprintf(stderr, "content: %v\nTry 'content --help'.\n", err)
		return exitBadArgs
	case options.version:
		fmt.Fprintf(stdout, "content %s (brotli %s, compress %s, %s)\n",
			version, versions()["brotli"], versions()["compress"], versions()["go"])
		return exitDone
	}
	if err := start(options, stdout); err != nil {
		fmt.Fprintf(stderr, "content: %v\n", err)
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
	served, err := options.served()
	if err != nil {
		return err
	}
	listener, err := listen.One(options.address())
	if err != nil {
		return err
	}
	secured, err := options.tls.Listener(listener, "h2", "http/1.1")
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
	go func() { failed <- fmt.Errorf("it stopped serving: %w", serve.Serve(secured, served)) }()
	if err := announce.Write(stdout, line); err != nil {
		return err
	}
	return lifetime.Wait(signals, failed)
}

func describe(options options, listener net.Listener) startupLine {
	return startupLine{
		Subject: announce.Subject{
			Listening:  listener.Addr().String(),
			PID:        os.Getpid(),
			Server:     "content",
			Children:   []int{},
			GOMAXPROCS: runtime.GOMAXPROCS(0),
			Pprof:      []string{},
			Versions:   versions(),
		},
		Codings:   options.codings,
		Threshold: options.threshold,
	}
}

func versions() map[string]string {
	return announce.Versions("github.com/andybalholm/brotli", "github.com/klauspost/compress")
}
