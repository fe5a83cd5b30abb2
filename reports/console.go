package reports

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// longestTimeline is how many lines of a timeline are shown before its middle is left out.
	longestTimeline = 40
	// timelineEnds is how many lines stay at each end of a timeline that is cut.
	timelineEnds = 10
	// timelineAround is how many lines stay before and after a marked line.
	timelineAround = 2
	// mostMarked is how many marked lines stay in a timeline that is cut: the first half of
	// them and the last.
	mostMarked = 12
	// longestLog is how many lines of the consumer's log are shown: the last ones.
	longestLog = 15
	// mostFindings is how many findings of a case are shown.
	mostFindings = 10
	// labelWidth is the width of the column that names what a line says.
	labelWidth = 10
)

// explained are the verdicts that a person has to look into, in the order in which they are shown.
func explained() []Verdict { return []Verdict{Failed, Fixed, Broken, Unknown} }

// grouped are the verdicts whose cases are listed by their reason.
func grouped() []Verdict { return []Verdict{Known, Flaky, Unsupported, NotApplicable} }

// WriteSummary writes what a person reads when a run has ended: a block that explains each case
// that failed, is fixed, broken or unknown; the others that did not pass, grouped by their
// reason; and the counts per verdict and broker.
func WriteSummary(w io.Writer, r *Run, style Style) error {
	p := &page{style: style}
	unrun := map[string]int{} // by reason: a hundred cases that could not be run are one fact
	var reasons []string
	for _, v := range explained() {
		for _, c := range r.Cases {
			if c.Verdict == v && c.Unrun() {
				if unrun[c.Reason]++; unrun[c.Reason] == 1 {
					reasons = append(reasons, c.Reason)
				}
				continue
			}
			if c.Verdict == v {
				p.heading(&c, r.version(c.Broker))
				p.explain(&c)
				p.log(&c)
				p.blank()
			}
		}
	}
	for _, reason := range reasons {
		p.line(plural(unrun[reason], "case"), " not run: ", outsideLine(reason))
		p.blank()
	}
	p.groups(r)
	p.counts(r)
	p.outcome(r)
	if _, err := io.WriteString(w, p.text.String()); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}

// version is the version of the broker with that name, where it is known.
func (r *Run) version(broker string) string {
	for _, b := range r.Brokers {
		if b.Name == broker {
			return b.Version
		}
	}
	return ""
}

// page is text that grows line by line.
type page struct {
	text  strings.Builder
	style Style
}

func (p *page) line(parts ...string) {
	p.text.WriteString(strings.TrimRight(strings.Join(parts, ""), " "))
	p.text.WriteByte('\n')
}

func (p *page) blank() { p.text.WriteByte('\n') }

// hang writes a text behind a head, and breaks it so that every further line stands below its
// first. The head's width is given because it may hold colours.
func (p *page) hang(head string, width int, text, color string) {
	room := 0
	if p.style.Width > 0 {
		room = max(p.style.Width-width, 20) // narrower columns cannot be read; let the terminal break them
	}
	for i, line := range wrap(text, room) {
		if i > 0 {
			head = strings.Repeat(" ", width)
		}
		p.line(head, p.style.paint(color, line))
	}
}

// field writes a named text, if there is one.
func (p *page) field(label, text, color string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	p.hang("  "+p.style.paint(dim, pad(label, labelWidth))+" ", labelWidth+3, text, color)
}

// heading names the case.
func (p *page) heading(c *Case, version string) {
	v := strings.ToUpper(string(c.Verdict))
	title := outsideLine(c.ID + "  " + c.Name)
	on := outsideLine(c.Broker)
	if version = outsideLine(version); version != "" && version != on {
		on += " (" + version + ")"
	}
	p.hang(p.style.paint(c.Verdict.color(), v)+"  ", utf8.RuneCountInString(v)+2, title+"  on "+on, bold)
}

// explain tells what happened in the case: what it is for, what broke, and how.
func (p *page) explain(c *Case) {
	p.field("why", outsideLine(c.Why), "")
	p.field("guarantee", outsideLine(c.Guarantee), c.Verdict.color())
	if c.Verdict == Fixed {
		p.field("fixed", "It is listed as known to fail, and it passed: take it off the list.", "")
	}
	if c.Expected == "" || c.Seen == "" {
		p.field("reason", outside(c.Reason), "") // else it says the same
	}
	if c.Expected != c.Guarantee {
		p.field("expected", outside(c.Expected), "")
	}
	p.field("seen", outside(c.Seen), "")
	p.findings(c)
	if c.Try > 1 {
		p.field("tries", fmt.Sprintf("This is try %d; it was broken before.", c.Try), "")
	}
	p.steps(c)
	p.timeline(c)
}

