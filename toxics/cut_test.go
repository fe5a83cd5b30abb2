package toxics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// wasCut fails where the ledger does not say, last and once, that the connection was cut.
func (b *broken) wasCut() {
	b.Helper()
	b.await("the cut", func(e ledger.Event) bool {
		return e.Kind == ledger.ConnectionLost && !e.Broker && e.Text == "parkproof cut the connection"
	})
	eventually(b, "no link left", func() bool { return len(b.Links()) == 0 })
	kinds := b.kinds()
	if i := slices.Index(kinds, ledger.ConnectionLost); i != len(kinds)-1 {
		b.Errorf("after the cut there is %v", kinds[i+1:])
	}
}

func TestCutBefore(t *testing.T) {
	t.Run("a publish", func(t *testing.T) {
		b := newBroken(t)
		a := b.faults.Arm(Fault{Trigger: publishing("m2"), Action: CutBefore})
		b.client.send(published(t, 1, "m1"), published(t, 1, "m2"), published(t, 1, "m3"), method(t, 2, &frame.ChannelOpen{}))
		b.broker.takes(published(t, 1, "m1"))
		b.broker.endsWithout()
		b.client.endsWithout()
		b.wasCut()
		b.fires(a, 1)
		if got := b.tale(); got != "published m1, fault-fired, connection-lost" {
			t.Error(got)
		}
	})
	t.Run("a delivery", func(t *testing.T) {
		b := newBroken(t)
		a := b.faults.Arm(Fault{Trigger: delivering("m2"), Action: CutBefore})
		b.broker.send(delivered(t, 1, 1, "m1"), delivered(t, 1, 2, "m2"), delivered(t, 1, 3, "m3"))
		b.client.takes(delivered(t, 1, 1, "m1"))
		b.client.endsWithout()
		b.broker.endsWithout()
		b.wasCut()
		b.fires(a, 1)
		if got := b.tale(); got != "delivered m1, fault-fired, connection-lost" {
			t.Error(got)
		}
	})
	t.Run("a confirm, with another before it held for the delay", func(t *testing.T) {
		b := newBroken(t, withDelay(never))
		confirming(b.client, b.broker, 1)
		publish(b.client, b.broker, 1, "m1")
		publish(b.client, b.broker, 1, "m2")
		b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.ack", FromBroker: true, Message: "m2"}, Action: CutBefore})
		b.broker.say(1, &frame.BasicAck{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 2})
		b.client.endsWithout()
		b.wasCut()
		if got := b.tale(ledger.Asked, ledger.ChannelOpened, ledger.ConfirmMode, ledger.Fired); got != "published m1, published m2, confirm-arrived, connection-lost" {
			t.Error(got)
		}
	})
}

// half is a link whose one tap runs in the test: out is what it passes on.
func half(t *testing.T) (l *Link, book *ledger.Ledger, stub *toxics.ToxicStub, out chan *stream.StreamChunk) {
	t.Helper()
	book = ledger.New()
	l = newLink(Options{
		Ledger: book, Faults: NewFaults(), Process: "p",
		Identify: func(c *ledger.Content) string { return c.Properties.MessageID },
	}, 1, nil, nil)
	for _, d := range l.sides {
		d.writer = &closer{link: l}
	}
	out = make(chan *stream.StreamChunk, 10)
	return l, book, toxics.NewToxicStub(nil, out), out
}

// The moment between a cut and its sight on the sockets: what the other direction still takes is neither
// passed on nor written down.
func TestNothingPassesAfterACut(t *testing.T) {
	for _, fromBroker := range []bool{false, true} {
		l, book, stub, out := half(t)
		d := l.sides[0]
		raw := append(published(t, 1, "m1"), method(t, 1, &frame.ChannelOpen{})...)
		if fromBroker {
			d = l.sides[1]
			raw = append(delivered(t, 1, 1, "m1"), method(t, 1, &frame.ChannelOpenOk{})...)
		}
		raw = frame.AppendHeartbeat(raw)
		observed := 0
		l.faults.Observe(func(Observation) { observed++ })
		l.takeCommands(stub, d, &stream.StreamChunk{Data: raw[:20]}) // of a content
		l.end(!fromBroker, "it is cut")
		l.takeCommands(stub, d, &stream.StreamChunk{Data: raw[20:]})
		l.takeCommands(stub, d, &stream.StreamChunk{Data: raw})
		if len(out) != 0 || observed != 0 || len(book.Events()) != 1 {
			t.Errorf("from the broker %v: %d pieces passed, %d commands were told of, %d events", fromBroker, len(out), observed, len(book.Events()))
		}
	}
}

