// Package readme holds the README to what the program does: its outputs, its tables and its example.
package readme

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parkproof/parkproof/features"
	"github.com/parkproof/parkproof/scenarios/broker"
	"github.com/parkproof/parkproof/scenarios/runner"
)

const root = "../.."

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// block is what stands behind a marker, in its fence.
func block(t *testing.T, text, marker string) string {
	t.Helper()
	_, after, found := strings.Cut(text, "<!-- "+marker+" -->\n```")
	if !found {
		t.Fatalf("README.md has no block %q", marker)
	}
	_, after, _ = strings.Cut(after, "\n")
	content, _, closed := strings.Cut(after, "\n```")
	if !closed {
		t.Fatalf("the block %q is not closed", marker)
	}
	return strings.TrimSpace(content)
}

func TestExampleIsTheFile(t *testing.T) {
	file, err := os.ReadFile(filepath.Join(root, "adapters/naive/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if got := block(t, readme(t), "file: adapters/naive/main.go"); got != strings.TrimSpace(string(file)) {
		t.Error("the example in README.md is not adapters/naive/main.go: make docs puts it there")
	}
}

func TestTableOfCases(t *testing.T) {
	cases, err := runner.Load(features.FS)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	about := map[string]string{}
	for _, c := range cases {
		area, _, _ := strings.Cut(c.ID, "-")
		count[area]++
		about[area] = c.Feature
	}
	var rows []string
	for area, n := range count {
		rows = append(rows, fmt.Sprintf("| %s | %d | %s |", area, n, about[area]))
	}
	slices.Sort(rows)
	want := "<!-- table: cases -->\n| area | cases | about |\n| --- | --- | --- |\n" + strings.Join(rows, "\n") + "\n\n"
	if !strings.Contains(readme(t), want) {
		t.Errorf("the table of cases in README.md should be\n%s", want)
	}
	if all := fmt.Sprintf("%d cases passed", len(cases)); !strings.Contains(readme(t), all) {
		t.Errorf("README.md does not say %q", all)
	}
}

// TestOutput runs what the README shows and compares it, times and versions aside. What happens at
// the same moment on different connections has no order: lines are compared as a set.
func TestOutput(t *testing.T) {
	bin := built(t)
	run := exec.CommandContext(t.Context(), filepath.Join(bin, "parkproof"), "verify", "--broker", "local", "--case", "RTY-001",
		"--out", filepath.Join(bin, "report"), "--", filepath.Join(bin, "naive"))
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	err := run.Run()
	if code := run.ProcessState.ExitCode(); code != 1 {
		t.Fatalf("exit code %d, %v, want 1\n%s%s", code, err, stdout.String(), stderr.String())
	}
	_, after, _ := strings.Cut(stdout.String(), "FAILED  RTY-001")
	got, _, _ := strings.Cut("FAILED  RTY-001"+after, "\n1 failed")
	want := block(t, readme(t), "output: parkproof verify --broker local --case RTY-001 -- bin/naive")
	if g, w := lines(got), lines(want); !slices.Equal(g, w) {
		t.Errorf("the output is\n%s\nREADME.md says\n%s", strings.Join(g, "\n"), strings.Join(w, "\n"))
	}
}

// built builds parkproof and the example, where there is a broker to run them on.
func built(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT TESTED in short mode: the outputs in README.md, which need a broker")
	}
	if spec, err := broker.Parse("local"); err != nil {
		t.Fatal(err)
	} else if _, err := broker.Resolve(t.Context(), spec); err != nil {
		t.Skipf("NOT TESTED: the outputs in README.md need a local broker: %v", err)
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".", "./adapters/naive")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// TestExploration runs the exploration that the README shows. How many copies a run ends with may depend on
// what the consumer was doing on its other connection.
func TestExploration(t *testing.T) {
	bin := built(t)
	run := exec.CommandContext(t.Context(), filepath.Join(bin, "parkproof"), "explore", "--broker", "local", "--path", "CRP-003",
		"--out", filepath.Join(bin, "report"))
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, after, _ := strings.Cut(string(out), "\nCRP-003")
	got, _, _ := strings.Cut("CRP-003"+after, "\nReport:")
	want := block(t, readme(t), "output: parkproof explore --broker local --path CRP-003")
	if g, w := explored(got), explored(want); !slices.Equal(g, w) {
		t.Errorf("the output is\n%s\nREADME.md says\n%s", strings.Join(g, "\n"), strings.Join(w, "\n"))
	}
}

func explored(text string) []string {
	return lines(briefly.ReplaceAllString(strings.ReplaceAll(text, "+1 ", "· "), "0.0 s"))
}

var (
	briefly  = regexp.MustCompile(`\d+\.\d s`)
	seconds  = regexp.MustCompile(`\d+\.\d{3} s`)
	versions = regexp.MustCompile(`\(\d+\.\d+\.\d+\)`)
	spaces   = regexp.MustCompile(` +`)
)

// lines are the lines of an output, sorted, without what differs from run to run.
func lines(text string) []string {
	text = seconds.ReplaceAllString(strings.TrimSpace(text), "0.000 s")
	text = spaces.ReplaceAllString(versions.ReplaceAllString(text, "(VERSION)"), " ")
	all := strings.Split(text, "\n")
	slices.Sort(all)
	return all
}
