package sim

import (
	"fmt"
	"sync/atomic"

	"github.com/acltrace/acltrace/api/acl"
	"golang.org/x/sys/unix"
)

const (
	// granularity is the unit of physical memory and of reservations.
	granularity = 2 << 20
	giant       = 1 << 30
)

// reservation is a range of a device's addresses that the program maps physical memory into. It costs nothing.
type reservation struct{ span }

// physical is memory without an address: a file in memory, which may be mapped at several places and keeps its bytes between
// them.
type physical struct {
	handle uint64
	dev    *device
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

func newPhysical(d *device, size uint64) (*physical, *failure) {
	if f := d.sim.outOfMemory(); f != nil {
		return nil, f
	}
	fd, err := memfd("aclsim-physical", int64(size))
	if err != nil {
		return nil, failed(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, "the host can't back %d bytes of physical memory: %v", size, err)
	}
	d.mem.mu.Lock()
	f := d.mem.takeLocked(size)
	d.mem.mu.Unlock()
	if f != nil {
		closeKept(fd)
		return nil, f
	}
	p := &physical{dev: d, size: size, fd: fd}
	p.refs.Store(1)
	return p, nil
}

// release drops a reference. The memory goes with the last one. The caller holds the lock of the device's memory.
func (p *physical) release() {
	if p.refs.Add(-1) == 0 {
		closeKept(p.fd)
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
	size = roundUp(size, granularity)
	addr, f := m.takeAddresses(size, want)
	if f == nil {
		if broken("reservation_costs_nothing") {
			m.used += size
		}
		m.reservations[addr] = &reservation{span{addr, size}}
	}
	return addr, f
}

// takeAddresses takes addresses from those of reservations, the wanted ones if that is not 0 and they are free. Those that
// something else in the process lies at are passed over. The caller holds the lock.
func (m *memory) takeAddresses(size, want uint64) (uint64, *failure) {
	from := m.farCursor
	if want%granularity == 0 && want >= m.far.addr && want < m.far.end() {
		from = want
	}
	for around := false; ; {
		addr := m.gapIn(from, m.far.end(), size, granularity)
		switch {
		case addr != 0 && mapAt(addr, size, unix.PROT_NONE) == nil:
			m.farCursor = addr + size
			m.foreign.insert(region[struct{}]{span: span{addr, size}})
			m.hasForeign.Store(true)
			m.taken.insert(region[struct{}]{span: span{addr, size}})
			return addr, nil
		case addr != 0:
			from = addr + giant
		case around:
			return 0, failed(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, "no room for %d bytes of addresses", size)
		default:
			from, around = m.far.addr, true
		}
	}
}

// giveBack unmaps the addresses of a reservation. The caller holds the lock.
func (m *memory) giveBack(s span) {
	unmap(s.addr, s.size)
	m.foreign.remove(s.addr)
}

// releaseRange ends a reservation where nothing is mapped.
func (m *memory) releaseRange(addr uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.reservations[addr]
	if r == nil {
		return fmt.Errorf("no reservation begins at %#x", addr)
	}
	if c := m.live.at(addr); c.ok() && c.get().addr < r.end() && !broken("unmap_before_release") {
		return fmt.Errorf("memory is still mapped at %#x in the reservation at %#x", c.get().addr, addr)
	}
	delete(m.reservations, addr)
	m.taken.remove(addr)
	m.giveBack(r.span)
	return nil
}

// mapPhysical maps physical memory into a reservation.
func (m *memory) mapPhysical(addr uint64, p *physical, access uint32) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	end := addr + p.size
	t, ok := m.taken.find(addr)
	if !ok || m.reservations[t.addr] == nil || end > t.end() {
		return fmt.Errorf("%d bytes at %#x do not lie in one reservation", p.size, addr)
	}
	if c := m.live.at(addr); c.ok() && c.get().addr < end {
		return fmt.Errorf("memory is mapped at %#x already", c.get().addr)
	}
	if _, err := unix.MmapPtr(p.fd, 0, pointer(addr), uintptr(p.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		return err
	}
	p.refs.Add(1)
	if broken("mapped_memory_works") {
		return nil
	}
	m.live.insert(region[block]{span{addr, p.size}, block{how: byMap, access: access, phys: p}})
	return nil
}

// unmapPhysical ends the mapping that begins at an address.
func (m *memory) unmapPhysical(addr uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.live.find(addr)
	if !ok || r.addr != addr || r.v.how != byMap {
		return fmt.Errorf("no mapping begins at %#x", addr)
	}
	m.live.remove(addr)
	m.unmapLocked(r)
	m.remember(r.span)
	return nil
}

// unmapLocked empties the addresses where physical memory was mapped. The caller holds the lock.
func (m *memory) unmapLocked(r region[block]) {
	if broken("remapped_memory_keeps_bytes") {
		clear(hostBytes(r.addr, r.size))
	}
	_, _ = unix.MmapPtr(-1, 0, pointer(r.addr), uintptr(r.size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	r.v.phys.release()
}

// setAccess changes what may be done with the mappings of a range.
func (m *memory) setAccess(addr, size uint64, access uint32) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var hit []region[block]
	end := addr + size
	at := addr
	for c := m.live.at(addr); at < end; c.next() {
		if !c.ok() || c.get().addr != at || c.get().v.how != byMap || c.get().end() > end {
			return fmt.Errorf("%#x-%#x is no row of whole mappings", addr, end)
		}
		hit = append(hit, c.get())
		at = c.get().end()
	}
	for _, r := range hit {
		if !broken("read_only_mapping") {
			r.v.access = access
		}
		m.live.replace(r.addr, r.v)
	}
	return nil
}
