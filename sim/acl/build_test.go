package acl

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
)

func (e *env) persistent() acl.Stream {
	e.Helper()
	var s acl.Stream
	e.ok(e.th.CreateStreamWithConfig(&s, 0, acl.ACL_STREAM_PERSISTENT))
	return s
}

// builder begins a model with bound streams. The first stream starts with the model.
func (e *env) builder(n int) (acl.MdlRI, []acl.Stream) {
	e.Helper()
	var m acl.MdlRI
	e.ok(e.th.MdlRIBuildBegin(&m, 0))
	var all []acl.Stream
	for i := range n {
		s, flag := e.persistent(), uint32(boundLater)
		if i == 0 {
			flag = boundHead
		}
		e.ok(e.th.MdlRIBindStream(m, s, flag))
		all = append(all, s)
	}
	return m, all
}

// set submits a value write.
func (e *env) set(s acl.Stream, at acl.Addr, v uint32) {
	e.Helper()
	e.ok(e.th.MemsetD32Async(at, 4, v, 1, s))
}

// eachClock runs a test in real and in virtual time.
func eachClock(t *testing.T, o Options, f func(e *env)) {
	for _, virtual := range []bool{false, true} {
		name := "real"
		if virtual {
			name = "virtual"
		}
		t.Run(name, func(t *testing.T) {
			o := o
			o.Virtual = virtual
			f(newEnv(t, o))
		})
	}
}

// Tasks of bound streams run with the model, each time it runs.
func TestBoundStreamsRunWithTheModel(t *testing.T) {
	eachClock(t, Options{Kernels: testKernels()}, func(e *env) {
		th := e.th
		var m acl.MdlRI
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.MdlRIBuildBegin(&m, 1))
		e.ok(th.MdlRIBuildBegin(&m, 0))
		plain, s, other, exec := e.stream(), e.persistent(), e.persistent(), e.stream()
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.MdlRIBindStream(m, plain, boundHead))
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.MdlRIBindStream(m, s, 7))
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.MdlRIBindStream(m, 0, boundHead))
		e.ok(th.MdlRIBindStream(m, s, boundHead))
		e.want(acl.ACL_ERROR_RT_STREAM_MODEL, th.MdlRIBindStream(m, s, boundHead))
		e.ok(th.MdlRIBindStream(m, other, boundHead))
		d := e.malloc(64)
		ev := e.event()
		e.set(s, d, 1)
		e.ok(th.RecordEvent(ev, s))
		e.ok(th.StreamWaitEvent(other, ev))
		e.ok(th.MemcpyAsync(d+4, 4, d, 4, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, other))
		e.want(acl.ACL_ERROR_RT_STREAM_MODEL, th.StreamWaitEvent(s, e.event()))
		e.want(acl.ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, th.MemcpyAsync(d, 4, e.pageable(4), 4, acl.ACL_MEMCPY_HOST_TO_DEVICE, s))
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.MdlRIBuildEnd(m, 0)) // no stream has ended its tasks
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.MdlRIExecuteAsync(m, exec))
		e.want(acl.ACL_ERROR_RT_STREAM_MODEL, th.MdlRIEndTask(m, plain))
		e.ok(th.MdlRIEndTask(m, s))
		e.want(acl.ACL_ERROR_RT_STREAM_MODEL, th.MdlRIEndTask(m, s))
		e.ok(th.MdlRIBuildEnd(m, 0))
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.MdlRIBuildEnd(m, 0))
		e.want(acl.ACL_ERROR_RT_STREAM_MODEL, th.MemsetAsync(d, 4, 0, 4, other))
		if e.word(d) != 0 {
			e.Error("a task ran before the model")
		}
		for range 3 {
			e.ok(th.Memset(d, 8, 0, 8))
			e.ok(th.MdlRIExecuteAsync(m, exec))
			e.ok(th.SynchronizeStream(exec))
			if e.word(d) != 1 || e.word(d+4) != 1 {
				e.Fatalf("% x", space.Bytes(d, 8))
			}
		}
		// Its stream emptied, the model is built anew.
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.PersistentTaskClean(plain))
		e.ok(th.PersistentTaskClean(other))
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.MdlRIExecute(m, -1))
		e.set(other, d+8, 9)
		e.ok(th.MdlRIBuildEnd(m, 0))
		e.ok(th.MdlRIExecute(m, -1))
		if e.word(d+8) != 9 {
			e.Error("the new task did not run")
		}
		e.ok(th.MdlRIUnbindStream(m, other))
		e.want(acl.ACL_ERROR_RT_STREAM_MODEL, th.MdlRIUnbindStream(m, other))
		e.set(other, d+12, 4)
		wait := func(s acl.Stream) { // nothing waits for a persistent stream itself
			done := e.event()
			e.ok(th.RecordEvent(done, s))
			e.ok(th.SynchronizeEvent(done))
		}
		wait(other)
		if e.word(d+12) != 4 {
			e.Error("a stream that is free again does not run")
		}
		e.ok(th.MdlRIDestroy(m))
		e.set(s, d, 77)
		wait(s)
		if e.word(d) != 77 {
			e.Error("the model is gone, and its stream does not run")
		}
	})
}

