package sim

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/sim/device"
	"github.com/acltrace/acltrace/sim/strict"

	"github.com/acltrace/acltrace/api/acl"
	"golang.org/x/sys/unix"
)

const (
	// allocAlign is the alignment of device allocations. The runtime promises 64; the hardware's bursts like 512.
	allocAlign = 512
	// commitStep is how much of the arena is made accessible at once.
	commitStep = 2 << 20
	// argSpace is the end of each arena, where launches keep their arguments.
	argSpace = 4 << 30
	// freedKept is how many freed allocations are remembered, to call an access to them what it is.
	freedKept = 1024
)

// memory is the memory of one device. Its arena is a range of addresses that costs nothing until it is touched. The
// allocator goes through the arena once before it comes back to freed addresses, and depends on nothing but the order
// of the calls. A lookup takes no lock, and none is held while bytes move.
type memory struct {
	base, end uint64 // of what the program may allocate; constant
	limit     uint64
	held      bool // the arena is mapped already
	fd        int  // file in memory that the arena's allocations lie in, so that other processes can map them; -1 for none
	args      argPool

	live    device.Regions[block]    // what may be accessed
	unknown device.Marks             // what depends on unknown kernels
	taken   device.Regions[struct{}] // live memory outside reservations, and reservations
	foreign device.Regions[struct{}] // mapped outside the arena for placed allocations

	mu           sync.Mutex // for all changes
	reserved     bool
	cursor       uint64
	far          device.Span // where reservations lie
	farCursor    uint64
	used, peak   uint64
	committed    uint64        // the arena is accessible up to here
	freed        []device.Span // the last freed allocations, in the order of freeing
	reservations map[uint64]*reservation

	hasForeign atomic.Bool
	// ends counts how often all memory of the device was given back: what the runtime keeps there has to be made again.
	ends      atomic.Uint32
	hasShared atomic.Bool // memory of other processes
	// ended is called with memory that has been freed, under the lock.
	ended func(device.Span)
}

// block is what is known about live memory.
type block struct {
	how    howMade
	access uint32    // Read and Write, as far as allowed
	phys   *physical // behind a mapping
	pool   *memPool
	shared *shared // of another process
}

// howMade says which function made live memory, and so which one ends it.
type howMade uint8

const (
	byMalloc howMade = iota
	byMap
	byPool
	byRuntime
	byImport
)

func (m *memory) init(base, far, limit uint64, held device.Span) {
	m.far, m.farCursor = device.Span{Addr: far, Size: reserveStride}, far
	m.base, m.end, m.limit = base, base+vaStride-argSpace, limit
	m.cursor, m.committed = m.base, m.base
	m.held = base >= held.Addr && base+vaStride <= held.Addr+held.Size
	m.args.next, m.args.committed, m.args.end = m.end, m.end, base+vaStride
	m.reservations = map[uint64]*reservation{}
	m.fd = -1
}

// reserve takes the addresses of the arena.
func (m *memory) reserve() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reserved {
		return nil
	}
	if !m.held {
		if err := device.MapAt(m.base, vaStride, unix.PROT_NONE); err != nil {
			return fmt.Errorf("can't reserve the addresses %#x-%#x: %w", m.base, m.base+vaStride, err)
		}
	}
	_ = unix.Madvise(device.Bytes(m.base, vaStride), unix.MADV_DONTDUMP)
	if err := m.openFile(); err != nil {
		return err
	}
	m.reserved = true
	return nil
}

// openFile makes the file behind the arena. It costs what is touched of it.
func (m *memory) openFile() error {
	fd, err := device.MemFile("aclsim-device", vaStride)
	if err != nil {
		return fmt.Errorf("can't make device memory: %w", err)
	}
	m.fd = fd
	return nil
}

func (m *memory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fd >= 0 {
		device.CloseKept(m.fd)
		m.fd = -1
	}
	if m.reserved {
		device.Unmap(m.base, vaStride)
		m.held = false
	}
	for _, s := range m.foreign.All() {
		device.Unmap(s.Addr, s.Size)
	}
	for _, r := range m.live.All() {
		if r.V.how == byMap {
			r.V.phys.release()
		}
	}
	m.reserved = false
	m.live.Clear()
	m.taken.Clear()
	m.foreign.Clear()
}

