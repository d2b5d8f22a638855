package sim

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pointer makes a pointer of an address in this process that Go does not own, or that a test keeps alive. It is not
// inlined: Go 1.26's compiler fails on a copy whose pointers it can trace to integers.
//
//go:noinline
func pointer(a uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

// hostBytes is the memory at an address.
func hostBytes(a, n uint64) []byte { return unsafe.Slice((*byte)(pointer(a)), int(n)) }

// addressOf is the address that a pointer of the program's holds; 0 for null.
func addressOf[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// list is an array of the program's.
func list[T any](p *T, n uint64) []T { return unsafe.Slice(p, int(n)) }

// goString reads a NUL-terminated string of the program's; "" for null.
func goString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// putText stores a string with its NUL, cut to what fits.
func putText(b []byte, s string) {
	n := copy(b[:len(b)-1], s)
	b[n] = 0
}

// guard runs f and returns the memory fault that it raised, if any: the program's addresses are its own affair, and a
// bad one must end the call or the task but not the process.
func guard(f func()) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			err = caught(r)
		}
	}()
	f()
	return nil
}

// caught is the memory fault that a panic stands for. Any other panic goes on.
func caught(r any) error {
	err := Fault(r)
	if _, ok := r.(runtime.Error); !ok || err == nil {
		panic(r)
	}
	return err
}

// Fault tells whether a recovered panic was an access to memory that is not there, and returns the error, else nil. Who
// calls methods of Thread with addresses of a stranger's recovers with it.
func Fault(r any) error {
	if f, ok := r.(interface{ Addr() uintptr }); ok {
		return fmt.Errorf("memory fault at %#x", f.Addr())
	}
	return nil
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

const pageSize = 4096

// mapAnywhere maps memory outside the device window, where the kernel likes. 0 where there is none.
func mapAnywhere(size uint64) uint64 {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0
	}
	return uint64(uintptr(p))
}

func unmap(addr, size uint64) { _ = unix.MunmapPtr(pointer(addr), uintptr(size)) }

// hostMemory is the host memory that the runtime knows: pinned allocations, and what the program registered. Lookups take
// no lock.
type hostMemory struct {
	mu         sync.Mutex // for changes
	live       regions[struct{}]
	registered regions[registration]
	unknown    unknowns // what depends on unknown kernels, of all host memory
}

// registration is what the program registered host memory for.
type registration struct {
	pinned bool   // asynchronous copies need not wait for it
	access uint32 // that devices have to it
}

func (h *hostMemory) alloc(size uint64) uint64 {
	size = roundUp(size, pageSize)
	a := mapAnywhere(size)
	if a == 0 {
		return 0
	}
	h.mu.Lock()
	h.live.insert(region[struct{}]{span: span{a, size}})
	h.mu.Unlock()
	return a
}

func (h *hostMemory) free(addr uint64) bool {
	h.mu.Lock()
	s, ok := h.live.remove(addr)
	h.mu.Unlock()
	if ok {
		h.unknown.clear(s.span)
		unmap(s.addr, s.size)
	}
	return ok
}

// find returns the pinned memory that an address lies in.
func (h *hostMemory) find(addr uint64) (span, bool) {
	if r, ok := h.live.find(addr); ok {
		return r.span, true
	}
	if r, ok := h.registered.find(addr); ok && r.v.pinned {
		return r.span, true
	}
	return span{}, false
}

// check tells whether a device may access n bytes of host memory.
func (h *hostMemory) check(addr, n uint64, access uint32) error {
	r, ok := h.registered.find(addr)
	switch {
	case !ok || r.v.access == 0:
		return fmt.Errorf("%d bytes at %#x lie in no allocation of a device", n, addr)
	case n > r.end()-addr:
		return fmt.Errorf("%d bytes at %#x end %d bytes behind the registered host memory of %d bytes at %#x", n, addr, addr+n-r.end(), r.size, r.addr)
	case access&^r.v.access != 0:
		return fmt.Errorf("%d bytes at %#x may not be %s", n, addr, accessName(access&^r.v.access))
	}
	return nil
}

func (h *hostMemory) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.live.all() {
		unmap(r.addr, r.size)
	}
	h.live.clear()
	h.registered.clear()
}

const (
	textBufferSize = 4096
	textChunk      = 1 << 20
)

// textArena is host memory that is handed to the program and stays where it is: texts, and the blocks of argument
// lists.
type textArena struct {
	mu     sync.Mutex
	chunks []uint64
	next   uint64
	end    uint64
	free   map[uint64][]uint64 // by size
}

// get returns size bytes, a multiple of 8 and at most textChunk.
func (t *textArena) get(size uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.free[size]; len(f) > 0 {
		t.free[size] = f[:len(f)-1]
		return f[len(f)-1]
	}
	if t.end-t.next < size {
		c := mapAnywhere(textChunk)
		if c == 0 {
			panic("out of host memory")
		}
		t.chunks = append(t.chunks, c)
		t.next, t.end = c, c+textChunk
	}
	a := t.next
	t.next += size
	return a
}

func (t *textArena) put(a, size uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free == nil {
		t.free = map[uint64][]uint64{}
	}
	t.free[size] = append(t.free[size], a)
}

// add stores a text for good.
func (t *textArena) add(s string) uint64 {
	a := t.get(roundUp(uint64(len(s))+1, 8))
	putText(hostBytes(a, uint64(len(s))+1), s)
	return a
}

func (t *textArena) close() {
	for _, c := range t.chunks {
		unmap(c, textChunk)
	}
	t.chunks, t.free, t.next, t.end = nil, nil, 0, 0
}
