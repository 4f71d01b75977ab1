package main

import (
	"fmt"
	"io"
	"net"
	"runtime"

	"wallfinder.dev/subjects/announce"
	"wallfinder.dev/subjects/catalogue/products"
	"wallfinder.dev/subjects/catalogue/routes"
	"wallfinder.dev/subjects/catalogue/serve"
	"wallfinder.dev/subjects/lifetime"
	"wallfinder.dev/subjects/listen"
	"wallfinder.dev/subjects/profiling"
)

// serveAlone answers from this process until a signal.
func serveAlone(options options, stdout io.Writer) error {
	signals := lifetime.Ended()
	listener, err := listen.One(options.address())
	if err != nil {
		return err
	}
	profiles, err := listenForProfiles(options)
	if err != nil {
		return err
	}
	served, failed, err := startServing(options, listener, plain(profiles))
	if err != nil {
		return err
	}
	line := describe(options, listener.Addr(), profiles, served)
	if err := announce.Write(stdout, line); err != nil {
		return err
	}
	return lifetime.Wait(signals, failed)
}

// listenForProfiles opens a listener for each process: this one's first, then
// its children's. Without --pprof there are none.
func listenForProfiles(options options) ([]*net.TCPListener, error) {
	if !options.profiles.On {
		return nil, nil
	}
	var profiles []*net.TCPListener
	for process := range 1 + options.children {
		listener, err := listen.One(options.pprofAddress(process))
		if err != nil {
			listen.Close(profiles)
			return nil, err
		}
		profiles = append(profiles, listener)
	}
	return profiles, nil
}

// startServing makes the products and begins to answer requests, and to serve
// profiles on the listeners for them. What stops either comes down the channel.
func startServing(options options, listener net.Listener, profiles []net.Listener) (serving, <-chan error, error) {
	options.gogc.Apply()
	secured, err := options.tls.Listener(listener, offered(options.server)...)
	if err != nil {
		return serving{}, nil, err
	}
	pool := products.NewPool(options.seed, options.products)
	if options.hugePages == hugePagesWanted {
		if err := useHugePages(pool.JSON[0]); err != nil {
			return serving{}, nil, err
		}
	}
	server, err := serve.New(options.server, routes.NewContended(pool, options.seed, options.lockedDraws), options.buffers)
	if err != nil {
		return serving{}, nil, err
	}
	failed := make(chan error, 1+len(profiles))
	startProfiling(options, profiles, failed)
	go func() { failed <- fmt.Errorf("%s stopped serving: %w", options.server, server.Serve(secured)) }()
	return serving{Content: describeContent(pool), Procs: runtime.GOMAXPROCS(0)}, failed, nil
}

// offered are the protocols inside of TLS, by ALPN: only net/http speaks HTTP/2.
func offered(server string) []string {
	if server == serve.NetHTTP {
		return []string{"h2", "http/1.1"}
	}
	return []string{"http/1.1"}
}

// startProfiling samples and serves the profiles of this process.
func startProfiling(options options, listeners []net.Listener, failed chan<- error) {
	for _, listener := range listeners {
		profiling.Set(options.profiles.Rates)
		go func() { failed <- fmt.Errorf("the profiles stopped: %w", profiling.Serve(listener)) }()
	}
}

func plain(listeners []*net.TCPListener) []net.Listener {
	plain := make([]net.Listener, len(listeners))
	for i, listener := range listeners {
		plain[i] = listener
	}
	return plain
}
