// Package atomicfile makes files and folders that have their names once they are whole. Half a trace, or half of most that is
// made of one, can be read, and would be taken for all of it where whoever wrote it was killed or found the disk full;
// and what had the name before would be gone.
//
// Until they are kept, they lie beside their names, with Suffix. Who is killed leaves that behind, and who makes the
// same file next removes it. It is locked while it is written, so that two don't write the same.
//
// What others read while it grows, as a recording, has its name from the beginning: Open makes it. If an older file has the name, a
// Successor takes it over as soon as there is something to read.
//
// Files are readable by their owner alone. Folders may be writable by others, as /tmp is: what is written goes into a new
// file, never through a link or into a file that another user has put there. Package private refuses such folders for code.
package atomicfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
)

// Suffix ends the name of what is not whole.
const Suffix = ".acltrace-part"

// A File is written under another name until Keep gives it its own. Drop removes what was not kept.
type File struct {
	*os.File
	path   string // that it is to have
	direct bool   // it is a device or a pipe, which has no parts
	done   bool
}

var (
	mu   sync.Mutex               // names are given and taken back under it
	open = map[any]func() error{} // what has no name yet, and what removes it
)

// Before, where a test has set it, is called when what is written is about to get its name.
var Before func()

// Create makes a file with the permissions of the one that has the name, which stays until Keep, if it belongs to this user, else
// for its owner alone. It fails where the name can't be given to another file, and where somebody else is writing the file.
func Create(path string) (*File, error) { return CreateAs(path, "") }

// CreateAs is Create with the name that the file has while it is not whole, in the same folder.
func CreateAs(path, part string) (*File, error) {
	direct, err := device(path)
	if err != nil {
		return nil, err
	}
	if direct {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		return &File{File: f, path: path, direct: true}, err
	}
	if path, err = behind(path); err != nil {
		return nil, err
	}
	perm, err := replaceable(path)
	if err != nil {
		return nil, err
	}
	if part == "" {
		part = path + Suffix
	}
	f, err := take(part)
	if err != nil {
		return nil, naming(err, path)
	}
	if err := f.Chmod(perm); err != nil {
		return nil, errors.Join(naming(err, path), f.Close())
	}
	made := &File{File: f, path: path}
	begun(made, made.remove)
	return made, nil
}

func (f *File) remove() error { return os.Remove(f.Name()) }

func begun(made any, remove func() error) {
	mu.Lock()
	defer mu.Unlock()
	open[made] = remove
}

// device reports whether a name is of something that is written to as it comes, and not of a file.
func device(path string) (bool, error) {
	is, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || is.Mode().IsRegular() {
		return false, err
	}
	// A pipe that is opened by its name, which /dev/stdout is not, has a reader who has made it.
	if at, err := os.Lstat(path); err == nil && at.Mode()&fs.ModeNamedPipe != 0 && foreign(at) {
		return false, notOwn(path)
	}
	return true, nil
}

// behind follows symbolic links, other than those of other users: the file that they lead to is replaced, not they.
func behind(path string) (string, error) {
	at := path
	for range 40 { // as many as Linux follows
		to, err := os.Readlink(at)
		if err != nil {
			break
		}
		if link, err := os.Lstat(at); err != nil || foreign(link) {
			return "", notOwn(at)
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(at), to)
		}
		at = to
	}
	was, err := os.Stat(path)
	if is, err2 := os.Stat(at); err == nil && (err2 != nil || !os.SameFile(was, is)) {
		return path, nil // one of /proc, which only looks like a name
	}
	return at, nil
}

