package frame

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// fields is one value of each type, as testdata/rabbitmq.golden has them in its header.
var fields = Table{
	{"t", true},
	{"b", int8(math.MinInt8)},
	{"B", uint8(math.MaxUint8)},
	{"s", int16(math.MinInt16)},
	{"u", uint16(math.MaxUint16)},
	{"I", int32(math.MinInt32)},
	{"i", uint32(math.MaxUint32)},
	{"l", int64(math.MinInt64)},
	{"f", float32(1.5)},
	{"d", -0.1},
	{"D", Decimal{Scale: 2, Value: 31415}},
	{"S", "text"},
	{"T", Timestamp(1700000000)},
	{"x", Bytes{0, 255}},
	{"V", nil},
}

// Written by hand: each type, RabbitMQ's octet for it, and its bytes.
func TestFieldTypesByHand(t *testing.T) {
	for bytes, want := range map[string]any{
		"t\x01":                                true,
		"t\x00":                                false,
		"b\xfe":                                int8(-2),
		"B\xfe":                                uint8(254),
		"s\xff\xfe":                            int16(-2),
		"u\xff\xfe":                            uint16(65534),
		"I\xff\xff\xff\xfe":                    int32(-2),
		"i\xff\xff\xff\xfe":                    uint32(math.MaxUint32 - 1),
		"l\xff\xff\xff\xff\xff\xff\xff\xfe":    int64(-2),
		"L\xff\xff\xff\xff\xff\xff\xff\xfe":    uint64(math.MaxUint64 - 1),
		"f\x3f\xc0\x00\x00":                    float32(1.5),
		"d\x3f\xf8\x00\x00\x00\x00\x00\x00":    1.5,
		"D\x02\x00\x00\x01\x3a":                Decimal{2, 314},
		"S\x00\x00\x00\x02hi":                  "hi",
		"S\x00\x00\x00\x00":                    "",
		"x\x00\x00\x00\x02\x00\xff":            Bytes{0, 255},
		"x\x00\x00\x00\x00":                    Bytes(nil),
		"T\x00\x00\x00\x00\x00\x00\x00\x05":    Timestamp(5),
		"V":                                    nil,
		"A\x00\x00\x00\x00":                    Array(nil),
		"A\x00\x00\x00\x03t\x01V":              Array{true, nil},
		"A\x00\x00\x00\x05A\x00\x00\x00\x00":   Array{Array(nil)},
		"F\x00\x00\x00\x00":                    Table(nil),
		"F\x00\x00\x00\x05\x02abb\x07":         Table{{"ab", int8(7)}},
		"F\x00\x00\x00\x06\x01kV\x01kV":        Table{{"k", nil}, {"k", nil}},
		"F\x00\x00\x00\x02\x00V":               Table{{"", nil}},
		"A\x00\x00\x00\x07F\x00\x00\x00\x00VV": Array{Table(nil), nil, nil},
	} {
		c := decoder([]byte(bytes))
		got := c.readValue()
		c.end()
		if c.err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: read %#v, %v, want %#v", bytes, got, c.err, want)
		}
		c.free()
		c = encoder(nil)
		c.appendValue(want)
		if c.err != nil || string(c.buf) != bytes {
			t.Errorf("%#v: appended %q, %v, want %q", want, c.buf, c.err, bytes)
		}
		c.free()
	}
}

func TestBooleanIsAnyOctet(t *testing.T) {
	c := decoder([]byte("t\x02"))
	defer c.free()
	if v := c.readValue(); v != true || c.err != nil {
		t.Errorf("%v, %v", v, c.err)
	}
}

func TestDepthIsBounded(t *testing.T) {
	nest := func(depth int) []byte {
		deep := Array(nil)
		for range depth - 2 {
			deep = Array{deep}
		}
		c := encoder(nil)
		defer c.free()
		c.depth = -1000 // so that the encoder lets pass what the decoder must refuse
		c.buf = append(c.buf, "\x00\x32\x00\x32\x00\x00\x00\x00\x00"...)
		c.table(&Table{{"k", deep}})
		if c.err != nil {
			t.Fatal(c.err)
		}
		return c.buf
	}
	if _, err := ParseMethod(nest(MaxDepth)); err != nil {
		t.Errorf("%d deep: %v", MaxDepth, err)
	}
	for _, depth := range []int{MaxDepth + 1, 900} {
		if _, err := ParseMethod(nest(depth)); !errors.Is(err, ErrTooDeep) {
			t.Errorf("%d deep: %v", depth, err)
		}
	}
	// Side by side is not deep.
	wide := &QueueDeclare{}
	for range 2 * MaxDepth {
		wide.Arguments = append(wide.Arguments, Pair{"k", Table{{"k", Array{true}}}})
	}
	payload, err := AppendMethod(nil, wide)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseMethod(payload); err != nil || !reflect.DeepEqual(got, wide) {
		t.Errorf("%d side by side: %v", 2*MaxDepth, err)
	}
	// As deep as a frame of 8 MB can be.
	const levels = 1 << 20
	b := []byte("\x00\x32\x00\x32\x00\x00\x00\x00\x00")
	rest := levels * 8
	for range levels {
		rest -= 8
		n := uint32(rest + 4)
		b = append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n), 2, 'k', 'k', 'F')
	}
	b = append(b, 0, 0, 0, 0)
	if _, err := ParseMethod(b); !errors.Is(err, ErrTooDeep) {
		t.Errorf("%d deep: %v", levels, err)
	}
}

