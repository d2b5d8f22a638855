package probe

import (
	"os"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// Memory is what a session takes of the machine's memory, in bytes.
type Memory struct {
	Ring  uint64 // of a thread
	Limit uint64 // of all rings together
	Arena uint64 // for large payloads, taken already
	Left  uint64 // in the memory cgroup of this process, math.MaxUint64 where nothing limits it
}

// Memory returns what the session takes.
func (s *Session) Memory() Memory {
	return Memory{Ring: s.ctl.ringBytes, Limit: s.ctl.memoryLimit, Arena: uint64(len(s.arena)), Left: memoryLeft()}
}

// Clock names the clock that the shim reads on this machine.
func Clock() string {
	if counterFit() {
		return "the processor's counter"
	}
	return "clock_gettime as a system call, since the processor's counter does not tick evenly"
}

// ReadsOwnMemory tries process_vm_readv, by which the shim reads memory that may not be there.
func ReadsOwnMemory() error {
	from, to := [8]byte{1, 2, 3}, [8]byte{}
	n, err := unix.ProcessVMReadv(os.Getpid(), []unix.Iovec{{Base: &to[0], Len: 8}},
		[]unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&from)), Len: 8}}, 0)
	if err == nil && (n != 8 || from != to) {
		err = unix.EIO
	}
	return err
}

// UprobeKind names the way in which this kernel attaches uprobes.
func UprobeKind() string {
	if features.HaveBPFLinkUprobeMulti() == nil {
		return "all at once (uprobe_multi)"
	}
	return "one by one (perf events)"
}

// MissingCapabilities returns what this process lacks to attach uprobes, as setcap names them.
func MissingCapabilities() []string {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	_, after, _ := strings.Cut(string(b), "CapEff:")
	line, _, _ := strings.Cut(after, "\n")
	have, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil || have&(1<<unix.CAP_SYS_ADMIN) != 0 {
		return nil
	}
	want := []struct {
		bit  int
		name string
	}{{unix.CAP_BPF, "cap_bpf"}, {unix.CAP_PERFMON, "cap_perfmon"}}
	if have&(1<<unix.CAP_BPF) != 0 && have&(1<<unix.CAP_PERFMON) != 0 && features.HaveBPFLinkUprobeMulti() != nil {
		return []string{"cap_sys_admin"} // attaching one by one takes it on some kernels
	}
	var missing []string
	for _, c := range want {
		if have&(1<<c.bit) == 0 {
			missing = append(missing, c.name)
		}
	}
	return missing
}
