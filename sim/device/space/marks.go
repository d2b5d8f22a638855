package space

import (
	"sync"
	"sync/atomic"
)

// Marks are marked ranges of memory. Lookups take no lock.
type Marks[T comparable] struct {
	mu     sync.Mutex // for changes
	Ranges Regions[*holder[T]]
}

// holder has the mark of a range. Programs mark the same buffers repeatedly, which then changes only this pointer.
type holder[T comparable] struct{ mark atomic.Pointer[T] }

func newHolder[T comparable](mark *T) *holder[T] {
	h := &holder[T]{}
	h.mark.Store(mark)
	return h
}

// In returns the marked parts of a range.
func (u *Marks[T]) In(s Span) []Region[T] {
	var found []Region[T]
	for c := u.Ranges.At(s.Addr); c.OK() && c.Get().Addr < s.End(); c.Next() {
		r := c.Get()
		from, to := max(r.Addr, s.Addr), min(r.End(), s.End())
		found = append(found, Region[T]{Span: Span{Addr: from, Size: to - from}, Value: *r.Value.mark.Load()})
	}
	return found
}

// Clear removes marks.
func (u *Marks[T]) Clear(s Span) {
	if c := u.Ranges.At(s.Addr); !c.OK() || c.Get().Addr >= s.End() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.carve(s)
}

// carve removes marks. The caller holds the lock.
func (u *Marks[T]) carve(s Span) {
	for {
		c := u.Ranges.At(s.Addr)
		if !c.OK() || c.Get().Addr >= s.End() {
			return
		}
		r, _ := u.Ranges.Remove(c.Get().Addr)
		if r.Addr < s.Addr {
			u.Ranges.Insert(Region[*holder[T]]{Span: Span{Addr: r.Addr, Size: s.Addr - r.Addr}, Value: newHolder(r.Value.mark.Load())})
		}
		if r.End() > s.End() {
			u.Ranges.Insert(Region[*holder[T]]{Span: Span{Addr: s.End(), Size: r.End() - s.End()}, Value: newHolder(r.Value.mark.Load())})
		}
	}
}

// Set marks a range.
func (u *Marks[T]) Set(s Span, mark *T) {
	same := func(r Region[*holder[T]]) bool { return *r.Value.mark.Load() == *mark }
	if r, ok := u.Ranges.Find(s.Addr); s.Size == 0 || ok && same(r) && r.Holds(s.Addr, s.Size) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if r, ok := u.Ranges.Find(s.Addr); ok && r.Span == s {
		r.Value.mark.Store(mark)
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
	u.Ranges.Insert(Region[*holder[T]]{Span: s, Value: newHolder(mark)})
}
