package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/replay/verify"
)

// A stub for a host function takes the function's time in each run of a graph, if the pace is kept: nothing else
// in this trace takes long.
func TestHostFunctionTime(t *testing.T) {
	simulate(t)
	const took, fn, data, graph = 100e6, 0x400000, 0x500000, 0x6000
	tw := newTrace(t)
	tw.begin()
	aside := onThread(tw.thread(0, 2)) // a thread of the runtime
	runs := func(n int64) {
		tw.sync()
		for i := range n {
			tw.call("hostFunction", []uint64{fn, data}, aside, lasting(tw.now, tw.now+took*(i+1)))
			tw.now -= took * (i + 1)
		}
	}
	tw.call("aclrtLaunchHostFunc", []uint64{stream, fn, data})
	runs(1)
	tw.call("aclmdlRICaptureBegin", []uint64{stream, 1})
	tw.call("aclrtLaunchHostFunc", []uint64{stream, fn, data})
	tw.call("aclmdlRICaptureEnd", []uint64{stream, page}, out(1, graph))
	for range 2 {
		tw.call("aclmdlRIExecuteAsync", []uint64{graph, stream})
	}
	runs(2)
	path := tw.close()
	for pace, want := range map[string]int64{PaceASAP: 0, PaceRecorded: 4 * took, PaceScaled + "0.5": 2 * took} {
		r := run(t, path, &Options{Verify: true, Pace: pace})
		if unproved(t, r, 0, map[verify.Reason]int{}); len(r.Stubs) != 2 {
			t.Errorf("%s: stubs %+v", pace, r.Stubs)
		}
		if r.HostFunctions == 0 || r.Calls-r.Replayed != r.HostFunctions {
			t.Errorf("%s: %d of %d calls replayed, %d host functions", pace, r.Replayed, r.Calls, r.HostFunctions)
		}
		if r.ReplayedNS < want || want == 0 && r.ReplayedNS >= 4*took {
			t.Errorf("%s: %d ns, want %d", pace, r.ReplayedNS, want)
		}
	}
}

// Data that a host function had written was compared with what its stub left, so the replay was "different". And every launch of a host
// function was an unproved result, whatever the function did.
func TestDataOfHostFunctions(t *testing.T) {
	const fn, other, event = 0x400000, 0x5100, 0x5200
	before, after := pattern(64, 1), pattern(64, 9)
	l := library(t)
	for _, c := range []struct {
		name  string
		make  func(tw *traceWriter, copy func(b []byte, on uint64))
		reads []byte // the result
		want  map[verify.Reason]int
	}{
		{"nothing reads its data", func(tw *traceWriter, copy func([]byte, uint64)) {
			copy(before, stream)
			tw.call("aclrtLaunchHostFunc", []uint64{stream, fn, 0})
			tw.sync()
		}, before, nil},
		{"a copy reads it", func(tw *traceWriter, copy func([]byte, uint64)) {
			tw.call("aclrtLaunchHostFunc", []uint64{stream, fn, 0})
			copy(before, stream)
			tw.sync()
		}, after, map[verify.Reason]int{verify.HostFunction: 1}},
		{"the trace has the data", func(tw *traceWriter, copy func([]byte, uint64)) {
			tw.call("aclrtLaunchHostFunc", []uint64{stream, fn, 0})
			tw.sync()
			copy(after, stream)
			tw.sync()
		}, after, nil},
		{"a copy on another stream, which does not wait for it", func(tw *traceWriter, copy func([]byte, uint64)) {
			tw.call("aclrtLaunchHostFunc", []uint64{stream, fn, 0})
			copy(before, other)
			tw.call("aclrtSynchronizeDevice", nil)
		}, before, nil},
		{"a copy on another stream, which waits for it", func(tw *traceWriter, copy func([]byte, uint64)) {
			tw.call("aclrtLaunchHostFunc", []uint64{stream, fn, 0})
			tw.call("aclrtRecordEvent", []uint64{event, stream})
			tw.call("aclrtStreamWaitEvent", []uint64{other, event})
			copy(before, other)
			tw.call("aclrtSynchronizeDevice", nil)
		}, after, map[verify.Reason]int{verify.HostFunction: 1}},
		{"a copy whose data was taken early", func(tw *traceWriter, copy func([]byte, uint64)) {
			copy(before, stream)
			tw.sync()
		}, after, map[verify.Reason]int{verify.Source: 1}},
	} {
		tw := newTrace(t)
		tw.begin()
		tw.call("aclrtCreateStream", []uint64{page}, out(0, other))
		tw.call("aclrtCreateEvent", []uint64{page}, out(0, event))
		tw.mallocHost(host, 4096)
		for i := range uint64(3) {
			tw.malloc(dev+4096*i, 64)
		}
		var early uint64
		c.make(tw, func(b []byte, on uint64) {
			early = tw.call("aclrtMemcpyAsync", []uint64{dev, 64, host, 64, 1, on}, in(2, b), func(c *format.Call) { c.Data[0].Reason = format.TakenEarly })
			tw.call("aclrtMemcpyAsync", []uint64{dev + 4096, 64, dev, 64, 3, on})
		})
		tw.toDevice(dev+8192, before)
		tw.toHost(dev+4096, c.reads)
		tw.toHost(dev+8192, before)
		path := tw.close()
		t.Run(c.name, func(t *testing.T) {
			simulate(t)
			r := run(t, path, &Options{Verify: true})
			if len(c.want) == 0 {
				identical(t, r, 2)
			} else if unproved(t, r, 1, c.want); c.want[verify.Source] > 0 && !strings.Contains(r.Unverified[0].Reason, fmt.Sprintf("the data of call %d,", early)) {
				t.Errorf("the reason is %q", r.Unverified[0].Reason)
			}
			// A library without marks.
			r = run(t, path, &Options{Verify: true, Backend: l})
			if c.want[verify.HostFunction] > 0 {
				unproved(t, r, 1, c.want)
			} else if c.want == nil {
				identical(t, r, 2)
			}
		})
	}
}

