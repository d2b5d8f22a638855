package sim

import (
	"fmt"
	"sync/atomic"

	"github.com/acltrace/acltrace/sim/device"

	"github.com/acltrace/acltrace/api/acl"
	"golang.org/x/sys/unix"
)

const (
	// granularity is the unit of physical memory and of reservations.
	granularity = 2 << 20
	giant       = 1 << 30
)

// reservation is a range of a device's addresses that the program maps physical memory into. It costs nothing.
type reservation struct{ device.Span }

// physical is memory without an address: a file in memory, which may be mapped at several places and keeps its bytes between
// them.
type physical struct {
	handle uint64
	dev    *npu
	size   uint64
	prop   [32]byte // as the program gave it
	fd     int
	shared *shared      // with other processes, or imported from one
	refs   atomic.Int32 // of handles, and one for each mapping
	// stain is the kernel that no library knows and that may have written the memory, nil for none.
	stain atomic.Pointer[string]
	// retained counts the references of aclrtMemRetainAllocationHandle that the live handle has besides its first.
	retained atomic.Int32
}

func newPhysical(d *npu, size uint64) (*physical, *failure) {
	if f := d.sim.outOfMemory(); f != nil {
		return nil, f
	}
	fd, err := device.MemFile("aclsim-physical", int64(size))
	if err != nil {
		return nil, failed(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, "the host can't back %d bytes of physical memory: %v", size, err)
	}
	d.mem.mu.Lock()
	f := d.mem.takeLocked(size)
	d.mem.mu.Unlock()
	if f != nil {
		device.CloseKept(fd)
		return nil, f
	}
	p := &physical{dev: d, size: size, fd: fd}
	p.refs.Store(1)
	return p, nil
}

// release drops a reference. The memory goes with the last one. The caller holds the lock of the device's memory.
func (p *physical) release() {
	if p.refs.Add(-1) == 0 {
		device.CloseKept(p.fd)
		switch {
		case p.shared == nil || p.shared.own:
			p.dev.mem.used -= min(p.size, p.dev.mem.used)
		default: // counted where it was allocated
			p.dev.sim.shares.giveBack(p.shared)
		}
	}
}

// reserveRange takes addresses for a reservation, the wanted ones if that is not 0 and they are free.
func (m *memory) reserveRange(size, want uint64) (uint64, *failure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	size = device.RoundUp(size, granularity)
	addr, f := m.takeAddresses(size, want)
	if f == nil {
		if broken("reservation_costs_nothing") {
			m.used += size
		}
		m.reservations[addr] = &reservation{device.Span{Addr: addr, Size: size}}
	}
	return addr, f
}

// takeAddresses takes addresses from those of reservations, the wanted ones if that is not 0 and they are free. Those that
// something else in the process lies at are passed over. The caller holds the lock.
func (m *memory) takeAddresses(size, want uint64) (uint64, *failure) {
	from := m.farCursor
	if want%granularity == 0 && want >= m.far.Addr && want < m.far.End() {
		from = want
	}
	for around := false; ; {
		addr := m.gapIn(from, m.far.End(), size, granularity)
		switch {
		case addr != 0 && device.MapAt(addr, size, unix.PROT_NONE) == nil:
			m.farCursor = addr + size
			m.foreign.Insert(device.Region[struct{}]{Span: device.Span{Addr: addr, Size: size}})
			m.hasForeign.Store(true)
			m.taken.Insert(device.Region[struct{}]{Span: device.Span{Addr: addr, Size: size}})
			return addr, nil
		case addr != 0:
			from = addr + giant
		case around:
			return 0, failed(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, "no room for %d bytes of addresses", size)
		default:
			from, around = m.far.Addr, true
		}
	}
}

// giveBack unmaps the addresses of a reservation. The caller holds the lock.
func (m *memory) giveBack(s device.Span) {
	device.Unmap(s.Addr, s.Size)
	m.foreign.Remove(s.Addr)
}

// releaseRange ends a reservation where nothing is mapped.
func (m *memory) releaseRange(addr uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.reservations[addr]
	if r == nil {
		return fmt.Errorf("no reservation begins at %#x", addr)
	}
	if c := m.live.At(addr); c.OK() && c.Get().Addr < r.End() && !broken("unmap_before_release") {
		return fmt.Errorf("memory is still mapped at %#x in the reservation at %#x", c.Get().Addr, addr)
	}
	delete(m.reservations, addr)
	m.taken.Remove(addr)
	m.giveBack(r.Span)
	return nil
}

// mapPhysical maps physical memory into a reservation.
func (m *memory) mapPhysical(addr uint64, p *physical, access uint32) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	end := addr + p.size
	t, ok := m.taken.Find(addr)
	if !ok || m.reservations[t.Addr] == nil || end > t.End() {
		return fmt.Errorf("%d bytes at %#x do not lie in one reservation", p.size, addr)
	}
	if c := m.live.At(addr); c.OK() && c.Get().Addr < end {
		return fmt.Errorf("memory is mapped at %#x already", c.Get().Addr)
	}
	if _, err := unix.MmapPtr(p.fd, 0, device.Pointer(addr), uintptr(p.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		return err
	}
	p.refs.Add(1)
	if broken("mapped_memory_works") {
		return nil
	}
	m.live.Insert(device.Region[block]{Span: device.Span{Addr: addr, Size: p.size}, V: block{how: byMap, access: access, phys: p}})
	return nil
}

// unmapPhysical ends the mapping that begins at an address.
func (m *memory) unmapPhysical(addr uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.live.Find(addr)
	if !ok || r.Addr != addr || r.V.how != byMap {
		return fmt.Errorf("no mapping begins at %#x", addr)
	}
	m.live.Remove(addr)
	m.unmapLocked(r)
	m.remember(r.Span)
	return nil
}

// unmapLocked empties the addresses where physical memory was mapped. The caller holds the lock.
func (m *memory) unmapLocked(r device.Region[block]) {
	if broken("remapped_memory_keeps_bytes") {
		clear(device.Bytes(r.Addr, r.Size))
	}
	_, _ = unix.MmapPtr(-1, 0, device.Pointer(r.Addr), uintptr(r.Size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	r.V.phys.release()
}

// setAccess changes what may be done with the mappings of a range.
func (m *memory) setAccess(addr, size uint64, access uint32) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var hit []device.Region[block]
	end := addr + size
	at := addr
	for c := m.live.At(addr); at < end; c.Next() {
		if !c.OK() || c.Get().Addr != at || c.Get().V.how != byMap || c.Get().End() > end {
			return fmt.Errorf("%#x-%#x is no row of whole mappings", addr, end)
		}
		hit = append(hit, c.Get())
		at = c.Get().End()
	}
	for _, r := range hit {
		if !broken("read_only_mapping") {
			r.V.access = access
		}
		m.live.Replace(r.Addr, r.V)
	}
	return nil
}
