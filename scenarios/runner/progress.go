package runner

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/parkproof/parkproof/reports"
)

// Progress shows a person how a run goes on. It is safe for concurrent use. Errors of writing are
// not reported: nobody sees what cannot be shown, and the run does not depend on it.
type Progress interface {
	// Line shows a message, before Begin and after End too.
	Line(text string)
	// Begin starts to show the progress of that many cases.
	Begin(total int)
	// CaseStarted says that a case runs now. A case that is tried again is started again, which
	// begins its time anew.
	CaseStarted(id, name, broker string)
	// CaseEnded says what a case came to. A case that never ran, because it does not apply, ends
	// without having been started.
	CaseEnded(c reports.Case)
	// End stops showing progress and puts the terminal back. It waits for the last output.
	End()
}

const (
	// redrawEvery is the least time between two drawings of the bar: ten a second.
	redrawEvery = 100 * time.Millisecond
	// mostLines is the height of the bar, in lines.
	mostLines = 8
	// barWidth is the width of the bar itself, in columns, where there is room.
	barWidth = 20
	// heartbeatEvery is how long nothing may end before Plain says what runs. CI systems end
	// jobs that are silent for minutes; people wonder sooner.
	heartbeatEvery = 15 * time.Second
	// heartbeatNames is how many running cases a heartbeat names.
	heartbeatNames = 8
	// defaultWidth is the width of a terminal that does not tell, in columns.
	defaultWidth = 80
)

// clock is where time comes from.
type clock struct {
	now func() time.Time
	// every sends about each period on ticks, until stop is called.
	every func(period time.Duration) (ticks <-chan time.Time, stop func())
}

// wallClock is the real time.
func wallClock() clock {
	return clock{now: time.Now, every: func(period time.Duration) (<-chan time.Time, func()) {
		t := time.NewTicker(period)
		return t.C, t.Stop
	}}
}

// ProgressFor is the progress that suits a file: a Terminal on a terminal, Plain elsewhere.
func ProgressFor(f *os.File) Progress {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) || os.Getenv("TERM") == "dumb" {
		return NewPlain(f)
	}
	t := NewTerminal(f, func() int {
		width, _, err := term.GetSize(fd)
		if err != nil {
			return 0
		}
		return width
	})
	t.Color = reports.StyleFor(f).Color
	return t
}

// runningCase is a case that runs.
type runningCase struct {
	id, name, broker string
	since            time.Time
}

// board is the state of a run that both kinds of progress show.
type board struct {
	total, ended int
	counts       map[reports.Verdict]int
	running      []runningCase // in the order in which they began
}

func (b *board) start(id, name, broker string, now time.Time) {
	b.drop(id, name, broker)
	b.running = append(b.running, runningCase{id, name, broker, now})
}

func (b *board) drop(id, name, broker string) {
	b.running = slices.DeleteFunc(b.running, func(r runningCase) bool {
		return r.id == id && r.name == name && r.broker == broker
	})
}

func (b *board) end(c *reports.Case) {
	b.drop(c.ID, c.Name, c.Broker)
	b.ended++
	if b.counts == nil {
		b.counts = map[reports.Verdict]int{}
	}
	b.counts[c.Verdict]++
}

// ticker calls what it is given about each period, in a goroutine of its own.
type ticker struct {
	quit chan struct{}
	done chan struct{}
}

func startTicker(c clock, period time.Duration, tick func()) *ticker {
	t := &ticker{quit: make(chan struct{}), done: make(chan struct{})}
	ticks, stop := c.every(period)
	go func() {
		defer close(t.done)
		defer stop()
		for {
			select {
			case <-ticks:
				tick()
			case <-t.quit:
				return
			}
		}
	}()
	return t
}

// stop ends the ticker and waits until it has.
func (t *ticker) stop() {
	close(t.quit)
	<-t.done
}

// verdictWord is how a line names a verdict.
func verdictWord(v reports.Verdict) string {
	switch v {
	case reports.Passed:
		return "ok"
	case reports.Failed, reports.Fixed, reports.Broken, reports.Unknown:
		return strings.ToUpper(string(v))
	default:
		return string(v)
	}
}

