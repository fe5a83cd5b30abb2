//go:build unix && !solaris && !aix

package kit

import (
	"os"
	"syscall"
)

// takeStdout returns stdout for the protocol alone and points both os.Stdout and file descriptor
// 1 at stderr. The descriptor matters because loggers keep the os.Stdout that they found when
// their package was initialised, and C code knows no other.
func takeStdout() (*os.File, error) {
	// Children must not inherit it: one that outlives the adapter would hold the pipe open.
	syscall.ForkLock.RLock()
	fd, err := syscall.Dup(1)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	out := os.NewFile(uintptr(fd), "protocol")
	if err := redirect(2, 1); err != nil {
		_ = out.Close()
		return nil, err
	}
	os.Stdout = os.Stderr
	return out, nil
}
