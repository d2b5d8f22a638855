package blame_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
)

// randomFailure writes a program that works on few allocations with all kinds of tasks, and ends in one of several ways.
func randomFailure(t *testing.T, seed uint64) *testtrace.Sequence {
	const out, device = 0x7ffe0000, uint64(0x124000000000)
	r := rand.New(rand.NewPCG(seed, 7))
	s := testtrace.NewSequence(t)
	s.Then("aclrtSetDevice", testtrace.A(0))
	streams := []uint64{0x5501, 0x5502, 0x5503}
	for _, h := range streams {
		s.Stream(h)
	}
	s.Then("aclrtCreateEvent", testtrace.A(out), testtrace.Outs("event", 0x7701))
	for i, name := range []string{"add", "matmul"} {
		s.Then("aclrtBinaryGetFunction", testtrace.A(0x6600, out, out), testtrace.Text("kernelName", name), testtrace.Outs("funcHandle", 0x6601+uint64(i)))
	}
	for n := range uint64(4) {
		s.Malloc(device+n<<20, 4096)
	}
	pick := func() uint64 { return device + uint64(r.IntN(5))<<20 + []uint64{0, 64, 2048, 4096, 8000}[r.IntN(5)] }
	for range 25 {
		s.Thread = uint32(r.IntN(2))
		stream := streams[r.IntN(len(streams))]
		n := uint64(64 << r.IntN(6))
		switch r.IntN(11) {
		case 0, 1:
			s.Then("aclrtMemcpyAsync", testtrace.A(pick(), n, 0x7f0000001000, n, 1, stream))
		case 2:
			s.Then("aclrtMemcpyAsync", testtrace.A(0x7f0000002000, n, pick(), n, 2, stream))
		case 3:
			s.Then("aclrtMemsetAsync", testtrace.A(pick(), n, 7, n, stream))
		case 4, 5, 6:
			args := testtrace.Words(pick(), pick(), n)
			s.Then("aclrtLaunchKernelWithHostArgs", testtrace.A(0x6601+uint64(r.IntN(2)), 8, stream, 0, out, uint64(len(args)), 0, 0), testtrace.Reads("hostArgs", 0, args))
		case 7:
			s.Then("aclrtFree", testtrace.A(device+uint64(r.IntN(4))<<20))
		case 8:
			s.Malloc(device+uint64(r.IntN(4))<<20, 2048)
		case 9:
			s.Then("aclrtRecordEvent", testtrace.A(0x7701, stream))
		case 10:
			s.Then("aclrtStreamWaitEvent", testtrace.A(stream, 0x7701))
		}
	}
	stream := streams[r.IntN(len(streams))]
	cut := func(_ *api.Func, c *format.Call) { c.Flags, c.Ret = format.Unfinished|format.Cut, 0 }
	switch seed % 6 {
	case 0, 1:
		s.Then("aclrtSynchronizeStream", testtrace.A(stream), testtrace.Fails(507015))
	case 2:
		s.Then("aclrtSynchronizeDevice", nil, testtrace.Hangs)
	case 3:
		s.Then("aclrtSynchronizeStream", testtrace.A(stream), testtrace.Fails(507000))
		s.Then("aclrtSynchronizeDevice", nil, testtrace.Fails(507015))
	case 4:
		s.Then("aclrtMalloc", testtrace.A(out, 1<<40, 0), testtrace.Fails(207001))
	case 5:
		s.Then("aclrtSynchronizeStream", testtrace.A(stream))
		s.Call(0, s.Now+20, s.Now+90_000_000_000, "aclrtSynchronizeDevice", nil, cut)
	}
	return s
}

// Findings about random programs that fail. If they change, read the calls of the program: the change may be as good.
func TestGoldenFailures(t *testing.T) {
	for seed := range uint64(24) {
		r := randomFailure(t, seed).Load().Reader
		rep, err := blame.Blame(r, acl.Model, nil)
		if err != nil {
			t.Fatal(err)
		}
		rep.Trace, rep.Origin = "", blame.Origin{}
		var b strings.Builder
		line := func(what string, of any) {
			j, err := json.Marshal(of)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s: %s\n", what, j)
		}
		line("failure", rep.Failure)
		fmt.Fprintf(&b, "%d in flight, %d more, %d failed, %d before, survived %v, lost %d\n", rep.InFlight, rep.More, rep.Failed, rep.Before, rep.Survived, rep.Lost)
		for i := range rep.Suspects {
			x := &rep.Suspects[i]
			fmt.Fprintf(&b, "suspect: call %d %s %s, certain %v, unlikely %v\n", x.Index, x.Func, x.Kernel, x.Certain, x.Unlikely())
			for _, reason := range x.Reasons {
				fmt.Fprintf(&b, "  reason %d of argument %d, source %d, %s\n", reason.Kind, reason.Argument, reason.Source, reason.Addr)
			}
			for _, a := range x.Arguments {
				place := "nowhere"
				if p := a.Place; p != nil {
					place = fmt.Sprintf("%s+%d of %d, ended %v", p.Object, p.Offset, p.Size, p.Ended != nil)
				}
				fmt.Fprintf(&b, "  %s %s %s at %s: finding %d, beyond %d, end %q\n", a.Param, a.How, a.Value, place, a.Finding, a.Beyond, a.End)
			}
		}
		line("clues", rep.Clues)
		line("held", rep.Held)
		for i := range rep.History {
			h := &rep.History[i]
			fmt.Fprintf(&b, "history of %s, %d before:", h.Place.Object, h.Before)
			for _, a := range h.Accesses {
				fmt.Fprintf(&b, " call %d %s %d at %d,", a.Index, a.How, a.Size, a.Offset)
			}
			b.WriteString("\n")
		}
		testenv.Golden(t, "random.txtar", fmt.Sprint("seed ", seed), b.String())
	}
}
