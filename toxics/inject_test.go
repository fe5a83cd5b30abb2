package toxics

import (
	"errors"
	"testing"
	"time"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

func inject(t *testing.T, l *Link, channel uint16) *Injection {
	t.Helper()
	i, err := l.Inject(channel, &frame.BasicAck{DeliveryTag: 7}, "an ack of nothing")
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestAnInjectedCommandReachesTheBroker(t *testing.T) {
	b := newBroken(t)
	confirming(b.client, b.broker, 1)
	i := inject(t, b.link(), 1)
	b.broker.hears(&frame.BasicAck{DeliveryTag: 7})
	if e := b.awaitKind(ledger.Fired); e.Channel != 1 || e.Text != "an ack of nothing" || i.Fired() != 1 {
		t.Errorf("it fired %d times: %+v", i.Fired(), e)
	}
	// It is nobody's ack: the ledger has none.
	for _, k := range b.kinds() {
		if k == ledger.Acked {
			t.Errorf("the ledger has an ack: %v", b.kinds())
		}
	}
	publish(b.client, b.broker, 1, "m1")
	if i.Fired() != 1 {
		t.Errorf("it fired %d times", i.Fired())
	}
}

// In the middle of a content, the broker would take it for an error of the whole connection.
func TestAnInjectedCommandWaitsForTheContentBeforeIt(t *testing.T) {
	for _, watched := range []bool{false, true} {
		b := newBroken(t)
		confirming(b.client, b.broker, 1)
		confirming(b.client, b.broker, 2)
		raw := content(t, 1, &frame.BasicPublish{RoutingKey: "q"}, "m1", []byte("hello"))
		if watched { // frames are put together before they are passed on
			b.faults.Arm(Fault{Action: CutBefore, Trigger: Trigger{Method: "basic.cancel"}})
		}
		half := len(raw) - len("hello") - 8 // the body's frame is still to come
		b.client.send(raw[:half])
		l := b.link()
		eventually(t, "the content's beginning", func() bool { return !l.follower.Gap(1) })
		i := inject(t, l, 1)
		other := inject(t, l, 2)
		eventually(t, "the one on the other channel", func() bool { return other.Fired() == 1 })
		if i.Fired() != 0 {
			t.Error("it was sent in the middle of a content")
		}
		b.client.send(raw[half:])
		eventually(t, "its being sent", func() bool { return i.Fired() == 1 })
		var body bool
		for acks := 0; acks < 2; {
			f, err := b.broker.next()
			if err != nil {
				t.Fatal(err)
			}
			body = body || f.Type == frame.TypeBody
			if m, _ := frame.ParseMethod(f.Payload); f.Type == frame.TypeMethod && m.Name() == "basic.ack" {
				acks++
				if f.Channel == 1 && !body {
					t.Error("the broker got it before the body")
				}
			}
		}
	}
}

func TestNothingIsInjectedWhereNobodyWouldTakeIt(t *testing.T) {
	b := newBroken(t)
	confirming(b.client, b.broker, 1)
	l := b.link()
	if _, err := l.Inject(1, &frame.BasicPublish{}, ""); !errors.Is(err, errContent) {
		t.Errorf("a content was taken: %v", err)
	}
	// A channel that was never opened, and one that is closed.
	never := inject(t, l, 9)
	b.client.say(1, &frame.ChannelClose{})
	b.broker.hears(&frame.ChannelClose{})
	closed := inject(t, l, 1)
	b.broker.silent(50 * time.Millisecond)
	if never.Fired()+closed.Fired() != 0 {
		t.Errorf("fired %d and %d times", never.Fired(), closed.Fired())
	}
	l.Sever("cut")
	b.client.ends()
	if _, err := l.Inject(1, &frame.BasicAck{}, ""); !errors.Is(err, errGone) {
		t.Errorf("a connection that is gone took it: %v", err)
	}
}
