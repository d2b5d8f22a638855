package record

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernellib"
	"github.com/acltrace/acltrace/internal/statedir"
	"github.com/acltrace/acltrace/record/host"
)

// kernelList is the file in a session's folder in which the simulator lists the kernel libraries that it loads, and the kernels that none implements.
const kernelList = "kernel-libraries"

// maxKernelLibs is how many kernel libraries of a process's environment are looked at.
const maxKernelLibs = 64

// listKernels returns an environment in which the simulator lists in a file the kernel libraries that it loads.
func (r *recorder) listKernels(env []string, file string) ([]string, error) {
	variable := r.o.Model.Simulator.Loaded
	if variable == "" {
		return env, nil
	}
	if err := kernellib.Create(file); err != nil {
		return nil, err
	}
	r.kernelList, r.ownKernels.told = file, true
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

// ownKernels is the state of what a recorder adds to the list of this user's kernel libraries.
type ownKernels struct {
	told  bool // the recorder has made its kernelList, which only programs of its own user can write to
	known []kernellib.Library
	err   error
}

// rememberKernels adds to the list of this user's kernel libraries those that programs of the recorder's user have loaded. A replay loads them
// if a trace names them. The simulator reports them; for a program that the recorder has not started the kernel does: that the environment
// names a library is not enough.
func (r *recorder) rememberKernels() {
	var libs []kernellib.Library
	switch {
	case r.ownKernels.told:
		libs, _ = kernellib.Read(r.kernelList)
	case r.kernelList == "" && len(r.b.kernelLibs) > 0:
		for _, pid := range r.b.local {
			for _, path := range mappedHere(pid, r.b.kernelLibs) {
				libs = append(libs, kernellib.Library{Path: path, BuildID: kernellib.BuildID(path)})
			}
		}
	}
	libs = slices.DeleteFunc(libs, func(l kernellib.Library) bool { return slices.Contains(r.ownKernels.known, l) })
	if len(libs) == 0 {
		return
	}
	if err := kernellib.Remember(cmp.Or(r.o.State, statedir.Path()), libs); err != nil {
		r.ownKernels.err = err
		return
	}
	r.ownKernels.known = append(r.ownKernels.known, libs...)
}

// mappedHere returns those of some files that a process of the recorder's user maps. It has none of another mount namespace, in which
// a path may be another file.
func mappedHere(pid int, paths []string) []string {
	if st, err := os.Stat(host.ProcFile(pid, "")); err != nil || !ownedByUs(st) {
		return nil
	}
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if theirs, err2 := os.Readlink(host.ProcFile(pid, "ns/mnt")); err != nil || err2 != nil || ours != theirs {
		return nil
	}
	b, err := host.ProcText(pid, "maps")
	if err != nil {
		return nil
	}
	var mapped []string
	for _, path := range paths {
		file, err := filepath.EvalSymlinks(path)
		if err == nil && strings.Contains(string(b), " "+file+"\n") {
			mapped = append(mapped, path)
		}
	}
	return mapped
}

func ownedByUs(st os.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}

// failedKernels returns the names of the kernels that were launched and that no kernel library implements, and of those that crashed.
func (r *recorder) failedKernels() (missing, crashed []string) {
	if r.kernelList == "" {
		return nil, nil
	}
	missing, _ = kernellib.Missing(r.kernelList)
	crashed, _ = kernellib.Crashed(r.kernelList)
	return missing, crashed
}

// listFile makes the list of a recording without a session. The returned function removes it.
func listFile() (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "acltrace-kernels-")
	return filepath.Join(dir, kernelList), func() { os.RemoveAll(dir) }, err
}
