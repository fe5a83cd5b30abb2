package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Line is one line of a timeline.
type Line struct {
	At   time.Duration
	Who  string
	What string
	// Marked lines are those that a finding points at, and those of faults.
	Marked bool
	// Fault lines are those at which a fault fired.
	Fault bool
}

// Timeline tells what happened to the messages, and to the connections, channels and processes
// around them, one line an event. Without messages it tells of all; around a fault it tells of all too.
func Timeline(events []Event, messages []string, marked []int) []Line {
	marks := map[int]bool{}
	for _, seq := range marked {
		marks[seq] = true
	}
	faults := slices.ContainsFunc(events, func(e Event) bool { return e.Kind == Fired })
	about := map[int]bool{} // events of the messages
	var lines []Line
	var aside []bool // lines that are told only where a fault is near
	var fired []int  // places of the lines of faults
	for _, e := range events {
		if e.Process == "" && comings(e) {
			continue // parkproof's own
		}
		mine := len(messages) == 0 || e.Message != "" && slices.Contains(messages, e.Message)
		if !mine && e.Message == "" {
			mine = slices.ContainsFunc(e.Covers, func(seq int) bool { return about[seq] })
		}
		if mine && e.Message != "" {
			about[e.Seq] = true
		}
		other := !mine && !general(e) && !marks[e.Seq]
		if other && !faults {
			continue
		}
		who, what := Tell(events, e)
		if what == "" {
			continue
		}
		fault := e.Kind == Fired
		if last := len(lines) - 1; fault && last >= 0 && lines[last].Fault && lines[last].What == what {
			continue // the same firing, of another of the messages that it touched
		}
		if fault {
			fired = append(fired, len(lines))
		}
		lines = append(lines, Line{At: e.At, Who: who, What: what, Marked: marks[e.Seq] || fault, Fault: fault})
		aside = append(aside, other)
	}
	for _, at := range fired {
		for i := max(0, at-aroundFault); i <= min(len(lines)-1, at+aroundFault); i++ {
			aside[i] = false
		}
	}
	kept := lines[:0]
	for i, line := range lines {
		if !aside[i] {
			kept = append(kept, line)
		}
	}
	return kept
}

// aroundFault is how many lines before and after that of a fault are told whatever message they are of: a
// retry's way round (a delivery, its handler, the copy, its confirm, the ack) has seven.
const aroundFault = 12

// Touched are the messages that faults have named, and whether any fault has fired. It names none where a
// fault has concerned all that was on its way, such as a cut.
func Touched(events []Event) (messages []string, fired bool) {
	all := false
	for _, e := range events {
		switch {
		case e.Kind != Fired:
		case e.Message == "":
			fired, all = true, true
		default:
			fired = true
			if !slices.Contains(messages, e.Message) {
				messages = append(messages, e.Message)
			}
		}
	}
	if all {
		return nil, fired
	}
	return messages, fired
}

// comings are the events of a connection, its channels and its subscriptions.
func comings(e Event) bool {
	switch e.Kind {
	case ConnectionOpened, ConnectionClosed, ConnectionLost, ChannelOpened, ChannelClosed, Consuming, Cancelled, HeartbeatMissed:
		return true
	default:
		return false
	}
}

// general events concern every message.
func general(e Event) bool {
	switch e.Kind {
	case ProcessStarted, ProcessExited, StopAsked, Fired, Undecodable, Foreign, Blocked, Unblocked:
		return true
	default:
		return comings(e) && e.Process != ""
	}
}

