package frame

// The confirm class, RabbitMQ's publisher confirms.

// ClassConfirm is the id of the confirm class.
const ClassConfirm = 85

// ConfirmSelect is confirm.select: it turns confirms on for the channel; from then on publishes count from 1.
type ConfirmSelect struct {
	NoWait bool
}

// ClassID is 85.
func (*ConfirmSelect) ClassID() uint16 { return ClassConfirm }

// MethodID is 10.
func (*ConfirmSelect) MethodID() uint16 { return 10 }

// Name is "confirm.select".
func (*ConfirmSelect) Name() string { return "confirm.select" }

func (m *ConfirmSelect) wire(c *coder) {
	c.bits(&m.NoWait)
}

// ConfirmSelectOk is confirm.select-ok: it says that confirms are on.
type ConfirmSelectOk struct{}

// ClassID is 85.
func (*ConfirmSelectOk) ClassID() uint16 { return ClassConfirm }

// MethodID is 11.
func (*ConfirmSelectOk) MethodID() uint16 { return 11 }

// Name is "confirm.select-ok".
func (*ConfirmSelectOk) Name() string { return "confirm.select-ok" }

func (*ConfirmSelectOk) wire(*coder) {}
