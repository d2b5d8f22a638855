package acl

import (
	"testing"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/strict"
)

// strictEnv is a simulator in strict mode.
func strictEnv(t *testing.T, o Options) *env {
	o.Strict, o.Kernels = &Strict{}, testKernels()
	return newEnv(t, o)
}

// found wants one finding of each kind, in order.
func (e *env) found(kinds ...strict.FindingKind) {
	e.Helper()
	all := e.sim.Findings()
	ok := len(all) == len(kinds)
	for i := range all {
		ok = ok && all[i].Kind == kinds[i]
	}
	if !ok {
		for _, f := range all {
			e.Log(f.Text(0, false))
		}
		e.Fatalf("%d findings, want %v", len(all), kinds)
	}
}

// Findings do not depend on the actual order: the device may be far ahead of the host, or late.
func TestStrictInAnyOrder(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, c := range []struct {
			kind strict.FindingKind
			do   func(e *env, s, other acl.Stream, dev, pinned acl.Addr)
		}{
			{strict.MissingSync, func(e *env, s, _ acl.Stream, dev, pinned acl.Addr) {
				e.ok(e.th.MemsetAsync(dev, 64, 1, 64, s))
				e.pause(s, late)
				e.ok(e.th.Memcpy(pinned, 64, dev, 64, acl.ACL_MEMCPY_DEVICE_TO_HOST))
			}},
			{strict.StreamRace, func(e *env, s, other acl.Stream, dev, pinned acl.Addr) {
				e.ok(e.th.MemsetAsync(dev, 64, 1, 64, s))
				e.pause(s, late)
				e.ok(e.th.MemcpyAsync(dev+32, 32, pinned, 32, acl.ACL_MEMCPY_HOST_TO_DEVICE, other))
				e.pause(other, late)
			}},
			{strict.FreedInFlight, func(e *env, s, _ acl.Stream, dev, _ acl.Addr) {
				e.ok(e.th.MemsetAsync(dev, 64, 1, 64, s))
				e.pause(s, late)
				e.ok(e.th.Free(dev))
			}},
			{strict.HostBufferReused, func(e *env, s, _ acl.Stream, dev, pinned acl.Addr) {
				e.ok(e.th.MemcpyAsync(dev, 64, pinned, 64, acl.ACL_MEMCPY_HOST_TO_DEVICE, s))
				e.pause(s, late)
				space.Bytes(pinned, 64)[63] ^= 1
			}},
		} {
			e := strictEnv(t, Options{})
			s, other, dev, pinned := e.stream(), e.stream(), e.malloc(64), e.pinned(64)
			release := func() {}
			if late {
				release = e.hold(s)
			}
			c.do(e, s, other, dev, pinned)
			release()
			_ = e.th.SynchronizeDevice()
			e.found(c.kind)
		}
	}
}

// A buffer that a task writes during the copy call has not been changed by the host.
func TestStrictBufferUnderWay(t *testing.T) {
	const n = 32 << 20
	e := strictEnv(t, Options{})
	a, b, dev, to, pinned := e.stream(), e.stream(), e.malloc(n), e.malloc(n), e.pinned(n)
	e.ok(e.th.Memset(dev, n, 7, n))
	e.ok(e.th.MemcpyAsync(pinned, n, dev, n, acl.ACL_MEMCPY_DEVICE_TO_HOST, a))
	ev := e.event()
	e.ok(e.th.RecordEvent(ev, a))
	e.ok(e.th.StreamWaitEvent(b, ev))
	for first := space.Bytes(pinned, 1); first[0] == 0 && !*inVirtualTime; {
		time.Sleep(50 * time.Microsecond)
	}
	e.ok(e.th.MemcpyAsync(to, n, pinned, n, acl.ACL_MEMCPY_HOST_TO_DEVICE, b))
	e.ok(e.th.SynchronizeDevice())
	e.found()
}

// pause lets the device finish a stream's work without the host knowing, unless the stream is held.
func (e *env) pause(h acl.Stream, held bool) {
	s := e.sim.streams.Get(uint64(h))
	for !held && s.Done.Load() < s.SubmittedTasks() {
		time.Sleep(100 * time.Microsecond)
	}
}

