package compile

import (
	"slices"
	"sort"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/access"
)

// allocations represents all device memory among the things that calls share. No stream has this handle.
const allocations = ^uint64(0)

// contend records pairs of overlapping calls from different threads that use one stream, or that allocate device memory. The order of
// their effects is not recorded, so they keep the order in which they ended. Every edge leads from an earlier end to a later end, as does
// the order within a thread. So edges can't form a cycle.
func (p *callCompiler) contend(e *timeline.Event) {
	if len(p.Threads) < 2 || !p.ok {
		return
	}
	if e.Fn.Task != api.NoTask && e.Fn.Stream >= 0 {
		p.overlap(e.Call, memoryKey{p.owner(), streamOf(e)}, "overlapping calls on one stream, ordered by their ends")
	}
	for i := range e.Fn.Params {
		if q := &e.Fn.Params[i]; q.Role == api.New && access.Placed(q.Object) {
			p.overlap(e.Call, memoryKey{p.owner(), allocations}, "overlapping allocations, ordered by their ends")
			break
		}
	}
	p.reuse(e)
}

// reuse orders an allocation after the overlapping calls of other threads that freed its addresses. Such an edge may lead from a later
// end to an earlier end. It closes no cycle: only time orders a freeing call after another call, and it began before the allocation
// ended.
func (p *callCompiler) reuse(e *timeline.Event) {
	c := e.Call
	for _, u := range e.Uses {
		given := u.Object.Ended == c.Index
		if !access.Placed(u.Object.Kind) || given == (u.Object.Created == c.Index) || given && e.Fn.Task != api.NoTask {
			continue
		}
		me := allocSpan{task{p.at, c.Start, c.End, c.Index}, u.Object, given}
		open := p.ordering.allocSpans[p.owner()][:0]
		for _, h := range p.ordering.allocSpans[p.owner()] {
			if h.end < c.Start {
				continue
			}
			open = append(open, h)
			if h.given == given || h.at.thread == p.at.thread || h.o.Handle >= me.o.Handle+me.o.Size || me.o.Handle >= h.o.Handle+h.o.Size {
				continue
			}
			first, second := h, me
			if given {
				first, second = me, h
			}
			p.addWait(second.at, first.at)
		}
		p.ordering.allocSpans[p.owner()] = append(open, me)
	}
}

// lookup orders a call that finds an object after the overlapping call of another thread that found it first: that call stores the handle
// for all uses. Such an edge leads to a later start. It closes no cycle: only time and edges of this kind order a call that finds objects
// after another call.
func (p *callCompiler) lookup(e *timeline.Event) {
	if len(p.Threads) < 2 {
		return
	}
	for _, u := range e.Uses {
		if !e.Fn.LooksUp(u.Param) {
			continue
		}
		if u.Object.Created == e.Call.Index {
			p.ordering.finders.Set(u.Object, task{p.at, e.Call.Start, e.Call.End, e.Call.Index})
		} else if by, ok := p.ordering.finders.Get(u.Object); ok && by.at.thread != p.at.thread && by.end >= e.Call.Start {
			p.addWait(p.at, by.at)
		}
	}
}

// overlap orders a call relative to those that overlap it and use the same stream, or device memory.
func (p *callCompiler) overlap(c *format.Call, shared memoryKey, reason string) {
	me := task{p.at, c.Start, c.End, c.Index}
	open := p.ordering.streams[shared][:0]
	for _, t := range p.ordering.streams[shared] {
		if t.end < c.Start {
			continue
		}
		open = append(open, t)
		if t.at.thread == p.at.thread {
			continue
		}
		first, second := t, me
		if me.end < t.end {
			first, second = me, t
		}
		p.addWait(second.at, first.at)
		p.Found.Ambiguities++
		if len(p.Found.Ambiguous) < MaxListed {
			p.Found.Ambiguous = append(p.Found.Ambiguous, Ambiguous{Calls: [2]uint64{first.call, second.call}, Reason: reason})
		}
	}
	p.ordering.streams[shared] = append(open, me)
}

// arrives records a result that is compared after another thread's waiting call.
func (p *callCompiler) arrives(d *format.Data, at place, s rows) {
	i := sort.Search(len(p.ordering.resultWaits), func(i int) bool { return p.ordering.resultWaits[i].time > d.Time })
	p.ordering.resultWaits = slices.Insert(p.ordering.resultWaits, i, resultWait{d.Time, p.owner(), d.Addr, d.Addr + s.span(), at})
}

