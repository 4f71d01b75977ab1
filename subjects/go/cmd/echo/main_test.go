package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"wallfinder.dev/subjects/command"
	"wallfinder.dev/subjects/echo/payload"
	"wallfinder.dev/subjects/echo/rest"
	"wallfinder.dev/subjects/testsubject"
)

func TestMain(m *testing.M) { testsubject.Main(m, main) }

func started(t *testing.T, flags ...string) startupLine {
	t.Helper()
	return testsubject.Started[startupLine](t, flags...)
}

// caller sends one payload over a protocol, and gives back what came.
type caller func(t *testing.T, address string, request *payload.Payload) *payload.Payload

var callers = map[string]caller{"tcp": callTCP, "rest": callREST, "grpc": callGRPC}

func TestEveryProtocolGivesThePayloadBack(t *testing.T) {
	for protocol, call := range callers {
		line := started(t, "--protocol", protocol)
		if line.Protocol != protocol || line.Answer != "echo" {
			t.Errorf("%s announces %+v", protocol, line)
		}
		for _, size := range []int{0, 64, 65_536, 1 << 20} {
			before := time.Now().UnixNano()
			request := &payload.Payload{Id: "r-1", Data: bytes.Repeat([]byte{7}, size), Timestamp: 1}
			response := call(t, line.Listening, request)
			if response.Id != "r-1" || !bytes.Equal(response.Data, request.Data) {
				t.Errorf("%s: %d bytes came back as %q with %d", protocol, size, response.Id, len(response.Data))
			}
			if response.Timestamp < before || response.Timestamp > time.Now().UnixNano() {
				t.Errorf("%s: the timestamp %d is not the server's", protocol, response.Timestamp)
			}
		}
	}
}

func TestAnswersMayBeOfAnotherSize(t *testing.T) {
	for protocol, call := range callers {
		for answer, size := range map[string]int{"ack": 0, "5000": 5000} {
			line := started(t, "--protocol", protocol, "--answer", answer)
			response := call(t, line.Listening, &payload.Payload{Id: "r", Data: []byte("abc")})
			if response.Id != "r" || len(response.Data) != size {
				t.Errorf("%s answers %s with %d bytes", protocol, answer, len(response.Data))
			}
		}
	}
}

func TestTheTransportOfGRPCCanBeChosen(t *testing.T) {
	for _, pool := range []string{"none", "256,4096,32768,65536", "default"} {
		line := started(t, "--protocol", "grpc", "--buffer-pool", pool, "--read-buffer", "8192",
			"--write-buffer", "8192", "--window", "1048576", "--connection-window", "1048576")
		if line.Pool != pool {
			t.Errorf("announces the pool %q", line.Pool)
		}
		response := callGRPC(t, line.Listening, &payload.Payload{Data: make([]byte, 40_000)})
		if len(response.Data) != 40_000 {
			t.Errorf("%s: %d bytes came back", pool, len(response.Data))
		}
	}
}

func TestATCPClientThatBreaksTheFrameIsLeft(t *testing.T) {
	line := started(t)
	connection, err := net.Dial("tcp", line.Listening)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := connection.Write([]byte{0xff, 0xff, 0xff, 0xff, 0}); err != nil {
		t.Fatal(err)
	}
	_ = connection.SetReadDeadline(time.Now().Add(5 * time.Second))
	if count, err := connection.Read(make([]byte, 1)); count != 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("read %d, %v: the connection should be closed", count, err)
	}
	// The server goes on.
	if callTCP(t, line.Listening, &payload.Payload{Id: "next"}).Id != "next" {
		t.Error("the next client is not answered")
	}
}

func TestRESTRefusesWhatIsNoPayload(t *testing.T) {
	line := started(t, "--protocol", "rest")
	for path, status := range map[string]int{"/echo": http.StatusBadRequest, "/": http.StatusNotFound} {
		response, err := http.Post("http://"+line.Listening+path, rest.ContentType, strings.NewReader("\xff\xff"))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != status {
			t.Errorf("%s answers %d", path, response.StatusCode)
		}
	}
}

