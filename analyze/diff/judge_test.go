package diff

import (
	"math"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
)

// around returns n values around a center, which differ by up to 2%.
func around(center float64, n int) Sample {
	s := Sample{}
	for i := range n {
		s.values = append(s.values, center*(1+0.01*math.Sin(float64(7*i*i))))
	}
	return s.finish()
}

func constant(value float64, n int) Sample {
	return Sample{values: slices.Repeat([]float64{value}, n)}.finish()
}

// varies has a count in a step that depends on the time, as that of another thread's calls.
func varies(s Sample, from, perStep, to float64) Sample {
	s.PerStep, s.counts = perStep, [2]float64{from, to}
	return s
}

func often(s Sample, perStep float64) Sample {
	s.PerStep, s.counts = perStep, [2]float64{perStep, perStep}
	return s
}

// A verdict depends on the size of a change, on the number of samples, on the share of the step and on the count in a step.
func TestVerdictNeedsSizeAndSamples(t *testing.T) {
	for _, c := range []struct {
		name    string
		a, b    Sample
		verdict string
		often   bool
		tested  bool
	}{
		{"equal", around(1000, 40), around(1000, 40), Same, false, false},
		{"less than the threshold", constant(1000, 40), constant(1049, 40), Same, false, false},
		{"slower by the threshold", around(1000, 40), around(1060, 40), Slower, false, true},
		{"exactly the threshold", constant(1000, 40), constant(1050, 40), Slower, false, true},
		{"faster", around(1000, 40), around(930, 40), Faster, false, true},
		{"few in the first", around(1000, Fewest-1), around(2000, 40), Few, false, false},
		{"few in the second", around(1000, 40), around(2000, Fewest-1), Few, false, false},
		{"enough", around(1000, 12), around(2000, 12), Slower, false, true},
		{"too small for the step", around(100, 40), around(110, 40), Noise, false, true},
		{"as large as matters", around(1000, 40), around(900, 40), Faster, false, true},
		{"from nothing", constant(0, 40), around(500, 40), Slower, false, true},
		{"as often", often(around(1000, 40), 2), often(around(1000, 40), 2), Same, false, false},
		{"more often", often(around(1000, 40), 2), often(around(1010, 40), 3), More, true, false},
		{"less often", often(around(1000, 40), 3), often(around(1010, 40), 2), Fewer, true, false},
		{"as often as time allows", varies(around(1000, 40), 7, 8, 9), varies(around(1000, 40), 8, 9, 10), Same, false, false},
		{"more often than time explains", varies(around(1000, 40), 7, 8, 9), varies(around(1000, 40), 10, 11, 12), More, true, false},
		{"more often and slower", often(around(1000, 40), 2), often(around(1500, 40), 3), Slower, true, true},
		{"less often and faster", often(around(1500, 40), 3), often(around(1000, 40), 2), Faster, true, true},
		{"more often, with few samples", often(around(1000, 3), 2), often(around(1500, 3), 3), More, true, false},
	} {
		d := &Diff{Threshold: 0.05}
		list := []Change{{A: c.a, B: c.b}}
		d.judge(list, 20_000)
		got := &list[0]
		if got.Verdict != c.verdict || got.Often != c.often || (got.P < 1) != (c.tested && c.verdict != Inconclusive) {
			t.Errorf("%s: %s, often %v, p %g; want %s, %v", c.name, got.Verdict, got.Often, got.P, c.verdict, c.often)
		}
		change := 0.0
		if c.a.MedianNS > 0 {
			change = (c.b.MedianNS - c.a.MedianNS) / c.a.MedianNS
		}
		if got.Change != change {
			t.Errorf("%s: change %g, want %g", c.name, got.Change, change)
		}
	}
}

