package space

import (
	"sync"
	"sync/atomic"
)

// Marks are marked ranges of memory. Lookups take no lock.
type Marks struct {
	mu     sync.Mutex // for changes
	Ranges Regions[*writer]
}

// writer is the mark of a range. Programs mark the same buffers repeatedly, which then changes only this pointer.
type writer struct{ kernel atomic.Pointer[string] }

func newWriter(kernel *string) *writer {
	w := &writer{}
	w.kernel.Store(kernel)
	return w
}

// In returns the marked parts of a range.
func (u *Marks) In(s Span) []Region[string] {
	var found []Region[string]
	for c := u.Ranges.At(s.Addr); c.OK() && c.Get().Addr < s.End(); c.Next() {
		r := c.Get()
		from, to := max(r.Addr, s.Addr), min(r.End(), s.End())
		found = append(found, Region[string]{Span: Span{Addr: from, Size: to - from}, Value: *r.Value.kernel.Load()})
	}
	return found
}

// Clear removes marks.
func (u *Marks) Clear(s Span) {
	if c := u.Ranges.At(s.Addr); !c.OK() || c.Get().Addr >= s.End() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.carve(s)
}

// carve removes marks. The caller holds the lock.
func (u *Marks) carve(s Span) {
	for {
		c := u.Ranges.At(s.Addr)
		if !c.OK() || c.Get().Addr >= s.End() {
			return
		}
		r, _ := u.Ranges.Remove(c.Get().Addr)
		if r.Addr < s.Addr {
			u.Ranges.Insert(Region[*writer]{Span: Span{Addr: r.Addr, Size: s.Addr - r.Addr}, Value: newWriter(r.Value.kernel.Load())})
		}
		if r.End() > s.End() {
			u.Ranges.Insert(Region[*writer]{Span: Span{Addr: s.End(), Size: r.End() - s.End()}, Value: newWriter(r.Value.kernel.Load())})
		}
	}
}

// Set marks a range.
func (u *Marks) Set(s Span, kernel *string) {
	same := func(r Region[*writer]) bool { return *r.Value.kernel.Load() == *kernel }
	if r, ok := u.Ranges.Find(s.Addr); s.Size == 0 || ok && same(r) && r.Holds(s.Addr, s.Size) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if r, ok := u.Ranges.Find(s.Addr); ok && r.Span == s {
		r.Value.kernel.Store(kernel)
		return
	}
	u.carve(s)
	// Merge neighbours with the same mark.
	if s.Addr > 0 {
		if r, ok := u.Ranges.Find(s.Addr - 1); ok && same(r) {
			u.Ranges.Remove(r.Addr)
			s = Span{Addr: r.Addr, Size: r.Size + s.Size}
		}
	}
	if r, ok := u.Ranges.Find(s.End()); ok && same(r) {
		u.Ranges.Remove(r.Addr)
		s.Size += r.Size
	}
	u.Ranges.Insert(Region[*writer]{Span: s, Value: newWriter(kernel)})
}
