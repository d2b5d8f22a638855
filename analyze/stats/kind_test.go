package stats_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

// work is what a step copies and launches, a kernel by letter.
type work struct {
	input   uint64
	kernels string
}

// eager returns the sums over marked steps with this work.
func eager(t *testing.T, steps []work) *stats.Stats {
	t.Helper()
	s := testtrace.NewSequence(t)
	s.Stream(testtrace.StreamA)
	for i := range 26 {
		s.Then("aclrtBinaryGetFunction", testtrace.A(0x7700, 0x10, 0x20), testtrace.Text("kernelName", "aclnn"+string(rune('A'+i))), testtrace.Outs("funcHandle", testtrace.Function+uint64(i)))
	}
	for i, w := range steps {
		s.Then("mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", fmt.Sprintf("step %d", i)), func(_ *api.Func, c *format.Call) { c.Ret = uint64(i + 1) })
		s.Then("aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, w.input, testtrace.HostA, w.input, 1, testtrace.StreamA))
		for _, k := range []byte(w.kernels) {
			s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function+uint64(k-'A'), 1, testtrace.DeviceA, 0, testtrace.StreamA))
		}
		s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		s.Then("mstxRangeEnd", testtrace.A(uint64(i+1)))
	}
	return sums(t, s.Load(), "")
}

// The prompts and the decoding of a server without graphs were one kind, with one median. Steps of an ordinary loop are one kind, though some do more.
func TestEagerStepsByTheirWork(t *testing.T) {
	layers := strings.Repeat("ABCDEFG", 6)
	cached := strings.Repeat("ABCXDEFG", 6) // which adds to a cache
	train := layers + strings.Repeat("HIJ", 6) + "OOOO"
	every := func(n int, of func(i int) work) (all []work) {
		for i := range n {
			all = append(all, of(i))
		}
		return all
	}
	for _, c := range []struct {
		name  string
		steps []work
		want  string
	}{
		{"prompts without the kernel of the cache", every(44, func(i int) work {
			if i%11 == 0 {
				return work{8 * uint64(20+i), layers + "SA"}
			}
			return work{8, cached + "SA"}
		}), "40 of 50 launches, 8 B; 4 of 44 launches, 292 B: more of , fewer of aclnnX, every 11"},
		{"prompts with the same kernels", every(30, func(i int) work {
			if i%10 == 0 {
				return work{8 * 60, layers}
			}
			return work{8 + uint64(i%3)*8, layers}
		}), "27 of 42 launches, 16 B; 3 of 42 launches, 480 B: more of , fewer of , every 10"},
		{"acting and learning", every(40, func(i int) work {
			if i%8 == 7 {
				return work{4096, strings.Repeat("KLM", 20)}
			}
			return work{32, "KLN"}
		}), "35 of 3 launches, 32 B; 5 of 60 launches, 4096 B: more of aclnnM, fewer of aclnnN, every 8"},
		{"episodes of any length, and two steps of learning", every(40, func(i int) work {
			if slices.Contains([]int{5, 6, 12, 13, 22, 23, 37, 38}, i) {
				return work{4096, strings.Repeat("KLM", 20)}
			}
			return work{32, "KLN"}
		}), "32 of 3 launches, 32 B; 8 of 60 launches, 4096 B: more of aclnnM, fewer of aclnnN"},
		{"two steps of learning after 8 acts", every(50, func(i int) work {
			if i%10 >= 8 {
				return work{4096, strings.Repeat("KLM", 20)}
			}
			return work{32, "KLN"}
		}), "40 of 3 launches, 32 B; 10 of 60 launches, 4096 B: more of aclnnM, fewer of aclnnN, every 10"},
		{"a training with a first step and evaluations", every(30, func(i int) work {
			switch {
			case i == 0:
				return work{4096, strings.Repeat("Z", 12) + train}
			case i%10 == 9:
				return work{40960, train + layers + layers + layers}
			}
			return work{4096, train}
		}), ""},
		{"shapes that change", every(30, func(i int) work { return work{1024 + 512*uint64(i%7), train} }), ""},
		{"metrics now and then", every(30, func(i int) work { return work{4096, train + strings.Repeat("TU", i%2)} }), ""},
		{"two steps without the optimizer", every(30, func(i int) work {
			if i == 3 || i == 8 {
				return work{4096, layers + strings.Repeat("HIJ", 6)}
			}
			return work{4096, train}
		}), ""},
		{"each step has other work", every(20, func(i int) work { return work{4096, strings.Repeat(string(rune('A'+i)), 9)} }), ""},
	} {
		s := eager(t, c.steps)
		var got []string
		for i, k := range s.Steps.Kinds {
			text := fmt.Sprintf("%d of %d launches, %d B", k.Count, k.Launches, *k.Inputs)
			if i > 0 {
				text += ": more of " + k.Kernel + ", fewer of " + k.Lacks
				if k.Every > 0 {
					text += fmt.Sprint(", every ", k.Every)
				}
			}
			got = append(got, text)
		}
		if text := strings.Join(got, "; "); text != c.want || s.Steps.Count != len(c.steps) {
			t.Errorf("%s: %d steps: %s, want %s", c.name, s.Steps.Count, text, c.want)
		}
		var page bytes.Buffer
		if err := report.StatsText(&page, "x", s, nil); err != nil || strings.Contains(page.String(), "kind of step") != (c.want != "") ||
			strings.Contains(page.String(), "--step-marker NAME") != (c.want != "") {
			t.Errorf("%s: %v\n%s", c.name, err, &page)
		}
	}
	// Steps of no kind are in the sum.
	s := eager(t, slices.Concat(every(10, func(int) work { return work{8, "ABC"} }), every(3, func(int) work { return work{8, "DEF"} }), []work{{8, "GHI"}, {8, "JKL"}}))
	n := 0
	for _, k := range s.Steps.Kinds {
		n += k.Count
	}
	if last := len(s.Steps.Kinds) - 1; last != 2 || !s.Steps.Kinds[last].Others || n != s.Steps.Count {
		t.Errorf("%+v", s.Steps.Kinds)
	}
}
