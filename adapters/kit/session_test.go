package kit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

// patience is how long a test waits for what must come.
const patience = 10 * time.Second

// fake is a library whose methods are what a test makes of them.
type fake struct {
	init    func(ctx context.Context, s *Session, settings Settings) (protocol.Ready, error)
	consume func(ctx context.Context, sub Subscription) (string, error)
	stop    func(ctx context.Context, consumer string) error
	close   func(ctx context.Context, finish bool) error
}

func (f *fake) Init(ctx context.Context, s *Session, settings Settings) (protocol.Ready, error) {
	return f.init(ctx, s, settings)
}

func (f *fake) Consume(ctx context.Context, sub Subscription) (string, error) {
	return f.consume(ctx, sub)
}
func (f *fake) Stop(ctx context.Context, consumer string) error { return f.stop(ctx, consumer) }
func (f *fake) Close(ctx context.Context, finish bool) error    { return f.close(ctx, finish) }

// encoding is a fake that also encodes.
type encoding struct{ fake }

func (*encoding) Encode(_ context.Context, message string, body json.RawMessage) (protocol.Encoded, error) {
	return protocol.Encoded{ContentType: "application/json", Headers: map[string]string{"id": message}, Body: body}, nil
}

// peer is parkproof's end of a session.
type peer struct {
	t     *testing.T
	in    *io.PipeWriter
	lines *bufio.Reader
	done  chan error
	log   *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// begin runs the library and returns the other end. The session it got in init is sent on sessions.
func begin(t *testing.T, lib Library) *peer {
	t.Helper()
	return beginWith(t, lib, Options{})
}

func beginWith(t *testing.T, lib Library, options Options) *peer {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &peer{t: t, in: inW, lines: bufio.NewReader(outR), done: make(chan error, 1), log: &syncBuffer{}}
	options.URL, options.Log = "amqp://127.0.0.1:1", p.log
	go func() { p.done <- Run(t.Context(), lib, inR, outW, options) }()
	t.Cleanup(func() {
		_ = inW.Close()
		_ = outR.Close()
	})
	return p
}

func (p *peer) ask(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatalf("asking %s: %v", line, err)
	}
}

func (p *peer) line() string {
	p.t.Helper()
	got := make(chan string, 1)
	go func() {
		line, _ := p.lines.ReadString('\n')
		got <- line
	}()
	select {
	case line := <-got:
		return strings.TrimSuffix(line, "\n")
	case <-time.After(patience):
		p.t.Fatal("no line came")
		return ""
	}
}

func (p *peer) want(want string) {
	p.t.Helper()
	if got := p.line(); got != want {
		p.t.Errorf("got  %s\nwant %s", got, want)
	}
}

func (p *peer) ended() error {
	p.t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(patience):
		p.t.Fatal("the session did not end")
		return nil
	}
}

func (p *peer) hangUp() {
	p.t.Helper()
	_ = p.in.Close()
	if err := p.ended(); err != nil {
		p.t.Errorf("the session ended with %v", err)
	}
}

// leakFree checks at the test's end, after the peer is gone, that no goroutine stays.
func leakFree(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
}

const initLine = `{"id":1,"do":"init","protocol":1,"case":"RTY-004","urls":["amqp://127.0.0.1:5"],"ladder_ms":[100,200],` +
	`"prefetch":10,"heartbeat_s":2,"prefix":"pp7"}`

func readyWith(sessions chan<- *Session, settings *Settings) *fake {
	return &fake{init: func(_ context.Context, s *Session, got Settings) (protocol.Ready, error) {
		if settings != nil {
			*settings = got
		}
		sessions <- s
		return protocol.Ready{Name: "fake"}, nil
	}}
}

// ready begins a session and answers its init.
func (p *peer) ready(sessions <-chan *Session) *Session {
	p.t.Helper()
	p.ask(initLine)
	p.want(`{"re":1,"ok":{"name":"fake","supports":[],"conventions":{}}}`)
	return <-sessions
}

func TestInitGivesTheSettings(t *testing.T) {
	leakFree(t)
	sessions := make(chan *Session, 1)
	var got Settings
	p := begin(t, readyWith(sessions, &got))
	p.ready(sessions)
	p.hangUp()
	want := Settings{
		Case: "RTY-004", URLs: []string{"amqp://127.0.0.1:5"}, Prefetch: 10, Prefix: "pp7", Heartbeat: 2 * time.Second,
		Ladder: []time.Duration{100 * time.Millisecond, 200 * time.Millisecond},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("settings %v, want %v", got, want)
	}
}

