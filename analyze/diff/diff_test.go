package diff_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// run is a program whose kernels take 10 us, with device noise: launches vary, a few take long, and all drift together.
// factor is a kernel's relative duration: 0 norm, 1 matmul, 2 add.
func run(t *testing.T, seed uint64, steps int, factor func(kernel int) float64) *timeline.Timeline {
	r := rand.New(rand.NewPCG(seed, 7))
	drift := 0.0
	return testtrace.Steps(t, steps, 12, func(_, launch int) int64 {
		drift = 0.98*drift + 0.004*r.NormFloat64()
		v := 10_000 * factor(launch%3) * math.Exp(0.03*r.NormFloat64()+drift)
		if r.IntN(50) == 0 {
			v *= 1 + 3*r.Float64()
		}
		return int64(v)
	})
}

func compare(t *testing.T, a, b *timeline.Timeline, o *diff.Options) *diff.Diff {
	t.Helper()
	d, err := diff.New(a.Reader, b.Reader, acl.Model, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func level(int) float64 { return 1 }

func verdicts(d *diff.Diff, which ...string) []string {
	var out []string
	for _, c := range d.Changes {
		if slices.Contains(which, c.Verdict) {
			out = append(out, strings.TrimSpace(c.Kind+" "+c.Name))
		}
	}
	return out
}

// TestNoiseIsNoDifference compares one program's runs.
func TestNoiseIsNoDifference(t *testing.T) {
	unclear := 0
	defer func() {
		if unclear > 10 {
			t.Errorf("%d of 40 pairs are inconclusive", unclear)
		}
	}()
	for seed := range uint64(40) {
		d := compare(t, run(t, 2*seed, 30, level), run(t, 2*seed+1, 40, level), &diff.Options{Threshold: 0.03})
		if d.Differs || d.Verdict == diff.Different {
			t.Errorf("seed %d: %q differ", seed, verdicts(d, diff.Slower, diff.Faster))
		}
		if d.Verdict == diff.Unclear {
			unclear++
		}
		if d.By != "steps" || d.A.Steps.Count != 30 || d.B.Steps.Count != 40 {
			t.Fatalf("%+v", d)
		}
	}
}

// TestASlowKernelIsFound makes one kernel 10% slower.
func TestASlowKernelIsFound(t *testing.T) {
	slow := func(k int) float64 { return []float64{1, 1.1, 1}[k] }
	found := 0
	for seed := range uint64(20) {
		a, b := run(t, 100+2*seed, 30, level), run(t, 101+2*seed, 30, slow)
		d := compare(t, a, b, nil)
		got := verdicts(d, diff.Slower, diff.Faster)
		if slices.Contains(got, "kernel matmul") {
			found++
		}
		for _, x := range got {
			if x != "kernel matmul" && x != "step" {
				t.Errorf("seed %d: %s differs", seed, x)
			}
		}
	}
	if found < 18 {
		t.Errorf("found in %d of 20 pairs", found)
	}
	a, b := run(t, 1, 30, level), run(t, 2, 30, slow)
	d := compare(t, b, a, nil)
	if got := verdicts(d, diff.Faster); !d.Differs || d.SlowerCount != 0 || !slices.Contains(got, "kernel matmul") {
		t.Errorf("the other way: %q, %+v", got, d)
	}
	if d := compare(t, a, b, &diff.Options{Threshold: 0.2}); d.Differs {
		t.Errorf("below the threshold: %+v", d)
	}
	d = compare(t, a, b, nil)
	d.A.Path, d.B.Path = "a.aclt", "b.aclt"
	var text bytes.Buffer
	if err := report.DiffText(&text, d, true, nil); err != nil {
		t.Fatal(err)
	}
	testenv.Golden(t, "diff.txtar", "diff", text.String())
	for _, l := range strings.Split(text.String(), "\n") {
		if len(l) > 120 {
			t.Errorf("%d columns: %s", len(l), l)
		}
	}
}

// The runs differ in their first ten steps: matmul is slow there.
func TestSelectedStepsAreCompared(t *testing.T) {
	warm := func(seed uint64, factor float64) *timeline.Timeline {
		r := rand.New(rand.NewPCG(seed, 7))
		return testtrace.Steps(t, 30, 12, func(step, launch int) int64 {
			v := 10_000 * math.Exp(0.01*r.NormFloat64())
			if step < 10 && launch%3 == 1 {
				v *= factor
			}
			return int64(v)
		})
	}
	numbers := func(s string) *human.Numbers {
		n, err := human.ParseNumbers(s)
		if err != nil {
			t.Fatal(err)
		}
		return &n
	}
	a, b := warm(1, 1), warm(2, 1.5)
	perStep, until := uint64(12+3), b.Calls[10+10*15].Start // ten calls precede the steps
	for _, x := range []struct {
		name         string
		sel          timeline.Selection
		steps, calls int
		step         bool // the step is compared
		want         []string
	}{
		{"steps that differ", timeline.Selection{Steps: numbers("0:9")}, 10, 150, true, []string{"step", "kernel matmul"}},
		{"other steps", timeline.Selection{Steps: numbers("10:29")}, 20, 300, true, nil},
		// Steps 0 and 10 are cut in B.
		{"window", timeline.Selection{From: 20_000, To: until + 10_000}, 9, 0, true, []string{"step", "kernel matmul"}},
		{"calls", timeline.Selection{Calls: numbers("10:159")}, 10, 150, false, []string{"kernel matmul"}},
		{"kernel that differs", timeline.Selection{Steps: numbers("0:9"), Kernels: []string{"mat*"}}, 10, 40, false, []string{"kernel matmul"}},
		{"other kernel", timeline.Selection{Steps: numbers("0:9"), Kernels: []string{"norm"}}, 10, 40, false, nil},
		{"calls of no step", timeline.Selection{Funcs: []string{"aclrtMalloc"}}, 30, 2, false, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			d := compare(t, a, b, &diff.Options{Select: &x.sel})
			if got := verdicts(d, diff.Slower, diff.Faster, diff.More, diff.Fewer); !slices.Equal(got, x.want) || len(d.New)+len(d.Gone) > 0 {
				t.Errorf("%q differ, %v new, %v gone", got, d.New, d.Gone)
			}
			if d.B.Steps.Count != x.steps || d.By != "steps" || d.B.CallsOf != uint64(len(b.Calls)) || x.calls != 0 && d.B.Calls != uint64(x.calls) {
				t.Errorf("%+v by %s", d.B, d.By)
			}
			if step := len(d.Changes) > 0 && d.Changes[0].Kind == "step"; step != x.step || len(d.Parts) > 0 != x.step {
				t.Errorf("step compared: %t, %d parts", step, len(d.Parts))
			}
			if d.Selection != x.sel.String() {
				t.Errorf("selection %s", d.Selection)
			}
			for i := range d.Changes {
				if c := &d.Changes[i]; c.Name == "matmul" && (c.A.PerStep != 4 || c.A.N != d.A.Steps.Typical) {
					t.Errorf("matmul %v times in %d steps", c.A.PerStep, c.A.N)
				}
			}
		})
	}
	d := compare(t, a, b, &diff.Options{Select: &timeline.Selection{Steps: numbers("0:5"), Kernels: []string{"mat*"}}})
	var text bytes.Buffer
	if err := report.DiffText(&text, d, false, nil); err != nil || !strings.HasPrefix(text.String(), "inconclusive: too few steps for a verdict: 6 and 6, want at least 7\n") {
		t.Errorf("%v, %s", err, &text)
	}
	if uint64(len(a.Calls)) != 10+30*perStep {
		t.Errorf("%d calls", len(a.Calls))
	}
	if _, err := diff.New(a.Reader, b.Reader, acl.Model, &diff.Options{Select: &timeline.Selection{Steps: numbers("30")}}); err == nil || !strings.HasPrefix(err.Error(), a.Reader.Path()+": no step 30") {
		t.Error(err)
	}
}

func TestFewStepsTellNothing(t *testing.T) {
	d := compare(t, run(t, 1, 4, level), run(t, 2, 4, func(int) float64 { return 2 }), nil)
	if d.Differs || d.Verdict != diff.Unclear || !slices.Contains(verdicts(d, diff.Few), "kernel matmul") {
		t.Errorf("%+v", d.Changes)
	}
}

// TestOneMedian has an even step count, below and above sample.Max. stats and diff report the same median.
func TestOneMedian(t *testing.T) {
	for _, steps := range []int{30, 1500} {
		a := run(t, 1, steps, level)
		s, err := stats.New(a.Reader, acl.Model, nil)
		if err != nil {
			t.Fatal(err)
		}
		d := compare(t, a, a, nil)
		if c := d.Changes[0]; c.Kind != "step" || s.Steps.P50NS == 0 || c.A.MedianNS != float64(s.Steps.P50NS) {
			t.Errorf("%d steps: %+v, and %+v", steps, c, s.Steps)
		}
	}
}

func TestSameRun(t *testing.T) {
	a := run(t, 1, 30, level)
	if d := compare(t, a, a, nil); d.Differs || len(verdicts(d, diff.Same)) != len(d.Changes) {
		t.Errorf("%+v", d)
	}
}

// TestNewAndGone compares two programs without steps.
func TestNewAndGone(t *testing.T) {
	d := compare(t, testtrace.Small(t), testtrace.Deep(t), nil)
	if d.By != "launches" || !d.Differs || !slices.Contains(d.New, diff.Only{Kind: "kernel", Name: "Add<1>", Count: 3}) ||
		!slices.Contains(d.Gone, diff.Only{Kind: "kernel", Name: "MatMul \"é\"\n", Count: 2}) || !slices.Contains(d.Gone, diff.Only{Kind: "copy", Name: "DtoD", Count: 1}) {
		t.Errorf("%+v", d)
	}
}

// TestMoreLaunches has steps with more launches.
func TestMoreLaunches(t *testing.T) {
	time := func(_, _ int) int64 { return 10_000 }
	d := compare(t, testtrace.Steps(t, 10, 12, time), testtrace.Steps(t, 10, 15, time), nil)
	i := slices.IndexFunc(d.Changes, func(c diff.Change) bool { return c.Name == "matmul" })
	if c := d.Changes[i]; !d.Differs || !c.Often || c.A.PerStep != 4 || c.B.PerStep != 5 || c.Verdict != diff.Slower || c.Change != 0.25 {
		t.Errorf("%+v", c)
	}
}

// training has 30 steps of a launch, the program itself, a copy to the host and a wait. Each varies by up to 5%.
func training(t *testing.T, seed uint64, own, copying, waiting int64, copies int) *timeline.Timeline {
	return trainingOf(t, seed, own, copying, waiting, copies, 4096, 1)
}

func trainingOf(t *testing.T, seed uint64, own, copying, waiting int64, copies int, bytes uint64, waits int) *timeline.Timeline {
	r := rand.New(rand.NewPCG(seed, 3))
	about := func(ns int64) int64 { return ns + r.Int64N(max(ns/20, 1)) }
	b := testtrace.New(t)
	now := int64(1_000)
	for range 30 {
		call := func(took int64, name string, args []uint64) {
			b.Call(0, now, now+took, name, args)
			now += took
		}
		call(about(5_000), "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
		now += about(own)
		for range copies {
			call(about(copying), "aclrtMemcpy", testtrace.A(testtrace.HostA, bytes, testtrace.DeviceA, bytes, 2))
		}
		for range waits {
			call(about(waiting), "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		}
	}
	return b.Load()
}

// One part of the step gets slower, and is named with its place.
func TestSlowerPartIsNamed(t *testing.T) {
	base := func(seed uint64) *timeline.Timeline { return training(t, seed, 100_000, 50_000, 200_000, 1) }
	for _, c := range []struct {
		name  string
		b     *timeline.Timeline
		cause diff.Cause
		says  string
	}{
		{"own time", training(t, 2, 400_000, 50_000, 200_000, 1), diff.Cause{Part: "own_time", Gap: &stats.Gap{Before: 2, After: "aclrtLaunchKernel", Func: "aclrtMemcpy"}},
			"slower (.*): own time \\+3.. us between aclrtLaunchKernel and aclrtMemcpy in each step\n"},
		{"waiting", training(t, 2, 100_000, 50_000, 500_000, 1), diff.Cause{Part: "waiting", Kind: "function", Name: "aclrtSynchronizeStream"}, "slower (.*): waiting \\+3.. us\n"},
		{"copying", training(t, 2, 100_000, 50_000, 200_000, 4), diff.Cause{Part: "copying", Kind: "copy", Name: "DtoH"}, "slower (.*): copying \\+1.. us, copy DtoH \\+1.. us, 4 times a step \\(was 1\\)\n"},
		{"larger copies", trainingOf(t, 2, 100_000, 200_000, 200_000, 1, 16384, 1), diff.Cause{Part: "copying", Kind: "copy", Name: "DtoH"}, "copy DtoH \\+1.. us, 16 KiB each \\(was 4 KiB\\)\n"},
		{"more waits", trainingOf(t, 2, 100_000, 50_000, 200_000, 1, 4096, 2), diff.Cause{Part: "waiting", Kind: "function", Name: "aclrtSynchronizeStream"}, "waiting \\+2.. us, aclrtSynchronizeStream 2 times a step \\(was 1\\)\n"},
		{"faster", training(t, 2, 100_000, 50_000, 50_000, 1), diff.Cause{Part: "waiting", Kind: "function", Name: "aclrtSynchronizeStream"}, "step 1.. us faster (.*): waiting -1.. us\n"},
	} {
		d := compare(t, base(1), c.b, nil)
		if !d.Differs || d.Cause == nil {
			t.Errorf("%s: no cause in %+v", c.name, d.Changes)
			continue
		}
		got := *d.Cause
		if got.StepNS == 0 || got.PartNS == 0 || (got.PartNS > 0) != (got.StepNS > 0) {
			t.Errorf("%s: %+v", c.name, got)
		}
		if got.StepNS, got.PartNS, got.NS = 0, 0, 0; got.Gap != nil {
			got.Gap = &stats.Gap{Before: got.Gap.Before, After: got.Gap.After, Func: got.Gap.Func}
		}
		if (got.Gap == nil) != (c.cause.Gap == nil) || got.Gap != nil && *got.Gap != *c.cause.Gap || got.Part != c.cause.Part || got.Kind != c.cause.Kind || got.Name != c.cause.Name {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.cause)
		}
		if len(d.Parts) != len(stats.AllParts) {
			t.Errorf("%s: parts %+v", c.name, d.Parts)
		}
		d = compare(t, base(1), c.b, nil)
		var text bytes.Buffer
		if err := report.DiffText(&text, d, false, nil); err != nil || !regexp.MustCompile(c.says).MatchString(text.String()) {
			t.Errorf("%s: %v, want %q in\n%s", c.name, err, c.says, &text)
		}
		// Only kernels can explain the wait, and they have no times.
		if advised := strings.Contains(text.String(), "The kernels have no device times"); advised != (c.name == "waiting" || c.name == "faster") {
			t.Errorf("%s: advice %v in\n%s", c.name, advised, &text)
		}
	}
	if d := compare(t, base(1), base(2), nil); d.Cause != nil || d.Differs {
		t.Errorf("%+v", d)
	}
}

// A call that a step made more often had the verdict "same", and still the runs differed.
func TestVerdictOnCounts(t *testing.T) {
	a, b := training(t, 1, 1_000_000, 100, 1_000_000, 2), training(t, 2, 1_000_000, 100, 1_000_000, 3)
	for _, c := range []struct {
		a, b *timeline.Timeline
		want string
		says string
	}{{a, b, diff.More, "aclrtMemcpy 3 times a step (was 2)"}, {b, a, diff.Fewer, "aclrtMemcpy 2 times a step (was 3)"}} {
		d := compare(t, c.a, c.b, nil)
		at := slices.IndexFunc(d.Changes, func(x diff.Change) bool { return x.Name == "aclrtMemcpy" })
		var text bytes.Buffer
		if err := report.DiffText(&text, d, false, nil); err != nil || d.Changes[at].Verdict != c.want || !d.Differs || !strings.Contains(text.String(), c.says) || strings.Contains(text.String(), "same") {
			t.Errorf("%v %+v\n%s", err, d.Changes[at], &text)
		}
	}
}

// Runs that differ by milliseconds a step had "no significant difference" and exit code 0, since other work on the machine made the steps vary.
func TestLargeChangeThatMayBeChanceIsInconclusive(t *testing.T) {
	loaded := func(seed uint64, own int64) *timeline.Timeline {
		r := rand.New(rand.NewPCG(seed, 3))
		b := testtrace.New(t)
		now := int64(1_000)
		for i := range 30 {
			b.Call(0, now, now+5_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
			now += 5_000 + own
			if i/10 == int(seed%3) { // another program runs meanwhile
				now += 30_000_000 + r.Int64N(30_000_000)
			}
			b.Call(0, now, now+200_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
			now += 200_000
		}
		return b.Load()
	}
	d := compare(t, loaded(1, 8_000_000), loaded(2, 12_000_000), nil)
	step := d.Changes[0]
	if d.Differs || d.Verdict != diff.Unclear || step.Kind != "step" || step.Verdict != diff.Inconclusive || !d.Doubts[0].Slower {
		t.Errorf("%s, %+v", d.Verdict, step)
	}
	var text bytes.Buffer
	if err := report.DiffText(&text, d, false, nil); err != nil || !strings.HasPrefix(text.String(), "inconclusive: step went from 8.") || strings.Contains(text.String(), "no significant") {
		t.Errorf("%v, %s", err, &text)
	}
	for _, row := range []string{"inconclusive  step", "inconclusive    own time"} {
		if !strings.Contains(text.String(), row) {
			t.Errorf("no %q in\n%s", row, &text)
		}
	}
}

// The table said "own time slower", and the first line "no significant difference".
func TestPartThatChangesIsADifference(t *testing.T) {
	d := compare(t, training(t, 1, 100_000, 50_000, 300_000, 1), training(t, 2, 200_000, 50_000, 200_000, 1), nil)
	at := slices.IndexFunc(d.Parts, func(c diff.Change) bool { return c.Name == "own_time" })
	d.Changes = d.Changes[:1] // the functions change too
	if d.Changes[0].Verdict == diff.Slower || d.Parts[at].Verdict != diff.Slower || !d.Differs || d.SlowerCount != 1 {
		t.Errorf("%+v, %+v", d.Changes[0], d.Parts[at])
	}
	var text bytes.Buffer
	if err := report.DiffText(&text, d, false, nil); err != nil || !strings.Contains(text.String(), "own time slower: ") {
		t.Errorf("%v, %s", err, &text)
	}
}
