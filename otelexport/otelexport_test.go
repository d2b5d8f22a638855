package otelexport

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/google/go-cmp/cmp"

	"github.com/acltrace/acltrace/analyze/path"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// wantNames returns the names of a call's span and of its task's span, independently of the encoder.
func wantNames(tl *timeline.Timeline, c *timeline.HostCall) (call, task string) {
	if c.Task < 0 {
		switch c.Name {
		case "aclrtSynchronizeStream":
			if c.Waits < 0 {
				return "wait stream", ""
			}
			return "wait " + tl.Lanes[c.Waits].Name, ""
		case "aclrtSynchronizeDevice":
			return fmt.Sprintf("wait device %d", c.Waits), ""
		case "aclrtLaunchKernel":
			return "launch " + c.Kernel, ""
		}
		return c.Name, ""
	}
	k := &tl.Tasks[c.Task]
	switch k.Kind {
	case api.Kernel:
		call, task = "launch "+k.Name, k.Name
	case api.Copy, api.Fill:
		call = k.Name + " " + strings.Replace(human.Bytes(k.Bytes), ".0", "", 1)
		task = call
	case api.Record:
		call = fmt.Sprintf("record event#%d", k.Object.ID)
		task = call
	case api.Wait:
		task = fmt.Sprintf("wait event#%d", k.Object.ID)
		call = "stream " + task
	}
	switch {
	case k.Measured:
	case k.Open:
		task += " (end unknown)"
	default:
		task += " (not measured)"
	}
	return call, task
}

