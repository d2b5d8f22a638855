package blame_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

// kernels adds a function for a kernel.
func kernels(s *testtrace.Sequence, name string) {
	s.Then("aclrtBinaryGetFunction", testtrace.A(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", name), testtrace.Outs("funcHandle", testtrace.Function))
}

func launches(s *testtrace.Sequence, mods ...testtrace.Mod) {
	s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function, 4, low, 64, testtrace.StreamA), mods...)
}

// The guilty launch and those in flight are in an operator, and so may the failed call be. The page named kernels only.
func TestBlameNamesOperators(t *testing.T) {
	s := neighbours(t)
	kernels(s, "Add")
	s.PhaseTwo("aclnnAdd", 0x7000, func() { launches(s, task(9, 1)) })
	launches(s, task(9, 2))
	faults(s)
	rep, text := judged(t, s)
	if len(rep.Suspects) != 2 || !strings.Contains(text, "aclrtLaunchKernel, kernel Add with block dim 4 of operator aclnnAdd (phase two)\n") || strings.Count(text, "operator") != 1 {
		t.Errorf("%s", text)
	}
	j, err := json.Marshal(report.BlameJSON(rep))
	if err != nil || !strings.Contains(string(j), `"operator":"aclnnAdd","operator_phase":"phase two"`) || strings.Count(string(j), `"operator"`) != 2 { // the suspect, and an access of its memory
		t.Errorf("%s, %v", j, err)
	}

	s = neighbours(t)
	s.PhaseOne("aclnnMul", 0x7000, func() { s.Then("aclrtMalloc", testtrace.A(0x7ffe0000, 1<<40, 0), testtrace.Fails(207001)) })
	if _, text := judged(t, s); !strings.Contains(text, "aclrtMalloc in operator aclnnMul (phase one): ACL_ERROR_RT_MEMORY_ALLOCATION") {
		t.Errorf("%s", text)
	}
}

// A message that names the kernel of a graph leads to the operator that captured it.
func TestBlameNamesTheOperatorOfACapturedLaunch(t *testing.T) {
	s := neighbours(t)
	kernels(s, "Add")
	s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 1))
	s.PhaseTwo("aclnnAdd", 0x7000, func() { launches(s) })
	s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
	s.Then("aclmdlRIExecuteAsync", testtrace.A(graph, testtrace.StreamA))
	faults(s)
	s.Then("aclGetRecentErrMsg", nil, func(_ *api.Func, c *format.Call) {
		text := []byte("kernel Add failed")
		c.Data = append(c.Data, format.Data{Param: api.RetParam, Dir: format.DirOut, Len: uint64(len(text)), Bytes: text})
	})
	if _, text := judged(t, s); !strings.Contains(text, "it runs Add of operator aclnnAdd (phase two), which call ") {
		t.Errorf("%s", text)
	}
}

// A process that died in an operator is said to be in it, also before the operator's first call. Marks are no last calls.
func TestBlameNamesTheOperatorOfADeadProcess(t *testing.T) {
	died := func(calls func(s *testtrace.Sequence)) string {
		s := neighbours(t)
		calls(s)
		s.Process(0, format.Process{PID: 4001, Killed: true, Signal: 11})
		_, text := judged(t, s)
		return text
	}
	if text := died(func(s *testtrace.Sequence) {
		s.PhaseOne("aclnnAdd", 0x7000, nil)
		s.Mark("InitL2Phase2Context", testtrace.A(0x10, 0x7000), testtrace.Text("name", "aclnnAdd"))
	}); !strings.Contains(text, "in operator aclnnAdd (phase two) after call 4 aclrtMallocHost\n") {
		t.Errorf("%s", text)
	}
	if text := died(func(s *testtrace.Sequence) { s.PhaseOne("aclnnAdd", 0x7000, nil) }); strings.Contains(text, "operator") || !strings.Contains(text, "after call 4 aclrtMallocHost\n") {
		t.Errorf("%s", text)
	}
}

// The hint at an odd launch says its operator.
func TestBlameNamesTheOperatorOfAnOddLaunch(t *testing.T) {
	s := neighbours(t)
	kernels(s, "Add")
	for i := range 20 {
		n := uint64(1024)
		if i == 12 {
			n = 7
		}
		args := testtrace.Words(low, high, n)
		s.PhaseTwo("aclnnAdd", 0x7000, func() {
			s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(testtrace.Function, 4, testtrace.StreamA, 0, 0x7ffe0000, uint64(len(args)), 0, 0), testtrace.Reads("hostArgs", 0, args))
		})
	}
	s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	if _, text := judged(t, s); !strings.Contains(text, "kernel Add with block dim 4 of operator aclnnAdd (phase two) has an argument unlike") {
		t.Errorf("%s", text)
	}
}
