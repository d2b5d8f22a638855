// Package procstat reads files of processes in /proc.
//
// The recorder, its probes, the simulator and the replay find and identify processes and notice their ends with it. It keeps no state.
package procstat

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Tick is the unit of the kernel's times, in nanoseconds.
const Tick = 1e7

// A Stat describes a process. The zero value stands for a process that does not exist.
type Stat struct {
	state   byte
	Parent  int
	Session int
	CPU     int64 // processor time in nanoseconds, a multiple of Tick
	Threads int
	// Start is the time since boot in nanoseconds, including suspended time. It is a multiple of Tick, and tells a process from a later
	// one with its PID.
	Start int64
	Exit  int // wait status of a zombie

	Unreadable bool // the process may exist; all else is zero
}

// Read returns the zero Stat if there is no such process, and only Unreadable if /proc does not show whether there is one.
func Read(pid int) Stat {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{Unreadable: !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH)}
	}
	// The name in brackets may contain any character. Fields are numbered from the state after it.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 50 {
		return Stat{}
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(f[i], 10, 64)
		return n
	}
	return Stat{
		state: f[0][0], Parent: int(number(1)), Session: int(number(3)), CPU: (number(11) + number(12)) * Tick, Threads: int(number(17)),
		Start: number(19) * Tick, Exit: int(number(49)),
	}
}

// Exists reports whether there is a process, which may be a zombie.
func (s Stat) Exists() bool { return s.state != 0 }

// Zombie reports whether the first thread has ended. Other threads of the process may run.
func (s Stat) Zombie() bool { return s.state == 'Z' || s.state == 'X' }

// Lives reports whether the process exists and its first thread has not ended.
func (s Stat) Lives() bool { return s.Exists() && !s.Zombie() }

// Suspended returns the time that the machine was suspended since boot, in nanoseconds: Start minus Suspended is a CLOCK_MONOTONIC time.
func Suspended() int64 {
	var boot, mono unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono)
	return boot.Nano() - mono.Nano()
}
