package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parkproof/parkproof/toxics/frame"
)

// sight looks at a command before it takes effect.
func (t *talk) sight(fromBroker bool, channel uint16, m frame.Method) Sighting {
	t.Helper()
	return t.Sight(t.assembled(fromBroker, channel, m))
}

// assembled puts a command together without its effect.
func (t *talk) assembled(fromBroker bool, channel uint16, m frame.Method) Command {
	t.Helper()
	side := frame.NewReader(0)
	side.Feed(t.encode(channel, m))
	for {
		f, ok, err := side.Next()
		if err != nil || !ok {
			t.Fatalf("%s is not whole: %v", m.Name(), err)
		}
		c, err := t.Assemble(fromBroker, f)
		if err != nil {
			t.Fatal(err)
		}
		if c.Whole {
			return c
		}
	}
}

func (s Sighting) tell() string {
	words := []string{s.Method}
	if s.HasContent {
		words = append(words, "content")
	}
	if s.Confirms {
		words = append(words, "confirms")
	}
	for _, t := range s.Targets {
		words = append(words, fmt.Sprintf("[%s]", strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", t.Message, t.Exchange, t.Key, t.Queue))))
	}
	return strings.Join(words, " ")
}

func TestSight(t *testing.T) {
	const client, broker = false, true
	c := newTalk(t)
	c.confirming()
	c.client(
		&frame.QueueDeclare{Queue: "q"}, &frame.BasicConsume{Queue: "q", ConsumerTag: "t"}, publish("m1", "x", "k1"), publish("m2", "", "q2"),
		publish("m3", "x", "k3"), &frame.BasicGet{Queue: "g"},
	)
	c.broker(&frame.QueueDeclareOk{Queue: "q"}, &frame.BasicConsumeOk{ConsumerTag: "t"}, deliver("d1", "t", 1), deliver("d2", "t", 2), deliver("d3", "t", 3))
	before := c.since(0)
	for _, tt := range []struct {
		fromBroker bool
		m          frame.Method
		want       string
	}{
		{client, publish("m4", "x", "k4"), "basic.publish content confirms [m4 x/k4]"},
		{broker, deliver("d4", "t", 4), "basic.deliver content confirms [d4 x/k q]"},
		{broker, message{&frame.BasicGetOk{Exchange: "x", RoutingKey: "k"}, "d5"}, "basic.get-ok content confirms [d5 x/k g]"},
		{broker, returned("m1", "x", "k1"), "basic.return content confirms [m1 x/k1]"},
		// Of the broker, what it answers; of the client, what it settles.
		{broker, &frame.BasicAck{DeliveryTag: 2}, "basic.ack confirms [m2 /q2]"},
		{broker, &frame.BasicAck{DeliveryTag: 2, Multiple: true}, "basic.ack confirms [m1 x/k1] [m2 /q2]"},
		{broker, &frame.BasicNack{Multiple: true}, "basic.nack confirms [m1 x/k1] [m2 /q2] [m3 x/k3]"},
		{broker, &frame.BasicAck{DeliveryTag: 9}, "basic.ack confirms"},
		{client, &frame.BasicAck{DeliveryTag: 2}, "basic.ack confirms [d2 / q]"},
		{client, &frame.BasicNack{Multiple: true, DeliveryTag: 2}, "basic.nack confirms [d1 / q] [d2 / q]"},
		{client, &frame.BasicReject{DeliveryTag: 3}, "basic.reject confirms [d3 / q]"},
		{client, &frame.BasicConsume{}, "basic.consume confirms [/ q]"}, // the queue declared last
		{client, &frame.BasicCancel{ConsumerTag: "t"}, "basic.cancel confirms [/ q]"},
		{broker, &frame.BasicCancel{ConsumerTag: "t"}, "basic.cancel confirms [/ q]"},
		{client, &frame.BasicGet{Queue: "g"}, "basic.get confirms [/ g]"},
		{client, &frame.QueueDeclare{Queue: "n"}, "queue.declare confirms [/ n]"},
		{broker, &frame.QueueDeclareOk{Queue: "n"}, "queue.declare-ok confirms [/ n]"},
		{client, &frame.QueueBind{Exchange: "x", RoutingKey: "k"}, "queue.bind confirms [x/k q]"},
		{client, &frame.QueueUnbind{Queue: "n", Exchange: "x", RoutingKey: "k"}, "queue.unbind confirms [x/k n]"},
		{client, &frame.QueueDelete{Queue: "n"}, "queue.delete confirms [/ n]"},
		{client, &frame.QueuePurge{Queue: "n"}, "queue.purge confirms [/ n]"},
		{client, &frame.ExchangeDeclare{Exchange: "x", Type: "fanout"}, "exchange.declare confirms [x/]"},
		{client, &frame.ExchangeDelete{Exchange: "x"}, "exchange.delete confirms [x/]"},
		{client, &frame.ExchangeBind{Destination: "y", Source: "x"}, "exchange.bind confirms [y/]"},
		{client, &frame.ChannelClose{}, "channel.close confirms"},
	} {
		if got := c.sight(tt.fromBroker, 1, tt.m).tell(); got != tt.want {
			t.Errorf("%s is seen as\n%s\nwant\n%s", tt.m.Name(), got, tt.want)
		}
	}
	if got := c.sight(client, 7, publish("m1", "x", "k")).tell(); got != "basic.publish content [m1 x/k]" {
		t.Errorf("on a channel that nobody has opened, a publish is seen as %s", got)
	}
	if got := c.since(0); got != before {
		t.Errorf("looking has written to the ledger:\n%s\nwas\n%s", got, before)
	}
	// Nor has it taken anything: the same confirm still answers all.
	from := c.now()
	c.broker(&frame.BasicAck{Multiple: true})
	if events := c.ledger.Events(); len(events) != from+1 || len(events[from].Covers) != 3 {
		t.Errorf("after looking, the confirm answers %v", events[from:])
	}
}

func TestSightOfPartsOfACommand(t *testing.T) {
	c := newTalk(t)
	c.open()
	r := frame.NewReader(0)
	r.Feed(append(c.encode(1, publish("m1", "x", "k")), frame.AppendHeartbeat(nil)...))
	var got []string
	for {
		f, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		part, err := c.Assemble(false, f)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%t/%t/%t %s", part.Begins, part.Inside, part.Whole, c.Sight(part).tell()))
	}
	want := []string{ // the message is known once its content is whole
		"true/false/false basic.publish content [x/k]", "false/true/false basic.publish content [x/k]",
		"false/true/true basic.publish content [m1 x/k]", "false/false/false ",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the frames are seen as\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A connection's role grows with what its client asks for, and a command shows its own in the sighting
// before it has taken effect.
func TestRoles(t *testing.T) {
	c := newTalk(t)
	steps := []struct {
		fromBroker bool
		m          frame.Method
		seen, then Role
	}{
		{false, &frame.ChannelOpen{}, 0, 0},
		{true, &frame.ChannelOpenOk{}, 0, 0},
		{false, &frame.ConfirmSelect{}, RolePublishing, RolePublishing},
		{true, deliver("m1", "t", 1), RolePublishing, RolePublishing}, // the broker's are not the client's
		{false, &frame.BasicConsume{Queue: "q", ConsumerTag: "t"}, RolePublishing | RoleConsuming, RolePublishing | RoleConsuming},
	}
	for _, s := range steps {
		before := c.Role()
		command := c.assembled(s.fromBroker, 1, s.m)
		if got := c.Sight(command).Role; got != s.seen {
			t.Errorf("%s shows the role %d, want %d", s.m.Name(), got, s.seen)
		}
		if got := c.Role(); got != before {
			t.Errorf("looking at %s has made the role %d from %d", s.m.Name(), got, before)
		}
		c.Apply(command)
		if got := c.Role(); got != s.then {
			t.Errorf("after %s the role is %d, want %d", s.m.Name(), got, s.then)
		}
	}
	for _, m := range []frame.Method{&frame.BasicGet{Queue: "q"}, publish("m1", "x", "k")} {
		c := newTalk(t)
		c.client(m)
		want := RolePublishing
		if m.Name() == "basic.get" {
			want = RoleConsuming
		}
		if got := c.Role(); got != want {
			t.Errorf("after %s the role is %d, want %d", m.Name(), got, want)
		}
	}
}

// A command that was looked at and let through is told as one that passed straight.
func TestApplyIsTake(t *testing.T) {
	straight, looked := newTalk(t), newTalk(t)
	for _, s := range []struct {
		fromBroker bool
		m          frame.Method
	}{
		{false, &frame.ChannelOpen{}},
		{true, &frame.ChannelOpenOk{}},
		{false, &frame.ConfirmSelect{}},
		{true, &frame.ConfirmSelectOk{}},
		{false, publish("m1", "x", "k")},
		{false, publish("m2", "x", "k")},
		{true, &frame.BasicAck{DeliveryTag: 2, Multiple: true}},
		{true, deliver("m3", "t", 1)},
		{false, &frame.BasicAck{DeliveryTag: 1}},
	} {
		straight.say(s.fromBroker, 1, s.m)
		command := looked.assembled(s.fromBroker, 1, s.m)
		looked.Sight(command)
		looked.Apply(command)
	}
	if a, b := straight.since(0), looked.since(0); a != b || a == "" {
		t.Errorf("looked at, the ledger says\n%s\nand straight\n%s", b, a)
	}
}

// What is withheld has no effect: the publish is not counted, so that the next one bears its number.
func TestWithheldHasNoEffect(t *testing.T) {
	c := newTalk(t)
	c.confirming()
	from := c.now()
	c.assembled(false, 1, publish("m1", "x", "k"))
	c.expect(from, "")
	c.client(publish("m2", "x", "k"))
	c.broker(&frame.BasicAck{DeliveryTag: 1})
	c.expect(from, fmt.Sprintf("published m2 x/k tag=1 confirms\nconfirmed broker tag=1 covers=[%d]", from+1))
}

// Once the connection is cut, nothing that still comes has an effect, and what was held is not passed on.
func TestCutConfirm(t *testing.T) {
	c := newTalk(t)
	c.Deferred = true
	c.confirming()
	c.client(publish("m1", "x", "k"))
	from := c.now()
	held := c.broker(&frame.BasicAck{DeliveryTag: 1})
	if !held.Hold {
		t.Fatal("the confirm is not held")
	}
	command := c.assembled(true, 1, &frame.BasicAck{DeliveryTag: 1})
	c.Ended(false, CutByParkproof)
	c.Passed(held)
	if !c.Apply(command).Void || !c.ApplyHeld(command).Void || !c.client(publish("m2", "x", "k")).Void {
		t.Error("what comes after the cut is not void")
	}
	c.Ended(true, "again")
	c.expect(from, fmt.Sprintf("confirm-arrived broker tag=1 covers=[%d]\nconnection-lost ch0 (parkproof cut the connection)", from))
}

// A confirm that a fault keeps back is told as arrived, of whatever message, and those behind it on its
// channel wait for it.
func TestApplyHeld(t *testing.T) {
	c := newTalk(t)
	c.confirming()
	c.client(publish("", "x", "k"), publish("m2", "x", "k"), publish("m3", "x", "k"))
	from := c.now()
	held := c.ApplyHeld(c.assembled(true, 1, &frame.BasicAck{DeliveryTag: 1}))
	refused := c.ApplyHeld(c.assembled(true, 1, &frame.BasicNack{DeliveryTag: 2}))
	behind := c.broker(&frame.BasicAck{DeliveryTag: 3})
	if !held.Hold || !refused.Hold || !behind.Hold || len(held.Confirms) != 1 || len(behind.Confirms) != 0 {
		t.Errorf("held are %+v, %+v and %+v", held, refused, behind)
	}
	c.expect(from, fmt.Sprintf("confirm-arrived broker tag=1 covers=[%d]", from-2))
	for _, e := range []Effect{held, refused, behind} {
		c.Passed(e)
	}
	c.expect(from+1, fmt.Sprintf(`confirmed broker tag=1 covers=[%d]
		refused broker tag=2 covers=[%d]
		confirmed broker tag=3 covers=[%d]`, from-2, from-1, from))
	c.client(publish("m4", "x", "k"))
	if c.broker(&frame.BasicAck{DeliveryTag: 4}).Hold {
		t.Error("once all have been passed on, a confirm is held still")
	}
}

// A confirm that is dropped for one message still answers the others, and a later one with multiple set does
// not answer the dropped one.
func TestDrop(t *testing.T) {
	of := func(message string) func(Target) bool { return func(t Target) bool { return t.Message == message } }
	for name, tt := range map[string]struct {
		m      frame.Method
		others string
		later  []int // publishes that a confirm of everything answers afterwards
	}{
		"of one":            {&frame.BasicAck{DeliveryTag: 2}, "[]", []int{1, 3, 4}},
		"of many":           {&frame.BasicAck{DeliveryTag: 3, Multiple: true}, "[1 3]", []int{1, 3, 4}},
		"a nack of all":     {&frame.BasicNack{Multiple: true}, "[1 3 4]", []int{1, 3, 4}},
		"of another":        {&frame.BasicAck{DeliveryTag: 1}, "[1]", []int{1, 2, 3, 4}},
		"of what is not so": {&frame.BasicAck{DeliveryTag: 9}, "[]", []int{1, 2, 3, 4}},
		"of no confirm":     {&frame.ChannelFlow{}, "[]", []int{1, 2, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTalk(t)
			c.confirming()
			from := c.now()
			c.client(publish("m1", "x", "k"), publish("m2", "x", "k"), publish("m3", "x", "k"), publish("m4", "x", "k"))
			command := c.assembled(true, 1, tt.m)
			answers := c.Answers(command)
			others := c.Drop(command, of("m2"))
			if got := fmt.Sprint(others); got != tt.others {
				t.Errorf("dropped for m2, it answers %s besides, want %s", got, tt.others)
			}
			for _, tag := range others {
				if !slices.Contains(answers, tag) {
					t.Errorf("it answers %v, and %d besides", answers, tag)
				}
			}
			c.broker(&frame.BasicAck{Multiple: true})
			var want []int
			for _, n := range tt.later {
				want = append(want, from+n)
			}
			c.expect(from+4, "confirmed broker multiple covers="+fmt.Sprint(want))
		})
	}
}
