package path

import (
	"cmp"
	"math"
	"slices"

	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/order"
)

// maxSavings is the number of entries of a path whose savings are computed, if they take a part of the step of leastSaving or more. For the others the time
// of their parts is the bound.
const (
	maxSavings  = 6
	leastSaving = 0.01
)

// A saving is the time by which a step would have been shorter if an entry of its path had taken no time.
type saving struct {
	of       part // the first part of the entry
	count    int  // number of parts
	ns, took int64
}

// A saver computes savings. It goes forward through the calls and tasks of a step, and keeps by how much each would have ended earlier. A call or task
// begins when the last of its predecessors has ended, and after that as much later as it did in the trace. Predecessors are those of a search. What began
// before the step is not earlier.
type saver struct {
	*Finder
	step    part // its times
	points  []point
	hosts   []host   // by thread
	worked  []worked // by end
	issued  []int64  // by position of a task: by how much its launch was earlier
	ended   []int64  // by position of a task: by how much it ended earlier
	without part     // the work that takes no time
	free    []bool   // by lane: it has that work, or waits for it, and its tasks have no times
	awaits  []target
	feeds   map[feeding]bool
}

// feeding is a thread that another one has waited for.
type feeding struct{ feeder, waits int32 }

// A point is a moment at which a call or task begins or ends.
type point struct {
	at     int64
	kind   pointKind
	thread int32
	n      int32 // index of the call, or position of the task
	feeder int32 // of a thread that goes on
	order  int64 // among points at the same moment
}

type pointKind uint8

const (
	taskEnds pointKind = iota
	callEnds
	callBegins
	taskIssued
	goesOn // a thread runs again, after which it makes the call
)

// class is the order of points at the same moment.
func (k pointKind) class() pointKind {
	if k == goesOn {
		k = callBegins
	}
	return min(k, callEnds) + max(k, callBegins)
}

// host is the state of a thread.
type host struct {
	earlier int64 // by how much the moment came earlier
	last    int64 // the latest point
	in      int32 // current call, -1 for none
	next    int32 // next call
}

// A worked is a call that launches, copies or waits, and by how much it ended earlier.
type worked struct {
	from, to, earlier int64
	thread            int
}

// save computes the savings of the longest entries of the current path.
func (f *Finder) save() {
	f.path.savings = f.path.savings[:0]
	if !f.saves {
		return
	}
	p, s := &f.path, &f.sums
	s.reset()
	s.path(p)
	x := &f.saver
	x.Finder, x.step = f, part{from: p.Step.From, to: p.Step.To, where: int32(p.Step.Thread)}
	x.order()
	for _, e := range s.ordered(maxSavings) {
		if e.part.kind != starting && float64(e.ns) >= leastSaving*float64(x.step.to-x.step.from) {
			x.without = e.part
			x.reach()
			ns := x.run()
			if e.part.kind != waiting { // other streams may wait for this one too
				ns = min(ns, e.ns)
			}
			p.savings = append(p.savings, saving{e.part, e.count, ns, e.ns})
		}
	}
}

// reach determines the lanes that wait for work of unknown times, if that takes no time.
func (x *saver) reach() {
	x.free = slices.Grow(x.free[:0], len(x.lanes))[:len(x.lanes)]
	clear(x.free)
	if x.without.kind != waiting {
		return
	}
	if x.without.where >= 0 {
		x.free[x.without.where] = true
	}
	at := func(index int) bool {
		i := x.find(index)
		return i >= 0 && (x.without.where < 0 || x.free[x.tasks[i].lane])
	}
	for again := true; again; {
		again = false
		for i := range x.tasks {
			if t := &x.tasks[i]; t.linked && !x.free[t.lane] && slices.ContainsFunc(x.follows[t.index], func(l order.Link) bool { return at(l.Before) }) {
				x.free[t.lane], again = true, true
			}
		}
	}
}

// order lists the points of the step. At one moment tasks end before calls do, and calls of a thread are in their order.
func (x *saver) order() {
	x.points = x.points[:0]
	clear(x.feeds)
	for i := range x.threads {
		calls := x.threads[i].calls
		open := int32(-1) // innermost call
		until := func(at int64) {
			for ; open >= 0 && calls[open].end <= at; open = calls[open].outer {
				x.point(calls[open].end, callEnds, int32(i), open)
			}
		}
		for k := range calls {
			until(calls[k].start)
			if open < 0 && calls[k].blocked > 0 {
				since := max(x.step.from, calls[k].recorded, calls[k].slept)
				if k > 0 {
					since = max(since, calls[k-1].end)
				}
				x.goesOn(i, k, since, min(calls[k].blocked, calls[k].start))
			}
			x.point(calls[k].start, callBegins, int32(i), int32(k))
			open = int32(k)
			x.resolve(&calls[k])
		}
		until(math.MaxInt64)
	}
	x.turns()
	for i := range x.tasks {
		if t := &x.tasks[i]; t.state == known {
			x.predecessors(i, t.from, func(int, int64, order.Why) {}, nil)
		}
	}
	for i := range x.tasks {
		t := &x.tasks[i]
		x.point(t.issued, taskIssued, int32(t.thread), int32(i))
		if end, ok := x.end(i, math.MaxInt64); ok && end > t.issued {
			x.point(end, taskEnds, int32(t.thread), int32(i))
		}
	}
	for i := range x.points {
		x.points[i].order = int64(x.points[i].kind.class())<<32 | int64(i)
	}
	slices.SortFunc(x.points, func(a, b point) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		return cmp.Compare(a.order, b.order)
	})
}

