// Command catalogue is a subject: a server made to be put under load. It
// serves generated products as JSON, by Fiber, fasthttp or net/http, from one
// process or from a family on one port.
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
	"os"

	"wallfinder.dev/subjects/announce"
	"wallfinder.dev/subjects/lifetime"
	"wallfinder.dev/subjects/listen"
	"wallfinder.dev/subjects/prefork"
)

// version is the catalogue's own: it changes when answers do.
const version = "0.1.0"

const (
	exitDone    = 0
	exitFailed  = 1
	exitBadArgs = 2
)

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
		fmt.Fprintf(stderr, "catalogue: %v\nTry 'catalogue --help'.\n", err)
		return exitBadArgs
	case options.version:
		printVersion(stdout)
		return exitDone
	}
	if err := start(options, stdout); err != nil {
		fmt.Fprintf(stderr, "catalogue: %s\n", explain(err, options))
		return exitFailed
	}
	return exitDone
}

// start serves as what this process is: alone, the parent of a family, or a
// child in one.
func start(options options, stdout io.Writer) error {
	if err := lifetime.FollowStarter(); err != nil {
		return err
	}
	child, err := prefork.Inherit()
	switch {
	case err != nil:
		return err
	case child != nil:
		return serveAsChild(options, child)
	case options.prefork:
		return serveAsFamily(options, stdout)
	default:
		return serveAlone(options, stdout)
	}
}

func printVersion(w io.Writer) {
	versions := versions()
	fmt.Fprintf(w, "catalogue %s (fiber %s, fasthttp %s, gofakeit %s, %s)\n",
		version, versions["fiber"], versions["fasthttp"], versions["gofakeit"], versions["go"])
}

func versions() map[string]string {
	versions := announce.Versions(
		"github.com/gofiber/fiber/v3",
		"github.com/valyala/fasthttp",
		"github.com/brianvoe/gofakeit/v7",
	)
	versions["catalogue"] = version
	return versions
}

// explain adds the way out to an error that has one.
func explain(err error, options options) string {
	var refused *listen.Error
	if !errors.As(err, &refused) || !refused.InUse() {
		return err.Error()
	}
	if refused.Address == options.address() {
		return fmt.Sprintf("%v. Stop the server that holds the port, or choose another with --port (0 takes a free one)", err)
	}
	return fmt.Sprintf("%v, which is for profiles. Choose another port with --pprof (0 takes free ones)", err)
}
