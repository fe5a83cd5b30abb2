package ledger

import (
	"testing"

	"github.com/parkproof/parkproof/toxics/frame"
)

func TestGap(t *testing.T) {
	c := newTalk(t)
	want := func(when string, gap bool) {
		t.Helper()
		if got := c.Gap(1); got != gap {
			t.Errorf("%s: a gap is %t, want %t", when, got, gap)
		}
	}
	want("before anything", false)
	c.feed(false, c.encode(1, &frame.ChannelOpen{}))
	c.feed(true, c.encode(1, &frame.ChannelOpenOk{}))
	want("open", true)
	raw := c.encode(1, message{&frame.BasicPublish{RoutingKey: "q"}, "m1"})
	half := len(raw) - 1
	c.feed(false, raw[:half])
	want("in the middle of a content", false)
	c.feed(false, raw[half:])
	want("after the content", true)
	// What the broker is in the middle of is its own affair.
	delivery := c.encode(1, message{&frame.BasicDeliver{ConsumerTag: "tag"}, "m1"})
	c.feed(true, delivery[:len(delivery)-1])
	want("while the broker sends a content", true)
	c.feed(true, delivery[len(delivery)-1:])
	c.feed(false, c.encode(1, &frame.ChannelClose{}))
	want("while the channel is closed", false)
	c.feed(true, c.encode(1, &frame.ChannelCloseOk{}))
	want("closed", false)
}

func TestWhatMayBeDroppedIsNotAwaited(t *testing.T) {
	for message, rest := range map[string]bool{"m1": true, "m2": false} {
		l := New()
		b := NewBook(&Terms{
			Consumers: map[string]string{"worker": "jobs"}, ParkedQueue: func(string) string { return "" },
			DroppedOnPurpose: map[string]bool{"m1": true},
		})
		l.Add(Event{Kind: QueueDeclared, Process: "p", Queue: "jobs", Method: &frame.QueueDeclare{Queue: "jobs", Durable: true}})
		l.Add(Event{Kind: Consuming, Process: "p", Queue: "jobs", Consumer: "tag"})
		l.Add(Event{Kind: Published, Message: message, Key: "jobs", Confirms: true, Content: &Content{}})
		b.Update(l.Events())
		if got := b.AtRest(); got != rest {
			t.Errorf("with %s on its way, at rest is %t, want %t", message, got, rest)
		}
	}
}
