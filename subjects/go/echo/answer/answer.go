// Package answer decides what the echo gives back, in every protocol alike.
package answer

import (
	"fmt"
	"strconv"
	"time"

	"wallfinder.dev/subjects/echo/payload"
)

// BytesMax bounds what an answer may carry.
const BytesMax = 16 << 20

// Kind is what an answer's data are: those of the request, or so many bytes of
// the server's own.
type Kind struct {
	own  bool
	data []byte
}

// Parse reads echo, ack (no data) or a number of bytes.
func Parse(text string) (Kind, error) {
	switch text {
	case "echo":
		return Kind{}, nil
	case "ack":
		return Kind{own: true}, nil
	}
	bytes, err := strconv.Atoi(text)
	if err != nil || bytes < 0 || bytes > BytesMax {
		return Kind{}, fmt.Errorf("must be echo, ack or a number of bytes up to %d", BytesMax)
	}
	return Kind{own: true, data: make([]byte, bytes)}, nil
}

// To turns a request into its answer, in place.
func (k Kind) To(message *payload.Payload) {
	if k.own {
		message.Data = k.data
	}
	message.Timestamp = time.Now().UnixNano()
}

// String is what Parse reads.
func (k Kind) String() string {
	switch {
	case !k.own:
		return "echo"
	case len(k.data) == 0:
		return "ack"
	default:
		return strconv.Itoa(len(k.data))
	}
}

// Length is how many bytes the answer to a request of so many carries.
func (k Kind) Length(request int) int {
	if k.own {
		return len(k.data)
	}
	return request
}
