package main

// #include "native.h"
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/acltrace/acltrace/sim/device/space"
)

// keepDescriptors prevents the program from closing descriptors that the simulator and Go need.
func keepDescriptors() {
	space.KeepDescriptor = keepDescriptor
	time.Sleep(time.Nanosecond) // Go opens its poller at the first timer
	for _, fd := range pollDescriptors() {
		keepDescriptor(fd, true)
	}
}

func keepDescriptor(fd int, keep bool) {
	if fd < 0 || fd >= C.MAX_KEPT {
		return
	}
	word, bit := (*uint64)(unsafe.Pointer(&C.aclsim_kept[fd/64])), uint64(1)<<(fd%64)
	if keep {
		atomic.OrUint64(word, bit)
	} else {
		atomic.AndUint64(word, ^bit)
	}
}

// pollDescriptors returns the descriptors of Go's poller: an epoll instance and its wakeup event. The event data is
// an address in this library, which distinguishes it from the program's epoll instances.
func pollDescriptors() []int {
	const dir = "/proc/self/fd"
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, f := range files {
		if to, err := os.Readlink(dir + "/" + f.Name()); err != nil || to != "anon_inode:[eventpoll]" {
			continue
		}
		poll, err := strconv.Atoi(f.Name())
		if err != nil {
			continue
		}
		info, err := os.ReadFile("/proc/self/fdinfo/" + f.Name())
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(info)) {
			var event int
			var events, data uint64
			if n, _ := fmt.Sscanf(line, "tfd: %d events: %x data: %x", &event, &events, &data); n == 3 && C.native_holds(C.uint64_t(data)) != 0 {
				return []int{poll, event}
			}
		}
	}
	return nil
}
