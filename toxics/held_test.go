package toxics

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// holding waits until faults have fired at what was sent.
func (b *broken) holding(a *Armed, n int) {
	b.Helper()
	eventually(b, "it is held", func() bool { return a.Fired() == n })
}

// A held frame's content stays whole, and all others overtake it.
func TestHoldADelivery(t *testing.T) {
	b := newBroken(t)
	a := b.faults.Arm(Fault{Trigger: delivering("m1"), Action: Hold})
	big := content(t, 1, &frame.BasicDeliver{ConsumerTag: "t", DeliveryTag: 1}, "m1", bytes.Repeat([]byte("x"), 300_000))
	second := content(t, 1, &frame.BasicDeliver{ConsumerTag: "t", DeliveryTag: 2}, "m2", bytes.Repeat([]byte("y"), 200_000))
	open := method(t, 2, &frame.ChannelOpenOk{})
	heartbeat := frame.AppendHeartbeat(nil)
	b.broker.send(big[:200_000])
	b.broker.send(big[200_000:], second, open, heartbeat)
	b.client.takes(second)
	b.client.takes(open)
	b.client.takes(heartbeat)
	if got := b.tale(ledger.Fired); got != "delivered m2, channel-opened" {
		t.Error(got)
	}
	a.Release()
	b.client.takes(big)
	b.fires(a, 1)
	if got := b.tale(ledger.Fired); got != "delivered m2, channel-opened, delivered m1" {
		t.Error(got)
	}
	again := delivered(t, 1, 3, "m1")
	b.broker.send(again)
	b.client.takes(again) // it is disarmed
	b.fires(a, 1)
}

// A content of another channel comes in between the frames of one that is held.
func TestHoldAmongOtherFrames(t *testing.T) {
	b := newBroken(t)
	a := b.faults.Arm(Fault{Trigger: delivering("m1"), Action: Hold})
	split := func(raw []byte, m frame.Method, channel uint16) (head, tail []byte) {
		n := len(method(t, channel, m))
		return raw[:n], raw[n:]
	}
	one, two := &frame.BasicDeliver{ConsumerTag: "t", DeliveryTag: 1}, &frame.BasicDeliver{ConsumerTag: "t", DeliveryTag: 2}
	first, second := content(t, 1, one, "m1", []byte("its body")), content(t, 2, two, "m2", []byte("another body"))
	head1, tail1 := split(first, one, 1)
	head2, tail2 := split(second, two, 2)
	b.broker.send(head1, head2, tail1, tail2)
	b.client.takes(second)
	a.Release()
	b.client.takes(first)
}

// The confirms of a channel keep their order; other channels' pass, and so does everything else.
func TestHoldAConfirm(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond} {
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			b := newBroken(t, withDelay(delay))
			confirming(b.client, b.broker, 1)
			confirming(b.client, b.broker, 2)
			for _, m := range []string{"m1", "m2", "m3", "m4"} {
				publish(b.client, b.broker, 1, m)
			}
			publish(b.client, b.broker, 2, "other")
			a := b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.ack", FromBroker: true, Message: "m2"}, Action: Hold})
			b.broker.say(1, &frame.BasicAck{DeliveryTag: 1})
			b.client.hears(&frame.BasicAck{DeliveryTag: 1})
			b.broker.say(1, &frame.BasicAck{DeliveryTag: 2}, &frame.BasicNack{DeliveryTag: 3}, &frame.BasicAck{DeliveryTag: 4, Multiple: true})
			b.broker.say(2, &frame.BasicAck{DeliveryTag: 1})
			b.client.hears(&frame.BasicAck{DeliveryTag: 1})
			b.broker.send(delivered(t, 1, 1, "d1"))
			b.client.takes(delivered(t, 1, 1, "d1"))
			for _, e := range b.ledger.Events() {
				if e.Channel == 1 && (e.Kind == ledger.Refused || e.Kind == ledger.Confirmed && e.Tag > 1) {
					t.Errorf("%s %d is told as passed on", e.Kind, e.Tag)
				}
			}
			a.Release()
			b.client.hears(&frame.BasicAck{DeliveryTag: 2}, &frame.BasicNack{DeliveryTag: 3}, &frame.BasicAck{DeliveryTag: 4, Multiple: true})
			b.fires(a, 1)
			var told []string
			for _, e := range b.ledger.Events() {
				if e.Channel == 1 && (e.Kind == ledger.Refused || e.Kind == ledger.Confirmed) {
					told = append(told, fmt.Sprintf("%s %d", e.Kind, e.Tag))
				}
			}
			if got := strings.Join(told, ", "); got != "confirmed 1, confirmed 2, refused 3, confirmed 4" {
				t.Error(got)
			}
		})
	}
}

