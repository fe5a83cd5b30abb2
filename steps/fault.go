package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parkproof/parkproof/scenarios/ledger"
	"github.com/parkproof/parkproof/toxics"
	"github.com/parkproof/parkproof/toxics/frame"
)

// point is how cases name a point on the wire: which occurrence, of what, of which message, where, on
// which connection.
const point = `(?:the )?((?:(?:first|second|third|\d+(?:st|nd|rd|th)|every) )?` +
	`(?:publish|confirm|refusal|return|delivery|ack|nack|[a-z]+\.[a-z-]+)s?` +
	`(?: of (?:(?:a copy of|the retry copy of|the parked copy of) )?"[^"]*")?` +
	`(?: (?:to|on|from) "[^"]*")?(?: on the (?:consuming|publishing) connection)?)`

func (w *World) faultSteps(s Words) {
	s.Step(`^the connection is cut (before|after|inside) `+point+`$`, func(how, at string) error {
		action := map[string]toxics.Action{"before": toxics.CutBefore, "after": toxics.CutAfter, "inside": toxics.CutAfter}[how]
		return w.arm("the connection is cut "+how, at, toxics.Fault{Action: action, Trigger: toxics.Trigger{Inside: how == "inside"}})
	})
	s.Step(`^the connection is cut at `+point+`, unseen by its sender$`, func(at string) error {
		return w.arm("the connection is cut, unseen by its sender, at", at, toxics.Fault{Action: toxics.CutUnseen})
	})
	s.Step(`^`+point+` is held$`, func(at string) error { return w.arm("held", at, toxics.Fault{Action: toxics.Hold}) })
	s.Step(`^`+point+` is dropped$`, func(at string) error { return w.arm("dropped", at, toxics.Fault{Action: toxics.Drop}) })
	s.Step(`^`+point+` is delayed by (\w+)$`, func(at, by string) error {
		d, err := time.ParseDuration(by)
		if err != nil {
			return fmt.Errorf("the delay %q cannot be read: %w", by, err)
		}
		return w.arm("delayed by "+by, at, toxics.Fault{Action: toxics.Delay, For: d})
	})
	s.Step(`^what is held is released$`, w.releaseHeld)
	s.Step(`^the consumer's process is (killed|paused) (at|inside) `+point+`$`, w.stopAt)
	s.Step(`^the consumer's process is killed$`, w.killNow)
	s.Step(`^the consumer's process is paused$`, w.pauseNow)
	s.Step(`^the consumer's process goes on$`, w.resumeNow)
	s.Step(`^the fault has fired$`, w.haveFired)
	s.Step(`^the fault has fired (once|twice|\d+ times)$`, w.haveFiredTimes)
}

// faultsOf are the faults of the process of that name, which may start later.
func (w *World) faultsOf(process string) *toxics.Faults {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.faults[process] == nil {
		w.faults[process] = toxics.NewFaults()
	}
	return w.faults[process]
}

// firing is a fault of the case, which has to fire for the case to say anything.
type firing struct {
	text    string
	fired   func() int
	release func()
}

// arm puts a fault into force at a point.
func (w *World) arm(what, at string, f toxics.Fault) error {
	trigger, err := w.trigger(at)
	if err != nil {
		return err
	}
	trigger.Inside = f.Trigger.Inside
	f.Trigger, f.Text = trigger, what
	if err := f.Check(); err != nil {
		return err
	}
	armed := w.faultsOf(defaultProcess).Arm(f)
	w.watch(firing{text: what + " the " + at, fired: armed.Fired, release: armed.Release})
	return nil
}

// watch keeps a fault in mind: a case whose fault has never fired has shown nothing.
func (w *World) watch(f firing) {
	w.mu.Lock()
	w.firings = append(w.firings, f)
	w.mu.Unlock()
	w.finally(func() error {
		if f.fired() == 0 {
			return &Unknown{Why: "the fault never fired: " + f.text}
		}
		return nil
	})
}

// sighted reads a point.
type sighted struct {
	occurrence        int
	what, copy, place string
	message           string
	role              ledger.Role
}

