package whatif_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay/whatif"
	"github.com/acltrace/acltrace/sim/model"
)

// shapes runs the programs in testdata/shapes.c on the simulator.
type shapes struct {
	program, binary string
	clock           string // real or virtual
	rounds          string // of each
}

func newShapes(t testing.TB, clock, rounds string) *shapes {
	source := []string{"testdata/shapes.c"}
	t.Setenv("ACLSIM_KERNELS", testenv.CompileC(t, "shapes.so", source, "-DKERNELS", "-shared", "-fPIC"))
	return &shapes{testenv.CompileC(t, "shapes", source, "-Wl,-rpath,"+filepath.Join(testenv.Root(t), "lib")), testenv.CompileC(t, "shapes.o", source, "-DKERNELS", "-c", "-fPIC"), clock, rounds}
}

func (s *shapes) env(model string) []string {
	return append(os.Environ(), "ACLSIM_CLOCK="+s.clock, "ACLSIM_MODEL="+model)
}

// took runs a program and returns its duration on the simulator's clock.
func (s *shapes) took(t testing.TB, model string, seed int) int64 {
	t.Helper()
	c := exec.Command(s.program, s.binary, strconv.Itoa(seed), s.rounds)
	c.Env = s.env(model)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("program %d: %v", seed, err)
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// recorded records a program.
func (s *shapes) recorded(t testing.TB, model string, seed int, times bool) string {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	o := &record.Options{Model: acl.Model, Output: filepath.Join(t.TempDir(), "t.aclt"), Command: []string{s.program, s.binary, strconv.Itoa(seed), s.rounds}, Env: s.env(model), Sim: true, Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Capture: record.Capture{Payload: record.None},
		Stdin: null, Stdout: null}
	if times {
		o.Capture.DeviceTime = 1
	}
	res, err := record.Run(context.Background(), o)
	if err != nil || res.ExitCode != 0 || res.Lost > 0 {
		t.Fatalf("program %d: %v, %+v", seed, err, res)
	}
	return o.Output
}

// changes writes the models of changed devices. The first one is the recorded device.
func changes(t testing.TB) (names, files []string) {
	t.Helper()
	dir := t.TempDir()
	for _, c := range []struct {
		name   string
		change func(m *model.Model)
	}{
		{"recorded", func(*model.Model) {}},
		{"kernels 2x", func(m *model.Model) { scale(m, 2, 2) }},
		{"kernels 0.4x", func(m *model.Model) { scale(m, 0.4, 0.4) }},
		{"attention 3x", func(m *model.Model) { scale(m, 3, 1) }},
		{"copies 4x", func(m *model.Model) { copies(m, 4) }},
		{"copies 0.3x, norm 1.5x", func(m *model.Model) { copies(m, 0.3); scale(m, 1, 1.5) }},
		{"latency, overhead 5x", func(m *model.Model) { m.Launch.Latency *= 5; m.Launch.Overhead *= 5 }},
	} {
		m, err := model.Load("")
		if err != nil {
			t.Fatal(err)
		}
		m.Name = c.name
		c.change(m)
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, strconv.Itoa(len(files))+".json")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		names, files = append(names, c.name), append(files, path)
	}
	return names, files
}

func scale(m *model.Model, attention, norm float64) {
	rule := m.Kernels[len(m.Kernels)-1]
	a, n := rule, rule
	a.Name, a.Scale, n.Name, n.Scale = "attention", attention, "norm", norm
	m.Kernels = append([]model.Kernel{a, n}, m.Kernels...)
}

func copies(m *model.Model, by float64) {
	for k, c := range m.Copies {
		c.Sizes = slices.Clone(c.Sizes)
		for i := range c.Sizes {
			c.Sizes[i].Latency, c.Sizes[i].Rate = int64(float64(c.Sizes[i].Latency)*by), c.Sizes[i].Rate/by
		}
		m.Copies[k] = c
	}
}

// row summarizes the predictions for one kind of recordings.
type row struct {
	off         []float64 // errors of the predictions, percent
	none, wrong int
}