// Nor is a confirm whose delay ends then.
func TestAHeldConfirmAfterACut(t *testing.T) {
	l, book, stub, out := half(t)
	l.confirmDelay, l.follower.Deferred = never, true
	l.faults.any.Store(true)
	take := func(d *direction, raw []byte) {
		l.takeCommands(stub, d, &stream.StreamChunk{Data: raw, Timestamp: time.Now()})
	}
	take(l.sides[0], append(method(t, 1, &frame.ConfirmSelect{NoWait: true}), published(t, 1, "m1")...))
	take(l.sides[1], method(t, 1, &frame.BasicAck{DeliveryTag: 1}))
	<-out
	events := len(book.Events())
	l.end(false, "it is cut")
	l.passHeld(stub, l.sides[1], true)
	if len(out) != 0 || len(book.Events()) != events+1 {
		t.Errorf("%d pieces passed, %d events more", len(out), len(book.Events())-events)
	}
}

// What the ledger says was passed on in the other direction has arrived, wherever its tap is at the cut.
func TestACutMidway(t *testing.T) {
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			b := newBroken(t)
			b.faults.Arm(Fault{Trigger: publishing("cut"), Action: CutBefore})
			var all sync.WaitGroup
			all.Go(func() {
				for tag := uint64(1); tag < 1500; tag++ {
					if _, err := b.broker.Write(delivered(t, 1, tag, fmt.Sprint("m", tag))); err != nil {
						return
					}
				}
			})
			var names []string
			all.Go(func() { names, _ = b.client.rest() })
			b.await("some deliveries", func(e ledger.Event) bool { return e.Kind == ledger.Delivered && e.Tag >= uint64(20+i) })
			b.client.send(published(t, 1, "cut"))
			all.Wait()
			b.wasCut()
			told := strings.Count(b.tale(), "delivered")
			if len(names) != told {
				t.Errorf("%d deliveries came, and the ledger tells of %d", len(names), told)
			}
		})
	}
}

// cutAfter is the course of a cut that waits for what the command brings about.
type cutAfter struct {
	name    string
	confirm bool           // its channel is in confirm mode
	before  []string       // messages that were published before
	fault   Trigger        // of the client's command
	raw     func() []byte  // the command
	marker  bool           // whether the broker is asked for a mark
	answers []frame.Method // the broker's, on the channel
	whole   bool           // the answers are the connection's
	note    string         // what the ledger says of the answer
	tale    string         // what the ledger tells of the command
}

