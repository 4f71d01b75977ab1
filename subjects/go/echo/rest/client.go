package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"google.golang.org/protobuf/proto"

	"wallfinder.dev/subjects/echo/payload"
)

// Transport says how clients send.
type Transport struct {
	Dial        func(ctx context.Context, network, address string) (net.Conn, error)
	Idle        int // connections kept open for the next request
	ReadBuffer  int // bytes, per connection; 0: the library's
	WriteBuffer int
}

// Status is an answer that is none of ours.
type Status struct {
	Code int
}

func (s *Status) Error() string { return fmt.Sprintf("the server answers %d", s.Code) }

// FailureClass is status.4xx, status.5xx and the like.
func (s *Status) FailureClass() string { return fmt.Sprintf("status.%dxx", s.Code/100) }

// Client posts payloads.
type Client struct {
	http  *http.Client
	url   string
	sized bool
}

// NewClient makes a client with a transport of its own, which several callers may
// share. Where sized, a body is read into a buffer of its announced length;
// otherwise by io.ReadAll, which starts small and grows.
func NewClient(url string, transport Transport, sized bool) *Client {
	return &Client{
		url:   url,
		sized: sized,
		http: &http.Client{
			// Nothing is followed: the load stays at its target, proxies or not.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext:         transport.Dial,
				MaxIdleConnsPerHost: transport.Idle,
				ReadBufferSize:      transport.ReadBuffer,
				WriteBufferSize:     transport.WriteBuffer,
			},
		},
	}
}

// Call posts a request and reads its answer.
func (c *Client) Call(ctx context.Context, request *payload.Payload) (*payload.Payload, error) {
	encoded, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", ContentType)
	response, err := c.http.Do(post)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := c.read(response)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, &Status{Code: response.StatusCode}
	}
	var answer payload.Payload
	if err := proto.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	return &answer, nil
}

func (c *Client) read(response *http.Response) ([]byte, error) {
	if !c.sized || response.ContentLength < 0 {
		return io.ReadAll(io.LimitReader(response.Body, bodyBytesMax))
	}
	if response.ContentLength > bodyBytesMax {
		return nil, errors.New("the answer is too long")
	}
	body := make([]byte, response.ContentLength)
	_, err := io.ReadFull(response.Body, body)
	return body, err
}

// Close closes the connections that nobody uses.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}
