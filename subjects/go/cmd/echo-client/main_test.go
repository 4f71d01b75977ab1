package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wallfinder.dev/subjects/command"
	"wallfinder.dev/subjects/echo/answer"
	"wallfinder.dev/subjects/echo/credit"
	"wallfinder.dev/subjects/echo/grpc"
	"wallfinder.dev/subjects/echo/load"
	"wallfinder.dev/subjects/echo/rest"
	"wallfinder.dev/subjects/echo/tcp"
	"wallfinder.dev/subjects/listen"
)

// serving is an echo on a free port, until the test ends.
func serving(t *testing.T, protocol, answers string) string {
	t.Helper()
	listener, err := listen.One("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	kind, err := answer.Parse(answers)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		switch protocol {
		case "rest":
			_ = rest.Serve(listener, kind)
		case "grpc":
			_ = grpc.Serve(listener, kind, grpc.Settings{})
		default:
			_ = tcp.Serve(listener, kind, credit.Policy{})
		}
	}()
	return listener.Addr().String()
}

func ran(t *testing.T, args ...string) report {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := client.Exit(args, &stdout, &stderr); code != command.Done {
		t.Fatalf("%v exits %d: %s", args, code, stderr.String())
	}
	if lines := strings.Count(stdout.String(), "\n"); lines != 1 {
		t.Errorf("%d lines on standard output", lines)
	}
	var report report
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatalf("%s: %v", stdout.String(), err)
	}
	return report
}

func TestEveryProtocolIsLoadedAndEveryLatencyWritten(t *testing.T) {
	for _, protocol := range protocols {
		address := serving(t, protocol, "echo")
		file := filepath.Join(t.TempDir(), "latencies")
		report := ran(t, protocol, "--clients", "4", "--requests", "25", "--payload", "70000",
			"--latencies", file, address)
		if report.Answered != 100 || report.Requests != 100 || len(report.Failures) != 0 || report.Ended != load.ByRequests {
			t.Errorf("%s: %+v", protocol, report)
		}
		if report.Connections != 4 || report.Opened != 4 || report.InFlight != 4 {
			t.Errorf("%s holds %d connections and opened %d", protocol, report.Connections, report.Opened)
		}
		if report.RequestBytes != 70_000+2+16+1+3+1+9 {
			t.Errorf("a request is %d bytes long", report.RequestBytes)
		}
		latency := report.Latency
		if latency.MinNs <= 0 || latency.MinNs > latency.Quantiles["p50"] || latency.Quantiles["p99.9"] > latency.MaxNs {
			t.Errorf("%s: %+v", protocol, latency)
		}
		written, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, records, _ := bytes.Cut(written, []byte("\n"))
		if len(records) != 100*8*len(load.Columns) {
			t.Fatalf("%s: %d bytes of latencies", protocol, len(records))
		}
		var sum uint64
		for at := 0; at < len(records); at += 32 {
			sum += binary.LittleEndian.Uint64(records[at+24:])
		}
		if mean := float64(sum) / 100; mean < latency.MeanNs-1 || mean > latency.MeanNs+1 {
			t.Errorf("%s: the file's mean is %f, the report's %f", protocol, mean, latency.MeanNs)
		}
	}
}

func TestClientsMayShareConnections(t *testing.T) {
	address := serving(t, "grpc", "echo")
	report := ran(t, "grpc", address, "--clients", "6", "--clients-per-channel", "3", "--requests", "5")
	if report.Connections != 2 || report.Opened != 2 || report.Answered != 30 {
		t.Errorf("%+v", report)
	}
	address = serving(t, "rest", "echo")
	report = ran(t, "rest", address, "--clients", "6", "--transport", "shared", "--requests", "5")
	// A client may find the connection of one that was sooner.
	if report.Opened < 1 || report.Opened > 12 || report.Answered != 30 {
		t.Errorf("%+v", report)
	}
	report = ran(t, "rest", address, "--body", "sized", "--read-buffer", "65536", "--requests", "5")
	if report.Answered != 5 || report.Opened != 1 {
		t.Errorf("%+v", report)
	}
}

