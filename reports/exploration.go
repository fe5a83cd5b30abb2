package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Exploration is one path on one kind of queue, broken at every point.
type Exploration struct {
	// Path is the case id of the path, such as CRP-001.
	Path string `json:"path"`
	// Name is what the path is, such as "a full ladder, to parking".
	Name   string `json:"name"`
	Broker string `json:"broker"`
	// QueueType is that of the source queue: classic or quorum.
	QueueType string `json:"queue_type"`
	// Recorded is how many points the recordings have.
	Recorded int `json:"recorded"`
	// Recordings is how many recordings were made, and agreed.
	Recordings int `json:"recordings"`
	// Points are numbered from 1 in this order. Those that Recorded counts and that are missing at the
	// end were not run.
	Points  []Point `json:"points,omitempty"`
	Seconds float64 `json:"seconds"`
	// Problem says why the path could not be explored, such as "the recordings differ: ...".
	Problem string `json:"problem,omitempty"`
	// Verdict goes with Problem; empty where the path was explored.
	Verdict Verdict `json:"verdict,omitempty"`
	// Case is the id in Run.Cases of the recording that did not pass, where one did not.
	Case string `json:"case,omitempty"`
}

// Point is one point on the wire and what came of breaking there.
type Point struct {
	// Connection is the connection's place among those of the consumer's process, from 1.
	Connection int `json:"connection"`
	// Role is what the connection was used for: consuming, publishing, both, or empty for neither.
	Role string `json:"role,omitempty"`
	// FromBroker is the direction: from the broker to the consumer.
	FromBroker bool `json:"from_broker,omitempty"`
	// Method is its name, such as basic.publish.
	Method string `json:"method"`
	// Message is the message that it is about, if it is about one.
	Message string `json:"message,omitempty"`
	// Where is the queue or exchange that it names, such as "exchange retry.100"; for a reader.
	Where string `json:"where,omitempty"`
	// Occurrence counts, from 1, the commands that have all of the above but the place in common.
	Occurrence int `json:"occurrence"`
	// Inside is the inside of the method's content.
	Inside bool `json:"inside,omitempty"`
	// Outcomes has one for each way of breaking it, also for those that were not run.
	Outcomes []Outcome `json:"outcomes,omitempty"`
}

// Outcome is what came of breaking the path at one point in one way.
type Outcome struct {
	// Way is "cut before", "cut after", "cut unseen", "killed" or "held".
	Way     string  `json:"way"`
	Verdict Verdict `json:"verdict"`
	// Reason is one line that says why the verdict is not passed.
	Reason string `json:"reason,omitempty"`
	// Copies is how many more copies than one the message ended with.
	Copies int `json:"more_copies"`
	// Redeliveries is how often an entry that had been delivered was delivered again.
	Redeliveries int     `json:"redeliveries"`
	Seconds      float64 `json:"seconds"`
	// Case is where its evidence stands: the id in Run.Cases, such as CRP-002@17-cut-after; empty when
	// it passed.
	Case string `json:"case,omitempty"`
}

// verdict is the outcome's; what is no verdict is unknown, never a pass.
func (o *Outcome) verdict() Verdict {
	if slices.Contains(Verdicts(), o.Verdict) {
		return o.Verdict
	}
	return Unknown
}

// reached reports whether the path got to the point, so that something could be said about it.
func (o *Outcome) reached() bool {
	switch o.verdict() {
	case Passed, Failed, Known, Flaky, Fixed:
		return true
	default:
		return false
	}
}

// unexplored reports whether the path could not be explored, and why.
func (e *Exploration) unexplored() (v Verdict, why string, is bool) {
	switch {
	case e.Problem != "", e.Verdict != "" && e.Verdict != Passed:
		if v = e.Verdict; v == "" || v == Passed {
			v = Unknown
		}
		return v, cmp.Or(e.Problem, "no reason was recorded"), true
	case e.points() == 0:
		return Unknown, "no point was recorded", true
	default:
		return "", "", false
	}
}

// points is how many points the path has, those that were not run among them.
func (e *Exploration) points() int { return max(e.Recorded, len(e.Points)) }

