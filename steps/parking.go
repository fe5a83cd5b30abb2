package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

func (w *World) parkingSteps(s Words) {
	s.Step(`^"([^"]*)" is parked (once|twice|\d+ times)$`, func(ctx context.Context, message, count string) error {
		return w.isParked(ctx, message, count, "")
	})
	s.Step(`^"([^"]*)" is parked (once|twice|\d+ times) for "([^"]*)"$`, w.isParked)
	s.Step(`^(\d+) messages "([^"]*)" are parked once each$`, w.areParked)
	s.Step(`^"([^"]*)" has been parked$`, w.hasBeenParked)
	s.Step(`^"([^"]*)" is not parked$`, w.isNotParked)
	s.Step(`^"([^"]*)" made no hop$`, w.madeNoHop)
	s.Step(`^the parked "([^"]*)" carries attempt (\d+)$`, w.parkedAttempt)
	s.Step(`^the parked "([^"]*)" carries the queue of "([^"]*)"$`, w.parkedQueueHeader)
	s.Step(`^the parked "([^"]*)" carries the reason "([^"]*)"$`, w.parkedReason)
	s.Step(`^the parked "([^"]*)" carries the time of its parking$`, w.parkedTime)
	s.Step(`^the parked "([^"]*)" is persistent$`, w.parkedPersistent)
	s.Step(`^the origin of the parked "([^"]*)" is the exchange "([^"]*)" and the key "([^"]*)"$`, w.parkedOrigin)
	s.Step(`^every copy of "([^"]*)" carries the exchange "([^"]*)" and the key "([^"]*)"$`, w.copiesOrigin)
	s.Step(`^the parking queue of "([^"]*)" is durable$`, w.parkingIsDurable)
	s.Step(`^the parking queue of "([^"]*)" is gone$`, w.parkingIsGone)
	s.Step(`^a copy of "([^"]*)" is confirmed in the parking queue of "([^"]*)"$`, w.confirmedInParking)
}

// parkingOf is the parking queue of a consumer.
func (w *World) parkingOf(c *consumer) (string, error) {
	queue := w.conventions().parkedQueue(c.queue)
	if queue == "" {
		return "", &Unsupported{What: "parking: its conventions name no parking queue"}
	}
	return queue, nil
}

// parkings are the parking queues of the named consumer, or of all.
func (w *World) parkings(name string) ([]string, error) {
	w.mu.Lock()
	var cs []*consumer
	for _, c := range w.consumers {
		if name == "" || c.name == name {
			cs = append(cs, c)
		}
	}
	w.mu.Unlock()
	var queues []string
	for _, c := range cs {
		q, err := w.parkingOf(c)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(queues, q) {
			queues = append(queues, q)
		}
	}
	if len(queues) == 0 {
		return nil, fmt.Errorf("no consumer %q was started", name)
	}
	slices.Sort(queues)
	return queues, nil
}

// collected waits until the condition holds, and meanwhile takes what is in the queues: what is in
// a queue is seen only by taking it out, and the ledger keeps it.
func (w *World) collected(ctx context.Context, queues []string, holds func(*ledger.Book) bool) (bool, error) {
	silence := w.longestRung() + quiet
	ctx, cancel := context.WithTimeout(ctx, w.patience())
	defer cancel()
	still := w.stillness(silence)
	pace := time.NewTicker(inspectPace)
	defer pace.Stop()
	for {
		changed := w.Ledger.Changed()
		if err := w.collect(queues); err != nil {
			return false, err
		}
		if w.look(holds) {
			return true, nil
		}
		if still() {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-changed:
		case <-pace.C:
		}
		select { // not more often than the pace, whatever happens
		case <-ctx.Done():
			return w.look(holds), nil
		case <-pace.C:
		}
	}
}

