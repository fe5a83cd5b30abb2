package reference_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/reference"
)

var errNoLuck = errors.New("no luck")

// failing is a handler that records its calls and fails the first n of them.
func failing(calls *record, n int) reference.Handler {
	return func(_ context.Context, d reference.Delivery) error {
		if calls.add(d) <= n {
			return errNoLuck
		}
		return nil
	}
}

const always = math.MaxInt

func TestHandledMessageIsAcked(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	var calls record
	jobs := w.name("jobs")
	consumer := w.consume(client, reference.Queue(jobs), failing(&calls, 0))
	if !consumer.Consuming() {
		t.Error("a consumer that has subscribed does not say so")
	}
	w.send(jobs, "m1")
	w.eventually("the handler is called", func() bool { return calls.numbers() == "[1]" })
	must(t, consumer.Stop(soon(t)))
	if consumer.Consuming() || consumer.Err() != nil {
		t.Errorf("a stopped consumer: consuming %v, error %v", consumer.Consuming(), consumer.Err())
	}
	if _, consumers := w.depth(jobs); consumers != 0 {
		t.Errorf("%d consumers are left", consumers)
	}
	w.empty(jobs)
	w.empty(consumer.ParkingQueue())
	must(t, consumer.Stop(soon(t)))
}

func TestFailureClimbsTheLadderAndParks(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	var calls record
	orders := w.name("orders")
	begin := time.Now()
	consumer := w.consume(client, reference.Bound(orders, "topic", "billing", reference.RoutingKey("new.#")),
		func(_ context.Context, d reference.Delivery) error {
			calls.add(d)
			return fmt.Errorf("charge: %w", errNoLuck)
		}, reference.WithLadder(50*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond))
	w.publish(orders, "new.book", amqp.Publishing{Body: []byte("b"), MessageId: "m1", DeliveryMode: amqp.Transient})
	parked := w.get(consumer.ParkingQueue())

	if got := calls.numbers(); got != "[1 2 3 4]" {
		t.Errorf("attempts %s, want [1 2 3 4]", got)
	}
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("the ladder of 200ms took %v", took)
	}
	for _, d := range calls.all() {
		if d.Exchange != orders || d.RoutingKey != "new.book" || d.Queue != orders+"..billing" || d.MessageID != "m1" || string(d.Body) != "b" {
			t.Errorf("attempt %d says %q, %q, %q, %q, %q", d.Attempt, d.Exchange, d.RoutingKey, d.Queue, d.MessageID, d.Body)
		}
		if _, has := d.Headers["x-attempt"]; has != (d.Attempt > 1) {
			t.Errorf("attempt %d: has the header %v", d.Attempt, has)
		}
		if d.Persistent != (d.Attempt > 1) {
			t.Errorf("attempt %d is persistent: %v", d.Attempt, d.Persistent)
		}
	}
	want := amqp.Table{
		"x-attempt": int64(4), "x-exchange": orders, "x-key": "new.book", "x-queue": orders + "..billing",
		"x-reason": "charge: no luck", "x-cause": "no luck",
	}
	for name, value := range want {
		if got := parked.Headers[name]; got != value {
			t.Errorf("parked header %s is %v, want %v", name, got, value)
		}
	}
	if at := time.UnixMilli(parked.Headers["x-at"].(int64)); at.Before(begin.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("parked at %v", at)
	}
	if parked.DeliveryMode != amqp.Persistent || string(parked.Body) != "b" || parked.MessageId != "m1" {
		t.Errorf("parked %+v", parked)
	}
	w.empty(orders + "..billing")
	if got := len(w.seen(reference.KindRetry)); got != 3 {
		t.Errorf("%d retry diagnostics, want 3", got)
	}
	w.eventually("a park diagnostic", func() bool { return len(w.seen(reference.KindPark)) == 1 })
	if d := w.seen(reference.KindPark)[0]; d.Attempt != 4 || d.Target != consumer.ParkingQueue() || !errors.Is(d.Err, errNoLuck) {
		t.Errorf("park diagnostic %+v", d)
	}
}

