package uprobe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/probe/bpf"
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// selection is the set of processes to record, in the form that the BPF programs use.
type selection struct {
	filter uint8
	name   [2]uint64
	cgroup uint64 // id; level is its depth
	level  uint32
	folder string // a group without an id: its processes are listed at the start
}

func (o *Options) selection() (selection, error) {
	s := selection{filter: filterAll}
	switch {
	case o.Name != "" && o.Cgroup != "", o.Name != "" && o.PIDs != nil, o.Cgroup != "" && o.PIDs != nil:
		return s, errors.New("processes are selected by number, by name or by control group, not by two of them")
	case o.PIDs != nil:
		s.filter = filterPIDs
	case o.Name != "":
		var name [16]byte
		copy(name[:15], o.Name) // the kernel's limit
		s.filter, s.name = filterPIDs, [2]uint64{binary.NativeEndian.Uint64(name[:]), binary.NativeEndian.Uint64(name[8:])}
	case o.Cgroup != "":
		return s, s.group(o.Cgroup)
	}
	return s, nil
}

// Without it, programs can't recognize the processes in a control group.
var ancestorCgroups = &Feature{Name: "control groups above that of a process", Linux: "5.15", test: func() error {
	return features.HaveProgramHelper(ebpf.Kprobe, asm.FnGetCurrentAncestorCgroupId)
}}

// group sets the id and depth of a control group of version 2. Groups of version 1, and all groups on kernels without
// ancestorCgroups, are selected by PID.
func (s *selection) group(folder string) error {
	var at unix.Stat_t
	if err := unix.Stat(folder, &at); err != nil {
		return fmt.Errorf("control group %s: %w", folder, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "cgroup.procs")); err != nil {
		return fmt.Errorf("%s is no control group: it has no cgroup.procs", folder)
	}
	var sys unix.Statfs_t
	if err := unix.Statfs(folder, &sys); err != nil {
		return fmt.Errorf("control group %s: %w", folder, err)
	}
	if sys.Type != unix.CGROUP2_SUPER_MAGIC || !ancestorCgroups.Supported() {
		s.filter, s.folder = filterPIDs, folder
		return nil
	}
	s.filter, s.cgroup = filterCgroup, at.Ino
	// The hierarchy's root is the last ancestor in the same file system.
	for dir := filepath.Clean(folder); ; s.level++ {
		var above unix.Stat_t
		dir = filepath.Join(dir, "..")
		if err := unix.Stat(dir, &above); err != nil || above.Dev != at.Dev {
			return nil
		}
		if s.level > 256 {
			return fmt.Errorf("control group %s lies too deep", folder)
		}
	}
}

// addSelected adds the selected processes to the map of recorded PIDs.
func (u *Probes) addSelected() error {
	if u.selection.filter != filterPIDs {
		return nil
	}
	chosen, err := u.selected()
	if err != nil {
		return err
	}
	for _, pid := range chosen {
		if err := u.programs.coll.Maps[bpf.UprobeMapPids].Put(uint32(pid), pidLives); err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return nil
}

func (u *Probes) selected() ([]int, error) {
	switch {
	case u.opts.Name != "":
		return named(u.opts.Name)
	case u.selection.folder != "":
		return inGroup(u.selection.folder)
	}
	return u.opts.PIDs, nil
}

// Processes returns the processes that the options select now.
func (o *Options) Processes() ([]int, error) {
	whose, err := o.selection()
	if err != nil {
		return nil, err
	}
	return (&Probes{opts: *o, selection: whose}).Candidates()
}

// Candidates returns the processes that are selected now.
func (u *Probes) Candidates() ([]int, error) {
	switch u.selection.filter {
	case filterCgroup:
		return inGroup(u.opts.Cgroup)
	case filterAll:
		return named("")
	}
	return u.selected()
}

// selects reports whether a process is selected, as far as this process can see.
func (u *Probes) selects(pid int) bool {
	switch {
	case u.selection.filter == filterAll:
		return true
	case u.opts.PIDs != nil:
		// The process or an ancestor.
		for ; pid > 1; pid = parentOf(pid) {
			if slices.Contains(u.opts.PIDs, pid) {
				return true
			}
			var state uint8
			if u.programs.coll.Maps[bpf.UprobeMapPids].Lookup(uint32(pid), &state) == nil {
				return true
			}
		}
		return false
	}
	pids, _ := u.Candidates()
	return slices.Contains(pids, pid)
}

func parentOf(pid int) int {
	if p := readProcess(pid); p != nil {
		return p.PPID
	}
	return 0
}

// named returns the processes with a name, all if name is "".
func named(name string) ([]int, error) {
	pids, err := procstat.PIDs()
	if name == "" {
		return pids, err
	}
	name = name[:min(len(name), 15)]
	return slices.DeleteFunc(pids, func(pid int) bool {
		b, err := procstat.Text(pid, "comm")
		return err != nil || strings.TrimSuffix(string(b), "\n") != name
	}), err
}

// inGroup returns the processes in a control group and its descendants.
func inGroup(folder string) (pids []int, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "cgroup.procs" {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed since
			}
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		for _, line := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(line); err == nil {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("control group %s: %w", folder, err)
	}
	return pids, nil
}

// tidy removes ended processes from the map, at most once a second. The BPF programs only notice when the first thread ends.
func (u *Probes) tidy() {
	if u.selection.filter != filterPIDs || time.Since(u.tidied) < time.Second {
		return
	}
	u.tidied = time.Now()
	var pid uint32
	var state uint8
	var gone []uint32
	pids := u.programs.coll.Maps[bpf.UprobeMapPids]
	for it := pids.Iterate(); it.Next(&pid, &state); {
		if state == pidLeaderGone && errors.Is(unix.Kill(int(pid), 0), unix.ESRCH) {
			gone = append(gone, pid)
		}
	}
	for _, pid := range gone {
		_ = pids.Delete(pid)
	}
}

// Living returns the selected PIDs that still exist, and those of their descendants that have called the runtime.
func (u *Probes) Living() (pids []int) {
	var pid uint32
	var state uint8
	for it := u.programs.coll.Maps[bpf.UprobeMapPids].Iterate(); it.Next(&pid, &state); {
		if !errors.Is(unix.Kill(int(pid), 0), unix.ESRCH) {
			pids = append(pids, int(pid))
		}
	}
	return pids
}
