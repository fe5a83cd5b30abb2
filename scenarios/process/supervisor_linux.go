package process

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// executable is this process's own program, also after its file was replaced or
// removed (go run does).
func executable() (string, error) { return "/proc/self/exe", nil }

// childAttributes: a group of its own; and, should the supervisor itself be
// killed, the leader dies with it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns once the child has exited, and leaves it a zombie: its pid,
// which is the group's id, stays taken until the group has been killed. A nil state says
// that the child was not reaped.
func awaitExit(child *os.Process) *os.ProcessState {
	for {
		err := unix.Waitid(unix.P_PID, child.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return nil
		}
	}
}

// adoptOrphans makes this process the parent of every descendant whose own
// parent ends, also of those that left the group.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// reapOrphans takes the exit status of adopted children, so that none stays a
// zombie for as long as the leader lives.
func reapOrphans(leader int) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for range ended {
		for _, pid := range children() {
			if pid != leader {
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		}
	}
}

// killOrphans kills and reaps the adopted children until none is left.
func killOrphans() {
	for deadline := time.Now().Add(killWait); time.Now().Before(deadline); time.Sleep(pollPause) {
		left := children()
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// children are the pids of this process's children; none where the kernel does
// not list them.
func children() []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid()))
	var pids []int
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
