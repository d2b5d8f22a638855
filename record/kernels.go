package record

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernellib"
)

// kernelList is the file in a session's folder in which the simulator lists the kernel libraries that it loads, and the kernels that none implements.
const kernelList = "kernel-libraries"

// Simulate returns an environment in which a program finds the simulator's libraries in dir, and the simulator finds kernel libraries
// beside the binaries that the program loads. A variable that says otherwise is kept.
func Simulate(m *api.Model, env []string, dir string) []string {
	env = prepend(env, "LD_LIBRARY_PATH", dir, ":")
	beside := m.Simulator.Beside
	if beside == "" || slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, beside+"=") }) {
		return env
	}
	return append(env, beside+"=1")
}

// listKernels returns an environment in which the simulator lists in a file the kernel libraries that it loads.
func (r *recorder) listKernels(env []string, file string) ([]string, error) {
	variable := r.o.Model.Simulator.Loaded
	if variable == "" {
		return env, nil
	}
	if err := kernellib.Create(file); err != nil {
		return nil, err
	}
	r.kernelList = file
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, variable+"=") })
	return append(env, variable+"="+file), nil
}

// kernelLibraries fills in the kernel libraries that the simulator has loaded. If this recorder did not start the program, they are those
// that the program's environment names.
func (r *recorder) kernelLibraries(m *format.Meta) {
	var libs []kernellib.Library
	if r.kernelList != "" {
		libs, _ = kernellib.Read(r.kernelList)
	} else {
		for _, path := range r.b.kernelLibs {
			libs = append(libs, kernellib.Library{Path: path, BuildID: kernellib.BuildID(path)})
		}
	}
	m.KernelLibraries, m.KernelBuildIDs = nil, nil
	for _, l := range libs {
		if !slices.Contains(m.KernelLibraries, l.Path) {
			m.KernelLibraries = append(m.KernelLibraries, l.Path)
		}
		if l.BuildID == "" {
			continue
		}
		if m.KernelBuildIDs == nil {
			m.KernelBuildIDs = map[string]string{}
		}
		m.KernelBuildIDs[l.Path] = l.BuildID
	}
}

// missingKernels returns the names of the kernels that were launched and that no kernel library implements.
func (r *recorder) missingKernels() []string {
	if r.kernelList == "" {
		return nil
	}
	names, _ := kernellib.Missing(r.kernelList)
	return names
}

// listFile makes the list of a recording without a session. The returned function removes it.
func listFile() (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "acltrace-kernels-")
	return filepath.Join(dir, kernelList), func() { os.RemoveAll(dir) }, err
}
