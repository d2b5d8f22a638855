package compile

import (
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/plan"
)

// A result of a device's default stream was compared after a wait for another device's default stream, or for another device, if that wait
// ended last.
func TestResultsOfDefaultStreamsAreComparedAfterTheirWaits(t *testing.T) {
	const memory, host, size = 0x124000000000, 0x7f0000000000, 64
	stream, device := "aclrtSynchronizeStream", "aclrtSynchronizeDevice"
	args := map[string][]uint64{stream: testtrace.A(0)}
	for _, tt := range []struct{ name, wait, other string }{{"stream", stream, stream}, {"device", device, device}, {"both", stream, device}, {"none", "", stream}} {
		t.Run(tt.name, func(t *testing.T) {
			s := testtrace.NewSequence(t)
			s.Then("aclrtSetDevice", testtrace.A(0))
			s.Malloc(memory, size)
			s.Then("aclrtMallocHost", testtrace.A(0x7ffe0000, size), testtrace.Outs("hostPtr", host))
			s.Thread = 1
			s.Then("aclrtCreateContext", testtrace.A(0x7ffe0000, 1), testtrace.Outs("context", 0x9901))
			s.Then("aclrtSetCurrentContext", testtrace.A(0x9901))
			s.Thread = 0
			captured := s.Now + 70
			result := func(f *api.Func, c *format.Call) {
				c.Data = append(c.Data, format.Data{Param: uint8(f.Param("dst")), Dir: format.DirOut, Len: size, Bytes: make([]byte, size), Time: captured})
			}
			s.Then("aclrtMemcpyAsync", testtrace.A(host, size, memory, size, 2, 0), result)
			want := [2]uint64{}
			if tt.wait != "" {
				s.Then(tt.wait, args[tt.wait])
				want = [2]uint64{1, 6}
			}
			s.Thread = 1
			s.Then(tt.other, args[tt.other])
			s.Thread = 0
			s.Then("aclrtFree", testtrace.A(memory))
			p, err := Trace(s.Load().Reader, acl.Model, t.TempDir(), &Options{Backend: backend.New("", acl.Model), Place: PlaceAuto, Compare: true})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			var got [2]uint64 // comparisons, and the call before the last one
			for i := range p.Threads {
				call := uint64(0)
				for _, in := range p.File.Instructions(i) {
					switch in.Op {
					case plan.OpCall:
						call = in.Call
					case plan.OpCheck:
						got = [2]uint64{got[0] + 1, call}
					}
				}
			}
			if got != want {
				t.Errorf("%v, want %v; unproved: %v", got, want, p.Found.Unverified)
			}
		})
	}
}
