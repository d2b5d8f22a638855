package replay

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/lab"
	"github.com/acltrace/acltrace/replay/plan"
)

// Repeat is the result from playing a plan more than once.
type Repeat struct {
	Runs             int               `json:"runs"`               // number of runs
	ReplayedNS       []int64           `json:"replayed_ns"`        // duration of each run
	Seeds            []uint64          `json:"seeds,omitempty"`    // seed of each run with --place move
	NotDeterministic []Difference      `json:"not_deterministic"`  // results and outputs that differ between runs, with want and got empty
	Launches         []lab.LaunchTimes `json:"launches,omitempty"` // kernel durations: for few launches, or for an extract's launch
}

// again plays the plan for the remaining runs and compares all runs.
func (s *session) again(ctx context.Context, first *outcome) (*lab.Runs, error) {
	runs := lab.NewRuns(s.p.Plan, s.meta.Extracted, s.o.Poison)
	add := func(o *outcome) { runs.Add(o.insts, o.nsPerCount(), s.p.elapsed(o)) }
	add(first)
	for n := 1; n < s.o.Repeat && first.crash == nil; n++ {
		o, err := s.repetition(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("repetition %d: %w", n+1, err)
		}
		if o.crash != nil {
			*first, *o = *o, *first // the report is about this one
			o.close()
			break
		}
		add(o)
		o.close()
	}
	return runs, nil
}

// repetition plays the plan again. With PlaceMove it plays the plan for the next seed, which has the same instructions and other addresses.
func (s *session) repetition(ctx context.Context, n int) (*outcome, error) {
	if s.o.Place != compile.PlaceMove || s.p.lib.Placement() != backend.ByCall {
		return s.play(ctx, n)
	}
	dir := filepath.Join(s.dir, "moved")
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	compiling := *s.compiling
	compiling.Seed += uint64(n)
	p, err := compile.Trace(s.r, s.p.Model, dir, &compiling)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	other := *s
	other.p = &judge{p, s.o, s.p.lib}
	return other.play(ctx, n)
}

// elapsed returns the time from a run's first call to its last end.
func (p *judge) elapsed(o *outcome) time.Duration {
	r := &Report{}
	p.results(r, o, nil)
	return time.Duration(r.ReplayedNS)
}

// repeated adds the results from several runs to the report.
func (r *Report) repeated(p *judge, o *outcome, runs *lab.Runs) {
	r.Repeat = &Repeat{Runs: len(runs.Times), NotDeterministic: []Difference{}, Launches: runs.Launches()}
	for _, t := range runs.Times {
		r.Repeat.ReplayedNS = append(r.Repeat.ReplayedNS, int64(t))
	}
	for n := range runs.Times {
		if r.Seed != nil {
			r.Repeat.Seeds = append(r.Repeat.Seeds, *r.Seed+uint64(n))
		}
	}
	for _, i := range slices.Sorted(maps.Keys(runs.Varying)) {
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