// alarming says whether somebody has to look at a case with that verdict.
func alarming(v reports.Verdict) bool {
	switch v {
	case reports.Passed, reports.Known, reports.Flaky, reports.Unsupported, reports.NotApplicable:
		return false
	default:
		return true
	}
}

// safeLine is a text from outside in one line, safe to print.
func safeLine(s string) string { return reports.Redact(reports.OneLine(s)) }

// caseLine is one line on a case that ended.
func caseLine(c *reports.Case) string {
	return fmt.Sprintf("%-4s %s  %s  %s  %.2fs",
		verdictWord(c.Verdict), safeLine(c.ID), safeLine(c.Name), safeLine(c.Broker), c.Seconds)
}

// whyLine says why a case did not pass; empty where nothing is known.
func whyLine(c *reports.Case) string {
	guarantee, reason := safeLine(c.Guarantee), safeLine(c.Reason)
	switch {
	case guarantee == "" || guarantee == reason:
		return reason
	case reason == "":
		return guarantee
	default:
		return guarantee + ": " + reason
	}
}

// elapsed is a time in seconds, or in minutes and seconds.
func elapsed(d time.Duration) string {
	if d < time.Minute {
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	}
	d = d.Truncate(time.Second)
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}

// Plain is progress for a pipe, a file or a CI system: a line a case, and a heartbeat.
type Plain struct {
	w     io.Writer
	clock clock
	// FailuresOnly leaves out the lines of cases that passed, where there are hundreds of them.
	FailuresOnly bool

	mu     sync.Mutex
	board  board
	began  time.Time
	last   time.Time // when something last ended, or a heartbeat was written
	ticker *ticker   // between Begin and End
}

// NewPlain returns progress that writes one line for each case as it ends, and every 15 s in which
// none ended one that names the cases that run.
func NewPlain(w io.Writer) *Plain { return newPlain(w, wallClock()) }

func newPlain(w io.Writer, c clock) *Plain { return &Plain{w: w, clock: c} }

// Line writes a message.
func (p *Plain) Line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(plainLines(text)...)
}

// Begin starts the heartbeat.
func (p *Plain) Begin(total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.board = board{total: total}
	p.began = p.clock.now()
	p.last = p.began
	if p.ticker == nil {
		p.ticker = startTicker(p.clock, time.Second, p.beat)
	}
}

// CaseStarted notes that a case runs.
func (p *Plain) CaseStarted(id, name, broker string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.board.start(id, name, broker, p.clock.now())
}

// CaseEnded writes the case's line.
func (p *Plain) CaseEnded(c reports.Case) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.board.end(&c)
	if c.Unrun() {
		return // why has been said once, for all of them
	}
	p.last = p.clock.now()
	lines := []string{caseLine(&c)}
	if why := whyLine(&c); why != "" && c.Verdict != reports.Passed {
		lines = append(lines, "     "+why)
	}
	if p.FailuresOnly && c.Verdict == reports.Passed {
		return
	}
	p.write(lines...)
}

// End stops the heartbeat.
func (p *Plain) End() {
	p.mu.Lock()
	t := p.ticker
	p.ticker = nil
	p.mu.Unlock()
	if t != nil {
		t.stop() // outside the lock: a heartbeat may wait for it
	}
}

