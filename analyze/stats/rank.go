package stats

import (
	"cmp"
	"maps"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// work sums up the tasks that a thread issued.
type work struct {
	n        int64 // tasks and waits
	launches int64 // kernels and graphs
	kernels  int64 // measured time of kernels
	measured int64 // kernels with a measured time
	copies   int64 // time of copies on the device, or in calls if it is not measured
}

func (w *work) add(o *work) {
	w.n, w.launches, w.kernels, w.measured, w.copies = w.n+o.n, w.launches+o.launches, w.kernels+o.kernels, w.measured+o.measured, w.copies+o.copies
}

// issued has a thread's work in the current step, in typical steps, and in the trace.
type issued struct{ now, typical, all work }

// call adds a call. Calls in no step count for the trace alone.
func (x *issued) call(what Part, h *timeline.HostCall, k *timeline.Task, selected bool) {
	if k == nil && what != PartWaiting {
		return
	}
	one := work{n: 1}
	if k != nil {
		took := h.End - h.Start
		if k.Measured {
			took = k.To - k.From
		}
		switch k.Kind {
		case api.Kernel, api.GraphRun:
			if one.launches = 1; k.Measured {
				one.kernels, one.measured = took, 1
			}
		case api.Copy:
			one.copies = took
		}
	}
	if h.During >= 0 {
		x.now.add(&one)
	}
	if selected {
		x.all.add(&one)
	}
}

// paced is what a thread did from its first launch to its latest: it has neither start-up nor the end.
type paced struct {
	from, to      int64 // starts of these launches
	before, until [PartOwn]int64
}

// launch takes a launch at a time, and the thread's sums before it.
func (p *paced) launch(at int64, all *[PartOwn]int64) {
	if p.from == 0 {
		p.from, p.before = at, *all
	}
	p.to, p.until = at, *all
}

func (p *paced) parts() Parts {
	of := p.until
	for i := range of {
		of[i] -= p.before[i]
	}
	return partsOf(&of, p.to-p.from)
}

// rankSum is the work of a rank, or of a process in a recording of several, and the time of its thread with the most launches.
type rankSum struct {
	rank *int // nil for a process
	pid  int
	work
	whole int64 // launches in the trace
	parts Parts
	took  int64 // the time in parts
	most  int64 // launches of that thread
}

// spends has the parts of a rank's time that are compared between ranks, in nanoseconds.
var spends = []struct {
	name string
	of   func(*rankSum) int64
}{
	{"kernels", func(r *rankSum) int64 { return r.kernels }},
	{PartCopying.String(), func(r *rankSum) int64 { return r.copies }},
	{PartOwn.String(), func(r *rankSum) int64 { return r.parts.OwnNS }},
	{PartWaiting.String(), func(r *rankSum) int64 { return r.parts.WaitingNS }},
	{PartBlocked.String(), func(r *rankSum) int64 { return r.parts.BlockedNS }},
}

// key returns the rank of a process in a merged trace, otherwise its index.
func (x *Splitter) key(thread int) (rank *int, key int) {
	process := x.w.Process(uint32(thread))
	if rank = rankOf(x.w, process); rank != nil {
		return rank, *rank
	}
	return nil, int(process)
}

// together reports whether the ranks launch in about the same time. Typical steps are those of one process: ranks that run one after the other, or at their
// own pace, spend another time in them.
func (x *Splitter) together() bool {
	of := map[int]paced{}
	for i := range x.threads {
		if p := &x.threads[i].paced; x.threads[i].issued.all.launches >= fewLaunches {
			_, key := x.key(i)
			r, ok := of[key]
			if !ok {
				r = *p
			}
			of[key] = paced{from: min(r.from, p.from), to: max(r.to, p.to)}
		}
	}
	all := slices.Collect(maps.Values(of))
	if x.n == 0 || len(all) == 0 {
		return false
	}
	union, common := all[0], all[0] // the time of any rank, and that of all
	for _, p := range all {
		union, common = paced{from: min(union.from, p.from), to: max(union.to, p.to)}, paced{from: max(common.from, p.from), to: min(common.to, p.to)}
	}
	return float64(union.to-union.from) <= oddFactor*float64(common.to-common.from)
}

// ranks sums up the ranks of a merged trace, or the processes of another one: in typical steps if the ranks make them together, otherwise from each
// thread's first launch to its last.
func (x *Splitter) ranks() (out []*rankSum) {
	byRank, together := map[int]*rankSum{}, x.together()
	for i := range x.threads {
		rank, key := x.key(i)
		r := byRank[key]
		if r == nil {
			r = &rankSum{rank: rank, pid: x.w.PID(x.w.Process(uint32(i)))}
			byRank[key] = r
			out = append(out, r)
		}
		d := &x.threads[i]
		r.whole += d.issued.all.launches
		did := &d.issued.all
		if together {
			did = &d.issued.typical
		}
		r.add(did)
		if did.launches <= r.most {
			continue
		}
		if r.most, r.took = did.launches, x.took; together {
			r.parts = partsOf(&d.sum, r.took)
		} else {
			r.parts, r.took = d.paced.parts(), d.paced.to-d.paced.from
		}
	}
	if len(x.w.Reader.Meta().Merged) == 0 {
		out = alike(out)
	}
	return out
}

// alike returns the processes that launch about as often as most: others have another task.
func alike(all []*rankSum) []*rankSum {
	if len(all) == 0 {
		return nil
	}
	counts := slices.SortedFunc(slices.Values(all), func(a, b *rankSum) int { return cmp.Compare(a.whole, b.whole) })
	median := float64(counts[(len(counts)-1)/2].whole)
	return slices.DeleteFunc(all, func(r *rankSum) bool { n := float64(r.whole); return n > oddFactor*median || median > oddFactor*n })
}

const (
	// oddFactor is the number of medians from which a rank deviates.
	oddFactor = 1.2
	// fewLaunches is the number of launches that a rank needs to be compared. A slow rank has few in the steps of a fast one.
	fewLaunches = 10
)

// rankFindings returns the ranks that spend more than the median rank. Ranks need not meet, and run at their own pace: they are compared by
// launch. Waits count only if nothing else explains them: kernels are not measured, and ranks do not wait for each other in collectives. A blocked
// thread may wait for another rank too.
func (x *summer) rankFindings() (out []Finding) {
	all := x.within.ranks()
	all = slices.DeleteFunc(all, func(r *rankSum) bool { return r.whole < fewLaunches || r.launches == 0 })
	if len(all) < 2 {
		return nil
	}
	measured := !slices.ContainsFunc(all, func(r *rankSum) bool { return r.measured < r.launches })
	for _, s := range spends {
		if s.name == "kernels" && !measured || s.name == PartWaiting.String() && measured ||
			(s.name == PartWaiting.String() || s.name == PartBlocked.String()) && x.s.Ranks != nil {
			continue
		}
		each := func(r *rankSum) float64 { return float64(s.of(r)) / float64(r.launches) }
		sorted := slices.SortedFunc(slices.Values(all), func(a, b *rankSum) int { return cmp.Compare(each(a), each(b)) })
		median := each(sorted[(len(sorted)-1)/2])
		for _, r := range all {
			more := (each(r) - median) * float64(r.launches)
			if each(r) < oddFactor*median || more < worthShare*float64(r.took) {
				continue
			}
			f := Finding{Kind: OddRank, Rank: r.rank, PID: r.pid, Name: s.name, CostNS: int64(more), NS: int64(each(r)), EachNS: int64(median), Count: uint64(r.launches)}
			if median > 0 {
				f.Share = each(r)/median - 1
			}
			out = append(out, f)
		}
	}
	return out
}
