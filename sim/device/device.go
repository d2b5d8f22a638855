package device

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/sim/device/memory"
	"github.com/acltrace/acltrace/sim/mutant"
)

// EnablePeerAccess gives the device access to another device's memory.
func (d *Device) EnablePeerAccess(other int32) {
	if other != d.ID && other >= 0 && other < MaxDevices {
		d.Peers.Or(1 << other)
	}
}

// Device is one emulated device. It is open while it has contexts or references.
type Device struct {
	Machine *Machine
	ID      int32
	Memory  memory.Memory
	Tasks   atomic.Uint32 // task ids assigned so far
	Peers   atomic.Uint32 // bit set: devices whose memory this one may access

	Busy atomic.Int64 // total kernel time, in nanoseconds

	shared *Turns // for real time

	sync.Mutex
	Refs     int      // open references to the primary context
	Primary  *Context // nil if there is none
	Contexts []*Context
	Streams  []*Stream // by id; nil for free ids
}

// MaxStreams is the largest number of streams on a device, default streams included.
const MaxStreams = 1984

func newNPU(s *Machine, id int32) *Device {
	d := &Device{Machine: s, ID: id, shared: NewTurns(s.Model)}
	d.Memory.Init(id, &s.Shares, s.Options.VABase+uint64(id)*memory.ArenaStride, s.Options.VABase+uint64(s.Options.Devices)*memory.ArenaStride+uint64(id)*memory.ReserveStride, s.Options.Memory, s.Options.Reserved)
	d.Memory.Gone = s.Unknowns.gone
	return d
}

// Check returns an error unless the device may access n bytes at an address: its own memory, memory of a peer with
// access, or mapped host memory.
func (d *Device) Check(addr, n uint64, access uint32) error {
	if d.Memory.Owns(addr) {
		if d.Memory.Has.Shared.Load() {
			if err := d.checkShared(addr, n); err != nil {
				return err
			}
		}
		return d.Memory.Check(addr, n, access)
	}
	for _, o := range d.Machine.Devices {
		if o != d && o.Memory.Owns(addr) {
			if d.Peers.Load()&(1<<o.ID) == 0 && !mutant.Breaks("peer_access_first") {
				return fmt.Errorf("%s at %#x, on device %d, to which device %d has no access", human.Plural(n, "byte"), addr, o.ID, d.ID)
			}
			return o.Memory.Check(addr, n, access)
		}
	}
	if d.Machine.Managed.Owns(addr) {
		return d.Machine.Managed.Check(addr, n)
	}
	return d.Machine.Host.Check(addr, n, access)
}

// checkShared returns an error unless the device may access imported memory, which may be on another device.
func (d *Device) checkShared(addr, n uint64) error {
	r, ok := d.Memory.Live.Find(addr)
	if ok && r.Value.Shared != nil && r.Value.Shared.DeviceID != d.ID && d.Peers.Load()&(1<<uint(r.Value.Shared.DeviceID)) == 0 {
		return fmt.Errorf("%s at %#x of process %d, on device %d, to which device %d has no access", human.Plural(n, "byte"), addr, r.Value.Shared.Pid, r.Value.Shared.DeviceID, d.ID)
	}
	return nil
}
