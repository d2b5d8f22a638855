package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/acltrace/acltrace/internal/private"
)

// PartFolder is the temporary subfolder with the content of a Folder.
const PartFolder = "acltrace-part"

// A Folder gets its content at Keep. Until then it contains only the subfolder "acltrace-part", in which the content is made.
type Folder struct {
	lock *os.File
	old  []string // earlier content, which Keep removes
	made bool     // Remake made the folder
	done bool
}

// Remake makes a folder, or takes an empty one of this user, and removes the leftover of a crash. It also takes a folder that
// contains all the named files. Keep removes its earlier content, these files first. The content may be executed, so nobody
// else may be able to change it.
func Remake(path string, files ...string) (*Folder, error) {
	made := !exists(path)
	if err := private.MakeFolder(path); err != nil {
		return nil, err
	}
	if err := private.CodeFolder(path); err != nil {
		if made {
			err = errors.Join(err, os.Remove(path))
		}
		return nil, err
	}
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f := &Folder{lock: d, made: made}
	if err := f.begin(files); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	begun(f, f.remove)
	return f, nil
}

func (f *Folder) begin(replaced []string) error {
	path := f.lock.Name()
	if err := Lock(f.lock); err != nil {
		return taken(path, err)
	}
	names, err := f.lock.Readdirnames(-1)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == PartFolder })
	if len(names) > 0 {
		for _, n := range replaced {
			if !slices.Contains(names, n) {
				replaced = nil
			}
		}
		if len(replaced) == 0 {
			return fmt.Errorf("%s: %w", path, syscall.ENOTEMPTY)
		}
		f.old = slices.Concat(replaced, names)
	}
	if err := os.RemoveAll(f.Name()); err != nil {
		return err
	}
	return os.Mkdir(f.Name(), 0o700)
}

// Name returns the subfolder to write into.
func (f *Folder) Name() string { return filepath.Join(f.lock.Name(), PartFolder) }

// Keep moves the content into the folder. It moves the file named last at the end, as the sign that the folder is complete.
func (f *Folder) Keep(last string) error {
	if Before != nil {
		Before()
	}
	mu.Lock()
	defer mu.Unlock()
	from := f.Name()
	in, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, n := range f.old {
		if err := os.RemoveAll(filepath.Join(f.lock.Name(), n)); err != nil {
			return err
		}
	}
	give := func(name string) error {
		return os.Rename(filepath.Join(from, name), filepath.Join(f.lock.Name(), name))
	}
	for _, e := range in {
		if e.Name() != last {
			if err := give(e.Name()); err != nil {
				return err
			}
		}
	}
	if err := give(last); err != nil {
		return err
	}
	f.done = true
	delete(open, f)
	return errors.Join(os.Remove(from), f.lock.Close())
}

// Drop removes the content unless it was kept, and the folder if Remake made it.
func (f *Folder) Drop() error {
	mu.Lock()
	defer mu.Unlock()
	if f.done {
		return nil
	}
	f.done = true
	delete(open, f)
	return errors.Join(f.remove(), f.lock.Close())
}

func (f *Folder) remove() error {
	err := os.RemoveAll(f.Name())
	if f.made {
		err = errors.Join(err, os.Remove(f.lock.Name()))
	}
	return err
}
