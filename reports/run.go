// Package reports holds the record of a run, run.json, and everything that is derived from it,
// one renderer a file. The record is pure data: the runner fills it, renderers read it.
package reports

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Schema names the version of run.json that this package writes.
const Schema = "parkproof.run/1"

// Run is the record of one run: the content of run.json, and the source of every other report.
type Run struct {
	Schema   string    `json:"schema"`
	Tool     Tool      `json:"tool"`
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Command  []string  `json:"command"`
	Consumer Consumer  `json:"consumer"`
	Brokers  []Broker  `json:"brokers"`
	Cases    []Case    `json:"cases"`
	// Explorations are the paths that were broken at every point. Cases then holds the evidence of those
	// of their runs that did not pass.
	Explorations []Exploration `json:"explorations,omitempty"`
	// Interrupted says that the run was ended before all cases had run.
	Interrupted bool `json:"interrupted,omitempty"`
	// ExitCode is what parkproof exited with.
	ExitCode int `json:"exit_code"`
}

// Tool is the parkproof that ran.
type Tool struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

// Consumer is the consumer under test, as its adapter described it when it was first asked.
type Consumer struct {
	Command  []string `json:"command"`
	Name     string   `json:"name,omitempty"`
	Version  string   `json:"version,omitempty"`
	Supports []string `json:"supports,omitempty"`
}

// Broker is one broker that cases ran on.
type Broker struct {
	// Name is the value of --broker.
	Name string `json:"name"`
	// Provider is local, container or url.
	Provider string `json:"provider,omitempty"`
	Version  string `json:"version,omitempty"`
	Runtime  string `json:"runtime,omitempty"`
	Image    string `json:"image,omitempty"`
	Digest   string `json:"digest,omitempty"`
	// BootSeconds is the time from starting it to the first vhost; 0 where it ran already.
	BootSeconds float64 `json:"boot_seconds,omitempty"`
	// FirstCaseSeconds is the time from starting it to the first case running.
	FirstCaseSeconds float64 `json:"first_case_seconds,omitempty"`
	// Error says why it could not be had.
	Error string `json:"error,omitempty"`
}

// Case is one case on one broker.
type Case struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Feature string   `json:"feature"`
	File    string   `json:"file"`
	Line    int      `json:"line"`
	Level   string   `json:"level"`
	Sources []string `json:"sources,omitempty"`
	Tags    []string `json:"tags,omitempty"`
	// Why is the sentence under the case's name.
	Why    string `json:"why"`
	Broker string `json:"broker"`

	Verdict Verdict `json:"verdict"`
	// Reason is one line that says why the verdict is not passed.
	Reason string `json:"reason,omitempty"`
	// Guarantee is what broke, in words.
	Guarantee string `json:"guarantee,omitempty"`
	Expected  string `json:"expected,omitempty"`
	Seen      string `json:"seen,omitempty"`
	// Try is how often the case was run: more than 1 only after it was broken.
	Try int `json:"try"`
	// At is when the case began, in seconds since the run began.
	At      float64 `json:"at_seconds"`
	Seconds float64 `json:"seconds"`

	Steps    []Step    `json:"steps"`
	Findings []Finding `json:"findings,omitempty"`
	Messages []Message `json:"messages,omitempty"`
	// Timeline is what happened to the messages that the findings speak of or that a fault touched, or to all
	// of them. It and the four below are there where the case did not pass or a fault fired.
	Timeline []Moment `json:"timeline,omitempty"`
	// Connections are those of the consumer's processes; of more than 100, the first and last 50.
	Connections []Connection `json:"connections,omitempty"`
	// Consumers are how many consumers each queue had.
	Consumers []Consumers `json:"consumers,omitempty"`
	// Unacked are deliveries that the consumer never settled and never gave back; at most 100.
	Unacked []Unacked `json:"unacked,omitempty"`
	// HeartbeatsMissed are the silences on the consumer's connections; at most 100.
	HeartbeatsMissed []Silence `json:"heartbeats_missed,omitempty"`
	// Warnings are remarks about the adapter that break no guarantee.
	Warnings []string `json:"warnings,omitempty"`
	// ConsumerLog is the end of what the consumer's processes wrote to stderr.
	ConsumerLog []string `json:"consumer_log,omitempty"`
}

