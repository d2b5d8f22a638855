package blame

import (
	"slices"

	faults "github.com/acltrace/acltrace/analyze/graphs"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// CauseKind says how an earlier call made the failed call invalid.
type CauseKind uint8

// The kinds of causes. They use the named fields.
const (
	NoContext     CauseKind = iota // the thread never set a device or a context; Other did on another thread, nil: none did
	ContextEnded                   // Ended ended the device or context that the thread had set by Set
	OtherContext                   // Object belongs to Made's device or context, the thread is on that of Set
	Uninitialized                  // Other finalized the runtime; nil: nothing has initialized it in this process
	Reinitialized                  // Other had initialized it
	Refinalized                    // Other had finalized it
)

// A Cause is the earlier call that made the failed call invalid.
type Cause struct {
	Kind                    CauseKind
	TID                     int    // thread of the failed call
	Object                  string // of another context
	Device, MadeOn          int    // devices of the thread and of Object, timeline.NoDevice if unknown
	Context, MadeIn         string // their contexts, "" for a device's own
	Set, Ended, Made, Other *Call  // nil if the trace lacks it
}

// explained has a row for each list of codes: how to find its cause. A function returns nil if it finds none.
var explained = []struct {
	codes func(*api.Causes) []int32
	find  func(*causes, *timeline.State, *timeline.Event) *found
}{
	{func(c *api.Causes) []int32 { return c.NoContext }, (*causes).noContext},
	{func(c *api.Causes) []int32 { return c.OtherContext }, (*causes).otherContext},
	{func(c *api.Causes) []int32 { return c.Uninitialized }, func(x *causes, _ *timeline.State, e *timeline.Event) *found {
		return newFound(Cause{Kind: Uninitialized}, x.runtime(e).finalized)
	}},
	{func(c *api.Causes) []int32 { return c.Reinitialized }, func(x *causes, _ *timeline.State, e *timeline.Event) *found {
		return x.known(Reinitialized, x.runtime(e).initialized)
	}},
	{func(c *api.Causes) []int32 { return c.Refinalized }, func(x *causes, _ *timeline.State, e *timeline.Event) *found {
		return x.known(Refinalized, x.runtime(e).finalized)
	}},
}

// causes follows the calls that initialize the runtime, select devices and contexts, and make objects that belong to a context.
type causes struct {
	m        *api.Model
	runtimes map[uint32]*runtimeCalls // by process
	threads  map[uint32]*selection    // by thread
	made     map[*timeline.Object]selection
}

// runtimeCalls are the calls that concern a process as a whole, timeline.NoCall for none.
type runtimeCalls struct {
	initialized, finalized, selected uint64
}

// selection is a thread's device or context.
type selection struct {
	process uint32
	call    uint64 // that selected it, timeline.NoCall if unknown
	device  int
	context *timeline.Object // nil: the device's own
	ended   uint64           // call that ended it
}

// found is a Cause before its calls are read.
type found struct {
	Cause
	set, ended, made, other uint64
}

func newCauses(m *api.Model) causes {
	return causes{m: m, runtimes: map[uint32]*runtimeCalls{}, threads: map[uint32]*selection{}, made: map[*timeline.Object]selection{}}
}

func (x *causes) runtime(e *timeline.Event) *runtimeCalls {
	c := x.runtimes[e.Process]
	if c == nil {
		c = &runtimeCalls{timeline.NoCall, timeline.NoCall, timeline.NoCall}
		x.runtimes[e.Process] = c
	}
	return c
}

// see follows a call.
func (x *causes) see(s *timeline.State, e *timeline.Event) {
	f, c := e.Fn, e.Call
	if f == nil || !e.OK() || len(c.Args) != int(f.Words) {
		return
	}
	if f.Initializes {
		if r := x.runtime(e); r.initialized == timeline.NoCall || r.finalized != timeline.NoCall {
			r.initialized, r.finalized = c.Index, timeline.NoCall
		}
	}
	for _, u := range e.Uses {
		switch o := u.Object; {
		case o.Ended == c.Index:
			delete(x.made, o)
			x.end(e, func(t *selection) bool { return t.context == o })
		case o.Created == c.Index && !o.Kind.Memory() && o.Kind != api.Context:
			x.made[o] = x.selected(s, e)
		}
	}
	switch {
	case f.Stack == api.Pop:
		delete(x.threads, c.Thread)
	case f.Selects >= 0:
		x.runtime(e).selected = c.Index
		t := &selection{process: e.Process, call: c.Index, device: s.CurrentDevice(e.Process, c.Thread), ended: timeline.NoCall}
		if u, ok := e.Use(int(f.Selects)); ok {
			t.context = u.Object
		}
		x.threads[c.Thread] = t
	case f.Ends == "all":
		x.runtime(e).finalized = c.Index
		x.end(e, func(*selection) bool { return true })
	case f.Ends != "":
		if i := slices.IndexFunc(f.Params, func(p api.Param) bool { return p.Name == f.Ends }); i >= 0 {
			device := int(int32(c.Args[f.Params[i].Word]))
			x.end(e, func(t *selection) bool { return t.context == nil && t.device == device })
		}
	}
}

// end marks selections that a call ended, in its process. A call that resets a device may only drop a reference, so a later success of the thread
// does not contradict the mark: it is read after a failure alone.
func (x *causes) end(e *timeline.Event, of func(*selection) bool) {
	for _, t := range x.threads {
		if t.ended == timeline.NoCall && t.process == e.Process && of(t) {
			t.ended = e.Call.Index
		}
	}
}

// selected returns the selection of a call's thread.
func (x *causes) selected(s *timeline.State, e *timeline.Event) selection {
	if t := x.threads[e.Call.Thread]; t != nil {
		return *t
	}
	return selection{process: e.Process, call: timeline.NoCall, device: s.CurrentDevice(e.Process, e.Call.Thread), ended: timeline.NoCall}
}

// of returns the cause of a failed call, nil if it is unknown.
func (x *causes) of(r *format.Reader, s *timeline.State, e *timeline.Event) (*Cause, error) {
	if e.Fn == nil || !e.Fn.Failed(e.Call.Ret) || e.Call.Flags&format.Unfinished != 0 {
		return nil, nil
	}
	for i := range explained {
		if !slices.Contains(explained[i].codes(&x.m.Causes), int32(e.Call.Ret)) {
			continue
		}
		f := explained[i].find(x, s, e)
		if f == nil {
			return nil, nil
		}
		c := &f.Cause
		c.TID = describe(r, x.m, e).TID
		for _, p := range []struct {
			call uint64
			to   **Call
		}{{f.set, &c.Set}, {f.ended, &c.Ended}, {f.made, &c.Made}, {f.other, &c.Other}} {
			if p.call == timeline.NoCall {
				continue
			}
			k, err := r.Call(p.call)
			if err != nil {
				return nil, err
			}
			*p.to = describe(r, x.m, &timeline.Event{Call: k, Fn: x.m.Func(api.ID(k.Func))})
		}
		return c, nil
	}
	return nil, nil
}

func (x *causes) known(kind CauseKind, call uint64) *found {
	if call == timeline.NoCall {
		return nil
	}
	return newFound(Cause{Kind: kind}, call)
}

func newFound(c Cause, other uint64) *found {
	return &found{Cause: c, set: timeline.NoCall, ended: timeline.NoCall, made: timeline.NoCall, other: other}
}

func (x *causes) noContext(s *timeline.State, e *timeline.Event) *found {
	if t := x.threads[e.Call.Thread]; t != nil {
		if t.ended == timeline.NoCall {
			return nil
		}
		f := newFound(Cause{Kind: ContextEnded, Device: t.device}, timeline.NoCall)
		f.set, f.ended = t.call, t.ended
		return f
	}
	return newFound(Cause{Kind: NoContext}, x.runtime(e).selected)
}

func (x *causes) otherContext(s *timeline.State, e *timeline.Event) *found {
	now := x.selected(s, e)
	for _, u := range e.Uses {
		was, ok := x.made[u.Object]
		if !ok || was.device == now.device && was.context == now.context {
			continue
		}
		f := newFound(Cause{Kind: OtherContext, Object: objectName(u.Object), Device: now.device, MadeOn: was.device, Context: contextName(now.context), MadeIn: contextName(was.context)}, timeline.NoCall)
		f.set, f.made = now.call, u.Object.Created
		return f
	}
	return nil
}

func contextName(o *timeline.Object) string {
	if o == nil {
		return ""
	}
	return objectName(o)
}

// graphFaults checks the captured graphs up to the failure.
func (b *blamer) graphFaults() error {
	w := timeline.NewWalk(b.r, b.m, &timeline.WalkOptions{Untimed: true})
	x, err := faults.New(w)
	if err != nil || x == nil {
		return err
	}
	err = w.Run(&timeline.Visitor{Call: func(h *timeline.HostCall, k *timeline.Task) error {
		if b.failure != nil && h.Start > b.until {
			return timeline.ErrEnough
		}
		return x.Call(h, k)
	}})
	b.rep.Faults = x.Findings()
	return err
}

// faulty returns the faults of the graph that a suspect runs.
func (b *blamer) faulty(x *Suspect) (of []faults.Finding) {
	for _, f := range b.rep.Faults {
		if x.graph != "" && f.Graph == x.graph && f.Kind != faults.CapturedStreams {
			of = append(of, f)
		}
	}
	return of
}

// unexplained drops the faults of graphs that are no hints, since other evidence explains the failure. Faults that took the streams stay for a call
// that needs one.
func (b *blamer) unexplained() {
	if b.failure == nil {
		return
	}
	known := b.rep.Cause != nil || b.rep.Capture != nil || len(b.rep.Suspects) > 0 && !b.rep.Suspects[0].Unlikely()
	streams := takesStream(b.m.Func(api.ID(b.failure.Func)))
	b.rep.Faults = slices.DeleteFunc(b.rep.Faults, func(f faults.Finding) bool { return known && !(streams && f.Kind == faults.CapturedStreams) })
}

// takesStream reports whether a call may fail because a device has no stream left.
func takesStream(f *api.Func) bool {
	return f != nil && (f.Capture != api.NoCapture || slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Role == api.New && p.Object == api.Stream }))
}
