package uprobe

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/procstat"
	"github.com/acltrace/acltrace/internal/regular"
	"golang.org/x/sys/unix"
)

// FindLibraries returns the runtime libraries that a process maps, each file once. The paths can be opened here, in spite of
// the process's root directory and mounts, and even if the file was deleted.
func FindLibraries(m *api.Model, pid int) ([]string, error) {
	return find(pid, func(file string) bool { return m.LayerOf(file) != nil })
}

// FindMarked returns the libraries with marks that a process maps, as FindLibraries does.
func FindMarked(m *api.Model, pid int) ([]string, error) { return find(pid, m.OfMarks) }

// find returns the files with certain names that a process maps.
func find(pid int, want func(file string) bool) ([]string, error) {
	maps, err := procstat.Text(pid, "maps")
	if err != nil {
		return nil, fmt.Errorf("find libraries: %w", err) // err has the process's number
	}
	var found []string
	seen := map[string]bool{}
	for lib := range procstat.Mapped(maps) {
		if !want(filepath.Base(lib.Path)) || seen[lib.ID] {
			continue
		}
		seen[lib.ID] = true
		var failed error
		for i, name := range filesOf(pid, lib.From, lib.To, lib.Path) {
			if i > 0 && lib.Deleted {
				break // another file has the name now
			}
			f, err := regular.Open(name)
			if err == nil {
				f.Close()
				found, failed = append(found, name), nil
				break
			}
			failed = errors.Join(failed, err)
		}
		if failed != nil {
			return nil, fmt.Errorf("open %s of process %d: %w", lib.Path, pid, failed)
		}
	}
	return found, nil
}

// SearchLibraries returns the runtime libraries in folders of a process, and libraries with marks, as paths that can be opened here. A probe can then be
// attached before the process maps the file.
func SearchLibraries(m *api.Model, pid int, folders []string) (found []string) {
	seen := map[fileID]bool{}
	for _, dir := range folders {
		at := fmt.Sprintf("/proc/%d/root/%s", pid, strings.TrimPrefix(dir, "/"))
		for _, name := range regular.Names(at) {
			if m.LayerOf(name) == nil && !m.OfMarks(name) {
				continue
			}
			path := resolveIn(pid, dir+"/"+name)
			if id, err := identify(path); err == nil && !seen[id] {
				seen[id] = true
				found = append(found, path)
			}
		}
	}
	return found
}

// resolveIn returns a path to open a process's file here. It resolves links inside the process's root.
func resolveIn(pid int, path string) string {
	root := fmt.Sprintf("/proc/%d/root", pid)
	for range 8 {
		to, err := os.Readlink(root + path)
		if err != nil {
			break
		}
		if !strings.HasPrefix(to, "/") {
			to = path[:strings.LastIndexByte(path, '/')+1] + to
		}
		path = filepath.Clean(to)
	}
	return root + path
}

// fileID identifies a file.
type fileID struct{ dev, ino uint64 }

func identify(path string) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileID{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileID{uint64(st.Dev), st.Ino}, nil
}

// paths is a set that any goroutine may add to.
type paths struct {
	mu  sync.Mutex
	set map[string]bool
}

func (p *paths) add(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set == nil {
		p.set = map[string]bool{}
	}
	p.set[path] = true
}

// Operators returns the libraries with operators that selected processes have mapped, in a process's own view.
func (u *Probes) Operators() []string {
	u.operators.mu.Lock()
	defer u.operators.mu.Unlock()
	return slices.Collect(maps.Keys(u.operators.set))
}
