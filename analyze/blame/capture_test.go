package blame_test

import (
	"reflect"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
)

// A launch that a graph takes, and one that changes a task there, were listed as accesses at the time of the call.
func TestHistoryMarksCapturedAccesses(t *testing.T) {
	const graph, p = 0x77, 0x1240_0000_0000
	s := testtrace.NewSequence(t)
	s.Malloc(p, 64)
	s.Stream(testtrace.StreamA)
	fill := func() { s.Then("aclrtMemsetAsync", testtrace.A(p, 64, 0, 64, testtrace.StreamA)) }
	fill()
	s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0))
	fill()
	s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
	s.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(testtrace.StreamA, 0x99))
	fill()
	s.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(testtrace.StreamA))
	fill()
	w, err := blame.Where(s.Load().Reader, acl.Model, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	var captured []bool
	for _, a := range w.Places[0].Accesses {
		captured = append(captured, a.Captured)
	}
	if want := []bool{false, true, true, false}; !reflect.DeepEqual(captured, want) {
		t.Errorf("captured %v, want %v", captured, want)
	}
}
