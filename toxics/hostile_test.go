package toxics

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// attack is what a hostile end of a connection sends: pieces of one frame or several, or of none.
type attack struct {
	next   func(i int) []byte
	pieces int
	// cut says that the wire must end the connection; else all must be passed on.
	cut bool
	// partial says that it stops within a frame.
	partial bool
	// events is how many events the ledger may have of it, but for those that say what parkproof did.
	events int
	// keeps is what it makes the wire keep besides, in bytes.
	keeps int
}

const (
	// wireKeeps is what a wire may keep of a connection whatever is sent, in bytes: for each direction what waits for
	// the tap, in toxiproxy's chunks of 32 KiB, what goes out at once, and the reader's largest frame twice.
	wireKeeps = 2 * (waitingChunks*32<<10 + 2*pieceSize + 2*frame.DefaultMaxFrame)
	// eventKeeps is what the ledger may keep of an event, in bytes: twice its size, since its list grows by doubling,
	// and the text of an error.
	eventKeeps = 2*int(unsafe.Sizeof(ledger.Event{})) + 512
	// contentKeeps is what an incomplete content may take beside its method, header and body, in bytes.
	contentKeeps = 2048
)

// arrived ends what is passed on: a heartbeat on a channel that nobody uses.
var arrived = frame.AppendFrame(nil, frame.TypeHeartbeat, 0x7777, nil)

