package ring

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memoryLeft returns the bytes that the memory cgroup of this process has left, not counting caches, or math.MaxUint64 if
// nothing limits it. Beyond the limit, allocation does not fail: the kernel kills a process of the cgroup. In the program,
// probe/shim/base/limits.c does the same.
func memoryLeft() uint64 {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return math.MaxUint64
	}
	least := uint64(math.MaxUint64)
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(f) < 3:
		case f[1] == "memory":
			least = min(least, leftIn("/sys/fs/cgroup/memory", f[2], "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "))
		case f[0] == "0" && f[1] == "":
			least = min(least, leftIn("/sys/fs/cgroup", f[2], "memory.max", "memory.current", "inactive_file "))
		}
	}
	return least
}

// leftIn returns the least that is left in a cgroup and its ancestors. In a container the path may be the host's, and only
// the mount point exists.
func leftIn(mount, group, limit, usage, cached string) uint64 {
	least := uint64(math.MaxUint64)
	for dir := filepath.Join(mount, group); ; dir = filepath.Dir(dir) {
		if max, ok := number(dir, limit, ""); ok {
			used, _ := number(dir, usage, "")
			files, _ := number(dir, "memory.stat", cached)
			used -= min(used, files)
			least = min(least, max-min(max, used))
		}
		if len(dir) <= len(mount) {
			return least
		}
	}
}

// number reads the number in a file, or after a key in it.
func number(dir, file, key string) (uint64, bool) {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(rest)), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// Memory is the session's memory use, in bytes.
type Memory struct {
	Ring  uint64 // for a thread, at most
	Limit uint64 // for all rings together
	Arena uint64 // allocated for large payloads
	Left  uint64 // available in the memory cgroup of this process, math.MaxUint64 if unlimited
}

// Memory returns the session's memory use.
func (s *Session) Memory() Memory {
	return Memory{Ring: s.rings.bytes, Limit: s.files.ctl.memoryLimit, Arena: uint64(len(s.files.arena)), Left: memoryLeft()}
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
