package access

import (
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// laneKey identifies a lane in an order.
type laneKey struct {
	timeline.LaneKey
	thread uint32 // for a synchronous lane
	lost   bool   // calls that are not in the trace
}

// lostKey is the lane for lost calls.
var lostKey = laneKey{LaneKey: timeline.LaneKey{Device: timeline.NoDevice}, lost: true}

// An order determines which tasks in a process certainly end before others begin: by their stream, by events that streams wait for, and by
// synchronizations on the host. Tasks whose calls overlap on several threads have no order.
type order struct {
	index   map[laneKey]int
	lanes   []orderLane
	done    clock // tasks that the host has seen complete
	pending []completion
	events  map[*timeline.Object]recorded
}

// A clock counts, for each lane, the tasks that precede. A clock in use is never changed.
type clock []uint64

func (c clock) at(lane int) uint64 {
	if lane < len(c) {
		return c[lane]
	}
	return 0
}

// join returns the maximum of two clocks.
func (c clock) join(o clock) clock {
	var out clock
	for i, v := range o {
		if v <= c.at(i) {
			continue
		}
		if out == nil {
			out = make(clock, max(len(c), len(o)))
			copy(out, c)
		}
		out[i] = v
	}
	if out == nil {
		return c
	}
	return out
}

func (c clock) with(lane int, n uint64) clock {
	if n <= c.at(lane) {
		return c
	}
	out := make(clock, max(len(c), lane+1))
	copy(out, c)
	out[lane] = n
	return out
}

type orderLane struct {
	key    laneKey
	n      uint64 // tasks, counted from 1
	before clock  // tasks that precede its next task
	recent []issue
}

// An issue is a task whose call may overlap other calls.
type issue struct {
	n      uint64
	thread uint32
	end    int64
}

// A completion is a synchronization that returns at a time, and the tasks that it has waited for.
type completion struct {
	at     int64
	before clock
}

// recorded is the latest record of an event.
type recorded struct {
	before clock
	thread uint32
	end    int64
}

// A stamp is a task's place in the order.
type stamp struct {
	lane   int
	n      uint64
	thread uint32
	own    uint64 // tasks on its lane that certainly precede it
	before clock
}

// precedes reports whether a certainly ends before b begins.
func (a *stamp) precedes(b *stamp) bool {
	if a.lane == b.lane && (a.n <= b.own || a.thread == b.thread && a.n < b.n) {
		return true
	}
	return a.n <= b.before.at(a.lane)
}

func newOrder() *order {
	return &order{index: map[laneKey]int{}, events: map[*timeline.Object]recorded{}}
}

// advance takes in the synchronizations that have returned by a time.
func (o *order) advance(now int64) {
	n := 0
	for _, p := range o.pending {
		if p.at <= now {
			o.done = o.done.join(p.before)
		} else {
			o.pending[n] = p
			n++
		}
	}
	o.pending = o.pending[:n]
}

func (o *order) lane(k laneKey) int {
	i, ok := o.index[k]
	if !ok {
		i = len(o.lanes)
		o.index[k] = i
		o.lanes = append(o.lanes, orderLane{key: k})
	}
	return i
}

// certain returns how many tasks on the lane were certainly issued before the call.
func (l *orderLane) certain(c *format.Call) uint64 {
	n := l.n
	for _, r := range l.recent {
		if r.end > c.Start && r.thread != c.Thread {
			n = min(n, r.n-1)
		}
	}
	return n
}

// task puts a task on the lane.
func (o *order) task(lane int, c *format.Call) stamp {
	l := &o.lanes[lane]
	l.before = l.before.join(o.done)
	t := stamp{lane: lane, thread: c.Thread, own: l.certain(c), before: l.before}
	l.recent = slices.DeleteFunc(l.recent, func(r issue) bool { return r.end <= c.Start })
	l.n++
	t.n = l.n
	end := c.End
	if c.Flags&format.Unfinished != 0 {
		end = math.MaxInt64
	}
	l.recent = append(l.recent, issue{l.n, c.Thread, end})
	if l.key.Synchronous && end != math.MaxInt64 {
		o.pending = append(o.pending, completion{end, clock{}.with(lane, t.n)})
	}
	return t
}

// over records that all tasks so far on some lanes have ended when the call returns, and the tasks that those have waited for.
func (o *order) over(c *format.Call, lanes ...int) {
	b := make(clock, len(o.lanes))
	for _, i := range lanes {
		l := &o.lanes[i]
		n := l.certain(c)
		b[i] = max(b[i], n)
		if n < l.n {
			continue // overlapping calls may have made the waits
		}
		for k, v := range l.before {
			b[k] = max(b[k], v)
		}
	}
	o.pending = append(o.pending, completion{c.End, b})
}

// event returns the tasks that precede the latest record of an event, false if that is not certain.
func (o *order) event(e *timeline.Event) (clock, bool) {
	u, ok := e.Use(int(e.Fn.Event))
	if !ok {
		return nil, false
	}
	r, ok := o.events[u.Object]
	return r.before, ok && (r.end <= e.Call.Start || r.thread == e.Call.Thread)
}

// link records the order that an event makes, by the task that records, awaits or resets it.
func (o *order) link(e *timeline.Event, t *stamp) {
	f := e.Fn
	if f.Event < 0 {
		return
	}
	switch f.Task {
	case api.Record:
		if u, ok := e.Use(int(f.Event)); ok {
			o.events[u.Object] = recorded{t.before.with(t.lane, t.own), e.Call.Thread, e.Call.End}
		}
	case api.Wait:
		if b, ok := o.event(e); ok {
			l := &o.lanes[t.lane]
			l.before = l.before.join(b)
		}
	case api.Reset:
		if u, ok := e.Use(int(f.Event)); ok {
			delete(o.events, u.Object)
		}
	}
}
