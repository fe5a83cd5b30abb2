//go:build unix

package process

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// superviseVariable makes this executable a supervisor.
const superviseVariable = "PARKPROOF_SUPERVISE"

// The supervisor's file descriptors; its own stdin, stdout and stderr are the
// null device, so that it holds no end of the child's pipes.
const (
	fdLifeline = 3 + iota // read end: the order, then one byte, then end of file
	fdReport              // write end: report values
	fdStdin               // the child's stdin, stdout, stderr and extra files follow
	fdStdout
	fdStderr
	fdExtra
)

const (
	// killWait bounds the wait for a killed process to be gone; SIGKILL takes
	// milliseconds unless the kernel is stuck in I/O.
	killWait = time.Second
	// removeWait bounds the removal of folders: another process that still
	// writes there makes one pass fail.
	removeWait = 800 * time.Millisecond
	// pollPause is the pause between two looks at what has no event.
	pollPause = 5 * time.Millisecond
)

// order is what the supervisor is told to do, as JSON with a length before it.
type order struct {
	Path   string        `json:"path"`
	Argv   []string      `json:"argv"`
	Env    []string      `json:"env"`
	Dir    string        `json:"dir,omitempty"`
	Extra  int           `json:"extra,omitempty"`
	Grace  time.Duration `json:"grace,omitempty"`
	Remove []string      `json:"remove,omitempty"`
}

// report is what the supervisor says back: first Pid or Failed, then Exit.
type report struct {
	Pid    int           `json:"pid,omitempty"`
	Failed string        `json:"failed,omitempty"`
	Errno  syscall.Errno `json:"errno,omitempty"`
	Exit   *Status       `json:"exit,omitempty"`
}

// A program's packages are initialised before main: doing it here already
// spares the supervisor the initialisation of the packages that sort after this
// one, in time and in memory.
func init() { SuperviseIfAsked() }

// SuperviseIfAsked turns this process into a supervisor if Start started it as
// one, and then never returns. It is the first line of main and of TestMain.
func SuperviseIfAsked() {
	if os.Getenv(superviseVariable) == "" {
		return
	}
	// Linux sends the parent-death signal when the starting thread ends.
	runtime.LockOSThread()
	os.Exit(supervise())
}

func supervise() int {
	// These signals are meant for the process that watches over us (Ctrl-C goes
	// to a whole terminal). They are caught and not ignored, because an ignored
	// signal stays ignored in the child.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP)

	syscall.CloseOnExec(fdLifeline)
	syscall.CloseOnExec(fdReport)
	lifeline := os.NewFile(fdLifeline, "lifeline")
	reports := json.NewEncoder(os.NewFile(fdReport, "report"))

	var length uint32
	var ordered order
	if err := binary.Read(lifeline, binary.BigEndian, &length); err != nil {
		return 0 // the starter died before it said what to start
	}
	if err := json.NewDecoder(io.LimitReader(lifeline, int64(length))).Decode(&ordered); err != nil {
		_ = reports.Encode(report{Failed: "the order is unreadable: " + err.Error()})
		return 1
	}

	adoptOrphans()
	var files []*os.File
	for fd := fdStdin; fd < fdExtra+ordered.Extra; fd++ {
		syscall.CloseOnExec(fd)
		files = append(files, os.NewFile(uintptr(fd), "child"))
	}
	child, err := os.StartProcess(ordered.Path, ordered.Argv, &os.ProcAttr{
		Dir: ordered.Dir, Env: ordered.Env, Files: files, Sys: childAttributes(),
	})
	for _, file := range files {
		file.Close()
	}
	if err != nil {
		failed := report{Failed: err.Error()}
		_ = errors.As(err, &failed.Errno)
		_ = reports.Encode(failed)
		return 0
	}
	group := child.Pid

	exited := make(chan *os.ProcessState, 1)
	go func() { exited <- awaitExit(child) }()
	go reapOrphans(group)
	// acknowledged gets the byte that says the exit was seen; it is closed at
	// end of file, which means that the starter is gone.
	acknowledged := make(chan struct{})
	go func() {
		defer close(acknowledged)
		one := make([]byte, 1)
		if n, _ := lifeline.Read(one); n == 1 {
			acknowledged <- struct{}{}
		}
	}()

	_ = reports.Encode(report{Pid: group}) // a starter that is gone closes the lifeline
	select {
	case state := <-exited:
		status := clearGroup(child, state)
		_ = reports.Encode(report{Exit: &status})
		// The pid stays taken in the starter's mind until it acknowledges; only
		// then may it be forgotten here.
		if _, seen := <-acknowledged; seen {
			return 0
		}
	case <-acknowledged:
		if ordered.Grace > 0 {
			_ = syscall.Kill(-group, syscall.SIGTERM)
			_ = syscall.Kill(-group, syscall.SIGCONT) // a stopped process gets no SIGTERM
			select {
			case state := <-exited:
				exited <- state
			case <-time.After(ordered.Grace):
			}
		}
		_ = syscall.Kill(-group, syscall.SIGKILL)
		select {
		case state := <-exited:
			clearGroup(child, state)
		case <-time.After(killWait):
		}
	}
	remove(ordered.Remove)
	return 0
}

// clearGroup leaves nothing of the group once its leader has exited, and returns
// how the leader ended. state is nil while the leader has not been reaped.
func clearGroup(leader *os.Process, state *os.ProcessState) Status {
	group := leader.Pid
	_ = syscall.Kill(-group, syscall.SIGKILL)
	if state == nil {
		state, _ = leader.Wait()
	}
	status := Status{Code: -1, Signal: syscall.SIGKILL}
	if state != nil {
		status = statusOf(state.Sys().(syscall.WaitStatus))
	}
	killOrphans()
	// What could not be adopted is reaped by another process: give it the
	// moment that dying takes.
	for deadline := time.Now().Add(killWait); time.Now().Before(deadline); time.Sleep(pollPause) {
		if syscall.Kill(-group, 0) == syscall.ESRCH {
			break
		}
	}
	return status
}

func remove(folders []string) {
	deadline := time.Now().Add(removeWait)
	for _, folder := range folders {
		for os.RemoveAll(folder) != nil && time.Now().Before(deadline) {
			time.Sleep(pollPause)
		}
	}
}
