package frame

// The connection class: opening, tuning and closing a connection, RabbitMQ's blocked notices and the renewal of
// a secret. All of it is sent on channel 0.

// ClassConnection is the id of the connection class.
const ClassConnection = 10

// ConnectionStart is connection.start, the broker's greeting: its version, properties and SASL mechanisms.
type ConnectionStart struct {
	VersionMajor     uint8  // 0 for AMQP 0-9-1
	VersionMinor     uint8  // 9 for AMQP 0-9-1
	ServerProperties Table  // product, version, capabilities, ...
	Mechanisms       string // SASL mechanisms, separated by spaces
	Locales          string // separated by spaces
}

// ClassID is 10.
func (*ConnectionStart) ClassID() uint16 { return ClassConnection }

// MethodID is 10.
func (*ConnectionStart) MethodID() uint16 { return 10 }

// Name is "connection.start".
func (*ConnectionStart) Name() string { return "connection.start" }

func (m *ConnectionStart) wire(c *coder) {
	c.octet(&m.VersionMajor)
	c.octet(&m.VersionMinor)
	c.table(&m.ServerProperties)
	c.longString(&m.Mechanisms)
	c.longString(&m.Locales)
}

// ConnectionStartOk is connection.start-ok, the client's choice of a SASL mechanism, with its first response.
type ConnectionStartOk struct {
	ClientProperties Table  // product, version, capabilities, connection_name, ...
	Mechanism        string // PLAIN, AMQPLAIN, EXTERNAL, ...
	Response         Secret // the SASL response; with PLAIN it holds the password
	Locale           string
}

// ClassID is 10.
func (*ConnectionStartOk) ClassID() uint16 { return ClassConnection }

// MethodID is 11.
func (*ConnectionStartOk) MethodID() uint16 { return 11 }

// Name is "connection.start-ok".
func (*ConnectionStartOk) Name() string { return "connection.start-ok" }

func (m *ConnectionStartOk) wire(c *coder) {
	c.table(&m.ClientProperties)
	c.shortString(&m.Mechanism)
	c.secret(&m.Response)
	c.shortString(&m.Locale)
}

// ConnectionSecure is connection.secure, a further SASL challenge.
type ConnectionSecure struct {
	Challenge string
}

// ClassID is 10.
func (*ConnectionSecure) ClassID() uint16 { return ClassConnection }

// MethodID is 20.
func (*ConnectionSecure) MethodID() uint16 { return 20 }

// Name is "connection.secure".
func (*ConnectionSecure) Name() string { return "connection.secure" }

func (m *ConnectionSecure) wire(c *coder) {
	c.longString(&m.Challenge)
}

// ConnectionSecureOk is connection.secure-ok: it answers a SASL challenge.
type ConnectionSecureOk struct {
	Response Secret // the SASL response
}

// ClassID is 10.
func (*ConnectionSecureOk) ClassID() uint16 { return ClassConnection }

// MethodID is 21.
func (*ConnectionSecureOk) MethodID() uint16 { return 21 }

// Name is "connection.secure-ok".
func (*ConnectionSecureOk) Name() string { return "connection.secure-ok" }

func (m *ConnectionSecureOk) wire(c *coder) {
	c.secret(&m.Response)
}

// ConnectionTune is connection.tune: it proposes the limits of the connection.
type ConnectionTune struct {
	ChannelMax uint16 // highest channel number, 0 for no limit
	FrameMax   uint32 // largest frame in bytes, header and end octet included, 0 for no limit
	Heartbeat  uint16 // seconds, 0 for none
}

// ClassID is 10.
func (*ConnectionTune) ClassID() uint16 { return ClassConnection }

// MethodID is 30.
func (*ConnectionTune) MethodID() uint16 { return 30 }

// Name is "connection.tune".
func (*ConnectionTune) Name() string { return "connection.tune" }

func (m *ConnectionTune) wire(c *coder) {
	c.short(&m.ChannelMax)
	c.long(&m.FrameMax)
	c.short(&m.Heartbeat)
}

// ConnectionTuneOk is connection.tune-ok: it settles the limits of the connection.
type ConnectionTuneOk struct {
	ChannelMax uint16 // highest channel number, 0 for no limit
	FrameMax   uint32 // largest frame in bytes, header and end octet included, 0 for no limit
	Heartbeat  uint16 // seconds, 0 for none
}

// ClassID is 10.
func (*ConnectionTuneOk) ClassID() uint16 { return ClassConnection }

// MethodID is 31.
func (*ConnectionTuneOk) MethodID() uint16 { return 31 }

// Name is "connection.tune-ok".
func (*ConnectionTuneOk) Name() string { return "connection.tune-ok" }

func (m *ConnectionTuneOk) wire(c *coder) {
	c.short(&m.ChannelMax)
	c.long(&m.FrameMax)
	c.short(&m.Heartbeat)
}

