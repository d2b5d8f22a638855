package stats_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
)

// Steps outside of the captured sizes launch the kernels of the graph one by one. Steps with other kernels, such as prompts, and less than half of the steps are none.
func TestStepsOutsideOfCapturedSizes(t *testing.T) {
	const graph, steps = 0x9000, 40
	for _, c := range []struct {
		name     string
		eager    func(step int) bool
		launches []uint64 // kernels of an eager step
		want     uint64
		of       uint64
	}{
		{"the same kernels", func(step int) bool { return step%2 == 1 }, []uint64{0, 1, 0, 2}, 20, 40},
		{"the same kernels in another order", func(step int) bool { return step%2 == 1 }, []uint64{2, 0, 0, 1}, 20, 40},
		{"fewer kernels", func(step int) bool { return step%2 == 1 }, []uint64{0, 1, 2}, 0, 0},
		{"a kernel of prompts", func(step int) bool { return step%2 == 1 }, []uint64{0, 1, 0, 3}, 0, 0},
		{"before the first graph runs", func(step int) bool { return step < 20 }, []uint64{0, 1, 0, 2}, 0, 0},
		{"also before the first graph runs", func(step int) bool { return step < 8 || step%4 != 0 }, []uint64{0, 1, 0, 2}, 24, 32},
		{"in a third of the steps", func(step int) bool { return step%3 == 2 }, []uint64{0, 1, 0, 2}, 0, 0},
		{"in every step", func(int) bool { return true }, []uint64{0, 1, 0, 2}, 0, 0},
		{"in no step", func(int) bool { return false }, nil, 0, 0},
	} {
		s := testtrace.NewSequence(t)
		s.Stream(testtrace.StreamA)
		for i, name := range []string{"attention", "mlp", "sample", "prompt_attention"} {
			s.Then("aclrtBinaryGetFunction", testtrace.A(0x7700, 0x10, 0x20), testtrace.Text("kernelName", name), testtrace.Outs("funcHandle", testtrace.Function+uint64(i)))
		}
		launch := func(kernel uint64) {
			s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function+kernel, 1, testtrace.DeviceA, 0, testtrace.StreamA))
		}
		s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0))
		for _, k := range []uint64{0, 1, 0} {
			launch(k)
		}
		s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
		for step := range steps {
			s.Then("mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", fmt.Sprintf("step %d", step)), func(_ *api.Func, c *format.Call) { c.Ret = uint64(step + 1) })
			s.Then("aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1, testtrace.StreamA))
			if c.eager(step) {
				for _, k := range c.launches {
					launch(k)
				}
			} else {
				s.Then("aclmdlRIExecuteAsync", testtrace.A(graph, testtrace.StreamA))
				launch(2)
			}
			s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
			s.Then("mstxRangeEnd", testtrace.A(uint64(step+1)))
		}
		got := sums(t, s.Load(), "")
		n, of := uint64(0), uint64(0)
		if i := slices.IndexFunc(got.Findings, func(f stats.Finding) bool { return f.Kind == stats.EagerSteps }); i >= 0 {
			n, of = got.Findings[i].Count, got.Findings[i].Of
		}
		unused := slices.ContainsFunc(got.Findings, func(f stats.Finding) bool { return f.Kind == stats.UnusedGraphs && f.Count == 1 && f.Of == steps })
		if unused != (c.name == "in every step") {
			t.Errorf("%s: unused %t", c.name, unused)
		}
		if n != c.want || of != c.of || got.Steps.Count != steps {
			t.Errorf("%s: %d eager steps of %d, of %d in all, want %d of %d", c.name, n, of, got.Steps.Count, c.want, c.of)
		}
	}
}
