package frame

import "strings"

// Property names one or more of the basic properties, by their bits in the property flags on the wire.
type Property uint16

// The 14 basic properties, in the order of the wire.
const (
	PropContentType Property = 1 << (15 - iota)
	PropContentEncoding
	PropHeaders
	PropDeliveryMode
	PropPriority
	PropCorrelationID
	PropReplyTo
	PropExpiration
	PropMessageID
	PropTimestamp
	PropType
	PropUserID
	PropAppID
	PropClusterID
)

// allProperties are the bits that have a meaning. RabbitMQ ignores the two below; one of them announces further
// flags by the specification, which has no use for it either as long as there are no more than 15 properties.
const allProperties = ^Property(0b11)

// propertyNames are the specification's, in the order of the wire.
var propertyNames = [...]string{
	"content-type", "content-encoding", "headers", "delivery-mode", "priority", "correlation-id", "reply-to",
	"expiration", "message-id", "timestamp", "type", "user-id", "app-id", "cluster-id",
}

// String names the properties, joined by "|": "content-type|headers".
func (p Property) String() string {
	var names []string
	for i, name := range propertyNames {
		if p&(PropContentType>>i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// Values of DeliveryMode. RabbitMQ takes 2 as persistent and 1 or none as transient.
const (
	Transient  uint8 = 1
	Persistent uint8 = 2
)

// Properties are the basic properties of a content header. A property is there if its bit is in Present or its
// field is not zero: so a literal needs no Present, and one that is there with a zero value (priority 0, an empty
// message-id) is told from one that is absent.
type Properties struct {
	Present         Property // what was on the wire; see Has and Remove
	ContentType     string
	ContentEncoding string
	Headers         Table
	DeliveryMode    uint8 // Transient or Persistent
	Priority        uint8
	CorrelationID   string
	ReplyTo         string
	Expiration      string // the message's TTL: milliseconds, in decimal digits
	MessageID       string
	Timestamp       Timestamp
	Type            string
	UserID          string // RabbitMQ compares it with the connection's user
	AppID           string
	ClusterID       string // deprecated; RabbitMQ passes it on
}

// Has says whether the property is there; of several joined by |, whether all are.
func (p *Properties) Has(property Property) bool { return p.present()&property == property }

// Remove takes the property away, or several joined by |.
func (p *Properties) Remove(property Property) {
	p.Present &^= property
	for bit := PropContentType; bit >= PropClusterID; bit >>= 1 {
		if property&bit == 0 {
			continue
		}
		switch bit {
		case PropHeaders:
			p.Headers = nil
		case PropDeliveryMode:
			p.DeliveryMode = 0
		case PropPriority:
			p.Priority = 0
		case PropTimestamp:
			p.Timestamp = 0
		default:
			*p.text(bit) = ""
		}
	}
}

// present returns the flags as they are sent.
func (p *Properties) present() Property {
	flags := p.Present & allProperties
	for bit := PropContentType; bit >= PropClusterID; bit >>= 1 {
		var there bool
		switch bit {
		case PropHeaders:
			there = len(p.Headers) > 0
		case PropDeliveryMode:
			there = p.DeliveryMode != 0
		case PropPriority:
			there = p.Priority != 0
		case PropTimestamp:
			there = p.Timestamp != 0
		default:
			there = *p.text(bit) != ""
		}
		if there {
			flags |= bit
		}
	}
	return flags
}

// wire walks over the flags and the properties that are there.
func (p *Properties) wire(c *coder) {
	var flags uint16
	if !c.decoding {
		flags = uint16(p.present())
	}
	c.short(&flags)
	present := Property(flags) & allProperties
	if c.decoding {
		p.Present = present
	}
	for bit := PropContentType; bit >= PropClusterID; bit >>= 1 {
		if present&bit == 0 {
			continue
		}
		switch bit {
		case PropHeaders:
			c.table(&p.Headers)
		case PropDeliveryMode:
			c.octet(&p.DeliveryMode)
		case PropPriority:
			c.octet(&p.Priority)
		case PropTimestamp:
			c.longLong((*uint64)(&p.Timestamp))
		default:
			c.shortString(p.text(bit))
		}
		if c.err != nil {
			return
		}
	}
}

// text returns the field of a property that is a short string, as all but four are.
func (p *Properties) text(bit Property) *string {
	switch bit {
	case PropContentType:
		return &p.ContentType
	case PropContentEncoding:
		return &p.ContentEncoding
	case PropCorrelationID:
		return &p.CorrelationID
	case PropReplyTo:
		return &p.ReplyTo
	case PropExpiration:
		return &p.Expiration
	case PropMessageID:
		return &p.MessageID
	case PropType:
		return &p.Type
	case PropUserID:
		return &p.UserID
	case PropAppID:
		return &p.AppID
	case PropClusterID:
		return &p.ClusterID
	default:
		return nil
	}
}
