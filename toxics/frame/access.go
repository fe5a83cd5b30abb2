package frame

// The access class, left over from AMQP 0-8: RabbitMQ still answers it and ignores the tickets.

// ClassAccess is the id of the access class.
const ClassAccess = 30

// AccessRequest is access.request: it asks for a ticket to a realm.
type AccessRequest struct {
	Realm     string
	Exclusive bool
	Passive   bool
	Active    bool
	Write     bool
	Read      bool
}

// ClassID is 30.
func (*AccessRequest) ClassID() uint16 { return ClassAccess }

// MethodID is 10.
func (*AccessRequest) MethodID() uint16 { return 10 }

// Name is "access.request".
func (*AccessRequest) Name() string { return "access.request" }

func (m *AccessRequest) wire(c *coder) {
	c.shortString(&m.Realm)
	c.bits(&m.Exclusive, &m.Passive, &m.Active, &m.Write, &m.Read)
}

// AccessRequestOk is access.request-ok: it grants a ticket.
type AccessRequestOk struct {
	Ticket uint16 // 1 from RabbitMQ
}

// ClassID is 30.
func (*AccessRequestOk) ClassID() uint16 { return ClassAccess }

// MethodID is 11.
func (*AccessRequestOk) MethodID() uint16 { return 11 }

// Name is "access.request-ok".
func (*AccessRequestOk) Name() string { return "access.request-ok" }

func (m *AccessRequestOk) wire(c *coder) {
	c.short(&m.Ticket)
}
