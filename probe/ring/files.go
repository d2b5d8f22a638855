package ring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// files is the folder of a session with its mapped files. Programs map them too and can truncate them: see fault.go.
type files struct {
	dir  string
	mode os.FileMode
	keep bool     // Close leaves the folder
	lock *os.File // of dir; held while a recorder has the session

	control []byte // the mapped file
	ctl     *control
	arena   []byte // the mapped file; nil for none

	controlGone atomic.Bool // truncated; several goroutines may find out
	arenaGone   bool        // truncated
}

// controlMaking is the name of the file `control` before it is complete.
const controlMaking = "control.new"

// path returns the path of a numbered file.
func (fs *files) path(name string, n uint32) string {
	return filepath.Join(fs.dir, name+strconv.FormatUint(uint64(n), 10))
}

// create makes a file and allocates it in full. It replaces one that a killed recorder has left.
func (fs *files) create(name string, size int64) (*os.File, error) {
	path := filepath.Join(fs.dir, name)
	os.Remove(path)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fs.mode)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Chmod(fs.mode), allocate(f, 0, size)); err != nil {
		f.Close()
		os.Remove(path)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// allocate allocates a range of a file, a MiB at a time: before Linux 6.0 a signal undoes the fallocate that it interrupts,
// and a Go program gets many signals.
func allocate(f *os.File, from, size int64) error {
	const part = 1 << 20
	for at := from; at < from+size; {
		switch err := unix.Fallocate(int(f.Fd()), 0, at, min(part, from+size-at)); {
		case err == nil:
			at += part
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
	return nil
}

// acquire locks the folder, or returns ErrTaken, wrapped. The kernel drops the lock when this process ends.
func (fs *files) acquire() (err error) {
	if fs.lock, err = os.Open(fs.dir); err != nil {
		return err
	}
	if unix.Flock(int(fs.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		fs.lock.Close()
		return fmt.Errorf("%s: %w", fs.dir, ErrTaken)
	}
	return nil
}

func mapShared(f *os.File, size int64) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func (fs *files) makeControl() error {
	f, err := fs.create(controlMaking, controlBytes)
	if err != nil {
		return err
	}
	defer f.Close()
	return fs.mapControl(f)
}

func (fs *files) mapControl(f *os.File) (err error) {
	if fs.control, err = mapShared(f, controlBytes); err == nil {
		fs.ctl = (*control)(unsafe.Pointer(&fs.control[0]))
	}
	return err
}

// arenaBytes is the size of the arena, unless it is more than a quarter of the session's memory.
const arenaBytes = 256 << 20

// makeArena makes the memory for large payloads. Without it, for want of memory, a session works more slowly.
func (fs *files) makeArena(o *Options) error {
	chunks := int64(min(arenaBytes, o.MemoryLimit/4) / arenaChunk)
	if chunks == 0 || o.PayloadLimit < arenaChunk/4 {
		return nil
	}
	f, err := fs.create("arena", chunks*arenaChunk)
	if errors.Is(err, unix.ENOSPC) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if fs.arena, err = mapShared(f, chunks*arenaChunk); err != nil {
		return err
	}
	for i := range chunks {
		fs.ctl.arenaFree[i/64].Or(1 << (i % 64))
	}
	fs.ctl.arenaChunks = uint32(chunks)
	return nil
}

// openArena maps the arena that another recorder has made.
func (fs *files) openArena() error {
	f, err := os.OpenFile(filepath.Join(fs.dir, "arena"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	fs.arena, err = mapShared(f, int64(fs.ctl.arenaChunks)*arenaChunk)
	return err
}

func (fs *files) makePassed() error {
	f, err := fs.create("passed", passedNames*passedBytes)
	if err != nil {
		return err
	}
	return f.Close()
}

func (fs *files) unmap() {
	for _, b := range [][]byte{fs.control, fs.arena} {
		if b != nil {
			unix.Munmap(b)
		}
	}
}
