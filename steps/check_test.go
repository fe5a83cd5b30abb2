package steps

import (
	"strings"
	"testing"
)

func TestCheckRefusesWhatWouldNeverFire(t *testing.T) {
	given := []Line{
		{Text: `a classic queue "jobs"`},
		{Text: `a fanout exchange "orders"`},
		{Text: `"m1" is published to "jobs"`},
		{Text: `the messages "n1" to "n3" are published to "jobs"`},
		{Text: `2 messages "a*" and 3 messages "b*" are published in turn to "jobs"`},
		{Text: `these messages are published to "jobs"`, Table: [][]string{{"message"}, {"t1"}}},
	}
	for text, wrong := range map[string]string{
		`the connection is cut before the publish of the retry copy of "m1"`:                              "",
		`the connection is cut at the second ack of "m1", unseen by its sender`:                           "",
		`the connection is cut inside the 3rd delivery of "n2" from "jobs" on the consuming connection`:   "",
		`every confirm of a copy of "n*" is held`:                                                         "",
		`the confirm of the parked copy of "t1" is dropped`:                                               "",
		`every delivery of "a7" is delayed by 200ms`:                                                      "",
		`the consumer's process is killed at the first queue.declare on "jobs"`:                           "",
		`the link has the toxic "latency" with latency=20, jitter=0`:                                      "",
		`the connection is cut before the publish of the retry copy of "m2"`:                              `the message "m2"`,
		`every confirm of a copy of "x*" is held`:                                                         `the message "x*"`,
		`the connection is cut before the first queue.proclaim on "jobs"`:                                 `the method "queue.proclaim"`,
		`the consumer's process is killed at the first basic.consume on "works"`:                          `"works"`,
		`the delivery of "m1" is dropped`:                                                                 "only confirms",
		`the link has the toxic "lateness" with latency=20`:                                               `no toxic "lateness"`,
		`the publishing connection has the toxic "latency" to the broker with delay=20`:                   `"delay"`,
		`the link has the toxic "latency" with latency=soon`:                                              "no number",
		`the consumer's process is paused at the second connection.tune-ok on the publishing connection`:  "",
		`the consumer's process is paused at the second connection.tune-okay on the consuming connection`: "connection.tune-okay",
	} {
		err := Check(append(given, Line{Text: text}))
		switch {
		case wrong == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%s: the error is %v, and does not name %s", text, err, wrong)
		}
	}
}
