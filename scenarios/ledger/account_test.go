package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What a message in queue a goes through up to a point; the histories go on from there.
const (
	delivered = house + `
		publish m1 /a
		deliver m1 a as d1
	`
	failed = delivered + `
		call d1
		fail d1
	`
	copied = failed + `
		copy d1 retry.100/a as c1
		arrive c1
	`
	retried = copied + `
		confirm c1
		ack d1
		deliver m1 a as d2
	`
	fanout = house + `
		bind orders a
		bind orders b
		publish m1 orders/
		deliver m1 a as da
		deliver m1 b as db
	`
)

type accountCase struct {
	name     string
	script   string
	terms    func(*Terms)
	fates    []string // "message queue fate"
	findings []string // "guarantee: text"
}

func faults(n int) func(*Terms) { return func(t *Terms) { t.Faults = n } }

// Histories in which nothing is wrong.
var clean = []accountCase{
	{
		name: "handled at once",
		script: delivered + `
			call d1
			ok d1
			ack d1`,
		fates: []string{"m1 a handled"},
	},
	{
		name: "retried, then handled",
		script: retried + `
			call d2
			ok d2
			ack d2`,
		fates: []string{"m1 a handled"},
	},
	{
		name: "retried, then parked",
		script: retried + `
			call d2
			fail d2
			copy d2 /parked.a as c2
			arrive c2
			confirm c2
			ack d2
			drain m1 parked.a`,
		fates: []string{"m1 a parked"},
	},
	{
		name: "parked at once",
		script: delivered + `
			call d1
			park d1
			copy d1 /parked.a as c1
			confirm c1
			ack d1
			drain m1 parked.a`,
		fates: []string{"m1 a parked"},
	},
	{
		name: "parked by the queue's own dead-lettering",
		script: failed + `
			reject d1
			drain m1 parked.a`,
		fates: []string{"m1 a parked"},
	},
	{
		name: "copied on the same channel, without confirms",
		script: failed + `
			copy d1 /parked.a as c1 plain channel 1
			ack d1
			drain m1 parked.a`,
		fates: []string{"m1 a parked"},
	},
	{
		name: "one ack for many, all of them done with",
		script: house + `
			publish m1 /a
			publish m2 /a
			publish m3 /a
			deliver m1 a as d1
			deliver m2 a as d2
			deliver m3 a as d3
			call d1
			call d2
			call d3
			ok d1
			fail d2
			ok d3
			copy d2 /parked.a as c2
			confirm c2
			ack d1 d2 d3
			drain m2 parked.a`,
		fates: []string{"m1 a handled", "m2 a parked", "m3 a handled"},
	},
	{
		name: "two consumers of one fanout, the first fails",
		script: fanout + `
			call da
			call db
			fail da
			ok db
			ack db
			copy da retry.100/a as c1
			confirm c1
			ack da
			deliver m1 a as da2
			call da2
			ok da2
			ack da2`,
		fates: []string{"m1 a handled", "m1 b handled"},
	},
	{
		name: "two consumers of one fanout, both fail and are parked, copies in the other order",
		script: fanout + `
			call da
			call db
			fail da
			fail db
			copy db /parked.b as cb
			copy da /parked.a as ca
			confirm ca
			ack da
			confirm cb
			ack db
			drain m1 parked.a
			drain m1 parked.b`,
		fates: []string{"m1 a parked", "m1 b parked"},
	},
	{
		name: "two consumers of one fanout, and copies whose names say nothing",
		script: fanout + `
			exchange graveyard fanout
			call da
			call db
			ok db
			fail da
			copy db graveyard/ as c1     # the failed one's, whichever it is said to be from
			confirm c1
			ack db
			ack da
			drain m1 parked.a`,
		fates: []string{"m1 a parked", "m1 b handled"},
	},
	{
		name: "the witness keeps its own",
		script: house + `
			bind orders a
			bind orders w
			publish m1 orders/
			deliver m1 a as d1
			call d1
			ok d1
			ack d1
			drain m1 w`,
		fates: []string{"m1 a handled", "m1 w kept"},
	},
	{
		name: "the connection is cut before the ack, one fault fired",
		script: delivered + `
			call d1
			ok d1
			lose
			deliver m1 a as d2 redelivered conn 2
			call d2
			ok d2
			ack d2`,
		terms: faults(1),
		fates: []string{"m1 a handled"},
	},
	{
		name: "parked and redelivered and parked again, as a cut between confirm and ack makes it",
		script: failed + `
			copy d1 /parked.a as c1
			confirm c1
			lose
			deliver m1 a as d2 redelivered conn 2
			call d2
			fail d2
			copy d2 /parked.a as c2
			confirm c2
			ack d2
			drain m1 parked.a
			drain m1 parked.a`,
		terms: faults(1),
		fates: []string{"m1 a parked"},
	},
	{
		name: "redelivered after the case's own stop",
		script: delivered + `
			stop
			lose
			exit
			start
			deliver m1 a as d2 redelivered conn 2
			call d2
			ok d2
			ack d2`,
		fates: []string{"m1 a handled"},
	},
	{
		name: "handed back because its copy could not be published, as the case meant it",
		script: failed + `
			nack d1
			deliver m1 a as d2 redelivered
			call d2
			ok d2
			ack d2`,
		terms: func(t *Terms) { t.MayRedeliver = true },
		fates: []string{"m1 a handled"},
	},
	{
		name: "a first copy was lost with its connection, the second was confirmed in time",
		script: copied + `
			copy d1 retry.100/a as c2 channel 3
			confirm c2
			ack d1
			deliver m1 a as d2
			call d2
			ok d2
			ack d2`,
		terms: faults(1),
		fates: []string{"m1 a handled"},
	},
	{
		name: "a first copy was returned, the second was confirmed",
		script: failed + `
			copy d1 /nowhere as c1
			return c1
			confirm c1
			copy d1 /parked.a as c2
			confirm c2
			ack d1
			drain m1 parked.a`,
		fates: []string{"m1 a parked"},
	},
	{
		name: "delivered, then given back unhandled by the end of the process, which the case asked for",
		script: delivered + `
			stop
			exit
			lose
			drain m1 a`,
		terms: func(t *Terms) { t.Kept["a"] = true },
		fates: []string{"m1 a kept"},
	},
	{
		name: "the parking queue died with its owner, and its copy with it",
		script: house + `
			queue mine exclusive
			queue parked.mine exclusive
			publish m1 /mine
			deliver m1 mine as d1
			call d1 consumer M
			fail d1
			copy d1 /parked.mine as c1
			confirm c1
			ack d1
			lose`,
		terms: func(t *Terms) { t.Consumers["M"] = "mine" },
		fates: []string{"m1 mine parked"},
	},
	{
		name: "the parking queue was emptied before it died",
		script: house + `
			queue mine exclusive
			queue parked.mine exclusive
			publish m1 /mine
			deliver m1 mine as d1
			call d1 consumer M
			fail d1
			copy d1 /parked.mine as c1
			confirm c1
			ack d1
			drain m1 parked.mine
			lose`,
		terms: func(t *Terms) { t.Consumers["M"] = "mine" },
		fates: []string{"m1 mine parked"},
	},
	{
		name: "an exclusive parking queue that dies twice buries each copy once",
		script: house + `
			queue mine exclusive
			queue parked.mine exclusive
			publish m1 /mine
			deliver m1 mine as d1
			call d1 consumer M
			fail d1
			copy d1 /parked.mine as c1
			confirm c1
			ack d1
			lose
			queue parked.mine exclusive
			lose`,
		terms: func(t *Terms) { t.Consumers["M"] = "mine" },
		fates: []string{"m1 mine parked"},
	},
	{
		name:   "expired by its publisher's wish",
		script: house + `publish m1 /a`,
		terms:  func(t *Terms) { t.MayExpire = map[string]bool{"m1": true} },
		fates:  []string{"m1 a expired"},
	},
	{
		name:   "dropped on purpose",
		script: failed + `ack d1`,
		terms:  func(t *Terms) { t.DroppedOnPurpose = map[string]bool{"m1": true} },
		fates:  []string{"m1 a dropped"},
	},
	{
		name:   "dropped on purpose, before any queue",
		script: house + `publish m1 orders/`,
		terms:  func(t *Terms) { t.DroppedOnPurpose = map[string]bool{"m1": true} },
		fates:  []string{"m1  dropped"},
	},
	{
		name:   "returned to its publisher",
		script: house + `publish m1 /nowhere returned`,
		fates:  []string{"m1  returned"},
	},
	{
		name:   "refused by the broker: it is nobody's",
		script: house + `publish m1 /a refused`,
	},
	{
		name:   "never confirmed to its publisher, and not there",
		script: house + `publish m1 /a unconfirmed`,
		fates:  []string{"m1 a "},
	},
	{
		name: "never confirmed to its publisher, published again, and there twice",
		script: house + `
			publish m1 /a unconfirmed
			publish m1 /a
			deliver m1 a as d1
			deliver m1 a as d2
			call d1
			call d2
			ok d1
			ok d2
			ack d1
			ack d2`,
		fates: []string{"m1 a handled"},
	},
	{
		name: "without acks, handled",
		script: house + `
			publish m1 /a
			deliver m1 a as d1 no-ack
			call d1
			ok d1`,
		fates: []string{"m1 a handled"},
	},
	{
		name: "without acks, parked",
		script: house + `
			publish m1 /a
			deliver m1 a as d1 no-ack
			call d1
			fail d1
			copy d1 /parked.a as c1
			confirm c1
			drain m1 parked.a`,
		fates: []string{"m1 a parked"},
	},
	{
		name: "published twice, handled once and parked once",
		script: house + `
			publish m1 /a
			publish m1 /a
			deliver m1 a as d1
			deliver m1 a as d2
			call d1
			call d2
			ok d1
			fail d2
			copy d2 /parked.a as c2
			confirm c2
			ack d1 d2
			drain m1 parked.a`,
		fates: []string{"m1 a parked"},
	},
	{
		name: "the process ends after the case's stop",
		script: house + `
			stop
			exit`,
	},
	{
		name:   "the broker closes with a code that the case expects",
		script: house + `close channel 406`,
		terms:  func(t *Terms) { t.ExpectedCodes = map[uint16]bool{406: true} },
	},
	{
		name: "one channel is closed, and the delivery on another goes on",
		script: house + `
			publish m1 /a
			deliver m1 a as d1 channel 3
			call d1
			close channel 406
			ok d1
			ack d1`,
		terms: func(t *Terms) { t.ExpectedCodes = map[uint16]bool{406: true} },
		fates: []string{"m1 a handled"},
	},
	{
		name:   "the broker closes without an error",
		script: house + `close connection 200`,
	},
	{
		name: "parkproof's own channel is closed by the broker",
		// Asking for a queue that is not there does that.
		script: house + `close channel 404 by `,
	},
	{
		name: "prefetched, given back, and handled for both deliveries, as a cut makes it",
		script: delivered + `
			lose
			deliver m1 a as d2 redelivered conn 2
			call d2
			call d1
			ok d2
			ok d1
			ack d2`,
		terms: faults(1),
		fates: []string{"m1 a handled"},
	},
	{
		name:   "not drained: nothing is said of what is in the queues",
		script: retried,
		terms:  func(t *Terms) { t.Drained = false },
		fates:  []string{"m1 a waiting"},
	},
}