// A publish waits with those of its channel that came after it, since the broker numbers them as they
// come; the acks of its channel, and other channels, do not wait.
func TestHoldAPublish(t *testing.T) {
	b := newBroken(t)
	confirming(b.client, b.broker, 1)
	a := b.faults.Arm(Fault{Trigger: publishing("m1"), Action: Hold})
	ack := method(t, 1, &frame.BasicAck{DeliveryTag: 1})
	b.client.send(published(t, 1, "m1"), published(t, 1, "m2"), ack, published(t, 2, "m3"))
	b.broker.takes(append(ack, published(t, 2, "m3")...))
	if got := b.tale(ledger.Fired, ledger.Asked, ledger.ChannelOpened, ledger.ConfirmMode); got != "acked, published m3" {
		t.Error(got)
	}
	a.Release()
	b.broker.takes(append(published(t, 1, "m1"), published(t, 1, "m2")...))
	b.broker.say(1, &frame.BasicAck{DeliveryTag: 1})
	b.client.hears(&frame.BasicAck{DeliveryTag: 1})
	tags := map[string]uint64{}
	for _, e := range b.ledger.Events() {
		if e.Kind == ledger.Published {
			tags[e.Message] = e.Tag
		}
	}
	if tags["m1"] != 1 || tags["m2"] != 2 {
		t.Errorf("their numbers are %v", tags)
	}
	e := b.awaitKind(ledger.Confirmed)
	if len(e.Covers) != 1 || b.ledger.Events()[e.Covers[0]-1].Message != "m1" {
		t.Errorf("the confirm is told to be of %v", e.Covers)
	}
}

// Two faults hold on their own; a release is of all that the one holds.
func TestReleaseTogether(t *testing.T) {
	b := newBroken(t)
	odd := b.faults.Arm(Fault{Trigger: delivering("odd*"), Action: Hold})
	even := b.faults.Arm(Fault{Trigger: delivering("even*"), Action: Hold})
	client, broker := b.connect()
	broker.send(delivered(t, 1, 1, "odd3"), delivered(t, 1, 2, "even4"))
	b.broker.send(delivered(t, 1, 1, "odd1"), delivered(t, 1, 2, "even2"), delivered(t, 1, 3, "odd5"))
	b.holding(odd, 3)
	b.holding(even, 2)
	odd.Release()
	b.client.takes(append(delivered(t, 1, 1, "odd1"), delivered(t, 1, 3, "odd5")...))
	client.takes(delivered(t, 1, 1, "odd3"))
	if got := b.tale(ledger.Fired); strings.Contains(got, "even") {
		t.Error(got)
	}
	even.Release()
	b.client.takes(delivered(t, 1, 2, "even2"))
	client.takes(delivered(t, 1, 2, "even4"))
}

// One ack overtakes another, but one for many does not: it would release the held one's delivery too, and
// the broker would take the held one for an error.
func TestHoldAnAck(t *testing.T) {
	acking := func(m string) Trigger { return Trigger{Method: "basic.ack", Message: m} }
	for _, c := range []struct {
		name string
		many frame.Method
	}{
		{"an ack", &frame.BasicAck{DeliveryTag: 3, Multiple: true}},
		{"a nack", &frame.BasicNack{DeliveryTag: 3, Multiple: true, Requeue: true}},
		{"a recovery", &frame.BasicRecover{Requeue: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBroken(t)
			first := b.faults.Arm(Fault{Trigger: acking("m1"), Action: Hold})
			other := b.faults.Arm(Fault{Trigger: acking("m4"), Action: Hold})
			for tag := range uint64(5) {
				raw := delivered(t, 1, tag+1, fmt.Sprint("m", tag+1))
				b.broker.send(raw)
				b.client.takes(raw)
			}
			b.client.say(1, &frame.BasicAck{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 2}, &frame.BasicAck{DeliveryTag: 4}, c.many, &frame.BasicReject{DeliveryTag: 5})
			b.broker.hears(&frame.BasicAck{DeliveryTag: 2}, &frame.BasicReject{DeliveryTag: 5})
			other.Release() // it does not wait for the first
			b.broker.hears(&frame.BasicAck{DeliveryTag: 4})
			first.Release()
			b.broker.hears(&frame.BasicAck{DeliveryTag: 1}, c.many)
		})
	}
}

