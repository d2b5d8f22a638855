// Package diff compares two runs of a program and finds significant changes.
//
// New reads each trace once, keeps a bounded number of samples, and tests them. acltrace diff calls it, and package report prints
// the changes. This package writes nothing.
//
// Stability: JSON keys stay, and more are added. Before version 1.0 of acltrace, exported Go names may change with a line in CHANGELOG.md.
package diff

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	significance "github.com/aclements/go-moremath/stats"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/sample"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// Options are New's parameters. nil means the zero value.
type Options struct {
	// Threshold is the least relative median change that counts, 0.05 when 0.
	Threshold float64
	// Select is the calls to compare in both runs, nil for all. The step and its parts are compared only if it is a whole period
	// (Selection.Contiguous). Steps count if they are whole in its window.
	Select   *timeline.Selection
	Progress func(done, total int) // called now and then with the calls read and the total in the current trace
}

// Verdicts on a Change.
const (
	Slower = "slower"
	Faster = "faster"
	Same   = "same"  // the medians differ by less than the threshold
	Noise  = "noise" // the difference is too small to matter for the step
	Few    = "few"   // too few samples for a test
	More   = "more"  // more calls in a step, and none of slower, faster
	Fewer  = "fewer" // fewer calls in a step

	Inconclusive = "inconclusive" // the medians differ by the threshold, but the difference is not significant
)

const (
	// Falsely is the false discovery rate for the verdicts slower and faster.
	Falsely = 0.001
	// Fewest is the least sample count for a test. With six, the least probability is 0.002.
	Fewest = 7
	// minor is the fraction of a step, or of the run, below which no change matters.
	minor = 0.001
	// blocks is the sample count for a run without steps. Launches that follow each other are too alike to be
	// independent samples.
	blocks = 32
)

// Diff compares two runs of a program, as `acltrace diff --json` prints it.
//
// The samples are each run's typical steps, at most 1,024, evenly spaced: the step's duration, and the sums for
// each kernel, copy direction and function in it. If a run has no steps, the samples are single launches, or medians of
// launches that follow each other.
//
// A change counts if the medians differ by the threshold, if it matters for the step, and if two tests are significant:
// one on the samples, and one on six parts of each run. The false discovery rate is 0.1%.
type Diff struct {
	A           Run     `json:"a"`                   // first run
	B           Run     `json:"b"`                   // second run
	Selection   string  `json:"selection,omitempty"` // flags that select calls
	By          string  `json:"by"`                  // samples: typical steps, or launches if a run has no steps
	Threshold   float64 `json:"threshold"`           // least relative change that counts
	Differs     bool    `json:"differs"`             // a change or a part is slower or faster, something is new or gone, or its count in a step changed
	SlowerCount int     `json:"slower_count"`        // changes and parts with the verdict slower
	Verdict     string  `json:"verdict"`             // different, inconclusive or same
	// Doubts are the names of the changes and parts that are inconclusive or have too few samples, and are as large as the threshold is of a step, or of the
	// run without steps. They make the runs inconclusive, unless these differ.
	Doubts []Doubt `json:"doubts"`
	Cause  *Cause  `json:"cause"` // for a slower or faster step, null otherwise
	// Parts compares the parts of a step: waiting, launching, copying, other_calls, own_time and recording, on the thread that makes the
	// steps.
	Parts []Change `json:"parts"`
	// Changes has the step, kernels, copy directions and functions that both runs have, the largest change first.
	Changes []Change `json:"changes"`
	New     []Only   `json:"new"`  // only in the second run
	Gone    []Only   `json:"gone"` // only in the first run
	// Operators compares operators by name, the largest change first; empty unless both runs have them.
	Operators []Operator `json:"operators"`
}

// Cause is what makes a step slower or faster: the part that changed most in the same direction, and where.
type Cause struct {
	StepNS int64      `json:"step_ns"`        // change of the step's median
	Part   string     `json:"part"`           // the part that changed most, named as in parts; empty for none
	PartNS int64      `json:"part_ns"`        // change of its median
	Gap    *stats.Gap `json:"gap"`            // gap of own time that changed most, nil if there is none; its ns is the change
	Kind   string     `json:"kind,omitempty"` // kernel, copy or function that changed most with the part; empty for none
	Name   string     `json:"name,omitempty"` // its name
	NS     int64      `json:"ns,omitempty"`   // change of its median
}

