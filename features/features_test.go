package features_test

import (
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/parkproof/parkproof/features"
	"github.com/parkproof/parkproof/scenarios/runner"
	"github.com/parkproof/parkproof/steps"
)

func load(t *testing.T) []*runner.Case {
	t.Helper()
	cases, err := runner.Load(features.FS)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := runner.LoadPaths(features.FS)
	if err != nil {
		t.Fatal(err)
	}
	return append(cases, paths...)
}

// few is less than what is there: a folder that is not embedded any more is noticed.
const few = 40

func TestTheCasesLoad(t *testing.T) {
	cases := load(t)
	if len(cases) < few {
		t.Errorf("only %d cases are embedded", len(cases))
	}
	seen := map[string]string{}
	names := map[string]string{}
	for _, c := range cases {
		if other, twice := seen[c.ID]; twice {
			t.Errorf("%s is in %s and in %s", c.ID, other, c.File)
		}
		if other, twice := names[c.Name]; twice {
			t.Errorf("%s and %s are both called %q", c.ID, other, c.Name)
		}
		seen[c.ID], names[c.Name] = c.File, c.ID
	}
	err := fs.WalkDir(features.FS, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && path.Ext(name) != ".feature" {
			t.Errorf("%s is embedded and no feature", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestEveryStepHasOneDefinition: a step with two is run by neither, and a definition that no case
// uses is code that nothing tests.
func TestEveryStepHasOneDefinition(t *testing.T) {
	used := map[string]int{}
	var definitions []*regexp.Regexp
	for _, text := range steps.Expressions() {
		expression, err := regexp.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(text, "^") || !strings.HasSuffix(text, "$") {
			t.Errorf("%s fits parts of steps", text)
		}
		definitions = append(definitions, expression)
	}
	if len(definitions) < few {
		t.Errorf("only %d steps are defined", len(definitions))
	}
	for _, c := range load(t) {
		for _, step := range c.Steps {
			var fit []string
			for _, d := range definitions {
				if d.MatchString(step.Text) {
					fit = append(fit, d.String())
					used[d.String()]++
				}
			}
			switch len(fit) {
			case 0:
				t.Errorf("%s: %s %s: no definition", c.ID, step.Keyword, step.Text)
			case 1:
			default:
				t.Errorf("%s: %s %s: %d definitions: %s", c.ID, step.Keyword, step.Text, len(fit), strings.Join(fit, ", "))
			}
		}
	}
	for _, d := range definitions {
		if used[d.String()] == 0 {
			t.Errorf("no case has a step for %s", d)
		}
	}
}

var (
	sourceForm = regexp.MustCompile(`^([CFAXK]\d+|B\d+)$`)
	pageForm   = regexp.MustCompile(`^(doc:[a-z0-9-]+|bug:B\d+)$`)
	tagForm    = regexp.MustCompile(`^@[a-zA-Z0-9][a-zA-Z0-9:.,<>=-]*$`)
)

func TestSourcesAreNumberedAsTheyAreListed(t *testing.T) {
	for _, c := range load(t) {
		for _, source := range c.Sources {
			if !sourceForm.MatchString(source) && !pageForm.MatchString(source) {
				t.Errorf("%s: the source %q has the form of none", c.ID, source)
			}
		}
		for _, tag := range c.Tags {
			if !tagForm.MatchString(tag) {
				t.Errorf("%s: the tag %q cannot be selected by", c.ID, tag)
			}
		}
	}
}

func TestWhyIsASentence(t *testing.T) {
	for _, c := range load(t) {
		if !strings.HasSuffix(c.Why, ".") || len(strings.Fields(c.Why)) < 4 {
			t.Errorf("%s: %q says not why it matters", c.ID, c.Why)
		}
	}
}

var (
	asAttempts = regexp.MustCompile(`(once|twice|\d+ times), as attempts ([\d, ]+)$`)
	countsAll  = regexp.MustCompile(`^there are \d+ (retry|parking) queues$`)
)

// TestAttemptsAreAsManyAsDeliveries: a step that says both says the same twice.
func TestAttemptsAreAsManyAsDeliveries(t *testing.T) {
	for _, c := range load(t) {
		for _, step := range c.Steps {
			match := asAttempts.FindStringSubmatch(step.Text)
			if match == nil {
				continue
			}
			count := strings.TrimSuffix(strings.NewReplacer("once", "1", "twice", "2").Replace(match[1]), " times")
			if n, err := strconv.Atoi(count); err != nil || n != len(strings.Split(match[2], ",")) {
				t.Errorf("%s: %s", c.ID, step.Text)
			}
		}
	}
}

// TestCasesThatCountQueuesSayIt: where a virtual host is shared, the count is not the case's.
func TestCasesThatCountQueuesSayIt(t *testing.T) {
	for _, c := range load(t) {
		counts := false
		for _, step := range c.Steps {
			counts = counts || countsAll.MatchString(step.Text)
		}
		if counts != c.Has("@counts-queues") {
			t.Errorf("%s: counts queues: %t; has the tag @counts-queues: %t", c.ID, counts, c.Has("@counts-queues"))
		}
	}
}
