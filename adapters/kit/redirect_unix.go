//go:build unix && !linux && !solaris && !aix

package kit

import (
	"os"
	"syscall"
)

// redirect makes the descriptor to mean what from means.
func redirect(from, to int) error { return os.NewSyscallError("dup2", syscall.Dup2(from, to)) }
