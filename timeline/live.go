package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/step"
)

// A LiveWalk is a Walk through calls that are given to it while they are recorded. It reports the same to a Visitor as a Walk, except for
// what later calls show: a range is reported when it has ended, just before the call that ends it; steps are reported once their rule is
// known, which takes some steps, and are counted from there. Kernels that calls name by a number alone have no names.
//
// Its memory is that of a Walk. A LiveWalk belongs to one goroutine.
type LiveWalk struct {
	Walk
	open openRanges
}

// openRanges are the ranges that have begun and not ended, by their object.
type openRanges map[*Object]*Range

// maxOpenRanges bounds openRanges.
const maxOpenRanges = 1 << 16

// LiveOptions are the options of NewLiveWalk; nil means the defaults.
type LiveOptions struct {
	StepMarker string // see step.Counter; default: steps are learned
}

// NewLiveWalk prepares a LiveWalk of a model's calls. It looks for steps if the visitor wants them.
func NewLiveWalk(m *api.Model, v *Visitor, o *LiveOptions) *LiveWalk {
	f := &LiveWalk{Walk: *newWalk(m), open: openRanges{}}
	f.v, f.ranges, f.names = *v, f.open, make([]string, m.Funcs[len(m.Funcs)-1].ID+1)
	for i := range m.Funcs {
		f.names[m.Funcs[i].ID] = m.Funcs[i].Name
	}
	switch {
	case v.Step == nil:
	case o != nil && o.StepMarker != "":
		f.steps = step.NewByMarker(o.StepMarker)
	default:
		f.steps = step.NewLive(f.stepLanes)
	}
	return f
}

// Thread takes the next thread: the first one is number 0 in calls.
func (f *LiveWalk) Thread(t format.Thread) { f.threads = append(f.threads, t) }

// Call takes a call. Calls come in the order of their begins if possible; a call that overlaps others may come after them.
func (f *LiveWalk) Call(c *format.Call) error {
	f.Calls++
	f.End = max(f.End, c.Start, c.End)
	return f.call(c)
}

// Finish ends what has not ended.
func (f *LiveWalk) Finish(end int64) error {
	f.End = max(f.End, end)
	return f.finish()
}

// note implements rangeSource: it returns a range at the call that ends it.
func (o openRanges) note(process uint32, e *Event) (*Range, error) {
	var span *Object
	for _, u := range e.Uses {
		if u.Object.Kind == api.Span {
			span = u.Object
		}
	}
	c := e.Call
	if e.Fn.Range == api.RangeEnd {
		r := o[span]
		if delete(o, span); r != nil {
			r.To, r.End, r.EndThread = c.End, c.Index, c.Thread
		}
		return r, nil
	}
	r := rangeOf(process, e)
	if r.Mark {
		return r, nil
	}
	if span != nil && len(o) < maxOpenRanges {
		o[span] = r
	}
	return nil, nil
}
