package otlp

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/timeline"
)

// decode reads a request as a collector does.
func decode(t *testing.T, b *Batch) ptrace.Traces {
	t.Helper()
	td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b.Request(nil))
	if err != nil {
		t.Fatal(err)
	}
	return td
}

// A receiver decodes each field of a span as it was put, whatever its length, in the span's resource.
func TestReceiverDecodesEachField(t *testing.T) {
	one := newResource(0, attribute.String("name", "one"), attribute.String("empty", ""), attribute.Int("n", 5), attribute.String("name", "again"))
	two := newResource(2, attribute.String("name", strings.Repeat("two", 100)), attribute.Bool("true", true), attribute.StringSlice("list", []string{"a", "", "\xff"}))
	var b Batch
	ids := NewIDs("uuid", "cut", 1)
	var want []map[string]any
	for round := range 2 { // a batch is reused
		want = nil
		for i, n := range []int{0, 1, 2, 3, 100, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 300, 16_400} {
			r := []*Resource{one, two}[i%2]
			key, text := strings.Repeat("k", max(n%130, 1)), strings.Repeat("t", n)
			numbers := []int64{int64(n), -int64(n), math.MaxInt64, math.MinInt64, 1<<(7*min(uint(i), 8)) - 1, 1 << (7 * min(uint(i), 8))}
			g, buf, at := b.Begin(r, &ids.Trace, SpanID(i+1), SpanID(i))
			buf = PutString(buf, SpanName, text)
			buf = append(buf, SpanKind, Producer)
			buf = PutTimes(buf, int64(i)<<33, math.MaxInt64)
			buf = PutText(buf, SpanAttributes, key, text)
			buf = PutTexts(buf, SpanAttributes, "texts", []string{text, "\xff", ""})
			buf = PutTexts(buf, SpanAttributes, "no text", []string{})
			buf = PutTexts(buf, SpanAttributes, "nil", nil)
			attrs := map[string]any{"texts": []any{text, "\uFFFD", ""}, "no text": []any{}, key + "!": true}
			if text != "" {
				attrs[key] = text
			}
			for j, v := range numbers {
				name := strings.Repeat("n", n%140) + fmt.Sprint(j)
				if j%2 == 0 {
					buf = PutNumber(buf, SpanAttributes, name, v)
				} else {
					buf = NewNumberKey(name).Put(buf, v)
				}
				attrs[name] = v
			}
			buf = PutTrue(buf, SpanAttributes, key+"!")
			buf = PutLink(buf, &ids.Trace, SpanID(i+7))
			buf = PutError(buf, text)
			b.End(g, buf, at)
			want = append(want, attrs)
		}
		b.Number = round
		if b.Seal(); b.Spans != len(want) || len(b.Request(nil)) > b.Bytes || b.Full() {
			t.Errorf("%d spans in %d bytes, at most %d", b.Spans, len(b.Request(nil)), b.Bytes)
		}
		td := decode(t, &b)
		if n := td.ResourceSpans().Len(); n != 2 {
			t.Fatalf("%d resources", n)
		}
		for k, rs := range td.ResourceSpans().All() {
			res := []map[string]any{{"name": "one", "n": int64(5)}, {"name": strings.Repeat("two", 100), "true": true, "list": []any{"a", "", "\uFFFD"}}}[k]
			ss := rs.ScopeSpans().At(0)
			if !reflect.DeepEqual(rs.Resource().Attributes().AsRaw(), res) || rs.SchemaUrl() != SchemaURL || ss.SchemaUrl() != SchemaURL || ss.Scope().Name() != ScopeName || ss.Spans().Len() != len(want)/2 {
				t.Errorf("resource %v, schema %q and %q, scope %q, %d spans", rs.Resource().Attributes().AsRaw(), rs.SchemaUrl(), ss.SchemaUrl(), ss.Scope().Name(), ss.Spans().Len())
			}
			for j, s := range ss.Spans().All() {
				i := 2*j + k
				text, parent := s.Name(), pcommon.NewSpanIDEmpty()
				parent[7] = byte(i)
				l := s.Links().At(0)
				if s.TraceID() != pcommon.TraceID(ids.Trace) || s.SpanID() != [8]byte{7: byte(i + 1)} || s.ParentSpanID() != parent || s.Kind() != ptrace.SpanKindProducer ||
					s.StartTimestamp() != pcommon.Timestamp(i)<<33 || s.EndTimestamp() != math.MaxInt64 || s.Status().Code() != ptrace.StatusCodeError || s.Status().Message() != text ||
					l.TraceID() != pcommon.TraceID(ids.Trace) || l.SpanID() != [8]byte{7: byte(i + 7)} {
					t.Errorf("span %d: %+v, %v, %v", i, s, s.SpanID(), s.ParentSpanID())
				}
				if !reflect.DeepEqual(s.Attributes().AsRaw(), want[i]) || s.Attributes().Len() != len(want[i]) {
					t.Errorf("span %d: %d attributes, want %d", i, s.Attributes().Len(), len(want[i]))
				}
			}
		}
		// Clients get the same content.
		whole, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: b.Messages()})
		if err != nil || !bytes.Equal(whole, b.Request(nil)) {
			t.Errorf("messages of %d bytes, want %d: %v", len(whole), len(b.Request(nil)), err)
		}
		sum := b.Sum()
		if b.Number++; b.Sum() == sum {
			t.Error("batches with other numbers have equal sums")
		}
		b.Reset()
		if b.Spans != 0 || b.Bytes != 0 || len(b.Request(nil)) > 0 || len(b.Messages()) > 0 || b.Sum() == sum {
			t.Errorf("after Reset: %+v", b)
		}
	}
}

