package broker

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// identify reads what tells machines and boots apart. A pid means something in its
// pid namespace only, so that counts as part of the machine.
func identify() (machine, boot string, err error) {
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		id = nil // minimal containers have none: the host's name must do
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", "", err
	}
	bootID, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", "", err
	}
	return strings.TrimSpace(string(id)) + space, strings.TrimSpace(string(bootID)), nil
}

// processStart is the start time of a process in clock ticks since the boot:
// field 22 of /proc/PID/stat (proc_pid_stat(5)).
func processStart(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold spaces and parentheses.
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	const startTime = 22 - 3
	if end < 0 || len(fields) <= startTime {
		return 0, fmt.Errorf("/proc/%d/stat is unreadable", pid)
	}
	return strconv.ParseUint(fields[startTime], 10, 64)
}
