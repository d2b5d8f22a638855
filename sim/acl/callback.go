package acl

import (
	"slices"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/callback"
	"github.com/acltrace/acltrace/sim/acl/kernel"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
)

// LaunchHostFunc calls a program function in stream order, and the stream waits for it. The function runs on the
// thread that subscribed for host functions, else on a runtime thread.
func (t *Thread) LaunchHostFunc(on acl.Stream, fn, args acl.Addr) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	caller := t.sim.opts.Caller
	switch {
	case fn == 0:
		return t.absent("fn")
	case caller == nil:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "functions of the program can't be called in this process")
	}
	return t.submit(s, device.Task{Kind: device.TaskHost, Run: hostTime, Begin: func(s *device.Stream) *device.Waiting {
		if sub := subscriberOf(s, callback.HostFunctions); sub != nil && !mutant.Breaks("function_on_the_subscribed_thread") {
			t.sim.Strict.HostBegins(&s.Strict)
			return sub.Call(fn, args)
		}
		return &device.Waiting{Block: func(<-chan struct{}, <-chan time.Time) (bool, *fail.Failure) {
			t.sim.Strict.HostBegins(&s.Strict)
			caller.CallAside(fn, args)
			return true, nil
		}}
	}})
}

// hostTime is a task that the host has done while the stream waited.
func hostTime(s *device.Stream) (time.Duration, *fail.Failure) {
	s.Context.Device.Machine.Strict.HostReturns(&s.Strict)
	if m := s.Context.Device.Machine; m.Options.Virtual {
		return time.Duration(m.Model.Host.Function), nil
	}
	return 0, nil
}

// SubscribeReport lets a program thread run the callbacks of a stream.
func (t *Thread) SubscribeReport(threadId uint64, on acl.Stream) acl.Error {
	return t.subscribe(callback.Callbacks, threadId, on)
}

// UnSubscribeReport ends SubscribeReport. Pending callbacks never run.
func (t *Thread) UnSubscribeReport(threadId uint64, on acl.Stream) acl.Error {
	return t.unsubscribe(callback.Callbacks, threadId, on)
}

// SubscribeHostFunc lets a program thread run the host functions of a stream.
func (t *Thread) SubscribeHostFunc(hostFuncThreadId uint64, exeStream acl.Stream) acl.Error {
	return t.subscribe(callback.HostFunctions, hostFuncThreadId, exeStream)
}

// UnSubscribeHostFunc ends SubscribeHostFunc. Pending host functions never run.
func (t *Thread) UnSubscribeHostFunc(hostFuncThreadId uint64, exeStream acl.Stream) acl.Error {
	return t.unsubscribe(callback.HostFunctions, hostFuncThreadId, exeStream)
}

