package frame

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"
)

// broker answers amqp091-go on a pipe with nothing but this package: any method with its "-ok", a get and a
// consumer with the message last published.
type broker struct {
	conn      net.Conn
	reader    *Reader
	assembler *Assembler
	seen      []Method
	contents  []*Content
	consumer  string
	published uint64
	mode      string // what was selected: confirm or tx
}

func (b *broker) run() error {
	buf := make([]byte, 512)
	for {
		n, err := b.conn.Read(buf)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
			if !b.reader.Boundary() {
				return errors.New("the client's stream ends inside a frame")
			}
			return nil
		}
		if err != nil {
			return err
		}
		b.reader.Feed(buf[:n])
		for {
			f, ok, err := b.reader.Next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			answer, err := b.answer(f)
			if err != nil {
				return err
			}
			if len(answer) > 0 {
				if _, err := b.conn.Write(answer); err != nil {
					return err
				}
			}
		}
	}
}

func (b *broker) answer(f Frame) ([]byte, error) {
	if f.Type == TypeProtocol {
		return AppendMethodFrame(nil, 0, &ConnectionStart{
			VersionMinor:     9,
			ServerProperties: Table{{"product", "test"}, {"capabilities", Table{{"basic.nack", true}}}},
			Mechanisms:       "PLAIN AMQPLAIN",
			Locales:          "en_US",
		})
	}
	part, err := b.assembler.Add(f)
	if err != nil || !part.Done {
		return nil, err
	}
	if c := part.Content; c != nil {
		b.contents = append(b.contents, c)
		b.seen = append(b.seen, c.Method)
		b.published++
		var out []byte
		if b.mode == "confirm" {
			if out, err = AppendMethodFrame(nil, c.Channel, &BasicAck{DeliveryTag: b.published}); err != nil {
				return nil, err
			}
		}
		publish := c.Method.(*BasicPublish)
		if b.consumer == "" {
			return out, nil
		}
		deliver := &BasicDeliver{
			ConsumerTag: b.consumer, DeliveryTag: b.published, Redelivered: true,
			Exchange: publish.Exchange, RoutingKey: publish.RoutingKey,
		}
		return AppendContent(out, c.Channel, deliver, c.Header, c.Body, MinFrameMax)
	}
	if part.Method == nil {
		return nil, nil
	}
	b.seen = append(b.seen, part.Method)
	var answer Method
	switch m := part.Method.(type) {
	case *ConnectionStartOk:
		answer = &ConnectionTune{ChannelMax: 2047, FrameMax: MinFrameMax, Heartbeat: 60}
	case *ConnectionTuneOk:
		b.reader.SetMaxFrame(int(m.FrameMax))
		return nil, nil
	case *BasicConsume:
		b.consumer = m.ConsumerTag
		answer = &BasicConsumeOk{ConsumerTag: m.ConsumerTag}
	case *BasicCancel:
		b.consumer = ""
		answer = &BasicCancelOk{ConsumerTag: m.ConsumerTag}
	case *QueueDeclare:
		answer = &QueueDeclareOk{Queue: m.Queue, MessageCount: 3, ConsumerCount: 2}
	case *BasicGet:
		if m.Queue == "empty" {
			answer = &BasicGetEmpty{}
			break
		}
		c := b.contents[len(b.contents)-1]
		return AppendContent(nil, part.Channel, &BasicGetOk{DeliveryTag: 1, MessageCount: 4}, c.Header, c.Body, MinFrameMax)
	case *ConfirmSelect:
		b.mode = "confirm"
		answer = NewMethod("confirm.select-ok")
	case *QueueDelete:
		answer = &QueueDeleteOk{MessageCount: 9}
	default:
		answer = NewMethod(part.Method.Name() + "-ok")
	}
	if answer == nil {
		return nil, nil // an ack, nack or reject
	}
	return AppendMethodFrame(nil, part.Channel, answer)
}

