package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/step"
)

// A LiveWalk drives a Walk through calls that are still being recorded. Reports differ from those of a finished trace if they depend on later
// calls. A range is reported when it has ended, just before the call that ends it. Steps are reported, and counted, once their rule is known,
// which takes some steps. Kernels that calls name by a number only have no names.
//
// It needs as much memory as a Walk. A LiveWalk belongs to one goroutine.
type LiveWalk struct {
	Walk *Walk // for reading; Run must not be called
}

// openRanges are the ranges without an end, by their object.
type openRanges map[*Object]*Range

// maxOpenRanges bounds openRanges.
const maxOpenRanges = 1 << 16

// LiveOptions are the options for NewLiveWalk; nil means the defaults.
type LiveOptions struct {
	StepMarker string // see step.Counter; default: steps are learned
}

// NewLiveWalk prepares a LiveWalk. It looks for steps if the visitor has a Step function.
func NewLiveWalk(m *api.Model, v *Visitor, o *LiveOptions) *LiveWalk {
	w := newWalk(m)
	w.v, w.ahead.ranges, w.names.functions = *v, openRanges{}, make([]string, m.Funcs[len(m.Funcs)-1].ID+1)
	for i := range m.Funcs {
		w.names.functions[m.Funcs[i].ID] = m.Funcs[i].Name
	}
	switch {
	case v.Step == nil:
	case o != nil && o.StepMarker != "":
		w.steps.Finder = step.NewByMarker(o.StepMarker)
	default:
		w.steps.Finder = step.NewLive(w.stepLanes)
	}
	return &LiveWalk{w}
}

// Thread adds a thread. Calls refer to threads by their number, from 0.
func (f *LiveWalk) Thread(t format.Thread) { f.Walk.threads.list = append(f.Walk.threads.list, t) }

// Call adds a call. Calls come in the order of their starts; a call may come after later calls that overlap it.
func (f *LiveWalk) Call(c *format.Call) error {
	w := f.Walk
	w.Calls++
	w.End = max(w.End, c.Start, c.End)
	return w.call(c)
}

// Finish ends the remaining tasks and steps at a moment.
func (f *LiveWalk) Finish(end int64) error {
	f.Walk.End = max(f.Walk.End, end)
	return f.Walk.finish()
}

// note implements rangeSource: it returns a range at its last call.
func (o openRanges) note(e *Event) (*Range, error) {
	span := e.Object(api.Span)
	c := e.Call
	if e.Fn.Range == api.RangeEnd {
		r := o[span]
		if delete(o, span); r != nil {
			r.To, r.End, r.EndThread = c.End, c.Index, c.Thread
		}
		return r, nil
	}
	r := rangeOf(e)
	if r.Mark {
		return r, nil
	}
	if span != nil && len(o) < maxOpenRanges {
		o[span] = r
	}
	return nil, nil
}