// Doubt is a change that may be chance, though it is large.
type Doubt struct {
	Kind   string `json:"kind"`   // step, part, kernel, graph, kernel in graphs, copy or function
	Name   string `json:"name"`   // its name, empty for the step
	Slower bool   `json:"slower"` // the second run's median is longer
}

// Verdicts on a Diff.
const (
	Different = "different"
	Unclear   = Inconclusive
	Equal     = Same
)

// Run is one side of a Diff.
type Run struct {
	Path string `json:"path"` // file
	format.Scope
	Calls   uint64      `json:"calls"`              // number of selected calls
	Timed   bool        `json:"timed"`              // it was recorded with device times
	CallsOf uint64      `json:"calls_of,omitempty"` // calls in the trace, if calls are selected
	SpanNS  int64       `json:"span_ns"`            // from the first start to the last end of a call
	Steps   stats.Steps `json:"steps"`              // steps and their durations
}

// Only is a kernel, copy direction or function that only one run has.
type Only struct {
	Kind  string `json:"kind"`  // operator, kernel, graph, kernel in graphs, copy or function
	Name  string `json:"name"`  // its name
	Count uint64 `json:"count"` // calls, launches or copies in the run
}

// Change compares one kernel, copy direction, function or the step.
type Change struct {
	Kind   string `json:"kind"`   // step, part, kernel, graph, kernel in graphs, copy or function
	Name   string `json:"name"`   // name of the kernel, direction or function; empty for the step
	Metric string `json:"metric"` // wall for a step, count for kernels in graphs, device if measured in both runs, otherwise host: the calls' time
	A      Sample `json:"a"`      // first run
	B      Sample `json:"b"`      // second run
	// Change is the median's relative change: 0.1 is 10% more. It is 0 if A's median is 0.
	Change  float64 `json:"change"`
	P       float64 `json:"p"`       // probability that chance explains the difference, 1 if not tested
	Verdict string  `json:"verdict"` // slower, faster, same, noise, inconclusive, few, more or fewer
	// Often is true if the count in a step changed, beyond the middle halves of the counts in both runs.
	Often bool `json:"often,omitempty"`

	count uint64 // launches, copies or calls in the first run
}

// Sample has the durations in one run, per step or per launch.
type Sample struct {
	N        int     `json:"n"`         // number of samples
	MedianNS float64 `json:"median_ns"` // median
	Q1NS     float64 `json:"q1_ns"`     // lower quartile
	Q3NS     float64 `json:"q3_ns"`     // upper quartile
	PerStep  float64 `json:"per_step"`  // median count in a step, 0 without steps

	BytesEach uint64 `json:"bytes_each,omitempty"` // mean size of a copy

	values []float64  // in time order
	counts [2]float64 // lower and upper quartile of the count in a step
}

type diffKey struct{ kind, name string }

// series collects durations for one kernel, copy direction or function in a run.
type series struct {
	count, bytes       uint64
	measured           bool                 // all tasks are measured
	host, device       sample.Even[float64] // single calls and tasks
	now                sums                 // in the current step
	hosts, devices, of sample.Even[float64] // typical steps; of is the count
}

type sums struct{ host, device, count float64 }

// A run collects a trace's samples.
type run struct {
	Run
	series map[diffKey]*series
	took   sample.Even[float64] // typical steps' durations
	split  *stats.Splitter
	ops    *operators
	parts  [stats.PartOwn + 1]sample.Even[float64] // typical steps
}

// common says which parts are compared, because both runs have them.
type common struct {
	divided   bool // blocked time, as a part of its own
	operators bool
}

