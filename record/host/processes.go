package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/internal/regular"
)

// Mentioning returns the processes that were started with a text, such as a path, in their environment.
func Mentioning(text string) []int {
	entries, _ := filepath.Glob("/proc/[0-9]*/environ")
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(e)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		if b, err := ProcText(pid, "environ"); err == nil && bytes.Contains(b, []byte(text)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// UsingRuntime returns the processes that map a runtime library.
func UsingRuntime(m *api.Model, pids []int) []int {
	var n []int
	for _, pid := range pids {
		if len(RuntimeLibraries(m, pid)) > 0 {
			n = append(n, pid)
		}
	}
	return n
}

// RuntimeLibraries returns the paths of runtime libraries that a process maps, in the process's own view.
func RuntimeLibraries(m *api.Model, pid int) []string {
	b, err := ProcText(pid, "maps")
	if err != nil {
		return nil
	}
	var libs []string
	seen := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 6 || seen[f[5]] {
			continue
		}
		seen[f[5]] = true
		if m.Library(filepath.Base(f[5])) {
			libs = append(libs, f[5])
		}
	}
	return libs
}

// Code returns the files that a process has mapped as code.
func Code(pid int) []format.Mapping {
	b, err := ProcText(pid, "maps")
	if err != nil {
		return nil
	}
	return ParseMaps(b)
}

// maxCodeFiles limits how many build ids are read for a process.
const maxCodeFiles = 4096

// ParseMaps returns the code mappings in a text formatted like /proc/PID/maps.
func ParseMaps(b []byte) []format.Mapping {
	var maps []format.Mapping
	ids := map[string]string{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 6 || !strings.Contains(f[1], "x") || !filepath.IsAbs(f[5]) {
			continue
		}
		var m format.Mapping
		if _, err := fmt.Sscanf(f[0]+" "+f[2], "%x-%x %x", &m.Start, &m.End, &m.Offset); err != nil {
			continue
		}
		id, ok := ids[f[5]]
		if !ok && len(ids) < maxCodeFiles {
			id = elffile.BuildID(f[5])
			ids[f[5]] = id
		}
		m.Path, m.BuildID = f[5], id
		maps = append(maps, m)
	}
	return maps
}

// MaxProcText limits a text that is read from /proc. It fits the default maximum number of mappings with usual paths. A
// process can make its arguments and environment as large as its address space.
const MaxProcText = 64 << 20

// ProcText reads a file in /proc/PID.
func ProcText(pid int, name string) ([]byte, error) {
	return regular.ReadFile(ProcFile(pid, name), MaxProcText)
}

// ProcFile returns the path of a file in /proc/PID.
func ProcFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

// Variable returns a variable's value in the environment that a process was started with.
func Variable(pid int, name string) string {
	b, err := ProcText(pid, "environ")
	if err != nil {
		return ""
	}
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if rest, ok := strings.CutPrefix(string(v), name+"="); ok {
			return rest
		}
	}
	return ""
}

// Rank returns the rank that a launcher has set in an environment, false if it has set none.
func Rank(env []string) (rank int, ok bool) {
	for _, name := range format.RankVariables {
		for _, v := range env {
			if s, set := strings.CutPrefix(v, name+"="); set {
				if n, err := strconv.ParseUint(s, 10, 31); err == nil {
					return int(n), true
				}
			}
		}
	}
	return 0, false
}

// Environment returns the environment with which a process was started, nil if it can't be read.
func Environment(pid int) []string {
	b, err := ProcText(pid, "environ")
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// Cwd returns a process's working directory.
func Cwd(pid int) (string, error) { return os.Readlink(ProcFile(pid, "cwd")) }

// ThreadName returns a thread's name, "" if it has ended.
func ThreadName(pid, tid int) string {
	b, err := os.ReadFile(filepath.Join(ProcFile(pid, "task"), strconv.Itoa(tid), "comm"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// AnyAlive reports whether any process can still make a call.
func AnyAlive(pids []int) bool {
	for _, pid := range pids {
		// A zombie has made its last call, unless it is a first thread whose process has others.
		if st := procstat.Read(pid); st.Lives() || st.Threads > 1 {
			return true
		}
	}
	return false
}

// Environ returns the environment that a process was started with.
func Environ(pid int) []string {
	b, err := ProcText(pid, "environ")
	if err != nil {
		return nil
	}
	var env []string
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if len(v) > 0 {
			env = append(env, string(v))
		}
	}
	return env
}
