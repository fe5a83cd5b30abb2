package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// mostLines is how many lines a path's table has with its title and its head, unless what did not pass
	// needs more: about what one screen shows.
	mostLines = 25
	// narrowestLabel is the width, in columns, below which the description of a point is not squeezed
	// beside its marks: the marks go below it.
	narrowestLabel = 28
	// mostGroups is how many groups of equal failures are shown of a path.
	mostGroups = 20
	// mostPoints is how many points of such a group are described; the others are numbered.
	mostPoints = 5
	// mostIDs is how many ids of evidence such a group names.
	mostIDs = 6
	// mostMethods is how many methods the row of a run of points names.
	mostMethods = 4
)

// passedMark stands for a run that passed and made no more copies.
const passedMark = "·"

// WriteExplorations writes what a person reads when paths have been explored: for each a table of its
// points and the ways in which they were broken, in which runs of points that passed are one row where
// there are many; a line that sums each up; what did not pass, by its reason, with where its evidence is;
// and what the run came to.
func WriteExplorations(w io.Writer, r *Run, style Style) error {
	p := &page{style: style}
	some := false
	for i := range r.Explorations {
		some = p.table(r, &r.Explorations[i]) || some
	}
	if some {
		p.hang("", 0, passedMark+" passed, +1 passed with 1 more copy, ≤+1 passed with at most 1 more", dim)
		p.blank()
	}
	for i := range r.Explorations {
		p.sum(r, &r.Explorations[i])
	}
	if len(r.Explorations) > 0 {
		p.blank()
	}
	for i := range r.Explorations {
		p.failures(r, &r.Explorations[i])
	}
	p.recordings(r)
	for _, b := range r.Brokers {
		if b.Error != "" {
			p.hang(p.style.paint(yellow, "! "), 2, outsideLine(b.Name)+" could not be had: "+outsideLine(b.Error), yellow)
			p.blank()
		}
	}
	p.explored(r)
	if _, err := io.WriteString(w, p.text.String()); err != nil {
		return fmt.Errorf("writing what was explored: %w", err)
	}
	return nil
}

// on names the broker of an exploration, where the run has several.
func (r *Run) on(e *Exploration) string {
	several := len(r.Brokers) > 1 || slices.ContainsFunc(r.Explorations, func(o Exploration) bool { return o.Broker != e.Broker })
	if !several || e.Broker == "" {
		return ""
	}
	on := " on " + outsideLine(e.Broker)
	if version := outsideLine(r.version(e.Broker)); version != "" && version != outsideLine(e.Broker) {
		on += " (" + version + ")"
	}
	return on
}

// row is one row of a table: a point, or a run of points.
type row struct {
	number, label string
	marks         []mark // one for each way
}

// mark is what a cell says.
type mark struct{ text, color string }

// table writes a path's points, and what came of breaking each in each way, if it was broken at all. It
// joins no more of what passed than it has to, for its lines to be few.
func (p *page) table(r *Run, e *Exploration) bool {
	ways := e.Ways()
	if len(ways) == 0 {
		return false
	}
	text := ""
	for most := mostLines; most > 0; most-- {
		sub := &page{style: p.style}
		sub.hang("", 0, e.title()+r.on(e), bold)
		sub.rows(e.rows(ways, most), ways)
		if text = sub.text.String(); strings.Count(text, "\n") <= mostLines {
			break
		}
	}
	p.text.WriteString(text)
	p.blank()
	return true
}

// rows are the exploration's, so many where that can be.
func (e *Exploration) rows(ways []string, most int) []row {
	var rows []row
	first, last := len(e.Points)+1, e.points() // of those that were not run
	for _, b := range e.folded(ways, most-min(1, last+1-first)) {
		rows = append(rows, e.row(b, ways))
	}
	if first <= last {
		rows = append(rows, e.absent(first, last, ways))
	}
	return rows
}

