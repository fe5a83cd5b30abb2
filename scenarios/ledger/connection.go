package ledger

import (
	"slices"
	"strings"
	"time"
)

// CutByParkproof is how the text of a ConnectionLost begins that parkproof itself brought about.
const CutByParkproof = "parkproof cut the connection"

// Side says who brought the end of a connection, a channel or a subscription about.
type Side string

// The sides.
const (
	ByClient    Side = "client"
	ByBroker    Side = "broker"
	ByParkproof Side = "parkproof" // a fault cut the connection
	// Unsaid: the connection ended without a close.
	Unsaid Side = "lost"
)

// End is how a connection, a channel or a subscription ended. The zero End is that of one that has not.
type End struct {
	// Seq is the event that ended it; At the time since the ledger began.
	Seq int
	At  time.Duration
	By  Side
	// Code and Text are those of the close, where there was one; of a lost connection, Text says how it was
	// lost.
	Code uint16
	Text string
}

// endOf is the end that an event brings.
func endOf(e Event) End {
	end := End{Seq: e.Seq, At: e.At, By: ByClient, Code: e.Code, Text: e.Text}
	switch {
	case e.Kind == ConnectionLost && strings.HasPrefix(e.Text, CutByParkproof):
		end.By = ByParkproof
	case e.Kind == ConnectionLost:
		end.By = Unsaid
	case e.Broker:
		end.By = ByBroker
	}
	return end
}

// Channel is a channel of a connection. A number that is used again is another channel.
type Channel struct {
	Number uint16
	// Opened is the Seq of its opening, At the time of it.
	Opened int
	At     time.Duration
	// End is its own end, or that of its connection.
	End End
}

// Open reports whether the channel has not ended.
func (c Channel) Open() bool { return c.End.Seq == 0 }

// Connection is a connection of a consumer's process, or of parkproof's.
type Connection struct {
	// Process is the process that it belongs to; it is empty for parkproof's.
	Process string
	Number  int
	// Opened is the Seq of its opening, At the time of it. Opened is 0 for a connection that ended before the
	// broker had opened it; it never counts as open.
	Opened   int
	At       time.Duration
	End      End
	Channels []Channel
}

// Open reports whether the connection was opened and has not ended.
func (c Connection) Open() bool { return c.Opened != 0 && c.End.Seq == 0 }

// OpenChannels is how many of its channels are open.
func (c Connection) OpenChannels() int {
	n := 0
	for _, ch := range c.Channels {
		if ch.Open() {
			n++
		}
	}
	return n
}

// connectionKey is a connection of a process.
type connectionKey struct {
	process string
	conn    int
}

// Connections are the connections that the events tell of, with their channels, in the order in which they
// were first seen. To see what is open now, ask for those of all events so far.
func Connections(events []Event) []Connection {
	var list []Connection
	at := map[connectionKey]int{} // places in the list
	of := func(e Event) *Connection {
		k := connectionKey{e.Process, e.Conn}
		i, ok := at[k]
		if !ok {
			i = len(list)
			at[k] = i
			list = append(list, Connection{Process: e.Process, Number: e.Conn})
		}
		return &list[i]
	}
	for _, e := range events {
		switch e.Kind {
		case ConnectionOpened:
			if c := of(e); c.Opened == 0 && c.End.Seq == 0 {
				c.Opened, c.At = e.Seq, e.At
			}
		case ChannelOpened:
			c := of(e)
			if c.End.Seq == 0 && c.openChannel(e.Channel) == nil {
				c.Channels = append(c.Channels, Channel{Number: e.Channel, Opened: e.Seq, At: e.At})
			}
		case ChannelClosed:
			if i, ok := at[connectionKey{e.Process, e.Conn}]; ok {
				if ch := list[i].openChannel(e.Channel); ch != nil {
					ch.End = endOf(e)
				}
			}
		case ConnectionClosed, ConnectionLost:
			c := of(e)
			if c.End.Seq != 0 {
				break
			}
			c.End = endOf(e)
			for i := range c.Channels {
				if ch := &c.Channels[i]; ch.Open() {
					ch.End = c.End
				}
			}
		}
	}
	return list
}

// openChannel is the open channel of that number; nil where there is none. It is one of the last: a library
// that opens a channel for every publish has closed the ones before.
func (c *Connection) openChannel(number uint16) *Channel {
	for i := len(c.Channels) - 1; i >= 0; i-- {
		if c.Channels[i].Number == number {
			if c.Channels[i].Open() {
				return &c.Channels[i]
			}
			return nil
		}
	}
	return nil
}

// Opening is how many connections and channels a process had open.
type Opening struct {
	// Most is the most at once, End what is still open after the last event.
	MostConnections, EndConnections int
	MostChannels, EndChannels       int
}

// Openings counts the connections and channels by process.
func Openings(connections []Connection) map[string]Opening {
	// Each opening and each end is a step up or down, at a Seq.
	type level struct {
		seq  int
		step int
	}
	conns, chans := map[string][]level{}, map[string][]level{}
	count := func(levels map[string][]level, process string, opened, ended int) {
		levels[process] = append(levels[process], level{opened, 1})
		if ended != 0 {
			levels[process] = append(levels[process], level{ended, -1})
		}
	}
	openings := map[string]Opening{}
	for _, c := range connections {
		openings[c.Process] = Opening{}
		if c.Opened != 0 {
			count(conns, c.Process, c.Opened, c.End.Seq)
		}
		for _, ch := range c.Channels {
			count(chans, c.Process, ch.Opened, ch.End.Seq)
		}
	}
	most := func(levels []level) (most, now int) {
		slices.SortFunc(levels, func(x, y level) int { return x.seq - y.seq }) // a Seq opens one or ends some
		for _, l := range levels {
			now += l.step
			most = max(most, now)
		}
		return most, now
	}
	for process, o := range openings {
		o.MostConnections, o.EndConnections = most(conns[process])
		o.MostChannels, o.EndChannels = most(chans[process])
		openings[process] = o
	}
	return openings
}
