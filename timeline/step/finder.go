package step

import (
	"math"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A Finder cuts a trace into steps, call by call, in bounded memory.
type Finder struct {
	rule  *Rule
	steps *stepper // nil if the rule is not known yet
	live  *live    // nil if the rule does not change
}

// New returns a Finder for a rule.
func New(rule *Rule) *Finder {
	if rule.whole != nil {
		return &Finder{rule: rule, steps: rule.whole}
	}
	return &Finder{rule: rule, steps: newStepper(rule)}
}

// NewByMarker returns a Finder for a marker, see Counter.
func NewByMarker(marker string) *Finder { return New(&Rule{Source: ByMarker, marker: marker}) }

// NewLive returns a Finder that learns its rule from its calls, and again if steps stop. lanes returns the lanes so far.
func NewLive(lanes func() []Lane) *Finder {
	f := &Finder{live: &live{lanes: lanes}}
	f.relearn()
	return f
}

// Rule returns the rule for the steps. A live Finder changes it.
func (f *Finder) Rule() *Rule { return f.rule }

// Counts reports whether steps are counted by a marker: then Count takes the calls, otherwise See.
func (f *Finder) Counts() bool { return f.rule.Source == ByMarker }

// At returns the index of the current step, -1 if there is none.
func (f *Finder) At() int {
	if f.steps == nil {
		return -1
	}
	return f.steps.at()
}

// Begun returns the start of the current step, false if there is none.
func (f *Finder) Begun() (from int64, ok bool) {
	if f.steps == nil || !f.steps.open {
		return 0, false
	}
	return f.steps.step.From, true
}

// Pass advances to a moment. It returns a step that has ended by then, nil if there are no more. The step is valid until the next call.
func (f *Finder) Pass(now int64) *Step {
	if f.steps == nil {
		return nil
	}
	s := f.steps.pass(now)
	if s != nil && f.live != nil {
		f.live.idle = 0
	}
	return s
}

// See takes a call: its op, nil if it has none, and the range that it names, nil if it names none. A live Finder gets a range with the call that
// ends it, other Finders with the call that begins it.
func (f *Finder) See(op *Op, named *Range) {
	if f.live != nil {
		f.learn(op, named)
	}
	if f.steps != nil {
		f.steps.see(op, named)
	}
}

// Captured takes a capture after the call that ends it.
func (f *Finder) Captured(c *Capture) {
	if f.live != nil && f.live.learner != nil {
		f.live.learner.Captured(c)
	}
}

// Count takes a call if a marker counts the steps. name is the name of the range or mark that the call begins.
func (f *Finder) Count(m *api.Model, process uint32, fn *api.Func, c *format.Call, name string) {
	f.steps.count(m, process, fn, c, name)
}

// Finish ends the current step at the end of the trace. The step is open unless it contains a typical step.
func (f *Finder) Finish(end int64) {
	if f.steps != nil {
		f.steps.finish(end)
	}
}

const (
	// firstLook is the number of ops that a live Finder examines first. A rule is used if twice as many ops confirm it. If its steps neither end with a
	// wait on the host nor begin with copies, sureLook ops must confirm it, since a layer may repeat as well as a step.
	firstLook, sureLook = 64, 1 << 14
	// lostSteps is the number of ops without a step after which a live Finder learns a new rule.
	lostSteps = 1 << 17
)

// sure reports whether steps by a rule are no layers.
func (r *Rule) sure() bool { return r.where != before || r.class == Sync }

// live is the state of a live Finder that learns its rule.
type live struct {
	lanes   func() []Lane
	learner *Learner // nil once the rule is known
	was     *Rule    // by the first half of the ops
	next    int      // number of ops at which the steps are examined again
	idle    int      // ops since the last step
}

func (f *Finder) relearn() {
	l := f.live
	*l = live{lanes: l.lanes, learner: &Learner{lanes: l.lanes, groups: map[groupKey]*group{}}, next: firstLook}
	f.rule, f.steps = &Rule{Source: None}, nil
}

// learn takes a call until the rule is known. Afterwards it counts ops without a step.
func (f *Finder) learn(op *Op, named *Range) {
	v := f.live
	l := v.learner
	if l == nil {
		if op == nil {
			return
		}
		if v.idle++; v.idle > lostSteps {
			f.relearn()
		}
		return
	}
	if named != nil {
		l.Range(named)
	}
	if op == nil {
		return
	}
	if l.ops = append(l.ops, *op); len(l.ops) < v.next {
		return
	}
	rule := l.found()
	switch {
	case rule.Source == None:
		rule = nil
	case rule.Source == Marked, v.was != nil && v.was.finds(rule) && (rule.sure() || v.next >= sureLook):
		rule.early = math.MaxInt64 // that step has ended
		v.learner = nil
		f.rule, f.steps = rule, newStepper(rule)
		return
	}
	if v.was, v.next = rule, 2*v.next; v.next > maxLearned {
		f.relearn()
	}
}