func TestInitTakesTheURLOfTheEnvironment(t *testing.T) {
	leakFree(t)
	sessions := make(chan *Session, 1)
	var got Settings
	p := begin(t, readyWith(sessions, &got))
	p.ask(`{"id":1,"do":"init","protocol":1}`)
	p.line()
	p.hangUp()
	if fmt.Sprint(got.URLs) != "[amqp://127.0.0.1:1]" {
		t.Errorf("URLs %v", got.URLs)
	}
}

func TestOrderOfRequests(t *testing.T) {
	leakFree(t)
	sessions := make(chan *Session, 1)
	p := begin(t, readyWith(sessions, nil))
	p.ask(`{"id":9,"do":"consume","consumer":"c","queue":"q"}`)
	p.want(`{"re":9,"error":"consume was asked for before init was answered"}`)
	p.ask(`{"id":2,"do":"init","protocol":2}`)
	p.want(`{"re":2,"error":"this adapter speaks version 1 of the protocol, not 2"}`)
	p.ready(sessions) // a refused init may be asked again
	p.ask(initLine)
	p.want(`{"re":1,"error":"init was asked for before; it comes once"}`)
	p.hangUp()
}

func TestEveryVerbReachesTheLibrary(t *testing.T) {
	leakFree(t)
	sessions := make(chan *Session, 1)
	calls := make(chan string, 3)
	f := readyWith(sessions, nil)
	f.consume = func(_ context.Context, sub Subscription) (string, error) {
		calls <- fmt.Sprintf("%+v", sub)
		return "orders..billing", nil
	}
	f.stop = func(_ context.Context, consumer string) error { calls <- "stop " + consumer; return nil }
	f.close = func(_ context.Context, finish bool) error { calls <- fmt.Sprint("close ", finish); return nil }
	p := begin(t, &encoding{*f})
	p.ask(initLine)
	p.want(`{"re":1,"ok":{"name":"fake","supports":["encode"],"conventions":{}}}`)
	p.ask(`{"id":2,"do":"consume","consumer":"billing","exchange":"orders","kind":"headers","key":"k","queue":"q",` +
		`"queue_type":"quorum","exclusive":true,"replies":true,"bind_headers":{"a":"b"}}`)
	p.want(`{"re":2,"ok":{"queue":"orders..billing"}}`)
	p.ask(`{"id":3,"do":"stop","consumer":"billing"}`)
	p.want(`{"re":3,"ok":{}}`)
	p.ask(`{"id":4,"do":"encode","message":"m1","body":{"x":1}}`)
	p.want(`{"re":4,"ok":{"content_type":"application/json","headers":{"id":"m1"},"body":"eyJ4IjoxfQ=="}}`)
	p.ask(`{"id":5,"do":"close","finish":true}`)
	p.want(`{"re":5,"ok":{}}`)
	p.hangUp()
	for _, want := range []string{
		"{Consumer:billing Queue:q QueueType:quorum Exclusive:true Replies:true Exchange:orders Kind:headers Key:k BindHeaders:map[a:b]}",
		"stop billing", "close true",
	} {
		if got := <-calls; got != want {
			t.Errorf("called %s, want %s", got, want)
		}
	}
}

func TestErrorsAndUnsupported(t *testing.T) {
	leakFree(t)
	sessions := make(chan *Session, 1)
	f := readyWith(sessions, nil)
	f.consume = func(_ context.Context, sub Subscription) (string, error) {
		if sub.Exclusive {
			return "", fmt.Errorf("consuming: %w", Unsupported("exclusive queues"))
		}
		return "", errors.New("dial amqp://guest:s3:cr@et@127.0.0.1:5672/vh: refused")
	}
	p := begin(t, f)
	p.ready(sessions)
	p.ask(`{"id":2,"do":"consume","consumer":"c","queue":"q","exclusive":true}`)
	p.want(`{"re":2,"unsupported":"consuming: exclusive queues"}`)
	p.ask(`{"id":3,"do":"consume","consumer":"c","queue":"q"}`)
	p.want(`{"re":3,"error":"dial amqp://guest:***@127.0.0.1:5672/vh: refused"}`)
	p.ask(`{"id":4,"do":"encode","message":"m1"}`)
	p.want(`{"re":4,"unsupported":"this library sends bodies as they are"}`)
	p.ask(`{"id":5,"do":"dance","step":[1,2]}`)
	p.want(`{"re":5,"unsupported":"this adapter does not know the request \"dance\""}`)
	p.ask(`{"id":6,"do":"consume","prefetch":"many"}`)
	if got := p.line(); !strings.HasPrefix(got, `{"re":6,"error":"the request \"consume\" cannot be read`) {
		t.Errorf("got %s", got)
	}
	p.hangUp()
}

