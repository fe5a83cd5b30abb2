package toxics

import (
	"fmt"
	"slices"

	"github.com/parkproof/parkproof/scenarios/ledger"
)

// Point is a place on the wire at which a path can be broken: the nth command of a method, about a
// message, in one direction of one connection; or the inside of its content.
type Point struct {
	// Connection is the connection's place among those of the process, from 1; Role what it was used for
	// on the whole path.
	Connection int
	Role       ledger.Role
	FromBroker bool
	Method     string
	// Message is empty where the command is about none, such as a declaration.
	Message string
	// Place is the queue or exchange that the command names, for a reader.
	Place string
	// Occurrence counts, from 1, the commands that have all of the above but the place in common.
	Occurrence int
	Inside     bool
}

// pointKey is what the occurrences of a point have in common.
type pointKey struct {
	connection int
	fromBroker bool
	method     string
	message    string
}

// Points are the points of a path, from what was observed on it, in an order that does not depend on how
// the connections took turns: by connection and direction, each in its own order.
func Points(observed []Observation) []Point {
	roles := map[int]ledger.Role{}
	for _, o := range observed {
		roles[o.Connection] |= o.Role
	}
	seen := map[pointKey]int{}
	var points []Point
	for _, o := range observed {
		p := Point{
			Connection: o.Connection, Role: roles[o.Connection], FromBroker: o.FromBroker, Method: o.Method,
			Message: messageOf(o.Targets), Place: placeOf(o.Targets),
		}
		k := pointKey{p.Connection, p.FromBroker, p.Method, p.Message}
		seen[k]++
		p.Occurrence = seen[k]
		points = append(points, p)
		if o.HasContent {
			p.Inside = true
			points = append(points, p)
		}
	}
	slices.SortStableFunc(points, func(x, y Point) int {
		switch {
		case x.Connection != y.Connection:
			return x.Connection - y.Connection
		case x.FromBroker == y.FromBroker:
			return 0
		case x.FromBroker:
			return 1
		default:
			return -1
		}
	})
	return points
}

// messageOf is the message that a command is about; the first, where an ack covers many.
func messageOf(targets []ledger.Target) string {
	if len(targets) == 0 {
		return ""
	}
	return targets[0].Message
}

func placeOf(targets []ledger.Target) string {
	if len(targets) == 0 {
		return ""
	}
	switch t := targets[0]; {
	case t.Queue != "":
		return "queue " + t.Queue
	case t.Exchange != "":
		return "exchange " + t.Exchange
	case t.Key != "":
		return "queue " + t.Key
	default:
		return ""
	}
}

// Trigger fires at the point, once.
func (p Point) Trigger() Trigger {
	return Trigger{
		Connection: p.Connection, FromBroker: p.FromBroker, Method: p.Method, Occurrence: p.Occurrence, Inside: p.Inside,
		Exactly: func(s *ledger.Sighting) bool { return messageOf(s.Targets) == p.Message },
	}
}

// String names the point for a reader.
func (p Point) String() string {
	who := "consumer"
	if p.FromBroker {
		who = "broker"
	}
	text := fmt.Sprintf("connection %d", p.Connection)
	if role := RoleName(p.Role); role != "" {
		text += " (" + role + ")"
	}
	text += fmt.Sprintf(", %s: %s %d", who, p.Method, p.Occurrence)
	if p.Message != "" {
		text += " of " + p.Message
	}
	if p.Inside {
		text += ", inside its content"
	}
	return text
}
