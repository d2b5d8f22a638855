package testtrace

import (
	"testing"

	"github.com/acltrace/acltrace/timeline"
)

// Operators returns a trace with the marks of operators: thread 0 prepares aclnnAdd, with the inner operator Add, and aclnnMul, and thread 1 launches their kernels, aclnnMul
// twice by a cached executor. A captured graph launches aclnnAdd twice and one kernel of no operator, and runs three times. Then a generated operator, Cast, launches.
func Operators(tb testing.TB) *timeline.Timeline {
	tb.Helper()
	s := NewSequence(tb)
	s.prologue()
	s.Now = 10_000
	launch := func(blocks uint64) { s.Then("aclrtLaunchKernel", A(Function, blocks, DeviceB, 64, StreamA)) }
	mark := func(name string, args []uint64, mods ...Mod) {
		s.Now += 20
		s.Call(s.Thread, s.Now, s.Now, name, args, mods...)
	}
	one := func(name, inner string, executor uint64) {
		mark("InitL2Phase1Context", A(0x10, 0x7ffe0020), Text("name", name))
		if inner != "" {
			mark("InitL0Context", A(0x10, executor), Text("name", inner))
			mark("OpDfxGuardEnd", A(0))
		}
		mark("OpDfxGuardEnd", A(executor))
	}
	two := func(name string, executor, blocks uint64) {
		mark("InitL2Phase2Context", A(0x10, executor), Text("name", name))
		mark("CommonOpExecutorRun", A(0, 0, executor, StreamA))
		launch(blocks)
		mark("OpDfxGuardEnd", A(0))
	}
	one("aclnnAdd", "Add", 0x7000)
	one("aclnnMul", "", 0x7100)
	s.Thread = 1
	two("aclnnAdd", 0x7000, 1)
	two("aclnnMul", 0x7100, 2)
	two("aclnnMul", 0x7200, 2)
	launch(9)
	s.Then("aclmdlRICaptureBegin", A(StreamA, 1))
	two("aclnnAdd", 0x7300, 1)
	two("aclnnAdd", 0x7400, 1)
	launch(9)
	s.Then("aclmdlRICaptureEnd", A(StreamA, 0x7ffe0000), Outs("modelRI", 0x9000))
	for range 3 {
		s.Then("aclmdlRIExecuteAsync", A(0x9000, StreamA))
	}
	mark("NnopbaseGetExecutor", A(0x20, 0x10), Text("opType", "Cast"))
	mark("NnopbaseRunForWorkspace", A(0x7500, 0x7ffe0000))
	mark("NnopbaseRunWithWorkspace", A(0x7500, StreamA, 0, 0))
	launch(3)
	s.Then("aclrtSynchronizeStream", A(StreamA))
	return s.Load()
}
