package memory

import (
	"fmt"
	"sync"

	"github.com/acltrace/acltrace/sim/device/space"
)

// Host is the host memory that the runtime knows: pinned allocations and registered memory. Lookups take no lock.
type Host struct {
	sync.Mutex // for changes
	Live       space.Regions[struct{}]
	Registered space.Regions[Registration]
	Marks      space.Marks // marks of unknown bytes, for all host memory
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

// Check returns an error unless a device may access n bytes of host memory.
func (h *Host) Check(addr, n uint64, access uint32) error {
	r, ok := h.Registered.Find(addr)
	switch {
	case !ok || r.Value.Access == 0:
		return fmt.Errorf("%d bytes at %#x lie in no allocation of a device", n, addr)
	case n > r.End()-addr:
		return fmt.Errorf("%d bytes at %#x end %d bytes behind the registered host memory of %d bytes at %#x", n, addr, addr+n-r.End(), r.Size, r.Addr)
	case access&^r.Value.Access != 0:
		return fmt.Errorf("%d bytes at %#x may not be %s", n, addr, space.AccessName(access&^r.Value.Access))
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
