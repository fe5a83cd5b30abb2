package reports

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a text with testdata/NAME.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew); got:\n%s", path, got)
	}
}

// sampleRun is a run with every verdict, on two brokers, with texts that mean harm.
func sampleRun() *Run {
	long := []Moment{{0.0012, "publisher", "published m1 to orders, key orders.created", false}}
	for i := range 60 {
		long = append(long, Moment{0.1 + float64(i)/10, "broker", fmt.Sprintf("heartbeat %d", i), false})
	}
	long[30].Who, long[30].What, long[30].Marked = "consumer", "acked m1 before the broker had confirmed its copy in retry.100", true
	long = append(long, Moment{12.345, "parkproof", "m1 is in no queue", true})

	c := func(id, name, broker string, v Verdict, reason string) Case {
		return Case{
			ID: id, Name: name, Feature: "Retry", File: "features/consumer/retry.feature", Line: 12, Level: "must",
			Why: "A message that fails once must come again, or one bad moment loses it.", Broker: broker,
			Verdict: v, Reason: reason, Try: 1, At: 1.5, Seconds: 1.234,
		}
	}
	failed := c("RTY-004", "Four attempts make three retries", "local", Failed, "m1 has no fate")
	failed.Guarantee = "nothing is lost"
	failed.Expected = "m1 parked once, in orders..billing.parked"
	failed.Seen = "m1 in no queue; it was last seen when the consumer acked it"
	failed.Steps = []Step{
		{"Given ", "a consumer \"billing\" of the exchange \"orders\"", "passed", 0.1, ""},
		{"When ", "\"m1\" is published and its handler always fails", "passed", 0.1, ""},
		{"Then ", "\"m1\" is parked after 4 attempts", "failed", 5, "after 5 s: m1 was attempted once,\nand is not parked"},
		{"And ", "nothing else is in any queue", "skipped", 0, ""},
	}
	failed.Findings = []Finding{
		{"nothing is lost", "m1", "orders..billing", "m1 has no fate"},
		{"no unsafe release", "m1", "orders..billing", "acked 25 ms before the confirm of its copy"},
	}
	failed.Timeline = long
	for i := range 20 {
		failed.ConsumerLog = append(failed.ConsumerLog, fmt.Sprintf("\x1b[32minfo\x1b[0m line %d", i))
	}

	evil := c("ATT-001", "Attempts <script>alert(1)</script> ]]> & \"quotes\"", "4.3", Failed, "reason ]]> \x00 <b>\x1b[2Jbold</b>")
	evil.Feature = "Attempts 2.0"
	evil.Guarantee = "the counter\nis right"
	evil.Expected = "x-attempt: 2"
	evil.Seen = "\x1b]0;owned\ax-attempt: \x00\x07\u202e2\ufffe"
	evil.Timeline = []Moment{{0.5, "broker", "delivered ]]><m1>\x1b[1A", true}, {10.25, "handler", "failed", false}}
	evil.ConsumerLog = []string{"connecting to amqp://guest:hunter2@127.0.0.1:5672/", "]]> \x00 </system-err>"}

	broken := c("RTY-005", "A long ladder", "local", Broken, "the broker ended while the case ran: exit status 137")
	broken.Try = 2
	again := c("RTY-006", "A redelivery is no attempt", "local", Passed, "")
	again.Try = 2
	return &Run{
		Schema: Schema, Tool: Tool{Version: "1.2.3", Go: "go1.26", System: "linux/amd64"},
		Started: time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("", 3600)), Seconds: 65.4,
		Command:  []string{"parkproof", "verify", "--", "node", "adapter.mjs"},
		Consumer: Consumer{Command: []string{"node", "adapter.mjs"}, Name: "comq", Version: "0.18.0", Supports: []string{"retry"}},
		Brokers: []Broker{
			{Name: "local", Provider: "local", Version: "3.10.8", Runtime: "Erlang 25"},
			{Name: "4.3", Provider: "container", Version: "4.3.6", Image: "rabbitmq:4.3-management", Digest: "sha256:abc"},
			{Name: "amqp://guest:hunter2@127.0.0.1:9/", Provider: "url", Error: "dial amqp://guest:hunter2@127.0.0.1:9/: connection refused"},
		},
		Cases: []Case{
			c("RTY-001", "One failure, one retry", "local", Passed, ""),
			c("RTY-001", "One failure, one retry", "4.3", Passed, ""),
			failed, broken, again, evil,
			c("RTY-007", "The list is stale", "local", Fixed, ""),
			c("RTY-008", "The fault never fired", "4.3", Unknown, "the cut of the publishing link never fired"),
			c("RPL-001", "A reply", "local", Unsupported, "the adapter does not support replies"),
			c("RPL-002", "Another reply", "local", Unsupported, "the adapter does not support replies"),
			c("RPL-001", "A reply", "4.3", Unsupported, "the adapter does not support replies"),
			c("QUO-001", "A quorum queue", "local", NotApplicable, "needs RabbitMQ >=4.0"),
			c("RTY-009", "A known failure", "local", Known, "toa-io/comq drops the reason"),
			c("RTY-010", "A flaky one", "local", Flaky, "passed; listed as flaky"),
		},
		Interrupted: true, ExitCode: ExitFailed,
	}
}
