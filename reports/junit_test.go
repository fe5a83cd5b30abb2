package reports

import (
	"encoding/xml"
	"slices"
	"strings"
	"testing"
)

func junit(t *testing.T, r *Run) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteJUnit(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWriteJUnit(t *testing.T) { golden(t, "junit.golden.xml", junit(t, sampleRun())) }

// element is any element of XML.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Text     string     `xml:",chardata"`
	Elements []element  `xml:",any"`
}

func (e element) attr(name string) string {
	for _, a := range e.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (e element) child(name string) *element {
	for i := range e.Elements {
		if e.Elements[i].XMLName.Local == name {
			return &e.Elements[i]
		}
	}
	return nil
}

func TestJUnitParsesAndAddsUp(t *testing.T) {
	var root element
	if err := xml.Unmarshal([]byte(junit(t, sampleRun())), &root); err != nil {
		t.Fatal(err)
	}
	// 14 cases, the broker that could not be had, and the interruption.
	for name, want := range map[string]string{"tests": "16", "failures": "3", "errors": "4", "skipped": "6", "time": "65.400"} {
		if got := root.attr(name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	if got := root.attr("timestamp"); got != "2026-03-04T04:06:07" {
		t.Errorf("timestamp %s is not in UTC", got)
	}
	results := map[string]string{}
	for _, s := range root.Elements {
		for _, c := range s.Elements {
			if c.XMLName.Local != "testcase" {
				continue
			}
			result := "passed"
			for _, r := range []string{"failure", "error", "skipped"} {
				if e := c.child(r); e != nil {
					result = r + " " + e.attr("message")
				}
			}
			results[c.attr("classname")+"/"+strings.Fields(c.attr("name"))[0]] = result
		}
	}
	for key, want := range map[string]string{
		"local.Retry/RTY-001":                       "passed",
		"4_3.Retry/RTY-001":                         "passed",
		"local.Retry/RTY-004":                       "failure nothing is lost: m1 has no fate",
		"local.Retry/RTY-005":                       "error the broker ended while the case ran: exit status 137",
		"local.Retry/RTY-007":                       "failure listed as known to fail, and it passed",
		"4_3.Retry/RTY-008":                         "error the cut of the publishing link never fired",
		"local.Retry/RPL-001":                       "skipped unsupported: the adapter does not support replies",
		"local.Retry/QUO-001":                       "skipped not-applicable: needs RabbitMQ >=4.0",
		"local.Retry/RTY-009":                       "skipped known: toa-io/comq drops the reason",
		"local.Retry/RTY-010":                       "skipped flaky: passed; listed as flaky",
		"4_3.Attempts 2_0/ATT-001":                  "failure the counter is right: reason ]]> � <b>bold</b>",
		"parkproof.Run/all":                         "error the run was interrupted before all cases had run",
		"amqp://guest:***@127_0_0_1:9/.Brokers/the": "error dial amqp://guest:***@127.0.0.1:9/: connection refused",
	} {
		if got := results[key]; got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

func TestJUnitKeepsLinesAndText(t *testing.T) {
	text := junit(t, sampleRun())
	for _, bad := range []string{"\x00", "\x1b", "\x07", "hunter2", "<script>", "&#xA;", "\ufffe"} {
		if strings.Contains(text, bad) {
			t.Errorf("the file holds %q", bad)
		}
	}
	var root element
	if err := xml.Unmarshal([]byte(text), &root); err != nil {
		t.Fatal(err)
	}
	for _, s := range root.Elements {
		for _, c := range s.Elements {
			if !strings.HasPrefix(c.attr("name"), "ATT-001") {
				continue
			}
			if got, want := c.attr("name"), "ATT-001 Attempts <script>alert(1)</script> ]]> & \"quotes\""; got != want {
				t.Errorf("name %q, want %q", got, want)
			}
			body := c.child("failure").Text
			for _, want := range []string{
				"  expected   x-attempt: 2\n", "  seen       x-attempt: ���2\ufffd\n",
				"  →  0.500 s  broker   delivered ]]><m1>\n    10.250 s  handler  failed\n",
			} {
				if !strings.Contains(body, want) {
					t.Errorf("the body lacks %q:\n%s", want, body)
				}
			}
			return
		}
	}
	t.Error("ATT-001 is not there")
}

func TestJUnitNeverSkipsAVerdictItDoesNotKnow(t *testing.T) {
	text := junit(t, &Run{Cases: []Case{{ID: "X-001", Verdict: "peculiar"}}})
	if !strings.Contains(text, `errors="1"`) {
		t.Errorf("no error in:\n%s", text)
	}
}

func TestWriteJUnitOfExplorations(t *testing.T) {
	golden(t, "explorations-junit.golden.xml", junit(t, explorations()))
}

func TestJUnitHasATestCaseForEachPointAndWay(t *testing.T) {
	text := junit(t, explorations())
	for _, bad := range []string{"\x1b", "\x07", "hunter2", "owned"} {
		if strings.Contains(text, bad) {
			t.Errorf("the file holds %q", bad)
		}
	}
	var root element
	if err := xml.Unmarshal([]byte(text), &root); err != nil {
		t.Fatal(err)
	}
	// 175 runs; 24 runs; 12 runs and 5 points that were not run; and 3 paths that could not be explored.
	for name, want := range map[string]string{"tests": "219", "failures": "5", "errors": "9", "skipped": "1"} {
		if got := root.attr(name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	var suites []string
	ids, results := map[string]bool{}, map[string]string{}
	for _, s := range root.Elements {
		suites = append(suites, s.attr("name"))
		for _, c := range s.Elements {
			if c.XMLName.Local != "testcase" {
				continue
			}
			id := c.attr("classname") + "/" + c.attr("name")
			if ids[id] {
				t.Errorf("two test cases are %s", id)
			}
			ids[id] = true
			for _, r := range []string{"failure", "error", "skipped"} {
				if e := c.child(r); e != nil {
					results[id] = r + " " + e.attr("message")
				}
			}
		}
	}
	want := []string{
		"CRP-002 A whole ladder, to parking, classic on local", "CRP-001 Handled <at> once, quorum on local", "CRP-003 Parked at once, classic on local",
		"CRP-006 A whole ladder, to parking, quorum on local", "CRP-004 Starting up, classic on local", "CRP-005 Handled at once, quorum on 3.8",
	}
	if !slices.Equal(suites, want) {
		t.Errorf("suites %q, want %q", suites, want)
	}
	for id, want := range map[string]string{
		"local.CRP-001 Handled <at> once, quorum/2 cut after: broker -> consumer basic.deliver of m1 from queue jobs (connection 2, consuming)":        "failure nothing is lost: m1 has no fate",
		"local.CRP-001 Handled <at> once, quorum/3 cut after: broker -> consumer inside basic.deliver of m1 from queue jobs (connection 2, consuming)": "error the point was never reached",
		"local.CRP-001 Handled <at> once, quorum/6 cut before: broker -> consumer basic.ack #2 of m1� to exchange retry.100 (publishing)":              "error no reason was recorded",
		"local.CRP-001 Handled <at> once, quorum/6 held: broker -> consumer basic.ack #2 of m1� to exchange retry.100 (publishing)":                    "failure m1 was acked before the confirm of its copy",
		"local.CRP-003 Parked at once, classic/8":                                   "error the point was not run",
		"local.CRP-006 A whole ladder, to parking, quorum/the path can be explored": "failure the path does not pass unbroken: m1 is parked twice",
		"local.CRP-004 Starting up, classic/the path can be explored":               "error the recordings differ: one of them lacks basic.cancel",
		"3_8.CRP-005 Handled at once, quorum/the path can be explored":              "skipped not-applicable: needs RabbitMQ >=3.10",
	} {
		if got := results[id]; got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	if !strings.Contains(text, "Passed with 1 more copy.") || !strings.Contains(text, "has come to its end") {
		t.Error("the copies or the evidence are not there")
	}
}

func TestJUnitLosesNoCaseThatNoExplorationNames(t *testing.T) {
	r := allPassed()
	r.Cases = []Case{{ID: "CRP-002@1-killed", Broker: "another", Feature: "F", Verdict: Failed, Reason: "m1 is lost"}, {Feature: "F", Broker: "local", Verdict: Failed}}
	if text := junit(t, r); !strings.Contains(text, `tests="177" failures="2"`) {
		t.Errorf("they are not there:\n%.300s", text)
	}
}
