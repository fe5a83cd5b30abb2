package frame

// The basic class: publishing, consuming, acknowledging. Contents follow publish, return, deliver and get-ok.

// ClassBasic is the id of the basic class.
const ClassBasic = 60

// BasicQos is basic.qos: it sets the prefetch.
type BasicQos struct {
	PrefetchSize  uint32 // bytes; RabbitMQ accepts 0 only
	PrefetchCount uint16 // messages, 0 for no limit
	Global        bool   // RabbitMQ: true for the whole channel, false for each new consumer
}

// ClassID is 60.
func (*BasicQos) ClassID() uint16 { return ClassBasic }

// MethodID is 10.
func (*BasicQos) MethodID() uint16 { return 10 }

// Name is "basic.qos".
func (*BasicQos) Name() string { return "basic.qos" }

func (m *BasicQos) wire(c *coder) {
	c.long(&m.PrefetchSize)
	c.short(&m.PrefetchCount)
	c.bits(&m.Global)
}

// BasicQosOk is basic.qos-ok: it confirms a prefetch.
type BasicQosOk struct{}

// ClassID is 60.
func (*BasicQosOk) ClassID() uint16 { return ClassBasic }

// MethodID is 11.
func (*BasicQosOk) MethodID() uint16 { return 11 }

// Name is "basic.qos-ok".
func (*BasicQosOk) Name() string { return "basic.qos-ok" }

func (*BasicQosOk) wire(*coder) {}

// BasicConsume is basic.consume: it subscribes to a queue.
type BasicConsume struct {
	Queue       string
	ConsumerTag string // empty for a tag by the broker
	NoLocal     bool
	NoAck       bool
	Exclusive   bool
	NoWait      bool
	Arguments   Table
}

// ClassID is 60.
func (*BasicConsume) ClassID() uint16 { return ClassBasic }

// MethodID is 20.
func (*BasicConsume) MethodID() uint16 { return 20 }

// Name is "basic.consume".
func (*BasicConsume) Name() string { return "basic.consume" }

func (m *BasicConsume) wire(c *coder) {
	c.reservedShort()
	c.shortString(&m.Queue)
	c.shortString(&m.ConsumerTag)
	c.bits(&m.NoLocal, &m.NoAck, &m.Exclusive, &m.NoWait)
	c.table(&m.Arguments)
}

// BasicConsumeOk is basic.consume-ok: it confirms a subscription.
type BasicConsumeOk struct {
	ConsumerTag string
}

// ClassID is 60.
func (*BasicConsumeOk) ClassID() uint16 { return ClassBasic }

// MethodID is 21.
func (*BasicConsumeOk) MethodID() uint16 { return 21 }

// Name is "basic.consume-ok".
func (*BasicConsumeOk) Name() string { return "basic.consume-ok" }

func (m *BasicConsumeOk) wire(c *coder) {
	c.shortString(&m.ConsumerTag)
}

// BasicCancel is basic.cancel: it ends a subscription; from the broker it is the notice that the consumer was cancelled, as when its queue was
// deleted (RabbitMQ).
type BasicCancel struct {
	ConsumerTag string
	NoWait      bool
}

// ClassID is 60.
func (*BasicCancel) ClassID() uint16 { return ClassBasic }

// MethodID is 30.
func (*BasicCancel) MethodID() uint16 { return 30 }

// Name is "basic.cancel".
func (*BasicCancel) Name() string { return "basic.cancel" }

func (m *BasicCancel) wire(c *coder) {
	c.shortString(&m.ConsumerTag)
	c.bits(&m.NoWait)
}

// BasicCancelOk is basic.cancel-ok: it confirms the end of a subscription.
type BasicCancelOk struct {
	ConsumerTag string
}

// ClassID is 60.
func (*BasicCancelOk) ClassID() uint16 { return ClassBasic }

// MethodID is 31.
func (*BasicCancelOk) MethodID() uint16 { return 31 }

// Name is "basic.cancel-ok".
func (*BasicCancelOk) Name() string { return "basic.cancel-ok" }

func (m *BasicCancelOk) wire(c *coder) {
	c.shortString(&m.ConsumerTag)
}

// BasicPublish is basic.publish: it sends a message to an exchange; a content follows.
type BasicPublish struct {
	Exchange   string // empty for the default exchange
	RoutingKey string
	Mandatory  bool
	Immediate  bool // RabbitMQ closes the connection when it is set
}

// ClassID is 60.
func (*BasicPublish) ClassID() uint16 { return ClassBasic }

// MethodID is 40.
func (*BasicPublish) MethodID() uint16 { return 40 }