// commit makes the addresses of an arena accessible up to one. committed is where they were so far.
func commit(committed *uint64, to uint64) error {
	if to <= *committed {
		return nil
	}
	to = device.RoundUp(to, commitStep)
	if err := unix.Mprotect(device.Bytes(*committed, to-*committed), unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	*committed = to
	return nil
}

// commit makes the arena accessible up to an address.
func (m *memory) commit(to uint64) error {
	if to <= m.committed {
		return nil
	}
	to = device.RoundUp(to, commitStep)
	at, n := m.committed, to-m.committed
	_, err := unix.MmapPtr(m.fd, int64(at-m.base), device.Pointer(at), uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	_ = unix.Madvise(device.Bytes(at, n), unix.MADV_DONTDUMP)
	m.committed = to
	return nil
}

// alloc finds room for size bytes, at the wanted address if it is not 0 and can be had.
func (m *memory) alloc(size, want uint64, b block, log func(string, ...any)) (uint64, *failure) {
	m.mu.Lock()
	defer m.mu.Unlock()
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
		align := uint64(allocAlign)
		if broken("aligned") {
			align = allocUnit
		}
		addr = m.gap(size, align)
		if addr == 0 {
			m.used -= size
			return 0, failed(acl.ACL_ERROR_RT_DEVICE_OOM, "the device's address space is too fragmented for %d bytes", size)
		}
		if err := m.commit(addr + size); err != nil {
			m.used -= size
			return 0, failed(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, "the host can't back %d bytes of device memory: %v", size, err)
		}
		m.cursor = device.RoundUp(addr+size, align)
	}
	m.live.Insert(device.Region[block]{Span: device.Span{Addr: addr, Size: size}, V: b})
	m.taken.Insert(device.Region[struct{}]{Span: device.Span{Addr: addr, Size: size}})
	return addr, nil
}

// takeLocked accounts for memory that comes into use. The caller holds the lock.
func (m *memory) takeLocked(size uint64) *failure {
	if size > m.limit-m.used {
		return failed(acl.ACL_ERROR_RT_DEVICE_OOM, "out of device memory: %d bytes wanted, %d of %d free", size, m.limit-m.used, m.limit)
	}
	m.used += size
	m.peak = max(m.peak, m.used)
	return nil
}

// gap returns the first address at or behind the cursor with room for size bytes, else the first in the arena; 0 for none.
func (m *memory) gap(size, align uint64) uint64 {
	if a := m.gapIn(m.cursor, m.end, size, align); a != 0 {
		return a
	}
	return m.gapIn(m.base, m.end, size, align)
}

// gapIn returns the first address of a range with room for size bytes; 0 for none.
func (m *memory) gapIn(from, to, size, align uint64) uint64 {
	addr := device.RoundUp(from, align)
	for c := m.taken.At(addr); size <= to && addr <= to-size; c.Next() {
		if !c.OK() || addr+size <= c.Get().Addr {
			return addr
		}
		addr = max(addr, device.RoundUp(c.Get().End(), align))
	}
	return 0
}

// placeAt makes a wanted range accessible.
func (m *memory) placeAt(addr, size uint64) error {
	end := addr + size
	if c := m.taken.At(addr); c.OK() && c.Get().Addr < end {
		return fmt.Errorf("an allocation of %d bytes lies at %#x", c.Get().Size, c.Get().Addr)
	}
	if addr >= m.base && end <= m.end {
		return m.commit(end)
	}
	if addr < m.base+vaStride && end > m.base {
		return fmt.Errorf("it crosses the arena's limits %#x-%#x", m.base, m.end)
	}
	return m.mapForeign(addr/device.PageSize*device.PageSize, device.RoundUp(end, device.PageSize))
}

// mapForeign maps the pages from addr to end that are not mapped for another allocation already.
func (m *memory) mapForeign(addr, end uint64) error {
	var fresh []device.Span
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
		if err := device.MapAt(at, to-at, unix.PROT_READ|unix.PROT_WRITE); err != nil {
			for _, f := range fresh {
				device.Unmap(f.Addr, f.Size)
			}
			return fmt.Errorf("can't map %#x-%#x: %w", at, to, err)
		}
		fresh = append(fresh, device.Span{Addr: at, Size: to - at})
		at = to
	}
	for _, f := range fresh {
		m.foreign.Insert(device.Region[struct{}]{Span: f})
	}
	m.hasForeign.Store(true)
	return nil
}

