package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/parkproof/parkproof/toxics/frame"
)

// keptBody bounds, in bytes, the bodies that the ledger keeps; of larger ones it keeps size and
// digest. The largest body of a case is 1 MiB, and a message passes by some ten times.
const keptBody = 64 << 10

// Follower follows one connection of a client, frame by frame and in both directions, and writes
// to the ledger what each frame means: which publish a confirm answers, which delivery an ack
// releases. It is safe for use by the two goroutines that pass the frames on.
type Follower struct {
	// Process names the consumer's process that the connection belongs to; empty for parkproof's.
	Process string
	// Conn is the connection's number.
	Conn int
	// Identify tells which message a content is; it returns "" for one that it does not know.
	Identify func(*Content) string
	// Add writes to the ledger and returns the event's Seq.
	Add func(Event) int
	// Deferred is set where confirms are passed on later than they arrive: then Take reports them
	// as arrived, and Passed, called at the moment when they are passed on, as confirmed.
	Deferred bool
	// Now is the clock by which missed heartbeats are told: the time since any fixed moment. Without one it is
	// the system's.
	Now func() time.Duration

	mu       sync.Mutex
	client   *frame.Assembler
	broker   *frame.Assembler
	channels map[uint16]*channel
	opened   bool
	role     Role
	holding  bool // the confirm that is applied is kept back by a fault
	ended    bool
	lost     bool   // ended without a close: nothing that comes after has reached the other side
	closing  *Event // a connection.close that was seen
	pulse    pulse
	began    time.Time // what the system's clock is counted from
}

// channel is what is known of one channel.
type channel struct {
	confirms    bool
	publishes   uint64
	unconfirmed []numbered
	deliveries  []numbered
	consumers   map[string]subscription
	asked       []frame.Method // requests that await their answers, in order
	getting     []getting      // queues of basic.get requests that await their answers
	last        string         // the queue declared last: what a request without a name means
	held        int            // confirms that arrived and were not passed on yet
	closing     *Event
}

// queue is the queue that a request means: without a name, the one that the channel declared last
// (AMQP 0-9-1, queue.bind and basic.consume).
func (c *channel) queue(name string) string {
	if name == "" {
		return c.last
	}
	return name
}

// getting is a basic.get that awaits its answer.
type getting struct {
	queue string
	noAck bool
}

type subscription struct {
	queue string
	noAck bool
}

// key is the routing key that a binding means: without queue and key, both are the queue declared
// last (AMQP 0-9-1, queue.bind).
func (c *channel) key(queue, key string) string {
	if queue == "" && key == "" {
		return c.last
	}
	return key
}

// numbered is an event by its publish number or delivery tag.
type numbered struct {
	tag uint64
	seq int
	// Of a publish, what its return would repeat.
	mandatory     bool
	returned      bool
	message       string
	exchange, key string
	// Of a delivery, where it came from.
	queue string
}

// keptMandatory bounds how many mandatory publishes a channel without confirms keeps in mind for
// their returns: nothing says that a publish will not come back any more. A broker returns at
// once, so only those on their way matter.
const keptMandatory = 4096

// keptGetting bounds how many unanswered basic.get requests a channel keeps in mind: a broker answers each,
// in order.
const keptGetting = 4096

// Effect is what the passer-on has to know of a frame.
type Effect struct {
	// Hold is set for a confirm that is to be passed on later, then with a call of Passed: one of a
	// known message, and any that would overtake it on its channel, since a later confirm with
	// multiple set would speak for the earlier one too.
	Hold bool
	// Confirms are the Seqs of the publishes that a held frame confirms, where a known message is
	// among them; it is empty for one that only must not overtake.
	Confirms []int
	// Ends is set for a frame that ends a channel or the connection: held confirms go before it.
	Ends bool
	// Tuned is the frame size that was agreed on, in bytes; 0 for other frames.
	Tuned int
	// Void is set where the connection has been cut: the frame must not be passed on, since nobody will
	// have seen it.
	Void bool

	event   Event
	channel *channel
}

