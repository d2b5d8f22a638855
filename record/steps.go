package record

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// StepRange are the steps to record, counted from 0.
type StepRange struct{ First, Last int }

// ParseSteps parses A:B or A.
func ParseSteps(s string) (*StepRange, error) {
	from, to, both := strings.Cut(s, ":")
	if !both {
		to = from
	}
	a, err := strconv.Atoi(from)
	b, err2 := strconv.Atoi(to)
	if err := errors.Join(err, err2); err != nil || a < 0 || b < a {
		return nil, fmt.Errorf("%q is no range of steps, as 100:110 is", s)
	}
	return &StepRange{First: a, Last: b}, nil
}

// A chooser keeps the calls of the steps that are wanted, counted in each process by a step.Counter. Outside of
// these only those calls are kept that what comes later needs to be understood.
type chooser struct {
	o    StepRange
	r    *recorder
	of   map[uint32]*counted // by process
	over int64               // time since which all processes have passed the steps, 0 for not yet
}

// stepsGrace is how long processes may come that begin with their steps when all others have passed theirs: then
// recording stops, and costs the program nothing any more.
var stepsGrace = 5 * time.Second

type counted struct {
	*step.Counter
	left     uint64 // calls that were left out, and in no gap yet
	from, to int64  // times of these
}

func newChooser(o *StepRange, r *recorder) *chooser {
	return &chooser{o: *o, r: r, of: map[uint32]*counted{}}
}

// wanted counts a call and reports whether it is to be kept.
func (s *chooser) wanted(f *api.Func, c *format.Call, pieces []probe.Piece) (bool, error) {
	process := s.r.b.threadRows[c.Thread].Process
	n := s.of[process]
	if n == nil {
		n = &counted{Counter: step.NewCounter(s.r.o.Model, s.r.o.StepMarker)}
		s.of[process] = n
	}
	was, in := n.At(), n.See(f, c.Thread, rangeName(f, pieces))
	switch {
	case n.At() == was:
	case n.At() <= s.o.Last:
		s.over = 0
	case s.over == 0 && s.passed():
		s.over = probe.Now()
	}
	if in >= s.o.First && in <= s.o.Last {
		return true, s.gap(n)
	}
	if timeline.AffectsState(f) {
		return true, nil
	}
	if n.left == 0 {
		n.from, n.to = c.Start, c.Start
	}
	n.to = max(n.to, c.End)
	n.left++
	return false, nil
}

// done reports whether recording can stop.
func (s *chooser) done() bool {
	return s != nil && s.over != 0 && probe.Now()-s.over > stepsGrace.Nanoseconds()
}

// passed reports whether all processes that launch anything have passed the steps that are wanted.
func (s *chooser) passed() bool {
	for _, n := range s.of {
		if n.Launched() && n.At() <= s.o.Last {
			return false
		}
	}
	return true
}

// gap notes what was left out of a process.
func (s *chooser) gap(n *counted) error {
	if n.left == 0 {
		return nil
	}
	g := format.Gap{Thread: format.NoThread, From: n.from, To: n.to, Calls: n.left, Reason: format.Detached}
	n.left = 0
	s.r.meta.Replayable = false
	return s.r.b.gap(g)
}

// end notes what was left out behind the steps.
func (s *chooser) end() (err error) {
	if s != nil {
		for _, n := range s.of {
			err = errors.Join(err, s.gap(n))
		}
	}
	return err
}

// missed says why steps that are wanted are not in the trace, "" where all are.
func (s *chooser) missed() string {
	if s == nil {
		return ""
	}
	var most *counted
	for _, n := range s.of {
		if most == nil || n.At() > most.At() {
			most = n
		}
	}
	if most == nil || most.At() >= s.o.Last {
		return ""
	}
	return fmt.Sprintf("--steps %d:%d: the program has made %d steps, which were told apart by %s", s.o.First, s.o.Last, most.At()+1, most.By(s.r.o.Model))
}

// rangeName is the name of a range or mark that a call begins, "" for other calls.
func rangeName(f *api.Func, pieces []probe.Piece) string {
	if f.Range == api.NoRange {
		return ""
	}
	for i := range pieces {
		if p := &pieces[i]; int(p.Param) < len(f.Params) && f.Params[p.Param].Role == api.String {
			return strings.TrimRight(string(p.Bytes), "\x00")
		}
	}
	return ""
}
