//go:build unix

package process

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// StartError says why a command could not be started. errors.Is finds
// fs.ErrNotExist (also for a name that is not in PATH) and fs.ErrPermission.
type StartError struct {
	// Path is the program as the caller named it.
	Path string
	// Err is the cause.
	Err error
}

// Error is one line that says what to put right.
func (e *StartError) Error() string {
	switch {
	case e.Path == "":
		return fmt.Sprintf("cannot start a process: %v", e.Err)
	case errors.Is(e.Err, exec.ErrNotFound):
		return fmt.Sprintf("cannot start %s: no program of that name in PATH", e.Path)
	case e.missingFile():
		if interpreter := interpreterOf(e.Path); interpreter != "" {
			return fmt.Sprintf("cannot start %s: its interpreter %s is not there", e.Path, interpreter)
		}
		return fmt.Sprintf("cannot start %s: no such file", e.Path)
	case errors.Is(e.Err, syscall.EACCES):
		return fmt.Sprintf("cannot start %s: no permission to execute it (chmod +x?)", e.Path)
	case errors.Is(e.Err, syscall.ENOEXEC):
		return fmt.Sprintf("cannot start %s: it is neither a program for this machine nor a script with a #! line", e.Path)
	}
	return fmt.Sprintf("cannot start %s: %v", e.Path, e.Err)
}

// Unwrap is the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Is makes a name that is not in PATH a missing file.
func (e *StartError) Is(target error) bool {
	return target == fs.ErrNotExist && errors.Is(e.Err, exec.ErrNotFound)
}

// missingFile: the exec itself said ENOENT (a missing folder is another error).
func (e *StartError) missingFile() bool {
	errno, bare := e.Err.(syscall.Errno)
	return bare && errno == syscall.ENOENT
}

// interpreterOf is the #! program of a script that is there, else "".
func interpreterOf(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	line, _ := bufio.NewReaderSize(file, 256).ReadString('\n')
	rest, isScript := strings.CutPrefix(line, "#!")
	fields := strings.Fields(rest)
	if !isScript || len(fields) == 0 {
		return ""
	}
	return fields[0]
}