func TestProfilesAreServedWhereAsked(t *testing.T) {
	line := started(t, "--pprof", "0")
	if len(line.Pprof) != 1 {
		t.Fatalf("announces %v", line.Pprof)
	}
	response, err := http.Get("http://" + line.Pprof[0] + "/debug/pprof/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("answers %d", response.StatusCode)
	}
}

func TestBadArgumentsAreNamed(t *testing.T) {
	for args, says := range map[string]string{
		"--protocol udp":                  "tcp, rest, grpc",
		"--answer -1":                     "echo, ack or a number",
		"--port 65536":                    "from 0 to 65535",
		"--window 100 --protocol grpc":    "from 65535",
		"--window 65535":                  "needs --protocol grpc",
		"--credit 5 --credit-shared 5":    "give one",
		"--credit 5 --protocol rest":      "needs --protocol tcp",
		"--credit 0":                      "from 1",
		"--buffer-pool x --protocol grpc": "tiers in bytes",
		"--mutex-fraction 1":              "needs --pprof",
		"--gogc 0":                        "or off",
		"--memory-limit 10":               "whole number",
		"now":                             "everything is a flag",
	} {
		var stdout, stderr bytes.Buffer
		if code := echo.Exit(strings.Fields(args), &stdout, &stderr); code != command.BadArgs {
			t.Errorf("%s exits %d", args, code)
		}
		if !strings.Contains(stderr.String(), says) {
			t.Errorf("%s says %q", args, stderr.String())
		}
	}
}

func TestHelpNamesEveryFlagAndVersionEveryLibrary(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := echo.Exit([]string{"--help"}, &stdout, &stderr); code != command.Done {
		t.Errorf("--help exits %d", code)
	}
	for _, flag := range []string{"protocol", "host", "port", "answer", "credit", "credit-shared", "read-buffer", "write-buffer", "window",
		"connection-window", "buffer-pool", "gogc", "memory-limit", "pprof", "mutex-fraction", "block-rate", "version"} {
		if !strings.Contains(stdout.String(), "--"+flag+" ") {
			t.Errorf("--help does not name --%s", flag)
		}
	}
	stdout.Reset()
	if code := echo.Exit([]string{"--version"}, &stdout, &stderr); code != command.Done || !strings.Contains(stdout.String(), "grpc") {
		t.Errorf("--version exits %d and says %q", code, stdout.String())
	}
}

func callTCP(t *testing.T, address string, request *payload.Payload) *payload.Payload {
	t.Helper()
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	encoded := encode(t, request)
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(encoded)))
	if _, err := connection.Write(append(frame, encoded...)); err != nil {
		t.Fatal(err)
	}
	length := make([]byte, 4)
	if _, err := io.ReadFull(connection, length); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, binary.BigEndian.Uint32(length))
	if _, err := io.ReadFull(connection, answer); err != nil {
		t.Fatal(err)
	}
	return decode(t, answer)
}

func callREST(t *testing.T, address string, request *payload.Payload) *payload.Payload {
	t.Helper()
	response, err := http.Post("http://"+address+"/echo", rest.ContentType, bytes.NewReader(encode(t, request)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v", response.StatusCode, err)
	}
	return decode(t, body)
}

func callGRPC(t *testing.T, address string, request *payload.Payload) *payload.Payload {
	t.Helper()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	response, err := payload.NewEchoClient(connection).Call(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func encode(t *testing.T, message *payload.Payload) []byte {
	t.Helper()
	encoded, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func decode(t *testing.T, encoded []byte) *payload.Payload {
	t.Helper()
	var message payload.Payload
	if err := proto.Unmarshal(encoded, &message); err != nil {
		t.Fatal(err)
	}
	return &message
}
