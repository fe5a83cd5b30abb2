package reference_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/reference"
	"github.com/parkproof/parkproof/reference/internal/seam"
)

// once waits until a queue has had exactly one consumer for a while: right after a cut, the broker may still
// count the one that is gone.
func (w *world) once(queue string) {
	w.t.Helper()
	const while = 150 * time.Millisecond
	since := time.Now()
	w.eventually("one consumer on "+queue+", for a while", func() bool {
		if _, n := w.depth(queue); n != 1 {
			since = time.Now()
		}
		return time.Since(since) > while
	})
}

func TestConsumersComeBackOnceEach(t *testing.T) {
	w := newWorld(t)
	p := newProxy(t, w.broker.Addr())
	client := w.open(func(o *reference.Options) { o.URLs = []string{p.through(w.url())} })
	var calls record
	queues := []string{w.name("a"), w.name("b"), w.name("c")}
	for _, queue := range queues {
		w.consume(client, reference.Queue(queue), failing(&calls, 0))
	}
	handled := func(want int) bool { // a message whose ack is cut off is handled once more
		distinct := map[string]bool{}
		for _, d := range calls.all() {
			distinct[d.Queue+" "+string(d.Body)] = true
		}
		return len(distinct) == want
	}
	for round := range 5 {
		p.refuseAll(round == 2) // so that coming back fails at first
		if round%2 == 0 {
			p.cut("consume")
		} else {
			p.cut("")
		}
		if round == 2 {
			tries := len(w.seen(reference.KindDisconnected))
			w.eventually("tries that fail", func() bool { return len(w.seen(reference.KindDisconnected)) > tries+2 })
			p.refuseAll(false)
		}
		for _, queue := range queues {
			w.once(queue)
			w.send(queue, fmt.Sprint(round))
		}
		w.eventually("every message is handled", func() bool { return handled((round + 1) * len(queues)) })
	}
}

// A handler that outlives its channel has lost its say: nothing of it goes to the new channel.
func TestHandlerThatOutlivesItsChannel(t *testing.T) {
	for name, outcome := range map[string]error{"success": nil, "failure": errNoLuck} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := newProxy(t, w.broker.Addr())
			client := w.open(func(o *reference.Options) { o.URLs = []string{p.through(w.url())} })
			jobs := w.name("jobs")
			var calls record
			release := make(chan struct{})
			var lost atomic.Bool
			consumer := w.consume(client, reference.Queue(jobs), func(ctx context.Context, d reference.Delivery) error {
				if calls.add(d) == 1 {
					<-ctx.Done()
					lost.Store(true)
					<-release
					return outcome
				}
				return nil
			}, reference.WithPrefetch(1))
			w.send(jobs, "m1")
			w.eventually("the handler runs", func() bool { return calls.numbers() == "[1]" })
			p.cut("consume")
			w.eventually("the handler is told", lost.Load)
			w.once(jobs)
			if calls.numbers() != "[1]" {
				t.Error("two handlers run with a prefetch of 1")
			}
			close(release)
			w.eventually("the message is handled again, as the same attempt", func() bool { return calls.numbers() == "[1 1]" })
			if !calls.all()[1].Redelivered {
				t.Error("it is not marked as redelivered")
			}
			w.eventually("that is told", func() bool { return len(w.seen(reference.KindUnsettled)) == 1 })
			must(t, consumer.Stop(soon(t)))
			w.empty(jobs)
			w.empty(consumer.ParkingQueue())
			if got := w.seen(reference.KindInterrupted); len(got) != 1 {
				t.Errorf("interrupted %d times, want once: %+v", len(got), got)
			}
		})
	}
}

func TestQueueDeletedUnderItsConsumer(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	jobs := w.name("jobs")
	var calls record
	w.consume(client, reference.Queue(jobs), failing(&calls, 0))
	_, err := w.ch.QueueDelete(jobs, false, false, false)
	must(t, err)
	w.eventually("the cancellation is noticed", func() bool { return len(w.seen(reference.KindConsuming)) == 2 })
	w.once(jobs)
	w.send(jobs, "m1")
	w.eventually("the next message is handled", func() bool { return calls.numbers() == "[1]" })

	// An existing queue is waited for until somebody declares it again.
	other := w.name("other")
	_, err = w.ch.QueueDeclare(other, true, false, false, false, nil)
	must(t, err)
	consumer := w.consume(client, reference.Existing(other), failing(&calls, 0))
	_, err = w.ch.QueueDelete(other, false, false, false)
	must(t, err)
	w.eventually("it looks for the queue", func() bool { return len(w.seen(reference.KindInterrupted)) > 3 })
	if consumer.Consuming() || consumer.Err() != nil {
		t.Errorf("consuming %v, error %v", consumer.Consuming(), consumer.Err())
	}
	_, err = w.ch.QueueDeclare(other, true, false, false, false, nil)
	must(t, err)
	w.once(other)
}