// What is held when the connection ends is never passed on, and the ledger does not say that it was.
func TestHeldAtTheEnd(t *testing.T) {
	t.Run("a publish", func(t *testing.T) {
		b := newBroken(t)
		a := b.faults.Arm(Fault{Trigger: publishing("m1"), Action: Hold})
		b.client.send(published(t, 1, "m1"), published(t, 1, "m2"), method(t, 2, &frame.ChannelOpen{}))
		b.broker.hears(&frame.ChannelOpen{})
		_ = b.client.Close()
		b.broker.endsWithout()
		b.awaitKind(ledger.ConnectionLost)
		a.Release()
		eventually(t, "no link left", func() bool { return len(b.Links()) == 0 })
		if got := b.tale(ledger.Fired); got != "connection-lost" {
			t.Error(got)
		}
	})
	t.Run("a confirm, with one that waits for its delay", func(t *testing.T) {
		b := newBroken(t, withDelay(never))
		confirming(b.client, b.broker, 1)
		publish(b.client, b.broker, 1, "m1")
		publish(b.client, b.broker, 1, "m2")
		publish(b.client, b.broker, 1, "m3")
		a := b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.ack", FromBroker: true, Message: "m2"}, Action: Hold})
		b.broker.say(1, &frame.BasicAck{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 2}, &frame.BasicAck{DeliveryTag: 3})
		b.holding(a, 1)
		_ = b.broker.Close()
		b.client.hears(&frame.BasicAck{DeliveryTag: 1})
		b.client.endsWithout()
		b.awaitKind(ledger.ConnectionLost)
		a.Release()
		if n := strings.Count(b.tale(), "confirmed"); n != 1 {
			t.Errorf("%d confirms are told as passed on", n)
		}
	})
	t.Run("a delayed delivery", func(t *testing.T) {
		b := newBroken(t)
		a := b.faults.Arm(Fault{Trigger: delivering("m1"), Action: Delay, For: never})
		b.broker.send(delivered(t, 1, 1, "m1"))
		b.holding(a, 1)
		_ = b.broker.Close()
		b.client.endsWithout()
		if got := b.tale(ledger.Fired); got != "connection-lost" {
			t.Error(got)
		}
	})
}

// After the end of its channel a held command would be an error, or belong to another channel of the same
// number.
func TestHeldWhenTheChannelCloses(t *testing.T) {
	t.Run("by the client", func(t *testing.T) {
		b := newBroken(t)
		a := b.faults.Arm(Fault{Trigger: publishing("m*"), Action: Hold})
		b.client.send(published(t, 1, "m1"), published(t, 2, "m2"), published(t, 1, "other"))
		b.client.say(1, &frame.ChannelClose{ReplyCode: 200})
		b.broker.hears(&frame.ChannelClose{ReplyCode: 200})
		b.broker.say(1, &frame.ChannelCloseOk{})
		b.client.hears(&frame.ChannelCloseOk{})
		b.client.say(1, &frame.ChannelOpen{})
		b.broker.hears(&frame.ChannelOpen{})
		a.Release()
		b.broker.takes(published(t, 2, "m2"))
		b.client.send(published(t, 1, "other"))
		b.broker.takes(published(t, 1, "other"))
		if got := b.tale(ledger.Fired); got != "noted, noted, channel-closed, published m2, published other" {
			t.Error(got)
		}
		want := "[what was held when its channel or connection closed is never passed on: basic.publish of m1 " +
			"what was held when its channel or connection closed is never passed on: basic.publish of other]"
		if got := fmt.Sprint(b.texts(ledger.Noted)); got != want {
			t.Error(got)
		}
	})
	t.Run("by the broker", func(t *testing.T) {
		b := newBroken(t)
		confirming(b.client, b.broker, 1)
		confirms := b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.ack", FromBroker: true}, Action: Hold})
		acks := b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.ack"}, Action: Hold})
		publish(b.client, b.broker, 1, "m1")
		b.broker.say(1, &frame.BasicAck{DeliveryTag: 1})
		b.client.say(1, &frame.BasicAck{DeliveryTag: 1})
		b.holding(confirms, 1)
		b.holding(acks, 1)
		b.broker.say(1, &frame.ChannelClose{ReplyCode: 404})
		b.client.hears(&frame.ChannelClose{ReplyCode: 404})
		b.client.say(1, &frame.ChannelCloseOk{}, &frame.ChannelOpen{})
		b.broker.pending = nil
		b.broker.hears(&frame.ChannelCloseOk{}, &frame.ChannelOpen{})
		b.faults.Heal()
		b.broker.say(1, &frame.ChannelOpenOk{})
		b.client.hears(&frame.ChannelOpenOk{})
		publish(b.client, b.broker, 1, "m2")
		if n := len(b.texts(ledger.Noted)); n != 2 {
			t.Errorf("%d notes of it", n)
		}
	})
	t.Run("and the connection", func(t *testing.T) {
		b := newBroken(t)
		a := b.faults.Arm(Fault{Trigger: publishing("m1"), Action: Hold})
		b.client.send(published(t, 1, "m1"))
		b.client.say(0, &frame.ConnectionClose{ReplyCode: 200})
		b.broker.hears(&frame.ConnectionClose{ReplyCode: 200})
		a.Release()
		b.broker.say(0, &frame.ConnectionCloseOk{})
		b.client.hears(&frame.ConnectionCloseOk{})
		_ = b.client.Close()
		b.broker.endsWithout()
		if got := b.tale(ledger.Fired); got != "noted, connection-closed" {
			t.Error(got)
		}
	})
}

