package rows

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/record/host"
)

// Processes are a recording's processes.
type Processes struct {
	// Libraries are the libraries of the runtime and of operators that were mapped, by path. False marks those in another container, whose files are
	// not accessible.
	Libraries  map[string]bool
	KernelLibs []string // kernel libraries that the environment of the first process names
	Died       []Died   // processes that were killed or crashed
	// Ranks are the processes with a rank in their environment, or with one that their communicators show, by index.
	Ranks map[uint32]Rank
	// Command is the process that the recorder has started, the zero value for none.
	Command Command

	model *api.Model

	joins map[uint32]join // by index

	variables map[uint32][]string // recorded environment variables, by index

	index map[int]uint32           // by PID
	rows  []format.Process         // in the order of their index
	local map[int]int              // PID in the recorder's PID namespace, by PID
	maps  map[int][]format.Mapping // code, if stacks are recorded
}

// A Command is a process as the recorder has started it. A short program may have ended before the recorder can read its environment.
type Command struct {
	PID  int // in the recorder's PID namespace
	Path string
	Env  []string
}

// environment returns a new process's environment if the recorder has started it, and it has executed no other program since. Otherwise it
// returns the variables that the process has reported.
func (ps *Processes) environment(p *probe.Process) []string {
	if c := &ps.Command; c.PID != 0 && c.PID == p.Local {
		if path, err := filepath.EvalSymlinks(c.Path); err == nil && path == p.Exe {
			return c.Env
		}
	}
	return p.Variables
}

// A Rank is a process of a job.
type Rank struct {
	Number    int
	Variables []string // recorded environment variables
}

// Died is a process that was killed or crashed.
type Died struct {
	PID     int
	Command string
	Signal  int      // 0 if unknown
	Last    []string // the latest calls of its threads, unfinished calls first
}

// maxKernelLibs limits the kernel libraries that are taken from an environment.
const maxKernelLibs = 64

func newProcesses(m *api.Model) Processes {
	return Processes{model: m, Libraries: map[string]bool{}, index: map[int]uint32{}, local: map[int]int{}, maps: map[int][]format.Mapping{}, Ranks: map[uint32]Rank{}, joins: map[uint32]join{}, variables: map[uint32][]string{}}
}

// Len returns the number of processes.
func (ps *Processes) Len() int { return len(ps.index) }

// Local returns the processes that are visible to the recorder, by their PID in its namespace.
func (ps *Processes) Local() []int { return slices.Collect(maps.Values(ps.local)) }

func (ps *Processes) add(index uint32, row format.Process) {
	ps.index[row.PID] = index
	ps.rows = append(ps.rows, row)
}

// learn records a new process's libraries, and reports whether it uses a simulator.
func (ps *Processes) learn(p *probe.Process) (simulated bool) {
	simulated = slices.Contains(p.Libraries, ps.model.Simulator.Symbol) // reported by the process
	if p.Local != 0 {
		ps.local[p.PID] = p.Local
	}
	if p.Local == 0 || !ps.Look(p.Local) { // it has ended already, or is not visible; its own report is all there is
		ps.reported(p.PID, p.Libraries)
	}
	return simulated
}

// reported records libraries as the process itself names them.
func (ps *Processes) reported(pid int, libraries []string) {
	visible := ps.local[pid] != 0
	for _, path := range libraries {
		if visible && filepath.IsAbs(path) {
			if file, err := filepath.EvalSymlinks(path); err == nil {
				path = file // as in its mappings
			}
		}
		ps.Libraries[path] = ps.Libraries[path] || visible && filepath.IsAbs(path)
	}
}

// rank returns the rank of a new process, false if it has none.
func (ps *Processes) rank(p *probe.Process) (rank Rank, ok bool) {
	rank.Variables = p.Variables // as they are at its first call
	if len(p.Variables) == 0 && p.Local != 0 {
		rank.Variables = host.Environ(p.Local) // as they were at its start
	}
	rank.Number, ok = host.Rank(rank.Variables)
	return rank, ok
}

// has reports whether a variable was in a process's environment at its first call.
func (ps *Processes) has(process uint32, variable string) bool {
	return slices.ContainsFunc(ps.variables[process], func(v string) bool { return strings.HasPrefix(v, variable+"=") })
}

// Look records properties that can't be read after a process has ended, and reports whether it maps a runtime library.
func (ps *Processes) Look(pid int) (found bool) {
	for _, path := range host.Libraries(pid, func(name string) bool {
		return ps.model.Library(name) || ps.model.OfOperators(name) || slices.Contains(ps.model.MarkingFrameworks, name)
	}) {
		ps.Libraries[path] = true
		found = found || ps.model.Library(filepath.Base(path))
	}
	if libs := host.Variable(pid, ps.model.Simulator.Kernels); libs != "" && ps.KernelLibs == nil {
		cwd, _ := host.Cwd(pid)
		list := filepath.SplitList(libs)
		for _, l := range list[:min(len(list), maxKernelLibs)] {
			if !filepath.IsAbs(l) {
				l = filepath.Join(cwd, l)
			}
			ps.KernelLibs = append(ps.KernelLibs, l)
		}
	}
	return found
}

// LookAgain adds the libraries that running processes have loaded since their first call.
func (ps *Processes) LookAgain() {
	for pid, local := range ps.local {
		if i, ok := ps.index[pid]; ok && ps.rows[i].End == 0 {
			ps.Look(local)
		}
	}
}

func (ps *Processes) killed(e *probe.End, latest []string) {
	ps.Died = append(ps.Died, Died{PID: e.PID, Command: strings.Join(e.Args, " "), Signal: e.Signal, Last: latest})
}
