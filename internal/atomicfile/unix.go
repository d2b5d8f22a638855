//go:build unix

package atomicfile

import (
	"io/fs"
	"os"
	"syscall"
)

const noFollow = syscall.O_NOFOLLOW

// foreign reports whether a file belongs to another user than this one and root.
func foreign(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid != 0 && int(st.Uid) != os.Geteuid()
}

// Lock takes the writer's lock of a file. The kernel releases it when the process ends.
func Lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// Writing reports whether a process has the writer's lock of the file at path.
func Writing(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close() // gives the lock back
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == syscall.EWOULDBLOCK
}

// flush returns the error that closing the file would return, such as a full network file system. It keeps file and lock open.
func flush(f *os.File) error {
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return err
	}
	return syscall.Close(fd)
}

// raise ends the program by a signal without a handler.
func raise(s os.Signal) { _ = syscall.Kill(syscall.Getpid(), s.(syscall.Signal)) }
