// Package runner chooses cases, runs them side by side on brokers, and gives each its verdict.
package runner

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	gherkin "github.com/cucumber/gherkin/go/v42"
	messages "github.com/cucumber/messages/go/v34"

	"github.com/parkproof/parkproof/steps"
)

// Case is one scenario of a feature.
type Case struct {
	// ID is the case's stable id, such as RTY-004.
	ID string
	// Name is the scenario's, Feature the feature's name.
	Name, Feature string
	// Why is the sentence under the scenario's name.
	Why string
	// File is the feature's path in the features folder; Line the scenario's.
	File string
	Line int
	// Level is must or should.
	Level string
	// Sources are the seeds, bug reports and pages of documentation that the case comes from.
	Sources []string
	// Tags are all tags, with their @, also those of the feature and the rule.
	Tags []string
	// Steps are the background's and the scenario's, in order.
	Steps []Step

	// Config is the name of the broker configuration that the case runs on; empty for the usual one.
	Config string

	content []byte
	config  string // the lines of the configuration
}

// Step is one step's text.
type Step struct {
	Keyword, Text string
	// Table is the step's table, row by row; nil for none.
	Table [][]string
}

// Has reports whether the case has the tag.
func (c *Case) Has(tag string) bool { return slices.Contains(c.Tags, tag) }

var idTag = regexp.MustCompile(`^@[A-Z]{3}-\d{3}[a-z]?$`)

// Load reads all cases of the features in a file system, in the order of files and lines. Cases
// that break the rules for cases are errors. Paths that are only explored are left out.
func Load(features fs.FS) ([]*Case, error) {
	all, err := loadAll(features)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(c *Case) bool { return c.Has(pathTag) }), nil
}

