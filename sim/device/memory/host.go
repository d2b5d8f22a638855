package memory

import (
	"fmt"
	"sync"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/sim/device/space"
)

// Host is the host memory that the runtime knows: pinned allocations and registered memory. Lookups take no lock.
type Host struct {
	sync.Mutex // for changes
	Live       space.Regions[struct{}]
	Registered space.Regions[Registration]
	Marks      space.Marks[Mark] // marks of unknown bytes, for all host memory
}

// Registration is how the program registered host memory.
type Registration struct {
	Pinned bool   // asynchronous copies need not wait
	Access uint32 // device access
}

func (h *Host) Alloc(size uint64) uint64 {
	size = space.RoundUp(size, space.PageSize)
	a := space.MapAnywhere(size)
	if a == 0 {
		return 0
	}
	h.Lock()
	h.Live.Insert(space.Region[struct{}]{Span: space.Span{Addr: a, Size: size}})
	h.Unlock()
	return a
}

func (h *Host) Free(addr uint64) bool {
	h.Lock()
	s, ok := h.Live.Remove(addr)
	h.Unlock()
	if ok {
		h.Marks.Clear(s.Span)
		space.Unmap(s.Addr, s.Size)
	}
	return ok
}

// Find returns the pinned memory at an address.
func (h *Host) Find(addr uint64) (space.Span, bool) {
	if r, ok := h.Live.Find(addr); ok {
		return r.Span, true
	}
	if r, ok := h.Registered.Find(addr); ok && r.Value.Pinned {
		return r.Span, true
	}
	return space.Span{}, false
}

// Bounds returns a range with all of this memory.
func (h *Host) Bounds() space.Span { return h.Live.Bounds().With(h.Registered.Bounds()) }

// Check returns an error unless a device may access n bytes of host memory.
func (h *Host) Check(addr, n uint64, access uint32) error {
	r, ok := h.Registered.Find(addr)
	switch {
	case !ok || r.Value.Access == 0:
		return fmt.Errorf("%s at %#x, not in an allocation of a device", human.Plural(n, "byte"), addr)
	case n > r.End()-addr:
		return fmt.Errorf("%s at %#x, up to %s past the end of the registered host memory (%s at %#x)", human.Plural(n, "byte"), addr, human.Plural(addr+n-r.End(), "byte"), human.Plural(r.Size, "byte"), r.Addr)
	case access&^r.Value.Access != 0:
		return fmt.Errorf("%s at %#x may not be %s", human.Plural(n, "byte"), addr, space.AccessName(access&^r.Value.Access))
	}
	return nil
}

func (h *Host) Close() {
	h.Lock()
	defer h.Unlock()
	for _, r := range h.Live.All() {
		space.Unmap(r.Addr, r.Size)
	}
	h.Live.Clear()
	h.Registered.Clear()
}
