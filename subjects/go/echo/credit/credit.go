// Package credit is the extension of the echo's frame by which the receiver of
// requests says how much may be sent to it: docs/framed-credit.md.
//
// A word with its highest bit set is a grant of as many bytes as its other bits
// say; any other is the length of the message behind it. It knows no payload.
package credit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// WordBytes is the length of a length or a grant.
const WordBytes = 4

const (
	mark = 1 << 31
	// BytesMax is the most that may be granted and not be used yet.
	BytesMax = mark - 1
)

// Of returns what a word grants, if it is a grant.
func Of(word uint32) (bytes int, isGrant bool) {
	return int(word &^ mark), word&mark != 0
}

// appendGrant appends a grant.
func appendGrant(to []byte, bytes int) []byte {
	return binary.BigEndian.AppendUint32(to, mark|uint32(bytes))
}

// Policy says how a server grants. The zero value speaks no credit.
type Policy struct {
	window int
	budget *budget
}

// Window gives every connection so many bytes.
func Window(bytes int) Policy { return Policy{window: bytes} }

// Shared gives all connections so many bytes together.
func Shared(bytes int) Policy { return Policy{budget: &budget{total: bytes, left: bytes}} }

// String is empty where no credit is spoken.
func (p Policy) String() string {
	switch {
	case p.window > 0:
		return fmt.Sprintf("%d for each connection", p.window)
	case p.budget != nil:
		return fmt.Sprintf("%d for all", p.budget.total)
	default:
		return ""
	}
}

// Receiver is the receiving end of one connection. It must be closed, so that
// others get what it holds.
type Receiver struct {
	Policy
	outstanding int // granted, and not read
	owed        int // read, and not granted again
	taken       int // out of the budget
	word        []byte
}

// Receive begins a connection, with the first grant.
func (p Policy) Receive(stream io.Writer) (*Receiver, error) {
	receiver := &Receiver{Policy: p}
	if p.window == 0 && p.budget == nil {
		return receiver, nil
	}
	return receiver, receiver.grant(stream, p.window)
}

func (r *Receiver) grant(stream io.Writer, bytes int) error {
	r.word = appendGrant(r.word[:0], bytes)
	r.outstanding += bytes
	_, err := stream.Write(r.word)
	return err
}

// errOverrun is a peer that sends what it was not granted.
var errOverrun = errors.New("the client sends without credit")

// Read reads a message whose length has come, and grants what it lacks.
func (r *Receiver) Read(stream io.ReadWriter, message []byte) error {
	switch {
	case r.window > 0:
		return r.readWindow(stream, message)
	case r.budget != nil && len(message) > 0:
		r.taken = min(len(message), r.budget.total)
		r.budget.take(r.taken)
		if err := r.grant(stream, len(message)); err != nil {
			return err
		}
		r.outstanding = 0
	}
	_, err := io.ReadFull(stream, message)
	return err
}

func (r *Receiver) readWindow(stream io.ReadWriter, message []byte) error {
	for at := 0; at < len(message); {
		// One more than may come: then what came too early is seen.
		end := min(len(message), at+r.outstanding+1)
		count, err := stream.Read(message[at:end])
		if count > r.outstanding {
			return errOverrun
		}
		at += count
		r.outstanding -= count
		r.owed += count
		if at == len(message) {
			return nil
		}
		if err != nil {
			return unexpected(err)
		}
		if 2*r.owed >= r.window || r.outstanding == 0 {
			owed := r.owed
			r.owed = 0
			if err := r.grant(stream, owed); err != nil {
				return err
			}
		}
	}
	return nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// AppendOwed appends a grant of what has been read, if there is any to give
// back: it travels in front of the answer.
func (r *Receiver) AppendOwed(to []byte) []byte {
	if r.owed == 0 {
		return to
	}
	r.outstanding += r.owed
	to = appendGrant(to, r.owed)
	r.owed = 0
	return to
}

// Answered gives back what the last message took out of the budget.
func (r *Receiver) Answered() {
	if r.taken > 0 {
		r.budget.give(r.taken)
		r.taken = 0
	}
}

// Close gives back what the connection holds.
func (r *Receiver) Close() { r.Answered() }

// budget is what all connections have together, first come, first served.
type budget struct {
	total int

	mutex sync.Mutex
	left  int
	line  []waiter
}

type waiter struct {
	bytes int
	turn  chan struct{}
}

// take waits for its turn, and for as many bytes.
func (b *budget) take(bytes int) {
	b.mutex.Lock()
	if len(b.line) == 0 && bytes <= b.left {
		b.left -= bytes
		b.mutex.Unlock()
		return
	}
	turn := make(chan struct{})
	b.line = append(b.line, waiter{bytes, turn})
	b.mutex.Unlock()
	<-turn
}

func (b *budget) give(bytes int) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.left += bytes
	for len(b.line) > 0 && b.line[0].bytes <= b.left {
		b.left -= b.line[0].bytes
		close(b.line[0].turn)
		b.line = b.line[1:]
	}
}

// Sender is the sending end of one connection.
type Sender struct {
	left  int // bytes that may be sent
	begun bool
}

// What a receiver can do wrong.
var (
	errNoCredit = errors.New("the server speaks no credit: start it with --credit or --credit-shared")
	errOverflow = fmt.Errorf("the server grants more than %d bytes", BytesMax)
	errNothing  = errors.New("the server grants nothing")
)

// Grant takes a grant, which the first word must be.
func (s *Sender) Grant(word uint32) error {
	bytes, isGrant := Of(word)
	switch {
	case !isGrant && !s.begun:
		return errNoCredit
	case !isGrant:
		return errors.New("an answer to a request that was not sent whole")
	case bytes == 0 && s.begun:
		return errNothing
	case bytes > BytesMax-s.left:
		return errOverflow
	}
	s.begun = true
	s.left += bytes
	return nil
}

// Take takes as much of the credit as so many bytes need, and says how many may be sent.
func (s *Sender) Take(bytes int) int {
	bytes = min(bytes, s.left)
	s.left -= bytes
	return bytes
}
