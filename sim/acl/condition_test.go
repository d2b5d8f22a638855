package acl

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/strict"
)

// conditional captures a model with a condition task. parts capture its parts, f the tasks after it.
func (e *env) conditional(s acl.Stream, typ acl.MdlRICondTaskType, initial uint32, parts []func(s acl.Stream, word acl.Addr), f func(word acl.Addr)) (g acl.MdlRI, word acl.Addr) {
	e.Helper()
	g = e.capture(s, func() {
		var status acl.MdlRICaptureStatus
		var model acl.MdlRI
		var c acl.MdlRICondHandle
		var at *uint64
		e.ok(e.th.MdlRICaptureGetInfo(s, &status, &model))
		e.ok(e.th.MdlRICondHandleCreate(model, initial, acl.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &c))
		e.ok(e.th.MdlRICondHandleGetCondPtr(c, &at))
		word = addr(at)
		models := make([]acl.MdlRI, len(parts))
		e.ok(e.th.MdlRIAddCondTask(acl.MdlRICondTaskParams{Handle: c, Type: typ, Size: uint32(len(parts)), ModelRIArray: addr(&models[0])}, s, 0))
		for i, part := range parts {
			inner := e.stream()
			e.ok(e.th.MdlRICaptureToModelRIBegin(inner, models[i], acl.ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL))
			part(inner, word)
			e.ok(e.th.MdlRICaptureEnd(inner, &models[i]))
		}
		f(word)
	})
	return g, word
}

// A loop counts on the device, in either clock, and each run begins anew.
func TestConditionalLoop(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		e := newEnv(t, Options{Virtual: virtual, Strict: &Strict{}})
		s := e.stream()
		sum, one, less := e.malloc(4), e.malloc(4), e.malloc(4)
		e.ok(e.th.MemsetD32(one, 4, 1, 1))
		e.ok(e.th.MemsetD32(less, 4, 0xffffffff, 1))
		add := func(to, what acl.Addr, s acl.Stream) {
			e.ok(e.th.ReduceAsync(to, what, 4, acl.ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, acl.ACL_INT32, s, 0))
		}
		g, _ := e.conditional(s, acl.ACL_MODEL_RI_COND_TYPE_WHILE, 1000, []func(acl.Stream, acl.Addr){func(s acl.Stream, word acl.Addr) {
			add(sum, one, s)
			add(word, less, s)
		}}, func(acl.Addr) { add(sum, one, s) })
		for n := range uint32(2) {
			e.ok(e.th.MdlRIExecuteAsync(g, s))
			e.ok(e.th.SynchronizeStream(s))
			if got := e.word(sum); got != 1001*(n+1) {
				t.Fatalf("virtual %t: run %d: the sum is %d, want %d", virtual, n, got, 1001*(n+1))
			}
		}
		e.ok(e.th.MdlRIDestroy(g))
		e.found()
		if n := e.sim.Graphs.Live() + e.sim.Conditions.Live(); n != 0 {
			t.Errorf("virtual %t: %d models and conditions are left", virtual, n)
		}
		e.sim.Close()
	}
}

// An endless loop lets a synchronization time out. An abort ends it, and later work runs.
func TestConditionalLoopWithoutEnd(t *testing.T) {
	e := newEnv(t, Options{Model: preset(t, "instant")})
	s := e.stream()
	g, word := e.conditional(s, acl.ACL_MODEL_RI_COND_TYPE_WHILE, 1, []func(acl.Stream, acl.Addr){func(acl.Stream, acl.Addr) {}}, func(acl.Addr) {})
	for range 2 {
		e.ok(e.th.MdlRIExecuteAsync(g, s))
		e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, e.th.SynchronizeStreamWithTimeout(s, 1))
		e.ok(e.th.StreamAbort(s))
		e.ok(e.th.SynchronizeStream(s))
	}
	e.ok(e.th.MdlRIDestroy(g))
	if space.Bytes(word, 1)[0] != 0 {
		t.Error("the word of a model that is gone still has its value")
	}
}

