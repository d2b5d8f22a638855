package ring

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/acltrace/acltrace/probe"
	"golang.org/x/sys/unix"
)

// rings holds the rings of a session's threads, and what outlives a ring.
type rings struct {
	bytes   uint64  // of a ring
	bySlot  []*ring // nil: not mapped yet
	opened  int     // slots before this one are mapped
	names   map[threadID]string
	nextSeq map[threadID]uint64 // number of a thread's next call, over all its rings
	record  []byte              // copy of the current record
	part    []byte              // copy of the current part of a payload
}

// threadID is the number of a process in the trace and that of a thread in its process.
type threadID struct{ pid, tid uint32 }

// open maps the rings that have appeared.
func (s *Session) open(sink probe.Sink) error {
	for n := int(min(s.files.ctl.nextSlot.Load(), maxSlots)); len(s.rings.bySlot) < n; {
		s.rings.bySlot = append(s.rings.bySlot, nil)
	}
	for s.rings.opened < len(s.rings.bySlot) && s.rings.bySlot[s.rings.opened] != nil && !s.rings.bySlot[s.rings.opened].given {
		s.rings.opened++
	}
	for i := s.rings.opened; i < len(s.rings.bySlot); i++ {
		if r := s.rings.bySlot[i]; r != nil && !r.given {
			continue
		}
		sl := &s.files.ctl.slots[i]
		switch sl.state.Load() {
		case slotLive:
		case slotDead:
			s.rings.bySlot[i] = &ring{} // there was no memory
			continue
		default:
			continue
		}
		m := s.member(sl.process)
		if m == nil || m.file == nil {
			continue
		}
		if m.said == nil {
			// A process makes a ring after it has written its file, which is truncated now.
			s.join(m, &processFile{pid: sl.pid, ppid: sl.ppid, start: sl.start})
		}
		if err := s.show(m, sink); err != nil {
			return err
		}
		r, err := s.mapRing(i, m)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) && m.gone {
				s.rings.bySlot[i] = &ring{}
				continue
			}
			return fmt.Errorf("ring of thread %d: %w", sl.tid, err)
		}
		m.rings = append(m.rings, i)
		r.start(s)
	}
	return nil
}

// show tells the sink of a process, once.
func (s *Session) show(m *member, sink probe.Sink) error {
	if m.shown {
		return nil
	}
	m.shown = true
	for _, o := range s.processes.members {
		if o != m && o.shown && o.pid == m.pid {
			return nil // by exec it has become another program
		}
	}
	p := m.describe()
	p.Start = s.clock.nanoseconds(m.said.start)
	if n := m.said.forkedFrom; n > 0 && int(n) <= len(s.processes.members) {
		p.ForkedFrom = s.processes.members[n-1].pid
	}
	return sink.Process(p)
}

type ring struct {
	slot     *slot
	member   *member
	pid, tid uint32 // of the thread that has it now
	owners   []owner
	head     *header
	mem      unsafe.Pointer // of the whole mapping
	length   uintptr
	data     []byte // the records, twice
	size     uint64
	pos      uint64
	lost     uint64      // as handed on
	seq      uint64      // of the next call in this ring
	outer    *probe.Call // that encloses those to come, nil for none
	done     bool
	gone     int64 // since when it is done, where it was given up
	// truncated is set once the program has truncated the file. seen is the number of the next call when the ring was last drained.
	truncated bool
	seen      uint64
	taken     uint64     // the first call that this process has got
	handed    uint64     // calls that the session's count has
	given     bool       // back, so that another thread may have the slot
	last      int64      // when the latest call began or ended, as far as that is known
	at        probe.Call // the call at hand, kept for its memory
	// recording is how many nanoseconds payloads have taken the thread since its latest call.
	recording int64
}

// owner is a thread that has, or has had, a ring: its calls are those from the number first on, and the thread had made
// base calls before.
type owner struct {
	pid, tid    uint32
	generation  uint32
	first, base uint64
}

