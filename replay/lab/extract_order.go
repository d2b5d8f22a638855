package lab

import (
	"slices"

	"github.com/acltrace/acltrace/api"
)

// A clock has the number of the closure's tasks that certainly precede, by lane. Lanes ascend. It is not changed.
type clock []tick

type tick struct{ lane, tasks int }

// join returns the maximum of two clocks, without the tasks that the host has waited for.
func (c clock) join(o clock, done []int) clock {
	if len(o) == 0 {
		return c
	}
	out := make(clock, 0, len(c)+len(o))
	put := func(t tick) {
		if t.tasks > done[t.lane] {
			out = append(out, t)
		}
	}
	for len(c) > 0 || len(o) > 0 {
		switch {
		case len(o) == 0 || len(c) > 0 && c[0].lane < o[0].lane:
			put(c[0])
			c = c[1:]
		case len(c) == 0 || o[0].lane < c[0].lane:
			put(o[0])
			o = o[1:]
		default:
			put(tick{c[0].lane, max(c[0].tasks, o[0].tasks)})
			c, o = c[1:], o[1:]
		}
	}
	return out
}

// adds reports whether o has tasks that precede neither c nor the host.
func (c clock) adds(o clock, done []int) bool {
	for _, t := range o {
		if t.tasks <= done[t.lane] {
			continue
		}
		i, ok := slices.BinarySearchFunc(c, t.lane, func(t tick, lane int) int { return t.lane - lane })
		if !ok || c[i].tasks < t.tasks {
			return true
		}
	}
	return false
}

// An ordering follows the order between a closure's tasks through the journal.
type ordering struct {
	x       *closure
	tasks   []int   // of the closure, by lane
	lanes   []clock // that precede the next task
	done    []int   // tasks that the host has waited for, by lane
	events  map[int]clock
	flags   map[int]clock // writes to memory that streams wait for, by root
	unknown map[int]bool  // lanes that have waited for a signal
	pending []completion
}

// A completion is a synchronization that returns at a time.
type completion struct {
	at     int64
	before clock
}

// forward marks the waits and synchronizations that order the closure's tasks.
func (x *closure) forward() error {
	o := &ordering{x: x, tasks: make([]int, len(x.v.lane)), lanes: make([]clock, len(x.v.lane)), done: make([]int, len(x.v.lane)), events: map[int]clock{}, flags: map[int]clock{}, unknown: map[int]bool{}}
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
	for lane, n := range o.tasks {
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
		for _, t := range p.before {
			o.done[t.lane] = max(o.done[t.lane], t.tasks)
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
	if s.lane == 0 {
		return
	}
	f, info := s.fn, o.x.v.lane[s.lane]
	switch {
	case s.is&stepWaits != 0:
		o.wait(s)
		return
	case s.is&stepOK == 0:
		if before := o.process(s.process); clock(nil).adds(before, o.done) {
			o.mark(s) // it may have reported, and so ended, an error of an earlier task
		}
		return
	}
	switch {
	case f.Task == api.Record && s.is&stepSignals != 0:
		o.events[s.event] = o.events[s.event].join(o.lanes[s.lane], o.done)
	case f.Task == api.Record:
		o.events[s.event] = o.lanes[s.lane]
	case s.is&stepSignals != 0:
		o.unknown[s.lane] = true
		o.after(s.lane, o.flags[s.flag.root])
		o.after(s.lane, o.events[s.event])
	case f.Task == api.Wait:
		if e := o.events[s.event]; o.lanes[s.lane].adds(e, o.done) {
			o.mark(s)
			o.after(s.lane, e)
		}
	}
	if o.x.keep.has(s.index) && f.Task != api.Wait && f.Task != api.Record && !info.synchronous {
		o.tasks[s.lane]++
		o.after(s.lane, clock{{s.lane, o.tasks[s.lane]}})
	}
	for i := range s.areas {
		if root := s.areas[i].root; o.x.pinned[root] && f.Task != api.Wait {
			o.flags[root] = o.flags[root].join(o.lanes[s.lane], o.done)
		}
	}
}

// after makes tasks precede the next task on a lane.
func (o *ordering) after(lane int, before clock) {
	o.lanes[lane] = o.lanes[lane].join(before, o.done)
}

// wait takes in a synchronization.
func (o *ordering) wait(s *step) {
	var before clock
	unknown := false
	take := func(lane int) {
		before = before.join(o.lanes[lane], o.done)
		unknown = unknown || o.unknown[lane]
		delete(o.unknown, lane)
	}
	switch s.fn.Sync {
	case api.SyncEvent, api.PollEvent:
		before = o.events[s.event]
	case api.SyncDevice:
		device := o.x.v.lane[s.lane].device
		for n, l := range o.x.v.lane {
			if l.process == s.process && l.device == device && !l.synchronous {
				take(n)
			}
		}
	default:
		take(s.lane)
	}
	if unknown || clock(nil).adds(before, o.done) {
		o.mark(s)
		o.pending = append(o.pending, completion{s.end, before})
	}
}

// process returns the tasks on all lanes in a process.
func (o *ordering) process(p uint32) (c clock) {
	for n, l := range o.x.v.lane {
		if l.process == p {
			c = c.join(o.lanes[n], o.done)
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
