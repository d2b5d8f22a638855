package stats

import (
	"cmp"
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
	if h.Step >= 0 {
		x.now.add(&one)
	}
	if selected {
		x.all.add(&one)
	}
}

// rankSum is the work of a rank, or of a process in a recording of several, and the time of its thread with the most launches.
type rankSum struct {
	rank *int // nil for a process
	pid  int
	work
	whole int64 // launches in the trace
	parts Parts
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
}

// ranks sums up the ranks of a merged trace, or the processes of another one, in typical steps, or in the whole trace if there are none. It returns the
// divided time too.
func (x *Splitter) ranks() (out []*rankSum, total int64) {
	byRank := map[int]*rankSum{}
	if total = x.took; x.n == 0 {
		total = x.w.End - x.w.Start
	}
	for i := range x.threads {
		process := x.w.Process(uint32(i))
		rank, key := rankOf(x.w, process), int(process)
		if rank != nil {
			key = *rank
		}
		r := byRank[key]
		if r == nil {
			r = &rankSum{rank: rank, pid: x.w.PID(process)}
			byRank[key] = r
			out = append(out, r)
		}
		d := &x.threads[i]
		r.whole += d.issued.all.launches
		did, sum, took := &d.issued.typical, &d.sum, total
		if x.n == 0 {
			did, sum, took = &d.issued.all, &d.all, d.last-d.first
		}
		r.add(did)
		if did.launches > r.most {
			r.most, r.parts = did.launches, partsOf(sum, took)
		}
	}
	if len(x.w.Reader.Meta().Merged) == 0 {
		out = alike(out)
	}
	return out, total
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
// launch. Waits count only if nothing else explains them: kernels are not measured, and ranks do not wait for each other in collectives.
func (x *summer) rankFindings() (out []Finding) {
	all, total := x.within.ranks()
	all = slices.DeleteFunc(all, func(r *rankSum) bool { return r.whole < fewLaunches || r.launches == 0 })
	if len(all) < 2 {
		return nil
	}
	measured := !slices.ContainsFunc(all, func(r *rankSum) bool { return r.measured < r.launches })
	for _, s := range spends {
		if s.name == "kernels" && !measured || s.name == PartWaiting.String() && (measured || x.s.Ranks != nil) {
			continue
		}
		each := func(r *rankSum) float64 { return float64(s.of(r)) / float64(r.launches) }
		sorted := slices.SortedFunc(slices.Values(all), func(a, b *rankSum) int { return cmp.Compare(each(a), each(b)) })
		median := each(sorted[(len(sorted)-1)/2])
		for _, r := range all {
			more := (each(r) - median) * float64(r.launches)
			if each(r) < oddFactor*median || more < worthShare*float64(total) {
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
