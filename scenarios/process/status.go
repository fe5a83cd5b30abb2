//go:build unix

package process

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Status is how a process ended.
type Status struct {
	// Code is its exit code; -1 when a signal ended it.
	Code int `json:"code"`
	// Signal is the signal that ended it; 0 when it exited.
	Signal syscall.Signal `json:"signal"`
}

// Success: it exited with code 0.
func (s Status) Success() bool { return s.Signal == 0 && s.Code == 0 }

// String is for example "exited with code 3" or "ended by SIGKILL".
func (s Status) String() string {
	if s.Signal == 0 {
		return fmt.Sprintf("exited with code %d", s.Code)
	}
	if name := unix.SignalName(s.Signal); name != "" {
		return "ended by " + name
	}
	return fmt.Sprintf("ended by signal %d", int(s.Signal))
}

func statusOf(state syscall.WaitStatus) Status {
	if state.Signaled() {
		return Status{Code: -1, Signal: state.Signal()}
	}
	return Status{Code: state.ExitStatus()}
}
