package reference

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The roles of a client's two connections. RabbitMQ stops reading from a connection that publishes while an
// alarm is up, so the acks need another one.
const (
	roleConsume = "consume"
	rolePublish = "publish"
)

// handshakeTimeout limits one try to connect, so that a host that accepts and says nothing does not keep
// the other URLs from being tried.
const handshakeTimeout = 10 * time.Second

// goodbyeTimeout limits the closing handshake of a connection, where its caller sets no earlier limit.
const goodbyeTimeout = 5 * time.Second

// errGaveUp is what waits for a connection gets once the link no longer tries.
var errGaveUp = errors.New("gave up connecting")

// connection is one AMQP connection, with the socket under it.
type connection struct {
	*amqp.Connection
	socket net.Conn
	closes chan *amqp.Error
	blocks chan amqp.Blocking
	lost   chan struct{} // closed when the connection is no more

	mu          sync.Mutex
	blocked     chan struct{} // not nil while the broker blocks the connection; closed when it no longer does
	unblockedAt time.Time     // when it last stopped to; zero if it never has
}

// unblocked returns nil while the broker accepts publishes, and otherwise a channel that is closed when it
// does again.
func (c *connection) unblocked() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocked
}

func (c *connection) setBlocked(blocked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case blocked && c.blocked == nil:
		c.blocked = make(chan struct{})
	case !blocked && c.blocked != nil:
		close(c.blocked)
		c.blocked = nil
		c.unblockedAt = time.Now()
	}
}

// open returns for how long, at least, the broker has accepted publishes; 0 while it does not.
func (c *connection) open() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.blocked != nil:
		return 0
	case c.unblockedAt.IsZero():
		return math.MaxInt64
	}
	return time.Since(c.unblockedAt)
}

// link keeps one connection of a role: it connects again whenever the connection is lost.
type link struct {
	client *Client
	role   string

	mu      sync.Mutex
	current *connection   // nil while there is none
	changed chan struct{} // closed, and replaced, when current or failed changes
	failed  error         // set when it has given up
}

func newLink(client *Client, role string) *link {
	return &link{client: client, role: role, changed: make(chan struct{})}
}

// open is that of the present connection; where there is none, nothing is blocked.
func (l *link) open() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return math.MaxInt64
	}
	return l.current.open()
}