// orderAfterReaders orders the current call after the waits, during the call, for results in a range of host memory. The call runs a
// graph that writes the range, or frees it. Its effects began after those waits.
func (p *callCompiler) orderAfterReaders(from, to uint64) {
	for i := sort.Search(len(p.ordering.resultWaits), func(i int) bool { return p.ordering.resultWaits[i].time > p.c.Start }); i < len(p.ordering.resultWaits) && p.ordering.resultWaits[i].time < p.c.End; i++ {
		a := &p.ordering.resultWaits[i]
		if a.owner != p.owner() || a.at.thread == p.at.thread || a.from >= to || from >= a.to {
			continue
		}
		p.addWait(p.at, a.at)
	}
}

// addWait makes another thread's call wait for the end of a call.
func (p *compiler) addWait(at, until place) {
	g := p.Threads[at.thread].group(at.group)
	g.waits = append(g.waits, p.waitFor(until))
}

// streamOf returns the call's stream number, 0 for a context's default stream.
func streamOf(e *timeline.Event) uint64 {
	if e.Stream == nil {
		return 0
	}
	return e.Stream.Handle
}

// compareAt adds comparisons for the current call's results, to be made after a call.
func (p *callCompiler) compareAt(at place, checks []plan.Instruction) {
	if at == p.at {
		p.after = append(p.after, checks...)
		return
	}
	g := p.Threads[at.thread].group(at.group)
	if at.thread != p.at.thread {
		g.lateWaits = append(g.lateWaits, p.waitFor(p.at))
	}
	g.late = append(g.late, checks...)
}

// waitedAt returns the call after which a result is complete. It returns false if the trace lacks that call: the program had made other
// calls before the result was seen.
func (p *callCompiler) waitedAt(d *format.Data) (place, bool) {
	if p.f.Stream < 0 {
		return p.at, true // the copy is synchronous
	}
	if p.err = p.ahead(d.Time); p.err != nil {
		return p.at, false
	}
	at := p.synchronized(d.Time)
	next := p.Threads[p.at.thread].group(p.at.group + 1)
	return at, at != p.at || next == nil || next.start > d.Time
}

const nobodyWaits = "nothing in the trace waits for the result"

// synchronized returns the call that waited for a result, which was captured at the given time. Waits of other processes do not count: they wait
// for their own tasks, and can't read the result. Neither do waits for other devices.
func (p *callCompiler) synchronized(captured int64) place {
	best, end := p.at, int64(-1)
	device, copied := p.state.LaneKey(p.e).Device, p.here()
	// Prefer a call that waited for the copy and began after it; otherwise one that began during the copy's call. Other waits may have
	// ended later by chance.
	for _, from := range []int64{p.c.End, p.c.Start} {
		for t := range p.Threads {
			pr := &p.Threads[t]
			if !p.sameProcess(t) {
				continue
			}
			for i := pr.syncs.before(pr, captured) - 1; i >= 0; i-- {
				k := pr.syncs[i]
				g := pr.group(k)
				if g.start < from {
					break
				}
				if t == p.at.thread && k <= p.at.group || g.end > captured || g.end <= end || !g.on(device) || !g.waitsFor(copied.lane, copied.task) {
					continue
				}
				best, end = place{t, k}, g.end
			}
		}
		if end < 0 {
			continue
		}
		if g := p.Threads[best.thread].group(best.group); g.start < p.c.End && best.thread != p.at.thread {
			p.addWait(best, p.at) // it waited for the tasks before its start
		}
		return best
	}
	for t := range p.Threads {
		if !p.sameProcess(t) {
			continue
		}
		k := p.Threads[t].startedBefore(captured) - 1
		g := p.Threads[t].group(k)
		if g == nil || !g.complete || !g.on(device) || g.end > captured || g.end <= max(end, p.c.Start) {
			continue
		}
		if t == p.at.thread && k < p.at.group {
			continue
		}
		best, end = place{t, k}, g.end
	}
	return best
}

// sameProcess reports whether a thread belongs to the process of the current call.
func (p *callCompiler) sameProcess(t int) bool {
	return p.Threads[t].Process == p.Threads[p.at.thread].Process
}

// comes returns the time at which the program had waited for a result.
func comes(d *format.Data) int64 {
	if d == nil || d.Status == format.Missing && (d.Reason == format.NeverSynchronized || d.Reason == format.TooManyPending) {
		return 1<<63 - 1
	}
	return d.Time
}

// flights returns the copies to host memory that may be in flight.
func (p *callCompiler) flights(o *timeline.Object) []inFlightCopy {
	fs := slices.DeleteFunc(p.ordering.inFlight[o], func(f inFlightCopy) bool { return f.until <= p.c.Start })
	p.ordering.inFlight[o] = fs
	return fs
}

// inFlight reports whether a copy to some of the memory may be in flight, so that the current call reads its result.
func (p *callCompiler) inFlight(o *timeline.Object, from, to uint64) (some bool) {
	for _, f := range p.flights(o) {
		if f.off < to && from < f.end {
			some = true
			p.a.Guess = p.a.Guess || f.guessed
		}
	}
	return some
}
