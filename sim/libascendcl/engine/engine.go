package main

// #include "native.h"
// extern uint64_t aclsim_reserved_base, aclsim_reserved_size;
import "C"

import (
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	sim "github.com/acltrace/acltrace/sim/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/space"
)

var (
	// simulator is created when the library is opened, from the environment at that time.
	simulator = newSim()

	threadsMu sync.Mutex
	free      []uint64
	threads   atomic.Pointer[[]*sim.Thread] // the thread's number minus 1 is its index
)

func newSim() *sim.Sim {
	keepDescriptors()
	o := optionsFromEnv()
	o.Caller = caller{}
	o.Reserved = space.Span{Addr: uint64(C.aclsim_reserved_base), Size: uint64(C.aclsim_reserved_size)}
	if o.VABase == 0 {
		o.VABase = o.Reserved.Addr
	}
	s := sim.New(o)
	if o.Strict != nil {
		watchEnd()
	}
	return s
}

// aclsim_thread_begin creates the state of a thread and returns its number. The words hold the id of the last task
// (sim.Thread.ReportTasks), the delay (Late), whether calls take host time (Own), a wanted address (Wish), a reason for marks
// (Doubt), the thread's position (engine.h), and the number of its call in a replayed trace (Number).
//
//export aclsim_thread_begin
func aclsim_thread_begin(told *C.uint64_t, late *C.int64_t, own *C.int, wish *C.uint64_t, doubt *C.uint32_t, where *C.int, number *C.uint64_t) C.uint64_t {
	C.native_enter(where)
	threadsMu.Lock()
	defer threadsMu.Unlock()
	var all []*sim.Thread
	if p := threads.Load(); p != nil {
		all = *p
	}
	t := simulator.NewThread()
	t.SetID(uint64(C.pthread_self()))
	t.ReportTasks((*uint64)(told))
	t.Late((*int64)(late))
	t.Own((*int32)(own))
	t.Wish((*uint64)(wish))
	t.Doubt((*uint32)(doubt))
	t.Number((*uint64)(number))
	if n := len(free); n > 0 {
		id := free[n-1]
		free = free[:n-1]
		all[id-1] = t
		return C.uint64_t(id)
	}
	all = append(all[:len(all):len(all)], t)
	threads.Store(&all)
	return C.uint64_t(len(all))
}

// aclsim_thread_end ends the state of a thread.
//
//export aclsim_thread_end
func aclsim_thread_end(thread C.uint64_t) {
	threadsMu.Lock()
	defer threadsMu.Unlock()
	(*threads.Load())[thread-1].End()
	free = append(free, uint64(thread))
}

// aclsim_call calls a function by id, with its arguments as words.
//
//export aclsim_call
func aclsim_call(thread C.uint64_t, fn C.uint32_t, words *C.uint64_t) (result C.uint64_t) {
	t := (*threads.Load())[thread-1]
	f := acl.Model.Func(api.ID(fn))
	debug.SetPanicOnFault(true)
	defer func() {
		if r := recover(); r != nil {
			result = C.uint64_t(memoryFault(f, r))
		}
	}()
	r, ok := t.Call(f.ID, unsafe.Slice((*uint64)(words), f.Words))
	if !ok {
		return C.uint64_t(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
	}
	return C.uint64_t(r)
}

// aclsim_clock adds nanoseconds to a thread's time and returns it; thread 0 has made no call. See aclsim/clock.h.
//
//export aclsim_clock
func aclsim_clock(thread C.uint64_t, work C.int64_t) C.int64_t {
	var t *sim.Thread
	if thread != 0 {
		t = (*threads.Load())[thread-1]
		t.Work(time.Duration(work))
	}
	return C.int64_t(simulator.Now(t))
}

// aclsim_unknown reports whether bytes depend on unknown kernels or new memory; see aclsim/unknown.h.
//
//export aclsim_unknown
func aclsim_unknown(addr, size C.uint64_t, kernel *C.char, n C.uint64_t) C.int {
	name, ok := simulator.Unknown(uint64(addr), uint64(size))
	if !ok {
		return 0
	}
	name, crashed := strings.CutPrefix(name, device.CrashMark)
	if kernel != nil && n > 0 {
		b := unsafe.Slice((*byte)(unsafe.Pointer(kernel)), int(n))
		b[copy(b[:n-1], name)] = 0
	}
	switch {
	case crashed:
		return 4
	case name == "":
		return 2
	case name == device.RaceMark:
		return 3
	}
	if reason, ok := device.MarkReason(name); ok {
		return 0x100 | C.int(reason)
	}
	return 1
}

// aclsim_mark marks bytes; see aclsim/unknown.h.
//
//export aclsim_mark
func aclsim_mark(addr, size C.uint64_t, reason C.int) {
	simulator.Mark(uint64(addr), uint64(size), uint8(reason))
}

// memoryFault returns the result of a call with an unmapped address. Any other panic is a simulator defect and ends
// the program.
func memoryFault(f *api.Func, r any) uint64 {
	err := space.Fault(r)
	if err == nil {
		panic(r)
	}
	warn("%s: invalid pointer in an argument: %v", f.Name, err)
	if !f.RetError {
		return 0
	}
	return uint64(acl.ACL_ERROR_RT_PARAM_INVALID)
}
