package reports

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// junitTime is the form of a time in JUnit XML: UTC without a zone, which every schema takes.
const junitTime = "2006-01-02T15:04:05"

// junitSuites and what is below it follow the elements that Jenkins, GitLab and the common
// reporters for GitHub read (https://github.com/testmoapp/junitxml).
type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Stamp    string       `xml:"timestamp,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string           `xml:"name,attr"`
	Tests      int              `xml:"tests,attr"`
	Failures   int              `xml:"failures,attr"`
	Errors     int              `xml:"errors,attr"`
	Skipped    int              `xml:"skipped,attr"`
	Time       string           `xml:"time,attr"`
	Stamp      string           `xml:"timestamp,attr"`
	File       string           `xml:"file,attr,omitempty"`
	Properties *junitProperties `xml:"properties,omitempty"`
	Cases      []junitCase      `xml:"testcase"`

	seconds float64
}

type junitProperties struct {
	Properties []junitProperty `xml:"property"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name    string       `xml:"name,attr"`
	Class   string       `xml:"classname,attr"`
	File    string       `xml:"file,attr,omitempty"`
	Line    int          `xml:"line,attr,omitempty"`
	Time    string       `xml:"time,attr"`
	Skipped *junitResult `xml:"skipped"`
	Failure *junitResult `xml:"failure"`
	Error   *junitResult `xml:"error"`
	Out     *junitResult `xml:"system-out"`
	Err     *junitResult `xml:"system-err"`
}

// junitResult is an element with a text, whose lines stay lines.
type junitResult struct{ message, kind, text string }

// MarshalXML writes the element.
func (r junitResult) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	for _, a := range [][2]string{{"message", r.message}, {"type", r.kind}} {
		if a[1] != "" {
			start.Attr = append(start.Attr, xml.Attr{Name: xml.Name{Local: a[0]}, Value: a[1]})
		}
	}
	if err := e.EncodeToken(start); err != nil {
		return err
	}
	if r.text != "" {
		// A token of text, unlike a field of a struct, keeps its newlines.
		if err := e.EncodeToken(xml.CharData("\n" + r.text)); err != nil {
			return err
		}
	}
	return e.EncodeToken(start.End())
}

// WriteJUnit writes the run as JUnit XML: a test suite for every feature and broker, and for every path
// that was explored, with a test case for each of its points and ways. Failed and fixed cases are failures, broken and unknown ones are errors, and what else did not pass is
// skipped. A broker that could not be had and ran no case, and a run that was interrupted, are
// errors of their own, so that neither looks like a success.
func (r *Run) WriteJUnit(w io.Writer) error {
	all := junitSuites{
		Name: "parkproof", Time: seconds(r.Seconds), Stamp: r.Started.UTC().Format(junitTime),
	}
	suites := map[[2]string]*junitSuite{}
	var order []*junitSuite
	suite := func(feature, broker, file string, at float64) *junitSuite {
		key := [2]string{feature, broker}
		if s := suites[key]; s != nil {
			return s
		}
		s := &junitSuite{
			Name: feature, File: file,
			Stamp: r.Started.Add(time.Duration(at * float64(time.Second))).UTC().Format(junitTime),
		}
		if broker != "" {
			s.Name += " on " + outsideLine(broker)
			s.Properties = &junitProperties{r.junitProperties(broker)}
		}
		suites[key] = s
		order = append(order, s)
		return s
	}
	ran := map[string]bool{}
	told := r.isEvidence() // by a test case of its exploration
	for _, e := range r.Explorations {
		told[[2]string{e.Broker, e.Case}] = true
	}
	for _, c := range r.Cases {
		if told[[2]string{c.Broker, c.ID}] && c.ID != "" {
			continue
		}
		ran[c.Broker] = true
		feature := outsideLine(c.Feature)
		suite(feature, c.Broker, outsideLine(c.File), c.At).add(r.junitCase(&c), c.Verdict, c.Seconds)
	}
	for _, e := range r.Explorations {
		ran[e.Broker] = true
		into := suite(e.title(), e.Broker, "", 0)
		for _, c := range r.junitPoints(&e) {
			into.add(c.junitCase, c.verdict, c.seconds)
		}
	}
	for _, b := range r.Brokers {
		if b.Error != "" && !ran[b.Name] {
			suite("Brokers", b.Name, "", 0).add(junitCase{
				Name: "the broker can be had", Class: junitClass("Brokers", b.Name), Time: seconds(0),
				Error: &junitResult{message: outsideLine(b.Error), kind: string(Broken)},
			}, Broken, 0)
		}
	}
	if r.Interrupted {
		suite("Run", "", "", 0).add(junitCase{
			Name: "all cases ran", Class: "parkproof.Run", Time: seconds(0),
			Error: &junitResult{message: "the run was interrupted before all cases had run", kind: string(Unknown)},
		}, Unknown, 0)
	}
	for _, s := range order {
		s.Time = seconds(s.seconds)
		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Errors += s.Errors
		all.Skipped += s.Skipped
		all.Suites = append(all.Suites, *s)
	}

	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	return nil
}