func TestRetryOnlyReachesTheQueueThatFailed(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	var billing, audit record
	orders := w.name("orders")
	w.consume(client, reference.Bound(orders, "fanout", "billing"), failing(&billing, 2))
	w.consume(client, reference.Bound(orders, "fanout", "audit"), failing(&audit, 0))
	w.publish(orders, "", amqp.Publishing{Body: []byte("b")})
	w.eventually("the third attempt succeeds", func() bool { return billing.numbers() == "[1 2 3]" })
	if got := audit.numbers(); got != "[1]" {
		t.Errorf("the other queue's attempts are %s, want [1]", got)
	}
}

func TestHeadersExchange(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	var calls record
	exchange := w.name("files")
	w.consume(client, reference.Bound(exchange, "headers", "pdf", reference.BindingArguments(amqp.Table{"format": "pdf", "x-match": "all"})), failing(&calls, 1))
	w.publish(exchange, "ignored", amqp.Publishing{Headers: amqp.Table{"format": "pdf"}})
	w.eventually("a retry", func() bool { return calls.numbers() == "[1 2]" })
	if d := calls.all()[1]; d.Exchange != exchange || d.RoutingKey != "ignored" || d.Headers["format"] != "pdf" {
		t.Errorf("the retry came as %+v", d)
	}
}

func TestParkAtTheFirstDelivery(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	var calls record
	jobs := w.name("jobs")
	consumer := w.consume(client, reference.Queue(jobs), func(_ context.Context, d reference.Delivery) error {
		calls.add(d)
		return fmt.Errorf("validate: %w", reference.Park(errNoLuck))
	})
	w.send(jobs, "m1")
	parked := w.get(consumer.ParkingQueue())
	if calls.numbers() != "[1]" || parked.Headers["x-attempt"] != int64(1) || parked.Headers["x-death"] != nil {
		t.Errorf("attempts %s, parked with %v", calls.numbers(), parked.Headers)
	}
	if parked.Headers["x-exchange"] != "" || parked.Headers["x-key"] != jobs {
		t.Errorf("origin %v, %v", parked.Headers["x-exchange"], parked.Headers["x-key"])
	}
}

func TestExclusiveSource(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	var calls record
	news := w.name("news")
	consumer := w.consume(client, reference.Bound(news, "fanout", ""), failing(&calls, always))
	queue := consumer.Queue()
	if !strings.HasPrefix(queue, "amq.gen-") {
		t.Errorf("the queue is called %q", queue)
	}
	w.publish(news, "", amqp.Publishing{MessageId: "m1"})
	w.eventually("it is parked", func() bool { return len(w.seen(reference.KindPark)) == 1 })
	if got := calls.numbers(); got != "[1 2 3]" {
		t.Errorf("attempts %s, want [1 2 3]", got)
	}
	if _, err := w.ch.QueueDeclarePassive(consumer.ParkingQueue(), false, false, false, false, nil); errorCode(err) != amqp.ResourceLocked {
		t.Errorf("the parking queue is not exclusive: %v", err)
	}
	w.reconnect()
	must(t, client.Close(soon(t)))
	w.eventually("the parking queue is gone", func() bool {
		_, err := w.ch.QueueDeclarePassive(consumer.ParkingQueue(), false, false, false, false, nil)
		w.reconnect()
		return errorCode(err) == amqp.NotFound
	})
}

func errorCode(err error) int {
	var answer *amqp.Error
	if errors.As(err, &answer) {
		return answer.Code
	}
	return 0
}