// collect takes what is in the queues now, of those that are there and can be read.
func (w *World) collect(queues []string) error {
	var there []string
	w.look(func(b *ledger.Book) bool {
		for _, name := range queues {
			if q, ok := b.Topology.Queues[name]; ok && !q.Exclusive {
				there = append(there, name)
			}
		}
		return true
	})
	for _, queue := range there {
		if _, err := w.drain(queue); err != nil {
			return err
		}
	}
	return nil
}

// manyMessages is from how many messages on a queue is drained by a consumer and not by single
// gets, of which each costs a round trip.
const manyMessages = 20

// drain takes all ready messages from a queue and returns how many there were. Each is in the
// ledger.
func (w *World) drain(queue string) (int, error) {
	drainer, err := w.drainer()
	if errors.Is(err, errAway) {
		return 0, nil // nothing comes out of it now
	}
	if err != nil {
		return 0, err
	}
	q, err := drainer.QueueDeclarePassive(queue, false, false, false, false, nil)
	var refused *amqp.Error
	if errors.As(err, &refused) && (refused.Code == amqp.NotFound || refused.Code == amqp.ResourceLocked) {
		return 0, nil // gone, or its owner's alone
	}
	if err != nil {
		return 0, fmt.Errorf("looking at queue %q: %w", queue, err)
	}
	if q.Messages == 0 {
		return 0, nil
	}
	if q.Messages >= manyMessages {
		return drainMany(drainer, queue, q.Messages)
	}
	for n := 0; ; n++ {
		_, more, err := drainer.Get(queue, true)
		if err != nil {
			return n, fmt.Errorf("taking messages from queue %q: %w", queue, err)
		}
		if !more {
			return n, nil
		}
	}
}

func drainMany(drainer *amqp.Channel, queue string, n int) (int, error) {
	const tag = "parkproof-drain"
	deliveries, err := drainer.Consume(queue, tag, true, false, false, false, nil)
	if err != nil {
		return 0, fmt.Errorf("taking messages from queue %q: %w", queue, err)
	}
	taken := 0
	limit := time.NewTimer(ours)
	defer limit.Stop()
	for taken < n {
		select {
		case _, more := <-deliveries:
			if !more {
				return taken, fmt.Errorf("taking messages from queue %q: the broker ended it", queue)
			}
			taken++
		case <-limit.C:
			return taken, fmt.Errorf("taking messages from queue %q: %d of %d came", queue, taken, n)
		}
	}
	if err := drainer.Cancel(tag, false); err != nil {
		return taken, fmt.Errorf("taking messages from queue %q: %w", queue, err)
	}
	for range deliveries { // what came between the last one and the cancel
		taken++
	}
	return taken, nil
}

func parkedTimes(b *ledger.Book, queues []string, message string) int {
	n := 0
	for _, q := range queues {
		n += len(b.DrainedFrom[q][message])
	}
	return n
}

func (w *World) isParked(ctx context.Context, message, count, name string) error {
	want, err := parseCount(count)
	if err != nil {
		return err
	}
	queues, err := w.parkings(name)
	if err != nil {
		return err
	}
	check := func() error {
		got := 0
		w.look(func(b *ledger.Book) bool { got = parkedTimes(b, queues, message); return true })
		if got == want {
			return nil
		}
		f := &Failure{
			Message:  message,
			Expected: fmt.Sprintf("%s in the parking queue %s %s", message, quoted(queues), count),
			Seen:     "it is there " + times(got),
		}
		if got == 0 {
			f.Seen = "it is not there"
		}
		return f
	}
	if _, err := w.collected(ctx, queues, func(b *ledger.Book) bool { return parkedTimes(b, queues, message) >= want }); err != nil {
		return err
	}
	w.finally(check)
	return check()
}

