package servingtest

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/acltrace/acltrace/analyze/stats"
)

// exported is what a viewer shows.
type exported struct {
	threads map[int]string    // names
	kernels map[string]counts // by the name of the stream
	runs    uint64            // of graphs
	steps   map[int]uint64    // kernels with those in graphs; nil for a format without steps
	sums    bool              // steps has numbers, and not only keys
}

func newExported() *exported {
	return &exported{threads: map[int]string{}, kernels: map[string]counts{}, steps: map[int]uint64{}}
}

// step adds a step by its name.
func (x *exported) step(name string) {
	f := strings.Fields(name)
	if n, err := strconv.Atoi(f[len(f)-1]); err == nil && f[0] == "step" {
		x.steps[n] += 0
	}
}

// inGraph returns the sum of a text such as "12 attention, 12 mlp".
func inGraph(text string) (n uint64) {
	for part := range strings.SplitSeq(text, ", ") {
		count, _, _ := strings.Cut(part, " ")
		x, _ := strconv.ParseUint(count, 10, 64)
		n += x
	}
	return n
}

// task adds a slice on a stream's track. Tracks without measured times have a note in their names.
func (x *exported) task(stream, name string) {
	stream, _, _ = strings.Cut(stream, " (")
	switch {
	case strings.HasPrefix(name, "aclnn"):
		if x.kernels[stream] == nil {
			x.kernels[stream] = counts{}
		}
		name, _, _ = strings.Cut(name, " ")
		x.kernels[stream][name]++
	case strings.HasPrefix(name, "graph#"), name == "graph":
		x.runs++
	}
}

var readers = map[string]func(t *testing.T, path string, told *truth) *exported{
	"chrome": readChrome, "perfetto": readPerfetto, "parquet": readParquet, "otlp": readSpans, "pprof": readProfile,
}