func TestPropertiesAndHeadersSurvive(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	var calls record
	jobs := w.name("jobs")
	consumer := w.consume(client, reference.Queue(jobs), func(_ context.Context, d reference.Delivery) error {
		calls.add(d)
		clear(d.Headers) // the handler's copy
		return errNoLuck
	})
	audit := w.name("audit")
	_, err := w.ch.QueueDeclare(audit, true, false, false, false, nil)
	must(t, err)
	user := w.broker.User()
	headers := amqp.Table{
		"bool": true, "int8": int8(-8), "byte": byte(8), "int16": int16(-16), "uint16": uint16(16), "int32": int32(-32),
		"uint32": uint32(32), "int64": int64(-64), "float32": float32(1.5), "float64": math.Pi,
		"decimal": amqp.Decimal{Scale: 2, Value: 314}, "string": "text", "bytes": []byte{0, 255},
		"time": time.Unix(1700000000, 0), "nil": nil, "list": []any{int32(1), "two", amqp.Table{"four": int8(4)}},
		"table": amqp.Table{"inner": amqp.Table{"deep": true}},
	}
	sent := maps.Clone(headers)
	sent["CC"] = []any{audit}
	w.publish("", jobs, amqp.Publishing{
		Headers: sent, ContentType: "application/json", ContentEncoding: "identity", Priority: 3, CorrelationId: "c",
		ReplyTo: "r", Expiration: "20000", MessageId: "m1", Timestamp: time.Unix(1700000000, 0), Type: "t", UserId: user,
		AppId: "a", Body: []byte("body"),
	})
	parked := w.get(consumer.ParkingQueue())
	if calls.numbers() != "[1 2 3]" {
		t.Fatalf("attempts %s", calls.numbers())
	}
	for name, want := range headers {
		got := parked.Headers[name]
		if at, ok := got.(time.Time); ok && at.Equal(want.(time.Time)) {
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("header %s is %#v, want %#v", name, got, want)
		}
	}
	if parked.Expiration != "" || parked.UserId != "" || parked.Headers["CC"] != nil {
		t.Errorf("expiration %q, user-id %q, CC %v: want none", parked.Expiration, parked.UserId, parked.Headers["CC"])
	}
	kept := []any{parked.Headers["x-expiration"], parked.Headers["x-user-id"], parked.Headers["x-cc"]}
	if !reflect.DeepEqual(kept, []any{"20000", user, []any{audit}}) {
		t.Errorf("kept %v", kept)
	}
	want := amqp.Delivery{
		ContentType: "application/json", ContentEncoding: "identity", DeliveryMode: amqp.Persistent, Priority: 3,
		CorrelationId: "c", ReplyTo: "r", MessageId: "m1", Timestamp: parked.Timestamp, Type: "t", AppId: "a", Body: []byte("body"),
		Acknowledger: parked.Acknowledger, Headers: parked.Headers, DeliveryTag: parked.DeliveryTag, RoutingKey: parked.RoutingKey,
	}
	if !reflect.DeepEqual(parked, want) || parked.Timestamp.Unix() != 1700000000 {
		t.Errorf("parked %+v, want %+v", parked, want)
	}
	if ready, _ := w.depth(audit); ready != 1 {
		t.Errorf("the queue that CC names has %d messages, want 1", ready)
	}
}

func TestMessageWithoutAnything(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	var calls record
	jobs := w.name("jobs")
	consumer := w.consume(client, reference.Queue(jobs), failing(&calls, always))
	w.publish("", jobs, amqp.Publishing{})
	parked := w.get(consumer.ParkingQueue())
	if calls.numbers() != "[1 2 3]" || len(parked.Body) != 0 {
		t.Errorf("attempts %s, body %q", calls.numbers(), parked.Body)
	}
}

func TestAttemptsWrittenByOthers(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	for name, c := range map[string]struct {
		value  any
		want   string
		parked int64
	}{
		"byte":   {byte(2), "[2 3]", 3},
		"int16":  {int16(3), "[3]", 3},
		"int64":  {int64(2), "[2 3]", 3},
		"over":   {int32(9), "[9]", 9},
		"text":   {"2", "[1 2 3]", 3},
		"float":  {float64(2), "[1 2 3]", 3},
		"minus":  {int32(-1), "[1 2 3]", 3},
		"zero":   {int32(0), "[1 2 3]", 3},
		"nested": {amqp.Table{"x": int32(2)}, "[1 2 3]", 3},
	} {
		var calls record
		queue := w.name(name)
		consumer := w.consume(client, reference.Queue(queue), failing(&calls, always))
		w.publish("", queue, amqp.Publishing{Headers: amqp.Table{"x-attempt": c.value}})
		parked := w.get(consumer.ParkingQueue())
		if calls.numbers() != c.want || parked.Headers["x-attempt"] != c.parked {
			t.Errorf("%s: attempts %s, parked as %v; want %s, %d", name, calls.numbers(), parked.Headers["x-attempt"], c.want, c.parked)
		}
	}
}

