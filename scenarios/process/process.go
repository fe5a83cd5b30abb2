//go:build unix

package process

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// copyWait bounds how long Wait waits for the last output after the exit: a
	// descendant out of reach may hold the pipe open for ever.
	copyWait = time.Second
	// orphanWait bounds the wait for a killed child whose supervisor died first.
	orphanWait = 5 * time.Second
)

// Process is a running child. Its methods may be called from any goroutine, also
// after its end.
type Process struct {
	// Stdin, Stdout and Stderr are this process's ends of the pipes that the
	// Command asked for, else nil. The caller reads Stdout and Stderr to their
	// end and closes them.
	Stdin          io.WriteCloser
	Stdout, Stderr io.ReadCloser

	path string
	pid  int
	done chan struct{}

	mu     sync.Mutex // guards ended: no signal is sent to a pid that may be another's
	ended  bool
	status Status

	wiring *wiring
}

// Start starts the command under a supervisor and returns once it runs. A command
// that cannot be started is a *StartError. The context bounds the start alone; the
// process that has started lives until Stop, Kill or the death of this process.
func Start(ctx context.Context, command Command) (*Process, error) {
	path, err := command.resolve()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	program, err := executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: find this program: %w", command.Path, err)
	}
	wired, err := wire(command)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	lifelineRead, lifeline, err := os.Pipe()
	if err != nil {
		wired.closeChild()
		wired.close()
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	reports, reportWrite, err := os.Pipe()
	if err != nil {
		wired.closeChild()
		wired.close()
		lifelineRead.Close()
		lifeline.Close()
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}

	supervisor := exec.Command(program)
	supervisor.Args = []string{"parkproof: supervisor of " + filepath.Base(path)}
	supervisor.Env = append(os.Environ(), superviseVariable+"=1",
		// It waits on two pipes: one processor, and no garbage worth collecting.
		"GOMAXPROCS=1", "GOGC=off",
		// A program built with -race sleeps 1 s when it exits.
		"GORACE=atexit_sleep_ms=0")
	supervisor.ExtraFiles = append([]*os.File{lifelineRead, reportWrite}, wired.child...)
	// Ctrl-C in a terminal goes to the foreground group: not to this one.
	supervisor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = supervisor.Start()
	lifelineRead.Close()
	reportWrite.Close()
	wired.closeChild()
	if err != nil {
		wired.close()
		lifeline.Close()
		reports.Close()
		return nil, fmt.Errorf("start %s: start its supervisor: %w", command.Path, err)
	}
	// From here on, closing the lifeline ends the supervisor and all it started.
	abandon := func() {
		lifeline.Close()
		_ = supervisor.Wait()
		reports.Close()
		wired.close()
	}

	text, err := json.Marshal(order{
		Path: path, Argv: append([]string{command.Path}, command.Args...), Env: command.environment(),
		Dir: command.Dir, Extra: len(command.ExtraFiles), Grace: command.Grace, Remove: command.RemoveOnExit,
	})
	if err != nil {
		abandon()
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	message := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	// Both pipes obey the context: a deadline in the past ends what waits.
	release := context.AfterFunc(ctx, func() {
		_ = lifeline.SetWriteDeadline(time.Unix(1, 0))
		_ = reports.SetReadDeadline(time.Unix(1, 0))
	})
	decoder := json.NewDecoder(reports)
	var first report
	_, err = lifeline.Write(message)
	if err == nil {
		err = decoder.Decode(&first)
	}
	if !release() {
		abandon()
		return nil, fmt.Errorf("start %s: %w", command.Path, context.Cause(ctx))
	}
	if err != nil {
		abandon()
		return nil, fmt.Errorf("start %s: its supervisor ended early (is SuperviseIfAsked the first call in main?): %w", command.Path, err)
	}
	if first.Pid == 0 {
		abandon()
		if first.Errno != 0 {
			return nil, &StartError{Path: path, Err: first.Errno}
		}
		return nil, &StartError{Path: command.Path, Err: errors.New(first.Failed)}
	}

	process := &Process{
		Stdin: wired.stdin(), Stdout: wired.stdout(), Stderr: wired.stderr(),
		path: command.Path, pid: first.Pid, done: make(chan struct{}), wiring: wired,
	}
	wired.startCopies()
	go process.watch(supervisor, decoder, lifeline, reports)
	return process, nil
}

// watch takes the exit from the supervisor and lets it go.
func (p *Process) watch(supervisor *exec.Cmd, decoder *json.Decoder, lifeline, reports *os.File) {
	var last report
	err := decoder.Decode(&last)
	if err != nil || last.Exit == nil {
		// The supervisor was killed: do its work.
		last.Exit = &Status{Code: -1, Signal: syscall.SIGKILL}
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		for deadline := time.Now().Add(orphanWait); time.Now().Before(deadline); time.Sleep(pollPause) {
			if syscall.Kill(-p.pid, 0) == syscall.ESRCH {
				break
			}
		}
	}
	p.mu.Lock()
	p.ended, p.status = true, *last.Exit
	p.mu.Unlock()
	_, _ = lifeline.Write([]byte{1}) // seen: the folders stay
	lifeline.Close()
	reports.Close()
	p.wiring.finish()
	close(p.done)
	_ = supervisor.Wait() // it has nothing left to do
}

// Pid is the child's own process id, and its group's.
func (p *Process) Pid() int { return p.pid }

// Done is closed once the exit was seen and nothing of the group is left.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status is how the process ended; false while it runs.
func (p *Process) Status() (Status, bool) {
	select {
	case <-p.done:
		return p.status, true
	default:
		return Status{}, false
	}
}

// Wait waits for the end, and for output that goroutines of this process copy.
func (p *Process) Wait(ctx context.Context) (Status, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		return Status{}, fmt.Errorf("wait for %s (pid %d): %w", p.path, p.pid, context.Cause(ctx))
	}
	select {
	case <-p.wiring.copied:
	case <-ctx.Done():
	}
	return p.status, nil
}

// Signal sends a signal to the whole group. After the end it is
// os.ErrProcessDone.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return os.ErrProcessDone
	}
	err := syscall.Kill(-p.pid, sig)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("send %s to %s (pid %d): %w", sig, p.path, p.pid, err)
	}
	return nil
}

// Pause stops the whole group (SIGSTOP), not its supervisor.
func (p *Process) Pause() error { return p.Signal(syscall.SIGSTOP) }

// Resume continues a paused group (SIGCONT).
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Kill kills the whole group (SIGKILL) and returns when its exit was seen.
func (p *Process) Kill(ctx context.Context) (Status, error) {
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return Status{}, err
	}
	return p.ending(ctx)
}

// Stop asks the group to end (SIGTERM, and SIGCONT for one that is paused), waits
// for the grace, and kills it then, or when the context ends. It returns when the
// exit was seen.
func (p *Process) Stop(ctx context.Context, grace time.Duration) (Status, error) {
	if p.Signal(syscall.SIGTERM) == nil {
		_ = p.Resume()
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.status, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	// The kill is not the context's to prevent.
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), orphanWait)
	defer cancel()
	return p.Kill(patient)
}

func (p *Process) ending(ctx context.Context) (Status, error) {
	select {
	case <-p.done:
		return p.status, nil
	case <-ctx.Done():
		return Status{}, fmt.Errorf("wait for the end of %s (pid %d): %w", p.path, p.pid, context.Cause(ctx))
	}
}
