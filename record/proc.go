package record

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/regular"
)

// runtimeLibraries returns the paths of the runtime's libraries that a process maps, as the process names them.
func runtimeLibraries(m *api.Model, pid int) []string {
	b, err := procText(pid, "maps")
	if err != nil {
		return nil
	}
	var libs []string
	seen := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 6 || seen[f[5]] {
			continue
		}
		seen[f[5]] = true
		if m.Library(filepath.Base(f[5])) {
			libs = append(libs, f[5])
		}
	}
	return libs
}

// codeOf returns the files that a process has mapped as code.
func codeOf(pid int) []format.Mapping {
	b, err := procText(pid, "maps")
	if err != nil {
		return nil
	}
	return parseMaps(b)
}

// maxCodeFiles is of how many files of a process the build ids are read.
const maxCodeFiles = 4096

// parseMaps returns the mappings of code of a file in the form of /proc/PID/maps.
func parseMaps(b []byte) []format.Mapping {
	var maps []format.Mapping
	ids := map[string]string{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 6 || !strings.Contains(f[1], "x") || !filepath.IsAbs(f[5]) {
			continue
		}
		var m format.Mapping
		if _, err := fmt.Sscanf(f[0]+" "+f[2], "%x-%x %x", &m.Start, &m.End, &m.Offset); err != nil {
			continue
		}
		id, ok := ids[f[5]]
		if !ok && len(ids) < maxCodeFiles {
			id = elffile.BuildID(f[5])
			ids[f[5]] = id
		}
		m.Path, m.BuildID = f[5], id
		maps = append(maps, m)
	}
	return maps
}

// maxProcText is the size of the longest text of /proc that is read: with as many mappings as a process may have by default, and paths of
// usual lengths, it has all of them. A process can make its arguments and its environment as large as its address space.
const maxProcText = 64 << 20

// procText reads a file of /proc/PID.
func procText(pid int, name string) ([]byte, error) {
	return regular.ReadFile(procFile(pid, name), maxProcText)
}

func procFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

// environment returns the value of a variable in the environment that a process was started with.
func environment(pid int, name string) string {
	b, err := procText(pid, "environ")
	if err != nil {
		return ""
	}
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if rest, ok := strings.CutPrefix(string(v), name+"="); ok {
			return rest
		}
	}
	return ""
}

func cwdOf(pid int) (string, error) { return os.Readlink(procFile(pid, "cwd")) }

func threadName(pid, tid int) string {
	b, err := os.ReadFile(filepath.Join(procFile(pid, "task"), strconv.Itoa(tid), "comm"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// find returns the file of a program, as the shell would find it.
func find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next // the innermost says it in the fewest words
	}
	return "", fmt.Errorf("program %s: %w", program, err)
}

// executable checks that a file is a program that this kernel can start, since the error of exec says little.
func executable(path string) error {
	f, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := f.Read(head)
	switch head = head[:n]; {
	case bytes.HasPrefix(head, []byte("#!")):
		return nil
	case !bytes.Equal(head, []byte(elf.ELFMAG)):
		return fmt.Errorf("%s is no ELF program and no script with an interpreter (#!)", path)
	}
	e, err := elffile.New(f)
	if err != nil {
		return fmt.Errorf("%s is no sound ELF program: %w", path, err)
	}
	if e.Class != elf.ELFCLASS64 || e.Interpreter() != "" {
		return nil
	}
	if e.Type == elf.ET_EXEC || e.Type == elf.ET_DYN {
		return fmt.Errorf("%s is linked statically: nothing can be loaded into it; record it with --probe ebpf", path)
	}
	return fmt.Errorf("%s is an ELF file of type %s, not a program", path, e.Type)
}
