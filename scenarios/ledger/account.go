package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fate is what became of a message in one source queue.
type Fate string

// The fates.
const (
	Handled  Fate = "handled"
	Parked   Fate = "parked"
	Kept     Fate = "kept"     // still in a queue that the case names
	Dropped  Fate = "dropped"  // on purpose: the case says so
	Expired  Fate = "expired"  // by its publisher's own wish
	Bounced  Fate = "returned" // to its publisher
	Waiting  Fate = "waiting"  // left in a queue that the case does not name: no fate
	Lost     Fate = "lost"     // no fate
	Unfailed Fate = ""
)

// Grade says how the original of a copied message was released.
type Grade string

// The grades of a release.
const (
	// ReleasedConfirmed: the copy's confirm had been passed on before the ack.
	ReleasedConfirmed Grade = "confirmed"
	// ReleasedOrdered: no confirms, but the same channel published the copy before the ack.
	ReleasedOrdered Grade = "ordered"
	// ReleasedUnsafe: anything else.
	ReleasedUnsafe Grade = "unsafe"
)

// The guarantees that the accounting holds every consumer case to.
const (
	NothingLost       = "nothing is lost"
	NothingDuplicated = "nothing is duplicated"
	NothingAppears    = "no message appears that nobody published"
	NothingWaits      = "nothing is left waiting"
	ReleasedSafely    = "the original is released only after its copy is safe"
	NotRedelivered    = "a message is redelivered only where something broke"
	WireAgrees        = "the wire and the handler agree"
	ProcessLives      = "a failure never takes the process down"
	ConsumerGoesOn    = "a failure never stops the consumer"
	BrokerContent     = "the broker has no cause to close a channel or connection"
)

// Terms are what the accounting has to know of a case.
type Terms struct {
	// Consumers are the source queues by the name of the consumer that reads them.
	Consumers map[string]string
	// ParkedQueue names the parking queue of a source queue; it returns "" where there is none.
	ParkedQueue func(source string) string
	// Kept are the queues in which a message may stay.
	Kept map[string]bool
	// DroppedOnPurpose and MayExpire are messages that the case says may go.
	DroppedOnPurpose map[string]bool
	MayExpire        map[string]bool
	// Faults is how often faults fired that the ledger does not tell of; each may have made one more copy
	// of a message. Those in the ledger are counted from there.
	Faults int
	// MayRedeliver is set where the case made the consumer's failure path fail, so that deliveries
	// are handed back. After a stop of the case's own, redeliveries are allowed anyway.
	MayRedeliver bool
	// ExpectedCodes are the codes with which the broker may close a channel or connection.
	ExpectedCodes map[uint16]bool
	// Drained is false where the queues could not be drained, so that nothing can be said of what
	// is in them.
	Drained bool
}

// Entry is one message in one source queue.
type Entry struct {
	Message string
	Queue   string
	Fate    Fate
	// Times is how often it was published into the queue; the counts below are of fates.
	Times, Handled, Parked, Kept int
	// Redeliveries are those before any stop of the case's own.
	Deliveries, Redeliveries int
	Releases                 []Grade
}

// Finding is one guarantee that did not hold.
type Finding struct {
	Guarantee string
	Message   string
	Queue     string
	Text      string
	// Events are the Seqs of the events that show it.
	Events []int
}

// Account is the result of the accounting.
type Account struct {
	Entries  []Entry
	Findings []Finding
	// Deliveries is how many deliveries to consumers were seen at all.
	Deliveries int
	// Connections are those of the consumers' processes, and Openings how many were open, by process.
	Connections []Connection
	Openings    map[string]Opening
	// Consumptions are how many consumers each queue had.
	Consumptions []Consumption
	// Unacked are the deliveries that the consumers' processes never gave back.
	Unacked []Event
	// HeartbeatsMissed are the silences on the consumers' connections.
	HeartbeatsMissed []Event
}

// Balance goes through a scenario's events and says what became of each message and which
// guarantees did not hold.
func Balance(events []Event, terms Terms) Account {
	b := NewBook(&terms)
	b.Update(events)
	account := b.result()
	account.observe(events)
	return account
}

// observe adds what the events tell of connections and subscriptions, which no guarantee is judged by.
func (a *Account) observe(events []Event) {
	a.Connections = slices.DeleteFunc(Connections(events), func(c Connection) bool { return c.Process == "" })
	a.Openings = Openings(a.Connections)
	a.Consumptions = Consumptions(Subscriptions(events))
	a.Unacked = Unacked(events)
	for _, e := range events {
		if e.Kind == HeartbeatMissed && e.Process != "" {
			a.HeartbeatsMissed = append(a.HeartbeatsMissed, e)
		}
	}
}

