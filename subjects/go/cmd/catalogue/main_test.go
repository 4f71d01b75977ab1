package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"wallfinder.dev/subjects/catalogue/products"
	"wallfinder.dev/subjects/catalogue/routes"
	"wallfinder.dev/subjects/lifetime"
)

// The tests run this command from outside: the test binary starts itself
// again, in one of the roles below.
const (
	roleVariable  = "CATALOGUE_TEST_ROLE"
	roleCatalogue = "catalogue" // is the command
	roleStarter   = "starter"   // starts the command, and waits to be killed
)

// patience bounds every wait; nothing here should take a tenth of it.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case roleCatalogue:
		main()
	case roleStarter:
		command := invocation(os.Args[1:]...)
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		command.Env = append(command.Env, lifetime.SubjectVariable+"=1")
		if err := command.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	default:
		os.Exit(m.Run())
	}
}

func invocation(args ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), roleVariable+"="+roleCatalogue)
	return command
}

// subject is a running catalogue that has said that it listens.
type subject struct {
	startupLine
	process *os.Process
	stderr  *bytes.Buffer
	rest    chan string // what came on standard output after the first line
	command *exec.Cmd
}

// startCatalogue runs the command on a free port until the test ends.
func startCatalogue(t *testing.T, args ...string) *subject {
	t.Helper()
	return launch(t, invocation(append([]string{"--port", "0"}, args...)...))
}

func launch(t *testing.T, command *exec.Cmd) *subject {
	t.Helper()
	s := &subject{stderr: new(bytes.Buffer), rest: make(chan string, 1), command: command}
	command.Stderr = s.stderr
	command.WaitDelay = patience
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	s.process = command.Process
	t.Cleanup(func() {
		s.process.Kill()
		for _, child := range s.Children { // in case the kernel was not asked to
			syscall.Kill(child, syscall.SIGKILL)
		}
		command.Wait()
	})

	output.(*os.File).SetReadDeadline(time.Now().Add(patience))
	reader := bufio.NewReader(output)
	line, err := reader.ReadBytes('\n')
	if err != nil {
		s.process.Kill()
		command.Wait()
		t.Fatalf("no start-up line: %v\n%s", err, s.stderr)
	}
	output.(*os.File).SetReadDeadline(time.Time{})
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s.startupLine); err != nil {
		t.Fatalf("start-up line %q: %v", line, err)
	}
	go func() {
		rest, _ := io.ReadAll(reader)
		s.rest <- string(rest)
	}()
	return s
}

// family is every process of the subject.
func (s *subject) family() []int { return append([]int{s.PID}, s.Children...) }

// exitCode waits for the end of the process that was started.
func (s *subject) exitCode(t *testing.T) int {
	t.Helper()
	timer := time.AfterFunc(patience, func() { s.process.Kill() })
	defer timer.Stop()
	if rest := <-s.rest; rest != "" {
		t.Errorf("more than one line on standard output: %q", rest)
	}
	s.command.Wait()
	return s.command.ProcessState.ExitCode()
}

// runs reports whether a process exists and is no zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	afterName := stat[bytes.LastIndexByte(stat, ')')+1:]
	return !bytes.HasPrefix(afterName, []byte(" Z"))
}

// eventually fails the test if a condition does not come true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long until %s", what)
		}
	}
}

// holders lists which of some processes have a socket that listens on an address.
func holders(t *testing.T, address string, pids []int) []int {
	t.Helper()
	inodes := listeningInodes(t, address)
	var found []int
	for _, pid := range pids {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			t.Fatal(err)
		}
		holds := slices.ContainsFunc(links, func(link string) bool {
			target, _ := os.Readlink(link)
			return inodes[target]
		})
		if holds {
			found = append(found, pid)
		}
	}
	return found
}

// listeningInodes are the sockets in state LISTEN on a port of 127.0.0.1, as
// /proc/PID/fd names them.
func listeningInodes(t *testing.T, address string) map[string]bool {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	const stateListen = "0A"
	inodes := make(map[string]bool)
	for line := range strings.Lines(string(table)) {
		columns := strings.Fields(line)
		if columns[1] == fmt.Sprintf("0100007F:%04X", number) && columns[3] == stateListen {
			inodes["socket:["+columns[9]+"]"] = true
		}
	}
	return inodes
}

func get(t *testing.T, address, path string) string {
	t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	response, err := client.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", path, response.Status)
	}
	return string(body)
}

