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
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
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
	// hiddenLength is, in bytes, how much of a line is searched for passwords, of which none is so
	// long that it could begin within shownLength and end beyond.
	hiddenLength = 16 << 10
	// dying is how long a process may take to be gone once one of its pipes has closed: what it
	// died of says more than the pipe does, and a loaded machine is slow.
	dying = 5 * time.Second
)

// Options say how to start an adapter.
type Options struct {
	// Command is the program and its arguments.
	Command []string
	// URL is the AMQP URL that the consumer connects to.
	URL string
	// Control asks the adapter to speak on a Unix socket, named in PARKPROOF_CONTROL, instead of
	// stdin and stdout: its stdout is then part of its log.
	Control bool
	// Env are further variables, as KEY=value.
	Env []string
	// OnEvent is called, from one goroutine, for each event in the order of arrival.
	OnEvent func(protocol.Event)
	// OnWarning is called for each line after init that is no part of the protocol.
	OnWarning func(text string)
	// Hide takes passwords out of a line, before it is shortened: half a password tells much of it.
	Hide func(text string) string
}

// Adapter is a running adapter.
type Adapter struct {
	process *process.Process
	options Options
	in      io.WriteCloser // its stdin, or its socket

	turn   chan struct{} // one request a line, whole; a lock that can be given up
	ending chan struct{} // closed when the adapter was told to end, or killed
	end    sync.Once

	mu       sync.Mutex
	next     int
	answers  map[int]chan protocol.Line
	answered map[int]bool
	verbs    map[int]string
	numbers  map[int]bool // of deliveries
	ready    bool         // init was answered
	fault    error        // the first breach of the protocol
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
	if o.Hide == nil {
		o.Hide = func(text string) string { return text }
	}
	env := append(os.Environ(), protocol.EnvURL+"="+o.URL)
	var socket *control
	if o.Control {
		var err error
		if socket, err = openControl(); err != nil {
			return nil, err
		}
		env = append(env, socket.variable())
	}
	p, err := process.Start(ctx, process.Command{
		Path: o.Command[0], Args: o.Command[1:], Env: append(env, o.Env...),
		PipeStdin: !o.Control, PipeStdout: true, PipeStderr: true,
	})
	if err != nil {
		if socket != nil {
			_ = socket.close()
		}
		return nil, &BrokenError{Text: fmt.Sprintf("the adapter could not be started: %v", err)}
	}
	if socket != nil {
		return startOn(ctx, socket, p, o)
	}
	return speak(p, o, p.Stdin, p.Stdout, p.Stderr), nil
}

// startOn waits for the adapter on its socket; what it prints is its log.
func startOn(ctx context.Context, socket *control, p *process.Process, o Options) (*Adapter, error) {
	conn, err := socket.accept(ctx, p)
	if closed := socket.close(); err == nil && closed != nil {
		_ = conn.Close()
		err = closed
	}
	if err != nil {
		_, _ = p.Kill(context.WithoutCancel(ctx))
		_, _ = p.Stdout.Close(), p.Stderr.Close()
		return nil, err
	}
	return speak(p, o, writeHalf{conn}, conn, p.Stderr, p.Stdout), nil
}