// rows writes a table's head and its rows.
func (p *page) rows(rows []row, ways []string) {
	number, label := 0, 0
	for _, row := range rows {
		number, label = max(number, len(row.number)), max(label, utf8.RuneCountInString(row.label))
	}
	// Each word of a way stands on a line of its own, so that columns are narrow.
	heads := make([][]string, len(ways))
	widths, lines, marks := make([]int, len(ways)), 0, 0
	for i, way := range ways {
		heads[i] = strings.Fields(outsideLine(way))
		lines = max(lines, len(heads[i]))
		for _, word := range heads[i] {
			widths[i] = max(widths[i], utf8.RuneCountInString(word))
		}
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row.marks[i].text))
		}
		marks += widths[i] + 2
	}
	const indent, gap = 2, 2
	if p.style.Width > 0 {
		room := p.style.Width - indent - number - gap - marks
		if room < min(label, narrowestLabel) {
			p.stack(rows, number, ways)
			return
		}
		label = min(label, room)
	}
	for l := range lines {
		line := strings.Repeat(" ", indent+number+gap+label)
		for i, words := range heads {
			word := ""
			if at := l - (lines - len(words)); at >= 0 {
				word = words[at]
			}
			line += "  " + pad(word, widths[i])
		}
		p.line(p.style.paint(dim, strings.TrimRight(line, " ")))
	}
	for _, row := range rows {
		head := strings.Repeat(" ", indent+number-len(row.number)) + row.number + "  "
		for i, text := range wrap(row.label, label) {
			if i > 0 {
				p.line(strings.Repeat(" ", indent+number+gap), text)
				continue
			}
			line := head + pad(text, label)
			for i, m := range row.marks {
				line += "  " + p.style.paint(m.color, m.text) + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(m.text))
			}
			p.line(line)
		}
	}
}

// stack writes rows that are too wide for a table: the marks of each stand below it, with their ways.
func (p *page) stack(rows []row, number int, ways []string) {
	for _, row := range rows {
		p.hang("  "+strings.Repeat(" ", number-len(row.number))+row.number+"  ", number+4, row.label, "")
		var same []string // the ways with the same mark, then the next
		var parts []string
		flush := func(m mark) {
			if len(same) > 0 && m.text != "" {
				parts = append(parts, strings.Join(same, ", ")+": "+m.text)
			}
			same = nil
		}
		for i, m := range row.marks {
			if m.text != "" {
				same = append(same, outsideLine(ways[i]))
			}
			if i+1 == len(row.marks) || row.marks[i+1] != m {
				flush(m)
			}
		}
		color := ""
		for _, m := range row.marks {
			if m.color == red || color == "" && m.color == yellow {
				color = m.color
			}
		}
		p.hang(strings.Repeat(" ", number+6), number+6, strings.Join(parts, "; "), color)
	}
}

// block is a run of points, by index.
type block struct{ first, last int }

// folded divides the points into blocks, so that there are at most so many where that can be. Points that
// did not all pass stay alone; those that were not reached at all may stand together, since nothing is
// known of them.
func (e *Exploration) folded(ways []string, most int) []block {
	blocks := make([]block, len(e.Points))
	for i := range blocks {
		blocks[i] = block{i, i}
	}
	passed := func(b block) bool {
		return !slices.ContainsFunc(e.Points[b.first:b.last+1], func(p Point) bool {
			return len(p.Outcomes) == 0 || slices.ContainsFunc(p.Outcomes, func(o Outcome) bool { return o.verdict() != Passed })
		})
	}
	reached := func(b block) bool {
		return slices.ContainsFunc(e.Points[b.first:b.last+1], func(p Point) bool {
			return slices.ContainsFunc(p.Outcomes, func(o Outcome) bool { return o.reached() })
		})
	}
	blocks = joined(blocks, most, func(a, b block) bool {
		return (passed(a) && passed(b) || !reached(a) && !reached(b)) && slices.Equal(e.marks(a, ways), e.marks(b, ways))
	})
	return joined(blocks, most, func(a, b block) bool { return passed(a) && passed(b) })
}

