// Package grpc is the echo as a unary call.
package grpc

import (
	"context"
	"flag"
	"fmt"
	"net"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"

	"wallfinder.dev/subjects/echo/answer"
	"wallfinder.dev/subjects/echo/payload"
	"wallfinder.dev/subjects/settings"
)

// Settings are what the transport lets its user choose. Zero leaves a size at
// the library's default.
type Settings struct {
	ReadBuffer       int // bytes, per connection
	WriteBuffer      int
	Window           int // flow control of a stream, in bytes; 65,535 at least
	ConnectionWindow int
	Pool             Pool
}

// Bounds of what the flags accept.
const (
	bufferMax = 16 << 20
	windowMin = 65_535 // below it, the library takes its own
	windowMax = 1 << 30
)

// Define adds --read-buffer, --write-buffer, --window, --connection-window and --buffer-pool.
func (s *Settings) Define(flags *flag.FlagSet) {
	flags.Func("read-buffer", "", settings.Number(&s.ReadBuffer, 1, bufferMax))
	flags.Func("write-buffer", "", settings.Number(&s.WriteBuffer, 1, bufferMax))
	flags.Func("window", "", settings.Number(&s.Window, windowMin, windowMax))
	flags.Func("connection-window", "", settings.Number(&s.ConnectionWindow, windowMin, windowMax))
	flags.Func("buffer-pool", "", settings.Parsed(&s.Pool, ParsePool))
}

// Pool says which buffers messages are held in.
type Pool struct {
	text string
	pool mem.BufferPool // nil: the library's own
}

// ParsePool reads default, none, or tiers in bytes such as 256,4096,65536.
func ParsePool(text string) (Pool, error) {
	switch text {
	case "default":
		return Pool{text: text}, nil
	case "none":
		return Pool{text: text, pool: mem.NopBufferPool{}}, nil
	}
	var tiers []int
	for _, word := range strings.Split(text, ",") {
		tier, err := strconv.Atoi(word)
		if err != nil || tier < 1 || tier > answer.BytesMax {
			return Pool{}, fmt.Errorf("must be default, none, or tiers in bytes such as 256,4096,65536")
		}
		tiers = append(tiers, tier)
	}
	return Pool{text: text, pool: mem.NewTieredBufferPool(tiers...)}, nil
}

// String is what ParsePool reads.
func (p Pool) String() string {
	if p.text == "" {
		return "default"
	}
	return p.text
}

// use makes the pool that of the whole process, too: the codec takes its buffers
// from there, whatever pool a server or channel is given. Not while calls are made.
func (p Pool) use() {
	if p.pool != nil {
		experimental.SetDefaultBufferPool(p.pool)
	}
}

// Serve answers calls until the listener closes.
func Serve(listener net.Listener, kind answer.Kind, chosen Settings) error {
	chosen.Pool.use()
	server := grpc.NewServer(chosen.options()...)
	payload.RegisterEchoServer(server, echo{kind: kind})
	return server.Serve(listener)
}

func (s Settings) options() []grpc.ServerOption {
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(answer.BytesMax + 1024)}
	if s.ReadBuffer > 0 {
		options = append(options, grpc.ReadBufferSize(s.ReadBuffer))
	}
	if s.WriteBuffer > 0 {
		options = append(options, grpc.WriteBufferSize(s.WriteBuffer))
	}
	if s.Window > 0 {
		options = append(options, grpc.InitialWindowSize(int32(s.Window)))
	}
	if s.ConnectionWindow > 0 {
		options = append(options, grpc.InitialConnWindowSize(int32(s.ConnectionWindow)))
	}
	if s.Pool.pool != nil {
		options = append(options, experimental.BufferPool(s.Pool.pool))
	}
	return options
}

type echo struct {
	payload.UnimplementedEchoServer
	kind answer.Kind
}

// Call gives the payload back.
func (e echo) Call(_ context.Context, message *payload.Payload) (*payload.Payload, error) {
	e.kind.To(message)
	return message, nil
}