func TestCutAfter(t *testing.T) {
	preamble := []ledger.Kind{ledger.ChannelOpened, ledger.ConfirmMode, ledger.Fired, ledger.Noted}
	answered := func(name string) string { return "the broker answered with " + name + ", which was not passed on" }
	ack, nack := &frame.BasicAck{}, &frame.BasicNack{}
	const taken = "the broker has taken it"
	for _, c := range []cutAfter{
		{
			name: "a publish, confirmed", confirm: true, fault: publishing("m1"), raw: func() []byte { return published(t, 1, "m1") },
			answers: []frame.Method{&frame.BasicAck{DeliveryTag: 1}}, note: answered(ack.Name()), tale: "asked, published m1, connection-lost",
		},
		{
			name: "a publish, refused", confirm: true, fault: publishing("m1"), raw: func() []byte { return published(t, 1, "m1") },
			answers: []frame.Method{&frame.BasicNack{DeliveryTag: 1}}, note: answered(nack.Name()), tale: "asked, published m1, connection-lost",
		},
		{
			name: "a publish, where one before is confirmed first", confirm: true, before: []string{"m1", "m2"}, fault: publishing("m3"),
			raw:     func() []byte { return published(t, 1, "m3") },
			answers: []frame.Method{&frame.BasicAck{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 2, Multiple: true}, &frame.BasicNack{DeliveryTag: 3}},
			note:    answered(nack.Name()), tale: "asked, published m1, published m2, published m3, connection-lost",
		},
		{
			name: "a publish, confirmed with one before", confirm: true, before: []string{"m1"}, fault: publishing("m2"),
			raw: func() []byte { return published(t, 1, "m2") }, answers: []frame.Method{&frame.BasicAck{DeliveryTag: 2, Multiple: true}},
			note: answered(ack.Name()), tale: "asked, published m1, published m2, connection-lost",
		},
		{
			name: "a publish, confirmed with all", confirm: true, before: []string{"m1"}, fault: publishing("m2"),
			raw: func() []byte { return published(t, 1, "m2") }, answers: []frame.Method{&frame.BasicAck{Multiple: true}},
			note: answered(ack.Name()), tale: "asked, published m1, published m2, connection-lost",
		},
		{
			name: "a publish to nowhere", confirm: true, fault: publishing("m1"), raw: func() []byte { return published(t, 1, "m1") },
			answers: []frame.Method{&frame.ChannelClose{ReplyCode: 404}}, note: answered("channel.close"), tale: "asked, published m1, connection-lost",
		},
		{
			name: "a publish that ends the connection", confirm: true, fault: publishing("m1"), raw: func() []byte { return published(t, 1, "m1") },
			answers: []frame.Method{&frame.ConnectionClose{ReplyCode: 501}}, whole: true, note: answered("connection.close"),
			tale: "asked, published m1, connection-lost",
		},
		{
			name: "a publish without confirms", fault: publishing("m1"), raw: func() []byte { return published(t, 1, "m1") }, marker: true,
			answers: []frame.Method{&frame.ChannelFlowOk{Active: true}}, note: taken, tale: "published m1, connection-lost",
		},
		{
			name: "an ack", fault: Trigger{Method: "basic.ack"}, raw: func() []byte { return method(t, 1, &frame.BasicAck{DeliveryTag: 1}) },
			marker: true, answers: []frame.Method{&frame.ChannelFlowOk{Active: true}}, note: taken, tale: "acked, connection-lost",
		},
		{
			name: "an ack of what the broker does not know", fault: Trigger{Method: "basic.ack"},
			raw: func() []byte { return method(t, 1, &frame.BasicAck{DeliveryTag: 1}) }, marker: true,
			answers: []frame.Method{&frame.ChannelClose{ReplyCode: 406}}, note: answered("channel.close"), tale: "acked, connection-lost",
		},
		{
			name: "a declaration", fault: Trigger{Method: "queue.declare"}, raw: func() []byte { return method(t, 1, &frame.QueueDeclare{Queue: "q"}) },
			marker: true, answers: []frame.Method{&frame.QueueDeclareOk{Queue: "q"}, &frame.ChannelFlowOk{Active: true}}, note: taken,
			tale: "asked, connection-lost", // and not declared: the consumer does not know
		},
		{
			name: "a channel's opening", fault: Trigger{Method: "channel.open"}, raw: func() []byte { return method(t, 1, &frame.ChannelOpen{}) },
			answers: []frame.Method{&frame.ChannelOpenOk{}}, note: answered("channel.open-ok"), tale: "connection-lost",
		},
		{
			name: "a channel's end, with a confirm before its answer", confirm: true, before: []string{"m1"}, fault: Trigger{Method: "channel.close"},
			raw:     func() []byte { return method(t, 1, &frame.ChannelClose{ReplyCode: 200}) },
			answers: []frame.Method{&frame.BasicAck{DeliveryTag: 1}, &frame.ChannelCloseOk{}}, note: answered("channel.close-ok"),
			tale: "asked, published m1, connection-lost",
		},
		{
			name: "the connection's end", fault: Trigger{Method: "connection.close"},
			raw:     func() []byte { return method(t, 0, &frame.ConnectionClose{ReplyCode: 200}) },
			answers: []frame.Method{&frame.ConnectionCloseOk{}}, whole: true, note: answered("connection.close-ok"), tale: "connection-lost",
		},
		{
			name: "tune-ok, which nothing answers", fault: Trigger{Method: "connection.tune-ok"},
			raw: func() []byte { return method(t, 0, &frame.ConnectionTuneOk{FrameMax: 131072}) }, tale: "connection-lost",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBroken(t)
			if c.confirm {
				confirming(b.client, b.broker, 1)
			}
			for _, m := range c.before {
				publish(b.client, b.broker, 1, m)
				b.broker.pending = nil // its content
			}
			c.fault.Occurrence = 0
			a := b.faults.Arm(Fault{Trigger: c.fault, Action: CutAfter})
			b.client.send(c.raw(), method(t, 2, &frame.ChannelOpen{})) // what comes after is not passed on
			want := c.raw()
			if c.marker {
				want = append(want, method(t, 1, &frame.ChannelFlow{Active: true})...)
			}
			b.broker.takes(want)
			channel := uint16(1)
			if c.whole {
				channel = 0
			}
			for _, m := range c.answers {
				b.broker.say(channel, m)
			}
			b.client.endsWithout()
			b.broker.endsWithout()
			b.wasCut()
			b.fires(a, 1)
			if got := strings.Join(b.texts(ledger.Noted), "; "); got != c.note {
				t.Errorf("the ledger notes %q, want %q", got, c.note)
			}
			if got := b.tale(preamble...); got != c.tale {
				t.Errorf("%s\nwant\n%s", got, c.tale)
			}
		})
	}
}