// beat writes a heartbeat, if it is time for one.
func (p *Plain) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.now()
	if p.ticker == nil || now.Sub(p.last) < heartbeatEvery {
		return
	}
	p.last = now
	var names []string
	for i, r := range p.board.running {
		if i == heartbeatNames {
			names = append(names, fmt.Sprintf("and %d more", len(p.board.running)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s on %s for %s", safeLine(r.id), safeLine(r.broker), elapsed(now.Sub(r.since))))
	}
	what := "no case runs"
	if len(names) > 0 {
		what = "running " + strings.Join(names, ", ")
	}
	p.write(fmt.Sprintf("...  after %s, %d of %d cases ended; %s", elapsed(now.Sub(p.began)), p.board.ended, p.board.total, what))
}

func (p *Plain) write(lines ...string) {
	_, _ = io.WriteString(p.w, strings.Join(lines, "\n")+"\n")
}

// plainLines are a message's lines, safe to print.
func plainLines(text string) []string {
	return strings.Split(strings.TrimRight(reports.Redact(reports.Plain(text)), "\n"), "\n")
}

// Control sequences of a terminal (ECMA-48; the private modes are those of xterm and every
// terminal since). Lines do not wrap while the bar is drawn: were the width out of date, one that
// wraps would be counted as one line and leave its rest behind. A terminal that knows synchronized
// updates shows a drawing at once; others ignore the mode.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	wrapOff    = "\x1b[?7l"
	wrapOn     = "\x1b[?7h"
	syncBegin  = "\x1b[?2026h"
	syncEnd    = "\x1b[?2026l"
	clearLine  = "\x1b[K" // to its end
	clearBelow = "\x1b[J" // to the end of the screen
)

// Terminal is progress for a person at a terminal: a bar at the bottom, with the cases that run
// below it, and above it a line for each case that somebody has to look at.
type Terminal struct {
	// Color says that colours may be used. It is set before Begin.
	Color bool

	w     io.Writer
	width func() int
	clock clock

	mu     sync.Mutex
	board  board
	began  time.Time
	drawn  time.Time // when the bar was last drawn
	height int       // how many lines of it stand on the screen, the cursor on the last of them
	ticker *ticker   // between Begin and End
}

// NewTerminal returns progress for a terminal of that width, which is asked at each drawing; 0
// means that it is not known. Whoever calls Begin must see to it that End is called, also when the
// run is interrupted: the cursor is hidden in between.
func NewTerminal(w io.Writer, width func() int) *Terminal { return newTerminal(w, width, wallClock()) }

func newTerminal(w io.Writer, width func() int, c clock) *Terminal {
	return &Terminal{w: w, width: width, clock: c}
}

// Line shows a message above the bar, at once.
func (t *Terminal) Line(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.above(plainLines(text))
}

// Begin shows the bar.
func (t *Terminal) Begin(total int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.board = board{total: total}
	t.began = t.clock.now()
	if t.ticker == nil {
		t.ticker = startTicker(t.clock, redrawEvery, t.tick)
		t.write(hideCursor)
	}
	t.draw()
}

// CaseStarted shows the case at the next drawing.
func (t *Terminal) CaseStarted(id, name, broker string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.board.start(id, name, broker, t.clock.now())
}

// CaseEnded counts the case, and shows it at once if somebody has to look at it.
func (t *Terminal) CaseEnded(c reports.Case) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.board.end(&c)
	if !alarming(c.Verdict) || c.Unrun() {
		return
	}
	lines := []string{t.paint("31", caseLine(&c))}
	if why := whyLine(&c); why != "" {
		lines = append(lines, "     "+why)
	}
	t.above(lines)
}

// End takes the bar away, leaves its first line as it was at the end, and shows the cursor.
func (t *Terminal) End() {
	t.mu.Lock()
	ticker := t.ticker
	t.ticker = nil
	t.mu.Unlock()
	if ticker == nil {
		return
	}
	ticker.stop() // outside the lock: a drawing may wait for it
	t.mu.Lock()
	defer t.mu.Unlock()
	t.write(t.home() + clearBelow + t.summary(t.columns()) + clearLine + "\r\n" + showCursor)
	t.height = 0
}

// tick draws the bar anew. Ticks come as often as it may be drawn, so that what has changed since
// the last and the elapsed times are shown in one drawing.
func (t *Terminal) tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ticker != nil && t.clock.now().Sub(t.drawn) >= redrawEvery {
		t.draw()
	}
}