func (t *Thread) subscribe(what callback.Service, threadId uint64, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	m := t.sim
	m.subscriptions.Lock()
	defer m.subscriptions.Unlock()
	if was := subscriberOf(s, what); was != nil {
		return t.fail(acl.ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %d is subscribed by thread %#x already", s.ID, was.ID)
	}
	sub := m.subscriptions.Threads[what][threadId]
	switch {
	case sub == nil && len(m.subscriptions.Threads[what]) == callback.MaxSubscribers:
		return t.fail(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, "%d threads process reports already, the limit", callback.MaxSubscribers)
	case sub == nil:
		sub = &callback.Subscriber{ID: threadId, Device: s.Context.Device, Wake: make(chan struct{}, 1)}
		m.subscriptions.Threads[what][threadId] = sub
	case sub.Device != s.Context.Device:
		return t.fail(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, "thread %#x processes the reports of device %d, but the stream is on device %d", threadId, sub.Device.ID, s.Context.Device.ID)
	}
	sub.Streams++
	setSubscriber(s, what, sub)
	return acl.ACL_SUCCESS
}

func (t *Thread) unsubscribe(what callback.Service, threadId uint64, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	switch sub := subscriberOf(s, what); {
	case sub == nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %d is not subscribed", s.ID)
	case sub.ID != threadId:
		return t.fail(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, "stream %d is subscribed by thread %#x, not by %#x", s.ID, sub.ID, threadId)
	}
	t.sim.unsubscribe(s, what)
	return acl.ACL_SUCCESS
}

// subscriberOf returns the thread that runs a stream's functions; nil for none.
func subscriberOf(s *device.Stream, what callback.Service) *callback.Subscriber {
	s.Lock()
	defer s.Unlock()
	return attached(s).subscribers[what]
}

func setSubscriber(s *device.Stream, what callback.Service, r *callback.Subscriber) {
	s.Lock()
	attached(s).subscribers[what] = r
	s.Unlock()
}

// unsubscribe takes the stream from its thread; the last stream takes the thread from the list.
func (m *Sim) unsubscribe(s *device.Stream, what callback.Service) {
	m.subscriptions.Lock()
	defer m.subscriptions.Unlock()
	sub := subscriberOf(s, what)
	if sub == nil {
		return
	}
	setSubscriber(s, what, nil)
	if sub.Streams--; sub.Streams == 0 {
		delete(m.subscriptions.Threads[what], sub.ID)
		sub.End()
		m.Clock.Changed()
	}
}

// LaunchCallback calls a program function in stream order, on the subscribed thread.
func (t *Thread) LaunchCallback(fn, userData acl.Addr, blockType acl.CallbackBlockType, on acl.Stream) acl.Error {
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	sub := subscriberOf(s, callback.Callbacks)
	switch {
	case fn == 0:
		return t.absent("fn")
	case blockType != acl.ACL_CALLBACK_NO_BLOCK && blockType != acl.ACL_CALLBACK_BLOCK:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "block type %d is unknown", blockType)
	case sub == nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_NO_CB_REG, "no thread has subscribed to stream %d: call aclrtSubscribeReport first", s.ID)
	}
	return t.submit(s, device.Task{Kind: device.TaskHost, Run: hostTime, Begin: func(s *device.Stream) *device.Waiting {
		if mutant.Breaks("callback_on_the_subscribed_thread") {
			t.sim.opts.Caller.CallAside(fn, userData)
			return nil
		}
		t.sim.Strict.HostBegins(&s.Strict)
		w := sub.Call(fn, userData)
		if blockType != acl.ACL_CALLBACK_BLOCK {
			return nil
		}
		return w
	}})
}

// ProcessReport runs the next callback of the subscribed streams. It waits at most so many milliseconds.
func (t *Thread) ProcessReport(timeout int32) acl.Error {
	return t.process(callback.Callbacks, timeout)
}

// ProcessHostFunc runs the next host function of the subscribed streams. It waits at most so many milliseconds.
func (t *Thread) ProcessHostFunc(timeout int32) acl.Error {
	return t.process(callback.HostFunctions, timeout)
}

func (t *Thread) process(what callback.Service, timeout int32) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if timeout == 0 || timeout < -1 {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "timeout is %d: want milliseconds above 0, or -1 for no limit", timeout)
	}
	m := t.sim
	m.subscriptions.Lock()
	sub := m.subscriptions.Threads[what][t.id]
	m.subscriptions.Unlock()
	if sub == nil {
		return t.fail(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, "thread %#x has not subscribed to a stream", t.id)
	}
	limit := device.Forever
	if timeout > 0 {
		limit = time.Duration(timeout) * time.Millisecond
	}
	for {
		c, ok, gone := sub.Take()
		switch {
		case gone:
			return t.fail(acl.ACL_ERROR_RT_THREAD_SUBSCRIBE, "the subscription of thread %#x has ended", t.id)
		case ok && m.opts.Caller == nil:
			c.Finish(&m.Machine)
			return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "functions of the program can't be called in this process")
		case ok:
			m.opts.Caller.Call(c.Func, c.Arg)
			c.Finish(&m.Machine)
			return acl.ACL_SUCCESS
		}
		if !m.Clock.Wait(&t.HostThread, sub.Wake, limit) {
			return t.fail(acl.ACL_ERROR_RT_REPORT_TIMEOUT, "no callback was due within %d ms", timeout)
		}
	}
}

