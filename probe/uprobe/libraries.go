package uprobe

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/regular"
	"golang.org/x/sys/unix"
)

// FindLibraries returns the runtime libraries that a process maps, each file once. The paths can be opened here, in spite of
// the process's root directory and mounts, and even if the file was deleted.
func FindLibraries(m *api.Model, pid int) ([]string, error) {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, fmt.Errorf("find libraries of process %d: %w", pid, err)
	}
	defer maps.Close()
	var found []string
	seen := map[string]bool{}
	lines := bufio.NewScanner(maps)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// address range, access, offset, device, inode, path
		fields := strings.Fields(lines.Text())
		slash := strings.IndexByte(lines.Text(), '/')
		if len(fields) < 6 || slash < 0 {
			continue
		}
		path := lines.Text()[slash:]
		if name := strings.TrimSuffix(path, " (deleted)"); m.LayerOf(name[strings.LastIndexByte(name, '/')+1:]) == nil {
			continue
		}
		file := fields[3] + " " + fields[4]
		if seen[file] {
			continue
		}
		seen[file] = true
		var failed error
		for i, name := range filesOf(pid, trimZeros(fields[0]), path) {
			if i > 0 && strings.HasSuffix(path, " (deleted)") {
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
			return nil, fmt.Errorf("open %s of process %d: %w", path, pid, failed)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("find libraries of process %d: %w", pid, err)
	}
	return found, nil
}

// SearchLibraries returns the runtime libraries in folders of a process, as paths that can be opened here. A probe can then be
// attached before the process maps the file.
func SearchLibraries(m *api.Model, pid int, folders []string) (found []string) {
	seen := map[fileID]bool{}
	for _, dir := range folders {
		at := fmt.Sprintf("/proc/%d/root/%s", pid, strings.TrimPrefix(dir, "/"))
		for _, name := range regular.Names(at) {
			if m.LayerOf(name) == nil {
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

// trimZeros removes leading zeros from an address range, as in the names in map_files.
func trimZeros(addresses string) string {
	from, to, _ := strings.Cut(addresses, "-")
	return strings.TrimLeft(from, "0") + "-" + strings.TrimLeft(to, "0")
}