// Verdicts returns what ExitCode needs to know of the exploration: the verdict of each run, an unknown
// for each point that was never run, and the exploration's own where the path could not be explored.
func (e *Exploration) Verdicts() []Verdict {
	var vs []Verdict
	if v, _, is := e.unexplored(); is {
		vs = append(vs, v)
	}
	for _, p := range e.Points {
		for _, o := range p.Outcomes {
			vs = append(vs, o.verdict())
		}
		if len(p.Outcomes) == 0 {
			vs = append(vs, Unknown)
		}
	}
	for range e.points() - len(e.Points) {
		vs = append(vs, Unknown)
	}
	return vs
}

// Count returns how many runs have the verdict.
func (e *Exploration) Count(v Verdict) int {
	n := 0
	for _, p := range e.Points {
		for _, o := range p.Outcomes {
			if o.verdict() == v {
				n++
			}
		}
	}
	return n
}

// MostCopies is how many more copies than one a message had, at most, after a single break.
func (e *Exploration) MostCopies() int {
	most := 0
	for _, p := range e.Points {
		for _, o := range p.Outcomes {
			most = max(most, o.Copies)
		}
	}
	return most
}

// Ways are the ways in which the path was broken, in the order in which they are first met.
func (e *Exploration) Ways() []string {
	var ways []string
	for _, p := range e.Points {
		for _, o := range p.Outcomes {
			if !slices.Contains(ways, o.Way) {
				ways = append(ways, o.Way)
			}
		}
	}
	return ways
}

// waysEverywhere is how many ways there are that no point lacks, of the points that were broken at all.
func (e *Exploration) waysEverywhere() int {
	n := 0
	for _, way := range e.Ways() {
		if !slices.ContainsFunc(e.Points, func(p Point) bool { return len(p.Outcomes) > 0 && p.outcome(way) == nil }) {
			n++
		}
	}
	return n
}

// outcome is the point's for the way, or nil.
func (p *Point) outcome(way string) *Outcome {
	for i := range p.Outcomes {
		if p.Outcomes[i].Way == way {
			return &p.Outcomes[i]
		}
	}
	return nil
}

// Coverage is how much of a recorded path was reached.
type Coverage struct {
	// Points is how many points were reached in every way; Recorded how many there are.
	Points, Recorded int
	// Runs is how many runs reached their point; Due how many there should be. A point that was never
	// run counts in the ways that every other point has.
	Runs, Due int
	// Missed are the points that were not reached in every way, in order.
	Missed []Missed
}

// Missed is a point that was not reached in some ways.
type Missed struct {
	// Number is the point's, from 1.
	Number int
	// Ways is empty where it was reached in none.
	Ways []string
}

// Full reports whether there are points, and all were reached in every way.
func (c Coverage) Full() bool { return c.Recorded > 0 && c.Points == c.Recorded }

// Percent is how many of the runs that are due reached their point, in percent, rounded down: 100 is
// all of them.
func (c Coverage) Percent() int {
	if c.Due == 0 {
		return 0
	}
	return 100 * c.Runs / c.Due
}

// Coverage returns how much of the path was reached.
func (e *Exploration) Coverage() Coverage {
	c := Coverage{Recorded: e.points()}
	everywhere := max(e.waysEverywhere(), 1)
	for i := range c.Recorded {
		if i >= len(e.Points) || len(e.Points[i].Outcomes) == 0 {
			c.Due += everywhere
			c.Missed = append(c.Missed, Missed{Number: i + 1})
			continue
		}
		var missed []string
		outcomes := e.Points[i].Outcomes
		for _, o := range outcomes {
			if !o.reached() {
				missed = append(missed, o.Way)
			}
		}
		c.Due += len(outcomes)
		c.Runs += len(outcomes) - len(missed)
		switch len(missed) {
		case 0:
			c.Points++
		case len(outcomes):
			c.Missed = append(c.Missed, Missed{Number: i + 1})
		default:
			c.Missed = append(c.Missed, Missed{i + 1, missed})
		}
	}
	return c
}

