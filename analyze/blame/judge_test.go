package blame_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
)

const (
	low, high = testtrace.DeviceA, testtrace.DeviceA + 4096 // neighbours
	hostMade  = 0x7f0000001000
)

// neighbours allocates memory and a stream: calls 0 to 4.
func neighbours(t *testing.T) *testtrace.Sequence {
	s := testtrace.NewSequence(t)
	s.Then("aclrtSetDevice", testtrace.A(0))
	s.Malloc(low, 4096)
	s.Malloc(high, 4096)
	s.Stream(testtrace.StreamA)
	s.Then("aclrtMallocHost", testtrace.A(0x7ffe0000, 64), testtrace.Outs("hostPtr", hostMade))
	return s
}

// fill adds a fill of device memory, with the runtime's task ids.
func fill(s *testtrace.Sequence, at, n uint64, id uint32) {
	s.Then("aclrtMemsetAsync", testtrace.A(at, n, 0, n, testtrace.StreamA), task(9, id))
}

func faults(s *testtrace.Sequence) {
	s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), testtrace.Fails(507015))
}

// The memory of a task in flight is compared with the allocations at the time of the call and until the failure.
func TestFindingsAboutArguments(t *testing.T) {
	for name, c := range map[string]struct {
		calls   func(s *testtrace.Sequence)
		finding blame.Finding
		beyond  uint64
		end     string
		reason  bool
	}{
		"all of it":     {func(s *testtrace.Sequence) { fill(s, low, 4096, 1); faults(s) }, blame.NoFinding, 0, "", false},
		"too much":      {func(s *testtrace.Sequence) { fill(s, low+4000, 200, 1); faults(s) }, blame.BeyondEnd, 104, "", true},
		"nowhere":       {func(s *testtrace.Sequence) { fill(s, low+1<<30, 8, 1); faults(s) }, blame.NoAllocation, 0, "", true},
		"freed later":   {func(s *testtrace.Sequence) { fill(s, low, 8, 1); faults(s); s.Then("aclrtFree", testtrace.A(low)) }, blame.NoFinding, 0, "", false},
		"freed at once": {func(s *testtrace.Sequence) { fill(s, low, 8, 1); s.Then("aclrtFree", testtrace.A(low)); faults(s) }, blame.FreedMeantime, 0, "", true},
		"freed before":  {func(s *testtrace.Sequence) { s.Then("aclrtFree", testtrace.A(high)); fill(s, high+8, 8, 1); faults(s) }, blame.FreedBefore, 0, "", true},
		"freed or end":  {func(s *testtrace.Sequence) { s.Then("aclrtFree", testtrace.A(high)); fill(s, high, 8, 1); faults(s) }, blame.FreedBefore, 0, "device#1", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := neighbours(t)
			c.calls(s)
			rep, text := judged(t, s)
			if len(rep.Suspects) != 1 || len(rep.Suspects[0].Arguments) != 1 {
				t.Fatalf("suspects %+v\n%s", rep.Suspects, text)
			}
			x := &rep.Suspects[0]
			if a := x.Arguments[0]; a.Finding != c.finding || a.Beyond != c.beyond || a.End != c.end || a.How != "writes" || because(x, blame.BadArgument) != c.reason {
				t.Errorf("%+v, reasons %+v", a, x.Reasons)
			}
		})
	}
}

// A wait returns the error that the call of its task would return, if the runtime may have found it later. Other calls return their own.
func TestWaitsReturnErrorsOfTasks(t *testing.T) {
	for _, c := range []struct {
		call string
		args []uint64
		code int32
		task bool
	}{
		{"aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), 507022, true}, {"aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), 107003, false},
		{"aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), 507899, true}, {"aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), 200000, false},
		{"aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), 508000, false}, {"aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), 506999, false},
		{"aclrtSetDevice", testtrace.A(1), 507022, false},
	} {
		s := neighbours(t)
		fill(s, low, 8, 1)
		s.Then(c.call, c.args, testtrace.Fails(c.code))
		rep, text := judged(t, s)
		if len(rep.Suspects) != 1 || (rep.Suspects[0].Index == 5) != c.task || because(&rep.Suspects[0], blame.SelfFailed) == c.task {
			t.Errorf("%+v: %s", c, text)
		}
	}
}

