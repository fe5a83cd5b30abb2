package toxics

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// session is a random stream of frames of one direction, without confirms.
func session(t testing.TB, r *rand.Rand, fromBroker bool, size int) []byte {
	t.Helper()
	var raw []byte
	if !fromBroker {
		raw = frame.AppendProtocolHeader(raw)
	}
	for n := uint64(1); len(raw) < size; n++ {
		channel := uint16(1 + r.Intn(3))
		body := make([]byte, []int{0, 10, 1000, 40_000, 300_000}[r.Intn(5)])
		r.Read(body)
		switch r.Intn(6) {
		case 0:
			raw = frame.AppendHeartbeat(raw)
		case 1:
			raw = append(raw, method(t, channel, &frame.QueueDeclareOk{Queue: "q"})...)
		case 2:
			raw = append(raw, method(t, channel, &frame.BasicQos{PrefetchCount: 7})...)
		default:
			var m frame.Method = &frame.BasicPublish{Exchange: "x", RoutingKey: "k"}
			if fromBroker {
				m = &frame.BasicDeliver{ConsumerTag: "t", DeliveryTag: n}
			}
			raw = append(raw, content(t, channel, m, fmt.Sprint("m", n), body)...)
		}
	}
	return raw
}

// trickle writes the bytes in pieces of random sizes.
func trickle(w io.Writer, r *rand.Rand, raw []byte) error {
	most := []int{1 + r.Intn(8), 1 + r.Intn(500), 1 + r.Intn(70_000)}
	for small := 0; len(raw) > 0; {
		n := 1 + r.Intn(most[r.Intn(len(most))])
		if small++; small > 2000 {
			n = 70_000 // enough of them
		}
		n = min(n, len(raw))
		if _, err := w.Write(raw[:n]); err != nil {
			return err
		}
		raw = raw[n:]
	}
	return nil
}

// exchange sends a session each way at once and compares what arrives; during it, meanwhile runs.
func exchange(t *testing.T, client, broker *peer, seed int64, size int, meanwhile func()) {
	t.Helper()
	var all sync.WaitGroup
	for i, p := range [][2]*peer{{client, broker}, {broker, client}} {
		r := rand.New(rand.NewSource(seed + int64(i)))
		raw := session(t, r, i == 1, size)
		all.Go(func() {
			if err := trickle(p[0], r, raw); err != nil {
				t.Errorf("seed %d: writing: %v", seed, err)
			}
		})
		all.Go(func() {
			got := make([]byte, len(raw))
			if n, err := io.ReadFull(p[1], got); err != nil {
				t.Errorf("seed %d: %d of %d bytes arrived: %v", seed, n, len(raw), err)
			} else if !bytes.Equal(got, raw) {
				t.Errorf("seed %d: other bytes arrived", seed)
			}
		})
	}
	if meanwhile != nil {
		meanwhile()
	}
	all.Wait()
}

func TestBytesArriveUnchanged(t *testing.T) {
	leakFree(t)
	for seed := range int64(12) {
		r := newRig(t, withDelay(time.Millisecond))
		client, broker := r.connect()
		exchange(t, client, broker, seed, 1<<20, nil)
		for _, e := range r.ledger.Events() {
			if e.Kind == ledger.Undecodable {
				t.Errorf("seed %d: %s", seed, e.Text)
			}
		}
		if t.Failed() {
			return
		}
	}
}

func TestWhatWaitedGoesOnInOnePiece(t *testing.T) {
	book := ledger.New()
	l := newLink(Options{Ledger: book, Identify: func(c *ledger.Content) string { return c.Properties.MessageID }}, 1, nil, nil)
	var raw []byte
	for n := range uint64(20) {
		raw = append(raw, content(t, 1, &frame.BasicDeliver{ConsumerTag: "t", DeliveryTag: n + 1}, fmt.Sprint("m", n), []byte("body"))...)
	}
	for _, size := range []int{1, 7, 33, len(raw) / 2, len(raw)} {
		d := &direction{fromBroker: true, reader: frame.NewReader(0), maxFrame: frame.DefaultMaxFrame}
		input := make(chan *stream.StreamChunk, len(raw)/size+1)
		for rest := raw; len(rest) > 0; {
			n := min(size, len(rest))
			input <- &stream.StreamChunk{Data: bytes.Clone(rest[:n])}
			rest = rest[n:]
		}
		before := len(book.Events())
		if got := l.takeWaiting(d, <-input, input); got == nil || !bytes.Equal(got.Data, raw) {
			t.Errorf("in chunks of %d bytes: other bytes, or not all", size)
		}
		if seen := len(book.Events()) - before; seen != 20 {
			t.Errorf("in chunks of %d bytes: %d deliveries seen, want 20", size, seen)
		}
	}
}

