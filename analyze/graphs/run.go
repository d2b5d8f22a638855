package graphs

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/grow"
	"github.com/acltrace/acltrace/timeline"
)

// A run is a run of a graph, or an update: a place on a lane.
type run struct {
	call uint64
	fn   string
	lane int
	at   uint32 // its number on the lane, from 1; 0 for none
}

// An update of a task group is in progress, or the latest one.
type update struct {
	of      *taskGroup // nil if unknown
	call    uint64
	fn      string
	tasks   uint64
	stream  *timeline.Object
	place   run
	refused bool // a launch failed
}

// external is a signal that graphs wait for.
type external struct {
	timeline.Signal
	memory  string
	users   int    // waits of live graphs and captures
	needed  uint64 // records that all runs so far wait for
	records uint64
	most    uint64 // largest number of records that no run had waited for yet
	unreset bool   // a graph waits and does not reset it
	extra   run    // the record that made it so
	runs    [4]run // the latest ones, by number
	latest  uint64 // call of the latest run
	prev    uint64 // call of the latest record
	lane    int    // of the latest record
	bare    uint64 // records before which nothing was updated, copied or computed: on their lane since the record before, elsewhere since the run
	waiting *graph // of the latest run
	groups  []*taskGroup
}

// kept reports whether the records release tasks for which nothing was updated.
func (s *external) kept() bool { return s.bare >= 2 && 4*s.bare > 3*s.records }

// reach counts, for each tracked lane, the runs, updates and copies that may have ended before a point. It is never changed.
type reach []uint32

func (r reach) at(track int) uint32 {
	if track < len(r) {
		return r[track]
	}
	return 0
}

// join returns the maximum of two.
func (r reach) join(o reach) reach {
	if len(o) == 0 || len(r) == len(o) && &r[0] == &o[0] {
		return r
	}
	less, more := len(r) < len(o), false
	for i, n := range o {
		less = less || n > r.at(i)
	}
	if !less {
		return r
	}
	for i, n := range r {
		more = more || n > o.at(i)
	}
	if !more {
		return o
	}
	m := make(reach, max(len(r), len(o)))
	for i := range m {
		m[i] = max(r.at(i), o.at(i))
	}
	return m
}

// with returns the reach that has n tasks on a tracked lane.
func (r reach) with(track int, n uint32) reach {
	m := make(reach, max(len(r), track+1))
	copy(m, r)
	m[track] = n
	return m
}

// A lane has the state of a Walk's lane.
type lane struct {
	track int    // 0 for none, otherwise one more than the index in a reach
	n     uint32 // runs, updates and copies
	at    reach  // after the latest task
	last  uint64 // one more than the call of the latest task
	done  uint64 // of the latest task that the host has waited for
	idle  bool   // the host had waited for all tasks before the latest
	runs  *graph // by the latest task that did so, if nothing else was put here
	work  uint64 // like Checker.work
}

// maxTracks bounds the lanes whose runs, updates and copies are counted.
const maxTracks = 64

// call follows the order of a call's task, or of an update. It returns the reach before the task.
func (x *Checker) call(h *timeline.HostCall, k *timeline.Task, e *timeline.Event) reach {
	if !x.whole {
		return nil
	}
	x.w.AddLanes(x.order)
	c := x.w.OrderCall(h, k)
	process := int(c.Process)
	if e.Part.Update {
		u := *c
		u.Captured, u.Lane, u.Task = false, x.w.LaneOf(e), int(h.Index)
		c = &u
	}
	if c.Task < 0 && h.Fn.Sync == api.NoSync && len(c.Made)+len(c.Ended) == 0 && !(c.Captured && h.Fn.Task == api.Record) {
		return nil
	}
	host := grow.At(&x.hosts, process)
	edges := x.order.Apply(c)
	if c.Task < 0 {
		for i := range edges {
			*host = host.join(edges[i].Before.Value)
			x.waited(h, edges[i].Before)
		}
		if s, ok := e.Signal(); ok && h.Fn.Sync != api.NoSync {
			*host = host.join(x.recorded(s))
		}
		return nil
	}
	l := grow.At(&x.lanes, c.Lane)
	l.idle, l.last = l.done == l.last, h.Index+1
	before := l.at.join(*host)
	for i := range edges {
		if after := edges[i].After; after.Task == c.Task {
			before = before.join(edges[i].Before.Value)
		} else if after.Lane >= 0 { // a wait that was there first
			w := grow.At(&x.lanes, after.Lane)
			w.at = w.at.join(edges[i].Before.Value).join(before)
			l = grow.At(&x.lanes, c.Lane)
		}
	}
	if s, ok := e.Signal(); ok && h.Fn.Task == api.Wait {
		before = before.join(x.recorded(s))
	}
	l.at = before
	if h.Fn.Task == api.HostFunc || x.w.Lanes[c.Lane].Synchronous {
		*host = host.join(l.at) // it may tell the host
	}
	x.order.Keep(l.at)
	return before
}