// free ends the memory that begins at an address and was made in a certain way. Its bytes read as zero from then on.
func (m *memory) free(addr uint64, how howMade) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.live.Find(addr); !ok || r.Addr != addr || r.V.how != how {
		return false
	}
	r, _ := m.live.Remove(addr)
	m.taken.Remove(addr)
	m.used -= r.Size
	m.remember(r.Span)
	m.ended(r.Span)
	zero(r.Span)
	return true
}

// remember keeps a freed range for the texts of errors. The caller holds the lock.
func (m *memory) remember(s device.Span) {
	m.unknown.Clear(s)
	if len(m.freed) == freedKept {
		m.freed = append(m.freed[:0], m.freed[freedKept/2:]...)
	}
	m.freed = append(m.freed, s)
}

// zero gives whole pages back to the system and clears the rest.
func zero(s device.Span) {
	from, to := device.RoundUp(s.Addr, device.PageSize), s.End()/device.PageSize*device.PageSize
	if from >= to {
		clear(device.Bytes(s.Addr, s.Size))
		return
	}
	clear(device.Bytes(s.Addr, from-s.Addr))
	clear(device.Bytes(to, s.End()-to))
	if b := device.Bytes(from, to-from); unix.Madvise(b, unix.MADV_REMOVE) != nil { // in a file
		_ = unix.Madvise(b, unix.MADV_DONTNEED)
	}
}

// freeAll ends all allocations and reservations.
func (m *memory) freeAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.live.All() {
		switch r.V.how {
		case byMap:
			m.unmapLocked(r)
		case byImport:
			at := r.Addr / device.PageSize * device.PageSize
			m.giveBack(device.Span{Addr: at, Size: device.RoundUp(r.End(), device.PageSize) - at})
		default:
			m.ended(r.Span)
			zero(r.Span)
		}
	}
	m.live.Clear()
	m.unknown.Clear(device.Span{Addr: 0, Size: ^uint64(0)})
	for _, r := range m.reservations {
		m.giveBack(r.Span)
	}
	m.taken.Clear()
	clear(m.reservations)
	m.used = 0
	m.ends.Add(1)
}

// isArgs tells whether an address lies among the arguments of launches.
func (m *memory) isArgs(addr uint64) bool { return addr >= m.end && addr < m.args.end }

// owns tells whether an address belongs to the device, allocated or not.
func (m *memory) owns(addr uint64) bool {
	if addr >= m.base && addr < m.base+vaStride {
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
func (m *memory) check(addr, n uint64, access uint32) error {
	c := m.live.At(addr)
	if !c.Holds(addr) {
		if broken("freed_memory") || broken("copy_after_free") || broken("kernel_after_free") {
			return nil
		}
		return m.notLive(addr, n)
	}
	first := c.Get()
	for r := first; ; r = c.Get() {
		if r.V.shared != nil && !r.V.shared.live() {
			return fmt.Errorf("%d bytes at %#x: %w", n, addr, errSharedGone)
		}
		if access&^r.V.access != 0 {
			return fmt.Errorf("%d bytes at %#x may not be %s", n, addr, device.AccessName(access&^r.V.access))
		}
		if n <= r.End()-addr {
			return nil
		}
		c.Next()
		if broken("neighbouring_mappings") || r.V.how != byMap || !c.OK() || c.Get().V.how != byMap || c.Get().Addr != r.End() {
			return fmt.Errorf("%d bytes at %#x end %d bytes behind the allocation of %d bytes at %#x", n, addr, addr+n-r.End(), r.End()-first.Addr, first.Addr)
		}
	}
}

// notLive says what an address is instead of live.
func (m *memory) notLive(addr, n uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.freed) - 1; i >= 0; i-- {
		if f := m.freed[i]; addr >= f.Addr && addr < f.End() {
			return fmt.Errorf("%d bytes at %#x lie in freed memory, %d bytes at %#x", n, addr, f.Size, f.Addr)
		}
	}
	if r, ok := m.taken.Find(addr); ok {
		return fmt.Errorf("%d bytes at %#x lie in a reservation of %d bytes at %#x where nothing is mapped", n, addr, r.Size, r.Addr)
	}
	return fmt.Errorf("%d bytes at %#x lie in no allocation", n, addr)
}

// argPool is the device memory for the arguments of launches, in slots of powers of two.
type argPool struct {
	mu                   sync.Mutex
	next, committed, end uint64
	free                 [argClasses][]uint64
}

const argClasses = 33

func argClass(size uint64) int { return bits.Len64(max(size, allocAlign) - 1) }

func (p *argPool) get(size uint64) (uint64, *failure) {
	c := argClass(size)
	p.mu.Lock()
	defer p.mu.Unlock()
	if c < len(p.free) {
		if f := p.free[c]; len(f) > 0 {
			p.free[c] = f[:len(f)-1]
			return f[len(f)-1], nil
		}
		if a := p.next; uint64(1)<<c <= p.end-a {
			if err := commit(&p.committed, a+1<<c); err != nil {
				return 0, failed(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, "the host can't back %d bytes of arguments: %v", size, err)
			}
			p.next += 1 << c
			return a, nil
		}
	}
	return 0, failed(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, "no room for %d bytes of arguments in device memory", size)
}

// argCache keeps the slots that the launches of one stream have used, so that streams do not wait for each other.
type argCache struct {
	pool   *argPool
	mu     sync.Mutex
	closed bool
	free   [argClasses][]uint64
}

func (a *argCache) get(size uint64) (uint64, *failure) {
	if c := argClass(size); c < argClasses {
		a.mu.Lock()
		if f := a.free[c]; len(f) > 0 {
			addr := f[len(f)-1]
			a.free[c] = f[:len(f)-1]
			a.mu.Unlock()
			return addr, nil
		}
		a.mu.Unlock()
	}
	return a.pool.get(size)
}

func (a *argCache) put(addr, size uint64) {
	c := argClass(size)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.free[c] = append(a.free[c], addr)
		return
	}
	a.pool.mu.Lock()
	a.pool.free[c] = append(a.pool.free[c], addr)
	a.pool.mu.Unlock()
}