// get returns the connection, and waits for one where there is none.
func (l *link) get(ctx context.Context) (*connection, error) {
	for {
		l.mu.Lock()
		current, failed, changed := l.current, l.failed, l.changed
		l.mu.Unlock()
		switch {
		case failed != nil:
			return nil, failed
		case current != nil && !current.IsClosed():
			return current, nil
		case current != nil:
			// It is dead, and the link is about to notice.
			changed = current.lost
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (l *link) set(current *connection, failed error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current, l.failed = current, failed
	close(l.changed)
	l.changed = make(chan struct{})
}

// connect tries each URL until one answers, round after round, until the context ends, the client's backoff
// gives up, or, when first, no URL is worth another try.
func (l *link) connect(ctx context.Context, first bool) (*connection, error) {
	rounds := streak{backoff: l.client.opts.Backoff}
	for {
		var failures []error
		hopeless := first
		for i, url := range l.client.opts.URLs {
			conn, err := l.dial(ctx, url)
			if err == nil {
				return conn, nil
			}
			hopeless = hopeless && permanent(err)
			failures = append(failures, fmt.Errorf("connect to URL %d of %d: %w", i+1, len(l.client.opts.URLs), err))
			if ctx.Err() != nil {
				return nil, also(failures...)
			}
		}
		err := also(failures...)
		delay := rounds.next()
		if hopeless || rounds.spent() {
			l.client.diagnose(slog.LevelError, Diagnostic{Kind: KindGaveUp, Connection: l.role, Err: err})
			return nil, err
		}
		l.client.diagnose(slog.LevelWarn, Diagnostic{Kind: KindDisconnected, Connection: l.role, Delay: delay, Err: err})
		if !sleep(ctx, delay) {
			return nil, also(context.Cause(ctx), err)
		}
	}
}

// dial makes one connection. The context ends it at any point.
func (l *link) dial(ctx context.Context, url string) (_ *connection, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, handshakeTimeout, fmt.Errorf("no answer within %v", handshakeTimeout))
	defer cancel()

	var socket net.Conn
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(l.client.opts.ClientName + " (" + l.role + ")")
	var tlsConfig *tls.Config
	if l.client.opts.TLS != nil {
		tlsConfig = l.client.opts.TLS.Clone() // the dialer writes into it
	}
	// Whatever the handshake waits for, closing the socket ends it.
	stop := func() bool { return true }
	raw, err := amqp.DialConfig(url, amqp.Config{
		Heartbeat:       l.client.opts.Heartbeat,
		TLSClientConfig: tlsConfig,
		Properties:      properties,
		Dial: func(network, addr string) (net.Conn, error) {
			var dialer net.Dialer
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			socket = conn
			stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
			return conn, nil
		},
	})
	if !stop() && err == nil {
		err = errors.New("connection closed") // by the context, in the last moment of the handshake
	}
	if err != nil {
		if socket != nil {
			_ = socket.Close()
		}
		return nil, also(context.Cause(ctx), err)
	}
	// The client library watches for the broker's silence only from the first frame on that it reads once the
	// connection is open. On a link that dies before that, it would wait for ever.
	if silence := raw.Config.Heartbeat * 3 / 2; silence > 0 {
		if err := socket.SetReadDeadline(time.Now().Add(silence)); err != nil {
			_ = socket.Close()
			return nil, fmt.Errorf("watch for the broker's silence: %w", err)
		}
	}
	return &connection{
		Connection: raw,
		socket:     socket,
		// Room for the one error that a connection dies of, so that its death never waits for us.
		closes: raw.NotifyClose(make(chan *amqp.Error, 1)),
		blocks: raw.NotifyBlocked(make(chan amqp.Blocking, 1)),
		lost:   make(chan struct{}),
	}, nil
}

// keep watches the connection and replaces it, until the context ends.
func (l *link) keep(ctx context.Context, current *connection) {
	l.set(current, nil)
	for {
		err := l.watch(ctx, current)
		if ctx.Err() != nil {
			l.set(nil, errClosed)
			close(current.lost)
			return
		}
		l.set(nil, nil)
		close(current.lost)
		l.client.diagnose(slog.LevelWarn, Diagnostic{Kind: KindDisconnected, Connection: l.role, Err: err})

		current, err = l.connect(ctx, false)
		if err != nil {
			if ctx.Err() != nil {
				err = errClosed
			}
			l.set(nil, fmt.Errorf("%w: %w", errGaveUp, err))
			return
		}
		l.set(current, nil)
		l.client.diagnose(slog.LevelInfo, Diagnostic{Kind: KindReconnect, Connection: l.role})
	}
}

// watch returns when the connection is lost, or has been closed since the context ended.
func (l *link) watch(ctx context.Context, current *connection) error {
	blocks := current.blocks
	for {
		select {
		case b, ok := <-blocks:
			if !ok {
				blocks = nil // the connection is dying; closes says of what
				continue
			}
			current.setBlocked(b.Active)
			if b.Active {
				l.client.diagnose(slog.LevelWarn, Diagnostic{Kind: KindBlocked, Connection: l.role, Err: errors.New(b.Reason)})
			} else {
				l.client.diagnose(slog.LevelInfo, Diagnostic{Kind: KindUnblocked, Connection: l.role})
			}
		case reason, ok := <-current.closes:
			// A write into a dead link may be stuck in the socket with the library's locks held: end it.
			_ = current.socket.Close()
			current.setBlocked(false)
			if !ok {
				return errors.New("connection closed")
			}
			return fmt.Errorf("connection lost: %w", reason)
		case <-ctx.Done():
			l.goodbye(current)
			current.setBlocked(false)
			return errClosed
		}
	}
}

// goodbye closes the connection, politely where the broker listens.
func (l *link) goodbye(current *connection) {
	patience := time.NewTimer(l.client.patience())
	defer patience.Stop()
	done := make(chan struct{})
	if current.unblocked() != nil {
		// A blocked connection is not read by the broker: it would never answer.
		_ = current.socket.Close()
	}
	go func() {
		defer close(done)
		_ = current.Close()
	}()
	for {
		select {
		case <-done:
			_ = current.socket.Close()
			return
		case <-current.blocks: // keep reading: the connection's reader waits for its listeners
			// Closed or not, it says nothing that matters now; a closed one must not spin.
			current.blocks = nil
		case <-patience.C:
			_ = current.socket.Close()
			<-done
			return
		}
	}
}

// sleep waits, and reports whether it did so to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// sever cuts the connection without a word.
func (l *link) sever() {
	l.mu.Lock()
	current := l.current
	l.mu.Unlock()
	if current != nil {
		_ = current.socket.Close()
	}
}