// Name is "basic.publish".
func (*BasicPublish) Name() string { return "basic.publish" }

func (m *BasicPublish) wire(c *coder) {
	c.reservedShort()
	c.shortString(&m.Exchange)
	c.shortString(&m.RoutingKey)
	c.bits(&m.Mandatory, &m.Immediate)
}

// BasicReturn is basic.return: it gives a mandatory message back that no queue took; a content follows.
type BasicReturn struct {
	ReplyCode  uint16 // 312 for no route
	ReplyText  string
	Exchange   string
	RoutingKey string
}

// ClassID is 60.
func (*BasicReturn) ClassID() uint16 { return ClassBasic }

// MethodID is 50.
func (*BasicReturn) MethodID() uint16 { return 50 }

// Name is "basic.return".
func (*BasicReturn) Name() string { return "basic.return" }

func (m *BasicReturn) wire(c *coder) {
	c.short(&m.ReplyCode)
	c.shortString(&m.ReplyText)
	c.shortString(&m.Exchange)
	c.shortString(&m.RoutingKey)
}

// BasicDeliver is basic.deliver: it hands a message to a consumer; a content follows.
type BasicDeliver struct {
	ConsumerTag string
	DeliveryTag uint64 // counts from 1 on each channel
	Redelivered bool
	Exchange    string
	RoutingKey  string
}

// ClassID is 60.
func (*BasicDeliver) ClassID() uint16 { return ClassBasic }

// MethodID is 60.
func (*BasicDeliver) MethodID() uint16 { return 60 }

// Name is "basic.deliver".
func (*BasicDeliver) Name() string { return "basic.deliver" }

func (m *BasicDeliver) wire(c *coder) {
	c.shortString(&m.ConsumerTag)
	c.longLong(&m.DeliveryTag)
	c.bits(&m.Redelivered)
	c.shortString(&m.Exchange)
	c.shortString(&m.RoutingKey)
}

// BasicGet is basic.get: it asks for one message.
type BasicGet struct {
	Queue string
	NoAck bool
}

// ClassID is 60.
func (*BasicGet) ClassID() uint16 { return ClassBasic }

// MethodID is 70.
func (*BasicGet) MethodID() uint16 { return 70 }

// Name is "basic.get".
func (*BasicGet) Name() string { return "basic.get" }

func (m *BasicGet) wire(c *coder) {
	c.reservedShort()
	c.shortString(&m.Queue)
	c.bits(&m.NoAck)
}

// BasicGetOk is basic.get-ok: it answers a get with a message; a content follows.
type BasicGetOk struct {
	DeliveryTag  uint64 // counts from 1 on each channel
	Redelivered  bool
	Exchange     string
	RoutingKey   string
	MessageCount uint32 // messages left in the queue
}

// ClassID is 60.
func (*BasicGetOk) ClassID() uint16 { return ClassBasic }

// MethodID is 71.
func (*BasicGetOk) MethodID() uint16 { return 71 }

// Name is "basic.get-ok".
func (*BasicGetOk) Name() string { return "basic.get-ok" }

func (m *BasicGetOk) wire(c *coder) {
	c.longLong(&m.DeliveryTag)
	c.bits(&m.Redelivered)
	c.shortString(&m.Exchange)
	c.shortString(&m.RoutingKey)
	c.long(&m.MessageCount)
}

// BasicGetEmpty is basic.get-empty: it answers a get of an empty queue.
type BasicGetEmpty struct{}

// ClassID is 60.
func (*BasicGetEmpty) ClassID() uint16 { return ClassBasic }

// MethodID is 72.
func (*BasicGetEmpty) MethodID() uint16 { return 72 }

// Name is "basic.get-empty".
func (*BasicGetEmpty) Name() string { return "basic.get-empty" }

func (*BasicGetEmpty) wire(c *coder) {
	c.reservedShortString()
}

// BasicAck is basic.ack: it acknowledges deliveries, or from the broker, confirms publishes.
type BasicAck struct {
	DeliveryTag uint64 // 0 with Multiple: all so far
	Multiple    bool   // all up to and including DeliveryTag
}

// ClassID is 60.
func (*BasicAck) ClassID() uint16 { return ClassBasic }

// MethodID is 80.
func (*BasicAck) MethodID() uint16 { return 80 }

// Name is "basic.ack".
func (*BasicAck) Name() string { return "basic.ack" }

func (m *BasicAck) wire(c *coder) {
	c.longLong(&m.DeliveryTag)
	c.bits(&m.Multiple)
}

// BasicReject is basic.reject: it refuses one delivery.
type BasicReject struct {
	DeliveryTag uint64
	Requeue     bool
}