// Deliveries and returns are no answer, nor is what comes on other channels.
func TestCutAfterWaitsForTheAnswer(t *testing.T) {
	b := newBroken(t)
	confirming(b.client, b.broker, 1)
	confirming(b.client, b.broker, 2)
	publish(b.client, b.broker, 2, "other")
	b.broker.pending = nil
	b.faults.Arm(Fault{Trigger: publishing("m1"), Action: CutAfter})
	b.client.send(published(t, 1, "m1"))
	b.broker.takes(published(t, 1, "m1"))
	b.broker.send(
		content(t, 1, &frame.BasicReturn{RoutingKey: "q"}, "m1", nil), delivered(t, 1, 1, "m2"),
		method(t, 2, &frame.BasicAck{DeliveryTag: 1}), frame.AppendHeartbeat(nil), method(t, 1, &frame.BasicNack{DeliveryTag: 1}),
	)
	b.client.endsWithout()
	b.wasCut()
	if got := b.texts(ledger.Noted); fmt.Sprint(got) != "[the broker answered with basic.nack, which was not passed on]" {
		t.Error(got)
	}
	if got := b.tale(); strings.Contains(got, "returned") || strings.Contains(got, "delivered") || strings.Contains(got, "confirmed") {
		t.Error(got)
	}
}

func TestCutAfterWithoutAnAnswer(t *testing.T) {
	t.Run("the broker says nothing", func(t *testing.T) {
		b := newBroken(t)
		b.faults.answerLimit = 30 * time.Millisecond
		b.faults.Arm(Fault{Trigger: publishing("m1"), Action: CutAfter})
		began := time.Now()
		b.client.send(published(t, 1, "m1"))
		b.broker.takes(append(published(t, 1, "m1"), method(t, 1, &frame.ChannelFlow{Active: true})...))
		b.client.endsWithout()
		b.broker.endsWithout()
		b.wasCut()
		if took := time.Since(began); took < b.faults.answerLimit {
			t.Errorf("it was cut after %s", took)
		}
		if got := b.texts(ledger.Noted); fmt.Sprint(got) != "[the broker gave no answer in 30ms]" {
			t.Error(got)
		}
	})
	t.Run("the broker ends the connection", func(t *testing.T) {
		b := newBroken(t)
		b.faults.Arm(Fault{Trigger: publishing("m1"), Action: CutAfter})
		b.client.send(published(t, 1, "m1"))
		b.broker.takes(append(published(t, 1, "m1"), method(t, 1, &frame.ChannelFlow{Active: true})...))
		_ = b.broker.Close()
		b.client.endsWithout()
		if e := b.awaitKind(ledger.ConnectionLost); !e.Broker {
			t.Errorf("%+v", e)
		}
		eventually(t, "no link left", func() bool { return len(b.Links()) == 0 })
		if got := b.texts(ledger.Noted); len(got) > 0 {
			t.Error(got)
		}
	})
}