// methodsOf are the methods, and who sends them, that a case's words for a point mean.
var methodsOf = map[string]struct {
	method     string
	fromBroker bool
}{
	"publish": {"basic.publish", false}, "confirm": {"basic.ack", true}, "refusal": {"basic.nack", true},
	"return": {"basic.return", true}, "delivery": {"basic.deliver", true}, "ack": {"basic.ack", false},
	"nack": {"basic.nack", false},
}

// readPoint reads a point's words.
func readPoint(text string) (sighted, error) {
	s := sighted{occurrence: 1}
	rest := strings.TrimPrefix(text, "the ")
	if word, more, _ := strings.Cut(rest, " "); more != "" || word != "" {
		switch n := strings.TrimRight(word, "stndrh"); {
		case word == "every":
			s.occurrence, rest = 0, more
		case slices.Contains([]string{"first", "second", "third"}, word):
			s.occurrence, rest = slices.Index([]string{"first", "second", "third"}, word)+1, more
		case n != word && n != "" && strings.Trim(n, "0123456789") == "":
			s.occurrence, _ = strconv.Atoi(n)
			rest = more
		}
	}
	for _, role := range []struct {
		words string
		role  ledger.Role
	}{{" on the consuming connection", ledger.RoleConsuming}, {" on the publishing connection", ledger.RolePublishing}} {
		if cut, ok := strings.CutSuffix(rest, role.words); ok {
			rest, s.role = cut, role.role
		}
	}
	word, rest, _ := strings.Cut(rest, " ")
	s.what = word
	for rest != "" {
		keyword, more, _ := strings.Cut(rest, " ")
		if keyword == "of" {
			for _, kind := range []string{"a copy of", "the retry copy of", "the parked copy of"} {
				if after, ok := strings.CutPrefix(more, kind+" "); ok {
					s.copy, more = kind, after
				}
			}
		}
		quoted, err := strconv.QuotedPrefix(more)
		if err != nil {
			return s, fmt.Errorf("the point %q cannot be read after %q", text, keyword)
		}
		name, _ := strconv.Unquote(quoted)
		if keyword == "of" {
			s.message = name
		} else {
			s.place = name
		}
		rest = strings.TrimPrefix(more[len(quoted):], " ")
	}
	if _, known := methodsOf[s.what]; !known && frame.NewMethod(s.what) == nil {
		return s, fmt.Errorf("the point %q names the method %q, which AMQP 0-9-1 does not have", text, s.what)
	}
	return s, nil
}

// trigger is the trigger that a case's words for a point mean.
func (w *World) trigger(text string) (toxics.Trigger, error) {
	s, err := readPoint(text)
	if err != nil {
		return toxics.Trigger{}, err
	}
	t := toxics.Trigger{Role: s.role, Message: s.message, Occurrence: s.occurrence}
	if m, named := methodsOf[s.what]; named {
		t.Method, t.FromBroker = m.method, m.fromBroker
	} else {
		t.Method, t.FromBroker = s.what, frame.FromBroker(s.what)
	}
	if s.place == "" && s.copy == "" {
		return t, nil // a command without a message or a queue fits too
	}
	place := w.physical(s.place)
	t.Where = func(target ledger.Target) bool {
		if s.place != "" && target.Queue != place && target.Exchange != place && !(target.Exchange == "" && target.Key == place) {
			return false
		}
		switch s.copy {
		case "the parked copy of":
			return w.goesToParking(target)
		case "the retry copy of":
			return !w.goesToParking(target)
		}
		return true
	}
	return t, nil
}

// goesToParking reports whether a publish goes to a parking queue.
func (w *World) goesToParking(t ledger.Target) bool {
	conv := w.conventions()
	if t.Exchange == "" {
		return conv.isParkedQueue(t.Key)
	}
	parks := false
	w.look(func(b *ledger.Book) bool {
		parks = slices.ContainsFunc(b.Topology.Route(t.Exchange, t.Key, nil), conv.isParkedQueue)
		return true
	})
	return parks
}

