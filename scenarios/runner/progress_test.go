package runner

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parkproof/parkproof/reports"
)

// fakeClock is a clock that a test moves.
type fakeClock struct {
	mu    sync.Mutex
	at    time.Time
	ticks chan time.Time
}

func newFakeClock() *fakeClock {
	return &fakeClock{at: time.Unix(1_700_000_000, 0), ticks: make(chan time.Time)}
}

func (f *fakeClock) clock() clock {
	return clock{
		now: func() time.Time {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.at
		},
		every: func(time.Duration) (<-chan time.Time, func()) { return f.ticks, func() {} },
	}
}

// pass lets time pass and a tick come, and returns when the tick has been dealt with.
func (f *fakeClock) pass(d time.Duration) {
	f.mu.Lock()
	f.at = f.at.Add(d)
	f.mu.Unlock()
	// The second tick is taken only after the first is done, and finds nothing to do.
	f.ticks <- time.Time{}
	f.ticks <- time.Time{}
}

// screen is a terminal with as much of ECMA-48 as the bar needs. Anything else is an error.
type screen struct {
	t             *testing.T
	width, height int
	rows          [][]rune // scrollback and screen
	row, col      int
	noWrap        bool
	hidden        bool
	writes        []string
}

func newScreen(t *testing.T, width, height int) *screen {
	return &screen{t: t, width: width, height: height, rows: [][]rune{nil}}
}

var control = regexp.MustCompile(`^\x1b\[(\??)(\d*)([A-Za-z])`)