// Among many equal changes, one that is just significant alone is not.
func TestFalseDiscoveries(t *testing.T) {
	weak := func() Change { // p is about 0.0006
		a, b := around(1000, 7), around(1060, 7)
		return Change{A: a, B: b}
	}
	d := &Diff{Threshold: 0.001}
	one := []Change{weak()}
	d.judge(one, 1000)
	if one[0].Verdict != Slower {
		t.Fatalf("alone: %s, p %g", one[0].Verdict, one[0].P)
	}
	var many []Change
	for i := range 20 {
		a := around(1000, 40)
		b := Sample{values: append(slices.Clone(a.values[20:]), a.values[:20]...)}
		b.values[i] += 5
		for k := range b.values {
			b.values[k] += 2
		}
		many = append(many, Change{A: a, B: b.finish()})
	}
	many = append(many, weak())
	d.judge(many, 1000)
	for i, c := range many {
		if c.Verdict == Slower || c.Verdict == Faster {
			t.Errorf("change %d of %d: %s, p %g", i, len(many), c.Verdict, c.P)
		}
	}
	// Many true ones are found, all together.
	for i := range many {
		many[i] = weak()
	}
	d.judge(many, 1000)
	for i, c := range many {
		if c.Verdict != Slower {
			t.Errorf("change %d of %d: %s, p %g", i, len(many), c.Verdict, c.P)
		}
	}
}