// watch registers a function under a name; null removes it.
func (t *Thread) watch(list *callback.Watchers, regName *byte, fn, arg acl.Addr) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	name := space.GoString(regName)
	if name == "" {
		return t.null("regName")
	}
	t.sim.observers.Lock()
	defer t.sim.observers.Unlock()
	at := slices.IndexFunc(*list, func(w callback.Watcher) bool { return w.Name == name })
	switch {
	case fn == 0 && at < 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "no function is registered as %q", name)
	case fn == 0:
		*list = slices.Delete(slices.Clone(*list), at, at+1)
		return acl.ACL_SUCCESS
	case at >= 0:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "a function is registered as %q already", name)
	}
	if e := t.callable(fn); e != 0 {
		return e
	}
	*list = append(slices.Clone(*list), callback.Watcher{Name: name, Func: fn, Arg: arg})
	return acl.ACL_SUCCESS
}

// RegStreamStateCallback registers a function that is called after the creation of each stream and before its end.
func (t *Thread) RegStreamStateCallback(regName *byte, callback, args acl.Addr) acl.Error {
	return t.watch(&t.sim.observers.OnStream, regName, callback, args)
}

// RegDeviceStateCallback registers a function that is called before and after each aclrtSetDevice and
// aclrtResetDevice.
func (t *Thread) RegDeviceStateCallback(regName *byte, callback, args acl.Addr) acl.Error {
	return t.watch(&t.sim.observers.OnDevice, regName, callback, args)
}

// SetDeviceTaskAbortCallback registers a function that is called before and after each aclrtDeviceTaskAbort.
func (t *Thread) SetDeviceTaskAbortCallback(regName *byte, callback, args acl.Addr) acl.Error {
	return t.watch(&t.sim.observers.OnAbort, regName, callback, args)
}

func (s *Sim) reportStream(st *device.Stream, state acl.StreamState) {
	if !st.Hidden {
		s.observers.Report(&s.observers.OnStream, st.Handle, uint64(state))
	}
}

func (s *Sim) reportDevice(d *device.Device, state acl.DeviceState) {
	s.observers.Report(&s.observers.OnDevice, uint64(d.ID), uint64(state))
}

func (t *Thread) addPhase(list *[]callback.PhaseCallback, typ acl.RegisterCallbackType, fn, arg acl.Addr) acl.Error {
	if e := t.callable(fn); e != 0 {
		return e
	}
	if (typ < acl.ACL_REG_TYPE_ACL_MODEL || typ > acl.ACL_REG_TYPE_ACL_RETR) && typ != acl.ACL_REG_TYPE_OTHER {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "registration type %d is unknown", typ)
	}
	t.sim.observers.Lock()
	defer t.sim.observers.Unlock()
	if slices.ContainsFunc(*list, func(c callback.PhaseCallback) bool { return c.Phase == typ && c.Func == fn }) {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "the function is registered already")
	}
	*list = append(slices.Clone(*list), callback.PhaseCallback{Phase: typ, Callback: callback.New(fn, arg)})
	return acl.ACL_SUCCESS
}

func (t *Thread) dropPhase(list *[]callback.PhaseCallback, typ acl.RegisterCallbackType, fn acl.Addr) acl.Error {
	t.sim.observers.Lock()
	defer t.sim.observers.Unlock()
	at := slices.IndexFunc(*list, func(c callback.PhaseCallback) bool { return c.Phase == typ && c.Func == fn })
	if at < 0 {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "the function is not registered")
	}
	*list = slices.Delete(slices.Clone(*list), at, at+1)
	return acl.ACL_SUCCESS
}

