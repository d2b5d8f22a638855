package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/acltrace/acltrace/internal/private"
)

// partFolder holds what a folder is to have.
const partFolder = "acltrace-part"

// A Folder gets all that is in it at once. Until Keep it has nothing but a folder "acltrace-part", with what was made.
type Folder struct {
	lock *os.File
	made bool // it was not there before
	done bool
}

// Mkdir makes a folder, or takes one of this user's that is there and empty, but for what is left of a Folder. Its content may be
// executed: nobody else may be able to change it.
func Mkdir(path string) (*Folder, error) {
	made := !exists(path)
	if err := os.MkdirAll(path, 0o700); err != nil {
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
	if err := f.begin(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	begun(f, f.remove)
	return f, nil
}

func (f *Folder) begin() error {
	path := f.lock.Name()
	if err := Lock(f.lock); err != nil {
		return taken(path, err)
	}
	names, err := f.lock.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n != partFolder {
			return fmt.Errorf("%s is not empty: name a folder that is, or a new one", path)
		}
	}
	if err := os.RemoveAll(f.Name()); err != nil {
		return err
	}
	return os.Mkdir(f.Name(), 0o700)
}

// Name is the folder to write into.
func (f *Folder) Name() string { return filepath.Join(f.lock.Name(), partFolder) }

// Keep puts into the folder what was written, at the end what it is of no use without.
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

// Drop removes what was not kept.
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
