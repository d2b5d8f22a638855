package timeline

import (
	"math"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A Feed is a Walk through calls that are handed to it while they are recorded. It tells a Visitor what a Walk tells,
// but for what takes a look at what comes later: a range is told when it has ended, just before the call that ends it;
// steps are told once it is known how they are found, which takes some of them, and are counted from there. Of kernels
// that calls name by a number alone it has no names.
//
// Its memory is that of a Walk. A Feed belongs to one goroutine.
type Feed struct {
	Walk

	open    map[*Object]*Range
	learner *learner // nil while steps are known, or are not looked for
	was     *StepRule
	next    int // deeds at which the steps are looked for again
	idle    int // deeds since the last step
}

const (
	// firstLook is how many deeds are looked at first for steps. Steps that end where the host waits are taken when twice as many
	// show the same, others only behind sureLook deeds: before, a layer may repeat as well as a step.
	firstLook, sureLook = 64, 1 << 14
	// lostSteps is how many deeds without a step make steps be looked for anew: the program does something else now.
	lostSteps = 1 << 17
	// maxOpenRanges bounds the ranges that have begun and not ended.
	maxOpenRanges = 1 << 16
)

// FeedOptions change what a Feed tells; nil stands for the zero value.
type FeedOptions struct {
	StepMarker string // tells steps apart, as NewStepCounter has it; "" looks for them
}

// NewFeed prepares a Feed of a model's calls. Steps are only looked for where the visitor wants to know of them.
func NewFeed(m *api.Model, v *Visitor, o *FeedOptions) *Feed {
	f := &Feed{open: map[*Object]*Range{}}
	f.Walk = Walk{Model: m, o: WalkOptions{To: math.MaxInt64}, v: *v, whole: math.MaxInt64, names: make([]string, m.Funcs[len(m.Funcs)-1].ID+1), s: NewState(m), lanes: map[laneKey]*lane{}, Steps: StepRule{Source: NoSteps},
		records: map[*Object]record{}, failed: map[uint32]attempt{}, used: map[place]uint64{}}
	for i := range m.Funcs {
		f.names[m.Funcs[i].ID] = m.Funcs[i].Name
	}
	f.feed = f
	switch {
	case v.Step == nil:
	case o != nil && o.StepMarker != "":
		f.Steps = StepRule{Source: Told, marker: o.StepMarker}
		f.steps = newStepper(&f.Steps)
	default:
		f.relearn()
	}
	return f
}

// Thread takes the next thread: the first one is number 0 in calls.
func (f *Feed) Thread(t format.Thread) { f.threads = append(f.threads, t) }

// Call takes a call. Calls come by their start, as far as that is possible; one that overlaps others may come behind them.
func (f *Feed) Call(c *format.Call) error {
	f.Calls++
	f.End = max(f.End, c.Start, c.End)
	return f.call(c)
}

// Finish ends what has not ended.
func (f *Feed) Finish(end int64) error {
	f.End = max(f.End, end)
	return f.finish()
}

// note takes in a call that names a time, and returns the moment, or the range that it has ended.
func (f *Feed) note(process uint32, e *Event) *Range {
	var span *Object
	for _, u := range e.Uses {
		if u.Object.Kind == api.Span {
			span = u.Object
		}
	}
	c := e.Call
	if e.Fn.Range == api.RangeEnd {
		r := f.open[span]
		if delete(f.open, span); r != nil {
			r.To, r.End, r.EndThread = c.End, c.Index, c.Thread
		}
		return r
	}
	r := rangeOf(process, e)
	if r.Mark {
		return r
	}
	if span != nil && len(f.open) < maxOpenRanges {
		f.open[span] = r
	}
	return nil
}

// relearn begins to look for steps.
func (f *Feed) relearn() {
	f.learner = &learner{groups: map[groupKey]*group{}}
	f.was, f.next, f.idle = nil, firstLook, 0
	f.Steps, f.steps = StepRule{Source: NoSteps}, nil
}

// learn takes in a call while it is not known how steps are found, and looks whether they still are.
func (f *Feed) learn(h *HostCall, k *Task, named *Range) {
	d, ok := deedOf(h, k)
	l := f.learner
	if l == nil {
		if f.steps == nil || f.steps.counters != nil || !ok {
			return
		}
		if f.idle++; f.idle > lostSteps {
			f.relearn()
		}
		return
	}
	if named != nil {
		_ = l.mark(named) // it has no error
	}
	if !ok {
		return
	}
	if l.deeds = append(l.deeds, d); len(l.deeds) < f.next {
		return
	}
	l.lanes = f.Lanes
	rule := l.marked(2)
	if rule == nil {
		rule = l.repeated()
	}
	switch {
	case rule.Source == NoSteps:
		rule = nil
	case rule.Source == Marked, f.was != nil && f.was.finds(rule) && (rule.behind || f.next >= sureLook):
		rule.early = math.MaxInt64 // what was before is over
		f.Steps, f.learner = *rule, nil
		f.steps = newStepper(&f.Steps)
		return
	}
	if f.was, f.next = rule, 2*f.next; f.next > maxLearned {
		f.relearn()
	}
}

// finds reports whether two rules find the same steps.
func (r *StepRule) finds(o *StepRule) bool {
	return r.Source == o.Source && r.Process == o.Process && r.lane == o.lane && r.symbol == o.symbol && r.behind == o.behind
}
