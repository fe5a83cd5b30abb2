package ledger

import "time"

// AtRest reports whether, by all that was seen on the wire, nothing more will happen of itself: no
// delivery is unsettled, no copy awaits its confirm, and no message is on its way to a consumer that
// has not cancelled itself.
// Then there is no use in waiting on.
func (b *Book) AtRest() bool {
	for _, copies := range b.CopiesOf {
		for _, c := range copies {
			if c.Confirms && c.Confirmed == 0 && c.Returned == 0 && c.Refused == 0 && c.Lost == 0 {
				return false
			}
		}
	}
	for _, d := range b.Deliveries {
		if d.Open() || d.Rejected != 0 && b.moves(d.Queue) {
			return false
		}
	}
	return b.silenced || !b.awaited()
}

// awaited reports whether a message that a queue has, or sends on, is still to be delivered. One that may be
// dropped is not waited for.
func (b *Book) awaited() bool {
	consumed := map[string]bool{}
	for _, queue := range b.terms.Consumers {
		consumed[queue] = true
	}
	coming := map[string]int{}
	for _, o := range b.Offers {
		if o.Returned != 0 || o.Refused != 0 {
			continue
		}
		for _, queue := range o.To {
			if consumed[queue] {
				coming[o.Message]++
			}
		}
	}
	for message, copies := range b.CopiesOf {
		for _, c := range copies {
			if c.Returned != 0 || c.Refused != 0 || c.Lost != 0 {
				continue
			}
			for _, queue := range c.To {
				if consumed[queue] || b.moves(queue) {
					coming[message]++
				}
			}
		}
	}
	for _, d := range b.Deliveries {
		if d.Back == 0 {
			coming[d.Message]--
		}
	}
	for message, n := range coming {
		if n > 0 && !b.terms.DroppedOnPurpose[message] {
			return true
		}
	}
	return false
}

// LastLost is when a copy was last lost sight of, which may have reached its queue or not; false where none
// was. Copies of a message that may be dropped are so as soon as they are confirmed: nobody waits for them.
func (b *Book) LastLost(events []Event) (at time.Duration, any bool) {
	for _, c := range b.copies {
		seq := c.Lost
		if b.terms.DroppedOnPurpose[c.Message] {
			seq = max(seq, c.Seq, c.Confirmed)
		}
		if seq != 0 {
			at, any = max(at, events[seq-1].At), true
		}
	}
	return at, any
}

// moves reports whether the queue sends messages on by itself, to where it dead-letters.
func (b *Book) moves(queue string) bool {
	_, moves := b.Topology.Queues[queue].Args.Get("x-dead-letter-exchange")
	_, expires := b.Topology.Queues[queue].Args.Get("x-message-ttl")
	return moves || expires
}

// runaway is more deliveries of one message to one process than any ladder of a case has attempts:
// it is in a loop, and waiting for its end is of no use.
const runaway = 50

// RunsAway reports whether a message is delivered over and over again.
func (b *Book) RunsAway() bool {
	for _, ds := range b.ofMessage {
		if len(ds) > runaway && ds[0].Message != "" {
			return true
		}
	}
	return false
}
