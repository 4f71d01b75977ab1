// Package service stands a server of one process up: its listener, TLS,
// profiles and start-up line, until a signal ends it.
package service

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"

	"wallfinder.dev/subjects/announce"
	"wallfinder.dev/subjects/lifetime"
	"wallfinder.dev/subjects/listen"
	"wallfinder.dev/subjects/profiling"
	"wallfinder.dev/subjects/secure"
	"wallfinder.dev/subjects/settings"
)

// Service is where and how, as flags say it.
type Service struct {
	host string
	port int

	tls      secure.Settings
	memory   settings.Memory
	profiles profiling.Settings
}

// At is a service on loopback that no flag has changed.
func At(port int) Service {
	return Service{host: "127.0.0.1", port: port, profiles: profiling.Defaults()}
}

// Define adds --host, --port, and the flags of TLS, memory and profiles.
func (s *Service) Define(flags *flag.FlagSet) {
	flags.StringVar(&s.host, "host", s.host, "")
	flags.Func("port", "", settings.Number(&s.port, 0, settings.PortMax))
	s.tls.Define(flags)
	s.memory.Define(flags)
	s.profiles.Define(flags)
}

// Check refuses flags that do not go together.
func (s Service) Check(flags *flag.FlagSet) error {
	unfit := []error{s.tls.Check()}
	flags.Visit(func(f *flag.Flag) {
		if (f.Name == "mutex-fraction" || f.Name == "block-rate") && !s.profiles.On {
			unfit = append(unfit, fmt.Errorf("--%s needs --pprof PORT", f.Name))
		}
	})
	return errors.Join(unfit...)
}

func (s Service) at(port int) string { return net.JoinHostPort(s.host, strconv.Itoa(port)) }

// Stand listens, announces and serves until a signal. Inside of TLS protocols
// are offered by ALPN, the best first. describe makes the start-up line of what
// every subject says.
func (s Service) Stand(stdout io.Writer, protocols []string, describe func(announce.Subject) any, serve func(net.Listener) error) error {
	if err := lifetime.FollowStarter(); err != nil {
		return err
	}
	signals := lifetime.Ended()
	listener, err := listen.One(s.at(s.port))
	if err != nil {
		return err
	}
	secured, err := s.tls.Listener(listener, protocols...)
	if err != nil {
		return err
	}
	s.memory.Apply()
	failed := make(chan error, 2)
	subject := announce.Subject{
		Listening:  listener.Addr().String(),
		PID:        os.Getpid(),
		Children:   []int{},
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		Pprof:      []string{},
	}
	if s.profiles.On {
		profiles, err := listen.One(s.at(s.profiles.Port))
		if err != nil {
			return err
		}
		subject.Pprof = append(subject.Pprof, profiles.Addr().String())
		profiling.Set(s.profiles.Rates)
		go func() { failed <- fmt.Errorf("the profiles stopped: %w", profiling.Serve(profiles)) }()
	}
	line := describe(subject)
	go func() { failed <- fmt.Errorf("it stopped serving: %w", serve(secured)) }()
	if err := announce.Write(stdout, line); err != nil {
		return err
	}
	return lifetime.Wait(signals, failed)
}
