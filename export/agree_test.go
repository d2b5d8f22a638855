package export_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/export/chrome"
	"github.com/acltrace/acltrace/export/internal/viewertest"
	"github.com/acltrace/acltrace/export/parquet"
	"github.com/acltrace/acltrace/export/perfetto"
	"github.com/acltrace/acltrace/export/pprof"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/otelexport"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/timeline"
)

// recorded records a replay test program on the simulator. how is a shell command with the program as "$@".
func recorded(t *testing.T, how, name string, o record.Options, args ...string) *format.Reader {
	t.Helper()
	testenv.Built(t, "lib/libacltrace.so")
	source := func(name string) []string {
		return []string{filepath.Join(testenv.Root(t), "replay", "testdata", name+".c")}
	}
	t.Setenv("ACLSIM_KERNELS", testenv.CompileC(t, "kernels.so", source("kernels"), "-shared", "-fPIC"))
	binary := testenv.CompileC(t, "kernels.o", source("kernels"), "-c", "-fPIC")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	o.Model, o.Output, o.Sim, o.Stdout, o.Stderr = acl.Model, filepath.Join(t.TempDir(), "run.aclt"), true, null, null
	o.Command = append([]string{"sh", "-c", how, "sh", testenv.CompileC(t, name, source(name)), binary}, args...)
	if _, err := record.Run(context.Background(), &o); err != nil {
		t.Fatal(err)
	}
	r, err := format.Open(o.Output, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// A said is a viewer's view of a trace: one line per call and task, and the arrow count.
type said struct {
	calls, tasks []string
	arrows       int
}

func (s *said) call(index any, name string, from, to int64) {
	s.calls = append(s.calls, fmt.Sprint(index, " ", name, " ", from, " ", to))
}

func (s *said) task(call any, kind, name, stream string, from, to int64, measured bool, moved any) {
	stream, _, _ = strings.Cut(stream, " (bracketed)")
	if kind == "fill" {
		moved = "" // parquet has no such column
	}
	s.tasks = append(s.tasks, fmt.Sprint(call, " ", kind, " ", name, " ", stream, " ", from, " ", to, " ", measured, " ", moved))
}

func (s *said) sorted() *said {
	slices.Sort(s.calls)
	slices.Sort(s.tasks)
	return s
}

// moved returns the bytes that a task moves.
func moved(k *timeline.Task) uint64 {
	if k.Kind == api.Copy || k.Kind == api.Fill {
		return k.Bytes
	}
	return 0
}

func byTimeline(tl *timeline.Timeline) *said {
	s := &said{arrows: len(tl.Tasks)}
	for i := range tl.Calls {
		c := &tl.Calls[i]
		end := c.End
		if c.Flags&format.Unfinished != 0 {
			end = tl.End
		}
		s.call(c.Index, c.Name, c.Start, end)
	}
	for i := range tl.Tasks {
		k := &tl.Tasks[i]
		s.task(k.Call, k.Kind.String(), k.Name, tl.Lanes[k.Lane].Name, k.From, k.To, k.Measured, moved(k))
	}
	return s.sorted()
}

// byOTLP reads spans. They draw a task without a measured time within its bracket, and give a task that its call does itself
// to the call.
func byOTLP(t *testing.T, r *format.Reader, tl *timeline.Timeline, layout string) *said {
	t.Helper()
	var b bytes.Buffer
	if _, err := otelexport.Write(&b, r, acl.Model, &otelexport.Options{Layout: layout, MaxSpans: -1}); err != nil {
		t.Fatal(err)
	}
	tasks := map[int64]*timeline.Task{}
	for i := range tl.Tasks {
		tasks[int64(tl.Tasks[i].Call)] = &tl.Tasks[i]
	}
	instants := map[int64]bool{} // calls that took no time
	for i := range tl.Calls {
		instants[int64(tl.Calls[i].Index)] = tl.Calls[i].End <= tl.Calls[i].Start
	}
	type key struct {
		trace, span string
	}
	spans := map[key]ptrace.Span{}
	for line := range bytes.Lines(b.Bytes()) {
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		if err != nil {
			t.Fatal(err)
		}
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					spans[key{s.TraceID().String(), s.SpanID().String()}] = s
				}
			}
		}
	}
	s, wall := &said{}, r.Meta().StartWall
	task := func(x ptrace.Span, call int64, kind, stream string) {
		k := tasks[call]
		if k == nil {
			t.Fatalf("%s: call %d has no task", x.Name(), call)
		}
		name, from, to := strings.TrimPrefix(x.Name(), "launch "), int64(x.StartTimestamp())-wall, int64(x.EndTimestamp())-wall
		_, measured := x.Attributes().Get("acl.device_ns")
		if !measured && strings.HasPrefix(name, k.Name) && from >= k.Issued && to <= max(k.To, from+1) {
			name, from, to = k.Name, k.From, k.To
		} else if k.Kind != api.Kernel && strings.HasPrefix(name, k.Name) {
			name = k.Name // with a size or an object
		}
		n, _ := x.Attributes().Get("acl.bytes")
		s.arrows++
		s.task(call, kind, name, stream, from, to, measured, uint64(n.Int()))
	}
	for _, x := range spans {
		kind, isTask := x.Attributes().Get("acl.task")
		if _, kernel := x.Attributes().Get("acl.kernel"); kernel && (!isTask || x.Kind() == ptrace.SpanKindConsumer) {
			_, call := x.Attributes().Get("acl.call")
			kind, isTask = pcommon.NewValueStr("kernel"), !call
		}
		if call, ok := x.Attributes().Get("acl.call"); ok {
			name, _ := x.Attributes().Get("code.function.name")
			from, to := int64(x.StartTimestamp())-wall, int64(x.EndTimestamp())-wall
			if to == from+1 && instants[call.Int()] {
				to = from // a span takes a nanosecond at least
			}
			s.call(call.Int(), name.Str(), from, to)
			if isTask {
				task(x, call.Int(), kind.Str(), tl.Lanes[tasks[call.Int()].Lane].Name)
			}
			continue
		}
		if !isTask {
			continue
		}
		above := spans[key{x.TraceID().String(), x.ParentSpanID().String()}]
		launch := above
		if x.Links().Len() > 0 {
			link := x.Links().At(0)
			launch = spans[key{link.TraceID().String(), link.SpanID().String()}]
		}
		call, ok := launch.Attributes().Get("acl.call")
		if !ok {
			t.Fatalf("%s is linked to %s", x.Name(), launch.Name())
		}
		stream := above.Name()
		if layout == otelexport.Nested {
			v, _ := x.Attributes().Get("acl.stream")
			stream = v.Str()
		}
		task(x, call.Int(), kind.Str(), stream)
	}
	return s.sorted()
}

