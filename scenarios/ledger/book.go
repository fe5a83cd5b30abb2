package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// handledOK is the verdict of a handler that succeeded, in the adapter protocol.
const handledOK = "ok"

// Delivery is a delivery to a consumer's process, with what became of it.
type Delivery struct {
	Event
	// Copies are the consumer's publishes of the same message while it was open, or after it was
	// released too early.
	Copies []*Copy
	// Seqs of what happened to it, 0 for not yet: its ack; its return to the queue, by a nack or by
	// the end of its channel; its rejection without requeue; the call of its handler and that
	// handler's verdict.
	Acked, Back, Rejected, Called, Settled int
	// Verdict is what its handler was told to come to.
	Verdict string
	// pair is the copy that it counts as released by, where there are several deliveries to choose from.
	pair *Copy
	// afterStop is set where the case had stopped or killed a consumer's process before.
	afterStop bool
}

// Open reports whether the delivery has not been settled.
func (d *Delivery) Open() bool { return d.Acked == 0 && d.Back == 0 && d.Rejected == 0 }

// Copy is a publish of a known message by a consumer's process.
type Copy struct {
	Event
	// To are the queues that it was routed to.
	To []string
	// Seqs of the broker's answers as they were passed on, 0 for not yet.
	Confirmed, Returned, Refused int
	// Orphan is set where the original had been released before.
	Orphan bool
	// Lost is the Seq of the end of its channel or connection, where that came before an answer: the
	// broker may have taken it or not, and nobody will be told.
	Lost int
}

// Offer is a publish by parkproof.
type Offer struct {
	Event
	To                           []string
	Confirmed, Returned, Refused int
}

// unsure reports whether the broker has never said what it did with the publish.
func (o *Offer) unsure() bool {
	return o.Confirms && o.Confirmed == 0 && o.Refused == 0 && o.Returned == 0
}

type entryKey struct{ message, queue string }

// processKey is a queue of a process.
type processKey struct{ process, queue string }

// Book joins a ledger's events as they come: each delivery with the call of its handler, its
// copies and its release; each publish with where it went and how it was answered.
type Book struct {
	terms    *Terms
	taken    int
	Topology *Topology

	// Deliveries and Offers are in the order of the ledger.
	Deliveries []*Delivery
	Offers     []*Offer
	// CopiesOf are the consumers' publishes by message.
	CopiesOf map[string][]*Copy
	// DrainedFrom are the events of messages taken from a queue, by queue and message.
	DrainedFrom map[string]map[string][]Event

	published map[string]bool
	offered   map[int]*Offer
	bySeq     map[int]*Delivery
	ofMessage map[string][]*Delivery // by process and message
	open      map[string][]*Delivery // by process and message
	copies    map[int]*Copy
	buried    map[entryKey]int // parked in a queue that died with its owner
	buriedAt  map[string]int   // by queue, the Seq at which it last died
	handlers  map[string]*Delivery
	asked     map[string]bool // processes that the case has asked to stop
	stopped   bool            // any of them ever
	consuming map[subscriptionKey]bool
	silenced  bool // the last subscription was cancelled by the consumers themselves
	// sealed are the queues, by process, that a consumer has stopped to consume without being asked
	// to: the Seq of its cancel. A consumer that was asked to stop is in let.
	sealed map[processKey]int
	let    map[processKey]bool
	// fired is how many faults have fired that may have touched a message; of "", all messages.
	fired map[string]int

	findings []Finding
}

// NewBook opens a book. The terms are read as events come, so that consumers may be added.
func NewBook(terms *Terms) *Book {
	if terms.ParkedQueue == nil {
		terms.ParkedQueue = func(string) string { return "" }
	}
	return &Book{
		terms: terms, Topology: NewTopology(),
		CopiesOf: map[string][]*Copy{}, DrainedFrom: map[string]map[string][]Event{},
		published: map[string]bool{}, offered: map[int]*Offer{}, bySeq: map[int]*Delivery{},
		ofMessage: map[string][]*Delivery{}, open: map[string][]*Delivery{}, copies: map[int]*Copy{},
		buried: map[entryKey]int{}, buriedAt: map[string]int{}, handlers: map[string]*Delivery{}, asked: map[string]bool{},
		consuming: map[subscriptionKey]bool{}, sealed: map[processKey]int{}, let: map[processKey]bool{},
		fired: map[string]int{},
	}
}

// Faults is how many faults have fired that may have touched the message: each may have made one
// more copy of it.
func (b *Book) Faults(message string) int {
	n := b.terms.Faults + b.fired[""]
	if message != "" {
		n += b.fired[message]
	}
	return n
}

// Broken reports whether any fault has fired.
func (b *Book) Broken() bool { return b.terms.Faults > 0 || len(b.fired) > 0 }