// The sum of the verdicts: a difference, a doubt that is as large as the threshold is of a step, or neither.
func TestVerdictsAreSummedUp(t *testing.T) {
	change := func(kind, name, verdict string, by float64) Change {
		return Change{Kind: kind, Name: name, Verdict: verdict, A: Sample{MedianNS: 1000}, B: Sample{MedianNS: 1000 + by}, count: 10}
	}
	base := func() *Diff {
		d := &Diff{By: "steps", Threshold: 0.05}
		d.A.Steps.P50NS, d.A.SpanNS = 2000, 20_000
		return d
	}
	for _, c := range []struct {
		name    string
		change  Change
		launch  bool // by launches
		verdict string
		differs bool
		slower  int
		doubted bool
	}{
		{"same", change("kernel", "k", Same, 500), false, Equal, false, 0, false},
		{"noise", change("kernel", "k", Noise, 500), false, Equal, false, 0, false},
		{"slower", change("kernel", "k", Slower, 1), false, Different, true, 1, false},
		{"faster", change("kernel", "k", Faster, -1), false, Different, true, 0, false},
		{"inconclusive", change("kernel", "k", Inconclusive, 100), false, Unclear, false, 0, true},
		{"inconclusive, faster", change("kernel", "k", Inconclusive, -100), false, Unclear, false, 0, true},
		{"few", change("kernel", "k", Few, 100), false, Unclear, false, 0, true},
		{"inconclusive, small", change("kernel", "k", Inconclusive, 99), false, Equal, false, 0, false},
		{"inconclusive, of launches", change("kernel", "k", Inconclusive, 100), true, Unclear, false, 0, true},
		{"inconclusive, of launches, small", change("kernel", "k", Inconclusive, 99), true, Equal, false, 0, false},
	} {
		for _, part := range []bool{false, true} {
			d := base()
			if c.launch {
				d.By = "launches"
			}
			if d.Changes = []Change{c.change}; part {
				d.Parts, d.Changes = d.Changes, nil
			}
			d.sum()
			if d.Verdict != c.verdict || d.Differs != c.differs || d.SlowerCount != c.slower || d.Doubted(&c.change) != c.doubted {
				t.Errorf("%s: %s, differs %v, %d slower, doubts %v", c.name, d.Verdict, d.Differs, d.SlowerCount, d.Doubts)
			}
			if c.doubted && d.Doubts[0] != (Doubt{"kernel", "k", c.change.B.MedianNS > 1000}) {
				t.Errorf("%s: %+v", c.name, d.Doubts)
			}
		}
	}
	for name, d := range map[string]*Diff{"new": {New: []Only{{}}}, "gone": {Gone: []Only{{}}}, "often": {Changes: []Change{{Often: true, Verdict: More}}}} {
		if d.sum(); d.Verdict != Different || !d.Differs {
			t.Errorf("%s: %s", name, d.Verdict)
		}
	}
	d := base()
	d.Changes = []Change{change("function", "f", Same, 900), change("copy", "c", Same, 5), change("kernel", "b", Same, -7), change("kernel", "a", Same, 7), change("kernel", "big", Same, -8),
		change("kernel in graphs", "g", Same, 0), change("graph", "g", Same, 0), change("step", "", Same, 0)}
	d.sum()
	var names []string
	for _, c := range d.Changes {
		names = append(names, c.Kind+" "+c.Name)
	}
	if want := []string{"step ", "kernel big", "kernel a", "kernel b", "graph g", "kernel in graphs g", "copy c", "function f"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	// Regression: doubts had a random order, and the text named any of them as the first.
	d = base()
	d.Changes = []Change{change("function", "f", Few, 900), change("kernel", "small", Inconclusive, 300), change("kernel", "big", Inconclusive, 400)}
	if d.sum(); !slices.Equal(d.Doubts, []Doubt{{"kernel", "big", true}, {"kernel", "small", true}, {"function", "f", true}}) {
		t.Errorf("doubts %v", d.Doubts)
	}
	if other := (&Change{Kind: "copy", Name: "k"}); (&Diff{Doubts: []Doubt{{Kind: "kernel", Name: "k"}}}).Doubted(other) {
		t.Error("a change of another kind is doubted")
	}
}

// Without steps, samples are medians of launches that follow each other. Steps have their own.
func TestSamplesOfStepsAndLaunches(t *testing.T) {
	of := func(n int) *series {
		s := &series{count: uint64(n), bytes: uint64(n * 100)}
		for i := range n {
			s.host.Add(float64(i))
			s.device.Add(float64(2 * i))
		}
		return s
	}
	for _, c := range []struct {
		n, samples int
		median     float64
	}{{1, 1, 0}, {32, 32, 15}, {33, 16, 14}, {64, 32, 30}, {65, 21, 31}, {96, 32, 46}} {
		s := of(c.n).sample(false, false)
		if s.N != c.samples || s.MedianNS != c.median || s.PerStep != 0 || s.BytesEach != 100 {
			t.Errorf("%d launches: %d samples, median %g, want %d and %g", c.n, s.N, s.MedianNS, c.samples, c.median)
		}
		if d := of(c.n).sample(false, true); d.MedianNS != 2*c.median || d.N != c.samples {
			t.Errorf("%d launches: median %g on the device", c.n, d.MedianNS)
		}
	}
	s := of(3)
	for i := range 5 {
		s.hosts.Add(float64(10 + i))
		s.devices.Add(float64(20 + i))
		s.of.Add(float64(i % 2))
	}
	if a, b := s.sample(true, false), s.sample(true, true); a.MedianNS != 12 || b.MedianNS != 22 || a.PerStep != 0 || a.N != 5 || a.Q1NS != 11 || a.Q3NS != 13 {
		t.Errorf("%+v, %+v", a, b)
	}
	if got := parts([]float64{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7}).Xs; !slices.Equal(got, []float64{1, 3, 4, 6, 7}) && len(got) > 6 {
		t.Errorf("parts %v", got)
	}
	if got := parts([]float64{6, 5, 4, 3, 2, 1, 6, 5, 4, 3, 2, 1}).Xs; !slices.Equal(got, []float64{5, 3, 1, 5, 3, 1}) {
		t.Errorf("parts %v", got)
	}
}

// The probability is that of the test that doubts more, and 1 for equal values.
func TestDoubtingTestGivesTheProbability(t *testing.T) {
	a, b := around(1000, 40), around(1100, 40)
	if p := probability(&a, &b); p <= 0 || p > 1e-4 {
		t.Errorf("p %g of runs that differ", p)
	}
	if p := probability(&a, &a); p < 0.5 || p > 1 {
		t.Errorf("p %g of a run and itself", p)
	}
	c, d := constant(5, 20), constant(5, 20)
	if p := probability(&c, &d); p != 1 {
		t.Errorf("p %g of equal values", p)
	}
	// A run with slow and fast phases: its samples differ clearly, but its parts do not.
	slow, fast := Sample{}, Sample{}
	for i := range 60 {
		slow.values = append(slow.values, float64(1000+300*(i/10%2)+i%10))
		fast.values = append(fast.values, float64(900+300*(i/10%2)+i%10))
	}
	if p := probability(&slow, &fast); p < 0.05 {
		t.Errorf("p %g of runs with phases", p)
	}
}

// The gap that moved most explains a change if it is most of it, and if it moved in the same direction.
func TestMovedGap(t *testing.T) {
	gap := func(before int, after string, ns int64) stats.Gap {
		return stats.Gap{Before: before, After: after, NS: ns}
	}
	for _, c := range []struct {
		name         string
		a, b         []stats.Gap
		sign, change float64
		want         *stats.Gap
	}{
		{"nothing", nil, nil, 1, 100, nil},
		{"longer", []stats.Gap{gap(1, "y", 10), gap(2, "z", 10)}, []stats.Gap{gap(1, "y", 20), gap(2, "z", 90)}, 1, 100, &stats.Gap{Before: 2, After: "z", NS: 80}},
		{"shorter", []stats.Gap{gap(1, "y", 100), gap(2, "z", 10)}, []stats.Gap{gap(1, "y", 20), gap(2, "z", 90)}, -1, 100, &stats.Gap{Before: 1, After: "y", NS: -80}},
		{"half is not most", []stats.Gap{gap(1, "y", 10)}, []stats.Gap{gap(1, "y", 60)}, 1, 100, nil},
		{"the other direction", []stats.Gap{gap(1, "y", 100)}, []stats.Gap{gap(1, "y", 10)}, 1, 100, nil},
		{"new", nil, []stats.Gap{gap(1, "y", 60), gap(4, "q", 55)}, 1, 100, &stats.Gap{Before: 1, After: "y", NS: 60}},
		{"gone", []stats.Gap{gap(1, "y", 60)}, []stats.Gap{gap(4, "q", 1)}, -1, 100, &stats.Gap{Before: 1, After: "y", NS: -60}},
		{"gone, in the other direction", []stats.Gap{gap(1, "y", 60)}, nil, 1, 100, nil},
		{"gone, less than another", []stats.Gap{gap(1, "y", 60), gap(4, "q", 80)}, []stats.Gap{gap(4, "q", 10)}, -1, 100, &stats.Gap{Before: 4, After: "q", NS: -70}},
		{"gone, more than another", []stats.Gap{gap(1, "y", 75), gap(4, "q", 80)}, []stats.Gap{gap(4, "q", 10)}, -1, 100, &stats.Gap{Before: 1, After: "y", NS: -75}},
	} {
		got := movedGap(c.a, c.b, c.sign, c.change)
		if (got == nil) != (c.want == nil) || got != nil && (got.Before != c.want.Before || got.After != c.want.After || got.NS != c.want.NS) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A step's cause is the part that changed most in its direction, and the kernel or copy that makes up most of it.
func TestCauseOfStep(t *testing.T) {
	by := func(kind, name, verdict string, ns float64) Change {
		return Change{Kind: kind, Name: name, Metric: "device", Verdict: verdict, A: Sample{MedianNS: 1000}, B: Sample{MedianNS: 1000 + ns}}
	}
	waiting, copying := stats.PartWaiting.String(), stats.PartCopying.String()
	for _, c := range []struct {
		name           string
		changes, parts []Change
		want           *Cause
	}{
		{"no step", nil, nil, nil},
		{"another kind first", []Change{by("kernel", "k", Slower, 9)}, nil, nil},
		{"the step is the same", []Change{by("step", "", Same, 9)}, nil, nil},
		{"no part", []Change{by("step", "", Slower, 9)}, []Change{by("part", waiting, Same, 0)}, &Cause{StepNS: 9}},
		{"parts of the other direction", []Change{by("step", "", Slower, 9)}, []Change{by("part", waiting, Faster, -50)}, &Cause{StepNS: 9}},
		{"a slower kernel", []Change{by("step", "", Slower, 100), by("kernel", "small", Slower, 20), by("kernel", "big", Slower, 80), by("kernel", "other", Faster, -900), by("kernel", "same", Same, 90)},
			[]Change{by("part", copying, Slower, 30), by("part", waiting, Slower, 90)}, &Cause{StepNS: 100, Part: waiting, PartNS: 90, Kind: "kernel", Name: "big", NS: 80}},
		{"a faster graph", []Change{by("step", "", Faster, -100), by("graph", "g", Faster, -60), by("kernel", "k", Slower, 70), by("kernel", "f", Faster, -10)},
			[]Change{by("part", copying, Slower, 300), by("part", waiting, Faster, -90)}, &Cause{StepNS: -100, Part: waiting, PartNS: -90, Kind: "graph", Name: "g", NS: -60}},
		{"a slower copy", []Change{by("step", "", Slower, 100), by("kernel", "k", Slower, 80), by("copy", "host to device", Slower, 46)},
			[]Change{by("part", copying, Slower, 90)}, &Cause{StepNS: 100, Part: copying, PartNS: 90, Kind: "copy", Name: "host to device", NS: 46}},
	} {
		d := &Diff{Changes: c.changes, Parts: c.parts}
		got := d.cause(&run{}, &run{})
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
