package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parkproof/parkproof/toxics/frame"
)

// talk is a connection between a client and a broker, with a follower in between: what they say is
// encoded, cut into frames again, and followed.
type talk struct {
	*testing.T
	*Follower
	ledger  *Ledger
	readers [2]*frame.Reader // the client's direction, the broker's
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	l := New()
	return &talk{
		T: t, ledger: l, readers: [2]*frame.Reader{frame.NewReader(0), frame.NewReader(0)},
		Follower: &Follower{
			Process: "p", Conn: 1, Add: l.Add,
			Identify: func(c *Content) string { return c.Properties.MessageID },
		},
	}
}

// message is a content with the id as its body.
type message struct {
	frame.Method
	id string
}

func (t *talk) encode(channel uint16, m frame.Method) []byte {
	t.Helper()
	var raw []byte
	var err error
	if c, ok := m.(message); ok {
		raw, err = frame.AppendContent(nil, channel, c.Method, frame.Header{Properties: frame.Properties{MessageID: c.id}}, []byte(c.id), 4096)
	} else {
		raw, err = frame.AppendMethodFrame(nil, channel, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func (t *talk) feed(fromBroker bool, raw []byte) Effect {
	t.Helper()
	side := t.readers[0]
	if fromBroker {
		side = t.readers[1]
	}
	side.Feed(raw)
	var last Effect
	for {
		f, ok, err := side.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return last
		}
		if last, err = t.Take(fromBroker, f); err != nil {
			t.Logf("not understood: %v", err)
		}
	}
}

// client and broker say something on channel 1; they return the effect of its last frame.
func (t *talk) client(ms ...frame.Method) Effect { t.Helper(); return t.say(false, 1, ms...) }
func (t *talk) broker(ms ...frame.Method) Effect { t.Helper(); return t.say(true, 1, ms...) }

func (t *talk) say(fromBroker bool, channel uint16, ms ...frame.Method) Effect {
	t.Helper()
	var last Effect
	for _, m := range ms {
		last = t.feed(fromBroker, t.encode(channel, m))
	}
	return last
}

// since tells the events from a Seq on, one a line, without Asked unless asked for.
func (t *talk) since(seq int, kinds ...Kind) string {
	var lines []string
	for _, e := range t.ledger.Events() {
		if e.Seq <= seq || len(kinds) == 0 && e.Kind == Asked || len(kinds) > 0 && !slices.Contains(kinds, e.Kind) {
			continue
		}
		lines = append(lines, tell(e))
	}
	return strings.Join(lines, "\n")
}

func tell(e Event) string {
	words := []string{string(e.Kind)}
	add := func(when bool, format string, values ...any) {
		if when {
			words = append(words, fmt.Sprintf(format, values...))
		}
	}
	add(e.Channel != 1, "ch%d", e.Channel)
	add(e.Broker, "broker")
	add(e.Message != "", "%s", e.Message)
	add(e.Exchange != "" || e.Key != "", "%s/%s", e.Exchange, e.Key)
	add(e.Queue != "", "queue=%s", e.Queue)
	add(e.Consumer != "", "consumer=%s", e.Consumer)
	add(e.Tag != 0, "tag=%d", e.Tag)
	add(e.Multiple, "multiple")
	add(e.Requeue, "requeue")
	add(e.Redelivered, "redelivered")
	add(e.NoAck, "no-ack")
	add(e.Mandatory, "mandatory")
	add(e.Confirms, "confirms")
	add(len(e.Covers) > 0, "covers=%v", e.Covers)
	add(e.Code != 0, "%d", e.Code)
	add(e.Text != "" && e.Kind != Asked, "(%s)", e.Text)
	return strings.Join(words, " ")
}

func (t *talk) expect(seq int, want string, kinds ...Kind) {
	t.Helper()
	want = strings.TrimSpace(strings.ReplaceAll(want, "\t", ""))
	if got := t.since(seq, kinds...); got != want {
		t.Errorf("the ledger says\n%s\nwant\n%s", got, want)
	}
}

// now is the last Seq.
func (t *talk) now() int { return len(t.ledger.Events()) }

// open opens channel 1.
func (t *talk) open() {
	t.Helper()
	t.client(&frame.ChannelOpen{})
	t.broker(&frame.ChannelOpenOk{})
}

// confirming opens channel 1 in confirm mode.
func (t *talk) confirming() {
	t.Helper()
	t.open()
	t.client(&frame.ConfirmSelect{})
	t.broker(&frame.ConfirmSelectOk{})
}

func publish(id, exchange, key string) message {
	return message{&frame.BasicPublish{Exchange: exchange, RoutingKey: key}, id}
}

func mandatory(id, exchange, key string) message {
	return message{&frame.BasicPublish{Exchange: exchange, RoutingKey: key, Mandatory: true}, id}
}

func returned(id, exchange, key string) message {
	return message{&frame.BasicReturn{ReplyCode: 312, ReplyText: "NO_ROUTE", Exchange: exchange, RoutingKey: key}, id}
}

func deliver(id, tag string, n uint64) message {
	return message{&frame.BasicDeliver{ConsumerTag: tag, DeliveryTag: n, Exchange: "x", RoutingKey: "k"}, id}
}

func TestFollowerConfirms(t *testing.T) {
	c := newTalk(t)
	c.confirming()
	from := c.now()
	c.client(publish("m1", "x", "k"), publish("m2", "x", "k"), publish("m3", "x", "k"), publish("m4", "x", "k"), publish("m5", "x", "k"))
	c.broker(&frame.BasicAck{DeliveryTag: 2}, &frame.BasicAck{DeliveryTag: 3, Multiple: true}, &frame.BasicNack{DeliveryTag: 4},
		&frame.BasicAck{DeliveryTag: 4}, &frame.BasicAck{DeliveryTag: 0, Multiple: true}, &frame.BasicAck{DeliveryTag: 9})
	c.expect(from, fmt.Sprintf(`published m1 x/k tag=1 confirms
		published m2 x/k tag=2 confirms
		published m3 x/k tag=3 confirms
		published m4 x/k tag=4 confirms
		published m5 x/k tag=5 confirms
		confirmed broker tag=2 covers=[%d]
		confirmed broker tag=3 multiple covers=[%d %d]
		refused broker tag=4 covers=[%d]
		confirmed broker tag=4
		confirmed broker multiple covers=[%d]
		confirmed broker tag=9`, from+2, from+1, from+3, from+4, from+5))
}

func TestFollowerConfirmMode(t *testing.T) {
	c := newTalk(t)
	c.open()
	from := c.now()
	// Publishes before the select are not counted; after a select that is not answered yet they are;
	// a second select changes nothing.
	c.client(publish("m1", "", "q"), &frame.ConfirmSelect{}, publish("m2", "", "q"))
	c.broker(&frame.ConfirmSelectOk{})
	c.client(&frame.ConfirmSelect{NoWait: true}, publish("m3", "", "q"))
	c.broker(&frame.BasicAck{DeliveryTag: 2, Multiple: true})
	c.expect(from, fmt.Sprintf(`published m1 /q tag=1
		published m2 /q tag=1 confirms
		confirm-mode broker
		confirm-mode
		published m3 /q tag=2 confirms
		confirmed broker tag=2 multiple covers=[%d %d]`, from+3, from+7))
}

func TestFollowerDefersConfirms(t *testing.T) {
	c := newTalk(t)
	c.Deferred = true
	c.confirming()
	from := c.now()
	c.client(publish("m1", "x", "k"), publish("", "x", "k"), publish("m3", "x", "k"), publish("", "x", "k"), publish("", "x", "k"))
	first := c.broker(&frame.BasicAck{DeliveryTag: 1})
	if !first.Hold || !slices.Equal(first.Confirms, []int{from + 1}) {
		t.Errorf("the confirm of a known message: %+v", first)
	}
	second := c.broker(&frame.BasicAck{DeliveryTag: 2})
	if !second.Hold || second.Confirms != nil {
		t.Errorf("a confirm of an unknown message behind it: %+v", second)
	}
	third := c.broker(&frame.BasicNack{DeliveryTag: 3})
	if !third.Hold || third.Confirms != nil {
		t.Errorf("a refusal behind it: %+v", third)
	}
	c.expect(from+5, fmt.Sprintf(`confirm-arrived broker tag=1 covers=[%d]`, from+1))
	for _, e := range []Effect{first, second, third} {
		c.Passed(e)
	}
	c.expect(from+6, fmt.Sprintf(`confirmed broker tag=1 covers=[%d]
		confirmed broker tag=2 covers=[%d]
		refused broker tag=3 covers=[%d]`, from+1, from+2, from+3))
	// With nothing held, what is not of a known message goes through.
	if e := c.broker(&frame.BasicAck{DeliveryTag: 5, Multiple: true}); e.Hold {
		t.Errorf("a confirm of unknown messages alone: %+v", e)
	}
	c.client(publish("m6", "x", "k"))
	if e := c.broker(&frame.BasicNack{DeliveryTag: 6}); e.Hold {
		t.Errorf("a refusal alone: %+v", e)
	}
}

func TestFollowerHoldsByChannel(t *testing.T) {
	c := newTalk(t)
	c.Deferred = true
	for _, channel := range []uint16{1, 2} {
		c.say(false, channel, &frame.ChannelOpen{}, &frame.ConfirmSelect{})
		c.say(true, channel, &frame.ChannelOpenOk{}, &frame.ConfirmSelectOk{})
	}
	c.say(false, 1, publish("m1", "x", "k"))
	c.say(false, 2, publish("", "x", "k"))
	if e := c.say(true, 1, &frame.BasicAck{DeliveryTag: 1}); !e.Hold {
		t.Errorf("%+v", e)
	}
	if e := c.say(true, 2, &frame.BasicAck{DeliveryTag: 1}); e.Hold {
		t.Errorf("a confirm of another channel waits behind it: %+v", e)
	}
}

func TestFollowerReturns(t *testing.T) {
	c := newTalk(t)
	c.confirming()
	from := c.now()
	c.client(publish("m1", "x", "k"), mandatory("m1", "x", "k"), mandatory("m2", "x", "k"), mandatory("m1", "x", "l"), mandatory("m1", "x", "k"))
	c.broker(returned("m1", "x", "k"), returned("m1", "x", "l"), returned("m1", "x", "k"), returned("m1", "x", "k"), returned("m9", "x", "k"))
	c.broker(&frame.BasicAck{DeliveryTag: 5, Multiple: true})
	c.expect(from+5, fmt.Sprintf(`returned broker m1 x/k covers=[%d] 312 (NO_ROUTE)
		returned broker m1 x/l covers=[%d] 312 (NO_ROUTE)
		returned broker m1 x/k covers=[%d] 312 (NO_ROUTE)
		returned broker m1 x/k 312 (NO_ROUTE)
		returned broker m9 x/k 312 (NO_ROUTE)
		confirmed broker tag=5 multiple covers=[%d %d %d %d %d]`,
		from+2, from+4, from+5, from+1, from+2, from+3, from+4, from+5))
}

func TestFollowerReturnsWithoutConfirms(t *testing.T) {
	c := newTalk(t)
	c.open()
	from := c.now()
	c.client(mandatory("m1", "x", "k"), mandatory("m2", "x", "k"), mandatory("m1", "x", "k"))
	c.broker(returned("m2", "x", "k"), returned("m1", "x", "k"))
	c.expect(from+3, fmt.Sprintf(`returned broker m2 x/k covers=[%d] 312 (NO_ROUTE)
		returned broker m1 x/k covers=[%d] 312 (NO_ROUTE)`, from+2, from+3))
	for range 2 * keptMandatory {
		c.client(mandatory("m1", "x", "k"))
	}
	if n := len(c.channels[1].unconfirmed); n > keptMandatory {
		t.Errorf("%d publishes are kept in mind", n)
	}
}

func TestFollowerSettling(t *testing.T) {
	c := newTalk(t)
	c.open()
	c.client(&frame.BasicConsume{Queue: "q", ConsumerTag: "t"})
	c.broker(&frame.BasicConsumeOk{ConsumerTag: "t"})
	from := c.now()
	for n := uint64(1); n <= 9; n++ {
		c.broker(deliver(fmt.Sprint("m", n), "t", n))
	}
	c.broker(message{&frame.BasicDeliver{ConsumerTag: "t", DeliveryTag: 10, Redelivered: true}, "m1"})
	c.expect(from+9, `delivered broker m1 queue=q consumer=t tag=10 redelivered`)
	c.client(&frame.BasicAck{DeliveryTag: 3}, &frame.BasicAck{DeliveryTag: 2, Multiple: true}, &frame.BasicReject{DeliveryTag: 4},
		&frame.BasicReject{DeliveryTag: 5, Requeue: true}, &frame.BasicNack{DeliveryTag: 7, Multiple: true, Requeue: true},
		&frame.BasicNack{DeliveryTag: 8}, &frame.BasicAck{DeliveryTag: 0}, &frame.BasicAck{DeliveryTag: 3}, &frame.BasicAck{DeliveryTag: 99},
		&frame.BasicAck{DeliveryTag: 0, Multiple: true})
	c.expect(from+10, fmt.Sprintf(`acked tag=3 covers=[%d]
		acked tag=2 multiple covers=[%d %d]
		nacked tag=4 covers=[%d]
		nacked tag=5 requeue covers=[%d]
		nacked tag=7 multiple requeue covers=[%d %d]
		nacked tag=8 covers=[%d]
		acked
		acked tag=3
		acked tag=99
		acked multiple covers=[%d %d]`, from+3, from+1, from+2, from+4, from+5, from+6, from+7, from+8, from+9, from+10))
}

func TestFollowerRecovers(t *testing.T) {
	c := newTalk(t)
	c.open()
	c.client(&frame.BasicConsume{Queue: "q", ConsumerTag: "t"})
	from := c.now()
	c.broker(deliver("m1", "t", 1), deliver("m2", "t", 2))
	c.client(&frame.BasicRecover{Requeue: true}, &frame.BasicRecoverAsync{Requeue: true})
	c.expect(from+2, fmt.Sprintf(`nacked multiple requeue covers=[%d %d] (basic.recover)
		nacked multiple requeue (basic.recover-async)`, from+1, from+2))
}

func TestFollowerWithoutAcks(t *testing.T) {
	c := newTalk(t)
	c.open()
	c.client(&frame.BasicConsume{Queue: "q", ConsumerTag: "t", NoAck: true}, &frame.BasicGet{Queue: "r", NoAck: true}, &frame.BasicGet{Queue: "s"})
	from := c.now()
	get := func(id string, tag uint64) message {
		return message{&frame.BasicGetOk{DeliveryTag: tag, Exchange: "x", RoutingKey: "k"}, id}
	}
	c.broker(deliver("m1", "t", 1), get("m2", 2), get("m3", 3))
	c.client(&frame.BasicAck{Multiple: true})
	c.expect(from, fmt.Sprintf(`delivered broker m1 x/k queue=q consumer=t tag=1 no-ack
		delivered broker m2 x/k queue=r tag=2 no-ack
		delivered broker m3 x/k queue=s tag=3
		acked multiple covers=[%d]`, from+3))
	c.client(&frame.BasicGet{Queue: "q1"}, &frame.BasicGet{Queue: "q2"})
	c.broker(&frame.BasicGetEmpty{}, get("m4", 4))
	c.expect(from+4, `delivered broker m4 x/k queue=q2 tag=4`)
}

func TestFollowerOfParkproofDrains(t *testing.T) {
	c := newTalk(t)
	c.Process = ""
	c.open()
	c.client(&frame.BasicGet{Queue: "q"})
	from := c.now()
	c.broker(message{&frame.BasicGetOk{DeliveryTag: 1}, "m1"})
	c.expect(from, `drained broker m1 queue=q tag=1`)
}

func TestFollowerNames(t *testing.T) {
	c := newTalk(t)
	c.open()
	from := c.now()
	// Server-named queue and consumer tag; then requests that leave the name out, before the second
	// declare is answered.
	c.client(&frame.QueueDeclare{Exclusive: true})
	c.broker(&frame.QueueDeclareOk{Queue: "amq.gen-1"})
	c.client(&frame.QueueBind{Exchange: "x", RoutingKey: "k"}, &frame.QueueBind{Exchange: "x"}, &frame.BasicConsume{}, &frame.QueuePurge{}, &frame.QueueUnbind{Exchange: "x"},
		&frame.QueueDeclare{}, &frame.QueueBind{Exchange: "y"}, &frame.QueueDelete{})
	c.broker(&frame.QueueBindOk{}, &frame.QueueBindOk{}, &frame.BasicConsumeOk{ConsumerTag: "amq.ctag-1"}, deliver("m1", "amq.ctag-1", 1), &frame.QueuePurgeOk{}, &frame.QueueUnbindOk{},
		&frame.QueueDeclareOk{Queue: "amq.gen-2"}, &frame.QueueBindOk{}, &frame.QueueDeleteOk{})
	c.expect(from, `queue-declared broker queue=amq.gen-1
		queue-bound broker x/k queue=amq.gen-1
		queue-bound broker x/amq.gen-1 queue=amq.gen-1
		consuming broker queue=amq.gen-1 consumer=amq.ctag-1
		delivered broker m1 x/k queue=amq.gen-1 consumer=amq.ctag-1 tag=1
		queue-purged broker queue=amq.gen-1
		queue-unbound broker x/amq.gen-1 queue=amq.gen-1
		queue-declared broker queue=amq.gen-2
		queue-bound broker y/amq.gen-2 queue=amq.gen-2
		queue-deleted broker queue=amq.gen-2`)
	// The topology goes by the same names.
	topology := TopologyOf(c.ledger.Events()[:c.now()-3])
	if got := topology.Route("x", "k", nil); len(got) > 0 {
		t.Errorf("x routes to %q although it does not exist", got)
	}
	if len(topology.Bindings) != 1 || topology.Bindings[0].To != "amq.gen-1" || topology.Bindings[0].Key != "k" {
		t.Errorf("bindings %+v", topology.Bindings)
	}
}

func TestFollowerTopology(t *testing.T) {
	requests := []struct {
		request, answer frame.Method
		want            string
	}{
		{&frame.ExchangeDeclare{Exchange: "x", Type: "direct"}, &frame.ExchangeDeclareOk{}, "exchange-declared broker x/"},
		{&frame.ExchangeDelete{Exchange: "x"}, &frame.ExchangeDeleteOk{}, "exchange-deleted broker x/"},
		{&frame.ExchangeBind{Source: "x", Destination: "y"}, &frame.ExchangeBindOk{}, "exchange-bound broker y/"},
		{&frame.ExchangeUnbind{Source: "x", Destination: "y"}, &frame.ExchangeUnbindOk{}, "exchange-unbound broker y/"},
		{&frame.QueueDeclare{Queue: "q"}, &frame.QueueDeclareOk{Queue: "q"}, "queue-declared broker queue=q"},
		{&frame.QueueDelete{Queue: "q"}, &frame.QueueDeleteOk{}, "queue-deleted broker queue=q"},
		{&frame.QueueBind{Queue: "q", Exchange: "x", RoutingKey: "k"}, &frame.QueueBindOk{}, "queue-bound broker x/k queue=q"},
		{&frame.QueueUnbind{Queue: "q", Exchange: "x", RoutingKey: "k"}, &frame.QueueUnbindOk{}, "queue-unbound broker x/k queue=q"},
		{&frame.QueuePurge{Queue: "q"}, &frame.QueuePurgeOk{}, "queue-purged broker queue=q"},
		{&frame.BasicQos{PrefetchCount: 7}, &frame.BasicQosOk{}, "qos broker tag=7"},
		{&frame.BasicConsume{Queue: "q", ConsumerTag: "t", NoAck: true}, &frame.BasicConsumeOk{ConsumerTag: "t"}, "consuming broker queue=q consumer=t no-ack"},
		{&frame.ConfirmSelect{}, &frame.ConfirmSelectOk{}, "confirm-mode broker"},
	}
	c := newTalk(t)
	c.open()
	from := c.now()
	// All asked at once: nothing has happened until the answers.
	for _, r := range requests {
		c.client(r.request)
	}
	c.expect(from, "")
	if got, want := strings.Count(c.since(from, Asked), "\n")+1, len(requests); got != want {
		t.Errorf("%d were asked, want %d", got, want)
	}
	from = c.now()
	var want []string
	for _, r := range requests {
		c.broker(r.answer)
		want = append(want, r.want)
	}
	c.expect(from, strings.Join(want, "\n"))
	// An answer to nothing is nothing.
	from = c.now()
	for _, r := range requests {
		c.broker(r.answer)
	}
	c.expect(from, "")
}

func TestFollowerNoWait(t *testing.T) {
	c := newTalk(t)
	c.open()
	from := c.now()
	c.client(&frame.ExchangeDeclare{Exchange: "x", Type: "fanout", NoWait: true}, &frame.QueueDeclare{Queue: "q", NoWait: true}, &frame.QueueBind{Exchange: "x", NoWait: true},
		&frame.BasicConsume{Queue: "q", ConsumerTag: "t", NoWait: true}, &frame.QueuePurge{Queue: "q", NoWait: true}, &frame.ExchangeBind{Source: "x", Destination: "y", NoWait: true},
		&frame.ExchangeUnbind{Source: "x", Destination: "y", NoWait: true}, &frame.QueueDelete{Queue: "q", NoWait: true}, &frame.ExchangeDelete{Exchange: "x", NoWait: true})
	c.expect(from, `exchange-declared x/
		queue-declared queue=q
		queue-bound x/q queue=q
		consuming queue=q consumer=t
		queue-purged queue=q
		exchange-bound y/
		exchange-unbound y/
		queue-deleted queue=q
		exchange-deleted x/`)
}

func TestFollowerPassiveDeclares(t *testing.T) {
	c := newTalk(t)
	c.open()
	c.client(&frame.QueueDeclare{Queue: "q", Passive: true}, &frame.ExchangeDeclare{Exchange: "x", Passive: true})
	c.broker(&frame.QueueDeclareOk{Queue: "q"}, &frame.ExchangeDeclareOk{})
	topology := TopologyOf(c.ledger.Events())
	if _, ok := topology.Queues["q"]; ok {
		t.Error("asking for a queue has declared it")
	}
	if _, ok := topology.Exchanges["x"]; ok {
		t.Error("asking for an exchange has declared it")
	}
}

func TestFollowerCancels(t *testing.T) {
	c := newTalk(t)
	c.open()
	c.client(&frame.BasicConsume{Queue: "q", ConsumerTag: "t"}, &frame.BasicConsume{Queue: "r", ConsumerTag: "u"})
	from := c.now()
	c.client(&frame.BasicCancel{ConsumerTag: "t"})
	c.broker(deliver("m1", "t", 1), &frame.BasicCancelOk{ConsumerTag: "t"}, &frame.BasicCancel{ConsumerTag: "u"})
	c.client(&frame.BasicCancelOk{ConsumerTag: "u"})
	c.expect(from, `cancelled queue=q consumer=t
		delivered broker m1 x/k queue=q consumer=t tag=1
		cancelled broker queue=r consumer=u`)
}

func TestFollowerChannelClosedByTheBroker(t *testing.T) {
	c := newTalk(t)
	c.confirming()
	c.client(&frame.BasicConsume{Queue: "q", ConsumerTag: "t"})
	c.broker(&frame.BasicConsumeOk{ConsumerTag: "t"}, deliver("m1", "t", 1))
	c.client(&frame.QueueDeclare{Queue: "asked"}, publish("m1", "nowhere", "k"))
	from := c.now()
	if e := c.broker(&frame.ChannelClose{ReplyCode: 404, ReplyText: "NOT_FOUND"}); !e.Ends {
		t.Errorf("%+v", e)
	}
	// What the client sends before it knows: it settles nothing, and is never confirmed.
	c.client(&frame.BasicAck{DeliveryTag: 1}, publish("m2", "", "q"), &frame.ChannelCloseOk{})
	c.expect(from, `channel-closed broker 404 (NOT_FOUND)
		acked tag=1
		published m2 /q tag=2 confirms`)
	// The number is opened again: a new channel, that knows nothing of the old one.
	from = c.now()
	c.client(&frame.ChannelOpen{}, publish("m3", "", "q"))
	c.broker(&frame.ChannelOpenOk{}, &frame.QueueDeclareOk{Queue: "asked"}, &frame.BasicAck{DeliveryTag: 2})
	c.client(&frame.BasicAck{DeliveryTag: 1})
	c.expect(from, `published m3 /q tag=1
		channel-opened broker
		confirmed broker tag=2
		acked tag=1`)
}

func TestFollowerChannelClosedByTheClient(t *testing.T) {
	c := newTalk(t)
	c.confirming()
	c.client(publish("m1", "", "q"))
	from := c.now()
	c.client(&frame.ChannelClose{ReplyCode: 200, ReplyText: "bye"})
	c.expect(from, "") // it is closed when the broker says so
	if e := c.broker(&frame.BasicAck{DeliveryTag: 1}, &frame.ChannelCloseOk{}); !e.Ends {
		t.Errorf("%+v", e)
	}
	c.expect(from, fmt.Sprintf(`confirmed broker tag=1 covers=[%d]
		channel-closed 200 (bye)`, from))
}

func TestFollowerChannelClosedByBoth(t *testing.T) {
	c := newTalk(t)
	c.open()
	from := c.now()
	c.broker(&frame.ChannelClose{ReplyCode: 406, ReplyText: "PRECONDITION_FAILED"})
	c.client(&frame.ChannelClose{ReplyCode: 200}, &frame.ChannelCloseOk{})
	c.broker(&frame.ChannelCloseOk{})
	c.expect(from, `channel-closed broker 406 (PRECONDITION_FAILED)`)

	c.open()
	from = c.now()
	c.client(&frame.ChannelClose{ReplyCode: 200})
	c.broker(&frame.ChannelClose{ReplyCode: 406, ReplyText: "PRECONDITION_FAILED"})
	c.client(&frame.ChannelCloseOk{})
	c.broker(&frame.ChannelCloseOk{})
	c.expect(from, `channel-closed broker 406 (PRECONDITION_FAILED)`)
}

func TestFollowerConnection(t *testing.T) {
	start := func(t *testing.T) *talk {
		c := newTalk(t)
		c.feed(false, frame.AppendProtocolHeader(nil))
		c.say(true, 0, &frame.ConnectionStart{VersionMinor: 9, Mechanisms: "PLAIN", Locales: "en_US"})
		if e := c.say(true, 0, &frame.ConnectionTune{FrameMax: 8192}); e.Tuned != 8192 {
			t.Errorf("%+v", e)
		}
		c.say(false, 0, &frame.ConnectionTuneOk{FrameMax: 8192}, &frame.ConnectionOpen{VirtualHost: "/"})
		c.say(true, 0, &frame.ConnectionOpenOk{})
		c.feed(true, frame.AppendHeartbeat(nil))
		c.expect(0, "connection-opened ch0 broker")
		return c
	}
	t.Run("closed by the client", func(t *testing.T) {
		c := start(t)
		c.say(false, 0, &frame.ConnectionClose{ReplyCode: 200, ReplyText: "bye"})
		c.expect(1, "")
		if e := c.say(true, 0, &frame.ConnectionCloseOk{}); !e.Ends {
			t.Errorf("%+v", e)
		}
		c.Ended(false, "gone")
		c.expect(1, "connection-closed ch0 200 (bye)")
	})
	t.Run("closed by the broker", func(t *testing.T) {
		c := start(t)
		if e := c.say(true, 0, &frame.ConnectionClose{ReplyCode: 320, ReplyText: "CONNECTION_FORCED"}); !e.Ends {
			t.Errorf("%+v", e)
		}
		c.say(false, 0, &frame.ConnectionCloseOk{})
		c.Ended(true, "gone")
		c.expect(1, "connection-closed ch0 broker 320 (CONNECTION_FORCED)")
	})
	t.Run("closed by both", func(t *testing.T) {
		c := start(t)
		c.say(false, 0, &frame.ConnectionClose{ReplyCode: 200})
		c.say(true, 0, &frame.ConnectionClose{ReplyCode: 320})
		c.say(false, 0, &frame.ConnectionCloseOk{})
		c.say(true, 0, &frame.ConnectionCloseOk{})
		c.expect(1, "connection-closed ch0 broker 320")
	})
	t.Run("lost", func(t *testing.T) {
		c := start(t)
		c.Ended(true, "gone")
		c.Ended(false, "gone too")
		c.expect(1, "connection-lost ch0 broker (gone)")
	})
	t.Run("blocked", func(t *testing.T) {
		c := start(t)
		c.say(true, 0, &frame.ConnectionBlocked{Reason: "low on memory"}, &frame.ConnectionUnblocked{})
		c.expect(1, "blocked ch0 broker (low on memory)\nunblocked ch0 broker")
	})
	t.Run("without a limit of frames", func(t *testing.T) {
		c := newTalk(t)
		if e := c.say(true, 0, &frame.ConnectionTune{}); e.Tuned != frame.LargestMaxFrame {
			t.Errorf("%+v", e)
		}
	})
}

// What is on its way when a connection is lost does not arrive: the broker has taken it back.
func TestFollowerOfALostConnection(t *testing.T) {
	c := newTalk(t)
	c.Deferred = true
	c.confirming()
	c.client(publish("m1", "", "q"), &frame.BasicConsume{Queue: "q", ConsumerTag: "t"})
	held := c.broker(&frame.BasicAck{DeliveryTag: 1})
	c.Ended(false, "gone")
	from := c.now()
	c.Passed(held)
	c.broker(deliver("m2", "t", 1), &frame.ChannelClose{ReplyCode: 404}, &frame.ConnectionClose{ReplyCode: 320})
	c.client(&frame.BasicAck{DeliveryTag: 1})
	c.expect(from, "")
}

// Contents of several channels come in pieces, one frame of each in turn.
func TestFollowerInterleaved(t *testing.T) {
	c := newTalk(t)
	var queues [][]byte
	for channel := uint16(1); channel <= 5; channel++ {
		c.say(false, channel, &frame.ChannelOpen{})
		id := fmt.Sprint("m", channel)
		raw, err := frame.AppendContent(nil, channel, &frame.BasicPublish{RoutingKey: "q"},
			frame.Header{Properties: frame.Properties{MessageID: id}}, bytes.Repeat([]byte(id), 500), 200)
		if err != nil {
			t.Fatal(err)
		}
		queues = append(queues, raw)
	}
	from := c.now()
	for len(queues) > 0 {
		for i := len(queues) - 1; i >= 0; i-- {
			r := frame.NewReader(0)
			r.Feed(queues[i])
			f, ok, err := r.Next()
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			if _, err := c.Take(false, f); err != nil {
				t.Fatal(err)
			}
			queues[i] = queues[i][len(f.Raw):]
			if len(queues[i]) == 0 {
				queues = slices.Delete(queues, i, i+1)
			}
		}
	}
	c.expect(from, `published ch5 m5 /q tag=1
		published ch4 m4 /q tag=1
		published ch3 m3 /q tag=1
		published ch2 m2 /q tag=1
		published m1 /q tag=1`)
	for _, e := range c.ledger.Events()[from:] {
		if want := bytes.Repeat([]byte(e.Message), 500); !bytes.Equal(e.Content.Body, want) || e.Content.Size != uint64(len(want)) {
			t.Errorf("%s: a body of %d bytes", e.Message, len(e.Content.Body))
		}
	}
}

func TestFollowerBodies(t *testing.T) {
	c := newTalk(t)
	for _, size := range []int{0, 1, keptBody, keptBody + 1} {
		body := bytes.Repeat([]byte("x"), size)
		raw, err := frame.AppendContent(nil, 1, &frame.BasicPublish{}, frame.Header{}, body, 0)
		if err != nil {
			t.Fatal(err)
		}
		c.feed(false, raw)
		got := c.ledger.Events()[c.now()-1].Content
		if got.Size != uint64(size) || (len(got.Body) == size) != (size <= keptBody) {
			t.Errorf("of %d bytes, size %d and %d bytes are kept", size, got.Size, len(got.Body))
		}
		if same := (&frame.Content{Body: body}).Digest(); got.Digest() != same {
			t.Errorf("of %d bytes, the digest is %x", size, got.Digest())
		}
	}
}

func TestFollowerGarbage(t *testing.T) {
	c := newTalk(t)
	c.feed(false, frame.AppendFrame(nil, frame.TypeBody, 3, []byte("without a header")))
	c.feed(true, frame.AppendFrame(nil, frame.TypeMethod, 3, []byte("\x00\x3c\x00\x50\x00")))
	c.Garbage(false, errors.New("this is TLS"))
	got := c.since(0)
	for _, want := range []string{
		"undecodable ch3 (the client sent what cannot be understood: channel 3: unexpected frame",
		"undecodable ch3 broker (the broker sent what cannot be understood: channel 3:",
		"undecodable ch0 (the client sent what cannot be understood: this is TLS)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\ndoes not say\n%s", got, want)
		}
	}
	// A method that is not known is not garbage: brokers have their own.
	from := c.now()
	c.feed(false, frame.AppendFrame(nil, frame.TypeMethod, 1, []byte("\x03\xe7\x00\x01")))
	c.expect(from, "")
}

