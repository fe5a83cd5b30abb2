package kit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

// Session is one run of the protocol: what a library reports its deliveries to. It is safe for
// concurrent use.
type Session struct {
	lib Library
	url string
	log io.Writer

	ctx context.Context
	end context.CancelCauseFunc

	// writing guards out: one line at a time.
	writing sync.Mutex
	out     io.Writer

	mu    sync.Mutex
	state state
	// n is the number of the last delivery.
	n int
	// waiting are the handlers that wait for their settle, by the delivery's number. Each
	// channel has room for the one verdict, so whoever settles never waits.
	waiting map[int]chan Verdict
}

// state is how far init has come.
type state int

const (
	fresh state = iota
	preparing
	ready
)

// Options are what Run can be told besides.
type Options struct {
	// URL is the AMQP URL to use where init gives none.
	URL string
	// Log takes what the kit has to say about requests that it cannot answer; nil means stderr.
	Log io.Writer
	// Terminate is closed where the process is asked to end, by SIGTERM: the library is closed, its handlers
	// finish, and Run returns. Meanwhile requests are answered, settles above all. Nil is never closed.
	Terminate <-chan struct{}
}

// errEnded is the cause with which a session's context ends when its input does.
var errEnded = errors.New("parkproof closed its end")

// errTerminated is the cause with which it ends when the process was asked to end and the library is closed.
var errTerminated = errors.New("the process was asked to end")

// Run speaks the protocol for the library: requests from in, answers and events to out. It
// returns nil when in ends, without waiting for the library or its handlers, which see their
// context end, and when the library has closed since the process was asked to end. It returns an
// error when the library could not, when out cannot be written, when in cannot be read or holds
// what is no request, or when ctx ends. In all of these in is closed, and a read of it that this
// does not end is left behind.
func Run(ctx context.Context, lib Library, in io.ReadCloser, out io.Writer, options Options) error {
	ctx, end := context.WithCancelCause(ctx)
	s := &Session{
		lib: lib, url: options.URL, log: options.Log,
		ctx: ctx, end: end, out: out, waiting: map[int]chan Verdict{},
	}
	if s.log == nil {
		s.log = os.Stderr
	}
	// A read that blocks sees no context: closing what it reads from ends it.
	forget := context.AfterFunc(ctx, func() { _ = in.Close() })
	defer forget()

	go s.terminate(options.Terminate)
	read := make(chan error, 1)
	go func() { read <- s.read(in) }()
	var err error
	select {
	case err = <-read:
	case <-ctx.Done(): // stdin is not always a file whose closing ends a read
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTerminated):
		return nil
	case cause != nil:
		err = cause
	case err == nil:
		end(errEnded)
		return nil
	}
	end(err)
	return err
}

// terminate ends the session once the process is asked to end: a library that has been opened is closed
// first, and the handlers that run may finish.
func (s *Session) terminate(asked <-chan struct{}) {
	select {
	case <-asked:
	case <-s.ctx.Done():
		return
	}
	s.mu.Lock()
	opened := s.state == ready
	s.mu.Unlock()
	if opened {
		if err := s.lib.Close(s.ctx, true); err != nil {
			s.end(fmt.Errorf("closing the library since the process was asked to end: %w", err))
			return
		}
	}
	s.end(errTerminated)
}

// read answers requests until the input ends (nil) or cannot be understood.
func (s *Session) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading requests: %w", err)
		}
		atEnd := err != nil
		if line = bytes.TrimSpace(line); len(line) > 0 {
			// A line that the end cut short is no request, and nobody waits for its answer.
			if atEnd && !json.Valid(line) {
				return nil
			}
			if err := s.request(line); err != nil {
				return err
			}
		}
		if atEnd {
			return nil
		}
	}
}