// ConnectionOpen is connection.open: it asks for a virtual host.
type ConnectionOpen struct {
	VirtualHost string
}

// ClassID is 10.
func (*ConnectionOpen) ClassID() uint16 { return ClassConnection }

// MethodID is 40.
func (*ConnectionOpen) MethodID() uint16 { return 40 }

// Name is "connection.open".
func (*ConnectionOpen) Name() string { return "connection.open" }

func (m *ConnectionOpen) wire(c *coder) {
	c.shortString(&m.VirtualHost)
	c.reservedShortString()
	c.bits(new(bool))
}

// ConnectionOpenOk is connection.open-ok: it says that the virtual host is open.
type ConnectionOpenOk struct{}

// ClassID is 10.
func (*ConnectionOpenOk) ClassID() uint16 { return ClassConnection }

// MethodID is 41.
func (*ConnectionOpenOk) MethodID() uint16 { return 41 }

// Name is "connection.open-ok".
func (*ConnectionOpenOk) Name() string { return "connection.open-ok" }

func (*ConnectionOpenOk) wire(c *coder) {
	c.reservedShortString()
}

// ConnectionClose is connection.close: it ends the connection, by either side; an error of the connection has its code here.
type ConnectionClose struct {
	ReplyCode    uint16 // 200, or the error, such as 320 or 501
	ReplyText    string
	FailedClass  uint16 // class id of the method at fault, 0 for none
	FailedMethod uint16 // method id of the method at fault, 0 for none
}

// ClassID is 10.
func (*ConnectionClose) ClassID() uint16 { return ClassConnection }

// MethodID is 50.
func (*ConnectionClose) MethodID() uint16 { return 50 }

// Name is "connection.close".
func (*ConnectionClose) Name() string { return "connection.close" }

func (m *ConnectionClose) wire(c *coder) {
	c.short(&m.ReplyCode)
	c.shortString(&m.ReplyText)
	c.short(&m.FailedClass)
	c.short(&m.FailedMethod)
}

// ConnectionCloseOk is connection.close-ok: it confirms the end of the connection.
type ConnectionCloseOk struct{}

// ClassID is 10.
func (*ConnectionCloseOk) ClassID() uint16 { return ClassConnection }

// MethodID is 51.
func (*ConnectionCloseOk) MethodID() uint16 { return 51 }

// Name is "connection.close-ok".
func (*ConnectionCloseOk) Name() string { return "connection.close-ok" }

func (*ConnectionCloseOk) wire(*coder) {}

// ConnectionBlocked is connection.blocked, RabbitMQ's notice that it reads no more publishes, for a memory or disk alarm.
type ConnectionBlocked struct {
	Reason string
}

// ClassID is 10.
func (*ConnectionBlocked) ClassID() uint16 { return ClassConnection }

// MethodID is 60.
func (*ConnectionBlocked) MethodID() uint16 { return 60 }

// Name is "connection.blocked".
func (*ConnectionBlocked) Name() string { return "connection.blocked" }

func (m *ConnectionBlocked) wire(c *coder) {
	c.shortString(&m.Reason)
}

// ConnectionUnblocked is connection.unblocked, RabbitMQ's notice that it reads publishes again.
type ConnectionUnblocked struct{}

// ClassID is 10.
func (*ConnectionUnblocked) ClassID() uint16 { return ClassConnection }

// MethodID is 61.
func (*ConnectionUnblocked) MethodID() uint16 { return 61 }

// Name is "connection.unblocked".
func (*ConnectionUnblocked) Name() string { return "connection.unblocked" }

func (*ConnectionUnblocked) wire(*coder) {}

// ConnectionUpdateSecret is connection.update-secret, RabbitMQ's renewal of a credential that expires, such as an OAuth 2 token.
type ConnectionUpdateSecret struct {
	NewSecret Secret
	Reason    string
}

// ClassID is 10.
func (*ConnectionUpdateSecret) ClassID() uint16 { return ClassConnection }

// MethodID is 70.
func (*ConnectionUpdateSecret) MethodID() uint16 { return 70 }

// Name is "connection.update-secret".
func (*ConnectionUpdateSecret) Name() string { return "connection.update-secret" }

func (m *ConnectionUpdateSecret) wire(c *coder) {
	c.secret(&m.NewSecret)
	c.shortString(&m.Reason)
}

// ConnectionUpdateSecretOk is connection.update-secret-ok: it confirms a renewed credential.
type ConnectionUpdateSecretOk struct{}

// ClassID is 10.
func (*ConnectionUpdateSecretOk) ClassID() uint16 { return ClassConnection }

// MethodID is 71.
func (*ConnectionUpdateSecretOk) MethodID() uint16 { return 71 }

// Name is "connection.update-secret-ok".
func (*ConnectionUpdateSecretOk) Name() string { return "connection.update-secret-ok" }

func (*ConnectionUpdateSecretOk) wire(*coder) {}