// Each viewer shows the kernels that the program launched, on its streams, the runs of its graphs, and its threads. All else, such as a wait, is
// no kernel.
func checkExports(t *testing.T, trace string, s *stats.Stats, told *truth, steps []step) {
	t.Helper()
	want := newExported()
	names := map[string]string{} // of streams, by object
	for _, x := range s.Streams {
		names[x.Object] = x.Stream
	}
	var objects []string // of the program's streams, in the order of their creation; the other process uses another function
	for line := range strings.Lines(acltrace(t, "cat", "--json", "--func", "aclrtCreateStreamWithConfig", trace).text) {
		var call struct {
			Objects struct{ Stream struct{ ID int } }
		}
		if err := json.Unmarshal([]byte(line), &call); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, "stream#"+strconv.Itoa(call.Objects.Stream.ID))
	}
	for i, s := range steps {
		want.steps[i] = s.eager.sum() + s.inGraphs.sum()
	}
	for i, x := range told.streams {
		if len(x.launches) > 0 {
			want.kernels[names[objects[i]]] = x.launches
		}
	}
	for format, read := range readers {
		path := filepath.Join(t.TempDir(), format)
		if out := acltrace(t, "export", format, trace, "-o", path); out.code != 0 {
			t.Errorf("export %s ends with %d\n%s", format, out.code, out.errs)
			continue
		}
		got := read(t, path, told)
		if !maps.EqualFunc(got.kernels, want.kernels, maps.Equal) || got.runs != uint64(told.runs) {
			t.Errorf("%s has %d runs of graphs and kernels %v\ntruth %d, %v", format, got.runs, got.kernels, told.runs, want.kernels)
		}
		maps.DeleteFunc(got.steps, func(n int, _ uint64) bool { return n >= len(steps) }) // the last one may have no end
		same := func(a, b uint64) bool { return a == b || !got.sums }
		if got.steps != nil && !maps.EqualFunc(got.steps, want.steps, same) {
			t.Errorf("%s has kernels by step %v\ntruth %v", format, got.steps, want.steps)
		}
		for role, tid := range told.threads {
			if role == "main" {
				role = "serving" // its process's name
			}
			if got.threads[tid] != role {
				t.Errorf("%s calls thread %d %q, not %q", format, tid, got.threads[tid], role)
			}
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readChrome(t *testing.T, path string, told *truth) *exported {
	var file struct {
		TraceEvents []struct {
			Ph, Name, Cat string
			PID, TID      int
			Args          struct {
				Name string
				Task string `json:"acl.task"`
			}
		}
	}
	if err := json.Unmarshal(read(t, path), &file); err != nil {
		t.Fatal(err)
	}
	x, tracks := newExported(), map[[2]int]string{}
	for _, e := range file.TraceEvents {
		track := [2]int{e.PID, e.TID}
		switch {
		case e.Ph == "M" && e.Name == "thread_name":
			tracks[track] = e.Args.Name
			if e.PID == told.pid {
				x.threads[e.TID] = e.Args.Name
			}
		case e.Ph == "X" && tracks[track] == "steps":
			x.step(e.Name)
		case e.Ph == "X" && e.Cat != "call" && (e.Args.Task == "kernel" || e.Args.Task == "graph"):
			x.task(tracks[track], e.Name)
		}
	}
	return x
}

type fields map[protowire.Number][]any

// message returns the fields of a Protobuf message: numbers and bytes.
func message(t *testing.T, b []byte) fields {
	t.Helper()
	all := fields{}
	for len(b) > 0 {
		n, kind, tag := protowire.ConsumeTag(b)
		size := protowire.ConsumeFieldValue(n, kind, b[max(tag, 0):])
		if tag < 0 || size < 0 {
			t.Fatal("no message")
		}
		var v any = uint64(0)
		switch field := b[tag : tag+size]; kind {
		case protowire.VarintType:
			v, _ = protowire.ConsumeVarint(field)
		case protowire.BytesType:
			v, _ = protowire.ConsumeBytes(field)
		}
		all[n] = append(all[n], v)
		b = b[tag+size:]
	}
	return all
}

func (f fields) number(n protowire.Number) uint64 {
	if len(f[n]) == 0 {
		return 0
	}
	return f[n][0].(uint64)
}

func (f fields) bytes(n protowire.Number) []byte {
	if len(f[n]) == 0 {
		return nil
	}
	return f[n][0].([]byte)
}

// The numbers are those of Perfetto's trace.proto.
func readPerfetto(t *testing.T, path string, told *truth) *exported {
	type sequence struct {
		texts map[uint64]string // of events
		track uint64            // of events without one
	}
	x, tracks, sequences := newExported(), map[uint64]string{}, map[uint64]*sequence{}
	var packet func(b []byte)
	packet = func(b []byte) {
		p := message(t, b)
		for n, unpack := range map[protowire.Number]func(io.Reader) (io.Reader, error){
			50:  func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
			133: func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) },
		} {
			if packed := p.bytes(n); packed != nil {
				r, err := unpack(bytes.NewReader(packed))
				if err != nil {
					t.Fatal(err)
				}
				plain, err := io.ReadAll(r)
				if err != nil {
					t.Fatal(err)
				}
				for _, inner := range message(t, plain)[1] {
					packet(inner.([]byte))
				}
				return
			}
		}
		s := sequences[p.number(10)]
		if s == nil {
			s = &sequence{texts: map[uint64]string{}}
			sequences[p.number(10)] = s
		}
		for _, entry := range message(t, p.bytes(12))[2] {
			e := message(t, entry.([]byte))
			s.texts[e.number(1)] = string(e.bytes(2))
		}
		if defaults := message(t, message(t, p.bytes(59)).bytes(11)); defaults[11] != nil {
			s.track = defaults.number(11)
		}
		if track := message(t, p.bytes(60)); track != nil {
			tracks[track.number(1)] = string(track.bytes(2))
			if thread := message(t, track.bytes(4)); len(thread) > 0 && int(thread.number(1)) == told.pid {
				x.threads[int(thread.number(2))] = string(thread.bytes(5))
			}
		}
		if event := message(t, p.bytes(11)); event.number(9) == 1 || event.number(9) == 3 { // a slice begins, or an instant
			track, name := s.track, s.texts[event.number(10)]
			if event[11] != nil {
				track = event.number(11)
			}
			if event[23] != nil {
				name = string(event.bytes(23))
			}
			if tracks[track] == "steps" {
				x.step(name)
			} else if strings.HasPrefix(tracks[track], "stream") {
				x.task(tracks[track], name)
			}
		}
	}
	for _, b := range message(t, read(t, path))[1] {
		packet(b.([]byte))
	}
	return x
}

