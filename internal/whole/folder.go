package whole

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// partFolder holds what a folder is to have.
const partFolder = "acltrace-part"

// A Folder gets all that is in it at once. Until Keep it has nothing but a folder "acltrace-part", with what was made.
type Folder struct {
	lock *os.File
	made bool // it was not there before
	done bool
}

// Mkdir makes a folder, or takes one that is there and empty, but for what is left of a Folder. Its content may be executed:
// the folder is Private.
func Mkdir(path string) (*Folder, error) {
	made := !exists(path)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	if err := Private(path); err != nil {
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

// Private returns an error if other users can write to a folder or put another one in its place.
func Private(path string) error {
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return err
	}
	for dir := path; ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		mode, others := info.Mode(), fs.FileMode(0o002)
		if dir == path {
			if foreign(info) {
				return fmt.Errorf("%s belongs to another user, who could change what is written there: choose a folder of your own", dir)
			}
			others, mode = 0o022, mode&^fs.ModeSticky
		}
		if mode&others != 0 && mode&fs.ModeSticky == 0 {
			return fmt.Errorf("%s can be written by other users, who could change what is written there: chmod go-w %[1]s, or choose another folder", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
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
