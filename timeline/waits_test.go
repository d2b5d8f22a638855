package timeline_test

import (
	"fmt"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/internal/ordertest"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// The words for a wait name the call that the table of programs has.
func TestWaitsInWords(t *testing.T) {
	ordertest.Each(t, func(t *testing.T, p *ordertest.Program, tr *ordertest.Trace) {
		s := timeline.NewState(acl.Model).Read(tr.Reader)
		w := timeline.NewWaits(s)
		waits := map[string][]timeline.Wait{}
		for c, err := range tr.Reader.CallsByStart(nil) {
			if err != nil {
				t.Fatal(err)
			}
			waits[tr.Names[c.Index]] = w.Of(s.Apply(tr.Reader.ProcessOf(c.Thread), c))
		}
		_, edges := p.Wants()
		for _, e := range edges {
			got := waits[e.After]
			switch {
			case e.Is("nothing", "same stream", "host wait?", "device wait") || e.Is("host wait") && !e.Is("host wait for an event"):
				if len(got) > 0 {
					t.Errorf("%s %s", e.After, &got[0])
				}
			case tr.Calls[e.After] < tr.Calls[e.Before()]: // the wait came first
			case len(got) != 1 || got[0].Call != tr.Calls[e.Before()]:
				t.Errorf("%s: %v, want %s", e.After, got, e.Text)
			case e.Is("event r") && p.Name == "an event":
				if text, want := got[0].String(), fmt.Sprintf("waits for event#%d(older), recorded by call %d on stream#%d", got[0].Object.ID, got[0].Call, got[0].Lane.Stream.ID); text != want {
					t.Errorf("%q, want %q", text, want)
				}
			case e.Is("value"):
				if got[0].Object != nil {
					t.Errorf("%s", &got[0])
				}
			}
		}
	})
}

// A wait that came before its write was said to wait for the write of another value, which does not end it.
func TestWaitsForValuesKnowTheirConditions(t *testing.T) {
	type step struct {
		write uint64 // if wait is 0
		wait  uint64
		flag  uint64
		by    int // step that writes the value, -1 for none so far
	}
	for name, steps := range map[string][]step{
		"at least":             {{write: 5}, {wait: 4, by: 0}, {wait: 5, by: 0}, {wait: 6, by: -1}, {write: 6}, {wait: 6, by: 4}},
		"equal":                {{write: 1}, {wait: 1, flag: 1, by: 0}, {write: 9}, {wait: 1, flag: 1, by: -1}, {write: 1}, {wait: 1, flag: 1, by: 4}},
		"a bit":                {{write: 1}, {wait: 2, flag: 2, by: -1}, {write: 6}, {wait: 2, flag: 2, by: 2}},
		"not all bits":         {{write: 1}, {wait: ^uint64(1), flag: 3, by: -1}, {write: 2}, {wait: ^uint64(1), flag: 3, by: 2}, {wait: ^uint64(3), flag: 3, by: 2}},
		"an unknown condition": {{write: 1}, {wait: 2, flag: 7, by: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			b := testtrace.New(t)
			b.Call(0, 100, 110, "aclrtMalloc", testtrace.A(0x100, 4096, 0), testtrace.Outs("devPtr", testtrace.DeviceA))
			b.Call(0, 120, 130, "aclrtCreateStream", testtrace.A(0x100), testtrace.Outs("stream", testtrace.StreamA))
			b.Call(0, 140, 150, "aclrtCreateStream", testtrace.A(0x100), testtrace.Outs("stream", testtrace.StreamB))
			for i, x := range steps {
				at := int64(1000 + 100*i)
				if x.wait == 0 {
					b.Call(0, at, at+10, "aclrtValueWrite", testtrace.A(testtrace.DeviceA, x.write, 0, testtrace.StreamA))
				} else {
					b.Call(0, at, at+10, "aclrtValueWait", testtrace.A(testtrace.DeviceA, x.wait, x.flag, testtrace.StreamB))
				}
			}
			r := b.Load().Reader
			s := timeline.NewState(acl.Model).Read(r)
			w := timeline.NewWaits(s)
			var got []int
			for c, err := range r.CallsByStart(nil) {
				if err != nil {
					t.Fatal(err)
				}
				by := -1
				if waits := w.Of(s.Apply(r.ProcessOf(c.Thread), c)); len(waits) > 0 {
					by = int(waits[0].Call) - 3
				}
				got = append(got, by)
			}
			for i, x := range steps {
				if x.wait != 0 && got[3+i] != x.by {
					t.Errorf("step %d: written by %d, want %d", i, got[3+i], x.by)
				}
			}
		})
	}
}
