package uprobe

import (
	"fmt"
	"os"
	"strings"

	"github.com/acltrace/acltrace/internal/regular"
	"github.com/acltrace/acltrace/probe"
	"golang.org/x/sys/unix"
)

// knownProcess is what is kept of a process that the sink was told of.
type knownProcess struct {
	start     int64
	exe, argv string
	root      int // its root directory, -1 where it was gone
	cwd       string
}

// process tells the sink of a process when it is new or has become another program. When its first calls are read it
// may be gone; then the name that the kernel gave is all there is.
func (d *decoder) process(pid int, comm string, now int64) error {
	old := d.processes[pid]
	if old != nil && comm == "" {
		return nil
	}
	p := readProcess(pid)
	if p == nil {
		if old != nil {
			return nil
		}
		p = &probe.Process{PID: pid, Local: pid, Start: now, Exe: comm}
	}
	known := &knownProcess{start: p.Start, exe: p.Exe, argv: strings.Join(p.Argv, "\x00"), root: -1}
	if old != nil {
		if old.start == known.start && old.exe == known.exe && old.argv == known.argv {
			return nil
		}
		old.close()
		d.kernels.leave(pid, probe.Now())
	}
	dir := fmt.Sprintf("/proc/%d/", pid)
	if fd, err := unix.Open(dir+"root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		known.root = fd
	}
	known.cwd, _ = os.Readlink(dir + "cwd")
	d.processes[pid] = known
	return d.sink.Process(p)
}

func (p *knownProcess) close() {
	if p.root >= 0 {
		unix.Close(p.root)
		p.root = -1
	}
}

// maxArguments is longer than what the kernel takes at the start of a program; a running one can say that it has more.
const maxArguments = 8 << 20

// readProcess returns what /proc says, nil where the process is gone.
func readProcess(pid int) *probe.Process {
	dir := fmt.Sprintf("/proc/%d/", pid)
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return nil
	}
	// The name is in brackets and may hold anything; from there on it is numbers: state, parent, ….
	s := string(stat)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 20 {
		return nil
	}
	p := &probe.Process{PID: pid, Local: pid}
	var ticks int64
	fmt.Sscan(fields[1], &p.PPID)
	fmt.Sscan(fields[19], &ticks)
	var mono, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) == nil && unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) == nil {
		// The kernel counts in hundredths of a second since boot, with the time asleep.
		p.Start = ticks*1e7 - (boot.Nano()-mono.Nano())/1e7*1e7
	}
	p.Exe, _ = os.Readlink(dir + "exe")
	if line, err := regular.ReadFile(dir+"cmdline", maxArguments); err == nil {
		p.Argv = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	}
	return p
}