// number returns the owner of a call of the ring and the call's number in that thread.
func (r *ring) number(seq uint64) (owner, uint64) {
	for i := len(r.owners) - 1; i > 0; i-- {
		if o := r.owners[i]; seq >= o.first {
			return o, o.base + seq - o.first
		}
	}
	o := r.owners[0]
	return o, o.base + seq - o.first
}

// change notes that the ring, which was empty then, has changed hands.
func (r *ring) change(s *Session, sink probe.Sink) error {
	if r.mem == nil || r.done || r.generation(s) == r.owners[len(r.owners)-1].generation {
		return nil
	}
	if err := r.leave(sink); err != nil {
		return err
	}
	r.own(s)
	return nil
}

// generation returns how many threads have had the ring before the one that has it now.
func (r *ring) generation(s *Session) uint32 {
	n := r.slot.generation.Load()
	if s.files.controlGone.Load() {
		return r.owners[len(r.owners)-1].generation
	}
	return n
}

// own notes that a thread has got the ring.
func (r *ring) own(s *Session) {
	r.pid, r.tid, r.recording = uint32(r.member.pid), r.slot.tid, 0
	key := threadID{r.pid, r.tid}
	name, _, _ := bytes.Cut(r.slot.name[:], []byte{0})
	if len(name) == 0 && r.member.local != 0 { // a thread that could not ask
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", r.member.local, r.tid))
		name = bytes.TrimSpace(comm)
	}
	s.rings.names[key] = string(name)
	r.owners = append(r.owners, owner{r.pid, r.tid, r.slot.generation.Load(), r.seq, s.rings.nextSeq[key]})
}

func (s *Session) mapRing(i int, m *member) (*ring, error) {
	sl := &s.files.ctl.slots[i]
	path, from := s.files.path("ring.", uint32(i)), int64(0)
	size := uintptr(s.rings.bytes)
	if sl.rng != 0 {
		path, from = s.files.path("pool.", m.number-1), int64(sl.rng-1)*s.rangeBytes()
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	whole, err := unix.MmapPtr(-1, 0, nil, headerBytes+2*size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	r := &ring{slot: sl, member: m, pid: uint32(m.pid), tid: sl.tid, mem: whole, length: headerBytes + 2*size, size: uint64(size)}
	const rw = unix.PROT_READ | unix.PROT_WRITE
	if _, err = unix.MmapPtr(int(f.Fd()), from, whole, headerBytes+size, rw, unix.MAP_SHARED|unix.MAP_FIXED); err == nil {
		_, err = unix.MmapPtr(int(f.Fd()), from+headerBytes, unsafe.Add(whole, headerBytes+size), size, rw, unix.MAP_SHARED|unix.MAP_FIXED)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	r.head = (*header)(whole)
	r.data = unsafe.Slice((*byte)(unsafe.Add(whole, headerBytes)), 2*size)
	s.rings.bySlot[i] = r
	return r, nil
}

// start takes the ring over from another recorder, which may have read some of it.
func (r *ring) start(s *Session) {
	r.pos = r.head.tail.Load()
	for _, k := range r.head.mark {
		if k.pos == r.pos && r.pos != 0 {
			r.seq, r.lost = k.seq, k.lost
		}
	}
	r.taken = r.seq
	r.handed = r.seq
	r.own(s)
}

func (r *ring) close() {
	if r.mem != nil {
		unix.MunmapPtr(r.mem, r.length)
		r.mem = nil
	}
}

// drain hands on the finished records of a ring, and returns their bytes; with final, the unfinished one too.
func (r *ring) drain(s *Session, sink probe.Sink, final bool) (uint64, error) {
	if r.mem == nil || r.done {
		return 0, nil
	}
	if r.truncated {
		return 0, r.giveUp(s, sink, truncated)
	}
	head := r.head.head.Load()
	r.seen = r.head.seq.Load()
	if err := r.change(s, sink); err != nil {
		return 0, err
	}
	if first := &r.owners[0]; r.pos == 0 && head > 0 {
		// After an exec the thread had another ring, which comes first here: its calls are counted by now.
		first.base = s.rings.nextSeq[threadID{first.pid, first.tid}]
	}
	start := r.pos
	for r.pos < head {
		b := r.data[r.pos&(r.size-1):]
		// The state lies in the last byte of the second word of the header, and is stored last.
		state := byte(atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[4]))) >> 24)
		if state == stateEntered && !final {
			break
		}
		size := uint64(le.Uint32(b))
		if size < 8 || size%8 != 0 || size > r.size {
			return 0, r.giveUp(s, sink, writtenOver)
		}
		s.rings.record = append(s.rings.record[:0], b[:size]...)
		if err := r.record(s, sink, s.rings.record, state); err != nil {
			if errors.Is(err, errRing) {
				return 0, r.giveUp(s, sink, writtenOver)
			}
			return 0, err
		}
		r.pos += size
		s.share(size)
		// Space is given back now and then, so that a program that waits does not wait for the whole ring.
		if r.pos-r.head.tail.Load() > r.size/8 {
			r.giveBack(s)
			s.Beat()
		}
		if r.pos >= head {
			// A ring that was empty for a moment may have another owner.
			if head = r.head.head.Load(); r.generation(s) != r.owners[len(r.owners)-1].generation {
				break
			}
		}
	}
	r.giveBack(s)
	if r.pos != start {
		o, next := r.number(r.seq)
		s.rings.nextSeq[threadID{o.pid, o.tid}] = next
	}
	if final {
		return r.pos - start, r.leave(sink)
	}
	return r.pos - start, nil
}