func (s *screen) Write(p []byte) (int, error) {
	text := string(p)
	s.writes = append(s.writes, text)
	for text != "" {
		if m := control.FindStringSubmatch(text); m != nil {
			s.control(m[1]+m[3], m[2])
			text = text[len(m[0]):]
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		switch {
		case r == '\r':
			s.col = 0
		case r == '\n':
			s.down()
		case r < ' ' || r >= 0x7f && r < 0xa0:
			s.t.Errorf("control character %q reached the terminal", r)
		default:
			s.put(r)
		}
	}
	return len(p), nil
}

func (s *screen) control(what, arg string) {
	n, _ := strconv.Atoi(arg)
	switch what {
	case "A":
		s.row = max(s.row-max(n, 1), len(s.rows)-s.height, 0)
	case "K":
		s.cut()
	case "J":
		s.cut()
		s.rows = s.rows[:s.row+1]
	case "m":
	case "?h", "?l":
		switch n {
		case 25:
			s.hidden = what == "?l"
		case 7:
			s.noWrap = what == "?l"
		case 2026:
		default:
			s.t.Errorf("unknown mode %d", n)
		}
	default:
		s.t.Errorf("unknown control sequence %q", what)
	}
}

func (s *screen) cut() {
	if s.col < len(s.rows[s.row]) {
		s.rows[s.row] = s.rows[s.row][:s.col]
	}
}

func (s *screen) down() {
	s.row++
	if s.row == len(s.rows) {
		s.rows = append(s.rows, nil)
	}
}

func (s *screen) put(r rune) {
	if s.col == s.width {
		if s.noWrap {
			s.col--
		} else {
			s.down()
			s.col = 0
		}
	}
	line := s.rows[s.row]
	for len(line) <= s.col {
		line = append(line, ' ')
	}
	line[s.col] = r
	s.rows[s.row] = line
	s.col++
}

func (s *screen) String() string {
	var b strings.Builder
	for _, r := range s.rows {
		b.WriteString(strings.TrimRight(string(r), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (s *screen) want(want string) {
	s.t.Helper()
	if got := s.String(); got != want {
		s.t.Errorf("the screen shows:\n%swant:\n%s", got, want)
	}
}

func (s *screen) columns() int { return s.width }

func ended(id, name, broker string, v reports.Verdict, seconds float64) reports.Case {
	return reports.Case{ID: id, Name: name, Broker: broker, Verdict: v, Seconds: seconds}
}

func TestTerminal(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, c := newScreen(t, 60, 24), newFakeClock()
	p := newTerminal(s, s.columns, c.clock())
	p.Line("starting the broker local")
	p.Begin(4)
	if !s.hidden {
		t.Error("the cursor is not hidden")
	}
	p.CaseStarted("RTY-001", "One failure, one retry", "local")
	p.CaseStarted("RTY-004", "Four attempts make three retries, and a long name", "local")
	c.pass(1500 * time.Millisecond)
	s.want(`starting the broker local
[--------------------]  0/4  1.5s
  RTY-001  One failure, one retry             local    1.5s
  RTY-004  Four attempts make three retries…  local    1.5s
`)

	failed := ended("RTY-001", "One failure, one retry", "local", reports.Failed, 1.51)
	failed.Guarantee, failed.Reason = "nothing is lost", "m1 has no fate"
	p.CaseEnded(failed)
	at := `starting the broker local
FAILED RTY-001  One failure, one retry  local  1.51s
     nothing is lost: m1 has no fate
[#####---------------]  1/4  1.5s  1 failed
  RTY-004  Four attempts make three retries…  local    1.5s
`
	s.want(at)
	p.CaseEnded(ended("RTY-004", "Four attempts make three retries, and a long name", "local", reports.Passed, 2))
	p.CaseEnded(ended("RTY-005", "Never started", "local", reports.NotApplicable, 0))
	s.want(at) // what passes is shown at the next drawing
	c.pass(redrawEvery)
	s.want(`starting the broker local
FAILED RTY-001  One failure, one retry  local  1.51s
     nothing is lost: m1 has no fate
[###############-----]  3/4  1.6s  1 passed  1 failed
`)
	p.End()
	p.End()
	p.Line("done")
	s.want(`starting the broker local
FAILED RTY-001  One failure, one retry  local  1.51s
     nothing is lost: m1 has no fate
[###############-----]  3/4  1.6s  1 passed  1 failed
done
`)
	if s.hidden || s.noWrap {
		t.Error("the terminal was not put back")
	}
}

func TestTerminalHasEightLinesAtMost(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, c := newScreen(t, 80, 24), newFakeClock()
	p := newTerminal(s, s.columns, c.clock())
	p.Begin(12)
	defer p.End()
	for i := range 12 {
		p.CaseStarted(fmt.Sprintf("RTY-%03d", i), "A case", "local")
		c.pass(redrawEvery)
		want := min(i+2, mostLines)
		if got := strings.Count(s.String(), "\n"); got != want {
			t.Fatalf("with %d running the bar has %d lines, want %d:\n%s", i+1, got, want, s)
		}
	}
	if got := s.String(); !strings.HasSuffix(got, "  RTY-005  A case  local    0.7s\n  and 6 more\n") {
		t.Errorf("the bar ends differently:\n%s", got)
	}
	for i := range 11 {
		p.CaseEnded(ended(fmt.Sprintf("RTY-%03d", i), "A case", "local", reports.Passed, 1))
	}
	c.pass(redrawEvery)
	s.want("[##################--]  11/12  1.3s  11 passed\n  RTY-011  A case  local    0.2s\n")
}

func TestTerminalDrawsTenTimesASecondAtMost(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, c := newScreen(t, 80, 24), newFakeClock()
	p := newTerminal(s, s.columns, c.clock())
	p.Begin(100)
	defer p.End()
	before := len(s.writes)
	for i := range 100 {
		id := strconv.Itoa(i)
		p.CaseStarted(id, "A case", "local")
		p.CaseEnded(ended(id, "A case", "local", reports.Passed, 1))
		c.pass(10 * time.Millisecond)
	}
	if got := len(s.writes) - before; got != 10 {
		t.Errorf("drawn %d times in a second, want 10", got)
	}
}

func TestTerminalDrawsInOneWriteAndLeavesNothingBlank(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, c := newScreen(t, 80, 24), newFakeClock()
	p := newTerminal(s, s.columns, c.clock())
	p.Begin(2)
	p.CaseStarted("RTY-001", "A case", "local")
	c.pass(redrawEvery)
	c.pass(redrawEvery)
	last := s.writes[len(s.writes)-1]
	if want := "\x1b[?2026h\r\x1b[1A\x1b[?7l[--------------------]  0/2  0.2s\x1b[K\r\n" +
		"  RTY-001  A case  local    0.2s\x1b[K\x1b[J\x1b[?7h\x1b[?2026l"; last != want {
		t.Errorf("wrote %q, want %q", last, want)
	}
	p.End()
}

func TestTerminalKeepsLinesThatScrollAway(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, c := newScreen(t, 50, 10), newFakeClock()
	p := newTerminal(s, s.columns, c.clock())
	p.Begin(9)
	for i := range 5 {
		p.CaseStarted(strconv.Itoa(i), "A case", "local")
	}
	c.pass(redrawEvery)
	var want strings.Builder
	for i := range 30 {
		line := fmt.Sprintf("line %d%s", i, strings.Repeat("x", i*3)) // the later ones wrap
		p.Line(line)
		for len(line) > s.width {
			want.WriteString(line[:s.width] + "\n")
			line = line[s.width:]
		}
		want.WriteString(line + "\n")
		c.pass(redrawEvery)
	}
	p.End()
	s.want(want.String() + "[--------------------]  0/9  3.1s\n")
}

func TestTerminalFitsNarrowWindows(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, width := range []int{1, 2, 10, 20, 39, 40, 41, 60} {
		s, c := newScreen(t, width, 24), newFakeClock()
		p := newTerminal(s, s.columns, c.clock())
		p.Begin(2)
		p.CaseStarted("RTY-001", "A case with a long name", "local")
		c.pass(redrawEvery)
		for _, row := range s.rows {
			if len(row) >= width && width > 1 {
				t.Errorf("width %d: a line fills it: %q", width, string(row))
			}
		}
		if len(s.rows) != 2 {
			t.Errorf("width %d: %d lines:\n%s", width, len(s.rows), s)
		}
		p.End()
	}
}

func TestTerminalWithoutAWidth(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, c := newScreen(t, 80, 24), newFakeClock()
	p := newTerminal(s, func() int { return 0 }, c.clock())
	p.Begin(1)
	p.End()
	s.want("[--------------------]  0/1  0.0s\n")
}

func TestTerminalStripsWhatComesFromOutside(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, c := newScreen(t, 90, 24), newFakeClock()
	p := newTerminal(s, s.columns, c.clock()) // the screen reports unknown sequences
	p.Begin(1)
	p.CaseStarted("X\x1b[2J", "na\x07me\n", "lo\x1b]0;t\acal")
	c.pass(redrawEvery)
	bad := ended("X\x1b[2J", "na\x07me\n", "lo\x1b]0;t\acal", reports.Broken, 1)
	bad.Try, bad.Reason = 1, "amqp://u:secret@h\x1b[1m\nsecond"
	p.CaseEnded(bad)
	p.Line("\x1b[5mblink\nsecond")
	p.End()
	s.want("BROKEN X  na�me  local  1.00s\n     amqp://u:***@h second\nblink\nsecond\n[####################]  1/1  0.1s  1 broken\n")
}

func TestTerminalColors(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, c := newScreen(t, 80, 24), newFakeClock()
	p := newTerminal(s, s.columns, c.clock())
	p.Color = true
	p.Begin(2)
	p.CaseEnded(ended("A", "a", "local", reports.Passed, 1))
	p.CaseEnded(ended("B", "b", "local", reports.Failed, 1))
	p.End()
	text := strings.Join(s.writes, "")
	for _, want := range []string{"\x1b[31mFAILED B  b  local  1.00s\x1b[0m", "\x1b[32m1 passed\x1b[0m", "\x1b[31m1 failed\x1b[0m"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
}

func TestPlain(t *testing.T) {
	defer goleak.VerifyNone(t)
	var b strings.Builder
	c := newFakeClock()
	p := newPlain(&b, c.clock())
	p.Line("starting\x1b[2J the broker")
	p.Begin(5)
	p.CaseStarted("RTY-001", "One failure, one retry", "local")
	p.CaseStarted("RTY-004", "Four attempts", "4.3")
	c.pass(10 * time.Second)
	p.CaseEnded(ended("RTY-001", "One failure, one retry", "local", reports.Passed, 1.234))
	c.pass(14 * time.Second) // 24 s after the beginning, 14 after the last that ended
	c.pass(1 * time.Second)
	c.pass(14 * time.Second)
	c.pass(61 * time.Second)
	failed := ended("RTY-004", "Four attempts", "4.3", reports.Failed, 100)
	failed.Guarantee, failed.Reason = "nothing is lost", "m1 has no fate"
	p.CaseEnded(failed)
	skipped := ended("RPL-001", "A reply", "4.3", reports.Unsupported, 0)
	skipped.Reason = "needs replies"
	p.CaseEnded(skipped)
	c.pass(20 * time.Second)
	p.End()
	p.End()
	want := `starting the broker
ok   RTY-001  One failure, one retry  local  1.23s
...  after 25.0s, 1 of 5 cases ended; running RTY-004 on 4.3 for 25.0s
...  after 1m40s, 1 of 5 cases ended; running RTY-004 on 4.3 for 1m40s
FAILED RTY-004  Four attempts  4.3  100.00s
     nothing is lost: m1 has no fate
unsupported RPL-001  A reply  4.3  0.00s
     needs replies
...  after 2m00s, 3 of 5 cases ended; no case runs
`
	if got := b.String(); got != want {
		t.Errorf("wrote:\n%swant:\n%s", got, want)
	}
}

func TestPlainHeartbeatNamesSome(t *testing.T) {
	defer goleak.VerifyNone(t)
	var b strings.Builder
	c := newFakeClock()
	p := newPlain(&b, c.clock())
	p.Begin(20)
	for i := range 20 {
		p.CaseStarted(fmt.Sprintf("RTY-%03d", i), "A case", "local")
	}
	c.pass(heartbeatEvery)
	p.End()
	if got := b.String(); !strings.HasSuffix(got, "RTY-007 on local for 15.0s, and 12 more\n") || strings.Count(got, "RTY-") != heartbeatNames {
		t.Errorf("wrote %q", got)
	}
}

func TestACaseThatIsTriedAgainBeginsAnew(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, c := newScreen(t, 80, 24), newFakeClock()
	p := newTerminal(s, s.columns, c.clock())
	p.Begin(1)
	p.CaseStarted("A", "a", "local")
	c.pass(5 * time.Second)
	p.CaseStarted("A", "a", "local")
	c.pass(1 * time.Second)
	s.want("[--------------------]  0/1  6.0s\n  A  a  local    1.0s\n")
	p.End()
}

func TestProgressIsSafeForConcurrentUse(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, p := range map[string]Progress{
		"terminal": NewTerminal(io.Discard, func() int { return 80 }),
		"plain":    NewPlain(io.Discard),
	} {
		t.Run(name, func(*testing.T) {
			p.Begin(200)
			var wg sync.WaitGroup
			for i := range 200 {
				wg.Go(func() {
					id := strconv.Itoa(i)
					p.CaseStarted(id, "A case", "local")
					p.Line("a line")
					p.CaseEnded(ended(id, "A case", "local", reports.Verdicts()[i%len(reports.Verdicts())], 1))
				})
			}
			wg.Go(p.End)
			wg.Wait()
			p.End()
		})
	}
}

func TestProgressForAFileIsPlain(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, ok := ProgressFor(f).(*Plain); !ok {
		t.Error("a file was given a bar")
	}
}
