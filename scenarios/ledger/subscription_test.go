package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// tellSubscriptions tells each subscription in a line, and each queue's numbers in another.
func tellSubscriptions(list []Subscription) string {
	var lines []string
	for _, s := range list {
		line := fmt.Sprintf("%s %d.%d %s %s @%d", s.Process, s.Conn, s.Channel, s.Queue, s.Consumer, s.Began)
		if s.Open() {
			line += " open"
		} else {
			line += fmt.Sprintf(" ended @%d by %s", s.End.Seq, s.End.By)
		}
		lines = append(lines, line)
	}
	for _, c := range Consumptions(list) {
		line := c.Queue + ":"
		for _, change := range c.Changes {
			line += fmt.Sprintf(" %d@%d", change.Consumers, change.Seq)
		}
		for _, process := range slices.Sorted(maps.Keys(c.Most)) {
			line += fmt.Sprintf(", %s had %d", process, c.Most[process])
		}
		lines = append(lines, fmt.Sprintf("%s, peak %d, end %d", line, c.Peak(), c.End))
	}
	return strings.Join(lines, "\n")
}

func TestSubscriptions(t *testing.T) {
	for name, tt := range map[string]struct{ script, want string }{
		"none": {"open", ""},
		"one that stands": {
			"subscribe a",
			"p 1.1 a a @1 open\na: 1@1, p had 1, peak 1, end 1",
		},
		"cancelled by the client": {
			"subscribe a \n cancel a",
			"p 1.1 a a @1 ended @2 by client\na: 1@1 0@2, p had 1, peak 1, end 0",
		},
		"cancelled by the broker": {
			"subscribe a \n cancel a broker",
			"p 1.1 a a @1 ended @2 by broker\na: 1@1 0@2, p had 1, peak 1, end 0",
		},
		"cancelled twice": {
			"subscribe a \n cancel a broker \n cancel a",
			"p 1.1 a a @1 ended @2 by broker\na: 1@1 0@2, p had 1, peak 1, end 0",
		},
		"its channel ends, another does not": {
			"subscribe a \n subscribe a channel 2 \n close channel 406",
			"p 1.1 a a @1 ended @3 by broker\np 1.2 a a @2 open\na: 1@1 2@2 1@3, p had 2, peak 2, end 1",
		},
		"its connection ends, and all on it at once": {
			"subscribe a \n subscribe a channel 2 \n subscribe b channel 2 \n lose",
			"p 1.1 a a @1 ended @4 by lost\np 1.2 a a @2 ended @4 by lost\np 1.2 b b @3 ended @4 by lost\n" +
				"a: 1@1 2@2 0@4, p had 2, peak 2, end 0\nb: 1@3 0@4, p had 1, peak 1, end 0",
		},
		"its queue is deleted, and then its consumer cancelled": {
			"subscribe a \n subscribe b \n delete a \n cancel a broker",
			"p 1.1 a a @1 ended @3 by broker\np 1.1 b b @2 open\na: 1@1 0@3, p had 1, peak 1, end 0\nb: 1@2, p had 1, peak 1, end 1",
		},
		"anew on another connection, once the old is gone": {
			"subscribe a \n lose cut \n subscribe a conn 2",
			"p 1.1 a a @1 ended @2 by parkproof\np 2.1 a a @3 open\na: 1@1 0@2 1@3, p had 1, peak 1, end 1",
		},
		"twice: it subscribes anew before the old is gone": {
			"subscribe a \n subscribe a conn 2 \n lose",
			"p 1.1 a a @1 ended @3 by lost\np 2.1 a a @2 open\na: 1@1 2@2 1@3, p had 2, peak 2, end 1",
		},
		"twice with one tag is once": {
			"subscribe a \n subscribe a",
			"p 1.1 a a @1 open\na: 1@1, p had 1, peak 1, end 1",
		},
		"two processes, once each": {
			"subscribe a by x \n subscribe a by y \n lose by x",
			"x 1.1 a a @1 ended @3 by lost\ny 1.1 a a @2 open\na: 1@1 2@2 1@3, x had 1, y had 1, peak 2, end 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tellSubscriptions(Subscriptions(history(t, tt.script))); got != tt.want {
				t.Errorf("the subscriptions are\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestSubscriptionsOfParkproof(t *testing.T) {
	if got := Subscriptions([]Event{{Seq: 1, Kind: Consuming, Queue: "a", Consumer: "t", Conn: 9, Channel: 1}}); len(got) != 0 {
		t.Errorf("parkproof's own are told: %v", got)
	}
}
