package frame

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"runtime"
	"testing"
)

// hostile is a stream that no client or broker in its senses sends.
type hostile struct {
	// next returns the i-th piece: one frame or several, or what is none.
	next func(i int) []byte
	// pieces is how many of them are fed.
	pieces int
	// keeps bounds the memory, in bytes, that the reader and the assembler have grown by in the end, with what the
	// stream makes them keep.
	keeps int
	// fails says that the reader must stop at it, errs how many errors the assembler has for it: -1 for any number,
	// but at least one.
	fails error
	errs  int
}

// little is what a reader and an assembler may keep of a stream that leaves nothing open, in bytes: the largest frame
// twice, as the Reader says, and the room of maps and errors.
const little = 2*DefaultMaxFrame + 64<<10

const (
	everyChannel = math.MaxUint16 + 1
	// channelState is what a mark for one channel may take, in bytes: the key and value of a map at half its load.
	channelState = 32
	bodyBound    = 64 << 10
)

func hostiles(t testing.TB) map[string]hostile {
	t.Helper()
	method := func(channel int, m Method) []byte {
		raw, err := AppendMethodFrame(nil, uint16(channel), m)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	header := func(channel int, size uint64, p Properties) []byte {
		payload, err := AppendHeader(nil, Header{Class: ClassBasic, BodySize: size, Properties: p})
		if err != nil {
			t.Fatal(err)
		}
		return AppendFrame(nil, TypeHeader, uint16(channel), payload)
	}
	body := func(channel, size int) []byte { return AppendFrame(nil, TypeBody, uint16(channel), make([]byte, size)) }
	publish := func(channel int) []byte { return method(channel, &BasicPublish{Exchange: "e", RoutingKey: "k"}) }
	once := func(first []byte, then []byte) func(int) []byte {
		return func(i int) []byte {
			if i == 0 {
				return first
			}
			return then
		}
	}
	// begun is a content that has begun, with all but its last byte to come.
	begun := func(size uint64, then []byte) func(int) []byte {
		return once(bytes.Join([][]byte{publish(1), header(1, size, Properties{})}, nil), then)
	}
	voids := method(1, &QueueDeclare{Queue: "q", Arguments: Table{{"k", make(Array, MaxValues-1)}}})
	tooMany := tableOf(t, func(c *coder) { a := make(Array, MaxValues); c.array(&a) })
	deep := tableOf(t, func(c *coder) {
		a := Array(nil)
		for range MaxDepth {
			a = Array{a}
		}
		c.array(&a)
	})
	garbage := rand.New(rand.NewSource(1))
	full := Properties{Headers: Table{{"k", make(Array, MaxValues-1)}}}
	return map[string]hostile{
		"noise": {
			next: func(int) []byte { b := make([]byte, 4096); garbage.Read(b); b[0] |= 0x10; return b }, pieces: 10000,
			keeps: little, fails: ErrNotAMQP,
		},
		"a length of 4 GiB": {
			next: once([]byte("\x03\x00\x01\xff\xff\xff\xff"), make([]byte, 4096)), pieces: 10000,
			keeps: little, fails: ErrFrameTooLarge,
		},
		"a length just above the limit": {
			next: once([]byte("\x03\x00\x01\x00\x02\x00\x01"), make([]byte, 4096)), pieces: 10000,
			keeps: little, fails: ErrFrameTooLarge,
		},
		"no end octet": {
			next:   func(int) []byte { b := body(1, 100); b[len(b)-1] = 0; return b },
			pieces: 10000, keeps: little, fails: ErrFrameEnd,
		},
		"a body of 2^63 bytes":            {next: begun(1<<63, body(1, 4096)), pieces: 10000, keeps: little},
		"a body of 2^64-1 bytes":          {next: begun(math.MaxUint64, body(1, 4096)), pieces: 10000, keeps: little},
		"empty frames of an endless body": {next: begun(1<<63, body(1, 0)), pieces: 1000000, keeps: little},
		"small frames of an endless body": {next: begun(1<<63, body(1, 1)), pieces: 1000000, keeps: little},
		"small frames of a kept body": {
			// A body that is kept has room for twice what came.
			next: begun(bodyBound, body(1, 1)), pieces: bodyBound, keeps: little + 2*bodyBound,
		},
		"empty frames of a kept body": {next: begun(bodyBound, body(1, 0)), pieces: 1000000, keeps: little},
		"bodies without header":       {next: once(publish(1), body(1, 4096)), pieces: 10000, keeps: little, errs: 1},
		"bodies without method": {
			next: func(i int) []byte { return body(i%everyChannel, 10) }, pieces: 2 * everyChannel,
			keeps: little + everyChannel*channelState, errs: everyChannel,
		},
		"headers without method": {
			next: func(i int) []byte { return header(i%everyChannel, 1<<63, Properties{}) }, pieces: 2 * everyChannel,
			keeps: little + everyChannel*channelState, errs: everyChannel,
		},
		"headers within a body": {next: begun(1<<63, header(1, 1<<63, Properties{})), pieces: 100000, keeps: little, errs: 1},
		"methods within contents": {
			next: func(int) []byte { return publish(1) }, pieces: 100000, keeps: little, errs: 100000 - 1,
		},
		"methods that do not exist": {
			next: func(i int) []byte {
				// Of every class, most of which do not exist either; 200 and up do not in classes that do.
				return AppendFrame(nil, TypeMethod, uint16(i), []byte{byte(i >> 8), byte(i), 0, byte(200 + i%50)})
			},
			pieces: 2 * everyChannel, keeps: little + everyChannel*channelState, errs: 2 * everyChannel,
		},
		"methods without ids": {
			next: func(int) []byte { return AppendFrame(nil, TypeMethod, 1, []byte{0, 60}) }, pieces: 100000, keeps: little, errs: 100000,
		},
		"empty methods":             {next: func(int) []byte { return AppendFrame(nil, TypeMethod, 1, nil) }, pieces: 100000, keeps: little, errs: 100000},
		"empty headers":             {next: func(int) []byte { return append(publish(1), AppendFrame(nil, TypeHeader, 1, nil)...) }, pieces: 100000, keeps: little, errs: 100000},
		"tables that are deep":      {next: func(int) []byte { return deep }, pieces: 10000, keeps: little, errs: 10000},
		"tables that are full":      {next: func(int) []byte { return voids }, pieces: 1000, keeps: little},
		"tables that are too full":  {next: func(int) []byte { return tooMany }, pieces: 1000, keeps: little, errs: 1000},
		"heartbeats with a payload": {next: func(i int) []byte { return AppendFrame(nil, TypeHeartbeat, uint16(i), make([]byte, 1000)) }, pieces: 100000, keeps: little},
		"contents on channel 0": {
			next: func(i int) []byte {
				return bytes.Join([][]byte{publish(0), header(0, 10, Properties{}), body(0, 10)}, nil)
			},
			pieces: 100000, keeps: little,
		},
		"connection methods on every channel": {
			next: func(i int) []byte { return method(i, &ConnectionTune{FrameMax: 1, Heartbeat: 1}) }, pieces: everyChannel, keeps: little,
		},
		// What contents that are begun on every channel take is what MaxOpen and MaxOpenSize say: the methods and headers,
		// and the bodies. Beside that, a content's own fields.
		"a method on every channel": {
			next: func(i int) []byte { return publish(i % everyChannel) }, pieces: 2 * everyChannel,
			keeps: little + everyChannel*channelState + MaxOpen*1024, errs: -1,
		},
		"a full table on every channel": {
			next:   func(i int) []byte { return append(publish(i), header(i, 1, full)...) },
			pieces: 200, keeps: little + everyChannel*channelState + MaxOpen*1024 + MaxOpenSize, errs: -1,
		},
		"a body but for its last byte on every channel": {
			next: func(i int) []byte {
				return bytes.Join([][]byte{publish(i), header(i, bodyBound, Properties{}), body(i, bodyBound-1)}, nil)
			},
			pieces: 4096, keeps: little + everyChannel*channelState + MaxOpen*1024 + MaxOpenSize, errs: -1,
		},
	}
}

// tableOf is a frame of a queue.declare whose arguments have a value that the encoder would refuse.
func tableOf(t testing.TB, value func(*coder)) []byte {
	t.Helper()
	c := encoder(nil)
	defer c.free()
	c.depth, c.values = -1000, -1000000
	value(c)
	if c.err != nil {
		t.Fatal(c.err)
	}
	pair := append([]byte{1, 'k', 'A'}, c.buf...)
	payload := append([]byte("\x00\x32\x00\x0a\x00\x00\x00\x00"), byte(len(pair)>>24), byte(len(pair)>>16), byte(len(pair)>>8), byte(len(pair)))
	return AppendFrame(nil, TypeMethod, 1, append(payload, pair...))
}

// alive is the memory that is in use, in bytes.
func alive() int {
	// Twice, since what finalizers and pools let go of is free after the second.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc) //nolint:gosec // there is no such memory
}

// Whatever comes, the reader and the assembler keep no more than they say, neither for a length that is announced nor
// for bytes that come.
func TestHostileStreams(t *testing.T) {
	for name, h := range hostiles(t) {
		t.Run(name, func(t *testing.T) {
			before := alive()
			r, a := NewReader(DefaultMaxFrame), NewAssembler(bodyBound)
			var failed error
			errs, sent := 0, 0
			for i := range h.pieces {
				piece := h.next(i)
				sent += len(piece)
				r.Feed(piece)
				for {
					f, ok, err := r.Next()
					if err != nil {
						failed = err
					}
					if err != nil || !ok {
						break
					}
					if _, err := a.Add(f); err != nil {
						errs++
						if n := len(err.Error()); n > 500 {
							t.Fatalf("an error of %d bytes: %.200v", n, err)
						}
					}
				}
			}
			grown := alive() - before
			if !errors.Is(failed, h.fails) || (failed == nil) != (h.fails == nil) {
				t.Errorf("the reader says %v, want %v", failed, h.fails)
			}
			if h.errs >= 0 && errs != h.errs || h.errs < 0 && errs == 0 {
				t.Errorf("%d errors, want %d", errs, h.errs)
			}
			t.Logf("%d bytes of %d sent are kept, of at most %d", grown, sent, h.keeps)
			if grown > h.keeps {
				t.Errorf("%d bytes are kept of %d sent, of at most %d", grown, sent, h.keeps)
			}
			runtime.KeepAlive(r)
			runtime.KeepAlive(a)
		})
	}
}

// A frame that is announced as large as a stream without limit allows, and never comes, costs what came of it.
func TestAnnouncedFramesCostWhatComes(t *testing.T) {
	before := alive()
	r := NewReader(0)
	r.Feed([]byte("\x03\x00\x01\x1f\xff\xff\xff"))
	const came = 4 << 20
	for range came / 4096 {
		if _, ok, err := r.Next(); ok || err != nil {
			t.Fatal(ok, err)
		}
		r.Feed(make([]byte, 4096))
	}
	if _, ok, err := r.Next(); ok || err != nil {
		t.Fatal(ok, err)
	}
	// Memory that grows by appending is at most twice what is in it, and the Reader has a spare.
	if grown := alive() - before; grown > 4*came {
		t.Errorf("%d bytes for %d of a frame of 512 MiB", grown, came)
	}
	runtime.KeepAlive(r)
}

// Contents that were too many end with their channels' next methods, and what was open can be ended.
func TestAssemblerAfterTooMuch(t *testing.T) {
	a := NewAssembler(bodyBound)
	method, err := AppendMethodFrame(nil, 0, &BasicPublish{Exchange: "e"})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := AppendHeader(nil, Header{Class: ClassBasic, BodySize: 1})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(channel int) error {
		f := cut(t, method)[0]
		f.Channel = uint16(channel)
		_, err := a.Add(f)
		return err
	}
	end := func(channel int) (Part, error) {
		if p, err := a.Add(Frame{Type: TypeHeader, Channel: uint16(channel), Payload: payload}); err != nil {
			return p, err
		}
		return a.Add(Frame{Type: TypeBody, Channel: uint16(channel), Payload: []byte("x")})
	}
	for i := range MaxOpen {
		if err := begin(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := begin(MaxOpen); !errors.Is(err, ErrTooMuchOpen) {
		t.Errorf("%d contents: %v", MaxOpen+1, err)
	}
	if p, err := end(MaxOpen); err != nil || p.Done || p.Content != nil {
		t.Errorf("the one too many goes on: %+v, %v", p, err)
	}
	for i := range MaxOpen {
		if p, err := end(i); err != nil || !p.Done || string(p.Content.Body) != "x" {
			t.Fatalf("%d: %+v, %v", i, p, err)
		}
	}
	if a.Pending() != 0 || a.openSize != 0 || a.openBody != 0 {
		t.Errorf("%d contents, %d bytes and %d of bodies are open", a.Pending(), a.openSize, a.openBody)
	}
	if err := begin(MaxOpen); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if p, err := end(MaxOpen); err != nil || !p.Done {
		t.Errorf("afterwards: %+v, %v", p, err)
	}
}

// A body that would be one too many is summed up in place of kept: it is told from others all the same.
func TestAssemblerKeepsFewBodiesAtOnce(t *testing.T) {
	a := NewAssembler(MaxOpenSize / 4)
	for channel := range uint16(6) {
		for i, f := range cut(t, appendContent(t, nil, channel, &BasicPublish{}, Header{}, make([]byte, MaxOpenSize/4), DefaultMaxFrame)) {
			p, err := a.Add(f)
			if err != nil {
				t.Fatal(err)
			}
			if i == 1 && p.Content.Kept != (channel < 4) {
				t.Errorf("content %d: kept is %v", channel, p.Content.Kept)
			}
			if i == 2 {
				break // the rest does not come
			}
		}
	}
	// An assembler whose bound is above all keeps one such body.
	a = NewAssembler(2 * MaxOpenSize)
	frames := cut(t, appendContent(t, nil, 1, &BasicPublish{}, Header{}, make([]byte, MaxOpenSize+1), DefaultMaxFrame))
	for _, f := range frames[:3] {
		if p, err := a.Add(f); err != nil || p.Content == nil || f.Type != TypeMethod && !p.Content.Kept {
			t.Fatalf("%+v, %v", p, err)
		}
	}
}

func TestValuesAreBounded(t *testing.T) {
	for n, want := range map[int]error{MaxValues - 1: nil, MaxValues: ErrTooMany} {
		raw := tableOf(t, func(c *coder) { a := make(Array, n); c.array(&a) })
		if _, err := ParseMethod(cut(t, raw)[0].Payload); !errors.Is(err, want) {
			t.Errorf("%d values and the one they are in: %v", n, err)
		}
		if _, err := AppendMethod(nil, &QueueDeclare{Arguments: Table{{"k", make(Array, n)}}}); !errors.Is(err, want) {
			t.Errorf("encoding %d values and the one they are in: %v", n, err)
		}
	}
	// Many small ones count together.
	var many Array
	for range MaxValues / 2 {
		many = append(many, Array{true, false})
	}
	raw := tableOf(t, func(c *coder) { c.array(&many) })
	if _, err := ParseMethod(cut(t, raw)[0].Payload); !errors.Is(err, ErrTooMany) {
		t.Errorf("%d values in all: %v", 3*len(many), err)
	}
	// A header as long as RabbitMQ's own frame_max allows, of many deaths, is read.
	var deaths Array
	for range 500 {
		deaths = append(deaths, Table{
			{"count", int64(1)},
			{"reason", "expired"},
			{"queue", fmt.Sprintf("orders.billing.retry.%d", len(deaths))},
			{"time", Timestamp(1700000000)},
			{"exchange", "orders"},
			{"routing-keys", Array{"orders.created", "orders.billing"}},
			{"original-expiration", "100"},
		})
	}
	payload, err := AppendHeader(nil, Header{Class: ClassBasic, Properties: Properties{Headers: Table{{"x-death", deaths}}}})
	if err != nil || len(payload) < DefaultMaxFrame/2 {
		t.Fatal(len(payload), err)
	}
	if _, err := ParseHeader(payload); err != nil {
		t.Error(err)
	}
}

// Sessions with bytes changed, taken out, doubled and swapped: nothing panics, whatever is said of them.
func TestMutatedSessions(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	stopped := 0
	for range 2000 {
		stream := bytes.Clone(recorded(t, []string{"client", "broker"}[r.Intn(2)]))
		for range 1 + r.Intn(4) {
			at := r.Intn(len(stream))
			n := min(1+r.Intn(16), len(stream)-at)
			switch r.Intn(5) {
			case 0:
				stream[at] ^= 1 << r.Intn(8)
			case 1:
				stream = append(stream[:at], stream[at+n:]...)
			case 2:
				stream = append(stream[:at+n], stream[at:]...)
			case 3:
				copy(stream[at:at+n], stream[r.Intn(len(stream)-n+1):])
			default:
				stream = stream[:at+1]
			}
		}
		reader, a := NewReader(DefaultMaxFrame), NewAssembler(bodyBound)
		reader.Feed(stream)
		for {
			f, ok, err := reader.Next()
			if err != nil {
				stopped++
			}
			if err != nil || !ok {
				break
			}
			_, _ = a.Add(f)
		}
	}
	if stopped == 0 {
		t.Error("no reader stopped: the sessions were not changed")
	}
}

// Opening is there for what stops a reader at once, and for nothing else.
func TestOpening(t *testing.T) {
	for stream, want := range map[string]string{
		"\x16\x03\x01":                     "\x16\x03\x01",
		"GET / HTTP/1.1":                   "GET / HTTP/1.1",
		"AMQP\x00\x01\x00\x00":             "AMQP\x00\x01\x00\x00",
		"AMQP\x00\x01\x00\x00more":         "AMQP\x00\x01\x00\x00",
		"":                                 "",
		"\x16":                             "",
		"AMQP\x00\x00\x09\x01":             "",
		"AMQP\x00\x00\x09\x01\x16\x03":     "",
		string(AppendHeartbeat(nil)):       "",
		string(AppendHeartbeat(nil)) + "x": "",
	} {
		r := NewReader(MinFrameMax)
		r.Feed([]byte(stream))
		for {
			if _, ok, err := r.Next(); err != nil || !ok {
				break
			}
		}
		if got := r.Opening(); string(got) != want {
			t.Errorf("%q: %q, want %q", stream, got, want)
		}
	}
}
