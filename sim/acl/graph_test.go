package acl

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/sim/device/space"
)

// word reads 4 bytes of device memory.
func (e *env) word(a acl.Addr) uint32 { return binary.LittleEndian.Uint32(space.Bytes(a, 4)) }

// capture begins a capture, runs f, and returns the graph.
func (e *env) capture(s acl.Stream, f func()) acl.MdlRI {
	e.Helper()
	var g acl.MdlRI
	e.ok(e.th.MdlRICaptureBegin(s, acl.ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL))
	f()
	e.ok(e.th.MdlRICaptureEnd(s, &g))
	return g
}

// Captured tasks run with the graph, each time it runs, in event order.
func TestCapturedTasksRunInEventOrder(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	a, b := e.stream(), e.stream()
	fork, join := e.event(), e.event()
	sum, one := e.malloc(4), e.malloc(4)
	e.ok(e.th.MemsetD32(one, 4, 1, 1))
	add := func(s acl.Stream) {
		e.ok(e.th.ReduceAsync(sum, one, 4, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, acl.ACL_INT32, s, 0))
	}
	g := e.capture(a, func() {
		e.ok(e.th.MemsetD32Async(sum, 4, 10, 1, a))
		e.ok(e.th.RecordEvent(fork, a))
		e.ok(e.th.StreamWaitEvent(b, fork))
		add(b)
		e.ok(e.th.RecordEvent(join, b))
		e.ok(e.th.StreamWaitEvent(a, join))
		add(a)
		var status acl.MdlRICaptureStatus
		var into acl.MdlRI
		e.ok(e.th.MdlRICaptureGetInfo(b, &status, &into))
		if status != acl.ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE || into == 0 {
			t.Errorf("the stream that joined: status %d, model %#x", status, into)
		}
	})
	if e.word(sum) != 0 {
		t.Fatal("a captured task ran")
	}
	for range 3 {
		e.ok(e.th.MemsetD32Async(sum, 4, 99, 1, b))
		e.ok(e.th.SynchronizeStream(b))
		e.ok(e.th.MdlRIExecuteAsync(g, b))
		add(b)
		e.ok(e.th.SynchronizeStream(b))
		if got := e.word(sum); got != 13 {
			t.Fatalf("the sum is %d, want 13", got)
		}
	}
	e.ok(e.th.MdlRIExecute(g, -1))
	if got := e.word(sum); got != 12 {
		t.Fatalf("the sum is %d, want 12", got)
	}
	// The streams run tasks again.
	add(a)
	e.ok(e.th.SynchronizeStream(a))
	if got := e.word(sum); got != 13 {
		t.Errorf("the sum is %d, want 13", got)
	}
	release := e.hold(a)
	e.ok(e.th.MdlRIExecuteAsync(g, a))
	e.want(acl.ACL_ERROR_RT_MODEL_RUNNING, e.th.MdlRIDestroy(g))
	release()
	e.ok(e.th.SynchronizeStream(a))
	e.ok(e.th.MdlRIDestroy(g))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.MdlRIExecuteAsync(g, a))
}

