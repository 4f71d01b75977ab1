// Command content is a subject: it serves texts, or the files of a folder, in
// the coding that a client wants most, to be put under load.
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
	"wallfinder.dev/subjects/content/serve"
)

// version is the subject's own: it changes when answers do.
const version = "0.2.0"

// startupLine is the one line on standard output.
type startupLine struct {
	announce.Subject
	Codings   []string `json:"codings"`
	Threshold int      `json:"threshold"`
}

var content = command.Command[options]{
	Name:    "content",
	Usage:   usage,
	Parse:   parseOptions,
	Version: asked,
	Run:     run,
}

func main() { content.Main() }

func run(options options, stdout, _ io.Writer) error {
	served, err := options.served()
	if err != nil {
		return err
	}
	describe := func(subject announce.Subject) any {
		subject.Server, subject.Versions = "content", versions()
		return startupLine{Subject: subject, Codings: options.codings, Threshold: options.threshold}
	}
	answer := func(listener net.Listener) error { return serve.Serve(listener, served) }
	return options.service.Stand(stdout, []string{"h2", "http/1.1"}, describe, answer)
}

func asked(options options) (string, bool) {
	versions := versions()
	return fmt.Sprintf("content %s (brotli %s, compress %s, %s)",
		version, versions["brotli"], versions["compress"], versions["go"]), options.version
}

func versions() map[string]string {
	return announce.Versions("github.com/andybalholm/brotli", "github.com/klauspost/compress")
}