// A held stream counts as done after the host has seen it done in any way.
func TestStrictKnowsOfOrder(t *testing.T) {
	for name, wait := range map[string]func(e *env, s, other acl.Stream){
		"stream": func(e *env, s, _ acl.Stream) { e.ok(e.th.SynchronizeStream(s)) },
		"device": func(e *env, _, _ acl.Stream) { e.ok(e.th.SynchronizeDevice()) },
		"query": func(e *env, s, _ acl.Stream) {
			for status := acl.StreamStatus(acl.ACL_STREAM_STATUS_NOT_READY); status != acl.ACL_STREAM_STATUS_COMPLETE; {
				e.ok(e.th.StreamQuery(s, &status))
			}
		},
		"event": func(e *env, s, _ acl.Stream) {
			ev := e.event()
			e.ok(e.th.RecordEvent(ev, s))
			e.ok(e.th.SynchronizeEvent(ev))
		},
		"event query": func(e *env, s, _ acl.Stream) {
			ev := e.event()
			e.ok(e.th.RecordEvent(ev, s))
			for status := acl.EventRecordedStatus(acl.ACL_EVENT_RECORDED_STATUS_NOT_READY); status != acl.ACL_EVENT_RECORDED_STATUS_COMPLETE; {
				e.ok(e.th.QueryEventStatus(ev, &status))
			}
		},
		"another stream": func(e *env, s, other acl.Stream) {
			ev := e.event()
			e.ok(e.th.RecordEvent(ev, s))
			e.ok(e.th.StreamWaitEvent(other, ev))
			e.ok(e.th.SynchronizeStream(other))
		},
		"notify": func(e *env, s, other acl.Stream) {
			var n acl.Notify
			e.ok(e.th.CreateNotify(&n, 0))
			e.ok(e.th.WaitAndResetNotify(n, other, 0))
			e.ok(e.th.RecordNotify(n, s))
			e.ok(e.th.SynchronizeStream(other))
		},
		"word": func(e *env, s, other acl.Stream) {
			w := e.malloc(8)
			e.ok(e.th.ValueWait(w, 5, acl.ACL_STREAM_WAIT_VALUE_EQ, other))
			e.ok(e.th.ValueWrite(w, 5, 0, s))
			e.ok(e.th.SynchronizeStream(other))
		},
		"end of the stream": func(e *env, s, _ acl.Stream) { e.ok(e.th.DestroyStream(s)) },
	} {
		t.Run(name, func(t *testing.T) {
			e := strictEnv(t, Options{})
			s, other, dev, host := e.stream(), e.stream(), e.malloc(64), e.pinned(64)
			e.ok(e.th.MemcpyAsync(dev, 64, host, 64, acl.ACL_MEMCPY_HOST_TO_DEVICE, s))
			wait(e, s, other)
			space.Bytes(host, 64)[0] = 7
			e.ok(e.th.Memcpy(host, 64, dev, 64, acl.ACL_MEMCPY_DEVICE_TO_HOST))
			e.ok(e.th.FreeHost(host))
			e.ok(e.th.MemsetAsync(dev, 64, 0, 64, other))
			e.ok(e.th.SynchronizeStream(other))
			e.ok(e.th.Free(dev))
			e.found()
		})
	}
}

// Accesses to different halves of a buffer do not race, nor do two readers.
func TestStrictRanges(t *testing.T) {
	e := strictEnv(t, Options{})
	a, b := e.stream(), e.stream()
	dev, to := e.malloc(256), e.malloc(256)
	e.ok(e.th.MemsetAsync(dev, 128, 1, 128, a))
	e.ok(e.th.MemsetAsync(dev+128, 128, 2, 128, b))
	e.ok(e.th.SynchronizeDevice())
	e.ok(e.th.MemcpyAsync(to, 128, dev, 128, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, a))
	e.ok(e.th.MemcpyAsync(to+128, 128, dev, 128, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, b))
	e.ok(e.th.SynchronizeDevice())
	e.found()
	e.ok(e.th.MemsetAsync(dev, 128, 1, 128, a))
	e.ok(e.th.MemsetAsync(dev+127, 8, 2, 8, b))
	e.ok(e.th.SynchronizeDevice())
	e.found(strict.StreamRace)
	if f := e.sim.Findings()[0]; f.Memory == nil || f.Memory.Call.Function != "aclrtMalloc" || f.Parts[0].Call.Function != "aclrtMemsetAsync" {
		t.Errorf("%+v", f)
	}
}

// A host function belongs to the host and runs in stream order.
func TestStrictHostFunctions(t *testing.T) {
	c := &calls{}
	e := strictEnv(t, Options{Caller: c})
	s, dev, host := e.stream(), e.malloc(64), e.pinned(64)
	e.ok(e.th.MemsetAsync(dev, 64, 1, 64, s))
	e.ok(e.th.LaunchHostFunc(s, c.fn(func(uint64) { space.Bytes(host, 64)[0]++ }), 0))
	e.ok(e.th.MemcpyAsync(dev, 64, host, 64, acl.ACL_MEMCPY_HOST_TO_DEVICE, s))
	e.ok(e.th.SynchronizeStream(s))
	e.found()
}

// Freed memory at the addresses of new memory is not the new memory.
func TestStrictFreedAndAllocatedAgain(t *testing.T) {
	e := strictEnv(t, Options{})
	s, dev := e.stream(), e.malloc(space.PageSize)
	host := e.pinned(space.PageSize)
	release := e.hold(s)
	e.ok(e.th.MemcpyAsync(host, space.PageSize, dev, space.PageSize, acl.ACL_MEMCPY_DEVICE_TO_HOST, s))
	e.ok(e.th.FreeHost(host))
	for range 100 { // the system gives out the addresses again at once, or never
		if e.pinned(space.PageSize) == host {
			break
		}
	}
	release()
	_ = e.th.SynchronizeStream(s)
	e.found(strict.FreedInFlight)
}
