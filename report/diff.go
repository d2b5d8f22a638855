package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/aclements/go-moremath/stats"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// DiffOptions change what NewDiff takes for a difference; nil stands for the zero value.
type DiffOptions struct {
	// Threshold is the least relative change of a median that counts, 0.05 when 0.
	Threshold float64
}

// Verdicts of a Change.
const (
	Slower = "slower"
	Faster = "faster"
	Same   = "same"  // the medians differ by less than the threshold
	Noise  = "noise" // they differ by more, as they do by accident, or too little to matter for the step
	Few    = "few"   // they differ by more, of too few samples to tell
)

const (
	// falsely is how many of the changes that are called slower or faster may be so by accident.
	falsely = 0.001
	// fewest samples can show a difference at all: of six, the least probability is 0.002.
	fewest = 7
	// minor is the part of a step, or of the run, below which no change matters.
	minor = 0.001
	// blocks is into how many samples a run is cut where there are no steps: neighbours in time are too alike to be samples of their own.
	blocks = 32
)

// Diff says what is different between two runs of a program, as `acltrace diff --json` prints it.
//
// Samples are the typical steps of each run: how long a step took, and how long all launches of a kernel, copies of a direction and
// calls of a function took in it. Where one of the runs has no steps they are single launches, or the medians of many that follow each
// other.
//
// A change counts where the medians differ by the threshold, that matters for the step, and two tests say so, one of the samples and one
// of six parts of each run, with the rate of false discoveries held at 0.1%.
type Diff struct {
	A           DiffRun `json:"a"`
	B           DiffRun `json:"b"`
	By          string  `json:"by"` // steps or launches
	Threshold   float64 `json:"threshold"`
	Differs     bool    `json:"differs"`      // something is slower, faster, new or gone, or is launched more or less often in a step
	SlowerCount int     `json:"slower_count"` // changes with the verdict slower
	// Changes are the step, the kernels, the directions of copies and the functions that both runs have, the largest change first.
	Changes []Change `json:"changes"`
	New     []Only   `json:"new"`
	Gone    []Only   `json:"gone"`
}

// DiffRun is one of the two runs.
type DiffRun struct {
	Path   string    `json:"path"`
	Calls  uint64    `json:"calls"`
	SpanNS int64     `json:"span_ns"`
	Steps  StepStats `json:"steps"`
}

// Only is what only one of the runs has.
type Only struct {
	Kind  string `json:"kind"` // kernel, copy or function
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// Change is one thing in both runs.
type Change struct {
	Kind   string `json:"kind"`   // step, kernel, copy or function
	Name   string `json:"name"`   // "" of the step
	Metric string `json:"metric"` // wall of a step, device where it was measured in both runs, host for the time of the calls
	A      Sample `json:"a"`
	B      Sample `json:"b"`
	// Change is that of the median, relative to A's: 0.1 is 10% more. It is 0 where A's is.
	Change  float64 `json:"change"`
	P       float64 `json:"p"` // of such a difference, or a larger one, by accident; 1 where nothing was tested
	Verdict string  `json:"verdict"`
	// Often says that it is done more or less often in a step.
	Often bool `json:"often,omitempty"`
}

// Sample is how long something took in one run, per step or per launch. Q1 and Q3 are the quarters around the median.
type Sample struct {
	N        int     `json:"n"`
	MedianNS float64 `json:"median_ns"`
	Q1NS     float64 `json:"q1_ns"`
	Q3NS     float64 `json:"q3_ns"`
	PerStep  float64 `json:"per_step"` // median of how often, 0 without steps

	values []float64 // in the order of time
}

type diffKey struct{ kind, name string }

// series is one thing in a run: when it was done, and for how long.
type series struct {
	step         []int // of each, -1 for none
	host, device []float64
	measured     bool // all of them
}

// gather returns what a run has done.
func gather(t *timeline.Timeline) map[diffKey]*series {
	steps := t.Steps()
	out := map[diffKey]*series{}
	add := func(k diffKey, step int, host, device float64, measured bool) {
		s := out[k]
		if s == nil {
			s = &series{measured: true}
			out[k] = s
		}
		s.step, s.host, s.device = append(s.step, step), append(s.host, host), append(s.device, device)
		s.measured = s.measured && measured
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		step, host := steps.At(c.Start), float64(c.End-c.Start)
		add(diffKey{"function", c.Name}, step, host, 0, false)
		if c.Task < 0 {
			continue
		}
		k := &t.Tasks[c.Task]
		switch k.Kind {
		case api.Kernel:
			add(diffKey{"kernel", k.Name}, step, host, float64(k.To-k.From), k.Measured)
		case api.Copy:
			add(diffKey{"copy", k.Direction()}, step, host, float64(k.To-k.From), k.Measured)
		}
	}
	return out
}

// sample sums a series up by typical steps, or by blocks where steps is nil.
func (s *series) sample(steps *timeline.Steps, device bool) Sample {
	values := s.host
	if device {
		values = s.device
	}
	var out Sample
	if steps == nil {
		n := max(1, (len(values)+blocks-1)/blocks)
		for part := range slices.Chunk(values, n) {
			if len(part) == n || len(out.values) == 0 {
				out.values = append(out.values, median(part))
			}
		}
		return out.finish()
	}
	sums, counts := make([]float64, len(steps.List)), make([]float64, len(steps.List))
	for i, step := range s.step {
		if step >= 0 {
			sums[step] += values[i]
			counts[step]++
		}
	}
	var often []float64
	for i := range steps.List {
		if steps.List[i].Typical {
			out.values = append(out.values, sums[i])
			often = append(often, counts[i])
		}
	}
	out.PerStep = median(often)
	return out.finish()
}

// quantile of values, which must be sorted.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func median(values []float64) float64 {
	s := slices.Clone(values)
	slices.Sort(s)
	return quantile(s, 0.5)
}