func byParquet(t *testing.T, r *format.Reader) *said {
	t.Helper()
	dir := t.TempDir()
	if _, err := parquet.Write(func(table string) (io.WriteCloser, error) { return os.Create(filepath.Join(dir, table+".parquet")) }, r, acl.Model, nil); err != nil {
		t.Fatal(err)
	}
	rows := viewertest.DuckDB(t, dir,
		"select call, function, start_ns, start_ns + duration_ns from 'calls.parquet'",
		"select t.call, t.kind, t.name, t.stream, t.from_ns, t.to_ns, t.measured, case when t.kind = 'fill' then '' else coalesce(c.bytes, 0)::varchar end from 'tasks.parquet' t left join 'copies.parquet' c using (call)",
		"select count(*) from 'calls.parquet' where task",
		"select count(*) from 'kernels.parquet' k join 'calls.parquet' c using (call) where c.kernel is distinct from k.name")
	s := &said{}
	spaced := func(rows []string) (out []string) {
		for _, row := range rows {
			out = append(out, strings.ReplaceAll(row, "\t", " "))
		}
		return out
	}
	s.calls, s.tasks = spaced(rows[0]), spaced(rows[1])
	s.arrows, _ = strconv.Atoi(rows[2][0])
	if rows[3][0] != "0" {
		t.Errorf("%s kernels have another name than their calls say", rows[3][0])
	}
	return s.sorted()
}