// Take takes a frame of the connection, which is passed on. An error says that the frame cannot be
// understood; it has been written to the ledger.
func (f *Follower) Take(fromBroker bool, fr frame.Frame) (Effect, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost {
		return Effect{Void: true}, nil
	}
	c, err := f.assemble(fromBroker, fr)
	if !c.Whole {
		return Effect{}, err
	}
	return f.apply(c), err
}

// Command is what a frame completes: a method, with its content where it has one. It has taken no
// effect on the follower and the ledger before it is applied.
type Command struct {
	FromBroker bool
	Channel    uint16
	// Method is nil for a heartbeat, a protocol header, and a frame that only begins or continues a
	// command.
	Method  frame.Method
	Content *Content
	// Message is the message that the content is of; empty for one that is not known.
	Message string
	// Whole says that nothing of the command is missing. Begins says that the frame is the first of a
	// command with a content, and Inside that it is a further one.
	Whole, Begins, Inside bool
}

// Assemble takes a frame without its effect, for a wire that may withhold it.
func (f *Follower) Assemble(fromBroker bool, fr frame.Frame) (Command, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.assemble(fromBroker, fr)
}

func (f *Follower) assemble(fromBroker bool, fr frame.Frame) (Command, error) {
	c := Command{FromBroker: fromBroker, Channel: fr.Channel}
	if f.lost {
		return c, nil
	}
	f.start()
	f.beat(fromBroker)
	assembler := f.client
	if fromBroker {
		assembler = f.broker
	}
	part, err := assembler.Add(fr)
	if err != nil {
		var unknown *frame.UnknownMethodError
		if !errors.As(err, &unknown) {
			f.undecodable(fromBroker, fr.Channel, err)
			return c, err
		}
	}
	switch {
	case part.Content != nil && !part.Done:
		c.Begins, c.Inside, c.Method = part.Method != nil, part.Method == nil, part.Content.Method
	case part.Content != nil:
		c.Inside = true
		c.content(part.Content, f.Identify)
		c.Whole = true
	case part.Done && part.Method != nil:
		c.Method, c.Whole = part.Method, true
	}
	return c, nil
}

func (f *Follower) start() {
	if f.client == nil {
		f.client, f.broker = frame.NewAssembler(keptBody), frame.NewAssembler(keptBody)
		f.channels = map[uint16]*channel{}
		f.began = time.Now()
	}
}

func (c *Command) content(of *frame.Content, identify func(*Content) string) {
	c.Method = of.Method
	c.Content = &Content{Properties: of.Header.Properties, Size: of.Header.BodySize, kept: of.Kept}
	if of.Kept {
		c.Content.Body = of.Body
	} else {
		c.Content.digest = of.Digest() // it was summed up as the body came
	}
	c.Message = identify(c.Content)
}

// Apply writes to the ledger what a whole command means, since it is passed on now.
func (f *Follower) Apply(c Command) Effect {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost {
		return Effect{Void: true}
	}
	f.start()
	return f.apply(c)
}

// ApplyHeld is Apply for a confirm that is kept back, of whatever message and kind: it is written down
// as arrived now, and by a call of Passed as passed on.
func (f *Follower) ApplyHeld(c Command) Effect {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost {
		return Effect{Void: true}
	}
	f.start()
	f.holding = true
	defer func() { f.holding = false }()
	return f.apply(c)
}

// Drop takes a confirm for what is meant out for good: what it answers is never answered. It returns
// the tags that the confirm answers besides.
func (f *Follower) Drop(c Command, means func(Target) bool) (others []uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.start()
	ch := f.channel(c.Channel)
	tag, multiple := ConfirmTag(c.Method)
	list := slices.Clone(ch.unconfirmed)
	for _, n := range takeNumbered(&list, tag, multiple) {
		if means(Target{n.message, n.exchange, n.key, n.queue}) {
			one := n
			ch.unconfirmed = slices.DeleteFunc(ch.unconfirmed, func(o numbered) bool { return o.seq == one.seq })
			continue
		}
		others = append(others, n.tag)
	}
	return others
}

