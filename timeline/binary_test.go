package timeline_test

import (
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/sim/opapi/block"
	"github.com/acltrace/acltrace/timeline"
)

// The arguments of an operator are shown with its name, data types and dims. Those that are invalid are shown as words.
func TestOperatorsAreShown(t *testing.T) {
	s := tell(t)
	s.Stream(0x5501)
	b := testtrace.OnTensors("aclnnAbs", testtrace.Contiguous(0x124000000000, block.In, 1, 2, 3), testtrace.Contiguous(0x124000001000, block.Out, 1, 2, 3)).Bytes()
	for _, version := range []byte{block.Version, 99} {
		b[8] = version
		s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(0x6601, 1, 0x5501, 0, 0x7ffe0000, uint64(len(b)), 0, 0), testtrace.Reads("hostArgs", 0, append([]byte{}, b...)))
	}
	var got []string
	s.events(func(st *timeline.State, e *timeline.Event) {
		for _, a := range e.Args(nil, acl.Model) {
			if a.Name == "hostArgs" {
				got = append(got, a.Text())
			}
		}
	})
	if len(got) != 2 || got[0] != "0x7ffe0000 aclnnAbs(float16[2,3], out float16[2,3])" || got[1][:30] != "0x7ffe0000 {0x6b6c62706f6c6361" {
		t.Errorf("%q", got)
	}
}