// A capture refuses calls with their codes, and some of them spoil it.
func TestCaptureRefusals(t *testing.T) {
	const (
		global  = acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL
		local   = acl.ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL
		relaxed = acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED
	)
	type world struct {
		*env
		s, other acl.Stream
		ev       acl.Event
		dev, pg  acl.Addr
		second   *Thread
	}
	for _, c := range []struct {
		name string
		mode acl.MdlRICaptureMode
		do   func(w world) acl.Error
		code acl.Error
		end  acl.Error
	}{
		{"begin again", local, func(w world) acl.Error { return w.th.MdlRICaptureBegin(w.s, local) }, acl.ACL_ERROR_RT_STREAM_CAPTURED, 0},
		{"default stream", local, func(w world) acl.Error { return w.th.MdlRICaptureBegin(0, local) }, acl.ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, 0},
		{"bad mode", local, func(w world) acl.Error { return w.th.MdlRICaptureBegin(w.other, 7) }, acl.ACL_ERROR_RT_PARAM_INVALID, 0},
		{"end of another stream", local, func(w world) acl.Error { var g acl.MdlRI; return w.th.MdlRICaptureEnd(w.other, &g) }, acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, 0},
		{"end by another thread", local, func(w world) acl.Error { var g acl.MdlRI; return w.second.MdlRICaptureEnd(w.s, &g) }, acl.ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, 0},
		{"synchronize", relaxed, func(w world) acl.Error { return w.th.SynchronizeStream(w.s) }, acl.ACL_ERROR_RT_STREAM_CAPTURED, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED},
		{"query", relaxed, func(w world) acl.Error { var st acl.StreamStatus; return w.th.StreamQuery(w.s, &st) }, acl.ACL_ERROR_RT_STREAM_CAPTURED, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED},
		{"destroy", relaxed, func(w world) acl.Error { return w.th.DestroyStream(w.s) }, acl.ACL_ERROR_RT_STREAM_CAPTURED, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED},
		{"copy, local", local, func(w world) acl.Error { return w.th.Memcpy(w.dev, 8, w.pg, 8, 1) }, acl.ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED},
		{"copy, relaxed", relaxed, func(w world) acl.Error { return w.th.Memcpy(w.dev, 8, w.pg, 8, 1) }, 0, 0},
		{"fill, global", global, func(w world) acl.Error { return w.th.Memset(w.dev, 8, 1, 8) }, acl.ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED},
		{"other thread, local", local, func(w world) acl.Error { return w.second.Memset(w.dev, 8, 1, 8) }, 0, 0},
		{"other thread, global", global, func(w world) acl.Error { return w.second.Memset(w.dev, 8, 1, 8) }, acl.ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED},
		{"other thread, global, exchanged", global, func(w world) acl.Error {
			m := local
			w.ok(w.second.MdlRICaptureThreadExchangeMode(&m))
			if m != global {
				w.Errorf("the thread's mode was %d", m)
			}
			return w.second.Memset(w.dev, 8, 1, 8)
		}, 0, 0},
		{"own thread, exchanged", global, func(w world) acl.Error {
			m := relaxed
			w.ok(w.th.MdlRICaptureThreadExchangeMode(&m))
			return w.th.Memset(w.dev, 8, 1, 8)
		}, 0, 0},
		{"pageable", local, func(w world) acl.Error { return w.th.MemcpyAsync(w.dev, 8, w.pg, 8, 1, w.s) }, acl.ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED},
		{"task on the default stream", global, func(w world) acl.Error { return w.th.MemsetAsync(w.dev, 8, 1, 8, 0) }, acl.ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED},
		{"wait for an event outside", local, func(w world) acl.Error {
			w.ok(w.th.RecordEvent(w.ev, w.other))
			return w.th.StreamWaitEvent(w.s, w.ev)
		}, acl.ACL_ERROR_RT_CAPTURE_DEPENDENCY, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED},
		{"query of a captured event", local, func(w world) acl.Error {
			w.ok(w.th.RecordEvent(w.ev, w.s))
			var st acl.EventRecordedStatus
			return w.th.QueryEventStatus(w.ev, &st)
		}, acl.ACL_ERROR_RT_EVENT_CAPTURED, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED},
		{"unjoined", local, func(w world) acl.Error {
			w.ok(w.th.RecordEvent(w.ev, w.s))
			w.ok(w.th.StreamWaitEvent(w.other, w.ev))
			return w.th.MemsetAsync(w.dev, 8, 1, 8, w.other)
		}, 0, acl.ACL_ERROR_RT_STREAM_UNJOINED},
		{"end on the stream that joined", local, func(w world) acl.Error {
			w.ok(w.th.RecordEvent(w.ev, w.s))
			w.ok(w.th.StreamWaitEvent(w.other, w.ev))
			var g acl.MdlRI
			return w.th.MdlRICaptureEnd(w.other, &g)
		}, acl.ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, acl.ACL_ERROR_RT_STREAM_UNJOINED},
		{"two captures meet", relaxed, func(w world) acl.Error {
			w.ok(w.th.RecordEvent(w.ev, w.s))
			w.ok(w.th.MdlRICaptureBegin(w.other, relaxed))
			return w.th.StreamWaitEvent(w.other, w.ev)
		}, acl.ACL_ERROR_STREAM_CAPTURE_CONFLICT, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED},
		{"group left open", local, func(w world) acl.Error { return w.th.MdlRICaptureTaskGrpBegin(w.s) }, 0, acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS},
		{"no kernel in a group", local, func(w world) acl.Error {
			w.ok(w.th.MdlRICaptureTaskGrpBegin(w.s))
			return w.th.MemsetAsync(w.dev, 8, 1, 8, w.s)
		}, acl.ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS},
		{"group on a free stream", local, func(w world) acl.Error { return w.th.MdlRICaptureTaskGrpBegin(w.other) }, acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, 0},
		{"synchronize device", global, func(w world) acl.Error { return w.th.SynchronizeDevice() }, acl.ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t, Options{})
			w := world{e, e.stream(), e.stream(), e.event(), e.malloc(64), e.pageable(64), e.sim.NewThread()}
			e.ok(w.second.SetDevice(0))
			e.ok(e.th.MdlRICaptureBegin(w.s, c.mode))
			e.want(c.code, c.do(w))
			var g acl.MdlRI
			e.want(c.end, e.th.MdlRICaptureEnd(w.s, &g))
			if (g == 0) != (c.end != 0) {
				t.Errorf("the model is %#x", g)
			}
			// Whatever happened, the stream runs again.
			e.ok(e.th.MemsetAsync(w.dev, 8, 1, 8, w.s))
			e.ok(e.th.SynchronizeStream(w.s))
		})
	}
}

