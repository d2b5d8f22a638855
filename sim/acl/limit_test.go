package acl

import (
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/space"
)

// limited calls f while a table has no room for another handle, and again when it has. A real million of objects would take seconds.
func limited[T any](e *env, table *space.Table[T], want acl.Error, f func() acl.Error) {
	e.Helper()
	numbers := func(field string) *[]uint64 {
		return (*[]uint64)(unsafe.Pointer(reflect.ValueOf(table).Elem().FieldByName(field).UnsafeAddr()))
	}
	free, gens := *numbers("free"), *numbers("gens")
	*numbers("free"), *numbers("gens") = nil, append(slices.Clip(gens), make([]uint64, space.MaxHandles-len(gens))...)
	var before, after, total uint64
	e.ok(e.th.GetMemInfo(acl.ACL_HBM_MEM, &before, &total))
	got := f()
	e.ok(e.th.GetMemInfo(acl.ACL_HBM_MEM, &after, &total))
	*numbers("free"), *numbers("gens") = free, gens
	e.want(want, got)
	e.message("limit")
	if after != before {
		e.Errorf("a call that failed keeps %d bytes", before-after)
	}
	e.ok(f())
}

// Each kind of object has a limit. The call that exceeds it fails with the code of its kind, keeps no memory, and nothing ends.
func TestLimitsOfHandles(t *testing.T) {
	e := newEnv(t, Options{Kernels: testKernels()})
	binary := testBinary(11, "fill")
	bin := e.load(binary)
	f := e.function(bin, "fill")
	s := e.stream()
	pool := &acl.MemPoolProps{MaxSize: 1024}
	pool.Location.Type = acl.ACL_MEM_LOCATION_TYPE_DEVICE
	const none = acl.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL
	limited(e, &e.sim.counters, acl.ACL_ERROR_RT_NO_NOTIFY_RESOURCE, func() acl.Error { return e.th.CntNotifyCreate(new(acl.CntNotify), acl.ACL_NOTIFY_DEFAULT) })
	limited(e, &e.sim.events, acl.ACL_ERROR_RT_NO_EVENT_RESOURCE, func() acl.Error { return e.th.CreateEvent(new(acl.Event)) })
	limited(e, &e.sim.pools, none, func() acl.Error { return e.th.MemPoolCreate(new(acl.MemPool), pool) })
	limited(e, &e.sim.argLists, none, func() acl.Error { return e.th.KernelArgsInit(f, new(acl.ArgsHandle)) })
	limited(e, &e.sim.binaries, none, func() acl.Error {
		return e.th.BinaryLoadFromData(addr(&binary[0]), uint64(len(binary)), nil, new(acl.BinHandle))
	})
	limited(e, &e.sim.functions, none, func() acl.Error { return e.th.BinaryGetFunction(e.load(binary), cstring("fill"), new(acl.FuncHandle)) })
	limited(e, &e.sim.physicals, none, func() acl.Error { return e.th.MallocPhysical(new(acl.DrvMemHandle), 2<<20, deviceProp(), 0) })
	limited(e, &e.sim.Graphs, acl.ACL_ERROR_RT_NO_MODEL_RESOURCE, func() acl.Error { return e.th.MdlRIBuildBegin(new(acl.MdlRI), 0) })
	e.capture(s, func() {
		var status acl.MdlRICaptureStatus
		var model acl.MdlRI
		e.ok(e.th.MdlRICaptureGetInfo(s, &status, &model))
		limited(e, &e.sim.Conditions, none, func() acl.Error {
			return e.th.MdlRICondHandleCreate(model, 1, acl.ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, new(acl.MdlRICondHandle))
		})
		limited(e, &e.sim.Groups, none, func() acl.Error {
			e.ok(e.th.MdlRICaptureTaskGrpBegin(s))
			return e.th.MdlRICaptureTaskGrpEnd(s, new(acl.TaskGrp))
		})
	})
	limited(e, &e.sim.streams, acl.ACL_ERROR_RT_NO_STREAM_RESOURCE, func() acl.Error { return e.th.CreateStream(new(acl.Stream)) })
	limited(e, &e.sim.contexts, none, func() acl.Error { return e.th.CreateContext(new(acl.Context), 0) })
}