// joined joins runs of blocks of which each goes with the next, the longest first, until there are at most
// so many blocks or no more runs.
func joined(blocks []block, most int, together func(a, b block) bool) []block {
	if len(blocks) <= most {
		return blocks
	}
	var runs [][]block
	for i, b := range blocks {
		if i > 0 && together(blocks[i-1], b) {
			runs[len(runs)-1] = append(runs[len(runs)-1], b)
		} else {
			runs = append(runs, []block{b})
		}
	}
	order := make([]int, len(runs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(runs[b]) - len(runs[a]) })
	n := len(blocks)
	for _, i := range order {
		if n <= most {
			break
		}
		run := runs[i]
		n -= len(run) - 1
		runs[i] = []block{{run[0].first, run[len(run)-1].last}}
	}
	return slices.Concat(runs...)
}

// row is the row of a block.
func (e *Exploration) row(b block, ways []string) row {
	out := row{number: fmt.Sprint(b.first + 1), label: e.describe(&e.Points[b.first]), marks: e.marks(b, ways)}
	if b.first == b.last {
		return out
	}
	out.number = fmt.Sprintf("%d-%d", b.first+1, b.last+1)
	direction, link, message := e.Points[b.first].direction(), e.link(&e.Points[b.first]), outsideLine(e.Points[b.first].Message)
	var methods []string
	for i := b.first; i <= b.last; i++ {
		p := &e.Points[i]
		if p.direction() != direction {
			direction = "both directions"
		}
		if e.link(p) != link {
			link = ""
		}
		if outsideLine(p.Message) != message {
			message = ""
		}
		if m := outsideLine(p.Method); !slices.Contains(methods, m) {
			methods = append(methods, m)
		}
	}
	if n := len(methods) - mostMethods; n > 1 {
		methods = append(methods[:mostMethods], fmt.Sprintf("%d other methods", n))
	}
	out.label = fmt.Sprintf("%d points: %s %s", b.last-b.first+1, direction, strings.Join(methods, ", "))
	if message != "" {
		out.label += " of " + message
	}
	if link != "" {
		out.label += " " + link
	}
	return out
}

// absent is the row of points that were recorded and not run.
func (e *Exploration) absent(first, last int, ways []string) row {
	out := row{number: fmt.Sprint(first), label: "not run"}
	if last > first {
		out.number, out.label = fmt.Sprintf("%d-%d", first, last), plural(last-first+1, "point")+": not run"
	}
	for range ways {
		out.marks = append(out.marks, mark{string(Unknown), Unknown.color()})
	}
	return out
}

// marks are a block's cells. Where its points differ, they say the most copies.
func (e *Exploration) marks(b block, ways []string) []mark {
	marks := make([]mark, len(ways))
	for i, way := range ways {
		copies, differ := -1, false
		for j := b.first; j <= b.last; j++ {
			if len(e.Points[j].Outcomes) == 0 {
				marks[i] = mark{string(Unknown), Unknown.color()}
				break
			}
			o := e.Points[j].outcome(way)
			if o == nil {
				continue
			}
			if o.verdict() != Passed {
				marks[i] = mark{outsideLine(string(o.verdict())), o.verdict().color()}
				break
			}
			differ = differ || copies >= 0 && o.Copies != copies
			copies = max(copies, o.Copies)
			switch {
			case copies == 0:
				marks[i] = mark{passedMark, dim}
			case differ:
				marks[i] = mark{fmt.Sprintf("≤+%d", copies), ""}
			default:
				marks[i] = mark{fmt.Sprintf("+%d", copies), ""}
			}
		}
	}
	return marks
}

// worst is the verdict that a reader has to know of first, or passed.
func worst(vs []Verdict) Verdict {
	for _, v := range explained() {
		if slices.Contains(vs, v) {
			return v
		}
	}
	if slices.Contains(vs, Passed) {
		return Passed
	}
	return NotApplicable // nothing ran that counts
}