// verify compares spans without folded ones with their timeline, independently of the encoder. The tasks of the timeline are
// all measured, or none is.
func verify(t *testing.T, tl *timeline.Timeline, spans []oteltest.Span, layout string) {
	t.Helper()
	all := oteltest.ByID(t, spans)
	calls, tasks := map[int64]oteltest.Span{}, map[int64]oteltest.Span{}
	perTrace := map[string]int{}
	gaps := 0
	for _, s := range spans {
		perTrace[s.Trace]++
		if s.ID == oteltest.NoSpan || s.End <= s.Start {
			t.Fatalf("bad span %+v", s)
		}
		if s.Parent == oteltest.NoSpan {
			if len(s.Links) > 0 {
				t.Errorf("root with links: %+v", s)
			}
			continue
		}
		p, ok := all[[2]string{s.Trace, s.Parent}]
		if !ok {
			t.Fatalf("%s: its parent is not in the trace", s.Name)
		}
		i, task, ok := oteltest.CallOf(all, s)
		if p.Start > s.Start || p.End < s.End && !task && p.Name != "recording" && s.End > s.Start+1 {
			t.Errorf("%s [%d,%d] is not within %s [%d,%d]", s.Name, s.Start, s.End, p.Name, p.Start, p.End)
		}
		switch {
		case s.Name == "calls lost":
			gaps++
		case !ok:
			if p.Name != "recording" {
				t.Errorf("%s lies under %s", s.Name, p.Name)
			}
		case task:
			tasks[i] = s
		default:
			calls[i] = s
		}
	}
	own := 0
	for i := range tl.Tasks {
		if tl.Tasks[i].Fn.Stream >= 0 {
			own++
		}
	}
	if len(calls) != len(tl.Calls) || len(tasks) != own || gaps != len(tl.Reader.Gaps()) {
		t.Fatalf("%d calls, %d tasks, %d gaps; want %d, %d, %d", len(calls), len(tasks), gaps, len(tl.Calls), own, len(tl.Reader.Gaps()))
	}
	threads, critical := tl.Reader.Threads(), criticalTimes(t, tl)
	last := map[int]*timeline.Task{} // kernel, copy or fill, by lane
	records := map[int]*timeline.Task{}
	for i := range tl.Calls {
		c := &tl.Calls[i]
		s := calls[int64(c.Index)]
		th := threads[c.Thread]
		name, taskName := wantNames(tl, c)
		want := oteltest.Span{Trace: s.Trace, ID: s.ID, Parent: s.Parent, Resource: s.Resource, Scope: otlp.ScopeName, Schema: otlp.SchemaURL, Name: name, Kind: "Internal",
			Start: testtrace.StartWall + c.Start, End: testtrace.StartWall + c.End, Status: "Unset",
			Attrs: map[string]any{"acl.call": int64(c.Index), "code.function.name": c.Name}}
		waits := func(attrs map[string]any, k *timeline.Task) {
			if k == nil || k.Measured && k.To <= c.Start {
				return
			}
			_, full := wantNames(tl, &tl.Calls[slices.IndexFunc(tl.Calls, func(o timeline.HostCall) bool { return o.Index == k.Call })])
			full, _, _ = strings.Cut(full, " (")
			attrs["acl.waited_for"], attrs["acl.waited_for_call"] = full, int64(k.Call)
		}
		if c.Fn.Sync == api.SyncStream && c.Waits >= 0 {
			want.Attrs["acl.stream"] = tl.Lanes[c.Waits].Name
			waits(want.Attrs, last[int(c.Waits)])
		}
		if c.Flags&format.Unfinished != 0 {
			want.End = testtrace.StartWall + tl.End
			want.Attrs["acl.unfinished"] = true
			want.Status, want.Message = "Error", timeline.NeverReturned
			want.Attrs["error.type"] = want.Message
		} else if c.Ret != 0 {
			want.Attrs["acl.ret"] = int64(int32(c.Ret))
			want.Status, want.Message = "Error", "ACL_ERROR_INVALID_PARAM"
			want.Attrs["error.type"] = want.Message
			want.Attrs["acl.kernel"] = c.Kernel
		}
		if c.Task >= 0 {
			k := &tl.Tasks[c.Task]
			lane := tl.Lanes[k.Lane]
			about := map[string]any{}
			if k.Bytes > 0 {
				about["acl.bytes"] = int64(k.Bytes)
			}
			if k.Kind == api.Kernel {
				about["acl.kernel"] = k.Name
			} else {
				about["acl.task"] = k.Kind.String()
			}
			if k.Blocks > 0 {
				about["acl.blocks"] = int64(k.Blocks)
			}
			switch k.Kind {
			case api.Record:
				records[k.Object.ID] = last[k.Lane]
				about["acl.event"] = fmt.Sprintf("event#%d", k.Object.ID)
			case api.Wait:
				about["acl.event"] = fmt.Sprintf("event#%d", k.Object.ID)
				waits(about, records[k.Object.ID])
			default:
				last[k.Lane] = k
			}
			if lane.Synchronous { // no span of its own
				maps.Copy(want.Attrs, about)
			} else {
				want.Kind = "Producer"
				got := tasks[int64(c.Index)]
				w := want
				w.ID, w.Parent, w.Resource, w.Name, w.Kind = got.ID, got.Parent, got.Resource, taskName, "Consumer"
				if layout == Lanes {
					w.Links = [][2]string{{s.Trace, s.ID}}
				}
				if w.Start, w.End = testtrace.StartWall+c.Start, testtrace.StartWall+c.Start+1; k.Measured {
					w.Start, w.End = testtrace.StartWall+k.From, testtrace.StartWall+k.To
				}
				w.Attrs = about
				putCritical(about, critical[path.Task][c.Index])
				if layout == Nested {
					about["acl.stream"] = lane.Name
				}
				switch {
				case k.Measured:
					about["acl.device_ns"] = k.To - k.From
				case k.Open:
					about["acl.end"] = "unknown"
				default:
					about["acl.at_most_ns"] = k.To - k.From
				}
				if d := cmp.Diff(w, got); d != "" {
					t.Fatalf("task of call %d (-want +got):\n%s", c.Index, d)
				}
				p := all[[2]string{got.Trace, got.Parent}]
				if layout == Nested && p.ID != s.ID || layout == Lanes && p.Name != lane.Name {
					t.Fatalf("task of call %d lies under %s", c.Index, p.Name)
				}
				if got.Resource["service.name"] == s.Resource["service.name"] {
					t.Errorf("task and call %d are of one service", c.Index)
				}
			}
		}
		putCritical(want.Attrs, critical[path.Call][c.Index])
		if c.Fn.Sync == api.SyncDevice { // which of two streams is decided in another test
			delete(s.Attrs, "acl.waited_for")
			delete(s.Attrs, "acl.waited_for_call")
		}
		if d := cmp.Diff(want, s); d != "" {
			t.Fatalf("call %d (-want +got):\n%s", c.Index, d)
		}
		if p := all[[2]string{s.Trace, s.Parent}]; p.Attrs["thread.id"] != int64(th.TID) || th.Name != "" && p.Attrs["thread.name"] != th.Name {
			t.Fatalf("call %d lies under %s", c.Index, p.Name)
		}
	}
	if r := verifyRoots(t, spans); len(r) != len(perTrace) {
		t.Errorf("%d roots of %d traces", len(r), len(perTrace))
	}
}