func TestTheWindowAfterAWarmUpIsAsLongAsItWasAsked(t *testing.T) {
	for _, protocol := range protocols {
		address := serving(t, protocol, "echo")
		args := []string{protocol, "--clients", "4", "--duration", "50ms", address}
		report := ran(t, append(args, "--warmup", "80ms")...)
		if report.DurationNs != 50_000_000 || report.WarmUpNs != 80_000_000 || report.Ended != load.ByDuration {
			t.Errorf("%s: %+v", protocol, report)
		}
		// Of the window alone, or the rate would be that of more than it.
		if rate := float64(report.Answered) / 0.05; report.Answered == 0 || report.Throughput != rate {
			t.Errorf("%s: %d answers, and %f per second", protocol, report.Answered, report.Throughput)
		}
		if report = ran(t, args...); report.WarmUpNs != 0 {
			t.Errorf("%s: %+v", protocol, report)
		}
	}
	report := ran(t, "tcp", "--clients", "3", "--requests", "7", "--warmup", "30ms", serving(t, "tcp", "echo"))
	if report.Answered != 21 || report.Ended != load.ByRequests {
		t.Errorf("%+v", report)
	}
}

func TestASemaphoreIsReportedOnBothClocks(t *testing.T) {
	address := serving(t, "tcp", "echo")
	report := ran(t, "tcp", "--clients", "8", "--semaphore", "2", "--requests", "20", "tcp://"+address)
	if report.InFlight != 2 || report.Service == nil || report.Latency.MeanNs < report.Service.MeanNs {
		t.Errorf("%+v", report)
	}
}

func TestCreditIsWaitedForWhereTheServerGrantsIt(t *testing.T) {
	granting := func(policy credit.Policy) string {
		listener, err := listen.One("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() { _ = tcp.Serve(listener, answer.Kind{}, policy) }()
		return listener.Addr().String()
	}
	for name, policy := range map[string]credit.Policy{
		"a window of one byte":       credit.Window(1),
		"a window within a message":  credit.Window(7000),
		"a window for several":       credit.Window(100_000),
		"a budget for one at a time": credit.Shared(20_000),
		"a budget of less than one":  credit.Shared(10),
		"a budget for all of them":   credit.Shared(1_000_000),
	} {
		payload := "20000"
		if name == "a window of one byte" {
			payload = "100"
		}
		report := ran(t, "tcp", "--credit", "--clients", "6", "--requests", "30", "--payload", payload, granting(policy))
		if report.Answered != 180 || len(report.Failures) != 0 || !report.Credit || report.Service == nil {
			t.Errorf("%s: %+v", name, report)
		}
		if report.InFlight <= 0 || report.InFlight > 6 || report.Latency.MeanNs < report.Service.MeanNs {
			t.Errorf("%s: %f in flight, %+v", name, report.InFlight, report)
		}
	}
	if said := fails(t, "tcp", "--requests", "1", granting(credit.Window(10))); !strings.Contains(said, "use --credit") {
		t.Errorf("without credit: %q", said)
	}
	if said := fails(t, "tcp", "--credit", "--timeout", "100ms", serving(t, "tcp", "echo")); !strings.Contains(said, "no answer in time") {
		t.Errorf("a server without credit: %q", said)
	}
}

func TestAnswersOfAnotherSizeAreExpectedWhereTold(t *testing.T) {
	for _, protocol := range protocols {
		address := serving(t, protocol, "5000")
		report := ran(t, protocol, "--answer", "5000", "--duration", "20ms", address)
		if report.Answered == 0 || len(report.Failures) != 0 || report.Ended != load.ByDuration {
			t.Errorf("%s: %+v", protocol, report)
		}
		says := fails(t, protocol, "--requests", "5", address)
		if !strings.Contains(says, "--answer") {
			t.Errorf("%s says %q", protocol, says)
		}
	}
}

func fails(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := client.Exit(args, &stdout, &stderr); code != command.Failed || stdout.Len() > 0 {
		t.Errorf("%v exits %d with %q", args, code, stdout.String())
	}
	return stderr.String()
}

func TestWhatIsNoEchoIsSaid(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = http.Serve(listener, http.NotFoundHandler()) }()
	defer listener.Close()
	address := listener.Addr().String()
	for protocol, says := range map[string]string{
		"tcp":  "could not warm up",
		"rest": "answers 404",
		"grpc": "could not warm up",
	} {
		if said := fails(t, protocol, "--timeout", "300ms", address); !strings.Contains(said, says) {
			t.Errorf("%s says %q", protocol, said)
		}
	}
	if said := fails(t, "tcp", "--latencies", "/no/such/folder", address); !strings.Contains(said, "--latencies") {
		t.Errorf("says %q", said)
	}
	_ = listener.Close()
	if said := fails(t, "tcp", address); !strings.Contains(said, "refused") {
		t.Errorf("says %q", said)
	}
}