func TestAPieceDoesNotGrowForEver(t *testing.T) {
	l := newLink(Options{Ledger: ledger.New(), Identify: func(*ledger.Content) string { return "" }}, 1, nil, nil)
	d := l.sides[1]
	chunk := func() *stream.StreamChunk {
		return &stream.StreamChunk{Data: content(t, 1, &frame.BasicDeliver{ConsumerTag: "t", DeliveryTag: 1}, "m", make([]byte, 20_000))}
	}
	input := make(chan *stream.StreamChunk, 5)
	for range cap(input) {
		input <- chunk()
	}
	if got := l.takeWaiting(d, chunk(), input); len(got.Data) > pieceSize || len(input) != 4 {
		t.Errorf("%d bytes in one piece, and %d chunks left, want 4", len(got.Data), len(input))
	}
}

// Frames longer than a piece, towards one who reads late, so that the next is there when the writer
// comes for it.
func TestLongFramesToALateReader(t *testing.T) {
	leakFree(t)
	r := newRig(t)
	client, broker := r.connect()
	var raw []byte
	rnd := rand.New(rand.NewSource(1))
	body := make([]byte, frame.DefaultMaxFrame-frame.Overhead-1)
	const n = 120 // some 16 MB: more than the sockets in between take
	for i := range n {
		rnd.Read(body)
		raw = append(raw, content(t, 1, &frame.BasicPublish{RoutingKey: "q"}, fmt.Sprint("m", i), body)...)
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		if _, err := client.Write(raw); err != nil {
			t.Error(err)
		}
	})
	r.await("some have passed", func(e ledger.Event) bool { return e.Seq >= 10 })
	got := make([]byte, len(raw))
	if n, err := io.ReadFull(broker, got); err != nil || !bytes.Equal(got, raw) {
		t.Errorf("%d of %d bytes arrived, the same: %v: %v", n, len(raw), bytes.Equal(got, raw), err)
	}
	writing.Wait()
}

// Each message is in the ledger once, with its id and size.
func TestTheLedgerHasWhatPassed(t *testing.T) {
	r := newRig(t)
	client, broker := r.connect()
	rnd := rand.New(rand.NewSource(1))
	var raw []byte
	const n = 300
	for i := range n {
		raw = append(raw, content(t, 1, &frame.BasicPublish{RoutingKey: "q"}, fmt.Sprint("m", i), make([]byte, i*7))...)
	}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.CopyN(io.Discard, broker, int64(len(raw))) })
	if err := trickle(client, rnd, raw); err != nil {
		t.Fatal(err)
	}
	reading.Wait()
	for i, e := range r.ledger.Events() {
		if e.Kind != ledger.Published || e.Message != fmt.Sprint("m", i) || e.Content.Size != uint64(i*7) || e.Tag != uint64(i+1) {
			t.Fatalf("event %d: %+v", i, e)
		}
	}
	if got := len(r.ledger.Events()); got != n {
		t.Errorf("%d events", got)
	}
}

// An event is in the ledger before the other side has the frame.
func TestTheLedgerKnowsFirst(t *testing.T) {
	r := newRig(t)
	client, broker := r.connect()
	for i := range 100 {
		publish(client, broker, 1, fmt.Sprint("m", i))
		if got := len(r.ledger.Events()); got != i+1 {
			t.Fatalf("the broker has message %d, and the ledger %d events", i, got)
		}
	}
}

