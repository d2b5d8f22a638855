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

// rings holds the rings of a session by slot, and data that outlives a ring.
type rings struct {
	bytes   uint64  // of the largest ring
	least   uint64  // of the smallest ring that was mapped
	bySlot  []*ring // nil: not mapped yet
	opened  int     // slots before this one are mapped
	next    int     // slot that was drained last
	names   map[threadID]string
	nextSeq map[threadID]uint64 // number of a thread's next call, over all its rings
	record  []byte              // copy of the current record
	part    []byte              // copy of the current part of a payload
}

// at returns the ring of a slot, nil if it is not mapped yet.
func (rs *rings) at(slot int) *ring {
	if slot < len(rs.bySlot) {
		return rs.bySlot[slot]
	}
	return nil
}

// threadID identifies a thread by the PID in the trace and the TID.
type threadID struct{ pid, tid uint32 }

// open maps new rings.
func (s *Session) open(sink probe.Sink) error {
	if n := s.files.ctl.taken() - len(s.rings.bySlot); n > 0 {
		s.rings.bySlot = append(s.rings.bySlot, make([]*ring, n)...)
	}
	for s.rings.opened < len(s.rings.bySlot) && s.rings.bySlot[s.rings.opened] != nil && !s.rings.bySlot[s.rings.opened].released {
		s.rings.opened++
	}
	for i := s.rings.opened; i < len(s.rings.bySlot); i++ {
		if r := s.rings.bySlot[i]; r != nil && !r.released {
			continue
		}
		sl := &s.files.ctl.slots[i]
		switch sl.state.Load() {
		case slotLive:
		default:
			continue
		}
		m := s.member(sl.process)
		if m == nil || m.file == nil {
			continue
		}
		if m.info == nil {
			// A process writes its file before it makes a ring. The file was truncated since.
			s.join(m, &processFile{pid: sl.pid, ppid: sl.ppid, start: sl.start})
		}
		if err := s.announce(m, sink); err != nil {
			return err
		}
		r, err := s.mapRing(i, m)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) && m.gone {
				s.rings.bySlot[i] = &ring{}
				continue
			}
			return fmt.Errorf("ring of thread %d: %w", sl.tid(), err)
		}
		m.rings = append(m.rings, i)
		r.start(s)
	}
	return nil
}

// announce delivers a process to the sink, once.
func (s *Session) announce(m *member, sink probe.Sink) error {
	if m.announced {
		return nil
	}
	m.announced = true
	for _, o := range s.processes.members {
		if o != m && o.announced && o.pid == m.pid {
			return nil // the same process after exec
		}
	}
	p := m.describe()
	p.Start = m.began(&s.clock)
	if n := m.info.forkedFrom; n > 0 && int(n) <= len(s.processes.members) {
		p.ForkedFrom = s.processes.members[n-1].pid
	}
	return sink.Process(p)
}

// ring is a thread's ring, mapped here. Later threads of the process may take it over.
type ring struct {
	slot     *slot
	member   *member
	pid, tid uint32 // owner at the read position
	owners          // empty before the first record
	head     *header
	mem      unsafe.Pointer // whole mapping
	length   uintptr
	data     []byte // the records, mapped twice in a row
	size     uint64
	mark                 // as of the next record: bytes read, number of the next call, calls reported as lost
	outer    *probe.Call // enclosing call in progress, nil for none
	begun    bool        // an earlier recorder may have read the beginning of the enclosing call in progress
	done     bool        // nothing more is read
	gone     int64       // when it was given up
	// truncated is set when the program has truncated the file. seen is the value of seq in the header at the last drain.
	truncated bool
	seen      uint64
	returned  bool       // at the final drain, the last call had returned, but was not finished
	inShim    bool       // the thread died in code of the shim
	firstSeq  uint64     // seq when this recorder began to read
	released  bool       // given back: another thread may take the slot
	lastTime  int64      // start or end of the latest call, as delivered
	current   probe.Call // current call, reused for its memory
	// recording is the time in nanoseconds that the thread spent on payloads since its latest call.
	recording int64
}

