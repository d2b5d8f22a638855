package step

import (
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A stepper cuts a trace into steps by a rule, call by call. It holds at most two typical steps.
type stepper struct {
	rule *Rule
	beat beat
	// ahead means that the stepper has seen all ops, so that steps can begin before the pulse at which they are cut.
	ahead bool
	// finished means that the end of the last step is known.
	finished bool
	// The current step:
	open  bool
	step  Step
	index int      // of the next step
	works bool     // the marked step has an op of the process
	until int64    // end of the latest step
	due   []bounds // in the order of time
	done  int      // number of those in the past
	begun int64    // start of the latest call
	by    uint32   // thread of the latest pulse, or of the latest call that a marker counts
	told  Step

	sinceCut

	counters map[uint32]*Counter // for a marker, by process
	chosen   bool                // rule.Process is known
}

// sinceCut has the pulses since the last cut.
type sinceCut struct {
	ids      []uint64
	n        int
	hash     uint64
	short    uint64 // hash without the pulses that end steps
	last     int64  // start of the latest pulse
	end      int64  // latest end of a pulse
	wait     lastWait
	turn     turn
	extends  bool            // further waits belong to the step that was cut
	lane     int32           // of the task after which it was cut
	seen     map[uint64]bool // steps so far, by their short hash
	others   []*bag          // steps so far that are not typical
	nth      int64           // end of the pulse that completes a typical step
	behind   int64           // start of the pulse after that, -1 for none
	ends     uint32          // thread of the latter, or else of the former
	memo     map[uint64]bool
	overlaps int64 // end of the latest marked step
}

// lastWait is the latest wait of a step, with the end of the work before it and the start of the pulse before it.
type lastWait struct {
	from, to, worked, last int64
	thread                 uint32
}

// bounds is a moment at which steps end or begin.
type bounds struct {
	at      int64
	typical bool // the step that ends
	ends    bool // a step ends
	opens   bool // a step begins
	open    bool // the trace ends
	thread  uint32
	name    string
}

// maxMemo bounds the number of different steps in memo. maxIDs bounds the pulses of a step that is compared with steps that are not typical.
const (
	maxMemo = 1 << 16
	maxIDs  = 1 << 12
)

func newStepper(rule *Rule) *stepper {
	if rule.Source == None {
		return nil
	}
	s := &stepper{rule: rule, sinceCut: sinceCut{hash: stepHash, short: stepHash, behind: -1, memo: map[uint64]bool{}, seen: map[uint64]bool{}}}
	if rule.Source == Found {
		s.beat = *rule.beat
		s.beat.reset()
		if rule.early != math.MaxInt64 {
			s.due = append(s.due, bounds{at: rule.early, opens: true})
		}
	}
	if rule.Source == ByMarker {
		s.counters = map[uint32]*Counter{}
	}
	return s
}

// at returns the index of the current step, -1 for none.
func (s *stepper) at() int {
	if s.open {
		return s.index
	}
	return -1
}

// pass advances to a moment. It returns a step that has ended by then, nil if there are no more.
func (s *stepper) pass(now int64) *Step {
	if now != math.MaxInt64 {
		s.begun = now
	}
	for s.done < len(s.due) && s.due[s.done].at <= now {
		b := s.due[s.done]
		if s.done++; s.done == len(s.due) {
			s.due, s.done = s.due[:0], 0
		}
		ended := s.open && b.ends && b.at > s.step.From && (!b.open || s.begun >= s.step.From)
		if ended {
			s.told = s.step
			s.told.To, s.told.Thread, s.told.Typical, s.told.Open = b.at, b.thread, b.typical, b.open
			s.told.WarmUp = s.index == 0 && s.rule.warm > 0 && b.at-s.step.From > s.rule.warm
			s.told.Typical = s.told.Typical && !s.told.WarmUp
			s.told.Unrecorded = s.rule.Source == Marked && !s.works
			s.until = b.at
			s.index++
		}
		s.open = b.opens
		if b.opens {
			s.works = false
			s.step = Step{Index: s.index, Name: b.name, From: max(b.at, s.until)}
		}
		if ended {
			return &s.told
		}
	}
	return nil
}

// see takes a call: its op, nil if it has none, and the range that it begins or ends, nil if there is none.
func (s *stepper) see(d *Op, named *Range) {
	if s.rule.Source == Marked {
		s.works = s.works || d != nil && d.Process == s.rule.Process
		if r := named; r != nil && r.To > r.From && r.From >= s.overlaps && r.Process == s.rule.Process && r.Domain == s.rule.domain && Stem(r.Name) == s.rule.stem {
			s.overlaps = r.To
			s.due = append(s.due, bounds{at: r.From, opens: true, name: r.Name}, bounds{at: r.To, ends: true, typical: true, thread: r.EndThread})
		}
		return
	}
	if d != nil && !s.ahead {
		s.op(d)
	}
}

// all takes the ops of the whole trace.
func (s *stepper) all(ops []Op) {
	s.ahead = true
	for i := range ops {
		s.op(&ops[i])
	}
	s.finished = s.ended()
}

func (s *stepper) op(d *Op) {
	id, class, ok := s.beat.pulse(d)
	if s.ahead && d.Process == s.beat.process && s.beat.threads[d.Thread] {
		s.extend(d, ok)
		defer func() { s.end = max(s.end, d.end()) }()
	}
	if !ok || s.rule.early != math.MaxInt64 && d.Start < s.rule.early {
		return
	}
	s.by = d.Thread
	if at := s.rule.at(id); at && s.rule.where == before || s.rule.where >= beforeNext && s.turn.next(s.rule.where, class, at) {
		at := d.Start
		if s.ahead && s.n > 0 {
			at = s.boundary(d)
		}
		s.cut(at)
	}
	n := s.rule.like.bag.n
	switch s.n++; {
	case s.n == n:
		s.nth, s.ends = d.end(), d.Thread
	case s.n == n+1:
		s.behind, s.ends = d.Start, d.Thread
	}
	if len(s.ids) <= max(2*n, maxIDs) {
		s.ids = append(s.ids, id)
	}
	s.hash = Mix(s.hash, id)
	if class < CopyOut {
		s.short = Mix(s.short, id)
	}
	if d.Class == Sync {
		s.wait = lastWait{d.Start, d.end(), s.end, s.last, d.Thread}
	}
	s.last = d.Start
	if s.rule.at(id) && s.rule.where == after {
		s.cut(d.end())
		s.extends, s.lane = s.ahead, d.Lane
	}
}

// boundary returns the moment at which the next step begins to prepare an op: after the last work, or before the wait of a copy that needs the wait.
func (s *stepper) boundary(d *Op) int64 {
	w := &s.wait
	if d.Host && d.Class == CopyIn && d.Thread == w.thread && s.last == w.from && w.from-w.worked > muchWork*(d.Start-w.to) {
		return max(w.last+1, min(w.from, w.worked))
	}
	return max(s.last+1, min(d.Start, s.end))
}

// at reports whether steps are cut at a pulse.
func (r *Rule) at(id uint64) bool { return id == r.symbol || id == r.other }

// extend moves the end of the step that has just been cut after further waits and copies to the host, and after records on the lane of the last task.
func (s *stepper) extend(d *Op, pulse bool) {
	switch {
	case s.extends && (d.Class >= CopyOut && pulse || d.Class == Other && d.Lane == s.lane):
		last := &s.due[len(s.due)-1].at
		*last = max(*last, d.end())
	case d.Class != Sync:
		s.extends = false
	}
}

// end returns the end of an op that lasted at least a nanosecond.
func (d *Op) end() int64 { return max(d.End, d.Start+1) }

// count takes a call for a marker; name is the name of the range that it begins. A first step without a begin is not reported.
func (s *stepper) count(m *api.Model, process uint32, f *api.Func, call *format.Call, name string) {
	if f == nil || s.chosen && process != s.rule.Process {
		return
	}
	c := s.counters[process]
	if c == nil {
		c = NewCounter(m, s.rule.marker)
		s.counters[process] = c
	}
	was := c.At()
	in := c.See(f, name, 0)
	if c.At() == was {
		return
	}
	if !s.chosen {
		s.chosen, s.rule.Process, s.index = true, process, c.At()
	}
	at := call.Start
	if in == was {
		at, name = max(call.End, at+1), ""
	}
	s.by = call.Thread
	s.due = append(s.due, bounds{at: at, ends: true, opens: true, typical: true, thread: call.Thread, name: name})
}

// cut ends the current step and begins another one.
func (s *stepper) cut(at int64) {
	typical := s.typical()
	if len(s.seen) < maxMemo && !s.seen[s.short] {
		s.seen[s.short] = true
		if !typical && len(s.others) < maxKinds {
			s.others = append(s.others, newBag(s.ids))
		}
	}
	s.due = append(s.due, bounds{at: at, ends: true, opens: true, typical: typical, thread: s.by})
	s.ids, s.n, s.hash, s.short, s.behind = s.ids[:0], 0, stepHash, stepHash, -1
}

func (s *stepper) typical() bool {
	l := &s.rule.like
	switch {
	case l.how == sameTasks:
		return s.short == l.hash
	case s.hash == l.hash:
		return true
	case l.how == same:
		return false
	}
	like, known := s.memo[s.hash]
	if !known {
		if len(s.memo) == maxMemo {
			clear(s.memo)
		}
		like = l.bag.like(s.ids)
		s.memo[s.hash] = like
	}
	return like
}

// repeats reports whether the current step has most of an earlier step, and little else.
func (s *stepper) repeats(earlier *bag) bool {
	return earlier.like(s.ids) && earlier.part(s.ids) >= covered
}

// finish ends the current step at the end of the trace.
func (s *stepper) finish(end int64) {
	if s.rule.Source != Marked && !s.finished && !s.ended() {
		s.due = append(s.due, bounds{at: max(end, s.begun+1), ends: true, open: true, thread: s.by})
	}
}

// ended ends the last step if it holds a typical step, or is like an earlier step. Otherwise it returns false: the step is open.
func (s *stepper) ended() bool {
	b := s.rule.like.bag // nil for a marker
	switch {
	case b != nil && s.n >= b.n && b.like(s.ids[:b.n]):
		at := s.nth
		if s.behind >= 0 {
			at = s.behind
		}
		s.due = append(s.due, bounds{at: at, ends: true, typical: true, thread: s.ends})
	case b != nil && s.short != stepHash && (s.seen[s.short] || slices.ContainsFunc(s.others, s.repeats)):
		s.due = append(s.due, bounds{at: s.end, ends: true, typical: s.typical(), thread: s.by})
	default:
		return false
	}
	return true
}