// A task group is updated in stream order, and the next run uses the new tasks.
func TestTaskUpdate(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	f := e.function(e.load(testBinary(11, "fill")), "fill")
	s, u := e.stream(), e.stream()
	out := e.malloc(64)
	launch := func(on acl.Stream, value byte) acl.Error {
		args := fillArgs(value, out, 8)
		return e.th.LaunchKernelWithHostArgs(f, 1, on, nil, addr(&args[0]), uint64(len(args)), nil, 0)
	}
	var ready acl.Event
	e.ok(e.th.CreateEventWithFlag(&ready, acl.ACL_EVENT_EXTERNAL))
	var group acl.TaskGrp
	g := e.capture(s, func() {
		e.ok(e.th.StreamWaitEvent(s, ready))
		e.ok(e.th.ResetEvent(ready, s))
		e.ok(e.th.MdlRICaptureTaskGrpBegin(s))
		e.want(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, e.th.MdlRICaptureTaskGrpBegin(s))
		e.ok(launch(s, 1))
		e.ok(e.th.MdlRICaptureTaskGrpEnd(s, &group))
	})
	for value := byte(5); value < 8; value++ {
		e.ok(e.th.MdlRIExecuteAsync(g, s))
		e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, e.th.SynchronizeStreamWithTimeout(s, 2))
		e.ok(e.th.MdlRICaptureTaskUpdateBegin(u, group))
		e.want(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, e.th.MdlRICaptureTaskUpdateBegin(u, group))
		e.ok(launch(u, value))
		e.want(acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED, launch(u, value))
		e.ok(e.th.MdlRICaptureTaskUpdateEnd(u))
		e.ok(e.th.RecordEvent(ready, u))
		e.ok(e.th.SynchronizeStream(s))
		if got := space.Bytes(out, 1)[0]; got != value {
			t.Fatalf("the kernel stored %d, want %d", got, value)
		}
	}
	e.ok(e.th.MdlRICaptureTaskUpdateBegin(u, group))
	e.want(acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED, e.th.MdlRICaptureTaskUpdateEnd(u))
	e.want(acl.ACL_ERROR_STREAM_TASK_GROUP_STATUS, e.th.MdlRICaptureTaskUpdateEnd(u))
	e.ok(e.th.MdlRIDestroy(g))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.MdlRICaptureTaskUpdateBegin(u, group))
}

// A failing graph task fails the stream, and the other lanes do not hang.
func TestGraphFails(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	a, b := e.stream(), e.stream()
	fork, join := e.event(), e.event()
	p := e.malloc(64)
	g := e.capture(a, func() {
		e.ok(e.th.RecordEvent(fork, a))
		e.ok(e.th.StreamWaitEvent(b, fork))
		e.ok(e.th.MemsetAsync(p, 64, 1, 64, b))
		e.ok(e.th.RecordEvent(join, b))
		e.ok(e.th.StreamWaitEvent(a, join))
	})
	e.ok(e.th.Free(p))
	e.ok(e.th.MdlRIExecuteAsync(g, a))
	e.want(acl.ACL_ERROR_RT_SYS_DMA, e.th.SynchronizeStreamWithTimeout(a, patience))
}

