package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"wallfinder.dev/subjects/echo/answer"
	"wallfinder.dev/subjects/echo/grpc"
	"wallfinder.dev/subjects/echo/load"
	"wallfinder.dev/subjects/profiling"
	"wallfinder.dev/subjects/settings"
)

const usage = `Usage: echo-client PROTOCOL [flags] TARGET

Loads an echo server in a closed loop, and prints one line of JSON at the end.
PROTOCOL is tcp, rest or grpc. TARGET is host:port, or a URL whose host and port
are taken (and its path, for rest); only loopback and private addresses are loaded.
Each client makes one request that is not counted, then one at a time. The clock
of each runs from before the request is encoded until the answer is decoded.
With --warmup, what is answered before it is over is counted nowhere, and a window
that ends by --duration is just as long: what is answered after it is not counted.

  --clients N            clients, each with one request at a time (default 1)
  --requests N           of each client (default 1000)
  --duration TIME        instead: 10s, 500ms; a plain number is seconds
  --warmup TIME          under the same load, before requests or the duration count (default 0)
  --payload BYTES        data of each request (default 64)
  --answer KIND          what the server was told: echo, ack or a number of bytes (default echo)
  --semaphore N          permits that clients share; one is held from sending to answer (default: none)
  --credit               tcp: send as the server grants, which must be started with it too
                         (docs/framed-credit.md)
  --timeout TIME         when a request is given up (default 30s)
  --latencies FILE       write every latency: a line of JSON, then binary records

  --clients-per-channel N    grpc: clients that share a connection (default 1)
  --transport own|shared     rest: one transport each, or one for all (default own)
  --idle-connections N       rest, shared: kept for the next request (default: one for each client;
                             net/http's own default is 2)
  --body grow|sized          rest: read answers by io.ReadAll, or into a buffer of their length (default grow)
  --read-buffer BYTES        rest, grpc: of a connection (default: the library's)
  --write-buffer BYTES       rest, grpc: of a connection (default: the library's)
  --window BYTES             grpc: flow control of a stream (default: the library's, which grows)
  --connection-window BYTES  grpc: of a connection (default: the library's, which grows)
  --buffer-pool POOL         grpc: default, none, or tiers in bytes such as 256,4096,65536

  --gogc N|off           as the variable GOGC (default: as GOGC says, else 100)
  --memory-limit BYTES   as the variable GOMEMLIMIT (default: as GOMEMLIMIT says, else none)
  --pprof PORT|off       profiles at /debug/pprof/ on 127.0.0.1; 0 takes a free port,
                         and standard error says which (default off)
  --mutex-fraction N     sample one in N lock contentions, 0 for none (default 5)
  --block-rate NS        sample one blocking event per NS nanoseconds blocked, 0 for none (default 1000000)

  --version              print versions and exit
  --help                 print this and exit

The variable GOMAXPROCS sets the processors to use.
`

// Bounds of what the flags accept.
const (
	clientsMax = 10_000
	timeMax    = 24 * time.Hour

	requestsDefault = 1000
)

var protocols = []string{"tcp", "rest", "grpc"}

// options are the command line, checked.
type options struct {
	protocol string
	address  string // host:port
	path     string // of rest
	plan     load.Plan

	latencies         string
	credit            bool
	clientsPerChannel int
	shared            bool
	idle              int
	sized             bool
	grpc              grpc.Settings // its read and write buffers are those of rest, too

	memory   settings.Memory
	profiles profiling.Settings

	version bool
}

func parseOptions(args []string) (options, error) {
	o := options{
		clientsPerChannel: 1,
		plan:              load.Plan{Clients: 1, Payload: 64, Timeout: 30 * time.Second},
		profiles:          profiling.Defaults(),
	}
	var transport, body string
	flags := flag.NewFlagSet("echo-client", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints errors and usage

	flags.Func("clients", "", settings.Number(&o.plan.Clients, 1, clientsMax))
	flags.Func("requests", "", settings.Number(&o.plan.Requests, 1, load.RequestsMax))
	flags.Func("duration", "", settings.Span(&o.plan.Duration, time.Millisecond, timeMax))
	flags.Func("warmup", "", settings.Span(&o.plan.WarmUp, 0, timeMax))
	flags.Func("payload", "", settings.Number(&o.plan.Payload, 0, answer.BytesMax))
	flags.Func("answer", "", settings.Parsed(&o.plan.Answer, answer.Parse))
	flags.Func("semaphore", "", settings.Number(&o.plan.Semaphore, 1, clientsMax))
	flags.Func("timeout", "", settings.Span(&o.plan.Timeout, 10*time.Millisecond, timeMax))
	flags.BoolVar(&o.credit, "credit", false, "")
	flags.StringVar(&o.latencies, "latencies", "", "")
	flags.Func("clients-per-channel", "", settings.Number(&o.clientsPerChannel, 1, clientsMax))
	flags.Func("transport", "", settings.OneOf(&transport, []string{"own", "shared"}))
	flags.Func("idle-connections", "", settings.Number(&o.idle, 1, clientsMax))
	flags.Func("body", "", settings.OneOf(&body, []string{"grow", "sized"}))
	o.grpc.Define(flags)
	o.memory.Define(flags)
	o.profiles.Define(flags)
	flags.BoolVar(&o.version, "version", o.version, "")

	words, err := wordsAmong(flags, args)
	if err != nil || o.version {
		return o, err
	}
	if err := o.place(words); err != nil {
		return o, err
	}
	o.shared, o.sized = transport == "shared", body == "sized"
	return o, errors.Join(append(o.unfit(flags), o.complete()...)...)
}

// wordsAmong gives what stands before, between and after the flags.
func wordsAmong(flags *flag.FlagSet, args []string) ([]string, error) {
	var words []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return words, nil
		}
		words, args = append(words, flags.Arg(0)), flags.Args()[1:]
	}
}

