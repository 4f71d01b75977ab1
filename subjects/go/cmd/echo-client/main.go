// Command echo-client is a driver: it loads an echo server over a plain stream,
// HTTP/1.1 or gRPC by what Go's own libraries offer, so that what they cost a
// client can be measured and profiled.
//
// Standard output carries one line of JSON, once the load has ended; everything
// else goes to standard error. SIGINT and SIGTERM cut the load off, and what was
// measured is reported. Exit codes: 0 done, 1 could not run or nothing was
// answered, 2 bad arguments.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"wallfinder.dev/subjects/announce"
	"wallfinder.dev/subjects/command"
	"wallfinder.dev/subjects/echo/load"
	"wallfinder.dev/subjects/lifetime"
	"wallfinder.dev/subjects/listen"
	"wallfinder.dev/subjects/profiling"
)

// version is the client's own: it changes when what is measured does.
const version = "0.2.0"

var client = command.Command[options]{
	Name:    "echo-client",
	Usage:   usage,
	Parse:   parseOptions,
	Version: asked,
	Run:     drive,
}

func main() { client.Main() }

func asked(options options) (string, bool) {
	versions := versions()
	return fmt.Sprintf("echo-client %s (grpc %s, protobuf %s, %s)",
		version, versions["grpc"], versions["protobuf"], versions["go"]), options.version
}

// drive holds the load and reports it.
func drive(options options, stdout, stderr io.Writer) error {
	if err := lifetime.FollowStarter(); err != nil {
		return err
	}
	signals := lifetime.Ended()
	cutOff := make(chan struct{})
	go func() {
		<-signals
		close(cutOff)
	}()
	// Before the load: an hour of it must not end with a file that cannot be written.
	latencies, err := create(options.latencies)
	if err != nil {
		return err
	}
	options.memory.Apply()
	if options.profiles.On {
		profiles, err := listen.One(options.pprofAddress())
		if err != nil {
			return err
		}
		profiling.Set(options.profiles.Rates)
		fmt.Fprintf(stderr, "echo-client: profiles at http://%s/debug/pprof/\n", profiles.Addr())
		go func() { _ = profiling.Serve(profiles) }()
	}
	dialer := &countingDialer{}
	dial, err := options.dial(dialer)
	if err != nil {
		return err
	}
	collected := collections()
	result, err := load.Run(options.plan, dial, cutOff)
	if err != nil {
		return err
	}
	collected = collections() - collected
	report := describe(options, result)
	report.Opened, report.Collections = dialer.opened.Load(), collected
	if latencies != nil {
		if err := errors.Join(result.Samples.Write(latencies), latencies.Close()); err != nil {
			return fmt.Errorf("--latencies %s: %w", options.latencies, err)
		}
	}
	encoded, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("the report has no JSON form: %w", err)
	}
	if _, err := stdout.Write(append(encoded, '\n')); err != nil {
		return fmt.Errorf("nobody reads the report: %w", err)
	}
	if result.GaveUp > 0 {
		fmt.Fprintf(stderr, "echo-client: %d of %d clients gave up after failures in a row\n",
			result.GaveUp, options.plan.Clients)
	}
	if report.Answered == 0 {
		return errors.New("nothing was answered")
	}
	return nil
}

func create(path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--latencies: %w", err)
	}
	return file, nil
}

func collections() uint32 {
	var stats debug.GCStats
	debug.ReadGCStats(&stats)
	return uint32(stats.NumGC)
}

func versions() map[string]string {
	return announce.Versions("google.golang.org/grpc", "google.golang.org/protobuf")
}
