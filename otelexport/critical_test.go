package otelexport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/path"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// twoStreams has steps of launches on two streams. A slow kernel on the first one holds up the second one by an event. Each step ends with a wait
// and has more launches than a folded trace has spans.
func twoStreams(t *testing.T) *timeline.Timeline {
	b := testtrace.New(t)
	for i, name := range []string{"quick", "slow"} {
		b.Call(0, int64(10*i), int64(10*i+5), "aclrtBinaryGetFunction", testtrace.A(0x6600, 0x7ffe0020, 0x7ffe0018), testtrace.Text("kernelName", name), testtrace.Outs("funcHandle", testtrace.Function+uint64(i)))
	}
	now := int64(1000)
	launch := func(kernel, stream uint64, from, to int64) {
		b.Call(0, now, now+100, "aclrtLaunchKernel", testtrace.A(testtrace.Function+kernel, 8, testtrace.DeviceA, 64, stream), func(_ *api.Func, c *format.Call) {
			c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: uint64(from)}, format.Out{Param: api.TaskEndParam, Value: uint64(to)})
		})
		now += 150
	}
	for step := range int64(6) {
		b.Call(0, now, now+10, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", fmt.Sprint("step ", step)), func(_ *api.Func, c *format.Call) { c.Ret = uint64(step + 1) })
		now += 20
		for range 90 {
			launch(0, testtrace.StreamA, now+120, now+140)
		}
		end := now + 50_000 + 1_000*step
		launch(1, testtrace.StreamA, now+200, end)
		b.Call(0, now, now+50, "aclrtRecordEvent", testtrace.A(testtrace.Event, testtrace.StreamA))
		b.Call(0, now+60, now+100, "aclrtStreamWaitEvent", testtrace.A(testtrace.StreamB, testtrace.Event))
		now += 110
		launch(0, testtrace.StreamB, end+10, end+300)
		b.Call(0, now, end+400, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamB))
		now = end + 700
		b.Call(0, now, now+10, "mstxRangeEnd", testtrace.A(uint64(step+1)))
		now += 500
	}
	return b.Load()
}

// A real Jaeger has the critical paths that `acltrace stats --critical-path --json` prints, in folded traces too.
func TestCriticalPath(t *testing.T) {
	j, tl := oteltest.StartJaeger(t), twoStreams(t)
	var printed bytes.Buffer
	list, err := report.NewPathWriter(&printed)
	if err != nil {
		t.Fatal(err)
	}
	s, err := path.New(tl.Reader, tl.Model, &path.Options{Each: list.Path})
	if err := errors.Join(err, list.Close(s)); err != nil {
		t.Fatal(err)
	}
	var want struct {
		Paths []struct {
			Step    int
			NS      int64
			Entries []path.Entry
			Parts   []struct {
				Kind string
				Call int64
				NS   int64
			}
		}
	}
	if err := json.Unmarshal(printed.Bytes(), &want); err != nil || len(want.Paths) != 6 {
		t.Fatalf("%v: %d paths", err, len(want.Paths))
	}
	for _, o := range []Options{{}, {Layout: Lanes}, {MaxSpans: 100}} { // a quarter of the spans stays for the path
		o.Protocol, o.Endpoint = GRPC, j.GRPC
		lines, _ := written(t, tl, &Options{Layout: o.Layout, MaxSpans: o.MaxSpans})
		if _, err := send(t.Context(), tl, &o); err != nil {
			t.Fatal(err)
		}
		traces := map[string]bool{}
		for _, s := range lines {
			traces[s.Trace] = true
		}
		steps, folded := 0, 0
		for id := range traces {
			got := j.Spans(t, id)
			all := oteltest.ByID(t, got)
			root := rootSpans(got)[0]
			n, ok := root.Attrs["acl.step"].(int64)
			if !ok {
				continue
			}
			steps++
			p := want.Paths[n]
			times := map[string]int64{}
			for _, q := range p.Parts {
				switch q.Kind {
				case "call", "wait":
					times[fmt.Sprint("call ", q.Call)] += q.NS
				case "task":
					times[fmt.Sprint("task ", q.Call)] += q.NS
				}
			}
			for _, s := range got {
				ns, ok := s.Attrs["acl.critical_ns"].(int64)
				if s.Attrs["acl.count"] != nil {
					folded++
				}
				if !ok {
					continue
				}
				call, task, _ := oteltest.CallOf(all, s)
				key := fmt.Sprint(map[bool]string{true: "task ", false: "call "}[task], call)
				if s.Attrs["acl.critical"] != true || times[key] != ns {
					t.Errorf("step %d: %s takes %d ns on the path, want %d", n, key, ns, times[key])
				}
				delete(times, key)
			}
			for key, ns := range times {
				if o.MaxSpans == 0 || ns > 1_000 { // a folded trace keeps the long ones
					t.Errorf("step %d: %s has %d ns of the path, and no span says so", n, key, ns)
				}
			}
			var entries []any
			for _, e := range p.Entries[:min(5, len(p.Entries))] {
				entries = append(entries, e.String()+": "+map[bool]string{true: "<= "}[e.AtMost]+human.Duration(e.NS))
			}
			if have := fmt.Sprint(root.Attrs["acl.critical_path"]); have != fmt.Sprint(entries) || !strings.Contains(have, "slow on stream 1: ") {
				t.Errorf("step %d: the root has the entries %v, want %v", n, have, entries)
			}
		}
		if steps != 6 || (folded > 0) != (o.MaxSpans > 0) {
			t.Errorf("%d steps, %d folded spans", steps, folded)
		}
	}
}

// If not all spans on the critical path fit into a folded trace, the longest of them stay, although another thread has longer calls.
func TestFoldedCriticalPath(t *testing.T) {
	s := newProgram(t, "short", "long")
	at := int64(10_000)
	r := rand.New(rand.NewPCG(1, 2)) // a pattern would be steps
	for i := range int64(300) {
		kernel, took := "short", int64(200)
		if r.IntN(10) == 0 {
			kernel, took = "long", 600
		}
		s.launch(1_000+20*i, kernel, testtrace.StreamA, at, at+took)
		at += took
	}
	s.Call(0, 8_000, at+100, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	for i := range int64(300) {
		s.Call(1, at+200+1_000*i, at+1_100+1_000*i, "aclrtSetDevice", testtrace.A(0))
	}
	s.Call(0, at+400_000, at+400_010, "aclrtSetDevice", testtrace.A(0))
	all, _ := written(t, s.Load(), &Options{MaxSpans: 100})
	kept := map[string]int{}
	for _, s := range all {
		if s.Attrs["acl.critical"] == true && s.Kind == "Consumer" {
			kept[s.Name]++
		}
	}
	if len(all) > 100 || kept["long"] < 8 || kept["short"] > 3 {
		t.Errorf("%d spans, on the path %v", len(all), kept)
	}
}