// reportInit calls the functions for aclInit and returns the first error.
func (t *Thread) reportInit(c callback.Config) acl.Error {
	t.sim.observers.Lock()
	t.sim.observers.Config = c
	all := t.sim.observers.OnInit
	t.sim.observers.Unlock()
	for _, p := range all {
		if e := t.callInit(p, c); e != 0 {
			return e
		}
	}
	return acl.ACL_SUCCESS
}

func (t *Thread) callInit(p callback.PhaseCallback, c callback.Config) acl.Error {
	if e := acl.Error(int32(t.sim.opts.Caller.Call(p.Func, c.Addr, c.Size, p.Arg))); e != 0 {
		return t.fail(e, "a function registered for aclInit returned %d", e)
	}
	return acl.ACL_SUCCESS
}

func (t *Thread) reportFinalize() acl.Error {
	t.sim.observers.Lock()
	all := t.sim.observers.OnFinalize
	t.sim.observers.Unlock()
	for _, p := range all {
		if e := acl.Error(int32(t.sim.opts.Caller.Call(p.Func, p.Arg))); e != 0 {
			return t.fail(e, "a function registered for aclFinalize returned %d", e)
		}
	}
	return acl.ACL_SUCCESS
}

// InitCallbackRegister registers a function for aclInit, which receives the configuration text. After aclInit it is
// called at once.
func (t *Thread) InitCallbackRegister(type_ acl.RegisterCallbackType, cbFunc, userData acl.Addr) acl.Error {
	if e := t.addPhase(&t.sim.observers.OnInit, type_, cbFunc, userData); e != 0 {
		return e
	}
	if t.sim.life.inits.Load() == 0 {
		return acl.ACL_SUCCESS
	}
	t.sim.observers.Lock()
	c := t.sim.observers.Config
	t.sim.observers.Unlock()
	return t.callInit(callback.PhaseCallback{Phase: type_, Callback: callback.New(cbFunc, userData)}, c)
}

// InitCallbackUnRegister ends InitCallbackRegister.
func (t *Thread) InitCallbackUnRegister(type_ acl.RegisterCallbackType, cbFunc acl.Addr) acl.Error {
	return t.dropPhase(&t.sim.observers.OnInit, type_, cbFunc)
}

// FinalizeCallbackRegister has a function called at aclFinalize.
func (t *Thread) FinalizeCallbackRegister(type_ acl.RegisterCallbackType, cbFunc, userData acl.Addr) acl.Error {
	return t.addPhase(&t.sim.observers.OnFinalize, type_, cbFunc, userData)
}

// FinalizeCallbackUnRegister ends FinalizeCallbackRegister.
func (t *Thread) FinalizeCallbackUnRegister(type_ acl.RegisterCallbackType, cbFunc acl.Addr) acl.Error {
	return t.dropPhase(&t.sim.observers.OnFinalize, type_, cbFunc)
}

// callable checks a program function.
func (t *Thread) callable(fn acl.Addr) acl.Error {
	switch {
	case fn == 0:
		return t.absent("the function")
	case t.sim.opts.Caller == nil:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "functions of the program can't be called in this process")
	}
	return acl.ACL_SUCCESS
}

