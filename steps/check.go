package steps

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/parkproof/parkproof/toxics"
)

// Line is a step as it was written.
type Line struct {
	Text  string
	Table [][]string
}

var (
	// pointed finds the point that a step of a fault names.
	pointed = regexp.MustCompile(`^(?:the connection is cut (?:before|after|inside|at) |the consumer's process (?:is (?:killed|paused) (?:at|inside)|gets SIGTERM at) )?` + point +
		`(?:, unseen by its sender| is (?:held|dropped|delayed by \w+))?$`)
	faulty = regexp.MustCompile(`^the connection is cut |^the consumer's process (?:is (?:killed|paused) (?:at|inside)|gets SIGTERM at) | is (?:held|dropped)$| is delayed by \w+$`)
	toxic  = regexp.MustCompile(`^the ` + linkWords + ` has the toxic "([^"]*)"(?: (to the broker|to the consumer))?(?: with (.+))?$`)

	declaring   = regexp.MustCompile(`^an? (?:[a-z ]*)?(?:queue|exchange) "([^"]*)"`)
	publishing  = regexp.MustCompile(`^"([^"]*)" is published `)
	publishingN = regexp.MustCompile(`^(?:the messages|(\d+) messages) "([^"]*)"(?: (?:to|and \d+ messages) "([^"]*)")? are published `)
)

// Check finds what is wrong with the faults of a case before it is run: a trigger that names an unknown
// method, or a message or queue that the case does not have, would never fire.
func Check(lines []Line) error {
	var messages, places []string
	for _, l := range lines {
		if m := declaring.FindStringSubmatch(l.Text); m != nil {
			places = append(places, m[1])
		}
		if m := publishing.FindStringSubmatch(l.Text); m != nil {
			messages = append(messages, m[1])
		}
		if m := publishingN.FindStringSubmatch(l.Text); m != nil {
			if names, err := span(m[2], m[3]); err == nil {
				messages = append(messages, names...)
			} else {
				messages = append(messages, m[2], m[3])
			}
		}
		if strings.HasPrefix(l.Text, "these messages are published") {
			for _, row := range l.Table {
				messages = append(messages, row[0])
			}
		}
	}
	for _, l := range lines {
		if err := checkLine(l.Text, messages, places); err != nil {
			return err
		}
	}
	return nil
}

func checkLine(text string, messages, places []string) error {
	if m := toxic.FindStringSubmatch(text); m != nil {
		attributes, err := readAttributes(m[4], m[2])
		if err != nil {
			return err
		}
		if err := (toxics.LinkFault{Type: m[2], Attributes: attributes, ToBroker: true}).Check(); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
	}
	if !faulty.MatchString(text) {
		return nil
	}
	m := pointed.FindStringSubmatch(text)
	if m == nil {
		return nil // no step at all, which is said when it is run
	}
	s, err := readPoint(m[1])
	if err != nil {
		return err
	}
	if s.message != "" && !slices.ContainsFunc(messages, func(published string) bool {
		return toxics.Matches(s.message, published) || toxics.Matches(published, s.message)
	}) {
		return fmt.Errorf("%q names the message %q, which the case never publishes", text, s.message)
	}
	if s.place != "" && !slices.Contains(places, s.place) {
		return fmt.Errorf("%q names the queue or exchange %q, which the case does not declare", text, s.place)
	}
	if strings.HasSuffix(text, " is dropped") {
		_, named := methodsOf[s.what]
		if named && !methodsOf[s.what].fromBroker || s.what != "confirm" && s.what != "refusal" {
			return fmt.Errorf("%q: only confirms can be dropped: without any other frame, what follows cannot be understood", text)
		}
	}
	return nil
}

// readAttributes reads a toxic's attributes, "latency=200, jitter=0".
func readAttributes(text, kind string) (map[string]any, error) {
	attributes := map[string]any{}
	for _, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, value, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the attribute %q of the toxic %q is no number: say such as latency=200", pair, kind)
		}
		attributes[name] = n
	}
	return attributes, nil
}
