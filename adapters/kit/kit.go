// Package kit turns a consumer library written in Go into an adapter: it speaks the adapter
// protocol over stdin and stdout, or over the Unix socket in PARKPROOF_CONTROL, and leaves to the
// author what only the library knows. The author implements [Library], reports each call of the
// handler with [Session.Handle], and calls [Main].
package kit

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

// Main is an adapter's main function. It ends the process when parkproof closes its end: with
// code 0, or with 1 and a line on stderr when the protocol could not be spoken. At a SIGTERM, as a
// deployment sends it, it closes the library, lets the handlers that run finish, and ends with code 0;
// a second one ends the process at once.
//
// From here on everything that is printed to stdout goes to stderr, so that a library that prints
// cannot garble the protocol.
func Main(lib Library) {
	if err := serve(lib); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "adapter: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(lib Library) error {
	out, err := takeStdout()
	if err != nil {
		return fmt.Errorf("taking stdout for the protocol: %w", err)
	}
	options := Options{URL: os.Getenv(protocol.EnvURL), Terminate: terminated()}
	in := io.ReadCloser(os.Stdin)
	if path := os.Getenv(protocol.EnvControl); path != "" {
		conn, err := (&net.Dialer{}).DialContext(context.Background(), "unix", path)
		if err != nil {
			return fmt.Errorf("connecting to the socket in %s: %w", protocol.EnvControl, err)
		}
		// The protocol has a channel of its own, so parkproof's end of stdout is not needed.
		_ = out.Close()
		return Run(context.Background(), lib, conn, conn, options)
	}
	return Run(context.Background(), lib, in, out, options)
}

// terminated is closed at the first SIGTERM. From then on the signal does what it does to any process.
func terminated() <-chan struct{} {
	asked, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	context.AfterFunc(asked, stop)
	return asked.Done()
}