type hostile struct{}

func (*hostile) Error() string { panic("no text") }

func TestEveryFailureIsContained(t *testing.T) {
	w := newWorld(t)
	client := w.open(func(o *reference.Options) {
		listener := o.OnDiagnostic
		o.OnDiagnostic = func(d reference.Diagnostic) {
			listener(d)
			panic("a listener that panics")
		}
	})
	for name, c := range map[string]struct {
		fail   func() error
		reason string
	}{
		"panic":       {func() error { panic("boom") }, "panic: boom"},
		"panic nil":   {func() error { panic(nil) }, "panic: panic called with nil argument"},
		"panic error": {func() error { panic(errNoLuck) }, "panic: no luck"},
		"runtime":     {func() error { var list []int; return fmt.Errorf("%d", list[len(w.prefix)]) }, "panic: runtime error: index out of range"},
		"goexit":      {func() error { runtime.Goexit(); return nil }, "the handler ended its goroutine (runtime.Goexit)"},
		"retry nil":   {func() error { return reference.Retry(nil) }, "retry, without a reason"},
		"hostile":     {func() error { return &hostile{} }, "*reference_test.hostile, whose Error method panics"},
		"nil pointer": {func() error { return (*amqp.Error)(nil) }, "*amqp091.Error, whose Error method panics"},
	} {
		var calls record
		queue := w.name(name)
		consumer := w.consume(client, reference.Queue(queue), func(_ context.Context, d reference.Delivery) error {
			calls.add(d)
			if string(d.Body) == "good" {
				return nil
			}
			return c.fail()
		}, reference.WithPrefetch(1))
		w.send(queue, "bad")
		parked := w.get(consumer.ParkingQueue())
		if reason, _ := parked.Headers["x-reason"].(string); !strings.HasPrefix(reason, c.reason) {
			t.Errorf("%s: reason %q, want %q", name, parked.Headers["x-reason"], c.reason)
		}
		w.send(queue, "good")
		w.eventually("the next message is handled", func() bool { return calls.numbers() == "[1 2 3 1]" })
		must(t, consumer.Stop(soon(t)))
		w.empty(queue)
	}
}

// Each handler ends its goroutine, with the next message already waiting for one.
func TestGoexitWithABacklog(t *testing.T) {
	const messages = 50
	w := newWorld(t)
	client := w.open()
	jobs := w.name("jobs")
	var calls record
	consumer := w.consume(client, reference.Queue(jobs), func(_ context.Context, d reference.Delivery) error {
		calls.add(d)
		runtime.Goexit()
		return nil
	}, reference.WithPrefetch(1), reference.WithLadder())
	for i := range messages {
		must(t, w.ch.PublishWithContext(soon(t), "", jobs, true, false, amqp.Publishing{Body: []byte(fmt.Sprint(i))}))
	}
	w.eventually("all are parked", func() bool { return len(w.seen(reference.KindPark)) == messages })
	must(t, consumer.Stop(soon(t)))
	if got := len(calls.all()); got != messages {
		t.Errorf("%d calls, want %d", got, messages)
	}
}

func TestLadders(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	for name, c := range map[string]struct {
		ladder []time.Duration
		want   string
	}{
		"none":  {nil, "[1]"},
		"zero":  {[]time.Duration{0, 0}, "[1 2 3]"},
		"equal": {[]time.Duration{30 * time.Millisecond, 30 * time.Millisecond, 30 * time.Millisecond}, "[1 2 3 4]"},
	} {
		var calls record
		queue := w.name(name)
		consumer := w.consume(client, reference.Queue(queue), failing(&calls, always), reference.WithLadder(c.ladder...))
		w.send(queue, "m1")
		w.get(consumer.ParkingQueue())
		if calls.numbers() != c.want {
			t.Errorf("%s: attempts %s, want %s", name, calls.numbers(), c.want)
		}
	}
}

