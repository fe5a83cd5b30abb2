//go:build unix

package toxics

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics/frame"
)

// BenchmarkThroughWire is what a consumer gets through the wire, in messages: a broker that pushes
// deliveries of 1 KiB as far as the prefetch allows, and a client that acks each on its own, with
// and without the tap. Both ends do as little as can be, so that this is what the tap costs at most.
func BenchmarkThroughWire(b *testing.B) {
	for _, prefetch := range []int{1, 10, 250} {
		for _, tapped := range []bool{false, true} {
			name := "bare"
			if tapped {
				name = "tapped"
			}
			b.Run(fmt.Sprintf("prefetch=%d/%s", prefetch, name), func(b *testing.B) {
				r := newRig(b, withDelay(25*time.Millisecond), func(o *Options) {
					if !tapped {
						o.Ledger = nil
					}
				})
				client, broker := r.connect()
				for _, p := range []*peer{client, broker} {
					if err := p.SetDeadline(time.Time{}); err != nil {
						b.Fatal(err)
					}
				}
				client.say(1, &frame.ChannelOpen{}, &frame.BasicConsume{Queue: "q", ConsumerTag: "t"})
				broker.hears(&frame.ChannelOpen{}, &frame.BasicConsume{Queue: "q", ConsumerTag: "t"})
				body := make([]byte, 1<<10)
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				b.ResetTimer()
				used := processorTime(b)

				var all sync.WaitGroup
				all.Go(func() { push(b, broker, prefetch, b.N, body) })
				ackAll(b, client, b.N)
				all.Wait()
				b.ReportMetric(float64(processorTime(b)-used)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
				b.StopTimer()
				if tapped {
					checkBenchmark(b, r.ledger, b.N)
				}
			})
		}
	}
}

// BenchmarkClientThroughWire is the same with a real client library, which is what stands at the end
// of a wire in a case.
func BenchmarkClientThroughWire(b *testing.B) {
	for _, prefetch := range []int{1, 10, 250} {
		for _, tapped := range []bool{false, true} {
			name := "bare"
			if tapped {
				name = "tapped"
			}
			b.Run(fmt.Sprintf("prefetch=%d/%s", prefetch, name), func(b *testing.B) {
				r := newRig(b, withDelay(25*time.Millisecond), func(o *Options) {
					if !tapped {
						o.Ledger = nil
					}
				})
				ready, consumed := make(chan *peer, 1), make(chan struct{})
				var serving sync.WaitGroup
				serving.Go(func() { ready <- r.serve() })
				conn, err := amqp.Dial("amqp://guest:guest@" + r.Addr() + "/")
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = conn.CloseDeadline(time.Now().Add(100 * time.Millisecond)) }() // the broker does not answer
				ch, err := conn.Channel()
				if err != nil {
					b.Fatal(err)
				}
				deliveries, err := ch.Consume("q", "t", false, false, false, false, nil)
				if err != nil {
					b.Fatal(err)
				}
				broker := <-ready
				body := make([]byte, 1<<10)
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				b.ResetTimer()
				used := processorTime(b)

				serving.Go(func() { push(b, broker, prefetch, b.N, body) })
				go func() {
					defer close(consumed)
					for range b.N {
						d := <-deliveries
						if err := d.Ack(false); err != nil {
							b.Error(err)
						}
					}
				}()
				<-consumed
				serving.Wait()
				b.ReportMetric(float64(processorTime(b)-used)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
				b.StopTimer()
				if tapped {
					checkBenchmark(b, r.ledger, b.N)
				}
			})
		}
	}
}

// serve is the broker's part until a client consumes.
func (r *rig) serve() *peer {
	conn, err := r.broker.Accept()
	if err != nil {
		r.Error(err)
		return nil
	}
	r.Cleanup(func() { _ = conn.Close() })
	p := &peer{TB: r, Conn: conn, reader: frame.NewReader(0)}
	answers := map[string]frame.Method{
		"connection.start-ok": &frame.ConnectionTune{ChannelMax: 2047, FrameMax: frame.DefaultMaxFrame},
		"connection.open":     &frame.ConnectionOpenOk{},
		"channel.open":        &frame.ChannelOpenOk{},
		"basic.consume":       &frame.BasicConsumeOk{ConsumerTag: "t"},
	}
	for {
		f, err := p.next()
		if err != nil {
			r.Error(err)
			return nil
		}
		if f.Type == frame.TypeProtocol {
			p.say(0, &frame.ConnectionStart{VersionMinor: 9, Mechanisms: "PLAIN", Locales: "en_US"})
			continue
		}
		m, err := frame.ParseMethod(f.Payload)
		if err != nil {
			r.Error(err)
			return nil
		}
		if answer := answers[m.Name()]; answer != nil {
			p.say(f.Channel, answer)
		}
		if m.Name() == "basic.consume" {
			return p
		}
	}
}

// processorTime is what the process has used of the processors, client and broker included. It says
// more than the time on a clock where the machine has other work.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// push delivers n messages, with at most prefetch unacked, and takes the acks.
func push(b *testing.B, broker *peer, prefetch, n int, body []byte) {
	unacked := make(chan struct{}, prefetch)
	var acks sync.WaitGroup
	acks.Go(func() { each(b, broker.Conn, n, frame.TypeMethod, func() { <-unacked }) })
	w := bufio.NewWriterSize(broker.Conn, 64<<10)
	h := frame.Header{Properties: frame.Properties{MessageID: "m1", DeliveryMode: frame.Persistent}}
	var raw []byte
	for i := range n {
		select {
		case unacked <- struct{}{}:
		default: // before it waits, it sends what it has, as a broker does
			if err := w.Flush(); err != nil {
				b.Error(err)
				return
			}
			unacked <- struct{}{}
		}
		m := &frame.BasicDeliver{ConsumerTag: "t", DeliveryTag: uint64(i + 1), RoutingKey: "q"}
		var err error
		if raw, err = frame.AppendContent(raw[:0], 1, m, h, body, frame.DefaultMaxFrame); err != nil {
			b.Error(err)
			return
		}
		if _, err := w.Write(raw); err != nil {
			b.Error(err)
			return
		}
	}
	if err := w.Flush(); err != nil {
		b.Error(err)
	}
	acks.Wait()
}

// ackAll acks n messages as they come.
func ackAll(b *testing.B, client *peer, n int) {
	tag := uint64(0)
	var raw []byte
	each(b, client.Conn, n, frame.TypeBody, func() {
		tag++
		var err error
		if raw, err = frame.AppendMethodFrame(raw[:0], 1, &frame.BasicAck{DeliveryTag: tag}); err != nil {
			b.Error(err)
		}
		if _, err := client.Write(raw); err != nil {
			b.Error(err)
		}
	})
}

// each calls do for each of n frames of the type.
func each(b *testing.B, from net.Conn, n int, typ frame.Type, do func()) {
	r := frame.NewReader(0)
	buffer := make([]byte, 64<<10)
	for n > 0 {
		got, err := from.Read(buffer)
		if err != nil && err != io.EOF {
			b.Error(err)
			return
		}
		r.Feed(buffer[:got])
		for {
			f, ok, err := r.Next()
			if err != nil {
				b.Error(err)
				return
			}
			if !ok {
				break
			}
			if f.Type == typ {
				n--
				do()
			}
		}
	}
}

// checkBenchmark fails a benchmark whose tap did not see what passed.
func checkBenchmark(b *testing.B, l *ledger.Ledger, n int) {
	b.Helper()
	delivered, acked := 0, 0
	for _, e := range l.Events() {
		switch e.Kind {
		case ledger.Delivered:
			delivered++
		case ledger.Acked:
			acked += len(e.Covers)
		}
	}
	if delivered != n || acked != n {
		b.Fatalf("of %d messages, the ledger has %d delivered and %d acked", n, delivered, acked)
	}
}