// close gives the slots back to the device.
func (a *argCache) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	for c, f := range a.free {
		a.pool.free[c] = append(a.pool.free[c], f...)
		a.free[c] = nil
	}
}

// Rounding of the kinds of allocations.
const (
	allocUnit = 32
	allocPad  = 32
)

// maxAlloc bounds the sizes that are rounded, so that none overflows.
const maxAlloc = 1 << 46

func (t *Thread) alloc(ptr *acl.Addr, size, pad uint64, policy acl.MemMallocPolicy) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	return t.allocOn(c.dev, ptr, size, pad, policy)
}

func (t *Thread) allocOn(d *npu, ptr *acl.Addr, size, pad uint64, policy acl.MemMallocPolicy) acl.Error {
	switch {
	case ptr == nil:
		return t.null("devPtr")
	case size == 0:
		return t.invalid("an allocation of 0 bytes")
	}
	if size > maxAlloc {
		return t.fail(acl.ACL_ERROR_RT_DEVICE_OOM, "out of device memory: %d bytes wanted", size)
	}
	addr, f := t.allocDevice(d, device.RoundUp(size, allocUnit)+pad, block{how: byMalloc, access: device.Read | device.Write})
	if f != nil {
		return t.failWith(f)
	}
	t.sim.strict.Gets(&t.strict, addr, size, strict.DeviceMemory)
	*ptr = addr
	return acl.ACL_SUCCESS
}

// allocDevice allocates memory of a device, at the wanted address if there is one.
func (t *Thread) allocDevice(d *npu, size uint64, b block) (uint64, *failure) {
	s := t.sim
	if f := s.outOfMemory(); f != nil {
		return 0, f
	}
	addr, f := t.placed(func(want uint64) (uint64, *failure) { return d.mem.alloc(size, want, b, s.log) })
	if f == nil {
		s.fresh(device.Span{Addr: addr, Size: size})
	}
	return addr, f
}

// placed calls a function that allocates addresses with the wanted address, 0 for any: the one that the thread has wished for, or else
// the next one of Options.Place. An allocation that fails takes none from that list.
func (t *Thread) placed(take func(want uint64) (uint64, *failure)) (uint64, *failure) {
	s := t.sim
	if t.wish != nil && *t.wish != 0 {
		want := *t.wish
		*t.wish = 0
		return take(want)
	}
	if len(s.opts.Place) == 0 {
		return take(0)
	}
	s.place.mu.Lock()
	defer s.place.mu.Unlock()
	want := uint64(0)
	if s.place.next < len(s.opts.Place) {
		want = s.opts.Place[s.place.next]
	}
	addr, f := take(want)
	if f == nil {
		s.place.next++
	}
	return addr, f
}

