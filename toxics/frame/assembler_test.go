package frame

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
)

func appendContent(t testing.TB, dst []byte, channel uint16, m Method, h Header, body []byte, frameMax int) []byte {
	t.Helper()
	out, err := AppendContent(dst, channel, m, h, body, frameMax)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAssemblerJoinsASession(t *testing.T) {
	a := NewAssembler(1 << 20)
	var lines []string
	for _, f := range cut(t, recorded(t, "client")) {
		p, err := a.Add(f)
		if err != nil {
			t.Fatal(err)
		}
		if c := p.Content; c != nil {
			h := c.Header.Properties.MessageID
			lines = append(lines, fmt.Sprintf("%s %q %d/%d %v", c.Method.Name(), h, c.Received, c.Header.BodySize, p.Done))
		} else if !p.Done {
			t.Errorf("%v is not done", f)
		}
		if p.Done && p.Content != nil && p.Content.Header.BodySize > 0 {
			if want := strings.Repeat("0123456789abcdef", 600); string(p.Content.Body) != want {
				t.Errorf("body is %q", p.Content.Body)
			}
			headers := p.Content.Header.Properties.Headers
			if v, ok := headers.Integer("x-attempt"); v != 2 || !ok {
				t.Errorf("x-attempt is %v, %v", v, ok)
			}
		}
	}
	want := []string{
		`basic.publish "" 0/0 false`, `basic.publish "m1" 0/9600 false`, `basic.publish "m1" 4088/9600 false`,
		`basic.publish "m1" 8176/9600 false`, `basic.publish "m1" 9600/9600 true`,
		`basic.publish "" 0/0 false`, `basic.publish "m2" 0/0 true`,
	}
	if !reflect.DeepEqual(lines, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if a.Pending() != 0 {
		t.Errorf("%d contents pending", a.Pending())
	}
}

// What the broker delivered after dead-lettering, with its x-death.
func TestAssemblerReadsXDeath(t *testing.T) {
	a := NewAssembler(1 << 20)
	var got Table
	for _, f := range cut(t, recorded(t, "broker")) {
		p, err := a.Add(f)
		if err != nil {
			t.Fatal(err)
		}
		if p.Done && p.Content != nil && p.Content.Method.Name() == "basic.get-ok" {
			deaths, _ := p.Content.Header.Properties.Headers.Array("x-death")
			if len(deaths) == 1 {
				got, _ = deaths[0].(Table)
			}
		}
	}
	if v, ok := got.Integer("count"); v != 1 || !ok {
		t.Errorf("count %v, %v", v, ok)
	}
	if v, _ := got.Text("reason"); v != "rejected" {
		t.Errorf("reason %v", v)
	}
	if v, _ := got.Array("routing-keys"); !reflect.DeepEqual(v, Array{""}) {
		t.Errorf("routing-keys %v", v)
	}
}

func TestAppendContentIsThatOfRabbitMQ(t *testing.T) {
	found := false
	golden(t, func(name, variant string, payload []byte) {
		if name == "heartbeat" && !bytes.Equal(AppendHeartbeat(nil), payload) {
			t.Errorf("heartbeat %x", AppendHeartbeat(nil))
		}
		if name != "content" || variant != "4096" {
			return
		}
		found = true
		body := append(bytes.Repeat([]byte("a"), 5000), bytes.Repeat([]byte("b"), 5000)...)
		h := Header{Properties: Properties{DeliveryMode: Persistent, MessageID: "m1"}}
		m := &BasicPublish{Exchange: "ex", RoutingKey: "key", Mandatory: true}
		if got := appendContent(t, nil, 3, m, h, body, 4096); !bytes.Equal(got, payload) {
			t.Errorf("%x\nwant\n%x", got, payload)
		}
	})
	if !found {
		t.Error("no content in the golden file")
	}
}

// Contents of any sizes, on channels that are interleaved frame by frame, come out as they went in.
func TestAssemblerInterleaved(t *testing.T) {
	check := func(seed int64) bool {
		r := rand.New(rand.NewSource(seed))
		const kept = 1500
		a := NewAssembler(kept)
		queues := map[uint16][]Frame{}
		want := map[uint16][]string{}
		var bodies [][]byte
		for range 20 {
			channel := uint16(1 + r.Intn(4))
			body := make([]byte, r.Intn(3000))
			r.Read(body)
			if r.Intn(4) == 0 {
				body = nil
			}
			bodies = append(bodies, body)
			m := &BasicDeliver{DeliveryTag: uint64(len(bodies) - 1)}
			frames := cut(t, appendContent(t, nil, channel, m, Header{}, body, 100+r.Intn(4000)))
			queues[channel] = append(queues[channel], frames...)
			want[channel] = append(want[channel], fmt.Sprint(m.DeliveryTag))
		}
		got := map[uint16][]string{}
		for left := true; left; {
			left = false
			for channel := uint16(1); channel <= 4; channel++ {
				if len(queues[channel]) == 0 || r.Intn(2) == 0 {
					left = left || len(queues[channel]) > 0
					continue
				}
				p, err := a.Add(queues[channel][0])
				queues[channel] = queues[channel][1:]
				left = true
				if err != nil || p.Content == nil || p.Channel != channel || p.Content.Channel != channel {
					t.Logf("%+v, %v", p, err)
					return false
				}
				if p.Done == (a.Open(channel) == p.Content) {
					t.Logf("done %v, and open is %v", p.Done, a.Open(channel))
					return false
				}
				if !p.Done {
					continue
				}
				c := p.Content
				tag := c.Method.(*BasicDeliver).DeliveryTag
				got[channel] = append(got[channel], fmt.Sprint(tag))
				body := bodies[tag]
				if c.Kept != (len(body) <= kept) || c.Kept && !bytes.Equal(c.Body, body) || !c.Kept && c.Body != nil ||
					c.Received != uint64(len(body)) || c.Digest() != sha256.Sum256(body) {
					t.Logf("%d: %d bytes came out as %d, kept %v", tag, len(body), c.Received, c.Kept)
					return false
				}
			}
		}
		return reflect.DeepEqual(got, want) && a.Pending() == 0
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}

func TestAssemblerKeepsUpToItsBound(t *testing.T) {
	for _, size := range []int{0, 1, 99, 100, 101, 5000} {
		a := NewAssembler(100)
		body := bytes.Repeat([]byte("x"), size)
		var last Part
		for _, f := range cut(t, appendContent(t, nil, 1, &BasicPublish{}, Header{}, body, 4096)) {
			var err error
			if last, err = a.Add(f); err != nil {
				t.Fatal(err)
			}
			clear(f.Raw) // the Assembler must not need it any more
		}
		c := last.Content
		if !last.Done || c.Kept != (size <= 100) || c.Digest() != sha256.Sum256(body) || c.Kept && string(c.Body) != string(body) {
			t.Errorf("%d bytes: %+v", size, last)
		}
	}
	// The digest of an unfinished body is that of what has come, and does not disturb it.
	a := NewAssembler(0)
	var digests [][sha256.Size]byte
	for _, f := range cut(t, appendContent(t, nil, 1, &BasicPublish{}, Header{}, []byte("abcdef"), 60)) {
		p, err := a.Add(f)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, p.Content.Digest())
	}
	if digests[0] != sha256.Sum256(nil) || digests[len(digests)-1] != sha256.Sum256([]byte("abcdef")) {
		t.Errorf("%x", digests)
	}
}

func TestAssemblerRefuses(t *testing.T) {
	method := func(m Method) Frame {
		t.Helper()
		raw, err := AppendMethodFrame(nil, 1, m)
		if err != nil {
			t.Fatal(err)
		}
		return cut(t, raw)[0]
	}
	header := func(size uint64) Frame {
		t.Helper()
		payload, err := AppendHeader(nil, Header{Class: ClassBasic, BodySize: size})
		if err != nil {
			t.Fatal(err)
		}
		return Frame{Type: TypeHeader, Channel: 1, Payload: payload}
	}
	body := func(s string) Frame { return Frame{Type: TypeBody, Channel: 1, Payload: []byte(s)} }
	publish := method(&BasicPublish{Exchange: "e"})
	unknown := Frame{Type: TypeMethod, Channel: 1, Payload: []byte("\x00\x3c\x00\x29")}
	class := Frame{Type: TypeHeader, Channel: 1, Payload: []byte("\x00\x32\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00")}
	short := Frame{Type: TypeHeader, Channel: 1, Payload: []byte("\x00\x3c\x00\x00\x00")}
	for name, c := range map[string]struct {
		frames []Frame // the last one but those after it is at fault
		at     int
		want   error
		text   string
	}{
		"body first":             {[]Frame{body("x"), body("y"), header(1)}, 0, ErrUnexpectedFrame, "a body frame outside"},
		"header first":           {[]Frame{header(1), body("x")}, 0, ErrUnexpectedFrame, "a header frame outside"},
		"body before header":     {[]Frame{publish, body("x"), header(1), body("x")}, 1, ErrUnexpectedFrame, "before the header"},
		"two headers":            {[]Frame{publish, header(5), header(5), body("x")}, 2, ErrUnexpectedFrame, "second header"},
		"body after the end":     {[]Frame{publish, header(0), body("x")}, 2, ErrUnexpectedFrame, "outside"},
		"body too long":          {[]Frame{publish, header(3), body("ab"), body("cd"), body("e")}, 3, ErrBodyTooLong, "4 bytes, of 3"},
		"method after method":    {[]Frame{publish, publish, header(0)}, 1, ErrUnexpectedFrame, "inside the content of basic.publish"},
		"method inside the body": {[]Frame{publish, header(3), body("ab"), method(&BasicAck{})}, 3, ErrUnexpectedFrame, "2 of 3"},
		"header of a class":      {[]Frame{publish, class, body("x")}, 1, ErrHeader, "class 50"},
		"header cut":             {[]Frame{publish, short, body("x")}, 1, ErrTruncated, "basic.publish"},
		"header after an ack":    {[]Frame{method(&BasicAck{}), header(0)}, 1, ErrUnexpectedFrame, "outside"},
		"after unknown":          {[]Frame{unknown, header(3), body("abc")}, 0, nil, "unknown method 41"},
	} {
		a := NewAssembler(100)
		for i, f := range c.frames {
			p, err := a.Add(f)
			if (err != nil) != (i == c.at) {
				t.Errorf("%s: frame %d: %+v, %v", name, i, p, err)
			}
			if i != c.at {
				continue
			}
			if c.want != nil && !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.text) ||
				!strings.Contains(err.Error(), "channel 1") {
				t.Errorf("%s: %v, want %v with %q", name, err, c.want, c.text)
			}
			if p.Done && p.Content != nil {
				t.Errorf("%s: done in spite of %v", name, err)
			}
			// The interrupting method is told all the same.
			if f.Type == TypeMethod && c.want != nil && p.Method == nil {
				t.Errorf("%s: the method is lost", name)
			}
		}
		// The next content is whole again.
		var last Part
		for _, f := range []Frame{method(&BasicPublish{}), header(1), body("z")} {
			var err error
			if last, err = a.Add(f); err != nil {
				t.Errorf("%s: afterwards %v", name, err)
			}
		}
		if !last.Done || string(last.Content.Body) != "z" || a.Pending() != 0 {
			t.Errorf("%s: afterwards %+v", name, last)
		}
	}
}

// One mistake is one error, but the next method ends that.
func TestAssemblerDoesNotPassOverForEver(t *testing.T) {
	a := NewAssembler(100)
	stray := Frame{Type: TypeBody, Channel: 1}
	ack, err := AppendMethodFrame(nil, 1, &BasicAck{})
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range []Frame{stray, stray, cut(t, ack)[0], stray, stray} {
		if _, err := a.Add(f); errors.Is(err, ErrUnexpectedFrame) != (i == 0 || i == 3) {
			t.Errorf("frame %d: %v", i, err)
		}
	}
}

func TestAssemblerGoesOnWithMalformedProperties(t *testing.T) {
	a := NewAssembler(100)
	frames := cut(t, appendContent(t, nil, 1, &BasicPublish{}, Header{Properties: Properties{MessageID: "m"}}, []byte("body"), 0))
	frames[1].Payload[len(frames[1].Payload)-2] = 200 // the length of the message-id
	if _, err := a.Add(frames[0]); err != nil {
		t.Fatal(err)
	}
	p, err := a.Add(frames[1])
	if !errors.Is(err, ErrTruncated) || p.Content == nil || p.Content.Header.Properties.Present != 0 || p.Done {
		t.Fatalf("%+v, %v", p, err)
	}
	p, err = a.Add(frames[2])
	if err != nil || !p.Done || string(p.Content.Body) != "body" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestAssemblerPassesOverWhatIsNoContent(t *testing.T) {
	var a Assembler
	for _, raw := range [][]byte{AppendHeartbeat(nil), AppendProtocolHeader(nil)} {
		p, err := a.Add(cut(t, raw)[0])
		if err != nil || !reflect.DeepEqual(p, Part{Done: true}) {
			t.Errorf("%+v, %v", p, err)
		}
	}
	// The zero Assembler keeps no body.
	for _, f := range cut(t, appendContent(t, nil, 7, &BasicReturn{}, Header{}, []byte("b"), 0)) {
		p, err := a.Add(f)
		if err != nil || p.Done && (p.Content.Kept || p.Content.Digest() != sha256.Sum256([]byte("b"))) {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

// A declared body size costs nothing until the body comes.
func TestAssemblerTrustsNoDeclaredSize(t *testing.T) {
	a := NewAssembler(1 << 40)
	frames := cut(t, appendContent(t, nil, 1, &BasicPublish{}, Header{}, []byte("body"), 0))
	payload, err := AppendHeader(nil, Header{Class: ClassBasic, BodySize: 1 << 39})
	if err != nil {
		t.Fatal(err)
	}
	frames[1].Payload = payload
	for _, f := range frames {
		p, err := a.Add(f)
		if err != nil || p.Done || cap(p.Content.Body) > 64 {
			t.Fatalf("%+v, %v", p, err)
		}
	}
}

func TestAppendContentRefuses(t *testing.T) {
	long := strings.Repeat("x", 200)
	for name, c := range map[string]struct {
		method   Method
		header   Header
		frameMax int
		want     error
	}{
		"no content":   {&BasicAck{}, Header{}, 4096, ErrUnencodable},
		"method":       {&BasicPublish{Exchange: long + long}, Header{}, 4096, ErrUnencodable},
		"header":       {&BasicPublish{}, Header{Properties: Properties{AppID: long + long}}, 4096, ErrUnencodable},
		"long method":  {&BasicPublish{Exchange: long}, Header{}, 100, ErrFrameTooLarge},
		"long header":  {&BasicPublish{}, Header{Properties: Properties{AppID: long}}, 100, ErrFrameTooLarge},
		"no room":      {&BasicPublish{}, Header{}, 8, ErrFrameTooLarge},
		"nearly fits":  {&BasicPublish{}, Header{}, 21, ErrFrameTooLarge},
		"not a header": {&BasicPublish{}, Header{Properties: Properties{Headers: Table{{"k", 1}}}}, 0, ErrUnencodable},
	} {
		got, err := AppendContent([]byte("before"), 1, c.method, c.header, []byte("body"), c.frameMax)
		if !errors.Is(err, c.want) || string(got) != "before" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
