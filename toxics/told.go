package toxics

import (
	"fmt"
	"strings"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

// told names a command for a reader: "basic.publish of m1 to exchange "x" with key "q", from the
// consumer's connection 2 (publishing)".
func told(place int, s *ledger.Sighting) string {
	who := "from the consumer's"
	if s.FromBroker {
		who = "from the broker, on the consumer's"
	}
	text := s.Method + about(s.Targets)
	text += fmt.Sprintf(", %s connection %d", who, place)
	if role := RoleName(s.Role); role != "" {
		text += " (" + role + ")"
	}
	return text
}

// shownTargets is how many of the messages that a confirm or ack covers are named.
const shownTargets = 3

func about(targets []ledger.Target) string {
	var of []string
	for _, t := range targets {
		if t.Message != "" {
			of = append(of, t.Message)
		}
	}
	text := ""
	if n := len(of); n > shownTargets {
		text = fmt.Sprintf(" of %s and %d more", strings.Join(of[:shownTargets], ", "), n-shownTargets)
	} else if n > 0 {
		text = " of " + strings.Join(of, ", ")
	}
	if len(targets) != 1 {
		return text
	}
	switch t := targets[0]; {
	case t.Queue != "":
		text += fmt.Sprintf(" on queue %q", t.Queue)
	case t.Exchange != "":
		text += fmt.Sprintf(" on exchange %q", t.Exchange)
	case t.Key != "":
		text += fmt.Sprintf(" to queue %q", t.Key)
	}
	return text
}

// RoleName says what a connection is for: consuming, publishing, both, or nothing yet.
func RoleName(r ledger.Role) string {
	switch r {
	case ledger.RoleConsuming:
		return "consuming"
	case ledger.RolePublishing:
		return "publishing"
	case ledger.RoleConsuming | ledger.RolePublishing:
		return "consuming and publishing"
	default:
		return ""
	}
}