func loadAll(features fs.FS) ([]*Case, error) {
	var cases []*Case
	seen := map[string]*Case{}
	err := fs.WalkDir(features, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".feature" {
			return err
		}
		content, err := fs.ReadFile(features, name)
		if err != nil {
			return err
		}
		of, err := parse(name, content)
		if err != nil {
			return err
		}
		for _, c := range of {
			if other := seen[c.ID]; other != nil {
				return fmt.Errorf("%s:%d: the id %s is also at %s:%d", c.File, c.Line, c.ID, other.File, other.Line)
			}
			if err := c.configure(features); err != nil {
				return err
			}
			seen[c.ID] = c
			cases = append(cases, c)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the cases: %w", err)
	}
	return cases, nil
}

func parse(name string, content []byte) ([]*Case, error) {
	n := 0
	newID := func() string { n++; return fmt.Sprint(n) }
	doc, err := gherkin.ParseGherkinDocument(strings.NewReader(string(content)), newID)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if doc.Feature == nil {
		return nil, fmt.Errorf("%s: there is no feature in it", name)
	}
	nodes := nodesOf(doc.Feature)
	var cases []*Case
	for _, pickle := range gherkin.Pickles(*doc, name, newID) {
		scenario := nodes.scenarios[pickle.AstNodeIds[0]]
		c := &Case{
			Name: pickle.Name, Feature: doc.Feature.Name, File: name, Line: int(scenario.Location.Line),
			Why: sentence(scenario.Description), content: content,
		}
		for _, tag := range pickle.Tags {
			c.Tags = append(c.Tags, tag.Name)
			switch source, isSource := strings.CutPrefix(tag.Name, "@source:"); {
			case isSource:
				c.Sources = append(c.Sources, source)
			case strings.HasPrefix(tag.Name, "@doc:"), strings.HasPrefix(tag.Name, "@bug:"):
				c.Sources = append(c.Sources, strings.TrimPrefix(tag.Name, "@"))
			case idTag.MatchString(tag.Name):
				if c.ID != "" {
					return nil, fmt.Errorf("%s:%d: the case has two ids, %s and %s", name, c.Line, c.ID, tag.Name)
				}
				c.ID = tag.Name[1:]
			case tag.Name == "@must", tag.Name == "@should":
				if c.Level != "" && c.Level != tag.Name[1:] {
					return nil, fmt.Errorf("%s:%d: the case %q is both @must and @should", name, c.Line, c.Name)
				}
				c.Level = tag.Name[1:]
			case strings.HasPrefix(tag.Name, configTag):
				config := strings.TrimPrefix(tag.Name, configTag)
				if config == "" || c.Config != "" && c.Config != config {
					return nil, fmt.Errorf("%s:%d: the case %q has to name one configuration, such as %sNAME", name, c.Line, c.Name, configTag)
				}
				c.Config = config
			case strings.HasPrefix(tag.Name, "@broker:"):
				// Read again when it is run; a range that cannot be read must not hide a case.
				if _, err := inRange("0.0.0", strings.TrimPrefix(tag.Name, "@broker:")); err != nil {
					return nil, fmt.Errorf("%s:%d: the case %q: %w", name, c.Line, c.Name, err)
				}
			}
		}
		for _, step := range pickle.Steps {
			c.Steps = append(c.Steps, Step{strings.TrimSpace(nodes.steps[step.AstNodeIds[0]].Keyword), step.Text, table(step)})
		}
		if err := c.check(); err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// configFolder has the broker configurations that cases name, one file a configuration.
const configFolder = "config"

// configure reads the configuration that the case names.
func (c *Case) configure(features fs.FS) error {
	if c.Config == "" {
		return nil
	}
	file := path.Join(configFolder, c.Config+".conf")
	lines, err := fs.ReadFile(features, file)
	if err != nil {
		return fmt.Errorf("%s:%d: the case %q has the tag %s%s, and its configuration cannot be read: %w", c.File, c.Line, c.Name, configTag, c.Config, err)
	}
	c.config = string(lines)
	return nil
}

// check holds a case to the rules for cases.
func (c *Case) check() error {
	lacks := ""
	switch {
	case c.ID == "":
		lacks = "an id, such as @RTY-004"
	case c.Level == "":
		lacks = "a level, @must or @should"
	case len(c.Sources) == 0:
		lacks = "a source, such as @source:C32"
	case c.Why == "":
		lacks = "a sentence under its name that says why it matters"
	case len(c.Steps) == 0:
		lacks = "steps"
	default:
		return c.checkFaults()
	}
	return fmt.Errorf("%s:%d: the case %q lacks %s", c.File, c.Line, c.Name, lacks)
}

// checkFaults refuses faults that could never fire.
func (c *Case) checkFaults() error {
	lines := make([]steps.Line, len(c.Steps))
	for i, s := range c.Steps {
		lines[i] = steps.Line{Text: s.Text, Table: s.Table}
	}
	if err := steps.Check(lines); err != nil {
		return fmt.Errorf("%s:%d: the case %s: %w", c.File, c.Line, c.ID, err)
	}
	return nil
}

func table(step *messages.PickleStep) [][]string {
	if step.Argument == nil || step.Argument.DataTable == nil {
		return nil
	}
	var rows [][]string
	for _, row := range step.Argument.DataTable.Rows {
		var cells []string
		for _, cell := range row.Cells {
			cells = append(cells, cell.Value)
		}
		rows = append(rows, cells)
	}
	return rows
}

type nodes struct {
	scenarios map[string]*messages.Scenario
	steps     map[string]*messages.Step
}

func nodesOf(f *messages.Feature) nodes {
	n := nodes{map[string]*messages.Scenario{}, map[string]*messages.Step{}}
	background := func(b *messages.Background) {
		if b != nil {
			for _, s := range b.Steps {
				n.steps[s.Id] = s
			}
		}
	}
	scenario := func(sc *messages.Scenario) {
		if sc != nil {
			n.scenarios[sc.Id] = sc
			for _, s := range sc.Steps {
				n.steps[s.Id] = s
			}
		}
	}
	for _, child := range f.Children {
		background(child.Background)
		scenario(child.Scenario)
		if child.Rule != nil {
			for _, inner := range child.Rule.Children {
				background(inner.Background)
				scenario(inner.Scenario)
			}
		}
	}
	return n
}

// sentence joins the lines of a description.
func sentence(text string) string { return strings.Join(strings.Fields(text), " ") }
