package replay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/verify"
)

// Repeat is the result from playing a plan more than once.
type Repeat struct {
	Runs       int     `json:"runs"`
	ReplayedNS []int64 `json:"replayed_ns"` // by run
	// NotDeterministic are results and outputs that differ between runs. Want and Got are empty.
	NotDeterministic []Difference `json:"not_deterministic"`
	// Launches are kernel times if there are only a few. For an extract they are its launch's.
	Launches []LaunchTimes `json:"launches,omitempty"`
}

// LaunchTimes are a launch's durations in each run: from its call to the end of the first wait for its stream.
type LaunchTimes struct {
	Call   uint64  `json:"call"`
	Kernel string  `json:"kernel"`
	NS     []int64 `json:"ns"`
	Min    int64   `json:"min_ns"`
	Median int64   `json:"median_ns"`
	Max    int64   `json:"max_ns"`
	// Alone says that the device was otherwise idle.
	Alone bool `json:"alone,omitempty"`
}

// maxLaunches is how many launches are timed individually at most.
const maxLaunches = 64

// timed finds the launches, or an extract's launch, each with the instructions of its call and of the waiting call. It finds none if
// there are more than maxLaunches.
func (p *judge) timed(of *format.Extracted) (launches []LaunchTimes, spans [][2]int) {
	type launch struct {
		plan.PlayedCall
		process int
		wait    plan.PlayedCall // Call is the launch itself if no call waits
	}
	var all []launch
	for t := range p.Threads {
		for c := range p.File.Played(t) {
			if c.Kernel == 0 || of != nil && c.Call != of.Launch {
				continue
			}
			if len(all) == 16*maxLaunches {
				return nil, nil
			}
			all = append(all, launch{*c, p.Threads[t].Process, *c})
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	for t := range p.Threads {
		for w := range p.File.Played(t) {
			sync := p.File.Funcs[w.Fn].Sync
			if sync != api.SyncDevice && sync != api.SyncStream {
				continue
			}
			for i := range all {
				l := &all[i]
				waits := p.Threads[t].Process == l.process && (sync == api.SyncDevice || w.Names == l.On)
				if waits && w.Start >= l.End && (l.wait.Call == l.Call || w.End < l.wait.End) {
					l.wait = *w
				}
			}
		}
	}
	at := map[uint64]int{} // by call: its instruction
	for _, l := range all {
		at[l.Call], at[l.wait.Call] = -1, -1
	}
	for t := range p.Threads {
		for n, in := range p.File.Instructions(t) {
			if _, ok := at[in.Call]; ok && in.Calls() && in.Flags&plan.InstAside == 0 {
				at[in.Call] = n
			}
		}
	}
	for _, l := range all {
		if l.wait.Call == l.Call {
			continue
		}
		launches = append(launches, LaunchTimes{Call: l.Call, Kernel: p.File.Kernels[l.Kernel-1], Alone: of != nil && of.Alone})
		spans = append(spans, [2]int{at[l.Call], at[l.wait.Call]})
	}
	if len(launches) > maxLaunches {
		return nil, nil
	}
	return launches, spans
}

// time adds the launches' durations in a run.
func (r *LaunchTimes) time(p *judge, o *outcome, span [2]int) {
	if a, b := &o.insts[span[0]], &o.insts[span[1]]; a.Flags&b.Flags&plan.ResultDone != 0 {
		r.NS = append(r.NS, int64(float64(b.End-a.Start)*o.nsPerCount()))
	}
}

// variation returns why an instruction's outcome differs in the n-th run. was is the reason found so far.
func (s *session) variation(was verify.Reason, n int) verify.Reason {
	if s.o.Poison && was != verify.Varies && n%len(compile.Poisons) != 0 {
		return verify.Uninitialised
	}
	return verify.Varies // new memory had the same byte in it
}

// again plays the plan for the remaining runs. It returns the instructions whose outcomes differ from the first run, with the reasons,
// and the durations of runs and launches.
func (s *session) again(ctx context.Context, first *outcome) (map[int]verify.Reason, []time.Duration, []LaunchTimes, error) {
	varying := map[int]verify.Reason{}
	times := []time.Duration{s.p.elapsed(first)}
	launches, spans := s.p.timed(s.meta.Extracted)
	take := func(o *outcome) {
		for i := range launches {
			launches[i].time(s.p, o, spans[i])
		}
	}
	take(first)
	for n := 1; n < s.o.Repeat && first.crash == nil; n++ {
		o, err := s.play(ctx, n)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("repetition %d: %w", n+1, err)
		}
		if o.crash != nil {
			*first, *o = *o, *first // the report is about this one
			o.close()
			break
		}
		times = append(times, s.p.elapsed(o))
		take(o)
		for i := range o.insts {
			a, b := &first.insts[i], &o.insts[i]
			const flags = plan.ResultDone | plan.ResultDiffers | plan.ResultTolerated
			in := s.p.File.At(i)
			// An uncompared returned value is an address or a handle.
			same := a.Flags&flags == b.Flags&flags && (in.Op != plan.OpCall || (a.Ret^b.Ret)<<(64-in.Bits) == 0)
			if in.Op == plan.OpCheck {
				same = same && a.Ret == b.Ret
			}
			if !same {
				varying[i] = s.variation(varying[i], n)
			}
		}
		o.close()
	}
	for i := range launches {
		if l := &launches[i]; len(l.NS) > 0 {
			sorted := slices.Sorted(slices.Values(l.NS))
			l.Min, l.Median, l.Max = sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1]
		}
	}
	return varying, times, launches, nil
}

// elapsed returns the time from a run's first call to its last end.
func (p *judge) elapsed(o *outcome) time.Duration {
	r := &Report{}
	p.results(r, o, nil)
	return time.Duration(r.ReplayedNS)
}

// repeated adds the results from several runs to the report.
func (r *Report) repeated(p *judge, o *outcome, varying map[int]verify.Reason, times []time.Duration, launches []LaunchTimes) {
	if times == nil {
		return
	}
	r.Repeat = &Repeat{Runs: len(times), NotDeterministic: []Difference{}, Launches: launches}
	for _, t := range times {
		r.Repeat.ReplayedNS = append(r.Repeat.ReplayedNS, int64(t))
	}
	for _, i := range slices.Sorted(maps.Keys(varying)) {
		in := p.File.At(i)
		d := Difference{Call: in.Call, Func: p.File.Funcs[in.Fn].Name}
		if in.Op == plan.OpCheck {
			how := o.detail(&o.insts[i])
			d.Param, d.Offset, d.Bytes = p.checkedName(in), in.At+how.First, how.Count
			d.result, d.item = in.OfResult(), in.RetSlot
		}
		if len(r.Repeat.NotDeterministic) < compile.MaxListed {
			r.Repeat.NotDeterministic = append(r.Repeat.NotDeterministic, d)
		}
	}
}