// TaskFailed reports each failure once to the program, on a runtime thread. The caller must not hold locks.
func (m *Sim) TaskFailed(s *device.Stream, k *device.Task, f *fail.Failure) {
	if m.opts.Caller == nil || f == nil || status.Of(f) == acl.ACL_ERROR_RT_STREAM_ABORT || !f.Raised.CompareAndSwap(false, true) {
		return
	}
	m.observers.Lock()
	var all [][]uint64
	if m.observers.Exceptions.Set != 0 {
		all = append(all, []uint64{m.observers.Exceptions.Set})
	}
	for _, fn := range m.observers.Exceptions.Registered {
		all = append(all, []uint64{fn})
	}
	m.observers.Unlock()
	x := &exception{device: uint32(s.Context.Device.ID), stream: uint32(s.ID), task: k.ID, thread: k.Thread, failure: f}
	if o := kernel.OrderOf(k); o != nil {
		x.fn, x.args = o.Func, k.Args
		b := o.Func.Bin
		b.Lock()
		if b.OnException.Func != 0 {
			all = append(all, []uint64{b.OnException.Func, b.OnException.Arg})
		}
		b.Unlock()
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
	t.sim.observers.Lock()
	t.sim.observers.Exceptions.Set = callback
	t.sim.observers.Unlock()
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
	t.sim.observers.Lock()
	defer t.sim.observers.Unlock()
	if r := &t.sim.observers.Exceptions.Registered; !slices.Contains(*r, callback) {
		*r = append(*r, callback)
	}
	return acl.ACL_SUCCESS
}

// ExceptionInfoCallbackUnregister ends ExceptionInfoCallbackRegister, if any.
func (t *Thread) ExceptionInfoCallbackUnregister(callback acl.Addr) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if callback == 0 {
		return t.null("callback")
	}
	t.sim.observers.Lock()
	defer t.sim.observers.Unlock()
	r := &t.sim.observers.Exceptions.Registered
	*r = slices.DeleteFunc(*r, func(fn uint64) bool { return fn == callback })
	return acl.ACL_SUCCESS
}

// BinarySetExceptionCallback sets the function that is called if a kernel in the binary fails; null for none.
func (t *Thread) BinarySetExceptionCallback(binHandle acl.BinHandle, callback_, userData acl.Addr) acl.Error {
	f, e := find(t, &t.sim.binaries, uint64(binHandle))
	if e != 0 {
		return e
	}
	if callback_ != 0 {
		if e := t.callable(callback_); e != 0 {
			return e
		}
	}
	f.Lock()
	f.OnException = callback.New(callback_, userData)
	f.Unlock()
	return acl.ACL_SUCCESS
}

// exceptionField returns a field of an exception; all ones for an invalid handle.
func (t *Thread) exceptionField(info acl.ExceptionInfo, field func(*exception) uint32) uint32 {
	x := t.sim.raised.Get(uint64(info))
	if x == nil {
		t.badHandle(space.KindException, uint64(info))
		return ^uint32(0)
	}
	return field(x)
}

// GetTaskIdFromExceptionInfo returns the failed task's id.
func (t *Thread) GetTaskIdFromExceptionInfo(info acl.ExceptionInfo) uint32 {
	return t.exceptionField(info, func(x *exception) uint32 { return x.task })
}

// GetStreamIdFromExceptionInfo returns the stream id.
func (t *Thread) GetStreamIdFromExceptionInfo(info acl.ExceptionInfo) uint32 {
	return t.exceptionField(info, func(x *exception) uint32 { return x.stream })
}

// GetThreadIdFromExceptionInfo returns the thread that submitted it.
func (t *Thread) GetThreadIdFromExceptionInfo(info acl.ExceptionInfo) uint32 {
	return t.exceptionField(info, func(x *exception) uint32 { return x.thread })
}

// GetDeviceIdFromExceptionInfo returns the device that it ran on.
func (t *Thread) GetDeviceIdFromExceptionInfo(info acl.ExceptionInfo) uint32 {
	return t.exceptionField(info, func(x *exception) uint32 { return x.device })
}

// GetErrorCodeFromExceptionInfo returns its error.
func (t *Thread) GetErrorCodeFromExceptionInfo(info acl.ExceptionInfo) uint32 {
	return t.exceptionField(info, func(x *exception) uint32 { return uint32(status.Of(x.failure)) })
}

// kernelException returns the exception of a kernel task.
func (t *Thread) kernelException(info acl.ExceptionInfo) (*exception, acl.Error) {
	x := t.sim.raised.Get(uint64(info))
	switch {
	case x == nil:
		return nil, t.badHandle(space.KindException, uint64(info))
	case x.fn == nil:
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "task %d is not a kernel", x.task)
	}
	return x, acl.ACL_SUCCESS
}

// GetArgsFromExceptionInfo returns the device memory of the failed kernel's arguments.
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
	return put(t, "func", func_, acl.FuncHandle(x.fn.Handle))
}
