// Package protocol has the messages of the adapter protocol, version 1: JSON objects, one a line,
// between parkproof and the adapter that puts a consumer behind it. docs/adapter-protocol.md
// describes it for people who write an adapter in any language.
package protocol

import "encoding/json"

// Version is the protocol's version, sent with init.
const Version = 1

// EnvURL is the environment variable with the AMQP URL that the adapter connects to.
const EnvURL = "PARKPROOF_AMQP_URL"

// EnvControl is the environment variable that, where it is set, names the Unix socket that the
// protocol is spoken on instead of stdin and stdout.
const EnvControl = "PARKPROOF_CONTROL"

// Verbs of requests.
const (
	DoInit    = "init"
	DoEncode  = "encode"
	DoConsume = "consume"
	DoStop    = "stop"
	DoClose   = "close"
	DoSettle  = "settle"
)

// Verdicts that a handler can be told to come to.
const (
	VerdictOK    = "ok"
	VerdictFail  = "fail"
	VerdictRetry = "retry"
	VerdictPark  = "park"
)

// Ways in which a verdict can be expressed, the field "as" of settle.
const (
	// AsPlain is the library's usual way: an error returned, an exception thrown.
	AsPlain = ""
	// AsPanic is a panic, or what the language has like it.
	AsPanic = "panic"
	// AsNothing is a failure without a value, such as JavaScript's throw undefined.
	AsNothing = "nothing"
	// AsWrapped is the verdict inside another error, as application code wraps it.
	AsWrapped = "wrapped"
)

// Capabilities that an adapter can claim in "supports".
const (
	CanRetry     = "retry"     // failed messages are retried with a delay
	CanPark      = "park"      // messages that cannot be processed are parked
	CanVerdicts  = "verdicts"  // the handler can say Retry or Park
	CanPanic     = "panic"     // a panic in the handler is contained
	CanNothing   = "nothing"   // the language knows a failure without a value
	CanWrapped   = "wrapped"   // verdicts work when they are wrapped
	CanExchange  = "exchange"  // can declare and bind its queue to an exchange
	CanExclusive = "exclusive" // can consume from an exclusive queue of its own
	CanQuorum    = "quorum"    // can consume from a quorum queue
	CanReplies   = "replies"   // can answer requests
	CanLadder    = "ladder"    // takes the ladder that init gives
	CanPrefetch  = "prefetch"  // takes the prefetch that init gives
	CanEncode    = "encode"    // speaks only its own message format, and encodes into it
	// CanConcurrent is written with the number of handlers that run at once: "concurrent:300".
	CanConcurrent = "concurrent"
)

// Request is what parkproof asks. Fields that a verb does not use are left out.
type Request struct {
	ID int    `json:"id,omitempty"`
	Do string `json:"do"`

	// init
	Protocol  int      `json:"protocol,omitempty"`
	Case      string   `json:"case,omitempty"`
	URLs      []string `json:"urls,omitempty"`
	LadderMS  []int64  `json:"ladder_ms,omitempty"`
	Prefetch  int      `json:"prefetch,omitempty"`
	Heartbeat int      `json:"heartbeat_s,omitempty"`
	Prefix    string   `json:"prefix,omitempty"`

	// consume and stop
	Consumer  string `json:"consumer,omitempty"`
	Exchange  string `json:"exchange,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Key       string `json:"key,omitempty"`
	Queue     string `json:"queue,omitempty"`
	QueueType string `json:"queue_type,omitempty"`
	Exclusive bool   `json:"exclusive,omitempty"`
	Replies   bool   `json:"replies,omitempty"`
	// BindHeaders are the arguments of the binding to a headers exchange.
	BindHeaders map[string]string `json:"bind_headers,omitempty"`

	// encode
	Message string          `json:"message,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`

	// close
	Finish bool `json:"finish,omitempty"`

	// settle
	N       int             `json:"n,omitempty"`
	Verdict string          `json:"verdict,omitempty"`
	As      string          `json:"as,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Reply   json.RawMessage `json:"reply,omitempty"`
}

// Line is one line from the adapter: the answer to a request (Re is set) or an event.
type Line struct {
	Re          int             `json:"re,omitempty"`
	OK          json.RawMessage `json:"ok,omitempty"`
	Error       *string         `json:"error,omitempty"`
	Unsupported *string         `json:"unsupported,omitempty"`

	Event
}

// Event is what the adapter tells unasked.
type Event struct {
	// Event is delivery, diagnostic or connection.
	Event string `json:"event,omitempty"`

	// delivery
	N        int             `json:"n,omitempty"`
	Consumer string          `json:"consumer,omitempty"`
	Message  string          `json:"message,omitempty"`
	Attempt  int             `json:"attempt,omitempty"`
	Headers  json.RawMessage `json:"headers,omitempty"`
	Body     []byte          `json:"body,omitempty"`

	// diagnostic
	Name string `json:"name,omitempty"`
	Text string `json:"text,omitempty"`
	// connection: up or down
	State string `json:"state,omitempty"`
}

// Kinds of events.
const (
	EventDelivery   = "delivery"
	EventDiagnostic = "diagnostic"
	EventConnection = "connection"
)

// Ready is the answer to init.
type Ready struct {
	Name     string   `json:"name"`
	Version  string   `json:"version,omitempty"`
	Supports []string `json:"supports"`
	// Attempts and DelaysMS are what the library really does: a library with a fixed ladder
	// answers with its own.
	Attempts    int         `json:"attempts,omitempty"`
	DelaysMS    []int64     `json:"delays_ms,omitempty"`
	Conventions Conventions `json:"conventions"`
}

// Conventions are the names that a library uses on the wire. Templates may hold {queue} and
// {delay} (milliseconds).
type Conventions struct {
	AttemptHeader string `json:"attempt_header,omitempty"`
	// AttemptHeaderCounts is "attempts" (the default: the number of the attempt that comes) or
	// "retries" (one less).
	AttemptHeaderCounts  string `json:"attempt_header_counts,omitempty"`
	ParkedQueue          string `json:"parked_queue,omitempty"`
	RetryQueue           string `json:"retry_queue,omitempty"`
	RetryExchange        string `json:"retry_exchange,omitempty"`
	OriginExchangeHeader string `json:"origin_exchange_header,omitempty"`
	OriginKeyHeader      string `json:"origin_key_header,omitempty"`
	QueueHeader          string `json:"queue_header,omitempty"`
	ReasonHeader         string `json:"reason_header,omitempty"`
	TimeHeader           string `json:"time_header,omitempty"`
	// MessageID says how a message is known on the wire: property, header:NAME, body:FIELD, body-hash.
	MessageID    string   `json:"message_id,omitempty"`
	OwnExchanges []string `json:"own_exchanges,omitempty"`
	// DroppedHeaders are headers of the publisher that the library may drop or move: CC and BCC.
	DroppedHeaders []string `json:"dropped_headers,omitempty"`
}

// Consumed is the answer to consume.
type Consumed struct {
	Queue string `json:"queue"`
}

// Encoded is the answer to encode: the message as the library's own producer would publish it.
type Encoded struct {
	ContentType     string            `json:"content_type,omitempty"`
	ContentEncoding string            `json:"content_encoding,omitempty"`
	Headers         map[string]string `json:"headers,omitempty"`
	Body            []byte            `json:"body"`
}
