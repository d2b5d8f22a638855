package blame_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/report"
)

// judged returns Blame's findings about a synthetic trace and their text on one line.
func judged(t *testing.T, s *testtrace.Sequence) (*blame.Report, string) {
	t.Helper()
	return judgedIn(t, s.Load().Reader)
}

func judgedIn(t *testing.T, r *format.Reader) (*blame.Report, string) {
	t.Helper()
	rep, err := blame.Blame(r, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := report.BlameText(&b, rep, &report.TextOptions{Width: 1000}); err != nil {
		t.Fatal(err)
	}
	return rep, b.String()
}

const (
	otherContext = 0x8801
	graph        = 0x9901
	shared       = testtrace.DeviceA + 64 // a value
	refused      = 107030
	spoiled      = 507903
	timedOut     = 507046
)

// Each row of the explanations: the failed call was printed without the earlier call that made it invalid.
func TestBlameExplainsCodes(t *testing.T) {
	a, outs, fails := testtrace.A, testtrace.Outs, testtrace.Fails
	for name, c := range map[string]struct {
		calls func(s *testtrace.Sequence)
		want  string // "" for no explanation
	}{
		"no context": {func(s *testtrace.Sequence) {
			s.Then("aclrtSetDevice", a(0))
			s.Thread = 1
			s.Then("aclrtGetDevice", a(0x7ffe0000), fails(107002))
		}, "thread 4011 never set a device or a context; call 0 aclrtSetDevice on thread 4001 did, for its own thread only"},
		"no thread has a context": {func(s *testtrace.Sequence) {
			s.Then("aclrtGetDevice", a(0x7ffe0000), fails(107002))
		}, "thread 4001 never set a device or a context, nor did another thread of its process in this trace"},
		"another process's context": {func(s *testtrace.Sequence) {
			s.Thread = 2
			s.Then("aclrtSetDevice", a(0))
			s.Thread = 0
			s.Then("aclrtGetDevice", a(0x7ffe0000), fails(107002))
		}, "nor did another thread of its process"},
		"device reset": {func(s *testtrace.Sequence) {
			s.Then("aclrtSetDevice", a(2))
			s.Thread = 1
			s.Then("aclrtResetDevice", a(1))
			s.Then("aclrtResetDevice", a(2))
			s.Thread = 0
			s.Then("aclrtMalloc", a(0x7ffe0000, 64, 0), fails(107002))
		}, "call 2 aclrtResetDevice on thread 4011 ended the device or context that thread 4001 had set by call 0"},
		"context destroyed": {func(s *testtrace.Sequence) {
			s.Then("aclrtCreateContext", a(0x7ffe0000, 1), outs("context", otherContext))
			s.Then("aclrtDestroyContext", a(otherContext))
			s.Then("aclrtMalloc", a(0x7ffe0000, 64, 0), fails(107002))
		}, "call 1 aclrtDestroyContext on thread 4001 ended the device or context that thread 4001 had set by call 0"},
		"other device": {func(s *testtrace.Sequence) {
			s.Then("aclrtSetDevice", a(0))
			s.Stream(testtrace.StreamA)
			s.Thread = 1
			s.Then("aclrtSetDevice", a(1))
			s.Then("aclrtMemsetAsync", a(testtrace.DeviceA, 8, 0, 8, testtrace.StreamA), fails(107003))
		}, "stream#1 belongs to device 0 (call 1 aclrtCreateStream on thread 4001), thread 4011 is on device 1 (call 2 aclrtSetDevice)"},
		"other context": {func(s *testtrace.Sequence) {
			s.Then("aclrtSetDevice", a(0))
			s.Stream(testtrace.StreamA)
			s.Then("aclrtCreateContext", a(0x7ffe0000, 0), outs("context", otherContext))
			s.Then("aclrtMemsetAsync", a(testtrace.DeviceA, 8, 0, 8, testtrace.StreamA), fails(107003))
		}, "stream#1 belongs to device 0 (call 1 aclrtCreateStream on thread 4001), thread 4001 is on context#2 (device 0) (call 2 aclrtCreateContext)"},
		"other context's graph": {func(s *testtrace.Sequence) {
			s.Then("aclrtSetDevice", a(0))
			s.Then("aclmdlRIBuildBegin", a(0x7ffe0000, 0), outs("modelRI", graph))
			s.Then("aclrtSetDevice", a(1))
			s.Then("aclmdlRIExecuteAsync", a(graph, 0), fails(107004))
		}, "graph#1 belongs to device 0 (call 1 aclmdlRIBuildBegin on thread 4001), thread 4001 is on device 1 (call 2 aclrtSetDevice)"},
		"same context": {func(s *testtrace.Sequence) {
			s.Then("aclrtSetDevice", a(0))
			s.Stream(testtrace.StreamA)
			s.Then("aclrtMemsetAsync", a(testtrace.DeviceA, 8, 0, 8, testtrace.StreamA), fails(107003))
		}, ""},
		"never initialized": {func(s *testtrace.Sequence) {
			s.Then("aclFinalize", a(), fails(100001))
		}, "no call of its process in this trace initialized the runtime before"},
		"finalized": {func(s *testtrace.Sequence) {
			s.Then("aclInit", a(0))
			s.Thread = 1
			s.Then("aclFinalize", a())
			s.Thread = 0
			s.Then("aclrtSetDevice", a(0), fails(100001))
		}, "call 1 aclFinalize on thread 4011 had finalized the runtime"},
		"initialized twice": {func(s *testtrace.Sequence) {
			s.Then("aclInit", a(0))
			s.Then("aclFinalize", a())
			s.Then("aclInit", a(0))
			s.Thread = 1
			s.Then("aclInit", a(0), fails(100002))
		}, "call 2 aclInit on thread 4001 had initialized the runtime"},
		// The program ignored the first failure, and everything after it worked.
		"initialized twice, and a failure": {func(s *testtrace.Sequence) {
			s.Then("aclInit", a(0))
			s.Then("aclInit", a(0), fails(100002))
			s.Then("aclFinalize", a())
			s.Then("aclrtSetDevice", a(0), fails(100001))
		}, "call 2 aclFinalize on thread 4001 had finalized the runtime"},
		"finalized twice": {func(s *testtrace.Sequence) {
			s.Then("aclInit", a(0))
			s.Then("aclFinalize", a())
			s.Then("aclFinalize", a(), fails(100037))
		}, "call 1 aclFinalize on thread 4001 had finalized the runtime already"},
		"another code": {func(s *testtrace.Sequence) {
			s.Then("aclrtSetDevice", a(0))
			s.Then("aclrtMalloc", a(0x7ffe0000, 64, 0), fails(207001))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := testtrace.NewSequence(t)
			c.calls(s)
			rep, text := judged(t, s)
			if (rep.Cause != nil) != (c.want != "") || !strings.Contains(text, c.want) {
				t.Errorf("want %q:\n%s", c.want, text)
			}
		})
	}
}

// A launch that a broken capture refused was blamed, because its code counted as a device error; or an earlier failure that the program had handled.
func TestBlameFindsTheCallThatBrokeTheCapture(t *testing.T) {
	a, fails := testtrace.A, testtrace.Fails
	begin := func(s *testtrace.Sequence) {
		s.Then("aclrtSetDevice", a(0))
		s.Stream(testtrace.StreamA)
		s.Then("aclrtMalloc", a(0x7ffe0000, 1<<40, 0), fails(207001)) // call 2: handled
		s.Then("aclmdlRICaptureBegin", a(testtrace.StreamA, 0))
	}
	copies := func(s *testtrace.Sequence, mods ...testtrace.Mod) {
		s.Then("aclrtMemcpy", a(testtrace.DeviceA, 8, testtrace.HostA, 8, 1), mods...)
	}
	end := func(s *testtrace.Sequence, mods ...testtrace.Mod) {
		s.Then("aclmdlRICaptureEnd", a(testtrace.StreamA, 0x7ffe0000), append(mods, testtrace.Outs("modelRI", graph))...)
	}
	for name, c := range map[string]struct {
		calls func(s *testtrace.Sequence)
		call  uint64
		want  []string
	}{
		"another thread": {func(s *testtrace.Sequence) {
			begin(s)
			s.Thread = 1
			copies(s, fails(refused))
			s.Thread = 0
			s.Then("aclrtLaunchKernel", a(testtrace.Function, 8, testtrace.DeviceB, 64, testtrace.StreamA), fails(spoiled))
			end(s, fails(spoiled))
			s.Then("aclrtSynchronizeStream", a(testtrace.StreamA), fails(507015))
		}, 4, []string{"capture  begun by call 3 aclmdlRICaptureBegin, stream#1, thread 4001, mode ACL_MODEL_RI_CAPTURE_MODE_GLOBAL",
			"call 4 on another thread, 4011, is the first that it refused; call 6 ended it", "earlier  call 2 aclrtMalloc: ACL_ERROR_RT_MEMORY_ALLOCATION (207001), thread 4001",
			"later    3 more calls failed", "--call 0:4"}},
		"never ended": {func(s *testtrace.Sequence) {
			begin(s)
			s.Then("aclrtSynchronizeStream", a(testtrace.StreamA), fails(107027))
			copies(s, fails(refused))
		}, 4, []string{"call 4 on the same thread is the first that it refused; no call ended it"}},
		"then a hang": {func(s *testtrace.Sequence) {
			begin(s)
			copies(s, fails(refused))
			end(s, fails(spoiled))
			s.Then("aclrtSynchronizeStream", a(testtrace.StreamA), testtrace.Hangs)
		}, 4, nil},
		"unjoined": {func(s *testtrace.Sequence) {
			begin(s)
			end(s, fails(107025))
		}, 4, []string{"call 4 on the same thread is the first that it refused; call 4 ended it"}},
		"ended well": {func(s *testtrace.Sequence) { // thread-local: the other thread's failure did not break it
			begin(s)
			s.Thread = 1
			copies(s, fails(refused))
			s.Thread = 0
			end(s)
			s.Then("aclrtSynchronizeStream", a(testtrace.StreamA), fails(507015))
		}, 6, nil},
		"tried again": {func(s *testtrace.Sequence) {
			begin(s)
			copies(s, fails(refused))
			end(s, fails(spoiled))
			s.Then("aclmdlRICaptureBegin", a(testtrace.StreamA, 0))
			end(s)
			s.Then("aclrtSynchronizeStream", a(testtrace.StreamA), fails(507015))
		}, 8, nil},
		"device error before": {func(s *testtrace.Sequence) {
			s.Then("aclrtSynchronizeDevice", a(), fails(507015))
			begin(s)
			copies(s, fails(refused))
			end(s, fails(spoiled))
		}, 0, nil},
		"another process's capture": {func(s *testtrace.Sequence) {
			begin(s)
			s.Thread = 2
			copies(s, fails(refused))
			s.Thread = 0
			end(s)
		}, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := testtrace.NewSequence(t)
			c.calls(s)
			rep, text := judged(t, s)
			if rep.Failure.Index != c.call || (rep.Capture != nil) != (c.want != nil) && name != "then a hang" {
				t.Errorf("call %d, want %d\n%s", rep.Failure.Index, c.call, text)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("want %q:\n%s", want, text)
				}
			}
		})
	}
}

