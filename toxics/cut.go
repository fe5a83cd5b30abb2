package toxics

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

const (
	// answerLimit bounds the wait for the broker's answer to what was passed on: it mostly takes
	// milliseconds, and a broker that is blocked gives none.
	answerLimit = 5 * time.Second
	// farewellLimit bounds the wait for a receiver to close its side of a connection that has ended; it mostly
	// takes milliseconds.
	farewellLimit = time.Second
	// reaction is how long a client has to show what a frame brings about in it. Many bring about
	// nothing that can be seen, so the wait has an end of its own.
	reaction = 100 * time.Millisecond
)

// awaited is what a cut waits for in one direction, in which nothing is passed on any more.
type awaited struct {
	fromBroker bool
	channel    uint16
	fits       func(frame.Method) bool
	seen       chan frame.Method
}

func (a *awaited) see(c ledger.Command) {
	if c.Method == nil || !c.Whole {
		return
	}
	// The end of the connection, which comes on channel 0, answers everything.
	if _, ends := c.Method.(*frame.ConnectionClose); !ends && (c.Channel != a.channel && a.fromBroker || !a.fits(c.Method)) {
		return
	}
	select {
	case a.seen <- c.Method:
	default:
	}
}

// cutAt cuts the connection at a command, in the fault's way.
func (l *Link) cutAt(out *outgoing, a *Armed, c ledger.Command, s *ledger.Sighting, of *begun) {
	l.send(out)
	l.fired(a, s, false)
	if a.Trigger.Inside {
		out.data = append(out.data, of.part(a.Action)...)
		l.send(out)
		l.sever(out.d, a.Action == CutUnseen)
		return
	}
	if a.Action == CutBefore {
		l.sever(out.d, false)
		return
	}
	// A confirm that was to be passed on before this one, or is this one, is passed on now.
	out.data = l.appendHeld(out.data, out.d, true)
	if a.Action == CutUnseen {
		l.passNow(out, c, of.raw)
		l.send(out)
		l.sever(out.d, true)
		return
	}
	l.passNow(out, c, of.raw)
	wait := l.await(c, s)
	out.data = append(out.data, wait.marker...)
	l.send(out)
	l.flush(out.d)
	out.d.rests()
	if what := wait.done(); what != "" {
		l.note(0, what)
	}
	l.sever(out.d, false)
}

// part is the beginning of a content: without its header for a cut before; for others into the middle of
// its body, or of its header where there is no body.
func (b *begun) part(a Action) []byte {
	switch {
	case a == CutBefore || len(b.ends) < 2:
		return b.raw[:b.ends[0]]
	case len(b.ends) == 2:
		return b.raw[:(b.ends[0]+b.ends[1])/2]
	default:
		return b.raw[:(b.ends[1]+len(b.raw))/2]
	}
}

// passNow passes a command on whatever is usually kept back.
func (l *Link) passNow(out *outgoing, c ledger.Command, raw []byte) {
	effect := l.follower.Apply(c)
	if effect.Void {
		return
	}
	if effect.Hold {
		l.follower.Passed(effect)
	}
	l.tune(out.d, effect)
	out.data = append(out.data, raw...)
}

// waiting is the wait for what a command brings about.
type waiting struct {
	marker []byte
	done   func() string
}

// await begins to wait for what a command, which has just taken effect on the ledger, brings about at its
// receiver. A broker shows it by its answer,
// and where there is none to be had, by the answer to a request that parkproof sends after it on the same
// channel and keeps to itself: RabbitMQ takes a channel's commands in order.
func (l *Link) await(c ledger.Command, s *ledger.Sighting) waiting {
	if c.FromBroker {
		return l.awaitReaction()
	}
	a := &awaited{channel: c.Channel, fromBroker: true, seen: make(chan frame.Method, 1)}
	var marker []byte
	switch c.Method.(type) {
	case *frame.ConnectionTuneOk, *frame.ConnectionCloseOk, *frame.ChannelCloseOk:
		return waiting{done: func() string { return "" }} // nothing answers these
	default:
		a.fits = func(m frame.Method) bool { return !isDelivery(m) }
		if c.Channel == 0 {
			break
		}
		if _, opens := c.Method.(*frame.ChannelOpen); opens {
			break
		}
		if _, closes := c.Method.(*frame.ChannelClose); closes {
			a.fits = closesChannel
			break
		}
		if s.Method == "basic.publish" && s.Confirms {
			a.fits = answersPublish(l.publishTag(c.Channel))
			break
		}
		marker, _ = frame.AppendMethodFrame(nil, c.Channel, &frame.ChannelFlow{Active: true})
		a.fits = func(m frame.Method) bool {
			_, marked := m.(*frame.ChannelFlowOk)
			return marked || closesChannel(m)
		}
	}
	l.awaited.Store(a)
	return waiting{marker: marker, done: func() string {
		limit := time.NewTimer(l.faults.answerLimit)
		defer limit.Stop()
		select {
		case m := <-a.seen:
			if _, marked := m.(*frame.ChannelFlowOk); marked {
				return "the broker has taken it"
			}
			return "the broker answered with " + m.Name() + ", which was not passed on"
		case <-l.closed:
			return ""
		case <-limit.C:
			return "the broker gave no answer in " + l.faults.answerLimit.String()
		}
	}}
}

