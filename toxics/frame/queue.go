package frame

// The queue class.

// ClassQueue is the id of the queue class.
const ClassQueue = 50

// QueueDeclare is queue.declare: it creates a queue, or checks one (Passive).
type QueueDeclare struct {
	Queue      string // empty for a name by the broker
	Passive    bool
	Durable    bool
	Exclusive  bool
	AutoDelete bool
	NoWait     bool
	Arguments  Table // x-message-ttl, x-dead-letter-exchange, ...
}

// ClassID is 50.
func (*QueueDeclare) ClassID() uint16 { return ClassQueue }

// MethodID is 10.
func (*QueueDeclare) MethodID() uint16 { return 10 }

// Name is "queue.declare".
func (*QueueDeclare) Name() string { return "queue.declare" }

func (m *QueueDeclare) wire(c *coder) {
	c.reservedShort()
	c.shortString(&m.Queue)
	c.bits(&m.Passive, &m.Durable, &m.Exclusive, &m.AutoDelete, &m.NoWait)
	c.table(&m.Arguments)
}

// QueueDeclareOk is queue.declare-ok: it confirms a queue.
type QueueDeclareOk struct {
	Queue         string
	MessageCount  uint32 // ready messages; unacked ones are not counted
	ConsumerCount uint32
}

// ClassID is 50.
func (*QueueDeclareOk) ClassID() uint16 { return ClassQueue }

// MethodID is 11.
func (*QueueDeclareOk) MethodID() uint16 { return 11 }

// Name is "queue.declare-ok".
func (*QueueDeclareOk) Name() string { return "queue.declare-ok" }

func (m *QueueDeclareOk) wire(c *coder) {
	c.shortString(&m.Queue)
	c.long(&m.MessageCount)
	c.long(&m.ConsumerCount)
}

// QueueBind is queue.bind: it binds a queue to an exchange.
type QueueBind struct {
	Queue      string
	Exchange   string
	RoutingKey string
	NoWait     bool
	Arguments  Table
}

// ClassID is 50.
func (*QueueBind) ClassID() uint16 { return ClassQueue }

// MethodID is 20.
func (*QueueBind) MethodID() uint16 { return 20 }

// Name is "queue.bind".
func (*QueueBind) Name() string { return "queue.bind" }

func (m *QueueBind) wire(c *coder) {
	c.reservedShort()
	c.shortString(&m.Queue)
	c.shortString(&m.Exchange)
	c.shortString(&m.RoutingKey)
	c.bits(&m.NoWait)
	c.table(&m.Arguments)
}

// QueueBindOk is queue.bind-ok: it confirms a binding.
type QueueBindOk struct{}

// ClassID is 50.
func (*QueueBindOk) ClassID() uint16 { return ClassQueue }

// MethodID is 21.
func (*QueueBindOk) MethodID() uint16 { return 21 }

// Name is "queue.bind-ok".
func (*QueueBindOk) Name() string { return "queue.bind-ok" }

func (*QueueBindOk) wire(*coder) {}

// QueuePurge is queue.purge: it drops the ready messages of a queue.
type QueuePurge struct {
	Queue  string
	NoWait bool
}

// ClassID is 50.
func (*QueuePurge) ClassID() uint16 { return ClassQueue }

// MethodID is 30.
func (*QueuePurge) MethodID() uint16 { return 30 }

// Name is "queue.purge".
func (*QueuePurge) Name() string { return "queue.purge" }

func (m *QueuePurge) wire(c *coder) {
	c.reservedShort()
	c.shortString(&m.Queue)
	c.bits(&m.NoWait)
}

// QueuePurgeOk is queue.purge-ok: it confirms a purge.
type QueuePurgeOk struct {
	MessageCount uint32 // messages dropped
}

// ClassID is 50.
func (*QueuePurgeOk) ClassID() uint16 { return ClassQueue }

// MethodID is 31.
func (*QueuePurgeOk) MethodID() uint16 { return 31 }

// Name is "queue.purge-ok".
func (*QueuePurgeOk) Name() string { return "queue.purge-ok" }

func (m *QueuePurgeOk) wire(c *coder) {
	c.long(&m.MessageCount)
}

// QueueDelete is queue.delete: it deletes a queue.
type QueueDelete struct {
	Queue    string
	IfUnused bool
	IfEmpty  bool
	NoWait   bool
}

// ClassID is 50.
func (*QueueDelete) ClassID() uint16 { return ClassQueue }

// MethodID is 40.
func (*QueueDelete) MethodID() uint16 { return 40 }

// Name is "queue.delete".
func (*QueueDelete) Name() string { return "queue.delete" }

func (m *QueueDelete) wire(c *coder) {
	c.reservedShort()
	c.shortString(&m.Queue)
	c.bits(&m.IfUnused, &m.IfEmpty, &m.NoWait)
}

// QueueDeleteOk is queue.delete-ok: it confirms the deletion of a queue.
type QueueDeleteOk struct {
	MessageCount uint32 // messages deleted with it
}

// ClassID is 50.
func (*QueueDeleteOk) ClassID() uint16 { return ClassQueue }

// MethodID is 41.
func (*QueueDeleteOk) MethodID() uint16 { return 41 }

// Name is "queue.delete-ok".
func (*QueueDeleteOk) Name() string { return "queue.delete-ok" }

func (m *QueueDeleteOk) wire(c *coder) {
	c.long(&m.MessageCount)
}

// QueueUnbind is queue.unbind: it removes a binding; it knows no NoWait.
type QueueUnbind struct {
	Queue      string
	Exchange   string
	RoutingKey string
	Arguments  Table
}

// ClassID is 50.
func (*QueueUnbind) ClassID() uint16 { return ClassQueue }

// MethodID is 50.
func (*QueueUnbind) MethodID() uint16 { return 50 }

// Name is "queue.unbind".
func (*QueueUnbind) Name() string { return "queue.unbind" }

func (m *QueueUnbind) wire(c *coder) {
	c.reservedShort()
	c.shortString(&m.Queue)
	c.shortString(&m.Exchange)
	c.shortString(&m.RoutingKey)
	c.table(&m.Arguments)
}

// QueueUnbindOk is queue.unbind-ok: it confirms that a binding is gone.
type QueueUnbindOk struct{}

// ClassID is 50.
func (*QueueUnbindOk) ClassID() uint16 { return ClassQueue }

// MethodID is 51.
func (*QueueUnbindOk) MethodID() uint16 { return 51 }

// Name is "queue.unbind-ok".
func (*QueueUnbindOk) Name() string { return "queue.unbind-ok" }

func (*QueueUnbindOk) wire(*coder) {}
