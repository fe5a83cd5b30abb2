package kit

import (
	"context"
	"encoding/json"
	"time"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

// Library is the consumer library behind the adapter, as the author of an adapter implements it.
//
// Each method is called in a goroutine of its own, so one that hangs does not keep others from
// being answered. The context ends when parkproof closes its end of the protocol. An error is
// answered as such; one that matches errors.ErrUnsupported, such as [Unsupported] makes, is
// answered as "unsupported".
type Library interface {
	// Init prepares the library and says what it is: its name, what it supports, how many
	// attempts it makes after which delays, and the names it uses on the wire. It is called
	// once, before everything else. The session is what handlers report to, and is kept.
	Init(ctx context.Context, session *Session, settings Settings) (protocol.Ready, error)
	// Consume subscribes a consumer and returns the name of the queue that it reads. Deliveries
	// may begin before it returns.
	Consume(ctx context.Context, subscription Subscription) (queue string, err error)
	// Stop ends one consumer's subscription; its handlers may finish.
	Stop(ctx context.Context, consumer string) error
	// Close closes every connection. Where finish is true, handlers that run may finish first;
	// where it is false, it does not wait for them.
	Close(ctx context.Context, finish bool) error
}

// Encoder is implemented besides by a library that speaks only its own message format. The
// session adds protocol.CanEncode to what it supports.
type Encoder interface {
	// Encode returns a message with that identity and content as the library's own producer
	// would publish it.
	Encode(ctx context.Context, message string, body json.RawMessage) (protocol.Encoded, error)
}

// Settings are what init asks for.
type Settings struct {
	// Case is the id of the case that runs, for the log.
	Case string
	// URLs are the AMQP URLs to connect to, the preferred one first; never empty.
	URLs []string
	// Ladder is the delay before each retry, in whole milliseconds: R rungs make R+1 attempts.
	Ladder []time.Duration
	// Prefetch is how many deliveries may be unacknowledged; 0 leaves it to the library.
	Prefetch int
	// Heartbeat is the AMQP heartbeat in whole seconds; 0 leaves it to the library.
	Heartbeat time.Duration
	// Prefix is to begin the names of what the library declares, where it lets one choose them.
	Prefix string
}

// Subscription is what consume asks for: either a queue, or an exchange to bind a queue to.
type Subscription struct {
	// Consumer names the consumer, in deliveries and for stop.
	Consumer string
	// Queue is the queue to read. Where it is empty, the library chooses the queue's name.
	Queue string
	// QueueType is classic, quorum, or empty for the library's default.
	QueueType string
	// Exclusive asks for a queue of this consumer's own that goes with its connection.
	Exclusive bool
	// Replies says that the handler's value is sent to the message's reply-to.
	Replies bool
	// Exchange is the exchange to bind the queue to; empty for none.
	Exchange string
	// Kind is the exchange's type: fanout, direct, topic, headers.
	Kind string
	// Key is the binding's routing key.
	Key string
	// BindHeaders are the arguments of the binding to a headers exchange.
	BindHeaders map[string]string
}

// Delivery is one call of the library's handler.
type Delivery struct {
	// Consumer is the name that consume gave.
	Consumer string
	// Message is the message's identity, as the conventions say it is found.
	Message string
	// Attempt is the attempt's number, from 1; 0 where the library does not tell.
	Attempt int
	// Headers are the AMQP headers, where the library shows them.
	Headers map[string]any
	// Body is the message's body, where the library shows it undecoded.
	Body []byte
}

// Unsupported returns an error that is answered as "unsupported", with the reason: the library
// has no such thing. It matches errors.ErrUnsupported.
func Unsupported(reason string) error { return unsupported(reason) }