func TestQuorumSource(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	var calls record
	jobs := w.name("jobs")
	consumer := w.consume(client, reference.Queue(jobs, reference.Quorum()), failing(&calls, always))
	w.send(jobs, "m1")
	w.get(consumer.ParkingQueue())
	if calls.numbers() != "[1 2 3]" {
		t.Errorf("attempts %s", calls.numbers())
	}
}

func TestRetryQueuesThatDeadLetterAtLeastOnce(t *testing.T) {
	w := newWorld(t)
	client := w.open(func(o *reference.Options) {
		o.RetryArguments = amqp.Table{"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
	})
	var calls record
	jobs := w.name("jobs")
	consumer := w.consume(client, reference.Queue(jobs), failing(&calls, always))
	w.send(jobs, "m1")
	w.get(consumer.ParkingQueue())
	if calls.numbers() != "[1 2 3]" {
		t.Errorf("attempts %s", calls.numbers())
	}
}

// A message that once expired in its source queue, and was put back with its headers, is dropped by brokers
// before 4.0 at the end of the hop if x-death comes along.
func TestMessageThatDiedInItsSource(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	var calls record
	jobs := w.name("jobs")
	consumer := w.consume(client, reference.Queue(jobs), failing(&calls, always))
	death := []any{amqp.Table{"queue": jobs, "reason": "expired", "count": int64(1), "exchange": "", "routing-keys": []any{jobs}, "time": time.Unix(1700000000, 0)}}
	w.publish("", jobs, amqp.Publishing{Headers: amqp.Table{"x-death": death}})
	w.get(consumer.ParkingQueue())
	if calls.numbers() != "[1 2 3]" {
		t.Errorf("attempts %s", calls.numbers())
	}
}

func TestChangedLadder(t *testing.T) {
	w := newWorld(t)
	var calls record
	jobs := w.name("jobs")
	long, short := w.open(), w.open()
	old := w.consume(long, reference.Queue(jobs), failing(&calls, always), reference.WithLadder(50*time.Millisecond, 300*time.Millisecond, 50*time.Millisecond))
	w.send(jobs, "m1")
	w.eventually("the second attempt fails", func() bool { return len(w.seen(reference.KindRetry)) == 2 })
	must(t, old.Stop(soon(t)))
	young := w.consume(short, reference.Queue(jobs), failing(&calls, always), reference.WithLadder(70*time.Millisecond))
	parked := w.get(young.ParkingQueue())
	if calls.numbers() != "[1 2 3]" || parked.Headers["x-attempt"] != int64(3) {
		t.Errorf("attempts %s, parked as %v", calls.numbers(), parked.Headers["x-attempt"])
	}
}

func TestNamesAndPrefix(t *testing.T) {
	w := newWorld(t)
	client := w.open(func(o *reference.Options) {
		o.HeaderPrefix = "x-comq-"
		o.Names = reference.Names{
			Retry:  func(d time.Duration) string { return w.name("comq.retry.") + fmt.Sprint(d.Milliseconds()) },
			Parked: func(queue string) string { return w.name("comq.parked.") + queue },
		}
	})
	jobs := w.name("jobs")
	consumer := w.consume(client, reference.Queue(jobs), failing(new(record), always))
	w.send(jobs, "m1")
	parked := w.get(w.name("comq.parked.") + jobs)
	if consumer.ParkingQueue() != w.name("comq.parked.")+jobs || parked.Headers["x-comq-attempt"] != int64(3) || parked.Headers["x-comq-key"] != jobs {
		t.Errorf("parked with %v", parked.Headers)
	}
	w.depth(w.name("comq.retry.50"))
}

func TestHandlersRunUpToThePrefetch(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	jobs := w.name("jobs")
	var running, most atomic.Int64
	release := make(chan struct{})
	consumer := w.consume(client, reference.Queue(jobs), func(context.Context, reference.Delivery) error {
		now := running.Add(1)
		defer running.Add(-1)
		for {
			seen := most.Load()
			if now <= seen || most.CompareAndSwap(seen, now) {
				break
			}
		}
		<-release
		return nil
	}, reference.WithPrefetch(5))
	for i := range 12 {
		w.send(jobs, fmt.Sprint("m", i))
	}
	w.eventually("five handlers run", func() bool { return running.Load() == 5 })
	consistently(t, 200*time.Millisecond, "five handlers run", func() bool { return running.Load() == 5 })
	close(release)
	w.eventually("all are handled", func() bool { ready, _ := w.depth(jobs); return ready == 0 && running.Load() == 0 })
	must(t, consumer.Stop(soon(t)))
	if most.Load() != 5 {
		t.Errorf("%d ran at a time, want 5", most.Load())
	}
}

func TestRetriesKeepTheirOrder(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	jobs := w.name("jobs")
	var mu sync.Mutex
	var order []string
	w.consume(client, reference.Queue(jobs), func(_ context.Context, d reference.Delivery) error {
		if d.Attempt == 1 {
			return errNoLuck
		}
		mu.Lock()
		defer mu.Unlock()
		order = append(order, string(d.Body))
		return nil
	}, reference.WithPrefetch(1), reference.WithLadder(200*time.Millisecond))
	want := ""
	for i := range 20 {
		w.send(jobs, fmt.Sprint(i))
		want += fmt.Sprint(i) + " "
	}
	w.eventually("all retries", func() bool { mu.Lock(); defer mu.Unlock(); return len(order) == 20 })
	if got := strings.Join(order, " ") + " "; got != want {
		t.Errorf("order %s", got)
	}
}

func TestTopologyRefused(t *testing.T) {
	w := newWorld(t)
	client := w.open()
	handler := failing(new(record), 0)
	declare := func(name string, arguments amqp.Table) {
		_, err := w.ch.QueueDeclare(name, true, false, false, false, arguments)
		must(t, err)
	}
	declare(w.name("retry.77"), amqp.Table{"x-message-ttl": int64(78), "x-dead-letter-exchange": ""})
	declare(w.name("capped"), amqp.Table{"x-max-length": int64(3)})
	declare(w.name("plain"), nil)
	declare(w.name("parked.")+w.name("limited"), amqp.Table{"x-max-length": int64(3)})
	for name, c := range map[string]struct {
		source  reference.Source
		options []reference.ConsumerOption
		want    []string
	}{
		"retry queue":   {reference.Queue(w.name("jobs")), []reference.ConsumerOption{reference.WithLadder(77 * time.Millisecond)}, []string{w.name("retry.77"), "x-message-ttl"}},
		"source queue":  {reference.Queue(w.name("capped")), nil, []string{w.name("capped"), "x-max-length"}},
		"queue type":    {reference.Queue(w.name("plain"), reference.Quorum()), nil, []string{w.name("plain"), "x-queue-type"}},
		"parking queue": {reference.Queue(w.name("limited")), nil, []string{w.name("parked."), "x-max-length"}},
		"missing queue": {reference.Existing(w.name("missing")), nil, []string{w.name("missing"), "declare it first"}},
		"reserved name": {reference.Queue("amq.mine"), nil, []string{"amq.mine", "ACCESS_REFUSED"}},
	} {
		begin := time.Now()
		_, err := client.Consume(soon(t), c.source, handler, c.options...)
		var refused *reference.TopologyError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v, want a topology error", name, err)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", name, err, part)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %q", name, err)
		}
		if took := time.Since(begin); took > patience/2 {
			t.Errorf("%s: it took %v", name, took)
		}
	}
	if got := len(w.seen(reference.KindInterrupted)); got != 0 {
		t.Errorf("%d tries again of what cannot succeed", got)
	}
	// The siblings are unharmed.
	w.consume(client, reference.Existing(w.name("capped")), handler)
}
