// Package adapter runs a consumer's process and speaks the adapter protocol with it.
package adapter

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
	"github.com/parkproof/parkproof/scenarios/process"
)

const (
	// maxLine bounds one line of the protocol: a delivery event may carry a body of some MiB in
	// base64.
	maxLine = 64 << 20
	// logLines is how many of the last lines of the adapter's log are kept.
	logLines = 200
	// shownLength bounds, in bytes, what an error shows of a line.
	shownLength = 200
)

// Options say how to start an adapter.
type Options struct {
	// Command is the program and its arguments.
	Command []string
	// URL is the AMQP URL that the consumer connects to.
	URL string
	// Env are further variables, as KEY=value.
	Env []string
	// OnEvent is called, from one goroutine, for each event in the order of arrival.
	OnEvent func(protocol.Event)
	// OnWarning is called for each line after init that is no part of the protocol.
	OnWarning func(text string)
}

// Adapter is a running adapter.
type Adapter struct {
	process *process.Process
	options Options

	write sync.Mutex // one request a line, whole

	mu       sync.Mutex
	next     int
	answers  map[int]chan protocol.Line
	answered map[int]string // the verbs of requests that were answered
	verbs    map[int]string
	ready    bool
	fault    error // the first breach of the protocol
	log      []string

	broken chan struct{} // closed when fault is set
	done   chan struct{} // closed when the process has ended and its output was read
}

// ErrUnsupported is the answer of an adapter that cannot do what it was asked.
var ErrUnsupported = errors.New("the adapter does not support it")

// BrokenError is a breach of the protocol, or an adapter that could not be started: the
// adapter's fault, not the consumer's.
type BrokenError struct{ Text string }

func (e *BrokenError) Error() string { return e.Text }

// RefusedError is an adapter's answer that the consumer could not do what it was asked.
type RefusedError struct{ Verb, Text string }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the consumer could not %s: %s", e.Verb, e.Text)
}

// ExitedError says that the process ended while an answer was awaited.
type ExitedError struct {
	Verb, Status string
	// Log is the last line that it wrote to stderr.
	Log string
	// Ready says whether init had been answered.
	Ready bool
}

func (e *ExitedError) Error() string {
	text := fmt.Sprintf("the adapter ended (%s) before it answered %s", e.Status, e.Verb)
	if e.Log != "" {
		text += "; its last words: " + e.Log
	}
	return text
}

// Start starts the adapter. The context bounds the start alone.
func Start(ctx context.Context, o Options) (*Adapter, error) {
	if len(o.Command) == 0 {
		return nil, &BrokenError{Text: "no adapter command was given"}
	}
	if o.OnEvent == nil {
		o.OnEvent = func(protocol.Event) {}
	}
	if o.OnWarning == nil {
		o.OnWarning = func(string) {}
	}
	env := append(os.Environ(), protocol.EnvURL+"="+o.URL)
	p, err := process.Start(ctx, process.Command{
		Path: o.Command[0], Args: o.Command[1:], Env: append(env, o.Env...),
		PipeStdin: true, PipeStdout: true, PipeStderr: true,
	})
	if err != nil {
		return nil, &BrokenError{Text: fmt.Sprintf("the adapter could not be started: %v", err)}
	}
	a := &Adapter{
		process: p, options: o,
		answers: map[int]chan protocol.Line{}, answered: map[int]string{}, verbs: map[int]string{},
		broken: make(chan struct{}), done: make(chan struct{}),
	}
	var readers sync.WaitGroup
	readers.Go(func() { a.readLog(p.Stderr) })
	readers.Go(func() { a.readLines(p.Stdout) })
	go func() {
		readers.Wait()
		<-p.Done()
		close(a.done)
	}()
	return a, nil
}

// Pid is the process id of the adapter.
func (a *Adapter) Pid() int { return a.process.Pid() }

// Exited is closed when the process has ended and all its output was read.
func (a *Adapter) Exited() <-chan struct{} { return a.done }

// Status describes how the process ended, and is empty while it runs.
func (a *Adapter) Status() string {
	if status, ended := a.process.Status(); ended {
		return status.String()
	}
	return ""
}