// A stream starts another one, and jumps by a condition or to labels by index.
func TestJumpsByConditionAndLabel(t *testing.T) {
	eachClock(t, Options{Kernels: testKernels()}, func(e *env) {
		th := e.th
		m, s := e.builder(4)
		d, index := e.malloc(64), e.malloc(64)
		var labels [2]acl.Label
		var list acl.LabelList
		for i := range labels {
			e.ok(th.CreateLabel(&labels[i]))
		}
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.CreateLabelList(&labels[0], 0, &list))
		e.ok(th.CreateLabelList(&labels[0], 2, &list))
		e.ok(th.ActiveStream(s[1], s[0])) // beside the first
		e.set(s[1], d, 1)
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.SwitchLabelByIndex(index, 3, list, s[0]))
		e.want(acl.ACL_ERROR_RT_STREAM_MODEL, th.SwitchLabelByIndex(index, 2, list, e.stream()))
		e.ok(th.SwitchLabelByIndex(index, 2, list, s[0]))
		e.set(s[0], d+4, 99) // never reached: the first stream jumps
		e.set(s[2], d+8, 98) // never: before both labels
		e.ok(th.SetLabel(labels[0], s[2]))
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.SetLabel(labels[0], s[2]))
		e.set(s[2], d+8, 3)
		e.ok(th.SetLabel(labels[1], s[2]))
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.SwitchStream(index, 9, index+8, acl.ACL_RT_SWITCH_INT64, s[3], 0, s[2]))
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.SwitchStream(index, acl.ACL_RT_GREATER, index+8, acl.ACL_RT_SWITCH_INT64, s[3], s[1], s[2]))
		e.ok(th.SwitchStream(index+16, acl.ACL_RT_GREATER, index+24, acl.ACL_RT_SWITCH_INT64, s[3], 0, s[2]))
		e.set(s[2], d+12, 4)
		e.set(s[3], d+16, 5)
		e.ok(th.MdlRIEndTask(m, s[2]))
		e.ok(th.MdlRIBuildEnd(m, 0))
		for _, c := range []struct {
			index, left, right uint64
			want               [5]uint32
		}{
			{0, 1, 1, [5]uint32{1, 0, 3, 4, 0}},
			{1, 1, 1, [5]uint32{1, 0, 0, 4, 0}},
			{7, 1, 1, [5]uint32{1, 0, 0, 4, 0}}, // too large: the last label
			{0, 2, 1, [5]uint32{1, 0, 3, 0, 5}},
		} {
			e.ok(th.Memset(d, 64, 0, 64))
			b := space.Bytes(index, 32)
			binary.LittleEndian.PutUint32(b, uint32(c.index))
			binary.LittleEndian.PutUint64(b[16:], c.left)
			binary.LittleEndian.PutUint64(b[24:], c.right)
			e.ok(th.MdlRIExecute(m, -1))
			for i, want := range c.want {
				if got := e.word(d + 4*uint64(i)); got != want {
					e.Errorf("index %d, %d > %d: word %d is %d, want %d", c.index, c.left, c.right, i, got, want)
				}
			}
		}
		e.ok(th.DestroyLabelList(list))
		e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, th.DestroyLabelList(list))
		e.ok(th.DestroyLabel(labels[0]))
		e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, th.DestroyLabel(labels[0]))
	})
}

