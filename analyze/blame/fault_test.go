package blame_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/analyze/graphs"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

const (
	faultGraph, faultGroup, faultOut = 0x9000, 0x9100, 0x7ffe0000
	deviceFault, noStream            = 507015, 207005
)

// grouped captures a launch in a task group and one outside.
func grouped(t *testing.T) *testtrace.Sequence {
	s := testtrace.NewSequence(t)
	s.Stream(testtrace.StreamA)
	s.Stream(testtrace.StreamB)
	s.Malloc(testtrace.DeviceA, 4096)
	s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0))
	s.Then("aclmdlRICaptureTaskGrpBegin", testtrace.A(testtrace.StreamA))
	s.Then("aclrtMemsetAsync", testtrace.A(testtrace.DeviceA, 64, 0, 64, testtrace.StreamA))
	s.Then("aclmdlRICaptureTaskGrpEnd", testtrace.A(testtrace.StreamA, faultOut), testtrace.Outs("handle", faultGroup))
	s.Then("aclrtMemsetAsync", testtrace.A(testtrace.DeviceA, 64, 0, 64, testtrace.StreamA))
	s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, faultOut), testtrace.Outs("modelRI", faultGraph))
	return s
}

func execute(s *testtrace.Sequence) {
	s.Then("aclmdlRIExecuteAsync", testtrace.A(faultGraph, testtrace.StreamA))
}

func synchronize(s *testtrace.Sequence, mods ...testtrace.Mod) {
	s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), mods...)
}

// faultKinds returns the kinds of the graph faults that a report hints at.
func faultKinds(rep *blame.Report) (kinds []graphs.Kind) {
	for _, f := range rep.Faults {
		kinds = append(kinds, f.Kind)
	}
	return kinds
}

// accusing returns the first fault of a graph among the reasons against a suspect, "" for none.
func accusing(x *blame.Suspect) graphs.Kind {
	for _, r := range x.Reasons {
		if r.Kind == blame.GraphFault {
			return r.Fault.Kind
		}
	}
	return ""
}

// A graph whose update overtakes a run made wrong results, and blame found nothing as no call failed.
func TestFaultOfGraphIsAHintIfNothingFailed(t *testing.T) {
	run := func(waits bool) (*blame.Report, error) {
		s := grouped(t)
		execute(s) // call 10
		if waits {
			synchronize(s)
		}
		s.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(testtrace.StreamB, faultGroup))
		s.Then("aclrtMemsetAsync", testtrace.A(testtrace.DeviceA, 64, 0, 64, testtrace.StreamB))
		s.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(testtrace.StreamB))
		return blame.Blame(s.Load().Reader, acl.Model, nil)
	}
	if rep, err := run(true); !errors.Is(err, blame.ErrNothingFailed) {
		t.Errorf("with a wait: %+v, %v", rep, err)
	}
	rep, err := run(false)
	if err != nil || !slices.Equal(faultKinds(rep), []graphs.Kind{graphs.EarlyUpdate}) {
		t.Fatalf("%+v, %v", rep, err)
	}
	var text bytes.Buffer
	if err := report.BlameText(&text, rep, &report.TextOptions{Width: 400}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hint: an update of task_group#", " may overtake an earlier run of graph#", " --call "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, &text)
		}
	}
}

// A run of a graph after its memory was freed is a suspect for that reason.
func TestFaultOfGraphIsEvidenceAgainstItsRun(t *testing.T) {
	for _, frees := range []bool{true, false} {
		s := grouped(t)
		if frees {
			s.Then("aclrtFree", testtrace.A(testtrace.DeviceA))
		}
		execute(s)
		synchronize(s, testtrace.Fails(deviceFault))
		rep, err := blame.Blame(s.Load().Reader, acl.Model, nil)
		if err != nil || len(rep.Suspects) != 1 {
			t.Fatalf("%+v, %v", rep, err)
		}
		want := graphs.Kind("")
		if frees {
			want = graphs.FreedMemory
		}
		if x := &rep.Suspects[0]; accusing(x) != want || x.Unlikely() == frees || len(rep.Faults) > 0 {
			t.Errorf("memory is freed: %v: %+v, hints %v", frees, x, faultKinds(rep))
		}
	}
}

// Calls after the failure are no fault: programs free memory when they end.
func TestFaultOfGraphAfterTheFailureIsNone(t *testing.T) {
	s := grouped(t)
	execute(s)
	synchronize(s, testtrace.Fails(deviceFault))
	s.Then("aclrtFree", testtrace.A(testtrace.DeviceA))
	execute(s)
	rep, err := blame.Blame(s.Load().Reader, acl.Model, nil)
	if err != nil || len(rep.Suspects) != 1 || accusing(&rep.Suspects[0]) != "" || len(rep.Faults) > 0 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// A capture that fails since graphs hold the streams is explained by them. Another failed call is not.
func TestGraphsThatHoldTheStreamsAreAHintForACapture(t *testing.T) {
	for fn, want := range map[string][]graphs.Kind{"aclmdlRICaptureBegin": {graphs.CapturedStreams}, "aclrtCreateStream": {graphs.CapturedStreams}, "aclrtMalloc": nil} {
		s := testtrace.NewSequence(t)
		s.Stream(testtrace.StreamA)
		for i := range uint64(1536) {
			s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0))
			s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, faultOut), testtrace.Outs("modelRI", faultGraph+i))
		}
		s.Then(fn, testtrace.A(testtrace.StreamA, 4096, 0)[:len(acl.Model.Lookup(fn).Params)], testtrace.Fails(noStream))
		rep, err := blame.Blame(s.Load().Reader, acl.Model, nil)
		if err != nil || !slices.Equal(faultKinds(rep), want) {
			t.Errorf("%s: %v, want %v, %v", fn, faultKinds(rep), want, err)
		}
	}
}