// add appends a case and counts it.
func (s *junitSuite) add(c junitCase, v Verdict, seconds float64) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	s.seconds += seconds
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

// junitProperties say what a suite ran on.
func (r *Run) junitProperties(broker string) []junitProperty {
	var ps []junitProperty
	add := func(name, value string) {
		if value = outsideLine(value); value != "" {
			ps = append(ps, junitProperty{name, value})
		}
	}
	add("broker", broker)
	for _, b := range r.Brokers {
		if b.Name == broker {
			add("broker.version", b.Version)
			add("broker.provider", b.Provider)
			add("broker.runtime", b.Runtime)
			add("broker.image", b.Image)
			add("broker.digest", b.Digest)
		}
	}
	add("consumer", r.Consumer.Name)
	add("consumer.version", r.Consumer.Version)
	add("consumer.command", strings.Join(r.Consumer.Command, " "))
	add("parkproof.version", r.Tool.Version)
	return ps
}

// junitCase is one case as JUnit has it.
func (r *Run) junitCase(c *Case) junitCase {
	out := junitCase{
		Name: outsideLine(c.ID + " " + c.Name), Class: junitClass(outsideLine(c.Feature), c.Broker),
		File: outsideLine(c.File), Line: c.Line, Time: seconds(c.Seconds),
	}
	message := c.headline()
	switch c.Verdict {
	case Passed:
		if c.Try > 1 {
			out.Out = &junitResult{text: fmt.Sprintf("Passed on try %d; it was broken before.\n", c.Try)}
		}
		return out
	case Known, Flaky, Unsupported, NotApplicable:
		out.Skipped = &junitResult{message: string(c.Verdict) + ": " + message, kind: string(c.Verdict)}
	default:
		p := &page{}
		p.explain(c)
		result := &junitResult{message: message, kind: string(c.Verdict), text: p.text.String()}
		if c.Verdict == Failed || c.Verdict == Fixed {
			out.Failure = result
		} else {
			out.Error = result
		}
		if len(c.ConsumerLog) > 0 {
			out.Err = &junitResult{text: outside(strings.Join(c.ConsumerLog, "\n")) + "\n"}
		}
	}
	return out
}

// junitPoint is a test case of an exploration.
type junitPoint struct {
	junitCase
	verdict Verdict
	seconds float64
}

// junitPoints are the test cases of an exploration: one for each point and way, one for each point that
// was not run, and one for the path where it could not be explored.
func (r *Run) junitPoints(e *Exploration) []junitPoint {
	var all []junitPoint
	class := junitClass(e.title(), e.Broker)
	add := func(name, id string, otherwise Case) {
		c := otherwise
		if found := r.evidence(e.Broker, id); found != nil {
			c = *found
			c.Verdict, c.Reason, c.Seconds = otherwise.Verdict, cmp.Or(otherwise.Reason, c.Reason), otherwise.Seconds
		}
		out := r.junitCase(&c)
		out.Name, out.Class = name, class
		all = append(all, junitPoint{out, c.Verdict, c.Seconds})
	}
	if v, why, is := e.unexplored(); is {
		add("the path can be explored", e.Case, Case{Verdict: v, Reason: why})
	}
	for i := range e.points() {
		if i >= len(e.Points) {
			add(fmt.Sprintf("%d", i+1), "", Case{Verdict: Unknown, Reason: "the point was not run"})
			continue
		}
		p := &e.Points[i]
		if len(p.Outcomes) == 0 {
			add(fmt.Sprintf("%d: %s", i+1, e.describe(p)), "", Case{Verdict: Unknown, Reason: "the point was not run"})
		}
		for _, o := range p.Outcomes {
			add(fmt.Sprintf("%d %s: %s", i+1, outsideLine(o.Way), e.describe(p)), o.Case,
				Case{Verdict: o.verdict(), Reason: o.Reason, Seconds: o.Seconds})
			if last := &all[len(all)-1]; last.Out == nil && last.verdict == Passed && o.Copies > 0 {
				last.Out = &junitResult{text: "Passed with " + more(o.Copies) + ".\n"}
			}
		}
	}
	return all
}

// headline says in one line why the case did not pass.
func (c *Case) headline() string {
	guarantee, reason := outsideLine(c.Guarantee), outsideLine(c.Reason)
	switch {
	case c.Verdict == Fixed && reason == "":
		return "listed as known to fail, and it passed"
	case guarantee == "" && reason == "":
		return "no reason was recorded"
	case guarantee == "":
		return reason
	case reason == "" || reason == guarantee:
		return guarantee
	default:
		return guarantee + ": " + reason
	}
}

// junitClass is the class name of a feature's cases on a broker. Jenkins takes what stands before
// the last dot for the package: that is the broker, so neither part may have dots of its own.
func junitClass(feature, broker string) string {
	part := func(s string) string { return strings.ReplaceAll(s, ".", "_") }
	return part(outsideLine(broker)) + "." + part(feature)
}