// handedOn reports whether a later thread than the last known owner has the ring.
func (r *ring) handedOn(s *Session) bool {
	return (len(r.list) == 0 || r.slot.generation() != r.list[len(r.list)-1].generation) && !s.files.controlGone.Load()
}

// lookAhead finds the owners of records that were not read yet.
func (r *ring) lookAhead() {
	if r.mem == nil || r.done {
		return
	}
	head := r.head.head.Load()
	for r.looked = max(r.looked, r.pos); r.looked < head; {
		b, state, size := r.next(r.looked)
		if state == stateEntered && r.looked+size >= head || size < 8 || size%8 != 0 || size > r.size {
			return
		}
		if b[6] == recOwner && size >= ownerBytes {
			r.add(readOwner(b))
		}
		r.looked += size
	}
}

// setOwner makes a thread the owner of the records at the read position.
func (r *ring) setOwner(s *Session, o owner) {
	r.tid, r.recording = o.tid, 0
	key := threadID{r.pid, r.tid}
	name, _, _ := bytes.Cut(o.name[:], []byte{0})
	if len(name) == 0 && r.member.local != 0 { // the thread may not make system calls
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", r.member.local, r.tid))
		name = bytes.TrimSpace(comm)
	}
	s.rings.names[key] = string(name)
	r.at = r.add(o)
	r.list[r.at].base = s.rings.nextSeq[key]
}

// countCalls notes how many calls the owner at the read position has made.
func (r *ring) countCalls(s *Session) {
	if len(r.list) > 0 {
		s.rings.nextSeq[threadID{r.pid, r.tid}] = r.list[r.at].number(r.seq)
	}
}

// ringSize returns the size of a slot's ring. A program can write over it: an impossible size is that of the largest ring.
func (s *Session) ringSize(sl *slot) uint64 {
	if n := sl.ringBytes; n >= leastRing && n < s.rings.bytes && n&(n-1) == 0 {
		return n
	}
	return s.rings.bytes
}

func (s *Session) mapRing(i int, m *member) (*ring, error) {
	sl := &s.files.ctl.slots[i]
	path, from := s.ringFile(i)
	size := uintptr(s.ringSize(sl))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	whole, err := unix.MmapPtr(-1, 0, nil, headerBytes+2*size, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	r := &ring{slot: sl, member: m, pid: uint32(m.pid), tid: sl.tid(), mem: whole, length: headerBytes + 2*size, size: uint64(size)}
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
	s.rings.least = min(s.rings.least, r.size)
	s.rings.bySlot[i] = r
	return r, nil
}

// ringFile returns the file of a slot's ring, and the ring's offset in it.
func (s *Session) ringFile(i int) (path string, from int64) {
	if sl := &s.files.ctl.slots[i]; sl.rng != 0 {
		return s.files.path("pool.", sl.process-1), int64(sl.rng-1) * int64(headerBytes+s.ringSize(sl))
	}
	return s.files.path("ring.", uint32(i)), 0
}

// taken returns how many calls earlier recorders have read.
func (s *Session) taken() uint64 {
	n := s.files.ctl.handed
	for i := range s.files.ctl.taken() {
		if state := s.files.ctl.slots[i].state.Load(); state != slotLive && state != slotReady {
			continue
		}
		path, from := s.ringFile(i)
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		var h header
		if _, err := f.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h)), from); err == nil {
			n += h.taken()
		}
		f.Close()
	}
	return n
}

// start sets the read position. An earlier recorder may have read part of the ring.
func (r *ring) start(s *Session) {
	tail := r.head.tail.Load()
	if r.mark = *r.head.lastMark(); r.pos-tail > r.head.head.Load()-tail { // the program has overwritten it
		r.pos = tail
	}
	r.firstSeq, r.begun = r.seq, r.pos != 0
	if r.pos != 0 {
		r.setOwner(s, owner{ringOwner: r.head.owner[r.head.marked.Load()>>1&1], first: r.seq})
	}
}

func (r *ring) close() {
	if r.mem != nil {
		unix.MunmapPtr(r.mem, r.length)
		r.mem = nil
	}
}

