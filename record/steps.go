package record

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/timeline"
)

// StepRange are the steps to record, counted from 0.
type StepRange struct {
	First, Last int
	// Marker is the name of the range or the function by which steps are told apart; "" has it found: see stepper.
	Marker string
}

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

// stepper counts the steps of a program while it runs. Where the program names ranges of time, with a name that has "step" or "iter" in it, each is a step.
// Else a step ends where a thread waits for the device after it has launched something: at the first function by which one does. Ranges that come later than that do
// not change the rule: what was counted stays counted. Before the first step that is wanted only those calls are kept that what
// comes later needs to be understood.
type stepper struct {
	o       StepRange
	r       *recorder
	rule    stepRule
	marker  api.ID // function, where steps are told apart by one
	at      int    // the step at hand
	began   bool   // a range has begun a step
	busy    map[uint32]bool
	left    uint64 // calls that were left out
	since   int64  // time of the first one
	opened  bool   // recording of the steps has begun
	over    bool
	writing error
}

type stepRule uint8

const (
	undecided stepRule = iota
	byRange
	byWait
)

func newStepper(o *StepRange, r *recorder) *stepper {
	return &stepper{o: *o, r: r, busy: map[uint32]bool{}}
}

// wanted counts a call and reports whether it is to be kept.
func (s *stepper) wanted(f *api.Func, c *format.Call, pieces []probe.Piece) bool {
	keep := s.in()
	switch s.what(f, c, pieces) {
	case begins:
		if s.began {
			s.at++
		}
		s.began = true
		keep = s.in()
	case ends:
		// The call that ends a step belongs to it.
		s.at++
	}
	if s.at > s.o.Last {
		s.over = true
	}
	if keep {
		s.open(c)
		return true
	}
	if !s.opened && s.left == 0 {
		s.since = c.Start
	}
	if timeline.Shapes(f) {
		return true
	}
	s.left++
	return false
}

func (s *stepper) in() bool {
	return s.at >= s.o.First && s.at <= s.o.Last && (s.rule != byRange || s.began)
}

// open notes what was left out, once.
func (s *stepper) open(c *format.Call) {
	if s.opened {
		return
	}
	s.opened = true
	if s.left > 0 {
		s.writing = s.r.b.gap(format.Gap{Thread: format.NoThread, From: s.since, To: max(c.Start, s.since), Calls: s.left, Reason: format.Detached})
	}
}

type boundary uint8

const (
	none boundary = iota
	begins
	ends
)

// what says where steps a call begins or ends one.
func (s *stepper) what(f *api.Func, c *format.Call, pieces []probe.Piece) boundary {
	if f.Range == api.RangeBegin || f.Range == api.Mark {
		if (s.rule == undecided || s.rule == byRange) && s.names(rangeName(f, pieces)) {
			s.rule = byRange
			return begins
		}
		return none
	}
	if f.Task == api.Kernel || f.Task == api.GraphRun {
		s.busy[c.Thread] = true
		return none
	}
	waits := f.Sync != api.NoSync && f.Sync != api.PollStream && f.Sync != api.PollEvent && f.Sync != api.SyncEvent
	if s.o.Marker != "" {
		waits = f.Name == s.o.Marker
	} else if !s.busy[c.Thread] {
		return none
	}
	if !waits || s.rule == byRange || s.rule == byWait && api.ID(c.Func) != s.marker {
		return none
	}
	s.rule, s.marker, s.busy[c.Thread] = byWait, api.ID(c.Func), false
	return ends
}

// names reports whether a range of that name is a step.
func (s *stepper) names(name string) bool {
	if s.o.Marker != "" {
		return strings.HasPrefix(name, s.o.Marker)
	}
	lower := strings.ToLower(name)
	return strings.Contains(lower, "step") || strings.Contains(lower, "iter")
}

func rangeName(f *api.Func, pieces []probe.Piece) string {
	for i := range pieces {
		if p := &pieces[i]; int(p.Param) < len(f.Params) && f.Params[p.Param].Role == api.String {
			return strings.TrimRight(string(p.Bytes), "\x00")
		}
	}
	return ""
}