// Answers are the tags that a confirm answers.
func (f *Follower) Answers(c Command) (tags []uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.start()
	tag, multiple := ConfirmTag(c.Method)
	list := slices.Clone(f.channel(c.Channel).unconfirmed)
	for _, n := range takeNumbered(&list, tag, multiple) {
		tags = append(tags, n.tag)
	}
	return tags
}

// ConfirmTag is which publish a confirm or a refusal answers, and whether all before it too.
func ConfirmTag(m frame.Method) (tag uint64, multiple bool) {
	switch m := m.(type) {
	case *frame.BasicAck:
		return m.DeliveryTag, m.Multiple
	case *frame.BasicNack:
		return m.DeliveryTag, m.Multiple
	}
	return 0, false
}

func (f *Follower) apply(c Command) Effect {
	f.role |= roleOf(c)
	e := Event{Process: f.Process, Conn: f.Conn, Channel: c.Channel, Broker: c.FromBroker, Method: c.Method}
	if c.Content != nil {
		e.Content, e.Message = c.Content, c.Message
		f.content(e)
		return Effect{}
	}
	if c.FromBroker {
		return f.fromBroker(e)
	}
	return f.fromClient(e)
}

// Garbage writes down bytes that are no frames.
func (f *Follower) Garbage(fromBroker bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.lost {
		f.undecodable(fromBroker, 0, err)
	}
}

func (f *Follower) undecodable(fromBroker bool, number uint16, err error) {
	who := "client"
	if fromBroker {
		who = "broker"
	}
	f.Add(Event{
		Kind: Undecodable, Process: f.Process, Conn: f.Conn, Channel: number, Broker: fromBroker,
		Text: fmt.Sprintf("the %s sent what cannot be understood: %v", who, err),
	})
}

// Passed writes down that a held confirm is passed on. It is called before the bytes go out, so
// that what they bring about comes after it in the ledger.
func (f *Follower) Passed(e Effect) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.channel.held--
	if !f.lost {
		f.Add(e.event)
	}
}

// Ended writes down that the connection is gone, unless it was closed in the orderly way. What the
// other direction still has on its way is void then, and is not written down any more: a delivery
// to a client that is gone has gone back before it came.
func (f *Follower) Ended(fromBroker bool, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	if f.pulse.every != 0 {
		f.listen(f.now())
		f.pulse.stop()
	}
	f.ended, f.lost = true, true
	f.Add(Event{Kind: ConnectionLost, Process: f.Process, Conn: f.Conn, Broker: fromBroker, Text: text})
}

func (f *Follower) channel(number uint16) *channel {
	c := f.channels[number]
	if c == nil {
		c = &channel{consumers: map[string]subscription{}}
		f.channels[number] = c
	}
	return c
}

func (f *Follower) content(e Event) {
	ch := f.channel(e.Channel)
	switch m := e.Method.(type) {
	case *frame.BasicPublish:
		e.Kind, e.Exchange, e.Key, e.Mandatory = Published, m.Exchange, m.RoutingKey, m.Mandatory
		e.Confirms = ch.confirms
		ch.publishes++
		e.Tag = ch.publishes
		seq := f.Add(e)
		if ch.confirms || m.Mandatory {
			ch.unconfirmed = append(ch.unconfirmed, numbered{
				tag: e.Tag, seq: seq, mandatory: m.Mandatory, message: e.Message, exchange: m.Exchange, key: m.RoutingKey,
			})
		}
		if !ch.confirms && len(ch.unconfirmed) > keptMandatory {
			ch.unconfirmed = ch.unconfirmed[1:]
		}
	case *frame.BasicDeliver:
		e.Kind, e.Exchange, e.Key, e.Redelivered = Delivered, m.Exchange, m.RoutingKey, m.Redelivered
		e.Tag, e.Consumer = m.DeliveryTag, m.ConsumerTag
		s := ch.consumers[m.ConsumerTag]
		e.Queue, e.NoAck = s.queue, s.noAck
		f.delivered(ch, e)
	case *frame.BasicGetOk:
		e.Kind, e.Exchange, e.Key, e.Redelivered = Delivered, m.Exchange, m.RoutingKey, m.Redelivered
		e.Tag = m.DeliveryTag
		if len(ch.getting) > 0 {
			e.Queue, e.NoAck, ch.getting = ch.getting[0].queue, ch.getting[0].noAck, ch.getting[1:]
		}
		f.delivered(ch, e)
	case *frame.BasicReturn:
		e.Kind, e.Exchange, e.Key, e.Code, e.Text = Returned, m.Exchange, m.RoutingKey, m.ReplyCode, m.ReplyText
		// The broker returns a message before it confirms it, in the order of the publishes; so it is
		// the first unconfirmed one of this message.
		for i, n := range ch.unconfirmed {
			if n.mandatory && !n.returned && n.exchange == e.Exchange && n.key == e.Key && n.message == e.Message {
				e.Covers = []int{n.seq}
				ch.unconfirmed[i].returned = true
				if !ch.confirms {
					ch.unconfirmed = ch.unconfirmed[i+1:] // those before it were routed
				}
				break
			}
		}
		f.Add(e)
	}
}

