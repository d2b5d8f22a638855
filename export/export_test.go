// Package export_test exports imported profiles and long traces with every exporter, and reads each output with the
// reader that its users have.
package export_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zlib"
	"github.com/parquet-go/parquet-go"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/export/chrome"
	"github.com/acltrace/acltrace/export/internal/viewertest"
	tables "github.com/acltrace/acltrace/export/parquet"
	"github.com/acltrace/acltrace/export/perfetto"
	"github.com/acltrace/acltrace/export/pprof"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// sums are values that a trace and all its exports share. Times are nanoseconds.
type sums struct {
	calls, tasks, kernels, copies int
	host, device                  int64 // in calls, and in measured tasks
	bytes                         int64
	steps                         int
}

// walked returns the sums from a walk, with everything included.
func walked(t *testing.T, r *format.Reader) *sums {
	t.Helper()
	w := timeline.NewWalk(r, acl.Model, nil)
	if err := w.FindSteps(); err != nil {
		t.Fatal(err)
	}
	s := &sums{}
	if err := w.Run(&timeline.Visitor{
		Call: func(c *timeline.HostCall, _ *timeline.Task) error {
			s.calls++
			s.host += w.CallEnd(c) - c.Start
			return nil
		},
		Task: func(k *timeline.Task) error {
			s.tasks++
			s.bytes += int64(k.Bytes)
			switch k.Kind {
			case api.Kernel:
				s.kernels++
			case api.Copy:
				s.copies++
			}
			if k.Measured {
				s.device += k.To - k.From
			}
			return nil
		},
		Step: func(p *step.Step) error {
			if !p.Open {
				s.steps++
			}
			return nil
		},
	}); err != nil {
		t.Fatal(err)
	}
	if s.calls == 0 || s.tasks == 0 {
		t.Fatalf("nothing to compare: %+v", s)
	}
	return s
}

// most is the call count up to which viewers load a whole trace. They take a kilobyte or more per call.
const most = 100_000

func traces(t *testing.T) map[string]*format.Reader {
	all := testtrace.Profiles(t)
	all["decoding"] = testtrace.Decoding(t, 20_000, true)
	if os.Getenv("ACLTRACE_SOAK") != "" {
		all["long decoding"] = testtrace.Decoding(t, 10_000_000, true)
	}
	return all
}

func each(t *testing.T, check func(t *testing.T, r *format.Reader, want *sums)) {
	all := traces(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) { check(t, all[name], walked(t, all[name])) })
	}
}

func TestPerfettoHasAllCallsAndTasks(t *testing.T) {
	each(t, func(t *testing.T, r *format.Reader, want *sums) {
		// Check every packet: each slice begins and ends.
		in, out := io.Pipe()
		var res *perfetto.Result
		var err error
		go func() {
			res, err = perfetto.Write(out, r, acl.Model, nil)
			out.CloseWithError(err)
		}()
		begun, ended := packets(t, in)
		if err != nil || res.Calls != want.calls || res.Tasks != want.tasks || res.Steps != want.steps {
			t.Fatalf("%v, %+v, want %+v", err, res, want)
		}
		if begun != res.Calls+res.Tasks+res.Steps+res.Ranges+res.Operators+res.Gaps-res.Moments || ended != begun {
			t.Errorf("%d slices begin, %d end: %+v", begun, ended, res)
		}
		// The trace processor loads everything, or parts.
		dir := t.TempDir()
		var files []string
		o := &perfetto.Options{}
		if want.calls > most {
			o.MaxSize = 2 << 20
		}
		res, err = perfetto.Files(func(part int) (io.WriteCloser, error) {
			files = append(files, filepath.Join(dir, strconv.Itoa(part)))
			return os.Create(files[part-1])
		}, r, acl.Model, o)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range files {
			if i > 0 && i < len(files)-1 && i != len(files)/2 {
				continue
			}
			rows := viewertest.SQL(t, f, viewertest.Errors, "select count(*), sum(dur) from slice where category = 'call'",
				"select count(*), sum(iif(category = 'task', dur, 0)) from slice where category in ('task', 'bracketed')", "select count(*) from flow")
			got := fmt.Sprint(rows[1][0], rows[2][0], rows[3][0])
			if all := fmt.Sprintf("[%d %d][%d %d][%d]", want.calls, want.host, want.tasks, want.device, want.tasks); len(rows[0]) > 0 || len(files) == 1 && strings.ReplaceAll(got, "] [", "][") != all {
				t.Errorf("%s: errors %v, %s, want %s", f, rows[0], got, all)
			}
			if len(files) > 1 && (rows[1][0][0] == "0" || rows[3][0][0] == "0") {
				t.Errorf("%s: %s", f, got)
			}
		}
	})
}

