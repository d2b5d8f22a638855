package testtrace

import (
	"encoding/binary"
	"testing"

	"github.com/acltrace/acltrace/api/opinfo"
	"github.com/acltrace/acltrace/timeline"
)

// Operators returns a trace with the marks of operators: thread 0 prepares aclnnAdd, with the inner operator Add, and aclnnMul, and thread 1 launches their kernels, aclnnMul
// twice by a cached executor. A captured graph launches aclnnAdd twice and one kernel of no operator, and runs three times. Then a generated operator, Cast, launches.
func Operators(tb testing.TB) *timeline.Timeline {
	tb.Helper()
	return operators(tb, nil)
}

// Shapes adds to Operators the descriptions of the launches by aclnnAdd, in the layout of CANN 8.5, and by aclnnMul. aclnnAdd's kernel has the type AddMine, which
// no release has: it is the name of the inner operator.
func Shapes(tb testing.TB) *timeline.Timeline {
	tb.Helper()
	return operators(tb, func(s *Sequence, name string, n uint32) {
		kind, in := map[string]string{"aclnnAdd": "AddMine", "aclnnMul": "Mul"}[name], [11]uint32{0, 2, 1, n, 16}
		b := Description(n == 1, name+"_"+kind+"AiCore_"+kind, kind, in, [11]uint32{1, 2, 1, n, 16})
		s.Then("aclrtCacheLastTaskOpInfo", A(0x7ffe0000, uint64(len(b))), Reads("infoPtr", 0, b))
	})
}

// Description returns the description of an operator's task, in the layout of CANN 8.5 or in that of later ones. A tensor is whether it is an output, its
// format, its data type and up to 8 dimensions.
func Description(older bool, node, kind string, tensors ...[11]uint32) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 4), 1)
	b = le.AppendUint64(le.AppendUint64(b, opinfo.Hash(node)), opinfo.Hash(kind))
	if !older {
		b = append(b, make([]byte, 16)...)
	}
	b = le.AppendUint32(le.AppendUint32(b, 0), uint32(len(tensors)))
	for _, t := range tensors {
		for _, v := range t {
			b = le.AppendUint32(b, v)
		}
	}
	return b
}

// operators calls describe after each launch of an operator.
func operators(tb testing.TB, describe func(s *Sequence, name string, blocks uint32)) *timeline.Timeline {
	tb.Helper()
	s := NewSequence(tb)
	s.prologue()
	s.Now = 10_000
	launch := func(blocks uint64) { s.Then("aclrtLaunchKernel", A(Function, blocks, DeviceB, 64, StreamA)) }
	two := func(name string, executor, blocks uint64) {
		s.PhaseTwo(name, executor, func() {
			launch(blocks)
			if describe != nil {
				describe(s, name, uint32(blocks))
			}
		})
	}
	inner := "Add"
	if describe != nil {
		inner = "AddMine"
	}
	s.PhaseOne("aclnnAdd", 0x7000, func() {
		s.Mark("InitL0Context", A(0x10, 0x7000), Text("name", inner))
		s.Mark("OpDfxGuardEnd", A(0))
	})
	s.PhaseOne("aclnnMul", 0x7100, nil)
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
	s.Mark("NnopbaseGetExecutor", A(0x20, 0x10), Text("opType", "Cast"))
	s.Mark("NnopbaseRunForWorkspace", A(0x7500, 0x7ffe0000))
	s.Mark("NnopbaseRunWithWorkspace", A(0x7500, StreamA, 0, 0))
	launch(3)
	s.Then("aclrtSynchronizeStream", A(StreamA))
	return s.Load()
}

// Mark adds the mark of an operator.
func (s *Sequence) Mark(name string, args []uint64, mods ...Mod) {
	s.tb.Helper()
	s.Now += 20
	s.Call(s.Thread, s.Now, s.Now, name, args, mods...)
}

// PhaseOne adds the phase of an operator that makes an executor, and the calls in it; nil for none.
func (s *Sequence) PhaseOne(name string, executor uint64, calls func()) {
	s.tb.Helper()
	s.Mark("InitL2Phase1Context", A(0x10, 0x7ffe0020), Text("name", name))
	if calls != nil {
		calls()
	}
	s.Mark("OpDfxGuardEnd", A(executor))
}

// PhaseTwo adds the phase of an operator that launches, with the calls in it.
func (s *Sequence) PhaseTwo(name string, executor uint64, calls func()) {
	s.tb.Helper()
	s.Mark("InitL2Phase2Context", A(0x10, executor), Text("name", name))
	s.Mark("CommonOpExecutorRun", A(0, 0, executor, StreamA))
	calls()
	s.Mark("OpDfxGuardEnd", A(0))
}