// Tell says who did what in an event; what is empty for those that tell a reader nothing. The
// events are the whole ledger, for what an event refers to. The method is named as AMQP names it where the
// verb does not say it.
func Tell(events []Event, e Event) (who, what string) {
	who = "consumer"
	switch {
	case e.Broker:
		who = "broker"
	case e.Process == "":
		who = "publisher"
	}
	to := func() string {
		if e.Exchange == "" {
			return fmt.Sprintf("queue %q", e.Key)
		}
		return fmt.Sprintf("exchange %q with key %q", e.Exchange, e.Key)
	}
	switch e.Kind {
	case Published:
		if e.Process == "" {
			return who, fmt.Sprintf("publishes %s to %s", e.Message, to())
		}
		return who, fmt.Sprintf("publishes a copy of %s to %s%s", named(e.Message), to(), confirmed(e))
	case ConfirmArrived:
		return "parkproof", fmt.Sprintf("holds the confirm of %s for a moment", refer(events, e))
	case Confirmed:
		return "broker", fmt.Sprintf("confirms %s%s", refer(events, e), toWhom(e))
	case Refused:
		return "broker", fmt.Sprintf("refuses %s%s (basic.nack)", refer(events, e), toWhom(e))
	case Returned:
		return "broker", fmt.Sprintf("returns %s as unroutable: %s%s", named(e.Message), e.Text, toWhom(e))
	case Delivered:
		text := fmt.Sprintf("delivers %s from queue %q", named(e.Message), e.Queue)
		if e.Redelivered {
			text = "re" + text
		}
		return "broker", text + methodOf(e, "basic.deliver")
	case Acked:
		return who, "acks " + refer(events, e)
	case Nacked:
		if e.Requeue {
			return who, "hands back " + refer(events, e) + methodOf(e, "")
		}
		return who, "rejects " + refer(events, e) + " without requeue" + methodOf(e, "basic.reject")
	case HandlerCalled:
		return "handler", fmt.Sprintf("of %q is called with %s", e.Consumer, named(e.Message))
	case HandlerSettled:
		text := map[string]string{"ok": "succeeds", "fail": "fails", "retry": "says Retry", "park": "says Park"}[e.Verdict]
		if e.Text != "" {
			text += " (" + e.Text + ")"
		}
		return "handler", fmt.Sprintf("%s with %s", text, named(e.Message))
	case Drained:
		return "parkproof", fmt.Sprintf("finds %s in queue %q", named(e.Message), e.Queue)
	case Consuming:
		return opener(e), fmt.Sprintf("consumes queue %q", e.Queue)
	case Cancelled:
		return who, fmt.Sprintf("cancels the consumer of queue %q", e.Queue)
	case ConnectionOpened:
		return opener(e), fmt.Sprintf("opens connection %d", e.Conn)
	case ChannelOpened:
		return opener(e), fmt.Sprintf("opens channel %d of connection %d", e.Channel, e.Conn)
	case HeartbeatMissed:
		return who, fmt.Sprintf("misses a heartbeat on connection %d: it has been %s", e.Conn, e.Text)
	case ChannelClosed:
		return who, fmt.Sprintf("closes channel %d of connection %d%s", e.Channel, e.Conn, reason(e))
	case ConnectionClosed:
		return who, fmt.Sprintf("closes connection %d%s", e.Conn, reason(e))
	case ConnectionLost:
		if more, cut := strings.CutPrefix(e.Text, CutByParkproof); cut {
			return "parkproof", fmt.Sprintf("cuts connection %d%s", e.Conn, more)
		}
		return who, fmt.Sprintf("loses connection %d: %s", e.Conn, e.Text)
	case ProcessStarted:
		return "parkproof", fmt.Sprintf("starts the process %q", e.Process)
	case ProcessExited:
		return "consumer", fmt.Sprintf("process %q ends: %s", e.Process, e.Text)
	case StopAsked:
		if e.Consumer != "" {
			return "parkproof", fmt.Sprintf("asks the consumer %q to stop", e.Consumer)
		}
		return "parkproof", fmt.Sprintf("asks the process %q to stop", e.Process)
	case Blocked:
		return "broker", "blocks the connection: " + e.Text
	case Unblocked:
		return "broker", "unblocks the connection"
	case Undecodable, Foreign, Fired, Noted:
		return "parkproof", e.Text
	case Diagnostic:
		return "consumer", "reports: " + e.Text
	default:
		return who, ""
	}
}

func named(message string) string {
	if message == "" {
		return "a message"
	}
	return message
}

func confirmed(e Event) string {
	if e.Confirms {
		return ""
	}
	return ", without confirms"
}

func toWhom(e Event) string {
	if e.Process == "" {
		return ""
	}
	return " to the consumer"
}

func reason(e Event) string {
	if e.Code == 0 {
		return ""
	}
	return fmt.Sprintf(" with %d %s", e.Code, e.Text)
}

// opener is the client's side of an event that stands in the ledger as the broker's answer.
func opener(e Event) string {
	if e.Process == "" {
		return "publisher"
	}
	return "consumer"
}

// methodOf names an event's method, unless it is the one that everybody expects there.
func methodOf(e Event, expected string) string {
	if e.Method == nil || e.Method.Name() == expected {
		return ""
	}
	return " (" + e.Method.Name() + ")"
}

// shownRefers is how many of the messages that an event covers are named.
const shownRefers = 3

// refer names what a confirm or ack settles, and says where it speaks for more than its own tag.
func refer(events []Event, e Event) string {
	var names []string
	for _, seq := range e.Covers {
		if seq < 1 || seq > len(events) {
			continue
		}
		of := events[seq-1]
		text := named(of.Message)
		if of.Kind == Published && of.Process != "" {
			text = "the copy of " + text
		}
		names = append(names, text)
	}
	var text string
	switch {
	case len(names) == 0 && e.Multiple && e.Tag == 0:
		text = "nothing (multiple, tag 0)"
	case len(names) == 0 && e.Multiple:
		text = fmt.Sprintf("nothing (multiple, up to tag %d)", e.Tag)
	case len(names) == 0:
		text = fmt.Sprintf("tag %d, which nothing was sent with", e.Tag)
	case len(names) > shownRefers:
		text = fmt.Sprintf("%s and %d more", strings.Join(names[:shownRefers], ", "), len(names)-shownRefers)
	default:
		text = strings.Join(names, ", ")
	}
	if e.Multiple && len(names) > 0 {
		text += " (multiple)"
	}
	return text
}
