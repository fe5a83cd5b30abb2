package frame

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/quick"
)

// golden reads testdata/rabbitmq.golden, whose head explains it.
func golden(t testing.TB, each func(name, variant string, payload []byte)) {
	t.Helper()
	f, err := os.Open("testdata/rabbitmq.golden")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || fields[0] == "#" {
			continue
		}
		payload, err := hex.DecodeString(fields[2])
		if err != nil {
			t.Fatalf("%s: %v", fields[0], err)
		}
		each(fields[0], fields[1], payload)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// named fills the method with the values that the golden file's head describes.
func named(m Method, bit string) {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		name := strings.ToLower(v.Type().Field(i).Name)
		if after, ok := strings.CutPrefix(name, "failed"); ok {
			name = after + "id"
		}
		var sum uint64
		for _, o := range []byte(name) {
			sum += uint64(o)
		}
		switch f := v.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(name == bit)
		case reflect.Uint8:
			f.SetUint(sum % 256)
		case reflect.Uint16:
			f.SetUint(sum)
		case reflect.Uint32:
			f.SetUint(sum * 65537 % (1 << 32))
		case reflect.Uint64:
			f.SetUint(sum * (1<<40 + 1))
		case reflect.String:
			f.SetString(name)
		case reflect.Slice:
			f.Set(reflect.ValueOf(Table{{name, name}}))
		default:
			panic("no golden value for a field of type " + f.Type().String())
		}
	}
}

func TestMethodsAreThoseOfRabbitMQ(t *testing.T) {
	seen := map[string]map[string]bool{}
	golden(t, func(name, bit string, payload []byte) {
		if !strings.Contains(name, ".") {
			return
		}
		want := NewMethod(name)
		if want == nil {
			t.Errorf("%s: no such method", name)
			return
		}
		named(want, bit)
		got, err := ParseMethod(payload)
		if err != nil {
			t.Errorf("%s %s: %v", name, bit, err)
			return
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s %s: parsed %+v, want %+v", name, bit, got, want)
		}
		again, err := AppendMethod([]byte("before"), want)
		if err != nil || !bytes.Equal(again, append([]byte("before"), payload...)) {
			t.Errorf("%s %s: appended %x, %v, want %x", name, bit, again, err, payload)
		}
		if seen[name] == nil {
			seen[name] = map[string]bool{}
		}
		seen[name][bit] = true
	})
	for _, name := range Methods() {
		// Every bit must have had a line of its own: a bit that the golden file never sets proves nothing.
		want := 1
		v := reflect.ValueOf(NewMethod(name)).Elem()
		for i := range v.NumField() {
			if v.Field(i).Kind() == reflect.Bool {
				want++
			}
		}
		if len(seen[name]) != want {
			t.Errorf("%s: %d golden lines, want %d: %v", name, len(seen[name]), want, seen[name])
		}
	}
	if got, want := len(Methods()), len(seen); got != want {
		t.Errorf("Methods lists %d, RabbitMQ has %d", got, want)
	}
}

// Written by hand from the grammar of AMQP 0-9-1, 4.2, and the method definitions.
func TestMethodsByHand(t *testing.T) {
	for _, c := range []struct {
		bytes string
		want  Method
	}{
		{"\x00\x3c\x00\x50" + "\x00\x00\x00\x00\x00\x00\x00\x07" + "\x01", &BasicAck{DeliveryTag: 7, Multiple: true}},
		{
			"\x00\x3c\x00\x78" + "\xff\xff\xff\xff\xff\xff\xff\xff" + "\x02",
			&BasicNack{DeliveryTag: 1<<64 - 1, Requeue: true},
		},
		{
			"\x00\x3c\x00\x28" + "\x00\x00" + "\x06orders" + "\x00" + "\x01",
			&BasicPublish{Exchange: "orders", Mandatory: true},
		},
		{
			"\x00\x3c\x00\x3c" + "\x03c-1" + "\x00\x00\x00\x00\x00\x00\x01\x00" + "\x01" + "\x00" + "\x04jobs",
			&BasicDeliver{ConsumerTag: "c-1", DeliveryTag: 256, Redelivered: true, RoutingKey: "jobs"},
		},
		{
			"\x00\x32\x00\x0a" + "\x00\x00" + "\x01q" + "\x12" + "\x00\x00\x00\x13" + "\x0dx-message-ttlI\x00\x00\x00\x64",
			&QueueDeclare{Queue: "q", Durable: true, NoWait: true, Arguments: Table{{"x-message-ttl", int32(100)}}},
		},
		{"\x00\x0a\x00\x28" + "\x01/" + "\x00" + "\x00", &ConnectionOpen{VirtualHost: "/"}},
		{"\x00\x14\x00\x0b" + "\x00\x00\x00\x00", &ChannelOpenOk{}},
		{"\x00\x28\x00\x33", &ExchangeUnbindOk{}},
		{"\x00\x55\x00\x0a\x00", &ConfirmSelect{}},
	} {
		got, err := ParseMethod([]byte(c.bytes))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: parsed %+v, %v, want %+v", c.want.Name(), got, err, c.want)
		}
		appended, err := AppendMethod(nil, c.want)
		if err != nil || string(appended) != c.bytes {
			t.Errorf("%s: appended %q, %v, want %q", c.want.Name(), appended, err, c.bytes)
		}
	}
}

