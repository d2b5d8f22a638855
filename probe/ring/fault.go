package ring

import (
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The files of a session belong to the programs too, and a program can truncate them. Whoever touches a page that a file no
// longer has gets SIGBUS. So every access to shared memory runs in touch, and what is handed to a sink is a copy: a sink is
// never interrupted half-way.

// touch runs f, and runs it again if a file of the session turned out to be truncated. Memory of that file reads as zeros
// from then on: see replace.
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

// replace puts zeros of this process's own in the place of the truncated file that has an address, and gives up what the file
// held. False means that no file of the session is mapped there.
func (s *Session) replace(addr uintptr) bool {
	within := func(p unsafe.Pointer, n uintptr) bool {
		if p == nil || addr-uintptr(p) >= n {
			return false
		}
		_, err := unix.MmapPtr(-1, 0, p, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED|unix.MAP_NORESERVE)
		return err == nil
	}
	// The only one that several goroutines touch.
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
		if within(unsafe.Pointer(m.live), processBytes) {
			return true
		}
	}
	return false
}
