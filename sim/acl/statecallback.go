package acl

import (
	"slices"
	"sync"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
)

// watcher is a function of the program's that is told of changes, under a name of its own.
type watcher struct {
	name    string
	fn, arg uint64
}

// watchers are told in the order in which they were registered.
type watchers []watcher

// observers are the functions of the program that the runtime calls at certain events.
type observers struct {
	mu                          sync.Mutex
	exceptions                  exceptionCallbacks
	onStream, onDevice, onAbort watchers
	onInit, onFinalize          []phaseCallback
	config                      config
}

// watch registers a function by a name, or ends what was registered by it where the function is null.
func (t *Thread) watch(list *watchers, regName *byte, fn, arg acl.Addr) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	name := space.GoString(regName)
	if name == "" {
		return t.null("regName")
	}
	t.sim.observers.mu.Lock()
	defer t.sim.observers.mu.Unlock()
	at := slices.IndexFunc(*list, func(w watcher) bool { return w.name == name })
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
	*list = append(slices.Clone(*list), watcher{name, fn, arg})
	return acl.ACL_SUCCESS
}

// tell calls all functions of a list, on this thread. The caller may hold no lock.
func (s *Sim) tell(list *watchers, args ...uint64) {
	s.observers.mu.Lock()
	all := *list
	s.observers.mu.Unlock()
	for _, w := range all {
		s.opts.Caller.Call(w.fn, slices.Concat(args, []uint64{w.arg})...)
	}
}

// RegStreamStateCallback has a function called behind the making of each stream and before its end.
func (t *Thread) RegStreamStateCallback(regName *byte, callback, args acl.Addr) acl.Error {
	return t.watch(&t.sim.observers.onStream, regName, callback, args)
}

// RegDeviceStateCallback has a function called before and behind each aclrtSetDevice and aclrtResetDevice.
func (t *Thread) RegDeviceStateCallback(regName *byte, callback, args acl.Addr) acl.Error {
	return t.watch(&t.sim.observers.onDevice, regName, callback, args)
}

// SetDeviceTaskAbortCallback has a function called before and behind each aclrtDeviceTaskAbort.
func (t *Thread) SetDeviceTaskAbortCallback(regName *byte, callback, args acl.Addr) acl.Error {
	return t.watch(&t.sim.observers.onAbort, regName, callback, args)
}

func (s *Sim) tellStream(st *device.Stream, state acl.StreamState) {
	if !st.Hidden {
		s.tell(&s.observers.onStream, st.Handle, uint64(state))
	}
}

func (s *Sim) tellDevice(d *device.Device, state acl.DeviceState) {
	s.tell(&s.observers.onDevice, uint64(d.ID), uint64(state))
}

// phaseCallback is a function that is called at aclInit or aclFinalize.
type phaseCallback struct {
	typ acl.RegisterCallbackType
	callback
}

func (t *Thread) addPhase(list *[]phaseCallback, typ acl.RegisterCallbackType, fn, arg acl.Addr) acl.Error {
	if e := t.callable(fn); e != 0 {
		return e
	}
	if (typ < acl.ACL_REG_TYPE_ACL_MODEL || typ > acl.ACL_REG_TYPE_ACL_RETR) && typ != acl.ACL_REG_TYPE_OTHER {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "registration type %d is unknown", typ)
	}
	t.sim.observers.mu.Lock()
	defer t.sim.observers.mu.Unlock()
	if slices.ContainsFunc(*list, func(c phaseCallback) bool { return c.typ == typ && c.fn == fn }) {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "the function is registered already")
	}
	*list = append(slices.Clone(*list), phaseCallback{typ, callbackOf(fn, arg)})
	return acl.ACL_SUCCESS
}

func (t *Thread) dropPhase(list *[]phaseCallback, typ acl.RegisterCallbackType, fn acl.Addr) acl.Error {
	t.sim.observers.mu.Lock()
	defer t.sim.observers.mu.Unlock()
	at := slices.IndexFunc(*list, func(c phaseCallback) bool { return c.typ == typ && c.fn == fn })
	if at < 0 {
		return t.fail(acl.ACL_ERROR_INVALID_PARAM, "the function is not registered")
	}
	*list = slices.Delete(slices.Clone(*list), at, at+1)
	return acl.ACL_SUCCESS
}

// config is the text of the configuration that aclInit was given, in memory that stays.
type config struct{ addr, size uint64 }

// tellInit calls the functions that wait for aclInit, and returns the first error.
func (t *Thread) tellInit(c config) acl.Error {
	t.sim.observers.mu.Lock()
	t.sim.observers.config = c
	all := t.sim.observers.onInit
	t.sim.observers.mu.Unlock()
	for _, p := range all {
		if e := t.callInit(p, c); e != 0 {
			return e
		}
	}
	return acl.ACL_SUCCESS
}

func (t *Thread) callInit(p phaseCallback, c config) acl.Error {
	if e := acl.Error(int32(t.sim.opts.Caller.Call(p.fn, c.addr, c.size, p.arg))); e != 0 {
		return t.fail(e, "a function that is registered for aclInit returned %d", e)
	}
	return acl.ACL_SUCCESS
}

func (t *Thread) tellFinalize() acl.Error {
	t.sim.observers.mu.Lock()
	all := t.sim.observers.onFinalize
	t.sim.observers.mu.Unlock()
	for _, p := range all {
		if e := acl.Error(int32(t.sim.opts.Caller.Call(p.fn, p.arg))); e != 0 {
			return t.fail(e, "a function that is registered for aclFinalize returned %d", e)
		}
	}
	return acl.ACL_SUCCESS
}

// InitCallbackRegister has a function called at aclInit, with the text of its configuration; at once where that was before.
func (t *Thread) InitCallbackRegister(type_ acl.RegisterCallbackType, cbFunc, userData acl.Addr) acl.Error {
	if e := t.addPhase(&t.sim.observers.onInit, type_, cbFunc, userData); e != 0 {
		return e
	}
	if t.sim.life.inits.Load() == 0 {
		return acl.ACL_SUCCESS
	}
	t.sim.observers.mu.Lock()
	c := t.sim.observers.config
	t.sim.observers.mu.Unlock()
	return t.callInit(phaseCallback{type_, callbackOf(cbFunc, userData)}, c)
}

// InitCallbackUnRegister ends what InitCallbackRegister began.
func (t *Thread) InitCallbackUnRegister(type_ acl.RegisterCallbackType, cbFunc acl.Addr) acl.Error {
	return t.dropPhase(&t.sim.observers.onInit, type_, cbFunc)
}

// FinalizeCallbackRegister has a function called at aclFinalize.
func (t *Thread) FinalizeCallbackRegister(type_ acl.RegisterCallbackType, cbFunc, userData acl.Addr) acl.Error {
	return t.addPhase(&t.sim.observers.onFinalize, type_, cbFunc, userData)
}

// FinalizeCallbackUnRegister ends what FinalizeCallbackRegister began.
func (t *Thread) FinalizeCallbackUnRegister(type_ acl.RegisterCallbackType, cbFunc acl.Addr) acl.Error {
	return t.dropPhase(&t.sim.observers.onFinalize, type_, cbFunc)
}
