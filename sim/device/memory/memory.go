package memory

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/sim/device/fail"
	"github.com/acltrace/acltrace/sim/device/space"
	"github.com/acltrace/acltrace/sim/mutant"
	"golang.org/x/sys/unix"
)

const (
	// vaStride is the distance between the arenas of two devices: many times the memory of a device, so that the
	// address of freed memory comes back late.
	VaStride = 256 << 30
	// reserveStride is how many addresses a device has for reservations, behind the arenas of all devices: programs reserve
	// more than there is memory.
	ReserveStride = 2 << 40
	// allocUnit is the unit of the sizes of allocations.
	AllocUnit = 32
	// allocAlign is the alignment of device allocations. The runtime promises 64; the hardware's bursts like 512.
	AllocAlign = 512
	// commitStep is how much of the arena is made accessible at once.
	CommitStep = 2 << 20
	// argSpace is the end of each arena, where launches keep their arguments.
	argSpace = 4 << 30
	// freedKept is how many freed allocations are remembered, to call an access to them what it is.
	freedKept = 1024
)

// memory is the memory of one device. Its arena is a range of addresses that costs nothing until it is touched. The
// allocator goes through the arena once before it comes back to freed addresses, and depends on nothing but the order
// of the calls. A lookup takes no lock, and none is held while bytes move.
type Memory struct {
	ID        int32 // of its device
	shares    *Shares
	Base, End uint64 // of what the program may allocate; constant
	Limit     uint64
	held      bool // the arena is mapped already
	FD        int  // file in memory that the arena's allocations lie in, so that other processes can map them; -1 for none
	Args      argPool

	Live    space.Regions[Block]    // what may be accessed
	Unknown space.Marks             // what depends on unknown kernels
	Taken   space.Regions[struct{}] // live memory outside reservations, and reservations
	foreign space.Regions[struct{}] // mapped outside the arena for placed allocations

	Mu           sync.Mutex // for all changes
	reserved     bool
	cursor       uint64
	far          space.Span // where reservations lie
	farCursor    uint64
	Used, Peak   uint64
	committed    uint64       // the arena is accessible up to here
	freed        []space.Span // the last freed allocations, in the order of freeing
	reservations map[uint64]*reservation

	hasForeign atomic.Bool
	// ends counts how often all memory of the device was given back: what the runtime keeps there has to be made again.
	Ends      atomic.Uint32
	HasShared atomic.Bool // memory of other processes
}

// block is what is known about live memory.
type Block struct {
	How      Origin
	Access   uint32    // Read and Write, as far as allowed
	Physical *Physical // behind a mapping
	Owner    any       // of the layer above
	Shared   *Shared   // of another process
}

// howMade says which function made live memory, and so which one ends it.
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
	m.far, m.farCursor = space.Span{Addr: far, Size: ReserveStride}, far
	m.Base, m.End, m.Limit = base, base+VaStride-argSpace, limit
	m.cursor, m.committed = m.Base, m.Base
	m.held = base >= held.Addr && base+VaStride <= held.Addr+held.Size
	m.Args.next, m.Args.committed, m.Args.end = m.End, m.End, base+VaStride
	m.reservations = map[uint64]*reservation{}
	m.FD = -1
}

// reserve takes the addresses of the arena.
func (m *Memory) Reserve() error {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	if m.reserved {
		return nil
	}
	if !m.held {
		if err := space.MapAt(m.Base, VaStride, unix.PROT_NONE); err != nil {
			return fmt.Errorf("can't reserve the addresses %#x-%#x: %w", m.Base, m.Base+VaStride, err)
		}
	}
	_ = unix.Madvise(space.Bytes(m.Base, VaStride), unix.MADV_DONTDUMP)
	if err := m.OpenFile(); err != nil {
		return err
	}
	m.reserved = true
	return nil
}

// openFile makes the file behind the arena. It costs what is touched of it.
func (m *Memory) OpenFile() error {
	fd, err := space.MemFile("aclsim-device", VaStride)
	if err != nil {
		return fmt.Errorf("can't make device memory: %w", err)
	}
	m.FD = fd
	return nil
}

