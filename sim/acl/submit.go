package acl

import (
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/acl/fault"
	"github.com/acltrace/acltrace/sim/acl/graph"
	"github.com/acltrace/acltrace/sim/acl/kernel"
	"github.com/acltrace/acltrace/sim/acl/status"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/mutant"
)

// submit puts a task on a stream, or into the capture or model that records the stream.
func (t *Thread) submit(s *device.Stream, k device.Task) acl.Error {
	if t.sim.opts.Faults != nil {
		spoilt := k // a copy, so that k stays off the heap
		t.sim.spoil(s.Context.Device, &spoilt)
		k = spoilt
	}
	if c := t.sim.Strict; c != nil {
		k.Check = c.Submitted(&t.Strict, &s.Strict, k.Name)
	}
	if done, e := t.capture(s, k); done {
		return e
	}
	if done, e := t.build(s, k); done {
		return e
	}
	if done, e := t.updateTask(s, k); done {
		return e
	}
	t.sim.SpendCall(&t.HostThread, t.sim.Model.Host.Submit)
	k.Thread = t.tid
	id, f := s.Submit(&t.HostThread, k)
	if f != nil {
		k.End()
		return t.failWith(f)
	}
	t.made(id, s, nil)
	return acl.ACL_SUCCESS
}

// forbid returns an error, and invalidates the capture, if an active capture forbids an operation to the thread.
func (t *Thread) forbid(code acl.Error, what string) acl.Error {
	var f *fail.Failure
	for _, c := range t.sim.Captures.List() {
		own := c.Thread == &t.HostThread
		allowed := c.Mode == acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED ||
			c.Mode == acl.ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL && !own ||
			t.captureMode == acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED ||
			t.captureMode == acl.ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL && !own
		if !allowed {
			f = status.Failed(code, "%s is not allowed while stream %d is captured in this mode", what, c.Origin.ID)
			c.Spoil(f)
		}
	}
	return t.result(f)
}

// unsafe rejects a blocking operation that a capture forbids.
func (t *Thread) unsafe() acl.Error {
	return t.forbid(acl.ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "a blocking operation")
}

// unsafeAsync rejects an asynchronous copy that has to block.
func (t *Thread) unsafeAsync() acl.Error {
	return t.forbid(acl.ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, "a copy with pageable memory, which blocks,")
}

// notCaptured rejects a synchronization with a captured stream, and invalidates the capture.
func (t *Thread) notCaptured(s *device.Stream) acl.Error {
	c := attached(s).Capture.Load()
	if c == nil || mutant.Breaks("synchronizing_a_captured_stream") {
		return acl.ACL_SUCCESS
	}
	f := status.Failed(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured: the host can't wait for it", s.ID)
	c.Spoil(f)
	return t.failWith(f)
}

// capture records a task if its stream is being captured, and reports whether it is.
func (t *Thread) capture(s *device.Stream, k device.Task) (bool, acl.Error) {
	c := attached(s).Capture.Load()
	if c == nil || mutant.Breaks("captured_tasks_do_not_run") {
		if s == s.Context.Default {
			if e := t.forbid(acl.ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "a task on the default stream"); e != 0 {
				k.End()
				return true, e
			}
		}
		return false, acl.ACL_SUCCESS
	}
	x, f := c.Add(s, k, -1)
	if f != nil {
		k.End()
		return true, t.failWith(f)
	}
	t.made(s.Context.Device.Tasks.Add(1), s, x)
	return true, acl.ACL_SUCCESS
}

// build adds a task to the model that its stream is bound to, and reports whether there is one.
func (t *Thread) build(s *device.Stream, k device.Task) (bool, acl.Error) {
	b := attached(s).Bound.Load()
	if b == nil {
		return false, acl.ACL_SUCCESS
	}
	x := &graph.GraphTask{Task: k, Mark: -1}
	if f := b.Add(s, x); f != nil {
		k.End()
		return true, t.failWith(f)
	}
	t.made(s.Context.Device.Tasks.Add(1), s, x)
	return true, acl.ACL_SUCCESS
}

// updateTask keeps a task for the group that its stream updates, and reports whether there is one.
func (t *Thread) updateTask(s *device.Stream, k device.Task) (bool, acl.Error) {
	u := attached(s).Update.Load()
	if u == nil {
		return false, acl.ACL_SUCCESS
	}
	u.Group.Graph.Lock()
	defer u.Group.Graph.Unlock()
	n := len(u.Tasks)
	switch {
	case n == len(u.Group.Tasks):
		k.End()
		return true, t.fail(acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED, "the update has more tasks than the %d of the task group", n)
	case k.Kind != u.Group.Tasks[n].Kind:
		k.End()
		return true, t.fail(acl.ACL_ERROR_RT_MODEL_UPDATE_FAILED, "task %d of the task group is a %s, not a %s", n, u.Group.Tasks[n].Kind, k.Kind)
	}
	u.Tasks = append(u.Tasks, k)
	return true, acl.ACL_SUCCESS
}

// outOfMemory returns the planned failure of the next device allocation; nil for none.
func (s *Sim) outOfMemory() *fail.Failure {
	if x := s.opts.Faults.Hit(fault.OutOfMemory, ""); x != nil {
		return fail.New(fail.OutOfMemory, "injected fault: allocation %d is out of device memory", x.At)
	}
	return nil
}

// lost returns the failure of a lost device, nil for a device that works.
func (s *Sim) lost(d *device.Device) *fail.Failure {
	if !s.of(d).lost.Load() {
		return nil
	}
	return status.Failed(acl.ACL_ERROR_RT_LOST_HEARTBEAT, "injected fault: device %d was lost", d.ID)
}

// spoil applies a planned fault to a task.
func (s *Sim) spoil(d *device.Device, k *device.Task) {
	if s.opts.Faults == nil {
		return
	}
	if s.opts.Faults.Hit(fault.LostDevice, "") != nil {
		s.of(d).lost.Store(true)
	}
	if f := s.lost(d); f != nil {
		if !k.Always { // others wait for it
			k.Begin = nil
			k.Run = func(*device.Stream) (time.Duration, *fail.Failure) { return 0, f }
		}
		return
	}
	x := s.opts.Faults.Hit(string(k.Kind), k.Name)
	if x == nil {
		return
	}
	run := k.Run
	if !x.Corrupt {
		k.Begin = nil
	}
	switch {
	case x.Memory != "":
		o, args, own := kernel.OrderOf(k), k.Args, k.Own
		k.Run = func(s *device.Stream) (time.Duration, *fail.Failure) { return o.RunBadly(s, args, own, x) }
	case x.Corrupt:
		k.Run = func(s *device.Stream) (time.Duration, *fail.Failure) {
			cost, f := run(s)
			if f == nil {
				fault.Corrupt(k.Wrote)
			}
			return cost, f
		}
	default:
		k.Run = func(s *device.Stream) (time.Duration, *fail.Failure) {
			return 0, status.Failed(x.Code, "injected fault: %s %d %s on stream %d fails", k.Kind, x.At, k.Name, s.ID)
		}
	}
}
