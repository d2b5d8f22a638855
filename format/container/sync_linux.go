package container

import (
	"os"
	"syscall"
)

// datasync waits until the storage device has the file's bytes and length, but not its times.
func datasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// allocate reserves space in the file system without changing the file's length.
func allocate(f *os.File, off, n int64) error {
	const keepSize = 1 // FALLOC_FL_KEEP_SIZE
	return syscall.Fallocate(int(f.Fd()), keepSize, off, n)
}