// request answers one line, or begins to.
func (s *Session) request(line []byte) error {
	var req protocol.Request
	if err := json.Unmarshal(line, &req); err != nil {
		// Where at least the id can be read, somebody waits for an answer to it.
		var head struct {
			ID int    `json:"id"`
			Do string `json:"do"`
		}
		if json.Unmarshal(line, &head) != nil || head.ID == 0 {
			return fmt.Errorf("a request that is no JSON object of the protocol: %.200q", redact(string(line)))
		}
		s.answer(head.ID, nil, fmt.Errorf("the request %q cannot be read: %w", head.Do, err))
		return nil
	}
	switch req.Do {
	case protocol.DoSettle:
		// At once and in order, for handlers wait for it.
		err := s.settle(req)
		switch {
		case req.ID != 0:
			s.answer(req.ID, struct{}{}, err)
		case err != nil:
			_, _ = fmt.Fprintf(s.log, "adapter: %v\n", err)
		}
		return nil
	case protocol.DoInit:
		if err := s.enter(fresh, preparing); err != nil {
			s.answer(req.ID, nil, errors.New("init was asked for before; it comes once"))
			return nil
		}
	case protocol.DoEncode, protocol.DoConsume, protocol.DoStop, protocol.DoClose:
		if err := s.enter(ready, ready); err != nil {
			s.answer(req.ID, nil, fmt.Errorf("%s was asked for before init was answered", req.Do))
			return nil
		}
	default:
		s.answer(req.ID, nil, Unsupported(fmt.Sprintf("this adapter does not know the request %q", req.Do)))
		return nil
	}
	go func() {
		ok, err := s.do(req)
		s.answer(req.ID, ok, err)
	}()
	return nil
}

// enter moves the session from one state to the next, if that is where it is.
func (s *Session) enter(from, to state) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != from {
		return errors.New("out of order")
	}
	s.state = to
	return nil
}

// do asks the library.
func (s *Session) do(req protocol.Request) (any, error) {
	switch req.Do {
	case protocol.DoInit:
		r, err := s.init(req)
		if err != nil {
			_ = s.enter(preparing, fresh)
			return nil, err
		}
		return r, s.enter(preparing, ready)
	case protocol.DoConsume:
		queue, err := s.lib.Consume(s.ctx, Subscription{
			Consumer: req.Consumer, Queue: req.Queue, QueueType: req.QueueType, Exclusive: req.Exclusive,
			Replies: req.Replies, Exchange: req.Exchange, Kind: req.Kind, Key: req.Key, BindHeaders: req.BindHeaders,
		})
		return protocol.Consumed{Queue: queue}, err
	case protocol.DoEncode:
		e, can := s.lib.(Encoder)
		if !can {
			return nil, Unsupported("this library sends bodies as they are")
		}
		return e.Encode(s.ctx, req.Message, req.Body)
	case protocol.DoStop:
		return struct{}{}, s.lib.Stop(s.ctx, req.Consumer)
	default: // close
		return struct{}{}, s.lib.Close(s.ctx, req.Finish)
	}
}

func (s *Session) init(req protocol.Request) (protocol.Ready, error) {
	if req.Protocol != protocol.Version {
		return protocol.Ready{}, fmt.Errorf("this adapter speaks version %d of the protocol, not %d", protocol.Version, req.Protocol)
	}
	settings := Settings{
		Case: req.Case, URLs: req.URLs, Prefetch: req.Prefetch, Prefix: req.Prefix,
		Heartbeat: time.Duration(req.Heartbeat) * time.Second,
	}
	for _, ms := range req.LadderMS {
		settings.Ladder = append(settings.Ladder, time.Duration(ms)*time.Millisecond)
	}
	if len(settings.URLs) == 0 && s.url != "" {
		settings.URLs = []string{s.url}
	}
	if len(settings.URLs) == 0 {
		return protocol.Ready{}, fmt.Errorf("no AMQP URL: neither init's urls nor %s names one", protocol.EnvURL)
	}
	r, err := s.lib.Init(s.ctx, s, settings)
	if r.Supports == nil {
		r.Supports = []string{} // the field is a list, also when it is empty
	}
	if _, can := s.lib.(Encoder); can && !slices.Contains(r.Supports, protocol.CanEncode) {
		r.Supports = append(slices.Clone(r.Supports), protocol.CanEncode)
	}
	return r, err
}