// drain delivers the finished records of a ring, with final also an unfinished one, and returns their size in bytes.
func (r *ring) drain(s *Session, sink probe.Sink, final bool) (uint64, error) {
	if r.mem == nil || r.done {
		return 0, nil
	}
	if r.truncated {
		return 0, r.giveUp(s, sink, truncated)
	}
	head := r.head.head.Load()
	r.seen = r.head.seq.Load()
	start := r.pos
	var last byte
	for r.pos < head && (final || s.pace.left > 0) {
		b, state, size := r.next(r.pos)
		if state == stateEntered && r.pos+size >= head && !final {
			break // in progress; with a later record its thread has ended in it
		}
		if size < 8 || size%8 != 0 || size > r.size {
			return 0, r.giveUp(s, sink, writtenOver)
		}
		s.rings.record = append(s.rings.record[:0], b[:size]...)
		r.pos += size
		last = state
		if err := r.record(s, sink, s.rings.record, state); err != nil {
			if errors.Is(err, errRing) {
				return 0, r.giveUp(s, sink, writtenOver)
			}
			return 0, err
		}
		s.yieldAfter(size)
		// Programs that wait for room must not wait until the whole ring is read.
		if r.pos-r.head.tail.Load() > r.size/8 {
			r.advanceTail()
			s.Heartbeat()
		}
		if r.pos >= head {
			head = r.head.head.Load()
		}
	}
	r.advanceTail()
	r.countCalls(s)
	if final {
		r.returned = last == stateEntered && returned(s.rings.record)
		return r.pos - start, r.endOuter(sink)
	}
	return r.pos - start, nil
}

// next returns the record at a position, and all bytes after it.
func (r *ring) next(pos uint64) (b []byte, state byte, size uint64) {
	b = r.data[pos&(r.size-1):]
	// The state is the last byte of the record header's second word. The shim stores it last.
	state = byte(atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[4]))) >> 24)
	return b, state, uint64(le.Uint32(b))
}

// save leaves a mark for a later recorder. It must run before a call is passed on, which may be written to the trace at once.
func (r *ring) save() {
	r.saveAs(r.head.marked.Load() ^ 1)
}

// saveAs saves under a value of marked, whose owner is the current one.
func (r *ring) saveAs(marked uint64) {
	r.head.mark[marked&1] = r.mark
	r.head.marked.Store(marked)
}

// advanceTail frees the space of the records that were read.
func (r *ring) advanceTail() {
	if r.pos != r.head.tail.Load() {
		r.save()
		r.head.tail.Store(r.pos)
	}
}

// endOuter delivers the enclosing call as one that never returned.
func (r *ring) endOuter(sink probe.Sink) error {
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

// giveUp stops reading a damaged ring. Its thread no longer waits for room there. A truncated ring has lost at least one
// call, and all that its header had counted. finish counts the calls that are left in an overwritten ring.
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

// untimed returns how many tasks of a ring's threads were not measured for a reason.
func (r *ring) untimed(s *Session, why probe.Untimed) uint64 {
	return s.clamp(touched(s, func() uint64 { return r.head.untimed[why].Load() }))
}

// ThreadName returns the name of a thread at its first call, "" if unknown.
func (s *Session) ThreadName(pid, tid int) string {
	return s.rings.names[threadID{uint32(pid), uint32(tid)}]
}

// diedInShim reports whether a thread ended in code of the shim. Three signs show it: a call has begun and has no visible entry, its function has
// returned and the call is not finished, or a payload is being recorded. lost is the ring's count of lost calls.
func (r *ring) diedInShim(lost uint64) bool {
	if r.done {
		return false
	}
	return r.returned || r.head.inPayload.Load() != 0 || r.head.seq.Load() != r.seq+lost-r.lost
}

// returned reports whether the function of a record has returned. Until then the end is that of an earlier record, which is before the start.
func returned(b []byte) bool {
	return len(b) >= callHeader && b[6] == recCall && le.Uint64(b[16:]) >= le.Uint64(b[8:])
}
