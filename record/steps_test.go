package record_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// --steps A:B keeps the same calls as the steps of a complete trace have, for each way to separate steps.
func TestStepRangeKeepsTheSameCalls(t *testing.T) {
	kernels := testenv.Built(t, "lib/aclsim_kernels.o")
	t.Setenv("ACLSIM_KERNELS", testenv.Built(t, "lib/aclsim_kernels.so"))
	lib := testenv.CompileC(t, "libms_tools_ext.so", []string{source("steps.c")}, "-DLIBRARY", "-shared", "-fPIC", "-Wl,-soname,libms_tools_ext.so")
	program := testenv.CompileC(t, "steps", []string{source("steps.c")}, lib, "-Wl,--disable-new-dtags,-rpath,"+filepath.Dir(lib))
	for name, c := range map[string]struct {
		processes int
		ranges    []string
		marker    string
		source    step.Source // in the complete trace
	}{
		"ranges":                  {1, []string{"train step"}, "", step.Marked},
		"ranges by a marker":      {1, []string{"lap"}, "lap", step.Marked},
		"waits":                   {1, nil, "", step.Found},
		"calls of a function":     {1, nil, "aclrtSynchronizeStream", step.Found},
		"copies of inputs":        {1, []string{"-"}, "", step.Found},
		"ranges of two processes": {2, []string{"Iteration"}, "", step.Marked},
		"waits of two processes":  {2, nil, "", step.Found},
	} {
		t.Run(name, func(t *testing.T) {
			command := append([]string{program, kernels, fmt.Sprint(c.processes), "40"}, c.ranges...)
			whole, res, _ := run(t, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, command...)
			if res.ExitCode != 0 || res.Missed != nil {
				t.Fatalf("%+v", res)
			}
			l, err := timeline.Load(whole, acl.Model)
			if err != nil {
				t.Fatal(err)
			}
			steps := l.Steps()
			if len(steps.List) < 40 || steps.Source != c.source {
				t.Fatalf("the whole trace has %d steps, %s", len(steps.List), steps.Source)
			}
			for _, from := range []int{0, 17} {
				want := blocks(t, whole, int(steps.Process), steps.List[from].From, steps.List[from+3].From)
				for k := range want {
					want[k] *= c.processes
				}
				r, res, _ := run(t, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Steps: record.Steps{Marker: c.marker, Range: &record.StepRange{First: from, Last: from + 2}}}, command...)
				if res.Missed != nil {
					t.Errorf("%d: %+v", from, res.Missed)
				}
				got := blocks(t, r, -1, 0, 1<<62)
				if from == 0 {
					delete(got, 1) // launches that warm up before the first step
					delete(want, 1)
				}
				if !maps.Equal(got, want) {
					t.Errorf("from step %d on there are launches of these blocks: %v, want %v", from, got, want)
				}
				if made := callsOf(r, calls(t, r), "aclrtMalloc"); len(made) != c.processes {
					t.Errorf("%d allocations", len(made))
				}
				var left uint64
				for _, g := range r.Gaps() {
					if g.Reason != format.Detached {
						t.Errorf("%+v", g)
					}
					left += g.Calls
				}
				if from > 0 && left < uint64(c.processes*17*4) {
					t.Errorf("%d calls in gaps", left)
				}
			}
		})
	}
	// Steps that the program does not reach.
	r, res, _ := run(t, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Steps: record.Steps{Range: &record.StepRange{First: 100, Last: 110}}}, program, kernels, "1", "40")
	want := record.MissedSteps{Wanted: record.StepRange{First: 100, Last: 110}, Made: 40, By: "calls of aclrtSynchronizeStream"}
	if res.Missed == nil || *res.Missed != want {
		t.Errorf("%+v, want %+v", res.Missed, want)
	}
	if n := len(blocks(t, r, -1, 0, 1<<62)); n != 0 || len(r.Gaps()) != 1 || r.Gaps()[0].Calls != 41*3+40 {
		t.Errorf("%d launches, gaps %+v", n, r.Gaps())
	}
	for _, bad := range []string{"5:3", "-1:2", "a:b", "", "3:"} {
		if _, err := record.ParseSteps(bad); err == nil || !strings.Contains(err.Error(), "100:110") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// blocks counts the launches of a process (of all if negative) in a time range, by their number of blocks.
func blocks(t *testing.T, r *format.Reader, process int, from, to int64) map[uint64]int {
	n := map[uint64]int{}
	for _, c := range callsOf(r, calls(t, r), "aclrtLaunchKernelWithHostArgs") {
		if (process < 0 || int(r.Threads()[c.Thread].Process) == process) && c.Start >= from && c.Start < to {
			n[c.Args[1]]++
		}
	}
	return n
}
