//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics"
)

const (
	tapAtLeast = 0.9 // of the rate through toxiproxy without the tap
	// wireMessages makes a round last about a second: long against setting up, short enough for turns.
	wireMessages = 20000
	wirePrefetch = 300
	wireBody     = 256 // bytes
	// fillWindow is how many messages are published before their confirms are awaited.
	fillWindow = 1000
)

// wire compares what a consumer gets through toxiproxy with the tap and without it. The consumer is a process
// of its own, as in a case, on a real broker; no confirm is delayed.
func wire(ctx context.Context, b *bench) ([]row, error) {
	running, err := b.running(ctx)
	if err != nil {
		return nil, err
	}
	rates := map[bool][]float64{}
	var ratios []float64 // of the two sides of one round, which the same load was on
	for round := range b.wire {
		order := []bool{true, false}
		if round%2 == 1 {
			order = []bool{false, true}
		}
		for _, tapped := range order {
			took, err := throughWire(ctx, running.URL(running.DefaultVhost()), running.Addr(), tapped)
			if err != nil {
				return nil, errors.New(running.Hide(err.Error()))
			}
			rates[tapped] = append(rates[tapped], wireMessages/took.Seconds())
		}
		ratios = append(ratios, rates[true][round]/rates[false][round])
	}
	return []row{{
		what: fmt.Sprintf("consumer through the wire, prefetch %d", wirePrefetch), measured: fmt.Sprintf("%.0f/s", median(rates[true])),
		beside: fmt.Sprintf("%.0f/s without the tap", median(rates[false])), figure: median(ratios), least: tapAtLeast,
	}}, nil
}

// throughWire is how long a consumer takes for wireMessages messages.
func throughWire(ctx context.Context, url, addr string, tapped bool) (took time.Duration, err error) {
	connection, err := amqp.Dial(url)
	if err != nil {
		return 0, fmt.Errorf("connect: %w", err)
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return 0, fmt.Errorf("open a channel: %w", err)
	}
	queue, err := fill(channel)
	if err != nil {
		return 0, fmt.Errorf("fill a queue: %w", err)
	}
	options := toxics.Options{
		Upstream: addr, Process: "consumer",
		Identify: func(c *ledger.Content) string { return c.Properties.MessageID },
	}
	if tapped {
		options.Ledger = ledger.New()
	}
	through, err := toxics.Listen(ctx, options)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, through.Close()) }()
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this program: %w", err)
	}
	text, err := output(ctx, []string{urlVariable + "=" + strings.Replace(url, "@"+addr, "@"+through.Addr(), 1)}, self, consumeCommand, queue)
	if err != nil {
		return 0, err
	}
	if options.Ledger != nil {
		if err := sawAll(options.Ledger.Events()); err != nil {
			return 0, err
		}
	}
	if _, err := channel.QueueDelete(queue, false, false, false); err != nil {
		return 0, fmt.Errorf("delete the queue: %w", err)
	}
	nanoseconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("what the consumer says it took: %w", err)
	}
	return time.Duration(nanoseconds), nil
}

// fill makes a queue of wireMessages messages, and returns its name.
func fill(channel *amqp.Channel) (string, error) {
	queue, err := channel.QueueDeclare("", true, false, false, false, nil)
	if err != nil {
		return "", err
	}
	if err := channel.Confirm(false); err != nil {
		return "", err
	}
	body := make([]byte, wireBody)
	for n := 1; n <= wireMessages; n++ {
		confirm, err := channel.PublishWithDeferredConfirm("", queue.Name, false, false, amqp.Publishing{
			MessageId: "m" + strconv.Itoa(n), ContentType: "application/octet-stream", Body: body,
		})
		if err != nil {
			return "", err
		}
		if (n%fillWindow == 0 || n == wireMessages) && !confirm.Wait() {
			return "", errors.New("the broker refused a message")
		}
	}
	return queue.Name, nil
}

// sawAll checks that the tap was there.
func sawAll(events []ledger.Event) error {
	delivered, acked := 0, 0
	for _, e := range events {
		switch e.Kind {
		case ledger.Delivered:
			delivered++
		case ledger.Acked:
			acked += len(e.Covers)
		}
	}
	if delivered != wireMessages || acked != wireMessages {
		return fmt.Errorf("the tap saw %d deliveries and %d acks of %d messages", delivered, acked, wireMessages)
	}
	return nil
}

const (
	// consumeCommand makes this program the consumer: QUEUE follows.
	consumeCommand = "consume"
	// urlVariable holds the broker's URL; an argument would show its password to all.
	urlVariable = "PARKPROOF_BENCH_AMQP"
)

// consume acks wireMessages messages of a queue, and prints how long that took in nanoseconds: from
// subscribing until the broker has taken the last ack.
func consume(args []string) error {
	if len(args) != 1 {
		return errors.New("consume QUEUE")
	}
	connection, err := amqp.Dial(os.Getenv(urlVariable))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	if err := channel.Qos(wirePrefetch, 0, false); err != nil {
		return fmt.Errorf("set the prefetch: %w", err)
	}
	began := time.Now()
	deliveries, err := channel.Consume(args[0], "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	for n := range wireMessages {
		delivery, ok := <-deliveries
		if !ok {
			return fmt.Errorf("the deliveries ended after %d", n)
		}
		if err := delivery.Ack(false); err != nil {
			return fmt.Errorf("ack: %w", err)
		}
	}
	if err := channel.Close(); err != nil { // answered once the broker has taken the acks
		return fmt.Errorf("close the channel: %w", err)
	}
	fmt.Println(time.Since(began).Nanoseconds())
	return nil
}
