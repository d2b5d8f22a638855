package blame

import (
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// A signal is something that tasks wait for: an event, a notify or a counter, or a value in memory.
type signal struct {
	object  *timeline.Object
	process uint32 // of a value
	addr    uint64
}

// signalOf returns the signal that a call's task waits for, sets or resets.
func signalOf(e *timeline.Event, accesses []access.Access) (g signal, ok bool) {
	for _, u := range e.Uses {
		if o := u.Object; o.Kind == api.Event || o.Kind == api.Notify || o.Kind == api.Counter {
			return signal{object: o.Exported()}, true
		}
	}
	for _, t := range accesses {
		if t.Self && t.Size <= 8 {
			return signal{process: e.Process, addr: t.Addr}, true
		}
	}
	return signal{}, false
}

// signals has the latest record and the latest reset of each signal.
type signals map[signal]*signalled

type signalled struct {
	recorded bool
	at       int64  // start of the call
	call     uint64 // that recorded it,
	stream   string // on this stream
	reset    *Reset // nil for none
}

// see follows a call whose task runs: outside of captures.
func (s signals) see(e *timeline.Event, accesses []access.Access) {
	for _, u := range e.Uses {
		if u.Object.Ended == e.Call.Index {
			delete(s, signal{object: u.Object})
		}
	}
	if e.Fn == nil || e.Captured != nil || !e.OK() {
		return
	}
	g, ok := signalOf(e, accesses)
	if !ok || e.Fn.Task != api.Record && e.Fn.Task != api.Reset && (e.Fn.Task != api.Fill || g.object != nil) {
		return
	}
	x := s[g]
	if x == nil {
		x = &signalled{}
		s[g] = x
	}
	if e.Fn.Task == api.Reset {
		x.reset = &Reset{Call: e.Call.Index}
		return
	}
	*x = signalled{recorded: true, at: e.Call.Start, call: e.Call.Index, stream: streamName(e)}
}

// wait describes a wait for a signal at the present moment.
func (s signals) wait(g signal) *Wait {
	w := &Wait{Addr: Hex(g.addr)}
	if g.object != nil {
		w.Object = objectName(g.object)
	}
	if x := s[g]; x != nil {
		w.Recorded, w.Call, w.Stream, w.Reset = x.recorded, x.call, x.stream, x.reset
	}
	return w
}

// graphs has the waits in captured and built graphs, and those of captures by the stream that began them.
type graphs map[*timeline.Object]*graphWaits

// graphWaits are the tasks of a graph that wait for a signal from outside, and those that reset one, and the launch that the runtime's message fits best.
type graphWaits struct {
	name   string
	waits  []graphWait
	set    []signal // by tasks of the graph itself
	resets map[signal]uint64
	launch *Reason // nil for none
	score  int     // of launch
}

// stands reports whether a run of the graph may wait for a signal.
func (g *graphWaits) stands() bool { return g != nil && len(g.waits) > 0 }

type graphWait struct {
	signal
	call   uint64
	memory *timeline.Object // of a value, nil if unknown
}

// see follows a call that captures a task or ends a capture.
func (gs graphs) see(e *timeline.Event, accesses []access.Access, s *timeline.State) {
	f := e.Fn
	if f == nil || !e.OK() {
		return
	}
	if e.Stream != nil && (f.Capture == api.CaptureBegin || f.Capture == api.CaptureEnd) {
		g := gs[e.Stream]
		delete(gs, e.Stream)
		if o := e.Object(api.Graph); g != nil && o != nil && f.Capture == api.CaptureEnd {
			g.name, gs[o] = objectName(o), g
		}
		return
	}
	if e.Captured == nil {
		return
	}
	on, ok := signalOf(e, accesses)
	if !ok {
		return
	}
	g := gs.at(e.Captured)
	switch {
	case f.Task == api.Wait && !slices.Contains(g.set, on):
		w := graphWait{signal: on, call: e.Call.Index}
		if on.object == nil {
			w.memory, _, _ = s.FindEnd(e.Process, on.addr)
		}
		g.waits = append(g.waits, w)
	case f.Task == api.Record:
		g.set = append(g.set, on)
	case f.Task == api.Reset, f.Task == api.Fill && on.object == nil:
		g.resets[on] = e.Call.Index
	}
}

// at returns the waits of a capture or a graph.
func (gs graphs) at(o *timeline.Object) *graphWaits {
	if gs[o] == nil {
		gs[o] = &graphWaits{name: objectName(o), resets: map[signal]uint64{}}
	}
	return gs[o]
}

// of returns the waits in the graph that a call runs, nil for none.
func (gs graphs) of(e *timeline.Event) *graphWaits { return gs[e.Object(api.Graph)] }

// captured compares a launch that is captured with the runtime's message: its kernel, and the allocations that it uses.
func (b *blamer) captured(e *timeline.Event, kernel string, accesses []access.Access, s *timeline.State) {
	if e.Captured == nil || kernel == "" || !b.names(kernel) {
		return
	}
	r, score := &Reason{Kind: CapturedLaunch, Call: e.Call.Index, Kernel: kernel, Operator: operatorOf(e.Operator, e.Phase)}, sameKernel
	for _, t := range accesses {
		o, _, ok := s.FindEnd(e.Process, t.Addr)
		for _, addr := range b.evidence.addrs {
			if ok && addr >= o.Handle && addr-o.Handle < o.Size {
				r.Addr, score = Hex(addr), sameKernel+sameMemory
			}
		}
	}
	if g := b.graphs.at(e.Captured); score > g.score {
		g.launch, g.score = r, score
	}
}

// names reports whether the runtime's message names a kernel.
func (b *blamer) names(kernel string) bool {
	return kernel == b.evidence.kernel || b.evidence.kernel == "" && mentions(b.rep.Message, kernel)
}

// oldest returns the wait whose signal was recorded longest ago, and the time of that record: the one that a run misses if the host records all others.
// Waits whose signal the graph takes back depend on the host in each run, so they come before others.
func (g *graphWaits) oldest(s signals) (w *graphWait, at int64) {
	resets := false
	for i := range g.waits {
		x := &g.waits[i]
		then := int64(math.MinInt64)
		if y := s[x.signal]; y != nil && y.recorded {
			then = y.at
		}
		_, back := g.resets[x.signal]
		if w == nil || back && !resets || back == resets && then < at {
			w, at, resets = x, then, back
		}
	}
	return w, at
}

// waitFailed reports whether the failed call is a host-side wait.
func (b *blamer) waitFailed() bool {
	if b.failure == nil {
		return false
	}
	f := b.m.Func(api.ID(b.failure.Func))
	return f != nil && f.Sync != api.NoSync
}

// faulted reports whether the failed call returned a device fault: then a task failed, and none stands at a wait.
func (b *blamer) faulted() bool {
	return b.failure.Flags&format.Unfinished == 0 && b.m.ErrorClass(int32(b.failure.Ret)) == api.DeviceFault
}

// standing returns the wait at which a suspect's stream may stand, nil for none, and its score.
func (b *blamer) standing(x *Suspect) (*Wait, int) {
	if x.inside.stands() {
		w, at := x.inside.oldest(b.signals)
		out := b.signals.wait(w.signal)
		out.Graph, out.By = x.inside.name, w.call
		if call, resets := x.inside.resets[w.signal]; resets {
			out.Reset = &Reset{Call: call, InGraph: true}
		}
		if at > x.Start {
			return out, waitsBehind // unless an earlier run took this record
		}
		return out, waits
	}
	w := x.waits
	if last := b.signals.wait(x.on); w != nil && !b.isEvent(x) && last.Recorded && b.inFlight(last.Call) {
		w = last // it was called after the wait
	}
	if w != nil {
		w.Pending = w.Recorded && b.inFlight(w.Call)
	}
	if w == nil || !w.Recorded || w.Addr != 0 || w.Reset != nil {
		return w, waits
	}
	switch r := b.suspects[w.Call]; {
	case w.Pending:
		for _, y := range b.suspects { // the record may itself stand behind a wait
			if y != x && y.stream == r.stream && (y.waits != nil || y.inside.stands()) && y.Start < r.Start {
				return w, waitsBehind
			}
		}
		return w, waitsRunning
	case b.isEvent(x):
		return nil, 0 // recorded, and the record's task has ended
	}
	return w, waits
}

// inFlight reports whether the task of a call may not have ended.
func (b *blamer) inFlight(call uint64) bool {
	x := b.suspects[call]
	return x != nil && x.Func != ""
}

// isEvent reports whether a suspect waits for an event, whose record releases any number of waits.
func (b *blamer) isEvent(x *Suspect) bool {
	f := b.m.Lookup(x.Func)
	return f != nil && f.Event >= 0 && f.Params[f.Event].Object == api.Event
}

// written looks for the last write to the value among the histories of allocations. If the graph that waits resets the value, runs of graphs are resets.
func (w *Wait) written(m *api.Model, all []Lifetime) {
	resets := func(a *Access) bool {
		return w.Reset != nil && (a.Index == w.Reset.Call || w.Reset.InGraph && m.Lookup(a.Func).Task == api.GraphRun)
	}
	for i := range all {
		p := &all[i].Place
		if at := uint64(w.Addr) - uint64(p.Addr); at < p.Size {
			for _, a := range slices.Backward(all[i].Accesses) {
				if a.How == access.Writes.String() && a.Via == "" && !resets(&a) && at >= a.Offset && at-a.Offset < a.Size {
					w.Recorded, w.Call, w.Stream = true, a.Index, a.Stream
					return
				}
			}
		}
	}
}
