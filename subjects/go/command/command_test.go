package command

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"testing"
)

func TestEachEndHasItsCodeAndItsStream(t *testing.T) {
	command := Command[string]{
		Name:  "it",
		Usage: "Usage: it\n",
		Parse: func(args []string) (string, error) {
			switch args[0] {
			case "--help":
				return "", flag.ErrHelp
			case "--bad":
				return "", errors.New("no such flag")
			}
			return args[0], nil
		},
		Version: func(options string) (string, bool) { return "it 1", options == "--version" },
		Run: func(options string, stdout, _ io.Writer) error {
			if options == "fail" {
				return errors.New("it would not")
			}
			_, err := stdout.Write([]byte("done\n"))
			return err
		},
	}
	for args, want := range map[string]struct {
		code        int
		out, errors string
	}{
		"--help":    {Done, "Usage: it\n", ""},
		"--version": {Done, "it 1\n", ""},
		"go":        {Done, "done\n", ""},
		"--bad":     {BadArgs, "", "it: no such flag\nTry 'it --help'.\n"},
		"fail":      {Failed, "", "it: it would not\n"},
	} {
		var stdout, stderr bytes.Buffer
		code := command.Exit([]string{args}, &stdout, &stderr)
		if code != want.code || stdout.String() != want.out || stderr.String() != want.errors {
			t.Errorf("%s: exit %d, %q, %q", args, code, stdout.String(), stderr.String())
		}
	}
}
