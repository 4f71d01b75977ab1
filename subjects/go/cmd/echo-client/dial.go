package main

import (
	"context"
	"net"
	"sync/atomic"

	"wallfinder.dev/subjects/echo/grpc"
	"wallfinder.dev/subjects/echo/load"
	"wallfinder.dev/subjects/echo/rest"
	"wallfinder.dev/subjects/echo/tcp"
)

// countingDialer tells how many connections a library opens of its own accord.
type countingDialer struct {
	net.Dialer
	opened atomic.Int64
}

// DialContext connects.
func (d *countingDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.opened.Add(1)
	return connection, nil
}

// dial says how each client gets its caller.
func (o *options) dial(dialer *countingDialer) (load.Dial, error) {
	switch o.protocol {
	case "rest":
		return o.dialREST(dialer), nil
	case "grpc":
		return o.dialGRPC(dialer)
	default:
		return func(ctx context.Context, _ int) (load.Caller, error) {
			client, err := tcp.Dial(ctx, dialer.DialContext, o.address, o.credit)
			if err != nil {
				return nil, err
			}
			return client, nil
		}, nil
	}
}

func (o *options) dialREST(dialer *countingDialer) load.Dial {
	client := func(idle int) *rest.Client {
		return rest.NewClient("http://"+o.address+o.path, rest.Transport{
			Dial:        dialer.DialContext,
			Idle:        idle,
			ReadBuffer:  o.grpc.ReadBuffer,
			WriteBuffer: o.grpc.WriteBuffer,
		}, o.sized)
	}
	if o.shared {
		all := client(o.idle)
		return func(context.Context, int) (load.Caller, error) { return kept{all}, nil }
	}
	return func(context.Context, int) (load.Caller, error) { return client(1), nil }
}

func (o *options) dialGRPC(dialer *countingDialer) (load.Dial, error) {
	channels := make([]kept, o.connections())
	for nth := range channels {
		client, err := grpc.NewClient(o.address, dialer.DialContext, o.grpc)
		if err != nil {
			return nil, err
		}
		channels[nth] = kept{client}
	}
	return func(_ context.Context, client int) (load.Caller, error) {
		return channels[client/o.clientsPerChannel], nil
	}, nil
}

// kept is a caller that others use too: it connects anew by itself, and is not
// closed because one of them failed.
type kept struct{ load.Caller }

// Close leaves it open.
func (kept) Close() error { return nil }
