//go:build !unix || solaris || aix

package kit

import "os"

// takeStdout returns stdout for the protocol alone and points os.Stdout at stderr.
func takeStdout() (*os.File, error) {
	out := os.Stdout
	os.Stdout = os.Stderr
	return out, nil
}