func (p *page) findings(c *Case) {
	shown := 0
	for i, f := range c.Findings {
		text := outside(f.Text)
		if text == outside(c.Reason) || text == outside(c.Seen) {
			continue // said already
		}
		if shown == mostFindings {
			p.field("", fmt.Sprintf("(%d more findings are in run.json)", len(c.Findings)-i), dim)
			return
		}
		if g := outsideLine(f.Guarantee); g != "" && f.Guarantee != c.Guarantee {
			text = g + ": " + text
		}
		p.field("found", text, "")
		shown++
	}
}

// steps writes the case's steps, each with how it went.
func (p *page) steps(c *Case) {
	if len(c.Steps) == 0 {
		return
	}
	where := ""
	if c.File != "" {
		where = outsideLine(c.File) + ":" + strconv.Itoa(c.Line)
	}
	p.line("  ", p.style.paint(dim, pad("steps", labelWidth)+" "+where))
	const indent = 6
	for _, s := range c.Steps {
		sign, color, note := "-", dim, ""
		switch s.Status {
		case "passed":
			sign, color = "✓", ""
		case "failed":
			sign, color = "✗", red
		case "broken":
			sign, color = "!", yellow
		default:
			note = "  (" + outsideLine(s.Status) + ")"
		}
		text := strings.TrimSpace(outsideLine(s.Keyword)+" "+outsideLine(s.Text)) + note
		p.hang("    "+p.style.paint(color, sign)+" ", indent, text, color)
		if s.Error != "" && s.Error != c.Reason {
			p.hang(strings.Repeat(" ", indent+2), indent+2, outside(s.Error), color)
		}
	}
}

// timeline writes what happened to the messages, in aligned columns.
func (p *page) timeline(c *Case) {
	if len(c.Timeline) == 0 {
		return
	}
	p.line("  ", p.style.paint(dim, pad("timeline", labelWidth)+" since the case began"))
	times, who := 0, 0
	for _, m := range c.Timeline {
		times = max(times, len(seconds(m.Seconds)))
		who = max(who, utf8.RuneCountInString(outsideLine(m.Who)))
	}
	keep := kept(c.Timeline)
	for i := 0; i < len(c.Timeline); i++ {
		if !keep[i] {
			gap := i
			for i+1 < len(c.Timeline) && !keep[i+1] {
				i++
			}
			p.line(strings.Repeat(" ", times+7), p.style.paint(dim, fmt.Sprintf("… %d lines left out; run.json has them", i+1-gap)))
			continue
		}
		m := c.Timeline[i]
		arrow, color := " ", ""
		if m.Marked {
			arrow, color = "→", c.Verdict.color()
		}
		t := seconds(m.Seconds)
		head := "  " + arrow + " " + strings.Repeat(" ", times-len(t)) + t + " s  " + pad(outsideLine(m.Who), who) + "  "
		p.hang(p.style.paint(color, head), utf8.RuneCountInString(head), outsideLine(m.What), color)
	}
}

// kept says which moments of a timeline are shown: all of them; or, where there are too many, both
// ends and what stands around the marked ones.
func kept(timeline []Moment) []bool {
	keep := make([]bool, len(timeline))
	around := func(first, last int) {
		for i := max(first, 0); i <= min(last, len(keep)-1); i++ {
			keep[i] = true
		}
	}
	if len(timeline) <= longestTimeline {
		around(0, len(timeline))
		return keep
	}
	around(0, timelineEnds-1)
	around(len(timeline)-timelineEnds, len(timeline))
	var marked []int
	for i, m := range timeline {
		if m.Marked {
			marked = append(marked, i)
		}
	}
	if len(marked) > mostMarked {
		marked = slices.Concat(marked[:mostMarked/2], marked[len(marked)-mostMarked/2:])
	}
	for _, i := range marked {
		around(i-timelineAround, i+timelineAround)
	}
	// A note that one line is left out is as long as the line.
	for i := 1; i < len(keep)-1; i++ {
		if keep[i-1] && keep[i+1] {
			keep[i] = true
		}
	}
	return keep
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) }

// log writes the end of the consumer's log.
func (p *page) log(c *Case) {
	lines := c.ConsumerLog
	if len(lines) == 0 {
		return
	}
	title := "the consumer's log"
	if len(lines) > longestLog {
		lines = lines[len(lines)-longestLog:]
		title = fmt.Sprintf("%s, its last %d lines", title, longestLog)
	}
	p.line("  ", p.style.paint(dim, title))
	for _, l := range lines {
		p.hang("    "+p.style.paint(dim, "|")+" ", 6, outside(l), "")
	}
}

