package adapter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/scenarios/process"
)

// control is the Unix socket that an adapter speaks the protocol on, where its stdout is not free
// for it: some libraries print.
type control struct {
	folder   string
	listener *net.UnixListener
}

// openControl makes the socket, in a folder that nobody else can enter.
func openControl() (*control, error) {
	folder, err := os.MkdirTemp("", "parkproof-control-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the adapter's socket: %w", err)
	}
	c := &control{folder: folder}
	c.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(folder, "s"), Net: "unix"})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the adapter's socket: %w", err), c.close())
	}
	return c, nil
}

// variable names the socket to the adapter, as KEY=value.
func (c *control) variable() string { return protocol.EnvControl + "=" + c.listener.Addr().String() }

// accept waits until the adapter has connected, its process has ended or the context has.
func (c *control) accept(ctx context.Context, p *process.Process) (*net.UnixConn, error) {
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-p.Done():
		case <-ctx.Done():
		case <-over:
		}
		_ = c.listener.Close()
	}()
	conn, err := c.listener.AcceptUnix()
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, &BrokenError{Text: "the adapter did not connect in time to the socket in " + protocol.EnvControl}
	}
	if status, ended := p.Status(); ended {
		return nil, &BrokenError{Text: fmt.Sprintf("the adapter ended (%s) before it connected to the socket in %s", status, protocol.EnvControl)}
	}
	return nil, fmt.Errorf("waiting for the adapter on its socket: %w", err)
}

func (c *control) close() error {
	var err error
	if c.listener != nil {
		if closed := c.listener.Close(); !errors.Is(closed, net.ErrClosed) {
			err = closed
		}
	}
	return errors.Join(err, os.RemoveAll(c.folder))
}

// writeHalf is a connection whose Close ends the writing only: what the adapter still says is read.
type writeHalf struct{ *net.UnixConn }

func (w writeHalf) Close() error { return w.CloseWrite() }
