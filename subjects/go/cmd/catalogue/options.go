package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"

	"wallfinder.dev/subjects/catalogue/routes"
	"wallfinder.dev/subjects/catalogue/serve"
	"wallfinder.dev/subjects/profiling"
	"wallfinder.dev/subjects/secure"
	"wallfinder.dev/subjects/settings"
)

const usage = `Usage: catalogue [flags]

Serves generated products as JSON, to be put under load:
/simple /read /read-locked /read-gz /list /compute /compute?body=full

  --server NAME        fiber, fasthttp or nethttp (default fiber)
  --host ADDRESS       where to listen (default 127.0.0.1)
  --port N             0 takes a free one, and the start-up line says which (default 8083)

` + secure.Usage + `
  --prefork            serve from a family of processes on one port (SO_REUSEPORT)
  --children N         how many (default: as many as this process may use processors)
  --child-procs N      GOMAXPROCS of each child (default 1)

  --pprof PORT|off     profiles at /debug/pprof/: this process at PORT, child n at PORT+1+n;
                       0 takes free ports (default off)
  --mutex-fraction N   sample one in N lock contentions, 0 for none (default 5)
  --block-rate NS      sample one blocking event per NS nanoseconds blocked, 0 for none (default 1000000)

  --read-buffer BYTES  per connection; limits a request's head (default 16384; fiber, fasthttp)
  --write-buffer BYTES per connection (default 4096; fiber, fasthttp)
  --gogc N|off         as the variable GOGC (default: as GOGC says, else 100)
  --huge-pages[=never] have the heap on huge pages, and do not start where there are none;
                       never: on none, whatever the kernel's setting

  --locked-draws N     indices that a request of /read-locked draws under its lock, one by one (default 1)
  --seed N             the same seed serves the same bytes (default 1)
  --products N         size of the pool (default 500)

  --version            print versions and exit
  --help               print this and exit

Without --prefork, the variable GOMAXPROCS sets the processors to use.
`

// Bounds of what the flags accept.
const (
	childrenMax = 1024
	procsMax    = 1024
	bufferMin   = 256
	bufferMax   = 16 << 20
	drawsMax    = 100_000
)

// options are the command line, checked.
type options struct {
	server string
	host   string
	port   int

	tls secure.Settings

	prefork    bool
	children   int
	childProcs int

	profiles profiling.Settings

	buffers serve.Buffers
	gogc    settings.GOGC

	hugePages hugePages

	lockedDraws int
	seed        uint64
	products    int

	version bool
}

func (o options) address() string { return joinAddress(o.host, o.port) }

// pprofAddress is where a process serves its profiles: the process the user
// started is number 0, child n is number n+1.
func (o options) pprofAddress(process int) string {
	if o.profiles.Port == 0 {
		return joinAddress(o.host, 0)
	}
	return joinAddress(o.host, o.profiles.Port+process)
}

func joinAddress(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

func defaultOptions() options {
	return options{
		server:     serve.Fiber,
		host:       "127.0.0.1",
		port:       8083,
		children:   runtime.GOMAXPROCS(0),
		childProcs: 1,
		profiles:   profiling.Defaults(),
		// The write buffer is what Fiber and fasthttp choose by themselves. The
		// read buffer is larger than theirs: a hundred pipelined requests of an
		// ordinary client fit, and so are answered together.
		buffers:     serve.Buffers{Read: 16 << 10, Write: 4 << 10},
		lockedDraws: 1,
		seed:        1,
		products:    500,
	}
}

func parseOptions(args []string) (options, error) {
	o := defaultOptions()
	flags := flag.NewFlagSet("catalogue", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints errors and usage

	flags.Func("server", "", settings.OneOf(&o.server, serve.Names))
	flags.StringVar(&o.host, "host", o.host, "")
	flags.Func("port", "", settings.Number(&o.port, 0, settings.PortMax))
	flags.BoolVar(&o.prefork, "prefork", o.prefork, "")
	flags.Func("children", "", settings.Number(&o.children, 1, childrenMax))
	flags.Func("child-procs", "", settings.Number(&o.childProcs, 1, procsMax))
	o.tls.Define(flags)
	o.profiles.Define(flags)
	flags.Func("read-buffer", "", settings.Number(&o.buffers.Read, bufferMin, bufferMax))
	flags.Func("write-buffer", "", settings.Number(&o.buffers.Write, bufferMin, bufferMax))
	flags.Func("gogc", "", o.gogc.Parse)
	flags.BoolFunc("huge-pages", "", o.hugePages.parse)
	flags.Func("locked-draws", "", settings.Number(&o.lockedDraws, 1, drawsMax))
	flags.Uint64Var(&o.seed, "seed", o.seed, "")
	flags.Func("products", "", settings.Number(&o.products, 1, routes.ProductsMax))
	flags.BoolVar(&o.version, "version", o.version, "")

	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q: everything is a flag", flags.Arg(0))
	}
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if err := o.tls.Check(); err != nil {
		return o, err
	}
	return o, o.checkTogether(given)
}

// checkTogether refuses flags that would do nothing, and ports that would not fit.
func (o *options) checkTogether(given map[string]bool) error {
	needs := func(condition bool, reason string, names ...string) error {
		for _, name := range names {
			if given[name] && !condition {
				return fmt.Errorf("--%s %s", name, reason)
			}
		}
		return nil
	}
	if !o.prefork {
		o.children = 0
	}
	lastPprof := o.profiles.Port + o.children
	return errors.Join(
		needs(o.prefork, "needs --prefork", "children", "child-procs"),
		needs(o.profiles.On, "needs --pprof PORT", "mutex-fraction", "block-rate"),
		needs(o.server != serve.NetHTTP, "means nothing to nethttp, which lets nobody choose: leave it out, or choose another --server",
			"read-buffer", "write-buffer"),
		needs(!o.prefork, "is for one process: with --prefork give --tls-cert", "tls-cert-out"),
		needs(lastPprof <= settings.PortMax, fmt.Sprintf("is too high: the last child would need port %d", lastPprof), "pprof"),
	)
}
