package replay

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernellib"
	"github.com/acltrace/acltrace/internal/statedir"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/compile"
)

// KernelLibrary is a kernel library that the simulator loaded.
type KernelLibrary struct {
	Path            string `json:"path"`                        // path of the file
	BuildID         string `json:"build_id"`                    // build id, or "sha256:" and the file's hash if it has none
	Hash            string `json:"hash"`                        // "sha256:" and the file's hash
	RecordedBuildID string `json:"recorded_build_id,omitempty"` // build id of the recorded library, empty for none
	Changed         bool   `json:"changed"`                     // it is not the recorded library
}

func (k *KernelLibrary) String() string {
	if k.Changed {
		return fmt.Sprintf("kernel library %s is not the one of the recording: build id %s, recorded %s", k.Path, k.BuildID, k.RecordedBuildID)
	}
	return fmt.Sprintf("kernel library %s: build id %s", k.Path, k.BuildID)
}

// kernelList is a file in a replay's folder, to which the simulator writes the libraries that it loads.
func kernelList(dir string) string { return filepath.Join(compile.OwnDir(dir), "kernel-libraries") }

// NotComputed counts the operators that no kernel library here computes.
type NotComputed struct {
	Operators int    `json:"operators"` // different operators
	Launches  uint64 `json:"launches"`  // launches of them, without those of graphs
}

// notComputed returns the operators of a list that were not computed, nil for none. Kernels can write into the list: only those that the plan
// launches count.
func (s *session) notComputed(list *kernellib.List) *NotComputed {
	names := s.p.File.Kernels
	launches := make([]uint64, len(names)+1)
	for t := range s.p.Threads {
		for _, in := range s.p.File.Instructions(t) {
			launches[in.Kernel]++
		}
	}
	n := &NotComputed{}
	for i, name := range names {
		if _, listed := slices.BinarySearch(list.NotComputed, name); listed {
			n.Operators, n.Launches = n.Operators+1, n.Launches+launches[i+1]
		}
	}
	if n.Operators == 0 {
		return nil
	}
	return n
}

// executed sets what the simulator has reported of its kernels in all runs.
func (s *session) executed(c *Conditions) (err error) {
	list := &kernellib.List{}
	if s.p.Model.Simulator.Loaded != "" {
		if list, err = kernellib.Read(kernelList(s.dir)); err != nil {
			return err
		}
	}
	if len(list.NotComputed) > 0 {
		c.NotComputed = s.notComputed(list)
	}
	c.KernelLibraries, err = s.loadedKernels(list)
	return err
}

// loadedKernels returns the kernel libraries that the simulator loaded.
func (s *session) loadedKernels(list *kernellib.List) ([]KernelLibrary, error) {
	used := []KernelLibrary{}
	// Kernels can write into the list: only the libraries that the player was given count, with the build ids of their files.
	var given []string
	for _, l := range s.kernelLibraries(s.env()) {
		// A simulator lists the absolute path, with or without links.
		if path, err := filepath.Abs(l); err == nil {
			file, _ := filepath.EvalSymlinks(path)
			given = append(given, path, file)
		}
	}
	for _, l := range list.Libraries {
		if !slices.Contains(given, filepath.Clean(l.Path)) {
			continue
		}
		l.BuildID = kernellib.BuildID(l.Path)
		hash, err := kernellib.Hash(l.Path)
		if err != nil {
			return nil, fmt.Errorf("hash kernel library: %w", err)
		}
		recorded := recordedBuildID(s.meta, l)
		used = append(used, KernelLibrary{l.Path, l.BuildID, hash, recorded, recorded != "" && recorded != l.BuildID})
	}
	return used, nil
}

// recordedBuildID returns the build id for the recorded library that corresponds to a loaded one.
func recordedBuildID(m *format.Meta, l kernellib.Library) string {
	ids := m.KernelBuildIDs
	if slices.Contains(slices.Collect(maps.Values(ids)), l.BuildID) {
		return l.BuildID
	}
	if id := ids[l.Path]; id != "" {
		return id
	}
	for _, path := range m.KernelLibraries {
		if ids[path] != "" && (filepath.Base(path) == filepath.Base(l.Path) || len(ids) == 1) {
			return ids[path]
		}
	}
	return ""
}

// A KernelError lists recorded kernel libraries that a replay loads only if the user asks for them.
type KernelError struct{ Libraries []RefusedKernels }