// grade says how the delivery's original was released with regard to one of its copies.
func grade(d *Delivery, c *Copy) Grade {
	switch {
	case c.Orphan || c.Seq > d.Acked || c.Returned != 0 && c.Returned < d.Acked || c.Refused != 0:
		return ReleasedUnsafe
	case c.Confirms && c.Confirmed != 0 && c.Confirmed < d.Acked:
		return ReleasedConfirmed
	case !c.Confirms && c.Conn == d.Conn && c.Channel == d.Channel:
		return ReleasedOrdered
	default:
		return ReleasedUnsafe
	}
}

func whyUnsafe(d *Delivery, c *Copy) string {
	switch {
	case c.Orphan || c.Seq > d.Acked:
		return "was acked before its copy was published: a crash in between would have lost it"
	case c.Returned != 0 && c.Returned < d.Acked:
		return "was acked although the broker had returned its copy as unroutable"
	case c.Refused != 0:
		return "was acked although the broker refused its copy"
	case !c.Confirms:
		return "was acked although its copy went out on another channel, without confirms: nothing says that the broker had it by then"
	case c.Confirmed == 0:
		return "was acked, and its copy was never confirmed"
	default:
		return "was acked before its copy was confirmed: a crash in between would have lost it"
	}
}

// best is the copy by which the delivery was released most safely: one that was refused, returned
// or lost with its connection does no harm when another was confirmed in time.
func best(d *Delivery) (*Copy, Grade) {
	if d.pair != nil {
		return d.pair, grade(d, d.pair)
	}
	var of *Copy
	found := ReleasedUnsafe
	for _, c := range d.Copies {
		switch g := grade(d, c); {
		case g == ReleasedConfirmed:
			return c, g
		case g == ReleasedOrdered, of == nil, found == ReleasedUnsafe:
			of, found = c, g
		}
	}
	return of, found
}

// AllKept reports whether every message stayed where it may stay, so that none was to be delivered.
func (a Account) AllKept() bool {
	return !slices.ContainsFunc(a.Entries, func(e Entry) bool { return e.Fate != Kept })
}

type tally struct {
	Entry
	unsure  int         // publishes into the queue that the broker neither confirmed nor refused
	waiting int         // copies that were left in a queue
	gone    []*Delivery // released with nothing to show for it
	last    *Delivery
	copied  []*Copy
	seqs    []int
}

func (b *Book) result() Account {
	entries := b.entries()
	b.count(entries)
	b.strays(entries)

	out := Account{Deliveries: len(b.Deliveries)}
	keys := make([]entryKey, 0, len(entries))
	for k := range entries {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y entryKey) int {
		return cmp.Or(natural(x.message, y.message), strings.Compare(x.queue, y.queue))
	})
	for _, k := range keys {
		t := entries[k]
		b.judge(t)
		out.Entries = append(out.Entries, t.Entry)
	}
	for _, o := range b.Offers {
		switch {
		case o.Returned != 0:
			out.Entries = append(out.Entries, Entry{Message: o.Message, Times: 1, Fate: Bounced})
		case len(o.To) > 0 || o.Refused != 0 || o.unsure():
		case b.terms.DroppedOnPurpose[o.Message]:
			out.Entries = append(out.Entries, Entry{Message: o.Message, Times: 1, Fate: Dropped})
		default:
			out.Entries = append(out.Entries, Entry{Message: o.Message, Times: 1, Fate: Lost})
		}
	}
	out.Findings = b.findings
	return out
}

// entries are the messages by the source queues that their publishes were routed to.
func (b *Book) entries() map[entryKey]*tally {
	entries := map[entryKey]*tally{}
	for _, o := range b.Offers {
		if o.Returned != 0 || o.Refused != 0 {
			continue
		}
		if len(o.To) == 0 && !b.terms.DroppedOnPurpose[o.Message] && !o.unsure() {
			b.find(Finding{
				Guarantee: NothingLost, Message: o.Message, Events: []int{o.Seq},
				Text: fmt.Sprintf("%s was published to %s", o.Message, nowhere(o.Exchange, o.Key)),
			})
		}
		for _, queue := range o.To {
			k := entryKey{o.Message, queue}
			t := entries[k]
			if t == nil {
				t = &tally{Entry: Entry{Message: o.Message, Queue: queue}}
				entries[k] = t
			}
			if o.unsure() {
				t.unsure++
			} else {
				t.Times++
			}
			t.seqs = append(t.seqs, o.Seq)
		}
	}
	return entries
}

