package toxics

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// attributes are a toxic's, in pairs.
func attributes(of ...any) map[string]any {
	a := map[string]any{}
	for i := 0; i < len(of); i += 2 {
		a[of[i].(string)] = of[i+1]
	}
	return a
}

// long is a latency, in milliseconds, that no test sees the end of.
var long = attributes("latency", 3_600_000)

func (b *broken) proxy(f LinkFault) *Proxied {
	b.Helper()
	p, err := b.faults.Proxy(f)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// passes has both ends say something that arrives, in the directions that are meant.
func passes(client, broker *peer, toBroker, toConsumer bool) {
	client.Helper()
	open, ok := &frame.ChannelOpen{}, &frame.ChannelOpenOk{}
	if toBroker {
		client.say(7, open)
		broker.hears(open)
	}
	if toConsumer {
		broker.say(7, ok)
		client.hears(ok)
	}
}

// A latency is on the directions that it is meant for, and when it is removed, all has gone on.
func TestProxyDirections(t *testing.T) {
	for _, c := range []struct{ toBroker, toConsumer bool }{{true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprintf("to the broker %v, to the consumer %v", c.toBroker, c.toConsumer), func(t *testing.T) {
			b := newBroken(t)
			passes(b.client, b.broker, true, true)
			p := b.proxy(LinkFault{Type: "latency", Attributes: long, ToBroker: c.toBroker, ToConsumer: c.toConsumer, Text: "slow"})
			if p.Fired() != 0 {
				t.Error("it has fired at nothing")
			}
			passes(b.client, b.broker, !c.toBroker, !c.toConsumer)
			want := 0
			if c.toBroker {
				b.client.send(published(t, 1, "m1"))
				b.awaitKind(ledger.Published)
				want++
			}
			if c.toConsumer {
				b.broker.send(delivered(t, 1, 1, "m2"))
				b.awaitKind(ledger.Delivered)
				want++
			}
			b.client.silent(10 * time.Millisecond)
			b.broker.silent(10 * time.Millisecond)
			eventually(t, "it has fired", func() bool { return p.Fired() == want })
			if got := b.texts(ledger.Fired); fmt.Sprint(got) != "[slow]" {
				t.Errorf("%v: once a connection", got)
			}
			p.Remove()
			if c.toBroker {
				b.broker.takes(published(t, 1, "m1"))
			}
			if c.toConsumer {
				b.client.takes(delivered(t, 1, 1, "m2"))
			}
			passes(b.client, b.broker, true, true)
			if p.Fired() != want {
				t.Errorf("it fires when it is gone: %d times", p.Fired())
			}
			p.Remove() // again
		})
	}
}

func TestProxyRoles(t *testing.T) {
	b := newBroken(t)
	consuming, consumingBroker := b.client, b.broker
	publishing, publishingBroker := b.connect()
	consuming.say(1, &frame.BasicConsume{Queue: "q", ConsumerTag: "t"})
	consumingBroker.hears(&frame.BasicConsume{Queue: "q", ConsumerTag: "t"})
	publish(publishing, publishingBroker, 1, "m1")
	p := b.proxy(LinkFault{Type: "latency", Attributes: long, Role: ledger.RolePublishing, ToBroker: true, ToConsumer: true})
	passes(consuming, consumingBroker, true, true)
	publishing.send(published(t, 1, "m2"))
	eventually(t, "it has fired", func() bool { return p.Fired() == 1 })
	later, laterBroker := b.connect()
	passes(later, laterBroker, true, true) // it is not on new ones
	b.faults.Heal()
	publishingBroker.pending = nil
	publishingBroker.takes(published(t, 1, "m2"))
	passes(publishing, publishingBroker, true, true)
}

// New connections have it from their first byte on, and until it is removed.
func TestProxyOnNewConnections(t *testing.T) {
	b := newBroken(t)
	p := b.proxy(LinkFault{Type: "latency", Attributes: long, ToBroker: true, ToConsumer: true, New: true})
	client, broker := b.connect()
	header := frame.AppendProtocolHeader(nil)
	client.send(header)
	broker.say(0, &frame.ConnectionTune{})
	eventually(t, "both have fired", func() bool { return p.Fired() == 2 })
	client.silent(10 * time.Millisecond)
	broker.silent(10 * time.Millisecond)
	b.client.send(published(t, 1, "m1")) // the one that was there has it too
	eventually(t, "it has fired", func() bool { return p.Fired() == 3 })
	p.Remove()
	client.hears(&frame.ConnectionTune{})
	broker.takes(header)
	b.broker.takes(published(t, 1, "m1"))
	client, broker = b.connect()
	passes(client, broker, true, true)
	if p.Fired() != 3 {
		t.Errorf("it has fired %d times", p.Fired())
	}
}

func TestProxyBandwidth(t *testing.T) {
	b := newBroken(t)
	p := b.proxy(LinkFault{Type: "bandwidth", Attributes: attributes("rate", 2), ToBroker: true})
	raw := content(t, 1, &frame.BasicPublish{RoutingKey: "q"}, "m1", make([]byte, 600))
	began := time.Now()
	b.client.send(raw)
	b.broker.takes(raw)
	// 2 KB/s is 2 bytes a millisecond in toxiproxy.
	if took := time.Since(began); took < 250*time.Millisecond {
		t.Errorf("%d bytes came in %s", len(raw), took)
	}
	b.firedOnce(p)
}

func (b *broken) firedOnce(p *Proxied) {
	b.Helper()
	if n := p.Fired(); n != 1 {
		b.Errorf("it has fired %d times", n)
	}
}

func TestProxySlicer(t *testing.T) {
	b := newBroken(t)
	// A pause between the slices, in microseconds.
	p := b.proxy(LinkFault{Type: "slicer", Attributes: attributes("average_size", 10, "size_variation", 4, "delay", 2000), ToConsumer: true})
	raw := content(t, 1, &frame.BasicDeliver{DeliveryTag: 1}, "m1", make([]byte, 200))
	b.broker.send(raw)
	began, reads, buffer := time.Now(), 0, make([]byte, 1<<10)
	for n := 0; n < len(raw); reads++ {
		k, err := b.client.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		n += k
	}
	if took := time.Since(began); reads < 2 || took < 20*time.Millisecond {
		t.Errorf("%d bytes came in %d pieces, in %s", len(raw), reads, took)
	}
	b.firedOnce(p)
}

func TestProxySlowClose(t *testing.T) {
	b := newBroken(t)
	const by = 80 * time.Millisecond
	p := b.proxy(LinkFault{Type: "slow_close", Attributes: attributes("delay", 80), ToBroker: true})
	b.client.send(published(t, 1, "m1"))
	b.broker.takes(published(t, 1, "m1"))
	began := time.Now()
	_ = b.client.Close()
	b.broker.endsWithout()
	if took := time.Since(began); took < by {
		t.Errorf("it ended after %s", took)
	}
	b.firedOnce(p)
}

func TestProxyLimitData(t *testing.T) {
	b := newBroken(t)
	p := b.proxy(LinkFault{Type: "limit_data", Attributes: attributes("bytes", 30), ToConsumer: true})
	raw := delivered(t, 1, 1, "m1")
	b.broker.send(raw[:10])
	b.broker.send(raw[10:])
	got, _ := io.ReadAll(b.client.Conn)
	if string(got) != string(raw[:30]) {
		t.Errorf("%d bytes came", len(got))
	}
	b.broker.ends()
	b.awaitKind(ledger.ConnectionLost)
	if p.Fired() == 0 {
		t.Error("it has not fired")
	}
	p.Remove()
}

func TestProxyTimeout(t *testing.T) {
	t.Run("after a time", func(t *testing.T) {
		b := newBroken(t)
		p := b.proxy(LinkFault{Type: "timeout", Attributes: attributes("timeout", 300), ToBroker: true})
		began := time.Now()
		b.client.send(published(t, 1, "m1"))
		b.broker.endsWithout()
		b.client.endsWithout()
		if took := time.Since(began); took < 200*time.Millisecond {
			t.Errorf("it ended after %s", took)
		}
		b.firedOnce(p)
		p.Remove()
	})
	t.Run("never, until it is removed", func(t *testing.T) {
		b := newBroken(t)
		other, otherBroker := b.connect()
		publish(b.client, b.broker, 1, "m0")
		b.broker.pending = nil
		p := b.proxy(LinkFault{Type: "timeout", Role: ledger.RolePublishing, Attributes: attributes("timeout", 0), ToBroker: true, ToConsumer: true})
		b.client.send(published(t, 1, "m1"))
		b.broker.send(delivered(t, 1, 1, "m2"))
		eventually(t, "it has fired", func() bool { return p.Fired() == 2 })
		b.client.silent(10 * time.Millisecond)
		b.broker.silent(10 * time.Millisecond)
		p.Remove()
		b.client.endsWithout()
		b.broker.endsWithout()
		if e := b.awaitKind(ledger.ConnectionLost); e.Text != "parkproof cut the connection" || e.Broker || e.Conn != 1 && e.Conn != 2 {
			t.Errorf("%+v", e)
		}
		passes(other, otherBroker, true, true)
	})
}

// The connection is reset, on both sides, at the next piece of its traffic.
func TestProxyResetPeer(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		for _, toBroker := range []bool{false, true} {
			t.Run(fmt.Sprintf("on a new connection %v, to the broker %v", fresh, toBroker), func(t *testing.T) {
				b := newBroken(t)
				p := b.proxy(LinkFault{Type: "reset_peer", Attributes: attributes("timeout", 0), ToBroker: toBroker, ToConsumer: !toBroker, New: fresh})
				client, broker := b.client, b.broker
				if fresh {
					client, broker = b.connect()
				}
				passes(client, broker, !toBroker, toBroker) // nothing of its direction: it goes on
				if toBroker {
					client.send(published(t, 1, "m1"))
				} else {
					broker.send(delivered(t, 1, 1, "m1"))
				}
				for who, side := range map[string]*peer{"client": client, "broker": broker} {
					if names, err := side.rest(); !errors.Is(err, syscall.ECONNRESET) || len(names) > 0 {
						t.Errorf("the %s has %v and sees %v", who, names, err)
					}
				}
				if p.Fired() != 1 {
					t.Errorf("it has fired %d times", p.Fired())
				}
			})
		}
	}
	t.Run("removed from one on which nothing was said", func(t *testing.T) {
		b := newBroken(t)
		p := b.proxy(LinkFault{Type: "reset_peer", Attributes: attributes("timeout", 0), ToBroker: true, ToConsumer: true})
		p.Remove()
		passes(b.client, b.broker, true, true)
		_ = b.client.Close()
		if _, err := b.broker.rest(); !errors.Is(err, io.EOF) {
			t.Errorf("the broker sees %v", err)
		}
		if p.Fired() != 0 {
			t.Errorf("it has fired %d times", p.Fired())
		}
	})
}