// Malloc allocates device memory, rounded up and padded as the runtime does it.
func (t *Thread) Malloc(devPtr *acl.Addr, size uint64, policy acl.MemMallocPolicy) acl.Error {
	return t.alloc(devPtr, size, allocPad, policy)
}

// MallocAlign32 allocates device memory without padding.
func (t *Thread) MallocAlign32(devPtr *acl.Addr, size uint64, policy acl.MemMallocPolicy) acl.Error {
	return t.alloc(devPtr, size, 0, policy)
}

// MallocCached allocates device memory; the simulated device has no cache.
func (t *Thread) MallocCached(devPtr *acl.Addr, size uint64, policy acl.MemMallocPolicy) acl.Error {
	return t.alloc(devPtr, size, allocPad, policy)
}

// MallocWithCfg allocates device memory with attributes, of which the device id counts.
func (t *Thread) MallocWithCfg(devPtr *acl.Addr, size uint64, policy acl.MemMallocPolicy, cfg *acl.MallocConfig) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	d := c.dev
	attrs, e := t.mallocAttrs(cfg)
	if e != 0 {
		return e
	}
	for _, a := range attrs {
		if a.Attr != acl.ACL_RT_MEM_ATTR_DEVICE_ID {
			continue
		}
		if d, e = t.device(int32(a.Value[0])); e != 0 {
			return e
		}
		if err := d.mem.reserve(); err != nil {
			return t.fail(acl.ACL_ERROR_RT_DEV_SETUP_ERROR, "device %d: %v", d.id, err)
		}
	}
	return t.allocOn(d, devPtr, size, allocPad, policy)
}

func (t *Thread) mallocAttrs(cfg *acl.MallocConfig) ([]acl.MallocAttribute, acl.Error) {
	if cfg == nil || cfg.NumAttrs == 0 {
		return nil, acl.ACL_SUCCESS
	}
	if cfg.Attrs == 0 {
		return nil, t.null("cfg->attrs")
	}
	if cfg.NumAttrs > 16 {
		return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "cfg->numAttrs is %d", cfg.NumAttrs)
	}
	attrs := device.List((*acl.MallocAttribute)(device.Pointer(cfg.Attrs)), cfg.NumAttrs)
	for _, a := range attrs {
		if a.Attr < acl.ACL_RT_MEM_ATTR_RSV || a.Attr > acl.ACL_RT_MEM_ATTR_VA_FLAG {
			return nil, t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "allocation attribute %d is unknown", a.Attr)
		}
	}
	return attrs, acl.ACL_SUCCESS
}

// Free frees device memory at once, whatever still runs.
func (t *Thread) Free(devPtr acl.Addr) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	return t.free(devPtr)
}

func (t *Thread) free(p acl.Addr) acl.Error {
	if p == 0 {
		return t.null("devPtr")
	}
	t.sim.strict.Gone(&t.strict, p, strict.DeviceMemory, strict.ManagedBytes)
	for _, d := range t.sim.devices {
		if d.mem.free(p, byMalloc) {
			return acl.ACL_SUCCESS
		}
	}
	if t.sim.managed.free(p) {
		return acl.ACL_SUCCESS
	}
	return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "no device allocation begins at %#x", p)
}

// FreeWithDevSync waits for the device and frees device memory.
func (t *Thread) FreeWithDevSync(devPtr acl.Addr) acl.Error {
	if e := t.SynchronizeDevice(); e != 0 {
		return e
	}
	return t.free(devPtr)
}

// MallocHost allocates pinned host memory.
func (t *Thread) MallocHost(hostPtr *acl.Addr, size uint64) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	switch {
	case hostPtr == nil:
		return t.null("hostPtr")
	case size == 0:
		return t.invalid("an allocation of 0 bytes")
	}
	a := uint64(0)
	if size <= maxAlloc {
		a = t.sim.host.Alloc(size)
	}
	if a == 0 {
		return t.fail(acl.ACL_ERROR_RT_MEMORY_ALLOCATION, "out of host memory: %d bytes wanted", size)
	}
	t.sim.strict.Gets(&t.strict, a, size, strict.PinnedMemory)
	*hostPtr = a
	return acl.ACL_SUCCESS
}

