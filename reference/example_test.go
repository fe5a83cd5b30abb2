package reference_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/reference"
)

type order struct {
	ID    string
	Total *float64
}

func charge(context.Context, order) error { return nil }

// A service that consumes until it is interrupted, and lets what runs finish.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	client, err := reference.Open(ctx, reference.Options{
		URLs:   []string{"amqp://user:password@rabbit-1", "amqp://user:password@rabbit-2"},
		Logger: slog.Default(),
	})
	if err != nil {
		slog.Error("connect", "error", err)
		return
	}

	// The queue "orders..billing", bound to the exchange "orders".
	_, err = client.Consume(ctx, reference.Bound("orders", "fanout", "billing"), func(ctx context.Context, d reference.Delivery) error {
		var o order
		if err := json.Unmarshal(d.Body, &o); err != nil {
			return reference.Park(fmt.Errorf("decode the order: %w", err)) // it will never be better
		}
		return charge(ctx, o) // any other error: again later
	})
	if err != nil {
		slog.Error("consume", "error", err)
		return
	}

	<-ctx.Done()
	finish, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := client.Close(finish); err != nil {
		slog.Warn("some messages were left to the broker", "error", err)
	}
}

// A verdict may be given anywhere below the handler.
func ExamplePark() {
	validate := func(o order) error {
		if o.Total == nil {
			return reference.Park(errors.New("no total"))
		}
		return nil
	}
	err := fmt.Errorf("order %s: %w", "o-17", validate(order{ID: "o-17"}))
	fmt.Println(err)
	// Output: order o-17: no total
}

// Requests are answered with what the handler returns.
func ExampleClient_Reply() {
	serve := func(ctx context.Context, client *reference.Client) (*reference.Consumer, error) {
		return client.Reply(ctx, reference.Queue("squares"), func(_ context.Context, d reference.Delivery) (reference.Reply, error) {
			n, err := strconv.Atoi(string(d.Body))
			if err != nil {
				return reference.Reply{}, err
			}
			return reference.Reply{Body: []byte(strconv.Itoa(n * n)), ContentType: "text/plain"}, nil
		}, reference.WithLadder(time.Second, 3*time.Second)) // a caller waits: give up sooner
	}
	_ = serve
}

// Names and headers as comq has them, retries on quorum queues that dead-letter at least once, and a count of
// what is parked.
func ExampleOptions() {
	options := reference.Options{
		URLs:         []string{"amqp://localhost"},
		HeaderPrefix: "x-comq-",
		Names: reference.Names{
			Retry: func(delay time.Duration) string {
				return "comq.retry." + strconv.FormatInt(delay.Milliseconds(), 10)
			},
			Parked: func(queue string) string { return "comq.parked." + queue },
		},
		RetryArguments: amqp.Table{
			"x-queue-type":           "quorum",
			"x-dead-letter-strategy": "at-least-once",
			"x-overflow":             "reject-publish",
		},
		OnDiagnostic: func(d reference.Diagnostic) {
			if d.Kind == reference.KindPark {
				slog.Error("parked", "queue", d.Queue, "attempt", d.Attempt, "error", d.Err)
			}
		},
	}
	fmt.Println(options.Names.Parked("orders..billing"))
	// Output: comq.parked.orders..billing
}
