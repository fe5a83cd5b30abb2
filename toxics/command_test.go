package toxics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// confirmOf is a trigger at the confirm of a message.
func confirmOf(message string) Trigger {
	return Trigger{Method: "basic.ack", FromBroker: true, Message: message}
}

func TestDrop(t *testing.T) {
	ack := func(tag uint64) frame.Method { return &frame.BasicAck{DeliveryTag: tag} }
	nack := func(tag uint64) frame.Method { return &frame.BasicNack{DeliveryTag: tag} }
	to := func(tag uint64) frame.Method { return &frame.BasicAck{DeliveryTag: tag, Multiple: true} }
	refuse := func(tag uint64) frame.Method { return &frame.BasicNack{DeliveryTag: tag, Multiple: true} }
	for _, c := range []struct {
		name      string
		publishes int
		fault     Trigger
		says      []frame.Method // the broker
		hears     []frame.Method // the client
		fired     string         // messages that the ledger says it struck
		confirmed string         // messages whose answer the ledger says was passed on
	}{
		{"one", 3, confirmOf("m2"), []frame.Method{ack(1), ack(2), ack(3)}, []frame.Method{ack(1), ack(3)}, "m2", "m1 m3"},
		{"one of many", 4, confirmOf("m2"), []frame.Method{to(4)}, []frame.Method{ack(1), ack(3), ack(4)}, "m2", "m1 m3 m4"},
		{"the last of many", 3, confirmOf("m3"), []frame.Method{to(3)}, []frame.Method{ack(1), ack(2)}, "m3", "m1 m2"},
		{"some of all", 3, confirmOf("m2"), []frame.Method{&frame.BasicAck{Multiple: true}}, []frame.Method{ack(1), ack(3)}, "m2", "m1 m3"},
		{"a later one for many does not speak for it", 4, confirmOf("m1"), []frame.Method{ack(1), to(4)}, []frame.Method{ack(2), ack(3), ack(4)}, "m1", "m2 m3 m4"},
		{"nor one for it alone", 3, confirmOf("m2"), []frame.Method{ack(1), ack(2), to(2), ack(3)}, []frame.Method{ack(1), ack(3)}, "m2", "m1 m3"},
		{"nor is it repeated", 3, confirmOf("m2"), []frame.Method{ack(1), ack(2), ack(2), ack(3)}, []frame.Method{ack(1), ack(3)}, "m2", "m1 m3"},
		{"nor one for all that are left", 2, confirmOf("m2"), []frame.Method{ack(1), ack(2), to(2)}, []frame.Method{ack(1)}, "m2", "m1"},
		{"all", 3, confirmOf("m*"), []frame.Method{ack(1), to(3)}, nil, "m1 m2 m3", ""},
		{
			"a refusal", 4,
			Trigger{Method: "basic.nack", FromBroker: true, Message: "m2"},
			[]frame.Method{refuse(3), ack(4)},
			[]frame.Method{nack(1), nack(3), ack(4)},
			"m2", "m1 m3 m4",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBroken(t)
			confirming(b.client, b.broker, 1)
			confirming(b.client, b.broker, 2)
			for n := range c.publishes {
				publish(b.client, b.broker, 1, fmt.Sprint("m", n+1))
			}
			publish(b.client, b.broker, 2, "other")
			f := Fault{Trigger: c.fault, Action: Drop, Text: "dropped"}
			if err := f.Check(); err != nil {
				t.Fatal(err)
			}
			b.faults.Arm(f)
			b.broker.say(1, c.says...)
			b.broker.say(2, ack(1)) // another channel's is passed on as it is
			b.client.hears(append(c.hears, ack(1))...)
			var fired, confirmed []string
			for _, e := range b.ledger.Events() {
				switch e.Kind {
				case ledger.Fired:
					fired = append(fired, e.Message)
				case ledger.Confirmed, ledger.Refused:
					if len(e.Covers) == 0 {
						t.Errorf("%s %d answers nothing", e.Kind, e.Tag)
					}
					for _, seq := range e.Covers {
						if m := b.ledger.Events()[seq-1].Message; m != "other" {
							confirmed = append(confirmed, m)
						}
					}
				}
			}
			if got := strings.Join(fired, " "); got != c.fired {
				t.Errorf("it struck %q, want %q", got, c.fired)
			}
			if got := strings.Join(confirmed, " "); got != c.confirmed {
				t.Errorf("answered are %q, want %q", got, c.confirmed)
			}
		})
	}
}

