//go:build unix && !linux

package process

import (
	"os"
	"syscall"
)

func executable() (string, error) { return os.Executable() }

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit returns once the child has exited, and reaps it: there is no portable
// way to leave it a zombie. Its pid stays taken while a member of its group lives.
func awaitExit(child *os.Process) *os.ProcessState {
	state, _ := child.Wait()
	return state
}

func adoptOrphans()   {}
func reapOrphans(int) {}
func killOrphans()    {}
