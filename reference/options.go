package reference

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Options configure a Client. Only URLs is required.
type Options struct {
	// URLs are the brokers to connect to, as amqp:// or amqps:// URLs; each connection uses the first that
	// answers. They may be the nodes of one cluster, never unrelated brokers.
	URLs []string
	// TLS configures amqps:// URLs; nil uses the system's roots and the URL's host.
	TLS *tls.Config
	// ClientName is what a broker's operator sees as the connections' name, followed by their role.
	// Default: the name of the program.
	ClientName string
	// Ladder is the wait before each retry: one rung, one retry, so n rungs make n+1 attempts. Nil is the
	// default of 1s, 10s, 30s, 90s; an empty ladder that is not nil parks at the first failure. Rungs are
	// whole milliseconds, from 0.
	Ladder []time.Duration
	// Prefetch is how many deliveries one consumer has at a time, and so how many of its handlers run at
	// a time. 0 is the default of 300.
	Prefetch int
	// Heartbeat is the interval of AMQP heartbeats, in whole seconds. A dead link is noticed after about
	// one and a half of it. 0 is the default of 10s. A heartbeat in a URL's query wins.
	Heartbeat time.Duration
	// ConfirmTimeout is how long a copy may wait to be published and confirmed, before the publish counts
	// as failed and the original is handed back. Time in which the broker blocks publishers (a memory or
	// disk alarm) does not count. 0 is the default of 30s.
	ConfirmTimeout time.Duration
	// Names are the names of the library's own exchanges and queues.
	Names Names
	// HeaderPrefix starts the name of every header that the library writes: attempt, exchange, key, queue,
	// reason, cause, at, and what a copy may not carry as it came (cc, bcc, user-id, expiration,
	// prior-death). Default "x-".
	HeaderPrefix string
	// RetryArguments are further arguments of the retry queues, for example those of a quorum queue that
	// dead-letters at least once. The TTL, the dead-letter exchange and its key are the library's, and there
	// is no x-expires.
	RetryArguments amqp.Table
	// ParkArguments are further arguments of the parking queues of sources that are not exclusive.
	ParkArguments amqp.Table
	// Backoff paces connecting and subscribing again. Defaults: Min 100ms, Max 10s, Jitter 0.5.
	Backoff Backoff
	// HandBack paces handing deliveries back whose copy could not be published. Defaults: Min 500ms, Max
	// 15s, Jitter 0.2; GiveUp is not used.
	HandBack Backoff
	// Logger gets what an operator should know. Nil logs nothing.
	Logger *slog.Logger
	// OnDiagnostic is told what happened to messages, subscriptions and connections. It is called on the
	// goroutine that did it, so it must be quick, and safe for concurrent use. A panic in it is contained.
	OnDiagnostic func(Diagnostic)
}

const (
	// The comq record's prefetch: round trips are shared, and a slow handler does not starve its neighbours.
	defaultPrefetch = 300
	// basic.qos carries the prefetch in 16 bits; 0 there would mean no limit.
	maxPrefetch = 65535
	// RabbitMQ's own advice is 5 to 20 seconds: shorter ones fire on short stalls.
	defaultHeartbeat = 10 * time.Second
	// A confirm may wait for a disk or a quorum; a wait cut short makes a copy more.
	defaultConfirmTimeout = 30 * time.Second
	// The largest TTL that RabbitMQ accepts, in milliseconds.
	maxRung = (1<<32 - 1) * time.Millisecond
	// AMQP carries names in a string with one byte of length.
	maxName = 255
)

// defaultLadder catches a blip at once and then climbs to what is worth waiting for, a rollout or a
// failover (comq record, "The backoff ladder is public").
var defaultLadder = []time.Duration{time.Second, 10 * time.Second, 30 * time.Second, 90 * time.Second}

