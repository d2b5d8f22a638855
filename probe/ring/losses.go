package ring

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"github.com/acltrace/acltrace/probe"
)

// losses is data that was lost, apart from the gaps that the sink gets.
type losses struct {
	since   int64                  // start of the session, CLOCK_MONOTONIC; 0 after Open
	outside int64                  // last look at the calls of processes without a file, CLOCK_MONOTONIC
	untimed [untimedReasons]uint64 // from rings that were released
	damage  []Damage
}

// Damage describes a file of the session that a program has overwritten, truncated or removed.
type Damage struct {
	PID, TID int    // owner of the ring; TID 0: the control file, so that later threads and processes are not recorded
	Exe      string // program of the process, or the removed file
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
	if path := filepath.Join(s.files.dir, "control"); gone(path) {
		all = append(all, Damage{Exe: path, What: "removed while it was in use"})
	}
	return all
}

// gone reports whether no file has a path.
func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// Untimed counts the tasks without device time by reason. Valid before Close.
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

// Refusal is the reason why a thread got no ring.
type Refusal int

const (
	RefusedMemory Refusal = iota // the session's memory: its limit, or the file system of its folder
	RefusedCgroup                // the memory cgroup of the program
	RefusedLimit                 // RLIMIT_AS, RLIMIT_MEMLOCK or RLIMIT_FSIZE of the program
	RefusedSlots                 // more threads at once than a session has slots
	RefusedFiles                 // the process can't make files in the session's folder
)

// Refused returns how many threads were not recorded because they got no ring, by reason. Their calls are Gaps.
func (s *Session) Refused() map[Refusal]int {
	return touched(s, func() map[Refusal]int {
		n := map[Refusal]int{}
		for i := range refusals {
			if v := s.files.ctl.refused[i].Load(); v > 0 {
				n[i] = int(s.clamp(uint64(v)))
			}
		}
		return n
	})
}

// noRing delivers the calls of threads without a ring that a counter has. m is nil for processes without a file.
func (s *Session) noRing(sink probe.Sink, m *member, counter *atomic.Uint64) error {
	g := probe.Gap{From: s.losses.outside, To: probe.Now(), Reason: probe.NoRing}
	if m != nil {
		g.PID, g.From = m.pid, max(m.outside, m.began(&s.clock))
		m.outside = g.To
	} else {
		s.losses.outside = g.To
	}
	if counter.Load() == 0 {
		return nil
	}
	if g.Calls = s.clamp(counter.Swap(0)); m != nil {
		s.rings.names[threadID{uint32(m.pid), 0}] = "not recorded"
		if err := s.announce(m, sink); err != nil {
			return err
		}
	}
	s.files.ctl.handed += g.Calls
	return sink.Gap(&g)
}

// withoutRings delivers the calls of all threads without a ring.
func (s *Session) withoutRings(sink probe.Sink) error {
	s.findProcesses()
	for _, m := range s.processes.members {
		if m.shared != nil && m.info != nil {
			if err := s.noRing(sink, m, &m.shared.unrecorded); err != nil {
				return err
			}
		}
	}
	return s.noRing(sink, nil, &s.files.ctl.unrecorded)
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
