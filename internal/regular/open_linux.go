package regular

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func openFolder(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

// open checks the file type before it opens the file, because opening a device as root may even restart the machine.
func open(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	at := os.NewFile(uintptr(fd), path)
	defer at.Close()
	if err := Check(at); err != nil {
		return nil, err
	}
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), flags, 0)
	if errors.Is(err, unix.ENOENT) { // a root folder without /proc
		fd, err = unix.Open(path, flags, 0)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