func (f *Follower) delivered(ch *channel, e Event) {
	if f.Process == "" {
		e.Kind = Drained // parkproof takes messages only to see what is left
	}
	seq := f.Add(e)
	if !e.NoAck {
		ch.deliveries = append(ch.deliveries, numbered{tag: e.Tag, seq: seq, message: e.Message, queue: e.Queue})
	}
}

func (f *Follower) fromClient(e Event) Effect {
	ch := f.channel(e.Channel)
	switch m := e.Method.(type) {
	case *frame.BasicAck:
		e.Kind, e.Tag, e.Multiple = Acked, m.DeliveryTag, m.Multiple
		e.Covers, _ = take(&ch.deliveries, m.DeliveryTag, m.Multiple)
		f.Add(e)
	case *frame.BasicNack:
		e.Kind, e.Tag, e.Multiple, e.Requeue = Nacked, m.DeliveryTag, m.Multiple, m.Requeue
		e.Covers, _ = take(&ch.deliveries, m.DeliveryTag, m.Multiple)
		f.Add(e)
	case *frame.BasicReject:
		e.Kind, e.Tag, e.Requeue = Nacked, m.DeliveryTag, m.Requeue
		e.Covers, _ = take(&ch.deliveries, m.DeliveryTag, false)
		f.Add(e)
	case *frame.BasicRecover, *frame.BasicRecoverAsync:
		// All that is unacked goes back; RabbitMQ refuses to recover without requeueing.
		e.Kind, e.Multiple, e.Requeue, e.Text = Nacked, true, true, m.Name()
		e.Covers, _ = take(&ch.deliveries, 0, true)
		f.Add(e)
	case *frame.BasicGet:
		if len(ch.getting) >= keptGetting {
			ch.getting = ch.getting[1:]
		}
		ch.getting = append(ch.getting, getting{ch.queue(m.Queue), m.NoAck})
	case *frame.BasicCancel:
		e.Kind, e.Consumer = Cancelled, m.ConsumerTag
		e.Queue = ch.consumers[m.ConsumerTag].queue
		f.Add(e)
	case *frame.ChannelOpen:
		// From here on, the number is a new channel; what follows may not wait for the answer.
		f.channels[e.Channel] = &channel{consumers: map[string]subscription{}}
	case *frame.ChannelClose:
		if ch.closing == nil || !ch.closing.Broker { // else both close at once, and the broker was first
			ch.closing = &Event{Code: m.ReplyCode, Text: m.ReplyText}
		}
	case *frame.ConnectionClose:
		f.closing = &Event{Code: m.ReplyCode, Text: m.ReplyText}
	case *frame.ChannelCloseOk:
		f.channelClosed(e, true)
	case *frame.ConnectionCloseOk:
		f.connectionClosed(e, true)
	case *frame.ConnectionTuneOk:
		// RabbitMQ takes the client's word for the heartbeat, whatever it has proposed itself.
		f.pulse.begin(m.Heartbeat, f.now())
	case *frame.ConfirmSelect:
		// The broker is in confirm mode for every publish after this; the answer only says so.
		if !ch.confirms {
			ch.confirms, ch.publishes, ch.unconfirmed = true, 0, nil
		}
		f.ask(ch, e, m.NoWait)
	case *frame.BasicQos:
		f.ask(ch, e, false)
	case *frame.BasicConsume:
		e.Queue, e.Consumer, e.NoAck = ch.queue(m.Queue), m.ConsumerTag, m.NoAck
		if m.ConsumerTag != "" {
			// Deliveries may come with or before the answer.
			ch.consumers[m.ConsumerTag] = subscription{e.Queue, m.NoAck}
		}
		f.ask(ch, e, m.NoWait)
	case *frame.ExchangeDeclare:
		e.Exchange = m.Exchange
		f.ask(ch, e, m.NoWait)
	case *frame.ExchangeDelete:
		e.Exchange = m.Exchange
		f.ask(ch, e, m.NoWait)
	case *frame.ExchangeBind:
		e.Exchange = m.Destination
		f.ask(ch, e, m.NoWait)
	case *frame.ExchangeUnbind:
		e.Exchange = m.Destination
		f.ask(ch, e, m.NoWait)
	case *frame.QueueDeclare:
		e.Queue = m.Queue
		f.ask(ch, e, m.NoWait)
	case *frame.QueueDelete:
		e.Queue = ch.queue(m.Queue)
		f.ask(ch, e, m.NoWait)
	case *frame.QueueBind:
		e.Queue, e.Exchange, e.Key = ch.queue(m.Queue), m.Exchange, m.RoutingKey
		f.ask(ch, e, m.NoWait)
	case *frame.QueueUnbind:
		e.Queue, e.Exchange, e.Key = ch.queue(m.Queue), m.Exchange, m.RoutingKey
		f.ask(ch, e, false)
	case *frame.QueuePurge:
		e.Queue = ch.queue(m.Queue)
		f.ask(ch, e, m.NoWait)
	}
	return Effect{}
}

