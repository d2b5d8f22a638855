package replay

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/internal/regular"
)

// The simulator reserves far more addresses than it uses, so limits on address space or file sizes do not work. The memory of the players
// is measured while they run, and so are the files in their folder. They are the processes of one session, which the sandbox does not let
// them leave. If this process is killed, the guard ends the session.

// A measurement takes a fiftieth of the time, or more if it is so slow that players could take much memory in between, or if they have taken
// half of their limit.
const (
	memoryTick     = 20 * time.Millisecond
	longMemoryTick = 100 * time.Millisecond
)

// defaultMemory is the default for Options.MaxMemory: a quarter of the machine's memory.
func defaultMemory() uint64 {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return 0
	}
	return s.Totalram * uint64(s.Unit) / 4
}

// memoryLimit returns the session's memory limit, 0 for none. A trusted runtime has none.
func (s *session) memoryLimit() uint64 {
	switch {
	case s.o.MaxMemory > 0:
		return uint64(s.o.MaxMemory)
	case s.boxed():
		return defaultMemory()
	}
	return 0
}

// members returns a session's processes.
func members(session int) []int {
	pids, _ := procstat.PIDs()
	return slices.DeleteFunc(pids, func(pid int) bool {
		st := procstat.Read(pid)
		return st.Session != session || !runs(st)
	})
}

// runs reports whether a process has not ended. If its first thread has, other threads may run.
func runs(st procstat.Stat) bool { return st.Lives() || st.Exists() && st.Threads > 1 }

// folderOf returns the folder in /proc of a process's first thread that runs: one that has ended shows no memory and no files.
func folderOf(pid int) string {
	proc := fmt.Sprintf("/proc/%d", pid)
	if !procstat.Read(pid).Zombie() {
		return proc
	}
	for _, tid := range regular.Names(proc + "/task") {
		if id, err := strconv.Atoi(tid); err == nil && id != pid {
			return proc + "/task/" + tid
		}
	}
	return proc
}

// endSession kills all processes in a session, including new ones.
func endSession(session int) {
	for range 1000 {
		pids := members(session)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

// fields returns the sum of some fields, in KiB, in a file of /proc.
func fields(path string, names ...string) (sum uint64) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		for _, n := range names {
			if n == name {
				kib, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
				sum += kib << 10
			}
		}
	}
	return sum
}

// unlinked returns the storage of the files without a name that a process has open, each file once: files in memory, and deleted ones.
func unlinked(proc string, seen map[uint64]bool) (sum uint64) {
	dir := proc + "/fd"
	names := regular.Names(dir)
	if len(names) == regular.MaxNames {
		return math.MaxInt64 // more may be open
	}
	for _, name := range names {
		var st syscall.Stat_t
		if syscall.Stat(filepath.Join(dir, name), &st) == nil && st.Nlink == 0 && st.Mode&syscall.S_IFMT == syscall.S_IFREG && !seen[st.Ino] {
			seen[st.Ino] = true
			sum += uint64(st.Blocks) * 512
		}
	}
	return sum
}

// leastFile is the least that a file counts, for its name and its attributes.
const leastFile = 4096

// stored returns the storage of the files in a folder, each file once. The sandbox allows no folders in it. More names than are read count
// as too much.
func stored(dir string) (sum uint64) {
	names := regular.Names(dir)
	if len(names) == regular.MaxNames {
		return math.MaxUint64
	}
	seen := map[uint64]bool{}
	for _, name := range names {
		var st syscall.Stat_t
		if syscall.Lstat(filepath.Join(dir, name), &st) == nil && !seen[st.Ino] {
			seen[st.Ino] = true
			sum += max(uint64(st.Blocks)*512, leastFile)
		}
	}
	return sum
}

// A usage is the memory of a session's processes, as far as it is known without looking at single mappings.
type usage struct {
	least, most            uint64 // bounds of the memory
	private, files, tables uint64
	procs                  []string // folders in /proc
}