// newRun reads a trace.
func newRun(r *format.Reader, m *api.Model, o *Options, both common) (*run, error) {
	x := &run{series: map[diffKey]*series{}}
	sel, err := timeline.NewSelector(r, m, o.Select)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Path(), err)
	}
	w := timeline.NewWalk(r, m, &timeline.WalkOptions{Select: sel, Progress: o.Progress})
	if err := w.FindSteps(); err != nil {
		return nil, err
	}
	all := sel.String() == ""
	x.ops = &operators{w: w, all: all, byName: map[string]*operatorSums{}}
	first, end := int64(math.MaxInt64), int64(math.MinInt64) // of the calls
	if x.split = stats.NewSplitter(w); !both.divided {
		x.split.Undivided()
	}
	var lengths stats.Histogram
	steps := 0
	v := &timeline.Visitor{
		All: !all,
		Call: func(h *timeline.HostCall, k *timeline.Task) error {
			if h.Profiled() {
				return nil
			}
			x.split.Call(h, k, all || w.Selected())
			if !all && !w.Selected() {
				return nil
			}
			x.Calls++
			first, end = min(first, h.Start), max(end, w.CallEnd(h))
			host := float64(h.End - h.Start)
			x.add(diffKey{"function", h.Name}, h.During, host, 0, false)
			if k == nil {
				return nil
			}
			x.ops.task(h, k)
			// Measured times are known with the call.
			switch k.Kind {
			case api.Kernel:
				x.add(diffKey{"kernel", k.Name}, h.During, host, float64(k.To-k.From), k.Measured)
			case api.GraphRun:
				x.add(diffKey{"graph", stats.RoleOf(k)}, h.During, host, float64(k.To-k.From), k.Measured)
				for _, in := range k.Content.Inside() {
					x.addInside(diffKey{inGraphs, in.Name}, h.During, in.Count)
				}
			case api.Copy:
				key := diffKey{"copy", k.Direction()}
				x.add(key, h.During, host, float64(k.To-k.From), k.Measured)
				x.series[key].bytes += k.Bytes
			}
			return nil
		},
		Step: func(p *step.Step) error {
			from, to := sel.Window()
			whole := all || w.Selected() && p.From >= from && p.To <= to
			if !p.Open && whole && !p.Unrecorded {
				steps++
			}
			if parts, counts := x.split.Step(p, whole); counts {
				for _, part := range stats.AllParts {
					x.parts[part].Add(float64(part.Of(&parts)))
				}
			}
			typical := !p.Open && p.Typical && whole
			x.ops.step(typical)
			if typical {
				x.took.Add(float64(p.To - p.From))
				lengths.Add(p.To - p.From)
			}
			for _, s := range x.series {
				if typical {
					s.hosts.Add(s.now.host)
					s.devices.Add(s.now.device)
					s.of.Add(s.now.count)
				}
				s.now = sums{}
			}
			return nil
		},
	}
	if both.operators {
		v.Operator = x.ops.part
	}
	if err := w.Run(v); err != nil {
		return nil, err
	}
	x.split.End()
	x.Steps = stats.SumSteps(w, steps, &lengths)
	x.describe(w, all, first, end)
	return x, nil
}

// describe sets what the Diff says of the run. all means that no calls are selected, first and end are their times.
func (x *run) describe(w *timeline.Walk, all bool, first, end int64) {
	x.Path, x.Scope, x.Timed = w.Reader.Path(), w.Reader.Completeness().Scope(), w.Reader.Meta().DeviceTime != nil
	switch {
	case x.Calls == 0:
	case all:
		x.SpanNS = w.End - w.Start
	default:
		x.SpanNS = end - first
	}
	if all {
		return
	}
	if x.CallsOf = w.Calls; x.Steps.Count == 0 && x.Steps.Why == "" {
		x.Steps.Why = "no whole step is selected"
	}
}

// inGraphs is the kind of a kernel that runs of graphs launch. It has counts but no times.
const inGraphs = "kernel in graphs"

func (x *run) of(k diffKey) *series {
	s := x.series[k]
	if s == nil {
		s = &series{measured: true, hosts: x.took.Zeros(), devices: x.took.Zeros(), of: x.took.Zeros()}
		x.series[k] = s
	}
	return s
}

// addInside adds launches of a kernel by a run of a graph.
func (x *run) addInside(k diffKey, step int, n uint64) {
	s := x.of(k)
	s.measured = false
	if s.count += n; step >= 0 {
		s.now.count += float64(n)
	}
}

func (x *run) add(k diffKey, step int, host, device float64, measured bool) {
	s := x.of(k)
	s.count++
	s.measured = s.measured && measured
	s.host.Add(host)
	if measured {
		s.device.Add(device)
	}
	if step >= 0 {
		s.now.host += host
		s.now.count++
		if measured {
			s.now.device += device
		}
	}
}

