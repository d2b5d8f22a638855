package ring

import (
	"errors"
	"os"
	"syscall"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/probe"
	"golang.org/x/sys/unix"
)

// Reap handles processes that have ended: it delivers their remaining records, frees their rings and returns their Ends.
func (s *Session) Reap(sink probe.Sink) (ends []probe.End, err error) {
	s.touch(func() { err = s.reap(sink, &ends) })
	return ends, err
}

func (s *Session) reap(sink probe.Sink, ends *[]probe.End) error {
	if err := s.withoutRings(sink); err != nil {
		return err
	}
	for _, m := range s.processes.members {
		if m.file == nil {
			continue
		}
		if m.alive() {
			s.watchFilter(m)
			continue
		}
		s.watchFilter(m)
		// Rings may have appeared since the last look.
		if err := errors.Join(s.open(sink), s.finish(sink, m.rings)); err != nil {
			return err
		}
		if m.shared != nil && m.info != nil {
			if err := s.noRing(sink, m, &m.shared.unrecorded); err != nil {
				return err
			}
		}
		for _, i := range m.rings {
			m.inShim = m.inShim || s.rings.bySlot[i] != nil && s.rings.bySlot[i].inShim
			s.release(i)
		}
		s.dropPool(m)
		if m.info != nil {
			*ends = append(*ends, s.ended(m))
		}
		m.unmap()
		os.Remove(m.file.Name())
		m.file.Close()
		if m.handle != nil {
			m.handle.Close()
		}
		m.file, m.rings, m.handle = nil, nil, nil
	}
	for n := s.files.ctl.reaped; int(n) < len(s.processes.members) && s.processes.members[n].gone && s.processes.members[n].file == nil; n++ {
		s.files.ctl.reaped = n + 1
	}
	return nil
}

func (s *Session) ended(m *member) probe.End {
	p := m.describe()
	e := probe.End{PID: m.pid, Exe: p.Exe, Args: p.Argv, Program: m.info.program, Excluded: m.info.untraced != 0, InShim: m.inShim, Code: probe.NoCode, Seen: probe.Now()}
	if m.shared != nil {
		said := new(processFile)
		copy(said.bytes(), m.shared.bytes())
		e.Libraries = said.describe().Libraries
		e.Clean = m.shared.ended.Load() != 0
		if code := m.shared.code.Load(); code > 0 { // one more than the exit code
			e.Code = int(code) - 1
		}
	}
	if lived := probe.Now() - m.began(&s.clock); lived > 0 {
		e.Lived = time.Duration(lived)
	}
	m.awaitExit()
	// After exec the process appears once more, with the same PID.
	for _, o := range s.processes.members[m.number:] {
		if o.info != nil && o.file != nil && o.namespace == m.namespace && o.info.pid == m.info.pid {
			e.Clean, e.Replaced = true, true
		}
	}
	if st := procstat.Read(m.local); m.local != 0 && !e.Clean && isProcess(st, m.began(&s.clock)) && !st.Zombie() {
		e.Clean, e.Replaced = true, true
	}
	if status, known := m.status(s); known && !e.Replaced {
		e.Signal = 0
		if status.Signaled() {
			e.Clean, e.Code, e.Signal = false, probe.NoCode, int(status.Signal())
		} else {
			e.Clean, e.Code = true, status.ExitStatus()
		}
	}
	return e
}

// release frees the ring of a dead process. Its records have been delivered.
func (s *Session) release(i int) {
	r := s.rings.bySlot[i]
	if r == nil || r.mem == nil {
		return
	}
	for k := range untimedReasons {
		s.losses.untimed[k] += r.untimed(s, k)
	}
	taken := r.head.taken()
	r.close()
	if r.slot.rng == 0 {
		os.Remove(s.files.path("ring.", uint32(i)))
	}
	s.files.ctl.memoryUsed.Add(-r.size)
	r.done, r.released = true, true
	s.rings.opened = min(s.rings.opened, i)
	s.files.ctl.handed += taken
	r.slot.state.Store(slotGiven)
}

// pidfdInfo is the beginning of struct pidfd_info in linux/pidfd.h.
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

// The kernel reports how a process ended to its parent. Others learn it in two ways: from a pidfd that is open, since Linux
// 6.15, and from /proc/PID/stat until the parent waits for the process.

// handle returns a pidfd for a process, nil if there is none.
func handle(pid int) *os.File {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), "pidfd")
}

// exitWait bounds awaitExit, in milliseconds.
const exitWait = 50

// awaitExit waits until the process has ended. Its lock goes a little before that, and also at exec, after which the process goes on.
func (m *member) awaitExit() {
	if m.handle != nil {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(m.handle.Fd()), Events: unix.POLLIN}}, exitWait)
	}
}

// status returns the wait status of a dead process, if it is available.
func (m *member) status(s *Session) (syscall.WaitStatus, bool) {
	if m.local == 0 {
		return 0, false
	}
	// The order matters: the pidfd has the status once the parent has waited, and /proc only until then.
	if st := procstat.Read(m.local); st.Zombie() && isProcess(st, m.began(&s.clock)) {
		return syscall.WaitStatus(st.Exit), true
	}
	if m.handle != nil {
		info := pidfdInfo{mask: pidfdInfoExit}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, m.handle.Fd(), pidfdGetInfo, uintptr(unsafe.Pointer(&info)))
		if errno == 0 && info.mask&pidfdInfoExit != 0 {
			return syscall.WaitStatus(info.code), true
		}
	}
	return 0, false
}

// isProcess reports whether a process started before a CLOCK_MONOTONIC time, as the recorded one did. A later process with its PID did not.
func isProcess(st procstat.Stat, before int64) bool {
	return st.Exists() && st.Start-procstat.Suspended() <= before
}