// Two goroutines pass on the two directions; a third passes on held confirms.
func TestFollowerRace(t *testing.T) {
	const n = 500
	c := newTalk(t)
	c.Deferred = true
	c.confirming()
	held := make(chan Effect, n)
	published := make(chan struct{}, n)
	frames := func(channel uint16, m frame.Method) []frame.Frame {
		r := frame.NewReader(0)
		r.Feed(c.encode(channel, m))
		var list []frame.Frame
		for {
			f, ok, err := r.Next()
			if err != nil || !ok {
				return list
			}
			list = append(list, f)
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		defer close(published)
		for range n {
			for _, f := range frames(1, publish("m", "", "q")) {
				_, _ = c.Take(false, f)
			}
			published <- struct{}{}
		}
	})
	all.Go(func() {
		defer close(held)
		tag := uint64(0)
		for range published {
			tag++
			for _, f := range frames(1, &frame.BasicAck{DeliveryTag: tag}) {
				if e, _ := c.Take(true, f); e.Hold {
					held <- e
				}
			}
		}
	})
	all.Go(func() {
		for e := range held {
			c.Passed(e)
		}
	})
	all.Wait()
	counts := map[Kind]int{}
	answered := map[int]bool{}
	for _, e := range c.ledger.Events() {
		counts[e.Kind]++
		if e.Kind == Confirmed {
			for _, seq := range e.Covers {
				answered[seq] = true
			}
		}
	}
	if counts[Published] != n || counts[ConfirmArrived] != n || counts[Confirmed] != n || len(answered) != n {
		t.Errorf("%v, %d publishes answered", counts, len(answered))
	}
	if c.channels[1].held != 0 {
		t.Errorf("%d confirms are still held", c.channels[1].held)
	}
}

