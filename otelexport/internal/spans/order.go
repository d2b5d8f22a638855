package spans

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/order"
)

// A placed is a task and its lane up to it, as the order keeps it.
type placed struct {
	earliest int64 // no earlier can all tasks on the lane have ended
	last     work  // latest kernel, copy or other work
	waited   *work // of a wait; a notify may be recorded later
}

// work is a task for which something may wait.
type work struct {
	what     *subject // nil for none
	call     uint64
	done     int64 // earliest end, exact if the task was measured
	measured bool
}

// Facts are facts about a call that depend on earlier calls. The call's Unit may lack these.
type Facts struct {
	what     *subject
	waited   *work  // work for which the call, or its task, waits; may be none, until the notify is recorded
	from     int64  // no earlier can the task have begun
	earliest int64  // no earlier can the task have ended
	stack    []byte // attribute, nil if unknown
	links    []order.Link
}

// Observe returns the facts about the next call. Pass all calls of a recording in order.
func (x *Encoder) Observe(c *timeline.HostCall, t *timeline.Task) Facts {
	f := Facts{what: x.out.names.subject(c, t, x.rows.lanes), stack: x.src.stacks.of(x.rows.threads[x.rows.thread(c.Thread)].process, c.Raw)}
	if x.order == nil {
		x.order = order.New[*timeline.Object, placed]()
	}
	x.src.w.AddLanes(x.order)
	edges := x.order.Apply(x.src.w.OrderCall(c, t))
	f.links = order.Links(edges)
	if t != nil {
		x.order.Keep(f.task(t, edges))
	} else if c.Fn != nil && c.Fn.Sync != api.NoSync {
		f.waited = waited(c, edges)
	}
	return f
}

// task sets the facts about a task.
func (f *Facts) task(t *timeline.Task, edges []order.Edge[placed]) placed {
	var l placed
	for i := range edges {
		if e := &edges[i]; e.Why == order.SameLane {
			l = e.Before.Value
		}
	}
	l.waited = nil
	f.from = t.Issued
	f.earliest = max(t.Issued, l.earliest)
	if t.Kind == api.Wait && t.Object != nil {
		f.from = f.earliest
		f.waited = &work{}
		l.waited = f.waited
	}
	for i := range edges {
		switch e := &edges[i]; {
		case e.Why != order.Event && e.Why != order.Notify:
		case e.After.Call == t.Call:
			*f.waited, f.earliest = e.Before.Value.last, max(f.earliest, e.Before.Value.earliest)
		case e.After.Value.waited != nil:
			*e.After.Value.waited = l.last
		}
	}
	if t.Measured {
		f.from, f.earliest = t.From, t.To
	}
	l.earliest = max(l.earliest, f.earliest)
	switch t.Kind {
	case api.Record, api.Wait, api.Reset:
	default:
		l.last = work{f.what, t.Call, f.earliest, t.Measured}
	}
	return l
}

// waited returns the work for which a synchronization waits: the latest on the lane, before the event's record, or on the
// device. It is none for polls that return "not complete", and if the work had ended before the call.
func waited(c *timeline.HostCall, edges []order.Edge[placed]) *work {
	w := &work{}
	for i := range edges {
		if last := &edges[i].Before.Value.last; last.what != nil && (w.what == nil || last.done > w.done) {
			*w = *last
		}
	}
	if w.measured && w.done <= c.Start {
		return &work{}
	}
	return w
}
