package ring

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/acltrace/acltrace/probe"
)

// owner is a present or past thread of a ring. Its calls have the ring's numbers from first on. The thread made base calls
// before, in other rings.
type owner struct {
	ringOwner
	first, base uint64
}

// number returns a call's number in its thread.
func (o *owner) number(seq uint64) uint64 { return o.base + seq - o.first }

// owners are the threads that had a ring, in this order, as far as they are known. A thread can have made calls that were not read
// yet, to which the records of other rings refer.
type owners struct {
	list   []owner
	at     int    // owner at the read position
	looked uint64 // position before which no owner is unknown, if it is after the read position
}

// of returns the owner of a call.
func (os *owners) of(seq uint64) *owner {
	for i := len(os.list) - 1; i > 0; i-- {
		if seq >= os.list[i].first {
			return &os.list[i]
		}
	}
	return &os.list[0]
}

// add adds an owner, unless it is known, and returns its index.
func (os *owners) add(o owner) int {
	known := func(k owner) bool { return k.generation == o.generation }
	if i := slices.IndexFunc(os.list[min(os.at, len(os.list)):], known); i >= 0 {
		return os.at + i
	}
	os.list = append(os.list, o)
	return len(os.list) - 1
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

func readOwner(b []byte) owner {
	o := owner{ringOwner: ringOwner{tid: le.Uint32(b[8:]), generation: le.Uint32(b[12:])}, first: le.Uint64(b[24:])}
	copy(o.name[:], b[40:ownerBytes])
	return o
}

// handOver ends the calls of a ring's thread, and begins those of the next one.
func (r *ring) handOver(s *Session, sink probe.Sink, b []byte) error {
	if len(b) < ownerBytes {
		return errRing
	}
	o, lost := readOwner(b), le.Uint64(b[32:])
	if o.first < r.seq || !s.possible(o.first-r.seq) || !s.possible(lost) {
		return errRing
	}
	if err := r.endOuter(sink); err != nil {
		return err
	}
	// The thread may have lost calls since its last record. finish has reported the first of them if it found the thread without room.
	end := s.clock.nanoseconds(le.Uint64(b[16:]))
	g := probe.Gap{PID: int(r.pid), TID: int(r.tid), From: cmp.Or(r.lastTime, end), To: end, Calls: lost - min(lost, r.lost), Reason: probe.RingFull}
	r.seq, r.lost = o.first, r.lost+g.Calls
	r.countCalls(s)
	r.setOwner(s, o)
	next := r.head.marked.Load() ^ 2
	r.head.owner[next>>1&1] = o.ringOwner
	r.head.ahead.Store(r.lost - lost)
	r.saveAs(next ^ 1)
	if g.Calls == 0 {
		return nil
	}
	return sink.Gap(&g)
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