// ask writes down a request; what needs no answer takes effect at once.
func (f *Follower) ask(ch *channel, e Event, noWait bool) {
	e.Kind, e.Text = Asked, e.Method.Name()
	if !f.looking(e.Method) {
		f.Add(e)
	}
	if noWait {
		f.effect(ch, e, nil)
		return
	}
	ch.asked = append(ch.asked, e.Method)
}

// looking reports whether a request is parkproof's own look at a queue's counts: it changes nothing,
// and a ledger of them would hide the stillness in which parkproof looks.
func (f *Follower) looking(m frame.Method) bool {
	declare, ok := m.(*frame.QueueDeclare)
	return ok && declare.Passive && f.Process == ""
}

// answered takes the oldest request of the channel that the answer fits.
func answered[T frame.Method](ch *channel) (T, bool) {
	for i, m := range ch.asked {
		if request, ok := m.(T); ok {
			ch.asked = slices.Delete(ch.asked, i, i+1)
			return request, true
		}
	}
	var none T
	return none, false
}

// settled writes down the effect of an answered request of type T.
func settled[T frame.Method](f *Follower, ch *channel, e Event) {
	if request, ok := answered[T](ch); ok {
		answer := e.Method
		e.Method = request
		f.effect(ch, e, answer)
	}
}

