//go:build unix

package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// dial opens a virtual host; the context bounds the connect and the handshake.
func dial(ctx context.Context, to access, vhost string) (*amqp.Connection, error) {
	bounded, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	var raw net.Conn
	var release func() bool
	connection, err := amqp.DialConfig(to.url(vhost), amqp.Config{
		Heartbeat:  heartbeat,
		Locale:     "en_US",
		Properties: amqp.Table{"connection_name": "parkproof", "product": "parkproof"},
		Dial: func(network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(bounded, network, addr)
			if err != nil {
				return nil, err
			}
			raw = conn
			release = context.AfterFunc(bounded, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
			return conn, nil
		},
	})
	if release != nil && !release() {
		// The context ended during the handshake: whatever came out is not used.
		if connection != nil {
			connection.Close()
		}
		raw.Close()
		return nil, context.Cause(bounded)
	}
	return connection, err
}

// explain is one line about why a broker that should run did not answer.
func explain(to access, err error) error {
	where := "broker amqp://" + to.User + ":" + hidden + "@" + to.addr() + "/" + strings.TrimPrefix(to.Vhost, "/")
	var refused *amqp.Error
	switch {
	case errors.Is(err, amqp.ErrCredentials), errors.Is(err, amqp.ErrSASL):
		return fmt.Errorf("%s refuses the user name or password: check them (guest may log in from the broker's own machine only): %w", where, err)
	case errors.Is(err, amqp.ErrVhost), errors.As(err, &refused) && refused.Code == amqp.NotAllowed:
		return fmt.Errorf("%s: user %s may not open virtual host %q, or there is none: %w", where, to.User, to.Vhost, err)
	case errors.As(err, &refused):
		return fmt.Errorf("%s refuses the connection: %w", where, err)
	}
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &network) && network.Timeout()) {
		return fmt.Errorf("%s does not answer in time: check host and port: %w", where, err)
	}
	return fmt.Errorf("%s cannot be reached: is it running, and are host and port right? %w", where, err)
}
