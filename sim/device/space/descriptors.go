package space

import "golang.org/x/sys/unix"

// KeepDescriptor is called with true for each file descriptor that stays open between calls, and with false before it
// is closed. Set it before creating devices.
var KeepDescriptor = func(fd int, keep bool) {}

// MemFile creates a memory file that stays open.
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

// CloseKept closes a descriptor from MemFile.
func CloseKept(fd int) {
	KeepDescriptor(fd, false)
	unix.Close(fd)
}
