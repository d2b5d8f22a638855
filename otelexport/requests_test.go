package otelexport

import (
	"fmt"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/google/go-cmp/cmp"
)

// Calls of a thread within a request appear under the program's parent and in the recording: on two threads at once, in
// nested ranges and in consecutive ones. Ranges that are not sampled or never end are ignored.
func TestRequestsAppearUnderTheirParent(t *testing.T) {
	b := testtrace.New(t)
	at := int64(0)
	call := func(thread uint32, name string, args []uint64, mods ...testtrace.Mod) {
		at += 1_000
		b.Call(thread, at, at+500, name, args, mods...)
	}
	begin := func(thread uint32, id uint64, message string) {
		call(thread, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", message), func(_ *api.Func, c *format.Call) { c.Ret = id })
	}
	trace := func(n int) string { return fmt.Sprintf("%032x", n) }
	parent := func(n int) string { return "traceparent=00-" + trace(n) + "-" + oteltest.Caller }
	end := func(thread uint32, id uint64) { call(thread, "mstxRangeEnd", testtrace.A(id)) }
	copyTo := func(thread uint32, stream uint64) {
		call(thread, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1, stream))
	}
	wait := func(thread uint32, stream uint64) { call(thread, "aclrtSynchronizeStream", testtrace.A(stream)) }

	call(0, "aclrtCreateStream", testtrace.A(0x7ffe0000), testtrace.Outs("stream", testtrace.StreamA))
	copyTo(0, testtrace.StreamA) // before any request
	call(1, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", testtrace.StreamB))
	begin(0, 1, parent(1)+"-01 generate")
	begin(1, 2, parent(2)+"-01")
	copyTo(0, testtrace.StreamA)
	copyTo(1, testtrace.StreamB)
	begin(0, 3, parent(3)+"-01 within")
	copyTo(0, testtrace.StreamA)
	end(0, 3)
	wait(0, testtrace.StreamA)
	end(0, 1)
	copyTo(1, testtrace.StreamB)
	end(1, 2) // its task ends later
	copyTo(0, testtrace.StreamA)
	begin(0, 4, parent(4)+"-00")
	copyTo(0, testtrace.StreamA)
	end(0, 4)
	begin(0, 5, parent(5)+"-01 for ever")
	begin(0, 6, parent(6)+"-01")
	copyTo(0, testtrace.StreamA)
	end(0, 6)
	wait(1, testtrace.StreamB)
	wait(0, testtrace.StreamA)
	begin(2, 7, parent(7)+"-01") // of the other process, until the end
	end(2, 7)
	tl := b.Load()

	const start, ends, copies, waits = "mstxRangeStartA", "mstxRangeEnd", "copy HtoD 64 B", "wait stream 1"
	const task, open = copies + " (not measured)", copies + " (end unknown)"
	want := map[string]map[string]int{
		trace(1): {"request": 1, start: 2, ends: 2, copies: 2, task: 2, waits: 1, parent(1) + "-01 generate": 1, parent(3) + "-01 within": 1},
		trace(2): {"request": 1, start: 1, ends: 1, copies: 2, task: 2, parent(2) + "-01": 1},
		trace(3): {"request": 1, start: 1, ends: 1, copies: 1, task: 1, parent(3) + "-01 within": 1},
		trace(6): {"request": 1, start: 1, ends: 1, copies: 1, task: 1, parent(6) + "-01": 1},
		trace(7): {"request": 1, start: 1, ends: 1, parent(7) + "-01": 1},
	}
	for _, layout := range []string{Lanes, Nested} {
		spans, res := written(t, tl, &Options{Layout: layout})
		all := oteltest.ByID(t, spans)
		var recording []oteltest.Span
		got := map[string]map[string]int{}
		for _, s := range spans {
			if want[s.Trace] == nil {
				recording = append(recording, s)
				continue
			}
			if got[s.Trace] == nil {
				got[s.Trace] = map[string]int{}
			}
			if _, _, ok := oteltest.CallOf(all, s); ok || s.Attrs["acl.range"] != nil || s.Attrs["acl.part"] != nil {
				got[s.Trace][s.Name]++
			}
			p, ok := all[[2]string{s.Trace, s.Parent}]
			switch {
			case s.Name == "request":
				w := want[s.Trace]
				service := map[bool]string{true: "loader", false: "train"}[s.Trace == trace(7)]
				if s.Parent != oteltest.Caller || s.Resource["service.name"] != service || s.Attrs["acl.calls"] != int64(w[start]+w[ends]+w[copies]+w[waits]) {
					t.Errorf("%s: root %+v", layout, s)
				}
			case !ok || s.Attrs["acl.call"] != nil && (s.Start < p.Start || s.End > p.End):
				t.Errorf("%s: %s lies under %+v", layout, s.Name, p)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", layout, d)
		}
		// The recording has all calls too.
		calls := 0
		for _, s := range recording {
			if s.Attrs["acl.call"] != nil {
				calls++
			}
		}
		if calls != len(tl.Calls) || res.Traces != len(want)+len(verifyRoots(t, recording)) || res.FirstTraceID != rootSpans(recording)[0].Trace {
			t.Errorf("%s: %d calls of %d, %+v", layout, calls, len(tl.Calls), res)
		}
	}
}