func (s Sample) finish() Sample {
	sorted := slices.Clone(s.values)
	slices.Sort(sorted)
	s.N, s.Q1NS, s.MedianNS, s.Q3NS = len(sorted), quantile(sorted, 0.25), quantile(sorted, 0.5), quantile(sorted, 0.75)
	return s
}

func diffRun(t *timeline.Timeline) DiffRun {
	var s Stats
	s.steps(t)
	r := DiffRun{Path: t.Reader.Path(), Calls: uint64(len(t.Calls)), Steps: s.Steps}
	if len(t.Calls) > 0 {
		r.SpanNS = t.End - t.Calls[0].Start
	}
	return r
}

// parts returns the medians of so many parts of a run, which are less alike than steps that follow each other: machines have slow times
// and fast times.
func parts(values []float64) stats.Sample {
	const most = 6
	var out []float64
	for part := range slices.Chunk(values, (len(values)+most-1)/most) {
		out = append(out, median(part))
	}
	return stats.Sample{Xs: out}
}

// probability returns that of such a difference by accident: the greater one of what a Mann-Whitney test of the samples says, which
// takes no shape of the noise for granted, and of Welch's test of the parts of the runs, which sees the runs' own ups and downs.
func probability(a, b *Sample) float64 {
	u, err := stats.MannWhitneyUTest(a.values, b.values, stats.LocationDiffers)
	if err != nil {
		return 1 // all values are equal
	}
	t, err := stats.TwoSampleWelchTTest(parts(a.values), parts(b.values), stats.LocationDiffers)
	if err != nil {
		return min(u.P, 1) // no ups and downs
	}
	return min(max(u.P, t.P), 1)
}

// NewDiff compares two runs.
func NewDiff(a, b *timeline.Timeline, o *DiffOptions) *Diff {
	d := &Diff{By: "steps", Threshold: 0.05, Changes: []Change{}, New: []Only{}, Gone: []Only{}}
	if o != nil && o.Threshold > 0 {
		d.Threshold = o.Threshold
	}
	d.A, d.B = diffRun(a), diffRun(b)
	stepsA, stepsB := a.Steps(), b.Steps()
	whole := float64(d.A.Steps.P50NS)
	if d.A.Steps.Typical == 0 || d.B.Steps.Typical == 0 {
		d.By, stepsA, stepsB = "launches", nil, nil
	} else {
		took := func(s *timeline.Steps) Sample {
			var out Sample
			for _, x := range s.List {
				if x.Typical {
					out.values = append(out.values, float64(x.To-x.From))
				}
			}
			return out.finish()
		}
		d.Changes = append(d.Changes, Change{Kind: "step", Metric: "wall", A: took(stepsA), B: took(stepsB)})
	}
	inA, inB := gather(a), gather(b)
	for k, sa := range inA {
		sb := inB[k]
		if sb == nil {
			d.Gone = append(d.Gone, Only{k.kind, k.name, uint64(len(sa.host))})
			continue
		}
		device := sa.measured && sb.measured
		c := Change{Kind: k.kind, Name: k.name, Metric: "host", A: sa.sample(stepsA, device), B: sb.sample(stepsB, device)}
		if device {
			c.Metric = "device"
		}
		if stepsA != nil && c.A.PerStep == 0 && c.B.PerStep == 0 && c.A.MedianNS == 0 && c.B.MedianNS == 0 {
			continue // done outside of steps
		}
		d.Changes = append(d.Changes, c)
	}
	for k, sb := range inB {
		if inA[k] == nil {
			d.New = append(d.New, Only{k.kind, k.name, uint64(len(sb.host))})
		}
	}
	order := func(x, y Only) int {
		return cmp.Or(-cmp.Compare(x.Kind, y.Kind), cmp.Compare(y.Count, x.Count), cmp.Compare(x.Name, y.Name))
	}
	slices.SortFunc(d.New, order)
	slices.SortFunc(d.Gone, order)
	d.judge(whole)
	return d
}