// Log returns the last lines that the adapter wrote to stderr.
func (a *Adapter) Log() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.log)
}

// Fault returns the first breach of the protocol, or nil.
func (a *Adapter) Fault() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fault
}

// Init sends init and returns what the adapter says of itself.
func (a *Adapter) Init(ctx context.Context, r protocol.Request) (protocol.Ready, error) {
	var ready protocol.Ready
	r.Do, r.Protocol = protocol.DoInit, protocol.Version
	if err := a.ask(ctx, r, &ready); err != nil {
		return ready, err
	}
	if ready.Name == "" {
		return ready, a.breach("the adapter's answer to init has no name")
	}
	a.mu.Lock()
	a.ready = true
	a.mu.Unlock()
	return ready, nil
}

// Consume asks the consumer to consume and returns the name of its source queue.
func (a *Adapter) Consume(ctx context.Context, r protocol.Request) (protocol.Consumed, error) {
	var c protocol.Consumed
	r.Do = protocol.DoConsume
	if err := a.ask(ctx, r, &c); err != nil {
		return c, err
	}
	if c.Queue == "" {
		return c, a.breach("the adapter's answer to consume names no queue")
	}
	return c, nil
}

// Stop asks the consumer named to stop for good.
func (a *Adapter) Stop(ctx context.Context, consumer string) error {
	return a.ask(ctx, protocol.Request{Do: protocol.DoStop, Consumer: consumer}, nil)
}

// Close asks the adapter to close its connections; handlers that run may finish if finish is set.
func (a *Adapter) Close(ctx context.Context, finish bool) error {
	return a.ask(ctx, protocol.Request{Do: protocol.DoClose, Finish: finish}, nil)
}

// Encode asks for the message in the library's own format.
func (a *Adapter) Encode(ctx context.Context, message string, body json.RawMessage) (protocol.Encoded, error) {
	var e protocol.Encoded
	err := a.ask(ctx, protocol.Request{Do: protocol.DoEncode, Message: message, Body: body}, &e)
	return e, err
}

// Ask sends any verb: an adapter answers one that it does not know with unsupported.
func (a *Adapter) Ask(ctx context.Context, r protocol.Request) error { return a.ask(ctx, r, nil) }

// Settle tells the handler of delivery n what to come to.
func (a *Adapter) Settle(r protocol.Request) error {
	r.Do = protocol.DoSettle
	return a.send(r)
}

// Kill kills the process's group and returns when its exit was seen.
func (a *Adapter) Kill(ctx context.Context) error {
	_, err := a.process.Kill(ctx)
	return err
}

// Signals of the process, for faults.
func (a *Adapter) Pause() error  { return a.process.Pause() }
func (a *Adapter) Resume() error { return a.process.Resume() }

// End closes the adapter's stdin, at which it ends by itself, and kills it after the grace.
func (a *Adapter) End(ctx context.Context, grace time.Duration) error {
	a.write.Lock()
	_ = a.process.Stdin.Close()
	a.write.Unlock()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-a.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := a.Kill(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("ending the adapter: %w", err)
	}
	<-a.done
	return nil
}

func (a *Adapter) send(r protocol.Request) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing %s to the adapter: %w", r.Do, err)
	}
	a.write.Lock()
	defer a.write.Unlock()
	if _, err := a.process.Stdin.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing %s to the adapter: %w", r.Do, err)
	}
	return nil
}

