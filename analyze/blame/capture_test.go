package blame_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/sim/opapi/block"
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
	s.Then("aclmdlRICaptureTaskGrpBegin", testtrace.A(testtrace.StreamA))
	fill() // call 5
	s.Then("aclmdlRICaptureTaskGrpEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("handle", 0x99))
	s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
	for range 2 {
		s.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(testtrace.StreamA, 0x99))
		fill() // call 9, 12
		s.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(testtrace.StreamA))
	}
	fill()
	w, err := blame.Where(s.Load().Reader, acl.Model, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	first, last := uint64(5), uint64(12)
	var captured []bool
	var replaces, by []*uint64
	for _, a := range w.Places[0].Accesses {
		captured, replaces, by = append(captured, a.Captured), append(replaces, a.Replaces), append(by, a.ReplacedBy)
	}
	if want := []bool{false, true, true, true, false}; !reflect.DeepEqual(captured, want) {
		t.Errorf("captured %v, want %v", captured, want)
	}
	if want := []*uint64{nil, nil, &first, &first, nil}; !reflect.DeepEqual(replaces, want) {
		t.Errorf("replaces %v, want %v", replaces, want)
	}
	if want := []*uint64{nil, &last, &last, nil, nil}; !reflect.DeepEqual(by, want) {
		t.Errorf("replaced by %v, want %v", by, want)
	}
}

// Twelve updates of a task give it the same addresses, but one gives it those of another layer. Values that change at each update don't matter.
func TestUpdateWithOddAddressIsAHint(t *testing.T) {
	const group, function = 0x99, 0x6600
	run := func(odd bool) (*blame.Report, error) {
		s := testtrace.NewSequence(t)
		for i := range uint64(3) {
			s.Malloc(testtrace.DeviceA+i<<20, 4096)
		}
		s.Stream(testtrace.StreamA)
		s.Then("aclrtBinaryGetFunction", testtrace.A(0x7700, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", "attention"), testtrace.Outs("funcHandle", function))
		s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0))
		s.Then("aclmdlRICaptureTaskGrpBegin", testtrace.A(testtrace.StreamA))
		s.Then("aclrtLaunchKernel", testtrace.A(function, 1, testtrace.DeviceA, 8, testtrace.StreamA))
		s.Then("aclmdlRICaptureTaskGrpEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("handle", group))
		s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", 0x77))
		for i := range uint64(12) {
			cache := uint64(testtrace.DeviceA)
			if odd && i == 7 {
				cache += 1 << 20
			}
			o := testtrace.OnTensors("attention", testtrace.Contiguous(cache, block.In, 0, 4), testtrace.Contiguous(testtrace.DeviceA+2<<20, block.Out, 0, 4+int64(i)))
			s.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(testtrace.StreamA, group))
			b := o.Bytes()
			s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(function, 1, testtrace.StreamA, 0, 0x7ffe1000, uint64(len(b)), 0, 0), testtrace.Reads("hostArgs", 0, b))
			s.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(testtrace.StreamA))
		}
		return blame.Blame(s.Load().Reader, acl.Model, nil)
	}
	if rep, err := run(false); !errors.Is(err, blame.ErrNothingFailed) {
		t.Errorf("without an odd update: %+v, %v", rep, err)
	}
	rep, err := run(true)
	if err != nil || len(rep.Odds) != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if x := rep.Odds[0]; !strings.HasPrefix(x.Odd.Group, "task_group#") || x.Odd.Same != 11 || x.Odd.Launches != 12 || x.Odd.Value != testtrace.DeviceA+1<<20 || x.Odd.Usual != testtrace.DeviceA {
		t.Errorf("%+v", x)
	}
}

// Two tasks of a graph get each other's addresses once. It was no hint before ten updates, which a graph of a rare size never sees.
func TestUpdatesOfTwoTasksExchangedIsAHintAfterFewRuns(t *testing.T) {
	const function = 0x6600
	run := func(runs int, cache func(run, task int) uint64) (*blame.Report, error) {
		s := testtrace.NewSequence(t)
		for i := range uint64(4) {
			s.Malloc(testtrace.DeviceA+i<<20, 4096)
		}
		launch := func(cache uint64) {
			b := testtrace.OnTensors("attention", testtrace.Contiguous(cache, block.In, 0, 4), testtrace.Contiguous(testtrace.DeviceA+3<<20, block.Out, 0, 4)).Bytes()
			s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(function, 1, testtrace.StreamA, 0, 0x7ffe1000, uint64(len(b)), 0, 0), testtrace.Reads("hostArgs", 0, b))
		}
		s.Stream(testtrace.StreamA)
		s.Then("aclrtBinaryGetFunction", testtrace.A(0x7700, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", "attention"), testtrace.Outs("funcHandle", function))
		s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0))
		for task := range 2 {
			s.Then("aclmdlRICaptureTaskGrpBegin", testtrace.A(testtrace.StreamA))
			launch(cache(-1, task))
			s.Then("aclmdlRICaptureTaskGrpEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("handle", uint64(0x99+task)))
		}
		s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", 0x77))
		for i := range runs {
			for task := range 2 {
				s.Then("aclmdlRICaptureTaskUpdateBegin", testtrace.A(testtrace.StreamA, uint64(0x99+task)))
				launch(cache(i, task))
				s.Then("aclmdlRICaptureTaskUpdateEnd", testtrace.A(testtrace.StreamA))
			}
		}
		return blame.Blame(s.Load().Reader, acl.Model, nil)
	}
	of := func(task int) uint64 { return testtrace.DeviceA + uint64(task)<<20 }
	exchangedIn := func(odd int) func(run, task int) uint64 {
		return func(run, task int) uint64 {
			if run == odd {
				task = 1 - task
			}
			return of(task)
		}
	}
	rep, err := run(3, exchangedIn(1))
	if err != nil || len(rep.Odds) != 2 {
		t.Fatalf("%+v, %v", rep, err)
	}
	for task, x := range rep.Odds {
		other := rep.Odds[1-task].Odd
		if x.Odd.Other == "" || x.Odd.Other != other.Group || x.Odd.Group == other.Group || uint64(x.Odd.Value) != of(1-task) || uint64(x.Odd.Usual) != of(task) || x.Odd.Same != 3 || x.Odd.Launches != 4 {
			t.Errorf("task %d: %+v", task, x.Odd)
		}
	}
	for name, cache := range map[string]func(run, task int) uint64{
		"captured with the buffers of the other task": exchangedIn(-1),
		"buffers that take turns":                     func(run, task int) uint64 { return of((run + 1 + task) % 2) },
		"a third buffer":                              func(run, task int) uint64 { return of(task + task*max(0, run-1)) },
	} {
		if rep, err := run(3, cache); !errors.Is(err, blame.ErrNothingFailed) {
			t.Errorf("%s: %+v, %v", name, rep, err)
		}
	}
	if rep, err := run(2, exchangedIn(1)); !errors.Is(err, blame.ErrNothingFailed) {
		t.Errorf("two runs: %+v, %v", rep, err)
	}
}