func byPerfetto(t *testing.T, r *format.Reader) *said {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.pftrace")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := perfetto.Write(f, r, acl.Model, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	rows := viewertest.SQL(t, path, viewertest.Errors,
		`select s.name, s.category, coalesce(tr.name, ''), s.ts, s.ts + s.dur, extract_arg(s.arg_set_id, 'debug.acl_call'), extract_arg(s.arg_set_id, 'debug.acl_task'),
			extract_arg(s.arg_set_id, 'debug.acl_bytes'), extract_arg(s.arg_set_id, 'debug.acl_not_after_ns'), extract_arg(s.arg_set_id, 'debug.acl_open')
			from slice s join track tr on s.track_id = tr.id where s.category in ('call', 'task', 'bracketed')`,
		"select count(*) from flow")
	if len(rows[0]) > 0 {
		t.Errorf("Perfetto could not take %v", rows[0])
	}
	s := &said{}
	for _, x := range rows[1] {
		number := func(i int) int64 { n, _ := strconv.ParseInt(x[i], 10, 64); return n }
		from, to := number(3), number(4)
		if x[8] != "" {
			to = number(8)
		}
		if x[1] == "call" {
			s.call(x[5], x[0], from, to)
		} else {
			s.task(x[5], x[6], x[0], x[2], from, to, x[1] == "task", number(7))
		}
	}
	s.arrows, _ = strconv.Atoi(rows[2][0][0])
	return s.sorted()
}

func byChrome(t *testing.T, r *format.Reader) *said {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.json")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chrome.Write(f, r, acl.Model, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(path)
	var doc struct {
		TraceEvents []struct {
			Ph, Name, Cat string
			PID, TID      int64
			TS, Dur       json.Number
			Args          map[string]any
		}
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	nanos := func(n any) int64 {
		v, err := strconv.ParseInt(strings.Replace(fmt.Sprint(n), ".", "", 1), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	rows := map[[2]int64]string{}
	s := &said{}
	for _, e := range doc.TraceEvents {
		switch {
		case e.Ph == "M" && e.Name == "thread_name":
			rows[[2]int64{e.PID, e.TID}] = e.Args["name"].(string)
		case e.Ph == "s":
			s.arrows++
		case e.Ph == "X" && slices.Contains([]string{"call", "task", "bracketed"}, e.Cat):
			from := nanos(e.TS)
			to := from + nanos(e.Dur)
			if until, ok := e.Args["acl.not_after_ns"]; ok {
				to = nanos(until)
			}
			if e.Cat == "call" {
				s.call(e.Args["acl.call"], e.Name, from, to)
				continue
			}
			n := int64(0)
			if v, ok := e.Args["acl.bytes"]; ok {
				n = nanos(v)
			}
			s.task(e.Args["acl.call"], e.Args["acl.task"].(string), e.Name, rows[[2]int64{e.PID, e.TID}], from, to, e.Cat == "task", n)
		}
	}
	return s.sorted()
}

// All exporters agree on recordings with accidental properties, as real programs have them.
func TestExportersAgreeOnRecordings(t *testing.T) {
	const once, twice, killed = `exec "$@"`, `"$@" & "$@"; wait`, `"$@" & sleep 0.2; kill -9 $!; wait`
	for _, c := range []struct {
		name, how string
		o         record.Options
		args      []string
	}{
		{"jobs", once, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, []string{"1"}},
		{"jobs", once, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}}, []string{"2"}},
		{"jobs", twice, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Capture: record.Capture{Calls: record.Calls{DeviceTime: 3}}}, []string{strconv.Itoa(os.Getpid())}},
		{"jobs", killed, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, []string{"3"}},
		{"jobs", once, record.Options{Limits: record.Limits{Buffers: record.Buffers{RingBytes: 64 << 10}}}, []string{"4"}}, // may lose calls
		{"graph", once, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, nil},
		{"graph", once, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}}, nil},
		{"threads", once, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, nil},
		{"callbacks", once, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, nil},
		{"peers", once, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}}, nil},
		{"handoff", once, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, nil},
		{"batches", once, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}, Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}}, nil},
		{"retry", once, record.Options{Limits: record.Limits{Buffers: record.Buffers{Block: true}}}, nil},
	} {
		t.Run(fmt.Sprint(c.name, " ", c.how, " ", c.o.Capture.DeviceTime, " ", c.args), func(t *testing.T) {
			r := recorded(t, c.how, c.name, c.o, c.args...)
			tl, err := timeline.Load(r, acl.Model)
			if err != nil {
				t.Fatal(err)
			}
			want := byTimeline(tl)
			if len(want.tasks) == 0 && c.how != killed {
				t.Fatal("no tasks")
			}
			for who, got := range map[string]*said{
				"otlp lanes": byOTLP(t, r, tl, otelexport.Lanes), "otlp nested": byOTLP(t, r, tl, otelexport.Nested), "parquet": byParquet(t, r),
				"perfetto": byPerfetto(t, r), "chrome": byChrome(t, r),
			} {
				if !slices.Equal(got.calls, want.calls) {
					t.Errorf("%s has other calls (-timeline +%s):\n%.4000s", who, who, cmp.Diff(want.calls, got.calls))
				}
				if !slices.Equal(got.tasks, want.tasks) {
					t.Errorf("%s has other tasks (-timeline +%s):\n%.4000s", who, who, cmp.Diff(want.tasks, got.tasks))
				}
				if got.arrows != want.arrows {
					t.Errorf("%s has %d arrows, want %d", who, got.arrows, want.arrows)
				}
			}
			checkSums(t, r, tl)
		})
	}
}

