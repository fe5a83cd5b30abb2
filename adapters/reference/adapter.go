// Package reference is the adapter of the reference consumer: parkproof drives its own library in
// no other way than any other.
package reference

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/adapters/kit"
	library "github.com/parkproof/parkproof/reference"
	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

// headerPrefix starts the names of the headers that the library writes here.
const headerPrefix = "x-"

// Adapter puts the reference consumer behind the adapter protocol.
type Adapter struct {
	session *kit.Session
	client  *library.Client

	mu        sync.Mutex
	consumers map[string]*library.Consumer
}

// Main runs the adapter until parkproof closes its end.
func Main() { kit.Main(&Adapter{consumers: map[string]*library.Consumer{}}) }

// Init opens the client. Its queues and exchanges begin with the prefix that parkproof gives.
func (a *Adapter) Init(ctx context.Context, session *kit.Session, s kit.Settings) (protocol.Ready, error) {
	a.session = session
	client, err := library.Open(ctx, library.Options{
		URLs: s.URLs, ClientName: "reference", Ladder: s.Ladder, Prefetch: s.Prefetch, Heartbeat: s.Heartbeat,
		HeaderPrefix: headerPrefix,
		Names: library.Names{
			Retry:  func(d time.Duration) string { return s.Prefix + "retry." + strconv.FormatInt(d.Milliseconds(), 10) },
			Parked: func(queue string) string { return s.Prefix + "parked." + queue },
		},
		Logger:       slog.New(slog.NewTextHandler(os.Stderr, nil)),
		OnDiagnostic: a.diagnostic,
	})
	if err != nil {
		return protocol.Ready{}, fmt.Errorf("opening the client: %w", err)
	}
	a.client = client
	delays := make([]int64, len(s.Ladder))
	for i, rung := range s.Ladder {
		delays[i] = rung.Milliseconds()
	}
	return protocol.Ready{
		Name: "reference", Version: version(),
		Supports: []string{
			protocol.CanRetry, protocol.CanPark, protocol.CanVerdicts, protocol.CanPanic, protocol.CanNothing,
			protocol.CanWrapped, protocol.CanExchange, protocol.CanExclusive, protocol.CanQuorum, protocol.CanReplies,
			protocol.CanLadder, protocol.CanPrefetch, fmt.Sprintf("%s:%d", protocol.CanConcurrent, s.Prefetch),
		},
		Attempts: len(s.Ladder) + 1, DelaysMS: delays,
		Conventions: protocol.Conventions{
			AttemptHeader: headerPrefix + "attempt", AttemptHeaderCounts: "attempts",
			ParkedQueue: s.Prefix + "parked.{queue}", RetryQueue: s.Prefix + "retry.{delay}", RetryExchange: s.Prefix + "retry.{delay}",
			OriginExchangeHeader: headerPrefix + "exchange", OriginKeyHeader: headerPrefix + "key",
			QueueHeader: headerPrefix + "queue", ReasonHeader: headerPrefix + "reason", TimeHeader: headerPrefix + "at",
			MessageID: "property", DroppedHeaders: []string{"CC", "BCC"},
		},
	}, nil
}

// Consume subscribes a consumer to a queue, or to a queue of its own on an exchange.
func (a *Adapter) Consume(ctx context.Context, sub kit.Subscription) (string, error) {
	handle := func(ctx context.Context, d library.Delivery) kit.Verdict {
		// The handler is one that takes no notice when its delivery is lost: the library has to live with such.
		return a.session.Handle(context.WithoutCancel(ctx), kit.Delivery{
			Consumer: sub.Consumer, Message: d.MessageID, Attempt: d.Attempt, Body: d.Body,
		})
	}
	var consumer *library.Consumer
	var err error
	if sub.Replies {
		consumer, err = a.client.Reply(ctx, source(sub), func(ctx context.Context, d library.Delivery) (library.Reply, error) {
			v := handle(ctx, d)
			return library.Reply{Body: v.Reply, ContentType: "application/json"}, outcome(v)
		})
	} else {
		consumer, err = a.client.Consume(ctx, source(sub), func(ctx context.Context, d library.Delivery) error {
			return outcome(handle(ctx, d))
		})
	}
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.consumers[sub.Consumer] = consumer
	return consumer.Queue(), nil
}

func source(sub kit.Subscription) library.Source {
	var options []library.SourceOption
	if sub.Key != "" {
		options = append(options, library.RoutingKey(sub.Key))
	}
	if len(sub.BindHeaders) > 0 {
		arguments := amqp.Table{"x-match": "all"}
		for name, value := range sub.BindHeaders {
			arguments[name] = value
		}
		options = append(options, library.BindingArguments(arguments))
	}
	if sub.QueueType == amqp.QueueTypeQuorum {
		options = append(options, library.Quorum())
	}
	switch {
	case sub.Exchange == "":
		return library.Queue(sub.Queue, options...)
	case sub.Exclusive:
		return library.Bound(sub.Exchange, sub.Kind, "", options...)
	default:
		return library.Bound(sub.Exchange, sub.Kind, sub.Consumer, options...)
	}
}

// outcome is the verdict as a handler of this library expresses it. Go's failure without a value is
// a verdict around no error.
func outcome(v kit.Verdict) error {
	if v.As == protocol.AsNothing && v.Verdict != protocol.VerdictOK {
		if v.Verdict == protocol.VerdictPark {
			return library.Park(nil)
		}
		return library.Retry(nil)
	}
	return v.Outcome(library.Retry, library.Park)
}

// Stop ends one consumer; its handlers finish.
func (a *Adapter) Stop(ctx context.Context, name string) error {
	a.mu.Lock()
	consumer := a.consumers[name]
	delete(a.consumers, name)
	a.mu.Unlock()
	if consumer == nil {
		return fmt.Errorf("no consumer %q was started", name)
	}
	return consumer.Stop(ctx)
}

// Close closes the client. Without finish, handlers that run are given up, and what they have in
// hand goes back to its queue.
func (a *Adapter) Close(ctx context.Context, finish bool) error {
	if a.client == nil {
		return nil
	}
	if !finish {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		ctx = gone
	}
	if err := a.client.Close(ctx); err != nil && (finish || !errors.Is(err, context.Canceled)) {
		return fmt.Errorf("closing the client: %w", err)
	}
	return nil
}

func (a *Adapter) diagnostic(d library.Diagnostic) {
	text := d.Queue + " " + d.MessageID
	if d.Err != nil {
		text += ": " + shorten(d.Err)
	}
	a.session.Diagnostic(string(d.Kind), text)
	switch d.Kind {
	case library.KindDisconnected:
		a.session.Connection(false)
	case library.KindReconnect:
		a.session.Connection(true)
	}
}

// shownReason bounds, in bytes, what a diagnostic shows of an error, which may be of any length.
const shownReason = 200

// shorten is an error's text; one whose Error panics has none.
func shorten(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = "an error that cannot be shown"
		}
	}()
	text = err.Error()
	if len(text) > shownReason {
		text = text[:shownReason] + "…"
	}
	return text
}

// version is that of the build.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