// In a loop, a kernel counts and the stream jumps back while the count is small. A label in another model ends the
// run.
func TestLoopRunsWhileCountIsSmall(t *testing.T) {
	eachClock(t, Options{}, func(e *env) {
		th := e.th
		m, s := e.builder(1)
		d := e.malloc(64)
		var again acl.Label
		var list acl.LabelList
		e.ok(th.CreateLabel(&again))
		e.ok(th.CreateLabelList(&again, 1, &list))
		e.ok(th.SetLabel(again, s[0]))
		st, _ := th.stream(s[0])
		e.ok(th.submit(st, device.Task{Kind: device.TaskGraph, Run: func(r *device.Stream) (time.Duration, *fail.Failure) {
			b := space.Bytes(d, 4)
			n := binary.LittleEndian.Uint32(b) + 1
			binary.LittleEndian.PutUint32(b, n)
			return time.Microsecond, nil
		}}))
		// The jump back follows the switch to the end.
		end := e.persistent()
		e.ok(th.MdlRIBindStream(m, end, boundLater))
		e.ok(th.SwitchStream(d, acl.ACL_RT_GREATER_OR_EQUAL, d+8, acl.ACL_RT_SWITCH_INT32, end, 0, s[0]))
		e.ok(th.SwitchLabelByIndex(d+16, 1, list, s[0]))
		e.set(end, d+24, 1)
		e.ok(th.MdlRIEndTask(m, s[0]))
		e.ok(th.MdlRIBuildEnd(m, 0))
		binary.LittleEndian.PutUint32(space.Bytes(d+8, 4), 1000)
		e.ok(th.MdlRIExecute(m, -1))
		if e.word(d) != 1000 || e.word(d+24) != 1 {
			e.Errorf("%d rounds", e.word(d))
		}

		other, o := e.builder(1)
		e.ok(th.SwitchLabelByIndex(d+16, 1, list, o[0]))
		e.ok(th.MdlRIEndTask(other, o[0]))
		e.ok(th.MdlRIBuildEnd(other, 0))
		e.want(acl.ACL_ERROR_RT_LABEL_CONTEXT, th.MdlRIExecute(other, -1))
	})
}

// An abort ends a run that waits for ever; the model can run again.
func TestAbortModel(t *testing.T) {
	eachClock(t, Options{}, func(e *env) {
		th := e.th
		m, s := e.builder(1)
		d := e.malloc(64)
		e.ok(th.ValueWait(d, 1, acl.ACL_STREAM_WAIT_VALUE_EQ, s[0]))
		e.set(s[0], d+8, 5)
		e.ok(th.MdlRIEndTask(m, s[0]))
		e.ok(th.MdlRIBuildEnd(m, 0))
		e.ok(th.MdlRIAbort(m)) // no run
		exec := e.stream()
		e.ok(th.MdlRIExecuteAsync(m, exec))
		e.want(acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, th.SynchronizeStreamWithTimeout(exec, 1))
		graph := e.sim.Graphs.Get(uint64(m))
		testenv.Wait(t, "a run that has begun", func() bool {
			graph.Lock()
			defer graph.Unlock()
			return graph.Current != nil
		})
		e.want(acl.ACL_ERROR_RT_MODEL_RUNNING, th.MdlRIUnbindStream(m, s[0]))
		e.ok(th.MdlRIAbort(m))
		e.want(acl.ACL_ERROR_RT_MODEL_ABORT_NORMAL, th.SynchronizeStream(exec))
		if e.word(d+8) != 0 {
			e.Error("a task behind the abort ran")
		}
		e.ok(th.Memset(d, 8, 0, 8))
		space.Bytes(d, 1)[0] = 1
		e.ok(th.MdlRIExecute(m, -1))
		if e.word(d+8) != 5 {
			e.Error("the model does not run again")
		}
		g := e.capture(e.stream(), func() {})
		e.want(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, th.MdlRIAbort(g))
	})
}

