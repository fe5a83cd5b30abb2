package toxics

import (
	"strings"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

// Trigger says at which commands a fault fires. What is left empty fits everything.
type Trigger struct {
	// Connection is a connection's place among all of the process, from 1, in the order of their
	// beginning; reconnects go on counting.
	Connection int
	Role       ledger.Role
	FromBroker bool
	// Method is AMQP's name: "basic.publish".
	Method string
	// Message is a message's name, or its beginning and a *.
	Message string
	// Where narrows down what the command is about; one of its targets has to fit it and Message.
	Where func(ledger.Target) bool
	// Exactly, where it is set, is a last question about the whole command.
	Exactly func(*ledger.Sighting) bool
	// Occurrence is which of the commands that fit is meant, from 1; with 0 all are.
	Occurrence int
	// Inside means the middle of the command's content, not its beginning or end.
	Inside bool
}

// fits reports whether a command of a connection is one that the trigger speaks of.
func (t *Trigger) fits(connection int, s *ledger.Sighting) bool {
	switch {
	case t.Connection != 0 && t.Connection != connection,
		t.Role != 0 && t.Role&s.Role == 0,
		t.FromBroker != s.FromBroker,
		t.Method != "" && t.Method != s.Method,
		t.Inside && !s.HasContent,
		t.Exactly != nil && !t.Exactly(s):
		return false
	case t.Message == "" && t.Where == nil:
		return true
	}
	for _, target := range s.Targets {
		if t.means(target) {
			return true
		}
	}
	return false
}

// means reports whether the trigger speaks of the target.
func (t *Trigger) means(target ledger.Target) bool {
	if t.Message != "" && (target.Message == "" || !Matches(t.Message, target.Message)) {
		return false
	}
	return t.Where == nil || t.Where(target)
}

// Matches reports whether a message's name fits a pattern: the name itself, or its beginning and a *.
func Matches(pattern, message string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(message, prefix)
	}
	return pattern == message
}