// What the broker says is passed on, and what the client does thereupon is not.
func TestCutAfterADelivery(t *testing.T) {
	t.Run("the client answers", func(t *testing.T) {
		b := newBroken(t)
		a := b.faults.Arm(Fault{Trigger: delivering("m1"), Action: CutAfter})
		b.broker.send(delivered(t, 1, 1, "m1"), delivered(t, 1, 2, "m2"))
		b.client.takes(delivered(t, 1, 1, "m1"))
		b.client.say(1, &frame.BasicAck{DeliveryTag: 1})
		b.broker.endsWithout()
		b.client.endsWithout()
		b.wasCut()
		b.fires(a, 1)
		if got := b.texts(ledger.Noted); fmt.Sprint(got) != "[the consumer answered with basic.ack, which was not passed on]" {
			t.Error(got)
		}
		if got := b.tale(ledger.Fired, ledger.Noted); got != "delivered m1, connection-lost" {
			t.Error(got)
		}
	})
	t.Run("the client does nothing", func(t *testing.T) {
		b := newBroken(t)
		b.faults.Arm(Fault{Trigger: delivering("m1"), Action: CutAfter})
		b.broker.send(delivered(t, 1, 1, "m1"))
		b.client.takes(delivered(t, 1, 1, "m1"))
		b.client.endsWithout()
		b.broker.endsWithout()
		b.wasCut()
		if got := b.tale(ledger.Fired); got != "delivered m1, connection-lost" {
			t.Error(got)
		}
	})
	t.Run("a confirm that waits for its delay, and one before it", func(t *testing.T) {
		b := newBroken(t, withDelay(never))
		confirming(b.client, b.broker, 1)
		publish(b.client, b.broker, 1, "m1")
		publish(b.client, b.broker, 1, "m2")
		b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.ack", FromBroker: true, Message: "m2"}, Action: CutAfter})
		b.broker.say(1, &frame.BasicAck{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 2})
		b.client.hears(&frame.BasicAck{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 2})
		b.client.say(1, &frame.BasicAck{DeliveryTag: 7})
		b.broker.pending = nil
		b.client.endsWithout()
		b.wasCut()
		if got := b.tale(ledger.Asked, ledger.ChannelOpened, ledger.ConfirmMode, ledger.Fired, ledger.Noted); got !=
			"published m1, published m2, confirm-arrived, confirmed, confirm-arrived, confirmed, connection-lost" &&
			got != "published m1, published m2, confirm-arrived, confirm-arrived, confirmed, confirmed, connection-lost" {
			t.Error(got)
		}
	})
}

// The receiver has the command and an orderly end; the sender a reset, and cannot know.
func TestCutUnseen(t *testing.T) {
	for _, c := range []struct {
		name       string
		fault      Trigger
		raw        []byte
		fromBroker bool
		tale       string
	}{
		{"a publish", publishing("m1"), published(t, 1, "m1"), false, "fault-fired, published m1, connection-lost"},
		{"an ack", Trigger{Method: "basic.ack"}, method(t, 1, &frame.BasicAck{DeliveryTag: 1}), false, "fault-fired, acked, connection-lost"},
		{"a delivery", delivering("m1"), delivered(t, 1, 1, "m1"), true, "fault-fired, delivered m1, connection-lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBroken(t)
			sender, receiver := b.client, b.broker
			if c.fromBroker {
				sender, receiver = receiver, sender
			}
			a := b.faults.Arm(Fault{Trigger: c.fault, Action: CutUnseen})
			sender.send(c.raw)
			receiver.takes(c.raw)
			if names, err := receiver.rest(); !errors.Is(err, io.EOF) || len(names) > 0 {
				t.Errorf("the receiver has %v more and sees %v", names, err)
			}
			if names, err := sender.rest(); !errors.Is(err, syscall.ECONNRESET) || len(names) > 0 {
				t.Errorf("the sender has %v and sees %v", names, err)
			}
			b.wasCut()
			b.fires(a, 1)
			if got := b.tale(); got != c.tale {
				t.Errorf("%s\nwant\n%s", got, c.tale)
			}
		})
	}
}

