package otelexport

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/story"
)

// verify compares spans with the timeline that they were made from, knowing nothing of how they were made.
func verify(t *testing.T, tl *timeline.Timeline, spans []flat, layout string, maxSpans int) {
	t.Helper()
	all := byID(t, spans)
	var roots []flat
	calls, tasks := map[int64]flat{}, map[int64]flat{}
	perTrace := map[string]int{}
	gaps := 0
	for _, s := range spans {
		perTrace[s.Trace]++
		if s.ID == noSpan || s.End < s.Start {
			t.Fatalf("bad span %+v", s)
		}
		if s.Parent == noSpan {
			roots = append(roots, s)
			continue
		}
		p, ok := all[[2]string{s.Trace, s.Parent}]
		if !ok {
			t.Fatalf("%s: its parent is not in the trace", s.Name)
		}
		if p.Start > s.Start || p.End < s.End && s.Attrs["acl.bracketed"] == nil {
			t.Errorf("%s [%d,%d] is not within %s [%d,%d]", s.Name, s.Start, s.End, p.Name, p.Start, p.End)
		}
		i, ok := s.Attrs["acl.call"].(int64)
		switch {
		case s.Name == "calls lost":
			gaps++
		case !ok:
			if p.Name != "recording" {
				t.Errorf("%s lies under %s", s.Name, p.Name)
			}
		case s.Attrs["acl.bracketed"] == true:
			tasks[i] = s
		default:
			calls[i] = s
		}
	}
	for id, n := range perTrace {
		if n > maxSpans {
			t.Errorf("trace %s has %d spans, more than %d", id, n, maxSpans)
		}
	}
	if len(calls) != len(tl.Calls) || len(tasks) != len(tl.Tasks) || gaps != len(tl.Reader.Gaps()) {
		t.Fatalf("%d calls, %d tasks, %d gaps; want %d, %d, %d", len(calls), len(tasks), gaps, len(tl.Calls), len(tl.Tasks), len(tl.Reader.Gaps()))
	}
	threads := tl.Reader.Threads()
	for i := range tl.Calls {
		c := &tl.Calls[i]
		s := calls[int64(c.Index)]
		th := threads[c.Thread]
		want := flat{Trace: s.Trace, ID: s.ID, Parent: s.Parent, Resource: s.Resource, Scope: scopeName, Schema: schemaURL, Name: c.Name, Kind: "Internal",
			Start: story.StartWall + c.Start, End: story.StartWall + c.End, Status: "Unset",
			Attrs: map[string]any{"acl.call": int64(c.Index), "thread.id": int64(th.TID), "acl.ret": int64(int32(c.Ret))}}
		if th.Name != "" {
			want.Attrs["thread.name"] = th.Name
		}
		if c.Kernel != "" {
			want.Attrs["acl.kernel"] = c.Kernel
		}
		if c.Flags&format.Unfinished != 0 {
			want.End = story.StartWall + tl.End
			want.Attrs["acl.unfinished"] = true
			delete(want.Attrs, "acl.ret")
		} else if c.Ret != 0 {
			want.Status, want.Message = "Error", "ACL_ERROR_INVALID_PARAM"
			want.Attrs["acl.error"] = want.Message
		}
		if c.Task >= 0 {
			task := &tl.Tasks[c.Task]
			lane := tl.Lanes[task.Lane]
			if !lane.Synchronous {
				want.Kind = "Producer"
			}
			want.Attrs["acl.task"], want.Attrs["acl.stream"] = task.Kind.String(), lane.Name
			if task.Bytes > 0 {
				want.Attrs["acl.bytes"] = int64(task.Bytes)
			}
			got := tasks[int64(c.Index)]
			w := want
			w.ID, w.Parent, w.Resource, w.Name, w.Links = got.ID, got.Parent, got.Resource, task.Name, [][2]string{{s.Trace, s.ID}}
			w.Start, w.End = story.StartWall+task.From, story.StartWall+task.To
			if !lane.Synchronous {
				w.Kind = "Consumer"
			}
			w.Attrs = map[string]any{"acl.bracketed": true}
			for _, k := range []string{"acl.call", "acl.task", "acl.stream", "acl.bytes"} {
				if v, ok := want.Attrs[k]; ok {
					w.Attrs[k] = v
				}
			}
			if task.Open {
				w.Attrs["acl.open"] = true
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
		if d := cmp.Diff(want, s); d != "" {
			t.Fatalf("call %d (-want +got):\n%s", c.Index, d)
		}
		if p := all[[2]string{s.Trace, s.Parent}]; p.Attrs["thread.id"] != int64(th.TID) {
			t.Fatalf("call %d lies under %s", c.Index, p.Name)
		}
	}
	for i, r := range roots {
		if r.Attrs["acl.part"] != int64(i+1) || r.Attrs["acl.parts"] != int64(len(roots)) || len(roots) != len(perTrace) {
			t.Errorf("root %d of %d: %v", i, len(roots), r.Attrs)
		}
		var want [][2]string
		if i > 0 {
			want = [][2]string{{roots[i-1].Trace, roots[i-1].ID}}
		}
		if d := cmp.Diff(want, r.Links); d != "" {
			t.Errorf("links of root %d (-want +got):\n%s", i, d)
		}
	}
}

func TestSmallStory(t *testing.T) {
	tl := story.Small(t)
	for _, layout := range []string{Lanes, Nested} {
		t.Run(layout, func(t *testing.T) {
			spans, res := written(t, tl, &Options{Layout: layout})
			verify(t, tl, spans, layout, DefaultMaxSpans)
			if res.Traces != 1 || res.FirstTraceID != spans[0].Trace {
				t.Errorf("result %+v", res)
			}
			// What a reader of the picture would name, in words.
			find := func(name string, call int64) flat {
				for _, s := range spans {
					if s.Name == name && (call < 0 || s.Attrs["acl.call"] == call) {
						return s
					}
				}
				t.Fatalf("no span %s", name)
				return flat{}
			}
			if s := find("recording", -1); s.Start != story.StartWall+1_000 || s.End != story.StartWall+40_400 || s.Resource["service.name"] != "train" {
				t.Errorf("root %+v", s)
			}
			if s := find("MatMul \"é\"\n", 8); s.Start != story.StartWall+11_000 || s.End != story.StartWall+19_003 || s.Resource["service.name"] != "npu:3" {
				t.Errorf("kernel %+v", s)
			}
			if s := find("copy HtoD", 7); s.Attrs["acl.bytes"] != int64(65536) || s.Attrs["acl.stream"] != "stream 1" || s.Resource["acl.simulated"] != true {
				t.Errorf("copy %+v", s)
			}
			if s := find("copy DtoH", 14); s.Attrs["acl.stream"] != "synchronous" || s.Kind != "Internal" {
				t.Errorf("copy %+v", s)
			}
			if s := find("calls lost", -1); s.Attrs["acl.lost"] != int64(17) || s.Attrs["acl.reason"] != "dropped" || s.Status != "Error" {
				t.Errorf("gap %+v", s)
			}
			if s := find("aclrtMemcpy", -1); s.Resource["service.name"] != "loader" || s.Resource["process.pid"] != int64(4002) {
				t.Errorf("second process %+v", s)
			}
			want := map[string]any{"service.name": "train", "service.instance.id": story.UUID, "host.name": "node7", "process.pid": int64(4001),
				"process.executable.name": "train", "process.executable.path": "/opt/app/train", "process.command_args": []any{"/opt/app/train", "--steps", "2"}}
			if d := cmp.Diff(want, spans[0].Resource); d != "" {
				t.Errorf("resource (-want +got):\n%s", d)
			}
		})
	}
}

func TestLongStoryIsCut(t *testing.T) {
	long, short := story.Long(t, 25_000), story.Long(t, 2_000)
	for _, o := range []*Options{nil, {Layout: Nested}, {MaxSpans: 8}} {
		tl := long
		if o != nil && o.MaxSpans != 0 {
			tl = short
		}
		layout, limit := Lanes, DefaultMaxSpans
		if o != nil && o.Layout != "" {
			layout = o.Layout
		}
		if o != nil && o.MaxSpans != 0 {
			limit = o.MaxSpans
		}
		var b bytes.Buffer
		res, err := Write(&b, tl, o)
		if err != nil {
			t.Fatal(err)
		}
		spans := parse(t, b.Bytes())
		verify(t, tl, spans, layout, limit)
		least := (len(tl.Calls) + len(tl.Tasks)) / limit
		if res.Traces <= least || limit > 100 && res.Traces > least+1 {
			t.Errorf("%d traces of at most %d spans for %d calls", res.Traces, limit, len(tl.Calls))
		}
		if n := strings.Count(b.String(), "\n"); n != res.Requests {
			t.Errorf("%d lines for %d requests", n, res.Requests)
		}
	}
}

func TestIDsAreDeterministic(t *testing.T) {
	var first, again, nested bytes.Buffer
	a, err := Write(&first, story.Small(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Write(&again, story.Small(t), nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), again.Bytes()) {
		t.Error("exporting twice gives two results")
	}
	b, err := Write(&nested, story.Small(t), &Options{Layout: Nested})
	if err != nil {
		t.Fatal(err)
	}
	if a.FirstTraceID == b.FirstTraceID {
		t.Error("two layouts share a trace id: a backend would merge them")
	}
	// Ids in what users have stored must not change with a release.
	if want := "68d8f66b2092b508257913f47bb7272a"; a.FirstTraceID != want {
		t.Errorf("trace id %s, want %s", a.FirstTraceID, want)
	}
}

func TestRequestsAreWithinLimits(t *testing.T) {
	tl := story.Long(t, 25_000)
	x, err := newExporter(tl, &Options{MaxSpans: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var requests, spans, size int
	err = x.run(func(b *batch) error {
		requests++
		spans += b.spans
		n := proto.Size(&coltracepb.ExportTraceServiceRequest{ResourceSpans: b.messages()})
		size += n
		if n > maxRequestBytes || b.spans > maxRequestSpans || n > b.bytes {
			t.Errorf("request of %d bytes, thought to be at most %d, with %d spans", n, b.bytes, b.spans)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	perSpan := float64(size) / float64(spans)
	t.Logf("%d requests, %d spans of %.1f bytes", requests, spans, perSpan)
	if DefaultMaxSpans*perSpan > 3e6 {
		t.Errorf("a trace of %d spans takes more than 3 MB", DefaultMaxSpans)
	}
}

// What Send hands to a client is what Write writes.
func TestMessagesAreTheLines(t *testing.T) {
	for _, layout := range []string{Lanes, Nested} {
		tl := story.Small(t)
		want, _ := written(t, tl, &Options{Layout: layout})
		x, err := newExporter(tl, &Options{Layout: layout})
		if err != nil {
			t.Fatal(err)
		}
		var got []flat
		err = x.run(func(b *batch) error {
			wire, err := proto.Marshal(&coltracepb.ExportTraceServiceRequest{ResourceSpans: b.messages()})
			if err != nil {
				return err
			}
			var decoded coltracepb.ExportTraceServiceRequest
			if err := proto.Unmarshal(wire, &decoded); err != nil {
				return err
			}
			if d := cmp.Diff(&coltracepb.ExportTraceServiceRequest{ResourceSpans: b.structures()}, &decoded, protocmp.Transform()); d != "" {
				t.Errorf("%s (-structures +wire):\n%s", layout, d)
			}
			td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(wire)
			got = append(got, flatten(td)...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-written +sent):\n%s", layout, d)
		}
	}
}

func TestProgressEndsWithAll(t *testing.T) {
	var done, total int
	res, err := Write(&bytes.Buffer{}, story.Long(t, 25_000), &Options{Progress: func(d, n int) {
		if d <= done || total != 0 && n != total {
			t.Errorf("%d of %d after %d of %d", d, n, done, total)
		}
		done, total = d, n
	}})
	if err != nil || done != total || done != res.Spans {
		t.Errorf("%v: %d of %d, wrote %d", err, done, total, res.Spans)
	}
}

func TestEmptyTrace(t *testing.T) {
	tl := story.New(t).Load()
	spans, res := written(t, tl, nil)
	if len(spans) != 1 || res.Traces != 1 || res.FirstTraceID == "" || spans[0].End-spans[0].Start != 1_000_000 {
		t.Errorf("%+v, %+v", res, spans)
	}
}

func TestRecorderWasKilled(t *testing.T) {
	b := story.New(t)
	b.Call(0, 1_000, 2_000, "aclrtSetDevice", story.A(0))
	spans, _ := written(t, b.Cut(), nil)
	if len(spans) != 3 || spans[0].Attrs["acl.incomplete"] != true {
		t.Errorf("%+v", spans)
	}
}

// Streams are not put on a device that they may not be on.
func TestSeveralDevices(t *testing.T) {
	for want, devices := range map[string][]uint64{"npu:0": nil, "npu:1": {1, 1}, "npu": {0, 1}} {
		b := story.New(t)
		for i, d := range devices {
			b.Call(0, int64(i), int64(i)+1, "aclrtSetDevice", story.A(d))
		}
		b.Call(0, 10, 11, "aclrtSetDevice", story.A(9), story.Fails(100000)) // so it was not used
		b.Call(0, 20, 30, "aclrtMemset", story.A(story.DeviceA, 8, 0, 8))
		spans, _ := written(t, b.Load(), nil)
		if got := spans[len(spans)-1].Resource["service.name"]; got != want {
			t.Errorf("devices %v: %v, want %s", devices, got, want)
		}
	}
}

// A trace may hold anything where names are; what goes out must be text that every receiver takes.
func TestNamesThatAreNoText(t *testing.T) {
	b := story.New(t)
	b.Call(0, 1_000, 2_000, "aclrtBinaryGetFunction", story.A(1, 2, 3), story.Text("kernelName", "k\xff\x00\u2028<"), story.Outs("funcHandle", 9))
	b.Call(0, 3_000, 4_000, "aclrtLaunchKernel", story.A(9, 1, 0, 0, 0))
	tl := b.Load()
	spans, _ := written(t, tl, nil)
	if last := spans[len(spans)-1]; last.Name != "k\uFFFD\x00\u2028<" {
		t.Errorf("kernel %q", last.Name)
	}
	x, err := newExporter(tl, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.run(func(b *batch) error {
		_, err := proto.Marshal(&coltracepb.ExportTraceServiceRequest{ResourceSpans: b.messages()})
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestBadOptions(t *testing.T) {
	tl := story.Small(t)
	for want, o := range map[string]*Options{
		`layout "rows" is neither lanes nor nested`:                                                                  {Layout: "rows"},
		"7 spans in a trace are too few for a call and what belongs to it: at least 8 are needed":                    {MaxSpans: 7},
		"-9223372036854775808 spans in a trace are too few for a call and what belongs to it: at least 8 are needed": {MaxSpans: math.MinInt},
	} {
		if _, err := Write(&bytes.Buffer{}, tl, o); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestWriteError(t *testing.T) {
	full := errors.New("no space left on device")
	res, err := Write(failingWriter{full}, story.Small(t), nil)
	if !errors.Is(err, full) || res.Spans != 0 {
		t.Errorf("%+v, %v", res, err)
	}
}

func BenchmarkWrite(b *testing.B) {
	tl := story.Long(b, 25_000)
	benchmark(b, tl, func(x *exporter) error {
		var line []byte
		return x.run(func(y *batch) error {
			line = appendBatch(line[:0], y)
			return nil
		})
	})
}

func BenchmarkMessages(b *testing.B) {
	tl := story.Long(b, 25_000)
	benchmark(b, tl, func(x *exporter) error {
		var out []byte
		return x.run(func(y *batch) (err error) {
			out, err = proto.MarshalOptions{}.MarshalAppend(out[:0], &coltracepb.ExportTraceServiceRequest{ResourceSpans: y.messages()})
			return err
		})
	})
}

// BenchmarkYardsticks are other ways to encode the same spans: the generated structures, the collector's pdata, and, with
// an exporter that throws them away, the SDK.
func BenchmarkYardsticks(b *testing.B) {
	tl := story.Long(b, 25_000)
	b.Run("structures", func(b *testing.B) {
		benchmark(b, tl, func(x *exporter) error {
			return x.run(func(y *batch) error {
				_, err := proto.Marshal(&coltracepb.ExportTraceServiceRequest{ResourceSpans: y.structures()})
				return err
			})
		})
	})
	b.Run("pdata", func(b *testing.B) {
		benchmark(b, tl, func(x *exporter) error {
			return x.run(func(y *batch) error {
				_, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(y.pdata())
				return err
			})
		})
	})
	b.Run("sdk", func(b *testing.B) {
		benchmark(b, tl, func(x *exporter) error {
			tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(nowhere{}, sdktrace.WithBlocking()))
			tracer := tp.Tracer(scopeName)
			err := x.run(func(y *batch) error {
				for i := range y.groups {
					for j := range y.groups[i].spans {
						s := &y.groups[i].spans[j]
						_, sp := tracer.Start(context.Background(), s.name, trace.WithTimestamp(time.Unix(0, s.start)), trace.WithAttributes(s.sdkAttributes()...))
						sp.End(trace.WithTimestamp(time.Unix(0, s.end)))
					}
				}
				return nil
			})
			return errors.Join(err, tp.Shutdown(context.Background()))
		})
	})
}

type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }

func (s *span) sdkAttributes() []attribute.KeyValue {
	out := make([]attribute.KeyValue, len(s.attrs))
	for i, a := range s.attrs {
		switch a.kind {
		case isNum:
			out[i] = attribute.Int64(a.key, a.num)
		case isTrue:
			out[i] = attribute.Bool(a.key, true)
		default:
			out[i] = attribute.String(a.key, a.str)
		}
	}
	return out
}

func (b *batch) pdata() ptrace.Traces {
	td := ptrace.NewTraces()
	put := func(m pcommon.Map, attrs []attr) {
		for _, a := range attrs {
			switch a.kind {
			case isNum:
				m.PutInt(a.key, a.num)
			case isTrue:
				m.PutBool(a.key, true)
			case isText:
				m.PutStr(a.key, a.str)
			}
		}
	}
	for i := range b.groups {
		g := &b.groups[i]
		rs := td.ResourceSpans().AppendEmpty()
		put(rs.Resource().Attributes(), g.res.attrs)
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName(scopeName)
		for j := range g.spans {
			s, d := &g.spans[j], ss.Spans().AppendEmpty()
			d.SetTraceID(pcommon.TraceID(s.trace))
			d.SetSpanID(pcommon.SpanID(s.id))
			d.SetParentSpanID(pcommon.SpanID(s.parent))
			d.SetName(s.name)
			d.SetKind(ptrace.SpanKind(s.kind))
			d.SetStartTimestamp(pcommon.Timestamp(s.start))
			d.SetEndTimestamp(pcommon.Timestamp(s.end))
			put(d.Attributes(), s.attrs)
			if s.link != (spanID{}) {
				l := d.Links().AppendEmpty()
				l.SetTraceID(pcommon.TraceID(s.linkTrace))
				l.SetSpanID(pcommon.SpanID(s.link))
			}
			if s.failed {
				d.Status().SetCode(ptrace.StatusCodeError)
				d.Status().SetMessage(s.message)
			}
		}
	}
	return td
}

// BenchmarkSpans is what comes before an encoder.
func BenchmarkSpans(b *testing.B) {
	tl := story.Long(b, 25_000)
	benchmark(b, tl, func(x *exporter) error { return x.run(func(*batch) error { return nil }) })
}

func benchmark(b *testing.B, tl *timeline.Timeline, f func(x *exporter) error) {
	spans := 0
	b.ReportAllocs()
	for b.Loop() {
		x, err := newExporter(tl, nil)
		if err == nil {
			err = f(x)
		}
		if err != nil {
			b.Fatal(err)
		}
		spans += x.res.Spans
	}
	b.ReportMetric(float64(spans)/b.Elapsed().Seconds()/1e6, "Mspans/s")
}

// What the program has named lies on its thread, under its name, also where it ends on another thread or not at all.
func TestRanges(t *testing.T) {
	b := story.New(t)
	id := func(v uint64) story.Mod { return func(_ *api.Func, c *format.Call) { c.Ret = v } }
	b.Call(0, 1_000, 1_100, "mstxRangeStartA", story.A(0x10, 0), story.Text("message", "forward"), id(7))
	b.Call(0, 1_200, 1_300, "mstxMarkA", story.A(0x10, 0), story.Text("message", "here"))
	b.Call(0, 1_400, 1_500, "mstxRangeStartA", story.A(0x10, 0), story.Text("message", "for ever"), id(8))
	b.Call(1, 2_000, 2_100, "mstxRangeEnd", story.A(7))
	tl := b.Load()
	for _, layout := range []string{Lanes, Nested} {
		spans, _ := written(t, tl, &Options{Layout: layout, NoSteps: true})
		all := byID(t, spans)
		got := map[string][2]int64{}
		for _, s := range spans {
			if _, ok := s.Attrs["acl.range"]; !ok {
				continue
			}
			got[s.Name] = [2]int64{s.Start - story.StartWall, s.End - story.StartWall}
			p := all[[2]string{s.Trace, s.Parent}]
			if p.Start > s.Start || p.End < s.End || !strings.HasPrefix(p.Name, "thread") {
				t.Errorf("%s lies under %s [%d, %d]", s.Name, p.Name, p.Start, p.End)
			}
			if s.Name == "for ever" && s.Attrs["acl.open"] != true {
				t.Errorf("%+v", s)
			}
		}
		want := map[string][2]int64{"forward": {1_000, 2_100}, "here": {1_200, 1_200}, "for ever": {1_400, tl.End}}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", layout, d)
		}
	}
}