func readParquet(t *testing.T, path string, told *truth) *exported {
	type task struct {
		Stream  string `parquet:"stream"`
		Kind    string `parquet:"kind"`
		Name    string `parquet:"name"`
		Step    *int32 `parquet:"step"`
		InGraph *int64 `parquet:"graph_launches"`
	}
	tasks, err := parquet.ReadFile[task](filepath.Join(path, "tasks.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	x := newExported()
	x.sums = true
	for _, row := range tasks {
		if row.Kind != "kernel" && row.Kind != "graph" {
			continue
		}
		x.task(row.Stream, row.Name)
		if n := uint64(1); row.Step != nil {
			if row.InGraph != nil {
				n = uint64(*row.InGraph)
			}
			x.steps[int(*row.Step)] += n
		}
	}
	for role, tid := range told.threads { // the tables have no names
		x.threads[tid] = strings.Replace(role, "main", "serving", 1)
	}
	return x
}

func readSpans(t *testing.T, path string, told *truth) *exported {
	type span struct {
		Name, TraceID string
		Attributes    []struct {
			Key   string
			Value struct{ StringValue, IntValue string }
		}
	}
	x := newExported()
	x.sums = true
	steps, sums := map[string]int{}, counts{} // by trace
	for d := json.NewDecoder(bytes.NewReader(read(t, path))); d.More(); {
		var file struct {
			ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
		}
		if err := d.Decode(&file); err != nil {
			t.Fatal(err)
		}
		for _, r := range file.ResourceSpans {
			for _, scope := range r.ScopeSpans {
				for _, s := range scope.Spans {
					at := map[string]string{}
					for _, a := range s.Attributes {
						at[a.Key] = a.Value.StringValue + a.Value.IntValue
					}
					if tid, err := strconv.Atoi(at["thread.id"]); err == nil {
						x.threads[tid] = at["thread.name"]
					}
					if n, err := strconv.Atoi(at["acl.step"]); err == nil {
						steps[s.TraceID] = n
					}
					if at["acl.stream"] != "" && at["acl.call"] == "" {
						x.task(at["acl.stream"], s.Name)
						if at["acl.kernel"] != "" {
							sums[s.TraceID]++
						}
						sums[s.TraceID] += inGraph(at["acl.graph_kernels"])
					}
				}
			}
		}
	}
	for id, n := range steps {
		x.steps[n] += sums[id]
	}
	return x
}

func readProfile(t *testing.T, path string, told *truth) *exported {
	p, err := profile.ParseData(read(t, path))
	if err != nil {
		t.Fatal(err)
	}
	x := newExported()
	x.steps, x.runs = nil, uint64(told.runs) // a profile counts launches alone
	for _, s := range p.Sample {
		name := strings.TrimPrefix(s.Location[0].Line[0].Function.Name, "npu::")
		for range s.Value[0] {
			x.task(s.Label["stream"][0], name)
		}
		for _, label := range s.Label["thread"] { // thread 12 (name)
			tid, name, _ := strings.Cut(strings.TrimPrefix(label, "thread "), " ")
			if tid, err := strconv.Atoi(tid); err == nil {
				x.threads[tid] = strings.Trim(name, "()")
			}
		}
	}
	return x
}