func TestProfilesAreServedWhereAsked(t *testing.T) {
	address := serving(t, "tcp", "echo")
	var stdout, stderr bytes.Buffer
	if code := client.Exit([]string{"tcp", "--pprof", "0", "--requests", "1", address}, &stdout, &stderr); code != command.Done {
		t.Fatal(stderr.String())
	}
	_, url, _ := strings.Cut(strings.TrimSpace(stderr.String()), "profiles at ")
	response, err := http.Get(url + "cmdline")
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
		"":                             "a protocol (tcp, rest, grpc) and a target",
		"udp 127.0.0.1:1":              "a protocol (tcp, rest, grpc) and a target",
		"tcp 127.0.0.1:1 more":         "a protocol (tcp, rest, grpc) and a target",
		"tcp 127.0.0.1":                "names no port",
		"tcp http://127.0.0.1:1/":      "no target of tcp",
		"rest tcp://127.0.0.1:1/":      "no target of rest",
		"tcp 192.0.2.1:1":              "is not loaded",
		"tcp 127.0.0.1:1 --requests 0": "from 1",
		"tcp 127.0.0.1:1 --requests 5 --duration 1s":           "give one",
		"tcp 127.0.0.1:1 --duration soon":                      "such as 10s",
		"tcp 127.0.0.1:1 --warmup -1s":                         "such as 10s",
		"tcp 127.0.0.1:1 --clients 10000 --requests 10000":     "each latency is kept",
		"tcp 127.0.0.1:1 --payload -1":                         "whole number",
		"tcp 127.0.0.1:1 --answer all":                         "echo, ack or a number",
		"tcp 127.0.0.1:1 --window 65535":                       "needs the protocol grpc",
		"rest 127.0.0.1:1 --credit":                            "needs the protocol tcp",
		"tcp 127.0.0.1:1 --body sized":                         "needs the protocol rest",
		"tcp 127.0.0.1:1 --read-buffer 5":                      "rest or grpc",
		"rest 127.0.0.1:1 --idle-connections 5":                "needs --transport shared",
		"grpc 127.0.0.1:1 --clients 5 --clients-per-channel 2": "no multiple",
		"grpc 127.0.0.1:1 --mutex-fraction 1":                  "needs --pprof",
		"tcp 127.0.0.1:1 --gogc 0":                             "or off",
		"tcp 127.0.0.1:1 --no-such-flag":                       "no-such-flag",
	} {
		var stdout, stderr bytes.Buffer
		if code := client.Exit(strings.Fields(args), &stdout, &stderr); code != command.BadArgs {
			t.Errorf("%s exits %d", args, code)
		}
		if !strings.Contains(stderr.String(), says) {
			t.Errorf("%s says %q", args, stderr.String())
		}
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := client.Exit([]string{"--help"}, &stdout, &stderr); code != command.Done {
		t.Errorf("--help exits %d", code)
	}
	for _, flag := range []string{"clients", "requests", "duration", "warmup", "payload", "answer", "semaphore", "credit", "timeout",
		"latencies", "clients-per-channel", "transport", "idle-connections", "body", "read-buffer", "write-buffer",
		"window", "connection-window", "buffer-pool", "gogc", "memory-limit", "pprof", "mutex-fraction", "block-rate",
		"version"} {
		if !strings.Contains(stdout.String(), "--"+flag+" ") {
			t.Errorf("--help does not name --%s", flag)
		}
	}
	stdout.Reset()
	if code := client.Exit([]string{"--version"}, &stdout, &stderr); code != command.Done || !strings.Contains(stdout.String(), "grpc") {
		t.Errorf("--version exits %d and says %q", code, stdout.String())
	}
}
