package stats_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// Kernels inside graphs were in no table.
func TestKernelsInGraphsAreCounted(t *testing.T) {
	s := sums(t, testtrace.Graphs(t, 3), "kernel")
	if len(s.Graphs) != 1 || len(s.Kernels) != 2 {
		t.Fatalf("%+v, %+v", s.Graphs, s.Kernels)
	}
	g, k := s.Graphs[0], s.Kernels[0]
	if g.Count != 40 || g.Graphs != 4 || g.Launches != 160 || g.Kernels != "3 attention, 1 mlp" || g.HostNS != 400 || g.Measured != 0 || g.AtMostNS == 0 {
		t.Errorf("%+v", g)
	}
	if k.Name != "attention" || k.Count != 4 || k.InGraphs != 120 || k.DeviceNS != 400 || k.InGraphsNS != 12_000 {
		t.Errorf("%+v", k)
	}
	if k := s.Kernels[1]; k.Name != "mlp" || k.Count != 0 || k.InGraphs != 40 || k.InGraphsNS != 0 {
		t.Errorf("%+v", k)
	}
	if by := s.Groups; len(by) != 2 || by[0].Name != "attention" || by[0].InGraphs != 120 || by[1].InGraphs != 40 {
		t.Errorf("%+v", by)
	}
	var text bytes.Buffer
	if err := report.StatsText(&text, "t.aclt", s, nil); err != nil || strings.Contains(text.String(), "of kernel time is") {
		t.Fatalf("%v\n%s", err, &text)
	}
	for _, want := range []string{"4 launches of 1 kernel, 40 runs of 4 graphs with 160 launches", "  3 attention, 1 mlp\n", "120      ~ 12.0 us  attention\n", "<= "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}

// A kernel that graphs launch more often was invisible: "waiting".
func TestDiffSeesKernelsInGraphs(t *testing.T) {
	compare := func(a, b *timeline.Timeline) (*diff.Diff, string) {
		d, err := diff.New(a.Reader, b.Reader, acl.Model, nil)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := report.DiffText(&text, d, false, nil); err != nil {
			t.Fatal(err)
		}
		return d, text.String()
	}
	d, text := compare(testtrace.Graphs(t, 9), testtrace.Graphs(t, 10))
	if !d.Differs || !strings.Contains(text, "kernel attention in graphs 10 times a step (was 9)") {
		t.Errorf("%+v\n%s", d, text)
	}
	if d, text := compare(testtrace.Graphs(t, 9), testtrace.Graphs(t, 9)); d.Differs || strings.Contains(text, "graph") {
		t.Errorf("%+v\n%s", d, text)
	}
}

// diff asked for --device-time all though both runs were recorded with it.
func TestNoAdviceForAFlagThatWasGiven(t *testing.T) {
	waits := &diff.Diff{Cause: &diff.Cause{Part: stats.PartWaiting.String()}, Changes: []diff.Change{{Kind: "kernel", Name: "k", Metric: "host"}}}
	for _, timed := range []bool{false, true} {
		waits.A.Timed, waits.B.Timed = timed, timed
		var text bytes.Buffer
		if err := report.DiffText(&text, waits, false, nil); err != nil || strings.Contains(text.String(), "--device-time") == timed {
			t.Errorf("timed %v: %v\n%s", timed, err, &text)
		}
	}
}

// Steps of servers differ by the graph that they run, which has the padded size of a batch: prompts run none.
func TestStepsByGraph(t *testing.T) {
	const small, large, prompt = 0x9000, 0x9100, 0
	build := func(graphOf func(step int) uint64) *stats.Stats {
		s := testtrace.NewSequence(t)
		s.Stream(testtrace.StreamA)
		s.Then("aclrtBinaryGetFunction", testtrace.A(0x7700, 0x10, 0x20), testtrace.Text("kernelName", "attention"), testtrace.Outs("funcHandle", testtrace.Function))
		launch := func(blocks uint64) {
			s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function, blocks, testtrace.DeviceA, 0, testtrace.StreamA))
		}
		capture := func(graph, blocks uint64) {
			s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0))
			launch(blocks)
			launch(blocks)
			s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
		}
		capture(small, 4)
		capture(large, 16)
		for step := range 40 {
			s.Then("mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", fmt.Sprintf("step %d", step)), func(_ *api.Func, c *format.Call) { c.Ret = uint64(step + 1) })
			switch graph := graphOf(step); graph {
			case prompt:
				launch(64)
			case small, large:
				s.Then("aclmdlRIExecuteAsync", testtrace.A(graph, testtrace.StreamA))
			default: // captured for the step
				capture(graph, 8)
				s.Then("aclmdlRIExecuteAsync", testtrace.A(graph, testtrace.StreamA))
			}
			s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
			s.Then("mstxRangeEnd", testtrace.A(uint64(step+1)))
		}
		return sums(t, s.Load(), "")
	}
	s := build(func(step int) uint64 { return []uint64{prompt, small, small, large, small}[step%5] })
	type kind struct {
		steps            int
		launches, blocks uint64
	}
	var got []kind
	for _, k := range s.Steps.Kinds {
		if got = append(got, kind{k.Count, k.Launches, k.Blocks}); k.P50NS <= 0 || k.MaxNS < k.P50NS || (k.Capture == nil) != (k.Graph == "") {
			t.Errorf("%+v", k)
		}
	}
	if want := []kind{{24, 2, 8}, {8, 2, 32}, {8, 0, 0}}; !slices.Equal(got, want) || s.Steps.Eager != 8 {
		t.Errorf("kinds %v, want %v; %d steps without a graph", got, want, s.Steps.Eager)
	}
	var text bytes.Buffer
	if err := report.StatsText(&text, "t.aclt", s, nil); err != nil || !regexp.MustCompile(`(?m)^ +24 .* 2 +8  graph#\d+, captured from call 2 on$`).MatchString(text.String()) || !regexp.MustCompile(`(?m)^ +8 .* - +-  none$`).MatchString(text.String()) {
		t.Errorf("%v\n%s", err, &text)
	}
	for name, graphOf := range map[string]func(step int) uint64{
		"one graph":          func(int) uint64 { return small },
		"no graph":           func(int) uint64 { return prompt },
		"captured each step": func(step int) uint64 { return uint64(0xa000 + step) },
	} {
		if s := build(graphOf); s.Steps.Kinds != nil {
			t.Errorf("%s: %+v", name, s.Steps.Kinds)
		}
	}
}
