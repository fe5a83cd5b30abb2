//go:build unix

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parkproof/parkproof/features"
	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/runner"
)

// TestTheReferencePassesEveryCase is the main job on a private node of the installed server.
func TestTheReferencePassesEveryCase(t *testing.T) {
	installed(t)
	cases, err := runner.Load(features.FS)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, options{}, "verify", "--broker", "local", "--parallel", "8")
	r.passes()
	if got := r.record().Count(reports.Passed); got != len(cases) {
		t.Errorf("%d of %d cases passed\n%s", got, len(cases), tail(r.stdout.String()))
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