// step returns the step's sample. Its median covers all steps, as in stats, not only those kept.
func (x *run) step() Sample {
	s := Sample{values: x.took.Values}.finish()
	s.MedianNS = float64(x.Steps.P50NS)
	return s
}

// sample returns a series' sample, by typical steps or by blocks.
func (s *series) sample(bySteps, device bool) Sample {
	out := Sample{BytesEach: s.bytes / s.count}
	if bySteps {
		counts := slices.Sorted(slices.Values(s.of.Values))
		out.values, out.PerStep, out.counts = s.hosts.Values, percentile(counts, 50), [2]float64{percentile(counts, 25), percentile(counts, 75)}
		if device {
			out.values = s.devices.Values
		}
		return out.finish()
	}
	values := s.host.Values
	if device {
		values = s.device.Values
	}
	n := max(1, (len(values)+blocks-1)/blocks)
	for part := range slices.Chunk(values, n) {
		if len(part) == n || len(out.values) == 0 {
			out.values = append(out.values, median(part))
		}
	}
	return out.finish()
}

// percentile returns a percentile of sorted values.
func percentile(sorted []float64, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[stats.Rank(uint64(len(sorted)), p)]
}

func median(values []float64) float64 {
	s := slices.Clone(values)
	slices.Sort(s)
	return percentile(s, 50)
}

func (s Sample) finish() Sample {
	sorted := slices.Clone(s.values)
	slices.Sort(sorted)
	s.N, s.Q1NS, s.MedianNS, s.Q3NS = len(sorted), percentile(sorted, 25), percentile(sorted, 50), percentile(sorted, 75)
	return s
}

// parts returns the medians of a run's six parts. Parts are less alike than neighbouring steps: machines have slow and
// fast phases.
func parts(values []float64) significance.Sample {
	const most = 6
	var out []float64
	for part := range slices.Chunk(values, (len(values)+most-1)/most) {
		out = append(out, median(part))
	}
	return significance.Sample{Xs: out}
}

// probability returns the probability that chance explains the difference: the greater one from two tests. A Mann-Whitney test
// on the samples assumes no noise distribution. Welch's test on the runs' parts accounts for their drift.
func probability(a, b *Sample) float64 {
	u, err := significance.MannWhitneyUTest(a.values, b.values, significance.LocationDiffers)
	if err != nil {
		return 1 // all values are equal
	}
	t, err := significance.TwoSampleWelchTTest(parts(a.values), parts(b.values), significance.LocationDiffers)
	if err != nil {
		return min(u.P, 1) // no variance
	}
	return min(max(u.P, t.P), 1)
}

// New compares two runs. Its memory does not grow with the call count.
func New(a, b *format.Reader, m *api.Model, o *Options) (*Diff, error) {
	if o == nil {
		o = &Options{}
	}
	d := &Diff{By: "steps", Threshold: cmp.Or(o.Threshold, 0.05), Doubts: []Doubt{}, Parts: []Change{}, Changes: []Change{}, New: []Only{}, Gone: []Only{}, Operators: []Operator{}}
	both := common{divided: a.Meta().Tracer.GapNS > 0 && b.Meta().Tracer.GapNS > 0}
	var err error
	if both.operators, err = marked(a, m); err == nil && both.operators {
		both.operators, err = marked(b, m)
	}
	if err != nil {
		return nil, err
	}
	inA, err := newRun(a, m, o, both)
	if err != nil {
		return nil, err
	}
	inB, err := newRun(b, m, o, both)
	if err != nil {
		return nil, err
	}
	d.A, d.B = inA.Run, inB.Run
	part := false
	if o.Select != nil {
		d.Selection, part = o.Select.String(), !o.Select.Contiguous()
	}
	bySteps := d.A.Steps.Typical > 0 && d.B.Steps.Typical > 0
	if !bySteps {
		d.By = "launches"
	}
	if bySteps && !part {
		d.Changes = append(d.Changes, Change{Kind: "step", Metric: "wall", A: inA.step(), B: inB.step()})
		for _, p := range stats.AllParts {
			c := Change{Kind: "part", Name: p.String(), Metric: "host", A: Sample{values: inA.parts[p].Values}.finish(), B: Sample{values: inB.parts[p].Values}.finish()}
			if c.A.N > 0 && c.B.N > 0 {
				d.Parts = append(d.Parts, c)
			}
		}
	}
	for k, sa := range inA.series {
		sb := inB.series[k]
		if sb == nil {
			d.Gone = append(d.Gone, Only{k.kind, k.name, sa.count})
			continue
		}
		device := sa.measured && sb.measured
		if k.kind == inGraphs && !bySteps {
			continue // a run has neither times nor counts a step
		}
		c := Change{Kind: k.kind, Name: k.name, Metric: "host", A: sa.sample(bySteps, device), B: sb.sample(bySteps, device), count: sa.count}
		switch {
		case device:
			c.Metric = "device"
		case k.kind == inGraphs:
			c.Metric = "count"
		}
		if bySteps && c.A.PerStep == 0 && c.B.PerStep == 0 && c.A.MedianNS == 0 && c.B.MedianNS == 0 {
			continue // not in steps
		}
		d.Changes = append(d.Changes, c)
	}
	for k, sb := range inB.series {
		if inA.series[k] == nil {
			d.New = append(d.New, Only{k.kind, k.name, sb.count})
		}
	}
	if both.operators {
		d.operators(inA.ops, inB.ops, bySteps)
	}
	order := func(x, y Only) int { // operators, kernels, graphs, functions, copies
		return cmp.Or(-cmp.Compare(x.Kind, y.Kind), cmp.Compare(y.Count, x.Count), cmp.Compare(x.Name, y.Name))
	}
	slices.SortFunc(d.New, order)
	slices.SortFunc(d.Gone, order)
	whole := float64(d.A.Steps.P50NS)
	d.judge(d.Parts, whole)
	d.judge(d.Changes, whole)
	d.sum()
	d.Cause = d.cause(inA, inB)
	return d, nil
}

