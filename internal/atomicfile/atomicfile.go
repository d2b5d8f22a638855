// Package atomicfile writes files and directories that get their final name only when they are complete.
//
// Create opens path+Suffix, Keep renames it to path, and Drop removes it. A crash leaves the partial file, and the next
// Create of the same path removes it. The partial file is locked, so a second writer fails. Devices and pipes are written in
// place.
//
// A recording is read while it grows, so it has its name from the start: Open makes it. If an older file has the name, a
// Successor replaces it as soon as the new file has content.
//
// Commands and the packages format, record, replay and parquet write with it, from any goroutine. New files are readable by
// their owner only. Directories may be shared, such as /tmp: the package never writes through a link or into a file of
// another user. Package private checks directories with code.
package atomicfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/acltrace/acltrace/internal/private"
)

// Suffix ends the name of a partial file.
const Suffix = ".acltrace-part"

// A File has a temporary name until Keep renames it. Drop removes a File that was not kept.
type File struct {
	*os.File
	path   string // final name
	direct bool   // device or pipe, written in place
	done   bool
}

var (
	mu   sync.Mutex               // held while files are renamed or removed
	open = map[any]func() error{} // partial files and folders, with the function that removes them
)

// Before is called before a file or folder is kept, if a test has set it.
var Before func()

// Create makes a file that replaces path at Keep. It has the permissions of the replaced file if that belongs to this user,
// otherwise 0600. Create fails if path can't be replaced or another process is writing it.
func Create(path string) (*File, error) { return CreateAs(path, "") }

// CreateAs is Create with a temporary name of the caller, which must be in the same folder.
func CreateAs(path, part string) (*File, error) {
	direct, err := device(path)
	if err == nil && direct {
		err = private.Links(path)
	}
	if err != nil {
		return nil, err
	}
	if direct {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		return &File{File: f, path: path, direct: true}, err
	}
	if path, err = resolve(path); err != nil {
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

// device reports whether path is written in place: a device, pipe or socket, not a regular file.
func device(path string) (bool, error) {
	is, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || is.Mode().IsRegular() || is.IsDir() {
		return false, err
	}
	// A named pipe has a reader, who made it. /dev/stdout is a link and not affected.
	if at, err := os.Lstat(path); err == nil && at.Mode()&fs.ModeNamedPipe != 0 && foreign(at) {
		return false, notOwn(path)
	}
	return true, nil
}

// Free fails with an error that wraps fs.ErrExist if a file has the name path. Devices, pipes and partial files don't count.
func Free(path string) error {
	if is, err := os.Stat(path); err == nil && is.Mode().IsRegular() {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	return nil
}

// resolve follows symbolic links, so that Keep replaces their target. It refuses folders and links of other users.
func resolve(path string) (string, error) {
	at := path
	for range 40 { // the limit of Linux
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
	if err := private.Links(path); err != nil {
		return "", err
	}
	was, err := os.Stat(path)
	if strings.HasSuffix(path, "/") || err == nil && was.IsDir() {
		return "", fmt.Errorf("%s is a folder: name a file in it", path)
	}
	if is, err2 := os.Stat(at); err == nil && (err2 != nil || !os.SameFile(was, is)) {
		return path, nil // a magic link in /proc, whose text is not a path
	}
	return at, nil
}

// replaceable returns the permissions for the file that replaces path. It fails if path can't be written or another process
// is writing it.
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
		return 0o600, nil // not the permissions of another user's file
	}
	return info.Mode().Perm(), nil
}

// ErrTaken is wrapped by the error about a file that another process is writing.
var ErrTaken = errors.New("is being written by another process; wait for it or choose another name")

func taken(path string, err error) error { return fmt.Errorf("%s %w: %w", path, ErrTaken, err) }

// notOwn is the error about a file of another user at path.
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
		f.Close() // another process removed the new file as a leftover
	}
}

// removeLeft removes a partial file that a killed process left.
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
	// Its writer may have renamed or removed it before releasing the lock.
	if same, err := named(path, f); !same || err != nil {
		return err
	}
	return os.Remove(path)
}

// named reports whether path names the open file f.
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

// Open opens or makes a file that is written in place and may be read while it grows.
func Open(path string) (f *os.File, made bool, err error) {
	if path, err = resolve(path); err != nil {
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

// Fresh makes a file with permissions 0600 and replaces an existing one, but no device: root could remove /dev/null. The folder must
// belong to this user.
func Fresh(path string) (*os.File, error) {
	if st, err := os.Lstat(path); err == nil && !st.Mode().IsRegular() && st.Mode()&fs.ModeSymlink == 0 {
		return nil, fmt.Errorf("replace %s: it is not a file", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
}

// naming replaces the partial name in an error by path, if the partial file does not exist.
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

// Close does nothing, because writers close their file before the caller decides. Keep and Drop close it.
func (f *File) Close() error { return nil }

// Keep renames the file to its final name.
func (f *File) Keep() error { return Keep(f) }

// Drop removes the file unless it was kept.
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
	return errors.Join(f.remove(), f.File.Close()) // remove first: without the lock another writer could own the name
}

// Keep renames files to their final names. It checks all before the first rename, so an error usually leaves none renamed.
func Keep(files ...*File) error { return keep(files, false) }

// KeepTogether is Keep for files that are useless without each other. It removes all replaced files first, so a crash never
// leaves an old file beside a new one.
func KeepTogether(files ...*File) error { return keep(files, len(files) > 1) }

// between is called before each rename or removal, if a test has set it.
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

// WriteFile replaces the file at path by one with the content b.
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

// EndOnSignals removes partial files when a signal ends the program, until stop is called. It first calls before, if not
// nil. The program then dies from the signal as usual. Programs with other clean-up work handle signals themselves.
func EndOnSignals(before func()) (stop func()) {
	c, done := make(chan os.Signal, 1), make(chan struct{})
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	go func() {
		select {
		case s := <-c:
			if before != nil {
				before()
			}
			mu.Lock() // never unlocked: no file is kept any more
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