// anything is a random exchange of frames, sensible and not.
func anything(r *rand.Rand) frame.Method {
	tag, multiple := uint64(r.Intn(6)), r.Intn(2) == 0
	id := []string{"", "m1", "m2"}[r.Intn(3)]
	name := []string{"", "q", "r"}[r.Intn(3)]
	noWait := r.Intn(3) == 0
	all := []frame.Method{
		&frame.ChannelOpen{}, &frame.ChannelOpenOk{}, &frame.ChannelClose{ReplyCode: 404}, &frame.ChannelCloseOk{},
		&frame.ConnectionClose{ReplyCode: 320}, &frame.ConnectionCloseOk{}, &frame.ConnectionTune{FrameMax: uint32(tag)}, &frame.ConnectionOpenOk{},
		&frame.BasicAck{DeliveryTag: tag, Multiple: multiple}, &frame.BasicNack{DeliveryTag: tag, Multiple: multiple, Requeue: noWait},
		&frame.BasicReject{DeliveryTag: tag, Requeue: multiple}, &frame.BasicRecover{Requeue: true}, &frame.BasicGet{Queue: name, NoAck: noWait},
		&frame.BasicGetEmpty{}, &frame.BasicConsume{Queue: name, ConsumerTag: name, NoAck: noWait, NoWait: multiple}, &frame.BasicConsumeOk{ConsumerTag: name},
		&frame.BasicCancel{ConsumerTag: name}, &frame.ConfirmSelect{NoWait: noWait}, &frame.ConfirmSelectOk{}, &frame.BasicQos{}, &frame.BasicQosOk{},
		&frame.QueueDeclare{Queue: name, NoWait: noWait, Passive: multiple}, &frame.QueueDeclareOk{Queue: name}, &frame.QueueDelete{Queue: name}, &frame.QueueDeleteOk{},
		&frame.QueueBind{Queue: name, Exchange: name}, &frame.QueueBindOk{}, &frame.QueueUnbind{Queue: name, Exchange: name}, &frame.QueueUnbindOk{},
		&frame.ExchangeDeclare{Exchange: name, Type: "fanout", NoWait: noWait}, &frame.ExchangeDeclareOk{}, &frame.ExchangeDelete{Exchange: name}, &frame.ExchangeDeleteOk{},
		mandatory(id, name, name), publish(id, name, name), returned(id, name, name), deliver(id, name, tag),
		message{&frame.BasicGetOk{DeliveryTag: tag}, id},
	}
	return all[r.Intn(len(all))]
}

