// Package frame reads and writes AMQP 0-9-1 as clients and RabbitMQ speak it: frames, methods, content headers and
// whole contents. It does no I/O, keeps no state but in the values it hands out, and imports only the standard
// library, so it can be tested on bytes alone and used wherever bytes pass by.
//
// # From bytes to contents
//
// Each direction of a connection takes one Reader and one Assembler:
//
//	bytes --Reader--> Frame --Assembler--> Part: a Method, or a growing Content
//
// A Reader cuts the bytes, in whatever pieces they come, into frames. Frame.Raw is what was received, to be passed
// on unchanged; Reader.Boundary says whether one may cut or insert here. The protocol header is a frame of a type of
// its own, in both directions. What is not AMQP 0-9-1 is named: ErrTLS, ErrNotAMQP, ErrVersion.
//
// An Assembler parses methods and joins those that carry a message with their header and body frames, per channel.
// It tells the Content with its first frame already, so that one can act in the midst of it. Bodies above its bound
// are not kept; size and SHA-256 are, for all.
//
// ParseMethod and ParseHeader do the same for single payloads. The other way go AppendMethod, AppendHeader,
// AppendFrame, AppendMethodFrame, AppendContent, AppendHeartbeat and AppendProtocolHeader; like append, they take the
// slice to add to and return it longer, or as it was beside an error.
//
// # Methods
//
// Each method is a struct, used by pointer behind the interface Method; Methods lists the names of all 69. They are
// those of RabbitMQ's definition: the specification's, and confirm.select, exchange.bind and unbind, basic.nack,
// basic.cancel from the broker, connection.blocked and unblocked, connection.update-secret, basic.credit, and
// access.request from AMQP 0-8. A method's layout is said once, in its wire method, for both directions. Reserved
// fields are skipped and sent as zero, so Append after Parse may differ from the bytes read where a client sets
// them; Raw does not. Credentials are of the type Secret, which no printing shows; errors name methods, offsets,
// lengths and table keys, but no values.
//
// # Tables
//
// A Table keeps the order and the exact type of its values: each wire type is a Go type of its own. The types are
// RabbitMQ's, who departs from the specification; they are listed at Table. Integer reads those of any width.
//
// # Where RabbitMQ is stricter or laxer than the specification
//
// This package follows RabbitMQ (as read in rabbit_reader, rabbit_command_assembler and
// rabbit_binary_parser of 3.10.8):
//
//   - the limit of a frame holds for its payload, SetMaxFrame;
//   - a method in the midst of a content is an error, where the specification lets it abort the content;
//   - the weight of a header must be 0, its class basic; the two lowest property flags are ignored;
//   - bytes after the last field or property are an error;
//   - a boolean is true for any octet but 0.
//
// It is stricter in two points where RabbitMQ trusts its clients: nesting is bounded by MaxDepth, and a body longer
// than its header says is an error. It is laxer in three: short strings need not be UTF-8, floats may be NaN or
// infinite, and a heartbeat may be malformed; for those RabbitMQ closes the connection itself.
//
// # Memory
//
// No length that is declared is believed before its bytes are there. A Reader holds at most one partial frame, and
// room for two of the largest so far. A parsed table takes up to 16 bytes for each byte of the payload, the most for
// lists of voids. An Assembler holds one content for each channel that is inside one.
package frame