// publishTag is the number of the last publish that was passed on on a channel.
func (l *Link) publishTag(channel uint16) uint64 {
	for _, e := range slices.Backward(l.ledger.Events()) {
		if e.Kind == ledger.Published && e.Process == l.process && e.Conn == l.Number && e.Channel == channel {
			return e.Tag
		}
	}
	return 0
}

// answersPublish tells the answer to a publish from those to the ones before it.
func answersPublish(published uint64) func(frame.Method) bool {
	return func(m frame.Method) bool {
		switch m.(type) {
		case *frame.BasicAck, *frame.BasicNack:
			tag, multiple := ledger.ConfirmTag(m)
			return tag == published || multiple && (tag > published || tag == 0)
		default:
			return closesChannel(m)
		}
	}
}

// closesChannel reports whether nothing else can come on the channel after the method.
func closesChannel(m frame.Method) bool {
	switch m.(type) {
	case *frame.ChannelClose, *frame.ChannelCloseOk:
		return true
	default:
		return false
	}
}

// awaitReaction waits for what a client does once it has been told something: its next command here, which
// is not passed on, or anything else that the ledger has of its process.
func (l *Link) awaitReaction() waiting {
	a := &awaited{seen: make(chan frame.Method, 1), fits: func(frame.Method) bool { return true }}
	l.awaited.Store(a)
	from := len(l.ledger.Events())
	return waiting{done: func() string {
		ctx, cancel := context.WithTimeout(context.Background(), reaction)
		defer cancel()
		reacted := make(chan struct{})
		go func() {
			defer close(reacted)
			_ = l.ledger.Until(ctx, func(events []ledger.Event) bool {
				for _, e := range events[from:] {
					if e.Process == l.process && !e.Broker {
						return true
					}
				}
				return false
			})
		}()
		var m frame.Method
		select {
		case m = <-a.seen:
			cancel()
		case <-reacted:
		case <-l.closed:
			cancel()
		}
		<-reacted
		if m != nil {
			return "the consumer answered with " + m.Name() + ", which was not passed on"
		}
		return ""
	}}
}

func isDelivery(m frame.Method) bool {
	switch m.(type) {
	case *frame.BasicDeliver, *frame.BasicReturn:
		return true
	default:
		return false
	}
}

// sever ends the connection, once all that was passed on has gone out. With reset, the receiver of the
// direction sees an orderly end and the sender a reset.
func (l *Link) sever(d *direction, reset bool) {
	l.flush(d)
	l.end(false, ledger.CutByParkproof)
	d.deaf = true
	d.rests()
	for _, side := range l.sides {
		if side != d {
			l.settle(side) // what the ledger says was passed on has been
		}
	}
	if reset {
		sender, receiver := l.client, l.broker
		if d.fromBroker {
			sender, receiver = receiver, sender
		}
		if tcp, ok := receiver.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		l.reset(sender)
		_ = sender.Close()
		// The receiver takes all that it was sent before it sees the end, and closes its side: only then the
		// other half may be closed, since a reset would take away from it what it has not read yet.
		farewell := time.NewTimer(farewellLimit)
		defer farewell.Stop()
		select {
		case <-l.closed:
		case <-farewell.C:
		}
	}
	l.Cut()
}

// stopAt has something done to the process before the command is passed on.
func (l *Link) stopAt(out *outgoing, a *Armed, c ledger.Command, s *ledger.Sighting, of *begun) {
	l.send(out)
	l.flush(out.d)
	l.acting.Lock()
	defer l.acting.Unlock()
	l.fired(a, s, false)
	out.d.rests()
	gone := a.Act()
	out.d.works()
	if gone && c.FromBroker {
		out.d.deaf = true // what comes after it was on its way to the process too
		return
	}
	if a.Trigger.Inside && !c.FromBroker {
		// The process ended in mid-content.
		out.data = append(out.data, of.part(CutAfter)...)
		l.send(out)
		l.flush(out.d)
		l.sever(out.d, false)
		return
	}
	if gone {
		// A broker that sees the connection end may drop what it has read of it and not done yet. The process
		// had sent it: let it count.
		l.passNow(out, c, of.raw)
		wait := l.await(c, s)
		out.data = append(out.data, wait.marker...)
		l.send(out)
		l.flush(out.d)
		out.d.rests()
		if what := wait.done(); what != "" {
			l.note(0, what)
		}
		out.d.works()
		return
	}
	l.goOn(out, c, of.raw, time.Time{}, nil)
	l.send(out)
	l.flush(out.d)
}

// Sever cuts the connection now, whatever is on its way.
func (l *Link) Sever(text string) {
	l.ledger.Add(ledger.Event{Kind: ledger.Fired, Process: l.process, Conn: l.Number, Text: text})
	l.end(false, ledger.CutByParkproof)
	l.Cut()
}
