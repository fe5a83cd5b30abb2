package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

// watched is an adapter with what it told.
type watched struct {
	*Adapter
	mu       sync.Mutex
	events   []protocol.Event
	warnings []string
	heard    chan struct{} // gets a value for each of them
}

const secretURL = "amqp://user:s3cr%2Ft-pa55@127.0.0.1:5672/"

func start(t *testing.T, behaviour string) *watched {
	t.Helper()
	w := &watched{heard: make(chan struct{}, 1000)}
	a, err := Start(within(t, 30*time.Second), Options{
		Command: []string{os.Args[0]}, URL: secretURL, Env: []string{behaviourVariable + "=" + behaviour},
		OnEvent: func(e protocol.Event) {
			w.mu.Lock()
			w.events = append(w.events, e)
			w.mu.Unlock()
			w.heard <- struct{}{}
		},
		OnWarning: func(text string) {
			w.mu.Lock()
			w.warnings = append(w.warnings, text)
			w.mu.Unlock()
			w.heard <- struct{}{}
		},
		Hide: func(text string) string {
			return strings.NewReplacer("s3cr%2Ft-pa55", "***", "s3cr/t-pa55", "***").Replace(text)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Adapter = a
	t.Cleanup(func() {
		if err := a.Kill(within(t, 10*time.Second)); err != nil {
			t.Error(err)
		}
		<-a.Exited()
	})
	return w
}

func within(t testing.TB, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// hear waits for so many events and warnings.
func (w *watched) hear(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-w.heard:
		case <-time.After(10 * time.Second):
			t.Fatal("the adapter told nothing more")
		}
	}
}

// fault waits until a breach of the protocol was noticed.
func (w *watched) faulty(t *testing.T) error {
	t.Helper()
	select {
	case <-w.broken:
		return w.Fault()
	case <-time.After(20 * time.Second):
		t.Fatal("no breach was noticed")
		return nil
	}
}

// life asks what a case asks, and returns the first error: init, consume, and, where there is none,
// the breach that the adapter commits unasked.
func (w *watched) life(t *testing.T, limit time.Duration) error {
	t.Helper()
	if _, err := w.Init(within(t, limit), protocol.Request{Case: "TST-001"}); err != nil {
		return err
	}
	if _, err := w.Consume(within(t, limit), protocol.Request{Consumer: "worker", Queue: "jobs"}); err != nil {
		return err
	}
	return w.faulty(t)
}

func TestAGoodAdapter(t *testing.T) {
	t.Parallel()
	w := start(t, "good")
	ready, err := w.Init(within(t, 20*time.Second), protocol.Request{Case: "TST-001"})
	if err != nil || ready.Name != "fake" || ready.Version != "1" || !slices.Equal(ready.Supports, []string{"retry"}) {
		t.Fatalf("%+v, %v", ready, err)
	}
	consumed, err := w.Consume(within(t, 20*time.Second), protocol.Request{Consumer: "worker", Queue: "jobs"})
	if err != nil || consumed.Queue != "jobs" {
		t.Fatalf("%+v, %v", consumed, err)
	}
	w.hear(t, 2)
	if err := w.Settle(within(t, 20*time.Second), protocol.Request{N: 1, Verdict: protocol.VerdictPark}); err != nil {
		t.Fatal(err)
	}
	w.hear(t, 1)
	w.mu.Lock()
	events := w.events
	w.mu.Unlock()
	if events[0].State != "up" || events[1].N != 1 || events[1].Message != "m1" || events[2].Text != "1 park" {
		t.Errorf("%+v", events)
	}
	if err := w.Stop(within(t, 20*time.Second), "worker"); err != nil {
		t.Error(err)
	}
	if err := w.Close(within(t, 20*time.Second), true); err != nil {
		t.Error(err)
	}
	if w.Status() != "" {
		t.Errorf("it has ended: %s", w.Status())
	}
	if err := w.End(within(t, 20*time.Second), 10*time.Second); err != nil {
		t.Error(err)
	}
	if w.Status() != "exited with code 0" || w.Fault() != nil {
		t.Errorf("%q, %v", w.Status(), w.Fault())
	}
	if err := w.End(within(t, time.Second), time.Second); err != nil {
		t.Errorf("ended twice: %v", err)
	}
}

// TestBreaches has every way to break the protocol: each is one clear line and a BrokenError.
func TestBreaches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		behaviour string
		says      []string
	}{
		{"banner", []string{"no JSON object before it answered init", "Welcome to library 1.0!"}},
		{"partial", []string{"no JSON object before it answered init", `{"re":1,"ok":{"na`}},
		{"long", []string{"no JSON object before it answered init", "xxx…"}},
		{"endless", []string{"a line of more than 64 MiB"}},
		{"binary", []string{"no JSON object before it answered init", "·[31m"}},
		{"number", []string{"no JSON object before it answered init", ": 42"}},
		{"twice", []string{"answered request 1 (init) twice", "again"}},
		{"unknown id", []string{"answered request 99, which was never sent"}},
		{"negative id", []string{"answered request -1, which was never sent"}},
		{"id as text", []string{"a message that cannot be read", "its field re must not be of the type string"}},
		{"supports text", []string{"answer to init cannot be read", "its field supports must not be of the type string"}},
		{"name number", []string{"answer to init cannot be read", "its field name must not be of the type number"}},
		{"error object", []string{"a message that cannot be read", "its field error must not be of the type object"}},
		{"event number", []string{"a message that cannot be read", "its field n must not be of the type string"}},
		{"no name", []string{"answer to init has no name"}},
		{"nothing", []string{"answer to init has neither ok nor error nor unsupported"}},
		{"null", []string{"answer to init has no name"}},
		{"no queue", []string{"answer to consume names no queue"}},
		{"closes stdout", []string{"closed its stdout and runs on"}},
		{"closes stdin", []string{"closed its stdin and runs on: it cannot be asked to consume"}},
		{"number again", []string{"gave the number 5 to two deliveries"}},
		{"no number", []string{"a delivery without a number n"}},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			w := start(t, tt.behaviour)
			err := w.life(t, 30*time.Second)
			checkLine(t, err, tt.says...)
			if !errors.Is(w.Fault(), err) {
				t.Errorf("the fault is %v", w.Fault())
			}
			// Whoever asks later learns of the same breach.
			if again := w.Ask(within(t, 10*time.Second), protocol.Request{Do: protocol.DoClose}); !errors.Is(again, err) {
				t.Errorf("asked again: %v", again)
			}
		})
	}
}