// judge sets the verdicts on a list. whole is a step's duration, 0 without steps.
func (d *Diff) judge(list []Change, whole float64) {
	var tested []*Change
	for i := range list {
		c := &list[i]
		c.P, c.Verdict = 1, Same
		diff := c.B.MedianNS - c.A.MedianNS
		if c.A.MedianNS > 0 {
			c.Change = diff / c.A.MedianNS
		}
		c.Often = c.A.counts[1] < c.B.counts[0] || c.B.counts[1] < c.A.counts[0]
		if diff == 0 || math.Abs(diff) < d.Threshold*c.A.MedianNS {
			continue
		}
		if c.A.N < Fewest || c.B.N < Fewest {
			c.Verdict = Few
			continue
		}
		if c.Verdict = Inconclusive; math.Abs(diff) < minor*whole {
			c.Verdict = Noise
		}
		c.P = probability(&c.A, &c.B)
		tested = append(tested, c)
	}
	// Benjamini and Hochberg: n is the largest k for which the k-th least probability is at most k/total times the rate.
	slices.SortFunc(tested, func(x, y *Change) int { return cmp.Compare(x.P, y.P) })
	n := len(tested)
	for n > 0 && tested[n-1].P > Falsely*float64(n)/float64(len(tested)) {
		n--
	}
	for _, c := range tested[:n] {
		diff := c.B.MedianNS - c.A.MedianNS
		if math.Abs(diff) < minor*whole {
			continue
		}
		if c.Verdict = Faster; diff > 0 {
			c.Verdict = Slower
		}
	}
	for i := range list {
		c := &list[i]
		switch {
		case !c.Often || c.Verdict == Slower || c.Verdict == Faster:
		case c.B.PerStep > c.A.PerStep:
			c.Verdict = More
		default:
			c.Verdict = Fewer
		}
	}
}

// sum orders the changes, and sums up the verdicts.
func (d *Diff) sum() {
	kinds := []string{"step", "kernel", "graph", inGraphs, "copy", "function"}
	slices.SortFunc(d.Changes, func(x, y Change) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, x.Kind), slices.Index(kinds, y.Kind)), cmp.Compare(math.Abs(y.B.MedianNS-y.A.MedianNS), math.Abs(x.B.MedianNS-x.A.MedianNS)),
			cmp.Compare(x.Name, y.Name))
	})
	d.Differs = len(d.New) > 0 || len(d.Gone) > 0
	for _, list := range [][]Change{d.Changes, d.Parts} {
		for i := range list {
			c := &list[i]
			if c.Verdict == Slower {
				d.SlowerCount++
			}
			d.Differs = d.Differs || c.Verdict == Slower || c.Verdict == Faster || c.Often
			if d.doubtful(c) {
				d.Doubts = append(d.Doubts, Doubt{c.Kind, c.Name, c.B.MedianNS > c.A.MedianNS})
			}
		}
	}
	switch d.Verdict = Equal; {
	case d.Differs:
		d.Verdict = Different
	case len(d.Doubts) > 0:
		d.Verdict = Unclear
	}
}