// A failure in a part fails the run, and later tasks in the model do not run.
func TestConditionalPartFails(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		e := newEnv(t, Options{Virtual: virtual, Kernels: testKernels()})
		s := e.stream()
		f := e.function(e.load(testBinary(11, "fill")), "fill")
		p := e.malloc(64)
		g, _ := e.conditional(s, acl.ACL_MODEL_RI_COND_TYPE_IF, 1, []func(acl.Stream, acl.Addr){func(s acl.Stream, _ acl.Addr) {
			args := fillArgs(1, p+1<<30, 64)
			e.ok(e.th.LaunchKernelWithHostArgs(f, 1, s, nil, addr(&args[0]), uint64(len(args)), nil, 0))
		}}, func(acl.Addr) { e.ok(e.th.MemsetAsync(p, 64, 9, 64, s)) })
		e.ok(e.th.MdlRIExecuteAsync(g, s))
		e.want(acl.ACL_ERROR_RT_AICORE_EXCEPTION, e.th.SynchronizeStream(s))
		e.message("fill")
		if space.Bytes(p, 1)[0] != 0 {
			t.Error("the task behind the part ran")
		}
		e.sim.Close()
	}
}

// A loop whose condition an unknown kernel would write ends, and the log says so.
func TestConditionalUnknown(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	s := e.stream()
	mystery := e.function(e.load(testBinary(11, "mystery")), "mystery")
	g, _ := e.conditional(s, acl.ACL_MODEL_RI_COND_TYPE_WHILE, 1, []func(acl.Stream, acl.Addr){func(s acl.Stream, word acl.Addr) {
		args := binary.LittleEndian.AppendUint64(nil, word)
		e.ok(e.th.LaunchKernelWithHostArgs(mystery, 1, s, nil, addr(&args[0]), uint64(len(args)), nil, 0))
	}}, func(acl.Addr) {})
	e.ok(e.th.MdlRIExecuteAsync(g, s))
	e.ok(e.th.SynchronizeStreamWithTimeout(s, patience))
	if text := e.log.String(); !strings.Contains(text, `condition of model 0 depends on output of kernel "mystery"`) {
		t.Errorf("the log is %q", text)
	}
}

// Strict mode sees that the word is written while a run may read it.
func TestStrictCondition(t *testing.T) {
	e := strictEnv(t, Options{})
	s, other := e.stream(), e.stream()
	g, word := e.conditional(s, acl.ACL_MODEL_RI_COND_TYPE_IF, 1, []func(acl.Stream, acl.Addr){func(acl.Stream, acl.Addr) {}}, func(acl.Addr) {})
	from := e.malloc(8)
	e.ok(e.th.MdlRIExecuteAsync(g, s))
	e.pause(s, false)
	e.ok(e.th.MemcpyAsync(word, 8, from, 8, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, other))
	e.ok(e.th.SynchronizeDevice())
	e.found(strict.StreamRace)
}

// A part with a failed capture invalidates the model. A part without its model can't be ended.
func TestConditionalCaptureFails(t *testing.T) {
	e := newEnv(t, Options{})
	s, inner := e.stream(), e.stream()
	p := e.malloc(64)
	var status acl.MdlRICaptureStatus
	var model, part, g acl.MdlRI
	var c acl.MdlRICondHandle
	e.ok(e.th.MdlRICaptureBegin(s, acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED))
	e.ok(e.th.MdlRICaptureGetInfo(s, &status, &model))
	e.ok(e.th.MdlRICondHandleCreate(model, 1, 0, &c))
	e.ok(e.th.MdlRIAddCondTask(acl.MdlRICondTaskParams{Handle: c, Type: acl.ACL_MODEL_RI_COND_TYPE_IF, Size: 1, ModelRIArray: addr(&part)}, s, 0))
	e.ok(e.th.MdlRICaptureToModelRIBegin(inner, part, acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED))
	e.ok(e.th.MemsetAsync(p, 64, 1, 64, inner))
	e.want(acl.ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, e.th.MdlRICaptureEnd(s, &g))
	e.want(acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, e.th.MemsetAsync(p, 64, 1, 64, inner))
	e.want(acl.ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, e.th.MdlRICaptureEnd(inner, &part))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, e.th.MdlRICondHandleGetCondPtr(c, new(*uint64)))
	e.ok(e.th.MemsetAsync(p, 64, 1, 64, inner))
	e.ok(e.th.SynchronizeStreamWithTimeout(inner, patience))
	if n := e.sim.Graphs.Live() + e.sim.Conditions.Live(); n != 0 {
		t.Errorf("%d models and conditions are left", n)
	}
}
