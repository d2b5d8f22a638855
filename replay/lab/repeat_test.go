package lab

import (
	"testing"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
)

// A launch on a device's default stream was timed until a wait for another device's default stream, or for another device.
func TestTimedWaitsOfDefaultStreams(t *testing.T) {
	const page, binary, function = 0x7ffe0000, 0x2000, 0x3000
	s := testtrace.NewSequence(t)
	on := func(thread uint32, name string, args []uint64, mods ...testtrace.Mod) {
		s.Thread = thread
		s.Then(name, args, mods...)
	}
	on(0, "aclInit", testtrace.A(0))
	on(0, "aclrtSetDevice", testtrace.A(0))
	on(1, "aclrtSetDevice", testtrace.A(1))
	on(0, "aclrtBinaryLoadFromData", testtrace.A(page, 64, 0, page), testtrace.Reads("data", 0, make([]byte, 64)), testtrace.Outs("binHandle", binary))
	on(0, "aclrtBinaryGetFunction", testtrace.A(binary, page, page), testtrace.Text("kernelName", "k"), testtrace.Outs("funcHandle", function))
	launch := func(thread uint32) {
		on(thread, "aclrtLaunchKernelWithHostArgs", testtrace.A(function, 1, 0, 0, page, 16, 0, 0), testtrace.Reads("hostArgs", 0, make([]byte, 16)))
	}
	launch(0)
	launch(1)
	on(0, "aclrtSynchronizeStream", testtrace.A(0))
	on(1, "aclrtSynchronizeStream", testtrace.A(0))
	launch(0)
	launch(1)
	on(1, "aclrtSynchronizeDevice", nil)
	on(0, "aclrtSynchronizeDevice", nil)
	p, err := compile.Trace(s.Load().Reader, acl.Model, t.TempDir(), &compile.Options{Backend: backend.New("", acl.Model), Place: compile.PlaceAuto})
	if err != nil || len(p.Found.Unsupported) > 0 {
		t.Fatal(err, p.Found.Unsupported)
	}
	defer p.Close()
	launches, spans := timed(p, nil)
	want := map[uint64]uint64{5: 7, 6: 8, 9: 12, 10: 11} // waits by launch
	for i, l := range launches {
		if wait := p.File.At(spans[i][1]).Call; wait != want[l.Call] {
			t.Errorf("launch %d is timed until call %d, want %d", l.Call, wait, want[l.Call])
		}
	}
	if len(launches) != len(want) {
		t.Errorf("%d launches", len(launches))
	}
}

// A replay with --poison said of results that a race had changed that they depend on memory that nothing has written.
func TestRacesAreNoUnwrittenMemory(t *testing.T) {
	const page = 0x7ffe0000
	s := testtrace.NewSequence(t)
	s.Then("aclInit", testtrace.A(0))
	s.Then("aclrtSetDevice", testtrace.A(0))
	s.Then("aclrtMalloc", testtrace.A(page, 64, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
	copied := func(_ *api.Func, c *format.Call) {
		c.Data = append(c.Data, format.Data{Dir: format.DirOut, Len: 64, Bytes: make([]byte, 64)})
	}
	for range 2 {
		s.Then("aclrtMemcpy", testtrace.A(page, 64, testtrace.DeviceA, 64, 2), copied)
	}
	p, err := compile.Trace(s.Load().Reader, acl.Model, t.TempDir(), &compile.Options{Backend: backend.New("", acl.Model), Place: compile.PlaceAuto, Compare: true})
	if err != nil || len(p.Found.Unsupported) > 0 {
		t.Fatal(err, p.Found.Unsupported)
	}
	defer p.Close()
	var checks []int
	n := 0
	for i, in := range p.File.Instructions(0) {
		if n = i + 1; in.Op == plan.OpCheck {
			checks = append(checks, i)
		}
	}
	if len(checks) != 2 {
		t.Fatalf("%d results", len(checks))
	}
	for _, c := range []struct {
		third uint64 // of the second result, with the memory of the first run
		why   verify.Reason
		want  verify.Reason
	}{{1, "", verify.Uninitialised}, {3, "", verify.Varies}, {1, verify.Race, verify.Varies}} {
		runs := NewRuns(p, nil, true)
		for run, got := range [][2]uint64{{1, 1}, {2, 2}, {1, c.third}} {
			results := make([]plan.Result, n)
			for k, i := range checks {
				results[i].Ret = got[k]
			}
			results[checks[1]].Flags = uint32(c.why.Code()) << plan.ReasonShift
			runs.Add(results, 1, time.Duration(run))
		}
		if got := runs.Varying; len(got) != 2 || got[checks[0]] != c.want || got[checks[1]] != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Runs whose results were all within the tolerance had "several results", since the numbers differed.
func TestSameWithinTheTolerance(t *testing.T) {
	const done, tolerated, differs = plan.ResultDone, plan.ResultDone | plan.ResultTolerated, plan.ResultDone | plan.ResultDiffers
	check, call := &plan.Instruction{Op: plan.OpCheck}, &plan.Instruction{Op: plan.OpCall, Bits: 32}
	for _, c := range []struct {
		in   *plan.Instruction
		a, b plan.Result
		want bool
	}{
		{check, plan.Result{Flags: done}, plan.Result{Flags: done}, true},
		{check, plan.Result{Flags: tolerated, Ret: 1}, plan.Result{Flags: tolerated, Ret: 2}, true},
		{check, plan.Result{Flags: done}, plan.Result{Flags: tolerated, Ret: 2}, true},
		{check, plan.Result{Flags: tolerated, Ret: 1}, plan.Result{Flags: differs, Ret: 2}, false},
		{check, plan.Result{Flags: differs, Ret: 1}, plan.Result{Flags: differs, Ret: 2}, false},
		{check, plan.Result{Flags: differs, Ret: 1}, plan.Result{Flags: differs, Ret: 1}, true},
		{check, plan.Result{}, plan.Result{Flags: done}, false},
		{call, plan.Result{Flags: done, Ret: 507015}, plan.Result{Flags: done}, false},
		{call, plan.Result{Flags: done, Ret: 507015}, plan.Result{Flags: done | plan.ResultReported}, true},
	} {
		if got := same(c.in, &c.a, &c.b); got != c.want {
			t.Errorf("%s %+v, %+v: %v", plan.OpNames[c.in.Op], c.a, c.b, got)
		}
	}
}
