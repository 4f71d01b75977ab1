package grpc

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/status"

	"wallfinder.dev/subjects/echo/answer"
	"wallfinder.dev/subjects/echo/payload"
)

// Client is one channel to an echo, which several callers may share: one
// connection, as long as it holds.
type Client struct {
	channel *grpc.ClientConn
	stub    payload.EchoClient
}

// Dialer opens connections: a net.Dialer, or one that counts.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// NewClient makes a channel; it connects when it is used first.
func NewClient(address string, dial Dialer, settings Settings) (*Client, error) {
	settings.Pool.use()
	// No names are looked up, no proxies asked, and no settings taken from elsewhere.
	options := append(settings.dialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dial(ctx, "tcp", address)
		}),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(answer.BytesMax+1024)),
	)
	channel, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, err
	}
	return &Client{channel: channel, stub: payload.NewEchoClient(channel)}, nil
}

func (s Settings) dialOptions() []grpc.DialOption {
	var options []grpc.DialOption
	if s.ReadBuffer > 0 {
		options = append(options, grpc.WithReadBufferSize(s.ReadBuffer))
	}
	if s.WriteBuffer > 0 {
		options = append(options, grpc.WithWriteBufferSize(s.WriteBuffer))
	}
	if s.Window > 0 {
		options = append(options, grpc.WithInitialWindowSize(int32(s.Window)))
	}
	if s.ConnectionWindow > 0 {
		options = append(options, grpc.WithInitialConnWindowSize(int32(s.ConnectionWindow)))
	}
	if s.Pool.pool != nil {
		options = append(options, experimental.WithBufferPool(s.Pool.pool))
	}
	return options
}

// Call makes one unary call.
func (c *Client) Call(ctx context.Context, request *payload.Payload) (*payload.Payload, error) {
	answer, err := c.stub.Call(ctx, request)
	if err != nil {
		return nil, &Status{Code: status.Code(err), cause: err}
	}
	return answer, nil
}

// Status is a call that ended with another code than OK. What broke on the way
// is Unavailable: the library does not tell it from a server that says so.
type Status struct {
	Code  codes.Code
	cause error
}

func (s *Status) Error() string { return s.cause.Error() }

// Unwrap gives the library's error.
func (s *Status) Unwrap() error { return s.cause }

// FailureClass is status.Unavailable and the like.
func (s *Status) FailureClass() string { return "status." + s.Code.String() }

// Close closes the channel, for all who share it.
func (c *Client) Close() error { return c.channel.Close() }
