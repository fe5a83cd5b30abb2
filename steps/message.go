package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cucumber/godog"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/scenarios/ledger"
)

func (w *World) messageSteps(s Words) {
	s.Step(`^"([^"]*)" is published to "([^"]*)"$`, func(ctx context.Context, message, to string) error { return w.publish(ctx, to, "", w.plain(message)) })
	s.Step(`^"([^"]*)" is published to "([^"]*)" with the key "([^"]*)"$`, func(ctx context.Context, message, to, key string) error {
		return w.publish(ctx, to, key, w.plain(message))
	})
	s.Step(`^"([^"]*)" is published to "([^"]*)" with$`, w.publishWith)
	s.Step(`^"([^"]*)" is published to "([^"]*)" without properties$`, func(ctx context.Context, message, to string) error {
		return w.publish(ctx, to, "", outgoing{message, amqp.Publishing{Body: w.plain(message).Body}})
	})
	s.Step(`^"([^"]*)" is published to "([^"]*)" with an empty body$`, func(ctx context.Context, message, to string) error { return w.publishBody(ctx, message, to, nil) })
	s.Step(`^"([^"]*)" is published to "([^"]*)" with a body of all 256 bytes$`, func(ctx context.Context, message, to string) error {
		body := make([]byte, 256)
		for i := range body {
			body[i] = byte(i)
		}
		return w.publishBody(ctx, message, to, body)
	})
	s.Step(`^"([^"]*)" is published to "([^"]*)" with a body of (\d+) bytes$`, func(ctx context.Context, message, to string, size int) error {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(i * 31 >> 3) // neither constant nor the frame end's value all over
		}
		return w.publishBody(ctx, message, to, body)
	})
	s.Step(`^"([^"]*)" is published to "([^"]*)" with an x-death that counts (\d+) for its queue$`, w.publishWithDeath)
	s.Step(`^the messages "([^"]*)" to "([^"]*)" are published to "([^"]*)"$`, w.publishRange)
	s.Step(`^these messages are published to "([^"]*)"$`, w.publishTable)
	s.Step(`^(\d+) messages "([^"]*)" and (\d+) messages "([^"]*)" are published in turn to "([^"]*)"$`, w.publishInTurn)
}

// outgoing is a message on its way out.
type outgoing struct {
	name string
	amqp.Publishing
}

// plain is the message as cases publish it when they say nothing: with an id, a body that says
// which it is, and to be kept by the broker.
func (w *World) plain(name string) outgoing {
	return outgoing{name, amqp.Publishing{
		MessageId: name, ContentType: "application/json", DeliveryMode: amqp.Persistent,
		Body: fmt.Appendf(nil, `{"message":%q,"case":%q}`, name, w.Case),
	}}
}

// publish publishes the messages and returns once the broker has confirmed them all.
func (w *World) publish(ctx context.Context, to, key string, messages ...outgoing) error {
	d, found := w.declared[to]
	if !found {
		return fmt.Errorf("no exchange or queue %q was declared", to)
	}
	exchange := w.physical(to)
	if d.kind == "queue" {
		exchange, key = "", w.physical(to)
	}
	return w.publishRaw(ctx, exchange, key, messages...)
}

// publishRaw publishes to an exchange of the broker's.
func (w *World) publishRaw(ctx context.Context, exchange, key string, messages ...outgoing) error {
	to := exchange + "/" + key
	ctx, cancel := context.WithTimeout(ctx, ours)
	defer cancel()
	publisher, err := w.publisher()
	if err != nil {
		return fmt.Errorf("publishing to %q: %w", to, err)
	}
	confirms := make([]*amqp.DeferredConfirmation, 0, len(messages))
	for _, m := range messages {
		if err := w.encode(ctx, &m); err != nil {
			return err
		}
		w.mu.Lock()
		if m.MessageId == "" || len(m.Body) > 0 {
			w.bodies[sha256.Sum256(m.Body)] = m.name
		}
		w.mu.Unlock()
		c, err := publisher.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, m.Publishing)
		if err != nil {
			return fmt.Errorf("publishing %s to %q: %w", m.name, to, err)
		}
		confirms = append(confirms, c)
	}
	for i, c := range confirms {
		confirmed, err := c.WaitContext(ctx)
		if err != nil {
			return fmt.Errorf("waiting for the confirm of %s: %w", messages[i].name, err)
		}
		if !confirmed && publisher.IsClosed() {
			return fmt.Errorf("the connection ended before the broker had confirmed %s, published to %q", messages[i].name, to)
		}
		if !confirmed {
			return fmt.Errorf("the broker refused %s, published to %q", messages[i].name, to)
		}
	}
	return nil
}