func TestStartupLineDescribesTheSubject(t *testing.T) {
	for _, server := range []string{"fiber", "fasthttp", "nethttp"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			s := startCatalogue(t, "--server", server)
			if s.Server != server || s.PID != s.process.Pid || len(s.Children) != 0 || s.Prefork || len(s.Pprof) != 0 {
				t.Errorf("unexpected line: %+v", s.startupLine)
			}
			if s.GOMAXPROCS < 1 || s.Seed != 1 || s.Products != 500 || s.WriteBuffer != 4096 {
				t.Errorf("unexpected line: %+v", s.startupLine)
			}
			if s.ReadBytesMean < 4_400 || s.ReadBytesMean > 4_640 || s.GzipBytesMean < 2_230 || s.GzipBytesMean > 2_350 ||
				s.GzipRatio < 1.93 || s.GzipRatio > 2.01 {
				t.Errorf("sizes: %+v", s.content)
			}
			for _, name := range []string{"catalogue", "go"} {
				if s.Versions[name] == "" {
					t.Errorf("no version of %s: %v", name, s.Versions)
				}
			}
			if got := holders(t, s.Listening, s.family()); !slices.Equal(got, s.family()) {
				t.Errorf("processes that listen: %v, want %v", got, s.family())
			}
			if got := get(t, s.Listening, "/simple"); got != `{"message":"hi"}` {
				t.Errorf("/simple answers %q", got)
			}
		})
	}
}

func TestSignalsEndTheSubjectWithZero(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		for _, args := range [][]string{{}, {"--prefork", "--children", "2", "--pprof", "0"}} {
			t.Run(fmt.Sprint(signal, args), func(t *testing.T) {
				t.Parallel()
				s := startCatalogue(t, args...)
				if err := s.process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				if code := s.exitCode(t); code != 0 {
					t.Errorf("exit code %d, want 0; %s", code, s.stderr)
				}
				if s.stderr.Len() > 0 {
					t.Errorf("complaints on standard error: %s", s.stderr)
				}
				for _, pid := range s.family() {
					if runs(pid) {
						t.Errorf("process %d still runs", pid)
					}
				}
			})
		}
	}
}

func TestPreforkChildrenServeOnOnePort(t *testing.T) {
	for _, server := range []string{"fiber", "fasthttp", "nethttp"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			s := startCatalogue(t, "--server", server, "--prefork", "--children", "3", "--pprof", "0")
			if len(s.Children) != 3 || s.GOMAXPROCS != 1 || !s.Prefork || slices.Contains(s.Children, s.PID) {
				t.Errorf("unexpected line: %+v", s.startupLine)
			}
			if got := holders(t, s.Listening, s.family()); !slices.Equal(got, s.Children) {
				t.Errorf("processes that listen: %v, want the children %v", got, s.Children)
			}
			if sockets := len(listeningInodes(t, s.Listening)); sockets != 3 {
				t.Errorf("%d sockets listen, want one per child", sockets)
			}
			if len(s.Pprof) != 4 {
				t.Fatalf("%d profile ports, want 4", len(s.Pprof))
			}
			for i, pid := range s.family() {
				if got := holders(t, s.Pprof[i], s.family()); !slices.Equal(got, []int{pid}) {
					t.Errorf("profile port %d belongs to %v, want %d", i, got, pid)
				}
				for _, profile := range []string{"mutex", "block", "heap", "profile?seconds=1"} {
					if profile == "profile?seconds=1" && i > 1 {
						continue // one child is enough for the slow one
					}
					if body := get(t, s.Pprof[i], "/debug/pprof/"+profile); !strings.HasPrefix(body, "\x1f\x8b") {
						t.Errorf("process %d: %s is no profile: %.40q", i, profile, body)
					}
				}
			}
		})
	}
}

func TestPreforkChildrenServeTheSameSequence(t *testing.T) {
	const connections = 60
	s := startCatalogue(t, "--prefork", "--children", "2", "--seed", "3")
	served := make(map[string]int)
	for range connections {
		served[get(t, s.Listening, "/read")]++
	}
	var sequence []string
	for _, route := range routes.New(products.NewPool(3, 500), 3) {
		for range connections {
			if route.Path == "/read" {
				sequence = append(sequence, string(route.Answer()))
			}
		}
	}
	// Each child walks the sequence from its start, so some split of the
	// connections between the two must explain what was served.
	for first := 1; first < connections; first++ {
		expected := make(map[string]int)
		for _, body := range slices.Concat(sequence[:first], sequence[:connections-first]) {
			expected[body]++
		}
		if maps.Equal(expected, served) {
			return
		}
	}
	t.Error("no split of the connections between two like children explains the answers")
}