func TestMethodNamesAreTheirs(t *testing.T) {
	names := Methods()
	if len(names) != len(byID) {
		t.Errorf("%d names for %d pairs of ids", len(names), len(byID))
	}
	ids := make([]uint32, 0, len(names))
	for _, name := range names {
		m := NewMethod(name)
		ids = append(ids, uint32(m.ClassID())<<16|uint32(m.MethodID()))
		kebab := strings.ReplaceAll(strings.ReplaceAll(name, ".", "-"), "-", "")
		if got := strings.ToLower(reflect.TypeOf(m).Elem().Name()); got != kebab {
			t.Errorf("%s is the type %s", name, got)
		}
	}
	if !slices.IsSorted(ids) {
		t.Errorf("not by class and method id: %v", names)
	}
	if NewMethod("basic.shrug") != nil {
		t.Error("a method of unknown name")
	}
	var with []string
	for _, name := range names {
		if HasContent(NewMethod(name)) {
			with = append(with, name)
		}
	}
	if got := strings.Join(with, " "); got != "basic.publish basic.return basic.deliver basic.get-ok" {
		t.Errorf("with content: %s", got)
	}
}

// Any values in all methods: Parse after Append gives them back.
func TestMethodsRoundTrip(t *testing.T) {
	for _, name := range Methods() {
		typ := reflect.TypeOf(NewMethod(name)).Elem()
		check := func(seed int64) bool {
			r := rand.New(rand.NewSource(seed))
			v := reflect.New(typ)
			for i := range typ.NumField() {
				v.Elem().Field(i).Set(anyField(r, typ.Field(i).Type))
			}
			m := v.Interface().(Method)
			payload, err := AppendMethod(nil, m)
			if err != nil {
				t.Log(err)
				return false
			}
			got, err := ParseMethod(payload)
			if err != nil {
				t.Log(err)
				return false
			}
			return reflect.DeepEqual(got, m)
		}
		if err := quick.Check(check, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func anyField(r *rand.Rand, typ reflect.Type) reflect.Value {
	if typ == reflect.TypeFor[Table]() {
		return reflect.ValueOf(anyTable(r, 3))
	}
	if typ.Kind() == reflect.String {
		return reflect.ValueOf(anyText(r, 255)).Convert(typ)
	}
	v, ok := quick.Value(typ, r)
	if !ok {
		panic("no value of type " + typ.String())
	}
	return v
}

func anyText(r *rand.Rand, longest int) string {
	b := make([]byte, r.Intn(longest+1))
	for i := range b {
		b[i] = byte(r.Intn(256))
	}
	return string(b)
}

func anyTable(r *rand.Rand, depth int) Table {
	var t Table
	for range r.Intn(5) {
		t = append(t, Pair{anyText(r, 20), anyValue(r, depth)})
	}
	return t
}

func anyValue(r *rand.Rand, depth int) any {
	kinds := 17
	if depth == 0 {
		kinds -= 2
	}
	switch r.Intn(kinds) {
	case 0:
		return nil
	case 1:
		return r.Intn(2) == 0
	case 2:
		return int8(r.Uint64())
	case 3:
		return uint8(r.Uint64())
	case 4:
		return int16(r.Uint64())
	case 5:
		return uint16(r.Uint64())
	case 6:
		return int32(r.Uint64())
	case 7:
		return uint32(r.Uint64())
	case 8:
		return int64(r.Uint64())
	case 9:
		return r.Uint64()
	case 10:
		return float32(r.NormFloat64())
	case 11:
		return r.NormFloat64()
	case 12:
		return Timestamp(r.Uint64())
	case 13:
		return Decimal{Scale: uint8(r.Uint64()), Value: r.Uint32()}
	case 14:
		if text := anyText(r, 300); text != "" && r.Intn(2) == 0 {
			return Bytes(text)
		} else {
			return text
		}
	case 15:
		return anyTable(r, depth-1)
	default:
		var a Array
		for range r.Intn(5) {
			a = append(a, anyValue(r, depth-1))
		}
		return a
	}
}

func TestParseMethodRefuses(t *testing.T) {
	huge := "\xff\xff\xff\xff"
	for _, c := range []struct {
		name, bytes string
		want        error
		text        string
	}{
		{"nothing", "", ErrTruncated, ""},
		{"half the ids", "\x00\x3c\x00", ErrTruncated, ""},
		{"no fields", "\x00\x3c\x00\x50", ErrTruncated, "basic.ack: byte 4"},
		{"half a field", "\x00\x3c\x00\x50\x00\x00", ErrTruncated, "8 bytes where 2 are left"},
		{"no bits", "\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00\x01", ErrTruncated, "byte 12"},
		{"trailing", "\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00", ErrTrailing, "1 of them"},
		{"trailing without fields", "\x00\x0a\x00\x33\x00", ErrTrailing, "connection.close-ok"},
		{"long short string", "\x00\x3c\x00\x28\x00\x00\xffex", ErrTruncated, "255 bytes where 2"},
		{"huge long string", "\x00\x0a\x00\x14" + huge, ErrTruncated, "4294967295 bytes where 0"},
		{"huge secret", "\x00\x0a\x00\x15" + huge + "abc", ErrTruncated, "4294967295 bytes where 3"},
		{"huge table", "\x00\x32\x00\x32\x00\x00\x00\x00\x00" + huge, ErrTruncated, "table of 4294967295"},
		{"key without type", "\x00\x32\x00\x32\x00\x00\x00\x00\x00\x00\x00\x00\x02\x01k", ErrTruncated, ""},
		{"unknown type", "\x00\x32\x00\x32\x00\x00\x00\x00\x00\x00\x00\x00\x03\x01kU", ErrFieldType, "'U'"},
		{"value beyond its table", "\x00\x32\x00\x32\x00\x00\x00\x00\x00\x00\x00\x00\x03\x01kI\x00\x00\x00\x00", ErrTruncated, ""},
		{"huge array", "\x00\x32\x00\x32\x00\x00\x00\x00\x00\x00\x00\x00\x07\x01kA" + huge, ErrTruncated, ""},
		{"huge string in a table", "\x00\x32\x00\x32\x00\x00\x00\x00\x00\x00\x00\x00\x07\x01kS" + huge, ErrTruncated, ""},
		{"huge bytes in a table", "\x00\x32\x00\x32\x00\x00\x00\x00\x00\x00\x00\x00\x07\x01kx" + huge, ErrTruncated, ""},
		{
			"array beyond its table",
			"\x00\x32\x00\x32\x00\x00\x00\x00\x00\x00\x00\x00\x07\x01kA\x00\x00\x00\x01t", ErrTruncated, "",
		},
	} {
		m, err := ParseMethod([]byte(c.bytes))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) || m != nil {
			t.Errorf("%s: %v, %v, want %v with %q", c.name, m, err, c.want, c.text)
		}
	}
	for _, bytes := range []string{"\x00\x3c\x00\x29", "\x00\x3d\x00\x0a\x00", "\x00\x00\x00\x00", "\xff\xff\xff\xff"} {
		_, err := ParseMethod([]byte(bytes))
		var unknown *UnknownMethodError
		if !errors.As(err, &unknown) || unknown.Class != uint16(bytes[0])<<8|uint16(bytes[1]) {
			t.Errorf("%x: %v", bytes, err)
		}
	}
	_, err := ParseMethod([]byte("\x00\x3c\x00\x29"))
	if got := fmt.Sprint(err); got != "unknown method 41 of class 60" {
		t.Error(got)
	}
}

// Every cut of every golden payload is an error, and so is an octet more.
func TestParseMethodAtEveryLength(t *testing.T) {
	golden(t, func(name, _ string, payload []byte) {
		if !strings.Contains(name, ".") {
			return
		}
		for n := range payload {
			if m, err := ParseMethod(payload[:n]); err == nil || m != nil {
				t.Errorf("%s, %d of %d bytes: %v, %v", name, n, len(payload), m, err)
			}
		}
		if _, err := ParseMethod(append(payload, 0)); !errors.Is(err, ErrTrailing) {
			t.Errorf("%s and a byte: %v", name, err)
		}
	})
}

func TestAppendMethodRefuses(t *testing.T) {
	long := strings.Repeat("x", 256)
	deep := Table{}
	for range MaxDepth {
		deep = Table{{"k", deep}}
	}
	for name, c := range map[string]struct {
		method Method
		want   error
	}{
		"exchange":      {&BasicPublish{Exchange: long}, ErrUnencodable},
		"key":           {&QueueDeclare{Arguments: Table{{long, nil}}}, ErrUnencodable},
		"int":           {&QueueDeclare{Arguments: Table{{"x-message-ttl", 100}}}, ErrUnencodable},
		"plain bytes":   {&QueueDeclare{Arguments: Table{{"k", []byte("b")}}}, ErrUnencodable},
		"in an array":   {&QueueDeclare{Arguments: Table{{"k", Array{struct{}{}}}}}, ErrUnencodable},
		"nested deeply": {&QueueDeclare{Arguments: deep}, ErrTooDeep},
	} {
		got, err := AppendMethod([]byte("before"), c.method)
		if !errors.Is(err, c.want) || string(got) != "before" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		got, err = AppendMethodFrame([]byte("before"), 1, c.method)
		if !errors.Is(err, c.want) || string(got) != "before" {
			t.Errorf("%s in a frame: %q, %v", name, got, err)
		}
	}
	_, err := AppendMethod(nil, &QueueDeclare{Arguments: Table{{"x-message-ttl", 100}}})
	if got := fmt.Sprint(err); !strings.Contains(got, "queue.declare") ||
		!strings.Contains(got, `"x-message-ttl"`) || !strings.Contains(got, "int") {
		t.Errorf("the error does not say where: %s", got)
	}
}

// What ParseMethod returns must not change with the payload's memory.
func TestParsedMethodHasMemoryOfItsOwn(t *testing.T) {
	for _, size := range []int{10, 5000} {
		m := &ConnectionStartOk{
			ClientProperties: Table{{"k", Bytes(strings.Repeat("a", size))}, {"s", strings.Repeat("b", size)}},
			Mechanism:        "PLAIN",
			Response:         "\x00guest\x00guest",
		}
		payload, err := AppendMethod(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseMethod(payload)
		if err != nil {
			t.Fatal(err)
		}
		clear(payload)
		if !reflect.DeepEqual(got, m) {
			t.Errorf("with %d bytes: changed with the payload", size)
		}
	}
}

// One allocation for the method, and one for all its strings, unless the payload is so large that keeping one string
// should not keep all of it.
func TestParseMethodAllocations(t *testing.T) {
	for name, c := range map[string]struct {
		method Method
		want   float64
	}{
		"no strings": {&BasicAck{DeliveryTag: 1}, 1},
		"strings":    {&BasicDeliver{ConsumerTag: "tag", Exchange: "orders", RoutingKey: "created"}, 2},
		"large": {
			&ConnectionStart{Mechanisms: strings.Repeat("m", shareText), Locales: strings.Repeat("l", shareText)},
			3,
		},
	} {
		payload, err := AppendMethod(nil, c.method)
		if err != nil {
			t.Fatal(err)
		}
		n := testing.AllocsPerRun(100, func() { _, _ = ParseMethod(payload) })
		// The race detector has sync.Pool drop some of what it is given.
		if n < c.want || n > c.want+1 {
			t.Errorf("%s: %v allocations, want %v", name, n, c.want)
		}
	}
}