// The tasks in a captured model can be listed, read, changed and disabled; changes wait for the update.
func TestModelTasks(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	th := e.th
	s := e.stream()
	d := e.malloc(64)
	f := e.function(e.load(testBinary(11, "fill")), "fill")
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.CacheLastTaskOpInfo(d, 4))
	args := fillArgs(3, d, 8)
	attr := acl.LaunchKernelAttr{Id: acl.ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT}
	attr.Value[0] = 5
	cfg := acl.LaunchKernelCfg{Attrs: addr(&attr), NumAttrs: 1}
	info := []byte("shapes")
	text := []byte(`{"op":"fill"}`)
	g := e.capture(s, func() {
		e.ok(th.LaunchKernelWithHostArgs(f, 2, s, &cfg, addr(&args[0]), uint64(len(args)), nil, 0))
		e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.CacheLastTaskOpInfo(addr(&info[0]), 65<<10))
		e.ok(th.CacheLastTaskOpInfo(addr(&info[0]), uint64(len(info))))
		e.ok(th.CacheLastTaskExtendInfo(&text[0], uint64(len(text))))
		e.ok(th.ValueWrite(d+16, 7, 0, s))
		e.set(s, d+24, 8)
	})
	var n uint32
	e.ok(th.MdlRIGetStreams(g, nil, &n))
	streams := make([]acl.Stream, n)
	e.ok(th.MdlRIGetStreams(g, &streams[0], &n))
	if n != 1 || streams[0] != s {
		t.Fatalf("%d streams: %x", n, streams)
	}
	e.ok(th.MdlRIGetTasksByStream(s, nil, &n))
	tasks := make([]acl.MdlRITask, n)
	few := uint32(1)
	e.want(acl.ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, th.MdlRIGetTasksByStream(s, &tasks[0], &few))
	e.ok(th.MdlRIGetTasksByStream(s, &tasks[0], &n))
	e.want(acl.ACL_ERROR_RT_STREAM_MODEL, th.MdlRIGetTasksByStream(e.stream(), nil, &n))
	for i, want := range []acl.MdlRITaskType{acl.ACL_MODEL_RI_TASK_KERNEL, acl.ACL_MODEL_RI_TASK_VALUE_WRITE, acl.ACL_MODEL_RI_TASK_DEFAULT} {
		var typ acl.MdlRITaskType
		e.ok(th.MdlRITaskGetType(tasks[i], &typ))
		e.ok(th.MdlRITaskGetSeqId(tasks[i], &n))
		if typ != want || n != uint32(i) {
			t.Errorf("task %d is number %d and of type %d, want %d", i, n, typ, want)
		}
	}
	var value acl.LaunchKernelAttrValue
	e.ok(th.MdlRIKernelTaskGetAttribute(tasks[0], acl.ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT, &value))
	if value[0] != 5 {
		t.Errorf("the timeout is %d", value[0])
	}
	e.want(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, th.MdlRIKernelTaskGetAttribute(tasks[0], acl.ACL_RT_LAUNCH_KERNEL_ATTR_ENGINE_TYPE, &value))
	e.want(acl.ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, th.MdlRIKernelTaskGetAttribute(tasks[1], acl.ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT, &value))

	var p, w acl.MdlRITaskParams
	e.ok(th.MdlRITaskGetParams(tasks[0], &p))
	e.ok(th.MdlRITaskGetParams(tasks[1], &w))
	k, v := (*acl.MdlRIKernelTaskParams)(space.Pointer(addr(&p.Rsv2))), (*acl.MdlRIValueWriteTaskParams)(space.Pointer(addr(&w.Rsv2)))
	if k.FuncHandle != f || k.NumBlocks != 2 || !bytes.Equal(space.Bytes(k.Args, k.ArgsSize), args) || string(space.Bytes(p.OpInfoPtr, p.OpInfoSize)) != "shapes" {
		t.Errorf("%+v", k)
	}
	if v.DevAddr != d+16 || v.Value != 7 {
		t.Errorf("%+v", v)
	}
	run := func(want ...uint32) {
		t.Helper()
		e.ok(th.Memset(d, 64, 0, 64))
		e.ok(th.MdlRIExecute(g, -1))
		for i, at := range []uint64{0, 16, 24} {
			if got := e.word(d + at); got != want[i] {
				t.Errorf("word %d is %#x, want %#x", i, got, want[i])
			}
		}
	}
	run(0x03030303, 7, 8)
	fresh := fillArgs(4, d, 4)
	k.Args, k.IsHostArgs, k.NumBlocks = addr(&fresh[0]), 1, 1
	v.Value = 70
	p.Type = acl.ACL_MODEL_RI_TASK_EVENT_WAIT
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.MdlRITaskSetParams(tasks[0], &p))
	p.Type = acl.ACL_MODEL_RI_TASK_KERNEL
	e.ok(th.MdlRITaskSetParams(tasks[0], &p))
	e.ok(th.MdlRITaskSetParams(tasks[0], &p))
	e.ok(th.MdlRITaskSetParams(tasks[1], &w))
	e.ok(th.MdlRITaskDisable(tasks[2]))
	run(0x03030303, 7, 8)
	e.ok(th.MdlRIUpdate(g))
	run(0x04040404, 70, 0)
	k.NumBlocks = 0
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.MdlRITaskSetParams(tasks[0], &p))

	path := filepath.Join(t.TempDir(), "model.json")
	e.want(acl.ACL_ERROR_RT_PARAM_INVALID, th.MdlRIDebugJsonPrint(g, cstring(path), 2))
	e.want(acl.ACL_ERROR_RT_FILE_WRITE, th.MdlRIDebugJsonPrint(g, cstring(path+"/no/where"), 0))
	e.ok(th.MdlRIDebugJsonPrint(g, cstring(path), 1))
	b, err := os.ReadFile(path)
	if err != nil || !json.Valid(b) || !strings.Contains(string(b), `"extend":{"op":"fill"}`) || !strings.Contains(string(b), `"name":"fill"`) {
		t.Errorf("%v: %s", err, b)
	}
	e.ok(th.MdlRIDestroy(g))
	e.want(acl.ACL_ERROR_RT_INVALID_HANDLE, th.MdlRITaskDisable(tasks[0]))
	if n := e.sim.GraphTasks.Live(); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
}
