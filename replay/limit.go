package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/procstat"
)

// The simulator reserves far more addresses than it uses, so limits on address space or file sizes do not work. The memory of the players
// is measured while they run. They are the processes of one session, which the sandbox does not let them leave.

// A measurement takes a fiftieth of the time, or more if it is so slow that players could take much memory in between.
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
		return !st.Lives() || st.Session != session
	})
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

// memfds returns the pages of the files in memory that a process has open, each file once.
func memfds(pid int, seen map[uint64]bool) (sum uint64) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if to, err := os.Readlink(path); err != nil || !strings.HasPrefix(to, "/memfd:") {
			continue
		}
		var st syscall.Stat_t
		if syscall.Stat(path, &st) == nil && !seen[st.Ino] {
			seen[st.Ino] = true
			sum += uint64(st.Blocks) * 512
		}
	}
	return sum
}

// taken returns the memory of a session's processes if it exceeds a limit, otherwise an upper bound. Shared memory counts once: a file in
// memory by its pages, a mapping by each process's share.
func taken(session int, limit uint64) uint64 {
	pids := members(session)
	seen := map[uint64]bool{}
	var private, shared, files uint64
	for _, pid := range pids {
		status := fmt.Sprintf("/proc/%d/status", pid)
		private += fields(status, "RssAnon", "VmSwap")
		shared += fields(status, "RssShmem")
		files += memfds(pid, seen)
	}
	if most := private + shared + files; most <= limit {
		return most
	}
	var mapped, own uint64
	for _, pid := range pids {
		rollup := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
		mapped += fields(rollup, "Pss", "SwapPss")
		own += fields(rollup, "Private_Clean", "Private_Dirty", "SwapPss")
	}
	return max(mapped, files+min(own, private))
}

// MemoryError reports that the players took more memory than Options.MaxMemory.
type MemoryError struct{ Took, Limit uint64 }

func (e *MemoryError) Error() string {
	return fmt.Sprintf("the players used %s of memory, and the limit is %s", human.Bytes(e.Took), human.Bytes(e.Limit))
}

// holdMemory measures a session until it is over. It kills a session that exceeds its limit, and returns the memory that it took.
func holdMemory(session int, limit uint64, over <-chan struct{}) uint64 {
	for pause := memoryTick; ; {
		select {
		case <-over:
			return 0
		case <-time.After(pause):
		}
		begin := time.Now()
		if n := taken(session, limit); n > limit {
			endSession(session)
			return n
		}
		pause = min(max(memoryTick, 50*time.Since(begin)), longMemoryTick)
	}
}
