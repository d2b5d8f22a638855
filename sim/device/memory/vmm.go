package memory

import (
	"fmt"
	"sync/atomic"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"golang.org/x/sys/unix"
)

const (
	// Granularity is the unit for physical memory and reservations.
	Granularity = 2 << 20
	Giant       = 1 << 30
)

// reservation is an address range for mappings. It costs no memory.
type reservation struct{ space.Span }

// Physical is memory without an address: a memory file that can be mapped at several addresses and keeps its bytes.
type Physical struct {
	Handle uint64
	Memory *Memory // memory that accounts for it
	Size   uint64
	Prop   [32]byte // properties given by the program
	FD     int
	Shared *Shared      // exported or imported; else nil
	Refs   atomic.Int32 // handles and mappings
	// Aliased is set once the memory has had two addresses at a time.
	Aliased  atomic.Bool
	mappings int
	Unknown  space.Marks[Mark] // marks of unknown bytes, by offset
	// Retained counts further references to the live handle.
	Retained atomic.Int32
}

func NewPhysical(m *Memory, size uint64) (*Physical, *fail.Failure) {
	fd, err := space.MemFile("aclsim-physical", int64(size))
	if err != nil {
		return nil, fail.New(fail.NoHostMemory, "the host has no memory for %d bytes of physical memory: %v", size, err)
	}
	m.Lock()
	f := m.takeLocked(size)
	m.Unlock()
	if f != nil {
		space.CloseKept(fd)
		return nil, f
	}
	p := &Physical{Memory: m, Size: size, FD: fd}
	p.Refs.Store(1)
	return p, nil
}

// Release drops a reference. The last one frees the memory. The caller holds the lock of its Memory.
func (p *Physical) Release() {
	if p.Refs.Add(-1) == 0 {
		space.CloseKept(p.FD)
		switch {
		case p.Shared == nil || p.Shared.Own:
			p.Memory.Used -= min(p.Size, p.Memory.Used)
		default: // counted by the exporting process
			p.Memory.shares.GiveBack(p.Shared)
		}
	}
}

// ReserveRange reserves addresses, the wanted ones if they are free and not 0.
func (m *Memory) ReserveRange(size, want uint64) (uint64, *fail.Failure) {
	return m.reserve(size, func(size uint64) (uint64, *fail.Failure) { return m.takeAddresses(size, want) })
}

// ReserveAt reserves the addresses from addr on, and fails if they are not free.
func (m *Memory) ReserveAt(size, addr uint64) (uint64, *fail.Failure) {
	return m.reserve(size, func(size uint64) (uint64, *fail.Failure) {
		arenas := space.Span{Addr: m.Base - uint64(m.ID)*ArenaStride}
		arenas.Size = m.afterArenas() - arenas.Addr
		if addr+size < addr || addr < arenas.End() && addr+size > arenas.Addr || !m.takeAt(addr, size) {
			return 0, fail.New(fail.OutOfMemory, "reserve %d bytes at %#x: the addresses are not free", size, addr)
		}
		return addr, nil
	})
}

// reserve makes a reservation at the addresses that take returns for its size.
func (m *Memory) reserve(size uint64, take func(size uint64) (uint64, *fail.Failure)) (uint64, *fail.Failure) {
	m.Lock()
	defer m.Unlock()
	size = space.RoundUp(size, Granularity)
	addr, f := take(size)
	if f == nil {
		if mutant.Breaks("reservation_costs_nothing") {
			m.Used += size
		}
		m.reservations[addr] = &reservation{space.Span{Addr: addr, Size: size}}
	}
	return addr, f
}

// afterArenas returns the first address after the arenas of all devices.
func (m *Memory) afterArenas() uint64 { return m.far.Addr - uint64(m.ID)*ReserveStride }

// takeAt takes addresses that the process does not use. The caller holds the lock.
func (m *Memory) takeAt(addr, size uint64) bool {
	if space.MapAt(addr, size, unix.PROT_NONE) != nil {
		return false
	}
	m.foreign.Insert(space.Region[struct{}]{Span: space.Span{Addr: addr, Size: size}})
	m.Has.foreign.Store(true)
	m.Taken.Insert(space.Region[struct{}]{Span: space.Span{Addr: addr, Size: size}})
	return true
}