// A batch is full before it has more spans or bytes than a receiver takes.
func TestFullBatch(t *testing.T) {
	r := newResource(0, attribute.String("a", "b"))
	for size, least := range map[int]int{10: MaxRequestSpans, 50_000: (MaxRequestBytes - 2*maxSpanBytes) / 50_000} {
		var b Batch
		for !b.Full() {
			g, buf, at := b.Begin(r, &TraceID{1}, 1, 0)
			b.End(g, PutString(buf, SpanName, strings.Repeat("x", size)), at)
		}
		b.Seal()
		if n := len(b.Request(nil)); b.Spans > MaxRequestSpans || b.Spans < least || n > MaxRequestBytes || n > b.Bytes || b.Bytes-n > 100 {
			t.Errorf("%d spans of %d bytes: %d bytes, at most %d", b.Spans, size, n, b.Bytes)
		}
	}
}

// Ids depend on all that decides the content of a trace, and differ within a trace.
func TestIDs(t *testing.T) {
	first := NewIDs("a", "b", 1)
	if first != NewIDs("a", "b", 1) {
		t.Error("ids of one trace differ")
	}
	for _, other := range []IDs{NewIDs("x", "b", 1), NewIDs("a", "x", 1), NewIDs("a", "b", 2)} {
		if first.Trace == other.Trace || first.key == other.key {
			t.Error("ids of two traces are equal")
		}
	}
	seen := map[SpanID]bool{}
	for _, kind := range []uint64{RootSpan, ThreadSpan, LaneSpan, CallSpan, TaskSpan, GapSpan, RangeSpan, FoldSpan, FoldTaskSpan} {
		for n := range uint64(1000) {
			id := first.Span(kind, n)
			if seen[id] || id == 0 || first.Link(kind, n) != (Link{first.Trace, id}) {
				t.Fatalf("id %x of %d %d", id, kind>>60, n)
			}
			seen[id] = true
		}
	}
	// Ids of stored traces stay.
	if got := fmt.Sprintf("%x %x", first.Trace, first.Span(CallSpan, 7)); got != storedIDs {
		t.Errorf("%s, want %s", got, storedIDs)
	}
}

const storedIDs = "2daa001618a8ca6669fdb8c14947ad6d 9a65e530d01e8bcb"

// text lists attributes by key.
func text(attrs []attribute.KeyValue) string {
	m := map[string]any{}
	for _, a := range attrs {
		m[string(a.Key)] = a.Value.String()
	}
	return strings.TrimSpace(oteltest.AttributeText(m))
}

