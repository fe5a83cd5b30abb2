package ledger

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Subscription is a consumer's process consuming a queue, from the answered basic.consume to its end.
type Subscription struct {
	Process string
	Conn    int
	Channel uint16
	Queue   string
	// Consumer is the consumer tag.
	Consumer string
	NoAck    bool
	// Began is the Seq of its beginning, At the time of it.
	Began int
	At    time.Duration
	// End is its cancel by either side, or the end of its channel, connection or queue.
	End End
}

// Open reports whether the subscription has not ended.
func (s Subscription) Open() bool { return s.End.Seq == 0 }

// Subscriptions are those of the consumers' processes, in order; parkproof's own are left out. A client's
// cancel ends one when it is sent.
func Subscriptions(events []Event) []Subscription {
	var list []Subscription
	open := map[subscriptionKey]int{} // places in the list
	end := func(k subscriptionKey, e Event) {
		list[open[k]].End = endOf(e)
		delete(open, k)
	}
	for _, e := range events {
		if e.Kind == QueueDeleted {
			// Whoever deletes a queue, parkproof too, it is the broker that ends its consumers.
			for k, i := range open {
				if list[i].Queue == e.Queue {
					list[i].End = End{Seq: e.Seq, At: e.At, By: ByBroker, Text: "the queue was deleted"}
					delete(open, k)
				}
			}
			continue
		}
		if e.Process == "" {
			continue
		}
		k := subscriptionKey{e.Process, e.Conn, e.Channel, e.Consumer}
		switch e.Kind {
		case Consuming:
			if _, again := open[k]; again {
				break // the tag is in use: the broker closes the connection for it
			}
			open[k] = len(list)
			list = append(list, Subscription{
				Process: e.Process, Conn: e.Conn, Channel: e.Channel, Queue: e.Queue, Consumer: e.Consumer, NoAck: e.NoAck,
				Began: e.Seq, At: e.At,
			})
		case Cancelled:
			if _, ok := open[k]; ok {
				end(k, e)
			}
		case ChannelClosed, ConnectionClosed, ConnectionLost:
			for of := range open {
				if of.process == e.Process && of.conn == e.Conn && (e.Kind != ChannelClosed || of.channel == e.Channel) {
					end(of, e)
				}
			}
		}
	}
	return list
}

// Consumption is how many consumers a queue had over time.
type Consumption struct {
	Queue string
	// Changes are the points at which the number changed, in order.
	Changes []ConsumerCount
	// Most is the most that a process ever had at once, by process; End what is left after the last event.
	Most map[string]int
	End  int
}

// ConsumerCount is how many consumers a queue had from an event on.
type ConsumerCount struct {
	Seq int
	At  time.Duration
	// Consumers are those of all processes.
	Consumers int
}

// Peak is the most consumers that the queue had at once, of all processes together.
func (c Consumption) Peak() int {
	most := 0
	for _, change := range c.Changes {
		most = max(most, change.Consumers)
	}
	return most
}

// Consumptions counts the subscriptions by queue, in the order of the queues' names.
func Consumptions(subscriptions []Subscription) []Consumption {
	type step struct {
		seq     int
		at      time.Duration
		process string
		by      int
	}
	steps := map[string][]step{}
	for _, s := range subscriptions {
		steps[s.Queue] = append(steps[s.Queue], step{s.Began, s.At, s.Process, 1})
		if !s.Open() {
			steps[s.Queue] = append(steps[s.Queue], step{s.End.Seq, s.End.At, s.Process, -1})
		}
	}
	var list []Consumption
	for queue, steps := range steps {
		slices.SortFunc(steps, func(x, y step) int { return cmp.Compare(x.seq, y.seq) })
		c := Consumption{Queue: queue, Most: map[string]int{}}
		now := map[string]int{}
		for _, s := range steps {
			now[s.process] += s.by
			c.End += s.by
			c.Most[s.process] = max(c.Most[s.process], now[s.process])
			change := ConsumerCount{s.seq, s.at, c.End}
			if n := len(c.Changes); n > 0 && c.Changes[n-1].Seq == s.seq {
				c.Changes[n-1] = change // a connection's end ends several at once
				continue
			}
			c.Changes = append(c.Changes, change)
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(x, y Consumption) int { return strings.Compare(x.Queue, y.Queue) })
	return list
}
