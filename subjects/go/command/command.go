// Package command is what the commands of subjects have in common: help,
// versions, errors and exit codes.
package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// Exit codes.
const (
	Done    = 0
	Failed  = 1
	BadArgs = 2
)

// Command is a command line with options of some type.
type Command[O any] struct {
	Name  string
	Usage string
	// Parse reads the arguments; flag.ErrHelp asks for the usage.
	Parse func(args []string) (O, error)
	// Version is the line to print, if that was all that was asked for.
	Version func(options O) (string, bool)
	// Run does what the command is for.
	Run func(options O, stdout, stderr io.Writer) error
}

// Main runs it with the process's arguments, and ends the process.
func (c Command[O]) Main() {
	os.Exit(c.Exit(os.Args[1:], os.Stdout, os.Stderr))
}

// Exit runs it, and gives its exit code.
func (c Command[O]) Exit(args []string, stdout, stderr io.Writer) int {
	options, err := c.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, c.Usage)
		return Done
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\nTry '%s --help'.\n", c.Name, err, c.Name)
		return BadArgs
	}
	if version, asked := c.Version(options); asked {
		fmt.Fprintln(stdout, version)
		return Done
	}
	if err := c.Run(options, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", c.Name, err)
		return Failed
	}
	return Done
}
