package ring

import (
	"math/bits"
	"time"

	"github.com/acltrace/acltrace/probe"
	"golang.org/x/sys/unix"
)

// Load says how much there was to drain.
type Load int

const (
	Idle    Load = iota // nothing
	Light               // rings were mostly empty: the programs are better left alone for a while, since reading what they write next costs them
	Pressed             // a ring was more than a quarter full
)

// Interval is how long rings that are lightly used may be left alone: one that suddenly gets 1 GB/s, more than ten million calls a
// second, is half full then.
func (s *Session) Interval() time.Duration {
	return max(time.Duration(s.rings.bytes/2), 200*time.Microsecond)
}

// Drain hands on what has been written since the last time.
func (s *Session) Drain(sink probe.Sink) (load Load, err error) {
	s.touch(func() { load, err = s.drain(sink) })
	return load, err
}

func (s *Session) drain(sink probe.Sink) (Load, error) {
	s.clock.adjust()
	s.pace.behind = s.pressed()
	if err := s.open(sink); err != nil {
		return Idle, err
	}
	s.refill()
	load := Idle
	for _, r := range s.rings.bySlot {
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
	return load, nil
}

// Finish hands on what programs that have died have left: their last calls, finished or not, and what they lost.
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
	return touched(s, func() error { return s.finish(sink, all) })
}

// finish hands on all that some rings hold.
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
		if !s.possible(lost - r.lost) {
			if !r.done {
				if err := r.giveUp(s, sink, writtenOver); err != nil {
					return err
				}
			}
			continue
		}
		if all, most := r.head.seq.Load()-r.seq, lost-r.lost+r.size/callHeader; r.done && all <= most {
			lost = r.lost + all // with what lay in a ring that was given up
			r.seq += all
		}
		if n := r.head.nested.Swap(0); n > 0 && !r.done && s.possible(n) {
			r.seq += n
			if err := sink.Gap(&probe.Gap{PID: int(r.pid), TID: int(r.tid), From: s.clock.nanoseconds(r.head.nestedSince), To: probe.Now(), Calls: n, Reason: probe.Nested}); err != nil {
				return err
			}
		}
		if lost > r.lost {
			g := probe.Gap{PID: int(r.pid), TID: int(r.tid), From: s.clock.nanoseconds(r.head.lostSince), To: s.clock.nanoseconds(r.head.lostUntil),
				Calls: lost - r.lost, Reason: "ring full"}
			if r.done {
				g.From, g.To, g.Reason = r.gone, probe.Now(), writtenOver
			}
			s.files.ctl.handed += lost - r.lost
			r.lost = lost
			if err := sink.Gap(&g); err != nil {
				return err
			}
		}
	}
	return nil
}

// pace decides when the recorder yields its core.
type pace struct {
	work   uint64 // bytes read since the last yield
	behind bool   // rings fill up: do not yield
}

// quantum is how many bytes of records and payloads are read before others are let at the core: some tens of microseconds of work.
// Without it a thread of the program that wakes up on the recorder's core may wait there for milliseconds.
const quantum = 16 << 10

// share notes that n bytes have been read, and now and then lets whoever waits for this core run first, so that recording takes
// what the program leaves of the cores. A recorder that falls behind, since the program leaves nothing, takes its full share.
func (s *Session) share(n uint64) {
	if s.pace.work += n; s.pace.work < quantum || s.pace.behind {
		return
	}
	s.pace.work = 0
	before := probe.Now()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	if time.Duration(probe.Now()-before) > s.Interval()/4 {
		s.pace.behind = s.pressed()
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
