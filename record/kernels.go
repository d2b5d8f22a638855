package record

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/kernellib"
	"github.com/acltrace/acltrace/internal/private"
	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/internal/statedir"
	"github.com/acltrace/acltrace/record/host"
	"github.com/acltrace/acltrace/record/rows"
)

// kernelList is the name of the file in a session's folder in which the simulator lists the kernel libraries that it loads,
// and the kernels that none of them implements.
const kernelList = "kernel-libraries"

// kernelNotes are the kernel libraries of a recorded program.
type kernelNotes struct {
	file  string              // a kernelList, "" if the simulator does not report the libraries
	own   bool                // this recorder has created the file, which only programs of its user can write to
	known []kernellib.Library // already in the user's list
	err   error               // why the user's list lacks some
}

// list creates the file, and returns an environment in which the simulator writes to it.
func (k *kernelNotes) list(m *api.Model, env []string, file string) ([]string, error) {
	variable := m.Simulator.Loaded
	if variable == "" {
		return env, nil
	}
	if err := kernellib.Create(file); err != nil {
		return nil, err
	}
	k.file, k.own = file, true
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, variable+"=") })
	return append(env, variable+"="+file), nil
}

// describe adds the loaded kernel libraries to the meta data. If the program was started elsewhere, they are those that its
// environment names.
func (k *kernelNotes) describe(m *format.Meta, named []string) {
	libs := k.listed().Libraries
	if k.file == "" {
		libs = identified(named)
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

// listed returns the content of the file, nothing if it can't be read.
func (k *kernelNotes) listed() kernellib.List {
	if l, err := kernellib.Read(k.file); err == nil {
		for i := range l.Libraries {
			if lib := &l.Libraries[i]; lib.BuildID == "" { // the simulator does not know it
				lib.BuildID = kernellib.BuildID(lib.Path)
			}
		}
		return *l
	}
	return kernellib.List{}
}

func identified(paths []string) (libs []kernellib.Library) {
	for _, path := range paths {
		libs = append(libs, kernellib.Library{Path: path, BuildID: kernellib.BuildID(path)})
	}
	return libs
}

// remember adds the kernel libraries that programs of the recorder's user have loaded to that user's list. A replay loads a
// library that a trace names only if it is in the list. The simulator reports the libraries. For a program that was started
// elsewhere its mappings do: naming a library in the environment is not enough.
func (k *kernelNotes) remember(o *Options, ps *rows.Processes) {
	var libs []kernellib.Library
	switch {
	case k.own:
		libs = k.listed().Libraries
	case k.file == "" && len(ps.KernelLibs) > 0:
		for _, pid := range ps.Local() {
			libs = append(libs, identified(mappedHere(pid, ps.KernelLibs))...)
		}
	}
	libs = slices.DeleteFunc(libs, func(l kernellib.Library) bool { return slices.Contains(k.known, l) })
	if len(libs) == 0 {
		return
	}
	if err := kernellib.Remember(cmp.Or(o.State, statedir.Path()), libs); err != nil {
		k.err = err
		return
	}
	k.known = append(k.known, libs...)
}

// mappedHere returns those of paths that a process of the recorder's user maps. It returns none for a process in another
// mount namespace, in which a path may be another file.
func mappedHere(pid int, paths []string) []string {
	if st, err := os.Stat(host.ProcFile(pid, "")); err != nil || !private.Owns(st) {
		return nil
	}
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if theirs, err2 := os.Readlink(host.ProcFile(pid, "ns/mnt")); err != nil || err2 != nil || ours != theirs {
		return nil
	}
	b, err := procstat.Text(pid, "maps")
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		file, err := filepath.EvalSymlinks(path)
		return err != nil || !strings.Contains(string(b), " "+file+"\n")
	})
}

// tempKernelList returns a path for the list of a recording without a session. The returned function removes it.
func tempKernelList() (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "acltrace-kernels-")
	return filepath.Join(dir, kernelList), func() { os.RemoveAll(dir) }, err
}
