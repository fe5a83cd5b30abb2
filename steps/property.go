package steps

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

func (w *World) propertySteps(s Words) {
	s.Step(`^every delivery of "([^"]*)" to "([^"]*)" has the body and the properties that it was published with$`, w.deliveriesKeepProperties)
	s.Step(`^the parked "([^"]*)" has the body and the properties that it was published with$`, w.parkedKeepsProperties)
	s.Step(`^no copy of "([^"]*)" has an expiration$`, w.noExpiration)
	s.Step(`^every copy of "([^"]*)" is persistent$`, w.copiesPersistent)
}

// published is the message as parkproof published it.
func (w *World) published(message string) (*ledger.Content, error) {
	var content *ledger.Content
	w.look(func(b *ledger.Book) bool {
		if offers := offersOf(b, message); len(offers) > 0 {
			content = offers[0].Content
		}
		return true
	})
	if content == nil {
		return nil, fmt.Errorf("%s was not published", message)
	}
	return content, nil
}

func (w *World) deliveriesKeepProperties(_ context.Context, message, name string) error {
	c, err := w.consumer(name)
	if err != nil {
		return err
	}
	original, err := w.published(message)
	if err != nil {
		return err
	}
	var contents []*ledger.Content
	w.look(func(b *ledger.Book) bool {
		for _, d := range c.deliveries(b, message) {
			contents = append(contents, d.Content)
		}
		return true
	})
	if len(contents) < 2 {
		return &Unknown{Why: fmt.Sprintf("%q was given %s %s: no copy came back to look at", name, message, times(len(contents)))}
	}
	for i, content := range contents {
		if err := w.keepsProperties(original, content, fmt.Sprintf("delivery %d of %s", i+1, message), message); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) parkedKeepsProperties(ctx context.Context, message string) error {
	original, err := w.published(message)
	if err != nil {
		return err
	}
	content, err := w.parked(ctx, message)
	if err != nil {
		return err
	}
	return w.keepsProperties(original, content, "the parked "+message, message)
}

// keepsProperties compares a message with its original: the body by its digest, the properties and headers
// with their types on the wire. The headers that the library and the broker add are theirs.
func (w *World) keepsProperties(original, now *ledger.Content, which, message string) error {
	fail := func(what string, want, got any) error {
		return &Failure{
			Message:  message,
			Expected: fmt.Sprintf("%s to have the %s that it was published with, %s", which, what, shownValue(want)),
			Seen:     shownValue(got),
		}
	}
	if want, got := original.Digest(), now.Digest(); want != got {
		return fail("body", fmt.Sprintf("%d bytes with SHA-256 %x", original.Size, want[:4]), fmt.Sprintf("%d bytes with SHA-256 %x", now.Size, got[:4]))
	}
	was, is := &original.Properties, &now.Properties
	for _, p := range []struct {
		name     string
		was, now any
	}{
		{"content type", was.ContentType, is.ContentType},
		{"content encoding", was.ContentEncoding, is.ContentEncoding},
		{"correlation id", was.CorrelationID, is.CorrelationID},
		{"reply-to", was.ReplyTo, is.ReplyTo},
		{"priority", was.Priority, is.Priority},
		{"type", was.Type, is.Type},
		{"application id", was.AppID, is.AppID},
		{"timestamp", was.Timestamp, is.Timestamp},
		{"message id", was.MessageID, is.MessageID},
	} {
		if p.was != p.now {
			return fail(p.name, p.was, p.now)
		}
	}
	for _, pair := range was.Headers {
		if slices.Contains(w.conventions().DroppedHeaders, pair.Key) {
			continue
		}
		got, ok := is.Headers.Get(pair.Key)
		if !ok {
			return fail(fmt.Sprintf("header %q", pair.Key), pair.Value, "no such header; there are "+headerNames(is.Headers))
		}
		if !reflect.DeepEqual(pair.Value, got) {
			return fail(fmt.Sprintf("header %q", pair.Key), pair.Value, got)
		}
	}
	return nil
}

// shownLength bounds, in bytes, how much of a value a message shows.
const shownLength = 80

// shownValue is a value with its type on the wire, cut to what fits a line.
func shownValue(v any) string {
	text := fmt.Sprintf("%q", v)
	switch v.(type) {
	case string:
	default:
		text = strings.TrimPrefix(fmt.Sprintf("%T(%v)", v, v), "frame.")
	}
	if len(text) > shownLength {
		text = strings.ToValidUTF8(text[:shownLength], "") + "…"
	}
	return text
}

func (w *World) copiesOf(message string) ([]*ledger.Copy, error) {
	var copies []*ledger.Copy
	w.look(func(b *ledger.Book) bool { copies = b.CopiesOf[message]; return true })
	if len(copies) == 0 {
		return nil, &Unknown{Why: "no copy of " + message + " was seen"}
	}
	return copies, nil
}

func (w *World) noExpiration(_ context.Context, message string) error {
	copies, err := w.copiesOf(message)
	if err != nil {
		return err
	}
	for i, c := range copies {
		// A delay by the library's own expiration is its way of waiting; the publisher's is none.
		original, err := w.published(message)
		if err != nil {
			return err
		}
		if p := &c.Content.Properties; p.Has(frame.PropExpiration) && p.Expiration == original.Properties.Expiration {
			return &Failure{
				Message: message, Expected: fmt.Sprintf("copy %d of %s not to carry its publisher's expiration", i+1, message),
				Seen: fmt.Sprintf("the expiration %s", p.Expiration),
			}
		}
	}
	return nil
}

func (w *World) copiesPersistent(_ context.Context, message string) error {
	copies, err := w.copiesOf(message)
	if err != nil {
		return err
	}
	for i, c := range copies {
		if mode := c.Content.Properties.DeliveryMode; mode != frame.Persistent {
			return &Failure{
				Message: message, Expected: fmt.Sprintf("copy %d of %s to be persistent", i+1, message),
				Seen: fmt.Sprintf("delivery mode %d", mode),
			}
		}
	}
	return nil
}