// The ledger is numbered through, what an event covers is an event before it and is covered once,
// and nothing panics, whatever the two say to each other; the accounting goes through it too.
func TestFollowerOfNonsense(t *testing.T) {
	for seed := range int64(300) {
		r := rand.New(rand.NewSource(seed))
		c := newTalk(t)
		c.Deferred = r.Intn(2) == 0
		var held []Effect
		for range 300 {
			if e := c.say(r.Intn(2) == 0, uint16(r.Intn(3)), anything(r)); e.Hold {
				held = append(held, e)
			}
			if len(held) > 0 && r.Intn(3) == 0 {
				c.Passed(held[0])
				held = held[1:]
			}
		}
		checkCovers(t, c.ledger.Events())
		Balance(c.ledger.Events(), terms())
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func checkCovers(t *testing.T, events []Event) {
	t.Helper()
	settled := map[int]bool{}
	for i, e := range events {
		if e.Seq != i+1 {
			t.Errorf("event %d has the number %d", i+1, e.Seq)
		}
		for _, seq := range e.Covers {
			if seq < 1 || seq >= e.Seq {
				t.Errorf("event %d covers %d", e.Seq, seq)
			} else if k := events[seq-1].Kind; k != Published && k != Delivered && k != Drained {
				t.Errorf("event %d covers %d, which is %s", e.Seq, seq, k)
			}
			if e.Kind == Returned || e.Kind == ConfirmArrived {
				continue // what is returned is confirmed too
			}
			if settled[seq] {
				t.Errorf("event %d covers %d, which is settled", e.Seq, seq)
			}
			settled[seq] = true
		}
	}
}

// Whatever bytes the two send, nothing panics.
func FuzzFollower(f *testing.F) {
	encode := func(seed int64, n int) []byte {
		r := rand.New(rand.NewSource(seed))
		c := newTalk(&testing.T{})
		var raw []byte
		for range n {
			raw = append(raw, c.encode(uint16(r.Intn(3)), anything(r))...)
		}
		return raw
	}
	for seed := range int64(20) {
		f.Add(encode(seed, 10), encode(seed+100, 10), seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, fromClient, fromBroker []byte, deferred bool) {
		c := newTalk(t)
		c.Deferred = deferred
		sides := []struct {
			raw    []byte
			broker bool
			reader *frame.Reader
		}{{fromClient, false, frame.NewReader(0)}, {fromBroker, true, frame.NewReader(0)}}
		for len(sides[0].raw)+len(sides[1].raw) > 0 {
			for i := range sides {
				s := &sides[i]
				n := min(len(s.raw), 64)
				s.reader.Feed(s.raw[:n])
				s.raw = s.raw[n:]
				for {
					fr, ok, err := s.reader.Next()
					if err != nil {
						s.raw = nil
					}
					if err != nil || !ok {
						break
					}
					if e, _ := c.Take(s.broker, fr); e.Hold {
						c.Passed(e)
					}
				}
			}
		}
		c.Ended(false, "gone")
		Balance(c.ledger.Events(), terms())
	})
}
