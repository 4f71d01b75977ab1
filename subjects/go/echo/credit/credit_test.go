package credit

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"time"
)

// stream gives bytes to read, in pieces, and keeps what is written.
type stream struct {
	pieces  [][]byte
	written bytes.Buffer
}

func (s *stream) Read(into []byte) (int, error) {
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	count := copy(into, s.pieces[0])
	if s.pieces[0] = s.pieces[0][count:]; len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	return count, nil
}

func (s *stream) Write(b []byte) (int, error) { return s.written.Write(b) }

func (s *stream) said(t *testing.T, words ...uint32) {
	t.Helper()
	var wanted []byte
	for _, word := range words {
		wanted = append(wanted, byte(word>>24), byte(word>>16), byte(word>>8), byte(word))
	}
	if !bytes.Equal(s.written.Bytes(), wanted) {
		t.Errorf("wrote %x instead of %x", s.written.Bytes(), wanted)
	}
	s.written.Reset()
}

func began(t *testing.T, policy Policy, stream *stream) *Receiver {
	t.Helper()
	receiver, err := policy.Receive(stream)
	if err != nil {
		t.Fatal(err)
	}
	return receiver
}

func TestAWindowIsGrantedAndGivenBackInFrontOfTheAnswer(t *testing.T) {
	s := &stream{pieces: [][]byte{make([]byte, 94)}}
	receiver := began(t, Window(65_536), s)
	s.said(t, 0x8001_0000)
	if err := receiver.Read(s, make([]byte, 94)); err != nil {
		t.Fatal(err)
	}
	s.said(t)
	if owed := receiver.AppendOwed([]byte{7}); !bytes.Equal(owed, []byte{7, 0x80, 0, 0, 94}) {
		t.Errorf("%x", owed)
	}
	if owed := receiver.AppendOwed(nil); owed != nil {
		t.Errorf("given back twice: %x", owed)
	}
}

func TestWithinALongMessageHalfAWindowIsGivenBackAtATime(t *testing.T) {
	s := &stream{pieces: [][]byte{make([]byte, 3), make([]byte, 4), make([]byte, 3), make([]byte, 5)}}
	receiver := began(t, Window(10), s)
	s.said(t, 0x8000_000a)
	if err := receiver.Read(s, make([]byte, 15)); err != nil {
		t.Fatal(err)
	}
	// 3 are not half of it, 7 are; then 3, and the last 5 end the message.
	s.said(t, 0x8000_0007)
	if owed := receiver.AppendOwed(nil); !bytes.Equal(owed, []byte{0x80, 0, 0, 8}) {
		t.Errorf("%x", owed)
	}
}

func TestBytesWithoutCreditAreSeen(t *testing.T) {
	s := &stream{pieces: [][]byte{make([]byte, 11)}}
	receiver := began(t, Window(10), s)
	if err := receiver.Read(s, make([]byte, 15)); !errors.Is(err, errOverrun) {
		t.Errorf("%v", err)
	}
	s = &stream{pieces: [][]byte{make([]byte, 3)}}
	receiver = began(t, Window(10), s)
	if err := receiver.Read(s, make([]byte, 5)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a message cut short: %v", err)
	}
}

func TestABudgetIsForOneAfterTheOther(t *testing.T) {
	policy := Shared(100)
	streams := make([]*stream, 4)
	order := make(chan int, 4)
	receivers := make([]*Receiver, 4)
	// The second waits for all of it, and the third, which would fit, behind the second.
	lengths := []int{60, 500, 40, 0}
	for nth, length := range lengths {
		streams[nth] = &stream{pieces: [][]byte{make([]byte, length)}}
		receivers[nth] = began(t, policy, streams[nth])
		streams[nth].said(t, 0x8000_0000)
	}
	read := func(nth int) {
		if err := receivers[nth].Read(streams[nth], make([]byte, lengths[nth])); err != nil {
			t.Error(err)
		}
		order <- nth
	}
	read(0)
	streams[0].said(t, 0x8000_0000|60)
	for nth := 1; nth < 3; nth++ {
		go read(nth)
		for waiting := 0; waiting < nth; time.Sleep(time.Millisecond) {
			policy.budget.mutex.Lock()
			waiting = len(policy.budget.line)
			policy.budget.mutex.Unlock()
		}
	}
	// One of no bytes needs no turn.
	read(3)
	receivers[0].Answered()
	seen := []int{<-order, <-order, <-order}
	receivers[1].Close()
	seen = append(seen, <-order)
	receivers[1].Close()
	receivers[2].Answered()
	if !slices.Equal(seen, []int{0, 3, 1, 2}) || policy.budget.left != 100 {
		t.Errorf("%v, %d left", seen, policy.budget.left)
	}
	streams[1].said(t, 0x8000_0000|500)
}

func TestAServerThatSpeaksNoCreditOrTooMuchIsLeft(t *testing.T) {
	sender := Sender{}
	if err := sender.Grant(94); !errors.Is(err, errNoCredit) {
		t.Errorf("%v", err)
	}
	if err := sender.Grant(0x8000_0000); err != nil {
		t.Errorf("the first may grant nothing: %v", err)
	}
	if err := sender.Grant(0x8000_0000); !errors.Is(err, errNothing) {
		t.Errorf("%v", err)
	}
	if sender.Take(5) != 0 {
		t.Error("there was nothing to take")
	}
	if err := sender.Grant(0xffff_ffff); err != nil || sender.Take(5) != 5 || sender.Take(BytesMax) != BytesMax-5 {
		t.Errorf("%v", err)
	}
	if sender.Grant(0xffff_ffff) != nil || !errors.Is(sender.Grant(0x8000_0001), errOverflow) {
		t.Error("credit is bounded")
	}
}

func TestWithoutAPolicyNothingIsSaid(t *testing.T) {
	s := &stream{pieces: [][]byte{make([]byte, 5)}}
	receiver := began(t, Policy{}, s)
	if err := receiver.Read(s, make([]byte, 5)); err != nil || receiver.AppendOwed(nil) != nil {
		t.Errorf("%v", err)
	}
	receiver.Close()
	s.said(t)
}