func TestKillingTheParentEndsTheChildren(t *testing.T) {
	s := startCatalogue(t, "--prefork", "--children", "3")
	if err := s.process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range s.Children {
		eventually(t, fmt.Sprintf("child %d has ended", pid), func() bool { return !runs(pid) })
	}
}

func TestLosingAChildEndsTheFamilyWithAReason(t *testing.T) {
	s := startCatalogue(t, "--prefork", "--children", "2")
	if err := syscall.Kill(s.Children[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := s.exitCode(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if want := fmt.Sprintf("child 1 (pid %d) ended: signal: killed", s.Children[1]); !strings.Contains(s.stderr.String(), want) {
		t.Errorf("standard error %q does not say %q", s.stderr, want)
	}
	if runs(s.Children[0]) {
		t.Error("the other child still runs")
	}
}

func TestChildrenLeaveSignalsToTheirParent(t *testing.T) {
	s := startCatalogue(t, "--prefork", "--children", "2")
	for _, pid := range s.Children {
		syscall.Kill(pid, syscall.SIGINT)
		syscall.Kill(pid, syscall.SIGTERM)
	}
	for range 20 { // enough connections to meet both
		get(t, s.Listening, "/simple")
	}
	for _, pid := range s.Children {
		if !runs(pid) {
			t.Errorf("child %d has ended", pid)
		}
	}
}

func TestASubjectEndsWithItsStarter(t *testing.T) {
	for _, args := range [][]string{{}, {"--prefork", "--children", "2"}} {
		t.Run(fmt.Sprint(args), func(t *testing.T) {
			starter := invocation(append([]string{"--port", "0"}, args...)...)
			starter.Env = append(os.Environ(), roleVariable+"="+roleStarter)
			s := launch(t, starter)
			if s.PID == s.process.Pid {
				t.Fatal("the subject is its own starter")
			}
			if err := s.process.Kill(); err != nil {
				t.Fatal(err)
			}
			for _, pid := range s.family() {
				eventually(t, fmt.Sprintf("process %d has ended", pid), func() bool { return !runs(pid) })
			}
		})
	}
}

func TestAPortInUseIsNamedWithTheWayOut(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())

	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--port", port}, "--port"},
		{[]string{"--port", port, "--prefork", "--children", "2"}, "--port"},
		{[]string{"--port", "0", "--pprof", port}, "--pprof"},
		{[]string{"--port", "0", "--pprof", port, "--prefork", "--children", "2"}, "--pprof"},
	} {
		code, stdout, stderr := runToEnd(t, test.args...)
		if code != 1 || stdout != "" {
			t.Errorf("%v: exit code %d and output %q, want 1 and nothing", test.args, code, stdout)
		}
		for _, want := range []string{taken.Addr().String(), "in use", test.want} {
			if !strings.Contains(stderr, want) {
				t.Errorf("%v: standard error %q does not say %q", test.args, stderr, want)
			}
		}
	}
}

func TestBadArgumentsExitWithTwo(t *testing.T) {
	code, stdout, stderr := runToEnd(t, "--server", "apache")
	if code != 2 || stdout != "" || !strings.Contains(stderr, "fiber, fasthttp, nethttp") || !strings.Contains(stderr, "--help") {
		t.Errorf("exit code %d, output %q, standard error %q", code, stdout, stderr)
	}
}

func TestVersionAndHelpExitWithZero(t *testing.T) {
	code, stdout, _ := runToEnd(t, "--version")
	if code != 0 || !strings.HasPrefix(stdout, "catalogue "+version+" (") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("--version: exit code %d, output %q", code, stdout)
	}
	code, stdout, _ = runToEnd(t, "--help")
	if code != 0 || stdout != usage {
		t.Errorf("--help: exit code %d, output %q", code, stdout)
	}
}

func TestAStrayChildMarkIsExplained(t *testing.T) {
	stray := invocation("--port", "0")
	stray.Env = append(stray.Env, "WALLFINDER_PREFORK_CHILD=0/1")
	var stderr bytes.Buffer
	stray.Stderr = &stderr
	var failed *exec.ExitError
	if err := stray.Run(); !errors.As(err, &failed) || failed.ExitCode() != 1 || !strings.Contains(stderr.String(), "unset it") {
		t.Errorf("%v, standard error %q", err, &stderr)
	}
}

// runToEnd runs the command where it should not keep running.
func runToEnd(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	command := invocation(args...)
	var out, err bytes.Buffer
	command.Stdout, command.Stderr = &out, &err
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { command.Process.Kill() })
	defer timer.Stop()
	command.Wait()
	return command.ProcessState.ExitCode(), out.String(), err.String()
}
