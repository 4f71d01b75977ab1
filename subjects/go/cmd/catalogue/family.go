package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"runtime"
	"time"

	"wallfinder.dev/subjects/announce"
	"wallfinder.dev/subjects/lifetime"
	"wallfinder.dev/subjects/listen"
	"wallfinder.dev/subjects/prefork"
)

// childrenReadyWithin bounds the start of a family. It is generous: many
// children may share few processors.
const childrenReadyWithin = 60 * time.Second

// serveAsFamily has children answer until a signal, or until one of them ends.
func serveAsFamily(options options, stdout io.Writer) error {
	signals := lifetime.Ended()
	group, err := listen.Group(options.address(), options.children)
	if err != nil {
		return err
	}
	profiles, err := listenForProfiles(options)
	if err != nil {
		return err
	}
	family, err := startFamily(group, profiles)
	if err != nil {
		return err
	}
	defer family.Stop()
	failed := make(chan error, 1)
	if options.profiles.On {
		startProfiling(options, plain(profiles[:1]), failed)
	}

	ready := awaitChildren(family)
	for {
		select {
		case <-signals:
			return nil
		case err := <-failed:
			return err
		case err := <-family.Ended():
			return fmt.Errorf("%w; the others are stopped", err)
		case outcome := <-ready:
			if outcome.err != nil {
				return outcome.err
			}
			line := describe(options, group[0].Addr(), profiles, outcome.served)
			line.Children = family.PIDs()
			if err := announce.Write(stdout, line); err != nil {
				return err
			}
		}
	}
}

// startFamily hands each child its socket of the group and, if there are any,
// its socket for profiles. This process keeps only the first of those.
func startFamily(group, profiles []*net.TCPListener) (*prefork.Family, error) {
	handed := make([][]*net.TCPListener, len(group))
	for i := range group {
		handed[i] = append(handed[i], group[i])
		if len(profiles) > 0 {
			handed[i] = append(handed[i], profiles[i+1])
		}
	}
	family, err := prefork.Start(handed)
	for _, sockets := range handed {
		listen.Close(sockets)
	}
	return family, err
}

// readiness is what all children serve, once all of them do.
type readiness struct {
	served serving
	err    error
}

// awaitChildren sends one readiness when every child serves, or cannot.
func awaitChildren(family *prefork.Family) <-chan readiness {
	ready := make(chan readiness, 1)
	go func() {
		reports, err := family.Ready(childrenReadyWithin)
		if err != nil {
			ready <- readiness{err: err}
			return
		}
		served, err := agree(reports)
		ready <- readiness{served: served, err: err}
	}()
	return ready
}

// agree reads the children's reports, which must all say the same.
func agree(reports [][]byte) (serving, error) {
	var first serving
	for i, report := range reports {
		var served serving
		if err := json.Unmarshal(report, &served); err != nil {
			return serving{}, fmt.Errorf("child %d reports what is not JSON: %w", i, err)
		}
		if i == 0 {
			first = served
		}
		if served != first {
			return serving{}, fmt.Errorf("child %d would serve otherwise than child 0: %+v, not %+v", i, served, first)
		}
	}
	return first, nil
}

// serveAsChild answers until the parent kills this process.
func serveAsChild(options options, child *prefork.Child) error {
	lifetime.IgnoreSignals()
	runtime.GOMAXPROCS(options.childProcs)
	served, failed, err := startServing(options, child.Listeners[0], child.Listeners[1:])
	if err != nil {
		return err
	}
	report, err := json.Marshal(served)
	if err != nil {
		return err
	}
	if err := child.Ready(report); err != nil {
		return fmt.Errorf("the parent has gone: %w", err)
	}
	return <-failed
}