// takeAddresses takes the wanted addresses if they lie after the arenas and are free, else addresses from the
// reservation range. It skips addresses that the process uses otherwise. The caller holds the lock.
func (m *Memory) takeAddresses(size, want uint64) (uint64, *fail.Failure) {
	if want%Granularity == 0 && want >= m.afterArenas() && m.takeAt(want, size) {
		return want, nil
	}
	from := m.farCursor
	for around := false; ; {
		addr := m.gapIn(from, m.far.End(), size, Granularity)
		switch {
		case addr != 0 && m.takeAt(addr, size):
			m.farCursor = addr + size
			return addr, nil
		case addr != 0:
			from = addr + Giant
		case around:
			return 0, fail.New(fail.NoHostMemory, "reserve %d bytes: no address range is left", size)
		default:
			from, around = m.far.Addr, true
		}
	}
}

// GiveBack unmaps reserved addresses. The caller holds the lock.
func (m *Memory) GiveBack(s space.Span) {
	space.Unmap(s.Addr, s.Size)
	m.foreign.Remove(s.Addr)
}

// ReleaseRange ends a reservation without mappings.
func (m *Memory) ReleaseRange(addr uint64) error {
	m.Lock()
	defer m.Unlock()
	r := m.reservations[addr]
	if r == nil {
		return fmt.Errorf("no reservation begins at %#x", addr)
	}
	if c := m.Live.At(addr); c.OK() && c.Get().Addr < r.End() && !mutant.Breaks("unmap_before_release") {
		return fmt.Errorf("memory is still mapped at %#x in the reservation at %#x", c.Get().Addr, addr)
	}
	delete(m.reservations, addr)
	m.Taken.Remove(addr)
	m.GiveBack(r.Span)
	return nil
}

// MapPhysical maps physical memory into a reservation.
func (m *Memory) MapPhysical(addr uint64, p *Physical, access uint32) error {
	m.Lock()
	defer m.Unlock()
	end := addr + p.Size
	t, ok := m.Taken.Find(addr)
	if !ok || m.reservations[t.Addr] == nil || end > t.End() {
		return fmt.Errorf("%s at %#x, not in one reservation", human.Plural(p.Size, "byte"), addr)
	}
	if c := m.Live.At(addr); c.OK() && c.Get().Addr < end {
		return fmt.Errorf("address %#x is mapped already", c.Get().Addr)
	}
	if _, err := unix.MmapPtr(p.FD, 0, space.Pointer(addr), uintptr(p.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		return err
	}
	p.Refs.Add(1)
	if mutant.Breaks("mapped_memory_works") {
		return nil
	}
	if p.mappings++; p.mappings > 1 {
		p.Aliased.Store(true)
	}
	m.Has.Mappings.Store(true)
	m.Live.Insert(space.Region[Block]{Span: space.Span{Addr: addr, Size: p.Size}, Value: Block{Origin: ByMap, Access: access, Physical: p}})
	return nil
}

// UnmapPhysical removes the mapping that begins at an address.
func (m *Memory) UnmapPhysical(addr uint64) error {
	m.Lock()
	defer m.Unlock()
	r, ok := m.Live.Find(addr)
	if !ok || r.Addr != addr || r.Value.Origin != ByMap {
		return fmt.Errorf("no mapping begins at %#x", addr)
	}
	m.Live.Remove(addr)
	m.unmapLocked(r)
	m.remember(r.Span)
	return nil
}

// unmapLocked makes a mapping's addresses inaccessible. The caller holds the lock.
func (m *Memory) unmapLocked(r space.Region[Block]) {
	if mutant.Breaks("remapped_memory_keeps_bytes") {
		clear(space.Bytes(r.Addr, r.Size))
	}
	r.Value.Physical.mappings--
	_, _ = unix.MmapPtr(-1, 0, space.Pointer(r.Addr), uintptr(r.Size), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	r.Value.Physical.Release()
}

// SetAccess changes the allowed accesses of mappings.
func (m *Memory) SetAccess(addr, size uint64, access uint32) error {
	m.Lock()
	defer m.Unlock()
	var hit []space.Region[Block]
	end := addr + size
	at := addr
	for c := m.Live.At(addr); at < end; c.Next() {
		if !c.OK() || c.Get().Addr != at || c.Get().Value.Origin != ByMap || c.Get().End() > end {
			return fmt.Errorf("%#x-%#x does not consist of whole mappings", addr, end)
		}
		hit = append(hit, c.Get())
		at = c.Get().End()
	}
	for _, r := range hit {
		if !mutant.Breaks("read_only_mapping") {
			r.Value.Access = access
		}
		m.Live.Replace(r.Addr, r.Value)
	}
	return nil
}
