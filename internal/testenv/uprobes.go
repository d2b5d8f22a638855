package testenv

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Uprobes handles an error about uprobes that could not be attached. It skips the test if the machine lacks the kernel
// features, which it checks without acltrace's own code, and fails the test otherwise.
func Uprobes(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if lack := uprobesLack(); lack != nil {
		t.Skipf("no uprobes here: %v", lack)
	}
	t.Fatalf("%+v", err)
}

func uprobesLack() error {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return errors.New("not for " + runtime.GOARCH)
	}
	if _, err := os.ReadFile("/sys/bus/event_source/devices/uprobe/type"); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("needs root")
	}
	// A one-word array: union bpf_attr's map_type, key_size, value_size, max_entries.
	attr := [4]uint32{unix.BPF_MAP_TYPE_ARRAY, 4, 4, 1}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return fmt.Errorf("bpf: %w", errno)
	}
	_ = unix.Close(int(fd))
	return nil
}
