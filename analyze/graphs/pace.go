package graphs

import (
	"github.com/acltrace/acltrace/internal/grow"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/order"
)

// leastWait is the mean wait of a run, in nanoseconds, from which on a graph may wait for the host. It is more than a record takes.
const leastWait = 20_000

// pace compares the runs of a graph with the records that they wait for: how long the device has waited for the host. A run counts if its
// stream was idle before, and if the host waits for it before the next one.
type pace struct {
	tasks, after int64 // that work: all, and those after the latest wait for a signal
	from, record int64 // end of the latest call that ran the graph, and start of the latest record after it
	runs         uint64
	waited, took int64 // nanoseconds in all runs
	first        run   // that waited
}

// launched follows a run on a lane.
func (x *Checker) launched(h *timeline.HostCall, on int, g *graph) {
	l := grow.At(&x.lanes, on)
	if l.runs = nil; x.whole && l.idle && len(g.waits) > 0 {
		l.runs = g
		g.pace.from, g.pace.record = h.End, h.End
	}
}

// waited follows a wait of the host for the tasks on a lane up to one.
//
// If all tasks take the same time, and the device did not wait, then the part of the time after the last record is at least the part of the
// tasks after the last wait. A shorter part is all the time that these tasks took, and tells how long all of them take.
func (x *Checker) waited(h *timeline.HostCall, last *order.Item[reach]) {
	if h.Failed() || h.Hung() || last.Lane < 0 {
		return
	}
	l := grow.At(&x.lanes, last.Lane)
	l.done = max(l.done, last.Call+1)
	g := l.runs
	if g == nil || last.Call < g.last.call {
		return
	}
	l.runs = nil
	p := &g.pace
	took := h.End - p.from
	if p.after == 0 || took <= 0 {
		return
	}
	p.runs++
	p.took += took
	if waited := took - (h.End-p.record)*p.tasks/p.after; waited > 0 {
		if p.waited == 0 {
			p.first = g.last
		}
		p.waited += waited
	}
}

// slow adds a graph whose runs wait for the host in a tenth of their time.
func (x *Checker) slow(g *graph) {
	p := &g.pace
	if p.runs < 2 || p.waited < 10*p.took/100 || p.waited < leastWait*int64(p.runs) {
		return
	}
	x.find(SlowUpdate, p.first.call, p.first.fn, func(f *Finding) {
		f.Graph, f.Object, f.Have, f.WaitedNS, f.RunNS = g.name, g.waits[len(g.waits)-1].on.String(), p.runs, p.waited, p.took
	})
}
