package toxics

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds everything that a test waits for; only a failing test uses it up.
const patience = 20 * time.Second

// rig is a wire between a scripted client and a scripted broker.
type rig struct {
	testing.TB
	*Wire
	ledger *ledger.Ledger
	broker *net.TCPListener
}

// newRig opens a wire to a broker that listens; the options may be changed before.
func newRig(t testing.TB, change ...func(*Options)) *rig {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{TB: t, ledger: ledger.New(), broker: l}
	o := Options{
		Upstream: l.Addr().String(), Process: "p", Ledger: r.ledger,
		Identify: func(c *ledger.Content) string { return c.Properties.MessageID },
	}
	for _, c := range change {
		c(&o)
	}
	if r.Wire, err = Listen(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		_ = l.Close()
	})
	return r
}

func withDelay(d time.Duration) func(*Options) { return func(o *Options) { o.ConfirmDelay = d } }

func withoutLedger(o *Options) { o.Ledger = nil }

// peer is one end of a connection, that reads and writes frames.
type peer struct {
	testing.TB
	net.Conn
	reader  *frame.Reader
	pending []frame.Frame
}

func (r *rig) dial() net.Conn {
	r.Helper()
	c, err := net.DialTimeout("tcp", r.Addr(), patience)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = c.Close() })
	return c
}

// connect returns both ends of a new connection.
func (r *rig) connect() (client, broker *peer) {
	r.Helper()
	c := r.dial()
	if err := r.broker.SetDeadline(time.Now().Add(patience)); err != nil {
		r.Fatal(err)
	}
	b, err := r.broker.Accept()
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = b.Close() })
	for _, conn := range []net.Conn{c, b} {
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			r.Fatal(err)
		}
	}
	return &peer{TB: r, Conn: c, reader: frame.NewReader(0)}, &peer{TB: r, Conn: b, reader: frame.NewReader(0)}
}

// link is the one connection that is open.
func (r *rig) link() *Link {
	r.Helper()
	eventually(r, "the link", func() bool { return len(r.Links()) == 1 })
	return r.Links()[0]
}

func method(t testing.TB, channel uint16, m frame.Method) []byte {
	t.Helper()
	raw, err := frame.AppendMethodFrame(nil, channel, m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func content(t testing.TB, channel uint16, m frame.Method, id string, body []byte) []byte {
	t.Helper()
	raw, err := frame.AppendContent(nil, channel, m, frame.Header{Properties: frame.Properties{MessageID: id}}, body, frame.DefaultMaxFrame)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func (p *peer) send(raw ...[]byte) {
	p.Helper()
	if _, err := p.Write(bytes.Join(raw, nil)); err != nil {
		p.Fatal(err)
	}
}

func (p *peer) say(channel uint16, ms ...frame.Method) {
	p.Helper()
	for _, m := range ms {
		p.send(method(p, channel, m))
	}
}

// next reads the next frame.
func (p *peer) next() (frame.Frame, error) {
	buffer := make([]byte, 64<<10)
	for len(p.pending) == 0 {
		n, err := p.Read(buffer)
		p.reader.Feed(buffer[:n])
		for {
			f, ok, err := p.reader.Next()
			if err != nil {
				return frame.Frame{}, err
			}
			if !ok {
				break
			}
			p.pending = append(p.pending, f.Clone())
		}
		if err != nil && len(p.pending) == 0 {
			return frame.Frame{}, err
		}
	}
	f := p.pending[0]
	p.pending = p.pending[1:]
	return f, nil
}

// hears reads methods up to the content of one that has it, and compares the names.
func (p *peer) hears(want ...frame.Method) {
	p.Helper()
	for _, w := range want {
		f, err := p.next()
		for err == nil && f.Type != frame.TypeMethod {
			f, err = p.next()
		}
		if err != nil {
			p.Fatalf("%s did not come: %v", w.Name(), err)
		}
		if !bytes.Equal(f.Raw, method(p, f.Channel, w)) {
			got, _ := frame.ParseMethod(f.Payload)
			p.Fatalf("%#v came, want %#v", got, w)
		}
	}
}

// silent reports that nothing has come for a while.
func (p *peer) silent(d time.Duration) {
	p.Helper()
	if err := p.SetReadDeadline(time.Now().Add(d)); err != nil {
		p.Fatal(err)
	}
	if f, err := p.next(); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.Fatalf("%v came, %v", f, err)
	}
	if err := p.SetReadDeadline(time.Now().Add(patience)); err != nil {
		p.Fatal(err)
	}
}

// ends reads until the other side has closed.
func (p *peer) ends() {
	p.Helper()
	if _, err := io.Copy(io.Discard, p.Conn); errors.Is(err, os.ErrDeadlineExceeded) {
		p.Fatal("the connection does not end")
	}
}

// confirming makes the channel one with confirms.
func confirming(client, broker *peer, channel uint16) {
	client.Helper()
	client.say(channel, &frame.ChannelOpen{}, &frame.ConfirmSelect{})
	broker.hears(&frame.ChannelOpen{}, &frame.ConfirmSelect{})
	broker.say(channel, &frame.ChannelOpenOk{}, &frame.ConfirmSelectOk{})
	client.hears(&frame.ChannelOpenOk{}, &frame.ConfirmSelectOk{})
}

// publish has the client publish a message, and the broker receive it.
func publish(client, broker *peer, channel uint16, id string) {
	client.Helper()
	client.send(content(client, channel, &frame.BasicPublish{RoutingKey: "q"}, id, []byte(id)))
	broker.hears(&frame.BasicPublish{RoutingKey: "q"})
}

// await waits for an event of the ledger.
func (r *rig) await(what string, is func(ledger.Event) bool) ledger.Event {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	var found ledger.Event
	err := r.ledger.Until(ctx, func(events []ledger.Event) bool {
		for _, e := range events {
			if is(e) {
				found = e
				return true
			}
		}
		return false
	})
	if err != nil {
		r.Fatalf("%s: not in the ledger: %v", what, r.kinds())
	}
	return found
}

func (r *rig) awaitKind(k ledger.Kind) ledger.Event {
	r.Helper()
	return r.await(string(k), func(e ledger.Event) bool { return e.Kind == k })
}

// kinds are those of the ledger's events.
func (r *rig) kinds() []ledger.Kind {
	var kinds []ledger.Kind
	for _, e := range r.ledger.Events() {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// eventually polls a condition that nothing announces.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	end := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// within fails the test when the function takes longer.
func within(t testing.TB, d time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(d):
		t.Fatalf("%s has not ended after %s", what, d)
	}
}