// An address in the user's hint stands for its allocation, or for itself outside of any. Freed memory comes first in the history, host memory is not in it.
func TestHintedAddress(t *testing.T) {
	const nowhere = low + 1<<30
	run := func(addr uint64) (text string) {
		s := neighbours(t)
		fill(s, low, 8, 40)
		fill(s, nowhere, 8, 41)
		s.Then("aclrtMemcpyAsync", testtrace.A(hostMade, 8, high, 8, 2, testtrace.StreamA), task(9, 42))
		faults(s)
		rep, err := blame.Blame(s.Load().Reader, acl.Model, &blame.Options{Addr: addr})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range rep.Suspects {
			for _, r := range x.Reasons {
				text += fmt.Sprintf("%d %d %s; ", x.Index, r.Kind, r.Addr)
			}
		}
		if len(rep.Hints) != 0 {
			t.Errorf("hints %+v", rep.Hints)
		}
		return text
	}
	for addr, want := range map[uint64]string{
		0:          fmt.Sprintf("6 %d 0x0; ", blame.BadArgument),
		low + 4095: fmt.Sprintf("5 %d %#x; 6 %d 0x0; ", blame.SameMemory, low+4095, blame.BadArgument),
		nowhere:    fmt.Sprintf("6 %d 0x0; 6 %d %#x; ", blame.BadArgument, blame.SameAddress, nowhere),
		high + 8:   fmt.Sprintf("7 %d %#x; 6 %d 0x0; ", blame.SameMemory, high+8, blame.BadArgument),
		hostMade:   fmt.Sprintf("7 %d %#x; 6 %d 0x0; ", blame.SameAddress, hostMade, blame.BadArgument),
	} {
		if got := run(addr); got != want {
			t.Errorf("%#x: reasons %q, want %q", addr, got, want)
		}
	}
	s := neighbours(t)
	s.Then("aclrtMemcpyAsync", testtrace.A(hostMade, 8, high, 8, 2, testtrace.StreamA), task(9, 42))
	s.Then("aclrtFree", testtrace.A(high))
	faults(s)
	rep, _ := judged(t, s)
	if len(rep.History) != 1 || rep.History[0].Place.Addr != high || rep.History[0].Place.Ended == nil || len(rep.History[0].Accesses) != 1 {
		t.Errorf("history %+v", rep.History)
	}
}

// The runtime gave the ids of the failed task to a callback. The first ones count, and those of other processes don't.
func TestExceptionNamesTask(t *testing.T) {
	returns := func(v uint64) testtrace.Mod { return func(_ *api.Func, c *format.Call) { c.Ret = v } }
	s := neighbours(t)
	for i := range uint32(3) {
		fill(s, low, 8, 40+i)
	}
	callback := func(thread uint32, id uint64) {
		s.Thread = thread
		s.Then(acl.Model.Faults.Stream, testtrace.A(0x10), returns(9))
		s.Then(acl.Model.Faults.Task, testtrace.A(0x10), returns(id))
	}
	callback(2, 40)
	callback(1, 41)
	callback(1, 42)
	s.Thread = 0
	faults(s)
	rep, text := judged(t, s)
	if x := &rep.Suspects[0]; len(rep.Suspects) != 1 || x.Index != 6 || !x.Certain || !because(x, blame.TaskNamed) || *x.Task != (format.TaskID{Stream: 9, Task: 41}) {
		t.Errorf("%+v\n%s", x, text)
	}
}

// The task of a log may be another process's. The hint is the user's.
func TestTaskOfAnotherProcess(t *testing.T) {
	s := testtrace.NewSequence(t)
	s.Thread = 2
	s.Malloc(low, 4096)
	s.Then("aclrtMemset", testtrace.A(low, 8, 0, 8), task(9, 41))
	rep, err := blame.Blame(s.Load().Reader, acl.Model, &blame.Options{Task: &format.TaskID{Stream: 9, Task: 41}})
	if err != nil || len(rep.Suspects) != 1 || rep.Suspects[0].PID != 4002 || len(rep.Hints) != 1 || rep.Hints[0].Source != blame.User || rep.Hints[0].Task.Task != 41 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// A call that never returned is a suspect itself if no task is in flight.
func TestUnreturnedCallIsASuspect(t *testing.T) {
	s := neighbours(t)
	s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), testtrace.Hangs)
	rep, text := judged(t, s)
	if len(rep.Suspects) != 1 || rep.Suspects[0].Index != 5 || !because(&rep.Suspects[0], blame.Unreturned) || rep.Suspects[0].Certain {
		t.Errorf("%+v\n%s", rep.Suspects, text)
	}
}

