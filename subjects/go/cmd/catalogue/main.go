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
	"fmt"
	"io"

	"wallfinder.dev/subjects/announce"
	"wallfinder.dev/subjects/command"
	"wallfinder.dev/subjects/lifetime"
	"wallfinder.dev/subjects/listen"
	"wallfinder.dev/subjects/prefork"
)

// version is the catalogue's own: it changes when answers do.
const version = "0.1.0"

var catalogue = command.Command[options]{
	Name:    "catalogue",
	Usage:   usage,
	Parse:   parseOptions,
	Version: asked,
	Run: func(options options, stdout, _ io.Writer) error {
		return explain(start(options, stdout), options)
	},
}

func main() { catalogue.Main() }

// start serves as what this process is: alone, the parent of a family, or a
// child in one.
func start(options options, stdout io.Writer) error {
	if err := lifetime.FollowStarter(); err != nil {
		return err
	}
	if options.hugePages == hugePagesNever {
		if err := refuseHugePages(); err != nil {
			return err
		}
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

func asked(options options) (string, bool) {
	versions := versions()
	return fmt.Sprintf("catalogue %s (fiber %s, fasthttp %s, gofakeit %s, %s)",
		version, versions["fiber"], versions["fasthttp"], versions["gofakeit"], versions["go"]), options.version
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
func explain(err error, options options) error {
	var refused *listen.Error
	if !errors.As(err, &refused) || !refused.InUse() {
		return err
	}
	if refused.Address == options.address() {
		return fmt.Errorf("%w. Stop the server that holds the port, or choose another with --port (0 takes a free one)", err)
	}
	return fmt.Errorf("%w, which is for profiles. Choose another port with --pprof (0 takes free ones)", err)
}
