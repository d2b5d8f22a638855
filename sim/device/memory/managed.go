package memory

import (
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/sim/device/space"
	"golang.org/x/sys/unix"
)

// Managed memory has one address for the host and for all devices. Here it has one place too: nothing moves, and what the
// program says about places is kept and told.
const (
	// managedBase is where managed memory begins (documented), managedSize how much of it a process may have.
	ManagedBase = 0x90000000000
	ManagedSize = 3 << 40
)

// managedMemory is the managed memory of the process. Lookups take no lock.
type Managed struct {
	Live space.Regions[*managedBlock]
	any  atomic.Bool

	Mu     sync.Mutex // for changes
	cursor uint64
}

// managedBlock is one allocation, with what the program said about each unit of it.
type managedBlock struct {
	space.Span
	Attached any // of the layer above, under the lock
}

func (m *Managed) Check(addr, n uint64) bool {
	r, ok := m.Live.Find(addr)
	return ok && r.Holds(addr, n)
}

// owns tells whether an address is one of managed memory that was allocated.
func (m *Managed) Owns(addr uint64) bool {
	return m.any.Load() && addr >= ManagedBase && addr < ManagedBase+ManagedSize && m.Check(addr, 1)
}

func (m *Managed) Close() {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	for _, r := range m.Live.All() {
		space.Unmap(r.Addr, r.Size)
	}
	m.Live.Clear()
	m.cursor = 0
}

// free ends an allocation.
func (m *Managed) Free(addr uint64) bool {
	if !m.any.Load() {
		return false
	}
	m.Mu.Lock()
	defer m.Mu.Unlock()
	r, ok := m.Live.Remove(addr)
	if ok {
		space.Unmap(r.Addr, r.Size)
	}
	return ok
}

// alloc finds addresses behind those that were given out last, or takes the wanted ones if they are free. Those that something else in
// the process lies at are passed over.
func (m *Managed) Alloc(size, want uint64) uint64 {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	if m.cursor == 0 {
		m.cursor = ManagedBase
	}
	if want >= ManagedBase && want%Granularity == 0 && want < ManagedBase+ManagedSize {
		m.cursor = want
	}
	for tries := 0; size <= ManagedSize && tries < 1<<14; tries++ {
		if m.cursor+size > ManagedBase+ManagedSize {
			m.cursor = ManagedBase
		}
		at := m.cursor
		m.cursor += size
		if c := m.Live.At(at); c.OK() && c.Get().Addr < at+size {
			m.cursor = c.Get().End()
			continue
		}
		if space.MapAt(at, size, unix.PROT_READ|unix.PROT_WRITE) == nil {
			b := &managedBlock{Span: space.Span{Addr: at, Size: size}}
			m.Live.Insert(space.Region[*managedBlock]{Span: b.Span, V: b})
			m.any.Store(true)
			return at
		}
	}
	return 0
}
