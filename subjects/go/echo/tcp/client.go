package tcp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	"wallfinder.dev/subjects/echo/credit"
	"wallfinder.dev/subjects/echo/payload"
)

// Client is one connection to an echo, with one request at a time.
type Client struct {
	connection net.Conn
	unfollow   func() bool
	word       []byte
	request    []byte
	response   []byte
	answer     payload.Payload

	sender *credit.Sender // nil: no credit is spoken
	began  time.Time
}

// Dialer opens connections: a net.Dialer, or one that counts.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// firstGrantWait is how long a server may take to say that it speaks credit.
const firstGrantWait = 2 * time.Second

// Dial connects. The connection closes when the context ends. With credit, the
// server must grant it.
func Dial(ctx context.Context, dial Dialer, address string, withCredit bool) (*Client, error) {
	connection, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	client := &Client{
		connection: connection,
		unfollow:   context.AfterFunc(ctx, func() { _ = connection.Close() }),
		word:       make([]byte, lengthBytes),
	}
	if !withCredit {
		return client, nil
	}
	client.sender = &credit.Sender{}
	if err := client.firstGrant(); err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

func (c *Client) firstGrant() error {
	if err := c.connection.SetReadDeadline(time.Now().Add(firstGrantWait)); err != nil {
		return err
	}
	word, err := c.read()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("no credit came within %s: start the server with --credit or --credit-shared", firstGrantWait)
	}
	if err != nil {
		return err
	}
	if err := c.sender.Grant(word); err != nil {
		return err
	}
	return c.connection.SetReadDeadline(time.Time{})
}

// read reads a word: a length, or a grant.
func (c *Client) read() (uint32, error) {
	_, err := io.ReadFull(c.connection, c.word)
	return binary.BigEndian.Uint32(c.word), err
}

// Call sends a request and reads its answer.
func (c *Client) Call(_ context.Context, request *payload.Payload) (*payload.Payload, error) {
	var err error
	c.request, err = proto.MarshalOptions{}.MarshalAppend(append(c.request[:0], c.word...), request)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(c.request, uint32(len(c.request)-lengthBytes))
	if err := c.send(); err != nil {
		return nil, err
	}
	count, err := c.length()
	if err != nil {
		return nil, err
	}
	c.response = resized(c.response, count)
	if _, err := io.ReadFull(c.connection, c.response); err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(c.response, &c.answer); err != nil {
		return nil, err
	}
	return &c.answer, nil
}

// send sends the request, as credit allows.
func (c *Client) send() error {
	if c.sender == nil {
		_, err := c.connection.Write(c.request)
		return err
	}
	c.began = time.Time{}
	message := len(c.request) - lengthBytes
	sent := lengthBytes + c.sender.Take(message)
	if _, err := c.connection.Write(c.request[:sent]); err != nil {
		return err
	}
	for sent < len(c.request) {
		word, err := c.read()
		if err != nil {
			return err
		}
		if err := c.sender.Grant(word); err != nil {
			return err
		}
		if sent == lengthBytes {
			c.began = time.Now()
		}
		more := c.sender.Take(len(c.request) - sent)
		if _, err := c.connection.Write(c.request[sent : sent+more]); err != nil {
			return err
		}
		sent += more
	}
	return nil
}

// length reads that of the answer, and the grants in front of it.
func (c *Client) length() (int, error) {
	for {
		word, err := c.read()
		if err != nil {
			return 0, err
		}
		if _, isGrant := credit.Of(word); isGrant {
			if c.sender == nil {
				return 0, errors.New("the server grants credit: use --credit")
			}
			if err := c.sender.Grant(word); err != nil {
				return 0, err
			}
			continue
		}
		if word > messageBytesMax {
			return 0, fmt.Errorf("an answer of %d bytes: at most %d are taken", word, messageBytesMax)
		}
		return int(word), nil
	}
}

// Began is when the last request could begin to be sent, if it had to wait for
// credit; else it is zero.
func (c *Client) Began() time.Time { return c.began }

// Close closes the connection.
func (c *Client) Close() error {
	c.unfollow()
	return c.connection.Close()
}