// Doubted reports whether a change is among the Doubts.
func (d *Diff) Doubted(c *Change) bool {
	return slices.ContainsFunc(d.Doubts, func(x Doubt) bool { return x.Kind == c.Kind && x.Name == c.Name })
}

// doubtful reports whether a change that was not shown to be one is as large as the threshold is of a step. Without steps, the samples' sum
// is compared with the run.
func (d *Diff) doubtful(c *Change) bool {
	if c.Verdict != Inconclusive && c.Verdict != Few {
		return false
	}
	diff, whole := math.Abs(c.B.MedianNS-c.A.MedianNS), float64(d.A.Steps.P50NS)
	if d.By != "steps" {
		diff, whole = diff*float64(c.count), float64(d.A.SpanNS)
	}
	return diff >= d.Threshold*whole
}

// cause returns the cause of a step that became slower or faster, nil if it did not.
func (d *Diff) cause(a, b *run) *Cause {
	if len(d.Changes) == 0 || d.Changes[0].Kind != "step" || d.Changes[0].Verdict != Slower && d.Changes[0].Verdict != Faster {
		return nil
	}
	by := func(c *Change) float64 { return c.B.MedianNS - c.A.MedianNS }
	out := &Cause{StepNS: int64(by(&d.Changes[0]))}
	sign := float64(1)
	if out.StepNS < 0 {
		sign = -1
	}
	most, of := 0.0, stats.Part(-1)
	for i, p := range d.Parts {
		if x := sign * by(&d.Parts[i]); x > most {
			most, of = x, stats.AllParts[slices.IndexFunc(stats.AllParts, func(q stats.Part) bool { return q.String() == p.Name })]
		}
	}
	if of < 0 {
		return out
	}
	out.Part, out.PartNS = of.String(), int64(sign*most)
	if of == stats.PartOwn || of == stats.PartBlocked {
		out.Gap = movedGap(a.split.Gaps(), b.split.Gaps(), sign, most)
		return out
	}
	kinds := map[stats.Part][]string{stats.PartWaiting: {"kernel", "graph"}, stats.PartCopying: {"copy"}}
	for _, kind := range append(kinds[of], "function") {
		for i := range d.Changes {
			c := &d.Changes[i]
			if c.Kind != kind || c.Verdict != Slower && c.Verdict != Faster || sign*by(c) <= sign*float64(out.NS) || of == stats.PartWaiting && kind != "function" && c.Metric != "device" ||
				kind == "function" && c.Name != b.split.Most(of) {
				continue
			}
			out.Kind, out.Name, out.NS = c.Kind, c.Name, int64(by(c))
		}
		if 2*math.Abs(float64(out.NS)) > most {
			return out
		}
		out.Kind, out.Name, out.NS = "", "", 0
	}
	return out
}

// placeOf returns a gap's place, without times.
func placeOf(g stats.Gap) stats.Gap { return stats.Gap{Before: g.Before, After: g.After, Func: g.Func} }

// movedGap returns the gap that changed most in the direction of sign, nil if that is not most of the change. Gaps are compared between the
// same functions at the same place of a step.
func movedGap(a, b []stats.Gap, sign, change float64) *stats.Gap {
	was := map[stats.Gap]int64{}
	for _, g := range a {
		was[placeOf(g)] = g.NS
	}
	var out *stats.Gap
	for _, g := range b {
		at := placeOf(g)
		now := g.NS - was[at]
		delete(was, at)
		g = at
		g.NS = now
		if sign*float64(now) > change/2 && (out == nil || sign*float64(now) > sign*float64(out.NS)) {
			out = &g
		}
	}
	for g, ns := range was { // gone in b
		if g.NS = -ns; sign*float64(g.NS) > change/2 && (out == nil || sign*float64(g.NS) > sign*float64(out.NS)) {
			out = &g
		}
	}
	return out
}
