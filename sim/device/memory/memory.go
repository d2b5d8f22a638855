package memory

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"golang.org/x/sys/unix"
)

const (
	// ArenaStride is the distance between two device arenas. It is much larger than device memory, so that freed
	// addresses are reused late.
	ArenaStride = 256 << 30
	// ReserveStride is the size of a device's reservation range, after all arenas. Programs reserve more than exists.
	ReserveStride = 2 << 40
	// Lead is the distance from the start of an address range to the first allocation. At the start, the lower halves of addresses would be small,
	// and pairs of small 32-bit numbers would equal addresses. On devices that is rare.
	Lead = 0x41200000
	// AllocUnit is the granularity for allocation sizes.
	AllocUnit = 32
	// AllocAlign aligns device allocations. The runtime promises 64 bytes; the hardware prefers 512.
	AllocAlign = 512
	// CommitStep is the granularity at which the arena becomes accessible.
	CommitStep = 2 << 20
	// argSpace is the arena's last part, which holds launch arguments.
	argSpace = 4 << 30
	// freedKept is how many freed allocations are remembered for error messages.
	freedKept = 1024
)

// Memory is a device's memory. Its arena is an address range that costs nothing until it is touched. The allocator
// passes through the whole arena before it reuses addresses, and depends only on call order. Lookups take no lock,
// and no lock is held while bytes move.
type Memory struct {
	ID        int32 // device id
	shares    *Shares
	Base, End uint64 // program's range; constant
	Limit     uint64
	held      bool // the caller has mapped the arena
	FD        int  // the arena's memory file, which other processes can map; -1 for none
	Args      argPool

	Live    space.Regions[Block]    // accessible memory
	Unknown space.Marks[Mark]       // marks of unknown bytes, apart from those of mapped physical memory
	Taken   space.Regions[struct{}] // allocations outside reservations, and reservations
	foreign space.Regions[struct{}] // mapped outside the arena for placed allocations

	sync.Mutex   // for all changes
	reserved     bool
	cursor       uint64
	far          space.Span // reservation range
	farCursor    uint64
	Used, Peak   uint64
	committed    uint64       // the arena is accessible up to here
	freed        []space.Span // most recently freed allocations, in order
	reservations map[uint64]*reservation

	// Has says which kinds of memory there have been: of other processes, mapped physical memory, placed outside the arena.
	Has struct{ Shared, Mappings, foreign atomic.Bool }
	// Ends counts how often all memory was freed. The runtime then recreates its own memory.
	Ends atomic.Uint32
	// Gone is called with memory that ends, under the lock; may be nil.
	Gone func(space.Span)
}

// Block describes live memory.
type Block struct {
	Origin
	Access   uint32    // allowed accesses: Read, Write
	Physical *Physical // of a mapping
	Owner    any       // data of the layer above
	Shared   *Shared   // of another process
}

// Origin is the function that created live memory. Only its counterpart frees it.
type Origin uint8

const (
	ByMalloc Origin = iota
	ByMap
	ByPool
	ByRuntime
	byImport
)

func (m *Memory) Init(id int32, x *Shares, base, far, limit uint64, held space.Span) {
	m.ID, m.shares = id, x
	m.far, m.farCursor = space.Span{Addr: far, Size: ReserveStride}, far+Lead
	m.Base, m.End, m.Limit = base, base+ArenaStride-argSpace, limit
	m.cursor, m.committed = m.Base+Lead, m.Base
	m.held = base >= held.Addr && base+ArenaStride <= held.Addr+held.Size
	m.Args.next, m.Args.committed, m.Args.end = m.End, m.End, base+ArenaStride
	m.reservations = map[uint64]*reservation{}
	m.FD = -1
}

