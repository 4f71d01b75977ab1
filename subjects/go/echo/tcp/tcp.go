// Package tcp is the echo on a plain stream: each message follows its length,
// four bytes, the most significant first.
package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/protobuf/proto"

	"wallfinder.dev/subjects/echo/answer"
	"wallfinder.dev/subjects/echo/credit"
	"wallfinder.dev/subjects/echo/payload"
)

const (
	lengthBytes     = 4
	messageBytesMax = answer.BytesMax + 1024
)

// Serve answers connections, a goroutine for each, until the listener closes.
func Serve(listener net.Listener, kind answer.Kind, policy credit.Policy) error {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer connection.Close()
			// What ends a connection is its client's affair, and the next one's none.
			_ = converse(connection, kind, policy)
		}()
	}
}

// converse answers message after message. Its buffers live as long as the
// connection: nothing of the protocol itself is allocated for a message.
func converse(stream io.ReadWriter, kind answer.Kind, policy credit.Policy) error {
	receiver, err := policy.Receive(stream)
	if err != nil {
		return err
	}
	defer receiver.Close()
	var (
		message  payload.Payload
		request  []byte
		response []byte
	)
	length := make([]byte, lengthBytes)
	for {
		if _, err := io.ReadFull(stream, length); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		count := binary.BigEndian.Uint32(length)
		if count > messageBytesMax {
			return fmt.Errorf("a message of %d bytes: at most %d are taken", count, messageBytesMax)
		}
		request = resized(request, int(count))
		if err := receiver.Read(stream, request); err != nil {
			return err
		}
		if err := proto.Unmarshal(request, &message); err != nil {
			return err
		}
		kind.To(&message)
		response = receiver.AppendOwed(response[:0])
		begin := len(response) + lengthBytes
		var err error
		response, err = proto.MarshalOptions{}.MarshalAppend(append(response, length...), &message)
		if err != nil {
			return err
		}
		binary.BigEndian.PutUint32(response[begin-lengthBytes:], uint32(len(response)-begin))
		// One write for length and message: two would be two packets, or wait for each other.
		if _, err := stream.Write(response); err != nil {
			return err
		}
		receiver.Answered()
	}
}

func resized(buffer []byte, length int) []byte {
	if cap(buffer) < length {
		return make([]byte, length)
	}
	return buffer[:length]
}
