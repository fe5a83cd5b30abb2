package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics"
)

const (
	// ownHeartbeat of parkproof's own connection: short enough that a broker that hangs is noticed
	// within a case, long enough for one that a case pauses.
	ownHeartbeat = 10 * time.Second
	// reconnectPace is the pause between two tries to connect to a broker that has just come up: a
	// try that is refused takes less than a millisecond.
	reconnectPace = 50 * time.Millisecond
)

// errAway answers what would need a broker that the case itself has stopped or paused.
var errAway = errors.New("the broker is down, or paused: let the case start it again, or continue it, before this step")

// ownConnection is parkproof's own connection, straight to the broker. It is opened again where it is
// found closed, unless the case has the broker away.
type ownConnection struct {
	mu   sync.Mutex
	conn *amqp.Connection
	// publisher is in confirm mode; topology declares; drainer takes messages out, and is nil until it
	// is needed.
	publisher, topology, drainer *amqp.Channel
	away                         bool
}

// ownName begins the name of parkproof's own connections on the broker.
const ownName = "parkproof"

// connect opens parkproof's own connection.
func (w *World) connect(ctx context.Context) error {
	w.own.mu.Lock()
	defer w.own.mu.Unlock()
	return w.dial(ctx)
}

// dial needs the lock of the connection. Each connection has a follower and a number of its own, so
// that the ledger and its topology go on.
func (w *World) dial(ctx context.Context) error {
	follower := &ledger.Follower{
		Conn: w.number(), Add: w.Ledger.Add, Identify: w.identify,
	}
	release := func() bool { return true }
	conn, err := amqp.DialConfig(w.Broker.URL(w.vhost), amqp.Config{
		Heartbeat: ownHeartbeat, Locale: "en_US",
		Properties: amqp.Table{"connection_name": ownName + " " + w.Case, "product": ownName},
		Dial: func(network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			if err := c.SetDeadline(time.Now().Add(ours)); err != nil {
				return nil, errors.Join(err, c.Close())
			}
			// The handshake ends with the context too.
			release = context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
			return toxics.Observe(c, follower), nil
		},
	})
	if !release() && err == nil {
		err = errors.Join(ctx.Err(), conn.CloseDeadline(time.Now()))
	}
	if err != nil {
		return fmt.Errorf("connecting to the broker: %s", w.Broker.Hide(err.Error()))
	}
	w.own.conn, w.own.publisher, w.own.topology, w.own.drainer = conn, nil, nil, nil
	if _, err := w.channel(&w.own.topology, nil); err != nil {
		return err
	}
	_, err = w.channel(&w.own.publisher, w.confirms)
	return err
}

// confirms puts a channel into confirm mode.
func (w *World) confirms(ch *amqp.Channel) error {
	if err := ch.Confirm(false); err != nil {
		return fmt.Errorf("asking for confirms: %w", err)
	}
	// The ledger has the returns; the channel only has to be read.
	returns := ch.NotifyReturn(make(chan amqp.Return, 1))
	w.watchers.Go(func() {
		for range returns { //nolint:revive // drained until the channel closes
		}
	})
	return nil
}

// channel returns the channel, opened where it is not there or was closed. It needs the lock.
func (w *World) channel(of **amqp.Channel, prepare func(*amqp.Channel) error) (*amqp.Channel, error) {
	if *of != nil && !(*of).IsClosed() {
		return *of, nil
	}
	ch, err := w.own.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("opening a channel: %w", err)
	}
	if prepare != nil {
		if err := prepare(ch); err != nil {
			return nil, errors.Join(err, ch.Close())
		}
	}
	*of = ch
	return ch, nil
}

// connected makes sure that there is a connection. It needs the lock.
func (w *World) connected() error {
	switch {
	case w.own.away:
		return errAway
	case w.own.conn != nil && !w.own.conn.IsClosed():
		return nil
	}
	return w.dial(w.open)
}

// publisher is the channel for publishes, in confirm mode.
func (w *World) publisher() (*amqp.Channel, error) {
	w.own.mu.Lock()
	defer w.own.mu.Unlock()
	if err := w.connected(); err != nil {
		return nil, err
	}
	return w.channel(&w.own.publisher, w.confirms)
}

// topology is the channel for declarations.
func (w *World) topology() (*amqp.Channel, error) {
	w.own.mu.Lock()
	defer w.own.mu.Unlock()
	if err := w.connected(); err != nil {
		return nil, err
	}
	return w.channel(&w.own.topology, nil)
}

// drainer is the channel that takes messages out.
func (w *World) drainer() (*amqp.Channel, error) {
	w.own.mu.Lock()
	defer w.own.mu.Unlock()
	if err := w.connected(); err != nil {
		return nil, err
	}
	return w.channel(&w.own.drainer, nil)
}

// spare opens a channel that the broker may close: for one question, the answer to which may be no.
func (w *World) spare() (*amqp.Channel, error) {
	w.own.mu.Lock()
	defer w.own.mu.Unlock()
	if err := w.connected(); err != nil {
		return nil, err
	}
	var ch *amqp.Channel
	return w.channel(&ch, nil)
}

// leave says that the case takes the broker away: nothing is asked of it until reconnect.
func (w *World) leave() {
	w.own.mu.Lock()
	defer w.own.mu.Unlock()
	w.own.away = true
}

// isAway reports whether the case has the broker stopped or paused.
func (w *World) isAway() bool {
	w.own.mu.Lock()
	defer w.own.mu.Unlock()
	return w.own.away
}

// wasConnected reports whether there has been a connection.
func (w *World) wasConnected() bool {
	w.own.mu.Lock()
	defer w.own.mu.Unlock()
	return w.own.conn != nil
}

// reconnect opens parkproof's own connection anew, once the broker is back: what a broker that was
// killed or paused left of the old one tells nothing. A publish that it had not confirmed stays unsure
// in the ledger.
func (w *World) reconnect(ctx context.Context) error {
	w.own.mu.Lock()
	defer w.own.mu.Unlock()
	if c := w.own.conn; c != nil && !c.IsClosed() {
		_ = c.CloseDeadline(time.Now().Add(reconnectPace)) // it may have no other side any more
	}
	ctx, cancel := context.WithTimeout(ctx, ours)
	defer cancel()
	pace := time.NewTicker(reconnectPace)
	defer pace.Stop()
	for {
		err := w.dial(ctx)
		if err == nil {
			w.own.away = false
			return nil
		}
		select {
		case <-ctx.Done():
			return cmp.Or(err, ctx.Err())
		case <-pace.C:
		}
	}
}

// disconnect closes parkproof's own connection.
func (w *World) disconnect() error {
	w.own.mu.Lock()
	defer w.own.mu.Unlock()
	if w.own.conn == nil || w.own.conn.IsClosed() {
		return nil
	}
	if w.own.away {
		_ = w.own.conn.CloseDeadline(time.Now()) // nobody answers
		return nil
	}
	if err := w.own.conn.CloseDeadline(time.Now().Add(ours)); err != nil && !errors.Is(err, amqp.ErrClosed) {
		return fmt.Errorf("closing parkproof's own connection: %w", err)
	}
	return nil
}
