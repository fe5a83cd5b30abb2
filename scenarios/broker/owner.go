//go:build unix

package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"syscall"
)

// Owner is the process that made a virtual host, a container or a folder, so that
// a later run can tell whether it is still there.
type Owner struct {
	// Machine and Boot are short hashes: neither a machine's id nor its name
	// belongs on a shared broker.
	Machine string
	Boot    string
	// PID and Started identify the process; a pid alone is used again. Started is
	// in the unit of the operating system.
	PID     int
	Started uint64
}

const (
	machineDigits = 10
	bootDigits    = 6
)

var ownerForm = regexp.MustCompile(
	fmt.Sprintf(`^m([0-9a-f]{%d})b([0-9a-f]{%d})p([0-9]+)s([0-9a-z]+)`, machineDigits, bootDigits))

// String is the form that names and labels carry, for example
// "m1f0c2d3e4ab9d1e2p1234s5abc".
func (o Owner) String() string {
	return fmt.Sprintf("m%sb%sp%ds%s", o.Machine, o.Boot, o.PID, strconv.FormatUint(o.Started, 36))
}

// ParseOwner reads an owner at the beginning of a text.
func ParseOwner(text string) (Owner, bool) {
	match := ownerForm.FindStringSubmatch(text)
	if match == nil {
		return Owner{}, false
	}
	pid, err := strconv.Atoi(match[3])
	if err != nil || pid <= 0 {
		return Owner{}, false
	}
	started, err := strconv.ParseUint(match[4], 36, 64)
	if err != nil {
		return Owner{}, false
	}
	return Owner{Machine: match[1], Boot: match[2], PID: pid, Started: started}, true
}

// Presence is what the operating system says of a pid.
type Presence struct {
	// Exists: there is a process of that id, whoever's.
	Exists bool
	// Started is when it began, in Owner's unit; 0 where that is not told.
	Started uint64
}

// DeadTo decides whether what this owner left may be removed by another process:
// only if it ran on the same machine, and either in an earlier boot, or its
// process is gone. When in doubt it lives. find looks a pid up.
func (o Owner) DeadTo(self Owner, find func(pid int) Presence) bool {
	if o.Machine != self.Machine {
		return false
	}
	if o.Boot != self.Boot {
		return true
	}
	there := find(o.PID)
	if !there.Exists {
		return true
	}
	return there.Started != 0 && there.Started != o.Started
}

// Self is this process as an owner.
func Self() (Owner, error) {
	machine, boot, err := identify()
	if err != nil {
		return Owner{}, fmt.Errorf("identify this machine: %w", err)
	}
	started, err := processStart(os.Getpid())
	if err != nil {
		return Owner{}, fmt.Errorf("find when this process started: %w", err)
	}
	// A container's image gives all its containers one machine id; their names
	// differ. (That a renamed machine is another one only leaves rubbish.)
	name, err := os.Hostname()
	if err != nil {
		return Owner{}, fmt.Errorf("identify this machine: %w", err)
	}
	return Owner{
		Machine: short(machine+"\x00"+name, machineDigits), Boot: short(boot, bootDigits),
		PID: os.Getpid(), Started: started,
	}, nil
}

func short(text string, digits int) string {
	sum := sha256.Sum256([]byte("parkproof\x00" + text))
	return hex.EncodeToString(sum[:])[:digits]
}

// lookUp asks the operating system for a pid.
func lookUp(pid int) Presence {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return Presence{}
	}
	started, err := processStart(pid)
	if err != nil {
		return Presence{Exists: true} // another user's, hidden from us
	}
	return Presence{Exists: true, Started: started}
}
