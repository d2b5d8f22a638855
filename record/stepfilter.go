package record

import (
	"errors"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/record/rows"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// stepFilter keeps the calls of the selected steps. Outside them it keeps only calls that later ones depend on. Steps are
// counted in each process. Its methods accept a nil receiver, which filters nothing.
type stepFilter struct {
	o         *Options
	rows      *rows.Builder
	meta      *format.Meta
	processes map[uint32]*processSteps // by index of the process
	passed    int64                    // CLOCK_MONOTONIC since when all processes are past the steps, 0 if they are not
}

// stepsGrace is how long recording goes on when all processes are past the steps: another process may start with its own.
var stepsGrace = 5 * time.Second

// processSteps are the steps of a process, and its calls that were left out and are in no gap yet.
type processSteps struct {
	*step.Counter
	left     uint64
	from, to int64 // times of these calls
}

func newStepFilter(o *Options, b *rows.Builder, meta *format.Meta) *stepFilter {
	return &stepFilter{o: o, rows: b, meta: meta, processes: map[uint32]*processSteps{}}
}

// keep counts a call and reports whether it is recorded.
func (s *stepFilter) keep(f *api.Func, c *format.Call, pieces []probe.Piece) (bool, error) {
	process := s.rows.ProcessOf(c.Thread)
	n := s.processes[process]
	if n == nil {
		n = &processSteps{Counter: step.NewCounter(s.o.Model, s.o.Steps.Marker)}
		s.processes[process] = n
	}
	was, in := n.At(), n.See(f, rangeName(f, pieces), timeline.InputBytes(s.o.Model, f, c))
	switch {
	case n.At() == was:
	case n.At() <= s.o.Steps.Range.Last:
		s.passed = 0
	case s.passed == 0 && s.allPassed():
		s.passed = probe.Now()
	}
	if in >= s.o.Steps.Range.First && in <= s.o.Steps.Range.Last {
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
func (s *stepFilter) done() bool {
	return s != nil && s.passed != 0 && probe.Now()-s.passed > stepsGrace.Nanoseconds()
}

// allPassed reports whether all processes that have launched a task are past the selected steps.
func (s *stepFilter) allPassed() bool {
	for _, n := range s.processes {
		if n.Launched() && n.At() <= s.o.Steps.Range.Last {
			return false
		}
	}
	return true
}

// gap records the calls of a process that were left out.
func (s *stepFilter) gap(n *processSteps) error {
	if n.left == 0 {
		return nil
	}
	g := format.Gap{Thread: format.NoThread, From: n.from, To: n.to, Calls: n.left, Reason: format.Detached}
	n.left = 0
	s.meta.Replayable = false
	return s.rows.Missing(g)
}

// leftOut records the calls that were left out and are in no gap yet.
func (s *stepFilter) leftOut() (err error) {
	if s != nil {
		for _, n := range s.processes {
			err = errors.Join(err, s.gap(n))
		}
	}
	return err
}

// missed returns nil if all selected steps are in the trace.
func (s *stepFilter) missed() *MissedSteps {
	if s == nil {
		return nil
	}
	var most *processSteps
	for _, n := range s.processes {
		if most == nil || n.At() > most.At() {
			most = n
		}
	}
	if most == nil || most.At() >= s.o.Steps.Range.Last {
		return nil
	}
	return &MissedSteps{Wanted: *s.o.Steps.Range, Made: most.Made(), By: most.By(s.o.Model)}
}

// rangeName returns the name of the range or mark that a call begins, "" for other calls.
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
