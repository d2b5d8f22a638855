package compile

import (
	"fmt"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/plan"
)

// A result of a device's default stream was compared after a wait for another device's default stream, for another device, or for an event
// on another device's default stream, if that wait ended last.
func TestResultsOfDefaultStreamsAreComparedAfterTheirWaits(t *testing.T) {
	const memory, host, size = 0x124000000000, 0x7f0000000000, 64
	const stream, device, event, none = "aclrtSynchronizeStream", "aclrtSynchronizeDevice", "aclrtSynchronizeEvent", ""
	for _, tt := range []struct{ name, wait, other string }{
		{"stream", stream, stream}, {"device", device, device}, {"both", stream, device}, {"none", none, stream},
		{"event", event, event}, {"event alone", event, none}, {"event and stream", event, stream}, {"event of another device", none, event},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := testtrace.NewSequence(t)
			s.Then("aclrtSetDevice", testtrace.A(0))
			s.Malloc(memory, size)
			s.Then("aclrtMallocHost", testtrace.A(0x7ffe0000, size), testtrace.Outs("hostPtr", host))
			for _, handle := range []uint64{0x7701, 0x7702} {
				s.Then("aclrtCreateEvent", testtrace.A(0x7ffe0000), testtrace.Outs("event", handle))
			}
			s.Thread = 1
			s.Then("aclrtCreateContext", testtrace.A(0x7ffe0000, 1), testtrace.Outs("context", 0x9901))
			s.Then("aclrtSetCurrentContext", testtrace.A(0x9901))
			calls, copied := uint64(8), s.Now
			waits := func(thread uint32, wait string, handle uint64) {
				s.Thread = thread
				switch wait {
				case none:
					return
				case event:
					s.Then("aclrtRecordEvent", testtrace.A(handle, 0))
					s.Then(wait, testtrace.A(handle))
					calls++
				case stream:
					s.Then(wait, testtrace.A(0))
				case device:
					s.Then(wait, nil)
				}
				calls++
			}
			number := map[string]int64{stream: 1, device: 1, event: 2}
			captured := copied + 20*(1+number[tt.wait]+number[tt.other]) + 10 // the end of the last wait
			if tt.wait == none {
				captured += 20 // the program has gone on
			}
			s.Thread = 0
			s.Then("aclrtMemcpyAsync", testtrace.A(host, size, memory, size, 2, 0), func(f *api.Func, c *format.Call) {
				c.Data = append(c.Data, format.Data{Param: uint8(f.Param("dst")), Dir: format.DirOut, Len: size, Bytes: make([]byte, size), Time: captured})
			})
			waits(0, tt.wait, 0x7701)
			want := [2]uint64{}
			if tt.wait != none {
				want = [2]uint64{1, calls - 1}
			}
			waits(1, tt.other, 0x7702)
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

// Threads that look up one object at the same moment all get its handle. A replay stored the handle in the call that began first, and
// compared the handle of another thread before that call was made. It also used the handle before.
func TestLookupsAreOrderedAfterTheFirstOne(t *testing.T) {
	const handle = 0x9901
	lookups := map[string]func(s *testtrace.Sequence, thread uint32, from, to int64){
		"function": func(s *testtrace.Sequence, thread uint32, from, to int64) {
			s.Call(thread, from, to, "aclrtBinaryGetFunction", testtrace.A(0x8801, 0x10, 0x20), testtrace.Text("kernelName", "k"), testtrace.Outs("funcHandle", handle))
		},
		"context": func(s *testtrace.Sequence, thread uint32, from, to int64) {
			s.Call(thread, from, to, "aclrtGetCurrentContext", testtrace.A(0x20), testtrace.Outs("context", handle))
		},
		"stream": func(s *testtrace.Sequence, thread uint32, from, to int64) {
			s.Call(thread, from, to, "aclrtCtxGetCurrentDefaultStream", testtrace.A(0x20), testtrace.Outs("stream", handle))
		},
	}
	for name, lookup := range lookups {
		// The first lookup to begin ends before the other one, or after it.
		for _, end := range []int64{120, 400} {
			t.Run(fmt.Sprint(name, end), func(t *testing.T) {
				s := testtrace.NewSequence(t)
				s.Then("aclrtSetDevice", testtrace.A(0))
				s.Then("aclrtBinaryLoadFromData", testtrace.A(0x30, 8, 0, 0x20), testtrace.Outs("binHandle", 0x8801), testtrace.Reads("data", 0, make([]byte, 8)))
				lookup(s, 0, 100, end) // call 2
				lookup(s, 1, 110, 200) // call 3
				lookup(s, 0, 500, 510) // calls 4 and 5 overlap no first lookup
				lookup(s, 1, 505, 520)
				p, err := Trace(s.Load().Reader, acl.Model, t.TempDir(), &Options{Backend: backend.New("", acl.Model), Place: PlaceAuto, Compare: true})
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				var first uint64 // instructions of thread 0 up to the first lookup
				for i, in := range at(p, 0) {
					if in.Op == plan.OpCall && in.Call == 2 {
						first = uint64(i) + 1
					}
				}
				waits := uint64(0) // the first call that waits for it
				for _, in := range at(p, 1) {
					switch {
					case in.Op == plan.OpWait && in.Fn == 0 && in.At >= first && waits == 0:
						waits = in.Call
					case in.Op == plan.OpCheck && waits == 0:
						t.Errorf("call %d is compared before call 2 has the handle", in.Call)
					}
				}
				if waits != 3 {
					t.Errorf("call %d waits for call 2, want 3", waits)
				}
				for _, in := range at(p, 0) {
					if in.Op == plan.OpWait && in.Call == 2 {
						t.Error("the first lookup waits")
					}
				}
			})
		}
	}
}

// at returns a thread's instructions.
func at(p *Plan, thread int) (all []plan.Instruction) {
	for _, in := range p.File.Instructions(thread) {
		all = append(all, *in)
	}
	return all
}
