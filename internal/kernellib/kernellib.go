// Package kernellib identifies the kernel libraries that a simulator loads, and passes their list from the simulator to a recording
// or a replay.
//
// The list is a text file with one library a line: its build id, a space, and its path. The reader creates the file. The simulator
// appends a line when it has opened a library, so that the list is complete even if the process is killed.
package kernellib

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/internal/buildid"
)

// Library is a kernel library that a simulator has loaded.
type Library struct {
	Path    string
	BuildID string // "" if it is not known
}

// unknown is the build id in a line of a simulator that does not know it.
const unknown = "-"

// BuildID returns the build id of a file in hexadecimal, or "sha256:" and the hash of its content if it has none; "" if it can't be read.
func BuildID(path string) string {
	if id := buildid.Of(path); id != "" {
		return id
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Exports reports whether a file is a shared object that defines a symbol. It does not load the file.
func Exports(path, symbol string) (found bool) {
	defer func() { _ = recover() }() // debug/elf may panic on damaged files
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	return err == nil && slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == symbol && s.Section != elf.SHN_UNDEF })
}

// Create makes an empty list.
func Create(file string) error { return os.WriteFile(file, nil, 0o600) }

// Append adds a library to a list. A list that does not exist has no reader, and is not made.
func Append(file string, l Library) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	id := l.BuildID
	if id == "" {
		id = unknown
	}
	_, err = f.WriteString(id + " " + l.Path + "\n")
	return errors.Join(err, f.Close())
}

// Read returns the libraries of a list in the order of their lines, each once.
func Read(file string) ([]Library, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var libs []Library
	for line := range strings.Lines(string(b)) {
		id, path, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || !strings.HasSuffix(line, "\n") || !filepath.IsAbs(path) {
			continue
		}
		if id == unknown {
			id = BuildID(path)
		}
		if l := (Library{path, id}); !slices.Contains(libs, l) {
			libs = append(libs, l)
		}
	}
	return libs, nil
}