// measure returns a session's usage. Shared memory counts once in its least: a file in memory by its pages, private memory by the process that
// has the most, since forked processes may share theirs. This takes little time, also while the processes take memory.
func measure(session int) (u usage) {
	seen := map[uint64]bool{}
	var shared, private uint64
	for _, pid := range members(session) {
		proc := folderOf(pid)
		u.procs = append(u.procs, proc)
		own := fields(proc+"/status", "RssAnon", "VmSwap")
		u.private += own
		private = max(private, own)
		shared += fields(proc+"/status", "RssShmem")
		u.tables += fields(proc+"/status", "VmPTE") // also of pages that were only read
		if u.files < math.MaxInt64 {
			u.files += unlinked(proc, seen)
		}
	}
	u.least, u.most = u.files+private+u.tables, u.files+u.private+shared+u.tables
	return u
}

// exact returns a usage with shared mappings counted by each process's share. The kernel visits all pages for it: on a busy machine that takes
// seconds for a process that takes memory at the same time.
func (u *usage) exact() uint64 {
	var mapped, own uint64
	for _, proc := range u.procs {
		rollup := proc + "/smaps_rollup"
		mapped += fields(rollup, "Pss", "SwapPss")
		own += fields(rollup, "Private_Clean", "Private_Dirty", "SwapPss")
	}
	return max(mapped, u.files+min(own, u.private)) + u.tables
}

// MemoryError reports that the players took more memory than Options.MaxMemory, or as much storage for files.
type MemoryError struct {
	Took, Limit uint64
	Files       bool
}

func (e *MemoryError) Error() string {
	of := "memory"
	if e.Files {
		of = "storage for files"
	}
	if e.Took == math.MaxUint64 {
		return fmt.Sprintf("the players made more than %s files, and the limit is %s", human.Count(regular.MaxNames), human.Bytes(e.Limit))
	}
	return fmt.Sprintf("the players used %s of %s, and the limit is %s", human.Bytes(e.Took), of, human.Bytes(e.Limit))
}

// hold measures a session until it is over or exceeds its limit. Then it ends the session. Its files are in a folder, whose files took some
// storage before it began. Memory and files have the limit each: a core file is as large as the memory. An exact measurement takes long, so
// bounds are measured meanwhile.
func hold(session int, dir string, before, limit uint64, over <-chan struct{}) *MemoryError {
	exact := make(chan uint64, 1)
	running, again := false, time.Now()
	for pause := memoryTick; ; {
		e := (*MemoryError)(nil)
		select {
		case <-over:
			endSession(session)
			return overstored(dir, before, limit)
		case n := <-exact:
			running = false
			if n > limit {
				e = &MemoryError{Took: n, Limit: limit}
			}
		case <-time.After(pause):
		}
		begin := time.Now()
		if e == nil {
			e = overstored(dir, before, limit)
		}
		u := measure(session)
		switch {
		case u.least > limit:
			e = &MemoryError{Took: u.least, Limit: limit}
		case u.most > limit && !running && begin.After(again):
			running = true
			go func() {
				n := u.exact()
				again = time.Now().Add(rest(time.Since(begin)))
				exact <- n
			}()
		}
		if e != nil {
			endSession(session)
			return e
		}
		pause = rest(time.Since(begin))
		if u.least > limit/2 {
			pause = memoryTick
		}
	}
}

// rest returns the pause after a measurement.
func rest(took time.Duration) time.Duration { return min(max(memoryTick, 50*took), longMemoryTick) }

// overstored returns an error if the files in a folder take more storage than before and a limit allow.
func overstored(dir string, before, limit uint64) *MemoryError {
	if n := stored(dir); n > before && n-before > limit {
		return &MemoryError{n - before, limit, true}
	}
	return nil
}

// A guard ends a session if this process is killed: see player/guard.c.
type guard struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// startGuard starts a guard without a session.
func startGuard(player string) (*guard, error) {
	g := &guard{cmd: exec.Command(player, "--guard")}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var err error
	if g.in, err = g.cmd.StdinPipe(); err == nil {
		err = g.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the guard of the player: %w", err)
	}
	return g, nil
}

// watch sets the session, 0 for none.
func (g *guard) watch(session int) { fmt.Fprintln(g.in, session) }

// end ends the guard, which then ends its session.
func (g *guard) end() {
	_ = g.in.Close()
	_ = g.cmd.Wait()
}