// RefusedKernels is such a library, with the reason.
type RefusedKernels struct {
	Path   string
	Reason string
}

func (e *KernelError) Error() string {
	var s []string
	for _, l := range e.Libraries {
		s = append(s, fmt.Sprintf("load kernel library %q: %s", l.Path, l.Reason))
	}
	return strings.Join(s, "; ")
}

// Paths returns the libraries' paths.
func (e *KernelError) Paths() []string {
	var paths []string
	for _, l := range e.Libraries {
		paths = append(paths, l.Path)
	}
	return paths
}

// chooseKernels returns the absolute paths of the kernel libraries for a replay: those of the options, or else the existing ones of the
// trace. It returns nil if there are neither, so that the environment counts. Libraries of the trace must be the user's own, otherwise
// the error is a *KernelError.
func chooseKernels(o *Options, m *api.Model, meta *format.Meta) ([]string, error) {
	if o.KernelLibraries != nil {
		libs := []string{}
		for _, l := range o.KernelLibraries {
			path, err := filepath.Abs(l)
			if err != nil {
				return nil, err
			}
			libs = append(libs, path)
		}
		return libs, nil
	}
	if _, simulates := backend.New(o.Backend, m).(backend.Simulator); !simulates {
		return nil, nil
	}
	var libs []string
	var own *kernellib.Own
	refused := &KernelError{}
	for _, path := range meta.KernelLibraries {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if own == nil {
			var err error
			if own, err = kernellib.ReadOwn(statedir.Path()); err != nil {
				return nil, fmt.Errorf("read the list of your kernel libraries: %w", err)
			}
		}
		if why := foreign(path, m, own); why != "" {
			refused.Libraries = append(refused.Libraries, RefusedKernels{path, why})
			continue
		}
		libs = append(libs, path)
	}
	if len(refused.Libraries) > 0 {
		return nil, refused
	}
	return libs, nil
}

// foreign returns the reason not to load a recorded library without the user's request, "" if there is none.
func foreign(path string, m *api.Model, own *kernellib.Own) string {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, os.PathListSeparator) {
		return fmt.Sprintf("want an absolute path without %q", os.PathListSeparator)
	}
	hash, err := kernellib.Hash(path)
	if err != nil {
		return err.Error()
	}
	if !own.Has(path, hash) {
		return "none of your recordings on this machine has loaded it"
	}
	if err := kernellib.Private(path); err != nil {
		return err.Error()
	}
	if symbol := m.Simulator.KernelSymbol; !kernellib.Exports(path, symbol) {
		return fmt.Sprintf("it is not a kernel library: it does not export %s", symbol)
	}
	return ""
}

// kernelVariables are the variables with the simulator's kernel libraries. Libraries of the caller's environment count only if there are
// neither chosen nor recorded ones.
func (s *session) kernelVariables() []string {
	sim := &s.p.Model.Simulator
	var vars []string
	if s.kernels != nil {
		vars = append(vars, sim.Kernels+"="+strings.Join(s.kernels, string(os.PathListSeparator)))
	}
	if sim.Loaded != "" {
		vars = append(vars, sim.Loaded+"="+kernelList(s.dir))
	}
	return vars
}

// env returns the player's environment. If a variable occurs twice, the last one counts.
func (s *session) env() []string {
	sim := &s.p.Model.Simulator
	recorded, _ := compile.RecordedVariables(sim, s.meta)
	env := slices.Concat(os.Environ(), recorded, s.kernelVariables(), slices.Collect(maps.Values(s.p.Env)))
	if s.o.Verify && !s.o.Poison && sim.Uninitialised != "" {
		env = append(env, sim.Uninitialised+"=1")
	}
	if s.o.Strict {
		env = append(env, sim.Strict+"=1", sim.Findings+"="+strictLog(s.dir))
	}
	return s.forReplay(append(env, s.o.Env...))
}

// forReplay removes variables that are for programs. One makes the simulator load libraries beside a program's binaries: those of a replay and
// their paths belong to a stranger. The other one selects simulated devices, but the recorded numbers are those that the program saw.
func (s *session) forReplay(env []string) []string {
	sim := &s.p.Model.Simulator
	_, simulates := backend.New(s.o.Backend, s.p.Model).(backend.Simulator)
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name != "" && (name == sim.Beside || simulates && name == sim.Visible)
	})
}