func attacks(t testing.TB, fromBroker bool) map[string]attack {
	t.Helper()
	begins := func(channel int) []byte {
		if fromBroker {
			return method(t, uint16(channel), &frame.BasicDeliver{ConsumerTag: "c", DeliveryTag: 1, RoutingKey: "q"})
		}
		return method(t, uint16(channel), &frame.BasicPublish{RoutingKey: "q"})
	}
	header := func(channel int, size uint64, p frame.Properties) []byte {
		payload, err := frame.AppendHeader(nil, frame.Header{Class: frame.ClassBasic, BodySize: size, Properties: p})
		if err != nil {
			t.Fatal(err)
		}
		return frame.AppendFrame(nil, frame.TypeHeader, uint16(channel), payload)
	}
	body := func(channel, size int) []byte {
		return frame.AppendFrame(nil, frame.TypeBody, uint16(channel), make([]byte, size))
	}
	many := func(n int, piece []byte) []byte { return bytes.Repeat(piece, n) }
	endless := func(size uint64, piece []byte) func(int) []byte {
		return func(i int) []byte {
			if i == 0 {
				return append(begins(1), header(1, size, frame.Properties{})...)
			}
			return piece
		}
	}
	then := func(first, piece []byte) func(int) []byte {
		return func(i int) []byte {
			if i == 0 {
				return first
			}
			return piece
		}
	}
	// A queue.declare whose arguments are arrays, each inside the one before.
	deep := func(levels int) []byte {
		const level = 5 // an array's type and length
		payload := []byte("\x00\x32\x00\x0a\x00\x00\x00\x00")
		size := func(n int) []byte { return []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)} }
		payload = append(append(payload, size(2+levels*level)...), 1, 'k')
		for left := levels - 1; left >= 0; left-- {
			payload = append(append(payload, 'A'), size(left*level)...)
		}
		return frame.AppendFrame(nil, frame.TypeMethod, 1, payload)
	}
	full := frame.Properties{Headers: frame.Table{{Key: "k", Value: make(frame.Array, frame.MaxValues-1)}}}
	garbage := rand.New(rand.NewSource(1))
	all := map[string]attack{
		"noise": {
			next:   func(int) []byte { b := make([]byte, 4096); garbage.Read(b); b[0] |= 0x10; return b },
			pieces: 4000, cut: true, events: 1,
		},
		"a length of 4 GiB":  {next: then([]byte("\x03\x00\x01\xff\xff\xff\xff"), make([]byte, 4096)), pieces: 4000, cut: true, events: 1},
		"no end octet":       {next: then([]byte("\x08\x00\x00\x00\x00\x00\x00\x00"), make([]byte, 4096)), pieces: 4000, cut: true, events: 1},
		"an AMQP 1.0 header": {next: then([]byte("AMQP\x00\x01\x00\x00"), make([]byte, 4096)), pieces: 4000, cut: true, events: 1},
		"tables that are deep, a few": {
			next: func(int) []byte { return deep(20000) }, pieces: undecodableOfLink - 1, events: undecodableOfLink - 1,
		},
		"tables that are deep, for ever": {next: func(int) []byte { return deep(100) }, pieces: 100000, cut: true, events: 20000},
		"methods that do not exist": {
			next: func(i int) []byte {
				return frame.AppendFrame(nil, frame.TypeMethod, uint16(i), []byte{byte(i >> 8), byte(i), 0, byte(200 + i%50)})
			},
			pieces: 100000, keeps: (math.MaxUint16 + 1) * 32,
		},
		"methods without ids":             {next: func(int) []byte { return frame.AppendFrame(nil, frame.TypeMethod, 1, nil) }, pieces: 200000, cut: true, events: 50000},
		"bodies without method":           {next: func(i int) []byte { return body(i%60000, 10) }, pieces: 200000, cut: true, events: 50000, keeps: (math.MaxUint16 + 1) * 32},
		"headers without method":          {next: func(i int) []byte { return header(i%60000, 1<<63, full) }, pieces: 20000, cut: true, events: 5000},
		"bodies without header":           {next: then(begins(1), many(100, body(1, 1000))), pieces: 200, events: 1},
		"a body of 2^63 bytes":            {next: endless(1<<63, many(16, body(1, 4096))), pieces: 600},
		"a body of 2^64-1 bytes":          {next: endless(math.MaxUint64, many(16, body(1, 4096))), pieces: 600},
		"empty frames of an endless body": {next: endless(1<<63, many(1000, body(1, 0))), pieces: 1300},
		"small frames of an endless body": {next: endless(1<<63, many(1000, body(1, 1))), pieces: 1300},
		"heartbeats with a payload": {next: func(i int) []byte {
			return frame.AppendFrame(nil, frame.TypeHeartbeat, uint16(i%1000), make([]byte, 1000))
		}, pieces: 20000},
		"contents on channel 0": {
			next: func(int) []byte {
				return bytes.Join([][]byte{begins(0), header(0, 10, frame.Properties{}), body(0, 10)}, nil)
			},
			pieces: 2000, events: 2000, keeps: 2000 * 1024,
		},
		"a channel's methods on channel 0": {
			next: func(int) []byte {
				return bytes.Join([][]byte{method(t, 0, &frame.ChannelOpen{}), method(t, 0, &frame.QueueDeclare{Queue: "q"}), method(t, 0, &frame.ChannelCloseOk{})}, nil)
			},
			pieces: 2000, events: 4000, keeps: 2000 * 1024,
		},
		"a connection's methods on every channel": {
			next: func(i int) []byte {
				return method(t, uint16(i), &frame.ConnectionTuneOk{FrameMax: 4096, ChannelMax: 1})
			}, pieces: 60000,
			keeps: 60000 * 512, // the state of a channel
		},
		"a method on every channel": {
			next: func(i int) []byte { return begins(i) }, pieces: frame.MaxOpen + undecodableOfLink - 1, events: undecodableOfLink - 1,
			keeps: (frame.MaxOpen + undecodableOfLink) * contentKeeps,
		},
		"a full table on every channel": {
			next: func(i int) []byte { return append(begins(i), header(i, 1, full)...) }, pieces: 150, events: undecodableOfLink - 1,
			keeps: 150*contentKeeps + frame.MaxOpenSize,
		},
		"a body but for its last byte on every channel": {
			next: func(i int) []byte {
				return bytes.Join([][]byte{begins(i), header(i, 64<<10, frame.Properties{}), body(i, 64<<10-1)}, nil)
			},
			pieces: 1500, keeps: 1500*contentKeeps + frame.MaxOpenSize,
		},
	}
	if fromBroker {
		// Without a limit, a frame may be as large as a message.
		all["a frame of 512 MiB"] = attack{
			next: then(append(method(t, 0, &frame.ConnectionTune{}), "\x03\x00\x01\x1f\xff\xff\xff"...), make([]byte, 4096)), pieces: 100,
			partial: true, keeps: 4 * 100 * 4096,
		}
		all["a limit of 1 byte"] = attack{
			next: then(method(t, 0, &frame.ConnectionTune{FrameMax: 1}), begins(1)), pieces: 2, cut: true, events: 1,
		}
	}
	return all
}