// Reserve reserves the arena's addresses.
func (m *Memory) Reserve() error {
	m.Lock()
	defer m.Unlock()
	if m.reserved {
		return nil
	}
	if !m.held {
		if err := space.MapAt(m.Base, ArenaStride, unix.PROT_NONE); err != nil {
			return fmt.Errorf("reserve addresses %#x-%#x: %w", m.Base, m.Base+ArenaStride, err)
		}
	}
	_ = unix.Madvise(space.Bytes(m.Base, ArenaStride), unix.MADV_DONTDUMP)
	if err := m.OpenFile(); err != nil {
		return err
	}
	m.reserved = true
	return nil
}

// OpenFile creates the arena's memory file. Only touched pages cost memory.
func (m *Memory) OpenFile() error {
	fd, err := space.MemFile("aclsim-device", ArenaStride)
	if err != nil {
		return fmt.Errorf("create device memory: %w", err)
	}
	m.FD = fd
	return nil
}

func (m *Memory) Close() {
	m.Lock()
	defer m.Unlock()
	if m.FD >= 0 {
		space.CloseKept(m.FD)
		m.FD = -1
	}
	if m.reserved {
		space.Unmap(m.Base, ArenaStride)
		m.held = false
	}
	for _, s := range m.foreign.All() {
		space.Unmap(s.Addr, s.Size)
	}
	for _, r := range m.Live.All() {
		if r.Value.Origin == ByMap {
			r.Value.Physical.Release()
		}
	}
	m.reserved = false
	m.Live.Clear()
	m.Taken.Clear()
	m.foreign.Clear()
}

