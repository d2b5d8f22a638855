package acl

import (
	"slices"
	"time"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/mutant"
)

// device returns the device with an id.
func (t *Thread) device(id int32) (*device.Device, acl.Error) {
	if id < 0 || int(id) >= len(t.sim.Devices) {
		return nil, t.fail(acl.ACL_ERROR_RT_INVALID_DEVICEID, "device %d: there are %d devices", id, len(t.sim.Devices))
	}
	return t.sim.Devices[id], acl.ACL_SUCCESS
}

// knownDevice returns the device with an id to a thread that need not have a context.
func (t *Thread) knownDevice(id int32) (*device.Device, acl.Error) {
	if e := t.ready(); e != 0 {
		return nil, e
	}
	return t.device(id)
}

// SetDevice opens a device for the thread and makes its primary context current.
func (t *Thread) SetDevice(deviceId int32) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	d, e := t.device(deviceId)
	if e != 0 {
		return e
	}
	t.sim.tellDevice(d, acl.ACL_RT_DEVICE_STATE_SET_PRE)
	var made *device.Context
	d.Mu.Lock()
	if d.Primary == nil || mutant.Breaks("threads_share_default_context") {
		c, f := t.sim.newContext(d)
		if f != nil {
			d.Mu.Unlock()
			return t.failWith(f)
		}
		d.Primary, made = c, c
	}
	d.Refs++
	t.current = d.Primary
	d.Mu.Unlock()
	if made != nil {
		t.sim.tellStream(made.Def, acl.ACL_RT_STREAM_STATE_CREATE_POST)
	}
	t.sim.tellDevice(d, acl.ACL_RT_DEVICE_STATE_SET_POST)
	return acl.ACL_SUCCESS
}

// ResetDevice drops one reference of SetDevice. The last one waits for the work of the primary context and ends it; the
// memory of the device goes with its last context.
func (t *Thread) ResetDevice(deviceId int32) acl.Error { return t.reset(deviceId, false) }

// ResetDeviceForce drops all references of SetDevice and discards work that has not begun.
func (t *Thread) ResetDeviceForce(deviceId int32) acl.Error { return t.reset(deviceId, true) }

func (t *Thread) reset(deviceId int32, force bool) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	d, e := t.device(deviceId)
	if e != 0 {
		return e
	}
	t.sim.tellDevice(d, acl.ACL_RT_DEVICE_STATE_RESET_PRE)
	defer t.sim.tellDevice(d, acl.ACL_RT_DEVICE_STATE_RESET_POST)
	d.Mu.Lock()
	if d.Refs == 0 {
		d.Mu.Unlock()
		return t.fail(acl.ACL_ERROR_RT_CONTEXT_NULL, "device %d is not set", deviceId)
	}
	if d.Refs--; d.Refs > 0 && !force {
		d.Mu.Unlock()
		return acl.ACL_SUCCESS
	}
	c := d.Primary
	d.Refs, d.Primary = 0, nil
	d.Mu.Unlock()
	t.sim.Strict.Resets(&t.Strict)
	t.sim.destroy(c, force)
	return acl.ACL_SUCCESS
}

// shutdown ends all contexts of the device.
func (m *Sim) shutdown(d *device.Device, force bool) {
	d.Mu.Lock()
	contexts := slices.Clone(d.Contexts)
	d.Refs, d.Primary = 0, nil
	d.Mu.Unlock()
	for _, c := range contexts {
		m.destroy(c, force)
	}
}

// GetDevice returns the device of the thread's current context.
func (t *Thread) GetDevice(deviceId *int32) acl.Error {
	if deviceId == nil {
		return t.null("deviceId")
	}
	c, e := t.context()
	if e != 0 {
		return e
	}
	*deviceId = c.Device.ID
	return acl.ACL_SUCCESS
}

// GetDeviceCount returns the number of devices.
func (t *Thread) GetDeviceCount(count *uint32) acl.Error {
	if e := t.ready(); e != 0 {
		return e
	}
	if count == nil {
		return t.null("count")
	}
	*count = uint32(len(t.sim.Devices))
	return acl.ACL_SUCCESS
}

// SynchronizeDevice waits for all streams of the current context.
func (t *Thread) SynchronizeDevice() acl.Error { return t.syncDevice(device.Forever) }

// SynchronizeDeviceWithTimeout waits for all streams of the current context, for so many milliseconds at most.
func (t *Thread) SynchronizeDeviceWithTimeout(timeout int32) acl.Error {
	d, e := t.timeout(timeout)
	if e != 0 {
		return e
	}
	return t.syncDevice(d)
}

func (t *Thread) syncDevice(limit time.Duration) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if e := t.unsafe(); e != 0 {
		return e
	}
	type mark struct {
		s *device.Stream
		p device.Progress
	}
	var marks []mark
	c.Mu.Lock()
	for _, s := range c.Streams {
		if s.Flags&notSynchronized == 0 {
			marks = append(marks, mark{s, s.Progress()})
		}
	}
	c.Mu.Unlock()
	var deadline time.Time
	if limit != device.Forever {
		deadline = time.Now().Add(limit)
	}
	first, since := acl.Error(acl.ACL_SUCCESS), t.Time
	for _, m := range marks {
		left := limit
		if limit != device.Forever {
			left = max(0, time.Until(deadline))
		}
		if e := t.finish(m.s, m.p, left); e == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT {
			return e
		} else if first == 0 {
			first = e
		}
	}
	t.sim.Waited(&t.HostThread, since)
	return first
}