// groups writes the cases that did not pass and need no look, by verdict and reason.
func (p *page) groups(r *Run) {
	type group struct {
		reason string
		cases  []string // ids, each with its brokers where there are several
	}
	some := false
	for _, v := range grouped() {
		var groups []group
		for _, c := range r.Cases {
			if c.Verdict != v {
				continue
			}
			reason := outsideLine(c.Reason)
			i := slices.IndexFunc(groups, func(g group) bool { return g.reason == reason })
			if i < 0 {
				i = len(groups)
				groups = append(groups, group{reason: reason})
			}
			id := outsideLine(c.ID)
			if len(r.Brokers) > 1 {
				id += " (" + outsideLine(c.Broker) + ")"
			}
			if !slices.Contains(groups[i].cases, id) {
				groups[i].cases = append(groups[i].cases, id)
			}
		}
		for _, g := range groups {
			some = true
			text := strings.Join(g.cases, ", ")
			if g.reason != "" {
				text = g.reason + ": " + text
			}
			head := pad(string(v), len(NotApplicable)) + "  "
			p.hang(p.style.paint(v.color(), head), len(head), text, "")
		}
	}
	if some {
		p.blank()
	}
}

// counts writes how many cases have which verdict: brokers down, verdicts across.
func (p *page) counts(r *Run) {
	names, versions := []string{}, map[string]string{}
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, b := range r.Brokers {
		add(b.Name)
		versions[b.Name] = b.Version
	}
	count := map[string]map[Verdict]int{}
	for _, c := range r.Cases {
		add(c.Broker)
		if count[c.Broker] == nil {
			count[c.Broker] = map[Verdict]int{}
		}
		count[c.Broker][c.Verdict]++
	}
	var columns []Verdict
	for _, v := range Verdicts() {
		if v == Passed || v == Failed || r.Count(v) > 0 {
			columns = append(columns, v)
		}
	}
	labels, width := make([]string, len(names)), len("broker")
	for i, name := range names {
		labels[i] = outsideLine(name)
		if v := outsideLine(versions[name]); v != "" && v != labels[i] {
			labels[i] += " (" + v + ")"
		}
		width = max(width, utf8.RuneCountInString(labels[i]))
	}
	head := pad("broker", width)
	for _, v := range columns {
		head += "  " + string(v)
	}
	// Where the table does not fit, each broker has what is not 0.
	table := p.style.Width <= 0 || utf8.RuneCountInString(head) <= p.style.Width
	if table {
		p.line(p.style.paint(dim, head))
	}
	for i, name := range names {
		row := pad(labels[i], width)
		if !table {
			var some []string
			for _, v := range columns {
				if n := count[name][v]; n > 0 {
					some = append(some, fmt.Sprintf("%d %s", n, v))
				}
			}
			if len(some) == 0 {
				some = []string{"no case ran"}
			}
			p.hang(row+"  ", width+2, strings.Join(some, ", "), "")
			continue
		}
		for _, v := range columns {
			n := count[name][v]
			cell := fmt.Sprintf("%*d", len(v), n)
			if n > 0 {
				cell = p.style.paint(v.color(), cell)
			}
			row += "  " + cell
		}
		p.line(row)
	}
	for _, b := range r.Brokers {
		if b.Error != "" && !r.unrunOn(b) {
			p.hang(p.style.paint(yellow, "! "), 2, outsideLine(b.Name)+" could not be had: "+outsideLine(b.Error), yellow)
		}
	}
	p.blank()
}

// unrunOn reports whether cases were not run on the broker: then it has been said why.
func (r *Run) unrunOn(b Broker) bool {
	return slices.ContainsFunc(r.Cases, func(c Case) bool { return c.Broker == b.Name && c.Unrun() })
}

// outcome is the last line: what the run came to.
func (p *page) outcome(r *Run) {
	var parts []string
	for _, v := range explained() {
		if n := r.Count(v); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	text, color := strings.Join(parts, ", ")+", of "+plural(len(r.Cases), "case"), red
	switch {
	case len(r.Cases) == 0:
		text, color = "No case ran", yellow
	case len(parts) == 0 && r.Count(Passed) == 0:
		text, color = "No case passed, of "+plural(len(r.Cases), "case"), yellow
	case len(parts) == 0:
		text, color = fmt.Sprintf("%s passed", plural(r.Count(Passed), "case")), green
	case r.Count(Failed)+r.Count(Fixed) == 0:
		color = yellow
	}
	if r.Interrupted {
		text += "; interrupted before all cases had run"
		if color == green {
			color = yellow
		}
	}
	p.hang("", 0, fmt.Sprintf("%s, in %.1f s (exit code %d)", text, r.Seconds, r.ExitCode), color)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