// String says which points were not reached, such as "3 (cut after, killed), 12 to 14"; empty for none.
func (c Coverage) String() string {
	var parts []string
	for i := 0; i < len(c.Missed); {
		first, n := c.Missed[i], 1
		for i+n < len(c.Missed) && c.Missed[i+n].Number == first.Number+n && slices.Equal(c.Missed[i+n].Ways, first.Ways) {
			n++
		}
		text := numbers(first.Number, first.Number+n-1)
		if len(first.Ways) > 0 {
			text += " (" + strings.Join(first.Ways, ", ") + ")"
		}
		parts = append(parts, text)
		i += n
	}
	return strings.Join(parts, ", ")
}

// numbers names the numbers from one to another.
func numbers(first, last int) string {
	switch last - first {
	case 0:
		return strconv.Itoa(first)
	case 1:
		return fmt.Sprintf("%d, %d", first, last)
	default:
		return fmt.Sprintf("%d to %d", first, last)
	}
}

// direction names the direction of a point.
func (p *Point) direction() string {
	if p.FromBroker {
		return "broker -> consumer"
	}
	return "consumer -> broker"
}

// command names what is sent at the point, without its direction and connection.
func (p *Point) command() string {
	text := outsideLine(p.Method)
	if p.Inside {
		text = "inside " + text
	}
	if p.Occurrence > 1 {
		text += fmt.Sprintf(" #%d", p.Occurrence)
	}
	message, where := outsideLine(p.Message), outsideLine(p.Where)
	if message != "" {
		text += " of " + message
	}
	if where == "" {
		return text
	}
	switch {
	case p.published():
		text += " to "
	case message != "":
		text += " from "
	default:
		text += " of "
	}
	return text + where
}

// published reports whether the point is about a publish: it, its return, or its confirm. Acks in the
// other direction settle deliveries.
func (p *Point) published() bool {
	switch p.Method {
	case "basic.publish", "basic.return":
		return true
	case "basic.ack", "basic.nack":
		return p.FromBroker
	default:
		return false
	}
}

// link names the point's connection: by its role, and by its number where another has the same role.
func (e *Exploration) link(p *Point) string {
	role := outsideLine(p.Role)
	shared := slices.ContainsFunc(e.Points, func(q Point) bool { return q.Role == p.Role && q.Connection != p.Connection })
	switch {
	case role == "":
		return fmt.Sprintf("(connection %d)", p.Connection)
	case shared:
		return fmt.Sprintf("(connection %d, %s)", p.Connection, role)
	default:
		return "(" + role + ")"
	}
}

// describe names a point for a reader, such as "consumer -> broker basic.publish of m1 to exchange
// retry.100 (publishing)".
func (e *Exploration) describe(p *Point) string {
	return p.direction() + " " + p.command() + " " + e.link(p)
}

// title names the exploration, such as "CRP-002 a full ladder, to parking, classic".
func (e *Exploration) title() string {
	title := strings.TrimSpace(outsideLine(e.Path) + " " + outsideLine(e.Name))
	if queue := outsideLine(e.QueueType); queue != "" {
		title += ", " + queue
	}
	return title
}

// more says how many more copies than one there are.
func more(copies int) string {
	if copies == 1 {
		return "1 more copy"
	}
	return fmt.Sprintf("%d more copies", copies)
}

// evidence is the case that keeps the evidence of a run on the broker, or nil.
func (r *Run) evidence(broker, id string) *Case {
	if id == "" {
		return nil
	}
	for i := range r.Cases {
		if r.Cases[i].ID == id && r.Cases[i].Broker == broker {
			return &r.Cases[i]
		}
	}
	return nil
}

// isEvidence returns which of the run's cases are the evidence of a run at a point, by broker and id.
func (r *Run) isEvidence() map[[2]string]bool {
	is := map[[2]string]bool{}
	for _, e := range r.Explorations {
		for _, p := range e.Points {
			for _, o := range p.Outcomes {
				if o.Case != "" {
					is[[2]string{e.Broker, o.Case}] = true
				}
			}
		}
	}
	return is
}
