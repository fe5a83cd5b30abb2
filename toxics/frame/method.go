package frame

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Method is one of the methods of this package, as a pointer to its struct: *BasicPublish, *QueueDeclareOk, ...
// Reserved fields are left out; they are sent as zero.
type Method interface {
	// ClassID and MethodID are the numbers that start the payload.
	ClassID() uint16
	MethodID() uint16
	// Name is the specification's name, such as "basic.publish" or "queue.declare-ok".
	Name() string

	// wire walks over the fields in their order on the wire.
	wire(c *coder)
}

// UnknownMethodError is a method that RabbitMQ has none of.
type UnknownMethodError struct {
	Class, Method uint16
}

// Error names the two numbers.
func (e *UnknownMethodError) Error() string {
	return fmt.Sprintf("unknown method %d of class %d", e.Method, e.Class)
}

// idSize is the size of the class and method ids in front of the fields, in bytes.
const idSize = 4

// ParseMethod reads the payload of a method frame. What it returns has memory of its own. An unknown method is an
// *UnknownMethodError; a malformed payload wraps ErrTruncated, ErrTrailing, ErrFieldType, ErrTooDeep or ErrTooMany, and
// names the method and the byte but no values.
func ParseMethod(payload []byte) (Method, error) {
	if len(payload) < idSize {
		return nil, fmt.Errorf("method: %w: class and method ids of %d bytes where %d are left",
			ErrTruncated, idSize, len(payload))
	}
	construct := byID[binary.BigEndian.Uint32(payload)]
	if construct == nil {
		return nil, &UnknownMethodError{
			Class:  binary.BigEndian.Uint16(payload),
			Method: binary.BigEndian.Uint16(payload[2:]),
		}
	}
	m := construct()
	c := decoder(payload)
	defer c.free()
	c.off = idSize
	m.wire(c)
	c.end()
	if c.err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name(), c.err)
	}
	return m, nil
}

// AppendMethod appends the payload of a method frame. A field that AMQP has no form for makes it return dst as it
// was and an error that wraps ErrUnencodable, ErrTooDeep or ErrTooMany.
func AppendMethod(dst []byte, m Method) ([]byte, error) {
	c := encoder(dst)
	defer c.free()
	c.buf = binary.BigEndian.AppendUint16(c.buf, m.ClassID())
	c.buf = binary.BigEndian.AppendUint16(c.buf, m.MethodID())
	m.wire(c)
	if c.err != nil {
		return dst, fmt.Errorf("%s: %w", m.Name(), c.err)
	}
	return c.buf, nil
}

// HasContent says whether a content header and body follow the method: basic.publish, return, deliver and get-ok.
func HasContent(m Method) bool {
	switch m.(type) {
	case *BasicPublish, *BasicReturn, *BasicDeliver, *BasicGetOk:
		return true
	default:
		return false
	}
}

// Methods lists the names of all methods, by class and method id.
func Methods() []string {
	names := make([]string, 0, len(constructors))
	for _, construct := range constructors {
		names = append(names, construct().Name())
	}
	return names
}

// NewMethod returns the method of that name with zero fields, nil for an unknown name.
func NewMethod(name string) Method {
	for _, construct := range constructors {
		if m := construct(); m.Name() == name {
			return m
		}
	}
	return nil
}

// constructors makes each method: those of RabbitMQ's own definition of AMQP 0-9-1 with its extensions
// (rabbit_framing_amqp_0_9_1), by class and method id.
var constructors = [...]func() Method{
	newMethod[ConnectionStart],
	newMethod[ConnectionStartOk],
	newMethod[ConnectionSecure],
	newMethod[ConnectionSecureOk],
	newMethod[ConnectionTune],
	newMethod[ConnectionTuneOk],
	newMethod[ConnectionOpen],
	newMethod[ConnectionOpenOk],
	newMethod[ConnectionClose],
	newMethod[ConnectionCloseOk],
	newMethod[ConnectionBlocked],
	newMethod[ConnectionUnblocked],
	newMethod[ConnectionUpdateSecret],
	newMethod[ConnectionUpdateSecretOk],
	newMethod[ChannelOpen],
	newMethod[ChannelOpenOk],
	newMethod[ChannelFlow],
	newMethod[ChannelFlowOk],
	newMethod[ChannelClose],
	newMethod[ChannelCloseOk],
	newMethod[AccessRequest],
	newMethod[AccessRequestOk],
	newMethod[ExchangeDeclare],
	newMethod[ExchangeDeclareOk],
	newMethod[ExchangeDelete],
	newMethod[ExchangeDeleteOk],
	newMethod[ExchangeBind],
	newMethod[ExchangeBindOk],
	newMethod[ExchangeUnbind],
	newMethod[ExchangeUnbindOk],
	newMethod[QueueDeclare],
	newMethod[QueueDeclareOk],
	newMethod[QueueBind],
	newMethod[QueueBindOk],
	newMethod[QueuePurge],
	newMethod[QueuePurgeOk],
	newMethod[QueueDelete],
	newMethod[QueueDeleteOk],
	newMethod[QueueUnbind],
	newMethod[QueueUnbindOk],
	newMethod[BasicQos],
	newMethod[BasicQosOk],
	newMethod[BasicConsume],
	newMethod[BasicConsumeOk],
	newMethod[BasicCancel],
	newMethod[BasicCancelOk],
	newMethod[BasicPublish],
	newMethod[BasicReturn],
	newMethod[BasicDeliver],
	newMethod[BasicGet],
	newMethod[BasicGetOk],
	newMethod[BasicGetEmpty],
	newMethod[BasicAck],
	newMethod[BasicReject],
	newMethod[BasicRecoverAsync],
	newMethod[BasicRecover],
	newMethod[BasicRecoverOk],
	newMethod[BasicNack],
	newMethod[BasicCredit],
	newMethod[BasicCreditOk],
	newMethod[BasicCreditDrained],
	newMethod[ConfirmSelect],
	newMethod[ConfirmSelectOk],
	newMethod[TxSelect],
	newMethod[TxSelectOk],
	newMethod[TxCommit],
	newMethod[TxCommitOk],
	newMethod[TxRollback],
	newMethod[TxRollbackOk],
}

// newMethod makes a zero T.
func newMethod[T any, P interface {
	*T
	Method
}]() Method {
	return P(new(T))
}

// byID finds the constructor for the two ids, as one number with the class in the upper half.
var byID = func() map[uint32]func() Method {
	m := make(map[uint32]func() Method, len(constructors))
	for _, construct := range constructors {
		zero := construct()
		m[uint32(zero.ClassID())<<16|uint32(zero.MethodID())] = construct
	}
	return m
}()

// FromBroker reports whether a method of that name is one that a broker sends to a client. Methods that both
// send (basic.ack, basic.nack, and those that close) count as the client's.
func FromBroker(name string) bool {
	switch name {
	case "basic.deliver", "basic.return", "basic.get-ok", "basic.get-empty", "connection.start", "connection.secure",
		"connection.tune", "connection.blocked", "connection.unblocked":
		return true
	case "connection.start-ok", "connection.secure-ok", "connection.tune-ok":
		return false
	}
	return strings.HasSuffix(name, "-ok")
}