// effect writes down what a request, in e.Method, has brought about.
func (f *Follower) effect(ch *channel, e Event, answer frame.Method) {
	if f.looking(e.Method) {
		return
	}
	e.Broker, e.Text = answer != nil, ""
	switch m := e.Method.(type) {
	case *frame.ConfirmSelect:
		e.Kind = ConfirmMode
	case *frame.BasicQos:
		e.Kind, e.Tag = QosSet, uint64(m.PrefetchCount)
	case *frame.BasicConsume:
		e.Kind, e.Queue, e.Consumer, e.NoAck = Consuming, ch.queue(m.Queue), m.ConsumerTag, m.NoAck
		if ok, is := answer.(*frame.BasicConsumeOk); is {
			e.Consumer = ok.ConsumerTag
		}
		ch.consumers[e.Consumer] = subscription{e.Queue, m.NoAck}
	case *frame.ExchangeDeclare:
		e.Kind, e.Exchange = ExchangeDeclared, m.Exchange
	case *frame.ExchangeDelete:
		e.Kind, e.Exchange = ExchangeDeleted, m.Exchange
	case *frame.ExchangeBind:
		e.Kind, e.Exchange = ExchangeBound, m.Destination
	case *frame.ExchangeUnbind:
		e.Kind, e.Exchange = ExchangeUnbound, m.Destination
	case *frame.QueueDeclare:
		e.Kind, e.Queue = QueueDeclared, m.Queue
		if ok, is := answer.(*frame.QueueDeclareOk); is {
			e.Queue = ok.Queue
		}
		ch.last = e.Queue
	case *frame.QueueDelete:
		e.Kind, e.Queue = QueueDeleted, ch.queue(m.Queue)
	case *frame.QueueBind:
		e.Kind, e.Queue, e.Exchange, e.Key = QueueBound, ch.queue(m.Queue), m.Exchange, ch.key(m.Queue, m.RoutingKey)
	case *frame.QueueUnbind:
		e.Kind, e.Queue, e.Exchange, e.Key = QueueUnbound, ch.queue(m.Queue), m.Exchange, ch.key(m.Queue, m.RoutingKey)
	case *frame.QueuePurge:
		e.Kind, e.Queue = QueuePurged, ch.queue(m.Queue)
	}
	f.Add(e)
}

func (f *Follower) fromBroker(e Event) Effect {
	ch := f.channel(e.Channel)
	switch m := e.Method.(type) {
	case *frame.BasicAck:
		e.Kind, e.Tag, e.Multiple = Confirmed, m.DeliveryTag, m.Multiple
		return f.answer(ch, e)
	case *frame.BasicNack:
		e.Kind, e.Tag, e.Multiple = Refused, m.DeliveryTag, m.Multiple
		return f.answer(ch, e)
	case *frame.BasicGetEmpty:
		if len(ch.getting) > 0 {
			ch.getting = ch.getting[1:]
		}
	case *frame.BasicCancel:
		e.Kind, e.Consumer = Cancelled, m.ConsumerTag
		e.Queue = ch.consumers[m.ConsumerTag].queue
		f.Add(e)
	case *frame.ConnectionTune:
		if m.FrameMax == 0 {
			return Effect{Tuned: frame.LargestMaxFrame} // no limit
		}
		return Effect{Tuned: int(m.FrameMax)}
	case *frame.ConnectionOpenOk:
		if !f.opened {
			f.opened = true
			e.Kind = ConnectionOpened
			f.Add(e)
		}
	case *frame.ChannelOpenOk:
		e.Kind = ChannelOpened
		f.Add(e)
	case *frame.ChannelClose:
		ch.closing = &Event{Broker: true, Code: m.ReplyCode, Text: m.ReplyText}
		// What the broker refuses has no effect, and nothing on the channel will be answered.
		f.channelClosed(e, false)
		return Effect{Ends: true}
	case *frame.ConnectionClose:
		f.closing = &Event{Broker: true, Code: m.ReplyCode, Text: m.ReplyText}
		f.connectionClosed(e, false)
		return Effect{Ends: true}
	case *frame.ChannelCloseOk:
		f.channelClosed(e, true)
		return Effect{Ends: true}
	case *frame.ConnectionCloseOk:
		f.connectionClosed(e, true)
		return Effect{Ends: true}
	case *frame.ConnectionBlocked:
		e.Kind, e.Text = Blocked, m.Reason
		f.Add(e)
	case *frame.ConnectionUnblocked:
		e.Kind = Unblocked
		f.Add(e)
	case *frame.ConfirmSelectOk:
		settled[*frame.ConfirmSelect](f, ch, e)
	case *frame.BasicQosOk:
		settled[*frame.BasicQos](f, ch, e)
	case *frame.BasicConsumeOk:
		settled[*frame.BasicConsume](f, ch, e)
	case *frame.ExchangeDeclareOk:
		settled[*frame.ExchangeDeclare](f, ch, e)
	case *frame.ExchangeDeleteOk:
		settled[*frame.ExchangeDelete](f, ch, e)
	case *frame.ExchangeBindOk:
		settled[*frame.ExchangeBind](f, ch, e)
	case *frame.ExchangeUnbindOk:
		settled[*frame.ExchangeUnbind](f, ch, e)
	case *frame.QueueDeclareOk:
		settled[*frame.QueueDeclare](f, ch, e)
	case *frame.QueueDeleteOk:
		settled[*frame.QueueDelete](f, ch, e)
	case *frame.QueueBindOk:
		settled[*frame.QueueBind](f, ch, e)
	case *frame.QueueUnbindOk:
		settled[*frame.QueueUnbind](f, ch, e)
	case *frame.QueuePurgeOk:
		settled[*frame.QueuePurge](f, ch, e)
	}
	return Effect{}
}

