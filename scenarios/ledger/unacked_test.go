package ledger

import (
	"fmt"
	"strings"
	"testing"
)

func TestUnacked(t *testing.T) {
	for name, tt := range map[string]struct{ script, want string }{
		"acked":                       {"deliver m1 a as d \n ack d", ""},
		"handed back":                 {"deliver m1 a as d \n nack d", ""},
		"rejected":                    {"deliver m1 a as d \n reject d", ""},
		"needs no ack":                {"deliver m1 a as d no-ack", ""},
		"never settled":               {"deliver m1 a as d", "m1 a p 1.1"},
		"some of many":                {"deliver m1 a as d \n deliver m2 a as e \n deliver m3 b as f channel 2 \n ack e", "m1 a p 1.1, m3 b p 1.2"},
		"the channel ends":            {"deliver m1 a as d \n deliver m2 a as e channel 2 \n close channel 406", "m2 a p 1.2"},
		"the connection is closed":    {"deliver m1 a as d \n deliver m2 a as e channel 2 \n close connection 320", ""},
		"the connection is lost":      {"deliver m1 a as d \n deliver m2 a as e conn 2 \n lose", "m2 a p 2.1"},
		"another process's is lost":   {"deliver m1 a as d \n lose by q", "m1 a p 1.1"},
		"redelivered and not settled": {"deliver m1 a as d \n lose \n deliver m1 a as e conn 2 redelivered by q", "m1 a q 2.1"},
		"acked by parkproof, drained": {"drain m1 parked.a", ""},
		"the process exits, and the end of its connection was not seen": {"deliver m1 a as d \n exit", "m1 a p 1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range Unacked(history(t, tt.script)) {
				got = append(got, fmt.Sprintf("%s %s %s %d.%d", e.Message, e.Queue, e.Process, e.Conn, e.Channel))
			}
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("unacked are %q, want %q", s, tt.want)
			}
		})
	}
}
