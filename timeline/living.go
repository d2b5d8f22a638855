package timeline

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// AffectsState reports whether later calls may not be understood without a call of the function, since it may make, end or name objects. During a
// capture, this is true for all functions that put tasks on a stream.
func AffectsState(f *api.Func) bool {
	if f.Initializes || changes(f) {
		return true
	}
	return f.Task == api.NoTask && slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Object == api.ArgsList })
}

// Living finds the calls in a trace that are needed to understand calls after its end. They made or named objects that are still alive, filled
// live graphs or argument lists, selected the current device of a thread, or hold a call stack.
func Living(r *format.Reader, m *api.Model) (map[uint64]bool, error) {
	l := living{of: map[*Object][]uint64{}, captured: map[*Object][]uint64{}, updates: map[*Object][]uint64{}, updated: map[*Object]*Object{}, begun: map[*Object]uint64{}, keep: map[uint64]bool{}}
	s := NewState(m)
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			return nil, err
		}
		l.call(s.Apply(r.ProcessOf(c.Thread), c))
	}
	for _, devices := range s.current {
		for _, t := range devices {
			l.keep[t.call] = true
		}
	}
	for _, calls := range l.captured {
		l.add(calls) // captures that have not ended
	}
	for group, calls := range l.updates {
		if group.Ended == NoCall {
			l.add(calls)
		}
	}
	for o, calls := range l.of {
		if o.Ended == NoCall {
			l.add(calls)
			for p := o.Parent; p != nil; p = p.Parent {
				l.add(l.of[p])
			}
		}
	}
	return l.keep, nil
}

// living collects the calls that made each object as it is.
type living struct {
	of       map[*Object][]uint64
	captured map[*Object][]uint64
	updates  map[*Object][]uint64 // by task group: its latest update
	updated  map[*Object]*Object  // by stream: the task group in an update
	begun    map[*Object]uint64   // by stream: the call that began a task group
	keep     map[uint64]bool
}

func (l *living) add(calls []uint64) {
	for _, i := range calls {
		l.keep[i] = true
	}
}

func (l *living) call(e *Event) {
	c, f := e.Call, e.Fn
	if slices.ContainsFunc(c.Data, func(d format.Data) bool { return d.Param == StackParam }) {
		l.keep[c.Index] = true
	}
	if !e.OK() {
		return
	}
	if f.Initializes {
		l.keep[c.Index] = true
	}
	switch {
	case f.Capture == api.CaptureBegin && e.Stream != nil:
		l.captured[e.Stream] = []uint64{c.Index}
	case f.Capture == api.CaptureEnd && e.Stream != nil:
		calls := append(l.captured[e.Stream], c.Index)
		delete(l.captured, e.Stream)
		for _, u := range e.Uses {
			if u.Object.Kind == api.Graph {
				l.of[u.Object] = append(l.of[u.Object], calls...)
			}
		}
	case f.Capture == api.UpdateBegin:
		if g := e.Object(api.TaskGroup); g != nil {
			l.updated[e.Stream], l.updates[g] = g, []uint64{c.Index}
		}
	case f.Capture == api.UpdateEnd:
		if g := l.updated[e.Stream]; g != nil {
			l.updates[g] = append(l.updates[g], c.Index)
		}
		delete(l.updated, e.Stream)
	case f.Capture == api.GroupBegin:
		l.begun[e.Stream] = c.Index
	case f.Capture == api.GroupEnd:
		if g := e.Object(api.TaskGroup); g != nil {
			l.of[g] = append(l.of[g], l.begun[e.Stream])
		}
	case e.Part.Update:
		l.updates[e.Captured] = append(l.updates[e.Captured], c.Index)
	case e.Captured != nil && e.Captured.Kind != api.Stream:
		l.of[e.Captured] = append(l.of[e.Captured], c.Index)
	case e.Captured != nil:
		l.captured[e.Captured] = append(l.captured[e.Captured], c.Index)
	}
	names := f.Names >= 0 && f.Task != api.Kernel
	for _, u := range e.Uses {
		o := u.Object
		switch {
		case o.Ended != NoCall:
			delete(l.of, o)
		case o.Created == c.Index, names, o.Kind == api.ArgsList && f.Task == api.NoTask:
			l.of[o] = append(l.of[o], c.Index)
			if o.Kind == api.Graph {
				for _, from := range e.Uses {
					if from.Object.Kind == api.Graph && from.Object != o {
						l.of[o] = append(l.of[o], l.of[from.Object]...) // the source may have ended by then
					}
				}
			}
		}
	}
}
