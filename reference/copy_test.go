package reference

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/reference/internal/seam"
)

func testCopies(ladder ...time.Duration) copies {
	names := Names{}.withDefaults()
	return copies{headers: headersWith("x-"), ladder: ladder, retry: names.Retry, parked: names.Parked}
}

// everyType has a header of every type that AMQP and the client library know.
func everyType() amqp.Table {
	return amqp.Table{
		"bool": true, "int8": int8(-8), "byte": byte(8), "int16": int16(-16), "uint16": uint16(16),
		"int32": int32(-32), "uint32": uint32(32), "int64": int64(-64), "float32": float32(1.5),
		"float64": math.Pi, "decimal": amqp.Decimal{Scale: 2, Value: 314}, "string": "text",
		"bytes": []byte{0, 255}, "time": time.Unix(1700000000, 0).UTC(), "nil": nil,
		"list":  []any{int32(1), "two", []any{int64(3)}, amqp.Table{"four": int8(4)}},
		"table": amqp.Table{"inner": amqp.Table{"deep": true}},
	}
}

func TestBaseKeepsWhatCame(t *testing.T) {
	d := amqp.Delivery{
		Headers: everyType(), ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: amqp.Transient,
		Priority: 7, CorrelationId: "c", ReplyTo: "r", MessageId: "m", Timestamp: time.Unix(1700000000, 0),
		Type: "t", AppId: "a", Exchange: "orders", RoutingKey: "orders.new", Body: []byte("body"),
	}
	before := cloneTable(d.Headers)
	for _, c := range []seam.Copy{
		testCopies(time.Second).retryCopy(seam.Failure{Delivery: d, Queue: "q", Attempt: 1}),
		testCopies(time.Second).parkedCopy(seam.Failure{Delivery: d, Queue: "q", Attempt: 1}),
	} {
		for name, want := range everyType() {
			if got := c.Message.Headers[name]; !reflect.DeepEqual(got, want) {
				t.Errorf("header %s is %#v, want %#v", name, got, want)
			}
		}
		m := c.Message
		m.Headers = nil
		want := amqp.Publishing{
			ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: amqp.Persistent, Priority: 7,
			CorrelationId: "c", ReplyTo: "r", MessageId: "m", Timestamp: time.Unix(1700000000, 0), Type: "t",
			AppId: "a", Body: []byte("body"),
		}
		if !reflect.DeepEqual(m, want) {
			t.Errorf("properties are %+v, want %+v", m, want)
		}
		if !c.Mandatory {
			t.Error("the copy is not mandatory")
		}
		if err := c.Message.Headers.Validate(); err != nil {
			t.Error(err)
		}
	}
	if !reflect.DeepEqual(d.Headers, before) {
		t.Errorf("the delivery's headers were changed: %v", d.Headers)
	}
}

func TestRetryCopy(t *testing.T) {
	c := testCopies(time.Second, 10*time.Second)
	first := c.retryCopy(seam.Failure{
		Delivery: amqp.Delivery{Exchange: "orders", RoutingKey: "orders.new"}, Queue: "orders..billing", Attempt: 1,
	})
	if first.Exchange != "retry.1000" || first.Key != "orders..billing" || first.Delay != time.Second || first.Parked {
		t.Errorf("the first retry goes to %q with key %q for %v", first.Exchange, first.Key, first.Delay)
	}
	want := amqp.Table{"x-attempt": int64(2), "x-exchange": "orders", "x-key": "orders.new"}
	if !reflect.DeepEqual(first.Message.Headers, want) {
		t.Errorf("headers %v, want %v", first.Message.Headers, want)
	}
	// It comes back through the default exchange, under its queue's name.
	second := c.retryCopy(seam.Failure{
		Delivery: amqp.Delivery{Headers: first.Message.Headers, RoutingKey: "orders..billing"}, Queue: "orders..billing", Attempt: 2,
	})
	want["x-attempt"] = int64(3)
	if second.Exchange != "retry.10000" || !reflect.DeepEqual(second.Message.Headers, want) {
		t.Errorf("the second retry goes to %q with %v, want %v", second.Exchange, second.Message.Headers, want)
	}
}

