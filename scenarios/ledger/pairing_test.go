package ledger

import (
	"slices"
	"testing"
)

// overlapping is a message that a cut has made two of, which fail side by side; the copies go to whichever
// delivery they seem to belong to.
const overlapping = failed + `
	copy d1 retry.100/a as c1
	arrive c1
	confirm c1
	fire m1
	lose cut
	deliver m1 a as d2 redelivered conn 3
	call d2
	fail d2
	deliver m1 a as d3 conn 3
	call d3
	fail d3
	copy d2 retry.100/a as c2
	copy d3 /parked.a as c3
`

func TestReleasesOfOneMessageSideBySide(t *testing.T) {
	for _, test := range []struct {
		name, script string
		unsafe       int
	}{
		{"each ack after a confirm", `
			arrive c2
			confirm c2
			ack d3
			arrive c3
			confirm c3
			ack d2`, 0},
		{"each ack after its own confirm", `
			arrive c2
			confirm c2
			ack d2
			arrive c3
			confirm c3
			ack d3`, 0},
		{"two acks after one confirm", `
			arrive c2
			confirm c2
			ack d3
			ack d2
			arrive c3
			confirm c3`, 1},
		{"two acks before any", `
			ack d2
			ack d3
			arrive c2
			confirm c2
			arrive c3
			confirm c3`, 2},
		{"the confirm is of a copy from before the delivery", `
			ack d2
			arrive c2
			confirm c2
			arrive c3
			confirm c3
			ack d3`, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			account := Balance(history(t, overlapping+test.script), terms())
			unsafe := 0
			for _, f := range account.Findings {
				if f.Guarantee == ReleasedSafely {
					unsafe++
				}
			}
			if unsafe != test.unsafe {
				t.Errorf("%d releases are unsafe, want %d: %v", unsafe, test.unsafe, account.Findings)
			}
			for _, e := range account.Entries {
				grades := slices.DeleteFunc(slices.Clone(e.Releases), func(g Grade) bool { return g != ReleasedUnsafe })
				if len(grades) != test.unsafe {
					t.Errorf("releases %v", e.Releases)
				}
			}
		})
	}
}

// TestPairsLeaveTheYoungCopies: the first to be acked must not take the only copy that another one can have.
func TestPairsLeaveTheYoungCopies(t *testing.T) {
	copyAt := func(seq, confirmed int) *Copy {
		return &Copy{Event: Event{Seq: seq, Confirms: true}, Confirmed: confirmed}
	}
	old, young := copyAt(5, 6), copyAt(10, 11)
	early := &Delivery{Event: Event{Seq: 1}, Acked: 12, Copies: []*Copy{young, old}}
	late := &Delivery{Event: Event{Seq: 8}, Acked: 13}
	found := pairs([]*Delivery{late, early})
	if found[early] != old || found[late] != young {
		t.Errorf("the early ack has the copy at %d and the late one that at %d", found[early].Seq, found[late].Seq)
	}
}

// overlappingHandled are two deliveries of one message that a cut has made, both open.
const overlappingHandled = failed + `
	copy d1 retry.100/a as c1
	arrive c1
	confirm c1
	fire m1
	lose cut
	deliver m1 a as d2 redelivered conn 3
	deliver m1 a as d3 conn 3
`

func TestHandlersOfOneMessageSideBySide(t *testing.T) {
	for _, test := range []struct {
		name, script string
		hasty        int
	}{
		{"the second is called first", "call d2\n ok d2\n ack d3\n call d3\n ok d3\n ack d2", 0},
		{"each in turn", "call d2\n ok d2\n ack d2\n call d3\n ok d3\n ack d3", 0},
		{"one ack before any", "ack d3\n call d2\n ok d2\n call d3\n ok d3\n ack d2", 1},
		{"two acks after one", "call d2\n ok d2\n ack d2\n ack d3\n call d3\n ok d3", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			hasty := 0
			for _, f := range Balance(history(t, overlappingHandled+test.script), terms()).Findings {
				if f.Guarantee == ReleasedSafely {
					hasty++
				}
			}
			if hasty != test.hasty {
				t.Errorf("%d were acked too early, want %d", hasty, test.hasty)
			}
		})
	}
}
