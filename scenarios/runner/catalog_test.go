package runner

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// feature is a feature file with one case, of which each part can be replaced.
func feature(tags, name, why, steps string) string {
	return fmt.Sprintf("Feature: Things\n\n  %s\n  Scenario: %s\n    %s\n\n    %s\n", tags, name, why, steps)
}

func loading(files map[string]string) ([]*Case, error) {
	fs := fstest.MapFS{}
	for name, text := range files {
		fs[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return Load(fs)
}

func TestLoad(t *testing.T) {
	cases, err := loading(map[string]string{
		"b/second.feature": feature("@TST-002 @should @doc:ttl @bug:B04 @broker:>=3.10,<4", "The second", "Because\n    of this.", "Given a thing"),
		"a/first.feature": `@area
Feature: Everything

  Background:
    Given the ground

  @TST-001 @must @source:C32 @source:F13
  Scenario: The first
    It matters.

    Given a thing
    When it happens
    Then it is seen

  @claim
  Rule: A rule

    Background:
      Given more ground

    @TST-003 @must @source:A01
    Scenario: Within the rule
      It matters too.

      * it is seen
`,
		"a/notes.txt": "no feature",
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range cases {
		ids = append(ids, c.ID)
	}
	if !slices.Equal(ids, []string{"TST-001", "TST-003", "TST-002"}) {
		t.Fatalf("the order is %v", ids)
	}
	first, within, second := cases[0], cases[1], cases[2]
	if first.Name != "The first" || first.Feature != "Everything" || first.File != "a/first.feature" || first.Line != 8 ||
		first.Level != "must" || !slices.Equal(first.Sources, []string{"C32", "F13"}) || first.Why != "It matters." {
		t.Errorf("%+v", first)
	}
	if want := []Step{{Keyword: "Given", Text: "the ground"}, {Keyword: "Given", Text: "a thing"}, {Keyword: "When", Text: "it happens"}, {Keyword: "Then", Text: "it is seen"}}; !reflect.DeepEqual(first.Steps, want) {
		t.Errorf("%v", first.Steps)
	}
	// The tags of the feature and of the rule are the case's too, and so are both backgrounds.
	if !within.Has("@claim") || !within.Has("@area") || !within.Has("@must") || first.Has("@claim") {
		t.Errorf("%v", within.Tags)
	}
	if want := []Step{{Keyword: "Given", Text: "the ground"}, {Keyword: "Given", Text: "more ground"}, {Keyword: "*", Text: "it is seen"}}; !reflect.DeepEqual(within.Steps, want) {
		t.Errorf("%v", within.Steps)
	}
	if second.Level != "should" || second.Why != "Because of this." || !slices.Equal(second.Sources, []string{"doc:ttl", "bug:B04"}) {
		t.Errorf("%+v", second)
	}
}

func TestCasesThatBreakTheRules(t *testing.T) {
	const why, steps = "It matters.", "Given a thing"
	for _, tt := range []struct {
		name, text, says string
	}{
		{"no id", feature("@must @source:C32", "X", why, steps), "bad.feature:4: the case \"X\" lacks an id, such as @RTY-004"},
		{"an id of another form", feature("@RT-4 @must @source:C32", "X", why, steps), "lacks an id"},
		{"no level", feature("@TST-001 @source:C32", "X", why, steps), "lacks a level, @must or @should"},
		{"two levels", feature("@TST-001 @must @should @source:C32", "X", why, steps), "is both @must and @should"},
		{"no source", feature("@TST-001 @must", "X", why, steps), "lacks a source"},
		{"no why", feature("@TST-001 @must @source:C32", "X", "", steps), "lacks a sentence under its name"},
		{"no steps", feature("@TST-001 @must @source:C32", "X", why, ""), "lacks steps"},
		{"two ids", feature("@TST-001 @TST-002 @must @source:C32", "X", why, steps), "two ids, TST-001 and @TST-002"},
		{"a range that cannot be read", feature("@TST-001 @must @source:C32 @broker:~3", "X", why, steps), "cannot be read"},
		{"no feature", "# nothing\n", "there is no feature in it"},
		{"no Gherkin", "Feature: X\n  Scenario: Y\n    Given z\n  nonsense\n", "bad.feature"},
		{
			"one id twice in a file",
			feature("@TST-001 @must @source:C32", "X", why, steps) + "\n  @TST-001 @must @source:C32\n  Scenario: Y\n    " + why + "\n\n    " + steps + "\n",
			"bad.feature:10: the id TST-001 is also at bad.feature:4",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loading(map[string]string{"bad.feature": tt.text})
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
	_, err := loading(map[string]string{
		"a.feature": feature("@TST-001 @must @source:C32", "X", why, steps),
		"b.feature": feature("@TST-001 @must @source:C32", "Y", why, steps),
	})
	if err == nil || !strings.Contains(err.Error(), "b.feature:4: the id TST-001 is also at a.feature:4") {
		t.Errorf("in two files: %v", err)
	}
}

func TestARulesTagsAreInherited(t *testing.T) {
	cases, err := loading(map[string]string{"a.feature": `Feature: X

  @should @source:C01
  Rule: R

    @TST-001
    Scenario: Y
      It matters.

      Given a thing
`})
	if err != nil || cases[0].Level != "should" || !slices.Equal(cases[0].Sources, []string{"C01"}) {
		t.Errorf("%+v, %v", cases, err)
	}
}
