// Package service stands a server of one process up: its listener, TLS,
// profiles and start-up line, until a signal ends it.
package service

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"

	"wallfinder.dev/subjects/announce"
	"wallfinder.dev/subjects/lifetime"
	"wallfinder.dev/subjects/listen"
	"wallfinder.dev/subjects/profiling"
	"wallfinder.dev/subjects/secure"
	"wallfinder.dev/subjects/settings"
)

// Service is where and how.
type Service struct {
	Address   string
	TLS       secure.Settings
	Protocols []string // inside of TLS, by ALPN, the best first
	Memory    settings.Memory

	Profiles        profiling.Settings
	ProfilesAddress string
}

// Stand listens, announces and serves until a signal. describe makes the
// start-up line of what every subject says.
func (s Service) Stand(stdout io.Writer, describe func(announce.Subject) any, serve func(net.Listener) error) error {
	if err := lifetime.FollowStarter(); err != nil {
		return err
	}
	signals := lifetime.Ended()
	listener, err := listen.One(s.Address)
	if err != nil {
		return err
	}
	secured, err := s.TLS.Listener(listener, s.Protocols...)
	if err != nil {
		return err
	}
	s.Memory.Apply()
	failed := make(chan error, 2)
	subject := announce.Subject{
		Listening:  listener.Addr().String(),
		PID:        os.Getpid(),
		Children:   []int{},
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		Pprof:      []string{},
	}
	if s.Profiles.On {
		profiles, err := listen.One(s.ProfilesAddress)
		if err != nil {
			return err
		}
		subject.Pprof = append(subject.Pprof, profiles.Addr().String())
		profiling.Set(s.Profiles.Rates)
		go func() { failed <- fmt.Errorf("the profiles stopped: %w", profiling.Serve(profiles)) }()
	}
	line := describe(subject)
	go func() { failed <- fmt.Errorf("it stopped serving: %w", serve(secured)) }()
	if err := announce.Write(stdout, line); err != nil {
		return err
	}
	return lifetime.Wait(signals, failed)
}
