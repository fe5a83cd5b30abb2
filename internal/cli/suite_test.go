//go:build unix

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parkproof/parkproof/features"
	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/runner"
)

// TestTheReferencePassesEveryCase is the main job on a private node of the installed server, but for the cases
// that take a broker each, which take minutes.
func TestTheReferencePassesEveryCase(t *testing.T) {
	installed(t)
	cases, err := runner.Load(features.FS)
	if err != nil {
		t.Fatal(err)
	}
	cases = slices.DeleteFunc(cases, func(c *runner.Case) bool { return c.Has("@own-broker") })
	r := run(t, options{}, "verify", "--broker", "local", "--parallel", "8", "--tags", "not @own-broker")
	r.passes()
	if got := r.record().Count(reports.Passed); got != len(cases) {
		t.Errorf("%d of %d cases passed\n%s", got, len(cases), tail(r.stdout.String()))
	}
}

// TestTheReferenceOutlivesItsBroker runs a case that restarts its own broker.
func TestTheReferenceOutlivesItsBroker(t *testing.T) {
	installed(t)
	r := run(t, options{}, "verify", "--broker", "local", "--case", "NOD-008")
	r.passes()
	if got := r.record().Count(reports.Passed); got != 1 {
		t.Errorf("%d cases passed\n%s", got, tail(r.stdout.String()))
	}
}

// TestEveryPointOfAPathIsReached explores a path, and the record has each of its points.
func TestEveryPointOfAPathIsReached(t *testing.T) {
	installed(t)
	r := run(t, options{}, "explore", "--broker", "local", "--path", "CRP-003")
	r.passes()
	record := r.record()
	if len(record.Explorations) != 1 {
		t.Fatalf("%d explorations", len(record.Explorations))
	}
	e := &record.Explorations[0]
	if c := e.Coverage(); !c.Full() || c.Recorded < 8 || e.MostCopies() > 1 || e.Count(reports.Passed) != c.Runs {
		t.Errorf("coverage %s, at most %d more copies, %d passed\n%s", c, e.MostCopies(), e.Count(reports.Passed), tail(r.stdout.String()))
	}
	for _, wrong := range [][]string{
		{"--queue", "stream"}, {"--path", "CRP-999"}, {"--parallel", "0"}, {"--broker", "nonsense"}, {"adapter"},
	} {
		over := run(t, options{}, append([]string{"explore"}, wrong...)...)
		over.says(reports.ExitUsage, wrong[len(wrong)-1])
	}
}

// TestTheReferencePassesOnAContainer runs a case of each area on an image that is there.
func TestTheReferencePassesOnAContainer(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}").Output()
	if err != nil {
		t.Skipf("LOUD: no Docker engine answers; nothing is run on a container: %v", err)
	}
	image := ""
	for _, name := range strings.Fields(string(out)) {
		if strings.Contains(name, "rabbitmq:") && strings.HasSuffix(name, "-management") {
			image = name
		}
	}
	if image == "" {
		t.Skip("LOUD: there is no image of RabbitMQ here; nothing is run on a container")
	}
	ids := []string{"ATT-003", "FLR-008", "ISO-001", "ORG-001", "PRK-004", "PRP-003", "RTY-012", "TOP-005"}
	args := []string{"verify", "--broker", "image:" + image}
	for _, id := range ids {
		args = append(args, "--case", id)
	}
	r := run(t, options{}, args...)
	r.passes()
	record := r.record()
	if got := record.Count(reports.Passed); got != len(ids) {
		t.Errorf("%d of %d cases passed on %s\n%s", got, len(ids), image, tail(r.stdout.String()))
	}
	if b := record.Brokers[0]; b.Provider != "container" || b.Digest == "" || b.Version == "" {
		t.Errorf("the record of the broker is %+v", b)
	}
}

// TestAnAdapterOnASocket lets the reference speak on a socket, behind a program that prints to its
// stdout what would break the protocol there.
func TestAnAdapterOnASocket(t *testing.T) {
	url := asAdministrator(t)
	script := filepath.Join(t.TempDir(), "prints.sh")
	text := fmt.Sprintf("#!/bin/sh\necho 'a banner, and no JSON'\nexec %q reference\n", program)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	r := run(t, options{}, "verify", "--broker", url, "--control", "--case", "RTY-004", "--case", "ATT-012", "--", script)
	r.passes()
	if got := r.record().Count(reports.Passed); got != 2 {
		t.Errorf("%d cases passed\n%s", got, tail(r.stdout.String()))
	}
	over := run(t, options{}, "verify", "--broker", url, "--control", "--case", "RTY-004", "--", "cat")
	over.says(reports.ExitBroken, "the adapter ended (exited with code 0) before it connected to the socket in PARKPROOF_CONTROL")
	if left := vhosts(t); len(left) > 0 {
		t.Errorf("virtual hosts are left: %q", left)
	}
}
