package timeline_test

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// A recorder knows no objects, so the addresses alone decide.
func TestInputBytes(t *testing.T) {
	device, host := acl.Model.Device.From+4096, uint64(0x7f0000001000)
	for _, c := range []struct {
		name string
		args []uint64
		want uint64
	}{
		{"aclrtMemcpyAsync", []uint64{device, 128, host, 64, 1, 0x9000}, 64},
		{"aclrtMemcpy", []uint64{device, 128, host, 32, 1}, 32},
		{"aclrtMemcpy", []uint64{host, 128, device, 32, 2}, 0},
		{"aclrtMemcpy", []uint64{device, 128, device + 512, 32, 3}, 0},
		{"aclrtSynchronizeStream", []uint64{0x9000}, 0},
	} {
		f := acl.Model.Lookup(c.name)
		if got := timeline.InputBytes(acl.Model, f, &format.Call{Func: uint16(f.ID), Args: c.args}); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	f := cuda.Model.Lookup("cuMemcpyHtoD_v2")
	if got := timeline.InputBytes(cuda.Model, f, &format.Call{Func: uint16(f.ID), Args: []uint64{0x302000000000, host, 64}}); got != 64 {
		t.Errorf("%s: %d", f.Name, got)
	}
}