// ClassID is 60.
func (*BasicReject) ClassID() uint16 { return ClassBasic }

// MethodID is 90.
func (*BasicReject) MethodID() uint16 { return 90 }

// Name is "basic.reject".
func (*BasicReject) Name() string { return "basic.reject" }

func (m *BasicReject) wire(c *coder) {
	c.longLong(&m.DeliveryTag)
	c.bits(&m.Requeue)
}

// BasicRecoverAsync is basic.recover-async, the deprecated recover without an answer.
type BasicRecoverAsync struct {
	Requeue bool
}

// ClassID is 60.
func (*BasicRecoverAsync) ClassID() uint16 { return ClassBasic }

// MethodID is 100.
func (*BasicRecoverAsync) MethodID() uint16 { return 100 }

// Name is "basic.recover-async".
func (*BasicRecoverAsync) Name() string { return "basic.recover-async" }

func (m *BasicRecoverAsync) wire(c *coder) {
	c.bits(&m.Requeue)
}

// BasicRecover is basic.recover: it has all unacknowledged deliveries of the channel delivered again.
type BasicRecover struct {
	Requeue bool
}

// ClassID is 60.
func (*BasicRecover) ClassID() uint16 { return ClassBasic }

// MethodID is 110.
func (*BasicRecover) MethodID() uint16 { return 110 }

// Name is "basic.recover".
func (*BasicRecover) Name() string { return "basic.recover" }

func (m *BasicRecover) wire(c *coder) {
	c.bits(&m.Requeue)
}

// BasicRecoverOk is basic.recover-ok: it confirms a recover.
type BasicRecoverOk struct{}

// ClassID is 60.
func (*BasicRecoverOk) ClassID() uint16 { return ClassBasic }

// MethodID is 111.
func (*BasicRecoverOk) MethodID() uint16 { return 111 }

// Name is "basic.recover-ok".
func (*BasicRecoverOk) Name() string { return "basic.recover-ok" }

func (*BasicRecoverOk) wire(*coder) {}

// BasicNack is basic.nack: it refuses deliveries, or from the broker, publishes (RabbitMQ).
type BasicNack struct {
	DeliveryTag uint64 // 0 with Multiple: all so far
	Multiple    bool   // all up to and including DeliveryTag
	Requeue     bool
}

// ClassID is 60.
func (*BasicNack) ClassID() uint16 { return ClassBasic }

// MethodID is 120.
func (*BasicNack) MethodID() uint16 { return 120 }

// Name is "basic.nack".
func (*BasicNack) Name() string { return "basic.nack" }

func (m *BasicNack) wire(c *coder) {
	c.longLong(&m.DeliveryTag)
	c.bits(&m.Multiple, &m.Requeue)
}

// BasicCredit is basic.credit: it sets the credit of a consumer; RabbitMQ keeps it for its AMQP 1.0 plugin.
type BasicCredit struct {
	ConsumerTag string
	Credit      uint32 // messages
	Drain       bool
}

// ClassID is 60.
func (*BasicCredit) ClassID() uint16 { return ClassBasic }

// MethodID is 200.
func (*BasicCredit) MethodID() uint16 { return 200 }

// Name is "basic.credit".
func (*BasicCredit) Name() string { return "basic.credit" }

func (m *BasicCredit) wire(c *coder) {
	c.shortString(&m.ConsumerTag)
	c.long(&m.Credit)
	c.bits(&m.Drain)
}

// BasicCreditOk is basic.credit-ok: it answers a credit.
type BasicCreditOk struct {
	Available uint32 // messages
}

// ClassID is 60.
func (*BasicCreditOk) ClassID() uint16 { return ClassBasic }

// MethodID is 201.
func (*BasicCreditOk) MethodID() uint16 { return 201 }

// Name is "basic.credit-ok".
func (*BasicCreditOk) Name() string { return "basic.credit-ok" }

func (m *BasicCreditOk) wire(c *coder) {
	c.long(&m.Available)
}

// BasicCreditDrained is basic.credit-drained: it says that a drained credit was used up.
type BasicCreditDrained struct {
	ConsumerTag   string
	CreditDrained uint32 // messages
}

// ClassID is 60.
func (*BasicCreditDrained) ClassID() uint16 { return ClassBasic }

// MethodID is 202.
func (*BasicCreditDrained) MethodID() uint16 { return 202 }

// Name is "basic.credit-drained".
func (*BasicCreditDrained) Name() string { return "basic.credit-drained" }

func (m *BasicCreditDrained) wire(c *coder) {
	c.shortString(&m.ConsumerTag)
	c.long(&m.CreditDrained)
}