// Method and header arrive, and a part of the body; before the header, with a cut before.
func TestCutInside(t *testing.T) {
	bodies := map[string][]byte{"small": []byte("a body"), "of one byte": {1}, "empty": nil, "of many frames": bytes.Repeat([]byte("x"), 500_000)}
	for name, body := range bodies {
		for _, fromBroker := range []bool{false, true} {
			for _, action := range []Action{CutBefore, CutAfter, CutUnseen} {
				t.Run(fmt.Sprintf("%s, from the broker %v, %d", name, fromBroker, action), func(t *testing.T) {
					b := newBroken(t)
					sender, receiver := b.client, b.broker
					var m frame.Method = &frame.BasicPublish{RoutingKey: "q"}
					fault := publishing("m1")
					if fromBroker {
						sender, receiver = receiver, sender
						m, fault = &frame.BasicDeliver{ConsumerTag: "t", DeliveryTag: 1}, delivering("m1")
					}
					fault.Inside = true
					a := b.faults.Arm(Fault{Trigger: fault, Action: action})
					raw := content(t, 1, m, "m1", body)
					before := content(t, 1, m, "m0", body)
					var sending sync.WaitGroup
					sending.Go(func() { _, _ = sender.Write(slices.Concat(before, raw, method(t, 2, &frame.ChannelOpen{}))) })
					got, err := io.ReadAll(receiver.Conn)
					sending.Wait()
					if action == CutUnseen && err != nil || errors.Is(err, net.ErrClosed) {
						t.Errorf("the receiver sees %v", err)
					}
					if !bytes.HasPrefix(got, before) || !bytes.HasPrefix(raw, got[len(before):]) {
						t.Fatalf("%d bytes came: others, or not what was before", len(got))
					}
					part := len(got) - len(before)
					methodEnds := len(method(t, 1, m))
					headerEnds := len(content(t, 1, m, "m1", nil))
					switch {
					case action == CutBefore:
						if part != methodEnds {
							t.Errorf("%d bytes of the content came, want the %d of its method", part, methodEnds)
						}
					case len(body) == 0:
						if part <= methodEnds || part >= headerEnds {
							t.Errorf("%d bytes came, want some of the header, from %d to %d", part, methodEnds, headerEnds)
						}
					case part <= headerEnds || part >= len(raw):
						t.Errorf("%d bytes came, want some of the body, from %d to %d", part, headerEnds, len(raw))
					}
					_, senderSees := io.Copy(io.Discard, sender.Conn)
					if reset := errors.Is(senderSees, syscall.ECONNRESET); action == CutUnseen && !reset {
						t.Errorf("the sender sees %v", senderSees)
					}
					b.wasCut()
					b.fires(a, 1)
					if tale := b.tale(ledger.Fired); !strings.HasSuffix(tale, " m0, connection-lost") || strings.Contains(tale, "m1") {
						t.Error(tale)
					}
				})
			}
		}
	}
}