func TestParkedCopy(t *testing.T) {
	at := time.UnixMilli(1700000000123)
	c := testCopies()
	got := c.parkedCopy(seam.Failure{
		Delivery: amqp.Delivery{
			Headers:  amqp.Table{"x-cause": "of another day", "x-exchange": "orders", "x-key": "new"},
			Exchange: "", RoutingKey: "q",
		},
		Queue: "q", Attempt: 3, Reason: "no total", At: at,
	})
	want := amqp.Table{
		"x-attempt": int64(3), "x-exchange": "orders", "x-key": "new", "x-queue": "q", "x-reason": "no total",
		"x-at": int64(1700000000123),
	}
	if got.Exchange != "" || got.Key != "parked.q" || !got.Parked || !reflect.DeepEqual(got.Message.Headers, want) {
		t.Errorf("parked to %q, key %q, with %v; want %v", got.Exchange, got.Key, got.Message.Headers, want)
	}
	got = c.parkedCopy(seam.Failure{Queue: "q", Attempt: 1, Reason: "a: b", Cause: "b", At: at})
	if got.Message.Headers["x-cause"] != "b" || got.Message.Headers["x-attempt"] != int64(1) {
		t.Errorf("headers %v", got.Message.Headers)
	}
}

func TestBaseLeavesOutWhatHarms(t *testing.T) {
	d := amqp.Delivery{
		Headers:    amqp.Table{"CC": []any{"audit"}, "BCC": []any{"spy"}, "cc": "not the broker's", "x-exchange": int32(3)},
		UserId:     "alice",
		Expiration: "500",
		Exchange:   "orders",
		RoutingKey: "new",
	}
	m := testCopies(time.Second).retryCopy(seam.Failure{Delivery: d, Queue: "q", Attempt: 1}).Message
	want := amqp.Table{
		"x-cc": []any{"audit"}, "x-bcc": []any{"spy"}, "cc": "not the broker's", "x-user-id": "alice",
		"x-expiration": "500", "x-attempt": int64(2), "x-exchange": "orders", "x-key": "new",
	}
	if !reflect.DeepEqual(m.Headers, want) {
		t.Errorf("headers %v, want %v", m.Headers, want)
	}
	if m.UserId != "" || m.Expiration != "" {
		t.Errorf("user-id %q, expiration %q: want none", m.UserId, m.Expiration)
	}
	// And on the second failure, what was kept is still kept.
	again := testCopies(0, 0).retryCopy(seam.Failure{Delivery: amqp.Delivery{Headers: m.Headers}, Queue: "q", Attempt: 2}).Message
	want["x-attempt"] = int64(3)
	if !reflect.DeepEqual(again.Headers, want) {
		t.Errorf("headers of the second copy %v, want %v", again.Headers, want)
	}
}

func TestDeathInTheSourceIsNotCarried(t *testing.T) {
	death := []any{amqp.Table{"queue": "elsewhere", "reason": "expired"}, amqp.Table{"queue": "q", "reason": "expired"}}
	c := testCopies(time.Second)
	of := func(queue string) amqp.Table {
		d := amqp.Delivery{Headers: amqp.Table{"x-death": death}}
		return c.retryCopy(seam.Failure{Delivery: d, Queue: queue, Attempt: 1}).Message.Headers
	}
	if h := of("q"); h["x-death"] != nil || !reflect.DeepEqual(h["x-prior-death"], death) {
		t.Errorf("a message that died in its source queue: %v", h)
	}
	if h := of("other"); h["x-prior-death"] != nil || !reflect.DeepEqual(h["x-death"], death) {
		t.Errorf("a message that never died in its source queue: %v", h)
	}
	for _, odd := range []any{nil, "text", []any{"text"}, []any{amqp.Table{}}} {
		if diedIn(odd, "q") {
			t.Errorf("%v names a queue", odd)
		}
	}
}

