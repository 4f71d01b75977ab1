// Package lifetime says when a subject ends: on a signal, or with the tool
// that started it.
package lifetime

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// SubjectVariable is set to 1 in the environment of a subject that must not
// outlive the tool.
const SubjectVariable = "WALLFINDER_SUBJECT"

// FollowStarter has the kernel kill this process when the thread that started
// it ends, if SubjectVariable asks for it. Call it first of all in main, which
// runs on a thread that lives as long as the process.
func FollowStarter() error {
	if os.Getenv(SubjectVariable) != "1" {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("%s=1, but the kernel will not tie this process to its starter: %w", SubjectVariable, err)
	}
	return nil
}

// Ended receives the signals that ask a subject to end. Call it early: a
// signal before the call kills the process outright.
func Ended() <-chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	return signals
}

// Wait returns when a signal of Ended comes, or with what failed before.
func Wait(signals <-chan os.Signal, failed <-chan error) error {
	select {
	case <-signals:
		return nil
	case err := <-failed:
		return err
	}
}

// IgnoreSignals leaves the end of a child to its parent. A terminal's Ctrl-C
// reaches the whole family; only the parent may answer it.
func IgnoreSignals() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
}