func TestHandlersWaitForTheirSettle(t *testing.T) {
	leakFree(t)
	sessions := make(chan *Session, 1)
	p := begin(t, readyWith(sessions, nil))
	s := p.ready(sessions)

	verdicts := make(chan Verdict, 2)
	handle := func(message string) {
		verdicts <- s.Handle(t.Context(), Delivery{
			Consumer: "billing", Message: message, Attempt: 2,
			Headers: map[string]any{"x-attempt": 2}, Body: []byte("hi"),
		})
	}
	go handle("m1")
	p.want(`{"event":"delivery","n":1,"consumer":"billing","message":"m1","attempt":2,"headers":{"x-attempt":2},"body":"aGk="}`)
	go handle("m2")
	p.want(`{"event":"delivery","n":2,"consumer":"billing","message":"m2","attempt":2,"headers":{"x-attempt":2},"body":"aGk="}`)

	// The later one is settled first, and with an answer, which shows that the first one waits still.
	p.ask(`{"id":7,"do":"settle","n":2,"verdict":"ok","reply":{"sum":3}}`)
	p.want(`{"re":7,"ok":{}}`)
	if v := <-verdicts; v.Verdict != protocol.VerdictOK || string(v.Reply) != `{"sum":3}` || v.Err() != nil {
		t.Errorf("m2 was told %+v", v)
	}
	if len(verdicts) != 0 {
		t.Error("m1 did not wait for its settle")
	}
	p.ask(`{"do":"settle","n":1,"verdict":"park","as":"wrapped","reason":"poison"}`)
	if v := <-verdicts; v.Verdict != protocol.VerdictPark || v.As != protocol.AsWrapped || v.Err().Error() != "poison" {
		t.Errorf("m1 was told %+v", v)
	}

	p.ask(`{"id":8,"do":"settle","n":1,"verdict":"ok"}`)
	p.want(`{"re":8,"error":"settle of delivery 1, whose handler does not wait"}`)
	p.ask(`{"do":"settle","n":99,"verdict":"ok"}`)
	p.ask(`{"id":9,"do":"settle","n":1,"verdict":"perhaps"}`)
	p.want(`{"re":9,"error":"settle of delivery 1 with the unknown verdict \"perhaps\""}`)
	if !strings.Contains(p.log.String(), "settle of delivery 99") {
		t.Errorf("the log says nothing about delivery 99: %q", p.log.String())
	}
	p.hangUp()
}

func TestAConsumeThatHangsBlocksNothing(t *testing.T) {
	leakFree(t)
	sessions := make(chan *Session, 1)
	f := readyWith(sessions, nil)
	f.consume = func(ctx context.Context, _ Subscription) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	f.stop = func(context.Context, string) error { return nil }
	p := begin(t, f)
	s := p.ready(sessions)
	p.ask(`{"id":2,"do":"consume","consumer":"c","queue":"q"}`)
	settled := make(chan Verdict, 1)
	go func() { settled <- s.Handle(t.Context(), Delivery{Consumer: "c", Message: "m1"}) }()
	p.want(`{"event":"delivery","n":1,"consumer":"c","message":"m1"}`)
	p.ask(`{"do":"settle","n":1,"verdict":"ok"}`)
	if v := <-settled; v.Verdict != protocol.VerdictOK {
		t.Errorf("told %+v", v)
	}
	p.ask(`{"id":3,"do":"stop","consumer":"c"}`)
	p.want(`{"re":3,"ok":{}}`)
	p.hangUp()
}

func TestTheEndOfTheInputReleasesHandlers(t *testing.T) {
	leakFree(t)
	sessions := make(chan *Session, 1)
	p := begin(t, readyWith(sessions, nil))
	s := p.ready(sessions)
	released := make(chan Verdict, 1)
	go func() { released <- s.Handle(t.Context(), Delivery{Consumer: "c", Message: "m1"}) }()
	p.line()
	p.hangUp()
	if v := <-released; v.Verdict != protocol.VerdictFail || !strings.Contains(v.Reason, "parkproof closed its end") {
		t.Errorf("released with %+v", v)
	}
}