// recorded returns what the latest runs of the graphs that record a signal follow.
func (x *Checker) recorded(s timeline.Signal) (r reach) {
	for _, g := range x.graphs {
		for _, set := range g.sets {
			if set == s && g.last.at > 0 {
				r = r.join(x.lanes[g.last.lane].at)
			}
		}
	}
	return r
}

// place counts the current task on its lane, and returns its place.
func (x *Checker) place(h *timeline.HostCall, lane int) run {
	if !x.whole {
		return run{call: h.Index, fn: h.Name}
	}
	l := grow.At(&x.lanes, lane)
	if l.track == 0 && x.next < maxTracks {
		x.next++
		l.track = x.next
	}
	if l.track > 0 {
		l.n++
		l.at = l.at.with(l.track-1, l.n)
		x.order.Keep(l.at)
	}
	return run{h.Index, h.Name, lane, l.n}
}

// before reports whether a task may have ended before a point.
func (x *Checker) before(r *run, at reach) bool {
	if r.at == 0 { // its lane is not tracked, or the trace lacks calls
		return true
	}
	return at.at(x.lanes[r.lane].track-1) >= r.at
}

// ran follows a task that runs.
func (x *Checker) ran(h *timeline.HostCall, k *timeline.Task, e *timeline.Event, before reach) {
	work := grow.At(&x.work, int(e.Process))
	s, signals := e.Signal()
	switch {
	case k.Kind == api.GraphRun:
		if g := x.graphs[k.Object]; g != nil {
			x.run(h, k, e, g, before)
		}
		return
	case signals:
		if ext := x.signals[s]; ext != nil && e.Releases() {
			x.record(h, k, e, ext, before)
		} else if ext != nil && k.Kind == api.Wait {
			ext.needed++
		}
		return
	case k.Kind.Works():
		*work, grow.At(&x.lanes, k.Lane).work = h.Index+1, h.Index+1
	}
	x.wrote(h, k, e)
}

// run follows a run of a graph.
func (x *Checker) run(h *timeline.HostCall, k *timeline.Task, e *timeline.Event, g *graph, before reach) {
	x.inputs(h, k, e, g, before)
	x.stale(h, g)
	for _, t := range g.groups {
		if u := t.latest; u != nil && t.guard == nil && !x.before(&u.place, before) {
			x.late(g, t, u, h, e)
		}
		if t.guard == nil {
			t.latest = nil
		}
	}
	g.runs++
	g.last = x.place(h, k.Lane)
	x.launched(h, k.Lane, g)
	for _, w := range g.waits {
		s := w.on
		s.runs[s.needed%uint64(len(s.runs))] = g.last
		s.needed++
		s.latest, s.waiting, s.unreset = h.Index, g, s.unreset || !w.resets
	}
}

// late adds an update that a run may overtake.
func (x *Checker) late(g *graph, t *taskGroup, u *update, h *timeline.HostCall, e *timeline.Event) {
	x.find(LateUpdate, u.call, u.fn, func(f *Finding) {
		call := h.Index
		f.Graph, f.Object, f.Stream, f.Other, f.By, f.On = g.name, name(t.object), streamName(u.stream), &call, h.Name, streamName(e.Stream)
	})
}