// above writes lines above the bar, which moves down, in one write: nothing flickers.
func (t *Terminal) above(lines []string) {
	if t.ticker == nil {
		t.write(strings.Join(lines, "\r\n") + "\r\n")
		return
	}
	// These lines may wrap: they are text, and stay. What is below is cleared first, for a line
	// that wraps overwrites more of it than it clears.
	text := t.home() + clearBelow
	for _, l := range lines {
		text += l + "\r\n"
	}
	t.height = 0
	t.write(syncBegin + text + t.bar() + syncEnd)
}

// draw draws the bar where it stands.
func (t *Terminal) draw() { t.write(syncBegin + t.home() + t.bar() + syncEnd) }

// home moves the cursor to the bar's first column and line.
func (t *Terminal) home() string {
	if t.height > 1 {
		return "\r\x1b[" + strconv.Itoa(t.height-1) + "A"
	}
	return "\r"
}

// bar is the bar's text, from where the cursor is. Each line is written over the old one before
// what is left of that is cleared, so that nothing is blank in between.
func (t *Terminal) bar() string {
	t.drawn = t.clock.now()
	columns := t.columns()
	lines := []string{t.summary(columns)}
	room := mostLines - 1
	shown := t.board.running
	if len(shown) > room {
		shown = shown[:room-1]
	}
	ids, names, brokers := 0, 0, 0
	for _, r := range shown {
		ids = max(ids, utf8.RuneCountInString(safeLine(r.id)))
		names = max(names, utf8.RuneCountInString(safeLine(r.name)))
		brokers = max(brokers, utf8.RuneCountInString(safeLine(r.broker)))
	}
	// What is besides the name: four gaps of two columns, and a time of up to six ("59m59s").
	names = max(min(names, columns-ids-brokers-4*2-6), 0)
	for _, r := range shown {
		line := fmt.Sprintf("  %-*s  %-*s  %-*s  %6s", ids, safeLine(r.id), names, clip(safeLine(r.name), names),
			brokers, safeLine(r.broker), elapsed(t.drawn.Sub(r.since)))
		lines = append(lines, clip(line, columns))
	}
	if more := len(t.board.running) - len(shown); more > 0 {
		lines = append(lines, clip(fmt.Sprintf("  and %d more", more), columns))
	}
	t.height = len(lines)
	return wrapOff + strings.Join(lines, clearLine+"\r\n") + clearLine + clearBelow + wrapOn
}

// columns is how many columns a line of the bar may fill. The last one stays free: some terminals
// go to the next line as soon as it is filled.
func (t *Terminal) columns() int {
	width := t.width()
	if width <= 0 {
		width = defaultWidth
	}
	return max(width-1, 1)
}

// summary is the bar's first line.
func (t *Terminal) summary(columns int) string {
	type part struct{ text, color string }
	parts := []part{
		{fmt.Sprintf("%d/%d", t.board.ended, t.board.total), ""},
		{elapsed(t.clock.now().Sub(t.began)), ""},
	}
	for _, v := range reports.Verdicts() {
		if n := t.board.counts[v]; n > 0 {
			color := ""
			switch {
			case v == reports.Passed:
				color = "32"
			case alarming(v):
				color = "31"
			}
			parts = append(parts, part{fmt.Sprintf("%d %s", n, v), color})
		}
	}

	done := barWidth
	if t.board.total > 0 {
		done = min(barWidth*t.board.ended/t.board.total, barWidth)
	}
	line := "[" + strings.Repeat("#", done) + strings.Repeat("-", barWidth-done) + "]"
	used := len(line)
	if columns < 2*barWidth { // in a narrow window the numbers matter more
		line, used = "", 0
	}
	for i, p := range parts {
		gap := "  "
		if used == 0 && i == 0 {
			gap = ""
		}
		if used += len(gap) + utf8.RuneCountInString(p.text); used > columns {
			break
		}
		line += gap + t.paint(p.color, p.text)
	}
	return line
}

func (t *Terminal) paint(color, text string) string {
	if !t.Color || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

func (t *Terminal) write(text string) { _, _ = io.WriteString(t.w, text) }

// clip shortens a text to a width in characters, and shows that it did.
func clip(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	return string([]rune(s)[:width-1]) + "…"
}
