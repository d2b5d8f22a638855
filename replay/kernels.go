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
)

// KernelLibrary is a kernel library that the simulator has loaded in a replay.
type KernelLibrary struct {
	Path    string `json:"path"`
	BuildID string `json:"build_id"` // "sha256:" and the hash of the file if it has no build id
	// RecordedBuildID is the build id of the corresponding library at recording, "" if the trace names none: the library with this build
	// id, or else with this path, or else with this file name, or else the only one.
	RecordedBuildID string `json:"recorded_build_id,omitempty"`
}

// Other reports whether the library is not the one of the recording.
func (k *KernelLibrary) Other() bool {
	return k.RecordedBuildID != "" && k.RecordedBuildID != k.BuildID
}

func (k *KernelLibrary) String() string {
	if k.Other() {
		return fmt.Sprintf("kernel library %s is not the one of the recording: build id %s, recorded %s", k.Path, k.BuildID, k.RecordedBuildID)
	}
	return fmt.Sprintf("kernel library %s: build id %s", k.Path, k.BuildID)
}

// kernelList is the file in the folder of a replay in which the simulator lists the kernel libraries that it loads.
func kernelList(dir string) string { return filepath.Join(dir, "kernel-libraries") }

// loadedKernels returns the kernel libraries that the simulator has loaded in all runs.
func (s *session) loadedKernels() ([]KernelLibrary, error) {
	used := []KernelLibrary{}
	if s.p.model.Simulator.Loaded == "" {
		return used, nil
	}
	libs, err := kernellib.Read(kernelList(s.dir))
	if err != nil {
		return nil, err
	}
	for _, l := range libs {
		used = append(used, KernelLibrary{l.Path, l.BuildID, recordedBuildID(s.meta, l)})
	}
	return used, nil
}

// recordedBuildID returns the build id of the library of the recording that corresponds to one of the replay.
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

// kernelVariables are the variables that say which kernel libraries the simulator loads. Libraries of the caller's environment count only
// if there are neither chosen nor recorded ones.
func (s *session) kernelVariables() []string {
	sim := &s.p.model.Simulator
	var vars []string
	libs := s.o.KernelLibraries
	if libs == nil {
		for _, l := range s.meta.KernelLibraries {
			if _, err := os.Stat(l); err == nil {
				libs = append(libs, l)
			}
		}
	}
	if libs != nil {
		vars = append(vars, sim.Kernels+"="+strings.Join(libs, string(os.PathListSeparator)))
	}
	if sim.Loaded != "" {
		vars = append(vars, sim.Loaded+"="+kernelList(s.dir))
	}
	return vars
}

// loadsNothingBeside removes the variable that has the simulator load libraries beside the binaries of a program. A replay's binaries
// and their paths are a stranger's.
func loadsNothingBeside(sim *api.Simulator, env []string) []string {
	if sim.Beside == "" {
		return env
	}
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, sim.Beside+"=") })
}
