//go:build unix

package broker

import (
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestOnlyTheListedConnectionsAreClosed closes with rabbitmqctl and, as on a broker that runs, with the
// management API, which lists a new connection late.
func TestOnlyTheListedConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	own := localBroker(t)
	remote, err := Start(within(t, 20*time.Second), parse(t, own.URL("/")+"?management="+own.ManagementURL()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Stop(within(t, time.Second))
	for _, b := range []*Broker{own, remote} {
		t.Run(string(b.Provider()), func(t *testing.T) {
			name := vhost(t, own)
			dial := func(client string) (*amqp.Connection, chan *amqp.Error) {
				t.Helper()
				c, err := amqp.DialConfig(own.URL(name), amqp.Config{Properties: amqp.Table{"connection_name": client}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				return c, c.NotifyClose(make(chan *amqp.Error, 1))
			}
			kept, _ := dial("kept")
			_, first := dial("consumer")
			_, second := dial("consumer")
			var listed []Connection
			eventually(t, 15*time.Second, "all three are listed", func() bool {
				var err error
				if listed, err = b.Connections(within(t, 20*time.Second), name); err != nil {
					t.Fatal(err)
				}
				return len(listed) == 3
			})
			listed = slices.DeleteFunc(listed, func(c Connection) bool { return c.Client == "kept" })
			if b.Can(Control) {
				n, err := b.CloseClients(within(t, 20*time.Second), name, "kept", "why not")
				if err != nil || n != 2 {
					t.Fatalf("%d closed, %v", n, err)
				}
			} else if err := b.CloseListed(within(t, 20*time.Second), listed, "why not"); err != nil {
				t.Fatal(err)
			}
			for _, closed := range []chan *amqp.Error{first, second} {
				select {
				case err := <-closed:
					if err == nil || err.Code != amqp.ConnectionForced {
						t.Errorf("it was closed with %v", err)
					}
				case <-time.After(10 * time.Second):
					t.Error("a connection that was listed stays open")
				}
			}
			if _, err := kept.Channel(); err != nil {
				t.Errorf("a connection that was not listed: %v", err)
			}
			if err := b.CloseListed(within(t, 20*time.Second), listed, "again"); err != nil {
				t.Errorf("of connections that are gone: %v", err)
			}
			if b.Can(Control) {
				if n, err := b.CloseClients(within(t, 20*time.Second), name, "kept", "again"); err != nil || n != 0 {
					t.Errorf("%d closed of none, %v", n, err)
				}
			}
		})
	}
}
