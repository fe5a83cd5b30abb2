package frame

import (
	"errors"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
)

// allSet are the properties of "header all" in testdata/rabbitmq.golden.
func allSet() Properties {
	return Properties{
		Present:         allProperties,
		ContentType:     "contenttype",
		ContentEncoding: "contentencoding",
		Headers: append(append(Table{}, fields...),
			Pair{"F", fields},
			Pair{"A", append(values(fields), fields, Array(nil))},
		),
		DeliveryMode:  Persistent,
		Priority:      9,
		CorrelationID: "correlationid",
		ReplyTo:       "replyto",
		Expiration:    "60000",
		MessageID:     "messageid",
		Timestamp:     1700000000,
		Type:          "type",
		UserID:        "userid",
		AppID:         "appid",
		ClusterID:     "clusterid",
	}
}

func values(t Table) Array {
	var a Array
	for _, p := range t {
		a = append(a, p.Value)
	}
	return a
}

func TestHeadersAreThoseOfRabbitMQ(t *testing.T) {
	want := map[string]Header{
		"all":  {Class: ClassBasic, BodySize: 5, Properties: allSet()},
		"zero": {Class: ClassBasic, Properties: Properties{Present: allProperties}},
		"none": {Class: ClassBasic},
	}
	golden(t, func(name, variant string, payload []byte) {
		if name != "header" {
			return
		}
		got, err := ParseHeader(payload)
		if err != nil || !reflect.DeepEqual(got, want[variant]) {
			t.Errorf("%s: %+v, %v\nwant %+v", variant, got, err, want[variant])
		}
		again, err := AppendHeader([]byte("before"), want[variant])
		if err != nil || string(again) != "before"+string(payload) {
			t.Errorf("%s: appended %x, %v\nwant %x", variant, again, err, payload)
		}
		for n := range payload {
			if _, err := ParseHeader(payload[:n]); !errors.Is(err, ErrTruncated) {
				t.Errorf("%s, %d of %d bytes: %v", variant, n, len(payload), err)
			}
		}
		if _, err := ParseHeader(append(payload, 0)); !errors.Is(err, ErrTrailing) {
			t.Errorf("%s and a byte: %v", variant, err)
		}
		delete(want, variant)
	})
	if len(want) != 0 {
		t.Errorf("not in the golden file: %v", want)
	}
}

// Written by hand: class 60, weight 0, body size, flags, and the properties in the order of their bits.
func TestHeaderByHand(t *testing.T) {
	for bytes, want := range map[string]Header{
		"\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x10\x00\x02": {
			BodySize:   5,
			Properties: Properties{Present: PropDeliveryMode, DeliveryMode: Persistent},
		},
		"\x00\x3c\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x21\x80\x00\x00\x00\x00\x00\x02m1": {
			BodySize:   1 << 56,
			Properties: Properties{Present: PropHeaders | PropExpiration | PropMessageID, MessageID: "m1"},
		},
	} {
		want.Class = ClassBasic
		got, err := ParseHeader([]byte(bytes))
		if bytes[12:14] == "\x21\x80" {
			// The second one has an empty expiration and an empty header table, told from absent ones.
			if !got.Properties.Has(PropHeaders | PropExpiration | PropMessageID) {
				t.Errorf("%q: has %v", bytes, got.Properties.Present)
			}
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", bytes, got, err)
		}
		if again, err := AppendHeader(nil, want); err != nil || string(again) != bytes {
			t.Errorf("%+v: %q, %v", want, again, err)
		}
	}
}

func TestHeaderWithoutPresentBits(t *testing.T) {
	p := Properties{MessageID: "m1", Headers: Table{{"x-attempt", int32(2)}}, DeliveryMode: Persistent, Timestamp: 1}
	payload, err := AppendHeader(nil, Header{Class: ClassBasic, Properties: p})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseHeader(payload)
	if err != nil {
		t.Fatal(err)
	}
	if s := got.Properties.Present.String(); s != "headers|delivery-mode|message-id|timestamp" {
		t.Error(s)
	}
	if p.Has(PropPriority) || p.Has(PropMessageID|PropPriority) || !p.Has(PropMessageID) {
		t.Errorf("%+v", p)
	}
}

func TestRemove(t *testing.T) {
	for bit := PropContentType; bit >= PropClusterID; bit >>= 1 {
		p := allSet()
		p.Remove(bit)
		if p.Has(bit) || !p.Has(allProperties&^bit) {
			t.Errorf("%v removed, still has %v", bit, p.present())
		}
	}
	p := allSet()
	p.Remove(allProperties)
	if !reflect.DeepEqual(p, Properties{}) {
		t.Errorf("%+v", p)
	}
	if names := allProperties.String(); strings.Count(names, "|") != 13 || !strings.HasSuffix(names, "|cluster-id") {
		t.Error(names)
	}
}

func TestHeadersRoundTrip(t *testing.T) {
	typ := reflect.TypeFor[Properties]()
	check := func(seed int64) bool {
		r := rand.New(rand.NewSource(seed))
		h := Header{Class: ClassBasic, BodySize: r.Uint64()}
		v := reflect.ValueOf(&h.Properties).Elem()
		for i := 1; i < typ.NumField(); i++ {
			if r.Intn(2) == 0 {
				v.Field(i).Set(anyField(r, typ.Field(i).Type))
			}
		}
		h.Properties.Present = Property(r.Uint32())
		h.Properties.Present = h.Properties.present()
		payload, err := AppendHeader(nil, h)
		if err != nil {
			t.Log(err)
			return false
		}
		got, err := ParseHeader(payload)
		if err != nil {
			t.Log(err)
			return false
		}
		return reflect.DeepEqual(got, h)
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 1000}); err != nil {
		t.Error(err)
	}
}

func TestHeaderRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		bytes string
		want  error
	}{
		"class":    {"\x00\x32\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00", ErrHeader},
		"weight":   {"\x00\x3c\x00\x01\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00", ErrHeader},
		"no flags": {"\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05", ErrTruncated},
		"headers":  {"\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x20\x00\xff\xff\xff\xff", ErrTruncated},
		"type":     {"\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x20\x00\x00\x00\x00\x03\x01kZ", ErrFieldType},
	} {
		h, err := ParseHeader([]byte(c.bytes))
		if !errors.Is(err, c.want) || h.BodySize != 5 {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	// RabbitMQ ignores the two lowest flags.
	h, err := ParseHeader([]byte("\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00\x03"))
	if err != nil || h.Properties.Present != 0 {
		t.Errorf("%+v, %v", h, err)
	}
	for name, c := range map[string]struct {
		header Header
		want   error
	}{
		"class":    {Header{}, ErrHeader},
		"property": {Header{Class: ClassBasic, Properties: Properties{ReplyTo: strings.Repeat("x", 256)}}, ErrUnencodable},
		"header":   {Header{Class: ClassBasic, Properties: Properties{Headers: Table{{"k", 1}}}}, ErrUnencodable},
	} {
		got, err := AppendHeader([]byte("before"), c.header)
		if !errors.Is(err, c.want) || string(got) != "before" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
