package lab

import (
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline/order"
)

// adds reports whether o has tasks that precede neither c nor the host, which has waited for those done, by lane.
func adds(c, o order.Clock, done []int) bool {
	for lane, n := range o.All() {
		if n > uint64(done[lane]) && c.At(lane) < n {
			return true
		}
	}
	return false
}

// A stepOrder is the order of the tasks of a survey's steps. A value is the tasks that may precede a task, and the task.
type stepOrder struct {
	v *survey
	*order.Order[int, order.Clock]
	tasks int // so far
	call  order.Call[int]
}

func newStepOrder(v *survey) stepOrder {
	return stepOrder{v: v, Order: order.New[int, order.Clock]()}
}

// apply takes in a step that has a lane. wrote is the root of memory that it writes and that streams wait for, 0 for none.
func (o *stepOrder) apply(s *step, wrote int) []order.Edge[order.Clock] {
	for n := o.Lanes(); n < len(o.v.lane); n++ {
		o.Lane(o.v.lane[n].order)
	}
	c := &o.call
	*c = order.Call[int]{Fn: s.fn, Index: s.index, Thread: s.thread, Process: s.process, Start: s.start, End: s.end, Complete: s.is&stepWaits != 0, Lane: s.lane, Task: -1, Device: o.v.lane[s.lane].device}
	if s.fn.Task != api.NoTask {
		o.tasks++
		c.Task = o.tasks
	}
	switch {
	case s.event != 0:
		if c.Key, c.Kind = s.event, api.Event; s.is&stepSignals != 0 {
			c.Kind = api.Notify
		}
	case s.is&stepSignals != 0:
		c.Word = order.Word{Addr: uint64(s.flag.root), Value: s.flag.value}
	case wrote != 0:
		c.Word = order.Word{Addr: uint64(wrote), Value: math.MaxUint64} // of any value
	}
	return o.Apply(c)
}

// An ordering follows the order between a closure's tasks through the journal.
type ordering struct {
	stepOrder
	x       *closure
	kept    []int         // the closure's tasks, by lane
	lanes   []order.Clock // of them, those that precede the next task
	done    []int         // tasks that the host has waited for, by lane
	unknown map[int]bool  // lanes that have waited for a signal
	pending []completion
}

// A completion is a synchronization that returns at a time.
type completion struct {
	at     int64
	before order.Clock
}

// forward marks the waits and synchronizations that order the closure's tasks.
func (x *closure) forward() error {
	n := len(x.v.lane)
	o := &ordering{stepOrder: newStepOrder(x.v), x: x, kept: make([]int, n), lanes: make([]order.Clock, n), done: make([]int, n), unknown: map[int]bool{}}
	for s, err := range x.v.j.forward(o.skips) {
		if err != nil {
			return err
		}
		if s.start > x.end {
			break
		}
		o.advance(s.start)
		if s.graph == 0 {
			o.step(s)
		}
	}
	return nil
}

// skips reports whether no step in a slab orders the closure's tasks: the host has waited for all so far.
func (o *ordering) skips(d *digest) bool {
	if d.special || o.x.keep.any(d.low, d.high) || len(o.unknown) > 0 || len(o.pending) > 0 {
		return false
	}
	for lane, n := range o.kept {
		if n > o.done[lane] {
			return false
		}
	}
	return true
}

// advance takes in the synchronizations that have returned by a time.
func (o *ordering) advance(now int64) {
	o.pending = slices.DeleteFunc(o.pending, func(p completion) bool {
		if p.at > now {
			return false
		}
		for lane, n := range p.before.All() {
			o.done[lane] = max(o.done[lane], int(n))
		}
		return true
	})
}

func (o *ordering) mark(s *step) {
	if o.x.ordered.set(s.index) {
		o.x.changed = true
	}
}

func (o *ordering) step(s *step) {
	switch {
	case s.lane == 0:
	case s.is&stepWaits != 0:
		o.wait(s)
	case s.is&stepOK == 0:
		if before := o.process(s.process); adds(nil, before, o.done) {
			o.mark(s) // it may have reported, and so ended, an error of an earlier task
		}
	default:
		o.task(s)
	}
}

// task takes in a task.
func (o *ordering) task(s *step) {
	f, wrote := s.fn, 0
	for i := range s.areas {
		if root := s.areas[i].root; o.x.pinned[root] && f.Task != api.Wait {
			wrote = root
		}
	}
	edges := o.apply(s, wrote)
	signals := f.Task == api.Wait && s.is&stepSignals != 0
	if signals {
		o.unknown[s.lane] = true
	}
	on := &o.lanes[s.lane]
	for _, e := range edges {
		if e.Why == order.SameLane || e.After.Call != s.index {
			continue
		}
		if f.Task == api.Wait && !signals && adds(*on, e.Before.Value, o.done) {
			o.mark(s)
		}
		*on = on.Join(e.Before.Value)
	}
	if o.x.keep.has(s.index) && f.Task != api.Wait && f.Task != api.Record && !o.x.v.lane[s.lane].order.Synchronous {
		o.kept[s.lane]++
		*on = on.With(int32(s.lane), uint64(o.kept[s.lane]))
	}
	o.Keep(*on)
	for _, e := range edges {
		if e.After.Call != s.index { // a wait that was there first
			o.lanes[e.After.Lane] = o.lanes[e.After.Lane].Join(*on)
		}
	}
}

// wait takes in a synchronization.
func (o *ordering) wait(s *step) {
	var before order.Clock
	unknown := false
	for _, e := range o.apply(s, 0) {
		if e.Why == order.EventWait {
			before = before.Join(e.Before.Value)
			continue
		}
		lane := e.Before.Lane
		before = before.Join(o.lanes[lane])
		unknown = unknown || o.unknown[lane]
		delete(o.unknown, lane)
	}
	if unknown || adds(nil, before, o.done) {
		o.mark(s)
		o.pending = append(o.pending, completion{s.end, before})
	}
}

// process returns the tasks on all lanes in a process.
func (o *ordering) process(p uint32) (c order.Clock) {
	for n, l := range o.x.v.lane {
		if l.order.Process == p {
			c = c.Join(o.lanes[n])
		}
	}
	return c
}

// spans are offset ranges, sorted and without overlaps.
type spans struct{ list []span }

type span struct{ lo, hi uint64 }

func (p *spans) overlaps(lo, hi uint64) bool {
	return p != nil && slices.ContainsFunc(p.list, func(s span) bool { return s.lo < hi && lo < s.hi })
}

// remove removes a range.
func (p *spans) remove(lo, hi uint64) {
	var out []span
	for _, s := range p.list {
		if s.lo < lo {
			out = append(out, span{s.lo, min(s.hi, lo)})
		}
		if s.hi > hi {
			out = append(out, span{max(s.lo, hi), s.hi})
		}
	}
	p.list = out
}

// add adds a range. Many ranges become one that contains them.
func (p *spans) add(lo, hi uint64) {
	const most = 64
	var out []span
	for _, s := range p.list {
		if s.hi < lo || s.lo > hi {
			out = append(out, s)
		} else {
			lo, hi = min(lo, s.lo), max(hi, s.hi)
		}
	}
	out = append(out, span{lo, hi})
	slices.SortFunc(out, func(a, b span) int {
		if a.lo < b.lo {
			return -1
		}
		return 1
	})
	if len(out) > most {
		out = []span{{out[0].lo, out[len(out)-1].hi}}
	}
	p.list = out
}