// predictions compares predicted durations of programs with their durations on the changed devices.
func (s *shapes) predictions(t testing.TB, programs int) (table string, rows map[bool]*row) {
	names, models := changes(t)
	rows = map[bool]*row{false: {}, true: {}}
	by := map[string]*[2]row{}
	for seed := range programs {
		var truth []int64
		for _, m := range models {
			truth = append(truth, s.took(t, m, seed))
		}
		for _, times := range []bool{false, true} {
			path := s.recorded(t, models[0], seed, times)
			first := firstCall(t, path)
			for i := 1; i < len(models); i++ {
				r := simulate(t, path, &whatif.Options{Model: models[i], Base: models[0]})
				if truth := truth[i] + first; truth < r.BoundsNS[0] || truth > r.BoundsNS[1] {
					t.Logf("program %d, %s, device times %v: %d ns, predicted %d, bounds %v", seed, names[i], times, truth, r.VirtualNS, r.BoundsNS)
				}
				if by[names[i]] == nil {
					by[names[i]] = &[2]row{}
				}
				k := 0
				if times {
					k = 1
				}
				for _, to := range []*row{rows[times], &by[names[i]][k]} {
					to.add(r, first, truth[i])
				}
			}
		}
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "change\tdevice times\tpredicted\toff, median\tat worst\ttruth outside of bounds")
	for _, n := range names[1:] {
		for k, times := range []string{"no", "all"} {
			by[n][k].print(w, n, times)
		}
	}
	for k, times := range map[bool]string{false: "no", true: "all"} {
		rows[k].print(w, "all", times)
	}
	w.Flush()
	return b.String(), rows
}

// firstCall returns the duration of a trace's first call, aclInit, which the programs do not include in their times.
func firstCall(t testing.TB, path string) int64 {
	t.Helper()
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		return c.End - c.Start
	}
	t.Fatal("no call")
	return 0
}

func (r *row) add(rep *whatif.Report, first, truth int64) {
	truth += first
	if truth < rep.BoundsNS[0] || truth > rep.BoundsNS[1] {
		r.wrong++
	}
	if !rep.Predicted {
		r.none++
		return
	}
	off := 100 * (float64(rep.VirtualNS-first)/float64(truth-first) - 1)
	r.off = append(r.off, max(off, -off))
}

// worst and median are errors of the predictions, in percent.
func (r *row) worst() float64 {
	if len(r.off) == 0 {
		return 0
	}
	return slices.Max(r.off)
}

func (r *row) median() float64 {
	if len(r.off) == 0 {
		return 0
	}
	slices.Sort(r.off)
	return r.off[len(r.off)/2]
}

func (r *row) print(w *tabwriter.Writer, name, times string) {
	fmt.Fprintf(w, "%s\t%s\t%d of %d\t%.2f %%\t%.2f %%\t%d\n", name, times, len(r.off), len(r.off)+r.none, r.median(), r.worst(), r.wrong)
}

// check runs programs on the simulator and compares their durations with the predictions.
func check(t *testing.T, programs int) {
	t.Helper()
	table, rows := newShapes(t, "virtual", "1").predictions(t, programs)
	t.Log("\n" + table)
	for times, r := range rows {
		if r.wrong > 0 {
			t.Errorf("device times %v: the truth is outside of the bounds %d times", times, r.wrong)
		}
	}
	if r := rows[false]; len(r.off) == 0 || r.none == 0 {
		t.Errorf("without device times: %d predictions, and none %d times", len(r.off), r.none)
	}
	if r := rows[true]; r.none > 0 || r.median() > 3 || r.worst() > 10 {
		t.Errorf("with device times: %d without a prediction, %.2f %% off in the median, %.2f %% at worst", r.none, r.median(), r.worst())
	}
}

// Without device times the predicted total assumed kernels that took no time, or all of it, and the report had no bounds.
func TestTruthLiesWithinBounds(t *testing.T) { check(t, 30) }

// A recording in virtual time had the times of the machine that made it.
func TestRecordingsInVirtualTimeAreTheSame(t *testing.T) {
	s := newShapes(t, "virtual", "1")
	_, models := changes(t)
	times := func() string {
		var b strings.Builder
		tl := loaded(t, s.recorded(t, models[0], 4, true))
		for _, c := range tl.Calls {
			fmt.Fprintln(&b, c.Name, c.Start, c.End)
		}
		for _, k := range tl.Tasks {
			fmt.Fprintln(&b, k.Name, k.Measured, k.From, k.To)
		}
		return b.String()
	}
	a, b := times(), times()
	if a != b || !strings.Contains(a, "attention true") {
		t.Errorf("two recordings differ, or nothing was measured:\n%s\n%s", a, b)
	}
}

func TestSoakTruthLiesWithinBounds(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("ACLTRACE_SOAK is not set")
	}
	check(t, 300)
}

// BenchmarkPredictions prints the same table for recordings in real time. Other work on the machine affects both figures.
func BenchmarkPredictions(b *testing.B) {
	for b.Loop() {
		table, _ := newShapes(b, "real", "20").predictions(b, 12)
		fmt.Print(table)
	}
}