// answer takes a confirm, of either kind, in e.
func (f *Follower) answer(ch *channel, e Event) Effect {
	var known bool
	e.Covers, known = take(&ch.unconfirmed, e.Tag, e.Multiple)
	late := f.holding || f.Deferred && known && e.Kind == Confirmed
	if !late && ch.held == 0 {
		f.Add(e)
		return Effect{}
	}
	ch.held++
	if !late {
		return Effect{Hold: true, event: e, channel: ch}
	}
	if e.Kind == Confirmed {
		arrived := e
		arrived.Kind = ConfirmArrived
		f.Add(arrived)
	}
	return Effect{Hold: true, Confirms: e.Covers, event: e, channel: ch}
}

// channelClosed writes down a channel's end once: at the broker's close, or at the answer to the
// client's.
func (f *Follower) channelClosed(e Event, answer bool) {
	ch := f.channel(e.Channel)
	if ch.closing == nil {
		return
	}
	if answer && ch.closing.Broker {
		delete(f.channels, e.Channel) // the client's answer: the end has been written down
		return
	}
	e.Kind, e.Broker, e.Code, e.Text = ChannelClosed, ch.closing.Broker, ch.closing.Code, ch.closing.Text
	f.Add(e)
	if answer {
		delete(f.channels, e.Channel)
		return
	}
	// What the client still sends, the broker drops: no answer will come, and no delivery is there to
	// be settled. Its publishes still count as made with confirms, which they never get.
	f.channels[e.Channel] = &channel{
		consumers: map[string]subscription{}, closing: ch.closing, confirms: ch.confirms, publishes: ch.publishes,
	}
}

func (f *Follower) connectionClosed(e Event, answer bool) {
	if f.ended || f.closing == nil || answer && f.closing.Broker {
		return
	}
	f.ended = true
	f.pulse.stop() // nobody has to say anything any more
	e.Kind, e.Channel, e.Broker, e.Code, e.Text = ConnectionClosed, 0, f.closing.Broker, f.closing.Code, f.closing.Text
	f.Add(e)
}

// take removes the numbered event of the tag, or all up to it, and returns their Seqs and whether
// a known message is among them.
func take(list *[]numbered, tag uint64, multiple bool) (seqs []int, known bool) {
	taken := takeNumbered(list, tag, multiple)
	if len(taken) == 0 {
		return nil, false
	}
	seqs = make([]int, 0, len(taken))
	for _, n := range taken {
		seqs = append(seqs, n.seq)
		known = known || n.message != ""
	}
	return seqs, known
}

// takeNumbered removes the numbered event of the tag, or all up to it. Tag 0 with multiple is all of
// them: AMQP 0-9-1, basic.ack. Tags only grow, so the list is sorted, and mostly it is the first that
// is taken.
func takeNumbered(list *[]numbered, tag uint64, multiple bool) []numbered {
	l := *list
	if multiple && tag == 0 {
		tag = math.MaxUint64
	}
	from, found := slices.BinarySearchFunc(l, tag, func(n numbered, tag uint64) int { return cmp.Compare(n.tag, tag) })
	to := from
	if found {
		to++
	}
	if multiple {
		from = 0
	}
	if from == 0 {
		*list = l[to:]
		return l[:to]
	}
	taken := slices.Clone(l[from:to])
	*list = slices.Delete(l, from, to)
	return taken
}
