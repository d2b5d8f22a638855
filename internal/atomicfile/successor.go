package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Successor replaces an older file once the new one has content. Until then the new file is written as Name, and the older
// one stays and is locked.
type Successor struct {
	path  string
	older *os.File
}

// Succeed locks the file at path, in order to replace it. It returns nil if there is no file, or an empty one. It fails if
// another process writes the file, or if the file belongs to another user.
func Succeed(path string) (*Successor, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil, err
	}
	if foreign(info) {
		return nil, notOwn(path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|noFollow, 0)
	if err != nil {
		return nil, err
	}
	if err := Lock(f); err != nil {
		return nil, errors.Join(taken(path, err), f.Close())
	}
	return &Successor{path, f}, nil
}

// Name returns the name to write to until Take.
func (s *Successor) Name() string { return s.path + Suffix }

// Take moves the older file aside, renames the new one to its name, and returns the older file's new name, "" if it is gone.
// On file systems with links, a file of the name exists at every moment. If another file has replaced the older one, Take
// moves that one. It fails if that file is being written.
func (s *Successor) Take() (aside string, err error) {
	if same, err := named(s.path, s.older); err != nil {
		return "", err
	} else if !same {
		other, err := Succeed(s.path)
		if err != nil {
			return "", err
		}
		if other != nil {
			defer other.Leave()
		}
	}
	if aside, err = MoveAside(s.path); err != nil {
		return "", err
	}
	if err := os.Rename(s.Name(), s.path); err != nil {
		return "", errors.Join(err, MoveBack(s.path, aside))
	}
	return aside, s.Leave()
}

// Leave unlocks the older file.
func (s *Successor) Leave() error { return s.older.Close() }

// MoveAside renames the file at path to the next number: run.aclt to run.1.aclt, or one above the highest. It returns the new
// name, "" if there is no file. The file may keep the old name, too, until another takes it.
func MoveAside(path string) (string, error) {
	path, err := resolve(path)
	if err != nil {
		return "", err
	}
	if !exists(path) {
		return "", nil
	}
	n := 1
	if all := Asides(path); len(all) > 0 {
		n = number(path, all[len(all)-1]) + 1
	}
	for ; ; n++ {
		aside := numbered(path, n)
		err := os.Link(path, aside)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil && !exists(aside) {
			err = os.Rename(path, aside)
		}
		if err != nil {
			return "", fmt.Errorf("move %s aside: %w", path, err)
		}
		return aside, nil
	}
}

// MoveBack undoes MoveAside.
func MoveBack(path, aside string) error {
	switch {
	case aside == "":
		return nil
	case exists(path):
		return os.Remove(aside)
	}
	return os.Rename(aside, path)
}

// Asides returns the files that were moved aside for the one at path, the oldest first.
func Asides(path string) []string {
	if to, err := resolve(path); err == nil {
		path = to
	}
	ext := filepath.Ext(path)
	entries, _ := os.ReadDir(filepath.Dir(path))
	var all []string
	for _, e := range entries {
		name := filepath.Join(filepath.Dir(path), e.Name())
		if strings.HasSuffix(name, ext) && e.Type().IsRegular() && number(path, name) > 0 {
			all = append(all, name)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return number(path, a) - number(path, b) })
	return all
}

func numbered(path string, n int) string {
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, ext), n, ext)
}

// number returns the number of a file that was moved aside, 0 for another file.
func number(path, aside string) int {
	ext := filepath.Ext(path)
	middle, ok := strings.CutPrefix(strings.TrimSuffix(filepath.Base(aside), ext), strings.TrimSuffix(filepath.Base(path), ext)+".")
	n, err := strconv.Atoi(middle)
	if !ok || err != nil || n <= 0 || filepath.Base(numbered(path, n)) != filepath.Base(aside) {
		return 0
	}
	return n
}
