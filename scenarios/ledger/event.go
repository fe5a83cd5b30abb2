// Package ledger is the record of all that happened to every message of a scenario, from the wire
// and from the broker; the accounting that says what became of each; and the timeline that shows
// it. It is pure: events go in, values come out.
package ledger

import (
	"crypto/sha256"
	"time"

	"github.com/parkproof/parkproof/toxics/frame"
)

// Kind is what an event is about. The kinds of the wire are named after the method that carries
// them, or after what that method makes true once the broker has answered it.
type Kind string

// The kinds of events.
const (
	// Published is a basic.publish with its content, by parkproof or by a consumer's process.
	Published Kind = "published"
	// ConfirmArrived is a basic.ack from the broker that reached the tap; Covers are the publishes.
	ConfirmArrived Kind = "confirm-arrived"
	// Confirmed is the same confirm at the moment when it is passed on to the publisher.
	Confirmed Kind = "confirmed"
	// Refused is a basic.nack from the broker; Covers are the publishes.
	Refused Kind = "refused"
	// Returned is a basic.return; Covers is the publish where it could be told.
	Returned Kind = "returned"
	// Delivered is a basic.deliver or basic.get-ok with its content.
	Delivered Kind = "delivered"
	// Acked is a basic.ack from a consumer; Covers are the deliveries.
	Acked Kind = "acked"
	// Nacked is a basic.nack or basic.reject from a consumer; Covers are the deliveries.
	Nacked Kind = "nacked"

	// Consuming is an answered basic.consume, Cancelled a cancel by either side.
	Consuming Kind = "consuming"
	Cancelled Kind = "cancelled"
	// QosSet is an answered basic.qos; Tag is the prefetch count.
	QosSet Kind = "qos"
	// ConfirmMode is an answered confirm.select.
	ConfirmMode Kind = "confirm-mode"

	// Topology, once the broker has answered (or at once, where no answer was asked for).
	ExchangeDeclared Kind = "exchange-declared"
	ExchangeDeleted  Kind = "exchange-deleted"
	ExchangeBound    Kind = "exchange-bound"
	ExchangeUnbound  Kind = "exchange-unbound"
	QueueDeclared    Kind = "queue-declared"
	QueueDeleted     Kind = "queue-deleted"
	QueueBound       Kind = "queue-bound"
	QueueUnbound     Kind = "queue-unbound"
	QueuePurged      Kind = "queue-purged"
	// Asked is a declaration, binding or consume on its way to the broker, before its answer.
	Asked Kind = "asked"

	// Connections and channels. Closed ones carry the code and text and who closed them; a Lost
	// connection ended without a close.
	ConnectionOpened Kind = "connection-opened"
	ConnectionClosed Kind = "connection-closed"
	ConnectionLost   Kind = "connection-lost"
	ChannelOpened    Kind = "channel-opened"
	ChannelClosed    Kind = "channel-closed"
	Blocked          Kind = "blocked"
	Unblocked        Kind = "unblocked"
	// HeartbeatMissed is that a side sent nothing for longer than the heartbeat that was agreed on allows, told
	// once a silence; Broker says whose it is, Text how long it was by then. What a link swallows was sent.
	HeartbeatMissed Kind = "heartbeat-missed"
	// Undecodable are bytes that are no AMQP; Text says why.
	Undecodable Kind = "undecodable"
	// Foreign is a connection of a consumer's that speaks another protocol, such as TLS; Text says what to
	// do about it.
	Foreign Kind = "foreign-protocol"

	// HandlerCalled and HandlerSettled are the adapter's word: the library's handler ran, and what
	// it was told to come to.
	HandlerCalled  Kind = "handler-called"
	HandlerSettled Kind = "handler-settled"
	Diagnostic     Kind = "diagnostic"
	// ProcessStarted and ProcessExited are a consumer's process.
	ProcessStarted Kind = "process-started"
	ProcessExited  Kind = "process-exited"
	// StopAsked is the case's own stop, close or kill of a consumer's process: from then on its exit
	// and redeliveries are no surprise.
	StopAsked Kind = "stop-asked"

	// Drained is a message that parkproof took from a queue at the end.
	Drained Kind = "drained"
	// Fired is a fault that fired.
	Fired Kind = "fault-fired"
	// Noted is a remark of parkproof's.
	Noted Kind = "noted"
)

// Event is one thing that happened.
type Event struct {
	// Seq is the event's number in its ledger, from 1; At the time since the ledger began.
	Seq  int           `json:"seq"`
	At   time.Duration `json:"at_ns"`
	Kind Kind          `json:"kind"`
	// Process names the consumer's process; it is empty for parkproof's own doings.
	Process string `json:"process,omitempty"`
	Conn    int    `json:"conn,omitempty"`
	Channel uint16 `json:"channel,omitempty"`
	// Broker is true where the broker sent it.
	Broker bool `json:"broker,omitempty"`

	Message  string `json:"message,omitempty"`
	Exchange string `json:"exchange,omitempty"`
	Key      string `json:"key,omitempty"`
	Queue    string `json:"queue,omitempty"`
	// Consumer is the consumer tag on the wire, and the consumer's name in handler events.
	Consumer string `json:"consumer,omitempty"`
	// Tag is a delivery tag, a publish's number on its channel, a prefetch count or a handler's n.
	Tag uint64 `json:"tag,omitempty"`
	// Covers are the Seqs of the publishes or deliveries that this event settles.
	Covers []int `json:"covers,omitempty"`

	Multiple    bool   `json:"multiple,omitempty"`
	Requeue     bool   `json:"requeue,omitempty"`
	Redelivered bool   `json:"redelivered,omitempty"`
	NoAck       bool   `json:"no_ack,omitempty"`
	Mandatory   bool   `json:"mandatory,omitempty"`
	Confirms    bool   `json:"confirms,omitempty"` // the publish's channel is in confirm mode
	Code        uint16 `json:"code,omitempty"`
	Text        string `json:"text,omitempty"`
	// Verdict is what a handler was told to come to; Attempt what the adapter says it is.
	Verdict string `json:"verdict,omitempty"`
	Attempt int    `json:"attempt,omitempty"`

	// Method is the decoded method, for its arguments.
	Method frame.Method `json:"-"`
	// Content is the message itself, of publishes, deliveries, returns and drained messages.
	Content *Content `json:"-"`
}

// Content is what a message carries.
type Content struct {
	Properties frame.Properties
	// Body is kept up to a bound; Size is always that of the whole body.
	Body []byte
	Size uint64

	digest [sha256.Size]byte // of a body that is not kept
	kept   bool
}

// Digest is the SHA-256 of the whole body. It is computed when it is asked for: few bodies are
// compared, and all of them pass by.
func (c *Content) Digest() [sha256.Size]byte {
	if c.kept {
		return sha256.Sum256(c.Body)
	}
	return c.digest
}
