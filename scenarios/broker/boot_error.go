//go:build unix

package broker

import (
	"errors"
	"strings"
)

// BootError says why a node did not come up, with the end of its log.
type BootError struct {
	Broker string
	Err    error
	// Log is the last lines that the node wrote.
	Log []string
}

// Error is the cause on one line, and the log below it.
func (e *BootError) Error() string {
	return "broker " + e.Broker + ": " + e.Err.Error() + "; the end of its log:\n    " + strings.Join(e.Log, "\n    ")
}

// Unwrap is the cause.
func (e *BootError) Unwrap() error { return e.Err }

// lastWords picks what tells why a node did not come up: what stands before
// RabbitMQ's banner of failure (the crash report after it repeats it in Erlang), else
// the last lines.
func lastWords(log []string) []string {
	const most = 15
	words := log
	for i, line := range log {
		if strings.Contains(line, "BOOT FAILED") && i > 0 {
			words = log[:i]
			break
		}
	}
	if len(words) > most {
		words = words[len(words)-most:]
	}
	return words
}

// errPortTaken: another process took a port between its choice and the boot.
var errPortTaken = errors.New("a port is taken")

// portTaken recognises that in a node's last words.
func portTaken(log []string) bool {
	text := strings.Join(log, "\n")
	for _, sign := range []string{"eaddrinuse", "address already in use", "already in use by another", "dist_port_already_used", "Address already in use", "port is already allocated"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}