// place reads the protocol and the target.
func (o *options) place(words []string) error {
	if len(words) != 2 || !slices.Contains(protocols, words[0]) {
		return fmt.Errorf("a protocol (%s) and a target are needed, such as echo-client tcp 127.0.0.1:8084",
			strings.Join(protocols, ", "))
	}
	o.protocol = words[0]
	target := words[1]
	if !strings.Contains(target, "://") {
		target = map[string]string{"tcp": "tcp", "rest": "http", "grpc": "http"}[o.protocol] + "://" + target
	}
	parsed, err := url.Parse(target)
	if err != nil {
		return fmt.Errorf("%q is no target: %w", words[1], errors.Unwrap(err))
	}
	fits := map[string][]string{"tcp": {"tcp"}, "rest": {"http"}, "grpc": {"grpc", "http"}}[o.protocol]
	if !slices.Contains(fits, parsed.Scheme) {
		return fmt.Errorf("%q is no target of %s, such as %s://127.0.0.1:8084", words[1], o.protocol, fits[0])
	}
	port := parsed.Port()
	if port == "" {
		return fmt.Errorf("%q names no port, such as 127.0.0.1:8084", words[1])
	}
	ip, err := near(parsed.Hostname())
	if err != nil {
		return err
	}
	o.address = net.JoinHostPort(ip.String(), port)
	o.path = parsed.RequestURI()
	if o.path == "/" || o.path == "" {
		o.path = "/echo"
	}
	return nil
}

// near gives the address of a host, if it is one that may be loaded.
func near(host string) (netip.Addr, error) {
	found, err := net.LookupIP(host)
	if err != nil || len(found) == 0 {
		return netip.Addr{}, fmt.Errorf("%q has no address", host)
	}
	ip, _ := netip.AddrFromSlice(found[0])
	ip = ip.Unmap()
	if !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast() {
		return netip.Addr{}, fmt.Errorf("%s is neither on this machine nor in a private network, and is not loaded", ip)
	}
	return ip, nil
}

// unfit names flags that need something else.
func (o *options) unfit(flags *flag.FlagSet) []error {
	var unfit []error
	needs := func(ok bool, f *flag.Flag, what string) {
		if !ok {
			unfit = append(unfit, fmt.Errorf("--%s needs %s", f.Name, what))
		}
	}
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "window", "connection-window", "buffer-pool", "clients-per-channel":
			needs(o.protocol == "grpc", f, "the protocol grpc")
		case "credit":
			needs(o.protocol == "tcp", f, "the protocol tcp")
		case "read-buffer", "write-buffer":
			needs(o.protocol != "tcp", f, "the protocol rest or grpc")
		case "transport", "body":
			needs(o.protocol == "rest", f, "the protocol rest")
		case "idle-connections":
			needs(o.shared, f, "--transport shared")
		case "mutex-fraction", "block-rate":
			needs(o.profiles.On, f, "--pprof PORT")
		}
	})
	return unfit
}

// complete fills in what depends on other flags, and refuses what does not go together.
func (o *options) complete() []error {
	var unfit []error
	plan := &o.plan
	switch {
	case plan.Requests > 0 && plan.Duration > 0:
		unfit = append(unfit, errors.New("--requests and --duration both end the load: give one"))
	case plan.Duration == 0 && plan.Requests == 0:
		plan.Requests = requestsDefault
	}
	if plan.Requests > load.RequestsMax/plan.Clients {
		unfit = append(unfit, fmt.Errorf("--clients times --requests is more than %d, and each latency is kept", load.RequestsMax))
	}
	if plan.Clients%o.clientsPerChannel != 0 {
		unfit = append(unfit, fmt.Errorf("--clients %d is no multiple of --clients-per-channel %d: channels would not be alike",
			plan.Clients, o.clientsPerChannel))
	}
	if o.idle == 0 {
		o.idle = plan.Clients
	}
	return unfit
}

// connections is how many connections the load keeps.
func (o *options) connections() int { return o.plan.Clients / o.clientsPerChannel }

func (o *options) pprofAddress() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(o.profiles.Port))
}
