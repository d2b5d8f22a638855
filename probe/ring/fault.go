package ring

import (
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/acltrace/acltrace/probe"
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
	if within(unsafe.Pointer(unsafe.SliceData(s.mem)), uintptr(len(s.mem))) {
		s.uncontrolled.Store(true)
		return true
	}
	if within(unsafe.Pointer(unsafe.SliceData(s.arena)), uintptr(len(s.arena))) {
		s.arenaGone = true
		return true
	}
	for _, r := range s.rings {
		if r != nil && within(r.mem, r.length) {
			r.truncated = true
			return true
		}
	}
	for _, m := range s.members {
		if within(unsafe.Pointer(m.live), processBytes) {
			return true
		}
	}
	return false
}

// Damage is a part of a session that a program has overwritten or truncated.
type Damage struct {
	PID, TID int // of the thread whose ring it was; no TID: all threads and processes that came later are not recorded
	Exe      string
	What     string
}

// Damage returns what programs have done to the session. Valid after Finish.
func (s *Session) Damage() []Damage {
	all := s.damage
	if s.uncontrolled.Load() {
		d := Damage{What: "the control file of the recording truncated"}
		for _, m := range s.members {
			if m.said != nil {
				d.PID, d.Exe = m.pid, m.describe().Exe
				break
			}
		}
		all = append(all, d)
	}
	return all
}

// leastCall is less than any program takes to make a call, in nanoseconds.
const leastCall = 5

// possible reports whether one thread can have made so many calls since the session began.
func (s *Session) possible(calls uint64) bool {
	return calls <= uint64(probe.Now()-s.began)/leastCall
}

// clamp bounds a count of events that all threads report together by what the machine can do.
func (s *Session) clamp(n uint64) uint64 {
	return min(n, uint64(probe.Now()-s.began)/leastCall*uint64(runtime.NumCPU()))
}