func (w *World) areParked(ctx context.Context, want int, pattern string) error {
	queues, err := w.parkings("")
	if err != nil {
		return err
	}
	count := func(b *ledger.Book) (messages, copies int) {
		for _, q := range queues {
			for message, events := range b.DrainedFrom[q] {
				if matches(pattern, message) {
					messages++
					copies += len(events)
				}
			}
		}
		return messages, copies
	}
	check := func() error {
		var messages, copies int
		w.look(func(b *ledger.Book) bool { messages, copies = count(b); return true })
		if messages == want && copies == want {
			return nil
		}
		return &Failure{
			Expected: fmt.Sprintf("%d messages %s parked once each", want, pattern),
			Seen:     fmt.Sprintf("%d of them in the parking queue, %d copies in all", messages, copies),
		}
	}
	if _, err := w.collected(ctx, queues, func(b *ledger.Book) bool { n, _ := count(b); return n >= want }); err != nil {
		return err
	}
	w.finally(check)
	return check()
}

// hasBeenParked is a When: it waits, and what the case then does needs it.
func (w *World) hasBeenParked(ctx context.Context, message string) error {
	queues, err := w.parkings("")
	if err != nil {
		return err
	}
	yes, err := w.collected(ctx, queues, func(b *ledger.Book) bool { return parkedTimes(b, queues, message) > 0 })
	if err != nil {
		return err
	}
	if !yes {
		return &Failure{Message: message, Expected: message + " to be parked", Seen: "it was not"}
	}
	return nil
}

func (w *World) isNotParked(_ context.Context, message string) error {
	queues, err := w.parkings("")
	if err != nil {
		return err
	}
	w.finally(func() error {
		got := 0
		w.look(func(b *ledger.Book) bool { got = parkedTimes(b, queues, message); return true })
		if got > 0 {
			return &Failure{Message: message, Expected: message + " not to be parked", Seen: "it was parked " + times(got)}
		}
		return nil
	})
	return nil
}

// madeNoHop checks that no copy of the message went to a queue that sends it home.
func (w *World) madeNoHop(_ context.Context, message string) error {
	conv := w.conventions()
	var to []string
	copies := 0
	w.look(func(b *ledger.Book) bool {
		for _, c := range b.CopiesOf[message] {
			copies++
			for _, q := range c.To {
				if !conv.isParkedQueue(q) {
					to = append(to, q)
				}
			}
		}
		return true
	})
	switch {
	case len(to) > 0:
		return &Failure{Message: message, Expected: message + " to make no hop", Seen: fmt.Sprintf("a copy of it went to queue %q", to[0])}
	case copies == 0:
		return &Unknown{Why: "no copy of " + message + " was seen"}
	}
	return nil
}

// parked is the message as it was taken from its parking queue.
func (w *World) parked(ctx context.Context, message string) (*ledger.Content, error) {
	if err := w.hasBeenParked(ctx, message); err != nil {
		return nil, err
	}
	queues, err := w.parkings("")
	if err != nil {
		return nil, err
	}
	var content *ledger.Content
	w.look(func(b *ledger.Book) bool {
		for _, q := range queues {
			if events := b.DrainedFrom[q][message]; len(events) > 0 {
				content = events[0].Content
			}
		}
		return true
	})
	return content, nil
}

func (w *World) parkedAttempt(ctx context.Context, message string, want int) error {
	conv := w.conventions()
	if err := needs(conv.AttemptHeader, "attempt header"); err != nil {
		return err
	}
	content, err := w.parked(ctx, message)
	if err != nil {
		return err
	}
	for _, p := range w.allProcesses() {
		if p.fixedLadder() && want == len(p.ladder)+1 {
			want = p.attempts()
		}
	}
	got, ok := conv.attempt(content.Properties.Headers)
	// A library that counts retries writes nothing where there was none.
	if !ok && conv.AttemptHeaderCounts == "retries" {
		got, ok = 1, true
	}
	if !ok || got != want {
		seen := fmt.Sprintf("attempt %d", got)
		if !ok {
			seen = "no attempt"
		}
		return &Failure{
			Message:  message,
			Expected: fmt.Sprintf("the parked %s to carry attempt %d in %q", message, want, conv.AttemptHeader),
			Seen:     "it carries " + seen,
		}
	}
	return nil
}

