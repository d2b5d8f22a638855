package procstat

import (
	"bytes"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/internal/regular"
)

// PIDs returns all processes that this one can see.
func PIDs() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// MaxText limits a text that is read from /proc. It fits the default maximum number of mappings with usual paths. A process
// can make its arguments and environment as large as its address space.
const MaxText = 64 << 20

// Text reads a file in /proc/PID.
func Text(pid int, name string) ([]byte, error) {
	return regular.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name), MaxText)
}

// Args returns the arguments in the text of cmdline, nil for none. A process that changes its title leaves empty ones after it.
func Args(cmdline string) []string {
	if cmdline = strings.TrimRight(cmdline, "\x00"); cmdline == "" {
		return nil
	}
	return strings.Split(cmdline, "\x00")
}

// Field returns a field in a text formatted like /proc/PID/status, "" if there is none.
func Field(status []byte, name string) string {
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// A MappedFile is a line in /proc/PID/maps.
type MappedFile struct {
	From, To, Offset uint64
	Code             bool
	Path             string
	Deleted          bool   // Path is its former name
	ID               string // device and inode
}

// Mapped returns the mapped files in a text formatted like /proc/PID/maps.
func Mapped(maps []byte) iter.Seq[MappedFile] {
	return func(yield func(MappedFile) bool) {
		for line := range strings.Lines(string(maps)) {
			// range, access, offset, device, inode, path
			at := max(strings.IndexByte(line, '/'), 0)
			f := strings.Fields(line[:at])
			if len(f) != 5 {
				continue
			}
			first, end, _ := strings.Cut(f[0], "-")
			from, err := strconv.ParseUint(first, 16, 64)
			to, err2 := strconv.ParseUint(end, 16, 64)
			offset, err3 := strconv.ParseUint(f[2], 16, 64)
			path, deleted := strings.CutSuffix(strings.TrimSuffix(line[at:], "\n"), " (deleted)")
			if err == nil && err2 == nil && err3 == nil && !yield(MappedFile{from, to, offset, strings.Contains(f[1], "x"), path, deleted, f[3] + " " + f[4]}) {
				return
			}
		}
	}
}
