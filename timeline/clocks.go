package timeline

import (
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// An order knows, for one process, what device work is certain to come after what other: by the order of a stream, by
// events that streams wait for, and by what the host has seen complete before it went on. What calls of several threads
// do at the same time is in no order.
type order struct {
	index   map[laneKey]int
	lanes   []orderLane
	done    clock // what the host has seen complete
	pending []completion
	events  map[*Object]recorded
}

// A clock holds, by lane, how many of its tasks come before. It is never changed once it is in use.
type clock []uint64

func (c clock) at(lane int) uint64 {
	if lane < len(c) {
		return c[lane]
	}
	return 0
}

// join returns what either of the clocks has.
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
	n      uint64 // tasks; the first one has the number 1
	before clock  // of its next task
	recent []issue
}

// An issue is a task whose call may overlap others.
type issue struct {
	n      uint64
	thread uint32
	end    int64
}

type completion struct {
	at     int64
	before clock
}

type recorded struct {
	before clock
	thread uint32
	end    int64
}

// A stamp is the place of a task in the order.
type stamp struct {
	lane   int
	n      uint64
	thread uint32
	own    uint64 // tasks of its own lane that are certain to come before it
	before clock
}

// precedes reports whether a is certain to be over before b begins.
func (a *stamp) precedes(b *stamp) bool {
	if a.lane == b.lane && (a.n <= b.own || a.thread == b.thread && a.n < b.n) {
		return true
	}
	return a.n <= b.before.at(a.lane)
}

func newOrder() *order { return &order{index: map[laneKey]int{}, events: map[*Object]recorded{}} }

// advance takes in what synchronizations have shown that returned by the time.
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

// certain returns how many tasks of the lane are certain to have been issued before the call.
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
	if l.key.synchronous && end != math.MaxInt64 {
		o.pending = append(o.pending, completion{end, clock{}.with(lane, t.n)})
	}
	return t
}

// over notes that the tasks so far of the lanes are over when the call returns, and with them what they have waited for.
func (o *order) over(c *format.Call, lanes ...int) {
	b := make(clock, len(o.lanes))
	for _, i := range lanes {
		l := &o.lanes[i]
		n := l.certain(c)
		b[i] = max(b[i], n)
		if n < l.n {
			continue // what was waited for may belong to the calls that overlap
		}
		for k, v := range l.before {
			b[k] = max(b[k], v)
		}
	}
	o.pending = append(o.pending, completion{c.End, b})
}

// event returns what comes before the latest record of an event, where that is certain.
func (o *order) event(e *Event) (clock, bool) {
	u, ok := e.Use(int(e.Fn.Event))
	if !ok {
		return nil, false
	}
	r, ok := o.events[u.Object]
	return r.before, ok && (r.end <= e.Call.Start || r.thread == e.Call.Thread)
}

// link follows events: what comes before a task that waits.
func (o *order) link(e *Event, t *stamp) {
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
