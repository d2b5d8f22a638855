package host

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/procstat"
)

// Mentioning returns the processes that were started with a text, such as a path, in their environment.
func Mentioning(text string) []int {
	pids, _ := procstat.PIDs()
	return slices.DeleteFunc(pids, func(pid int) bool {
		b, err := procstat.Text(pid, "environ")
		return pid == os.Getpid() || err != nil || !bytes.Contains(b, []byte(text))
	})
}

// UsingRuntime returns the processes that map a runtime library.
func UsingRuntime(m *api.Model, pids []int) []int {
	return slices.DeleteFunc(slices.Clone(pids), func(pid int) bool { return len(RuntimeLibraries(m, pid)) == 0 })
}

// RuntimeLibraries returns the paths of runtime libraries that a process maps, in the process's own view.
func RuntimeLibraries(m *api.Model, pid int) []string { return Libraries(pid, m.Library) }

// Libraries returns the paths of the libraries that a process maps, in the process's own view, if their file names are in question.
func Libraries(pid int, wanted func(name string) bool) []string {
	b, err := procstat.Text(pid, "maps")
	if err != nil {
		return nil
	}
	var libs []string
	for f := range procstat.Mapped(b) {
		if wanted(filepath.Base(f.Path)) && !slices.Contains(libs, f.Path) {
			libs = append(libs, f.Path)
		}
	}
	return libs
}

// Code returns the files that a process has mapped as code.
func Code(pid int) []format.Mapping {
	b, _ := procstat.Text(pid, "maps")
	return ParseMaps(b)
}

// maxCodeFiles limits how many build ids are read for a process.
const maxCodeFiles = 4096

// ParseMaps returns the code mappings in a text formatted like /proc/PID/maps. Code that the program has generated has no path.
func ParseMaps(b []byte) []format.Mapping {
	maps := generated(b)
	ids := map[string]string{}
	for f := range procstat.Mapped(b) {
		if !f.Code {
			continue
		}
		id, ok := ids[f.Path]
		if !ok && len(ids) < maxCodeFiles {
			id = elffile.BuildID(f.Path)
			ids[f.Path] = id
		}
		maps = append(maps, format.Mapping{Start: f.From, End: f.To, Offset: f.Offset, Path: f.Path, BuildID: id})
	}
	return maps
}

// generated returns the code mappings without a file.
func generated(b []byte) (maps []format.Mapping) {
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 5 || !strings.Contains(f[1], "x") {
			continue
		}
		first, end, _ := strings.Cut(f[0], "-")
		from, err := strconv.ParseUint(first, 16, 64)
		to, err2 := strconv.ParseUint(end, 16, 64)
		if err == nil && err2 == nil {
			maps = append(maps, format.Mapping{Start: from, End: to})
		}
	}
	return maps
}

// ProcFile returns the path of a file in /proc/PID.
func ProcFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

// Variable returns a variable's value in the environment that a process was started with.
func Variable(pid int, name string) string {
	value, _ := Lookup(Environ(pid), name)
	return value
}

// Lookup returns a variable's value in an environment.
func Lookup(env []string, name string) (value string, ok bool) {
	for _, v := range env {
		if value, ok = strings.CutPrefix(v, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// Recorded returns the variables of an environment that traces hold. The model lists their names and prefixes.
func Recorded(m *api.Model, env []string) map[string]string {
	recorded := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		for _, p := range slices.Concat(m.Environment, format.RankVariables) {
			if strings.HasPrefix(name, p) && (strings.HasSuffix(p, "_") || name == p) && !secret(name) {
				recorded[name] = value
			}
		}
	}
	return recorded
}

// secret reports whether a variable may hold a credential, as OTEL_EXPORTER_OTLP_HEADERS does.
func secret(name string) bool {
	return strings.HasSuffix(name, "_HEADERS") || strings.Contains(name, "KEY") || strings.Contains(name, "TOKEN") || strings.Contains(name, "PASSWORD")
}

// Rank returns the rank that a launcher has set in an environment, false if it has set none.
func Rank(env []string) (rank int, ok bool) {
	for _, name := range format.RankVariables {
		s, _ := Lookup(env, name)
		if n, err := strconv.ParseUint(s, 10, 31); err == nil {
			return int(n), true
		}
	}
	return 0, false
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

// AnyAlive reports whether any process can still make a call. A process that can't be read may be alive.
func AnyAlive(pids []int) bool {
	for _, pid := range pids {
		// A zombie has made its last call, unless it is a first thread whose process has others.
		if st := procstat.Read(pid); st.Lives() || st.Threads > 1 || st.Unreadable {
			return true
		}
	}
	return false
}

// Environ returns the environment that a process was started with, nil if it can't be read.
func Environ(pid int) []string {
	b, err := procstat.Text(pid, "environ")
	switch {
	case err != nil:
		return nil
	case len(b) == 0:
		return []string{}
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// Argv returns the arguments that a process was started with, nil if they can't be read.
func Argv(pid int) []string {
	b, _ := procstat.Text(pid, "cmdline")
	return procstat.Args(string(b))
}
