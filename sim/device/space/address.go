package space

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pointer makes a pointer of an address in this process that Go does not own, or that a test keeps alive. It is not
// inlined: Go 1.26's compiler fails on a copy whose pointers it can trace to integers.
//
//go:noinline
func Pointer(a uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

// Bytes is the memory at an address.
func Bytes(a, n uint64) []byte { return unsafe.Slice((*byte)(Pointer(a)), int(n)) }

// AddressOf is the address that a pointer of the program's holds; 0 for null.
func AddressOf[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// List is an array of the program's.
func List[T any](p *T, n uint64) []T { return unsafe.Slice(p, int(n)) }

// GoString reads a NUL-terminated string of the program's; "" for null.
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

// PutText stores a string with its NUL, cut to what fits.
func PutText(b []byte, s string) {
	n := copy(b[:len(b)-1], s)
	b[n] = 0
}

// Guard runs f and returns the memory fault that it raised, if any: the program's addresses are its own affair, and a
// bad one must end the call or the task but not the process.
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

// Caught is the memory fault that a panic stands for. Any other panic goes on.
func Caught(r any) error {
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

func RoundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

const PageSize = 4096

// MapAnywhere maps memory outside the device window, where the kernel likes. 0 where there is none.
func MapAnywhere(size uint64) uint64 {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 0
	}
	return uint64(uintptr(p))
}

func Unmap(addr, size uint64) { _ = unix.MunmapPtr(Pointer(addr), uintptr(size)) }

// MapAt maps memory at an address where nothing lies yet.
func MapAt(addr, size uint64, prot int) error {
	p, err := unix.MmapPtr(-1, 0, Pointer(addr), uintptr(size), prot,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED_NOREPLACE)
	if err != nil {
		return err
	}
	if got := uint64(uintptr(p)); got != addr { // a kernel before 4.17 takes the address for a hint
		Unmap(got, size)
		return unix.EEXIST
	}
	return nil
}