func TestNotifyAndValue(t *testing.T) {
	e := newEnv(t, Options{})
	a, b := e.stream(), e.stream()
	p := e.malloc(64)
	var n acl.Notify
	e.ok(e.th.CreateNotify(&n, 0))
	// The wait holds the stream, and takes the record.
	e.ok(e.th.WaitAndResetNotify(n, b, 0))
	e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, e.th.SynchronizeStreamWithTimeout(b, 2))
	e.ok(e.th.RecordNotify(n, a))
	e.ok(e.th.SynchronizeStream(b))
	e.ok(e.th.WaitAndResetNotify(n, b, 1))
	e.want(acl.ACL_ERROR_RT_WAIT_TIMEOUT, e.th.SynchronizeStream(b))
	e.ok(e.th.DestroyNotify(n))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.RecordNotify(n, a))

	var c acl.CntNotify
	e.ok(e.th.CntNotifyCreate(&c, 0))
	count := func(mode acl.CntNotifyRecordMode, value uint32) {
		e.ok(e.th.CntNotifyRecord(c, a, &acl.CntNotifyRecordInfo{Mode: mode, Value: value}))
	}
	waiter := e.stream()
	e.ok(e.th.CntNotifyWaitWithTimeout(c, waiter, &acl.CntNotifyWaitInfo{Mode: 3, Value: 5, IsClear: 1}))
	count(1, 2)
	e.ok(e.th.SynchronizeStream(a))
	e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, e.th.SynchronizeStreamWithTimeout(waiter, 2))
	count(1, 3)
	e.ok(e.th.SynchronizeStream(waiter))
	e.ok(e.th.CntNotifyWaitWithTimeout(c, waiter, &acl.CntNotifyWaitInfo{Mode: 1, Value: 0}))
	e.ok(e.th.SynchronizeStream(waiter))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.CntNotifyRecord(c, a, &acl.CntNotifyRecordInfo{Mode: 3}))

	for _, c := range []struct {
		flag       uint32
		have, want uint64
		met        bool
	}{
		{acl.ACL_STREAM_WAIT_VALUE_GEQ, 5, 5, true}, {acl.ACL_STREAM_WAIT_VALUE_GEQ, 4, 5, false}, {acl.ACL_STREAM_WAIT_VALUE_GEQ, 1, ^uint64(0), true},
		{acl.ACL_STREAM_WAIT_VALUE_EQ, 5, 5, true}, {acl.ACL_STREAM_WAIT_VALUE_EQ, 6, 5, false},
		{acl.ACL_STREAM_WAIT_VALUE_AND, 6, 2, true}, {acl.ACL_STREAM_WAIT_VALUE_AND, 4, 3, false},
		{acl.ACL_STREAM_WAIT_VALUE_NOR, 1, 2, true}, {acl.ACL_STREAM_WAIT_VALUE_NOR, ^uint64(1), 1, false},
	} {
		if valueMet(c.have, c.want, c.flag) != c.met {
			t.Errorf("flag %d, %#x against %#x: want %t", c.flag, c.have, c.want, c.met)
		}
	}
	s := e.stream()
	e.ok(e.th.ValueWait(p, 7, acl.ACL_STREAM_WAIT_VALUE_EQ, s))
	e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, e.th.SynchronizeStreamWithTimeout(s, 2))
	e.ok(e.th.ValueWrite(p, 7, 0, a))
	e.ok(e.th.SynchronizeStream(s))
	e.want(acl.ACL_ERROR_RT_ADDR_UNALIGNED, e.th.ValueWait(p+4, 0, 0, s))
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.ValueWait(p, 0, 4, s))
}