// replaceable returns the permissions of the file that another one is to take the place of, or of a new one, and an error
// where it may not: the file can't be written, or is being written.
func replaceable(path string) (perm fs.FileMode, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0o600, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := Lock(f); err != nil {
		return 0, taken(path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if foreign(info) {
		return 0o600, nil // who has put it there may read it
	}
	return info.Mode().Perm(), nil
}

// ErrTaken is wrapped where a file is being written by another process.
var ErrTaken = errors.New("is being written by another process; wait for it or choose another name")

func taken(path string, err error) error { return fmt.Errorf("%s %w: %w", path, ErrTaken, err) }

// notOwn is the error about what another user has put where a file is to be.
func notOwn(path string) error {
	return fmt.Errorf("%s is not yours: remove it or choose another name", path)
}

// take makes a file and locks it.
func take(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
		if errors.Is(err, fs.ErrExist) {
			if err := removeLeft(path); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := Lock(f); err != nil {
			return nil, errors.Join(taken(path, err), f.Close())
		}
		if same, err := named(path, f); same || err != nil {
			return f, err
		}
		f.Close() // somebody has taken it for what was left
	}
}

// removeLeft removes what somebody who was killed has left of a file.
func removeLeft(path string) error {
	at, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !at.Mode().IsRegular() || foreign(at) {
		return notOwn(path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|noFollow, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := Lock(f); err != nil {
		return taken(path, err)
	}
	// Whoever had it may have given it its name meanwhile, or removed it.
	if same, err := named(path, f); !same || err != nil {
		return err
	}
	return os.Remove(path)
}

// named reports whether a name is that of an open file.
func named(path string, f *os.File) (bool, error) {
	is, err := f.Stat()
	if err != nil {
		return false, err
	}
	at, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(is, at), err
}

// Open opens a file to write in place, for what others read while it grows, or makes it.
func Open(path string) (f *os.File, made bool, err error) {
	if path, err = behind(path); err != nil {
		return nil, false, err
	}
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
	if !errors.Is(err, fs.ErrExist) {
		return f, err == nil, err
	}
	if f, err = os.OpenFile(path, os.O_RDWR|noFollow, 0); err != nil {
		return nil, false, err
	}
	if info, err := f.Stat(); err != nil || foreign(info) {
		f.Close()
		return nil, false, cmp.Or(err, notOwn(path))
	}
	return f, false, nil
}

// Fresh makes a file for its owner alone, in place of one that has the name. The folder must be this user's.
func Fresh(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
}

// naming has an error speak of the file that was asked for, where it is of the folder.
func naming(err error, path string) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) && !exists(e.Path) {
		return &fs.PathError{Op: e.Op, Path: path, Err: e.Err}
	}
	return err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Path is the name that the file is to have. Name is the one that it has until then.
func (f *File) Path() string { return f.path }

// Close does nothing: writers that close what they have written leave it to Keep.
func (f *File) Close() error { return nil }

// Keep gives the file its name.
func (f *File) Keep() error { return Keep(f) }

// Drop removes the file, unless it was kept.
func (f *File) Drop() error {
	mu.Lock()
	defer mu.Unlock()
	return f.drop()
}

func (f *File) drop() error {
	if f.done {
		return nil
	}
	f.done = true
	delete(open, f)
	if f.direct {
		return f.File.Close()
	}
	return errors.Join(f.remove(), f.File.Close()) // in this order: without its lock it may be another's
}

// Keep gives files their names, all or, where one can't have its own, mostly none.
func Keep(files ...*File) error { return keep(files, false) }

// KeepTogether is Keep for files of which one is of no use without the others. What had their names goes first: who is
// killed in between leaves no file of before beside one of now.
func KeepTogether(files ...*File) error { return keep(files, len(files) > 1) }

// between, where a test has set it, is called before each step by which files get their names.
var between = func() {}

func keep(files []*File, together bool) error {
	if Before != nil {
		Before()
	}
	mu.Lock()
	defer mu.Unlock()
	for _, f := range files {
		if f.direct {
			continue
		}
		_, err := replaceable(f.path)
		if err = errors.Join(flush(f.File), err); err != nil {
			return err
		}
	}
	for _, f := range files {
		if together && !f.direct {
			between()
			if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	var err error
	for _, f := range files {
		between()
		if f.direct {
			err = errors.Join(err, f.drop())
			continue
		}
		if e := os.Rename(f.Name(), f.path); e != nil {
			err = errors.Join(err, e)
			continue
		}
		f.done = true
		delete(open, f)
		err = errors.Join(err, f.File.Close())
	}
	return err
}

// WriteFile makes a file of what is in it.
func WriteFile(path string, b []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Keep()
	}
	return errors.Join(err, f.Drop())
}

// EndOnSignals has the signals that ask a program to end do so as ever, behind removing what is not whole, until stop is
// called. It is for what has nothing else to undo.
func EndOnSignals() (stop func()) {
	c, done := make(chan os.Signal, 1), make(chan struct{})
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	go func() {
		select {
		case s := <-c:
			mu.Lock() // for good: nothing gets its name any more
			for _, remove := range open {
				_ = remove()
			}
			signal.Reset(s)
			raise(s)
		case <-done:
		}
	}()
	return sync.OnceFunc(func() {
		signal.Stop(c)
		close(done)
	})
}
