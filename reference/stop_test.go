package reference_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parkproof/parkproof/reference"
)

func TestStopWaitsForWhatRuns(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	jobs := w.name("jobs")
	var calls record
	release := make(chan struct{})
	consumer := w.consume(client, reference.Queue(jobs), func(_ context.Context, d reference.Delivery) error {
		calls.add(d)
		<-release
		return reference.Park(errNoLuck)
	}, reference.WithPrefetch(2))
	for i := range 4 {
		w.send(jobs, fmt.Sprint("m", i))
	}
	w.eventually("two handlers run", func() bool { return calls.numbers() == "[1 1]" })
	stopped := make(chan error, 1)
	go func() { stopped <- consumer.Stop(soon(t)) }()
	w.eventually("the subscription is cancelled", func() bool { _, consumers := w.depth(jobs); return consumers == 0 })
	select {
	case err := <-stopped:
		t.Fatalf("Stop returned %v while handlers ran", err)
	default:
	}
	close(release)
	must(t, <-stopped)
	if ready, _ := w.depth(consumer.ParkingQueue()); ready != 2 {
		t.Errorf("%d messages are parked, want the two that ran", ready)
	}
	if ready, _ := w.depth(jobs); ready != 2 {
		t.Errorf("%d messages are left, want the two that had not begun", ready)
	}
	if calls.numbers() != "[1 1]" {
		t.Errorf("handlers ran: %s", calls.numbers())
	}
}

func TestStopThatRunsOutOfTime(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	jobs := w.name("jobs")
	var started, cancelled atomic.Bool
	consumer := w.consume(client, reference.Queue(jobs), func(ctx context.Context, _ reference.Delivery) error {
		started.Store(true)
		<-ctx.Done()
		cancelled.Store(true)
		return ctx.Err()
	})
	w.send(jobs, "m1")
	w.eventually("the handler runs", started.Load)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := consumer.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop returned %v", err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("Stop took %v", took)
	}
	w.eventually("the handler is cancelled", cancelled.Load)
	w.eventually("the message is back", func() bool { ready, _ := w.depth(jobs); return ready == 1 })
	if d := w.get(jobs); !d.Redelivered || d.Headers["x-attempt"] != nil {
		t.Errorf("it came back redelivered %v with %v", d.Redelivered, d.Headers)
	}
	if got := w.seen(reference.KindRetry); len(got) != 0 {
		t.Errorf("an attempt that was cut off counts as a failure: %+v", got)
	}
	<-consumer.Done()
}

func TestStopWhileItTriesToComeBack(t *testing.T) {
	w := newWorld(t)
	p := newProxy(t, w.broker.Addr())
	client := w.open(func(o *reference.Options) {
		o.URLs = []string{p.through(w.url())}
		o.Backoff = reference.Backoff{Min: time.Hour, Max: time.Hour}
	})
	jobs := w.name("jobs")
	consumer := w.consume(client, reference.Queue(jobs), failing(new(record), 0))
	p.refuseAll(true)
	p.cut("")
	w.eventually("it waits to come back", func() bool { return len(w.seen(reference.KindInterrupted)) == 1 })
	must(t, consumer.Stop(soon(t)))
	p.refuseAll(false)
	must(t, client.Close(soon(t)))
	w.eventually("nothing is subscribed", func() bool { _, consumers := w.depth(jobs); return consumers == 0 })
}

func TestCloseStopsEverything(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	jobs := w.name("jobs")
	hanging := make(chan struct{})
	var started atomic.Bool
	consumer := w.consume(client, reference.Queue(jobs), func(context.Context, reference.Delivery) error {
		started.Store(true)
		<-hanging // whatever its context says
		return errNoLuck
	})
	w.send(jobs, "m1")
	w.eventually("the handler runs", started.Load)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := client.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close returned %v", err)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("Close took %v", took)
	}
	close(hanging)
	<-consumer.Done()
	w.eventually("the message is back", func() bool { ready, _ := w.depth(jobs); return ready == 1 })
	if _, err := client.Consume(soon(t), reference.Queue(jobs), failing(new(record), 0)); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a closed client consumes: %v", err)
	}
	must(t, client.Close(soon(t)))
}

func TestOpenTriesEachURL(t *testing.T) {
	w := newWorld(t)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := nobody.Addr().String()
	must(t, nobody.Close())
	client := w.open(func(o *reference.Options) { o.URLs = []string{"amqp://guest:secret@" + address, w.url()} })
	jobs := w.name("jobs")
	var calls record
	w.consume(client, reference.Queue(jobs), failing(&calls, 0))
	w.send(jobs, "m1")
	w.eventually("a delivery", func() bool { return calls.numbers() == "[1]" })
}

func TestOpenGivesUp(t *testing.T) {
	w := newWorld(t)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := nobody.Addr().String()
	defer nobody.Close() // the kernel accepts, and nobody says anything
	for name, c := range map[string]struct {
		url   string
		limit time.Duration
		want  string
	}{
		"refused password": {strings.Replace(w.url(), "@", "wrong@", 1), patience, "not allowed"},
		"no such vhost":    {w.broker.URL("missing"), patience, "missing"},
		"silence":          {"amqp://guest:secret@" + address, time.Second, "deadline"},
	} {
		options := w.options()
		options.URLs = []string{c.url}
		ctx, cancel := context.WithTimeout(context.Background(), c.limit)
		begin := time.Now()
		_, err := reference.Open(ctx, options)
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
			continue
		}
		if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "wrong") || strings.Contains(err.Error(), w.broker.Password()+"@") {
			t.Errorf("%s: the password is in %q", name, err)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %q", name, err)
		}
		// The broker takes seconds to refuse a password.
		if took := time.Since(begin); took > c.limit+time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
	}
}

func TestConsumeEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	p := newProxy(t, w.broker.Addr())
	client := w.open(func(o *reference.Options) { o.URLs = []string{p.through(w.url())} })
	_, err := w.ch.QueueDeclare(w.name("jobs"), true, false, false, false, nil)
	must(t, err)
	p.hold("consume", toClient, true)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if _, err := client.Consume(ctx, reference.Queue(w.name("jobs")), failing(new(record), 0)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Consume returned %v", err)
	}
	p.hold("consume", toClient, false)
	w.eventually("nothing is subscribed", func() bool { _, consumers := w.depth(w.name("jobs")); return consumers == 0 })
	consistently(t, 200*time.Millisecond, "nothing is subscribed", func() bool { _, consumers := w.depth(w.name("jobs")); return consumers == 0 })
}