// goesOn adds the moment at which a thread runs again after it has waited for its feeder since another moment, if it has one.
func (x *saver) goesOn(on, n int, since, at int64) {
	feeder := x.feeder(on, since, at)
	if feeder < 0 || at > x.step.to {
		return
	}
	x.point(at, goesOn, int32(on), int32(n))
	x.points[len(x.points)-1].feeder = int32(feeder)
	if x.feeds == nil {
		x.feeds = map[feeding]bool{}
	}
	x.feeds[feeding{int32(feeder), int32(on)}] = true
}

// turns adds the moments from which threads prepare operators after other threads, if their calls do not show when they ran.
func (x *saver) turns() {
	if !x.hands.some {
		return
	}
	last := -1
	for i := range x.hands.all {
		h := &x.hands.all[i]
		if h.by < 0 || h.by == h.queue {
			continue
		}
		if last >= 0 && x.hands.all[last].by != h.by {
			before, th := &x.hands.all[last], &x.threads[h.by]
			next, _ := slices.BinarySearchFunc(th.calls, before.at, func(c call, at int64) int { return cmp.Compare(c.start, at) })
			if th.unknown(next) && before.at > x.step.from && before.at <= x.step.to {
				x.points = append(x.points, point{at: before.at, kind: goesOn, thread: h.by, n: int32(next), feeder: before.by})
			}
		}
		last = i
	}
}

// resolve determines the ends of the tasks that a call waits for, if these follow from other tasks.
func (x *saver) resolve(c *call) {
	if c.wait >= 0 {
		for _, index := range x.targets[x.waits[c.wait].from:x.waits[c.wait].to] {
			if i := x.find(index); i >= 0 {
				x.end(i, c.end)
			}
		}
	}
}

// point adds a point within the step.
func (x *saver) point(at int64, kind pointKind, thread, n int32) {
	if at > x.step.from && at <= x.step.to || at == x.step.from && kind >= callBegins {
		x.points = append(x.points, point{at: at, kind: kind, thread: thread, n: n})
	}
}

// run goes through the step and returns by how much it would have ended earlier.
func (x *saver) run() int64 {
	x.hosts = slices.Grow(x.hosts[:0], len(x.threads))[:len(x.threads)]
	for i := range x.hosts {
		x.hosts[i] = host{last: x.step.from, in: -1}
		for k := range x.threads[i].calls { // those that began before the step
			c := &x.threads[i].calls[k]
			if c.start >= x.step.from {
				break
			}
			if x.hosts[i].next = int32(k + 1); c.end > x.step.from {
				x.hosts[i].in = int32(k)
			}
		}
	}
	x.worked = x.worked[:0]
	x.issued = zeros(x.issued, len(x.tasks))
	x.ended = zeros(x.ended, len(x.tasks))
	for i := range x.points {
		switch p := &x.points[i]; p.kind {
		case taskEnds:
			x.task(int(p.n))
		case taskIssued:
			x.issued[p.n] = x.hosts[p.thread].earlier
			if t := &x.tasks[p.n]; t.state == known && t.to <= t.issued {
				x.task(int(p.n))
			}
		case goesOn:
			x.fed(int(p.thread), int(p.feeder), p.at, x.threads[p.thread].next(p.n))
		case callBegins:
			h := &x.hosts[p.thread]
			x.between(int(p.thread), p.at, &x.threads[p.thread].calls[p.n])
			h.in, h.last, h.next = p.n, p.at, p.n+1
		case callEnds:
			x.called(int(p.thread), p.n)
		}
	}
	on := int(x.step.where)
	x.between(on, x.step.to, &call{})
	return x.hosts[on].earlier
}

