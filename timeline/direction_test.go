package timeline_test

import (
	"testing"

	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// TestDirectionOfOlderMemory checks that the function determines the direction of a copy if its memory is older than the recording.
func TestDirectionOfOlderMemory(t *testing.T) {
	const device, host = 0x302000000000, 0x7f0000001000
	for name, c := range map[string]struct {
		args []uint64
		want string
	}{
		"cuMemcpyHtoD_v2": {[]uint64{device, host, 64}, "HtoD"}, "cuMemcpyDtoHAsync_v2": {[]uint64{host, device, 64, 0}, "DtoH"}, "cuMemcpyDtoD_v2": {[]uint64{device, device + 64, 64}, "DtoD"},
	} {
		e := timeline.NewState(cuda.Model).Apply(0, &format.Call{Func: uint16(cuda.Model.Lookup(name).ID), Args: c.args})
		if got := timeline.Direction(cuda.Model, e); got != c.want {
			t.Errorf("%s goes %s", name, got)
		}
	}
}