func (m *Memory) Close() {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	if m.FD >= 0 {
		space.CloseKept(m.FD)
		m.FD = -1
	}
	if m.reserved {
		space.Unmap(m.Base, VaStride)
		m.held = false
	}
	for _, s := range m.foreign.All() {
		space.Unmap(s.Addr, s.Size)
	}
	for _, r := range m.Live.All() {
		if r.V.How == ByMap {
			r.V.Physical.Release()
		}
	}
	m.reserved = false
	m.Live.Clear()
	m.Taken.Clear()
	m.foreign.Clear()
}

// commit makes the addresses of an arena accessible up to one. committed is where they were so far.
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

// alloc finds room for size bytes, at the wanted address if it is not 0 and can be had.
func (m *Memory) Alloc(size, want uint64, b Block, log func(string, ...any)) (uint64, *fail.Failure) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	if f := m.takeLocked(size); f != nil {
		return 0, f
	}
	addr := uint64(0)
	if want != 0 {
		if err := m.placeAt(want, size); err != nil {
			log("an allocation of %d bytes can't lie at %#x (%v) and lies elsewhere", size, want, err)
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
			return 0, fail.New(fail.NoHostMemory, "the host can't back %d bytes of device memory: %v", size, err)
		}
		m.cursor = space.RoundUp(addr+size, align)
	}
	m.Live.Insert(space.Region[Block]{Span: space.Span{Addr: addr, Size: size}, V: b})
	m.Taken.Insert(space.Region[struct{}]{Span: space.Span{Addr: addr, Size: size}})
	return addr, nil
}

// takeLocked accounts for memory that comes into use. The caller holds the lock.
func (m *Memory) takeLocked(size uint64) *fail.Failure {
	if size > m.Limit-m.Used {
		return fail.New(fail.OutOfMemory, "out of device memory: %d bytes wanted, %d of %d free", size, m.Limit-m.Used, m.Limit)
	}
	m.Used += size
	m.Peak = max(m.Peak, m.Used)
	return nil
}

// gap returns the first address at or behind the cursor with room for size bytes, else the first in the arena; 0 for none.
func (m *Memory) gap(size, align uint64) uint64 {
	if a := m.gapIn(m.cursor, m.End, size, align); a != 0 {
		return a
	}
	return m.gapIn(m.Base, m.End, size, align)
}

// gapIn returns the first address of a range with room for size bytes; 0 for none.
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
		return fmt.Errorf("an allocation of %d bytes lies at %#x", c.Get().Size, c.Get().Addr)
	}
	if addr >= m.Base && end <= m.End {
		return m.commit(end)
	}
	if addr < m.Base+VaStride && end > m.Base {
		return fmt.Errorf("it crosses the arena's limits %#x-%#x", m.Base, m.End)
	}
	return m.mapForeign(addr/space.PageSize*space.PageSize, space.RoundUp(end, space.PageSize))
}

// mapForeign maps the pages from addr to end that are not mapped for another allocation already.
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
			return fmt.Errorf("can't map %#x-%#x: %w", at, to, err)
		}
		fresh = append(fresh, space.Span{Addr: at, Size: to - at})
		at = to
	}
	for _, f := range fresh {
		m.foreign.Insert(space.Region[struct{}]{Span: f})
	}
	m.hasForeign.Store(true)
	return nil
}

// free ends the memory that begins at an address and was made in a certain way. Its bytes read as zero from then on.
func (m *Memory) Free(addr uint64, how Origin) bool {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	if r, ok := m.Live.Find(addr); !ok || r.Addr != addr || r.V.How != how {
		return false
	}
	r, _ := m.Live.Remove(addr)
	m.Taken.Remove(addr)
	m.Used -= r.Size
	m.remember(r.Span)
	m.shares.ending(r.Span)
	zero(r.Span)
	return true
}

// remember keeps a freed range for the texts of errors. The caller holds the lock.
func (m *Memory) remember(s space.Span) {
	m.Unknown.Clear(s)
	if len(m.freed) == freedKept {
		m.freed = append(m.freed[:0], m.freed[freedKept/2:]...)
	}
	m.freed = append(m.freed, s)
}