// packets counts slice begins and ends in compressed packets.
func packets(t *testing.T, in io.Reader) (begun, ended int) {
	t.Helper()
	b := bufio.NewReaderSize(in, 1<<20)
	for {
		if _, err := binary.ReadUvarint(b); err == io.EOF {
			return begun, ended
		}
		n, err := binary.ReadUvarint(b)
		packet := make([]byte, n)
		if _, err2 := io.ReadFull(b, packet); errors.Join(err, err2) != nil {
			t.Fatal(err, err2)
		}
		_, _, tag := protowire.ConsumeTag(packet)
		packed, _ := protowire.ConsumeBytes(packet[tag:])
		z, err := zlib.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		fields(t, plain, func(_ protowire.Number, packet []byte) {
			fields(t, packet, func(n protowire.Number, event []byte) {
				if n != 11 {
					return
				}
				switch string(event[:2]) { // event type
				case "\x48\x01":
					begun++
				case "\x48\x02":
					ended++
				}
			})
		})
	}
}

// fields calls visit with each field whose value is bytes.
func fields(t *testing.T, b []byte, visit func(protowire.Number, []byte)) {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeField(b)
		if size < 0 {
			t.Fatalf("no field: %x", b[:min(len(b), 20)])
		}
		if kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(b)
			v, _ := protowire.ConsumeBytes(b[tag:])
			visit(n, v)
		}
		b = b[size:]
	}
}

