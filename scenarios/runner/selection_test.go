package runner

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	cases := []*Case{
		{ID: "RTY-001", Tags: []string{"@RTY-001", "@must"}},
		{ID: "RTY-002", Tags: []string{"@RTY-002", "@should"}},
		{ID: "PRK-001", Tags: []string{"@PRK-001", "@must", "@quorum"}},
	}
	for _, tt := range []struct {
		selection Selection
		want      []string
	}{
		{Selection{}, []string{"RTY-001", "RTY-002", "PRK-001"}},
		{Selection{Cases: []string{"PRK-001", "RTY-001", "RTY-001"}}, []string{"RTY-001", "PRK-001"}},
		{Selection{Tags: "@must and not @quorum"}, []string{"RTY-001"}},
		{Selection{Tags: "@must", Cases: []string{"RTY-002", "PRK-001"}}, []string{"PRK-001"}},
		{Selection{Tags: "@should and @quorum"}, nil},
	} {
		selected, err := Select(cases, tt.selection)
		if err != nil {
			t.Errorf("%+v: %v", tt.selection, err)
		}
		var ids []string
		for _, c := range selected {
			ids = append(ids, c.ID)
		}
		if !slices.Equal(ids, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.selection, ids, tt.want)
		}
	}
	for _, tt := range []struct {
		selection Selection
		says      string
	}{
		{Selection{Cases: []string{"RTY-009"}}, `there is no case "RTY-009": parkproof list shows them all`},
		{Selection{Cases: []string{"rty-002"}}, "did you mean RTY-002?"},
		{Selection{Cases: []string{""}}, `there is no case ""`},
		{Selection{Tags: "@missing or @must"}, "no case has the tag @missing: parkproof list --tags shows them all"},
		{Selection{Tags: "@must and"}, "cannot be read: a tag is missing at the end"},
		{Selection{Tags: "(@must"}, "a parenthesis is not closed"},
		{Selection{Tags: "must"}, `"must" is no tag`},
		{Selection{Tags: " "}, "cannot be read"},
	} {
		_, err := Select(cases, tt.selection)
		var mistake *UsageError
		if !errors.As(err, &mistake) || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", tt.selection, err, tt.says)
		}
	}
}