// A link may die between the handshake and the first frame after it, and nothing on it says so.
func TestLinksThatDieRightAfterTheHandshake(t *testing.T) {
	w := newWorld(t)
	p := newProxy(t, w.broker.Addr())
	p.mute(true)
	client := w.open(func(o *reference.Options) {
		o.URLs = []string{p.through(w.url())}
		o.Heartbeat = time.Second
	})
	lost := func(role string) bool {
		for _, d := range w.seen(reference.KindDisconnected) {
			if d.Connection == role {
				return true
			}
		}
		return false
	}
	w.eventually("both connections are given up", func() bool { return lost("consume") && lost("publish") })
	p.mute(false)
	p.cut("") // those that were opened meanwhile
	queue := w.name("jobs")
	var calls record
	consumer := w.consume(client, reference.Queue(queue), failing(&calls, 1))
	w.send(queue, "m1")
	w.eventually("the message is retried", func() bool { return calls.numbers() == "[1 2]" })
	must(t, consumer.Stop(soon(t)))
}

func TestConsumerGivesUpAfterAStreak(t *testing.T) {
	w := newWorld(t)
	client := w.open(func(o *reference.Options) {
		o.Backoff = reference.Backoff{Min: time.Millisecond, Max: time.Millisecond, GiveUp: 3}
	})
	queue := w.name("other")
	_, err := w.ch.QueueDeclare(queue, true, false, false, false, nil)
	must(t, err)
	consumer := w.consume(client, reference.Existing(queue), failing(new(record), 0))
	_, err = w.ch.QueueDelete(queue, false, false, false)
	must(t, err)
	select {
	case <-consumer.Done():
	case <-soon(t).Done():
		t.Fatal("it goes on")
	}
	if err := consumer.Err(); err == nil || !strings.Contains(err.Error(), queue) {
		t.Errorf("it gave up for %v", err)
	}
	if got := len(w.seen(reference.KindGaveUp)); got != 1 {
		t.Errorf("%d diagnostics say so, want 1", got)
	}
	must(t, consumer.Stop(soon(t)))
}

func TestChannelClosedByTheBroker(t *testing.T) {
	w := newWorld(t)
	var acks atomic.Int64
	// The first ack is sent twice, for which the broker closes the channel.
	ctx := seam.With(soon(t), func(steps *seam.Steps) {
		ack := steps.Ack
		steps.Ack = func(d amqp.Delivery) error {
			if acks.Add(1) == 1 {
				_ = ack(d)
			}
			return ack(d)
		}
	})
	client, err := reference.Open(ctx, w.options())
	must(t, err)
	t.Cleanup(func() { must(t, client.Close(soon(t))) })
	jobs, sibling := w.name("jobs"), w.name("sibling")
	var calls record
	w.consume(client, reference.Queue(sibling), failing(new(record), 0))
	w.consume(client, reference.Queue(jobs), failing(&calls, 0))
	w.send(jobs, "m1")
	w.eventually("the channel is lost", func() bool { return len(w.seen(reference.KindInterrupted)) == 1 })
	if err := w.seen(reference.KindInterrupted)[0].Err; err == nil || !strings.Contains(err.Error(), "unknown delivery tag") {
		t.Errorf("interrupted by %v", err)
	}
	w.once(jobs)
	w.once(sibling)
	w.send(jobs, "m2")
	w.eventually("the next message is handled", func() bool { return calls.numbers() == "[1 1]" })
	if got := len(w.seen(reference.KindConsuming)); got != 3 {
		t.Errorf("%d subscriptions in all, want 3: the sibling keeps its own", got)
	}
}