// checkLine checks that an error is one short line that says this, and that it is the adapter's.
func checkLine(t *testing.T, err error, says ...string) {
	t.Helper()
	var broken *BrokenError
	if !errors.As(err, &broken) {
		t.Fatalf("%T: %v", err, err)
	}
	text := err.Error()
	for _, part := range says {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
	if strings.ContainsAny(text, "\n\r\x1b\x00") || len(text) > 500 {
		t.Errorf("%q is no short line", text)
	}
}

func TestAdaptersThatDoNotAnswerInTime(t *testing.T) {
	t.Parallel()
	for _, behaviour := range []string{"never", "partial and lives"} {
		w := start(t, behaviour)
		began := time.Now()
		_, err := w.Init(within(t, 300*time.Millisecond), protocol.Request{})
		checkLine(t, err, "did not answer init in time")
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
	}
}

func TestASlowAdapterIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := start(t, "slow")
	if _, err := w.Init(within(t, 20*time.Second), protocol.Request{}); err != nil {
		t.Error(err)
	}
	if _, err := w.Consume(within(t, 20*time.Second), protocol.Request{}); err != nil {
		t.Error(err)
	}
}

func TestAnswersInAnyOrder(t *testing.T) {
	t.Parallel()
	w := start(t, "out of order")
	if _, err := w.Init(within(t, 20*time.Second), protocol.Request{}); err != nil {
		t.Fatal(err)
	}
	var asking sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		asking.Go(func() {
			c, err := w.Consume(within(t, 20*time.Second), protocol.Request{Consumer: name})
			if err != nil || c.Queue != name {
				t.Errorf("%s: %+v, %v", name, c, err)
			}
		})
	}
	asking.Wait()
}

func TestAdaptersThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	plain := filepath.Join(folder, "adapter.mjs")
	orphan := filepath.Join(folder, "orphan")
	noProgram := filepath.Join(folder, "noise")
	for path, content := range map[string]struct {
		mode os.FileMode
		text string
	}{
		plain: {0o644, "#!/bin/sh\n"}, orphan: {0o755, "#!/does/not/exist\n"}, noProgram: {0o755, "\x01\x02\x03\x04"},
	} {
		if err := os.WriteFile(path, []byte(content.text), content.mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		command []string
		says    string
	}{
		{nil, "no adapter command was given"},
		{[]string{"/does/not/exist"}, "no such file"},
		{[]string{"no-such-program-anywhere"}, "no program of that name in PATH"},
		{[]string{plain}, "no permission to execute it"},
		{[]string{folder}, "it is a folder"},
		{[]string{orphan}, "its interpreter /does/not/exist is not there"},
		{[]string{noProgram}, "neither a program for this machine nor a script"},
	} {
		a, err := Start(within(t, 20*time.Second), Options{Command: tt.command})
		if a != nil {
			t.Errorf("%q was started", tt.command)
		}
		checkLine(t, err, tt.says)
	}
}

func TestAdaptersThatExit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		behaviour, verb, status, log string
		ready                        bool
	}{
		{"exit 0", "init", "exited with code 0", "", false},
		{"exit 3", "init", "exited with code 3", "the moon is full", false},
		{"module", "init", "exited with code 1", "Error [ERR_MODULE_NOT_FOUND]: no package 'amqplib'", false},
		{"dies in consume", "consume", "exited with code 2", "panic: it hurts", true},
	} {
		t.Run(tt.behaviour, func(t *testing.T) {
			t.Parallel()
			w := start(t, tt.behaviour)
			err := w.life(t, 20*time.Second)
			var exited *ExitedError
			if !errors.As(err, &exited) {
				t.Fatalf("%T: %v", err, err)
			}
			if exited.Verb != tt.verb || exited.Status != tt.status || exited.Log != tt.log || exited.Ready != tt.ready {
				t.Errorf("%+v", exited)
			}
			if w.Fault() != nil {
				t.Errorf("an exit is no breach: %v", w.Fault())
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			// It stays so for whoever asks later.
			if err := w.Close(within(t, 10*time.Second), true); !errors.As(err, &exited) {
				t.Errorf("asked again: %v", err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	_, err := start(t, "refuses").Init(within(t, 20*time.Second), protocol.Request{})
	var refused *RefusedError
	if !errors.As(err, &refused) || err.Error() != "the consumer could not init: the broker is away" {
		t.Errorf("%T: %v", err, err)
	}
	w := start(t, "incapable")
	if err := w.life(t, 20*time.Second); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "queues") {
		t.Errorf("%T: %v", err, err)
	}
}

func TestWhatIsPrintedAfterInitIsAWarning(t *testing.T) {
	t.Parallel()
	w := start(t, "prints")
	if _, err := w.Init(within(t, 20*time.Second), protocol.Request{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Consume(within(t, 20*time.Second), protocol.Request{}); err != nil {
		t.Fatal(err)
	}
	w.hear(t, 3)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, says := range []string{"no JSON object: connected!", "neither an answer nor an event", "neither an answer nor an event"} {
		if !strings.Contains(w.warnings[i], says) {
			t.Errorf("%q does not say %q", w.warnings[i], says)
		}
	}
	if w.Fault() != nil {
		t.Error(w.Fault())
	}
	if !slices.Contains(w.Log(), "(stdout) connected!") {
		t.Errorf("the log has not what was printed: %q", w.Log())
	}
}

func TestMegabytesOfLog(t *testing.T) {
	t.Parallel()
	w := start(t, "noise")
	if _, err := w.Init(within(t, 20*time.Second), protocol.Request{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(within(t, 20*time.Second), true); err != nil {
		t.Fatal(err)
	}
	if err := w.End(within(t, 20*time.Second), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	log := w.Log()
	if len(log) != logLines || log[len(log)-1] != "its end" {
		t.Errorf("%d lines, the last %q", len(log), log[len(log)-1])
	}
}

// TestASettleForAnAdapterThatDoesNotRead fills the pipe: whoever writes next must come back.
func TestASettleForAnAdapterThatDoesNotRead(t *testing.T) {
	t.Parallel()
	w := start(t, "does not read")
	if _, err := w.Init(within(t, 20*time.Second), protocol.Request{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Consume(within(t, 20*time.Second), protocol.Request{}); err != nil {
		t.Fatal(err)
	}
	settled := make(chan error, 1)
	go func() {
		settled <- w.Settle(context.Background(), protocol.Request{N: 1, Verdict: protocol.VerdictFail, Reason: strings.Repeat("r", 8<<20)})
	}()
	for deadline := time.Now().Add(10 * time.Second); len(w.turn) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the settle is not being written")
		}
	}
	checkLine(t, w.Close(within(t, 500*time.Millisecond), true), "does not read its stdin", "close could not be written in time")
	began := time.Now()
	if err := w.End(within(t, 20*time.Second), 200*time.Millisecond); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the end took %s", took)
	}
	select {
	case err := <-settled:
		if err == nil {
			t.Error("the settle was written")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the settle waits for ever")
	}
}

func TestASettleThatIsGivenUpIsABreach(t *testing.T) {
	t.Parallel()
	w := start(t, "does not read")
	if _, err := w.Init(within(t, 20*time.Second), protocol.Request{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Consume(within(t, 20*time.Second), protocol.Request{}); err != nil {
		t.Fatal(err)
	}
	err := w.Settle(within(t, 300*time.Millisecond), protocol.Request{N: 1, Reason: strings.Repeat("r", 8<<20)})
	checkLine(t, err, "does not read its stdin: settle")
	// Half a line was written: nothing can follow it.
	checkLine(t, w.Close(within(t, 10*time.Second), true), "does not read its stdin: settle")
}

func TestEndKillsWhatStays(t *testing.T) {
	t.Parallel()
	w := start(t, "stays")
	if _, err := w.Init(within(t, 20*time.Second), protocol.Request{}); err != nil {
		t.Fatal(err)
	}
	if err := w.End(within(t, 20*time.Second), 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if w.Status() != "ended by SIGKILL" {
		t.Errorf("%q", w.Status())
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	other := start(t, "stays")
	if err := other.End(gone, time.Hour); err != nil || other.Status() != "ended by SIGKILL" {
		t.Errorf("%v, %q", err, other.Status())
	}
}

func TestPasswordsAreHiddenBeforeLinesAreCut(t *testing.T) {
	t.Parallel()
	w := start(t, "secret")
	_, err := w.Init(within(t, 20*time.Second), protocol.Request{})
	checkLine(t, err, "printed amqp://user:***@")
	if err := w.End(within(t, 20*time.Second), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	log := strings.Join(w.Log(), "\n")
	if !strings.Contains(log, "amqp://us") || strings.Contains(log+err.Error(), "s3cr") {
		t.Errorf("%q, %v", log, err)
	}
}

func TestLastWords(t *testing.T) {
	for _, tt := range []struct {
		log  []string
		want string
	}{
		{nil, ""},
		{[]string{"one", "two", "", "  "}, "two"},
		{[]string{"Traceback (most recent call last):", `  File "a.py", line 1`, "ModuleNotFoundError: No module named 'pika'"}, "ModuleNotFoundError: No module named 'pika'"},
		{[]string{"panic: boom", "", "goroutine 1 [running]:", "·/x/main.go:3 error"}, "panic: boom"},
	} {
		if got := lastWords(tt.log); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.log, got, tt.want)
		}
	}
}

func TestRequestsAreWrittenAsTheyAreDocumented(t *testing.T) {
	line, err := json.Marshal(protocol.Request{Do: protocol.DoSettle, N: 7, Verdict: protocol.VerdictOK})
	if err != nil || string(line) != `{"do":"settle","n":7,"verdict":"ok"}` {
		t.Errorf("%s, %v", line, err)
	}
}