// A delayed end of a channel does not come before the confirms that go before it.
func TestADelayedEnd(t *testing.T) {
	b := newBroken(t, withDelay(never))
	confirming(b.client, b.broker, 1)
	publish(b.client, b.broker, 1, "m1")
	b.faults.Arm(Fault{Trigger: Trigger{Method: "channel.close", FromBroker: true}, Action: Delay, For: time.Millisecond})
	b.broker.say(1, &frame.BasicAck{DeliveryTag: 1}, &frame.ChannelClose{ReplyCode: 404})
	b.client.hears(&frame.BasicAck{DeliveryTag: 1}, &frame.ChannelClose{ReplyCode: 404})
}

func TestDelay(t *testing.T) {
	const by = 60 * time.Millisecond
	t.Run("a delivery", func(t *testing.T) {
		b := newBroken(t)
		a := b.faults.Arm(Fault{Trigger: delivering("m1"), Action: Delay, For: by})
		began := time.Now()
		b.broker.send(delivered(t, 1, 1, "m1"), delivered(t, 1, 2, "m2"))
		b.client.takes(delivered(t, 1, 2, "m2"))
		b.client.takes(delivered(t, 1, 1, "m1"))
		if took := time.Since(began); took < by {
			t.Errorf("it came after %s", took)
		}
		b.fires(a, 1)
	})
	t.Run("a publish, and those behind it", func(t *testing.T) {
		b := newBroken(t)
		b.faults.Arm(Fault{Trigger: publishing("m1"), Action: Delay, For: by})
		began := time.Now()
		b.client.send(published(t, 1, "m1"), published(t, 1, "m2"))
		b.broker.takes(append(published(t, 1, "m1"), published(t, 1, "m2")...))
		if took := time.Since(began); took < by {
			t.Errorf("they came after %s", took)
		}
	})
	t.Run("a confirm, and those behind it", func(t *testing.T) {
		b := newBroken(t)
		confirming(b.client, b.broker, 1)
		publish(b.client, b.broker, 1, "m1")
		publish(b.client, b.broker, 1, "m2")
		b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.ack", FromBroker: true, Message: "m1"}, Action: Delay, For: by})
		began := time.Now()
		b.broker.say(1, &frame.BasicAck{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 2})
		b.client.hears(&frame.BasicAck{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 2})
		if took := time.Since(began); took < by {
			t.Errorf("they came after %s", took)
		}
	})
	t.Run("the shorter of two comes first", func(t *testing.T) {
		b := newBroken(t)
		b.faults.Arm(Fault{Trigger: delivering("m1"), Action: Delay, For: 2 * by})
		b.faults.Arm(Fault{Trigger: delivering("m2"), Action: Delay, For: by})
		b.broker.send(delivered(t, 1, 1, "m1"), delivered(t, 1, 2, "m2"))
		b.client.takes(append(delivered(t, 1, 2, "m2"), delivered(t, 1, 1, "m1")...))
	})
	t.Run("behind one that is held", func(t *testing.T) {
		b := newBroken(t)
		held := b.faults.Arm(Fault{Trigger: publishing("m1"), Action: Hold})
		delayed := b.faults.Arm(Fault{Trigger: publishing("m2"), Action: Delay, For: time.Nanosecond})
		b.client.send(published(t, 1, "m1"), published(t, 1, "m2"), method(t, 2, &frame.ChannelOpen{}))
		b.broker.hears(&frame.ChannelOpen{})
		b.holding(delayed, 1)
		if got := b.tale(ledger.Fired); got != "" {
			t.Error(got)
		}
		held.Release()
		b.broker.takes(append(published(t, 1, "m1"), published(t, 1, "m2")...))
	})
	t.Run("released", func(t *testing.T) {
		b := newBroken(t)
		a := b.faults.Arm(Fault{Trigger: publishing("m1"), Action: Delay, For: never})
		b.client.send(published(t, 1, "m1"))
		b.holding(a, 1)
		a.Release()
		b.broker.takes(published(t, 1, "m1"))
	})
}