// speak begins to read what the adapter says, and its logs.
func speak(p *process.Process, o Options, in io.WriteCloser, out io.ReadCloser, logs ...io.ReadCloser) *Adapter {
	a := &Adapter{
		process: p, options: o, in: in,
		turn: make(chan struct{}, 1), ending: make(chan struct{}),
		answers: map[int]chan protocol.Line{}, answered: map[int]bool{}, verbs: map[int]string{}, numbers: map[int]bool{},
		broken: make(chan struct{}), done: make(chan struct{}),
	}
	var readers sync.WaitGroup
	for _, log := range logs {
		readers.Go(func() { a.readLog(log) })
	}
	readers.Go(func() { a.readLines(out) })
	go func() {
		readers.Wait()
		<-p.Done()
		close(a.done)
	}()
	return a
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

// Settle tells the handler of delivery n what to come to. It waits while the adapter does not read,
// until the context ends.
func (a *Adapter) Settle(ctx context.Context, r protocol.Request) error {
	r.Do = protocol.DoSettle
	if err := a.send(ctx, r); err != nil {
		return a.unsent(ctx, r.Do, err)
	}
	return nil
}

// Kill kills the process's group and returns when its exit was seen.
func (a *Adapter) Kill(ctx context.Context) error {
	a.endsNow()
	_, err := a.process.Kill(ctx)
	return err
}

// endsNow says that what closes from here on closes because it was told to.
func (a *Adapter) endsNow() { a.end.Do(func() { close(a.ending) }) }

// Signals of the process, for faults.
func (a *Adapter) Pause() error  { return a.process.Pause() }
func (a *Adapter) Resume() error { return a.process.Resume() }

// Terminate sends SIGTERM; what closes from here on closes because it was told to.
func (a *Adapter) Terminate() error {
	a.endsNow()
	return a.process.Signal(syscall.SIGTERM)
}

// End closes the adapter's stdin, at which it ends by itself, and kills it after the grace.
func (a *Adapter) End(ctx context.Context, grace time.Duration) error {
	a.endsNow()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case a.turn <- struct{}{}: // what is being written is written whole
		_ = a.in.Close()
		<-a.turn
		select {
		case <-a.done:
			return nil
		case <-timer.C:
		case <-ctx.Done():
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	if err := a.Kill(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("ending the adapter: %w", err)
	}
	<-a.done
	return nil
}

// send writes a request. It ends with the context, whatever the adapter does.
func (a *Adapter) send(ctx context.Context, r protocol.Request) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing %s to the adapter: %w", r.Do, err)
	}
	select {
	case a.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("writing %s to the adapter: %w", r.Do, os.ErrDeadlineExceeded)
	}
	defer func() { <-a.turn }()
	if pipe, ok := a.in.(interface{ SetWriteDeadline(time.Time) error }); ok {
		// The deadline stays in the past: after half a line no other can be written.
		release := context.AfterFunc(ctx, func() { _ = pipe.SetWriteDeadline(time.Unix(1, 0)) })
		defer release()
	}
	if _, err := a.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing %s to the adapter: %w", r.Do, err)
	}
	return nil
}

// unsent is the error for a request that could not be written: the adapter ended, or closed its
// stdin, or does not read it.
func (a *Adapter) unsent(ctx context.Context, verb string, cause error) error {
	if errors.Is(cause, os.ErrDeadlineExceeded) {
		return a.breach(fmt.Sprintf("the adapter does not read its stdin: %s could not be written in time", verb))
	}
	gone := time.NewTimer(dying)
	defer gone.Stop()
	select {
	case <-a.done:
		return a.exited(verb)
	case <-a.broken:
		return a.Fault()
	case <-ctx.Done():
		return &BrokenError{Text: fmt.Sprintf("the adapter could not be asked to %s: %v", verb, cause)}
	case <-gone.C:
		return a.breach(fmt.Sprintf("the adapter closed its stdin and runs on: it cannot be asked to %s", verb))
	}
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

	if err := a.send(ctx, r); err != nil {
		return a.unsent(ctx, r.Do, err)
	}
	var line protocol.Line
	select {
	case line = <-answer:
	case <-a.broken:
	case <-a.done:
		select {
		case line = <-answer: // answered with its last breath
		default:
			return a.exited(r.Do)
		}
	case <-ctx.Done():
		return &BrokenError{Text: fmt.Sprintf("the adapter did not answer %s in time", r.Do)}
	}
	if err := a.Fault(); err != nil {
		return err // an answer of an adapter that breaks the protocol is worth nothing
	}
	switch {
	case line.Unsupported != nil:
		return fmt.Errorf("%w: %s: %s", ErrUnsupported, r.Do, *line.Unsupported)
	case line.Error != nil:
		return &RefusedError{Verb: r.Do, Text: *line.Error}
	case len(line.OK) == 0:
		return a.breach(fmt.Sprintf("the adapter's answer to %s has neither ok nor error nor unsupported", r.Do))
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(line.OK, into); err != nil {
		return a.breach(fmt.Sprintf("the adapter's answer to %s cannot be read: %s: %s", r.Do, misread(err), a.shown(line.OK)))
	}
	return nil
}

// exited is the error of a request that met the end of the process.
func (a *Adapter) exited(verb string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fault != nil {
		return a.fault
	}
	return &ExitedError{Verb: verb, Status: a.Status(), Ready: a.ready, Log: lastWords(a.log)}
}

// telling is in the lines that say what a process died of, in most languages.
var telling = regexp.MustCompile(`(?i)error|exception|panic|fatal|cannot|not found`)

// lastWords picks the line that tells what a process died of: the last one that names an error and
// is no part of a stack trace, else the last one.
func lastWords(log []string) string {
	last := ""
	for _, line := range slices.Backward(log) {
		trimmed := strings.TrimSpace(line)
		if trimmed == "" {
			continue
		}
		if last == "" {
			last = trimmed
		}
		if line[0] != ' ' && line[0] != '\t' && !strings.HasPrefix(line, "·") && telling.MatchString(line) {
			return trimmed
		}
	}
	return last
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
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		_ = a.breach(fmt.Sprintf("the adapter printed a line of more than %d MiB", maxLine>>20))
	case err != nil:
		_ = a.breach(fmt.Sprintf("the adapter's output cannot be read: %v", err))
	default:
		a.closedStdout()
		return
	}
	_, _ = io.Copy(io.Discard, r) // so that it does not block on a full pipe
}

