package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// written is a book of a history on the house.
func written(t *testing.T, script string) (*Book, []Event) {
	t.Helper()
	terms := terms()
	events := history(t, house+script)
	b := NewBook(&terms)
	b.Update(events)
	return b, events
}

// failing is a message that has failed once and is about to be copied.
const failing = `
	subscribe a
	publish m1 /a
	deliver m1 a as d
	call d
	fail d
`

func TestCopiesThatAreLost(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		lost   string // the kind of the event at which each copy was lost
		atRest bool
	}{
		"its connection is lost": {"copy d retry.100/a as c \n lose", "connection-lost", false},
		"its connection is cut before the confirm passes, which had arrived": {
			"copy d retry.100/a as c \n arrive c \n fire \n lose cut", "connection-lost", false,
		},
		"its connection is closed": {"copy d retry.100/a as c \n close connection 320", "connection-closed", false},
		"its channel is closed":    {"copy d retry.100/a as c \n close channel 406 channel 2 \n ack d", "channel-closed", true},
		"another channel is closed": {
			"copy d retry.100/a as c \n close channel 406", "-", false,
		},
		"another connection is lost": {"copy d retry.100/a as c \n lose conn 7", "-", false},
		"another process's is lost":  {"copy d retry.100/a as c \n lose by q", "-", false},
		"it was confirmed before":    {"copy d parked.a/ as c \n confirm c \n ack d \n lose", "-", true},
		"it was refused before":      {"copy d retry.100/a as c \n refuse c \n ack d \n lose", "-", true},
		"it was returned before":     {"copy d retry.100/a as c \n return c \n ack d \n lose", "-", true},
		"without confirms nobody waits for an answer": {
			"copy d parked.a/ as c plain \n ack d \n lose", "-", true,
		},
		"lost once": {"copy d retry.100/a as c \n lose \n lose", "connection-lost", false},
	} {
		t.Run(name, func(t *testing.T) {
			b, events := written(t, failing+tt.script)
			var got []string
			for _, c := range b.CopiesOf["m1"] {
				kind := "-"
				if c.Lost != 0 {
					kind = string(events[c.Lost-1].Kind)
				}
				got = append(got, kind)
			}
			if s := strings.Join(got, " "); s != tt.lost {
				t.Errorf("the copies were lost at %q, want %q", s, tt.lost)
			}
			if got := b.AtRest(); got != tt.atRest {
				t.Errorf("at rest is %t, want %t", got, tt.atRest)
			}
		})
	}
}

// Where a copy was lost with its connection, nobody knows whether it will come: the redelivered original
// is still to be settled, and once it is, nothing is awaited that was not seen.
func TestAtRestAfterALostCopy(t *testing.T) {
	const cut = failing + "copy d /parked.a as c \n arrive c \n fire \n lose cut \n open conn 2 \n subscribe a conn 2 tag again \n"
	for _, tt := range []struct {
		script          string
		atRest, settled bool
	}{
		{"", false, false}, // the original has gone back and will be delivered again
		{"deliver m1 a as e conn 2 redelivered", false, false},
		{"deliver m1 a as e conn 2 redelivered \n call e \n fail e \n copy e /parked.a as f \n", false, false},
		{"deliver m1 a as e conn 2 redelivered \n call e \n fail e \n copy e /parked.a as f \n confirm f", false, false},
		{"deliver m1 a as e conn 2 redelivered \n call e \n fail e \n copy e /parked.a as f \n confirm f \n ack e", true, false},
		{
			"deliver m1 a as e conn 2 redelivered \n call e \n fail e \n copy e /parked.a as f \n confirm f \n ack e \n drain m1 parked.a",
			true, true,
		},
		{"deliver m1 a as e conn 2 redelivered \n call e \n ok e \n ack e", true, true},
	} {
		b, _ := written(t, cut+tt.script)
		if atRest, settled := b.AtRest(), b.Settled(); atRest != tt.atRest || settled != tt.settled {
			t.Errorf("after %q, at rest is %t and settled %t, want %t and %t", tt.script, atRest, settled, tt.atRest, tt.settled)
		}
	}
}