func TestStop(t *testing.T) {
	for _, fromBroker := range []bool{false, true} {
		t.Run(fmt.Sprintf("the command waits for what is done, from the broker %v", fromBroker), func(t *testing.T) {
			b := newBroken(t)
			from, to, first, raw, fault := b.client, b.broker, published(t, 1, "m0"), published(t, 1, "m1"), publishing("m1")
			if fromBroker {
				from, to, first, raw, fault = b.broker, b.client, delivered(t, 1, 1, "m0"), delivered(t, 1, 2, "m1"), delivering("m1")
			}
			began, goOn := make(chan struct{}), make(chan struct{})
			a := b.faults.Arm(Fault{Trigger: fault, Action: Stop, Act: func() bool {
				close(began)
				<-goOn
				return false
			}})
			from.send(first, raw, first)
			<-began
			to.takes(first) // what came before has been passed on
			to.silent(20 * time.Millisecond)
			if got := b.tale(ledger.Fired); strings.Contains(got, "m1") {
				t.Error(got)
			}
			close(goOn)
			to.takes(append(raw, first...))
			b.fires(a, 1)
		})
	}
	t.Run("what is on its way to who is gone is not passed on", func(t *testing.T) {
		b := newBroken(t, withDelay(never))
		confirming(b.client, b.broker, 1)
		publish(b.client, b.broker, 1, "m9")
		a := b.faults.Arm(Fault{Trigger: delivering("m1"), Action: Stop, Act: func() bool {
			_ = b.client.Close()
			return true
		}})
		b.broker.send(
			method(t, 1, &frame.BasicAck{DeliveryTag: 1}), delivered(t, 1, 1, "m0"), delivered(t, 1, 2, "m1"), delivered(t, 1, 3, "m2"),
		)
		b.broker.ends()
		b.awaitKind(ledger.ConnectionLost)
		b.fires(a, 1)
		got := b.tale(ledger.Asked, ledger.ChannelOpened, ledger.ConfirmMode, ledger.Fired)
		if got != "published m9, confirm-arrived, delivered m0, connection-lost" {
			t.Error(got)
		}
	})
}

// The process is gone, and so is its connection: the command, which it had sent, arrives all the same.
func TestTheEndDoesNotOvertakeACommand(t *testing.T) {
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			b := newBroken(t)
			fault := publishing("m1")
			fault.Inside = i%4 == 3
			b.faults.Arm(Fault{Trigger: fault, Action: Stop, Act: func() bool {
				if err := b.client.Conn.(*net.TCPConn).SetLinger(0); err != nil {
					t.Error(err)
				}
				_ = b.client.Close()
				// Nobody takes these: the wire learns of the end by them.
				for tag := range uint64(3) {
					b.broker.send(delivered(t, 1, tag+1, "m2"))
				}
				b.await("a delivery", func(e ledger.Event) bool { return e.Kind == ledger.Delivered })
				return true
			}})
			raw := published(t, 1, "m1")
			b.client.send(raw)
			if !fault.Inside {
				// The broker is asked whether it has taken it, before it sees the end.
				raw = append(raw, method(t, 1, &frame.ChannelFlow{Active: true})...)
				got := make([]byte, len(raw))
				if n, err := io.ReadFull(b.broker, got); err != nil || !bytes.Equal(got, raw) {
					t.Errorf("%d of %d bytes came, %v", n, len(raw), err)
				}
				b.broker.say(1, &frame.ChannelFlowOk{Active: true})
			}
			rest, _ := io.ReadAll(b.broker)
			words := b.tale(ledger.Fired, ledger.Delivered)
			if fault.Inside {
				if !bytes.HasPrefix(raw, rest) || len(rest) == 0 || len(rest) == len(raw) {
					t.Errorf("%d of %d bytes came", len(rest), len(raw))
				}
				if words != "connection-lost" {
					t.Error(words)
				}
				return
			}
			if len(rest) > 0 {
				t.Errorf("%d bytes more came", len(rest))
			}
			if words != "published m1, noted, connection-lost" {
				t.Error(words)
			}
			if got := b.texts(ledger.Noted); fmt.Sprint(got) != "[the broker has taken it]" {
				t.Error(got)
			}
		})
	}
}

func TestSever(t *testing.T) {
	b := newBroken(t)
	b.link().Sever("the link is cut")
	b.client.endsWithout()
	b.broker.endsWithout()
	b.wasCut()
	if got := b.texts(ledger.Fired); fmt.Sprint(got) != "[the link is cut]" {
		t.Error(got)
	}
}