// Unrun reports whether the case was not run at all, since its broker or its adapter could not be
// used. (A case that does not apply is not run either, and not broken.)
func (c *Case) Unrun() bool { return c.Verdict == Broken && c.Try == 0 && len(c.Steps) == 0 }

// Step is one step of a case.
type Step struct {
	Keyword string `json:"keyword"`
	Text    string `json:"text"`
	// Status is passed, failed, skipped or broken.
	Status  string  `json:"status"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// Finding is one thing that the accounting or a step found wrong.
type Finding struct {
	// Guarantee is the guarantee that it breaks, such as "nothing is lost".
	Guarantee string `json:"guarantee"`
	Message   string `json:"message,omitempty"`
	Queue     string `json:"queue,omitempty"`
	Text      string `json:"text"`
}

// Message is what became of one message in one source queue.
type Message struct {
	ID    string `json:"id"`
	Queue string `json:"queue"`
	// Fate is handled, parked, kept, dropped, expired, returned, or lost.
	Fate   string `json:"fate"`
	Copies int    `json:"copies"`
	// Redeliveries is how often an entry that had been delivered was delivered again.
	Redeliveries int `json:"redeliveries,omitempty"`
	// Releases says how each ack of a copied message was graded: confirmed, ordered, unsafe.
	Releases []string `json:"releases,omitempty"`
}

// Moment is one line of a timeline.
type Moment struct {
	// Seconds since the case began.
	Seconds float64 `json:"seconds"`
	// Who acted: publisher, consumer, broker, handler or parkproof.
	Who  string `json:"who"`
	What string `json:"what"`
	// Marked lines are those that a finding points at, and those at which a fault fires.
	Marked bool `json:"marked,omitempty"`
}

// Connection is a connection of the consumer's to the broker.
type Connection struct {
	// Number is the one that the timeline calls it by.
	Number  int    `json:"number"`
	Process string `json:"process,omitempty"`
	// Opened and Closed are in seconds since the case began; nil for never.
	Opened *float64 `json:"opened_seconds,omitempty"`
	Closed *float64 `json:"closed_seconds,omitempty"`
	// By is who closed it: client, broker, parkproof (a fault cut it), or lost, where nobody said so.
	By string `json:"by,omitempty"`
	// Code and Text are those of its close; of a lost connection, Text says how it was lost.
	Code int    `json:"code,omitempty"`
	Text string `json:"text,omitempty"`
	// Channels are how many were opened on it, in all; OpenChannels how many are left open.
	Channels     int `json:"channels"`
	OpenChannels int `json:"open_channels,omitempty"`
}

// Consumers is how many consumers a queue had.
type Consumers struct {
	Queue string `json:"queue"`
	// Peak is the most at once that one process had; End what is left when the case ends, of all.
	Peak int `json:"peak"`
	End  int `json:"end"`
}

// Unacked is a delivery that was neither settled nor given back.
type Unacked struct {
	Message    string `json:"message,omitempty"`
	Queue      string `json:"queue"`
	Process    string `json:"process,omitempty"`
	Consumer   string `json:"consumer,omitempty"` // the consumer tag
	Connection int    `json:"connection"`
	Channel    int    `json:"channel"`
}

// Silence is a heartbeat that was missed.
type Silence struct {
	// Seconds since the case began, when it was noticed.
	Seconds float64 `json:"seconds"`
	// Who was silent: consumer or broker.
	Who        string `json:"who"`
	Connection int    `json:"connection"`
	// Text says for how long, and which heartbeat was agreed on.
	Text string `json:"text"`
}

// Verdicts returns the verdict of every case, in order.
func (r *Run) Verdicts() []Verdict {
	vs := make([]Verdict, len(r.Cases))
	for i, c := range r.Cases {
		vs[i] = c.Verdict
	}
	return vs
}

// Count returns how many cases have the verdict.
func (r *Run) Count(v Verdict) int {
	n := 0
	for _, c := range r.Cases {
		if c.Verdict == v {
			n++
		}
	}
	return n
}

// WriteJSON writes the record as run.json.
func (r *Run) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("writing the run's record: %w", err)
	}
	return nil
}

// ReadJSON reads a record that WriteJSON wrote.
func ReadJSON(rd io.Reader) (*Run, error) {
	var r Run
	if err := json.NewDecoder(rd).Decode(&r); err != nil {
		return nil, fmt.Errorf("reading the run's record: %w", err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("the run's record has the schema %q; this parkproof reads %q", r.Schema, Schema)
	}
	return &r, nil
}