// parkedHeader is a header of the parked message, by its convention.
func (w *World) parkedHeader(ctx context.Context, message, header, what string) (any, error) {
	if err := needs(header, what+" header"); err != nil {
		return nil, err
	}
	content, err := w.parked(ctx, message)
	if err != nil {
		return nil, err
	}
	v, ok := content.Properties.Headers.Get(header)
	if !ok {
		return nil, &Failure{
			Message:  message,
			Expected: fmt.Sprintf("the parked %s to carry its %s in %q", message, what, header),
			Seen:     "there is no such header",
		}
	}
	return v, nil
}

func (w *World) parkedQueueHeader(ctx context.Context, message, name string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	header := w.conventions().QueueHeader
	v, err := w.parkedHeader(ctx, message, header, "queue")
	if err != nil {
		return err
	}
	if v != c.queue {
		return &Failure{Message: message, Expected: fmt.Sprintf("the queue %q in %q", c.queue, header), Seen: fmt.Sprintf("%v", v)}
	}
	return nil
}

func (w *World) parkedReason(ctx context.Context, message, reason string) error {
	header := w.conventions().ReasonHeader
	v, err := w.parkedHeader(ctx, message, header, "reason")
	if err != nil {
		return err
	}
	// Languages put names and prefixes around the text of an error.
	if text, ok := v.(string); !ok || !strings.Contains(text, reason) {
		return &Failure{Message: message, Expected: fmt.Sprintf("the reason %q in %q", reason, header), Seen: fmt.Sprintf("%v", v)}
	}
	return nil
}

// clockSlack is how far the consumer's clock may be from ours; they run on one machine, and AMQP's
// timestamps are in whole seconds.
const clockSlack = 2 * time.Second

func (w *World) parkedTime(ctx context.Context, message string) error {
	header := w.conventions().TimeHeader
	v, err := w.parkedHeader(ctx, message, header, "time")
	if err != nil {
		return err
	}
	at, ok := timeOf(v)
	if !ok || at.Before(w.Ledger.Began().Add(-clockSlack)) || at.After(time.Now().Add(clockSlack)) {
		return &Failure{
			Message: message, Expected: fmt.Sprintf("the time of its parking in %q", header), Seen: fmt.Sprintf("%v", v),
		}
	}
	return nil
}

// timeOf reads a time as libraries write it: a timestamp, milliseconds or seconds since 1970, or
// RFC 3339.
func timeOf(v any) (time.Time, bool) {
	switch v := v.(type) {
	case frame.Timestamp:
		return v.Time(), true
	case string:
		t, err := time.Parse(time.RFC3339Nano, v)
		return t, err == nil
	}
	n, ok := frame.Integer(v)
	if f, isFloat := v.(float64); isFloat {
		n, ok = int64(f), true
	}
	// 10^11 seconds lie in the year 5138, as many milliseconds in 1973.
	if n > 1e11 {
		return time.UnixMilli(n), ok
	}
	return time.Unix(n, 0), ok
}

func (w *World) parkedPersistent(ctx context.Context, message string) error {
	content, err := w.parked(ctx, message)
	if err != nil {
		return err
	}
	if content.Properties.DeliveryMode != frame.Persistent {
		return &Failure{
			Message: message, Expected: "the parked " + message + " to be persistent",
			Seen: fmt.Sprintf("delivery mode %d", content.Properties.DeliveryMode),
		}
	}
	return nil
}

func (w *World) parkedOrigin(ctx context.Context, message, exchange, key string) error {
	content, err := w.parked(ctx, message)
	if err != nil {
		return err
	}
	return w.checkOrigin(content, "the parked "+message, message, exchange, key)
}

