package sim

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acltrace/acltrace/sim/device"

	"github.com/acltrace/acltrace/api/acl"
)

// device is one simulated NPU. It is open while the program holds references by SetDevice or contexts of its own on it.
type npu struct {
	sim     *Sim
	id      int32
	mem     memory
	limits  sync.Map      // acl.DeviceLimit → uint64
	tasks   atomic.Uint32 // ids given to tasks so far
	lost    atomic.Bool   // by a fault
	satMode atomic.Int32
	peers   atomic.Uint32 // devices whose memory it may access, a bit each

	busy atomic.Int64 // device time of all kernels so far

	shared *device.Turns // in real time

	mu       sync.Mutex
	usage    usage
	syncAddr uint64 // of GetHardwareSyncAddr; syncEnds says which memory of the device it lies in
	syncEnds uint32
	cores    coreLimit
	refs     int      // by SetDevice
	primary  *context // of SetDevice
	contexts []*context
	streams  []*stream // by id; nil where an id is free
}

// maxStreams is the number of streams of a device, those of the contexts included.
const maxStreams = 1984

func newNPU(s *Sim, id int32) *npu {
	d := &npu{sim: s, id: id, shared: device.NewTurns(s.model)}
	d.mem.ended = s.shares.ending
	d.mem.init(s.opts.VABase+uint64(id)*vaStride, s.opts.VABase+uint64(s.opts.Devices)*vaStride+uint64(id)*reserveStride, s.opts.Memory, s.opts.Reserved)
	return d
}

// check tells whether the device may access n bytes at an address: memory of its own, of a peer that it has access to, or of
// the host where it was registered for devices.
func (d *npu) check(addr, n uint64, access uint32) error {
	if d.mem.owns(addr) {
		if d.mem.hasShared.Load() {
			if err := d.checkShared(addr, n); err != nil {
				return err
			}
		}
		return d.mem.check(addr, n, access)
	}
	for _, o := range d.sim.devices {
		if o != d && o.mem.owns(addr) {
			if d.peers.Load()&(1<<o.id) == 0 && !broken("peer_access_first") {
				return fmt.Errorf("%d bytes at %#x lie on device %d, to which device %d has no access", n, addr, o.id, d.id)
			}
			return o.mem.check(addr, n, access)
		}
	}
	if d.sim.managed.owns(addr) {
		if !d.sim.managed.check(addr, n) {
			return fmt.Errorf("%d bytes at %#x do not lie in one allocation of managed memory", n, addr)
		}
		return nil
	}
	return d.sim.host.Check(addr, n, access)
}

// checkShared tells whether the device may access memory of another process, which may lie on another device.
func (d *npu) checkShared(addr, n uint64) error {
	r, ok := d.mem.live.Find(addr)
	if ok && r.V.shared != nil && r.V.shared.device != d.id && d.peers.Load()&(1<<uint(r.V.shared.device)) == 0 {
		return fmt.Errorf("%d bytes at %#x are of process %d and lie on device %d, to which device %d has no access", n, addr, r.V.shared.pid, r.V.shared.device, d.id)
	}
	return nil
}

// device returns the device with an id.
func (t *Thread) device(id int32) (*npu, acl.Error) {
	if id < 0 || int(id) >= len(t.sim.devices) {
		return nil, t.fail(acl.ACL_ERROR_RT_INVALID_DEVICEID, "device %d: there are %d devices", id, len(t.sim.devices))
	}
	return t.sim.devices[id], acl.ACL_SUCCESS
}

// knownDevice returns the device with an id to a thread that need not have a context.
func (t *Thread) knownDevice(id int32) (*npu, acl.Error) {
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
	var made *context
	d.mu.Lock()
	if d.primary == nil || broken("threads_share_default_context") {
		c, f := d.newContext()
		if f != nil {
			d.mu.Unlock()
			return t.failWith(f)
		}
		d.primary, made = c, c
	}
	d.refs++
	t.current = d.primary
	d.mu.Unlock()
	if made != nil {
		t.sim.tellStream(made.def, acl.ACL_RT_STREAM_STATE_CREATE_POST)
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
	d.mu.Lock()
	if d.refs == 0 {
		d.mu.Unlock()
		return t.fail(acl.ACL_ERROR_RT_CONTEXT_NULL, "device %d is not set", deviceId)
	}
	if d.refs--; d.refs > 0 && !force {
		d.mu.Unlock()
		return acl.ACL_SUCCESS
	}
	c := d.primary
	d.refs, d.primary = 0, nil
	d.mu.Unlock()
	t.sim.strict.Resets(&t.strict)
	c.destroy(force)
	return acl.ACL_SUCCESS
}

// shutdown ends all contexts of the device.
func (d *npu) shutdown(force bool) {
	d.mu.Lock()
	contexts := slices.Clone(d.contexts)
	d.refs, d.primary = 0, nil
	d.mu.Unlock()
	for _, c := range contexts {
		c.destroy(force)
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
	*deviceId = c.dev.id
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
	*count = uint32(len(t.sim.devices))
	return acl.ACL_SUCCESS
}

// SynchronizeDevice waits for all streams of the current context.
func (t *Thread) SynchronizeDevice() acl.Error { return t.syncDevice(forever) }

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
		s *stream
		p progress
	}
	var marks []mark
	c.mu.Lock()
	for _, s := range c.streams {
		if s.flags&notSynchronized == 0 {
			marks = append(marks, mark{s, s.progress()})
		}
	}
	c.mu.Unlock()
	var deadline time.Time
	if limit != forever {
		deadline = time.Now().Add(limit)
	}
	first, since := acl.Error(acl.ACL_SUCCESS), t.host
	for _, m := range marks {
		left := limit
		if limit != forever {
			left = max(0, time.Until(deadline))
		}
		if e := t.finish(m.s, m.p, left); e == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT {
			return e
		} else if first == 0 {
			first = e
		}
	}
	t.sim.waited(t, since)
	return first
}
