package timeline_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// A flight recorder's past lacked the begin of a task group and its updates, so a graph had the arguments of its capture.
func TestLivingKeepsTheLatestUpdateOfAGroup(t *testing.T) {
	for _, ended := range []bool{false, true} {
		s := newSequence(t)
		s.Stream(strA)
		launch := func() { s.Then("aclrtLaunchKernel", testtrace.A(fn, 8, devA, 16, strA)) }
		s.Then("aclmdlRICaptureBegin", testtrace.A(strA, 0))
		s.Then("aclmdlRICaptureTaskGrpBegin", testtrace.A(strA))
		launch()
		s.Then("aclmdlRICaptureTaskGrpEnd", testtrace.A(strA, 0x7ffe0000), testtrace.Outs("handle", 0x99))
		s.Then("aclmdlRICaptureEnd", testtrace.A(strA, 0x7ffe0000), testtrace.Outs("modelRI", 0x77))
		for range 3 {
			s.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(strA, 0x99))
			launch()
			s.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(strA))
			launch()
		}
		want := []uint64{0, 1, 2, 3, 4, 5, 14, 15, 16}
		if ended {
			s.Then("aclmdlRIDestroy", testtrace.A(0x77))
			want = []uint64{0}
		}
		keep, err := timeline.Living(s.Load().Reader, acl.Model)
		if got := slices.Sorted(maps.Keys(keep)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: kept %d, want %d", err, got, want)
		}
	}
}

// A copy of a graph has the nodes that its source had at that time, also when the source has ended.
func TestLivingKeepsTheNodesOfACopiedGraph(t *testing.T) {
	b := testtrace.NewOf(t, cuda.Model)
	at := int64(1000)
	call := func(name string, args []uint64, mods ...testtrace.Mod) {
		b.Call(0, at, at+5, name, args, mods...)
		at += 10
	}
	call("cuGraphCreate", testtrace.A(0x7ffe0000, 0), testtrace.Outs("phGraph", 0x71))
	call("cuGraphAddKernelNode_v2", testtrace.A(0x7ffe0000, 0x71, 0, 0, 0x7ffe0100), testtrace.Outs("phGraphNode", 0x81))
	call("cuGraphCreate", testtrace.A(0x7ffe0000, 0), testtrace.Outs("phGraph", 0x73))
	call("cuGraphClone", testtrace.A(0x7ffe0000, 0x71), testtrace.Outs("phGraphClone", 0x72))
	call("cuGraphAddKernelNode_v2", testtrace.A(0x7ffe0000, 0x71, 0, 0, 0x7ffe0100), testtrace.Outs("phGraphNode", 0x82))
	call("cuGraphDestroy", testtrace.A(0x71))
	call("cuGraphDestroy", testtrace.A(0x73))
	keep, err := timeline.Living(b.Load().Reader, cuda.Model)
	if got := slices.Sorted(maps.Keys(keep)); err != nil || !slices.Equal(got, []uint64{0, 1, 3}) {
		t.Errorf("%v: kept %d", err, got)
	}
}

// The past of a flight recorder has the calls that initialized the runtime, chose devices, made what is alive, and fill captures that have not ended.
func TestPastOfAFlightRecorder(t *testing.T) {
	for name, c := range map[string]struct {
		calls func(s *testtrace.Sequence)
		want  []uint64
	}{
		"runtime and device": {func(s *testtrace.Sequence) {
			s.Then("aclInit", testtrace.A(0))
			s.Then("aclrtSetDevice", testtrace.A(0))
			s.Then("aclrtSetDevice", testtrace.A(1))
			s.Then("aclrtGetDevice", testtrace.A(0x7ffe0000))
		}, []uint64{0, 2}},
		"memory": {func(s *testtrace.Sequence) {
			s.Malloc(devA, 64)
			s.Malloc(devB, 64)
			s.Then("aclrtFree", testtrace.A(devA))
			s.Then("aclrtMalloc", testtrace.A(0x7ffe0000, 64, 0), testtrace.Fails(207001))
		}, []uint64{1}},
		"open capture": {func(s *testtrace.Sequence) {
			s.Stream(strA)
			s.Then("aclrtLaunchKernel", testtrace.A(fn, 8, devA, 16, strA))
			s.Then("aclmdlRICaptureBegin", testtrace.A(strA, 0))
			s.Then("aclrtLaunchKernel", testtrace.A(fn, 8, devA, 16, strA))
		}, []uint64{0, 2, 3}},
		"graph": {func(s *testtrace.Sequence) {
			s.Stream(strA)
			s.Then("aclmdlRICaptureBegin", testtrace.A(strA, 0))
			s.Then("aclrtLaunchKernel", testtrace.A(fn, 8, devA, 16, strA))
			s.Then("aclmdlRICaptureEnd", testtrace.A(strA, 0x7ffe0000), testtrace.Outs("modelRI", 0x77))
			s.Then("aclmdlRIExecuteAsync", testtrace.A(0x77, strA))
		}, []uint64{0, 1, 2, 3}},
		"ended stream": {func(s *testtrace.Sequence) {
			s.Stream(strA)
			s.Then("aclrtDestroyStream", testtrace.A(strA))
		}, nil},
	} {
		s := testtrace.NewSequence(t)
		c.calls(s)
		keep, err := timeline.Living(s.Load().Reader, acl.Model)
		if got := slices.Sorted(maps.Keys(keep)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: kept %d, %v, want %d", name, got, err, c.want)
		}
	}
}