func TestParkingQueueIsGone(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	jobs := w.name("jobs")
	var poison, good record
	consumer := w.consume(client, reference.Queue(jobs), func(_ context.Context, d reference.Delivery) error {
		if string(d.Body) == "poison" {
			poison.add(d)
			return reference.Park(errNoLuck)
		}
		good.add(d)
		return nil
	})
	_, err := w.ch.QueueDelete(consumer.ParkingQueue(), false, false, false)
	must(t, err)
	w.send(jobs, "poison")
	w.eventually("it is handed back three times", func() bool { return len(w.seen(reference.KindHandedBack)) == 3 })
	for i := range 20 {
		w.send(jobs, fmt.Sprint(i))
	}
	w.eventually("its neighbours are handled", func() bool { return len(good.all()) == 20 })
	held := w.seen(reference.KindHandedBack)
	for i := 1; i < 3; i++ {
		if held[i].Delay <= held[i-1].Delay {
			t.Errorf("held for %v, then for %v: want it to grow", held[i-1].Delay, held[i].Delay)
		}
		poison.mu.Lock()
		gap := poison.times[i].Sub(poison.times[i-1])
		poison.mu.Unlock()
		if gap < held[i-1].Delay {
			t.Errorf("it came back after %v, not %v", gap, held[i-1].Delay)
		}
	}
	for _, d := range poison.all() {
		if d.Attempt != 1 {
			t.Errorf("attempt %d: a message that is handed back repeats its number", d.Attempt)
		}
	}
	if len(w.seen(reference.KindReturned)) == 0 {
		t.Error("no diagnostic tells of the return")
	}
	_, err = w.ch.QueueDeclare(consumer.ParkingQueue(), true, false, false, false, nil)
	must(t, err)
	if parked := w.get(consumer.ParkingQueue()); string(parked.Body) != "poison" {
		t.Errorf("parked %q", parked.Body)
	}
	must(t, consumer.Stop(soon(t)))
	w.empty(jobs)
	w.empty(consumer.ParkingQueue())
}

// A return comes before its confirm on the wire, on another path through the client library. None of many
// unroutable copies may be taken for one that is parked.
func TestReturnsAreNeverTakenForConfirms(t *testing.T) {
	const messages = 600
	w := newWorld(t)
	client := w.open(func(o *reference.Options) {
		o.HandBack = reference.Backoff{Min: time.Minute, Max: time.Minute} // until the end
	})
	jobs := w.name("jobs")
	handling := make(chan struct{})
	consumer := w.consume(client, reference.Queue(jobs), func(context.Context, reference.Delivery) error {
		<-handling
		return reference.Park(errNoLuck)
	}, reference.WithPrefetch(messages))
	_, err := w.ch.QueueDelete(consumer.ParkingQueue(), false, false, false)
	must(t, err)
	for range messages {
		must(t, w.ch.PublishWithContext(soon(t), "", jobs, true, false, amqp.Publishing{Body: []byte("the same")}))
	}
	close(handling)
	w.eventually("all are handed back", func() bool { return len(w.seen(reference.KindHandedBack)) == messages })
	if got := w.seen(reference.KindPark); len(got) != 0 {
		t.Errorf("%d are taken for parked", len(got))
	}
	must(t, consumer.Stop(soon(t)))
	w.eventually("all are back in their queue", func() bool { ready, _ := w.depth(jobs); return ready == messages })
}

func TestRetryExchangeIsGone(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	jobs, sibling := w.name("jobs"), w.name("sibling")
	var calls, siblings record
	w.consume(client, reference.Queue(jobs), failing(&calls, 2))
	w.consume(client, reference.Queue(sibling), failing(&siblings, 1), reference.WithLadder(60*time.Millisecond))
	must(t, w.ch.ExchangeDelete(w.name("retry.50"), false, false))
	w.send(jobs, "m1")
	w.send(sibling, "s1")
	// The broker closes the channel for it. The next one puts it back.
	w.eventually("it is retried all the same", func() bool { return calls.numbers() == "[1 1 2]" })
	w.eventually("so is the sibling's", func() bool { return siblings.numbers() == "[1 2]" })
	w.once(jobs)
	if got := w.seen(reference.KindInterrupted); len(got) != 0 {
		t.Errorf("subscriptions were lost: %+v", got)
	}
}