func (o Options) withDefaults() Options {
	if o.ClientName == "" {
		o.ClientName = filepath.Base(os.Args[0])
	}
	if o.Ladder == nil {
		o.Ladder = slices.Clone(defaultLadder)
	}
	if o.Prefetch == 0 {
		o.Prefetch = defaultPrefetch
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	if o.ConfirmTimeout == 0 {
		o.ConfirmTimeout = defaultConfirmTimeout
	}
	o.Names = o.Names.withDefaults()
	if o.HeaderPrefix == "" {
		o.HeaderPrefix = "x-"
	}
	o.Backoff = o.Backoff.withDefaults(defaultBackoffMin, defaultBackoffMax, defaultBackoffJitter)
	o.HandBack = o.HandBack.withDefaults(defaultHandBackMin, defaultHandBackMax, defaultHandBackJitter)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	if len(o.URLs) == 0 {
		return errors.New("no URL: give at least one amqp:// URL")
	}
	for i, u := range o.URLs {
		if _, err := amqp.ParseURI(u); err != nil {
			// The parser's error may quote the URL, and so the password.
			return fmt.Errorf("URL %d of %d is no AMQP URL: write amqp://user:password@host:port/vhost, with special characters percent-encoded", i+1, len(o.URLs))
		}
	}
	if err := validateLadder(o.Ladder); err != nil {
		return err
	}
	if err := validatePrefetch(o.Prefetch); err != nil {
		return err
	}
	if o.Heartbeat < time.Second {
		return fmt.Errorf("the heartbeat is %v: AMQP counts whole seconds, so give at least 1s", o.Heartbeat)
	}
	if o.ConfirmTimeout < 0 {
		return fmt.Errorf("the confirm timeout is %v: it must be positive", o.ConfirmTimeout)
	}
	// The longest name that is put behind the prefix must still fit.
	if len(o.HeaderPrefix) > maxName-len("prior-death") {
		return fmt.Errorf("the header prefix has %d bytes: use at most %d", len(o.HeaderPrefix), maxName-len("prior-death"))
	}
	if err := o.Backoff.validate(); err != nil {
		return fmt.Errorf("the backoff of connecting: %w", err)
	}
	if err := o.HandBack.validate(); err != nil {
		return fmt.Errorf("the backoff of handing back: %w", err)
	}
	for name := range o.RetryArguments {
		switch name {
		case argTTL, argExpires, argDeadLetter, argDeadLetterKey:
			return fmt.Errorf("the retry arguments have %s, which is the library's: leave it out", name)
		}
	}
	if err := validateTable(o.RetryArguments); err != nil {
		return fmt.Errorf("the retry arguments: %w", err)
	}
	if err := validateTable(o.ParkArguments); err != nil {
		return fmt.Errorf("the park arguments: %w", err)
	}
	return nil
}

func validateLadder(ladder []time.Duration) error {
	for i, rung := range ladder {
		if rung < 0 || rung > maxRung || rung%time.Millisecond != 0 {
			return fmt.Errorf("rung %d of the ladder is %v: use whole milliseconds from 0 to %v", i+1, rung, maxRung)
		}
	}
	return nil
}

func validatePrefetch(prefetch int) error {
	if prefetch < 1 || prefetch > maxPrefetch {
		return fmt.Errorf("the prefetch is %d: use 1 to %d", prefetch, maxPrefetch)
	}
	return nil
}

// validateName checks the name of an exchange, a queue or a header. The client library notices one that is
// too long only while it writes, and then the whole connection is lost.
func validateName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s has no name", what)
	case len(name) > maxName:
		return fmt.Errorf("the name of %s has %d bytes, and AMQP allows %d (it starts with %.40q)", what, len(name), maxName, name)
	}
	return nil
}

// validateTable checks the types of a table's fields, and the lengths of their names, at every depth.
func validateTable(t amqp.Table) error {
	if err := t.Validate(); err != nil {
		return err
	}
	return validateFieldNames(t)
}

func validateFieldNames(field any) error {
	switch v := field.(type) {
	case amqp.Table:
		for name, value := range v {
			if len(name) > maxName {
				return validateName("a field", name)
			}
			if err := validateFieldNames(value); err != nil {
				return err
			}
		}
	case []any:
		for _, value := range v {
			if err := validateFieldNames(value); err != nil {
				return err
			}
		}
	}
	return nil
}

// validateRetryNames checks that each distinct delay has a name of its own.
func validateRetryNames(ladder []time.Duration, names Names) error {
	taken := make(map[string]time.Duration)
	for _, delay := range distinct(ladder) {
		name := names.Retry(delay)
		if err := validateName(fmt.Sprintf("the retry queue of %v", delay), name); err != nil {
			return err
		}
		if other, ok := taken[name]; ok {
			return fmt.Errorf("the retry queues of %v and %v have one name, %q: put the delay into it", other, delay, name)
		}
		taken[name] = delay
	}
	return nil
}