// The first of two broken captures counts, and a wait that was written by a copy names the copy.
func TestFirstCaptureAndWrittenValue(t *testing.T) {
	s := neighbours(t)
	for range 2 {
		s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 0)) // calls 5, 8
		s.Then("aclrtMemcpy", testtrace.A(low, 8, testtrace.HostA, 8, 1), testtrace.Fails(refused))
		s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Fails(spoiled), testtrace.Outs("modelRI", graph))
	}
	if rep, text := judged(t, s); rep.Failure.Index != 6 || rep.Capture == nil || rep.Capture.Begin.Index != 5 || rep.Failed != 4 || rep.Before != 0 {
		t.Error(text)
	}
	s = neighbours(t)
	s.Then("aclrtMemcpy", testtrace.A(low+64, 8, testtrace.HostA, 8, 1)) // call 5
	s.Then("aclrtMemcpy", testtrace.A(low+128, 8, testtrace.HostA, 8, 1))
	s.Then("aclrtValueWait", testtrace.A(low+64, 1, 0, testtrace.StreamA))
	s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), testtrace.Hangs)
	rep, text := judged(t, s)
	i := slices.IndexFunc(rep.Suspects[0].Reasons, func(r blame.Reason) bool { return r.Kind == blame.Waiting })
	if i < 0 || rep.Suspects[0].Index != 7 {
		t.Fatal(text)
	}
	if w := rep.Suspects[0].Reasons[i].Wait; !w.Recorded || w.Call != 5 || w.Addr != low+64 {
		t.Errorf("%+v\n%s", w, text)
	}
}

// A graph waits for two events: it stands at the one that was recorded longest ago, or never.
func TestGraphStandsAtTheOldestRecord(t *testing.T) {
	for recorded, want := range map[int]uint64{0: 10, 1: 9} { // the wait for the other event
		s := neighbours(t)
		events := [2]uint64{testtrace.Event, testtrace.Event + 8}
		for _, e := range events {
			s.Then("aclrtCreateEvent", testtrace.A(0x7ffe0010), testtrace.Outs("event", e))
		}
		s.Then("aclrtRecordEvent", testtrace.A(events[recorded], testtrace.StreamA))
		s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 1))
		for _, e := range events {
			s.Then("aclrtStreamWaitEvent", testtrace.A(testtrace.StreamA, e)) // calls 9, 10
		}
		s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
		s.Then("aclmdlRIExecuteAsync", testtrace.A(graph, testtrace.StreamA))
		s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), testtrace.Hangs)
		rep, text := judged(t, s)
		var by []uint64
		for _, r := range rep.Suspects[0].Reasons {
			if r.Wait != nil {
				by = append(by, r.Wait.By)
			}
		}
		if !slices.Equal(by, []uint64{want}) {
			t.Errorf("event %d was recorded: the waits are %d\n%s", recorded, by, text)
		}
	}
}