func TestPublisherIsCutBeforeTheConfirm(t *testing.T) {
	const messages = 50
	w := newWorld(t)
	p := newProxy(t, w.broker.Addr())
	client := w.open(func(o *reference.Options) { o.URLs = []string{p.through(w.url())} })
	jobs := w.name("jobs")
	var calls record
	consumer := w.consume(client, reference.Queue(jobs), func(_ context.Context, d reference.Delivery) error {
		calls.add(d)
		return reference.Park(errNoLuck)
	}, reference.WithPrefetch(messages))
	// One message opens the publisher's channel.
	w.send(jobs, "first")
	w.get(consumer.ParkingQueue())
	w.eventually("it is acked", func() bool { return len(w.seen(reference.KindPark)) == 1 })

	p.hold("publish", toClient, true) // copies arrive, confirms do not
	for i := range messages {
		w.send(jobs, fmt.Sprint(i))
	}
	w.eventually("the copies are there", func() bool { ready, _ := w.depth(consumer.ParkingQueue()); return ready == messages })
	if got := len(w.seen(reference.KindPark)); got != 1 {
		t.Errorf("%d are acked without a confirm", got-1)
	}
	p.cut("publish")
	p.hold("publish", toClient, false)
	w.eventually("all are parked", func() bool { return len(w.seen(reference.KindPark)) == messages+1 })
	must(t, consumer.Stop(soon(t)))
	w.empty(jobs)
	copies := map[string]int{}
	for range 2 * messages {
		copies[string(w.get(consumer.ParkingQueue()).Body)]++
	}
	w.empty(consumer.ParkingQueue())
	for i := range messages {
		if n := copies[fmt.Sprint(i)]; n != 2 {
			t.Errorf("message %d has %d copies, want the unconfirmed one and one more", i, n)
		}
	}
	if _, consumers := w.depth(jobs); consumers != 0 {
		t.Errorf("%d consumers", consumers)
	}
	if got := w.seen(reference.KindInterrupted); len(got) != 0 {
		t.Errorf("the subscription was lost with the publisher: %+v", got)
	}
}

func TestConfirmThatNeverComes(t *testing.T) {
	w := newWorld(t)
	p := newProxy(t, w.broker.Addr())
	client := w.open(func(o *reference.Options) {
		o.URLs = []string{p.through(w.url())}
		o.ConfirmTimeout = 300 * time.Millisecond
	})
	jobs := w.name("jobs")
	var bad, good record
	consumer := w.consume(client, reference.Queue(jobs), func(_ context.Context, d reference.Delivery) error {
		if string(d.Body) == "good" {
			good.add(d)
			return nil
		}
		bad.add(d)
		return reference.Park(errNoLuck)
	}, reference.WithPrefetch(3))
	w.send(jobs, "first") // opens the publisher's channel
	w.eventually("it is parked", func() bool { return len(w.seen(reference.KindPark)) == 1 })
	p.hold("publish", toClient, true)
	w.send(jobs, "bad")
	w.eventually("it is handed back", func() bool { return len(w.seen(reference.KindHandedBack)) > 1 })
	if err := w.seen(reference.KindHandedBack)[0].Err; !strings.Contains(err.Error(), "not confirmed in time") {
		t.Errorf("handed back for %v", err)
	}
	w.send(jobs, "good")
	w.eventually("its neighbour is handled", func() bool { return good.numbers() == "[1]" })
	p.hold("publish", toClient, false)
	w.eventually("it is parked", func() bool { return len(w.seen(reference.KindPark)) == 2 })
	must(t, consumer.Stop(soon(t)))
	w.empty(jobs)
}

