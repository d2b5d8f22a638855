package ring

import (
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Programs map the files of a session too, and can truncate them. Access to a page beyond the end of a file raises SIGBUS.
// So all access to shared memory runs inside touch, and a sink gets copies: a fault never interrupts a sink.

// touch runs f. If f faults because a file was truncated, touch maps zeros in place of the file and runs f again.
func (s *Session) touch(f func()) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for !s.attempt(f) {
	}
}

// touched is touch for a function with a result.
func touched[T any](s *Session, f func() T) (v T) {
	s.touch(func() { v = f() })
	return v
}

func (s *Session) attempt(f func()) (done bool) {
	defer func() {
		if done {
			return
		}
		e := recover()
		fault, ok := e.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !ok || !s.replace(fault.Addr()) {
			panic(e)
		}
	}()
	f()
	return true
}

// replace maps private zeros over the truncated file at an address and marks the file as gone. It returns false if no file of
// the session is mapped there.
func (s *Session) replace(addr uintptr) bool {
	within := func(p unsafe.Pointer, n uintptr) bool {
		if p == nil || addr-uintptr(p) >= n {
			return false
		}
		_, err := unix.MmapPtr(-1, 0, p, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED|unix.MAP_NORESERVE)
		return err == nil
	}
	// The control file is the only one that several goroutines access.
	if within(unsafe.Pointer(unsafe.SliceData(s.files.control)), uintptr(len(s.files.control))) {
		s.files.controlGone.Store(true)
		return true
	}
	if within(unsafe.Pointer(unsafe.SliceData(s.files.arena)), uintptr(len(s.files.arena))) {
		s.files.arenaGone = true
		return true
	}
	for _, r := range s.rings.bySlot {
		if r != nil && within(r.mem, r.length) {
			r.truncated = true
			return true
		}
	}
	for _, m := range s.processes.members {
		if within(unsafe.Pointer(m.shared), processBytes) {
			return true
		}
	}
	return false
}