// closedStdout tells an adapter that can say nothing any more from one that ends.
func (a *Adapter) closedStdout() {
	gone := time.NewTimer(dying)
	defer gone.Stop()
	select {
	case <-a.process.Done():
	case <-a.ending:
	case <-gone.C:
		_ = a.breach("the adapter closed its stdout and runs on: it can answer nothing")
	}
}

func (a *Adapter) take(raw []byte) {
	var line protocol.Line
	if err := json.Unmarshal(raw, &line); err != nil || raw[0] != '{' {
		a.takeOther(raw, err)
		return
	}
	if line.Re == 0 {
		a.takeEvent(line.Event, raw)
		return
	}
	a.mu.Lock()
	verb, asked := a.verbs[line.Re]
	answer := a.answers[line.Re]
	again := a.answered[line.Re]
	if asked {
		a.answered[line.Re] = true
	}
	if asked && verb == protocol.DoInit && len(line.OK) > 0 {
		a.ready = true
	}
	a.mu.Unlock()
	switch {
	case !asked:
		_ = a.breach(fmt.Sprintf("the adapter answered request %d, which was never sent: %s", line.Re, a.shown(raw)))
	case again:
		_ = a.breach(fmt.Sprintf("the adapter answered request %d (%s) twice: %s", line.Re, verb, a.shown(raw)))
	case answer != nil:
		answer <- line
	}
}

// takeOther takes a line that is no message of the protocol: a breach before init is answered, and
// where it was meant as a message; else something that a library prints.
func (a *Adapter) takeOther(raw []byte, err error) {
	var object map[string]json.RawMessage
	isObject := raw[0] == '{' && json.Unmarshal(raw, &object) == nil
	var event string
	_ = json.Unmarshal(object["event"], &event)
	_, answers := object["re"]
	a.mu.Lock()
	ready := a.ready
	a.mu.Unlock()
	switch {
	case answers, slices.Contains([]string{protocol.EventDelivery, protocol.EventDiagnostic, protocol.EventConnection}, event):
		_ = a.breach(fmt.Sprintf("the adapter sent a message that cannot be read: %s: %s", misread(err), a.shown(raw)))
	case isObject:
		a.options.OnWarning("the adapter sent a line that is neither an answer nor an event: " + a.shown(raw))
	case ready:
		a.keep("(stdout) " + string(raw))
		a.options.OnWarning("the adapter printed a line that is no JSON object: " + a.shown(raw))
	default:
		_ = a.breach("the adapter printed a line that is no JSON object before it answered init: " + a.shown(raw))
	}
}

// misread says of a JSON error what is wrong, in the words of the protocol.
func misread(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Sprintf("its field %s must not be of the type %s", strings.TrimPrefix(wrong.Field, "Event."), wrong.Value)
	}
	return err.Error()
}

func (a *Adapter) takeEvent(e protocol.Event, raw []byte) {
	switch e.Event {
	case "":
		a.options.OnWarning("the adapter sent a line that is neither an answer nor an event: " + a.shown(raw))
		return
	case protocol.EventDelivery:
		a.mu.Lock()
		again := a.numbers[e.N]
		a.numbers[e.N] = true
		a.mu.Unlock()
		// A settle names a delivery by its number and by nothing else.
		if e.N < 1 {
			_ = a.breach("the adapter sent a delivery without a number n of 1 or more: " + a.shown(raw))
			return
		}
		if again {
			_ = a.breach(fmt.Sprintf("the adapter gave the number %d to two deliveries: %s", e.N, a.shown(raw)))
			return
		}
	}
	a.options.OnEvent(e)
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
	a.log = append(a.log, a.shown([]byte(line)))
	if len(a.log) > logLines {
		a.log = slices.Delete(a.log, 0, len(a.log)-logLines)
	}
}

// shown is a line cut to what fits a message, without passwords and control characters.
func (a *Adapter) shown(raw []byte) string {
	if len(raw) > hiddenLength {
		raw = raw[:hiddenLength]
	}
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '·'
		}
		return r
	}, a.options.Hide(strings.ToValidUTF8(string(raw), "·")))
	if len(text) > shownLength {
		text = strings.ToValidUTF8(text[:shownLength], "") + "…"
	}
	return text
}