// zero gives whole pages back to the system and clears the rest.
func zero(s space.Span) {
	from, to := space.RoundUp(s.Addr, space.PageSize), s.End()/space.PageSize*space.PageSize
	if from >= to {
		clear(space.Bytes(s.Addr, s.Size))
		return
	}
	clear(space.Bytes(s.Addr, from-s.Addr))
	clear(space.Bytes(to, s.End()-to))
	if b := space.Bytes(from, to-from); unix.Madvise(b, unix.MADV_REMOVE) != nil { // in a file
		_ = unix.Madvise(b, unix.MADV_DONTNEED)
	}
}

// freeAll ends all allocations and reservations.
func (m *Memory) FreeAll() {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	for _, r := range m.Live.All() {
		switch r.V.How {
		case ByMap:
			m.unmapLocked(r)
		case byImport:
			at := r.Addr / space.PageSize * space.PageSize
			m.GiveBack(space.Span{Addr: at, Size: space.RoundUp(r.End(), space.PageSize) - at})
		default:
			m.shares.ending(r.Span)
			zero(r.Span)
		}
	}
	m.Live.Clear()
	m.Unknown.Clear(space.Span{Addr: 0, Size: ^uint64(0)})
	for _, r := range m.reservations {
		m.GiveBack(r.Span)
	}
	m.Taken.Clear()
	clear(m.reservations)
	m.Used = 0
	m.Ends.Add(1)
}

// isArgs tells whether an address lies among the arguments of launches.
func (m *Memory) IsArgs(addr uint64) bool { return addr >= m.End && addr < m.Args.end }

// owns tells whether an address belongs to the device, allocated or not.
func (m *Memory) Owns(addr uint64) bool {
	if addr >= m.Base && addr < m.Base+VaStride {
		return true
	}
	if !m.hasForeign.Load() {
		return false
	}
	_, ok := m.foreign.Find(addr)
	return ok
}

// check tells whether n bytes at an address lie in one live allocation, or in mappings that follow each other, and may be
// accessed.
func (m *Memory) Check(addr, n uint64, access uint32) error {
	c := m.Live.At(addr)
	if !c.Holds(addr) {
		if mutant.Breaks("freed_memory") || mutant.Breaks("copy_after_free") || mutant.Breaks("kernel_after_free") {
			return nil
		}
		return m.NotLive(addr, n)
	}
	first := c.Get()
	for r := first; ; r = c.Get() {
		if r.V.Shared != nil && !r.V.Shared.live() {
			return fmt.Errorf("%d bytes at %#x: %w", n, addr, errSharedGone)
		}
		if access&^r.V.Access != 0 {
			return fmt.Errorf("%d bytes at %#x may not be %s", n, addr, space.AccessName(access&^r.V.Access))
		}
		if n <= r.End()-addr {
			return nil
		}
		c.Next()
		if mutant.Breaks("neighbouring_mappings") || r.V.How != ByMap || !c.OK() || c.Get().V.How != ByMap || c.Get().Addr != r.End() {
			return fmt.Errorf("%d bytes at %#x end %d bytes behind the allocation of %d bytes at %#x", n, addr, addr+n-r.End(), r.End()-first.Addr, first.Addr)
		}
	}
}

// notLive says what an address is instead of live.
func (m *Memory) NotLive(addr, n uint64) error {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	for i := len(m.freed) - 1; i >= 0; i-- {
		if f := m.freed[i]; addr >= f.Addr && addr < f.End() {
			return fmt.Errorf("%d bytes at %#x lie in freed memory, %d bytes at %#x", n, addr, f.Size, f.Addr)
		}
	}
	if r, ok := m.Taken.Find(addr); ok {
		return fmt.Errorf("%d bytes at %#x lie in a reservation of %d bytes at %#x where nothing is mapped", n, addr, r.Size, r.Addr)
	}
	return fmt.Errorf("%d bytes at %#x lie in no allocation", n, addr)
}

// maxAlloc bounds the sizes that are rounded, so that none overflows.
const MaxAlloc = 1 << 46