// giveBack gives the space of what was read back to the program, and notes what whoever takes the ring over must know.
func (r *ring) giveBack(s *Session) {
	if r.pos == r.head.tail.Load() {
		return
	}
	i := 0
	if r.head.mark[0].pos == r.head.tail.Load() {
		i = 1
	}
	atomic.StoreUint64(&r.head.mark[i].seq, r.seq)
	atomic.StoreUint64(&r.head.mark[i].lost, r.lost)
	atomic.StoreUint64(&r.head.mark[i].pos, r.pos)
	r.head.tail.Store(r.pos)
	atomic.AddUint64(&s.files.ctl.handed, r.seq-r.handed)
	r.handed = r.seq
}

// leave hands on the enclosing call that never returned.
func (r *ring) leave(sink probe.Sink) error {
	c := r.outer
	if r.outer = nil; c == nil {
		return nil
	}
	return sink.Call(c)
}

const (
	writtenOver = "ring overwritten by the program"
	truncated   = "ring truncated by the program"
)

// giveUp reads no more of a ring that the program has damaged. Its thread does not wait for room there. Of a truncated ring at
// least one call is lost, and those that were seen in it. Calls that an overwritten ring still holds are counted in finish.
func (r *ring) giveUp(s *Session, sink probe.Sink, why string) error {
	r.head.givenUp.Store(1)
	r.done, r.gone = true, probe.Now()
	s.losses.damage = append(s.losses.damage, Damage{PID: int(r.pid), TID: int(r.tid), Exe: r.member.describe().Exe, What: why})
	g := probe.Gap{PID: int(r.pid), TID: int(r.tid), From: r.gone, To: r.gone, Reason: why}
	if r.truncated {
		g.Calls = 1
		if n := r.seen - min(r.seq, r.seen); n <= r.size/callHeader {
			g.Calls = max(n, 1)
		}
		r.seq += g.Calls
	}
	return sink.Gap(&g)
}

// unmeasured returns how many tasks of a ring's threads were to be measured and were not, for one reason.
func (r *ring) unmeasured(s *Session, why probe.Untimed) uint64 {
	return s.clamp(touched(s, func() uint64 { return r.head.untimed[why].Load() }))
}

// ThreadName is what a thread was called when it made its first call, "" where that is not known.
func (s *Session) ThreadName(pid, tid int) string {
	return s.rings.names[threadID{uint32(pid), uint32(tid)}]
}