// judge gives each change its verdict. whole is how long a step takes, 0 without steps.
func (d *Diff) judge(whole float64) {
	var tested []*Change
	for i := range d.Changes {
		c := &d.Changes[i]
		c.P, c.Verdict = 1, Same
		diff := c.B.MedianNS - c.A.MedianNS
		if c.A.MedianNS > 0 {
			c.Change = diff / c.A.MedianNS
		}
		c.Often = c.A.PerStep != c.B.PerStep
		if diff == 0 || math.Abs(diff) < d.Threshold*c.A.MedianNS {
			continue
		}
		if c.A.N < fewest || c.B.N < fewest {
			c.Verdict = Few
			continue
		}
		c.Verdict = Noise
		c.P = probability(&c.A, &c.B)
		tested = append(tested, c)
	}
	// Benjamini and Hochberg: the largest k of which the k-th least probability is at most k/n of what may be false.
	slices.SortFunc(tested, func(x, y *Change) int { return cmp.Compare(x.P, y.P) })
	n := len(tested)
	for n > 0 && tested[n-1].P > falsely*float64(n)/float64(len(tested)) {
		n--
	}
	for _, c := range tested[:n] {
		diff := c.B.MedianNS - c.A.MedianNS
		if math.Abs(diff) < minor*whole {
			continue
		}
		if c.Verdict = Faster; diff > 0 {
			c.Verdict = Slower
			d.SlowerCount++
		}
	}
	d.Differs = len(d.New) > 0 || len(d.Gone) > 0
	for _, c := range d.Changes {
		d.Differs = d.Differs || c.Verdict == Slower || c.Verdict == Faster || c.Often
	}
	kinds := []string{"step", "kernel", "copy", "function"}
	slices.SortFunc(d.Changes, func(x, y Change) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, x.Kind), slices.Index(kinds, y.Kind)), cmp.Compare(math.Abs(y.B.MedianNS-y.A.MedianNS), math.Abs(x.B.MedianNS-x.A.MedianNS)),
			cmp.Compare(x.Name, y.Name))
	})
}

// Text writes the form for people.
func (d *Diff) Text(w io.Writer) error {
	run := func(name string, r *DiffRun) {
		fmt.Fprintf(w, "%s: %s: %s in %s", name, r.Path, plural(r.Calls, "call"), Duration(r.SpanNS))
		if r.Steps.Count > 0 {
			fmt.Fprintf(w, ", %d steps, %s, %d like most", r.Steps.Count, r.Steps.Source, r.Steps.Typical)
		}
		fmt.Fprintln(w)
	}
	run("A", &d.A)
	run("B", &d.B)
	if d.By == "launches" {
		fmt.Fprintln(w, "compared by launches: not both have steps")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	sample := func(s *Sample) string {
		return fmt.Sprintf("%s\t+-%s", Duration(int64(s.MedianNS)), Duration(int64(s.Q3NS-s.Q1NS)/2))
	}
	same, head := 0, false
	for i := range d.Changes {
		c := &d.Changes[i]
		if c.Verdict == Same && !c.Often && c.Kind != "step" {
			same++
			continue
		}
		if !head {
			head = true
			per := "step"
			if d.By == "launches" {
				per = "launch"
			}
			fmt.Fprintf(t, "\nA a %s\t\tB a %s\t\tchange\tp\tverdict\t  what\n", per, per)
		}
		what := c.Kind
		if c.Name != "" {
			what += " " + clip(c.Name)
		}
		if c.Kind != "step" && c.Metric == "host" && c.Kind != "function" {
			what += " (in the calls)"
		}
		if c.Often {
			what += fmt.Sprintf(", %g times rather than %g", c.B.PerStep, c.A.PerStep)
		}
		p := fmt.Sprintf("%.2g", c.P)
		if c.P < 1e-6 {
			p = "<1e-6"
		}
		fmt.Fprintf(t, "%s\t%s\t%+.1f%%\t%s\t%s\t  %s\n", sample(&c.A), sample(&c.B), 100*c.Change, p, c.Verdict, what)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if same > 0 {
		fmt.Fprintf(w, "(%d more within %g%%)\n", same, 100*d.Threshold)
	}
	only := func(title string, list []Only) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(w, "\n%s\n", title)
		for _, x := range list[:min(most, len(list))] {
			fmt.Fprintf(w, "  %s %s, %s\n", x.Kind, clip(x.Name), plural(x.Count, "time"))
		}
		rest(w, len(list), "of them")
	}
	only("only in B", d.New)
	only("only in A", d.Gone)
	if d.Differs {
		_, err := fmt.Fprintf(w, "\nthe runs differ\n")
		return err
	}
	_, err := fmt.Fprintf(w, "\nno difference beyond %g%% that noise does not explain\n", 100*d.Threshold)
	return err
}
