package uprobe

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// Feature is a kernel ability that the probes use if it is available.
type Feature struct {
	Name  string
	Linux string       // first version, for example "5.15"
	test  func() error // nil: compare versions
}

// Supported reports whether the kernel has the feature. If this process may not try it, the version decides.
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