func (w *World) copiesOrigin(_ context.Context, message, exchange, key string) error {
	var contents []*ledger.Content
	w.look(func(b *ledger.Book) bool {
		for _, c := range b.CopiesOf[message] {
			contents = append(contents, c.Content)
		}
		return true
	})
	if len(contents) == 0 {
		return &Unknown{Why: "no copy of " + message + " was seen"}
	}
	for i, content := range contents {
		if err := w.checkOrigin(content, fmt.Sprintf("copy %d of %s", i+1, message), message, exchange, key); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) checkOrigin(content *ledger.Content, which, message, exchange, key string) error {
	conv := w.conventions()
	if err := errors.Join(needs(conv.OriginExchangeHeader, "header for the origin's exchange"), needs(conv.OriginKeyHeader, "header for the origin's key")); err != nil {
		return err
	}
	if exchange == "" {
		key = w.physical(key) // the default exchange's key is a queue
	}
	gotExchange, hasExchange := content.Properties.Headers.Text(conv.OriginExchangeHeader)
	gotKey, hasKey := content.Properties.Headers.Text(conv.OriginKeyHeader)
	if !hasExchange || !hasKey || gotExchange != w.physical(exchange) || gotKey != key {
		seen := fmt.Sprintf("exchange %q and key %q", gotExchange, gotKey)
		if !hasExchange || !hasKey {
			seen = fmt.Sprintf("headers %s", headerNames(content.Properties.Headers))
		}
		return &Failure{
			Message:  message,
			Expected: fmt.Sprintf("%s to carry the origin exchange %q and key %q in %q and %q", which, w.physical(exchange), key, conv.OriginExchangeHeader, conv.OriginKeyHeader),
			Seen:     seen,
		}
	}
	return nil
}

func headerNames(t frame.Table) string {
	if len(t) == 0 {
		return "none"
	}
	names := make([]string, len(t))
	for i, p := range t {
		names[i] = p.Key
	}
	return strings.Join(names, ", ")
}

func (w *World) parkingIsDurable(_ context.Context, name string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	queue, err := w.parkingOf(c)
	if err != nil {
		return err
	}
	var q ledger.Queue
	var there bool
	w.look(func(b *ledger.Book) bool { q, there = b.Topology.Queues[queue]; return true })
	switch {
	case !there:
		return &Failure{Expected: fmt.Sprintf("the parking queue %q to be declared when consuming starts", queue), Seen: "it was not"}
	case !q.Durable || q.Exclusive || q.AutoDelete:
		return &Failure{
			Expected: fmt.Sprintf("the parking queue %q to be durable, and neither exclusive nor auto-delete", queue),
			Seen:     fmt.Sprintf("durable %t, exclusive %t, auto-delete %t", q.Durable, q.Exclusive, q.AutoDelete),
		}
	}
	return nil
}

func (w *World) parkingIsGone(ctx context.Context, name string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	queue, err := w.parkingOf(c)
	if err != nil {
		return err
	}
	gone := false
	err = poll(ctx, quiet, func() (bool, error) {
		_, err := w.inspect(queue)
		var refused *amqp.Error
		gone = errors.As(err, &refused) && refused.Code == amqp.NotFound
		if err != nil && !gone && (refused == nil || refused.Code != amqp.ResourceLocked) {
			return false, err
		}
		return gone, nil
	})
	if err != nil {
		return err
	}
	if !gone {
		return &Failure{Expected: fmt.Sprintf("the parking queue %q to go with its source queue", queue), Seen: "it is still there"}
	}
	return nil
}

func (w *World) confirmedInParking(ctx context.Context, message, name string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	queue, err := w.parkingOf(c)
	if err != nil {
		return err
	}
	confirmed := func(b *ledger.Book) bool {
		return slices.ContainsFunc(b.CopiesOf[message], func(c *ledger.Copy) bool {
			return slices.Contains(c.To, queue) && c.Confirmed != 0 && c.Returned == 0
		})
	}
	if !w.eventually(ctx, confirmed) {
		return &Failure{Message: message, Expected: fmt.Sprintf("a copy of %s to be confirmed in %q", message, queue), Seen: "none was"}
	}
	return nil
}
