package frame

import (
	"encoding/binary"
	"fmt"
)

// Type is the first octet of a frame.
type Type uint8

// The types of AMQP 0-9-1. RabbitMQ knows no others; those of AMQP 0-8 (out of band, trace) are errors.
const (
	TypeMethod    Type = 1
	TypeHeader    Type = 2 // a content header
	TypeBody      Type = 3 // a piece of a content body
	TypeHeartbeat Type = 8
	// TypeProtocol is the protocol header, "AMQP" and four octets. It opens the client's direction; the broker
	// sends one in place of a frame when it cannot speak the version asked for, and closes. Its value is the "A".
	TypeProtocol Type = 'A'
)

// String names the type: "method", "header", "body", "heartbeat", "protocol", or "type N".
func (t Type) String() string {
	switch t {
	case TypeMethod:
		return "method"
	case TypeHeader:
		return "header"
	case TypeBody:
		return "body"
	case TypeHeartbeat:
		return "heartbeat"
	case TypeProtocol:
		return "protocol"
	default:
		return fmt.Sprintf("type %d", uint8(t))
	}
}

// Sizes on the wire, in bytes (AMQP 0-9-1, 2.3.5 and 4.2.3).
const (
	headSize     = 7            // type octet, channel short, payload length long
	endOctet     = 0xCE         // closes every frame; anything else means that the lengths went wrong
	protocolSize = 8            // "AMQP" and four octets
	protocolName = "AMQP"       // starts the protocol header
	Overhead     = headSize + 1 // what a frame is longer than its payload
	MinFrameMax  = 4096         // frame-max may not be settled lower than this
)

// Frame is one frame. Payload and Raw are windows on the Reader's or the feeder's memory, see Reader.
type Frame struct {
	Type    Type
	Channel uint16
	// Payload is what stands between the head and the end octet; of a protocol header, its last four octets:
	// 0 and major, minor, revision in 0-9-1; protocol id, major, minor, revision in AMQP 1.0.
	Payload []byte
	// Raw is the whole frame as it was received, head and end octet included.
	Raw []byte
}

// String says what the frame is, without its payload: "method frame on channel 1, 21 bytes".
func (f Frame) String() string {
	if f.Type == TypeProtocol {
		return "protocol header " + version(f.Payload)
	}
	return fmt.Sprintf("%s frame on channel %d, %d bytes", f.Type, f.Channel, len(f.Raw))
}

// Clone returns the frame on memory of its own, for keeping.
func (f Frame) Clone() Frame {
	raw := append([]byte(nil), f.Raw...)
	if f.Type == TypeProtocol {
		return Frame{Type: f.Type, Payload: raw[len(protocolName):], Raw: raw}
	}
	return Frame{Type: f.Type, Channel: f.Channel, Payload: raw[headSize : len(raw)-1], Raw: raw}
}

// version renders the four octets of a protocol header: "0-9-1", or "1-1-9-1" where the first is not 0.
func version(four []byte) string {
	if len(four) != protocolSize-len(protocolName) {
		return "of no known version"
	}
	if four[0] == 0 {
		return fmt.Sprintf("%d-%d-%d", four[1], four[2], four[3])
	}
	return fmt.Sprintf("%d-%d-%d-%d", four[0], four[1], four[2], four[3])
}

// AppendFrame appends a frame. For a protocol header, the payload is its last four octets and the channel is
// not sent.
func AppendFrame(dst []byte, typ Type, channel uint16, payload []byte) []byte {
	if typ == TypeProtocol {
		return append(append(dst, protocolName...), payload...)
	}
	dst = appendHead(dst, typ, channel, len(payload))
	dst = append(dst, payload...)
	return append(dst, endOctet)
}

// AppendProtocolHeader appends the protocol header of AMQP 0-9-1, 8 bytes.
func AppendProtocolHeader(dst []byte) []byte {
	return append(dst, protocolName+"\x00\x00\x09\x01"...)
}

// AppendHeartbeat appends a heartbeat frame, 8 bytes. Heartbeats go on channel 0 and have no payload.
func AppendHeartbeat(dst []byte) []byte {
	return AppendFrame(dst, TypeHeartbeat, 0, nil)
}

// AppendMethodFrame appends m in a frame of its own. Where m cannot be encoded (see AppendMethod), it returns dst
// as it was and the error.
func AppendMethodFrame(dst []byte, channel uint16, m Method) ([]byte, error) {
	return appendFramed(dst, TypeMethod, channel, func(dst []byte) ([]byte, error) { return AppendMethod(dst, m) })
}

// appendFramed appends a frame around what the payload function appends.
func appendFramed(dst []byte, typ Type, channel uint16, payload func([]byte) ([]byte, error)) ([]byte, error) {
	start := len(dst)
	framed, err := payload(appendHead(dst, typ, channel, 0))
	if err != nil {
		return dst, err
	}
	binary.BigEndian.PutUint32(framed[start+headSize-4:], uint32(len(framed)-start-headSize))
	return append(framed, endOctet), nil
}

func appendHead(dst []byte, typ Type, channel uint16, size int) []byte {
	dst = append(dst, byte(typ))
	dst = binary.BigEndian.AppendUint16(dst, channel)
	return binary.BigEndian.AppendUint32(dst, uint32(size))
}
