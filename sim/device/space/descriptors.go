package space

import "golang.org/x/sys/unix"

// KeepDescriptor is called for each file descriptor that the simulator keeps open between calls, and again with false before the descriptor is
// closed. Set it before New.
var KeepDescriptor = func(fd int, keep bool) {}

// MemFile makes a file in memory that the simulator keeps open.
func MemFile(name string, size int64) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		unix.Close(fd)
		return -1, err
	}
	KeepDescriptor(fd, true)
	return fd, nil
}

// CloseKept closes a descriptor that KeepDescriptor was called for.
func CloseKept(fd int) {
	KeepDescriptor(fd, false)
	unix.Close(fd)
}