func (b *Book) count(entries map[entryKey]*tally) {
	hasty := b.hasty()
	b.pair()
	for _, d := range b.Deliveries {
		t := entries[entryKey{d.Message, d.Queue}]
		if t == nil {
			if b.published[d.Message] && !d.Redelivered {
				b.find(Finding{
					Guarantee: NothingDuplicated, Message: d.Message, Queue: d.Queue, Events: []int{d.Seq},
					Text: fmt.Sprintf("%s was delivered from queue %q, to which its publisher never sent it", d.Message, d.Queue),
				})
			}
			continue
		}
		t.Deliveries++
		t.seqs = append(t.seqs, d.Seq)
		if d.Redelivered && !d.afterStop {
			t.Redeliveries++
		}
		t.last = d
		b.broadcasts(d)
		t.copied = append(t.copied, d.Copies...)
		switch {
		case d.Acked == 0:
		case d.Verdict == handledOK:
			t.Handled++
			if hasty[d] {
				b.find(Finding{
					Guarantee: ReleasedSafely, Message: d.Message, Queue: d.Queue, Events: nonZero(d.Seq, d.Acked, d.Called, d.Settled),
					Text: fmt.Sprintf("%s was acked before its handler had finished: a crash in between would have lost it", d.Message),
				})
			}
		case len(d.Copies) > 0:
			b.gradeRelease(t, d)
		default:
			t.gone = append(t.gone, d)
			if d.Called == 0 && !d.NoAck {
				b.find(Finding{
					Guarantee: WireAgrees, Message: d.Message, Queue: d.Queue, Events: []int{d.Seq, d.Acked},
					Text: fmt.Sprintf("%s was acked although its handler had not been called", d.Message),
				})
			}
		}
	}
	for k, t := range entries {
		if parked := b.terms.ParkedQueue(k.queue); parked != "" {
			p := entryKey{k.message, parked}
			t.Parked = len(b.drained(p)) + b.buried[p]
			t.seqs = append(t.seqs, b.drained(p)...)
		}
		if b.terms.Kept[k.queue] {
			t.Kept = len(b.drained(k))
			t.seqs = append(t.seqs, b.drained(k)...)
		}
	}
}

// broadcasts finds copies of a failed delivery that went to others than its own consumer. That is
// no matter of how often: no fault makes a consumer address another one.
func (b *Book) broadcasts(d *Delivery) {
	if d.Verdict == handledOK {
		return
	}
	for _, c := range d.Copies {
		for _, queue := range c.To {
			if queue == d.Queue || queue == b.terms.ParkedQueue(d.Queue) || !b.others(queue) {
				continue
			}
			b.find(Finding{
				Guarantee: NothingDuplicated, Message: d.Message, Queue: queue, Events: nonZero(d.Seq, c.Seq),
				Text: fmt.Sprintf("%s failed in queue %q, and its copy was sent to queue %q, which is not its own", d.Message, d.Queue, queue),
			})
		}
	}
}

// others reports whether the queue is read by a consumer or watched by the case.
func (b *Book) others(queue string) bool {
	if b.terms.Kept[queue] {
		return true
	}
	for _, source := range b.terms.Consumers {
		if source == queue {
			return true
		}
	}
	return false
}

// gradeRelease grades the ack of a delivery that was copied; without acks there is none.
func (b *Book) gradeRelease(t *tally, d *Delivery) {
	if d.NoAck {
		return
	}
	c, g := best(d)
	t.Releases = append(t.Releases, g)
	if g == ReleasedUnsafe {
		b.find(Finding{
			Guarantee: ReleasedSafely, Message: d.Message, Queue: d.Queue,
			Text:   fmt.Sprintf("%s %s", d.Message, whyUnsafe(d, c)),
			Events: nonZero(d.Seq, d.Acked, c.Seq, c.Confirmed, c.Returned, c.Refused),
		})
	}
}