// Ways to lose, and the words that each is found with.
var losses = []accountCase{
	{
		name:     "never delivered",
		script:   house + `publish m1 /a`,
		fates:    []string{"m1 a lost"},
		findings: []string{NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (it was never delivered)"},
	},
	{
		name:     "published to an exchange without a bound queue",
		script:   house + `publish m1 orders/k`,
		fates:    []string{"m1  lost"},
		findings: []string{NothingLost + `: m1 was published to exchange "orders" with key "k", where no queue was bound`},
	},
	{
		name:     "published to a queue that does not exist",
		script:   house + `publish m1 /gone`,
		fates:    []string{"m1  lost"},
		findings: []string{NothingLost + `: m1 was published to queue "gone", which did not exist`},
	},
	{
		name:     "acked without a copy after a failure",
		script:   failed + `ack d1`,
		fates:    []string{"m1 a lost"},
		findings: []string{NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (its last delivery was acked without a copy, although its handler had failed (fail))"},
	},
	{
		name: "acked while the handler runs, which never ends",
		script: delivered + `
			call d1
			ack d1`,
		fates:    []string{"m1 a lost"},
		findings: []string{NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (its last delivery was acked without a copy, while its handler was still running)"},
	},
	{
		name:   "acked and never handed to the handler",
		script: delivered + `ack d1`,
		fates:  []string{"m1 a lost"},
		findings: []string{
			WireAgrees + ": m1 was acked although its handler had not been called",
			NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (its last delivery was acked without a copy, and its handler was never called)",
		},
	},
	{
		name:     "rejected without requeue",
		script:   failed + `reject d1`,
		fates:    []string{"m1 a lost"},
		findings: []string{NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (its last delivery was rejected without requeue)"},
	},
	{
		name: "the copy came back as unroutable and the original was acked",
		script: failed + `
			copy d1 /parked as c1
			return c1
			confirm c1
			ack d1`,
		fates: []string{"m1 a lost"},
		findings: []string{
			ReleasedSafely + ": m1 was acked although the broker had returned its copy as unroutable",
			NothingLost + `: m1 has no fate: it was neither handled nor parked, and no queue holds it (its copy to exchange "" with key "parked" was returned as unroutable)`,
		},
	},
	{
		name: "the copy went to an exchange without a bound queue",
		script: failed + `
			copy d1 orders/a as c1
			confirm c1
			ack d1`,
		fates:    []string{"m1 a lost"},
		findings: []string{NothingLost + `: m1 has no fate: it was neither handled nor parked, and no queue holds it (its copy went to exchange "orders" with key "a", where no queue was bound)`},
	},
	{
		name: "the copy went to a queue that does not exist",
		script: failed + `
			copy d1 /parked as c1
			confirm c1
			ack d1`,
		fates:    []string{"m1 a lost"},
		findings: []string{NothingLost + `: m1 has no fate: it was neither handled nor parked, and no queue holds it (its copy went to queue "parked", which did not exist)`},
	},
	{
		name: "the copy never came home from the retry queue",
		script: copied + `
			confirm c1
			ack d1`,
		fates:    []string{"m1 a lost"},
		findings: []string{NothingLost + `: m1 has no fate: it was neither handled nor parked, and no queue holds it (its last copy went to queue "retry.100")`},
	},
	{
		name: "the broker refused the copy, which the consumer took for a confirm",
		script: failed + `
			copy d1 /parked.a as c1
			refuse c1
			ack d1`,
		fates: []string{"m1 a lost"},
		findings: []string{
			ReleasedSafely + ": m1 was acked although the broker refused its copy",
			NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (the broker refused its copy)",
		},
	},
	{
		name: "one ack for many covers one that was not copied",
		script: house + `
			publish m1 /a
			publish m2 /a
			deliver m1 a as d1
			deliver m2 a as d2
			call d1
			call d2
			fail d1
			ok d2
			ack d1 d2`,
		fates:    []string{"m1 a lost", "m2 a handled"},
		findings: []string{NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (its last delivery was acked without a copy, although its handler had failed (fail))"},
	},
	{
		name:     "handed back, and never delivered again",
		script:   failed + `nack d1`,
		fates:    []string{"m1 a lost"},
		findings: []string{NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (its last delivery went back to its queue, and it was never delivered again)"},
	},
	{
		name:     "never settled",
		script:   failed,
		fates:    []string{"m1 a lost"},
		findings: []string{NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (its last delivery was never settled)"},
	},
	{
		name: "without acks, failed",
		script: house + `
			publish m1 /a
			deliver m1 a as d1 no-ack
			call d1
			fail d1`,
		fates:    []string{"m1 a lost"},
		findings: []string{NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (its last delivery needed no ack and has no copy, although its handler had failed (fail))"},
	},
	{
		name: "without acks, never handled",
		script: house + `
			publish m1 /a
			deliver m1 a as d1 no-ack`,
		fates:    []string{"m1 a lost"},
		findings: []string{NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (its last delivery needed no ack and has no copy, and its handler was never called)"},
	},
	{
		name: "of one fanout, the first consumer's copy is lost and the other's is parked",
		script: fanout + `
			call da
			call db
			fail da
			fail db
			copy db /parked.b as cb
			confirm cb
			ack db
			ack da
			drain m1 parked.b`,
		fates:    []string{"m1 a lost", "m1 b parked"},
		findings: []string{NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (its last delivery was acked without a copy, although its handler had failed (fail))"},
	},
	{
		name: "published twice, one of them lost",
		script: house + `
			publish m1 /a
			publish m1 /a
			deliver m1 a as d1
			deliver m1 a as d2
			call d1
			call d2
			ok d1
			fail d2
			ack d1 d2`,
		fates:    []string{"m1 a lost"},
		findings: []string{NothingLost + `: m1 was published twice to queue "a", and one of them has no fate (its last delivery was acked without a copy, although its handler had failed (fail))`},
	},
	{
		name: "published thrice, two of them lost",
		script: house + `
			publish m1 /a
			publish m1 /a
			publish m1 /a
			deliver m1 a as d1
			call d1
			ok d1
			ack d1`,
		fates:    []string{"m1 a lost"},
		findings: []string{NothingLost + `: m1 was published 3 times to queue "a", and 2 of them have no fate (its last delivery was acked)`},
	},
	{
		name: "acked without a copy, and handled all the same",
		script: failed + `
			ack d1
			deliver m1 a as d2
			call d2
			ok d2
			ack d2`,
		fates:    []string{"m1 a handled"},
		findings: []string{NothingLost + ": a delivery of m1 was acked without a copy, although its handler had failed (fail)"},
	},
}

// Ways to duplicate and to send to others.
var duplicates = []accountCase{
	{
		name: "handled twice",
		script: delivered + `
			call d1
			ok d1
			ack d1
			deliver m1 a as d2
			call d2
			ok d2
			ack d2`,
		fates:    []string{"m1 a handled"},
		findings: []string{NothingDuplicated + `: m1 was published once to queue "a" and ended twice: handled twice`},
	},
	{
		name: "handled, and retried although it was handled",
		script: delivered + `
			call d1
			ok d1
			copy d1 retry.100/a as c1
			confirm c1
			ack d1
			deliver m1 a as d2
			call d2
			ok d2
			ack d2`,
		fates:    []string{"m1 a handled"},
		findings: []string{NothingDuplicated + `: m1 was published once to queue "a" and ended twice: handled twice`},
	},
	{
		name: "handled and parked",
		script: delivered + `
			call d1
			ok d1
			copy d1 /parked.a as c1
			confirm c1
			ack d1
			drain m1 parked.a`,
		fates:    []string{"m1 a parked"},
		findings: []string{NothingDuplicated + `: m1 was published once to queue "a" and ended twice: handled once, parked once`},
	},
	{
		name: "parked twice",
		script: failed + `
			copy d1 /parked.a as c1
			copy d1 /parked.a as c2
			confirm c1
			confirm c2
			ack d1
			drain m1 parked.a
			drain m1 parked.a`,
		fates:    []string{"m1 a parked"},
		findings: []string{NothingDuplicated + `: m1 was published once to queue "a" and ended twice: parked twice`},
	},
	{
		name: "two copies where one fault allows one more",
		script: failed + `
			copy d1 /parked.a as c1
			copy d1 /parked.a as c2
			copy d1 /parked.a as c3
			confirm c1
			confirm c2
			confirm c3
			ack d1
			drain m1 parked.a
			drain m1 parked.a
			drain m1 parked.a`,
		terms:    faults(1),
		fates:    []string{"m1 a parked"},
		findings: []string{NothingDuplicated + `: m1 was published once to queue "a" and ended 3 times: parked 3 times`},
	},
	{
		name: "the retry is broadcast to the other consumer, which handles it twice",
		script: fanout + `
			call da
			call db
			ok db
			ack db
			fail da
			copy da orders/ as c1
			confirm c1
			ack da
			deliver m1 a as da2
			deliver m1 b as db2
			call da2
			call db2
			ok da2
			ok db2
			ack da2
			ack db2`,
		fates: []string{"m1 a handled", "m1 b handled"},
		findings: []string{
			NothingDuplicated + `: m1 failed in queue "a", and its copy was sent to queue "b", which is not its own`,
			NothingDuplicated + `: m1 was published once to queue "b" and ended twice: handled twice`,
		},
	},
	{
		name: "the retry comes home through the original exchange, by dead-lettering",
		script: fanout + `
			call da
			call db
			ok db
			ack db
			fail da
			reject da
			deliver m1 a as da2
			deliver m1 b as db2
			call da2
			call db2
			ok da2
			ok db2
			ack da2
			ack db2`,
		fates:    []string{"m1 a handled", "m1 b handled"},
		findings: []string{NothingDuplicated + `: m1 was published once to queue "b" and ended twice: handled twice`},
	},
	{
		name: "no fault excuses that the retry is broadcast",
		script: fanout + `
			call da
			call db
			ok db
			ack db
			fail da
			copy da orders/ as c1
			confirm c1
			ack da
			deliver m1 a as da2
			deliver m1 b as db2
			call da2
			call db2
			ok da2
			ok db2
			ack da2
			ack db2`,
		terms:    faults(1),
		fates:    []string{"m1 a handled", "m1 b handled"},
		findings: []string{NothingDuplicated + `: m1 failed in queue "a", and its copy was sent to queue "b", which is not its own`},
	},
	{
		name: "the retry reaches a witness that had its own",
		script: house + `
			bind orders a
			bind orders w
			publish m1 orders/
			deliver m1 a as d1
			call d1
			fail d1
			copy d1 orders/ as c1
			confirm c1
			ack d1
			deliver m1 a as d2
			call d2
			ok d2
			ack d2
			drain m1 w
			drain m1 w`,
		fates: []string{"m1 a handled", "m1 w kept"},
		findings: []string{
			NothingDuplicated + `: m1 failed in queue "a", and its copy was sent to queue "w", which is not its own`,
			NothingDuplicated + `: m1 was published once to queue "w" and ended twice: kept twice`,
		},
	},
	{
		name: "a message reaches a witness that it was never sent to, by dead-lettering",
		script: delivered + `
			call d1
			ok d1
			ack d1
			drain m1 w`,
		fates:    []string{"m1 a handled"},
		findings: []string{NothingDuplicated + `: m1 reached queue "w", to which its publisher never sent it`},
	},
	{
		name: "a message is delivered from a queue that it was never sent to",
		script: delivered + `
			call d1
			ok d1
			ack d1
			deliver m1 b as d2
			call d2
			ok d2
			ack d2`,
		fates:    []string{"m1 a handled"},
		findings: []string{NothingDuplicated + `: m1 was delivered from queue "b", to which its publisher never sent it`},
	},
}

// Ways to release the original too early.
var releases = []accountCase{
	{
		name: "acked before the copy is published",
		script: failed + `
			ack d1
			copy d1 /parked.a as c1
			confirm c1
			drain m1 parked.a`,
		fates:    []string{"m1 a parked"},
		findings: []string{ReleasedSafely + ": m1 was acked before its copy was published: a crash in between would have lost it"},
	},
	{
		name: "acked before the copy is published, on the same channel and without confirms",
		script: failed + `
			ack d1
			copy d1 /parked.a as c1 plain channel 1
			drain m1 parked.a`,
		fates:    []string{"m1 a parked"},
		findings: []string{ReleasedSafely + ": m1 was acked before its copy was published: a crash in between would have lost it"},
	},
	{
		name: "acked after the confirm arrived and before it was passed on",
		script: failed + `
			copy d1 /parked.a as c1
			arrive c1
			ack d1
			confirm c1
			drain m1 parked.a`,
		fates:    []string{"m1 a parked"},
		findings: []string{ReleasedSafely + ": m1 was acked before its copy was confirmed: a crash in between would have lost it"},
	},
	{
		name: "acked, and the confirm never came",
		script: failed + `
			copy d1 /parked.a as c1
			ack d1
			drain m1 parked.a`,
		fates:    []string{"m1 a parked"},
		findings: []string{ReleasedSafely + ": m1 was acked, and its copy was never confirmed"},
	},
	{
		name: "confirms on the same channel are not waited for",
		script: failed + `
			copy d1 /parked.a as c1 channel 1
			ack d1
			confirm c1
			drain m1 parked.a`,
		fates:    []string{"m1 a parked"},
		findings: []string{ReleasedSafely + ": m1 was acked before its copy was confirmed: a crash in between would have lost it"},
	},
	{
		name: "copied on another channel without confirms",
		script: failed + `
			copy d1 /parked.a as c1 plain
			ack d1
			drain m1 parked.a`,
		fates:    []string{"m1 a parked"},
		findings: []string{ReleasedSafely + ": m1 was acked although its copy went out on another channel, without confirms: nothing says that the broker had it by then"},
	},
	{
		name: "a copy without confirms was returned before the ack",
		script: failed + `
			copy d1 /gone as c1 plain channel 1
			return c1
			ack d1
			drain m1 parked.a`,
		fates:    []string{"m1 a parked"},
		findings: []string{ReleasedSafely + ": m1 was acked although the broker had returned its copy as unroutable"},
	},
	{
		name: "the broker refused the copy, and still has it",
		script: failed + `
			copy d1 /parked.a as c1
			refuse c1
			ack d1
			drain m1 parked.a`,
		fates:    []string{"m1 a parked"},
		findings: []string{ReleasedSafely + ": m1 was acked although the broker refused its copy"},
	},
	{
		name: "of two copies neither was confirmed in time",
		script: failed + `
			copy d1 /gone as c1
			copy d1 /parked.a as c2
			refuse c1
			ack d1
			confirm c2
			drain m1 parked.a`,
		fates:    []string{"m1 a parked"},
		findings: []string{ReleasedSafely + ": m1 was acked before its copy was confirmed: a crash in between would have lost it"},
	},
	{
		name: "acked before the handler has finished",
		script: delivered + `
			call d1
			ack d1
			ok d1`,
		fates:    []string{"m1 a handled"},
		findings: []string{ReleasedSafely + ": m1 was acked before its handler had finished: a crash in between would have lost it"},
	},
	{
		name: "two consumers of one fanout both fail, one is released before its own copy",
		script: fanout + `
			call da
			call db
			fail da
			fail db
			copy da /parked.a as ca
			ack db
			confirm ca
			ack da
			copy db /parked.b as cb
			confirm cb
			drain m1 parked.a
			drain m1 parked.b`,
		fates:    []string{"m1 a parked", "m1 b parked"},
		findings: []string{ReleasedSafely + ": m1 was acked before its copy was published: a crash in between would have lost it"},
	},
}

// What is left behind, and what nobody has sent.
var leftovers = []accountCase{
	{
		name: "left in the retry queue",
		script: copied + `
			confirm c1
			ack d1
			drain m1 retry.100 key a`,
		fates:    []string{"m1 a waiting"},
		findings: []string{NothingWaits + `: m1 was still in queue "retry.100" when everything had settled`},
	},
	{
		name: "handled, and left in the retry queue too",
		script: retried + `
			call d2
			ok d2
			ack d2
			drain m1 retry.100 key a`,
		fates:    []string{"m1 a handled"},
		findings: []string{NothingWaits + `: m1 was still in queue "retry.100" when everything had settled`},
	},
	{
		name: "left in the source queue",
		script: house + `
			publish m1 /a
			drain m1 a`,
		fates:    []string{"m1 a waiting"},
		findings: []string{NothingWaits + `: m1 was still in queue "a" when everything had settled`},
	},
	{
		name: "what waits for one consumer hides no loss of the other",
		script: fanout + `
			call da
			call db
			fail da
			fail db
			copy da retry.100/a as c1
			confirm c1
			ack da
			ack db
			drain m1 retry.100 key a`,
		fates: []string{"m1 a waiting", "m1 b lost"},
		findings: []string{
			NothingWaits + `: m1 was still in queue "retry.100" when everything had settled`,
			NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (its last delivery was acked without a copy, although its handler had failed (fail))",
		},
	},
	{
		name: "published twice, one handled and one left",
		script: house + `
			publish m1 /a
			publish m1 /a
			deliver m1 a as d1
			call d1
			ok d1
			ack d1
			drain m1 a`,
		fates:    []string{"m1 a handled"},
		findings: []string{NothingWaits + `: m1 was still in queue "a" when everything had settled`},
	},
	{
		name: "parked in another queue's parking queue",
		script: failed + `
			copy d1 /parked.b as c1
			confirm c1
			ack d1
			drain m1 parked.b`,
		fates: []string{"m1 a waiting"},
		findings: []string{
			NothingWaits + `: m1 was in queue "parked.b", which is the parking queue of a queue that it was never sent to`,
		},
	},
	{
		name: "a parking queue holds what nobody published",
		script: house + `
			drain m9 parked.a
			drain ? parked.b`,
		findings: []string{
			NothingAppears + `: queue "parked.a" held a message that parkproof did not publish (message m9)`,
			NothingAppears + `: queue "parked.b" held a message that parkproof did not publish (7 bytes, no message id)`,
		},
	},
}

// Where the wire, the handler, the process and the broker have their say.
var conduct = []accountCase{
	{
		name: "redelivered, though nothing broke",
		script: failed + `
			nack d1
			deliver m1 a as d2 redelivered
			call d2
			ok d2
			ack d2`,
		fates:    []string{"m1 a handled"},
		findings: []string{NotRedelivered + `: m1 was handed back to queue "a" and redelivered once, though nothing broke`},
	},
	{
		name: "redelivered before the case's stop",
		script: failed + `
			nack d1
			deliver m1 a as d2 redelivered
			call d2
			stop
			ok d2
			ack d2`,
		fates:    []string{"m1 a handled"},
		findings: []string{NotRedelivered + `: m1 was handed back to queue "a" and redelivered once, though nothing broke`},
	},
	{
		name: "the handler is called without a delivery",
		script: delivered + `
			call d1
			call d1
			ok d1
			ack d1`,
		// The second call is the one that is settled, so that the delivery is never handled.
		fates: []string{"m1 a lost"},
		findings: []string{
			WireAgrees + `: the handler of "A" was called with m1, which had not been delivered to it`,
			NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (its last delivery was acked without a copy, while its handler was still running)",
		},
	},
	{
		name: "the handler of the wrong consumer is called",
		script: delivered + `
			call d1 consumer B
			ack d1`,
		fates: []string{"m1 a lost"},
		findings: []string{
			WireAgrees + `: the handler of "B" was called with m1, which had not been delivered to it`,
			WireAgrees + ": m1 was acked although its handler had not been called",
			NothingLost + ": m1 has no fate: it was neither handled nor parked, and no queue holds it (its last delivery was acked without a copy, and its handler was never called)",
		},
	},
	{
		name: "acked by the library, and its handler never saw it, but it was parked",
		script: delivered + `
			ack d1
			drain m1 parked.a`,
		fates: []string{"m1 a parked"},
		findings: []string{
			WireAgrees + ": m1 was acked although its handler had not been called",
			NothingLost + ": a delivery of m1 was acked without a copy, and its handler was never called",
		},
	},
	{
		name: "the handler runs on after its connection is lost, and again for the redelivery",
		script: delivered + `
			lose
			call d1
			ok d1
			deliver m1 a as d2 redelivered conn 2
			call d2
			ok d2
			ack d2`,
		fates:    []string{"m1 a handled"},
		findings: []string{NotRedelivered + `: m1 was handed back to queue "a" and redelivered once, though nothing broke`},
	},
	{
		name: "what was acked without a call is not what a later call is for",
		script: house + `
			publish m1 /a
			publish m1 /a
			deliver m1 a as d1
			ack d1
			deliver m1 a as d2
			call d2
			ok d2
			ack d2`,
		terms: func(t *Terms) { t.DroppedOnPurpose = map[string]bool{"m1": true} },
		fates: []string{"m1 a handled"},
		findings: []string{
			WireAgrees + ": m1 was acked although its handler had not been called",
		},
	},
	{
		name:     "the process dies unasked",
		script:   house + `exit`,
		findings: []string{ProcessLives + ": the consumer's process ended by itself (exit status 1)"},
	},
	{
		name: "the process dies again after it was started again",
		script: house + `
			stop
			exit
			start
			exit`,
		findings: []string{ProcessLives + ": the consumer's process ended by itself (exit status 1)"},
	},
	{
		name: "the stop of one process is no excuse for another",
		script: house + `
			stop p
			exit q`,
		findings: []string{ProcessLives + ": the consumer's process ended by itself (exit status 1)"},
	},
	{
		name:     "the broker closes a channel",
		script:   house + `close channel 406`,
		findings: []string{BrokerContent + ": the broker closed the consumer's channel: 406 BECAUSE"},
	},
	{
		name:     "the broker closes a connection, with another code than expected",
		script:   house + `close connection 530`,
		terms:    func(t *Terms) { t.ExpectedCodes = map[uint16]bool{406: true} },
		findings: []string{BrokerContent + ": the broker closed the consumer's connection: 530 BECAUSE"},
	},
	{
		name:     "what cannot be understood",
		script:   house + `garbage`,
		findings: []string{WireAgrees + ": on the consumer's connection, the client sent what cannot be understood: WHY"},
	},
}

func TestBalance(t *testing.T) {
	for what, cases := range map[string][]accountCase{
		"clean": clean, "losses": losses, "duplicates": duplicates, "releases": releases, "leftovers": leftovers, "conduct": conduct,
	} {
		t.Run(what, func(t *testing.T) {
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					if what == "clean" && c.findings != nil || what != "clean" && c.findings == nil {
						t.Fatal("it stands among the wrong cases")
					}
					checkAccount(t, c)
				})
			}
		})
	}
}

func checkAccount(t *testing.T, c accountCase) {
	t.Helper()
	terms := terms()
	if c.terms != nil {
		c.terms(&terms)
	}
	events := history(t, c.script)
	account := Balance(events, terms)
	var fates, findings []string
	for _, e := range account.Entries {
		fates = append(fates, fmt.Sprintf("%s %s %s", e.Message, e.Queue, e.Fate))
	}
	for _, f := range account.Findings {
		findings = append(findings, f.Guarantee+": "+f.Text)
		if f.Message != "" && !strings.Contains(f.Text, f.Message) {
			t.Errorf("%q does not say which message", f.Text)
		}
		if len(f.Events) == 0 || !slices.IsSorted(f.Events) || f.Events[0] < 1 || f.Events[len(f.Events)-1] > len(events) {
			t.Errorf("%q is shown by the events %v, of %d", f.Text, f.Events, len(events))
		}
	}
	if !slices.Equal(fates, c.fates) {
		t.Errorf("fates\n\t%s\nwant\n\t%s", strings.Join(fates, "\n\t"), strings.Join(c.fates, "\n\t"))
	}
	if !slices.Equal(findings, c.findings) {
		t.Errorf("findings\n\t%s\nwant\n\t%s", strings.Join(findings, "\n\t"), strings.Join(c.findings, "\n\t"))
	}

	// A book that is kept as the events come says the same as one that is written at the end.
	piecemeal := NewBook(&terms)
	for i := range events {
		piecemeal.Update(events[:i+1])
	}
	again := piecemeal.result()
	again.observe(events)
	if fmt.Sprint(again) != fmt.Sprint(account) {
		t.Errorf("event by event, the account is %v, and at once %v", again, account)
	}
}

// Which delivery a copy is said to come from, and whether it came too late.
func TestCopiesAreJoined(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         []string // the copies' keys, by delivery
	}{
		{"to the one that is open", failed + "copy d1 /parked.a as c1", []string{"parked.a"}},
		{"to the one that was acked", failed + "ack d1\n copy d1 /parked.a as c1", []string{"parked.a late"}},
		{"without acks, there is no late", house + "publish m1 /a\n deliver m1 a as d1 no-ack\n call d1\n fail d1\n copy d1 /parked.a as c1", []string{"parked.a"}},
		{"none to one that was handled and acked", delivered + "call d1\n ok d1\n ack d1\n copy d1 /parked.a as c1", []string{""}},
		{"none to one that went back", failed + "nack d1\n copy d1 /parked.a as c1", []string{""}},
		{"by the retry's key", fanout + "copy da retry.100/b as c1\n copy db retry.100/a as c2", []string{"a", "b"}},
		{"by the parking queue", fanout + "copy da /parked.b as c1\n copy db /parked.a as c2", []string{"parked.a", "parked.b"}},
		{"else to the failed one", fanout + "call da\n call db\n ok da\n fail db\n copy da orders/k as c1", []string{"", "k"}},
		{"else to one whose handler still runs", fanout + "call da\n call db\n ok da\n copy da orders/k as c1", []string{"", "k"}},
		{"else to one without a copy", fanout + "copy da orders/k as c1\n copy da orders/l as c2", []string{"k", "l"}},
		{"none of another process", delivered + "stray q m1 /parked.a as c1", []string{""}},
		{"none of another message", delivered + "stray p m2 /parked.a as c1", []string{""}},
	} {
		terms := terms()
		b := NewBook(&terms)
		b.Update(history(t, c.script))
		var got []string
		for _, d := range b.Deliveries {
			var keys []string
			for _, copied := range d.Copies {
				key := copied.Key
				if copied.Orphan {
					key += " late"
				}
				keys = append(keys, key)
			}
			got = append(got, strings.Join(keys, ", "))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestReleaseGrades(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         []Grade
	}{
		{"confirmed", copied + "confirm c1\n ack d1", []Grade{ReleasedConfirmed}},
		{"ordered", failed + "copy d1 /parked.a as c1 plain channel 1\n ack d1", []Grade{ReleasedOrdered}},
		{"unsafe", copied + "ack d1\n confirm c1", []Grade{ReleasedUnsafe}},
		{"the better of two copies counts", failed + "copy d1 /parked.a as c1 plain channel 1\n copy d1 /parked.a as c2\n confirm c2\n ack d1", []Grade{ReleasedConfirmed}},
		{"one a release", retried + "call d2\n fail d2\n copy d2 /parked.a as c2\n ack d2", []Grade{ReleasedConfirmed, ReleasedUnsafe}},
		{"a handled delivery has none", delivered + "call d1\n ok d1\n ack d1", nil},
		{"without acks there is none", house + "publish m1 /a\n deliver m1 a as d1 no-ack\n call d1\n fail d1\n copy d1 /parked.a as c1", nil},
	} {
		account := Balance(history(t, c.script), terms())
		if len(account.Entries) != 1 || !slices.Equal(account.Entries[0].Releases, c.want) {
			t.Errorf("%s: %+v, want %v", c.name, account.Entries, c.want)
		}
	}
}

func TestEntryCounts(t *testing.T) {
	account := Balance(history(t, house+`
		publish m2 /a
		publish m10 /a
		publish m1 /a
		publish m1 /a
		deliver m1 a as d1
		call d1
		ok d1
		ack d1
		deliver m1 a as d2
		lose
		deliver m1 a as d3 redelivered conn 2
		call d3
		fail d3
		copy d3 /parked.a as c3
		confirm c3
		ack d3
		drain m1 parked.a
		drain m2 a
		drain m10 a`), terms())
	var got []string
	for _, e := range account.Entries {
		got = append(got, fmt.Sprintf("%s %s, published %d, handled %d, parked %d, kept %d, delivered %d of which again %d, released %v",
			e.Message, e.Fate, e.Times, e.Handled, e.Parked, e.Kept, e.Deliveries, e.Redeliveries, e.Releases))
	}
	want := []string{
		"m1 parked, published 2, handled 1, parked 1, kept 0, delivered 3 of which again 1, released [confirmed]",
		"m2 waiting, published 1, handled 0, parked 0, kept 0, delivered 0 of which again 0, released []",
		"m10 waiting, published 1, handled 0, parked 0, kept 0, delivered 0 of which again 0, released []",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if account.Deliveries != 3 {
		t.Errorf("%d deliveries", account.Deliveries)
	}
}

// A consumer without conventions has no parking queue: what lands in a queue that the case does not
// name is left waiting.
func TestBalanceWithoutConventions(t *testing.T) {
	account := Balance(history(t, failed+"copy d1 /parked.a as c1\n confirm c1\n ack d1\n drain m1 parked.a"),
		Terms{Consumers: map[string]string{"A": "a"}, Drained: true})
	if len(account.Findings) != 1 || account.Findings[0].Guarantee != NothingWaits {
		t.Errorf("%+v", account.Findings)
	}
}

func TestAllKept(t *testing.T) {
	for script, want := range map[string]bool{
		house:                                true,
		house + "publish m1 /w\n drain m1 w": true,
		house + "publish m1 /w\n publish m2 /a\n drain m1 w\n drain m2 a": false,
	} {
		if got := Balance(history(t, script), terms()).AllKept(); got != want {
			t.Errorf("%s: %v", script, got)
		}
	}
}

func TestDeliveriesOf(t *testing.T) {
	terms := terms()
	b := NewBook(&terms)
	b.Update(history(t, house+`
		deliver m1 a as d1
		deliver m2 a as d2
		deliver m1 b as d3
		deliver m1 a as d4 by q`))
	var got []string
	for _, d := range b.DeliveriesOf("p", "m1") {
		got = append(got, d.Queue)
	}
	if !slices.Equal(got, []string{"a", "b"}) || len(b.DeliveriesOf("q", "m2")) > 0 {
		t.Errorf("%q", got)
	}
}

func TestSettled(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         bool
	}{
		{"nothing", house, true},
		{"published", house + "publish m1 /a", false},
		{"delivered", delivered, false},
		{"handled, not acked", delivered + "call d1\n ok d1", false},
		{"handled", delivered + "call d1\n ok d1\n ack d1", true},
		{"on a retry", copied + "confirm c1\n ack d1", false},
		{"parked and found", failed + "copy d1 /parked.a as c1\n confirm c1\n ack d1\n drain m1 parked.a", true},
		{"returned", house + "publish m1 /gone returned", true},
		{"for a witness", house + "publish m1 /w", true},
	} {
		terms := terms()
		b := NewBook(&terms)
		b.Update(history(t, c.script))
		if got := b.Settled(); got != c.want {
			t.Errorf("%s: settled is %v", c.name, got)
		}
	}
}
