package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// tellConnections tells each connection and its channels, one a line.
func tellConnections(list []Connection) string {
	var lines []string
	end := func(e End) string {
		if e.Seq == 0 {
			return "open"
		}
		text := fmt.Sprintf("ended @%d by %s", e.Seq, e.By)
		if e.Code != 0 {
			text += fmt.Sprintf(" %d", e.Code)
		}
		if e.Text != "" {
			text += " " + e.Text
		}
		return text
	}
	for _, c := range list {
		lines = append(lines, fmt.Sprintf("%s %d @%d %s", c.Process, c.Number, c.Opened, end(c.End)))
		for _, ch := range c.Channels {
			lines = append(lines, fmt.Sprintf("  channel %d @%d %s", ch.Number, ch.Opened, end(ch.End)))
		}
	}
	return strings.Join(lines, "\n")
}

func TestConnections(t *testing.T) {
	for name, tt := range map[string]struct {
		script, want string
		openings     string
	}{
		"open, with a channel": {
			"open \n channel 1",
			"p 1 @1 open\n  channel 1 @2 open", "p connections 1/1 channels 1/1",
		},
		"closed by the client, with its channels": {
			"open \n channel 1 \n channel 2 \n close channel 200 client \n close connection 200 client",
			"p 1 @1 ended @5 by client 200 BECAUSE\n  channel 1 @2 ended @4 by client 200 BECAUSE\n  channel 2 @3 ended @5 by client 200 BECAUSE",
			"p connections 1/0 channels 2/0",
		},
		"closed by the broker": {
			"open \n channel 1 \n close channel 406 \n channel 1 \n close connection 320",
			"p 1 @1 ended @5 by broker 320 BECAUSE\n  channel 1 @2 ended @3 by broker 406 BECAUSE\n  channel 1 @4 ended @5 by broker 320 BECAUSE",
			"p connections 1/0 channels 1/0",
		},
		"lost, and opened anew before": {
			"open \n channel 1 \n open conn 2 \n lose \n channel 1 conn 2",
			"p 1 @1 ended @4 by lost gone\n  channel 1 @2 ended @4 by lost gone\np 2 @3 open\n  channel 1 @5 open",
			"p connections 2/1 channels 1/1",
		},
		"cut": {
			"open \n lose cut",
			"p 1 @1 ended @2 by parkproof parkproof cut the connection", "p connections 1/0 channels 0/0",
		},
		"never opened": {
			"lose \n open",
			"p 1 @0 ended @1 by lost gone", "p connections 0/0 channels 0/0",
		},
		"ended once": {
			"open \n close connection 200 client \n lose \n channel 1",
			"p 1 @1 ended @2 by client 200 BECAUSE", "p connections 1/0 channels 0/0",
		},
		"what is not there is not closed": {
			"close channel 406 \n open \n close channel 406 channel 7",
			"p 1 @2 open", "p connections 1/1 channels 0/0",
		},
		"of two processes": {
			"open by a \n open by b \n channel 1 by a \n channel 1 by b \n channel 2 by b \n lose by a",
			"a 1 @1 ended @6 by lost gone\n  channel 1 @3 ended @6 by lost gone\nb 1 @2 open\n  channel 1 @4 open\n  channel 2 @5 open",
			"a connections 1/0 channels 1/0, b connections 1/1 channels 2/2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			list := Connections(history(t, tt.script))
			if got := tellConnections(list); got != tt.want {
				t.Errorf("the connections are\n%s\nwant\n%s", got, tt.want)
			}
			openings := Openings(list)
			var got []string
			for _, process := range slices.Sorted(maps.Keys(openings)) {
				o := openings[process]
				got = append(got, fmt.Sprintf("%s connections %d/%d channels %d/%d", process, o.MostConnections, o.EndConnections, o.MostChannels, o.EndChannels))
			}
			if s := strings.Join(got, ", "); s != tt.openings {
				t.Errorf("the most at once and at the end are\n%s\nwant\n%s", s, tt.openings)
			}
		})
	}
}

// reconnects is a consumer that loses its connection ten times and opens it again; leak is how many of the
// old ones it leaves open.
func reconnects(leak int) string {
	var b strings.Builder
	for n := 1; n <= 11; n++ {
		fmt.Fprintf(&b, "open conn %d\n channel 1 conn %d\n channel 2 conn %d\n", n, n, n)
		if n > leak && n <= 10 {
			fmt.Fprintf(&b, "lose conn %d\n", n)
		}
	}
	return b.String()
}

func TestReconnectsLeakNothing(t *testing.T) {
	for _, tt := range []struct{ leak, connections, channels int }{{0, 1, 2}, {1, 2, 4}, {10, 11, 22}} {
		list := Connections(history(t, reconnects(tt.leak)))
		open, channels := 0, 0
		for _, c := range list {
			channels += c.OpenChannels()
			if c.Open() {
				open++
			}
		}
		if len(list) != 11 || open != tt.connections || channels != tt.channels {
			t.Errorf("with %d left, %d of %d connections and %d channels are open", tt.leak, open, len(list), channels)
		}
		want := Opening{
			MostConnections: tt.connections, EndConnections: tt.connections, MostChannels: tt.channels, EndChannels: tt.channels,
		}
		if got := Openings(list)["p"]; got != want {
			t.Errorf("with %d left, %+v were open, want %+v", tt.leak, got, want)
		}
	}
}
