package ring

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"

	"github.com/acltrace/acltrace/probe"
)

// losses is data that was lost, apart from the gaps that the sink gets.
type losses struct {
	since   int64                  // start of the session, CLOCK_MONOTONIC; 0 after Open
	untimed [untimedReasons]uint64 // from rings that were released
	damage  []Damage
}

// Damage describes a file of the session that a program has overwritten or truncated.
type Damage struct {
	PID, TID int // owner of the ring; TID 0: the control file, so that later threads and processes are not recorded
	Exe      string
	What     string
}

// Damage returns all damage. Valid after Finish.
func (s *Session) Damage() []Damage {
	all := s.losses.damage
	if s.files.controlGone.Load() {
		d := Damage{What: "the control file of the recording truncated"}
		for _, m := range s.processes.members {
			if m.info != nil {
				d.PID, d.Exe = m.pid, m.describe().Exe
				break
			}
		}
		all = append(all, d)
	}
	return all
}

// Untimed counts the tasks without device time by reason. Valid after Finish, and before Close.
func (s *Session) Untimed() map[probe.Untimed]uint64 {
	n := map[probe.Untimed]uint64{}
	for i := range untimedReasons {
		n[i] = s.losses.untimed[i]
		for _, r := range s.rings.bySlot {
			if r != nil && r.mem != nil {
				n[i] += r.untimed(s, i)
			}
		}
	}
	return n
}

// Refused returns how many threads were not recorded because there was no memory for their rings.
func (s *Session) Refused() int {
	return touched(s, func() int { return int(s.clamp(uint64(s.files.ctl.refused.Load()))) })
}

// Stranger returns the PID of a process whose shim is from another build and so records nothing; 0 for none.
func (s *Session) Stranger() int {
	return touched(s, func() int { return int(s.files.ctl.stranger.Load()) })
}

// ShutOut counts the threads and children that were not recorded because their program filters system calls.
type ShutOut struct {
	Count, PID int // PID of one such process, if known
	Exe        string
}

// ShutOut returns the threads and children that system call filters have excluded.
func (s *Session) ShutOut() (o ShutOut) {
	s.touch(func() { o = ShutOut{Count: int(s.clamp(uint64(s.files.ctl.shutOut.Load())))} })
	for _, m := range s.processes.filtered {
		o.PID, o.Exe = m.pid, m.describe().Exe
	}
	return o
}

// minCallTime is a lower bound for the time of a call, in nanoseconds.
const minCallTime = 5

// possible reports whether one thread can have made so many calls since the session began. If not, the counter is damaged.
func (s *Session) possible(calls uint64) bool {
	return calls <= uint64(probe.Now()-s.losses.since)/minCallTime
}

// clamp limits a counter that all threads share to the events that the machine can have produced.
func (s *Session) clamp(n uint64) uint64 {
	return min(n, uint64(probe.Now()-s.losses.since)/minCallTime*uint64(runtime.NumCPU()))
}

// PassedBy returns the functions that the shim does not wrap, with the number of calls and requests by dlsym.
func (s *Session) PassedBy() map[string]uint64 {
	b, err := os.ReadFile(filepath.Join(s.files.dir, "passed"))
	if err != nil {
		return nil
	}
	m := map[string]uint64{}
	for ; len(b) >= passedBytes; b = b[passedBytes:] {
		count, state := le.Uint64(b), le.Uint32(b[8:])
		if name, _, _ := bytes.Cut(b[12:passedBytes], []byte{0}); state == passedNamed && count > 0 {
			m[string(name)] += s.clamp(count)
		}
	}
	return m
}