func (a *Adapter) ask(ctx context.Context, r protocol.Request, into any) error {
	answer := make(chan protocol.Line, 1)
	a.mu.Lock()
	a.next++
	r.ID = a.next
	a.answers[r.ID] = answer
	a.verbs[r.ID] = r.Do
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.answers, r.ID)
		a.mu.Unlock()
	}()

	sent := a.send(r)
	if sent != nil {
		// It ended, or closed its stdin: its exit says more than the broken pipe does.
		wait, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		select {
		case <-a.done:
		case <-a.broken:
		case <-wait.Done():
			return &BrokenError{Text: fmt.Sprintf("the adapter does not read its stdin: %v", sent)}
		}
	}
	var line protocol.Line
	select {
	case line = <-answer:
	case <-a.broken:
		return a.Fault()
	case <-a.done:
		select {
		case line = <-answer: // answered with its last breath
		default:
			if err := a.Fault(); err != nil {
				return err
			}
			return a.exited(r.Do)
		}
	case <-ctx.Done():
		return &BrokenError{Text: fmt.Sprintf("the adapter did not answer %s in time", r.Do)}
	}
	switch {
	case line.Unsupported != nil:
		return fmt.Errorf("%w: %s: %s", ErrUnsupported, r.Do, *line.Unsupported)
	case line.Error != nil:
		return &RefusedError{Verb: r.Do, Text: *line.Error}
	case into == nil || len(line.OK) == 0:
		return nil
	}
	if err := json.Unmarshal(line.OK, into); err != nil {
		return a.breach(fmt.Sprintf("the adapter's answer to %s cannot be read: %v: %s", r.Do, err, shown(line.OK)))
	}
	return nil
}

func (a *Adapter) exited(verb string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := &ExitedError{Verb: verb, Status: a.Status(), Ready: a.ready}
	if len(a.log) > 0 {
		e.Log = a.log[len(a.log)-1]
	}
	return e
}

// breach records the first breach of the protocol and returns it.
func (a *Adapter) breach(text string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fault == nil {
		a.fault = &BrokenError{Text: text}
		close(a.broken)
	}
	return a.fault
}

func (a *Adapter) readLines(r io.ReadCloser) {
	defer r.Close()
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		if raw := bytes.TrimSpace(lines.Bytes()); len(raw) > 0 {
			a.take(raw)
		}
	}
	if err := lines.Err(); err != nil {
		_ = a.breach(fmt.Sprintf("the adapter's output cannot be read: %v", err))
		_, _ = io.Copy(io.Discard, r) // so that it does not block on a full pipe
	}
}

func (a *Adapter) take(raw []byte) {
	var line protocol.Line
	if err := json.Unmarshal(raw, &line); err != nil || raw[0] != '{' {
		a.mu.Lock()
		ready := a.ready
		a.mu.Unlock()
		if ready {
			a.keep("(stdout) " + string(raw))
			a.options.OnWarning("the adapter printed a line that is no JSON object: " + shown(raw))
			return
		}
		_ = a.breach("the adapter printed a line that is no JSON object before it answered init: " + shown(raw))
		return
	}
	if line.Re == 0 {
		if line.Event.Event == "" {
			a.options.OnWarning("the adapter sent a line that is neither an answer nor an event: " + shown(raw))
			return
		}
		a.options.OnEvent(line.Event)
		return
	}
	a.mu.Lock()
	verb, asked := a.verbs[line.Re]
	answer := a.answers[line.Re]
	_, again := a.answered[line.Re]
	a.answered[line.Re] = verb
	a.mu.Unlock()
	switch {
	case !asked:
		_ = a.breach(fmt.Sprintf("the adapter answered request %d, which was never sent: %s", line.Re, shown(raw)))
	case again:
		_ = a.breach(fmt.Sprintf("the adapter answered request %d (%s) twice: %s", line.Re, verb, shown(raw)))
	case answer != nil:
		answer <- line
	}
}

func (a *Adapter) readLog(r io.ReadCloser) {
	defer r.Close()
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		a.keep(lines.Text())
	}
	_, _ = io.Copy(io.Discard, r)
}

func (a *Adapter) keep(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log = append(a.log, shown([]byte(line)))
	if len(a.log) > logLines {
		a.log = slices.Delete(a.log, 0, len(a.log)-logLines)
	}
}

// Pending returns the verbs of the requests that have not been answered, for a message to people.
func (a *Adapter) Pending() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var verbs []string
	for _, id := range slices.Sorted(maps.Keys(a.answers)) {
		verbs = append(verbs, a.verbs[id])
	}
	return verbs
}

// shown is a line cut to what fits a message, without control characters.
func shown(raw []byte) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '·'
		}
		return r
	}, strings.ToValidUTF8(string(raw), "·"))
	if len(text) > shownLength {
		text = strings.ToValidUTF8(text[:shownLength], "") + "…"
	}
	return text
}
