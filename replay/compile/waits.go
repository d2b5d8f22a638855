package compile

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
)

// compareAt has results of the call at hand compared behind a call.
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

// waitedAt is the call behind which a result is there, false where that is one that the trace does not have: the program had gone on from
// the copy before the result was seen.
func (p *callCompiler) waitedAt(d *format.Data) (place, bool) {
	if p.f.Stream < 0 {
		return p.at, true // it has waited itself
	}
	if p.err = p.ahead(d.Time); p.err != nil {
		return p.at, false
	}
	at := p.synchronized(d.Time)
	next := p.Threads[p.at.thread].group(p.at.group + 1)
	return at, at != p.at || next == nil || next.start > d.Time
}

const nobodyWaits = "nothing in the trace waits for the result"

// synchronized is the call that was over when a result was captured: the one that the program waited with.
func (p *callCompiler) synchronized(captured int64) place {
	best, end := p.at, int64(-1)
	// One that waited for the copy, if there is one; else one that did so and had begun while the copy's call had not returned. Others may
	// have ended later by chance.
	for _, from := range []int64{p.c.End, p.c.Start} {
		for t := range p.Threads {
			pr := &p.Threads[t]
			for i := pr.syncs.before(pr, captured) - 1; i >= 0; i-- {
				k := pr.syncs[i]
				g := pr.group(k)
				if g.start < from {
					break
				}
				if t == p.at.thread && k <= p.at.group || g.end > captured || g.end <= end || !p.waitsFor(g) {
					continue
				}
				best, end = place{t, k}, g.end
			}
		}
		if end < 0 {
			continue
		}
		if g := p.Threads[best.thread].group(best.group); g.start < p.c.End && best.thread != p.at.thread {
			p.addWait(best, p.at) // it has waited for what had begun by then
		}
		return best
	}
	for t := range p.Threads {
		k := p.Threads[t].startedBefore(captured) - 1
		g := p.Threads[t].group(k)
		if g == nil || g.fn == nil || g.fn.Sync == api.NoSync || g.unready || g.end > captured || g.end <= max(end, p.c.Start) {
			continue
		}
		if t == p.at.thread && k < p.at.group {
			continue
		}
		best, end = place{t, k}, g.end
	}
	return best
}

// waitsFor reports whether a call behind the copy at hand has waited for it: for the device, for the copy's stream, or for an event behind
// the copy there.
func (p *callCompiler) waitsFor(g *group) bool {
	stream := p.Model.StreamOf(p.f, p.c.Args[p.f.Params[p.f.Stream].Word], p.c.Thread)
	switch g.fn.Sync {
	case api.SyncDevice:
		return true
	case api.SyncStream, api.PollStream:
		return g.names == stream && !g.unready
	case api.SyncEvent, api.PollEvent:
		on, ok := p.recordedOn(g)
		return !g.unready && ok && on == stream
	}
	return false
}

// recordedOn is the stream that the event of a wait was recorded on last, if that was behind the copy at hand.
func (p *callCompiler) recordedOn(w *group) (stream uint64, ok bool) {
	last := int64(-1)
	for t := range p.Threads {
		pr := &p.Threads[t]
		for i := pr.records.before(pr, w.start) - 1; i >= 0; i-- {
			k := pr.records[i]
			g := pr.group(k)
			if g.start < p.c.Start || g.start <= last {
				break
			}
			if g.event == w.event && (t != p.at.thread || k > p.at.group) {
				stream, last, ok = g.names, g.start, true
			}
		}
	}
	return stream, ok
}

// comes is when the program had waited for a result.
func comes(d *format.Data) int64 {
	if d == nil || d.Status == format.Missing && (d.Reason == format.NeverSynchronized || d.Reason == format.TooManyPending) {
		return 1<<63 - 1
	}
	return d.Time
}

// flights are the copies to memory of the host's that may be on their way.
func (p *callCompiler) flights(o *timeline.Object) []inFlightCopy {
	fs := slices.DeleteFunc(p.ordering.inFlight[o], func(f inFlightCopy) bool { return f.until <= p.c.Start })
	p.ordering.inFlight[o] = fs
	return fs
}

// inFlight reports whether a copy to some of the memory may be on its way.
func (p *callCompiler) inFlight(o *timeline.Object, from, to uint64) bool {
	return slices.ContainsFunc(p.flights(o), func(f inFlightCopy) bool { return f.off < to && from < f.end })
}