// criticalTimes returns the nanoseconds of calls and tasks on critical paths, by kind (path.Call with path.Wait, path.Task)
// and call.
func criticalTimes(t *testing.T, tl *timeline.Timeline) map[path.Kind]map[uint64]int64 {
	t.Helper()
	out := map[path.Kind]map[uint64]int64{path.Call: {}, path.Task: {}}
	_, err := path.New(tl.Reader, tl.Model, &path.Options{Each: func(p *path.Path) error {
		for _, q := range p.Parts() {
			k := q.Kind
			if k == path.Wait {
				k = path.Call
			}
			if out[k] != nil {
				out[k][q.Call] += q.To - q.From
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func putCritical(attrs map[string]any, ns int64) {
	if ns > 0 {
		attrs["acl.critical"], attrs["acl.critical_ns"] = true, ns
	}
}

func TestSmallStory(t *testing.T) {
	tl := testtrace.Small(t)
	for _, layout := range []string{Lanes, Nested} {
		t.Run(layout, func(t *testing.T) {
			spans, res := written(t, tl, &Options{Layout: layout})
			verify(t, tl, spans, layout)
			all := oteltest.ByID(t, spans)
			if res.Traces != 1 || res.FirstTraceID != rootSpans(spans)[0].Trace {
				t.Errorf("result %+v", res)
			}
			// The expectations below use names and call numbers only.
			find := func(name string, call int64) oteltest.Span {
				for _, s := range spans {
					if n, _, _ := oteltest.CallOf(all, s); s.Name == name && (call < 0 || n == call) {
						return s
					}
				}
				t.Fatalf("no span %s", name)
				return oteltest.Span{}
			}
			if s := find("recording", -1); s.Start != testtrace.StartWall+1_000 || s.End != testtrace.StartWall+40_400 || s.Resource["service.name"] != "train" {
				t.Errorf("root %+v", s)
			}
			if s := find("MatMul \"é\"\n (not measured)", 8); s.Start != testtrace.StartWall+11_000 || s.Attrs["acl.at_most_ns"] != int64(8_003) || s.Resource["service.name"] != "train/npu:3" {
				t.Errorf("kernel %+v", s)
			}
			if s := find("copy HtoD 64 KiB (not measured)", 7); s.Attrs["acl.bytes"] != int64(65536) || s.Resource["acl.simulated"] != true {
				t.Errorf("copy %+v", s)
			}
			if s := find("copy DtoH 4 KiB", 14); s.Kind != "Internal" || s.Resource["service.name"] != "loader" || s.Resource["process.pid"] != int64(4002) {
				t.Errorf("copy of the second process %+v", s)
			}
			if s := find("wait stream 1", 15); s.Attrs["acl.waited_for"] != "MatMul \"é\"\n" || s.Attrs["acl.waited_for_call"] != int64(8) {
				t.Errorf("wait %+v", s)
			}
			if s := find("calls lost", -1); s.Attrs["acl.lost"] != int64(17) || s.Attrs["acl.reason"] != "dropped" || s.Status != "Error" {
				t.Errorf("gap %+v", s)
			}
			want := map[string]any{"service.name": "train", "service.instance.id": testtrace.UUID, "host.name": "node7", "process.pid": int64(4001),
				"process.executable.name": "train", "process.executable.path": "/opt/app/train", "process.command_args": []any{"/opt/app/train", "--steps", "2"}}
			if d := cmp.Diff(want, rootSpans(spans)[0].Resource); d != "" {
				t.Errorf("resource (-want +got):\n%s", d)
			}
		})
	}
}

func TestIDsAreDeterministic(t *testing.T) {
	var first, again, lanes bytes.Buffer
	a, err := write(&first, testtrace.Small(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write(&again, testtrace.Small(t), nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), again.Bytes()) {
		t.Error("exporting twice gives two results")
	}
	b, err := write(&lanes, testtrace.Small(t), &Options{Layout: Lanes})
	if err != nil {
		t.Fatal(err)
	}
	if a.FirstTraceID == b.FirstTraceID {
		t.Error("two layouts share a trace id: a backend would merge them")
	}
	// IDs in stored data must not change with a release.
	if want := "74155073a6c62e9fc73583afc5588600"; a.FirstTraceID != want {
		t.Errorf("trace id %s, want %s", a.FirstTraceID, want)
	}
}

func TestRequestsAreWithinLimits(t *testing.T) {
	x := encoder(t, testtrace.Long(t, 25_000), &Options{MaxSpans: -1})
	var requests, spans, size int
	sent(t, x, func(b *otlp.Batch, wire []byte) {
		requests++
		spans += b.Spans
		size += len(wire)
		if len(wire) > otlp.MaxRequestBytes || b.Spans > otlp.MaxRequestSpans || len(wire) > b.Bytes {
			t.Errorf("request of %d bytes, thought to be at most %d, with %d spans", len(wire), b.Bytes, b.Spans)
		}
	})
	t.Logf("%d requests, %d spans of %.1f bytes", requests, spans, float64(size)/float64(spans))
}

// Send and Write encode the same spans. The generated structs know every field, and encode the same bytes again.
func TestRequestsAreTheLines(t *testing.T) {
	for name, tl := range map[string]*timeline.Timeline{"small": testtrace.Small(t), "steps": testtrace.Steps(t, 4, 10, func(_, _ int) int64 { return 100 })} {
		for _, layout := range []string{Lanes, Nested} {
			want, _ := written(t, tl, &Options{Layout: layout})
			got := sent(t, encoder(t, tl, &Options{Layout: layout}), func(b *otlp.Batch, wire []byte) {
				client, err := proto.Marshal(&coltracepb.ExportTraceServiceRequest{ResourceSpans: b.Messages()})
				if err != nil || !bytes.Equal(client, wire) {
					t.Errorf("%s %s: a client sends other bytes, %v", name, layout, err)
				}
				var q coltracepb.ExportTraceServiceRequest
				if err := proto.Unmarshal(wire, &q); err != nil {
					t.Fatal(err)
				}
				if again, err := (proto.MarshalOptions{Deterministic: true}).Marshal(&q); err != nil || !bytes.Equal(again, wire) {
					t.Errorf("%s %s: the structures make other bytes, %v", name, layout, err)
				}
				if err := protorange.Range(q.ProtoReflect(), func(p protopath.Values) error {
					if m, ok := p.Index(-1).Value.Interface().(protoreflect.Message); ok && len(m.GetUnknown()) > 0 {
						return fmt.Errorf("%s has fields that the structures do not know", p.Path)
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s %s (-written +sent):\n%s", name, layout, d)
			}
		}
	}
}

func TestEmptyTrace(t *testing.T) {
	tl := testtrace.New(t).Load()
	spans, res := written(t, tl, nil)
	if len(spans) != 1 || res.Traces != 1 || res.FirstTraceID == "" || spans[0].End-spans[0].Start != 1_000_000 {
		t.Errorf("%+v, %+v", res, spans)
	}
}

func TestRecorderWasKilled(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 1_000, 2_000, "aclrtSetDevice", testtrace.A(0))
	spans, _ := written(t, b.Cut(), nil)
	if len(spans) != 2 || rootSpans(spans)[0].Attrs["acl.incomplete"] != true {
		t.Errorf("%+v", spans)
	}
}

// Streams belong to the devices that their threads selected; unknown devices stay unknown.
func TestSeveralDevices(t *testing.T) {
	for want, devices := range map[string][]uint64{"train/npu": nil, "train/npu:1": {1, 1}, "train/npu:2": {0, 2}} {
		b := testtrace.New(t)
		for i, d := range devices {
			b.Call(0, int64(i), int64(i)+1, "aclrtSetDevice", testtrace.A(d))
		}
		b.Call(0, 10, 11, "aclrtSetDevice", testtrace.A(9), testtrace.Fails(100000)) // so the device is not used
		b.Call(0, 20, 30, "aclrtMemsetAsync", testtrace.A(testtrace.DeviceA, 8, 0, 8, 0))
		spans, _ := written(t, b.Load(), nil)
		found := false
		for _, s := range spans {
			if s.Attrs["acl.task"] == "fill" && s.Attrs["acl.call"] == nil {
				found = true
				if got := s.Resource["service.name"]; got != want {
					t.Errorf("devices %v: %v, want %s", devices, got, want)
				}
			}
		}
		if !found {
			t.Errorf("devices %v: no task", devices)
		}
	}
}

// Names in a trace may hold any bytes; exported names are valid UTF-8.
func TestNamesThatAreNoText(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 1_000, 2_000, "aclrtBinaryGetFunction", testtrace.A(1, 2, 3), testtrace.Text("kernelName", "k\xff\x00\u2028<"), testtrace.Outs("funcHandle", 9))
	b.Call(0, 3_000, 4_000, "aclrtLaunchKernel", testtrace.A(9, 1, 0, 0, 0))
	tl := b.Load()
	names := map[string]bool{}
	for _, s := range sent(t, encoder(t, tl, nil), nil) {
		names[s.Name] = true
	}
	if !names["launch k\uFFFD\x00\u2028<"] {
		t.Errorf("names %q", slices.Sorted(maps.Keys(names)))
	}
	written(t, tl, nil)
}

func TestBadOptions(t *testing.T) {
	tl := testtrace.Small(t)
	for want, o := range map[string]*Options{
		`layout "rows": want nested or lanes`:                           {Layout: "rows"},
		`brackets "most": want earliest or none`:                        {Brackets: "most"},
		"99 spans in a trace are too few: at least 100 are needed":      {MaxSpans: 99},
		"65535 bytes in a trace are too few: at least 65536 are needed": {MaxBytes: 65535},
	} {
		if _, err := write(&bytes.Buffer{}, tl, o); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestWriteError(t *testing.T) {
	full := errors.New("no space left on device")
	res, err := write(failingWriter{full}, testtrace.Small(t), nil)
	if !errors.Is(err, full) || res.Spans != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

// Ranges of the program appear on their threads, even if they end on another thread or never.
func TestRangesAppearOnTheirThreads(t *testing.T) {
	b := testtrace.New(t)
	id := func(v uint64) testtrace.Mod { return func(_ *api.Func, c *format.Call) { c.Ret = v } }
	b.Call(0, 1_000, 1_100, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", "forward"), id(7))
	b.Call(0, 1_200, 1_300, "mstxMarkA", testtrace.A(0x10, 0), testtrace.Text("message", "here"))
	b.Call(0, 1_400, 1_500, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", "for ever"), id(8))
	b.Call(1, 2_000, 2_100, "mstxRangeEnd", testtrace.A(7))
	tl := b.Load()
	for _, layout := range []string{Lanes, Nested} {
		spans, _ := written(t, tl, &Options{Layout: layout, NoSteps: true})
		all := oteltest.ByID(t, spans)
		got := map[string][2]int64{}
		for _, s := range spans {
			if _, ok := s.Attrs["acl.range"]; !ok {
				continue
			}
			got[s.Name] = [2]int64{s.Start - testtrace.StartWall, s.End - testtrace.StartWall}
			p := all[[2]string{s.Trace, s.Parent}]
			above := "forward"
			if s.Name == above {
				above = "thread train"
			}
			if p.Start > s.Start || p.End < s.End || p.Name != above {
				t.Errorf("%s lies under %s [%d, %d]", s.Name, p.Name, p.Start, p.End)
			}
			if s.Name == "for ever" && s.Attrs["acl.end"] != "unknown" {
				t.Errorf("%+v", s)
			}
		}
		want := map[string][2]int64{"forward": {1_000, 2_100}, "here": {1_200, 1_201}, "for ever": {1_400, tl.End}}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", layout, d)
		}
	}
}
