package spans

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/grow"
	"github.com/acltrace/acltrace/timeline"
)

// streamOrder follows the tasks of each lane in call order. It finds facts about a call that depend on earlier calls.
type streamOrder struct {
	lanes   []laneOrder
	records map[int]laneOrder // by event or notify: its lane when it was recorded last
	early   map[int]*work     // by notify: the wait that came before its record, which the record completes
}

// A laneOrder describes a lane after its latest task.
type laneOrder struct {
	earliest int64 // no earlier can all its tasks have ended
	last     work  // latest kernel, copy or other work
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
}

// maxEvents bounds streamOrder.records and streamOrder.early. A larger map is cleared.
const maxEvents = 1 << 16

// Observe returns the facts about the next call. Pass all calls of a recording in order.
func (x *Encoder) Observe(c *timeline.HostCall, t *timeline.Task) Facts {
	f := Facts{what: x.out.names.subject(c, t, x.rows.lanes), stack: x.src.stacks.of(x.rows.threads[x.rows.thread(c.Thread)].process, c.Raw)}
	o := &x.order
	if t != nil {
		o.task(&f, t)
	} else if c.Fn != nil && c.Fn.Sync != api.NoSync {
		w := x.waited(c)
		f.waited = &w
	}
	return f
}

func (o *streamOrder) task(f *Facts, t *timeline.Task) {
	l := grow.At(&o.lanes, t.Lane)
	f.from = t.Issued
	f.earliest = max(t.Issued, l.earliest)
	if t.Kind == api.Wait && t.Object != nil {
		f.from = f.earliest
		f.waited = &work{}
		r, ok := o.records[t.Object.ID]
		if ok {
			*f.waited, f.earliest = r.last, max(f.earliest, r.earliest)
		}
		if t.Object.Kind == api.Notify { // which the wait has reset: the next one is for a later record
			delete(o.records, t.Object.ID)
			if !ok {
				o.early = with(o.early, t.Object.ID, f.waited)
			}
		}
	}
	if t.Measured {
		f.from, f.earliest = t.From, t.To
	}
	l.earliest = max(l.earliest, f.earliest)
	switch t.Kind {
	case api.Record:
		if t.Object == nil {
			break
		}
		if w := o.early[t.Object.ID]; w != nil {
			*w = l.last
			delete(o.early, t.Object.ID)
			break
		}
		o.records = with(o.records, t.Object.ID, *l)
	case api.Wait, api.Reset:
	default:
		l.last = work{f.what, t.Call, f.earliest, t.Measured}
	}
}

// with adds an entry to a bounded map.
func with[T any](m map[int]T, id int, v T) map[int]T {
	if m == nil || len(m) >= maxEvents {
		m = map[int]T{}
	}
	m[id] = v
	return m
}

// waited returns the work for which a synchronization waits: the latest on the lane, before the event's record, or on the
// device. It is none for polls that return "not complete", and if the work had ended before the call.
func (x *Encoder) waited(c *timeline.HostCall) (w work) {
	o := &x.order
	switch c.Fn.Sync {
	case api.SyncDevice:
		process := x.rows.threads[x.rows.thread(c.Thread)].process
		for i := range o.lanes {
			if l := &x.rows.lanes[i]; l.process != process || l.device != int(c.Waits) && l.device >= 0 && c.Waits >= 0 {
				continue
			}
			if last := o.lanes[i].last; last.what != nil && (w.what == nil || last.done > w.done) {
				w = last
			}
		}
	case api.SyncStream, api.PollStream:
		if c.Waits >= 0 && int(c.Waits) < len(o.lanes) {
			w = o.lanes[c.Waits].last
		}
	default:
		w = o.records[int(c.Waits)].last
	}
	poll := c.Fn.Sync == api.PollStream || c.Fn.Sync == api.PollEvent
	if poll && !c.Complete || w.measured && w.done <= c.Start {
		return work{}
	}
	return w
}
