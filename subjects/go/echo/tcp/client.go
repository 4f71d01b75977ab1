package tcp

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"google.golang.org/protobuf/proto"

	"wallfinder.dev/subjects/echo/payload"
)

// Client is one connection to an echo, with one request at a time.
type Client struct {
	connection net.Conn
	unfollow   func() bool
	length     []byte
	request    []byte
	response   []byte
	answer     payload.Payload
}

// Dialer opens connections: a net.Dialer, or one that counts.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// Dial connects. The connection closes when the context ends.
func Dial(ctx context.Context, dial Dialer, address string) (*Client, error) {
	connection, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &Client{
		connection: connection,
		unfollow:   context.AfterFunc(ctx, func() { _ = connection.Close() }),
		length:     make([]byte, lengthBytes),
	}, nil
}

// Call sends a request and reads its answer.
func (c *Client) Call(_ context.Context, request *payload.Payload) (*payload.Payload, error) {
	var err error
	c.request, err = proto.MarshalOptions{}.MarshalAppend(append(c.request[:0], c.length...), request)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(c.request, uint32(len(c.request)-lengthBytes))
	if _, err := c.connection.Write(c.request); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c.connection, c.length); err != nil {
		return nil, err
	}
	count := binary.BigEndian.Uint32(c.length)
	if count > messageBytesMax {
		return nil, fmt.Errorf("an answer of %d bytes: at most %d are taken", count, messageBytesMax)
	}
	c.response = resized(c.response, int(count))
	if _, err := io.ReadFull(c.connection, c.response); err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(c.response, &c.answer); err != nil {
		return nil, err
	}
	return &c.answer, nil
}

// Close closes the connection.
func (c *Client) Close() error {
	c.unfollow()
	return c.connection.Close()
}
