package acl

import (
	"sync"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/mutant"
)

// StreamAbort discards the work of a stream and ends what runs.
func (t *Thread) StreamAbort(on acl.Stream) acl.Error {
	if on == 0 {
		if _, e := t.context(); e != 0 {
			return e
		}
		return t.absent("stream")
	}
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	switch {
	case s.Flags&acl.ACL_STREAM_DEVICE_USE_ONLY != 0:
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream %d is for the device's use only: it can't be aborted", s.ID)
	case attached(s).capture.Load() != nil:
		return t.fail(acl.ACL_ERROR_RT_STREAM_CAPTURED, "stream %d is being captured", s.ID)
	}
	if mutant.Breaks("other_streams_go_on") {
		return t.DeviceTaskAbort(s.Context.Device.ID, 0)
	}
	s.Abort()
	return acl.ACL_SUCCESS
}

// StreamStop ends what runs on a stream that is for the device's use only. Nothing of the host's ever runs there.
func (t *Thread) StreamStop(on acl.Stream) acl.Error {
	if on == 0 && !mutant.Breaks("stop_is_for_the_device") {
		if _, e := t.context(); e != 0 {
			return e
		}
		return t.absent("stream")
	}
	s, e := t.stream(on)
	if e != 0 {
		return e
	}
	if s.Flags&acl.ACL_STREAM_DEVICE_USE_ONLY == 0 {
		return t.fail(acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "stream %d was made without ACL_STREAM_DEVICE_USE_ONLY", s.ID)
	}
	return acl.ACL_SUCCESS
}

// DeviceTaskAbort discards the work of all streams of a device, and waits for that so many milliseconds at most; 0 is for ever.
func (t *Thread) DeviceTaskAbort(deviceId int32, timeout uint32) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	d, e := t.device(deviceId)
	if e != 0 {
		return e
	}
	t.sim.tell(&t.sim.observers.onAbort, uint64(d.ID), uint64(acl.ACL_RT_DEVICE_TASK_ABORT_PRE), uint64(timeout))
	defer t.sim.tell(&t.sim.observers.onAbort, uint64(d.ID), uint64(acl.ACL_RT_DEVICE_TASK_ABORT_POST), uint64(timeout))
	var all sync.WaitGroup
	d.Mu.Lock()
	for _, s := range d.Streams {
		if s != nil && attached(s).capture.Load() == nil {
			all.Go(s.Abort)
		}
	}
	d.Mu.Unlock()
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	expired, stop := device.After(time.Duration(timeout) * time.Millisecond)
	defer stop()
	select {
	case <-done:
		return acl.ACL_SUCCESS
	case <-expired:
		return t.fail(acl.ACL_ERROR_RT_WAIT_TIMEOUT, "the work of device %d has not ended within %d ms", d.ID, timeout)
	}
}