func zeros(s []int64, n int) []int64 {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// between moves a thread to a moment at which no call ends. Between two calls it may have waited for a call of another thread.
func (x *saver) between(on int, at int64, next *call) {
	h := &x.hosts[on]
	if h.in >= 0 {
		x.host(h, inCall, x.threads[on].calls[h.in].label, on, at-h.last)
		return
	}
	last := h.last
	for i := len(x.worked) - 1; i >= 0 && x.worked[i].to > h.last; i-- {
		o := &x.worked[i]
		if divided := next.blocked > 0 || x.feeds[feeding{int32(on), int32(o.thread)}]; o.thread != on && o.from >= h.last && (!divided || o.to <= next.blocked) {
			h.earlier, last = min(h.earlier+o.to-last, o.earlier), o.to
			break
		}
	}
	recorded := max(next.recorded, last)
	slept := min(max(next.slept, recorded), max(at, recorded))
	ran := max(next.blocked, slept)
	x.host(h, recording, 0, on, recorded-last)
	x.host(h, own, 0, on, slept-recorded)
	x.host(h, blocked, 0, on, ran-slept)
	x.host(h, own, 0, on, at-ran)
}

// next returns a call, without any times if the thread has made no more calls.
func (th *thread) next(n int32) *call {
	if int(n) < len(th.calls) {
		return &th.calls[n]
	}
	return &call{}
}

// fed moves a thread to the moment at which it runs again, and its feeder, for which it has waited.
func (x *saver) fed(on, feeder int, at int64, next *call) {
	h, by := &x.hosts[on], &x.hosts[feeder]
	recorded := max(next.recorded, h.last)
	slept := max(next.slept, recorded)
	if h.in >= 0 || slept >= at {
		return
	}
	before := call{}
	if calls := x.threads[feeder].calls; by.in < 0 && int(by.next) < len(calls) { // else its last call has just ended
		before = calls[by.next]
	}
	x.between(feeder, at, &before)
	by.last = at
	x.host(h, recording, 0, on, recorded-h.last)
	x.host(h, own, 0, on, slept-recorded)
	h.earlier, h.last = min(h.earlier+at-slept, by.earlier), at
}

// host takes a time of a thread, which it saves if it is the work that takes no time.
func (x *saver) host(h *host, k kind, label int32, on int, ns int64) {
	if w := &x.without; w.kind == k && w.label == label && w.where == int32(on) && ns > 0 {
		h.earlier += ns
	}
}

// called ends a call.
func (x *saver) called(on int, n int32) {
	h, c := &x.hosts[on], &x.threads[on].calls[n]
	if c.wait < 0 {
		x.between(on, c.end, &call{})
	} else {
		done := x.wait(h, c)
		x.host(h, inCall, c.label, on, c.end-done)
	}
	if h.last = c.end; h.in == n {
		h.in = c.outer
	}
	if _, ok := slices.BinarySearch(x.threads[on].works, n); ok {
		x.worked = append(x.worked, worked{c.start, c.end, h.earlier, on})
	}
}

// target is a task that a call waits for: its end, and by how much it ended earlier.
type target struct{ end, earlier int64 }

// wait ends the wait of a call: it lasted until the last of its tasks had ended. It returns this moment.
func (x *saver) wait(h *host, c *call) (done int64) {
	since := max(x.waits[c.wait].since, x.step.from)
	targets := x.awaited(c)
	done = since
	for _, t := range targets {
		done = max(done, t.end)
	}
	h.earlier += done - since
	for _, t := range targets {
		h.earlier = min(h.earlier, t.earlier+done-t.end)
	}
	return done
}

// awaited returns the tasks that a call waits for. Tasks of an unknown end may have ended with a long wait, and as long after their launch as in the trace.
// If some of them take no time, those were the last, because the saving is an upper bound.
func (x *saver) awaited(c *call) []target {
	const none = math.MaxInt64
	w := &x.waits[c.wait]
	all := x.without.kind == waiting && x.without.label == c.label && x.without.where == w.lane
	out, rigid, free := x.awaits[:0], int64(none), int64(none)
	for _, index := range x.targets[w.from:w.to] {
		launched, earlier, nothing := x.step.from, int64(0), all
		if i := x.find(index); i >= 0 {
			if end, ok := x.end(i, c.end); ok {
				out = append(out, target{end, x.ended[i]})
				continue
			}
			t := &x.tasks[i]
			launched, earlier, nothing = max(launched, min(t.returned, c.end)), x.issued[i], all || x.free[t.lane]
		}
		if nothing {
			free = min(free, earlier+c.end-launched)
		} else {
			rigid = min(rigid, earlier)
		}
	}
	switch {
	case free != none:
		out = append(out, target{c.end, free})
	case rigid != none && c.end-w.since >= timeline.ShortWait:
		out = append(out, target{c.end, rigid})
	}
	x.awaits = out
	return out
}

// task ends a task.
func (x *saver) task(i int) {
	t := &x.tasks[i]
	launched := min(t.returned, t.from)
	if t.waits {
		launched = min(t.issued, t.from)
	}
	ready, earlier := launched, int64(0)
	if t.from >= x.step.from {
		x.predecessors(i, t.from, func(_ int, end int64, _ order.Why) { ready = max(ready, end) }, nil)
		earlier = x.issued[i] + ready - launched
		x.predecessors(i, t.from, func(k int, end int64, _ order.Why) { earlier = min(earlier, x.ended[k]+ready-end) }, nil)
	}
	if w := &x.without; w.kind == onDevice && w.label == t.label && w.where == t.lane {
		earlier += t.to - max(t.from, x.step.from)
	}
	x.ended[i] = earlier
}