func TestLastLost(t *testing.T) {
	b, events := written(t, failing+"copy d retry.100/a as c \n copy d retry.100/a as e channel 3 \n close channel 406 channel 3 \n lose")
	for i := range events {
		events[i].At = time.Duration(i+1) * time.Second
	}
	at, lost := b.LastLost(events)
	if want := time.Duration(len(events)) * time.Second; !lost || at != want {
		t.Errorf("the last was lost after %s (%t), want %s", at, lost, want)
	}
	b, events = written(t, failing+"copy d retry.100/a as c \n confirm c \n lose")
	if at, lost := b.LastLost(events); lost {
		t.Errorf("a confirmed copy counts as lost, after %s", at)
	}
	for i := range events {
		events[i].At = time.Duration(i+1) * time.Second
	}
	b.terms.DroppedOnPurpose = map[string]bool{}
	for _, c := range b.copies {
		b.terms.DroppedOnPurpose[c.Message] = true
	}
	if at, lost := b.LastLost(events); !lost || at == 0 {
		t.Errorf("a copy that may be dropped is waited for: %t, %s", lost, at)
	}
}

// Each fault may have made a copy of the messages that it touched, and one that names none, of any.
func TestFaultsPerMessage(t *testing.T) {
	for name, tt := range map[string]struct {
		script      string
		m1, m2, all int
		broken      bool
	}{
		"none":                        {"", 0, 0, 0, false},
		"of one message":              {"fire m1", 1, 0, 0, true},
		"of one message twice":        {"fire m1 \n fire m1", 2, 0, 0, true},
		"of each":                     {"fire m1 \n fire m2", 1, 1, 0, true},
		"of all that was on its way":  {"fire", 1, 1, 1, true},
		"of all, and then one's only": {"fire \n fire m2", 1, 2, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := written(t, tt.script)
			if m1, m2, all := b.Faults("m1"), b.Faults("m2"), b.Faults(""); m1 != tt.m1 || m2 != tt.m2 || all != tt.all {
				t.Errorf("faults of m1, m2 and all are %d, %d, %d, want %d, %d, %d", m1, m2, all, tt.m1, tt.m2, tt.all)
			}
			if b.Broken() != tt.broken {
				t.Errorf("broken is %t", b.Broken())
			}
		})
	}
	terms := terms()
	terms.Faults = 3 // those that no ledger tells of
	b := NewBook(&terms)
	b.Update(history(t, "fire m1"))
	if b.Faults("m1") != 4 || b.Faults("m2") != 3 || !b.Broken() {
		t.Errorf("with three more, faults of m1 and m2 are %d and %d", b.Faults("m1"), b.Faults("m2"))
	}
}

// A confirm that is cut makes a second copy right, and a second copy of another message stays a finding.
func TestACutConfirmMayDuplicateItsMessage(t *testing.T) {
	const parkedTwice = `
		subscribe a
		publish m1 /a
		deliver m1 a as d
		call d
		fail d
		copy d /parked.a as c
		arrive c
		fire %s
		lose cut
		open conn 2
		subscribe a conn 2 tag again
		deliver m1 a as e conn 2 redelivered
		call e
		fail e
		copy e /parked.a as f
		confirm f
		ack e
		drain m1 parked.a
		drain m1 parked.a
	`
	for fault, want := range map[string]string{
		"m1": "", "": "",
		"m2": NothingDuplicated + ", " + NotRedelivered,
	} {
		account := Balance(history(t, house+fmt.Sprintf(parkedTwice, fault)), terms())
		var got []string
		for _, f := range account.Findings {
			got = append(got, f.Guarantee)
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("with a fault of %q, the findings are %q, want %q", fault, s, want)
		}
		if len(account.Connections) != 2 || account.Connections[0].End.By != ByParkproof {
			t.Errorf("the connections are\n%s", tellConnections(account.Connections))
		}
		if len(account.Unacked) != 0 {
			t.Errorf("unacked are %v", account.Unacked)
		}
		if c := account.Consumptions; len(c) != 1 || c[0].Peak() != 1 || c[0].End != 1 {
			t.Errorf("the consumers are %+v", c)
		}
	}
}