func TestExhausted(t *testing.T) {
	for _, c := range []struct {
		rungs   int
		attempt int64
		park    bool
		want    bool
	}{
		{0, 1, false, true},
		{2, 1, false, false},
		{2, 2, false, false},
		{2, 3, false, true},
		{2, 1, true, true},
		{2, 99, false, true},
		{2, math.MaxInt64, false, true},
	} {
		got := testCopies(make([]time.Duration, c.rungs)...).exhausted(seam.Failure{Attempt: c.attempt, Park: c.park})
		if got != c.want {
			t.Errorf("%d rungs, attempt %d, park %v: exhausted %v, want %v", c.rungs, c.attempt, c.park, got, c.want)
		}
	}
}

func TestFit(t *testing.T) {
	parked := func(original int) seam.Copy {
		c := testCopies().parkedCopy(seam.Failure{
			Delivery: amqp.Delivery{Headers: amqp.Table{"h": strings.Repeat("x", original)}},
			Queue:    "q", Attempt: 1, Reason: strings.Repeat("r", 512), Cause: strings.Repeat("c", 512),
		})
		return c
	}
	const frameMax = 4096
	small := parked(100)
	if err := fit(&small, frameMax); err != nil || len(small.Message.Headers) != 8 {
		t.Errorf("a small copy: %v, %v", err, small.Message.Headers)
	}
	tight := parked(3300)
	if err := fit(&tight, frameMax); err != nil {
		t.Fatal(err)
	}
	if h := tight.Message.Headers; h["x-cause"] != nil || h["x-reason"] == nil || h["h"] == nil {
		t.Errorf("a tight copy lost %v", h)
	}
	if size := headerFrameSize(&tight.Message); size > frameMax {
		t.Errorf("it still has %d bytes", size)
	}
	large := parked(5000)
	if err := fit(&large, frameMax); err == nil {
		t.Error("a copy that cannot fit is accepted")
	}
	unlimited := parked(1 << 20)
	if err := fit(&unlimited, 0); err != nil {
		t.Error(err)
	}
}

func TestCloneTable(t *testing.T) {
	original := everyType()
	clone := cloneTable(original)
	if !reflect.DeepEqual(clone, original) {
		t.Fatalf("clone %v", clone)
	}
	clone["bytes"].([]byte)[0] = 9
	clone["list"].([]any)[0] = "changed"
	clone["list"].([]any)[3].(amqp.Table)["four"] = "changed"
	clone["table"].(amqp.Table)["inner"].(amqp.Table)["deep"] = "changed"
	delete(clone, "string")
	if !reflect.DeepEqual(original, everyType()) {
		t.Errorf("a change of the clone reached the original: %v", original)
	}
	if cloneTable(nil) != nil {
		t.Error("the clone of no table is a table")
	}
}

func TestTopologyErrorSaysWhatToDo(t *testing.T) {
	err := topologyError("declare retry queue", "retry.1000", &amqp.Error{
		Code:   amqp.PreconditionFailed,
		Reason: "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'retry.1000' in vhost '/': received '1000' but current is '2000'",
	})
	var topology *TopologyError
	if !errors.As(err, &topology) || topology.Argument != "x-message-ttl" || topology.Name != "retry.1000" || !permanent(err) {
		t.Fatalf("%#v", err)
	}
	for _, part := range []string{`declare retry queue "retry.1000"`, "another x-message-ttl"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if topologyError("declare queue", "q", nil) != nil {
		t.Error("no error becomes one")
	}
	for code, want := range map[int]bool{
		amqp.NotFound: true, amqp.AccessRefused: true, amqp.ResourceLocked: true, amqp.NotAllowed: true,
		amqp.InternalError: false, amqp.ConnectionForced: false, amqp.ChannelError: false, amqp.FrameError: false,
	} {
		if got := permanent(&amqp.Error{Code: code}); got != want {
			t.Errorf("code %d: permanent %v, want %v", code, got, want)
		}
	}
	if permanent(errors.New("refused")) {
		t.Error("a refused connection is permanent")
	}
}
