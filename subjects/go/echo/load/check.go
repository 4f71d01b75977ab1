package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"wallfinder.dev/subjects/echo/answer"
	"wallfinder.dev/subjects/echo/payload"
)

// Classed is an error that has a class of its own, such as status.4xx.
type Classed interface {
	error
	FailureClass() string
}

// mismatch is an answer that is not that of its request.
type mismatch struct {
	class string
	words string
}

func (m *mismatch) Error() string        { return m.words }
func (m *mismatch) FailureClass() string { return m.class }

// check says whether an answer is that of a request.
func check(kind answer.Kind, request, answered *payload.Payload) error {
	wanted := kind.Length(len(request.Data))
	switch {
	case answered.GetId() != request.Id:
		return &mismatch{"body.id", "the answer has the id of another request"}
	case len(answered.GetData()) != wanted:
		return &mismatch{"body.length", fmt.Sprintf(
			"the answer carries %d bytes instead of %d; --answer says what the server was told to answer",
			len(answered.GetData()), wanted)}
	case answered.GetTimestamp() <= 0:
		return &mismatch{"body.timestamp", "the answer has no timestamp"}
	}
	return nil
}

// classOf names a failure as other load generators' are named.
func classOf(err error) string {
	var classed Classed
	var timed net.Error
	switch {
	case errors.As(err, &classed):
		return classed.FailureClass()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timed) && timed.Timeout():
		return "timeout.total"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "net.refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "net.reset.wait"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "local.fd"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "local.port"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "net.closed.wait"
	default:
		return "net.other"
	}
}

// ids are as long as each other, so that every request is.
type ids struct {
	text     [16]byte // 0a3f-0000000001c
	sequence uint64
}

const hexDigits = "0123456789abcdef"

func (i *ids) start(client int) {
	for at := range 4 {
		i.text[at] = hexDigits[client>>(4*(3-at))&15]
	}
	i.text[4] = '-'
}

func (i *ids) next() string {
	number := i.sequence
	i.sequence++
	for at := len(i.text) - 1; at > 4; at-- {
		i.text[at] = hexDigits[number&15]
		number >>= 4
	}
	return string(i.text[:])
}

// data are bytes that do not repeat soon.
func data(count int) []byte {
	data := make([]byte, count)
	state := uint32(1)
	for at := range data {
		state = state*1_664_525 + 1_013_904_223
		data[at] = byte(state >> 24)
	}
	return data
}
