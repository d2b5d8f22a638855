package uprobe

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// Feature is an ability of the kernel that the probes use if it is there.
type Feature struct {
	Name  string
	Linux string       // first version that has it
	test  func() error // nil: the version decides
}

// Features returns the table of features, each declared beside the code that uses it. The doctor command lists it.
func Features() []*Feature {
	return []*Feature{attachMany, allocateAtProbes, waitForPages, probeCookies, ancestorCgroups, cgroupAccounting}
}

// Supported reports whether the kernel has the feature. Without the right to try it, the kernel's version decides.
func (f *Feature) Supported() bool {
	if f.test != nil {
		if err := f.test(); !errors.Is(err, unix.EPERM) {
			return err == nil
		}
	}
	var major, minor uint32
	version, err := features.LinuxVersionCode()
	_, _ = fmt.Sscanf(f.Linux, "%d.%d", &major, &minor)
	return err != nil || version >= major<<16|minor<<8
}
