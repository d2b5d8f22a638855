//go:build unix

package atomicfile

import (
	"io/fs"
	"os"
	"syscall"
)

const noFollow = syscall.O_NOFOLLOW

// foreign reports whether a file belongs to another user, who is not root.
func foreign(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid != 0 && int(st.Uid) != os.Geteuid()
}

// Lock takes the writer's lock of a file, which the kernel gives back however the process ends.
func Lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// flush tells what a file system says when a file is closed, as one of another machine that is full, and leaves the file open, with its lock.
func flush(f *os.File) error {
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return err
	}
	return syscall.Close(fd)
}

// raise ends the program as a signal does that nobody handles.
func raise(s os.Signal) { _ = syscall.Kill(syscall.Getpid(), s.(syscall.Signal)) }