// A collective is left out by name, and the runtime's calls inside it are made: on a thread of the program, and,
// if a host function on a stream starts it, on a thread of the runtime or on one that
// processes reports.
func TestCollectiveInHostFunction(t *testing.T) {
	simulate(t)
	const fn, data, comm = 0x400000, 0x500000, 0x7000
	const thread, hostFunction, reports = "thread", "host function", "reports"
	for _, in := range []string{thread, hostFunction, reports} {
		tw := newTrace(t)
		aside := onThread(tw.thread(0, 2))
		tw.begin()
		tw.malloc(dev, 64)
		tw.malloc(dev+512, 64)
		a := pattern(64, 3)
		tw.toDevice(dev, a)
		switch in {
		case hostFunction:
			tw.call("aclrtLaunchHostFunc", []uint64{stream, fn, data})
		case reports:
			tw.call("aclrtSubscribeReport", []uint64{2, stream})
			tw.call("aclrtLaunchCallback", []uint64{fn, data, 1, stream})
		}
		from := tw.now
		tw.call("aclrtSetDevice", []uint64{0}, aside)
		tw.call("aclrtMemcpy", []uint64{dev + 512, 64, dev, 64, 3}, aside)
		tw.call("HcclAllReduce", []uint64{dev, dev + 512, 16, 2, 0, comm, stream}, aside, lasting(from, tw.now))
		if in != thread {
			tw.call("hostFunction", []uint64{fn, data}, aside, lasting(from-5, tw.now))
		}
		if in == reports {
			tw.call("aclrtProcessReport", []uint64{1000}, aside, lasting(from-8, tw.now))
		}
		tw.sync()
		tw.toHost(dev+512, a)
		r := run(t, tw.close(), &Options{Verify: true, Place: compile.PlaceMove})
		if len(r.LeftOut) != 1 || r.Simulated || r.Unverified[0].Code != verify.Collective || r.LeftOut[0].Func != "HcclAllReduce" || r.LeftOut[0].Calls != 1 || r.Verified.Results != 1 || r.DifferingTotal != 0 || len(r.Unsupported) != 0 {
			t.Errorf("in a %s: left out %+v, unsupported %+v, %d results, differences %+v", in, r.LeftOut, r.Unsupported, r.Verified.Results, r.Differences)
		}
	}
}

// A callback that reads its exception made a trace unreplayable, and so did an allocator's cookie.
func TestReplayOfTraceWithExceptionCallback(t *testing.T) {
	program := testenv.CompileC(t, "exception", []string{"testdata/exception.c"})
	binary := kernels(t)
	simulate(t)
	r := run(t, recorded(t, program, binary), &Options{Verify: true})
	if len(r.Unsupported) > 0 || r.DifferingTotal > 0 || r.Verified.Results != 1 {
		t.Fatalf("%d results; unsupported %+v, differences %+v\n%s", r.Verified.Results, r.Unsupported, r.Differences, r.Log)
	}
	var left string
	for _, u := range r.Unverified {
		if strings.HasPrefix(u.Reason, "left out") {
			left = u.Reason
		}
	}
	if want := "left out: 4 calls that read an exception"; !strings.HasPrefix(left, want) || !strings.HasSuffix(left, ", aclrtSetExceptionInfoCallback") {
		t.Errorf("%q, want %q and the callback", left, want)
	}
}