// A process and its devices are described by the facts in the trace, then by the environment of acltrace. Devices are services or attributes.
func TestResourcesDescribeProcessAndDevices(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,host.name=other")
	number := 6
	meta := &format.Meta{UUID: "uuid", Host: "node", Device: format.Device{Name: "910B", DriverVersion: "24.1"}}
	known := &format.Process{PID: 7, Exe: "/bin/train", Argv: []string{"train", strings.Repeat("x", maxArgs-len("train")), "y", "z"}, Resource: map[string]string{"k8s.pod.name": "pod"},
		Devices: []format.ProcessDevice{{Number: 3, UUID: "uuid-3", PCI: "0000:c1:00.0", HostNumber: &number}, {Number: 4, PCI: "0000:c2:00.0"}, {Number: 5, HostNumber: &number}}}
	const around = `deployment.environment.name="test" host.name="node" `
	x, err := NewLiveResources(acl.Model, DeviceAsService)
	if err != nil {
		t.Fatal(err)
	}
	x.Meta = meta
	x.Add(known)
	x.Add(&format.Process{Argv: []string{"train"}, Host: "far", Simulated: true})
	for i, want := range []string{
		around + `k8s.pod.name="pod" process.command_args="[\"train\",\"` + strings.Repeat("x", maxArgs-len("train")) + `\",\"(2 more)\"]" process.executable.name="train" process.executable.path="/bin/train" process.pid="7" service.instance.id="uuid" service.name="train"`,
		`deployment.environment.name="test" host.name="far" process.command_args="[\"train\"]" service.instance.id="uuid" service.name="train:1"`,
	} {
		if got := text(x.Hosts[i].Attrs); got != want {
			t.Errorf("process %d: %s\nwant %s", i, got, want)
		}
	}
	hardware := func(id, name string) string {
		return fmt.Sprintf(`hw.driver_version="24.1" hw.id=%q hw.model="910B" hw.name=%q hw.type="gpu" hw.vendor="Huawei"`, id, name)
	}
	for device, want := range map[int]string{
		3: `acl.device="3" acl.device.host_number="6" acl.device.pci="0000:C1:00.0" acl.device.uuid="uuid-3" ` + around + hardware("uuid-3", "npu:3"),
		4: `acl.device="4" acl.device.pci="0000:C2:00.0" ` + around + hardware("0000:C2:00.0", "npu:4"),
		5: `acl.device="5" acl.device.host_number="6" ` + around + hardware("npu:6", "npu:5"),
		8: `acl.device="8" ` + around + hardware("npu:8", "npu:8"),
	} {
		d := x.Device(0, device)
		want += fmt.Sprintf(` k8s.pod.name="pod" process.pid="7" service.instance.id="uuid" service.name="train/npu:%d"`, device)
		if got := text(d.Attrs); got != want || d != x.Device(0, device) || len(d.Span) > 0 || d.Resource == x.Hosts[0] || !strings.Contains(want, text(d.Points[:1])) {
			t.Errorf("device %d: %s\nwant %s", device, got, want)
		}
	}
	sim, other := x.Device(1, 0), x.Device(1, 1)
	if got := text(sim.Attrs); !strings.Contains(got, `acl.simulated="true"`) || strings.Contains(got, "hw.vendor") || text(sim.Points[:1]) != `hw.id="`+storedDie+`"` || sim.Points[0] == other.Points[0] {
		t.Errorf("simulated: %s", got)
	}
	if got := text(x.Device(1, timeline.NoDevice).Attrs); strings.Contains(got, "acl.device=") {
		t.Errorf("an unknown device: %s", got)
	}
	if x.Device(99, 3) != x.Device(0, 3) {
		t.Error("an unknown process has a device of its own")
	}
	// Facts that arrive late.
	x.Learn(0, &format.ProcessDevice{Number: 4, UUID: "late"})
	if f := x.Facts(x.Device(0, 4)); f.UUID != "late" || f.PCI != "" || known.Devices[1].UUID != "" || len(x.Procs[0].Devices) != 3 {
		t.Errorf("%+v", f)
	}
	if f := x.Facts(x.Device(0, 8)); f.Number != 8 || f.UUID != "" {
		t.Errorf("%+v", f)
	}

	y, err := NewLiveResources(acl.Model, DeviceAsAttribute)
	if err != nil {
		t.Fatal(err)
	}
	y.Meta = meta
	y.Add(known)
	d := y.Device(0, 3)
	var b Batch
	g, buf, at := b.Begin(d.Resource, &TraceID{1}, 1, 0)
	b.End(g, append(buf, d.Span...), at)
	b.Seal()
	got := decode(t, &b).ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes().AsRaw()
	if d.Resource != y.Hosts[0] || len(d.Points) != 5 || !maps.Equal(got, map[string]any{"hw.id": "uuid-3", "acl.device": int64(3)}) {
		t.Errorf("%v, points %s", got, text(d.Points))
	}
	if _, err := NewLiveResources(acl.Model, "x"); err == nil || err.Error() != `device as "x": want service or attribute` {
		t.Error(err)
	}
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "a")
	if _, err := NewLiveResources(acl.Model, ""); err == nil || !strings.HasPrefix(err.Error(), `OTEL_RESOURCE_ATTRIBUTES "a": `) {
		t.Error(err)
	}
}

const storedDie = "D28497D9-E314E72D-248B9BB2-872E4F8D-10C6AEC1"

// Services are named after the environment, the process or the program. Processes that share a name have their ranks or their numbers in it.
func TestServiceNames(t *testing.T) {
	ranks := func(n ...int) (all []format.Process) {
		for _, r := range n {
			all = append(all, format.Process{Exe: "/bin/train", Rank: r})
		}
		return all
	}
	own := ranks(0, 0, 0)
	own[1].Resource = map[string]string{"service.name": "own" + strings.Repeat("x", 300)}
	for _, c := range []struct {
		service string
		procs   []format.Process
		want    string
	}{
		{"", ranks(0), "train"},
		{"", ranks(0, 0), "train:0 train:1"},
		{"", ranks(3, 2), "train:3 train:2"},
		{"", own, "train:0 own" + strings.Repeat("x", 253) + " train:2"},
		{"job", own[:2], "job:0 job:1"},
	} {
		x := &Resources{env: environment{service: c.service}, Procs: c.procs}
		if got := strings.Join(x.serviceNames(), " "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	r := testtrace.New(t).Load()
	t.Setenv("OTEL_SERVICE_NAME", "job")
	x, err := NewResources(r.Reader, r.Model, "")
	if err != nil || len(x.Hosts) != len(r.Reader.Processes()) || !slices.Equal(x.names, []string{"job:0", "job:1"}) || x.Hosts[1].Index != 1 {
		t.Errorf("%q, %v", x.names, err)
	}
}
