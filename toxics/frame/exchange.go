package frame

// The exchange class, with RabbitMQ's bindings from exchange to exchange.

// ClassExchange is the id of the exchange class.
const ClassExchange = 40

// ExchangeDeclare is exchange.declare: it creates an exchange, or checks one (Passive).
type ExchangeDeclare struct {
	Exchange   string
	Type       string // direct, fanout, topic, headers, or a plugin's
	Passive    bool
	Durable    bool
	AutoDelete bool
	Internal   bool
	NoWait     bool
	Arguments  Table
}

// ClassID is 40.
func (*ExchangeDeclare) ClassID() uint16 { return ClassExchange }

// MethodID is 10.
func (*ExchangeDeclare) MethodID() uint16 { return 10 }

// Name is "exchange.declare".
func (*ExchangeDeclare) Name() string { return "exchange.declare" }

func (m *ExchangeDeclare) wire(c *coder) {
	c.reservedShort()
	c.shortString(&m.Exchange)
	c.shortString(&m.Type)
	c.bits(&m.Passive, &m.Durable, &m.AutoDelete, &m.Internal, &m.NoWait)
	c.table(&m.Arguments)
}

// ExchangeDeclareOk is exchange.declare-ok: it confirms an exchange.
type ExchangeDeclareOk struct{}

// ClassID is 40.
func (*ExchangeDeclareOk) ClassID() uint16 { return ClassExchange }

// MethodID is 11.
func (*ExchangeDeclareOk) MethodID() uint16 { return 11 }

// Name is "exchange.declare-ok".
func (*ExchangeDeclareOk) Name() string { return "exchange.declare-ok" }

func (*ExchangeDeclareOk) wire(*coder) {}

// ExchangeDelete is exchange.delete: it deletes an exchange.
type ExchangeDelete struct {
	Exchange string
	IfUnused bool
	NoWait   bool
}

// ClassID is 40.
func (*ExchangeDelete) ClassID() uint16 { return ClassExchange }

// MethodID is 20.
func (*ExchangeDelete) MethodID() uint16 { return 20 }

// Name is "exchange.delete".
func (*ExchangeDelete) Name() string { return "exchange.delete" }

func (m *ExchangeDelete) wire(c *coder) {
	c.reservedShort()
	c.shortString(&m.Exchange)
	c.bits(&m.IfUnused, &m.NoWait)
}

// ExchangeDeleteOk is exchange.delete-ok: it confirms the deletion of an exchange.
type ExchangeDeleteOk struct{}

// ClassID is 40.
func (*ExchangeDeleteOk) ClassID() uint16 { return ClassExchange }

// MethodID is 21.
func (*ExchangeDeleteOk) MethodID() uint16 { return 21 }

// Name is "exchange.delete-ok".
func (*ExchangeDeleteOk) Name() string { return "exchange.delete-ok" }

func (*ExchangeDeleteOk) wire(*coder) {}

// ExchangeBind is exchange.bind: it binds the exchange Destination to the exchange Source (RabbitMQ).
type ExchangeBind struct {
	Destination string
	Source      string
	RoutingKey  string
	NoWait      bool
	Arguments   Table
}

// ClassID is 40.
func (*ExchangeBind) ClassID() uint16 { return ClassExchange }

// MethodID is 30.
func (*ExchangeBind) MethodID() uint16 { return 30 }

// Name is "exchange.bind".
func (*ExchangeBind) Name() string { return "exchange.bind" }

func (m *ExchangeBind) wire(c *coder) {
	c.reservedShort()
	c.shortString(&m.Destination)
	c.shortString(&m.Source)
	c.shortString(&m.RoutingKey)
	c.bits(&m.NoWait)
	c.table(&m.Arguments)
}

// ExchangeBindOk is exchange.bind-ok: it confirms a binding of exchanges.
type ExchangeBindOk struct{}

// ClassID is 40.
func (*ExchangeBindOk) ClassID() uint16 { return ClassExchange }

// MethodID is 31.
func (*ExchangeBindOk) MethodID() uint16 { return 31 }

// Name is "exchange.bind-ok".
func (*ExchangeBindOk) Name() string { return "exchange.bind-ok" }

func (*ExchangeBindOk) wire(*coder) {}

// ExchangeUnbind is exchange.unbind: it removes a binding of exchanges (RabbitMQ).
type ExchangeUnbind struct {
	Destination string
	Source      string
	RoutingKey  string
	NoWait      bool
	Arguments   Table
}

// ClassID is 40.
func (*ExchangeUnbind) ClassID() uint16 { return ClassExchange }

// MethodID is 40.
func (*ExchangeUnbind) MethodID() uint16 { return 40 }

// Name is "exchange.unbind".
func (*ExchangeUnbind) Name() string { return "exchange.unbind" }

func (m *ExchangeUnbind) wire(c *coder) {
	c.reservedShort()
	c.shortString(&m.Destination)
	c.shortString(&m.Source)
	c.shortString(&m.RoutingKey)
	c.bits(&m.NoWait)
	c.table(&m.Arguments)
}

// ExchangeUnbindOk is exchange.unbind-ok: it confirms that a binding of exchanges is gone; its id is 51, not 41.
type ExchangeUnbindOk struct{}

// ClassID is 40.
func (*ExchangeUnbindOk) ClassID() uint16 { return ClassExchange }

// MethodID is 51.
func (*ExchangeUnbindOk) MethodID() uint16 { return 51 }

// Name is "exchange.unbind-ok".
func (*ExchangeUnbindOk) Name() string { return "exchange.unbind-ok" }

func (*ExchangeUnbindOk) wire(*coder) {}