// An abort lets everybody go on, and the stream is as new.
func TestAbortReleasesAllWaiters(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	s, other := e.stream(), e.stream()
	ev := e.event()
	p := e.malloc(64)
	release := e.hold(s)
	defer release()
	e.ok(e.th.MemsetAsync(p, 64, 1, 64, s))
	e.ok(e.th.RecordEvent(ev, s))
	e.ok(e.th.StreamWaitEvent(other, ev))
	second := e.sim.NewThread()
	e.ok(second.SetDevice(0))
	result := make(chan acl.Error)
	go func() { result <- second.SynchronizeStream(s) }()
	testenv.Wait(t, "a thread in its synchronization", func() bool { return e.sim.streams.Get(uint64(s)).Waits.Count.Load() > 0 })
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.StreamAbort(0))
	e.ok(e.th.StreamAbort(s))
	if got := <-result; got != acl.ACL_ERROR_RT_STREAM_ABORT {
		t.Errorf("the synchronization returned %v", got)
	}
	e.want(acl.ACL_ERROR_RT_STREAM_ABORT, e.th.SynchronizeEvent(ev))
	e.ok(e.th.SynchronizeStream(other))
	if e.word(p) != 0 {
		t.Error("a discarded task ran")
	}
	e.ok(e.th.MemsetAsync(p, 64, 2, 64, s))
	e.ok(e.th.SynchronizeStream(s))
	if e.word(p) != 0x02020202 {
		t.Error("the stream does not run after the abort")
	}
	e.breakStream(s)
	e.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, e.th.SynchronizeStream(s))
	e.ok(e.th.DeviceTaskAbort(0, 0))
	e.ok(e.th.SynchronizeStream(s))
}

// A graph takes the time of its longest stream.
func TestGraphTime(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	s := e.stream()
	f := e.function(e.load(testBinary(0, "slow")), "slow") // 20 ms
	g := e.capture(s, func() {
		args := make([]byte, 8)
		e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), 8, nil, 0))
	})
	from, to := e.event(), e.event()
	e.ok(e.th.RecordEvent(from, s))
	e.ok(e.th.MdlRIExecuteAsync(g, s))
	e.ok(e.th.RecordEvent(to, s))
	e.ok(e.th.SynchronizeStream(s))
	var ms float32
	e.ok(e.th.EventElapsedTime(&ms, from, to))
	if ms < 20 {
		t.Errorf("the graph took %v ms", ms)
	}
}

// Records and waits cross the border of graphs: between a graph and a stream, and between graphs.
func TestOutsideOfGraphs(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		e := newEnv(t, Options{Virtual: virtual})
		const external = acl.ACL_EVENT_RECORD_EXTERNAL
		a, b, c := e.stream(), e.stream(), e.stream()
		mk := func() (ev acl.Event) {
			e.ok(e.th.CreateEventExWithFlag(&ev, acl.ACL_EVENT_SYNC))
			return ev
		}
		in, mid, out := mk(), mk(), mk()
		p, q, r := e.malloc(64), e.malloc(64), e.malloc(64)
		copied := func(on acl.Stream, dst, src acl.Addr) {
			e.ok(e.th.MemcpyAsync(dst, 64, src, 64, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, on))
		}
		g := e.capture(a, func() {
			e.ok(e.th.StreamWaitEventWithFlag(a, in, 0, external))
			copied(a, q, p)
			e.ok(e.th.RecordEventWithFlag(mid, a, external))
			e.want(acl.ACL_ERROR_RT_PARAM_INVALID, e.th.StreamWaitEventWithFlag(a, mid, 0, external)) // once in a capture
		})
		h := e.capture(b, func() {
			e.ok(e.th.StreamWaitEventWithFlag(b, mid, 0, external))
			copied(b, r, q)
			e.ok(e.th.RecordEventWithFlag(out, b, external))
		})
		var gate acl.Notify
		e.ok(e.th.CreateNotify(&gate, 0))
		for v := byte(1); v < 4; v++ {
			e.ok(e.th.WaitAndResetNotify(gate, c, 0))
			e.ok(e.th.MemsetAsync(p, 64, int32(v), 64, c))
			e.ok(e.th.RecordEvent(in, c))
			e.ok(e.th.MdlRIExecuteAsync(g, a))
			e.ok(e.th.MdlRIExecuteAsync(h, b))
			var status acl.EventRecordedStatus
			e.ok(e.th.QueryEventStatus(out, &status))
			if status != acl.ACL_EVENT_RECORDED_STATUS_NOT_READY {
				t.Fatal("the graph's record is done before the graph")
			}
			e.ok(e.th.RecordNotify(gate, 0))
			e.ok(e.th.SynchronizeEvent(out))
			if got := space.Bytes(r, 1)[0]; got != v {
				t.Fatalf("virtual %t: %d came through, want %d", virtual, got, v)
			}
		}
		// A cancelled execution releases those that wait for its records.
		e.ok(e.th.WaitAndResetNotify(gate, b, 0))
		e.ok(e.th.MdlRIExecuteAsync(h, b))
		e.ok(e.th.StreamWaitEvent(c, out))
		e.ok(e.th.StreamAbort(b))
		e.ok(e.th.SynchronizeStreamWithTimeout(c, patience))

		for _, x := range []struct {
			want, got acl.Error
		}{
			{acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, e.th.RecordEventWithFlag(mk(), a, external)},
			{acl.ACL_ERROR_RT_STREAM_NOT_CAPTURED, e.th.StreamWaitEventWithFlag(a, mk(), 0, external)},
			{acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, e.th.RecordEventWithFlag(e.event(), a, external)},
			{acl.ACL_ERROR_INVALID_PARAM, e.th.StreamWaitEventWithFlag(a, mk(), 1, external)},
			{acl.ACL_ERROR_INVALID_PARAM, e.th.RecordEventWithFlag(mk(), a, 2)},
			{acl.ACL_ERROR_RT_PARAM_INVALID, e.th.RecordEvent(mid, a)}, // it is recorded across the border
			{acl.ACL_ERROR_RT_PARAM_INVALID, e.th.StreamWaitEvent(a, in)},
		} {
			e.want(x.want, x.got)
		}
	}
}

