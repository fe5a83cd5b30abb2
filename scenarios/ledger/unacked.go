package ledger

import "slices"

// Unacked are the deliveries to consumers' processes that are theirs still: nobody settled them, they needed
// an ack, and the end of their channel or connection, which hands them back, was never seen. Each is the
// event of the delivery, with its queue, consumer tag, connection and channel; they are in order.
func Unacked(events []Event) []Event {
	type channelKey struct {
		connectionKey
		channel uint16
	}
	open := map[channelKey]map[int]bool{} // Seqs by channel
	for _, e := range events {
		if e.Process == "" {
			continue
		}
		of := connectionKey{e.Process, e.Conn}
		k := channelKey{of, e.Channel}
		switch e.Kind {
		case Delivered:
			if e.NoAck {
				break
			}
			if open[k] == nil {
				open[k] = map[int]bool{}
			}
			open[k][e.Seq] = true
		case Acked, Nacked:
			for _, seq := range e.Covers {
				delete(open[k], seq)
			}
		case ChannelClosed:
			delete(open, k)
		case ConnectionClosed, ConnectionLost:
			for other := range open {
				if other.connectionKey == of {
					delete(open, other)
				}
			}
		}
	}
	var left []Event
	for _, seqs := range open {
		for seq := range seqs {
			left = append(left, events[seq-1])
		}
	}
	slices.SortFunc(left, func(x, y Event) int { return x.Seq - y.Seq })
	return left
}
