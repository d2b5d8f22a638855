package space

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pointer converts an address that Go does not own, or that a test keeps alive. It is not inlined, since Go 1.26's
// compiler fails on copies whose pointers it can trace to integers.
//
//go:noinline
func Pointer(a uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

// Bytes returns the memory at an address.
func Bytes(a, n uint64) []byte { return unsafe.Slice((*byte)(Pointer(a)), int(n)) }

// AddressOf returns the address in a pointer; 0 for null.
func AddressOf[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// List returns a program array.
func List[T any](p *T, n uint64) []T { return unsafe.Slice(p, int(n)) }

// GoString reads a NUL-terminated string; "" for null.
func GoString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// PutText stores a string with its NUL, cut to the buffer.
func PutText(b []byte, s string) {
	n := copy(b[:len(b)-1], s)
	b[n] = 0
}

// Guard runs f and returns a memory fault as an error. A bad program address must end only the call or task.
func Guard(f func()) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			err = Caught(r)
		}
	}()
	f()
	return nil
}

// Caught returns the memory fault of a recovered panic. Other panics continue.
func Caught(r any) error {
	err := Fault(r)
	if _, ok := r.(runtime.Error); !ok || err == nil {
		panic(r)
	}
	return err
}

// Fault returns the error of a recovered memory fault; nil for other panics. Callers that pass foreign addresses to a
// Thread recover with it.
func Fault(r any) error {
	if f, ok := r.(interface{ Addr() uintptr }); ok {
		return fmt.Errorf("memory fault at %#x", f.Addr())
	}
	return nil
}

func RoundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

const PageSize = 4096

// MapAnywhere maps memory at an address that the system chooses; 0 on failure.
func MapAnywhere(size uint64) uint64 {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0
	}
	return uint64(uintptr(p))
}

func Unmap(addr, size uint64) { _ = unix.MunmapPtr(Pointer(addr), uintptr(size)) }

// MapAt maps memory at a free address.
func MapAt(addr, size uint64, prot int) error {
	p, err := unix.MmapPtr(-1, 0, Pointer(addr), uintptr(size), prot,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED_NOREPLACE)
	if err != nil {
		return err
	}
	if got := uint64(uintptr(p)); got != addr { // before Linux 4.17 the address is only a hint
		Unmap(got, size)
		return unix.EEXIST
	}
	return nil
}
