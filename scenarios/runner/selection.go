package runner

import (
	"fmt"
	"slices"
	"strings"
)

// Selection says which cases to run.
type Selection struct {
	// Cases are ids; without any, all cases are meant.
	Cases []string
	// Tags is a tag expression, such as "@must and not @slow".
	Tags string
}

// UsageError is a mistake in what the user asked for.
type UsageError struct{ Text string }

func (e *UsageError) Error() string { return e.Text }

// Select returns the selected cases in their order. An id or a tag that no case has is a mistake.
func Select(cases []*Case, s Selection) ([]*Case, error) {
	for _, id := range s.Cases {
		if !slices.ContainsFunc(cases, func(c *Case) bool { return c.ID == id }) {
			return nil, &UsageError{fmt.Sprintf("there is no case %q: parkproof list shows them all%s", id, near(cases, id))}
		}
	}
	matches := tagExpression(func([]string) bool { return true })
	if s.Tags != "" {
		expression, err := parseTags(s.Tags)
		if err != nil {
			return nil, &UsageError{fmt.Sprintf("the tag expression %q cannot be read: %v; write such as \"@must and not @quorum\"", s.Tags, err)}
		}
		for _, tag := range tagsIn(s.Tags) {
			if !slices.ContainsFunc(cases, func(c *Case) bool { return c.Has(tag) }) {
				return nil, &UsageError{fmt.Sprintf("no case has the tag %s: parkproof list --tags shows them all", tag)}
			}
		}
		matches = expression
	}
	var selected []*Case
	for _, c := range cases {
		if (len(s.Cases) == 0 || slices.Contains(s.Cases, c.ID)) && matches(c.Tags) {
			selected = append(selected, c)
		}
	}
	return selected, nil
}

// near names a case that the user may have meant.
func near(cases []*Case, id string) string {
	for _, c := range cases {
		if strings.EqualFold(c.ID, id) {
			return fmt.Sprintf("; did you mean %s?", c.ID)
		}
	}
	return ""
}

// tagsIn are the tags that an expression names.
func tagsIn(expression string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(expression, func(r rune) bool { return strings.ContainsRune(" ()", r) }), func(word string) bool {
		return !strings.HasPrefix(word, "@")
	})
}
