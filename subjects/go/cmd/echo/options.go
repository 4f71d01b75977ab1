package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"wallfinder.dev/subjects/echo/answer"
	"wallfinder.dev/subjects/echo/credit"
	"wallfinder.dev/subjects/echo/grpc"
	"wallfinder.dev/subjects/secure"
	"wallfinder.dev/subjects/service"
	"wallfinder.dev/subjects/settings"
)

const usage = `Usage: echo [flags]

Gives each payload back with the server's own timestamp, to be put under load:
the same message over a plain stream, HTTP/1.1 or gRPC.

  --protocol NAME        tcp (each message behind its length, 4 bytes, big-endian),
                         rest (POST /echo) or grpc (wallfinder.echo.Echo/Call) (default tcp)
  --host ADDRESS         where to listen (default 127.0.0.1)
  --port N               0 takes a free one, and the start-up line says which (default 8084)
  --answer KIND          echo, ack (no data) or a number of bytes (default echo)
  --credit BYTES         grant credit: so much may a connection send unread (tcp; docs/framed-credit.md)
  --credit-shared BYTES  grant credit: so much may all connections send unanswered (tcp)

` + secure.Usage + `
  --read-buffer BYTES    of a connection (default: the library's; grpc)
  --write-buffer BYTES   of a connection (default: the library's; grpc)
  --window BYTES         flow control of a stream (default: the library's, which grows; grpc)
  --connection-window BYTES  of a connection (default: the library's, which grows; grpc)
  --buffer-pool POOL     default, none, or tiers in bytes such as 256,4096,65536 (grpc)

  --gogc N|off           as the variable GOGC (default: as GOGC says, else 100)
  --memory-limit BYTES   as the variable GOMEMLIMIT (default: as GOMEMLIMIT says, else none)
  --pprof PORT|off       profiles at /debug/pprof/; 0 takes a free port (default off)
  --mutex-fraction N     sample one in N lock contentions, 0 for none (default 5)
  --block-rate NS        sample one blocking event per NS nanoseconds blocked, 0 for none (default 1000000)

  --version              print versions and exit
  --help                 print this and exit

The variable GOMAXPROCS sets the processors to use.
`

var protocols = []string{"tcp", "rest", "grpc"}

// options are the command line, checked.
type options struct {
	protocol string
	service  service.Service
	answer   answer.Kind
	credit   credit.Policy
	grpc     grpc.Settings

	version bool
}

func parseOptions(args []string) (options, error) {
	o := options{
		protocol: "tcp",
		service:  service.At(8084),
	}
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints errors and usage

	flags.Func("protocol", "", settings.OneOf(&o.protocol, protocols))
	o.service.Define(flags)
	flags.Func("answer", "", settings.Parsed(&o.answer, answer.Parse))
	var window, shared int
	flags.Func("credit", "", settings.Number(&window, 1, credit.BytesMax))
	flags.Func("credit-shared", "", settings.Number(&shared, 1, credit.BytesMax))
	o.grpc.Define(flags)
	flags.BoolVar(&o.version, "version", o.version, "")

	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q: everything is a flag", flags.Arg(0))
	}
	var unfit []error
	switch {
	case window > 0 && shared > 0:
		unfit = append(unfit, errors.New("--credit and --credit-shared both grant credit: give one"))
	case window > 0:
		o.credit = credit.Window(window)
	case shared > 0:
		o.credit = credit.Shared(shared)
	}
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "read-buffer", "write-buffer", "window", "connection-window", "buffer-pool":
			if o.protocol != "grpc" {
				unfit = append(unfit, fmt.Errorf("--%s needs --protocol grpc", f.Name))
			}
		case "credit", "credit-shared":
			if o.protocol != "tcp" {
				unfit = append(unfit, fmt.Errorf("--%s needs --protocol tcp", f.Name))
			}
		}
	})
	unfit = append(unfit, o.service.Check(flags))
	return o, errors.Join(unfit...)
}
