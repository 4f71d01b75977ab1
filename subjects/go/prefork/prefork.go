// Package prefork runs a server as a family of processes: a parent that serves
// nothing, and children that share its port. It is one mechanism for every
// server, so that a comparison of servers does not compare mechanisms.
//
// To a client, and to someone looking at the processes, it is Fiber's own
// prefork: N children, each with one listening socket of an SO_REUSEPORT group.
// Behind that it differs in three ways. The parent opens the sockets and hands
// them down, so a port in use is reported once, before anything is started. A
// child says when it serves. And a child dies with its parent at once, by
// the kernel's hand, instead of noticing within half a second. Fiber also sets
// TCP_DEFER_ACCEPT and TCP_FASTOPEN, and only in prefork; they act while a
// connection opens, and are left out so that prefork on and off differ in
// processes alone.
//
//	parent                                  child n
//	Start ── exec self, sockets as files ─► Inherit
//	Ready ◄──────────── report ──────────── Ready
//	Ended ◄──────────── exit ──────────────
//	Stop  ──────────── SIGKILL ───────────►
package prefork

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// childVariable marks a child: "INDEX/LISTENERS".
const childVariable = "WALLFINDER_PREFORK_CHILD"

// Descriptors a child starts with, after the standard three.
const (
	reportDescriptor        = 3
	firstListenerDescriptor = 4
)

// reportBytesMax bounds what a child may report.
const reportBytesMax = 1 << 16

// Family is the children of this process.
type Family struct {
	children []*child
	ended    chan error
}

type child struct {
	index   int
	command *exec.Cmd
	report  *os.File      // the parent's end of the child's report
	gone    chan struct{} // closed when the child has ended and been waited for
	failure error         // how it ended; read after gone
}

// Start runs this program again, with its own arguments, once per element of
// listeners, and hands each child the sockets of its element. The sockets stay
// open here; close them once Start has returned, or a dead child's share of
// the connections would wait for ever.
//
// The kernel kills the children when the calling thread ends, so Start ties
// the calling goroutine to its thread. Call it from one that lasts as long as
// the family.
func Start(listeners [][]*net.TCPListener) (_ *Family, err error) {
	runtime.LockOSThread()
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program to start children: %w", err)
	}
	family := &Family{ended: make(chan error, len(listeners))}
	for index, sockets := range listeners {
		child, err := startChild(program, index, sockets)
		if err != nil {
			family.Stop()
			return nil, fmt.Errorf("cannot start child %d: %w", index, err)
		}
		family.children = append(family.children, child)
		go func() {
			child.wait()
			family.ended <- child.failure
		}()
	}
	return family, nil
}

func startChild(program string, index int, sockets []*net.TCPListener) (*child, error) {
	reportRead, reportWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reportWrite.Close()
	files := []*os.File{reportWrite}
	for _, socket := range sockets {
		file, err := socket.File()
		if err != nil {
			reportRead.Close()
			return nil, err
		}
		defer file.Close()
		files = append(files, file)
	}

	command := exec.Command(program, os.Args[1:]...)
	command.Args[0] = os.Args[0]
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%d/%d", childVariable, index, len(sockets)))
	command.Stdout = os.Stderr // standard output is the parent's, for one line
	command.Stderr = os.Stderr
	command.ExtraFiles = files
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		reportRead.Close()
		return nil, err
	}
	return &child{index: index, command: command, report: reportRead, gone: make(chan struct{})}, nil
}

func (c *child) wait() {
	c.failure = fmt.Errorf("child %d (pid %d) ended: %s", c.index, c.command.Process.Pid, outcome(c.command.Wait()))
	close(c.gone)
}

func outcome(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// PIDs lists the children in the order of Start's argument.
func (f *Family) PIDs() []int {
	pids := make([]int, len(f.children))
	for i, child := range f.children {
		pids[i] = child.command.Process.Pid
	}
	return pids
}

// Ready waits until every child has reported that it serves, and returns the
// reports in order. It fails if a child ends instead, or takes too long.
func (f *Family) Ready(timeout time.Duration) ([][]byte, error) {
	deadline := time.Now().Add(timeout)
	reports := make([][]byte, len(f.children))
	for i, child := range f.children {
		report, err := child.awaitReport(deadline)
		if err != nil {
			return nil, err
		}
		reports[i] = report
	}
	return reports, nil
}

func (c *child) awaitReport(deadline time.Time) ([]byte, error) {
	defer c.report.Close()
	if err := c.report.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	report, err := io.ReadAll(io.LimitReader(c.report, reportBytesMax))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("child %d (pid %d) does not serve yet, and should by now", c.index, c.command.Process.Pid)
	case err != nil:
		return nil, fmt.Errorf("child %d (pid %d) cannot be heard: %w", c.index, c.command.Process.Pid, err)
	case len(report) == 0: // the kernel closed the pipe, for a child that is ending
		<-c.gone
		return nil, c.failure
	default:
		return report, nil
	}
}

// Ended receives one error for each child that ends, whatever the reason:
// while the family serves, none should.
func (f *Family) Ended() <-chan error { return f.ended }

// Stop kills the children and returns when all are gone. They get no warning:
// a server under load has nothing to save.
func (f *Family) Stop() {
	for _, child := range f.children {
		_ = child.command.Process.Kill() // fails only for one that has ended
	}
	for _, child := range f.children {
		<-child.gone
	}
}

// Child is this process, where it was started by Start.
type Child struct {
	Index     int
	Listeners []net.Listener
	report    *os.File
}

// Inherit takes what the parent handed down. In a process that is no child it
// returns nil.
func Inherit() (*Child, error) {
	mark, isChild := os.LookupEnv(childVariable)
	if !isChild {
		return nil, nil
	}
	c := &Child{report: os.NewFile(reportDescriptor, "report")}
	var count int
	if _, err := fmt.Fscanf(strings.NewReader(mark), "%d/%d", &c.Index, &count); err != nil {
		return nil, fmt.Errorf("%s=%q marks no child; unset it", childVariable, mark)
	}
	for i := range count {
		file := os.NewFile(uintptr(firstListenerDescriptor+i), "listener")
		listener, err := net.FileListener(file)
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s=%q, but no parent handed down its sockets; unset it: %w", childVariable, mark, err)
		}
		c.Listeners = append(c.Listeners, listener)
	}
	return c, nil
}

// Ready tells the parent that this child serves. The report must not be empty.
func (c *Child) Ready(report []byte) error {
	_, err := c.report.Write(report)
	return errors.Join(err, c.report.Close())
}