// settle gives a waiting handler its verdict.
func (s *Session) settle(req protocol.Request) error {
	switch req.Verdict {
	case protocol.VerdictOK, protocol.VerdictFail, protocol.VerdictRetry, protocol.VerdictPark:
	default:
		return fmt.Errorf("settle of delivery %d with the unknown verdict %q", req.N, req.Verdict)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting, ok := s.waiting[req.N]
	if !ok {
		return fmt.Errorf("settle of delivery %d, whose handler does not wait", req.N)
	}
	delete(s.waiting, req.N)
	waiting <- Verdict{Verdict: req.Verdict, As: req.As, Reason: req.Reason, Reply: req.Reply}
	return nil
}

// Handle reports a call of the library's handler and waits there until parkproof settles it. If
// ctx or the session ends first it returns a failure whose reason says so: a handler that was
// released has not succeeded.
func (s *Session) Handle(ctx context.Context, d Delivery) Verdict {
	settled := make(chan Verdict, 1)
	s.mu.Lock()
	s.n++
	n := s.n
	s.waiting[n] = settled
	s.mu.Unlock()

	s.send(protocol.Line{Event: protocol.Event{
		Event: protocol.EventDelivery, N: n, Consumer: d.Consumer, Message: d.Message,
		Attempt: d.Attempt, Headers: headers(d.Headers), Body: d.Body,
	}})
	var cause error
	select {
	case v := <-settled:
		return v
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-s.ctx.Done():
		cause = context.Cause(s.ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, n)
	select {
	case v := <-settled: // it came at the same moment, and parkproof counts on it
		return v
	default:
		return Verdict{Verdict: protocol.VerdictFail, Reason: fmt.Sprintf("the handler was released: %v", cause)}
	}
}

// Diagnostic reports something that the library tells about itself, such as a retry.
func (s *Session) Diagnostic(name, text string) {
	s.send(protocol.Line{Event: protocol.Event{Event: protocol.EventDiagnostic, Name: name, Text: redact(text)}})
}

// Connection reports that the library's connection came up, or went down.
func (s *Session) Connection(up bool) {
	state := "down"
	if up {
		state = "up"
	}
	s.send(protocol.Line{Event: protocol.Event{Event: protocol.EventConnection, State: state}})
}

// answer answers a request. A request without an id is answered to nobody, so only the log hears.
func (s *Session) answer(id int, ok any, err error) {
	line := protocol.Line{Re: id}
	if err == nil {
		line.OK, err = json.Marshal(ok)
	}
	switch {
	case err == nil:
	case errors.Is(err, errors.ErrUnsupported):
		text := redact(err.Error())
		line.OK, line.Unsupported = nil, &text
	default:
		text := redact(err.Error())
		line.OK, line.Error = nil, &text
	}
	if id == 0 {
		if err != nil {
			_, _ = fmt.Fprintf(s.log, "adapter: a request without an id: %s\n", redact(err.Error()))
		}
		return
	}
	s.send(line)
}

// send writes one line. A line that cannot be written ends the session: nobody listens.
func (s *Session) send(line protocol.Line) {
	text, err := json.Marshal(line)
	if err != nil {
		s.end(fmt.Errorf("encoding a line of the protocol: %w", err))
		return
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	if _, err := s.out.Write(append(text, '\n')); err != nil {
		s.end(fmt.Errorf("writing to parkproof: %w", err))
	}
}

// headers encodes AMQP headers. What JSON has no form for, such as a NaN, becomes its text.
func headers(h map[string]any) json.RawMessage {
	if len(h) == 0 {
		return nil
	}
	if text, err := json.Marshal(h); err == nil {
		return text
	}
	clean := make(map[string]any, len(h))
	for name, value := range h {
		if text, err := json.Marshal(value); err == nil {
			clean[name] = json.RawMessage(text)
		} else {
			clean[name] = fmt.Sprint(value)
		}
	}
	text, err := json.Marshal(clean)
	if err != nil { // every value was encoded above, or is a string
		return nil
	}
	return text
}

// credentials are the user and password in a URL, which libraries like to quote in errors.
var credentials = regexp.MustCompile(`(\w+://[^\s:/@]*):[^\s/]*@`)

// redact takes passwords out of a text.
func redact(text string) string { return credentials.ReplaceAllString(text, "$1:***@") }