// encode puts a message into the library's own format, where it speaks no other.
func (w *World) encode(ctx context.Context, m *outgoing) error {
	for _, p := range w.allProcesses() {
		if !slices.Contains(p.ready.Supports, protocol.CanEncode) {
			continue
		}
		if !json.Valid(m.Body) {
			return &Unsupported{What: "bodies that are not in its own format"}
		}
		e, err := p.adapter.Encode(ctx, m.name, m.Body)
		if err != nil {
			return judged(err, "the message to be encoded")
		}
		m.Body = e.Body
		if e.ContentType != "" {
			m.ContentType = e.ContentType
		}
		if e.ContentEncoding != "" {
			m.ContentEncoding = e.ContentEncoding
		}
		for name, value := range e.Headers {
			if m.Headers == nil {
				m.Headers = amqp.Table{}
			}
			m.Headers[name] = value
		}
		return nil
	}
	return nil
}

func (w *World) publishBody(ctx context.Context, message, to string, body []byte) error {
	m := w.plain(message)
	m.Body, m.ContentType = body, "application/octet-stream"
	return w.publish(ctx, to, "", m)
}

// publishWithDeath publishes a message as a client would that has taken it from a dead-letter
// cycle and puts it back with all its headers.
func (w *World) publishWithDeath(ctx context.Context, message, to string, count int) error {
	m := w.plain(message)
	m.Headers = amqp.Table{
		"x-death": []any{amqp.Table{
			"count": int64(count), "reason": "expired", "queue": w.physical(to), "exchange": "",
			"routing-keys": []any{w.physical(to)}, "time": time.Unix(1700000000, 0),
		}},
		"x-first-death-exchange": "", "x-first-death-queue": w.physical(to), "x-first-death-reason": "expired",
	}
	return w.publish(ctx, to, "", m)
}

func (w *World) publishRange(ctx context.Context, first, last, to string) error {
	names, err := span(first, last)
	if err != nil {
		return err
	}
	messages := make([]outgoing, len(names))
	for i, name := range names {
		messages[i] = w.plain(name)
	}
	return w.publish(ctx, to, "", messages...)
}

func (w *World) publishInTurn(ctx context.Context, n int, one string, m int, two, to string) error {
	var messages []outgoing
	for i := range max(n, m) {
		for _, series := range []struct {
			size    int
			pattern string
		}{{n, one}, {m, two}} {
			if i < series.size {
				messages = append(messages, w.plain(strings.TrimSuffix(series.pattern, "*")+strconv.Itoa(i+1)))
			}
		}
	}
	return w.publish(ctx, to, "", messages...)
}

// span lists "m1" to "m5".
func span(first, last string) ([]string, error) {
	prefix := strings.TrimRight(first, "0123456789")
	from, err1 := strconv.Atoi(strings.TrimPrefix(first, prefix))
	rest, same := strings.CutPrefix(last, prefix)
	to, err2 := strconv.Atoi(rest)
	if err := errors.Join(err1, err2); err != nil || !same || to < from {
		return nil, fmt.Errorf("%q to %q is no range of messages: say \"m1\" to \"m5\"", first, last)
	}
	var names []string
	for i := from; i <= to; i++ {
		names = append(names, prefix+strconv.Itoa(i))
	}
	return names, nil
}

// publishTable publishes one message a row; further columns are properties.
func (w *World) publishTable(ctx context.Context, to string, table *godog.Table) error {
	var messages []outgoing
	head := table.Rows[0].Cells
	for _, row := range table.Rows[1:] {
		m := w.plain(row.Cells[0].Value)
		for i, cell := range row.Cells[1:] {
			if err := w.set(&m.Publishing, head[i+1].Value, cell.Value); err != nil {
				return err
			}
		}
		messages = append(messages, m)
	}
	return w.publish(ctx, to, "", messages...)
}

func (w *World) publishWith(ctx context.Context, message, to string, table *godog.Table) error {
	m := w.plain(message)
	for _, row := range table.Rows {
		if len(row.Cells) != 2 {
			return errors.New("a table of properties has two columns: the property and its value")
		}
		if err := w.set(&m.Publishing, row.Cells[0].Value, row.Cells[1].Value); err != nil {
			return err
		}
	}
	if m.Expiration != "" {
		w.looks.Lock()
		w.terms.MayExpire[message] = false
		w.looks.Unlock()
	}
	return w.publish(ctx, to, "", m)
}

