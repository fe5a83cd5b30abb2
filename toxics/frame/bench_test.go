package frame

import (
	"testing"
)

// piece is how much is fed at a time: what a proxy's copy reads from a socket at once, in bytes.
const piece = 32 << 10

// BenchmarkMethods reads basic.ack, basic.publish and basic.deliver frames in turn.
func BenchmarkMethods(b *testing.B) {
	var stream []byte
	frames := 0
	for i := range 3000 {
		var m Method
		switch i % 3 {
		case 0:
			m = &BasicAck{DeliveryTag: uint64(i)}
		case 1:
			m = &BasicPublish{Exchange: "orders", RoutingKey: "orders.created", Mandatory: true}
		default:
			m = &BasicDeliver{ConsumerTag: "ctag-1234567890", DeliveryTag: uint64(i), Exchange: "orders", RoutingKey: "orders.created"}
		}
		var err error
		if stream, err = AppendMethodFrame(stream, 1, m); err != nil {
			b.Fatal(err)
		}
		frames++
	}
	r := NewReader(DefaultMaxFrame)
	read := 0
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		for rest := stream; len(rest) > 0; {
			n := min(piece, len(rest))
			r.Feed(rest[:n])
			rest = rest[n:]
			for {
				f, ok, err := r.Next()
				if err != nil {
					b.Fatal(err)
				}
				if !ok {
					break
				}
				if _, err := ParseMethod(f.Payload); err != nil {
					b.Fatal(err)
				}
				read++
			}
		}
	}
	if read != frames*b.N {
		b.Fatalf("%d frames", read)
	}
	b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "frames/s")
}

// BenchmarkBodies reads and assembles whole contents whose bodies take several frames: kept, and above the bound.
func BenchmarkBodies(b *testing.B) {
	body := make([]byte, 1<<20)
	stream, err := AppendContent(nil, 1, &BasicPublish{Exchange: "orders"}, Header{}, body, DefaultMaxFrame)
	if err != nil {
		b.Fatal(err)
	}
	for name, bound := range map[string]int{"kept": len(body), "digest": 0} {
		b.Run(name, func(b *testing.B) {
			r, a := NewReader(DefaultMaxFrame), NewAssembler(bound)
			done := 0
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				for rest := stream; len(rest) > 0; {
					n := min(piece, len(rest))
					r.Feed(rest[:n])
					rest = rest[n:]
					for {
						f, ok, err := r.Next()
						if err != nil {
							b.Fatal(err)
						}
						if !ok {
							break
						}
						p, err := a.Add(f)
						if err != nil {
							b.Fatal(err)
						}
						if p.Done {
							done++
						}
					}
				}
			}
			if done != b.N {
				b.Fatalf("%d contents", done)
			}
		})
	}
}

// BenchmarkHeader reads the header of a message that was retried and dead-lettered.
func BenchmarkHeader(b *testing.B) {
	payload, err := AppendHeader(nil, Header{Class: ClassBasic, BodySize: 100, Properties: Properties{
		ContentType: "application/json", DeliveryMode: Persistent, MessageID: "7f0b9f62-0d9c-4f3e-8f35-3f5d9c0b1a2e",
		Headers: Table{
			{"x-attempt", int32(2)},
			{"x-death", Array{Table{
				{"count", int64(1)},
				{"exchange", "orders"},
				{"queue", "orders.billing"},
				{"reason", "expired"},
				{"routing-keys", Array{"orders.created"}},
				{"time", Timestamp(1700000000)},
			}}},
		},
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseHeader(payload); err != nil {
			b.Fatal(err)
		}
	}
}
