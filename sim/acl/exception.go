package acl

import (
	"slices"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
)

// exception is a task that failed, as the program's functions for such tasks are told of it. Its handle lives as long as
// they run.
type exception struct {
	handle               uint64
	device, stream, task uint32
	thread               uint32 // of the system, that submitted the task
	failure              *fail.Failure
	fn                   *function // of a kernel
	args                 space.Span
}

// exceptionCallbacks are the functions that the program wants called when a task fails.
type exceptionCallbacks struct {
	set        uint64   // by aclrtSetExceptionInfoCallback
	registered []uint64 // by aclrtExceptionInfoCallbackRegister
}

// TaskFailed tells the program that a task failed, once for each failure, on a thread of the runtime's. The caller may not hold locks.
func (m *Sim) TaskFailed(s *device.Stream, k *device.Task, f *fail.Failure) {
	if m.opts.Caller == nil || f == nil || errorOf(f) == acl.ACL_ERROR_RT_STREAM_ABORT || !f.Raised.CompareAndSwap(false, true) {
		return
	}
	m.observers.mu.Lock()
	var all [][]uint64
	if m.observers.exceptions.set != 0 {
		all = append(all, []uint64{m.observers.exceptions.set})
	}
	for _, fn := range m.observers.exceptions.registered {
		all = append(all, []uint64{fn})
	}
	m.observers.mu.Unlock()
	x := &exception{device: uint32(s.Context.Device.ID), stream: uint32(s.ID), task: k.ID, thread: k.Thread, failure: f}
	if o := orderOf(k); o != nil {
		x.fn, x.args = o.fn, k.Args
		b := o.fn.bin
		b.mu.Lock()
		if b.onException.fn != 0 {
			all = append(all, []uint64{b.onException.fn, b.onException.arg})
		}
		b.mu.Unlock()
	}
	if len(all) == 0 {
		return
	}
	x.handle = m.raised.Add(x)
	for _, c := range all {
		m.opts.Caller.CallAside(c[0], slices.Concat([]uint64{x.handle}, c[1:])...)
	}
	m.raised.Remove(x.handle)
}

// callable checks a function of the program's.
func (t *Thread) callable(fn acl.Addr) acl.Error {
	switch {
	case fn == 0:
		return t.absent("the function")
	case t.sim.opts.Caller == nil:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "there is no program whose function could be called")
	}
	return acl.ACL_SUCCESS
}

// SetExceptionInfoCallback has one function called when a task fails; null for none.
func (t *Thread) SetExceptionInfoCallback(callback acl.Addr) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if callback != 0 {
		if e := t.callable(callback); e != 0 {
			return e
		}
	}
	t.sim.observers.mu.Lock()
	t.sim.observers.exceptions.set = callback
	t.sim.observers.mu.Unlock()
	return acl.ACL_SUCCESS
}

// ExceptionInfoCallbackRegister adds a function that is called when a task fails. One that is there already stays there once.
func (t *Thread) ExceptionInfoCallbackRegister(callback acl.Addr) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if e := t.callable(callback); e != 0 {
		return e
	}
	t.sim.observers.mu.Lock()
	defer t.sim.observers.mu.Unlock()
	if r := &t.sim.observers.exceptions.registered; !slices.Contains(*r, callback) {
		*r = append(*r, callback)
	}
	return acl.ACL_SUCCESS
}

// ExceptionInfoCallbackUnregister ends what ExceptionInfoCallbackRegister began; there need not be anything.
func (t *Thread) ExceptionInfoCallbackUnregister(callback acl.Addr) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if callback == 0 {
		return t.null("callback")
	}
	t.sim.observers.mu.Lock()
	defer t.sim.observers.mu.Unlock()
	r := &t.sim.observers.exceptions.registered
	*r = slices.DeleteFunc(*r, func(fn uint64) bool { return fn == callback })
	return acl.ACL_SUCCESS
}

// BinarySetExceptionCallback has a function called when a kernel of a binary fails. The last one counts; null is none.
func (t *Thread) BinarySetExceptionCallback(binHandle acl.BinHandle, callback, userData acl.Addr) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	f := t.sim.binaries.Get(uint64(binHandle))
	if f == nil {
		return t.badHandle(space.KindBinary, uint64(binHandle))
	}
	if callback != 0 {
		if e := t.callable(callback); e != 0 {
			return e
		}
	}
	f.mu.Lock()
	f.onException = callbackOf(callback, userData)
	f.mu.Unlock()
	return acl.ACL_SUCCESS
}

// told reads a field of an exception; all ones where it is none.
func (t *Thread) told(info acl.ExceptionInfo, field func(*exception) uint32) uint32 {
	x := t.sim.raised.Get(uint64(info))
	if x == nil {
		t.badHandle(space.KindException, uint64(info))
		return ^uint32(0)
	}
	return field(x)
}

// GetTaskIdFromExceptionInfo returns the id of the task that failed.
func (t *Thread) GetTaskIdFromExceptionInfo(info acl.ExceptionInfo) uint32 {
	return t.told(info, func(x *exception) uint32 { return x.task })
}

// GetStreamIdFromExceptionInfo returns the id of its stream.
func (t *Thread) GetStreamIdFromExceptionInfo(info acl.ExceptionInfo) uint32 {
	return t.told(info, func(x *exception) uint32 { return x.stream })
}

// GetThreadIdFromExceptionInfo returns the thread that submitted it.
func (t *Thread) GetThreadIdFromExceptionInfo(info acl.ExceptionInfo) uint32 {
	return t.told(info, func(x *exception) uint32 { return x.thread })
}

// GetDeviceIdFromExceptionInfo returns the device that it ran on.
func (t *Thread) GetDeviceIdFromExceptionInfo(info acl.ExceptionInfo) uint32 {
	return t.told(info, func(x *exception) uint32 { return x.device })
}

// GetErrorCodeFromExceptionInfo returns its error.
func (t *Thread) GetErrorCodeFromExceptionInfo(info acl.ExceptionInfo) uint32 {
	return t.told(info, func(x *exception) uint32 { return uint32(errorOf(x.failure)) })
}

// kernelException returns an exception of a kernel.
func (t *Thread) kernelException(info acl.ExceptionInfo) (*exception, acl.Error) {
	x := t.sim.raised.Get(uint64(info))
	switch {
	case x == nil:
		return nil, t.badHandle(space.KindException, uint64(info))
	case x.fn == nil:
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "task %d was no kernel", x.task)
	}
	return x, acl.ACL_SUCCESS
}

// GetArgsFromExceptionInfo returns where the arguments of the failed kernel lie on the device.
func (t *Thread) GetArgsFromExceptionInfo(info acl.ExceptionInfo, devArgsPtr *acl.Addr, devArgsLen *uint32) acl.Error {
	x, e := t.kernelException(info)
	if e != 0 {
		return e
	}
	if devArgsPtr == nil || devArgsLen == nil {
		return t.null("devArgsPtr or devArgsLen")
	}
	*devArgsPtr, *devArgsLen = x.args.Addr, uint32(x.args.Size)
	return acl.ACL_SUCCESS
}

// GetFuncHandleFromExceptionInfo returns the failed kernel.
func (t *Thread) GetFuncHandleFromExceptionInfo(info acl.ExceptionInfo, func_ *acl.FuncHandle) acl.Error {
	x, e := t.kernelException(info)
	if e != 0 {
		return e
	}
	if func_ == nil {
		return t.null("func")
	}
	*func_ = acl.FuncHandle(x.fn.handle)
	return acl.ACL_SUCCESS
}