// One toxic behind another ends the connection, and nothing is left of the first.
func TestProxyBehindAnother(t *testing.T) {
	for _, c := range []struct {
		kind    string
		of      map[string]any
		removal bool // it is its removal that ends the connection
	}{
		{"limit_data", attributes("bytes", 10), false},
		{"reset_peer", attributes("timeout", 0), false},
		{"timeout", attributes("timeout", 500), false},
		{"timeout", attributes("timeout", 0), true},
	} {
		t.Run(fmt.Sprint(c.kind, c.removal), func(t *testing.T) {
			b := newBroken(t)
			first := b.proxy(LinkFault{Type: "latency", Attributes: attributes("latency", 5), ToBroker: true})
			second := b.proxy(LinkFault{Type: c.kind, Attributes: c.of, ToBroker: true})
			for range 20 {
				if _, err := b.client.Write(published(t, 1, "m1")); err != nil {
					break
				}
			}
			eventually(t, "both have fired", func() bool { return first.Fired() > 0 && second.Fired() > 0 })
			if c.removal {
				second.Remove()
			}
			b.client.ends()
			b.broker.ends()
			within(t, patience, "Heal", b.faults.Heal)
		})
	}
}

func TestCheckALinkFault(t *testing.T) {
	both := func(kind string, of ...any) LinkFault {
		return LinkFault{Type: kind, Attributes: attributes(of...), ToBroker: true, ToConsumer: true}
	}
	oneRole, noDirection := both("latency"), both("latency")
	oneRole.New, oneRole.Role = true, ledger.RoleConsuming
	noDirection.ToBroker, noDirection.ToConsumer = false, false
	for _, c := range []struct {
		fault LinkFault
		want  string // of the error; nothing for a good one
	}{
		{both("latency", "latency", 100, "jitter", 0), ""},
		{both("bandwidth", "rate", 1), ""},
		{both("slicer", "average_size", 1, "delay", 10), ""},
		{both("slicer", "average_size", 10, "size_variation", 9), ""},
		{both("slow_close", "delay", 1), ""},
		{both("limit_data", "bytes", 0), ""},
		{both("timeout", "timeout", 0), ""},
		{both("timeout"), ""},
		{LinkFault{Type: "reset_peer", ToBroker: true}, ""},

		{both("lag"), `there is no toxic "lag": toxiproxy has [latency bandwidth slicer slow_close limit_data timeout reset_peer]`},
		{both(""), `there is no toxic ""`},
		{both("noop"), `there is no toxic "noop"`},
		{both(tapType), `there is no toxic "parkproof_tap"`},
		{both("latency", "latencies", 1), `the attributes of latency: json: unknown field "latencies"`},
		{both("timeout", "delay", 1), `the attributes of timeout: json: unknown field "delay"`},
		{both("latency", "latency", "slow"), "the attributes of latency: json: cannot unmarshal string"},
		{both("latency", "latency", func() {}), "the attributes of latency: json: unsupported type"},
		{both("latency", "latency", -1), "latency is -1"},
		{both("latency", "jitter", -1), "jitter is -1"},
		{both("bandwidth", "rate", 0), "rate is 0"},
		{both("bandwidth"), "rate is 0"},
		{both("bandwidth", "rate", -5), "rate is -5"},
		{both("slicer"), "average_size is 0"},
		{both("slicer", "average_size", 10, "size_variation", 10), "size_variation 10"},
		{both("slicer", "average_size", 10, "size_variation", -1), "size_variation -1"},
		{both("slicer", "average_size", 10, "delay", -1), "delay is -1"},
		{both("slow_close", "delay", -1), "delay is -1"},
		{both("limit_data", "bytes", -1), "bytes is -1"},
		{both("timeout", "timeout", -1), "timeout is -1"},
		{both("reset_peer", "timeout", -1), "timeout is -1"},
		{oneRole, "they have none yet"},
		{noDirection, "has no direction"},
	} {
		err := c.fault.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.fault, err, c.want)
		}
		if p, other := NewFaults().Proxy(c.fault); (p == nil) != (err != nil) || (other == nil) != (err == nil) {
			t.Errorf("%+v: Proxy says %v, Check %v", c.fault, other, err)
		}
	}
}