// alive is the memory in use, in bytes.
func alive() int {
	runtime.GC()
	runtime.GC() // what pools let go of is free after the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Whatever either end sends, with a fault armed and without: the wire passes it on or ends the connection, keeps
// little of it, and serves others meanwhile.
func TestHostileEnds(t *testing.T) {
	for _, fromBroker := range []bool{false, true} {
		for _, armed := range []bool{false, true} {
			side := map[bool]string{false: "client", true: "broker"}[fromBroker]
			t.Run(fmt.Sprintf("%s, armed %v", side, armed), func(t *testing.T) {
				for name, a := range attacks(t, fromBroker) {
					t.Run(name, func(t *testing.T) { hostileEnd(t, a, fromBroker, armed) })
				}
			})
		}
	}
}

func hostileEnd(t *testing.T, a attack, fromBroker, armed bool) {
	leakFree(t)
	faults := NewFaults()
	r := newRig(t, func(o *Options) { o.Faults = faults })
	if armed {
		// It never fires: no message has this name.
		for _, trigger := range []Trigger{publishing("absent"), delivering("absent")} {
			faults.Arm(Fault{Trigger: trigger, Action: CutBefore})
		}
		a.keeps += 2 * begunLimit // what is kept back, and the room to grow into
	}
	client, broker := r.connect()
	if !fromBroker && a.next(0)[0] != 'A' && !a.cut {
		client.send(frame.AppendProtocolHeader(nil))
	}
	from, to := client, broker
	if fromBroker {
		from, to = broker, client
	}
	before := alive()
	came := make(chan error, 1)
	go func() { came <- awaitArrived(to) }()
	sent := 0
	var err error
	for i := 0; i < a.pieces && err == nil; i++ {
		piece := a.next(i)
		sent += len(piece)
		_, err = from.Write(piece)
	}
	if err == nil && !a.cut && !a.partial {
		_, err = from.Write(arrived)
	}
	switch {
	case a.partial:
		// Nothing tells from outside when a part of a frame has come to the reader.
		l := r.link()
		eventually(t, "the agreement on the frame size", func() bool { return l.maxFrame.Load() == frame.LargestMaxFrame })
	case !a.cut:
		if end := <-came; err != nil || end != nil {
			t.Errorf("it was not passed on: %v, %v", err, end)
		}
	default:
		if <-came == nil {
			t.Error("the wire did not end the connection")
		}
		from.ends()
	}
	grown := alive() - before
	events := 0
	for _, e := range r.ledger.Events() {
		if len(e.Text) > 600 {
			t.Errorf("a text of %d bytes: %.100s", len(e.Text), e.Text)
		}
		if e.Kind != ledger.ConnectionLost && !strings.Contains(e.Text, "parkproof cut") {
			events++
		}
	}
	if events > a.events {
		t.Errorf("%d events, of at most %d", events, a.events)
	}
	most := wireKeeps + a.keeps + events*eventKeeps
	t.Logf("%d bytes of %d sent are kept, of at most %d; %d events", grown, sent, most, events)
	if grown > most {
		t.Errorf("%d bytes of %d sent are kept, of at most %d", grown, sent, most)
	}
	// Others are served.
	other, answers := r.connect()
	other.say(1, &frame.ChannelOpen{})
	answers.hears(&frame.ChannelOpen{})
	runtime.KeepAlive(r)
}

// awaitArrived reads until the marker has come.
func awaitArrived(p *peer) error {
	buffer := make([]byte, 64<<10)
	kept := 0
	for {
		n, err := p.Read(buffer[kept:])
		if bytes.Contains(buffer[:kept+n], arrived) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		// The marker may be spread over two reads.
		tail := min(len(arrived)-1, kept+n)
		copy(buffer, buffer[kept+n-tail:kept+n])
		kept = tail
	}
}

// A connection that ends anywhere within what it says, in the orderly way or not, ends on the other side too, with all
// whole frames passed on before.
func TestEndsWithinAFrame(t *testing.T) {
	leakFree(t)
	for seed := range int64(40) {
		r := rand.New(rand.NewSource(seed))
		fromBroker, reset := seed%2 == 1, seed%4 >= 2
		rig := newRig(t)
		client, broker := rig.connect()
		from, to := client, broker
		if fromBroker {
			from, to = broker, client
		}
		raw := session(t, r, fromBroker, 20_000)
		raw = raw[:1+r.Intn(len(raw))]
		whole := wholeFrames(t, raw)
		from.send(raw)
		got := make([]byte, whole)
		if _, err := io.ReadFull(to, got); err != nil || !bytes.Equal(got, raw[:whole]) {
			t.Fatalf("seed %d: %d whole bytes were not passed on: %v", seed, whole, err)
		}
		if tcp, ok := from.Conn.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0)
		}
		if err := from.Close(); err != nil {
			t.Fatal(err)
		}
		to.ends()
		if e := rig.awaitKind(ledger.ConnectionLost); e.Broker != fromBroker && !reset {
			t.Errorf("seed %d: the other side is said to have closed it: %+v", seed, e)
		}
	}
}

// wholeFrames is how many bytes of a stream are whole frames.
func wholeFrames(t *testing.T, raw []byte) int {
	t.Helper()
	r := frame.NewReader(frame.DefaultMaxFrame)
	r.Feed(raw)
	for {
		if _, ok, err := r.Next(); err != nil {
			t.Fatal(err)
		} else if !ok {
			return int(r.Offset()) //nolint:gosec // it is at most len(raw)
		}
	}
}

