// Package testsubject runs a test's own binary as the subject that it is.
package testsubject

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// asSubject is set where the binary is to be the subject.
const asSubject = "SUBJECT_UNDER_TEST"

// Main is for TestMain: it runs the subject's main where Started has asked for
// it, and the tests elsewhere.
func Main(m *testing.M, main func()) {
	if os.Getenv(asSubject) == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Started runs the subject with some flags on a free port, until the test
// ends, and gives its start-up line.
func Started[L any](t *testing.T, flags ...string) L {
	t.Helper()
	command := exec.Command(os.Args[0], append([]string{"--port", "0"}, flags...)...)
	command.Env = append(os.Environ(), asSubject+"=1", "WALLFINDER_SUBJECT=1")
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil {
			t.Errorf("the subject did not end well: %v", err)
		}
	})
	text, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatalf("no start-up line: %v", err)
	}
	var line L
	if err := json.Unmarshal(text, &line); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return line
}