// Blame of a killed hang listed no task, or another thread's copies, or took a thread that waits by design for the failure.
func TestBlameOfAHang(t *testing.T) {
	a, outs, fails := testtrace.A, testtrace.Outs, testtrace.Fails
	begin := func(s *testtrace.Sequence) {
		s.Then("aclrtSetDevice", a(0))
		s.Malloc(testtrace.DeviceA, 4096)
		s.Stream(testtrace.StreamA)
		s.Stream(testtrace.StreamB)
		s.Then("aclrtCreateEvent", a(0x7ffe0010), outs("event", testtrace.Event)) // call 4
	}
	memset := func(s *testtrace.Sequence, stream uint64) {
		s.Then("aclrtMemsetAsync", a(testtrace.DeviceA, 8, 0, 8, stream))
	}
	stands := func(s *testtrace.Sequence) { s.Then("aclrtSynchronizeStream", a(testtrace.StreamA), testtrace.Hangs) }
	for name, c := range map[string]struct {
		calls   func(s *testtrace.Sequence)
		failure uint64
		first   uint64 // suspect
		more    int
		want    string
	}{
		"value": {func(s *testtrace.Sequence) {
			begin(s)
			memset(s, testtrace.StreamA)
			s.Then("aclrtSynchronizeStream", a(testtrace.StreamA))
			s.Then("aclrtValueWrite", a(shared, 7, 0, testtrace.StreamB))
			s.Then("aclrtValueWait", a(shared, 1, 0, testtrace.StreamA)) // call 8
			memset(s, testtrace.StreamA)
			stands(s)
			s.Thread = 1
			for range 3 { // of another thread, which goes on
				s.Then("aclrtMemcpy", a(testtrace.DeviceA+512, 8, testtrace.HostA, 8, 1))
			}
		}, 10, 8, 2, "its stream waits for a value at 0x124000000040, last written by call 7 on stream#3"},
		"never recorded": {func(s *testtrace.Sequence) {
			begin(s)
			s.Then("aclrtStreamWaitEvent", a(testtrace.StreamA, testtrace.Event)) // call 5
			stands(s)
		}, 6, 5, 0, "its stream waits for event#4, which no call has recorded"},
		"a recorded event is no reason": {func(s *testtrace.Sequence) {
			begin(s)
			s.Then("aclrtRecordEvent", a(testtrace.Event, testtrace.StreamB))
			s.Then("aclrtSynchronizeEvent", a(testtrace.Event))
			s.Then("aclrtStreamWaitEvent", a(testtrace.StreamA, testtrace.Event))
			s.Then("aclrtValueWait", a(shared, 1, 0, testtrace.StreamA)) // call 8
			stands(s)
		}, 9, 8, 1, "a value at 0x124000000040"},
		"the record waits as well": {func(s *testtrace.Sequence) {
			begin(s)
			s.Then("aclrtValueWait", a(shared, 1, 0, testtrace.StreamB)) // call 5
			s.Then("aclrtRecordEvent", a(testtrace.Event, testtrace.StreamB))
			s.Then("aclrtStreamWaitEvent", a(testtrace.StreamA, testtrace.Event))
			stands(s)
		}, 8, 5, 2, "a value at 0x124000000040"},
		"graph": {func(s *testtrace.Sequence) {
			begin(s)
			s.Then("aclmdlRICaptureBegin", a(testtrace.StreamA, 1))
			s.Then("aclrtStreamWaitEvent", a(testtrace.StreamA, testtrace.Event)) // call 6
			s.Then("aclrtResetEvent", a(testtrace.Event, testtrace.StreamA))
			s.Then("aclmdlRICaptureEnd", a(testtrace.StreamA, 0x7ffe0000), outs("modelRI", graph))
			s.Then("aclmdlRIExecuteAsync", a(graph, testtrace.StreamA))
			s.Then("aclrtRecordEvent", a(testtrace.Event, testtrace.StreamB))
			s.Then("aclrtSynchronizeStream", a(testtrace.StreamA))
			for range 3 {
				s.Then("aclmdlRIExecuteAsync", a(graph, testtrace.StreamA)) // call 12
				s.Then("aclrtRecordEvent", a(testtrace.Event, testtrace.StreamB))
			}
			stands(s)
		}, 18, 12, 6, "its stream waits for event#4, last recorded by call 17 on stream#3; each run resets it after the wait (call 7 of the capture); the wait is call 6, in graph#5"},
		"value in a graph": {func(s *testtrace.Sequence) {
			begin(s)
			s.Then("aclmdlRICaptureBegin", a(testtrace.StreamA, 1))
			s.Then("aclrtValueWait", a(shared, 1, 0, testtrace.StreamA)) // call 6
			s.Then("aclrtValueWrite", a(shared, 0, 0, testtrace.StreamA))
			s.Then("aclmdlRICaptureEnd", a(testtrace.StreamA, 0x7ffe0000), outs("modelRI", graph))
			s.Then("aclmdlRIExecuteAsync", a(graph, testtrace.StreamA)) // call 9
			stands(s)
		}, 10, 9, 0, "its stream waits for a value at 0x124000000040, which no call has written; each run resets it after the wait (call 7 of the capture); the wait is call 6, in graph#5"},
		"the value in a graph that was not written": { // another wait of the graph was named
			func(s *testtrace.Sequence) {
				begin(s)
				s.Then("aclmdlRICaptureBegin", a(testtrace.StreamA, 1))
				for i := range uint64(2) {
					s.Then("aclrtValueWait", a(shared+8*i, 1, 0, testtrace.StreamA)) // calls 6, 8
					s.Then("aclrtValueWrite", a(shared+8*i, 0, 0, testtrace.StreamA))
				}
				s.Then("aclmdlRICaptureEnd", a(testtrace.StreamA, 0x7ffe0000), outs("modelRI", graph))
				for i := range uint64(2) {
					s.Then("aclrtRecordEvent", a(testtrace.Event, testtrace.StreamB))
					s.Then("aclrtStreamWaitEvent", a(testtrace.StreamA, testtrace.Event)) // recorded, so it is not the first suspect
					s.Then("aclmdlRIExecuteAsync", a(graph, testtrace.StreamA))           // calls 13, 19
					s.Then("aclrtValueWrite", a(shared, 1, 0, testtrace.StreamB))
					if i == 0 {
						s.Then("aclrtValueWrite", a(shared+8, 1, 0, testtrace.StreamB))
						s.Then("aclrtSynchronizeStream", a(testtrace.StreamA))
					}
				}
				stands(s)
			}, 21, 19, 6, "its stream waits for a value at 0x124000000048, last written by call 15 on stream#3; each run resets it after the wait (call 9 of the capture); the wait is call 8, in graph#5"},
		"notifies in a circle": {func(s *testtrace.Sequence) { // no call had recorded the first one, it said
			const one, other = 0x7700, 0x7708
			begin(s)
			s.Then("aclrtCreateNotify", a(0x7ffe0010, 0), outs("notify", one))
			s.Then("aclrtCreateNotify", a(0x7ffe0010, 0), outs("notify", other))
			s.Then("aclrtWaitAndResetNotify", a(one, testtrace.StreamA, 0)) // call 7
			s.Then("aclrtRecordNotify", a(other, testtrace.StreamA))
			s.Then("aclrtWaitAndResetNotify", a(other, testtrace.StreamB, 0))
			s.Then("aclrtRecordNotify", a(one, testtrace.StreamB)) // call 10
			stands(s)
		}, 11, 7, 3, "its stream waits for notify#5, last recorded by call 10 on stream#3, which may not have run"},
		"a function of the program": {func(s *testtrace.Sequence) { // no suspect was listed, or a wait behind it
			begin(s)
			s.Then("aclmdlRICaptureBegin", a(testtrace.StreamA, 1))
			s.Then("aclrtValueWait", a(shared, 1, 0, testtrace.StreamA))
			s.Then("aclrtValueWrite", a(shared, 0, 0, testtrace.StreamA))
			s.Then("aclmdlRICaptureEnd", a(testtrace.StreamA, 0x7ffe0000), outs("modelRI", graph))
			s.Then("aclrtLaunchHostFunc", a(testtrace.StreamA, 0x401000, 0)) // call 9
			s.Then("aclmdlRIExecuteAsync", a(graph, testtrace.StreamA))
			s.Then("aclrtValueWrite", a(shared, 1, 0, testtrace.StreamB))
			stands(s)
		}, 12, 9, 2, "it runs a function of the program, which may not have returned"},
		"threads that wait by design": {func(s *testtrace.Sequence) {
			s.Then("aclrtProcessReport", a(0xffffffff), testtrace.Hangs)
			s.Thread = 1
			begin(s)
			s.Then("aclrtValueWait", a(shared, 1, 0, testtrace.StreamA)) // call 6
			for range 3 {
				s.Then("aclrtProcessReport", a(100), fails(507012))
			}
			stands(s)
			s.Then("aclrtStreamQuery", a(testtrace.StreamA, 0x7ffe0000), testtrace.Hangs) // the process ends during it
		}, 10, 6, 0, "a value at 0x124000000040"},
		"time-outs that passed": {func(s *testtrace.Sequence) {
			begin(s)
			memset(s, testtrace.StreamA)
			s.Then("aclrtSynchronizeStreamWithTimeout", a(testtrace.StreamA, 1), fails(timedOut))
			s.Then("aclrtSynchronizeStreamWithTimeout", a(testtrace.StreamA, 1))
			s.Then("aclrtValueWait", a(shared, 1, 0, testtrace.StreamA)) // call 8
			s.Then("aclrtSynchronizeStreamWithTimeout", a(testtrace.StreamA, 1), fails(timedOut))
			s.Then("aclrtSynchronizeStreamWithTimeout", a(testtrace.StreamA, 1), fails(timedOut))
		}, 9, 8, 0, "earlier  call 6 aclrtSynchronizeStreamWithTimeout: ACL_ERROR_RT_STREAM_SYNC_TIMEOUT (507046), thread 4001"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testtrace.NewSequence(t)
			c.calls(s)
			s.Process(0, format.Process{PID: 4001, Exe: "/opt/app/train", Argv: []string{"train"}, Killed: true, Signal: 9, End: 1_000_000})
			rep, text := judged(t, s)
			if rep.Failure.Index != c.failure || len(rep.Suspects) == 0 || rep.Suspects[0].Index != c.first || len(rep.Suspects)+rep.More-1 != c.more || !strings.Contains(text, c.want) {
				t.Errorf("want failure %d, suspect %d of %d, %q:\n%s", c.failure, c.first, c.more+1, c.want, text)
			}
		})
	}
}

