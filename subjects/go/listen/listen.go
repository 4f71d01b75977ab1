// Package listen opens the TCP sockets that subjects accept on: one for a
// single process, or a group on one port, which the kernel spreads connections
// over by hash, for a family of processes.
//
// All of them are plain TCP. Go would make them Multipath TCP where the kernel
// has it, and then the socket that /proc shows listening belongs to no process.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// One listens on host:port. Port 0 takes a free one.
func One(address string) (*net.TCPListener, error) {
	return open(address, nil)
}

// Group opens count sockets that listen on one port by SO_REUSEPORT. Port 0
// takes a free one. Like One, it fails if anyone else listens there already.
func Group(address string, count int) (_ []*net.TCPListener, err error) {
	group := make([]*net.TCPListener, 0, count)
	defer func() {
		if err != nil {
			Close(group)
		}
	}()

	// The first socket is bound without SO_REUSEPORT: with it, the kernel would
	// let this group join a stranger's, and share the load with it in silence.
	// It is set afterwards, to let in the others.
	first, err := One(address)
	if err != nil {
		return nil, err
	}
	group = append(group, first)
	if count == 1 {
		return group, nil
	}
	connection, err := first.SyscallConn()
	if err != nil {
		return nil, err
	}
	if err := reusePort("", "", connection); err != nil {
		return nil, err
	}
	for len(group) < count {
		next, err := open(first.Addr().String(), reusePort)
		if err != nil {
			return nil, err
		}
		group = append(group, next)
	}
	return group, nil
}

// Close closes listeners; those already closed do no harm.
func Close(listeners []*net.TCPListener) {
	for _, listener := range listeners {
		_ = listener.Close()
	}
}

func open(address string, control func(network, address string, connection syscall.RawConn) error) (*net.TCPListener, error) {
	config := net.ListenConfig{Control: control}
	config.SetMultipathTCP(false)
	listener, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, &Error{Address: address, Cause: cause(err)}
	}
	return listener.(*net.TCPListener), nil
}

func reusePort(_, _ string, connection syscall.RawConn) error {
	var failure error
	err := connection.Control(func(descriptor uintptr) {
		failure = unix.SetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	if err := errors.Join(err, failure); err != nil {
		return fmt.Errorf("SO_REUSEPORT: %w", err)
	}
	return nil
}

// Error says where listening failed, and why.
type Error struct {
	Address string
	Cause   error
}

func (e *Error) Error() string { return fmt.Sprintf("cannot listen on %s: %v", e.Address, e.Cause) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// InUse reports whether someone else holds the port.
func (e *Error) InUse() bool { return errors.Is(e.Cause, unix.EADDRINUSE) }

// cause takes off the address that package net repeats.
func cause(err error) error {
	var operation *net.OpError
	if errors.As(err, &operation) {
		return operation.Err
	}
	return err
}