// checkSums checks the sums over a trace.
func checkSums(t *testing.T, r *format.Reader, tl *timeline.Timeline) {
	t.Helper()
	type sum struct{ n, bytes, device int64 }
	want := map[string]sum{}
	var device, moves, launches int64
	for i := range tl.Tasks {
		k := &tl.Tasks[i]
		s := want[k.Name]
		s.n++
		s.bytes += int64(moved(k))
		if k.Measured {
			s.device += k.To - k.From
			device += k.To - k.From
		}
		want[k.Name] = s
		moves += int64(moved(k))
		if k.Kind == api.Kernel {
			launches++
		}
	}
	st, err := stats.New(r, acl.Model, &stats.Options{By: "stream"})
	if err != nil {
		t.Fatal(err)
	}
	if int(st.Calls) != len(tl.Calls) {
		t.Errorf("stats: %d calls, want %d", st.Calls, len(tl.Calls))
	}
	for _, list := range [][]stats.Task{st.Kernels, st.Copies} {
		for i := range list {
			x := &list[i]
			if w := want[x.Name]; int64(x.Count) != w.n || x.DeviceNS != w.device || int64(x.Bytes) != w.bytes {
				t.Errorf("stats: %s is %d times, %d bytes, %d ns; want %+v", x.Name, x.Count, x.Bytes, x.DeviceNS, w)
			}
		}
	}
	onStreams := 0
	for i := range st.Streams {
		onStreams += int(st.Streams[i].Tasks)
	}
	if onStreams != len(tl.Tasks) {
		t.Errorf("stats: %d tasks on streams, want %d", onStreams, len(tl.Tasks))
	}
	var b bytes.Buffer
	if _, err := pprof.Write(&b, r, acl.Model, nil); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for i, kind := range p.SampleType {
		for _, s := range p.Sample {
			got[kind.Type] += s.Value[i]
		}
	}
	if got["device_time"] != device || got["moved"] != moves || got["launches"] != launches {
		t.Errorf("pprof: %v; want %d ns of device time, %d bytes moved, %d launches", got, device, moves, launches)
	}
}