func TestParkingQueueRefuses(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	jobs := w.name("jobs")
	consumer := w.consume(client, reference.Queue(jobs), func(context.Context, reference.Delivery) error {
		return reference.Park(errNoLuck)
	}, reference.WithParkArguments(amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"}),
		reference.WithConsumerArguments(amqp.Table{"x-priority": int32(3)}))
	w.send(jobs, "m1")
	w.eventually("the first is parked", func() bool { return len(w.seen(reference.KindPark)) == 1 })
	w.send(jobs, "m2")
	w.eventually("the second is handed back", func() bool { return len(w.seen(reference.KindHandedBack)) == 2 })
	if err := w.seen(reference.KindHandedBack)[0].Err; !strings.Contains(err.Error(), "nack") {
		t.Errorf("handed back for %v", err)
	}
	if got := w.get(consumer.ParkingQueue()); string(got.Body) != "m1" {
		t.Errorf("parked %q", got.Body)
	}
	if got := w.get(consumer.ParkingQueue()); string(got.Body) != "m2" {
		t.Errorf("parked %q", got.Body)
	}
}

func TestStopWithADeadPublisher(t *testing.T) {
	w := newWorld(t)
	p := newProxy(t, w.broker.Addr())
	client := w.open(func(o *reference.Options) { o.URLs = []string{p.through(w.url())} })
	jobs := w.name("jobs")
	var calls record
	consumer := w.consume(client, reference.Queue(jobs), failing(&calls, always))
	p.hold("publish", toClient, true)
	p.hold("publish", toBroker, true)
	w.send(jobs, "m1")
	w.eventually("the handler ran", func() bool { return calls.numbers() == "[1]" })
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := consumer.Stop(ctx); err == nil {
		t.Error("Stop says that all is settled")
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("Stop took %v", took)
	}
	w.eventually("the message is back", func() bool { ready, _ := w.depth(jobs); return ready == 1 })
	ctx, cancel = context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	begin = time.Now()
	_ = client.Close(ctx)
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// Headers that leave no room in the frame for the library's would make the broker close the connection.
func TestHeadersAsLargeAsAFrame(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	jobs := w.name("jobs")
	var calls record
	consumer := w.consume(client, reference.Queue(jobs), failing(&calls, always), reference.WithLadder())
	large := strings.Repeat("x", 131072-600)
	w.publish("", jobs, amqp.Publishing{Headers: amqp.Table{"h": large}, MessageId: "m1"})
	parked := w.get(consumer.ParkingQueue())
	if parked.Headers["h"] != large || parked.Headers["x-queue"] != jobs {
		t.Errorf("parked with %d bytes of its header, queue %v", len(fmt.Sprint(parked.Headers["h"])), parked.Headers["x-queue"])
	}
	huge := strings.Repeat("x", 131072-60)
	w.publish("", jobs, amqp.Publishing{Headers: amqp.Table{"h": huge}})
	w.eventually("what does not fit is handed back", func() bool { return len(w.seen(reference.KindHandedBack)) > 1 })
	w.send(jobs, "next")
	if parked := w.get(consumer.ParkingQueue()); string(parked.Body) != "next" {
		t.Errorf("parked %q", parked.Body)
	}
	if got := w.seen(reference.KindDisconnected); len(got) != 0 {
		t.Errorf("the connection was lost: %+v", got)
	}
}

// Whatever is cut, and whenever, each message is handled or parked.
func TestNothingIsLostWhileLinksAreCut(t *testing.T) {
	const messages = 400
	w := newWorld(t)
	p := newProxy(t, w.broker.Addr())
	client := w.open(func(o *reference.Options) {
		o.URLs = []string{p.through(w.url())}
		o.HandBack = reference.Backoff{Min: 20 * time.Millisecond, Max: 200 * time.Millisecond}
	})
	jobs := w.name("jobs")
	var mu sync.Mutex
	handled := map[string]bool{}
	consumer := w.consume(client, reference.Queue(jobs), func(_ context.Context, d reference.Delivery) error {
		n := 0
		_, _ = fmt.Sscan(string(d.Body), &n)
		switch n % 4 {
		case 1: // fails once
			if d.Attempt == 1 {
				return errNoLuck
			}
		case 2:
			return errNoLuck
		case 3:
			return reference.Park(errNoLuck)
		}
		mu.Lock()
		defer mu.Unlock()
		handled[string(d.Body)] = true
		return nil
	}, reference.WithPrefetch(20))
	cutting := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() {
		ticker := time.NewTicker(60 * time.Millisecond)
		defer ticker.Stop()
		for round := 0; ; round++ {
			select {
			case <-cutting:
				return
			case <-ticker.C:
				p.cut([]string{"publish", "consume", ""}[round%3])
			}
		}
	})
	for i := range messages {
		must(t, w.ch.PublishWithContext(soon(t), "", jobs, true, false, amqp.Publishing{Body: []byte(fmt.Sprint(i)), DeliveryMode: amqp.Persistent}))
	}
	w.eventually("progress in spite of the cuts", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(handled) > messages/4
	})
	w.eventually("many cuts", func() bool { return len(w.seen(reference.KindDisconnected)) > 8 })
	close(cutting)
	cutter.Wait()
	parked := map[string]bool{}
	w.eventually("each is handled or parked", func() bool {
		for {
			d, ok, err := w.ch.Get(consumer.ParkingQueue(), true)
			must(t, err)
			if !ok {
				break
			}
			parked[string(d.Body)] = true
		}
		mu.Lock()
		defer mu.Unlock()
		return len(handled)+len(parked) == messages
	})
	for body := range parked {
		n := 0
		_, _ = fmt.Sscan(body, &n)
		if n%4 < 2 || handled[body] {
			t.Errorf("message %s is parked", body)
		}
	}
	w.once(jobs)
}

