//go:build unix

// Package process runs child processes that never outlive this one.
//
// The program that imports it acts as supervisor too: [Start] runs this very
// executable a second time, and that copy starts the command in a process group
// of its own and watches a pipe whose other end only the first process holds.
// When that end closes, however it came about (a return from main, a crash,
// SIGKILL), the supervisor kills the group, removes the folders it was told to,
// and ends.
//
// On Linux the supervisor adopts orphans, so a descendant that left the group
// (a daemon) is killed as well once its own parent is gone. Elsewhere a
// descendant that left the group is out of reach: start such a program in the
// foreground, as a command of its own.
package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// MaxGrace bounds Command.Grace, so that nothing is left 5 s after the death of
// the process that called Start: what remains is for the kill and the removal.
const MaxGrace = 3 * time.Second

// Command says what to start and how.
type Command struct {
	// Path is the program: a path with a slash, or a name looked up in PATH.
	Path string
	// Args are its arguments, without the program's own name.
	Args []string
	// Env is its environment as KEY=value; nil stands for this process's.
	Env []string
	// Dir is its working directory; "" stands for this process's.
	Dir string

	// Stdin, Stdout and Stderr are as in os/exec: an *os.File is handed to the
	// child itself, nil is the null device, anything else is copied by a
	// goroutine of this process.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// PipeStdin, PipeStdout and PipeStderr ask for real pipes instead, whose
	// other ends are Process.Stdin, Stdout and Stderr.
	PipeStdin, PipeStdout, PipeStderr bool
	// ExtraFiles become the child's file descriptors 3, 4, ...
	ExtraFiles []*os.File

	// Grace is the time between SIGTERM and SIGKILL when this process has died;
	// 0 kills at once. At most MaxGrace.
	Grace time.Duration
	// RemoveOnExit are absolute paths of folders that the supervisor removes when
	// this process has died. An ordinary end of the child removes nothing.
	RemoveOnExit []string
}

// resolve checks the command and returns the program's path.
func (c Command) resolve() (string, error) {
	if c.Path == "" {
		return "", &StartError{Err: errors.New("no program is named")}
	}
	if c.Grace < 0 || c.Grace > MaxGrace {
		return "", &StartError{Path: c.Path, Err: fmt.Errorf("grace %s is outside 0..%s", c.Grace, MaxGrace)}
	}
	for _, folder := range c.RemoveOnExit {
		// A supervisor removes whole trees with nobody left to ask: what can
		// only be a mistake is refused.
		if clean := filepath.Clean(folder); !filepath.IsAbs(folder) || clean == filepath.Dir(clean) {
			return "", &StartError{Path: c.Path, Err: fmt.Errorf("refusing to remove %q: not an absolute path below /", folder)}
		}
	}
	if c.Dir != "" {
		info, err := os.Stat(c.Dir)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a folder", c.Dir)
		}
		if err != nil {
			return "", &StartError{Path: c.Path, Err: fmt.Errorf("working directory: %w", err)}
		}
	}
	if strings.ContainsRune(c.Path, filepath.Separator) {
		path := c.Path
		if !filepath.IsAbs(path) && c.Dir != "" {
			path = filepath.Join(c.Dir, path)
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return "", &StartError{Path: c.Path, Err: err}
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return "", &StartError{Path: c.Path, Err: fmt.Errorf("it is a folder: %w", fs.ErrPermission)}
		}
		return path, nil
	}
	path, err := exec.LookPath(c.Path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", &StartError{Path: c.Path, Err: err}
	}
	return path, nil
}

// environment is the child's, without what would make it a supervisor.
func (c Command) environment() []string {
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	kept := make([]string, 0, len(env))
	for _, pair := range env {
		if !strings.HasPrefix(pair, superviseVariable+"=") {
			kept = append(kept, pair)
		}
	}
	return kept
}
