// Package profiling lets a process be profiled over HTTP, at the paths and in
// the format of net/http/pprof. Each process of a family has a server of its
// own, so that children can be profiled as well as their parent.
package profiling

import (
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"
)

// Rates say how much of what waits is sampled. Both cost time on the paths
// they watch.
type Rates struct {
	MutexFraction int // one in so many contentions; 0 samples none
	BlockNanos    int // one blocking event per so many nanoseconds blocked; 0 samples none
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
