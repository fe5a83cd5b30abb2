package reference

import (
	"strconv"
	"time"
)

// Names says what the library's own exchanges and queues are called. A nil field keeps its default.
type Names struct {
	// Retry names the exchange and the queue that hold a message for that delay. The delay must be part of
	// the name: a queue's TTL cannot change, so another delay needs another queue. Default "retry.<ms>".
	Retry func(delay time.Duration) string
	// Parked names the parking queue of a source queue. Default "parked.<queue>".
	Parked func(queue string) string
	// Group names the queue of a consumer group on an exchange. Default "<exchange>..<group>".
	Group func(exchange, group string) string
}

func (n Names) withDefaults() Names {
	if n.Retry == nil {
		n.Retry = func(delay time.Duration) string {
			return "retry." + strconv.FormatInt(delay.Milliseconds(), 10)
		}
	}
	if n.Parked == nil {
		n.Parked = func(queue string) string { return "parked." + queue }
	}
	if n.Group == nil {
		n.Group = func(exchange, group string) string { return exchange + ".." + group }
	}
	return n
}

// headerNames are the headers that the library writes, with their prefix.
type headerNames struct {
	attempt    string // attempt number, integer from 1; absent on attempt 1, except on a parked copy
	exchange   string // exchange that the message was first published to
	key        string // routing key that the message was first published with
	queue      string // source queue, on a parked copy
	reason     string // text of the failure, on a parked copy
	cause      string // text of the failure's innermost error, on a parked copy
	at         string // when it was parked, in milliseconds since 1970
	cc         string // the CC header that the publisher set
	bcc        string // the BCC header that the publisher set
	userID     string // the user-id property that the publisher set
	expiration string // the expiration property that the publisher set
	priorDeath string // x-death as it came, where a copy cannot carry it
}

func headersWith(prefix string) headerNames {
	return headerNames{
		attempt:    prefix + "attempt",
		exchange:   prefix + "exchange",
		key:        prefix + "key",
		queue:      prefix + "queue",
		reason:     prefix + "reason",
		cause:      prefix + "cause",
		at:         prefix + "at",
		cc:         prefix + "cc",
		bcc:        prefix + "bcc",
		userID:     prefix + "user-id",
		expiration: prefix + "expiration",
		priorDeath: prefix + "prior-death",
	}
}