// strays are drained messages that are nobody's fate: they are left waiting.
func (b *Book) strays(entries map[entryKey]*tally) {
	parked := map[string]bool{}
	for k := range entries {
		parked[b.terms.ParkedQueue(k.queue)] = true
	}
	for _, source := range b.terms.Consumers {
		parked[b.terms.ParkedQueue(source)] = true
	}
	var keys []entryKey
	for queue, messages := range b.DrainedFrom {
		for message := range messages {
			keys = append(keys, entryKey{message, queue})
		}
	}
	slices.SortFunc(keys, func(x, y entryKey) int {
		return cmp.Or(strings.Compare(x.message, y.message), strings.Compare(x.queue, y.queue))
	})
	for _, k := range keys {
		if !b.published[k.message] {
			continue // said already
		}
		_, own := entries[k]
		switch {
		case b.terms.Kept[k.queue] && own:
		case parked[k.queue] && b.parkedOf(entries, k):
		case parked[k.queue]:
			b.wait(entries, k)
			b.find(Finding{
				Guarantee: NothingWaits, Message: k.message, Queue: k.queue, Events: b.drained(k),
				Text: fmt.Sprintf("%s was in queue %q, which is the parking queue of a queue that it was never sent to", k.message, k.queue),
			})
		case b.terms.Kept[k.queue]:
			b.find(Finding{
				Guarantee: NothingDuplicated, Message: k.message, Queue: k.queue, Events: b.drained(k),
				Text: fmt.Sprintf("%s reached queue %q, to which its publisher never sent it", k.message, k.queue),
			})
		default:
			b.wait(entries, k)
			b.find(Finding{
				Guarantee: NothingWaits, Message: k.message, Queue: k.queue, Events: b.drained(k),
				Text: fmt.Sprintf("%s was still in queue %q when everything had settled", k.message, k.queue),
			})
		}
	}
}

// wait counts what was left in a queue for the entries that it may be: that of the queue itself, or
// that of the queue that its routing key names (a copy in a retry queue keeps it for its way home),
// or else all of the message.
func (b *Book) wait(entries map[entryKey]*tally, k entryKey) {
	for _, e := range b.DrainedFrom[k.queue][k.message] {
		if t := entries[k]; t != nil {
			t.waiting++
			continue
		}
		if t := entries[entryKey{k.message, e.Key}]; t != nil {
			t.waiting++
			continue
		}
		for ek, t := range entries {
			if ek.message == k.message {
				t.waiting++
			}
		}
	}
}

func (b *Book) parkedOf(entries map[entryKey]*tally, k entryKey) bool {
	for ek := range entries {
		if ek.message == k.message && b.terms.ParkedQueue(ek.queue) == k.queue {
			return true
		}
	}
	return false
}

// judge gives the entry its one fate, or says what is wrong.
func (b *Book) judge(t *tally) {
	total := t.Handled + t.Parked + t.Kept
	switch {
	case t.Kept > 0:
		t.Fate = Kept
	case t.Parked > 0:
		t.Fate = Parked
	case t.Handled > 0:
		t.Fate = Handled
	case b.terms.DroppedOnPurpose[t.Message]:
		t.Fate = Dropped
	case b.terms.MayExpire[t.Message]:
		t.Fate = Expired
	case t.waiting > 0 || !b.terms.Drained:
		t.Fate = Waiting
	case t.Times == 0:
		return // the broker never said that it took the message
	default:
		t.Fate = Lost
		b.find(Finding{
			Guarantee: NothingLost, Message: t.Message, Queue: t.Queue, Events: t.trail(),
			Text: fmt.Sprintf("%s has no fate: it was neither handled nor parked, and no queue holds it (%s)", t.Message, b.cause(t)),
		})
	}
	mayGo := b.terms.DroppedOnPurpose[t.Message] || b.terms.MayExpire[t.Message]
	if found := total + t.waiting; found < t.Times && found > 0 && b.terms.Drained && !mayGo {
		t.Fate = Lost
		b.find(Finding{
			Guarantee: NothingLost, Message: t.Message, Queue: t.Queue, Events: t.trail(),
			Text: fmt.Sprintf("%s was published %s to queue %q, and %s (%s)", t.Message, times(t.Times), t.Queue, t.missing(found), b.cause(t)),
		})
	}
	if extra := total - t.Times - t.unsure; extra > b.Faults(t.Message) {
		b.find(Finding{
			Guarantee: NothingDuplicated, Message: t.Message, Queue: t.Queue, Events: t.trail(),
			Text: fmt.Sprintf("%s was published %s to queue %q and ended %s: %s", t.Message, times(t.Times), t.Queue, times(total), t.fates()),
		})
	}
	for _, d := range t.gone {
		if t.Fate == Lost || b.terms.DroppedOnPurpose[t.Message] {
			break // said already, or meant
		}
		b.find(Finding{
			Guarantee: NothingLost, Message: t.Message, Queue: t.Queue, Events: nonZero(d.Seq, d.Called, d.Settled, d.Acked),
			Text: fmt.Sprintf("a delivery of %s %s", t.Message, goneText(d)),
		})
	}
	if t.Redeliveries > 0 && b.Faults(t.Message) == 0 && !b.terms.MayRedeliver {
		b.find(Finding{
			Guarantee: NotRedelivered, Message: t.Message, Queue: t.Queue, Events: b.redeliveries(t),
			Text: fmt.Sprintf("%s was handed back to queue %q and redelivered %s, though nothing broke", t.Message, t.Queue, times(t.Redeliveries)),
		})
	}
}

