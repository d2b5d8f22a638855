//go:build unix

package container

import (
	"os"
	"syscall"
)

// lock takes the writer's lock of the file, which the kernel gives back however the process ends.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