// outer sums up call time without nested calls.
func outer(t *testing.T, r *format.Reader) (sum int64) {
	t.Helper()
	w := timeline.NewWalk(r, acl.Model, nil)
	open := map[uint32][]int64{} // call ends
	if err := w.Run(&timeline.Visitor{Call: func(c *timeline.HostCall, _ *timeline.Task) error {
		ends := slices.DeleteFunc(open[c.Thread], func(end int64) bool { return end <= c.Start })
		if n := len(ends); n == 0 || c.End > ends[n-1] {
			sum += w.CallEnd(c) - c.Start
		}
		open[c.Thread] = append(ends, c.End)
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestPprofPrintsTheTotals(t *testing.T) {
	each(t, func(t *testing.T, r *format.Reader, want *sums) {
		path := filepath.Join(t.TempDir(), "run.pb.gz")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = pprof.Write(f, r, acl.Model, nil)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		for index, total := range map[string]string{"launches": fmt.Sprint(want.kernels), "host_time": fmt.Sprintf("%dns", outer(t, r)), "device_time": fmt.Sprintf("%dns", want.device), "moved": fmt.Sprintf("%dB", want.bytes)} {
			unit := strings.TrimLeft(total, "0123456789")
			out, err := exec.Command("go", "tool", "pprof", "-top", "-unit="+unit, "-sample_index="+index, path).CombinedOutput()
			if err != nil || strings.TrimRight(total, "nsB") != "0" && !strings.Contains(string(out), "of "+total+" total") {
				t.Errorf("%s: %v, want %s in\n%.600s", index, err, total, out)
			}
		}
	})
}

// An event in Chrome's format.
type event struct {
	Ph, Cat string
	TS, Dur json.Number
}

// decimals converts three decimals to nanoseconds.
func decimals(n json.Number) (v int64) {
	v, _ = strconv.ParseInt(strings.Replace(string(n), ".", "", 1), 10, 64)
	return v
}

func TestChromeHasAllCallsAndTasks(t *testing.T) {
	each(t, func(t *testing.T, r *format.Reader, want *sums) {
		for _, studio := range []bool{false, true} {
			in, out := io.Pipe()
			go func() {
				_, err := chrome.Write(out, r, acl.Model, &chrome.Options{MindStudio: studio})
				out.CloseWithError(err)
			}()
			d := json.NewDecoder(bufio.NewReaderSize(in, 1<<20))
			for {
				token, err := d.Token()
				if err != nil {
					t.Fatal(err)
				}
				if token == json.Delim('[') {
					break
				}
			}
			var slices, arrows int
			var host, device int64
			for d.More() {
				var e event
				if err := d.Decode(&e); err != nil {
					t.Fatal(err)
				}
				switch {
				case e.Ph == "f":
					arrows++
				case studio && e.Ph == "X" && e.Cat != "user_annotation", e.Cat == "call", e.Cat == "task", e.Cat == "bracketed":
					slices++
				}
				switch e.Cat {
				case "call":
					host += decimals(e.Dur)
				case "task":
					device += decimals(e.Dur)
				}
			}
			if slices != want.calls+want.tasks || arrows != want.tasks || !studio && (host != want.host || device != want.device) {
				t.Errorf("MindStudio's %v: %d slices, %d arrows, %d ns in calls, %d in tasks, want %+v", studio, slices, arrows, host, device, want)
			}
			if _, err := io.Copy(io.Discard, in); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestParquetHasAllCallsAndTasks(t *testing.T) {
	each(t, func(t *testing.T, r *format.Reader, want *sums) {
		dir := t.TempDir()
		if _, err := tables.Write(func(table string) (io.WriteCloser, error) { return os.Create(filepath.Join(dir, table)) }, r, acl.Model, nil); err != nil {
			t.Fatal(err)
		}
		var got sums
		marks := 0 // rows, but no calls of the program
		rows(t, filepath.Join(dir, "calls"), func(c *tables.Call) {
			if f := acl.Model.Lookup(c.Function); f != nil && f.EntryMark() {
				marks++
				return
			}
			got.calls, got.host = got.calls+1, got.host+c.DurationNS
		})
		rows(t, filepath.Join(dir, "tasks"), func(k *tables.Task) {
			if got.tasks++; k.Measured {
				got.device += k.ToNS - k.FromNS
			}
		})
		rows(t, filepath.Join(dir, "kernels"), func(*tables.Kernel) { got.kernels++ })
		var copied int64
		rows(t, filepath.Join(dir, "copies"), func(c *tables.Copy) { got.copies, copied = got.copies+1, copied+c.Bytes })
		got.bytes, got.steps = want.bytes, want.steps // fills count in no table
		if got != *want || copied > want.bytes {
			t.Errorf("%+v, want %+v", got, *want)
		}
		if want.calls > most {
			return
		}
		var host int64
		calls := viewertest.Parquet(t, filepath.Join(dir, "calls"))
		for _, row := range calls {
			n, err := strconv.ParseInt(fmt.Sprint(row["duration_ns"]), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			host += n
		}
		if len(calls)-marks != want.calls || host != want.host || len(viewertest.Parquet(t, filepath.Join(dir, "kernels"))) != want.kernels {
			t.Errorf("another reader has %d calls of %d ns, want %+v", len(calls), host, want)
		}
	})
}

// rows reads a table with parquet-go's reader, which did not write it.
func rows[T any](t *testing.T, path string, visit func(*T)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := parquet.NewGenericReader[T](f)
	defer r.Close()
	for buf := make([]T, 1024); ; {
		n, err := r.Read(buf)
		for i := range buf[:n] {
			visit(&buf[i])
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

func TestOTLP(t *testing.T) {
	each(t, func(t *testing.T, r *format.Reader, want *sums) {
		in, out := io.Pipe()
		go func() {
			_, err := otelexport.Write(out, r, acl.Model, &otelexport.Options{MaxSpans: -1})
			out.CloseWithError(err)
		}()
		var got sums
		ids := map[[24]byte]bool{}
		for lines := bufio.NewReaderSize(in, 1<<20); ; {
			line, err := lines.ReadBytes('\n')
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
			if err != nil {
				t.Fatal(err)
			}
			for _, rs := range td.ResourceSpans().All() {
				for _, ss := range rs.ScopeSpans().All() {
					for _, s := range ss.Spans().All() {
						took := int64(s.EndTimestamp() - s.StartTimestamp())
						has := func(key string) bool { _, ok := s.Attributes().Get(key); return ok }
						if has("acl.call") {
							got.calls++
							if took > 1 { // a span takes a nanosecond at least
								got.host += took
							}
						}
						if has("acl.task") || has("acl.kernel") && !has("acl.call") {
							got.tasks++
						}
						if has("acl.device_ns") && took > 1 {
							got.device += took
						}
						if want.calls <= most {
							trace, span := s.TraceID(), s.SpanID()
							id := [24]byte(slices.Concat(trace[:], span[:]))
							if ids[id] {
								t.Fatalf("two spans %x", id)
							}
							ids[id] = true
						}
					}
				}
			}
		}
		if got.calls != want.calls || got.tasks != want.tasks || got.host != want.host || got.device != want.device {
			t.Errorf("%+v, want %+v", got, *want)
		}
	})
}
