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
	// Marked lines are those that a finding points at.
	Marked bool
}

// Timeline tells what happened to the messages, and to the connections, channels and processes
// around them, one line an event. Without messages it tells of all.
func Timeline(events []Event, messages []string, marked []int) []Line {
	marks := map[int]bool{}
	for _, seq := range marked {
		marks[seq] = true
	}
	about := map[int]bool{} // events of the messages
	var lines []Line
	for _, e := range events {
		if e.Process == "" && (e.Kind == ChannelClosed || e.Kind == ConnectionClosed) {
			continue // parkproof's own comings and goings
		}
		mine := len(messages) == 0 || e.Message != "" && slices.Contains(messages, e.Message)
		if !mine && e.Message == "" {
			mine = slices.ContainsFunc(e.Covers, func(seq int) bool { return about[seq] })
		}
		if mine && e.Message != "" {
			about[e.Seq] = true
		}
		if !mine && !general(e) && !marks[e.Seq] {
			continue
		}
		if who, what := Tell(events, e); what != "" {
			lines = append(lines, Line{At: e.At, Who: who, What: what, Marked: marks[e.Seq]})
		}
	}
	return lines
}

// general events concern every message.
func general(e Event) bool {
	switch e.Kind {
	case ProcessStarted, ProcessExited, StopAsked, Fired, Undecodable, Blocked, Unblocked:
		return true
	case ChannelClosed, ConnectionClosed, ConnectionLost, Cancelled:
		return e.Process != ""
	default:
		return false
	}
}

// Tell says who did what in an event; what is empty for those that tell a reader nothing. The
// events are the whole ledger, for what an event refers to.
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
		return "broker", fmt.Sprintf("refuses %s%s", refer(events, e), toWhom(e))
	case Returned:
		return "broker", fmt.Sprintf("returns %s as unroutable: %s%s", named(e.Message), e.Text, toWhom(e))
	case Delivered:
		text := fmt.Sprintf("delivers %s from queue %q", named(e.Message), e.Queue)
		if e.Redelivered {
			text = "re" + text
		}
		return "broker", text
	case Acked:
		return who, "acks " + refer(events, e)
	case Nacked:
		if e.Requeue {
			return who, "hands back " + refer(events, e)
		}
		return who, "rejects " + refer(events, e) + " without requeue"
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
		return who, fmt.Sprintf("consumes queue %q", e.Queue)
	case Cancelled:
		return who, fmt.Sprintf("cancels the consumer of queue %q", e.Queue)
	case ChannelClosed:
		return who, fmt.Sprintf("closes channel %d of connection %d%s", e.Channel, e.Conn, reason(e))
	case ConnectionClosed:
		return who, fmt.Sprintf("closes connection %d%s", e.Conn, reason(e))
	case ConnectionLost:
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
	case Undecodable, Fired, Noted:
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

// shownRefers is how many of the messages that an event covers are named.
const shownRefers = 3

// refer names what a confirm or ack settles.
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
	switch {
	case len(names) == 0:
		return fmt.Sprintf("tag %d, which nothing was sent with", e.Tag)
	case len(names) > shownRefers:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shownRefers], ", "), len(names)-shownRefers)
	default:
		return strings.Join(names, ", ")
	}
}