func TestAHandlerEndsWithItsContext(t *testing.T) {
	leakFree(t)
	sessions := make(chan *Session, 1)
	p := begin(t, readyWith(sessions, nil))
	s := p.ready(sessions)
	ctx, cancel := context.WithCancel(t.Context())
	released := make(chan Verdict, 1)
	go func() { released <- s.Handle(ctx, Delivery{Consumer: "c", Message: "m1"}) }()
	p.line()
	cancel()
	if v := <-released; v.Verdict != protocol.VerdictFail {
		t.Errorf("released with %+v", v)
	}
	p.ask(`{"id":2,"do":"settle","n":1,"verdict":"ok"}`)
	p.want(`{"re":2,"error":"settle of delivery 1, whose handler does not wait"}`)
	p.hangUp()
}

func TestEvents(t *testing.T) {
	leakFree(t)
	sessions := make(chan *Session, 1)
	p := begin(t, readyWith(sessions, nil))
	s := p.ready(sessions)
	go func() {
		s.Diagnostic("retry", "line\nbreak")
		s.Connection(false)
		s.Connection(true)
	}()
	p.want(`{"event":"diagnostic","name":"retry","text":"line\nbreak"}`)
	p.want(`{"event":"connection","state":"down"}`)
	p.want(`{"event":"connection","state":"up"}`)
	p.hangUp()
}

func TestHeadersThatJSONCannotSay(t *testing.T) {
	got := string(headers(map[string]any{"ratio": math.NaN(), "n": int64(math.MaxInt64), "deep": map[string]any{"x": math.Inf(1)}}))
	if want := `{"deep":"map[x:+Inf]","n":9223372036854775807,"ratio":"NaN"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := headers(nil); got != nil {
		t.Errorf("no headers became %s", got)
	}
}

func TestWhatIsNoRequestEndsTheSession(t *testing.T) {
	for _, line := range []string{`hello`, `[1]`, `{"id":"one","do":"init"}`} {
		t.Run(line, func(t *testing.T) {
			leakFree(t)
			p := begin(t, &fake{})
			p.ask(line)
			if err := p.ended(); err == nil || !strings.Contains(err.Error(), "no JSON object of the protocol") {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestALineThatIsCutShortIsNoRequest(t *testing.T) {
	leakFree(t)
	p := begin(t, &fake{})
	if _, err := io.WriteString(p.in, `{"id":1,"do":"in`); err != nil {
		t.Fatal(err)
	}
	p.hangUp()
}

func TestAnOutputThatIsGoneEndsTheSession(t *testing.T) {
	leakFree(t)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	_ = outR.Close()
	done := make(chan error, 1)
	go func() { done <- Run(t.Context(), &fake{}, inR, outW, Options{Log: io.Discard}) }()
	if _, err := io.WriteString(inW, `{"id":1,"do":"dance"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "writing to parkproof") {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the session did not end")
	}
}

func TestTheCallersContextEndsTheSession(t *testing.T) {
	leakFree(t)
	inR, inW := io.Pipe()
	defer func() { _ = inW.Close() }()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, &fake{}, inR, io.Discard, Options{Log: io.Discard}) }()
	stop := errors.New("enough")
	cancel(stop)
	select {
	case err := <-done:
		if !errors.Is(err, stop) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the session did not end")
	}
}

func TestManyHandlersAtOnce(t *testing.T) {
	leakFree(t)
	sessions := make(chan *Session, 1)
	p := begin(t, readyWith(sessions, nil))
	s := p.ready(sessions)
	const many = 300
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			message := fmt.Sprintf("m%d", i)
			v := s.Handle(t.Context(), Delivery{Consumer: "c", Message: message})
			if v.Reason != message {
				t.Errorf("%s was told what %s is told", message, v.Reason)
			}
		})
	}
	seen := map[int]bool{}
	for range many {
		var l protocol.Line
		if err := json.Unmarshal([]byte(p.line()), &l); err != nil {
			t.Fatal(err)
		}
		if seen[l.N] {
			t.Fatalf("n %d came twice", l.N)
		}
		seen[l.N] = true
		p.ask(fmt.Sprintf(`{"do":"settle","n":%d,"verdict":"fail","reason":%q}`, l.N, l.Message))
	}
	wg.Wait()
	p.hangUp()
}
