package ring

import (
	"runtime"

	"github.com/acltrace/acltrace/probe"
)

// losses is what the session has lost beyond the gaps that the sink gets.
type losses struct {
	since   int64                  // when this process created the session, CLOCK_MONOTONIC; 0 if another did
	untimed [untimedReasons]uint64 // of rings that were given back
	damage  []Damage
}

// Damage is a part of a session that a program has overwritten or truncated.
type Damage struct {
	PID, TID int // of the thread whose ring it was; no TID: all threads and processes that came later are not recorded
	Exe      string
	What     string
}

// Damage returns what programs have done to the session. Valid after Finish.
func (s *Session) Damage() []Damage {
	all := s.losses.damage
	if s.files.controlGone.Load() {
		d := Damage{What: "the control file of the recording truncated"}
		for _, m := range s.processes.members {
			if m.said != nil {
				d.PID, d.Exe = m.pid, m.describe().Exe
				break
			}
		}
		all = append(all, d)
	}
	return all
}

// Untimed counts the tasks whose time on the device was to be measured and was not, by why. Valid after Finish, and before Close.
func (s *Session) Untimed() map[probe.Untimed]uint64 {
	n := map[probe.Untimed]uint64{}
	for i := range untimedReasons {
		n[i] = s.losses.untimed[i]
		for _, r := range s.rings.bySlot {
			if r != nil && r.mem != nil {
				n[i] += r.unmeasured(s, i)
			}
		}
	}
	return n
}

// Refused is the number of threads that could not be recorded, for want of memory for their rings.
func (s *Session) Refused() int {
	return touched(s, func() int { return int(s.clamp(uint64(s.files.ctl.refused.Load()))) })
}

// Stranger is a process whose shim is of another build of acltrace than this program, so that it records nothing; 0 for none.
func (s *Session) Stranger() int {
	return touched(s, func() int { return int(s.files.ctl.stranger.Load()) })
}

// ShutOut is how many threads and children are not recorded, since their program has a filter of system calls.
type ShutOut struct {
	Count, PID int // of one such process, where it is known
	Exe        string
}

// ShutOut returns what is not recorded for filters of system calls.
func (s *Session) ShutOut() (o ShutOut) {
	s.touch(func() { o = ShutOut{Count: int(s.clamp(uint64(s.files.ctl.shutOut.Load())))} })
	for _, m := range s.processes.filtered {
		o.PID, o.Exe = m.pid, m.describe().Exe
	}
	return o
}

// leastCall is less than any program takes to make a call, in nanoseconds.
const leastCall = 5

// possible reports whether one thread can have made so many calls since the session began.
func (s *Session) possible(calls uint64) bool {
	return calls <= uint64(probe.Now()-s.losses.since)/leastCall
}

// clamp bounds a count of events that all threads report together by what the machine can do.
func (s *Session) clamp(n uint64) uint64 {
	return min(n, uint64(probe.Now()-s.losses.since)/leastCall*uint64(runtime.NumCPU()))
}
