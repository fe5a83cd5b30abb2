package broker

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// identify reads what tells machines and boots apart.
func identify() (machine, boot string, err error) {
	machine, err = unix.Sysctl("kern.uuid")
	if err != nil {
		return "", "", err
	}
	boot, err = unix.Sysctl("kern.bootsessionuuid")
	return machine, boot, err
}

// processStart is the start time of a process in microseconds since 1970.
func processStart(pid int) (uint64, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, err
	}
	began := info.Proc.P_starttime
	return strconv.ParseUint(strconv.FormatInt(began.Sec*1_000_000+int64(began.Usec), 10), 10, 64)
}