// commit makes an arena accessible up to an address. committed is the current end.
func commit(committed *uint64, to uint64) error {
	if to <= *committed {
		return nil
	}
	to = space.RoundUp(to, CommitStep)
	if err := unix.Mprotect(space.Bytes(*committed, to-*committed), unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	*committed = to
	return nil
}

// commit makes the arena accessible up to an address.
func (m *Memory) commit(to uint64) error {
	if to <= m.committed {
		return nil
	}
	to = space.RoundUp(to, CommitStep)
	at, n := m.committed, to-m.committed
	_, err := unix.MmapPtr(m.FD, int64(at-m.Base), space.Pointer(at), uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	_ = unix.Madvise(space.Bytes(at, n), unix.MADV_DONTDUMP)
	m.committed = to
	return nil
}

// Alloc allocates size bytes, at the wanted address if it is not 0 and is free.
func (m *Memory) Alloc(size, want uint64, b Block, log func(string, ...any)) (uint64, *fail.Failure) {
	m.Lock()
	defer m.Unlock()
	if f := m.takeLocked(size); f != nil {
		return 0, f
	}
	addr := uint64(0)
	if want != 0 {
		if err := m.placeAt(want, size); err != nil {
			log("place %d bytes at %#x: %v; the allocation gets another address", size, want, err)
		} else {
			addr = want
		}
	}
	if addr == 0 {
		align := uint64(AllocAlign)
		if mutant.Breaks("aligned") {
			align = AllocUnit
		}
		addr = m.gap(size, align)
		if addr == 0 {
			m.Used -= size
			return 0, fail.New(fail.OutOfMemory, "the device's address space is too fragmented for %d bytes", size)
		}
		if err := m.commit(addr + size); err != nil {
			m.Used -= size
			return 0, fail.New(fail.NoHostMemory, "the host has no memory for %d bytes of device memory: %v", size, err)
		}
		m.cursor = space.RoundUp(addr+size, align)
	}
	m.Live.Insert(space.Region[Block]{Span: space.Span{Addr: addr, Size: size}, Value: b})
	m.Taken.Insert(space.Region[struct{}]{Span: space.Span{Addr: addr, Size: size}})
	return addr, nil
}

// takeLocked counts memory as used. The caller holds the lock.
func (m *Memory) takeLocked(size uint64) *fail.Failure {
	if size > m.Limit-m.Used {
		return fail.New(fail.OutOfMemory, "allocate %s: out of device memory, %s of %s are free", human.Bytes(size), human.Bytes(m.Limit-m.Used), human.Bytes(m.Limit))
	}
	m.Used += size
	m.Peak = max(m.Peak, m.Used)
	return nil
}

// gap returns the first free address after the cursor with room for size bytes, else the first in the arena; 0 for
// none.
func (m *Memory) gap(size, align uint64) uint64 {
	if a := m.gapIn(m.cursor, m.End, size, align); a != 0 {
		return a
	}
	return m.gapIn(m.Base, m.End, size, align)
}

// gapIn returns the first free address in a range with room for size bytes; 0 for none.
func (m *Memory) gapIn(from, to, size, align uint64) uint64 {
	addr := space.RoundUp(from, align)
	for c := m.Taken.At(addr); size <= to && addr <= to-size; c.Next() {
		if !c.OK() || addr+size <= c.Get().Addr {
			return addr
		}
		addr = max(addr, space.RoundUp(c.Get().End(), align))
	}
	return 0
}

// placeAt makes a wanted range accessible.
func (m *Memory) placeAt(addr, size uint64) error {
	end := addr + size
	if c := m.Taken.At(addr); c.OK() && c.Get().Addr < end {
		return fmt.Errorf("an allocation of %s is at %#x", human.Plural(c.Get().Size, "byte"), c.Get().Addr)
	}
	if addr >= m.Base && end <= m.End {
		return m.commit(end)
	}
	if addr < m.Base+ArenaStride && end > m.Base {
		return fmt.Errorf("the range is not inside %#x-%#x", m.Base, m.End)
	}
	return m.mapForeign(addr/space.PageSize*space.PageSize, space.RoundUp(end, space.PageSize))
}

// mapForeign maps those pages from addr to end that no other allocation has mapped.
func (m *Memory) mapForeign(addr, end uint64) error {
	var fresh []space.Span
	for at := addr; at < end; {
		c := m.foreign.At(at)
		if c.Holds(at) {
			at = c.Get().End()
			continue
		}
		to := end
		if c.OK() {
			to = min(to, c.Get().Addr)
		}
		if err := space.MapAt(at, to-at, unix.PROT_READ|unix.PROT_WRITE); err != nil {
			for _, f := range fresh {
				space.Unmap(f.Addr, f.Size)
			}
			return fmt.Errorf("map %#x-%#x: %w", at, to, err)
		}
		fresh = append(fresh, space.Span{Addr: at, Size: to - at})
		at = to
	}
	for _, f := range fresh {
		m.foreign.Insert(space.Region[struct{}]{Span: f})
	}
	m.Has.foreign.Store(true)
	return nil
}

// Free frees the allocation that begins at an address and has an origin. Its bytes read as zero afterwards.
func (m *Memory) Free(addr uint64, how Origin) bool {
	m.Lock()
	defer m.Unlock()
	if r, ok := m.Live.Find(addr); !ok || r.Addr != addr || r.Value.Origin != how {
		return false
	}
	r, _ := m.Live.Remove(addr)
	m.Taken.Remove(addr)
	m.Used -= r.Size
	m.remember(r.Span)
	m.shares.ending(r.Span)
	Zero(r.Span)
	return true
}

// remember keeps a freed range for error messages. The caller holds the lock.
func (m *Memory) remember(s space.Span) {
	m.ended(s)
	if len(m.freed) == freedKept {
		m.freed = append(m.freed[:0], m.freed[freedKept/2:]...)
	}
	m.freed = append(m.freed, s)
}

// ended forgets what is known of memory that ends.
func (m *Memory) ended(s space.Span) {
	m.Unknown.Clear(s)
	if m.Gone != nil {
		m.Gone(s)
	}
}

// Zero clears memory of a device. It returns whole pages to the system.
func Zero(s space.Span) {
	from, to := space.RoundUp(s.Addr, space.PageSize), s.End()/space.PageSize*space.PageSize
	if from >= to {
		clear(space.Bytes(s.Addr, s.Size))
		return
	}
	clear(space.Bytes(s.Addr, from-s.Addr))
	clear(space.Bytes(to, s.End()-to))
	if b := space.Bytes(from, to-from); unix.Madvise(b, unix.MADV_REMOVE) != nil { // memory file
		_ = unix.Madvise(b, unix.MADV_DONTNEED)
	}
}

// FreeAll frees all allocations and reservations.
func (m *Memory) FreeAll() {
	m.Lock()
	defer m.Unlock()
	for _, r := range m.Live.All() {
		m.ended(r.Span)
		switch r.Value.Origin {
		case ByMap:
			m.unmapLocked(r)
		case byImport:
			at := r.Addr / space.PageSize * space.PageSize
			m.GiveBack(space.Span{Addr: at, Size: space.RoundUp(r.End(), space.PageSize) - at})
		default:
			m.shares.ending(r.Span)
			Zero(r.Span)
		}
	}
	m.Live.Clear()
	for _, r := range m.reservations {
		m.GiveBack(r.Span)
	}
	m.Taken.Clear()
	clear(m.reservations)
	m.Used = 0
	m.Ends.Add(1)
}

// IsArgs reports whether an address is in the argument space.
func (m *Memory) IsArgs(addr uint64) bool { return addr >= m.End && addr < m.Args.end }

// Owns reports whether an address belongs to the device, allocated or not.
func (m *Memory) Owns(addr uint64) bool {
	if addr >= m.Base && addr < m.Base+ArenaStride {
		return true
	}
	if !m.Has.foreign.Load() {
		return false
	}
	_, ok := m.foreign.Find(addr)
	return ok
}

// Placed returns a range with all memory and reservations outside the arena.
func (m *Memory) Placed() space.Span { return m.foreign.Bounds() }

// File returns the file with the memory at an address, and the address of its first byte; -1 for memory without a file.
func (m *Memory) File(addr uint64) (fd int, base uint64) {
	if addr >= m.Base && addr < m.End {
		return m.FD, m.Base
	}
	return -1, 0
}

// Check returns an error unless n bytes at an address are accessible, in one allocation or in adjacent mappings.
func (m *Memory) Check(addr, n uint64, access uint32) error {
	c := m.Live.At(addr)
	if !c.Holds(addr) {
		return m.NotLive(addr, n)
	}
	first := c.Get()
	for r := first; ; r = c.Get() {
		if r.Value.Shared != nil && !r.Value.Shared.live() {
			return fmt.Errorf("%s at %#x: %w", human.Plural(n, "byte"), addr, errSharedGone)
		}
		if access&^r.Value.Access != 0 {
			return fmt.Errorf("%s at %#x may not be %s", human.Plural(n, "byte"), addr, space.AccessName(access&^r.Value.Access))
		}
		if n <= r.End()-addr {
			return nil
		}
		c.Next()
		if mutant.Breaks("neighbouring_mappings") || r.Value.Origin != ByMap || !c.OK() || c.Get().Value.Origin != ByMap || c.Get().Addr != r.End() {
			return fmt.Errorf("%s at %#x, up to %s past the end of the allocation (%s at %#x)", human.Plural(n, "byte"), addr, human.Plural(addr+n-r.End(), "byte"), human.Plural(r.End()-first.Addr, "byte"), first.Addr)
		}
	}
}

// NotLive explains why an address is not live.
func (m *Memory) NotLive(addr, n uint64) error {
	m.Lock()
	defer m.Unlock()
	for i := len(m.freed) - 1; i >= 0; i-- {
		if f := m.freed[i]; addr >= f.Addr && addr < f.End() {
			return fmt.Errorf("%s at %#x, in freed memory (%s at %#x)", human.Plural(n, "byte"), addr, human.Plural(f.Size, "byte"), f.Addr)
		}
	}
	if r, ok := m.Taken.Find(addr); ok {
		return fmt.Errorf("%s at %#x, in a reservation (%s at %#x) where nothing is mapped", human.Plural(n, "byte"), addr, human.Plural(r.Size, "byte"), r.Addr)
	}
	return fmt.Errorf("%s at %#x, not in an allocation", human.Plural(n, "byte"), addr)
}

// MaxAlloc bounds sizes before rounding, to prevent overflow.
const MaxAlloc = 1 << 46
