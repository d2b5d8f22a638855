package replay

import (
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
)

// Arguments in device memory are made addresses by the copy that brings them. What they point to may be another allocation by the time of
// the launch, in the same place: that is said.
func TestDeviceArguments(t *testing.T) {
	for name, again := range map[string]bool{"as copied": false, "another allocation": true} {
		tw := newTrace(t)
		tw.begin()
		tw.load()
		tw.malloc(dev, 64)
		tw.malloc(dev+512, 64)
		tw.toDevice(dev, words(dev+512, 64))
		if again {
			tw.call("aclrtFree", []uint64{dev + 512})
			tw.malloc(dev+512, 128)
		}
		tw.call("aclrtLaunchKernel", []uint64{fun, 1, dev, 16, stream})
		tw.sync()
		r, err := format.Open(tw.close(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		p, err := newPlan(r, acl.Model, t.TempDir(), &Options{})
		if err != nil {
			t.Fatal(err)
		}
		said := len(p.found.host) == 1 && strings.Contains(p.found.host[0].Reason, "at byte 0, was no address of device")
		if len(p.found.unsupported) > 0 || said != again {
			t.Errorf("%s: %+v, unsupported %+v", name, p.found.host, p.found.unsupported)
		}
	}
}