// Connections come while a toxic is put on: it is on each of them once, and none of them fails.
func TestProxyWhileConnecting(t *testing.T) {
	leakFree(t)
	for _, kind := range []string{"latency", "reset_peer", "limit_data"} {
		t.Run(kind, func(t *testing.T) {
			leakFree(t)
			faults := NewFaults()
			r := newRig(t, func(o *Options) { o.Faults = faults })
			var serving sync.WaitGroup
			serving.Go(func() {
				for {
					c, err := r.broker.Accept()
					if err != nil {
						return
					}
					serving.Go(func() {
						defer func() { _ = c.Close() }()
						_, _ = io.Copy(c, c)
					})
				}
			})
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					for range 3 {
						c := r.dial()
						_ = c.SetDeadline(time.Now().Add(patience))
						_, _ = c.Write(frame.AppendProtocolHeader(nil))
						_, _ = c.Read(make([]byte, 8))
						_ = c.Close()
					}
				})
				all.Go(func() {
					p, err := faults.Proxy(LinkFault{Type: kind, ToBroker: true, ToConsumer: true, New: true})
					if err != nil {
						t.Error(err)
						return
					}
					p.Remove()
				})
			}
			within(t, patience, "all of it", all.Wait)
			_ = r.broker.Close()
			within(t, patience, "Close", func() { _ = r.Close() })
			serving.Wait()
		})
	}
}