// Update takes what is new of the events, which are a ledger's from its first on.
func (b *Book) Update(events []Event) {
	for _, e := range events[b.taken:] {
		b.take(e)
	}
	b.taken = len(events)
}

// DeliveriesOf are the deliveries of a message to a process, in order.
func (b *Book) DeliveriesOf(process, message string) []*Delivery {
	return b.ofMessage[process+"/"+message]
}

// drained are the Seqs of the messages taken from a queue.
func (b *Book) drained(k entryKey) []int {
	var seqs []int
	for _, e := range b.DrainedFrom[k.queue][k.message] {
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

func (b *Book) find(f Finding) { b.findings = append(b.findings, f) }

func (b *Book) take(e Event) {
	for _, queue := range b.Topology.Apply(e) {
		b.bury(queue, e.Seq)
	}
	switch e.Kind {
	case Published:
		if e.Process == "" {
			b.published[e.Message] = true
			o := &Offer{Event: e, To: b.routed(e)}
			b.offered[e.Seq] = o
			b.Offers = append(b.Offers, o)
		} else if e.Message != "" {
			b.copy(e)
		}
	case Confirmed, Refused, Returned:
		b.answer(e)
	case Delivered:
		b.deliver(e)
	case Acked, Nacked:
		for _, seq := range e.Covers {
			if d := b.bySeq[seq]; d != nil {
				b.release(d, e)
			}
		}
	case Consuming, Cancelled:
		b.subscribed(e)
	case ChannelClosed, ConnectionClosed, ConnectionLost:
		b.ended(e)
	case HandlerCalled:
		b.called(e)
	case HandlerSettled:
		if d := b.handlers[handlerKey(e)]; d != nil {
			d.Verdict, d.Settled = e.Verdict, e.Seq
		}
	case ProcessStarted:
		delete(b.asked, e.Process)
	case StopAsked:
		if e.Consumer != "" {
			b.let[processKey{e.Process, b.terms.Consumers[e.Consumer]}] = true
			break
		}
		b.findSealed(e.Process)
		b.asked[e.Process], b.stopped = true, true
	case ProcessExited:
		b.findSealed(e.Process)
		if !b.asked[e.Process] {
			b.find(Finding{
				Guarantee: ProcessLives, Events: []int{e.Seq},
				Text: fmt.Sprintf("the consumer's process ended by itself (%s)", e.Text),
			})
		}
	case Fired:
		b.fired[e.Message]++
	case Drained:
		if b.DrainedFrom[e.Queue] == nil {
			b.DrainedFrom[e.Queue] = map[string][]Event{}
		}
		b.DrainedFrom[e.Queue][e.Message] = append(b.DrainedFrom[e.Queue][e.Message], e)
		if !b.published[e.Message] {
			b.find(Finding{
				Guarantee: NothingAppears, Message: e.Message, Queue: e.Queue, Events: []int{e.Seq},
				Text: fmt.Sprintf("queue %q held a message that parkproof did not publish (%s)", e.Queue, described(e)),
			})
		}
	case Undecodable:
		if e.Process != "" {
			b.find(Finding{Guarantee: WireAgrees, Events: []int{e.Seq}, Text: "on the consumer's connection, " + e.Text})
		}
	}
}

type subscriptionKey struct {
	process  string
	conn     int
	channel  uint16
	consumer string
}

// subscribed notes whether anybody consumes. Consumers that have cancelled themselves will not come
// back, unlike those that lost their channel.
func (b *Book) subscribed(e Event) {
	k := subscriptionKey{e.Process, e.Conn, e.Channel, e.Consumer}
	if e.Process == "" {
		return
	}
	of := processKey{e.Process, e.Queue}
	if e.Kind == Consuming {
		b.consuming[k], b.silenced = true, false
		delete(b.sealed, of)
		return
	}
	delete(b.consuming, k)
	if !e.Broker && !b.asked[e.Process] && !b.let[of] {
		b.sealed[of] = e.Seq
	}
	b.silenced = !e.Broker && len(b.consuming) == 0
}

// findSealed says which queues a process has stopped to consume by itself, and has not come back to.
func (b *Book) findSealed(process string) {
	for _, k := range slices.SortedFunc(maps.Keys(b.sealed), func(x, y processKey) int { return b.sealed[x] - b.sealed[y] }) {
		if k.process != process {
			continue
		}
		b.find(Finding{
			Guarantee: ConsumerGoesOn, Queue: k.queue, Events: []int{b.sealed[k]},
			Text: fmt.Sprintf("the consumer cancelled its own consumer of queue %q, and did not come back", k.queue),
		})
		delete(b.sealed, k)
	}
}

func (b *Book) routed(e Event) []string {
	if e.Content == nil {
		return b.Topology.Route(e.Exchange, e.Key, nil)
	}
	return b.Topology.Route(e.Exchange, e.Key, e.Content.Properties.Headers)
}

// bury counts the parked copies that went with a parking queue that its owner's end removed: those
// that had got there since it was last buried and that nobody had taken out.
func (b *Book) bury(queue string, now int) {
	since := b.buriedAt[queue]
	b.buriedAt[queue] = now
	there := map[string]int{}
	for _, c := range b.copies {
		if c.Seq > since && c.Returned == 0 && c.Refused == 0 && slices.Contains(c.To, queue) && (c.Confirmed != 0 || !c.Confirms) {
			there[c.Message]++
		}
	}
	for message, n := range there {
		for _, e := range b.DrainedFrom[queue][message] {
			if e.Seq > since {
				n--
			}
		}
		if n > 0 {
			b.buried[entryKey{message, queue}] += n
		}
	}
}

// copy takes a publish by a consumer's process: the copy of the delivery that is still open, or of
// one that was released too early.
func (b *Book) copy(e Event) {
	c := &Copy{Event: e, To: b.routed(e)}
	b.copies[e.Seq] = c
	b.CopiesOf[e.Message] = append(b.CopiesOf[e.Message], c)
	var of *Delivery
	for _, d := range b.open[e.Process+"/"+e.Message] {
		if !b.mayBeOf(c, d) {
			continue
		}
		if of == nil || d.awaitsCopy() > of.awaitsCopy() {
			of = d
		}
	}
	if of != nil {
		of.Copies = append(of.Copies, c)
		return
	}
	// Nothing of it is open: was it acked before?
	for _, d := range slices.Backward(b.ofMessage[e.Process+"/"+e.Message]) {
		if d.Acked != 0 && len(d.Copies) == 0 && d.Verdict != handledOK && b.mayBeOf(c, d) {
			c.Orphan = !d.NoAck // without acks there was nothing to wait with
			d.Copies = append(d.Copies, c)
			return
		}
	}
}

// awaitsCopy says how much the delivery looks like the one that a copy belongs to: first of all one
// without a copy, whose handler has failed.
func (d *Delivery) awaitsCopy() int {
	n := 0
	if len(d.Copies) == 0 {
		n = 4
	}
	switch {
	case d.Settled != 0 && d.Verdict != handledOK:
		n += 2
	case d.Settled == 0:
		n++
	}
	return n
}

// mayBeOf reports whether the copy can come from the delivery: its key or its queue says so, or
// nothing says that it is of another queue's, from which the process has the message too.
func (b *Book) mayBeOf(c *Copy, d *Delivery) bool {
	named := func(queue string) bool {
		parked := b.terms.ParkedQueue(queue)
		return c.Key == queue || slices.Contains(c.To, queue) || parked != "" && (c.Key == parked || slices.Contains(c.To, parked))
	}
	if named(d.Queue) {
		return true
	}
	for _, other := range b.ofMessage[c.Process+"/"+c.Message] {
		if other.Queue != d.Queue && named(other.Queue) {
			return false
		}
	}
	return true
}

func (b *Book) answer(e Event) {
	for _, seq := range e.Covers {
		if o := b.offered[seq]; o != nil {
			e.answers(&o.Confirmed, &o.Refused, &o.Returned)
		}
		if c := b.copies[seq]; c != nil {
			e.answers(&c.Confirmed, &c.Refused, &c.Returned)
		}
	}
}

func (e Event) answers(confirmed, refused, returned *int) {
	switch e.Kind {
	case Confirmed:
		*confirmed = e.Seq
	case Refused:
		*refused = e.Seq
	case Returned:
		*returned = e.Seq
	}
}

func (b *Book) deliver(e Event) {
	if e.Process == "" {
		return
	}
	d := &Delivery{Event: e, afterStop: b.stopped}
	b.Deliveries = append(b.Deliveries, d)
	b.bySeq[e.Seq] = d
	k := e.Process + "/" + e.Message
	b.ofMessage[k] = append(b.ofMessage[k], d)
	if e.NoAck {
		d.Acked = e.Seq
		return
	}
	b.open[k] = append(b.open[k], d)
}

func (b *Book) close(d *Delivery) {
	k := d.Process + "/" + d.Message
	b.open[k] = slices.DeleteFunc(b.open[k], func(o *Delivery) bool { return o == d })
}

func (b *Book) release(d *Delivery, e Event) {
	if !d.Open() {
		return // a second settling: the broker closes the channel for it
	}
	switch {
	case e.Kind == Acked:
		d.Acked = e.Seq
	case e.Requeue:
		d.Back = e.Seq
	default:
		d.Rejected = e.Seq
	}
	b.close(d)
}

func (b *Book) ended(e Event) {
	for k := range b.consuming {
		if k.process == e.Process && k.conn == e.Conn && (e.Kind != ChannelClosed || k.channel == e.Channel) {
			delete(b.consuming, k)
		}
	}
	for _, d := range b.Deliveries {
		if d.Open() && d.Process == e.Process && d.Conn == e.Conn &&
			(e.Kind != ChannelClosed || d.Channel == e.Channel) {
			d.Back = e.Seq
			b.close(d)
		}
	}
	for _, c := range b.copies {
		if c.Process == e.Process && c.Conn == e.Conn && (e.Kind != ChannelClosed || c.Channel == e.Channel) &&
			c.Confirms && c.Confirmed == 0 && c.Refused == 0 && c.Returned == 0 && c.Lost == 0 {
			c.Lost = e.Seq
		}
	}
	// From 300 on, reply codes are errors: AMQP 0-9-1, constants. Parkproof's own channels are not
	// the consumer's: a passive declare of what is not there closes one.
	if e.Broker && e.Process != "" && e.Code >= 300 && !b.terms.ExpectedCodes[e.Code] {
		what := "connection"
		if e.Kind == ChannelClosed {
			what = "channel"
		}
		b.find(Finding{
			Guarantee: BrokerContent, Events: []int{e.Seq},
			Text: fmt.Sprintf("the broker closed the consumer's %s: %d %s", what, e.Code, e.Text),
		})
	}
}

// called joins a handler's call to its delivery: the first of the message in the consumer's queue
// whose handler has not been called yet.
func (b *Book) called(e Event) {
	queue := b.terms.Consumers[e.Consumer]
	var of *Delivery
	for _, d := range b.ofMessage[e.Process+"/"+e.Message] {
		if d.Called != 0 || queue != "" && d.Queue != queue {
			continue
		}
		if of == nil || b.awaitsCall(d) > b.awaitsCall(of) {
			of = d
		}
	}
	if of != nil {
		of.Called = e.Seq
		b.handlers[handlerKey(e)] = of
		return
	}
	b.find(Finding{
		Guarantee: WireAgrees, Message: e.Message, Queue: queue, Events: []int{e.Seq},
		Text: fmt.Sprintf("the handler of %q was called with %s, which had not been delivered to it", e.Consumer, e.Message),
	})
}

// awaitsCall says how much the delivery looks like the one that a handler is called for: one that is
// unsettled, or was acked too early. One that went back before its handler ran is followed by its
// redelivery; only a library that runs the handler for both is on the first again.
func (b *Book) awaitsCall(d *Delivery) int {
	switch {
	case d.Open():
		return 3
	case d.Acked != 0:
		return 2
	case b.later(d) == nil:
		return 1
	default:
		return 0
	}
}

// handlerKey names a handler's call: the adapter numbers them.
func handlerKey(e Event) string { return e.Process + "/" + strconv.FormatUint(e.Tag, 10) }

// later is the next delivery of the same message from the same queue in the same process.
func (b *Book) later(of *Delivery) *Delivery {
	for _, d := range b.ofMessage[of.Process+"/"+of.Message] {
		if d.Seq > of.Seq && d.Queue == of.Queue {
			return d
		}
	}
	return nil
}

// Settled reports whether nothing is under way any more: no delivery is unsettled, and each message
// has, in each queue that it was routed to, as many fates as publishes; where a fault may have made
// copies, none that the broker took is still to come.
func (b *Book) Settled() bool {
	if b.Broken() && b.awaited() {
		return false
	}
	fates := map[entryKey]int{}
	for _, d := range b.Deliveries {
		if d.Open() {
			return false
		}
		if d.Acked != 0 && d.Verdict == handledOK {
			fates[entryKey{d.Message, d.Queue}]++
		}
	}
	for _, o := range b.Offers {
		if o.Returned != 0 || o.Refused != 0 || b.terms.DroppedOnPurpose[o.Message] || b.terms.MayExpire[o.Message] {
			continue
		}
		for _, queue := range o.To {
			if b.terms.Kept[queue] {
				continue
			}
			k := entryKey{o.Message, queue}
			p := entryKey{o.Message, b.terms.ParkedQueue(queue)}
			if fates[k] > 0 {
				fates[k]--
				continue
			}
			if n := len(b.drained(p)) + b.buried[p] + b.confirmedIn(p); n == 0 {
				return false
			}
		}
	}
	return true
}

// confirmedIn counts the confirmed copies of a message in an exclusive parking queue, which only its
// owner can read.
func (b *Book) confirmedIn(k entryKey) int {
	if q, ok := b.Topology.Queues[k.queue]; !ok || !q.Exclusive {
		return 0
	}
	n := 0
	for _, c := range b.CopiesOf[k.message] {
		if slices.Contains(c.To, k.queue) && c.Confirmed != 0 && c.Returned == 0 {
			n++
		}
	}
	return n
}
