package compile

import (
	"slices"
	"sort"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// ordering knows which calls must wait for calls of other threads.
type ordering struct {
	streams     map[memoryKey][]task
	laneOf      map[*timeline.Object]int // index into Plan.lanes
	allocSpans  map[uint32][]allocSpan   // by process
	inFlight    map[*timeline.Object][]inFlightCopy
	resultWaits []resultWait // by time
}

func newOrdering() ordering {
	return ordering{
		streams: map[memoryKey][]task{}, laneOf: map[*timeline.Object]int{}, allocSpans: map[uint32][]allocSpan{},
		inFlight: map[*timeline.Object][]inFlightCopy{},
	}
}

// inFlightCopy is an asynchronous copy to the host, or one of a graph, whose result the program has not waited for yet.
type inFlightCopy struct {
	off, end uint64
	until    int64
	shift    plan.Operand // from where to where the replay has moved the memory
	sure     bool         // what lies there then is known, whether the copy is made or not
}

// resultWait is when a thread had waited for a result, where that lies in pinned memory.
type resultWait struct {
	time     int64
	owner    uint32
	from, to uint64
	at       place // of the wait
}

// task is a call that put work on a stream.
type task struct {
	at         place
	start, end int64
	call       uint64
}

// allocations stands for the memory of the device among what calls share: no stream has this handle.
const allocations = ^uint64(0)

// contend notes pairs of overlapping calls of different threads that put work on one stream, or that allocate memory of the
// device. Their order there is not recorded: they keep the order of their ends. Every edge leads from an earlier end to a
// later one, as does the order within a thread, so edges can't form a circle.
func (p *callCompiler) contend(e *timeline.Event) {
	if len(p.Threads) < 2 || !p.ok {
		return
	}
	if e.Fn.Task != api.NoTask && e.Fn.Stream >= 0 {
		p.overlap(e.Call, memoryKey{p.owner(), streamOf(e)}, "overlapping calls on one stream, in the order of their ends")
	}
	for i := range e.Fn.Params {
		if q := &e.Fn.Params[i]; q.Role == api.New && placeable(q.Object) {
			p.overlap(e.Call, memoryKey{p.owner(), allocations}, "overlapping allocations, in the order of their ends")
			break
		}
	}
	p.reuse(e)
}

// An allocSpan is device memory that a call allocates or frees.
type allocSpan struct {
	task
	o     *timeline.Object
	given bool
}

// reuse orders an allocation behind the overlapping calls of other threads that gave back the addresses that it got. Of such edges one may
// lead from a later end to an earlier one. There is no circle even so: nothing but time puts a call that gives back behind another, and
// it began before the allocation ended.
func (p *callCompiler) reuse(e *timeline.Event) {
	c := e.Call
	for _, u := range e.Uses {
		given := u.Object.Ended == c.Index
		if !placeable(u.Object.Kind) || given == (u.Object.Created == c.Index) || given && e.Fn.Task != api.NoTask {
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

// overlap orders a call behind or before those that overlap it and share a stream with it, or the allocations.
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

// arrives takes note of a result that is compared behind the call of another thread that had waited for it.
func (p *callCompiler) arrives(d *format.Data, at place, s rows) {
	i := sort.Search(len(p.ordering.resultWaits), func(i int) bool { return p.ordering.resultWaits[i].time > d.Time })
	p.ordering.resultWaits = slices.Insert(p.ordering.resultWaits, i, resultWait{d.Time, p.owner(), d.Addr, d.Addr + s.span(), at})
}

// orderAfterReaders orders the call at hand, which runs a graph that writes to host memory or gives that back, behind the waits for results there that came
// while it was under way: what it does began only then.
func (p *callCompiler) orderAfterReaders(from, to uint64) {
	for i := sort.Search(len(p.ordering.resultWaits), func(i int) bool { return p.ordering.resultWaits[i].time > p.c.Start }); i < len(p.ordering.resultWaits) && p.ordering.resultWaits[i].time < p.c.End; i++ {
		a := &p.ordering.resultWaits[i]
		if a.owner != p.owner() || a.at.thread == p.at.thread || a.from >= to || from >= a.to {
			continue
		}
		p.addWait(p.at, a.at)
	}
}

// addWait has a call of another thread wait for the end of one.
func (p *compiler) addWait(at, until place) {
	g := p.Threads[at.thread].group(at.group)
	g.waits = append(g.waits, p.waitFor(until))
}
