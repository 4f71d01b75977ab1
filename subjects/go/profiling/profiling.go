// Package profiling lets a process be profiled over HTTP, at the paths and in
// the format of net/http/pprof. Each process of a family has a server of its
// own, so that children can be profiled as well as their parent.
package profiling

import (
	"flag"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"wallfinder.dev/subjects/settings"
)

// Rates say how much of what waits is sampled. Both cost time on the paths
// they watch.
type Rates struct {
	MutexFraction int // one in so many contentions; 0 samples none
	BlockNanos    int // one blocking event per so many nanoseconds blocked; 0 samples none
}

// Settings are what the command line says of profiles.
type Settings struct {
	On    bool
	Port  int // 0 takes a free one
	Rates Rates
}

// Defaults are no profiles, and the rates that they would have.
func Defaults() Settings {
	return Settings{Rates: Rates{MutexFraction: 5, BlockNanos: 1_000_000}}
}

// Bounds of what the flags accept.
const (
	fractionMax  = 1_000_000
	blockRateMax = 1 << 40
)

// Define adds --pprof, --mutex-fraction and --block-rate.
func (s *Settings) Define(flags *flag.FlagSet) {
	flags.Func("pprof", "", settings.PortOrOff(&s.On, &s.Port))
	flags.Func("mutex-fraction", "", settings.Number(&s.Rates.MutexFraction, 0, fractionMax))
	flags.Func("block-rate", "", settings.Number(&s.Rates.BlockNanos, 0, blockRateMax))
}

// Set sets the rates of this process.
func Set(rates Rates) {
	runtime.SetMutexProfileFraction(rates.MutexFraction)
	runtime.SetBlockProfileRate(rates.BlockNanos)
}

// Serve answers /debug/pprof/ on a listener until it is closed.
func Serve(listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(listener)
}
