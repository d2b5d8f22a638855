package replay

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/kernellib"
	"github.com/acltrace/acltrace/internal/regular"
	"github.com/acltrace/acltrace/internal/statedir"
	"github.com/acltrace/acltrace/replay/sandbox"
)

// A replay on a simulator, or without a library, runs in a sandbox: see replay/player/sandbox.c. A replay on a device needs device files
// and Options.Trust, and has no sandbox.

// boxed reports whether the player enters the sandbox.
func (s *session) boxed() bool { return !s.o.Trust }

// sandboxArguments returns the player's arguments about the sandbox, for its environment.
func (s *session) sandboxArguments(env []string) ([]string, error) {
	if !s.boxed() {
		return nil, nil
	}
	libs := s.kernelLibraries(env)
	args := []string{"--sandbox", "--read", s.dir}
	if s.o.Interactive {
		args = append(args, "--names") // a debugger opens libraries by their names
	}
	own, err := s.ownLibraries(libs)
	if err != nil {
		return nil, err
	}
	if own {
		args = append(args, "--partial")
	}
	for _, path := range s.readable(libs) {
		args = append(args, "--read", path)
	}
	return args, nil
}

// kernelLibraries returns the kernel libraries in a player's environment.
func (s *session) kernelLibraries(env []string) (libs []string) {
	for _, v := range env {
		if list, ok := strings.CutPrefix(v, s.p.Model.Simulator.Kernels+"="); ok {
			libs = filepath.SplitList(list) // the last one counts
		}
	}
	return libs
}

// ownLibraries reports whether the user's own recordings have loaded all kernel libraries of the replay. Then a kernel without Landlock
// may replay a trace.
func (s *session) ownLibraries(libs []string) (bool, error) {
	own, err := kernellib.ReadOwn(statedir.Path())
	if err != nil {
		return false, fmt.Errorf("read the list of your kernel libraries: %w", err)
	}
	return !slices.ContainsFunc(libs, func(l string) bool { return foreign(l, s.p.Model, own) != "" }), nil
}

// readable returns the paths that the simulator reads: the kernel libraries with their folders, the loader's folders, and files in the
// user's variables.
func (s *session) readable(libs []string) []string {
	sim := &s.p.Model.Simulator
	var paths []string
	for _, l := range libs {
		paths = append(paths, besides(l)...)
	}
	for _, v := range slices.Concat(os.Environ(), s.o.Env) {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, sim.Prefix) && name != sim.Kernels {
			if st, err := os.Stat(value); err == nil && st.Mode().IsRegular() {
				paths = append(paths, value)
			}
		}
	}
	return append(paths, loaderFolders()...)
}

// besides returns the folders of a library, by its name and by its link target, since it may load others from there. In a folder that
// contains the user's home it returns only the library.
func besides(library string) []string {
	paths := []string{library}
	home, _ := os.UserHomeDir()
	file, err := filepath.EvalSymlinks(library)
	for _, path := range []string{library, file} {
		dir, absErr := filepath.Abs(filepath.Dir(path))
		if err == nil && absErr == nil && !strings.HasPrefix(home+"/", strings.TrimSuffix(dir, "/")+"/") {
			paths = append(paths, dir)
		}
	}
	return paths
}

// loaderFolders returns the folders that the administrator added for the loader.
func loaderFolders() []string {
	files, _ := filepath.Glob("/etc/ld.so.conf.d/*.conf")
	var dirs []string
	for _, file := range append(files, "/etc/ld.so.conf") {
		b, _ := os.ReadFile(file)
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") {
				dirs = append(dirs, line)
			}
		}
	}
	return dirs
}

// results creates the file for a run's results. Players from earlier runs keep their own file.
func (s *session) results() (*os.File, error) {
	if err := os.MkdirAll(compile.OwnDir(s.dir), 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(compile.OwnDir(s.dir), "results")
	f, err := atomicfile.Fresh(path)
	if err != nil {
		return nil, err
	}
	// Allocate it before the player maps it: a hole in a full file system would kill the player.
	if err := allocate(f, int64(s.p.File.Header.ResBytes)); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %d bytes for results: %w", path, s.p.File.Header.ResBytes, err)
	}
	return f, nil
}

// coreName is the name of a core file, by the usual patterns of the kernel.
var coreName = regexp.MustCompile(`^core([-.][0-9A-Za-z_.-]{1,100})?$`)

// maxCores is the number of core files that are kept of a run: one for each process that may crash, in most traces.
const maxCores = 8

// saveCores moves a run's core files into the current folder, as without a sandbox, if the replay's folder is temporary. Kernels can write any
// file there, so only files with the name and the content of a core file are moved.
func (s *session) saveCores() error {
	if s.o.Keep != "" {
		return nil
	}
	own := compile.OwnDir(s.dir)
	names := slices.DeleteFunc(regular.Names(own), func(name string) bool { return !coreName.MatchString(name) || !isCore(filepath.Join(own, name)) })
	slices.Sort(names)
	var errs []error
	for _, name := range names[:min(len(names), maxCores)] {
		errs = append(errs, moveFile(filepath.Join(own, name), name, s.memoryLimit()))
	}
	return errors.Join(errs...)
}

// isCore reports whether a file begins like a core file.
func isCore(path string) bool {
	f, err := regular.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [18]byte
	if _, err := io.ReadFull(f, head[:]); err != nil || string(head[:4]) != elf.ELFMAG {
		return false
	}
	kind := [2]byte(head[16:]) // in the byte order of the machine
	return kind == [2]byte{byte(elf.ET_CORE), 0} || kind == [2]byte{0, byte(elf.ET_CORE)}
}

// moveFile moves a regular file, also to another file system, with its holes. It replaces no file, and refuses more data than a limit, 0 for
// none.
func moveFile(from, to string, limit uint64) error {
	in, err := regular.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("save core file: %w", err)
	}
	if limit == 0 || limit > math.MaxInt64 {
		limit = math.MaxInt64
	}
	if err := errors.Join(copySparse(out, in, int64(limit)), out.Close()); err != nil {
		return fmt.Errorf("save core file: %w", errors.Join(err, os.Remove(to)))
	}
	return os.Remove(from)
}

// copySparse copies a file's data and size, and leaves its holes. It refuses more data than a limit.
func copySparse(out, in *os.File, limit int64) error {
	st, err := in.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < st.Size(); {
		from, err := in.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // the rest is a hole
		}
		if err != nil {
			return err
		}
		to, err := in.Seek(from, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		to = min(to, st.Size())
		if limit -= to - from; limit < 0 {
			return fmt.Errorf("%s has more data than the memory limit of the replay", in.Name())
		}
		if _, err := out.Seek(from, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.Copy(out, io.NewSectionReader(in, from, to-from)); err != nil {
			return err
		}
		at = to
	}
	return out.Truncate(st.Size())
}

// describe returns a run's sandbox.
func (o *outcome) describe() *sandbox.Sandbox {
	return sandbox.Describe(sandbox.Word(o.header.Sandbox))
}