// amqp091-go, an independent implementation, understands what this package writes, and this package what it writes.
func TestInteroperatesWithAMQP091(t *testing.T) {
	defer goleak.VerifyNone(t)
	client, server := net.Pipe()
	const patience = 30 * time.Second // only a deadlock takes more than milliseconds
	if err := server.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b := &broker{conn: server, reader: NewReader(DefaultMaxFrame), assembler: NewAssembler(1 << 20)}
	ended := make(chan error, 1)
	go func() {
		ended <- b.run()
		_ = server.Close()
	}()

	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	conn, err := amqp.Open(client, amqp.Config{
		SASL:  []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "guest"}},
		Vhost: "pp7", FrameSize: MinFrameMax, Heartbeat: time.Minute, Locale: "en_US",
	})
	must(err)
	ch, err := conn.Channel()
	must(err)

	args := amqp.Table{"x-message-ttl": int32(100), "x-queue-type": "quorum"}
	must(ch.ExchangeDeclare("e", "topic", true, false, true, false, args))
	must(ch.ExchangeBind("e2", "key", "e", false, args))
	must(ch.ExchangeUnbind("e2", "key", "e", false, args))
	queue, err := ch.QueueDeclare("q", true, false, true, false, args)
	must(err)
	if queue.Name != "q" || queue.Messages != 3 || queue.Consumers != 2 {
		t.Errorf("queue.declare-ok was read as %+v", queue)
	}
	must(ch.QueueBind("q", "key", "e", false, args))
	must(ch.QueueUnbind("q", "key", "e", args))
	_, err = ch.QueuePurge("q", false)
	must(err)
	must(ch.Qos(300, 0, true))
	must(ch.Confirm(false))
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, 1))

	// Every field type that amqp091-go has.
	headers := amqp.Table{
		"t": true, "b": int8(-8), "B": byte(200), "s": int16(-16), "u": uint16(60000), "I": int32(-32), "i": uint32(1 << 31),
		"l": int64(-64), "f": float32(1.5), "d": 2.5, "D": amqp.Decimal{Scale: 2, Value: 314}, "S": "text",
		"T": time.Unix(1700000000, 0), "V": nil, "x": []byte{0, 1},
		"A": []any{"a", int32(1), amqp.Table{"k": "v"}, nil}, "F": amqp.Table{"k": amqp.Table{"k": int64(1)}},
	}
	publishing := amqp.Publishing{
		Headers: headers, ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: amqp.Persistent, Priority: 5,
		CorrelationId: "c", ReplyTo: "r", Expiration: "60000", MessageId: "m", Timestamp: time.Unix(1700000001, 0),
		Type: "t", UserId: "guest", AppId: "a", Body: []byte(strings.Repeat("body", 3000)),
	}
	deliveries, err := ch.Consume("q", "tag", false, true, false, false, args)
	must(err)
	must(ch.PublishWithContext(ctx, "e", "key", true, false, publishing))
	select {
	case c := <-confirms:
		if !c.Ack || c.DeliveryTag != 1 {
			t.Errorf("confirm was read as %+v", c)
		}
	case <-ctx.Done():
		t.Fatal("no confirm")
	}
	var d amqp.Delivery
	select {
	case d = <-deliveries:
	case <-ctx.Done():
		t.Fatal("no delivery")
	}
	if !reflect.DeepEqual(d.Headers, headers) {
		t.Errorf("headers came back as\n%#v\nwent out as\n%#v", d.Headers, headers)
	}
	if d.ConsumerTag != "tag" || d.DeliveryTag != 1 || !d.Redelivered || d.Exchange != "e" || d.RoutingKey != "key" ||
		d.ContentType != "text/plain" || d.ContentEncoding != "gzip" || d.DeliveryMode != 2 || d.Priority != 5 ||
		d.CorrelationId != "c" || d.ReplyTo != "r" || d.Expiration != "60000" || d.MessageId != "m" ||
		!d.Timestamp.Equal(publishing.Timestamp) || d.Type != "t" || d.UserId != "guest" || d.AppId != "a" ||
		string(d.Body) != string(publishing.Body) {
		t.Errorf("delivery was read as %+v", d)
	}
	must(d.Nack(true, false))
	must(d.Reject(true))
	must(d.Ack(true))
	must(ch.Cancel("tag", false))
	got, ok, err := ch.Get("q", true)
	must(err)
	if !ok || got.MessageCount != 4 || string(got.Body) != string(publishing.Body) {
		t.Errorf("basic.get-ok was read as %v, %d messages, %d bytes", ok, got.MessageCount, len(got.Body))
	}
	_, ok, err = ch.Get("empty", false)
	must(err)
	if ok {
		t.Error("basic.get-empty was read as a message")
	}
	n, err := ch.QueueDelete("q", true, false, false)
	must(err)
	if n != 9 {
		t.Errorf("queue.delete-ok was read as %d", n)
	}
	must(ch.ExchangeDelete("e", true, false))
	must(conn.UpdateSecret("new", "expired"))
	tx, err := conn.Channel()
	must(err)
	must(tx.Tx())
	must(tx.TxCommit())
	must(tx.TxRollback())
	must(tx.Close())
	must(conn.Close())
	if err := <-ended; err != nil {
		t.Fatalf("reading amqp091-go: %v", err)
	}

	arguments := func(got Table) {
		t.Helper()
		ttl, _ := got.Integer("x-message-ttl")
		if kind, _ := got.Text("x-queue-type"); len(got) != 2 || ttl != 100 || kind != "quorum" {
			t.Errorf("arguments were read as %v", got)
		}
	}
	var names []string
	for _, m := range b.seen {
		names = append(names, m.Name())
		switch m := m.(type) {
		case *ConnectionStartOk:
			if string(m.Response) != "\x00guest\x00guest" || m.Mechanism != "PLAIN" || m.Locale != "en_US" {
				t.Errorf("%+v", m)
			}
		case *ConnectionOpen:
			if m.VirtualHost != "pp7" {
				t.Errorf("%+v", m)
			}
		case *ExchangeDeclare:
			arguments(m.Arguments)
			m.Arguments = nil
			if want := (&ExchangeDeclare{Exchange: "e", Type: "topic", Durable: true, Internal: true}); !reflect.DeepEqual(m, want) {
				t.Errorf("%+v", m)
			}
		case *ExchangeBind:
			arguments(m.Arguments)
			m.Arguments = nil
			if want := (&ExchangeBind{Destination: "e2", Source: "e", RoutingKey: "key"}); !reflect.DeepEqual(m, want) {
				t.Errorf("%+v", m)
			}
		case *QueueDeclare:
			arguments(m.Arguments)
			m.Arguments = nil
			if want := (&QueueDeclare{Queue: "q", Durable: true, Exclusive: true}); !reflect.DeepEqual(m, want) {
				t.Errorf("%+v", m)
			}
		case *QueueUnbind:
			arguments(m.Arguments)
			m.Arguments = nil
			if want := (&QueueUnbind{Queue: "q", Exchange: "e", RoutingKey: "key"}); !reflect.DeepEqual(m, want) {
				t.Errorf("%+v", m)
			}
		case *BasicQos:
			if *m != (BasicQos{PrefetchCount: 300, Global: true}) {
				t.Errorf("%+v", m)
			}
		case *BasicConsume:
			arguments(m.Arguments)
			m.Arguments = nil
			if want := (&BasicConsume{Queue: "q", ConsumerTag: "tag", Exclusive: true}); !reflect.DeepEqual(m, want) {
				t.Errorf("%+v", m)
			}
		case *BasicPublish:
			if *m != (BasicPublish{Exchange: "e", RoutingKey: "key", Mandatory: true}) {
				t.Errorf("%+v", m)
			}
		case *BasicNack:
			if *m != (BasicNack{DeliveryTag: 1, Multiple: true}) {
				t.Errorf("%+v", m)
			}
		case *BasicReject:
			if *m != (BasicReject{DeliveryTag: 1, Requeue: true}) {
				t.Errorf("%+v", m)
			}
		case *QueueDelete:
			if *m != (QueueDelete{Queue: "q", IfUnused: true}) {
				t.Errorf("%+v", m)
			}
		case *ConnectionUpdateSecret:
			if string(m.NewSecret) != "new" || m.Reason != "expired" {
				t.Errorf("%q, %q", string(m.NewSecret), m.Reason)
			}
		}
	}
	want := "connection.start-ok connection.tune-ok connection.open channel.open exchange.declare exchange.bind " +
		"exchange.unbind queue.declare queue.bind queue.unbind queue.purge basic.qos confirm.select basic.consume " +
		"basic.publish basic.nack basic.reject basic.ack basic.cancel basic.get basic.get queue.delete exchange.delete " +
		"connection.update-secret channel.open tx.select tx.commit tx.rollback channel.close connection.close"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("amqp091-go sent\n%s\nwant\n%s", got, want)
	}
	// Its headers, type by type.
	h := b.contents[0].Header.Properties.Headers
	for key, want := range map[string]any{
		"t": true, "b": int8(-8), "B": uint8(200), "s": int16(-16), "u": uint16(60000), "I": int32(-32), "i": uint32(1 << 31),
		"l": int64(-64), "f": float32(1.5), "d": 2.5, "D": Decimal{2, 314}, "S": "text", "T": Timestamp(1700000000),
		"V": nil, "x": Bytes{0, 1}, "A": Array{"a", int32(1), Table{{"k", "v"}}, nil}, "F": Table{{"k", Table{{"k", int64(1)}}}},
	} {
		if got, ok := h.Get(key); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("header %s was read as %#v, want %#v", key, got, want)
		}
	}
}
