package uprobe

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/internal/regular"
)

// capability has the name that setcap uses.
type capability struct {
	bit  int
	name string
}

var (
	forUprobes = []capability{{unix.CAP_BPF, "cap_bpf"}, {unix.CAP_PERFMON, "cap_perfmon"}}
	// Only the owner may search the map_files of a process.
	forProcesses = []capability{{unix.CAP_CHECKPOINT_RESTORE, "cap_checkpoint_restore"}, {unix.CAP_SYS_PTRACE, "cap_sys_ptrace"}, {unix.CAP_DAC_READ_SEARCH, "cap_dac_read_search"}}
	forAll       = capability{unix.CAP_SYS_ADMIN, "cap_sys_admin"}
	forMemory    = capability{unix.CAP_SYS_RESOURCE, "cap_sys_resource"}
)

// Without it, the memory of BPF programs counts as locked memory of the process.
var cgroupAccounting = &Feature{Name: "memory of programs counted in the control group", Linux: "5.11"}

// MissingCapabilities returns the capabilities that this process lacks to attach uprobes to processes of any user, and all that
// are needed, because setcap replaces the existing ones. With oneByOne it assumes perf events, which need more.
func MissingCapabilities(oneByOne bool) (missing, all []string) {
	have := capabilities()
	want := slices.Concat(forUprobes, forProcesses)
	if oneByOne {
		want = slices.Concat([]capability{forAll}, forProcesses)
	}
	if oneByOne || have&(1<<forAll.bit) != 0 {
		have |= 1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON | 1<<unix.CAP_CHECKPOINT_RESTORE // implied by CAP_SYS_ADMIN
	}
	var locked unix.Rlimit
	if !cgroupAccounting.Supported() && unix.Getrlimit(unix.RLIMIT_MEMLOCK, &locked) == nil && locked.Max != unix.RLIM_INFINITY {
		want = append(want, forMemory)
	}
	for _, c := range want {
		all = append(all, c.name)
		if have&(1<<c.bit) == 0 {
			missing = append(missing, c.name)
		}
	}
	return missing, all
}

func capabilities() uint64 {
	status, _ := os.ReadFile("/proc/self/status")
	have, _ := strconv.ParseUint(procstat.Field(status, "CapEff"), 16, 64)
	return have
}

// DropCapabilities drops all capabilities except those that probes on later libraries need.
func DropCapabilities(oneByOne bool) error {
	keep := uint64(0)
	for _, c := range slices.Concat(forUprobes, forProcesses) {
		keep |= 1 << c.bit
	}
	if oneByOne {
		keep |= 1 << forAll.bit
	}
	keep &= capabilities()
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{}
	for i := range data {
		part := uint32(keep >> (32 * i))
		data[i] = unix.CapUserData{Effective: part, Permitted: part}
	}
	// Capabilities belong to threads, so all threads of the Go runtime drop them.
	if _, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&data)), 0); e != 0 {
		return fmt.Errorf("drop capabilities: %w", e)
	}
	return nil
}

// ReachesProcesses tries to open a file that a process of another user maps, through map_files, as for a library in a container.
// One success is enough. If there is no such process, it tries this one.
func ReachesProcesses() error {
	pids, err := named("")
	if err != nil {
		return err
	}
	var denied error
	for _, pid := range append(pids, os.Getpid()) {
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) != nil || int(st.Uid) == os.Getuid() && os.Getuid() != 0 && (pid != os.Getpid() || denied != nil) {
			continue
		}
		ok, err := opensMapped(pid)
		if ok {
			return nil
		}
		if err != nil && (denied == nil || pid == os.Getpid()) {
			denied = err
		}
	}
	return denied
}

func opensMapped(pid int) (bool, error) {
	maps, err := procstat.Text(pid, "maps")
	if err != nil {
		return false, err
	}
	for f := range procstat.Mapped(maps) {
		path := mapFile(pid, f.From, f.To)
		if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
			continue // do not open devices
		}
		file, err := regular.Open(path)
		if err == nil {
			return true, file.Close()
		}
		return false, err
	}
	return false, nil // a kernel thread maps no files
}
