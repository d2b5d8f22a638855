// Package kernellib identifies the kernel libraries that a simulator loads, and passes their list to a recording or a replay.
//
// The list is a text file. A line has a library's build id, a space, and its path. A line "? NAME" is a kernel that no library
// implements, "! NAME" a kernel that crashed, "~ NAME" an operator that is not computed. Packages record and replay create the file and read it. The simulator's engine
// appends a line when it opens a library, at the first launch of a missing kernel, and at a crash. So the list is complete
// even if the process is killed.
//
// The package also keeps the user's own list of libraries (Own). It never loads a library.
package kernellib

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/internal/elffile"
	"github.com/acltrace/acltrace/internal/regular"
)

// Library is a kernel library that a simulator has loaded.
type Library struct {
	Path    string
	BuildID string // "" if it is not known
}

const (
	unknown = "-" // in place of a build id that the simulator does not know
	missing = "?" // before the name of a kernel
	crashed = "!" // before the name of a kernel
	skipped = "~" // before the name of an operator
)

// BuildID returns a file's build id in hexadecimal, "sha256:" and the content's hash if it has none, or "" if it can't be read.
func BuildID(path string) string {
	if id := elffile.BuildID(path); id != "" {
		return id
	}
	hash, _ := Hash(path)
	return hash
}

// Exports reports whether a file is a shared object with a defined symbol. It does not load the file.
func Exports(path, symbol string) bool {
	file, err := Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	f, err := elffile.New(file)
	return err == nil && f.Exports(symbol)
}

// Resolve checks a kernel library, which must export a symbol, and returns its absolute path: programs change their folder.
func Resolve(path, symbol string) (string, error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(abs)
	}
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		err = e.Err
	}
	if err == nil && !Exports(abs, symbol) {
		err = fmt.Errorf("not a kernel library: it does not export %s", symbol)
	}
	return abs, err
}

// Create makes an empty list.
func Create(file string) error { return os.WriteFile(file, nil, 0o600) }

// Append adds a library to a list. A list that does not exist has no reader, and is not made.
func Append(file string, l Library) error {
	id := l.BuildID
	if id == "" {
		id = unknown
	}
	return appendLine(file, id+" "+l.Path)
}

// AppendMissing adds a kernel that no library implements to a list.
func AppendMissing(file, kernel string) error { return appendLine(file, missing+" "+kernel) }

// AppendCrashed adds a kernel that crashed in its own code to a list.
func AppendCrashed(file, kernel string) error { return appendLine(file, crashed+" "+kernel) }

// AppendNotComputed adds an operator that was launched and not computed to a list.
func AppendNotComputed(file, operator string) error { return appendLine(file, skipped+" "+operator) }

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// A List is the content of a list.
type List struct {
	Libraries   []Library // in line order, each once
	Missing     []string  // names of the kernels that no library implements, sorted
	Crashed     []string  // names of the crashed kernels, sorted
	NotComputed []string  // names of the operators that are not computed, sorted
}

// MaxList limits the size of a list in bytes. Code of kernels can write into the list of its replay.
const MaxList = 4 << 20

// Read reads a list.
func Read(file string) (*List, error) {
	b, err := regular.ReadFile(file, MaxList)
	if err != nil {
		return nil, err
	}
	l, seen := &List{}, map[Library]bool{}
	for line := range strings.Lines(string(b)) {
		line, ended := strings.CutSuffix(line, "\n")
		id, text, ok := strings.Cut(line, " ")
		switch {
		case !ended || !ok:
		case id == missing:
			l.Missing = append(l.Missing, text)
		case id == crashed:
			l.Crashed = append(l.Crashed, text)
		case id == skipped:
			l.NotComputed = append(l.NotComputed, text)
		case filepath.IsAbs(text):
			if id == unknown {
				id = ""
			}
			if lib := (Library{text, id}); !seen[lib] {
				seen[lib] = true
				l.Libraries = append(l.Libraries, lib)
			}
		}
	}
	for _, names := range []*[]string{&l.Missing, &l.Crashed, &l.NotComputed} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return l, nil
}