// A launch that overran a buffer inside a larger allocation failed nowhere, and blame offered nothing.
func TestBlameHintsAtOddLaunchesWithoutAFailure(t *testing.T) {
	for odd, want := range map[uint64]string{0x400: "hint: call 6 aclrtLaunchKernelWithHostArgs, kernel zero", 0x80: ""} {
		s := testtrace.NewSequence(t)
		s.Then("aclrtSetDevice", testtrace.A(0))
		s.Malloc(testtrace.DeviceA, 4096)
		s.Then("aclrtBinaryGetFunction", testtrace.A(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", "zero"), testtrace.Outs("funcHandle", testtrace.Function))
		for i := range uint64(20) {
			n := uint64(0x80)
			if i == 3 {
				n = odd
			}
			s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(testtrace.Function, 1, 0, 0, 0x7ffe0100, 16, 0, 0), testtrace.Reads("hostArgs", 0, testtrace.Words(testtrace.DeviceA, n)))
		}
		if want == "" {
			if _, err := blame.Blame(s.Load().Reader, acl.Model, nil); !errors.Is(err, blame.ErrNothingFailed) {
				t.Errorf("launches that are alike: %v", err)
			}
			continue
		}
		rep, text := judged(t, s)
		if rep.Failure != nil || len(rep.Odds) != 1 || !strings.Contains(text, want) || !strings.Contains(text, "the word at byte 8 of hostArgs is 0x400; in 19 of 20 launches of zero it is 0x80") {
			t.Errorf("\n%s", text)
		}
	}
}

// A prompt between the tokens of a decoder gave all kernels other numbers, and a hint at each.
func TestBlameTakesOtherWorkForNoOddLaunch(t *testing.T) {
	for odd, want := range map[string]int{"ab": 0, "a": 1, "b": 1, "": 0} {
		s := testtrace.NewSequence(t)
		s.Then("aclrtSetDevice", testtrace.A(0))
		for i, name := range []string{"a", "b"} {
			s.Then("aclrtBinaryGetFunction", testtrace.A(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", name), testtrace.Outs("funcHandle", testtrace.Function+uint64(i)))
		}
		for i := range 20 {
			for k, name := range []string{"a", "b"} {
				n := uint64(0x80)
				if i == 3 && strings.Contains(odd, name) {
					n = 0x400
				}
				s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(testtrace.Function+uint64(k), 1, 0, 0, 0x7ffe0100, 8, 0, 0), testtrace.Reads("hostArgs", 0, testtrace.Words(n)))
			}
		}
		rep, err := blame.Blame(s.Load().Reader, acl.Model, nil)
		if want == 0 && !errors.Is(err, blame.ErrNothingFailed) || want > 0 && (err != nil || len(rep.Odds) != want || rep.Odds[0].Kernel != odd) {
			t.Errorf("odd %q: %+v, %v", odd, rep, err)
		}
	}
}

// Each prompt of a server has another length, and blame hinted at each.
func TestBlameTakesRepeatedOtherWorkForNoOddLaunch(t *testing.T) {
	for prompts, want := range map[int]int{6: 0, 3: 3} {
		s := testtrace.NewSequence(t)
		s.Then("aclrtSetDevice", testtrace.A(0))
		s.Then("aclrtBinaryGetFunction", testtrace.A(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", "a"), testtrace.Outs("funcHandle", testtrace.Function))
		for i := range 325 {
			n := uint64(1)
			if i%50 == 3 && i/50 < prompts {
				n = 10 + uint64(i)
			}
			s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(testtrace.Function, 1, 0, 0, 0x7ffe0100, 8, 0, 0), testtrace.Reads("hostArgs", 0, testtrace.Words(n)))
		}
		rep, err := blame.Blame(s.Load().Reader, acl.Model, nil)
		if want == 0 && !errors.Is(err, blame.ErrNothingFailed) || want > 0 && (err != nil || len(rep.Odds) != want) {
			t.Errorf("%d prompts: %+v, %v", prompts, rep, err)
		}
	}
}

// A kernel in a graph failed, and an eager launch of the same kernel was named.
func TestBlameNamesTheGraphWhoseKernelFailed(t *testing.T) {
	a, outs := testtrace.A, testtrace.Outs
	s := testtrace.NewSequence(t)
	launch := func(at uint64) {
		s.Then("aclrtLaunchKernelWithHostArgs", a(testtrace.Function, 8, testtrace.StreamA, 0, 0x7ffe0100, 16, 0, 0), data("hostArgs", at, 3))
	}
	s.Then("aclrtSetDevice", a(0))
	s.Malloc(testtrace.DeviceA, 4096)
	s.Malloc(testtrace.DeviceB, 4096)
	s.Stream(testtrace.StreamA)
	s.Then("aclrtBinaryGetFunction", a(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", "gather"), outs("funcHandle", testtrace.Function))
	s.Then("aclmdlRICaptureBegin", a(testtrace.StreamA, 1))
	launch(testtrace.DeviceA) // call 6
	s.Then("aclmdlRICaptureEnd", a(testtrace.StreamA, 0x7ffe0000), outs("modelRI", graph))
	launch(testtrace.DeviceB)
	s.Then("aclmdlRIExecuteAsync", a(graph, testtrace.StreamA)) // call 9
	s.Then("aclrtSynchronizeStream", a(testtrace.StreamA), testtrace.Fails(507015))
	message := fmt.Sprintf("fault kernel_name=gather, written at %#x", testtrace.DeviceA+64)
	s.Then("aclGetRecentErrMsg", nil, func(_ *api.Func, c *format.Call) {
		c.Ret = 0x7f0000000100
		c.Data = append(c.Data, format.Data{Param: api.RetParam, Dir: format.DirOut, Len: uint64(len(message)), Bytes: []byte(message), Time: c.Start})
	})
	rep, text := judged(t, s)
	want := "it runs gather, which call 6 of the capture launched, and which the runtime's message names; the launch uses memory at 0x124000000040"
	if rep.Suspects[0].Index != 9 || !strings.Contains(text, want) {
		t.Errorf("%s\nwant call 9 first: %s", text, want)
	}
}