// set sets one property of a message by its name in AMQP 0-9-1.
func (w *World) set(p *amqp.Publishing, name, value string) error {
	header, isHeader := strings.CutPrefix(name, "header ")
	if name == "the attempt header" {
		if err := needs(w.conventions().AttemptHeader, "attempt header"); err != nil {
			return err
		}
		header, isHeader = w.conventions().AttemptHeader, true
	}
	if isHeader {
		v, err := w.value(value)
		if err != nil {
			return fmt.Errorf("header %q: %w", header, err)
		}
		if p.Headers == nil {
			p.Headers = amqp.Table{}
		}
		p.Headers[header] = v
		return nil
	}
	switch name {
	case "content-type":
		p.ContentType = value
	case "content-encoding":
		p.ContentEncoding = value
	case "correlation-id":
		p.CorrelationId = value
	case "reply-to":
		p.ReplyTo = value
	case "type":
		p.Type = value
	case "app-id":
		p.AppId = value
	case "expiration":
		p.Expiration = value
	case "headers":
		if value != "none" {
			return fmt.Errorf("the property headers is none, or give each as: | header NAME | TYPE VALUE |")
		}
		p.Headers = amqp.Table{}
	case "delivery-mode":
		switch value {
		case "transient":
			p.DeliveryMode = amqp.Transient
		case "persistent":
			p.DeliveryMode = amqp.Persistent
		default:
			return fmt.Errorf("the delivery mode is transient or persistent, not %q", value)
		}
	case "priority":
		n, err := strconv.ParseUint(value, 10, 8)
		if err != nil {
			return fmt.Errorf("the priority %q cannot be read: %w", value, err)
		}
		p.Priority = uint8(n)
	case "timestamp":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("the timestamp %q cannot be read, it is in seconds: %w", value, err)
		}
		p.Timestamp = time.Unix(n, 0)
	default:
		return fmt.Errorf("there is no property %q", name)
	}
	return nil
}

// value reads a header's value, "TYPE VALUE".
func (w *World) value(text string) (any, error) {
	kind, rest, _ := strings.Cut(text, " ")
	bad := func(err error) (any, error) { return nil, fmt.Errorf("the value %q cannot be read: %w", text, err) }
	var v any
	var err error
	switch kind {
	case "bool":
		v, err = strconv.ParseBool(rest)
	case "int8":
		v, err = signed[int8](rest)
	case "uint8":
		v, err = unsigned[uint8](rest)
	case "int16":
		v, err = signed[int16](rest)
	case "uint16":
		v, err = unsigned[uint16](rest)
	case "int32":
		v, err = signed[int32](rest)
	case "uint32":
		v, err = unsigned[uint32](rest)
	case "int64":
		v, err = signed[int64](rest)
	case "float":
		var f float64
		f, err = strconv.ParseFloat(rest, 32)
		v = float32(f)
	case "double":
		v, err = strconv.ParseFloat(rest, 64)
	case "decimal":
		var d amqp.Decimal
		_, err = fmt.Sscanf(rest, "%d %d", &d.Value, &d.Scale)
		v = d
	case "string":
		if size, ok := strings.CutPrefix(rest, "of "); ok && strings.HasSuffix(size, " bytes") {
			var n uint64
			n, err = strconv.ParseUint(strings.TrimSuffix(size, " bytes"), 10, 31)
			v = strings.Repeat("x", int(n))
			break
		}
		v = rest
	case "bytes":
		v, err = hex.DecodeString(rest)
	case "timestamp":
		var n int64
		n, err = signed[int64](rest)
		v = time.Unix(n, 0)
	case "void":
		v = nil
	case "array":
		items := []any{}
		for _, item := range strings.Fields(rest) {
			if _, declared := w.declared[item]; declared {
				item = w.physical(item) // a queue's name, as in CC
			}
			items = append(items, item)
		}
		v = items
	case "table":
		table := amqp.Table{}
		for _, pair := range strings.Fields(rest) {
			key, value, _ := strings.Cut(pair, "=")
			table[key] = value
		}
		v = table
	default:
		return nil, fmt.Errorf("there is no header type %q", kind)
	}
	if err != nil {
		return bad(err)
	}
	return v, nil
}

// signed reads an integer of the type's width.
func signed[T int8 | int16 | int32 | int64](text string) (T, error) {
	n, err := strconv.ParseInt(text, 10, reflect.TypeFor[T]().Bits())
	return T(n), err
}

func unsigned[T uint8 | uint16 | uint32](text string) (T, error) {
	n, err := strconv.ParseUint(text, 10, reflect.TypeFor[T]().Bits())
	return T(n), err
}

// offersOf are parkproof's own publishes of a message.
func offersOf(b *ledger.Book, message string) []*ledger.Offer {
	var offers []*ledger.Offer
	for _, o := range b.Offers {
		if o.Message == message {
			offers = append(offers, o)
		}
	}
	return offers
}

// patternsOf lists the published messages that fit a pattern, in the order of their publishing.
func patternsOf(b *ledger.Book, pattern string) []string {
	var names []string
	seen := map[string]bool{}
	for _, o := range b.Offers {
		if matches(pattern, o.Message) && !seen[o.Message] {
			seen[o.Message] = true
			names = append(names, o.Message)
		}
	}
	return slices.Clip(names)
}