func TestTheConfirmOfACopyIsLate(t *testing.T) {
	const delay = 150 * time.Millisecond
	r := newRig(t, withDelay(delay))
	client, broker := r.connect()
	confirming(client, broker, 1)
	confirming(client, broker, 2)
	publish(client, broker, 1, "m1")
	publish(client, broker, 1, "m2")
	publish(client, broker, 2, "")
	began := time.Now()
	// In one piece: the confirm of m1, and what overtakes it.
	broker.send(
		method(t, 1, &frame.BasicAck{DeliveryTag: 1}),
		content(t, 1, &frame.BasicDeliver{DeliveryTag: 1}, "m3", []byte("overtakes")),
		method(t, 1, &frame.BasicAck{DeliveryTag: 2}),
		method(t, 2, &frame.BasicAck{DeliveryTag: 1}),
		frame.AppendHeartbeat(nil),
	)
	client.hears(&frame.BasicDeliver{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 1})
	client.hears(&frame.BasicAck{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 2})
	if e := time.Since(began); e < delay {
		t.Errorf("the confirms came after %s", e)
	}
	var told []string
	for _, e := range r.ledger.Events()[9:] {
		told = append(told, fmt.Sprintf("%s %d.%d", e.Kind, e.Channel, e.Tag))
	}
	if got, want := strings.Join(told, ", "), "confirm-arrived 1.1, delivered 1.1, confirm-arrived 1.2, confirmed 2.1, confirmed 1.1, confirmed 1.2"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// Each confirm waits for its own delay.
func TestEachConfirmIsLate(t *testing.T) {
	const delay = 100 * time.Millisecond
	r := newRig(t, withDelay(delay))
	client, broker := r.connect()
	confirming(client, broker, 1)
	publish(client, broker, 1, "m1")
	publish(client, broker, 1, "m2")
	broker.say(1, &frame.BasicAck{DeliveryTag: 1})
	r.awaitKind(ledger.ConfirmArrived)
	client.silent(delay / 2)
	second := time.Now()
	broker.say(1, &frame.BasicAck{DeliveryTag: 2})
	client.hears(&frame.BasicAck{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 2})
	if e := time.Since(second); e < delay {
		t.Errorf("the second came after %s", e)
	}
}

// A held confirm that came in pieces is still itself after other frames have come in pieces.
func TestAHeldConfirmIsKeptWhole(t *testing.T) {
	r := newRig(t, withDelay(never))
	client, broker := r.connect()
	confirming(client, broker, 1)
	publish(client, broker, 1, "m1")
	heartbeat := frame.AppendHeartbeat(nil)
	inPieces := func(raw []byte) {
		t.Helper()
		// The heartbeat has arrived, so the first piece is at the tap by itself.
		broker.send(heartbeat, raw[:5])
		if f, err := client.next(); err != nil || f.Type != frame.TypeHeartbeat {
			t.Fatal(f, err)
		}
		broker.send(raw[5:])
	}
	inPieces(method(t, 1, &frame.BasicAck{DeliveryTag: 1}))
	r.awaitKind(ledger.ConfirmArrived)
	for range 3 {
		inPieces(method(t, 2, &frame.BasicCancelOk{ConsumerTag: "a longer frame than the confirm's"}))
		client.hears(&frame.BasicCancelOk{ConsumerTag: "a longer frame than the confirm's"})
	}
	broker.say(1, &frame.ChannelClose{ReplyCode: 404})
	client.hears(&frame.BasicAck{DeliveryTag: 1}, &frame.ChannelClose{ReplyCode: 404})
}

// A confirm that may go at once does not overtake a held one of its channel: with multiple set, it
// would confirm that one too.
func TestConfirmsKeepTheirOrder(t *testing.T) {
	r := newRig(t, withDelay(50*time.Millisecond))
	client, broker := r.connect()
	confirming(client, broker, 1)
	publish(client, broker, 1, "m1")
	publish(client, broker, 1, "")
	publish(client, broker, 1, "")
	publish(client, broker, 1, "m4")
	broker.say(1, &frame.BasicAck{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 2}, &frame.BasicNack{DeliveryTag: 3, Multiple: true}, &frame.BasicAck{DeliveryTag: 4, Multiple: true})
	client.hears(&frame.BasicAck{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 2}, &frame.BasicNack{DeliveryTag: 3, Multiple: true}, &frame.BasicAck{DeliveryTag: 4, Multiple: true})
	kinds := fmt.Sprint(r.kinds()[7:])
	if want := "[confirm-arrived confirm-arrived confirmed confirmed refused confirmed]"; kinds != want {
		// The second arrival may come before or after the first is passed on.
		if alternative := "[confirm-arrived confirmed confirmed refused confirm-arrived confirmed]"; kinds != alternative {
			t.Errorf("%s, want %s", kinds, want)
		}
	}
}

func TestWithoutADelayConfirmsPassAtOnce(t *testing.T) {
	r := newRig(t)
	client, broker := r.connect()
	confirming(client, broker, 1)
	publish(client, broker, 1, "m1")
	broker.send(method(t, 1, &frame.BasicAck{DeliveryTag: 1}), method(t, 1, &frame.BasicQosOk{}))
	client.hears(&frame.BasicAck{DeliveryTag: 1}, &frame.BasicQosOk{})
	r.awaitKind(ledger.Confirmed)
}

// never is a delay that no test sees the end of.
const never = time.Hour

func TestHeldConfirmsGoBeforeTheEnd(t *testing.T) {
	held := []frame.Method{&frame.BasicAck{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 2}}
	for _, c := range []struct {
		name    string
		channel uint16
		request frame.Method // the client's, where the end is its wish
		end     frame.Method
		apart   bool // the end comes in a piece of its own
	}{
		{"the broker closes the channel", 1, nil, &frame.ChannelClose{ReplyCode: 404, ReplyText: "NOT_FOUND"}, false},
		{"the broker closes the channel, later", 1, nil, &frame.ChannelClose{ReplyCode: 404, ReplyText: "NOT_FOUND"}, true},
		{"the client closes the channel", 1, &frame.ChannelClose{ReplyCode: 200}, &frame.ChannelCloseOk{}, false},
		{"the broker closes the connection", 0, nil, &frame.ConnectionClose{ReplyCode: 320, ReplyText: "CONNECTION_FORCED"}, false},
		{"the client closes the connection", 0, &frame.ConnectionClose{ReplyCode: 200}, &frame.ConnectionCloseOk{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			leakFree(t)
			r := newRig(t, withDelay(never))
			client, broker := r.connect()
			confirming(client, broker, 1)
			publish(client, broker, 1, "m1")
			publish(client, broker, 1, "m2")
			if c.request != nil {
				client.say(c.channel, c.request)
				broker.hears(c.request)
			}
			pieces := [][]byte{method(t, 1, held[0]), method(t, 1, held[1]), method(t, c.channel, c.end)}
			if c.apart {
				broker.send(pieces[:2]...)
				r.await("both have arrived", func(e ledger.Event) bool { return e.Kind == ledger.ConfirmArrived && e.Tag == 2 })
				client.silent(20 * time.Millisecond)
				pieces = pieces[2:]
			}
			broker.send(pieces...)
			client.hears(held...)
			client.hears(c.end)
		})
	}
	t.Run("the broker closes without a word", func(t *testing.T) {
		leakFree(t)
		r := newRig(t, withDelay(never))
		client, broker := r.connect()
		confirming(client, broker, 1)
		publish(client, broker, 1, "m1")
		broker.say(1, held[0])
		r.awaitKind(ledger.ConfirmArrived)
		_ = broker.Close()
		client.hears(held[0])
		client.ends()
	})
	t.Run("the client closes without a word: nothing waits for the delay", func(t *testing.T) {
		leakFree(t)
		r := newRig(t, withDelay(never))
		client, broker := r.connect()
		confirming(client, broker, 1)
		publish(client, broker, 1, "m1")
		broker.say(1, held[0])
		r.awaitKind(ledger.ConfirmArrived)
		_ = client.Close()
		broker.ends()
		eventually(t, "no link left", func() bool { return len(r.Links()) == 0 })
	})
}

// slowly adds a latency toxic to both directions of the live link, and removes it, over and over,
// until stop is closed.
func slowly(t *testing.T, l *Link, stop <-chan struct{}) (times int) {
	t.Helper()
	for ; ; times++ {
		for _, stream := range []string{"upstream", "downstream"} {
			toxic := fmt.Sprintf(`{"name":%q,"type":"latency","stream":%q,"attributes":{"latency":1}}`, "slow "+stream, stream)
			if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
				t.Error(err)
			}
		}
		for _, stream := range []string{"upstream", "downstream"} {
			if err := l.proxy.Toxics.RemoveToxic(context.Background(), "slow "+stream); err != nil {
				t.Error(err)
			}
		}
		select {
		case <-stop:
			return times + 1
		case <-time.After(time.Millisecond):
		}
	}
}