// sum writes the line that sums an exploration up.
func (p *page) sum(r *Run, e *Exploration) {
	color := worst(e.Verdicts()).color()
	title := e.title() + r.on(e) + ": "
	head, rest, _ := strings.Cut(title, " ")
	hang := func(text string) {
		p.hang(p.style.paint(color, head)+" ", utf8.RuneCountInString(head)+1, rest+text, "")
	}
	v, why, is := e.unexplored()
	if is && len(e.Points) == 0 {
		text := "not explored (" + string(v) + "): " + outsideLine(why)
		if e.Case != "" {
			text += "; evidence: " + r.where(e.Broker, []string{e.Case})
		}
		hang(text)
		return
	}
	c := e.Coverage()
	parts := []string{
		fmt.Sprintf("%d of %s", c.Points, plural(c.Recorded, "point")),
		fmt.Sprintf("%d of %s passed", e.Count(Passed), plural(c.Due, "run")),
	}
	for _, v := range Verdicts() {
		if n := e.Count(v); n > 0 && v != Passed {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	if n := e.MostCopies(); n > 0 {
		parts = append(parts, "at most "+more(n)+" a cut")
	} else {
		parts = append(parts, "never more than 1 copy")
	}
	text := fmt.Sprintf("%s, %.1f s", strings.Join(parts, ", "), e.Seconds)
	if !c.Full() {
		text += fmt.Sprintf("; %d %% reached, not at %s", c.Percent(), c)
	}
	if is {
		text += "; " + string(v) + ": " + outsideLine(why)
	}
	hang(text)
}

// where says where the evidence stands that has the ids.
func (r *Run) where(broker string, ids []string) string {
	var found []string
	for _, id := range ids {
		if r.evidence(broker, id) != nil {
			found = append(found, outsideLine(id))
		}
	}
	if len(found) == 0 {
		return "none was kept"
	}
	more := ""
	if n := len(found) - mostIDs; n > 1 {
		found, more = found[:mostIDs], fmt.Sprintf(" and %d more", n)
	}
	return "in run.json, under " + strings.Join(found, ", ") + more
}

// failure is what did not pass of a path, for one reason.
type failure struct {
	verdict Verdict
	reason  string
	points  []int // by index
	ways    map[int][]string
	ids     []string
}

// failures groups what did not pass by verdict, in the order of explained and then of Verdicts, and by
// reason.
func (e *Exploration) failures(r *Run) []failure {
	var all []failure
	for i := range e.Points {
		for _, o := range e.Points[i].Outcomes {
			if o.verdict() == Passed {
				continue
			}
			c := r.evidence(e.Broker, o.Case)
			if c == nil {
				c = &Case{Reason: o.Reason}
			}
			seen := *c
			seen.Verdict = o.verdict()
			reason := seen.headline()
			at := slices.IndexFunc(all, func(f failure) bool { return f.verdict == o.verdict() && f.reason == reason })
			if at < 0 {
				at = len(all)
				all = append(all, failure{verdict: o.verdict(), reason: reason, ways: map[int][]string{}})
			}
			f := &all[at]
			if !slices.Contains(f.points, i) {
				f.points = append(f.points, i)
			}
			f.ways[i] = append(f.ways[i], outsideLine(o.Way))
			if o.Case != "" {
				f.ids = append(f.ids, o.Case)
			}
		}
	}
	order := slices.Concat(explained(), Verdicts())
	rank := func(f failure) int { return slices.Index(order, f.verdict) }
	slices.SortStableFunc(all, func(a, b failure) int { return rank(a) - rank(b) })
	return all
}

// failures writes what did not pass: why, where, and where the evidence is.
func (p *page) failures(r *Run, e *Exploration) {
	all := e.failures(r)
	for i, f := range all {
		if i == mostGroups {
			p.line(p.style.paint(dim, fmt.Sprintf("(%s of %s more did not pass; run.json has them)",
				plural(runsOf(all[i:]), "run"), outsideLine(e.Path))))
			p.blank()
			break
		}
		v := outsideLine(strings.ToUpper(string(f.verdict)))
		p.hang(p.style.paint(f.verdict.color(), v)+"  ", utf8.RuneCountInString(v)+2, e.title()+r.on(e), bold)
		p.field("reason", f.reason, f.verdict.color())
		label := "at"
		for j, at := range f.points {
			if j == mostPoints && len(f.points) > mostPoints+1 {
				p.field(label, "and at "+plural(len(f.points)-j, "other point")+": "+span(f.points[j:]), "")
				break
			}
			p.field(label, fmt.Sprintf("%d %s: %s", at+1, e.describe(&e.Points[at]), strings.Join(f.ways[at], ", ")), "")
			label = ""
		}
		p.field("evidence", r.where(e.Broker, f.ids), "")
		p.blank()
	}
}

// runsOf is how many runs the failures have.
func runsOf(all []failure) int {
	n := 0
	for _, f := range all {
		for _, ways := range f.ways {
			n += len(ways)
		}
	}
	return n
}

// recordings explains the cases that are no evidence of a run at a point: recordings that did not pass.
func (p *page) recordings(r *Run) {
	is := r.isEvidence()
	for _, v := range explained() {
		for _, c := range r.Cases {
			if c.Verdict != v || is[[2]string{c.Broker, c.ID}] || c.Unrun() {
				continue // that it could not be run is said where it is summed up
			}
			p.heading(&c, r.version(c.Broker))
			p.explain(&c)
			p.log(&c)
			p.blank()
		}
	}
}

// span names points, by their numbers; runs of them are one.
func span(points []int) string {
	var parts []string
	for i := 0; i < len(points); {
		n := 1
		for i+n < len(points) && points[i+n] == points[i]+n {
			n++
		}
		parts = append(parts, numbers(points[i]+1, points[i+n-1]+1))
		i += n
	}
	return strings.Join(parts, ", ")
}

// explored is the last line: what all explorations came to.
func (p *page) explored(r *Run) {
	var vs []Verdict
	var c Coverage
	counts, absent, unexplored := map[Verdict]int{}, 0, 0
	for i := range r.Explorations {
		e := &r.Explorations[i]
		vs = append(vs, e.Verdicts()...)
		one := e.Coverage()
		c.Points, c.Recorded, c.Runs, c.Due = c.Points+one.Points, c.Recorded+one.Recorded, c.Runs+one.Runs, c.Due+one.Due
		for _, v := range Verdicts() {
			counts[v] += e.Count(v)
		}
		if v, _, is := e.unexplored(); is && v != NotApplicable {
			unexplored++
		}
		for j := range one.Recorded {
			if j >= len(e.Points) || len(e.Points[j].Outcomes) == 0 {
				absent++
			}
		}
	}
	var parts []string
	for _, v := range explained() {
		if counts[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	if absent > 0 {
		parts = append(parts, plural(absent, "point")+" not run")
	}
	if unexplored > 0 {
		parts = append(parts, plural(unexplored, "path")+" not explored")
	}
	paths := plural(len(r.Explorations), "path")
	text := fmt.Sprintf("%s, of %s on %s", strings.Join(parts, ", "), plural(c.Due, "run"), paths)
	switch {
	case len(r.Explorations) == 0:
		text = "No path was explored"
	case len(parts) == 0 && counts[Passed] == 0:
		text = "No run passed, on " + paths
	case len(parts) == 0:
		text = fmt.Sprintf("%s: %d of %s, %d of %s passed", paths, c.Points, plural(c.Recorded, "point"), counts[Passed], plural(c.Due, "run"))
	}
	color := worst(vs).color()
	if color == dim {
		color = yellow
	}
	if r.Interrupted {
		text += "; interrupted before all had run"
		if color == green {
			color = yellow
		}
	}
	p.hang("", 0, fmt.Sprintf("%s, in %.1f s (exit code %d)", text, r.Seconds, r.ExitCode), color)
}
