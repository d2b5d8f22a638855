package ring

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/acltrace/acltrace/internal/procstat"
	"golang.org/x/sys/unix"
)

// A program may filter its system calls (seccomp). From then on the shim makes none: see probe/shim/session/filter.c. So it can't make
// rings for new threads either. The recorder makes them ahead, in the file `pool.N` that the shim mapped before.

const (
	// readyRings is the number of rings kept ready for a process's next threads.
	readyRings = 4
	// filterInterval is the interval of looks for filters that the shim did not notice, on Linux 5.9 and later. It is longer for
	// processes with many threads, where a look takes long.
	filterInterval = 250 * time.Millisecond
	// leftInterval is the interval of looks for threads that have ended.
	leftInterval = 20 * time.Millisecond
	// strictMode is SECCOMP_MODE_STRICT in /proc/PID/status.
	strictMode = "1"
)

// filter is the filter state of a process.
type filter struct {
	known bool // the process has a filter, and the shim knows
	next  time.Time
	pool  *os.File // nil: not yet opened
}

// watchFilter checks whether a process has set a filter, and informs its shim.
func (s *Session) watchFilter(m *member) {
	if m.filter.known || m.shared == nil || m.info == nil || m.info.untraced != 0 {
		return
	}
	if m.shared.filtered.Load() == 0 {
		began := time.Now()
		if m.local == 0 || began.Before(m.filter.next) {
			return
		}
		now := filters(m.local)
		m.filter.next = time.Now().Add(max(filterInterval, 100*time.Since(began)))
		if m.info.filters == 0 || now < int(m.info.filters) {
			if m.info.filters != 0 {
				m.shared.unfiltered.Store(1)
			}
			return
		}
		m.shared.filtered.Store(1)
	}
	m.filter.known = true
	s.processes.filtered = append(s.processes.filtered, m)
}

// filters returns the largest number of filters on any thread, 0 if the kernel does not report it. Strict mode counts as all possible filters.
func filters(pid int) int {
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/status")
	most := 0
	for _, t := range tasks {
		b, _ := os.ReadFile(t)
		n, _ := strconv.Atoi(procstat.Field(b, "Seccomp_filters"))
		if procstat.Field(b, "Seccomp") == strictMode {
			n = math.MaxInt
		}
		most = max(most, n)
	}
	return most
}

// refillPools makes rings ahead for processes with filters.
func (s *Session) refillPools() {
	if n := s.files.ctl.filtered.Load(); n != s.processes.filterReports {
		s.processes.filterReports = n
		for _, m := range s.processes.members {
			if m.file != nil {
				s.watchFilter(m)
			}
		}
	}
	for _, m := range s.processes.filtered {
		if m.file == nil || m.gone {
			continue
		}
		look := m.local != 0 && time.Now().After(m.filter.next)
		if look {
			m.filter.next = time.Now().Add(leftInterval)
		}
		ready, next, size := 0, uint32(0), uint64(0)
		for i := range s.files.ctl.taken() {
			sl := &s.files.ctl.slots[i]
			if sl.process != m.number {
				continue
			}
			if sl.rng != 0 {
				next, size = max(next, sl.rng), s.ringSize(sl)
			}
			switch sl.state.Load() {
			case slotReady:
				ready++
			case slotLive:
				if look && ready < readyRings && s.threadGone(i, m) && sl.state.CompareAndSwap(slotLive, slotReady) {
					ready++
					s.files.ctl.offered.Add(1)
				}
			}
		}
		for ; size != 0 && ready < readyRings && s.makeReady(m, next, size); ready++ {
			next++
		}
	}
}

// threadGone reports whether the owner of a ring has ended and all its records were read.
func (s *Session) threadGone(i int, m *member) bool {
	r := s.rings.at(i)
	if r == nil || r.mem == nil || r.done || r.head.head.Load() != r.pos || r.slot.tid() == 0 {
		return false
	}
	return unix.Access(fmt.Sprintf("/proc/%d/task/%d", m.local, r.slot.tid()), unix.F_OK) == unix.ENOENT
}

// makeReady makes a ring of a process's pool, whose rings have one size. It returns false if there is no room.
func (s *Session) makeReady(m *member, number uint32, size uint64) bool {
	bytes := int64(headerBytes + size)
	if m.filter.pool == nil {
		f, err := os.OpenFile(s.files.path("pool.", m.number-1), os.O_RDWR, 0)
		if err != nil {
			return false
		}
		m.filter.pool = f
	}
	from := int64(number) * bytes
	if st, err := m.filter.pool.Stat(); err != nil || st.Size() < from+bytes || s.files.ctl.memoryUsed.Load()+size > s.files.ctl.memoryLimit {
		return false
	}
	if err := allocate(m.filter.pool, from, bytes); err != nil {
		return false
	}
	n, ok := s.takeSlot()
	if !ok {
		return false
	}
	s.files.ctl.memoryUsed.Add(size)
	sl := &s.files.ctl.slots[n]
	sl.pid, sl.process, sl.ringBytes, sl.rng = m.info.pid, m.number, size, number+1
	sl.state.Store(slotReady)
	s.files.ctl.offered.Add(1)
	return true
}

// takeSlot takes a slot in the way threads do.
func (s *Session) takeSlot() (uint32, bool) {
	if s.files.ctl.nextSlot.Load() < maxSlots {
		if n := s.files.ctl.nextSlot.Add(1) - 1; n < maxSlots {
			return n, true
		}
	}
	for n := range uint32(maxSlots) {
		if s.files.ctl.slots[n].state.CompareAndSwap(slotGiven, slotTaken) {
			return n, true
		}
	}
	return 0, false
}

// dropPool frees the unused rings of a dead process and its pool. The used ones have been released.
func (s *Session) dropPool(m *member) {
	for i := range s.files.ctl.taken() {
		if sl := &s.files.ctl.slots[i]; sl.process == m.number && sl.state.CompareAndSwap(slotReady, slotTaken) {
			s.files.ctl.memoryUsed.Add(-s.ringSize(sl))
			sl.state.Store(slotGiven)
		}
	}
	m.closePool()
	os.Remove(s.files.path("pool.", m.number-1))
}

func (m *member) closePool() {
	if m.filter.pool != nil {
		m.filter.pool.Close()
		m.filter.pool = nil
	}
}