func TestAnInterruptedTapLosesNothing(t *testing.T) {
	leakFree(t)
	for seed := range int64(4) {
		r := newRig(t)
		client, broker := r.connect()
		stop, stopped := make(chan struct{}), make(chan int, 1)
		link := r.link()
		go func() { stopped <- slowly(t, link, stop) }()
		exchange(t, client, broker, 100+seed, 2<<20, nil)
		close(stop)
		if n := <-stopped; n < 3 {
			t.Errorf("interrupted %d times only", n)
		}
		if t.Failed() {
			return
		}
	}
}

// What is held when the tap is interrupted is passed on by the one that goes on.
func TestAnInterruptedTapKeepsWhatItHolds(t *testing.T) {
	leakFree(t)
	const n = 200
	r := newRig(t, withDelay(5*time.Millisecond))
	client, broker := r.connect()
	confirming(client, broker, 1)
	stop, stopped := make(chan struct{}), make(chan int, 1)
	link := r.link()
	go func() { stopped <- slowly(t, link, stop) }()
	var answering sync.WaitGroup
	answering.Go(func() {
		for i := range n {
			broker.hears(&frame.BasicPublish{RoutingKey: "q"})
			broker.say(1, &frame.BasicAck{DeliveryTag: uint64(i + 1)})
		}
	})
	for i := range n {
		client.send(content(t, 1, &frame.BasicPublish{RoutingKey: "q"}, fmt.Sprint("m", i), nil))
		if i%10 == 9 {
			for j := i - 9; j <= i; j++ {
				client.hears(&frame.BasicAck{DeliveryTag: uint64(j + 1)})
			}
		}
	}
	answering.Wait()
	close(stop)
	t.Logf("interrupted %d times", <-stopped)
	counts := map[ledger.Kind]int{}
	for _, e := range r.ledger.Events() {
		counts[e.Kind]++
	}
	if counts[ledger.ConfirmArrived] != n || counts[ledger.Confirmed] != n {
		t.Errorf("%v", counts)
	}
}