func TestBrokerRestart(t *testing.T) {
	b, err := private()
	must(t, err)
	w := worldOn(t, b)
	client := w.open()
	jobs, news := w.name("jobs"), w.name("news")
	var calls, exclusive record
	consumer := w.consume(client, reference.Queue(jobs), failing(&calls, 1), reference.WithLadder(3*time.Second))
	subscriber := w.consume(client, reference.Bound(news, "fanout", ""), failing(&exclusive, 0))
	first := subscriber.Queue()
	w.publish("", jobs, amqp.Publishing{Body: []byte("m1"), DeliveryMode: amqp.Transient})
	w.eventually("it waits for its retry", func() bool { return len(w.seen(reference.KindRetry)) == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(t, b.Restart(ctx))
	w.reconnect()
	w.once(jobs)
	w.eventually("the exclusive one is back under another name", func() bool { return subscriber.Consuming() && subscriber.Queue() != first })
	w.eventually("the retry outlived the restart", func() bool { return calls.numbers() == "[1 2]" })
	w.publish(news, "", amqp.Publishing{})
	w.eventually("the exclusive one is bound again", func() bool { return exclusive.numbers() == "[1]" })
	must(t, consumer.Stop(soon(t)))
	w.empty(jobs)
}

func TestAlarm(t *testing.T) {
	b, err := private()
	must(t, err)
	w := worldOn(t, b)
	client := w.open(func(o *reference.Options) { o.ConfirmTimeout = 500 * time.Millisecond })
	jobs, other := w.name("jobs"), w.name("other")
	var good record
	consumer := w.consume(client, reference.Queue(jobs), func(_ context.Context, d reference.Delivery) error {
		if strings.HasPrefix(string(d.Body), "bad") {
			return reference.Park(errNoLuck)
		}
		good.add(d)
		return nil
	}, reference.WithPrefetch(4))
	var begun atomic.Bool
	stuck := w.consume(client, reference.Queue(other), func(context.Context, reference.Delivery) error {
		begun.Store(true)
		return reference.Park(errNoLuck)
	})
	// What is to be consumed is published before the alarm, and lies behind the consumers' backs until then.
	var once sync.Once
	raise := func() {
		_, err := b.Ctl(soon(t), "set_vm_memory_high_watermark", "0.000001")
		must(t, err)
	}
	clear := func() {
		once.Do(func() {
			_, err := b.Ctl(soon(t), "set_vm_memory_high_watermark", "0.4")
			must(t, err)
		})
	}
	must(t, consumer.Stop(soon(t)))
	must(t, stuck.Stop(soon(t)))
	for _, body := range []string{"bad1", "good1", "bad2", "good2", "good3", "good4"} {
		w.send(jobs, body)
	}
	w.send(other, "bad")
	raise()
	defer clear()
	consumer = w.consume(client, reference.Queue(jobs), func(_ context.Context, d reference.Delivery) error {
		if strings.HasPrefix(string(d.Body), "bad") {
			return reference.Park(errNoLuck)
		}
		good.add(d)
		return nil
	}, reference.WithPrefetch(4))
	stuck = w.consume(client, reference.Queue(other), func(context.Context, reference.Delivery) error {
		begun.Store(true)
		return reference.Park(errNoLuck)
	})
	w.eventually("the alarm blocks the publisher", func() bool { return len(w.seen(reference.KindBlocked)) > 0 })
	w.eventually("what succeeds is acked all the same", func() bool { return len(good.all()) == 4 })
	w.eventually("both have failed", func() bool { ready, _ := w.depth(jobs); return ready == 0 && begun.Load() })
	consistently(t, time.Second, "nothing is parked or handed back", func() bool {
		return len(w.seen(reference.KindPark)) == 0 && len(w.seen(reference.KindHandedBack)) == 0
	})
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := stuck.Stop(ctx); err == nil {
		t.Error("Stop says that all is settled")
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("Stop took %v under an alarm", took)
	}
	w.eventually("its message is back", func() bool { ready, _ := w.depth(other); return ready == 1 })
	clear()
	w.eventually("what failed is parked", func() bool { return len(w.seen(reference.KindPark)) == 2 })
	must(t, consumer.Stop(soon(t)))
	w.empty(jobs)
	if ready, _ := w.depth(consumer.ParkingQueue()); ready != 2 {
		t.Errorf("%d messages are parked, want 2", ready)
	}
}
