package probe

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/acltrace/acltrace/api"
	"golang.org/x/sys/unix"
)

// FindLibraries returns the files of the runtime that a process maps, each once, as paths that can be opened from here
// whatever root directory or mounts the process has, and even when a file was deleted since.
func FindLibraries(m *api.Model, pid int) ([]string, error) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	maps, err := os.Open(dir + "maps")
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
		if len(fields) < 6 {
			continue
		}
		path := strings.TrimSuffix(lines.Text()[strings.IndexByte(lines.Text(), '/')+1:], " (deleted)")
		if !m.Library(path[strings.LastIndexByte(path, '/')+1:]) {
			continue
		}
		file := fields[3] + " " + fields[4]
		if seen[file] {
			continue
		}
		seen[file] = true
		// The first is the very file, and takes privilege; the second may be another one by now.
		exact, named := dir+"map_files/"+trimZeros(fields[0]), dir+"root/"+path
		if f, err := os.Open(exact); err == nil {
			f.Close()
			found = append(found, exact)
		} else if _, err2 := os.Stat(named); err2 == nil {
			found = append(found, named)
		} else {
			return nil, fmt.Errorf("open /%s of process %d: %w", path, pid, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("find libraries of process %d: %w", pid, err)
	}
	return found, nil
}

// fileID tells files apart, whatever names they have.
type fileID struct{ dev, ino uint64 }

func identify(path string) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileID{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileID{uint64(st.Dev), st.Ino}, nil
}

// trimZeros writes an address range as the names of map_files do: without leading zeros.
func trimZeros(addresses string) string {
	from, to, _ := strings.Cut(addresses, "-")
	return strings.TrimLeft(from, "0") + "-" + strings.TrimLeft(to, "0")
}
