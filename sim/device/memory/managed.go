package memory

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/sim/device/space"
	"golang.org/x/sys/unix"
)

// Managed memory has one address for the host and all devices. The simulator never moves it and only stores the
// program's advice.
const (
	// Managed address range (documented).
	ManagedBase = 0x90000000000
	ManagedSize = 3 << 40
)

// Managed is a process's managed memory. Lookups take no lock.
type Managed struct {
	Live space.Regions[*managedBlock]
	any  atomic.Bool

	sync.Mutex // for changes
	cursor     uint64
}

// managedBlock is one allocation.
type managedBlock struct {
	space.Span
	Attached any // data of the layer above, under the lock
}

// Check returns an error unless n bytes at an address are in one allocation.
func (m *Managed) Check(addr, n uint64) error {
	if r, ok := m.Live.Find(addr); !ok || !r.Holds(addr, n) {
		return fmt.Errorf("%s at %#x, not in one allocation of managed memory", human.Plural(n, "byte"), addr)
	}
	return nil
}

// Owns reports whether an address is in allocated managed memory.
func (m *Managed) Owns(addr uint64) bool {
	return m.any.Load() && addr >= ManagedBase && addr < ManagedBase+ManagedSize && m.Check(addr, 1) == nil
}

func (m *Managed) Close() {
	m.Lock()
	defer m.Unlock()
	for _, r := range m.Live.All() {
		space.Unmap(r.Addr, r.Size)
	}
	m.Live.Clear()
	m.cursor = 0
}

// Free frees an allocation.
func (m *Managed) Free(addr uint64) bool {
	if !m.any.Load() {
		return false
	}
	m.Lock()
	defer m.Unlock()
	r, ok := m.Live.Remove(addr)
	if ok {
		space.Unmap(r.Addr, r.Size)
	}
	return ok
}

// Alloc allocates addresses after the previous allocation, or the wanted ones if they are free. It skips addresses
// that the process uses otherwise.
func (m *Managed) Alloc(size, want uint64) uint64 {
	m.Lock()
	defer m.Unlock()
	if m.cursor == 0 {
		m.cursor = ManagedBase + Lead
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
			m.Live.Insert(space.Region[*managedBlock]{Span: b.Span, Value: b})
			m.any.Store(true)
			return at
		}
	}
	return 0
}