// record follows a record of a signal that graphs wait for.
func (x *Checker) record(h *timeline.HostCall, k *timeline.Task, e *timeline.Event, s *external, before reach) {
	if s.needed > 0 && *grow.At(&x.work, int(e.Process)) <= max(s.latest, s.prev)+1 && grow.At(&x.lanes, k.Lane).work <= s.prev+1 {
		s.bare++
	}
	for _, t := range s.groups {
		if u := t.latest; u != nil && !x.before(&u.place, before) {
			x.late(t.graph, t, u, h, e)
		}
		t.latest = nil
	}
	s.prev, s.lane = h.Index, k.Lane
	if g := s.waiting; g != nil {
		g.pace.record = max(g.pace.record, h.Start)
	}
	s.records++
	if s.records > s.needed && s.records-s.needed > s.most {
		s.most, s.extra = s.records-s.needed, run{call: h.Index, fn: h.Name}
	}
}

// count compares records and waits at the end of the trace.
func (x *Checker) count(s *external) {
	g := s.waiting
	if !x.whole || g == nil || s.unreset {
		return
	}
	each := uint64(0)
	for _, w := range g.waits {
		if w.on == s {
			each++
		}
	}
	set := func(f *Finding) {
		f.Graph, f.Object, f.Have, f.Want = g.name, s.String(), s.records, s.needed
	}
	switch {
	case s.records < s.needed && (x.hung || s.needed-s.records > each): // otherwise the recording may have ended before the record
		x.find(MissingRecord, g.last.call, g.last.fn, set)
	case s.most > each:
		x.find(ExtraRecord, s.extra.call, s.extra.fn, set)
	}
}

// updated follows a task that updates another one.
func (x *Checker) updated(h *timeline.HostCall, e *timeline.Event, before reach) {
	*grow.At(&x.work, int(e.Process)) = h.Index + 1
	u := x.updates[e.Stream]
	if u == nil {
		return
	}
	if u.tasks++; u.of == nil || u.of.graph == nil || u.tasks > 1 {
		return
	}
	u.stream = e.Stream
	t := u.of
	if x.whole {
		u.place = x.place(h, x.w.LaneOf(e))
	}
	t.latest = u
	if r := x.precedes(t); r != nil && !x.before(r, before) {
		x.find(EarlyUpdate, u.call, u.fn, func(f *Finding) {
			f.Graph, f.Object, f.Stream, f.By = t.graph.name, name(t.object), name(e.Stream), r.fn
			call := r.call
			f.Other = &call
			f.On = streamName(x.w.Lanes[r.lane].Stream)
		})
	}
}

// precedes returns the run that has to end before an update of a group: the latest one for which another update was meant. nil for none.
func (x *Checker) precedes(t *taskGroup) *run {
	s := t.guard
	if s == nil {
		return &t.graph.last
	}
	n := uint64(len(s.runs))
	if s.most > 1 || s.records == 0 || s.needed < s.records || s.needed-s.records >= n-1 {
		return nil
	}
	return &s.runs[(s.records-1)%n]
}

// ended compares an update with its group at its end.
func (x *Checker) ended(u *update, e *timeline.Event) {
	if u.of == nil || u.refused || u.tasks == u.of.tasks && e.OK() {
		return
	}
	x.misfit(u, e)
}

// misfit adds an update that does not fit its group, or that failed.
func (x *Checker) misfit(u *update, e *timeline.Event) {
	x.find(MisfitUpdate, u.call, u.fn, func(f *Finding) {
		f.Object, f.Have, f.Want = name(u.of.object), u.tasks, u.of.tasks
		if u.of.graph != nil {
			f.Graph = u.of.graph.name
		}
		if e.Fn.Failed(e.Call.Ret) {
			f.Code = int64(int32(e.Call.Ret))
		}
	})
}

// failed follows a call that failed.
func (x *Checker) failed(h *timeline.HostCall, e *timeline.Event) {
	if u := x.updates[e.Stream]; u != nil && u.of != nil && !u.refused && h.Fn.Task != api.NoTask {
		u.tasks++
		u.refused = true
		x.misfit(u, e)
	}
	if len(x.captures) > 0 {
		x.refused(h, e)
	}
}
