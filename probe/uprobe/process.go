package uprobe

import (
	"fmt"
	"os"
	"strings"

	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/internal/regular"
	"github.com/acltrace/acltrace/probe"
	"golang.org/x/sys/unix"
)

// knownProcess is a process that was delivered to the sink.
type knownProcess struct {
	start     int64
	exe, argv string
	root      int // descriptor of its root directory, -1 if it had ended
	cwd       string
}

// process delivers a process to the sink if it is new or has called exec. If it has ended already, the kernel's name for it is
// all that is known.
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
		d.kernels.endProcess(pid, probe.Now())
		d.callers.endProcess(pid)
	}
	d.callers.learn(pid)
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

// maxArguments exceeds the kernel's limit for a new program. A running program can enlarge its command line.
const maxArguments = 8 << 20

// readProcess returns a process from /proc, nil if it has ended.
func readProcess(pid int) *probe.Process {
	stat := procstat.Read(pid)
	if !stat.Exists() {
		return nil
	}
	p := &probe.Process{PID: pid, Local: pid, PPID: stat.Parent}
	// Two readings of the clocks give the same time.
	p.Start = stat.Start - procstat.Suspended()/procstat.Tick*procstat.Tick
	dir := fmt.Sprintf("/proc/%d/", pid)
	p.Exe, _ = os.Readlink(dir + "exe")
	if line, err := regular.ReadFile(dir+"cmdline", maxArguments); err == nil {
		p.Argv = procstat.Args(string(line))
	}
	return p
}