// Sessions with bytes changed, in both directions at once, with a fault armed and without: the wire passes them on or
// ends the connection, and serves the next.
func TestMutatedSessions(t *testing.T) {
	leakFree(t)
	faults := NewFaults()
	r := newRig(t, func(o *Options) { o.Faults = faults })
	for seed := range int64(60) {
		random := rand.New(rand.NewSource(seed))
		if seed == 30 {
			faults.Arm(Fault{Trigger: publishing("m3"), Action: CutAfter})
		}
		client, broker := r.connect()
		var written, read sync.WaitGroup
		for _, p := range []*peer{client, broker} {
			raw := session(t, random, p == broker, 50_000)
			for range 1 + random.Intn(3) {
				raw[random.Intn(len(raw))] ^= 1 << random.Intn(8)
			}
			written.Go(func() { _, _ = p.Write(raw) })
			read.Go(func() { _, _ = io.Copy(io.Discard, p.Conn) })
		}
		within(t, patience, "what the two send", written.Wait)
		_ = client.Close()
		_ = broker.Close()
		within(t, patience, "what the two receive", read.Wait)
		eventually(t, "the end of the link", func() bool { return len(r.Links()) == 0 })
	}
	faults.Heal()
	client, broker := r.connect()
	client.say(1, &frame.ChannelOpen{})
	broker.hears(&frame.ChannelOpen{})
}

// A connection that does more than can be kept, or is never understood, is cut, and that is said once.
func TestFloods(t *testing.T) {
	for name, c := range map[string]struct {
		mostKept, mostUndecodable int
		event                     ledger.Event
		cutAt                     int
		says                      string
	}{
		"commands": {
			mostKept: 10 << 20, mostUndecodable: 5, event: ledger.Event{Kind: ledger.Acked, Covers: make([]int, 1<<17)},
			cutAt: 10, says: "does more than a case can keep a record of (10 MiB): parkproof cut the connection",
		},
		"bodies": {
			mostKept: 10 << 20, mostUndecodable: 5, event: ledger.Event{Kind: ledger.Published, Content: &ledger.Content{Body: make([]byte, 1<<20)}},
			cutAt: 10, says: "10 MiB",
		},
		"tables": {
			mostKept: 10 << 20, mostUndecodable: 5,
			event: ledger.Event{Kind: ledger.Asked, Method: &frame.QueueDeclare{Arguments: frame.Table{
				{Key: "k", Value: make(frame.Array, 1<<15)}, {Key: "l", Value: frame.Table{{Key: "m", Value: strings.Repeat("x", 256<<10)}}},
			}}},
			cutAt: 10, says: "10 MiB",
		},
		"what cannot be understood": {
			mostKept: 10 << 20, mostUndecodable: 5, event: ledger.Event{Kind: ledger.Undecodable, Broker: true},
			cutAt: 5, says: "has sent what cannot be understood 5 times",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			client, broker := r.connect()
			l := r.link()
			add := l.boundedBy(r.ledger.Add, c.mostKept, c.mostUndecodable)
			for i := range 20 {
				if l.isClosed() != (i >= c.cutAt) {
					t.Fatalf("after %d events: cut is %v", i, l.isClosed())
				}
				before := len(r.ledger.Events())
				if seq := add(c.event); r.ledger.Events()[seq-1].Kind != c.event.Kind || seq <= before {
					t.Fatalf("the event is said to be number %d of %d", seq, before)
				}
			}
			client.ends()
			broker.ends()
			var said []string
			for _, e := range r.ledger.Events() {
				if e.Kind == ledger.Undecodable && strings.Contains(e.Text, "parkproof cut") {
					said = append(said, e.Text)
				}
			}
			if len(said) != 1 || !strings.Contains(said[0], c.says) {
				t.Errorf("%q does not say once %q", said, c.says)
			}
		})
	}
}

func (l *Link) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// What is kept back of contents that have begun is bounded in all, however many and long they are.
func TestOverlong(t *testing.T) {
	for channels, size := range map[int]int{1: begunLimit, 100: begunLimit / 100, 65536: begunLimit / 65536} {
		d := &direction{begun: map[uint16]*begun{}}
		for channel := range channels {
			d.begun[uint16(channel)] = &begun{raw: make([]byte, size)} //nolint:gosec // there are as many
		}
		if d.overlong(d.begun[0]) {
			t.Errorf("%d bytes on each of %d channels are too much", size, channels)
		}
		d.begun[0].raw = append(d.begun[0].raw, 0)
		if !d.overlong(d.begun[0]) {
			t.Errorf("%d bytes on each of %d channels are not too much", size+1, channels)
		}
	}
}
