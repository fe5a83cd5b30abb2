package runner

import "testing"

func TestTagExpressions(t *testing.T) {
	tags := []string{"@must", "@consumer", "@RTY-004", "@source:C32"}
	for expression, want := range map[string]bool{
		"@must":                              true,
		"@should":                            false,
		"not @should":                        true,
		"@must and @consumer":                true,
		"@must and not @consumer":            false,
		"@should or @consumer":               true,
		"@should or @must and @missing":      false,
		"(@should or @must) and @source:C32": true,
		"not (@should or @must)":             false,
		"not not @must":                      true,
	} {
		e, err := parseTags(expression)
		if err != nil {
			t.Errorf("%q: %v", expression, err)
			continue
		}
		if got := e(tags); got != want {
			t.Errorf("%q of %v is %t, want %t", expression, tags, got, want)
		}
	}
}

func TestTagExpressionsThatCannotBeRead(t *testing.T) {
	for _, expression := range []string{"", "must", "@a @b", "@a and", "or @a", "(@a", "@a)", "not", "@", "@a && @b", "~@a"} {
		if _, err := parseTags(expression); err == nil {
			t.Errorf("%q was read", expression)
		}
	}
}
