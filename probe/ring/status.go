package ring

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel tells a process's parent how the process ended. It tells others in two ways. A pidfd that is open has the status since Linux 6.15.
// /proc/PID/stat has it until the parent asks.

// pidfdInfo is the beginning of struct pidfd_info: see linux/pidfd.h.
type pidfdInfo struct {
	mask, _ uint64
	_       [11]uint32
	code    int32
}

const (
	pidfdGetInfo  = 0xc040ff0b // PIDFD_GET_INFO for 64 bytes
	pidfdInfoExit = 1 << 3     // PIDFD_INFO_EXIT
)

var _ [64]byte = [unsafe.Sizeof(pidfdInfo{})]byte{}

// handle returns a pidfd of a process, nil where there is none.
func handle(pid int) *os.File {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), "pidfd")
}

// status returns how a process that is gone has ended, as far as that is known.
func (m *member) status(s *Session) (syscall.WaitStatus, bool) {
	if m.local == 0 {
		return 0, false
	}
	if m.handle != nil {
		info := pidfdInfo{mask: pidfdInfoExit}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, m.handle.Fd(), pidfdGetInfo, uintptr(unsafe.Pointer(&info)))
		if errno == 0 && info.mask&pidfdInfoExit != 0 {
			return syscall.WaitStatus(info.code), true
		}
	}
	if st := stat(m.local); st.gone() && st.startedBefore(s.clock.nanoseconds(m.said.start)) {
		code, err := strconv.Atoi(st[49])
		return syscall.WaitStatus(code), err == nil
	}
	return 0, false
}

// processStat has the fields of /proc/PID/stat behind the name; it is nil for a process that is not there.
type processStat []string

func stat(pid int) processStat {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 50 {
		return nil
	}
	return f
}

// gone reports whether the process has ended and its parent has not asked how.
func (f processStat) gone() bool { return f != nil && (f[0] == "Z" || f[0] == "X") }

// startedBefore reports whether the process is older than a moment of CLOCK_MONOTONIC.
func (f processStat) startedBefore(ns int64) bool {
	if f == nil {
		return false
	}
	ticks, err := strconv.ParseInt(f[19], 10, 64)
	var boot, mono unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono)
	return err == nil && ticks*1e7-(boot.Nano()-mono.Nano()) <= ns
}
