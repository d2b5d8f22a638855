package ring

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A program may lock itself in by a filter of system calls (seccomp). The shim makes none from then on: see probe/shim/filter.c. It can't make
// rings for new threads either, so the recorder does that, in the file `pool.N` that the shim has mapped before.

const (
	// readyRings is how many rings such a process finds ready for its next threads.
	readyRings = 4
	// filterEvery is how often it is looked whether a process has set a filter in a way that the shim does not see, since Linux 5.9. Of one with very many threads
	// a look takes long, and is taken the more seldom.
	filterEvery = 250 * time.Millisecond
	// leftEvery is how often it is looked whether threads that have rings have ended.
	leftEvery = 20 * time.Millisecond
)

// filter is what is known of a process's filters.
type filter struct {
	known bool // to the shim too
	next  time.Time
	pool  *os.File // nil: not opened yet
}

// rangeBytes is how far the rings of a pool are apart.
func (s *Session) rangeBytes() int64 { return headerBytes + int64(s.rings.bytes) }

// watchFilter looks whether a process has set a filter, and tells its shim.
func (s *Session) watchFilter(m *member) {
	if m.filter.known || m.live == nil || m.said == nil || m.said.untraced != 0 {
		return
	}
	if m.live.filtered.Load() == 0 {
		began := time.Now()
		if m.local == 0 || began.Before(m.filter.next) {
			return
		}
		now := filters(m.local)
		m.filter.next = time.Now().Add(max(filterEvery, 100*time.Since(began)))
		if m.said.filters == 0 || now < int(m.said.filters) {
			return
		}
		m.live.filtered.Store(1)
	}
	m.filter.known = true
	s.processes.filtered = append(s.processes.filtered, m)
}

// filters returns how many filters the thread of a process has that has most, 0 where the kernel does not say.
func filters(pid int) int {
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/status")
	most := 0
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		if err != nil {
			continue
		}
		_, of, _ := bytes.Cut(b, []byte("\nSeccomp_filters:\t"))
		of, _, _ = bytes.Cut(of, []byte("\n"))
		n, _ := strconv.Atoi(string(of))
		most = max(most, n)
	}
	return most
}

// refill makes rings for the next threads of processes that make none themselves.
func (s *Session) refill() {
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
			m.filter.next = time.Now().Add(leftEvery)
		}
		ready, next := 0, uint32(0)
		for i := range min(s.files.ctl.nextSlot.Load(), maxSlots) {
			sl := &s.files.ctl.slots[i]
			if sl.process != m.number {
				continue
			}
			next = max(next, sl.rng)
			switch sl.state.Load() {
			case slotReady:
				ready++
			case slotLive:
				if look && ready < readyRings && s.left(int(i), m) && sl.state.CompareAndSwap(slotLive, slotReady) {
					ready++
					s.files.ctl.offered.Add(1)
				}
			}
		}
		for ; ready < readyRings && s.makeReady(m, next); ready++ {
			next++
		}
	}
}

// left reports whether the thread that has a ring is gone, and all that it wrote was read.
func (s *Session) left(i int, m *member) bool {
	if i >= len(s.rings.bySlot) || s.rings.bySlot[i] == nil || s.rings.bySlot[i].mem == nil || s.rings.bySlot[i].done {
		return false
	}
	r := s.rings.bySlot[i]
	return r.head.head.Load() == r.pos && unix.Access("/proc/"+strconv.Itoa(m.local)+"/task/"+strconv.Itoa(int(r.slot.tid)), unix.F_OK) == unix.ENOENT
}

// makeReady makes a ring of a process's pool, by its number. False where there is no room.
func (s *Session) makeReady(m *member, number uint32) bool {
	if m.filter.pool == nil {
		f, err := os.OpenFile(s.files.path("pool.", m.number-1), os.O_RDWR, 0)
		if err != nil {
			return false
		}
		m.filter.pool = f
	}
	from := int64(number) * s.rangeBytes()
	if st, err := m.filter.pool.Stat(); err != nil || st.Size() < from+s.rangeBytes() || s.files.ctl.memoryUsed.Load()+s.rings.bytes > s.files.ctl.memoryLimit {
		return false
	}
	if err := allocate(m.filter.pool, from, s.rangeBytes()); err != nil {
		return false
	}
	n, ok := s.takeSlot()
	if !ok {
		return false
	}
	s.files.ctl.memoryUsed.Add(s.rings.bytes)
	sl := &s.files.ctl.slots[n]
	sl.pid, sl.process, sl.ringBytes, sl.rng = m.said.pid, m.number, s.rings.bytes, number+1
	sl.state.Store(slotReady)
	s.files.ctl.offered.Add(1)
	return true
}

// takeSlot takes a slot as a thread does.
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

// dropPool gives back the rings that nobody has taken, of a process that is gone. Those that a thread has had are released before.
func (s *Session) dropPool(m *member) {
	for i := range min(s.files.ctl.nextSlot.Load(), maxSlots) {
		if sl := &s.files.ctl.slots[i]; sl.process == m.number && sl.state.CompareAndSwap(slotReady, slotTaken) {
			s.files.ctl.memoryUsed.Add(-s.rings.bytes)
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
