package reference_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/reference"
	"github.com/parkproof/parkproof/scenarios/broker"
)

// patience is how long a test waits for what should happen soon, on a machine that does much else.
const patience = 20 * time.Second

// serial makes names unique on a broker without virtual hosts of our own.
var serial atomic.Int64

// world is what one test stands on: a virtual host of its own, and a connection straight to it.
type world struct {
	t      *testing.T
	broker *broker.Broker
	vhost  string
	prefix string // of every name, "" in a virtual host of its own
	ch     *amqp.Channel

	mu          sync.Mutex
	diagnostics []reference.Diagnostic
	log         bytes.Buffer
}

// newWorld makes a world on the shared broker.
func newWorld(t *testing.T) *world {
	t.Helper()
	b, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return worldOn(t, b)
}

func worldOn(t *testing.T, b *broker.Broker) *world {
	t.Helper()
	w := &world{t: t, broker: b}
	if b.Can(broker.Vhosts) {
		w.vhost = b.VhostName()
		if err := b.CreateVhost(soon(t), w.vhost); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.DeleteVhost(soon(t), w.vhost); err != nil {
				t.Error(err)
			}
		})
	} else {
		w.vhost = b.DefaultVhost()
		w.prefix = "t" + strconv.FormatInt(time.Now().UnixNano(), 36) + strconv.FormatInt(serial.Add(1), 36) + "."
	}
	w.reconnect()
	t.Cleanup(func() {
		if t.Failed() {
			w.mu.Lock()
			defer w.mu.Unlock()
			t.Log(b.Hide(w.log.String()))
		}
	})
	return w
}

// reconnect opens the world's own channel anew.
func (w *world) reconnect() {
	w.t.Helper()
	conn, err := w.broker.Dial(soon(w.t), w.vhost)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	w.ch, err = conn.Channel()
	must(w.t, err)
}

// soon is a context for one step of a test.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// name makes a name the test's own.
func (w *world) name(s string) string { return w.prefix + s }

func (w *world) url() string { return w.broker.URL(w.vhost) }

// Write takes the client's log.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

// options are those of a client in this world, with short waits.
func (w *world) options() reference.Options {
	return reference.Options{
		URLs:     []string{w.url()},
		Ladder:   []time.Duration{50 * time.Millisecond, 100 * time.Millisecond},
		Prefetch: 10,
		Names: reference.Names{
			Retry: func(d time.Duration) string {
				return w.name("retry." + strconv.FormatInt(d.Milliseconds(), 10))
			},
			Parked: func(queue string) string { return w.name("parked.") + queue },
		},
		Backoff:  reference.Backoff{Min: 20 * time.Millisecond, Max: 300 * time.Millisecond},
		HandBack: reference.Backoff{Min: 100 * time.Millisecond, Max: time.Second},
		Logger:   slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})),
		OnDiagnostic: func(d reference.Diagnostic) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.diagnostics = append(w.diagnostics, d)
		},
	}
}

// open opens a client, which is closed at the end of the test.
func (w *world) open(alter ...func(*reference.Options)) *reference.Client {
	w.t.Helper()
	options := w.options()
	for _, f := range alter {
		f(&options)
	}
	client, err := reference.Open(soon(w.t), options)
	must(w.t, err)
	w.t.Cleanup(func() {
		if err := client.Close(soon(w.t)); err != nil {
			w.t.Error(err)
		}
	})
	return client
}

func (w *world) consume(client *reference.Client, source reference.Source, handler reference.Handler, options ...reference.ConsumerOption) *reference.Consumer {
	w.t.Helper()
	consumer, err := client.Consume(soon(w.t), source, handler, options...)
	must(w.t, err)
	return consumer
}

// seen returns the diagnostics of a kind so far.
func (w *world) seen(kind reference.Kind) []reference.Diagnostic {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []reference.Diagnostic
	for _, d := range w.diagnostics {
		if d.Kind == kind {
			found = append(found, d)
		}
	}
	return found
}

// publish publishes a message and waits until it is in a queue.
func (w *world) publish(exchange, key string, message amqp.Publishing) {
	w.t.Helper()
	conn, err := w.broker.Dial(soon(w.t), w.vhost)
	must(w.t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(w.t, err)
	must(w.t, ch.Confirm(false))
	returns := ch.NotifyReturn(make(chan amqp.Return, 1))
	confirm, err := ch.PublishWithDeferredConfirm(exchange, key, true, false, message)
	must(w.t, err)
	if ok, err := confirm.WaitContext(soon(w.t)); err != nil || !ok {
		w.t.Fatalf("publish to %q with key %q: acked %v, %v", exchange, key, ok, err)
	}
	select {
	case r, ok := <-returns:
		if ok {
			w.t.Fatalf("publish to %q with key %q: returned: %s", exchange, key, r.ReplyText)
		}
	default:
	}
}

func (w *world) send(queue, body string) {
	w.t.Helper()
	w.publish("", queue, amqp.Publishing{Body: []byte(body), MessageId: body})
}

// get takes one message out of a queue, which it must have soon.
func (w *world) get(queue string) amqp.Delivery {
	w.t.Helper()
	var got amqp.Delivery
	w.eventually("a message in "+queue, func() bool {
		d, ok, err := w.ch.Get(queue, true)
		must(w.t, err)
		got = d
		return ok
	})
	return got
}

// depth returns the number of ready messages in a queue, and of its consumers.
func (w *world) depth(queue string) (ready, consumers int) {
	w.t.Helper()
	q, err := w.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	must(w.t, err)
	return q.Messages, q.Consumers
}

// empty checks that a queue has no ready message.
func (w *world) empty(queue string) {
	w.t.Helper()
	if ready, _ := w.depth(queue); ready != 0 {
		w.t.Errorf("queue %s has %d messages, want none", queue, ready)
	}
}

func (w *world) eventually(what string, condition func() bool) {
	w.t.Helper()
	eventually(w.t, what, condition)
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-ticker.C
	}
}

// consistently polls for the whole period, in which the condition must hold.
func consistently(t *testing.T, period time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(period)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for time.Now().Before(deadline) {
		if !condition() {
			t.Fatalf("no longer so: %s", what)
		}
		<-ticker.C
	}
}

// record collects the attempts a handler was called with.
type record struct {
	mu       sync.Mutex
	attempts []reference.Delivery
	times    []time.Time
}

func (r *record) add(d reference.Delivery) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, d)
	r.times = append(r.times, time.Now())
	return len(r.attempts)
}

func (r *record) all() []reference.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]reference.Delivery{}, r.attempts...)
}

func (r *record) numbers() string {
	var numbers []int
	for _, d := range r.all() {
		numbers = append(numbers, d.Attempt)
	}
	return fmt.Sprint(numbers)
}