// stopAt kills or pauses the process at a point, or in the middle of a content.
func (w *World) stopAt(what, how, at string) error {
	f := toxics.Fault{Action: toxics.Stop, Trigger: toxics.Trigger{Inside: how == "inside"}}
	f.Act = func() bool {
		p := w.theProcess()
		if p == nil {
			return false
		}
		if what == "paused" {
			_ = p.pause()
			return false
		}
		return p.kill() == nil
	}
	return w.arm("the consumer's process is "+what+" "+how, at, f)
}

// theProcess is the process that cases mean where they name none; nil before it is started.
func (w *World) theProcess() *consumerProcess {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.processes[defaultProcess]
}

// fired writes down that the case itself broke something.
func (w *World) fired(text string) {
	w.Ledger.Add(ledger.Event{Kind: ledger.Fired, Text: text})
}

var errNoProcess = errors.New("the consumer's process has not been started")

func (w *World) killNow() error {
	p := w.theProcess()
	if p == nil {
		return errNoProcess
	}
	w.fired("the consumer's process is killed")
	if err := p.kill(); err != nil {
		return err
	}
	w.mu.Lock()
	supervised := w.supervised
	wire := p.wire
	p.ended = !supervised
	w.mu.Unlock()
	if supervised {
		return nil
	}
	return wire.Close()
}

func (p *consumerProcess) pause() error {
	p.world.mu.Lock()
	a := p.adapter
	p.paused = true
	p.world.mu.Unlock()
	if err := a.Pause(); err != nil {
		return fmt.Errorf("pausing the consumer's process: %w", err)
	}
	return nil
}

func (p *consumerProcess) resume() error {
	p.world.mu.Lock()
	a, paused := p.adapter, p.paused
	p.paused = false
	p.world.mu.Unlock()
	if !paused {
		return nil
	}
	if err := a.Resume(); err != nil && !p.gone() {
		return fmt.Errorf("letting the consumer's process go on: %w", err)
	}
	return nil
}

func (w *World) pauseNow() error {
	p := w.theProcess()
	if p == nil {
		return errNoProcess
	}
	w.fired("the consumer's process is paused")
	return p.pause()
}

func (w *World) resumeNow() error {
	p := w.theProcess()
	if p == nil {
		return errNoProcess
	}
	return p.resume()
}

func (w *World) releaseHeld() error {
	w.mu.Lock()
	firings := slices.Clone(w.firings)
	w.mu.Unlock()
	for _, f := range firings {
		if f.release != nil {
			f.release()
		}
	}
	return nil
}

func (w *World) allFirings() []firing {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.firings)
}

// haveFired waits until every fault of the case so far has fired: what follows speaks of what it broke.
func (w *World) haveFired(ctx context.Context) error {
	missing := ""
	all := func(*ledger.Book) bool {
		missing = ""
		for _, f := range w.allFirings() {
			if f.fired() == 0 {
				missing = f.text
			}
		}
		return missing == ""
	}
	if len(w.allFirings()) == 0 {
		return errors.New("no fault has been set before")
	}
	if !w.eventually(ctx, all) {
		return &Unknown{Why: "the fault never fired: " + missing}
	}
	return nil
}

func (w *World) haveFiredTimes(ctx context.Context, count string) error {
	want, err := parseCount(count)
	if err != nil {
		return err
	}
	got := 0
	enough := func(*ledger.Book) bool {
		got = 0
		for _, f := range w.allFirings() {
			got += f.fired()
		}
		return got >= want
	}
	if !w.eventually(ctx, enough) {
		return &Unknown{Why: fmt.Sprintf("the faults fired %s, and not %s", times(got), count)}
	}
	return nil
}

// heal ends all faults.
func (w *World) heal() error {
	w.mu.Lock()
	var all []*toxics.Faults
	for _, f := range w.faults {
		all = append(all, f)
	}
	w.mu.Unlock()
	for _, f := range all {
		f.Heal()
	}
	for _, p := range w.allProcesses() {
		if err := p.resume(); err != nil {
			return err
		}
	}
	return nil
}
