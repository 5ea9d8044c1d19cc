package testbed

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is the processor time that a process has used.
func CPUTime(pid int) time.Duration {
	// The process's clock (clock_getcpuclockid(3)), threads that have ended
	// included: a routing job ends with its thread.
	const cpuClockSched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|cpuClockSched, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// ChildrenTime is the processor time of the programs that have ended and been
// waited for, those that they have waited for included.
func ChildrenTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Resident is the memory of a process in MiB.
func Resident(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, pages float64
	_, err = fmt.Sscan(string(b), &size, &pages)
	return pages * float64(os.Getpagesize()) / (1 << 20), err
}