func (b *Book) redeliveries(t *tally) []int {
	var seqs []int
	for _, d := range b.Deliveries {
		if d.Redelivered && !d.afterStop && d.Message == t.Message && d.Queue == t.Queue {
			seqs = append(seqs, d.Seq)
		}
	}
	return seqs
}

// missing says how many of the publishes have no fate.
func (t *tally) missing(found int) string {
	if n := t.Times - found; n > 1 {
		return fmt.Sprintf("%d of them have no fate", n)
	}
	return "one of them has no fate"
}

// cause says, as far as the events show it, how a message was lost.
func (b *Book) cause(t *tally) string {
	d := t.last
	if len(t.gone) > 0 {
		d = t.gone[len(t.gone)-1]
	}
	switch {
	case d == nil:
		return "it was never delivered"
	case len(t.gone) > 0:
		return "its last delivery " + goneText(d)
	case d.Rejected != 0:
		return "its last delivery was rejected without requeue"
	case d.Back != 0:
		return "its last delivery went back to its queue, and it was never delivered again"
	case d.Acked == 0:
		return "its last delivery was never settled"
	case len(d.Copies) == 0:
		return "its last delivery was acked"
	}
	c, _ := best(d)
	switch {
	case c.Returned != 0:
		return fmt.Sprintf("its copy to exchange %q with key %q was returned as unroutable", c.Exchange, c.Key)
	case c.Refused != 0:
		return "the broker refused its copy"
	case len(c.To) == 0:
		return "its copy went to " + nowhere(c.Exchange, c.Key)
	default:
		return fmt.Sprintf("its last copy went to queue %q", strings.Join(c.To, `", "`))
	}
}

// nowhere names the place of a publish that no queue got.
func nowhere(exchange, key string) string {
	if exchange == "" {
		return fmt.Sprintf("queue %q, which did not exist", key)
	}
	return fmt.Sprintf("exchange %q with key %q, where no queue was bound", exchange, key)
}

// goneText says how a delivery was released with nothing to show for it.
func goneText(d *Delivery) string {
	how := "was acked without a copy, "
	if d.NoAck {
		how = "needed no ack and has no copy, "
	}
	switch {
	case d.Called == 0:
		return how + "and its handler was never called"
	case d.Verdict == "":
		return how + "while its handler was still running"
	default:
		return how + fmt.Sprintf("although its handler had failed (%s)", d.Verdict)
	}
}

func (t *tally) fates() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{t.Handled, "handled"}, {t.Parked, "parked"}, {t.Kept, "kept"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", p.what, times(p.n)))
		}
	}
	return strings.Join(parts, ", ")
}

func (t *tally) trail() []int {
	seqs := slices.Clone(t.seqs)
	for _, c := range t.copied {
		seqs = append(seqs, c.Seq)
	}
	for _, d := range t.gone {
		seqs = append(seqs, d.Acked)
	}
	slices.Sort(seqs)
	return slices.Compact(seqs)
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	default:
		return fmt.Sprintf("%d times", n)
	}
}

func nonZero(seqs ...int) []int {
	seqs = slices.DeleteFunc(seqs, func(s int) bool { return s == 0 })
	slices.Sort(seqs)
	return seqs
}

// natural orders "m2" before "m10".
func natural(x, y string) int {
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
}

func described(e Event) string {
	if e.Content == nil {
		return "unreadable"
	}
	if e.Message != "" {
		return "message " + e.Message
	}
	return fmt.Sprintf("%d bytes, no message id", e.Content.Size)
}
