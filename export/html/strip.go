package html

import (
	"math"

	"github.com/acltrace/acltrace/analyze/path"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

const (
	maxBars     = 1024 // of a strip
	maxPictures = 8
)

// A survey is a pass through a trace that has been summed up. It has what depends on all steps and calls.
type survey struct {
	w        *timeline.Walk
	bars     []bar
	wide     int // steps in a bar
	chosen   []*choice
	memory   curve
	troubles troubles
}

// A bar is the longest of some neighboring steps.
type bar struct {
	first, last, longest int
	from, ns             int64
	parts                stats.Parts
	known                bool // parts are known, since the step is typical
}

// A choice is a step to draw.
type choice struct {
	why  string
	step step.Step
	path *path.Path // nil for none
	off  int64      // difference from the wanted duration, -1 for no step yet
	want func(*step.Step) (off int64, wanted bool)
}

// read makes a survey.
func read(r *format.Reader, m *api.Model, s *stats.Stats, o *Options) (*survey, error) {
	x := &survey{w: timeline.NewWalk(r, m, &timeline.WalkOptions{Progress: o.Progress}), wide: 1, memory: newCurve(s)}
	if err := x.w.FindSteps(); err != nil {
		return nil, err
	}
	x.choose(s, o)
	finder, split := path.NewFinder(x.w), stats.NewSplitter(x.w)
	err := x.w.Run(&timeline.Visitor{
		Call: func(h *timeline.HostCall, k *timeline.Task) error {
			finder.Call(h, k, 0)
			split.Call(h, k, true)
			x.troubles.call(x.w, h)
			return nil
		},
		Step: func(p *step.Step) error {
			if p.Open {
				return nil
			}
			parts, known := split.Step(p, true)
			x.bar(bar{p.Index, p.Index, p.Index, p.From, p.To - p.From, parts, known})
			way := finder.Step(p)
			for _, c := range x.chosen {
				c.see(p, way)
			}
			return nil
		},
		Memory: func(p *timeline.MemoryPoint) error { return x.memory.add(x.w, p) },
	})
	if rest := finder.Rest(); err == nil && rest != nil {
		x.chosen = []*choice{{why: "the whole trace", step: step.Step{Index: -1, From: x.w.Start, To: x.w.End}, path: rest}}
	}
	return x, err
}

// choose chooses the steps to draw.
func (x *survey) choose(s *stats.Stats, o *Options) {
	add := func(why string, want func(*step.Step) (int64, bool)) {
		if len(x.chosen) < maxPictures {
			x.chosen = append(x.chosen, &choice{why: why, off: -1, want: want})
		}
	}
	add("the longest step", func(p *step.Step) (int64, bool) {
		if l := s.Steps.Longest; l != nil { // among the typical steps
			return 0, p.Index == l.Index
		}
		return math.MaxInt64 - (p.To - p.From), true
	})
	if s.Steps.Count > 1 {
		add("a median step", func(p *step.Step) (int64, bool) {
			return max(p.To-p.From-s.Steps.P50NS, s.Steps.P50NS-p.To+p.From), p.Typical
		})
	}
	if o.Steps == nil {
		return
	}
	for n := o.Steps.First; n <= o.Steps.Last && len(x.chosen) < maxPictures; n++ {
		add("a chosen step", func(p *step.Step) (int64, bool) { return 0, uint64(p.Index) == n })
	}
}

func (c *choice) see(p *step.Step, way *path.Path) {
	if off, wanted := c.want(p); wanted && (c.off < 0 || off < c.off) {
		c.off, c.step, c.path = off, *p, way.Clone()
	}
}

// bar adds a bar. If there are too many, each two neighbors become one.
func (x *survey) bar(b bar) {
	if n := len(x.bars); n > 0 && x.bars[n-1].last-x.bars[n-1].first+1 < x.wide {
		x.bars[n-1] = x.bars[n-1].and(b)
		return
	}
	if len(x.bars) == maxBars {
		for i := 0; i < maxBars; i += 2 {
			x.bars[i/2] = x.bars[i].and(x.bars[i+1])
		}
		x.bars, x.wide = x.bars[:maxBars/2], 2*x.wide
	}
	x.bars = append(x.bars, b)
}

func (b bar) and(next bar) bar {
	first := b.first
	if next.ns > b.ns {
		b = next
	}
	b.first, b.last = first, next.last
	return b
}

// run returns the steps: each bar is the first step, the last step, the longest one, its start, its duration, and its parts if they are known.
func (x *survey) run(name string, s *stats.Stats) run {
	r := run{Bars: [][]int64{}, Name: cut(name), Median: s.Steps.P50NS, P99: s.Steps.P99NS, Steps: s.Steps.Count, Source: s.Steps.Source, Why: s.Steps.Why}
	for _, p := range stats.AllParts {
		r.Parts = append(r.Parts, p.String())
	}
	for i := range x.bars {
		b := &x.bars[i]
		v := []int64{int64(b.first), int64(b.last), int64(b.longest), b.from, b.ns}
		for _, p := range stats.AllParts {
			if b.known {
				v = append(v, p.Of(&b.parts))
			}
		}
		r.Bars = append(r.Bars, v)
	}
	return r
}
