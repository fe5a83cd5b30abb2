//go:build unix

package broker

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestOwnerSurvivesItsForm(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if self.PID != os.Getpid() || self.Started == 0 {
		t.Errorf("%+v", self)
	}
	again, ok := ParseOwner(self.String() + "-ab12")
	if !ok || again != self {
		t.Errorf("%s is read as %+v", self, again)
	}
	for _, text := range []string{"", "m12", "pp-" + self.String(), "m1234567890babcdefp0s1", "mXYZ4567890babcdefp1s1"} {
		if owner, ok := ParseOwner(text); ok {
			t.Errorf("%q is read as %+v", text, owner)
		}
	}
}

func TestWhoIsDead(t *testing.T) {
	self := Owner{Machine: "1111111111", Boot: "222222", PID: 10, Started: 100}
	find := func(pid int) Presence {
		switch pid {
		case 10, 11:
			return Presence{Exists: true, Started: uint64(pid) * 10}
		case 12: // another user's process that hides when it started
			return Presence{Exists: true}
		}
		return Presence{}
	}
	for _, tt := range []struct {
		name  string
		owner Owner
		dead  bool
	}{
		{"itself", self, false},
		{"alive", Owner{"1111111111", "222222", 11, 110}, false},
		{"ended", Owner{"1111111111", "222222", 13, 130}, true},
		{"pid used again", Owner{"1111111111", "222222", 11, 99}, true},
		{"start unknown", Owner{"1111111111", "222222", 12, 99}, false},
		{"earlier boot, pid taken", Owner{"1111111111", "333333", 11, 110}, true},
		{"other machine", Owner{"4444444444", "222222", 13, 130}, false},
		{"other machine, other boot", Owner{"4444444444", "333333", 13, 130}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.owner.DeadTo(self, find); got != tt.dead {
				t.Errorf("dead: %v", got)
			}
			name := vhostPrefix + tt.owner.String() + "-ab1"
			if got := stale(name, vhostPrefix, self, find); got != tt.dead {
				t.Errorf("%s stale: %v", name, got)
			}
			if stale("my-"+name, vhostPrefix, self, find) || stale(tt.owner.String(), vhostPrefix, self, find) {
				t.Error("a name of another form is stale")
			}
		})
	}
}

func TestLookUp(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if self.DeadTo(self, lookUp) {
		t.Error("this process is dead")
	}
	ended := deadOwner(t)
	if !ended.DeadTo(self, lookUp) {
		t.Error("a process that ended lives")
	}
	if (Owner{Machine: self.Machine, Boot: self.Boot, PID: 1, Started: self.Started}).DeadTo(self, func(int) Presence { return lookUp(os.Getpid()) }) {
		t.Error("a process with this start is dead")
	}
}

// deadOwner is a process of this machine and boot that has ended.
func deadOwner(t *testing.T) Owner {
	t.Helper()
	owner, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("true")
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	owner.PID = command.Process.Pid
	return owner
}

func TestFoldersOfTheDeadAreSwept(t *testing.T) {
	parent := t.TempDir()
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(parent, folderPrefix+deadOwner(t).String()+"-1")
	other := self
	other.Machine = "0000000000"
	stay := []string{
		filepath.Join(parent, folderPrefix+self.String()+"-1"),
		filepath.Join(parent, folderPrefix+other.String()+"-1"),
		filepath.Join(parent, "parkproof-of-somebody"),
	}
	for _, path := range append(stay, dead) {
		if err := os.MkdirAll(filepath.Join(path, "deep"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := sweepFolders(parent, self)
	if err != nil || !slices.Equal(removed, []string{dead}) {
		t.Errorf("removed %q, %v", removed, err)
	}
	for _, path := range stay {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("%s: %v", dead, err)
	}
}