func TestTableLookups(t *testing.T) {
	table := Table{
		{"text", "a"},
		{"text", "shadowed"},
		{"bytes", Bytes("b")},
		{"void", nil},
		{"array", Array{true}},
		{"table", Table{{"k", "v"}}},
		{"int", int16(-3)},
	}
	if v, ok := table.Get("text"); v != "a" || !ok {
		t.Errorf("text: %v, %v", v, ok)
	}
	if v, ok := table.Get("void"); v != nil || !ok {
		t.Errorf("void: %v, %v", v, ok)
	}
	if v, ok := table.Get("none"); v != nil || ok {
		t.Errorf("none: %v, %v", v, ok)
	}
	for key, want := range map[string]string{"text": "a", "bytes": "b", "void": "", "int": "", "none": ""} {
		if v, ok := table.Text(key); v != want || ok != (want != "") {
			t.Errorf("Text(%s) = %q, %v", key, v, ok)
		}
	}
	if v, ok := table.Integer("int"); v != -3 || !ok {
		t.Errorf("Integer: %v, %v", v, ok)
	}
	if v, ok := table.Integer("text"); v != 0 || ok {
		t.Errorf("Integer of text: %v, %v", v, ok)
	}
	if v, ok := table.Array("array"); len(v) != 1 || !ok {
		t.Errorf("Array: %v, %v", v, ok)
	}
	if v, ok := table.Array("table"); v != nil || ok {
		t.Errorf("Array of a table: %v, %v", v, ok)
	}
	if v, ok := table.Table("table"); len(v) != 1 || !ok {
		t.Errorf("Table: %v, %v", v, ok)
	}
	if v, ok := table.Table("none"); v != nil || ok {
		t.Errorf("Table of nothing: %v, %v", v, ok)
	}
	set := Table{{"a", int8(1)}, {"b", int8(2)}}.Set("a", int8(3)).Set("c", int8(4))
	if want := (Table{{"a", int8(3)}, {"b", int8(2)}, {"c", int8(4)}}); !reflect.DeepEqual(set, want) {
		t.Errorf("Set: %v", set)
	}
	if got := Table(nil).Set("k", nil); len(got) != 1 {
		t.Errorf("Set on nil: %v", got)
	}
}

func TestIntegerOfAnyWidth(t *testing.T) {
	for _, v := range []any{int8(7), uint8(7), int16(7), uint16(7), int32(7), uint32(7), int64(7), uint64(7)} {
		if got, ok := Integer(v); got != 7 || !ok {
			t.Errorf("%T: %d, %v", v, got, ok)
		}
	}
	if got, ok := Integer(uint64(math.MaxUint64)); got != -1 || !ok {
		t.Errorf("as RabbitMQ reads an L: %d, %v", got, ok)
	}
	for _, v := range []any{nil, "7", true, 7.0, float32(7), Timestamp(7), Decimal{0, 7}, Bytes("7")} {
		if got, ok := Integer(v); got != 0 || ok {
			t.Errorf("%T: %d, %v", v, got, ok)
		}
	}
}

func TestTimestampIsUTC(t *testing.T) {
	if got := Timestamp(1700000000).Time(); got != time.Date(2023, 11, 14, 22, 13, 20, 0, time.UTC) {
		t.Error(got)
	}
}

// Memory for a table is bounded by the bytes that are there, also where voids take one byte each.
func TestTableAllocatesOnce(t *testing.T) {
	c := encoder(nil)
	a := make(Array, MaxValues)
	c.array(&a)
	payload := c.buf
	n := testing.AllocsPerRun(10, func() {
		d := decoder(payload)
		var v Array
		d.array(&v)
		if d.err != nil || len(v) != len(a) {
			t.Fatal(d.err)
		}
		d.free()
	})
	if n > 2 {
		t.Errorf("%v allocations for an array of voids", n)
	}
}

func TestErrorsShowNoValues(t *testing.T) {
	const password = "correct horse"
	payload, err := AppendMethod(nil, &ConnectionStartOk{
		ClientProperties: Table{{"password", password}}, Mechanism: "PLAIN", Response: "\x00user\x00" + password,
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range payload {
		if _, err := ParseMethod(payload[:n]); err == nil || strings.Contains(err.Error(), password) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}
