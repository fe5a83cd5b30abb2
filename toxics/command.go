package toxics

import (
	"bytes"
	"slices"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// outgoing is what one round of a tap passes on: bytes so far, in their order.
type outgoing struct {
	stub *toxics.ToxicStub
	d    *direction
	data []byte
	at   time.Time
}

// takeCommands is take where faults may fire: it puts commands together, looks at each before it takes
// effect, and passes them on whole.
func (l *Link) takeCommands(stub *toxics.ToxicStub, d *direction, chunk *stream.StreamChunk) {
	if d.deaf {
		return
	}
	if limit := int(l.maxFrame.Load()); limit != d.maxFrame {
		d.maxFrame = limit
		d.reader.SetMaxFrame(limit)
	}
	out := &outgoing{stub: stub, d: d, at: chunk.Timestamp}
	d.reader.Feed(chunk.Data)
	for !d.deaf {
		f, ok, err := d.reader.Next()
		if err != nil {
			l.send(out)
			l.garbage(d, err)
			return
		}
		if !ok {
			break
		}
		c, _ := l.follower.Assemble(d.fromBroker, f) // what cannot be understood, the ledger tells; it is passed on
		if l.lost.Load() {
			d.deaf = true // nobody will have seen it
			break
		}
		if a := l.awaited.Load(); a != nil && a.fromBroker == d.fromBroker {
			a.see(c)
			continue // its cut has been decided on: nobody is told of this any more
		}
		l.takeFrame(out, c, f)
	}
	l.send(out)
}

// takeFrame passes a frame on where it is no part of a command that has to be looked at as a whole.
func (l *Link) takeFrame(out *outgoing, c ledger.Command, f frame.Frame) {
	d := out.d
	b := d.begun[f.Channel]
	switch {
	case c.Begins:
		d.begun[f.Channel] = &begun{raw: bytes.Clone(f.Raw), ends: []int{len(f.Raw)}}
	case c.Inside && b != nil:
		b.raw = append(b.raw, f.Raw...)
		b.ends = append(b.ends, len(b.raw))
		switch {
		case c.Whole:
			delete(d.begun, f.Channel)
			l.takeCommand(out, c, b)
		case d.overlong(b):
			delete(d.begun, f.Channel)
			out.data = append(out.data, b.raw...)
		}
	case c.Inside && c.Whole:
		// Its first frames went on before anybody asked: it cannot be kept back any more.
		if !l.follower.Apply(c).Void {
			out.data = append(out.data, f.Raw...)
		}
	case c.Whole:
		l.takeCommand(out, c, &begun{raw: f.Raw, ends: []int{len(f.Raw)}})
	default:
		delete(d.begun, f.Channel) // an error has ended the content
		if b != nil {
			out.data = append(out.data, b.raw...)
		}
		out.data = append(out.data, f.Raw...)
	}
}

// takeCommand lets a fault fire at a whole command, or passes it on.
func (l *Link) takeCommand(out *outgoing, c ledger.Command, of *begun) {
	s := l.follower.Sight(c)
	a := l.faults.decide(l, &s)
	if a == nil {
		l.goOn(out, c, of.raw, time.Time{}, nil)
		return
	}
	switch a.Action {
	case CutBefore, CutAfter, CutUnseen:
		l.cutAt(out, a, c, &s, of)
	case Hold:
		l.fired(a, &s, true)
		l.goOn(out, c, of.raw, out.at, a)
	case Delay:
		l.fired(a, &s, true)
		l.goOn(out, c, of.raw, out.at.Add(a.For), a)
	case Drop:
		// Of a confirm of many, those that are meant.
		s.Targets = slices.DeleteFunc(s.Targets, func(t ledger.Target) bool { return !a.Trigger.means(t) })
		l.fired(a, &s, true)
		l.drop(out, a, c)
	case Stop:
		l.stopAt(out, a, c, &s, of)
	}
}

// goOn passes a command on, or keeps it back: for a fault until due and released, or since it may not
// overtake what is kept back on its channel.
func (l *Link) goOn(out *outgoing, c ledger.Command, raw []byte, due time.Time, by *Armed) {
	d := out.d
	if isConfirm(c) {
		l.confirm(out, c, raw, due, by)
		return
	}
	if lane, free := laneOf(c); by != nil || !free && d.busy(lane) {
		d.held = append(d.held, held{due: due, by: by, raw: bytes.Clone(raw), lane: lane, free: free, command: c})
		return
	}
	out.data = l.appendCommand(out.data, d, c, raw)
}

// appendCommand appends a command that is passed on now, after what has to go before it.
func (l *Link) appendCommand(out []byte, d *direction, c ledger.Command, raw []byte) []byte {
	effect := l.follower.Apply(c)
	if effect.Void {
		return out
	}
	l.tune(d, effect)
	if effect.Ends {
		out = l.appendHeld(out, d, true)
	}
	var gone []held
	switch c.Method.(type) {
	case *frame.ChannelClose, *frame.ChannelCloseOk:
		gone = d.forget(c.Channel, false)
	case *frame.ConnectionClose, *frame.ConnectionCloseOk:
		gone = d.forget(0, true)
	}
	for _, h := range gone {
		l.note(h.channel(), "what was held when its channel or connection closed is never passed on"+aboutHeld(&h))
	}
	return append(out, raw...)
}

// aboutHeld names what is held.
func aboutHeld(h *held) string {
	switch {
	case h.confirm:
		return ": a confirm"
	case h.command.Message != "":
		return ": " + h.command.Method.Name() + " of " + h.command.Message
	default:
		return ": " + h.command.Method.Name()
	}
}

// note writes down what a fault has brought about besides.
func (l *Link) note(channel uint16, text string) {
	l.ledger.Add(ledger.Event{Kind: ledger.Noted, Process: l.process, Conn: l.Number, Channel: channel, Text: text})
}

// confirm passes a confirm on, or keeps it back.
func (l *Link) confirm(out *outgoing, c ledger.Command, raw []byte, due time.Time, by *Armed) {
	d := out.d
	if tag, multiple := ledger.ConfirmTag(c.Method); multiple && d.dropped[c.Channel] {
		// It must not speak for those that were dropped: one by one, for the others.
		raw = nil
		for _, tag := range l.follower.Answers(c) {
			raw = append(raw, oneConfirm(c, tag)...)
		}
		if raw == nil {
			return // nothing but those
		}
	} else if d.dropped[c.Channel] && len(l.follower.Answers(c)) == 0 && tag != 0 {
		return // of what was dropped
	}
	var effect ledger.Effect
	if by != nil {
		effect = l.follower.ApplyHeld(c)
	} else {
		effect = l.follower.Apply(c)
	}
	switch {
	case effect.Void:
	case effect.Hold && by == nil:
		l.hold(d, raw, effect, out.at, c.Channel)
	case effect.Hold:
		d.held = append(d.held, held{due: due, by: by, raw: bytes.Clone(raw), effect: effect, confirm: true, lane: int(c.Channel)})
	default:
		out.data = append(out.data, raw...)
	}
}

// drop takes out of a confirm what the fault means, and passes the rest on. Such a fault fires at nothing
// else.
func (l *Link) drop(out *outgoing, a *Armed, c ledger.Command) {
	others := l.follower.Drop(c, a.Trigger.means)
	out.d.dropped[c.Channel] = true
	for _, tag := range others {
		one := c
		one.Method = confirmWith(c.Method, tag)
		l.confirm(out, one, oneConfirm(c, tag), time.Time{}, nil)
	}
}

// isConfirm reports whether the command is the broker's answer to publishes.
func isConfirm(c ledger.Command) bool {
	switch c.Method.(type) {
	case *frame.BasicAck, *frame.BasicNack:
		return c.FromBroker
	default:
		return false
	}
}

// confirmWith is the same answer for one publish.
func confirmWith(m frame.Method, tag uint64) frame.Method {
	if _, refuses := m.(*frame.BasicNack); refuses {
		return &frame.BasicNack{DeliveryTag: tag}
	}
	return &frame.BasicAck{DeliveryTag: tag}
}

func oneConfirm(c ledger.Command, tag uint64) []byte {
	raw, err := frame.AppendMethodFrame(nil, c.Channel, confirmWith(c.Method, tag))
	if err != nil {
		panic(err) // two integers and a bit always fit
	}
	return raw
}

// send passes on what has come together.
func (l *Link) send(out *outgoing) {
	if len(out.data) > 0 {
		l.pass(out.stub, out.d, &stream.StreamChunk{Data: out.data, Timestamp: out.at})
		out.data = nil
	}
}

// fired writes down that a fault fired. One that concerns a single command is about its messages alone.
func (l *Link) fired(a *Armed, s *ledger.Sighting, single bool) {
	e := ledger.Event{
		Kind: ledger.Fired, Process: l.process, Conn: l.Number, Channel: s.Channel, Text: a.Text + ": " + told(l.place, s),
	}
	if !single {
		l.ledger.Add(e)
		return
	}
	for _, t := range s.Targets {
		if t.Message != "" {
			e.Message = t.Message
			l.ledger.Add(e)
		}
	}
	if e.Message == "" {
		l.ledger.Add(e)
	}
}
