package reference_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/reference"
)

const (
	benchPrefetch = 300 // the library's default
	// benchMessages makes a round last about a second: long against setting up, short enough to interleave.
	benchMessages = 20000
)

// BenchmarkHandled and BenchmarkFailed compare the library with a bare loop on amqp091-go that does the same.
// One iteration is one round of each side, in alternating order, since what else the machine does changes
// from one second to the next. The medians of all rounds are reported; the ratio is that of the two sides of
// one round. Run
//
//	PARKPROOF_TEST_AMQP=amqp://... go test -run '^$' -bench . -benchtime 9x ./reference
func BenchmarkHandled(b *testing.B) {
	compare(b, side{"reference", handledByReference}, side{"bare", handledByLoop})
}

func BenchmarkFailed(b *testing.B) {
	compare(b, side{"reference", failedByReference}, side{"bare", failedByLoop})
}

type side struct {
	name string
	// run consumes benchMessages messages from the queue, and returns how long that took, from subscribing
	// until the broker has taken what became of them.
	run func(b *testing.B, url, queue string) time.Duration
}

func compare(b *testing.B, ours, bare side) {
	broker, err := shared()
	if err != nil {
		b.Fatal(err)
	}
	url := broker.URL(broker.DefaultVhost())
	rates := map[string][]float64{}
	var ratios []float64
	for round := range b.N {
		order := []side{ours, bare}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range order {
			queue := fmt.Sprintf("bench-%s-%d", s.name, time.Now().UnixNano())
			fill(b, url, queue)
			rates[s.name] = append(rates[s.name], benchMessages/s.run(b, url, queue).Seconds())
			drop(b, url, queue, "parked."+queue)
		}
		ratios = append(ratios, rates[ours.name][round]/rates[bare.name][round])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(rates[ours.name]), "reference-msgs/s")
	b.ReportMetric(median(rates[bare.name]), "bare-msgs/s")
	b.ReportMetric(median(ratios), "ratio")
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func dial(b *testing.B, url string) (*amqp.Connection, *amqp.Channel) {
	b.Helper()
	conn, err := amqp.Dial(url)
	check(b, err)
	ch, err := conn.Channel()
	check(b, err)
	return conn, ch
}

// fill makes a queue of benchMessages messages.
func fill(b *testing.B, url, queue string) {
	b.Helper()
	conn, ch := dial(b, url)
	defer conn.Close()
	_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
	check(b, err)
	check(b, ch.Confirm(false))
	body := make([]byte, 256)
	var last *amqp.DeferredConfirmation
	for n := range benchMessages {
		if n%1000 == 999 {
			last.Wait() // amqp091-go walks all that is unconfirmed at each confirm
		}
		last, err = ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Body: body, ContentType: "application/octet-stream"})
		check(b, err)
	}
	last.Wait()
	for {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		check(b, err)
		if q.Messages == benchMessages {
			return
		}
	}
}

func drop(b *testing.B, url string, queues ...string) {
	b.Helper()
	conn, ch := dial(b, url)
	defer conn.Close()
	for _, queue := range queues {
		_, err := ch.QueueDelete(queue, false, false, false)
		check(b, err)
	}
}

func byReference(b *testing.B, url, queue string, outcome error) time.Duration {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := reference.Open(ctx, reference.Options{URLs: []string{url}, Prefetch: benchPrefetch})
	check(b, err)
	var handled atomic.Int64
	done := make(chan struct{})
	begin := time.Now()
	consumer, err := client.Consume(ctx, reference.Queue(queue), func(context.Context, reference.Delivery) error {
		if handled.Add(1) == benchMessages {
			close(done)
		}
		return outcome
	}, reference.WithLadder())
	check(b, err)
	<-done
	check(b, consumer.Stop(ctx))
	took := time.Since(begin)
	check(b, client.Close(ctx))
	return took
}

func handledByReference(b *testing.B, url, queue string) time.Duration {
	return byReference(b, url, queue, nil)
}

func failedByReference(b *testing.B, url, queue string) time.Duration {
	return byReference(b, url, queue, errors.New("no luck"))
}

func handledByLoop(b *testing.B, url, queue string) time.Duration {
	conn, ch := dial(b, url)
	defer conn.Close()
	check(b, ch.Qos(benchPrefetch, 0, false))
	begin := time.Now()
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	check(b, err)
	for range benchMessages {
		d := <-deliveries
		check(b, d.Ack(false))
	}
	check(b, ch.Close()) // answered once the broker has taken the acks
	return time.Since(begin)
}

// failedByLoop publishes a copy with the same headers, waits for its confirm and acks, for a prefetch's worth
// of messages at a time, and like the library on two connections.
func failedByLoop(b *testing.B, url, queue string) time.Duration {
	conn, ch := dial(b, url)
	defer conn.Close()
	out, copies := dial(b, url)
	defer out.Close()
	parked := "parked." + queue
	_, err := ch.QueueDeclare(parked, true, false, false, false, nil)
	check(b, err)
	check(b, copies.Confirm(false))
	check(b, ch.Qos(benchPrefetch, 0, false))
	begin := time.Now()
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	check(b, err)
	var acks sync.WaitGroup
	for range benchMessages {
		d := <-deliveries
		acks.Go(func() {
			confirm, err := copies.PublishWithDeferredConfirm("", parked, true, false, amqp.Publishing{
				Headers: amqp.Table{
					"x-attempt": int64(1), "x-exchange": d.Exchange, "x-key": d.RoutingKey,
					"x-queue": queue, "x-reason": "no luck", "x-at": time.Now().UnixMilli(),
				},
				ContentType:  d.ContentType,
				DeliveryMode: amqp.Persistent,
				Body:         d.Body,
			})
			if err != nil || !confirm.Wait() {
				b.Error("publish: ", err)
				return
			}
			if err := d.Ack(false); err != nil {
				b.Error(err)
			}
		})
	}
	acks.Wait()
	check(b, ch.Close())
	return time.Since(begin)
}