// Frames as large as was agreed on pass; larger ones are no AMQP.
func TestTheAgreedFrameSize(t *testing.T) {
	big := frame.AppendFrame(nil, frame.TypeBody, 1, make([]byte, 200_000))
	for _, c := range []struct {
		max    uint32
		passes bool
	}{{131072, false}, {300_000, true}, {0, true}} {
		t.Run(fmt.Sprint(c.max), func(t *testing.T) {
			leakFree(t)
			r := newRig(t)
			client, broker := r.connect()
			broker.say(0, &frame.ConnectionTune{FrameMax: c.max})
			client.hears(&frame.ConnectionTune{FrameMax: c.max})
			client.send(method(t, 1, &frame.BasicPublish{}))
			var sending sync.WaitGroup
			sending.Go(func() { _, _ = client.Write(big) })
			defer sending.Wait()
			if c.passes {
				broker.hears(&frame.BasicPublish{})
				if f, err := broker.next(); err != nil || !bytes.Equal(f.Raw, big) {
					t.Errorf("%v: %v", f, err)
				}
				return
			}
			if e := r.awaitKind(ledger.Undecodable); !strings.Contains(e.Text, "frame larger than the limit") {
				t.Errorf("%q", e.Text)
			}
		})
	}
}

func TestATapWithoutItsLinkClosesThrough(t *testing.T) {
	leakFree(t)
	r := newRig(t)
	client, broker := r.connect()
	link := r.link()
	forget(link)
	// The interrupted taps look for their link again, and do not find it.
	_ = slowly(t, link, closedChannel())
	client.ends()
	broker.ends()
}

func closedChannel() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
