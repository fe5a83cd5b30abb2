package frame

// The channel class: opening, closing and pausing a channel.

// ClassChannel is the id of the channel class.
const ClassChannel = 20

// ChannelOpen is channel.open: it opens the channel it is sent on.
type ChannelOpen struct{}

// ClassID is 20.
func (*ChannelOpen) ClassID() uint16 { return ClassChannel }

// MethodID is 10.
func (*ChannelOpen) MethodID() uint16 { return 10 }

// Name is "channel.open".
func (*ChannelOpen) Name() string { return "channel.open" }

func (*ChannelOpen) wire(c *coder) {
	c.reservedShortString()
}

// ChannelOpenOk is channel.open-ok: it says that the channel is open.
type ChannelOpenOk struct{}

// ClassID is 20.
func (*ChannelOpenOk) ClassID() uint16 { return ClassChannel }

// MethodID is 11.
func (*ChannelOpenOk) MethodID() uint16 { return 11 }

// Name is "channel.open-ok".
func (*ChannelOpenOk) Name() string { return "channel.open-ok" }

func (*ChannelOpenOk) wire(c *coder) {
	c.reservedLongString()
}

// ChannelFlow is channel.flow: it asks the peer to stop or resume sending contents; RabbitMQ refuses active=false from clients.
type ChannelFlow struct {
	Active bool
}

// ClassID is 20.
func (*ChannelFlow) ClassID() uint16 { return ClassChannel }

// MethodID is 20.
func (*ChannelFlow) MethodID() uint16 { return 20 }

// Name is "channel.flow".
func (*ChannelFlow) Name() string { return "channel.flow" }

func (m *ChannelFlow) wire(c *coder) {
	c.bits(&m.Active)
}

// ChannelFlowOk is channel.flow-ok: it confirms a flow.
type ChannelFlowOk struct {
	Active bool
}

// ClassID is 20.
func (*ChannelFlowOk) ClassID() uint16 { return ClassChannel }

// MethodID is 21.
func (*ChannelFlowOk) MethodID() uint16 { return 21 }

// Name is "channel.flow-ok".
func (*ChannelFlowOk) Name() string { return "channel.flow-ok" }

func (m *ChannelFlowOk) wire(c *coder) {
	c.bits(&m.Active)
}

// ChannelClose is channel.close: it ends the channel, by either side; an error of the channel has its code here.
type ChannelClose struct {
	ReplyCode    uint16 // 200, or the error, such as 404 or 406
	ReplyText    string
	FailedClass  uint16 // class id of the method at fault, 0 for none
	FailedMethod uint16 // method id of the method at fault, 0 for none
}

// ClassID is 20.
func (*ChannelClose) ClassID() uint16 { return ClassChannel }

// MethodID is 40.
func (*ChannelClose) MethodID() uint16 { return 40 }

// Name is "channel.close".
func (*ChannelClose) Name() string { return "channel.close" }

func (m *ChannelClose) wire(c *coder) {
	c.short(&m.ReplyCode)
	c.shortString(&m.ReplyText)
	c.short(&m.FailedClass)
	c.short(&m.FailedMethod)
}

// ChannelCloseOk is channel.close-ok: it confirms the end of the channel.
type ChannelCloseOk struct{}

// ClassID is 20.
func (*ChannelCloseOk) ClassID() uint16 { return ClassChannel }

// MethodID is 41.
func (*ChannelCloseOk) MethodID() uint16 { return 41 }

// Name is "channel.close-ok".
func (*ChannelCloseOk) Name() string { return "channel.close-ok" }

func (*ChannelCloseOk) wire(*coder) {}
