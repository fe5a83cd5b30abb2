package kit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/parkproof/parkproof/adapters/kit"
	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

// adapter puts the library mq behind the protocol. Its main function is kit.Main(&adapter{}).
type adapter struct {
	session *kit.Session
	client  *mq
}

func (a *adapter) Init(_ context.Context, session *kit.Session, settings kit.Settings) (protocol.Ready, error) {
	a.session, a.client = session, dial(settings.URLs[0])
	return protocol.Ready{
		Name: "mq", Version: "1.4.0",
		Supports:    []string{protocol.CanRetry, protocol.CanPark, protocol.CanVerdicts, protocol.CanConcurrent + ":10"},
		Attempts:    4,
		DelaysMS:    []int64{100, 200, 300},
		Conventions: protocol.Conventions{AttemptHeader: "x-attempt", ParkedQueue: "{queue}.parked"},
	}, nil
}

func (a *adapter) Consume(_ context.Context, sub kit.Subscription) (string, error) {
	if sub.Exclusive {
		return "", kit.Unsupported("mq has no exclusive queues")
	}
	return sub.Queue, a.client.subscribe(sub.Queue, func(ctx context.Context, m message) error {
		v := a.session.Handle(ctx, kit.Delivery{
			Consumer: sub.Consumer, Message: m.id, Attempt: m.attempt, Headers: m.headers, Body: m.body,
		})
		return v.Outcome(nil, func(err error) error { return errPark{err} })
	})
}

func (a *adapter) Stop(context.Context, string) error       { return a.client.close(true) }
func (a *adapter) Close(_ context.Context, wait bool) error { return a.client.close(wait) }

func Example() {
	parkproof, in, out := pipes()
	a, done := &adapter{}, make(chan error, 1)
	go func() { done <- kit.Run(context.Background(), a, in, out, kit.Options{}) }()

	parkproof.ask(`{"id":1,"do":"init","protocol":1,"urls":["amqp://127.0.0.1"]}`)
	parkproof.ask(`{"id":2,"do":"consume","consumer":"billing","queue":"orders","exclusive":true}`)
	parkproof.ask(`{"id":3,"do":"consume","consumer":"billing","queue":"orders"}`)
	a.client.publish <- message{id: "m1", attempt: 1, body: []byte("hi")}
	parkproof.show() // the delivery
	parkproof.tell(`{"do":"settle","n":1,"verdict":"park","reason":"poison"}`)
	parkproof.ask(`{"id":4,"do":"close","finish":true}`)
	_ = parkproof.in.Close()
	fmt.Println("ended:", <-done)
	// Output:
	// {"re":1,"ok":{"name":"mq","version":"1.4.0","supports":["retry","park","verdicts","concurrent:10"],"attempts":4,"delays_ms":[100,200,300],"conventions":{"attempt_header":"x-attempt","parked_queue":"{queue}.parked"}}}
	// {"re":2,"unsupported":"mq has no exclusive queues"}
	// {"re":3,"ok":{"queue":"orders"}}
	// {"event":"delivery","n":1,"consumer":"billing","message":"m1","attempt":1,"body":"aGk="}
	// mq: parked m1: poison
	// {"re":4,"ok":{}}
	// ended: <nil>
}

// mq stands for a consumer library. Its broker has one message, which comes when it is published.
type mq struct {
	publish  chan message
	handlers sync.WaitGroup
}

type message struct {
	id      string
	attempt int
	headers map[string]any
	body    []byte
}

// errPark is the library's verdict that a message is to be parked.
type errPark struct{ error }

func dial(string) *mq { return &mq{publish: make(chan message)} }

func (c *mq) subscribe(_ string, handler func(context.Context, message) error) error {
	c.handlers.Go(func() {
		m := <-c.publish
		if park, ok := errors.AsType[errPark](handler(context.Background(), m)); ok {
			fmt.Println("mq: parked", m.id+":", park.error)
		}
	})
	return nil
}

func (c *mq) close(wait bool) error {
	if wait {
		c.handlers.Wait()
	}
	return nil
}

// peer is parkproof's end: it prints what the adapter says.
type peer struct {
	in    *io.PipeWriter
	lines *bufio.Reader
}

func pipes() (peer, *io.PipeReader, *io.PipeWriter) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	return peer{inW, bufio.NewReader(outR)}, inR, outW
}

func (p peer) tell(request string) { _, _ = io.WriteString(p.in, request+"\n") }

func (p peer) show() {
	line, _ := p.lines.ReadString('\n')
	fmt.Print(line)
}

func (p peer) ask(request string) {
	p.tell(request)
	p.show()
}