// A framework records an event when it frees a pinned buffer, after the stream has joined back. The text of 107025 did
// not say which task came after the join.
func TestUnjoinedStreamNamesItsTasks(t *testing.T) {
	e := newEnv(t, Options{})
	a, b := e.stream(), e.stream()
	fork, join, free := e.event(), e.event(), e.event()
	word := e.malloc(4)
	for _, c := range []struct {
		then func()
		want []string
	}{
		{func() { e.ok(e.th.RecordEvent(free, b)) }, []string{"its last task, number 3, is a record", "the join before it covers its tasks up to number 2"}},
		{func() {
			e.ok(e.th.RecordEvent(free, b))
			e.ok(e.th.StreamWaitEvent(a, free))
			e.ok(e.th.MemsetD32Async(word, 4, 2, 1, b))
		}, []string{"its last task, number 4, is a fill", "up to number 3"}},
	} {
		var g acl.MdlRI
		e.ok(e.th.MdlRICaptureBegin(a, acl.ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL))
		e.ok(e.th.RecordEvent(fork, a))
		e.ok(e.th.StreamWaitEvent(b, fork))
		e.ok(e.th.RecordEvent(join, b))
		e.ok(e.th.StreamWaitEvent(a, join))
		c.then()
		e.want(acl.ACL_ERROR_RT_STREAM_UNJOINED, e.th.MdlRICaptureEnd(a, &g))
		e.message(append(c.want, "stream ")...)
	}
}

// A framework reads the dump of a graph as an array of events, each on a named row. The dump was an object with numbered rows.
func TestDumpedGraphIsAnArrayOfEvents(t *testing.T) {
	e := newEnv(t, Options{})
	a, b := e.stream(), e.stream()
	fork, join := e.event(), e.event()
	g := e.capture(a, func() {
		e.ok(e.th.RecordEvent(fork, a))
		e.ok(e.th.StreamWaitEvent(b, fork))
		e.ok(e.th.RecordEvent(join, b))
		e.ok(e.th.StreamWaitEvent(a, join))
	})
	path := filepath.Join(t.TempDir(), "graph.json")
	e.ok(e.th.MdlRIDebugJsonPrint(g, cstring(path), 0))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var events []struct{ Name, Ph, Tid string }
	if err := json.Unmarshal(text, &events); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	rows := map[string][]string{}
	for _, v := range events {
		rows[v.Tid] = append(rows[v.Tid], v.Name)
	}
	row := func(s acl.Stream) string {
		var id int32
		e.ok(e.th.StreamGetId(s, &id))
		return fmt.Sprintf("stream%d", id)
	}
	want := map[string][]string{
		row(a): {"EVENT_RECORD_0", "EVENT_WAIT_1"},
		row(b): {"EVENT_WAIT_0", "EVENT_RECORD_1"},
	}
	if !maps.EqualFunc(rows, want, slices.Equal) {
		t.Errorf("%v, want %v", rows, want)
	}
}
