package kit

import (
	"os"
	"syscall"
)

// redirect makes the descriptor to mean what from means. Not every Linux has dup2.
func redirect(from, to int) error { return os.NewSyscallError("dup3", syscall.Dup3(from, to, 0)) }
