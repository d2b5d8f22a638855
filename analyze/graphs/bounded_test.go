package graphs

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// What a graph needs ends with it, and with a capture that fails.
func TestStateEndsWithGraphs(t *testing.T) {
	const graph, group, out = 0x9000, 0x9100, 0x7ffe0000
	s := testtrace.NewSequence(t)
	s.Stream(testtrace.StreamA)
	s.Stream(testtrace.StreamB)
	s.Malloc(testtrace.DeviceA, 4096)
	for i := range 100 {
		s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0))
		s.Then("aclrtValueWait", testtrace.A(testtrace.DeviceA+uint64(i)*8, 1, 1, testtrace.StreamA))
		s.Then("aclmdlRICaptureTaskGrpBegin", testtrace.A(testtrace.StreamA))
		s.Then("aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 8, testtrace.StreamA))
		s.Then("aclmdlRICaptureTaskGrpEnd", testtrace.A(testtrace.StreamA, out), testtrace.Outs("handle", group))
		s.Then("aclrtMemsetAsync", testtrace.A(testtrace.DeviceA, 64, 0, 64, testtrace.StreamA))
		if i%2 == 0 {
			s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, out), testtrace.Fails(107025))
			continue
		}
		s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, out), testtrace.Outs("modelRI", graph))
		s.Then("aclmdlRIExecuteAsync", testtrace.A(graph, testtrace.StreamA))
		s.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(testtrace.StreamB, group))
		s.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(testtrace.StreamB))
		s.Then("aclmdlRIDestroy", testtrace.A(graph))
	}
	w := timeline.NewWalk(s.Load().Reader, acl.Model, nil)
	x, err := New(w)
	if err == nil {
		err = w.Run(&timeline.Visitor{Call: x.Call})
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := len(x.captures) + len(x.joined) + len(x.graphs) + len(x.groups) + len(x.updates) + len(x.signals) + len(x.users); n > 0 || x.streams[0] > 0 {
		t.Errorf("%d objects and %d streams are left", n, x.streams[0])
	}
}