// The history has the memory of the value for which a graph waits, and the write that the wait misses.
func TestHistoryOfAValueInAGraph(t *testing.T) {
	s := neighbours(t)
	s.Then("aclrtMemcpy", testtrace.A(low+64, 8, testtrace.HostA, 8, 1)) // call 5
	s.Then("aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 1))
	s.Then("aclrtValueWait", testtrace.A(low+64, 1, 0, testtrace.StreamA))
	s.Then("aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
	s.Then("aclmdlRIExecuteAsync", testtrace.A(graph, testtrace.StreamA))
	s.Then("aclrtSynchronizeStream", testtrace.A(testtrace.StreamA), testtrace.Hangs)
	rep, text := judged(t, s)
	if len(rep.History) != 1 || rep.History[0].Place.Addr != low || rep.History[0].Accesses[0].Index != 5 {
		t.Errorf("%+v\n%s", rep.History, text)
	}
}

// A launch without an address where others have one comes before a launch with another number, and so do the words of one launch.
func TestMissingAddressComesFirst(t *testing.T) {
	for _, fails := range []bool{false, true} {
		s := neighbours(t)
		s.Then("aclrtBinaryGetFunction", testtrace.A(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", "zero"), testtrace.Outs("funcHandle", testtrace.Function))
		for i := range uint64(20) {
			n, at := uint64(0x80), uint64(low)
			if i == 3 {
				n = 0x400
			}
			if i == 3 && fails || i == 5 && !fails {
				at = 0
			}
			s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(testtrace.Function, 1, testtrace.StreamA, 0, 0x7ffe0100, 16, 0, 0), testtrace.Reads("hostArgs", 0, testtrace.Words(n, at)))
		}
		var odds []blame.Odd
		var calls []uint64
		if fails {
			faults(s)
		}
		rep, text := judged(t, s)
		for _, x := range rep.Odds {
			odds, calls = append(odds, x.Odd), append(calls, x.Index)
		}
		if fails {
			calls = append(calls, rep.Suspects[0].Index)
			for _, r := range rep.Suspects[0].Reasons {
				if r.Odd != nil {
					odds = append(odds, *r.Odd)
				}
			}
		}
		want := []uint64{11, 9}
		if fails {
			want = []uint64{9}
		}
		if len(odds) != 2 || !odds[0].Address || odds[0].Word.At != 8 || odds[0].Value != 0 || odds[1].Address || odds[1].Value != 0x400 || odds[1].Usual != 0x80 || odds[1].Same != 19 || !slices.Equal(calls, want) {
			t.Errorf("failed=%t: %+v of calls %d\n%s", fails, odds, calls, text)
		}
	}
}

// A stream of another context is found among a call's other objects.
func TestOtherContextBesideMemory(t *testing.T) {
	s := neighbours(t)
	s.Then("aclrtSetDevice", testtrace.A(1))
	s.Then("aclrtMemsetAsync", testtrace.A(low, 8, 0, 8, testtrace.StreamA), testtrace.Fails(107003))
	if rep, text := judged(t, s); rep.Cause == nil || rep.Cause.Kind != blame.OtherContext || !strings.HasPrefix(rep.Cause.Object, "stream#") || rep.Cause.Device != 1 || rep.Cause.MadeOn != 0 {
		t.Errorf("%+v\n%s", rep.Cause, text)
	}
}

// A failure is said to have been survived only if the program ended by an error, for which there is no other failure.
func TestSurvivedOnlyWithAnErrorExit(t *testing.T) {
	for _, c := range []struct {
		survives bool
		code     int
		want     bool
	}{{true, 1, true}, {true, 0, false}, {false, 1, false}, {false, 0, false}} {
		s := neighbours(t)
		copies := func(mods ...testtrace.Mod) {
			s.Then("aclrtMemcpy", testtrace.A(low, 8, testtrace.HostA, 8, 1), mods...)
		}
		if copies(testtrace.Fails(107000)); c.survives {
			copies()
		}
		exit(s, c.code)
		if rep, text := judged(t, s); rep.Failure.Index != 5 || rep.Survived != c.want {
			t.Errorf("%+v: survived %t\n%s", c, rep.Survived, text)
		}
	}
}

func TestDiedNamesThreeThreads(t *testing.T) {
	d := blame.Died{PID: 7, Command: []string{"a", "b"}, Signal: 11}
	for i := range 5 {
		if got, want := strings.Contains(d.String(), fmt.Sprintf(", and %d more threads", len(d.Last)-3)), len(d.Last) > 3; got != want {
			t.Errorf("%s", &d)
		}
		d.Last = append(d.Last, blame.LastCall{TID: 10 + i, Call: uint64(i), Func: "f", Returned: i == 0})
	}
	if want := "process 7 (a b) was killed by SIGSEGV: thread 10 after call 0 f, thread 11 in call 1 f, thread 12 in call 2 f, and 2 more threads"; d.String() != want {
		t.Errorf("%s, want %s", &d, want)
	}
}

// A wait in a graph comes at an unknown time, so nothing is said about races. Known accesses come before possible ones.
func TestRacesAreKnownOnes(t *testing.T) {
	for _, captured := range []bool{false, true} {
		s := newSharers(t)
		if captured {
			s.call(reader, "aclmdlRICaptureBegin", testtrace.A(testtrace.StreamA, 1))
			s.call(reader, "aclrtWaitAndResetNotify", testtrace.A(importedNotify, testtrace.StreamA, 0))
			s.call(reader, "aclmdlRICaptureEnd", testtrace.A(testtrace.StreamA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
		}
		s.call(writer, "aclrtLaunchKernelWithHostArgs", testtrace.A(testtrace.Function, 1, testtrace.StreamB, 0, 0x7ffe0100, 8, 0, 0), testtrace.Reads("hostArgs", 0, testtrace.Words(keys)))
		s.call(writer, "aclrtMemsetAsync", testtrace.A(keys+512, 64, 1, 64, testtrace.StreamB))
		s.call(reader, "aclrtMemcpyAsync", testtrace.A(private, 1024, imported, 1024, 3, testtrace.StreamA))
		s.call(writer, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamB))
		s.call(reader, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		rep, err := blame.Blame(s.Load().Reader, acl.Model, nil)
		if captured {
			if !errors.Is(err, blame.ErrNothingFailed) {
				t.Errorf("a graph waits: %+v, %v", rep, err)
			}
			continue
		}
		if err != nil || len(rep.Races) != 1 {
			t.Fatalf("%+v, %v", rep, err)
		}
		if x := rep.Races[0]; x.Names || x.Named || !x.Wrote || x.Writes || x.Bytes != 64 || x.Place.Offset != 512 || x.Races != 1 || x.Other.Func != "aclrtMemsetAsync" {
			t.Errorf("%+v", x)
		}
	}
}

// Memory is looked up at a call, at a task's call, and for one process.
func TestMemoryIsLookedUpByMoment(t *testing.T) {
	s := neighbours(t)
	fill(s, low, 8, 41)
	s.Then("aclrtFree", testtrace.A(low))
	s.Thread = 2
	s.Malloc(low+64, 64)
	r := s.Load().Reader
	one := func(o *blame.WhereOptions) string {
		t.Helper()
		w, err := blame.Where(r, acl.Model, low+64, o)
		if err != nil {
			t.Fatal(err)
		}
		m, err := blame.MapAt(r, acl.Model, o)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, p := range w.Places {
			text += fmt.Sprintf("%s+%d ", p.Place.Object, p.Place.Offset)
			if p.Place.Ended != nil {
				text += "freed "
			}
		}
		for _, a := range m.Ranges {
			text += fmt.Sprintf("%d:%#x ", a.PID, uint64(a.Addr-low))
		}
		if m.More != 0 || (m.At == nil) != (w.At == nil) || m.At != nil && m.At.Index != w.At.Index {
			t.Errorf("at %+v and %+v", m.At, w.At)
		}
		return strings.TrimSpace(text)
	}
	if got, want := one(nil), fmt.Sprintf("device#1+64 freed device#5+0 4001:0x1000 4001:%#x 4002:0x40", uint64(hostMade-low)); got != want {
		t.Errorf("at the end: %q, want %q", got, want)
	}
	if got, want := one(&blame.WhereOptions{Task: &format.TaskID{Stream: 9, Task: 41}}), fmt.Sprintf("device#1+64 4001:0x0 4001:0x1000 4001:%#x", uint64(hostMade-low)); got != want {
		t.Errorf("at the task: %q, want %q", got, want)
	}
	if got, want := one(&blame.WhereOptions{PID: 4002}), "device#5+0 4002:0x40"; got != want {
		t.Errorf("of one process: %q, want %q", got, want)
	}
	none := uint64(math.MaxUint32)
	for _, o := range []*blame.WhereOptions{{Call: &none}, {Task: &format.TaskID{Stream: 9, Task: 7}}} {
		if _, err := blame.Where(r, acl.Model, low, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
		if _, err := blame.MapAt(r, acl.Model, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}
