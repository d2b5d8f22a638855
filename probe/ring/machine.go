package ring

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory is the session's memory use, in bytes.
type Memory struct {
	Ring  uint64 // for each thread
	Limit uint64 // for all rings together
	Arena uint64 // allocated for large payloads
	Left  uint64 // available in the memory cgroup of this process, math.MaxUint64 if unlimited
}

// Memory returns the session's memory use.
func (s *Session) Memory() Memory {
	return Memory{Ring: s.rings.bytes, Limit: s.files.ctl.memoryLimit, Arena: uint64(len(s.files.arena)), Left: memoryLeft()}
}

// Clock describes the clock that the shim reads on this machine.
func Clock() string {
	if counterFit() {
		return "the processor's counter"
	}
	return "clock_gettime as a system call, since the processor's counter does not tick evenly"
}

// ReadsOwnMemory tries process_vm_readv. The shim reads memory with it that may not be mapped.
func ReadsOwnMemory() error {
	from, to := [8]byte{1, 2, 3}, [8]byte{}
	n, err := unix.ProcessVMReadv(os.Getpid(), []unix.Iovec{{Base: &to[0], Len: 8}},
		[]unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from)), Len: 8}}, 0)
	if err == nil && (n != 8 || from != to) {
		err = unix.EIO
	}
	return err
}
