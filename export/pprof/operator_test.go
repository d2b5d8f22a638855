package pprof

import (
	"regexp"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
)

// An operator is a frame around its calls, with their host time, launches and device time. Only functions and kernels had frames.
func TestOperatorsAreFrames(t *testing.T) {
	path := written(t, testtrace.Operators(t))
	want := map[string]map[string]string{ // cumulative values by frame
		"launches":  {"aclnnAdd": "1", "aclnnMul": "2", "Cast": "1"},
		"host_time": {"aclnnAdd": "30", "aclnnMul": "20", "Cast": "10"},
	}
	for index, frames := range want {
		got := map[string]string{}
		for _, m := range topLine.FindAllStringSubmatch(pprof(t, "-top", "-cum", "-nodecount=1000", "-nodefraction=0", "-unit="+map[string]string{"host_time": "ns"}[index], "-sample_index="+index, path), -1) {
			got[m[4]] = m[3]
		}
		for name, v := range frames {
			if got[name] != v {
				t.Errorf("%s of %s: %q, want %s in %v", index, name, got[name], v, got)
			}
		}
	}
	peek := pprof(t, "-peek", "aclnnMul$", "-sample_index=launches", path)
	if !regexp.MustCompile(`(?s)thread 4011.*\| +aclnnMul\n.*aclrtLaunchKernel`).MatchString(peek) {
		t.Errorf("%s", peek)
	}
	if traces := pprof(t, "-traces", "-sample_index=launches", path); !regexp.MustCompile(`npu::.*\n\s+aclrtLaunchKernel\n\s+aclnnMul\n\s+thread`).MatchString(traces) || strings.Contains(traces, "InitL2Phase") {
		t.Errorf("%s", traces)
	}
}

// Calls that contain others, as in a profile, keep their frames: the operator is around the outermost one, once.
func TestOperatorsContainNestedCalls(t *testing.T) {
	s := testtrace.NewSequence(t)
	s.Then("aclrtSetDevice", testtrace.A(0))
	s.PhaseTwo("aclnnAdd", 0x7000, func() {
		s.Call(0, s.Now+20, s.Now+200, "aclrtSynchronizeDevice", nil)
		s.Now += 40
		s.Then("aclrtGetDevice", testtrace.A(0x7ffe0000))
		s.Now += 200
	})
	traces := pprof(t, "-traces", "-sample_index=host_time", written(t, s.Load()))
	if !regexp.MustCompile(`aclrtGetDevice\n\s+aclrtSynchronizeDevice\n\s+aclnnAdd\n\s+thread`).MatchString(traces) {
		t.Errorf("%s", traces)
	}
}