// With a delay, those that are left of a confirm for many keep their places.
func TestDropWithADelay(t *testing.T) {
	b := newBroken(t, withDelay(1))
	confirming(b.client, b.broker, 1)
	for _, m := range []string{"m1", "m2", "m3"} {
		publish(b.client, b.broker, 1, m)
	}
	b.faults.Arm(Fault{Trigger: confirmOf("m2"), Action: Drop})
	b.broker.say(1, &frame.BasicAck{DeliveryTag: 2, Multiple: true}, &frame.BasicAck{DeliveryTag: 3, Multiple: true})
	b.client.hears(&frame.BasicAck{DeliveryTag: 1}, &frame.BasicAck{DeliveryTag: 3})
}

// Only a confirm can be taken out so that what follows can still be understood.
func TestCheckAFault(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		ok    bool
	}{
		{Fault{Action: Drop, Trigger: Trigger{Method: "basic.ack", FromBroker: true}}, true},
		{Fault{Action: Drop, Trigger: Trigger{Method: "basic.nack", FromBroker: true}}, true},
		{Fault{Action: Drop, Trigger: Trigger{Method: "basic.ack"}}, false},
		{Fault{Action: Drop, Trigger: Trigger{Method: "basic.deliver", FromBroker: true}}, false},
		{Fault{Action: Drop, Trigger: Trigger{Method: "basic.publish"}}, false},
		{Fault{Action: Drop, Trigger: Trigger{FromBroker: true}}, false},
		{Fault{Action: Drop}, false},
		{Fault{Action: Hold, Trigger: Trigger{Method: "basic.publish"}}, true},
		{Fault{Action: CutAfter, Trigger: Trigger{Method: "basic.publish"}}, true},
	} {
		err := c.fault.Check()
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.fault, err)
		}
		if err != nil && !strings.Contains(err.Error(), "only confirms can be dropped") {
			t.Error(err)
		}
	}
}

// A drop of what is no confirm never fires.
func TestDropOfAnythingElse(t *testing.T) {
	b := newBroken(t)
	acks := b.faults.Arm(Fault{Trigger: Trigger{Method: "basic.ack"}, Action: Drop})
	publishes := b.faults.Arm(Fault{Trigger: publishing("m1"), Action: Drop})
	ack := method(t, 1, &frame.BasicAck{DeliveryTag: 1})
	b.client.send(ack, published(t, 1, "m1"))
	b.broker.takes(append(ack, published(t, 1, "m1")...))
	b.fires(acks, 0)
	b.fires(publishes, 0)
}

// A frame that cannot be understood is passed on, with what was kept of the content that it breaks.
func TestABrokenContent(t *testing.T) {
	b := newBroken(t)
	b.faults.Arm(Fault{Trigger: publishing("m1"), Action: Hold})
	raw := append(method(t, 1, &frame.BasicPublish{RoutingKey: "q"}), method(t, 1, &frame.ChannelOpen{})...)
	b.client.send(raw)
	b.broker.takes(raw)
	if e := b.awaitKind(ledger.Undecodable); e.Broker {
		t.Errorf("%+v", e)
	}
}

// A frame of a method that nobody knows is passed on.
func TestAnUnknownMethod(t *testing.T) {
	b := newBroken(t)
	b.faults.Arm(Fault{Trigger: Trigger{}, Action: Hold})
	raw := frame.AppendFrame(nil, frame.TypeMethod, 1, []byte{0, 60, 0, 199})
	b.client.send(raw)
	b.broker.takes(raw)
}

// What is no AMQP ends the link, and what came before it in the same piece has passed.
func TestGarbageWithFaults(t *testing.T) {
	b := newBroken(t)
	b.faults.Arm(Fault{Trigger: publishing("m9"), Action: Hold})
	b.client.send(published(t, 1, "m1"), []byte("\x09 this is no frame at all"))
	b.awaitKind(ledger.Undecodable)
	b.client.ends()
	b.broker.ends()
}