// MallocHostWithCfg allocates pinned host memory; the attributes change nothing here.
func (t *Thread) MallocHostWithCfg(ptr *acl.Addr, size uint64, cfg *acl.MallocConfig) acl.Error {
	if _, e := t.mallocAttrs(cfg); e != 0 {
		return e
	}
	return t.MallocHost(ptr, size)
}

// FreeHost frees pinned host memory at once.
func (t *Thread) FreeHost(hostPtr acl.Addr) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	return t.freeHost(hostPtr)
}

func (t *Thread) freeHost(p acl.Addr) acl.Error {
	if p == 0 {
		return t.null("hostPtr")
	}
	t.sim.strict.Gone(&t.strict, p, strict.PinnedMemory)
	if !t.sim.host.Free(p) {
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "no host allocation begins at %#x", p)
	}
	return acl.ACL_SUCCESS
}

// FreeHostWithDevSync waits for the device and frees pinned host memory.
func (t *Thread) FreeHostWithDevSync(hostPtr acl.Addr) acl.Error {
	if e := t.SynchronizeDevice(); e != 0 {
		return e
	}
	return t.freeHost(hostPtr)
}

// location is where memory lies: the device's (dev is set), pinned, or the program's own.
type location struct {
	typ acl.MemLocationType
	dev *npu
}

// side is what memory is to a copy: managed memory may be either, and counts as the device's.
func (l location) side() acl.MemLocationType {
	if l.typ == acl.ACL_MEM_LOCATION_TYPE_MANAGED {
		return acl.ACL_MEM_LOCATION_TYPE_DEVICE
	}
	return l.typ
}

func (s *Sim) locate(addr uint64) location {
	for _, d := range s.devices {
		if d.mem.owns(addr) {
			return location{acl.ACL_MEM_LOCATION_TYPE_DEVICE, d}
		}
	}
	if s.managed.owns(addr) {
		return location{acl.ACL_MEM_LOCATION_TYPE_MANAGED, nil}
	}
	if _, ok := s.host.Find(addr); ok {
		return location{acl.ACL_MEM_LOCATION_TYPE_HOST, nil}
	}
	return location{acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED, nil}
}

// PointerGetAttributes tells where an address lies.
func (t *Thread) PointerGetAttributes(ptr acl.Addr, attributes *acl.PtrAttributes) acl.Error {
	if _, e := t.context(); e != 0 {
		return e
	}
	switch {
	case ptr == 0:
		return t.null("ptr")
	case attributes == nil:
		return t.null("attributes")
	}
	l := t.sim.locate(ptr)
	a := acl.PtrAttributes{Location: acl.MemLocation{Type: l.typ}, PageSize: device.PageSize}
	if l.dev != nil {
		a.Location.Id, a.PageSize = uint32(l.dev.id), commitStep
	}
	*attributes = a
	return acl.ACL_SUCCESS
}

// GetMemInfo tells the free and the total device memory. There is no DDR memory.
func (t *Thread) GetMemInfo(attr acl.MemAttr, free, total *uint64) acl.Error {
	c, e := t.context()
	if e != 0 {
		return e
	}
	if free == nil || total == nil {
		return t.null("free or total")
	}
	switch attr {
	case acl.ACL_DDR_MEM, acl.ACL_DDR_MEM_HUGE, acl.ACL_DDR_MEM_NORMAL, acl.ACL_DDR_MEM_P2P_HUGE, acl.ACL_DDR_MEM_P2P_NORMAL:
		*free, *total = 0, 0
	case acl.ACL_HBM_MEM, acl.ACL_HBM_MEM_HUGE, acl.ACL_HBM_MEM_NORMAL, acl.ACL_HBM_MEM_P2P_HUGE, acl.ACL_HBM_MEM_P2P_NORMAL,
		acl.ACL_HBM_MEM_HUGE1G, acl.ACL_HBM_MEM_P2P_HUGE1G:
		m := &c.dev.mem
		m.mu.Lock()
		*free, *total = m.limit-m.used, m.limit
		m.mu.Unlock()
	default:
		return t.fail(acl.ACL_ERROR_RT_PARAM_INVALID, "memory kind %d is unknown", attr)
	}
	return acl.ACL_SUCCESS
}
