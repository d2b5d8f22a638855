package ring

import (
	"errors"
	"math/bits"
	"time"

	"github.com/acltrace/acltrace/probe"
	"golang.org/x/sys/unix"
)

// Load is the amount of data that Drain has found.
type Load int

const (
	Idle    Load = iota // nothing
	Light               // rings are mostly empty: wait before the next Drain, since reading fresh records slows programs down
	Pressed             // a ring was more than a quarter full
)

// Interval returns how long lightly used rings may be left alone. A ring that suddenly gets 1 GB/s, more than ten million
// calls a second, is then half full.
func (s *Session) Interval() time.Duration {
	return max(time.Duration(s.rings.least/2), 200*time.Microsecond)
}

// Drain delivers records that are new since the last call. It returns soon although programs go on writing.
func (s *Session) Drain(sink probe.Sink) (load Load, err error) {
	s.touch(func() { load, err = s.drain(sink) })
	return load, err
}

func (s *Session) drain(sink probe.Sink) (Load, error) {
	s.clock.adjust()
	s.pace.busy = s.pressed()
	if err := s.open(sink); err != nil {
		return Idle, err
	}
	s.refillPools()
	load := Idle
	s.pace.left = passBytes
	for range s.rings.bySlot {
		if s.pace.left <= 0 {
			break
		}
		s.rings.next = (s.rings.next + 1) % len(s.rings.bySlot)
		r := s.rings.bySlot[s.rings.next]
		if r == nil {
			continue
		}
		n, err := r.drain(s, sink, false)
		if err != nil {
			return load, err
		}
		switch {
		case n > r.size/4:
			load = Pressed
		case n > 0:
			load = max(load, Light)
		}
	}
	if s.pace.left <= 0 {
		load = Pressed
	}
	return load, nil
}

// Finish delivers all that is left in the rings: unfinished calls, and gaps for lost ones.
func (s *Session) Finish(sink probe.Sink) error {
	for {
		load, err := s.Drain(sink)
		if err != nil {
			return err
		}
		if load == Idle {
			break
		}
	}
	all := make([]int, len(s.rings.bySlot))
	for i := range all {
		all[i] = i
	}
	return touched(s, func() error { return errors.Join(s.finish(sink, all), s.withoutRings(sink)) })
}

// Leave delivers the enclosing calls in progress as cut, before another recorder continues: it can't read their beginnings.
func (s *Session) Leave(sink probe.Sink) error {
	return touched(s, func() error {
		for _, r := range s.rings.bySlot {
			if r == nil {
				continue
			}
			if r.outer != nil {
				r.outer.Cut = r.member.alive()
			}
			if err := r.endOuter(sink); err != nil {
				return err
			}
		}
		return nil
	})
}

// finish delivers the rest of some rings, after the last regular drain.
func (s *Session) finish(sink probe.Sink, rings []int) error {
	for _, i := range rings {
		r := s.rings.bySlot[i]
		if r == nil || r.mem == nil {
			continue
		}
		if _, err := r.drain(s, sink, true); err != nil {
			return err
		}
		if r.truncated {
			continue
		}
		lost := r.head.lost.Load()
		r.inShim = r.diedInShim(lost)
		if !s.possible(lost - r.lost) {
			if !r.done {
				if err := r.giveUp(s, sink, writtenOver); err != nil {
					return err
				}
			}
			continue
		}
		if all, most := r.head.seq.Load()-r.seq, lost-r.lost+r.size/callHeader; r.done && all <= most {
			lost = r.lost + all // with the calls still in a ring that was given up
			r.seq += all
		}
		if n := r.head.nested.Swap(0); n > 0 && !r.done && s.possible(n) {
			s.files.ctl.handed += n // not in the ring's numbers, since the program does not count them any more
			if err := sink.Gap(&probe.Gap{PID: int(r.pid), TID: int(r.tid), From: s.clock.nanoseconds(r.head.nestedSince), To: probe.Now(), Calls: n, Reason: probe.Nested}); err != nil {
				return err
			}
		}
		if lost > r.lost {
			g := probe.Gap{PID: int(r.pid), TID: int(r.tid), From: s.clock.nanoseconds(r.head.lostSince), To: s.clock.nanoseconds(r.head.lostUntil),
				Calls: lost - r.lost, Reason: probe.RingFull}
			if r.done {
				g.From, g.To, g.Reason = r.gone, probe.Now(), writtenOver
			} else {
				r.head.ahead.Add(lost - r.lost)
			}
			r.lost = lost
			r.save()
			if err := sink.Gap(&g); err != nil {
				return err
			}
		}
	}
	return nil
}

// pace decides when the recorder yields its core.
type pace struct {
	work uint64 // bytes read since the last yield
	busy bool   // rings fill up: do not yield
	left int    // bytes until Drain returns, negative if it has read more
}

// passBytes is the most that one Drain reads, about: programs may write faster than it reads, and the recorder has other work.
const passBytes = 8 << 20

// quantum is the work between yields in bytes, some tens of microseconds. Without yields, a program's thread that wakes up on
// the recorder's core may wait for milliseconds.
const quantum = 16 << 10

// yieldAfter counts n bytes and yields the core after each quantum, so that recording uses idle time. A recorder that falls
// behind does not yield.
func (s *Session) yieldAfter(n uint64) {
	s.pace.left -= int(n)
	if s.pace.work += n; s.pace.work < quantum || s.pace.busy {
		return
	}
	s.pace.work = 0
	before := probe.Now()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	if time.Duration(probe.Now()-before) > s.Interval()/4 {
		s.pace.busy = s.pressed()
	}
}

// pressed reports whether a ring is more than a quarter full, or the arena more than half.
func (s *Session) pressed() bool {
	for _, r := range s.rings.bySlot {
		if r != nil && r.mem != nil && !r.done && r.head.head.Load()-r.pos > r.size/4 {
			return true
		}
	}
	if s.files.arena == nil {
		return false
	}
	free := 0
	for i := range s.files.ctl.arenaFree {
		free += bits.OnesCount64(s.files.ctl.arenaFree[i].Load())
	}
	return free < int(s.files.ctl.arenaChunks)/2
}
