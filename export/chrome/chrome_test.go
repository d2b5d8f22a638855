package chrome

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/export/internal/viewertest"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

type event struct {
	Ph, Name, Cat string
	PID, TID      int64
	TS, Dur       json.Number
	ID            any
	Args          map[string]any
}

func written(t *testing.T, tl *timeline.Timeline, o *Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := Write(&b, tl.Reader, acl.Model, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func nanos(t *testing.T, n json.Number) int64 {
	t.Helper()
	whole, part, ok := bytes.Cut([]byte(n), []byte("."))
	v, err := strconv.ParseInt(string(whole)+string(part), 10, 64)
	if err != nil || !ok || len(part) != 3 {
		t.Fatalf("%s is no time with three decimals", n)
	}
	return v
}

// drawn returns start, duration and name for a timeline's calls and tasks.
func drawn(tl *timeline.Timeline, name func(*timeline.Task) string) []string {
	var want []string
	for i := range tl.Calls {
		c := &tl.Calls[i]
		end := c.End
		if c.Flags&format.Unfinished != 0 {
			end = tl.End
		}
		want = append(want, fmt.Sprint(c.Start, " ", end-c.Start, " ", c.Name))
	}
	for i := range tl.Tasks {
		k := &tl.Tasks[i]
		want = append(want, fmt.Sprint(k.From, " ", k.To-k.From, " ", name(k)))
	}
	slices.Sort(want)
	return want
}

// overlaps counts slices that a reader would drop: neither after nor within the previous one on their row.
func overlaps(t *testing.T, events []event) (n int) {
	type row struct{ pid, tid int64 }
	open := map[row][]int64{}
	for _, e := range events {
		if e.Ph != "X" {
			continue
		}
		at := row{e.PID, e.TID}
		from := nanos(t, e.TS)
		to := from + nanos(t, e.Dur)
		s := open[at]
		for len(s) > 0 && s[len(s)-1] <= from {
			s = s[:len(s)-1]
		}
		if len(s) > 0 && s[len(s)-1] < to {
			n++
		}
		open[at] = append(s, to)
	}
	return n
}

func TestSlicesAreThoseOfTheTimeline(t *testing.T) {
	for name, tl := range map[string]*timeline.Timeline{"small": testtrace.Small(t), "long": testtrace.Long(t, 3_000)} {
		t.Run(name, func(t *testing.T) {
			file := written(t, tl, nil)
			var doc struct {
				BaseTimeNanoseconds int64
				TraceEvents         []event
			}
			if err := json.Unmarshal(file, &doc); err != nil {
				t.Fatal(err)
			}
			if doc.BaseTimeNanoseconds != testtrace.StartWall {
				t.Errorf("it began at %d", doc.BaseTimeNanoseconds)
			}
			var got []string
			for _, e := range doc.TraceEvents {
				if e.Ph != "X" || e.Cat != "call" && e.Cat != "task" && e.Cat != "bracketed" {
					continue
				}
				dur := nanos(t, e.Dur)
				if until, ok := e.Args["acl.not_after_ns"]; ok {
					dur = int64(until.(float64)) - nanos(t, e.TS)
				}
				got = append(got, fmt.Sprint(nanos(t, e.TS), " ", dur, " ", e.Name))
			}
			slices.Sort(got)
			want := drawn(tl, func(k *timeline.Task) string { return k.Name })
			if !slices.Equal(got, want) {
				t.Errorf("%d slices, want %d:\n%.300q\n%.300q", len(got), len(want), got, want)
			}
			if n := overlaps(t, doc.TraceEvents); n > 0 {
				t.Errorf("%d slices overlap", n)
			}
			path := filepath.Join(t.TempDir(), "run.json")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			rows := viewertest.SQL(t, path, viewertest.Errors, "select count(*) from slice where category in ('call', 'task', 'bracketed')", "select count(*) from flow",
				"select min(ts), max(ts + dur) from slice", "select distinct name from process order by name")
			if len(rows[0]) > 0 || rows[1][0][0] != strconv.Itoa(len(want)) || rows[2][0][0] != strconv.Itoa(len(tl.Tasks)) {
				t.Errorf("errors %v, %v slices, %v arrows; want %d and %d", rows[0], rows[1], rows[2], len(want), len(tl.Tasks))
			}
			if first := fmt.Sprint(tl.Calls[0].Start); rows[3][0][0] != first {
				t.Errorf("slices from %s to %s, want from %s", rows[3][0][0], rows[3][0][1], first)
			}
		})
	}
}

// A MindStudio file has the layers, keys and value types that msprof's own files have.
func TestMindStudio(t *testing.T) {
	tl := testtrace.Small(t)
	var events []event
	if err := json.Unmarshal(written(t, tl, &Options{MindStudio: true}), &events); err != nil {
		t.Fatal(err)
	}
	names := map[string]int64{}
	arrows := map[any]string{}
	var got []string
	for _, e := range events {
		switch e.Ph {
		case "M":
			if e.Name == "process_name" {
				names[e.Args["name"].(string)] = e.PID
			}
		case "s", "f":
			arrows[e.ID] += e.Ph
			if e.Name != "HostToDevice"+e.ID.(string) || e.Cat != "HostToDevice" {
				t.Errorf("%+v", e)
			}
		case "X":
			if e.Cat == "user_annotation" {
				continue
			}
			got = append(got, fmt.Sprint(nanos(t, e.TS)-testtrace.StartWall, " ", nanos(t, e.Dur), " ", e.Name))
			if _, ok := e.Args["connection_id"]; !ok {
				t.Errorf("%+v", e)
			}
		default:
			t.Errorf("%+v", e)
		}
	}
	if len(got) != len(tl.Calls)+len(tl.Tasks) {
		t.Errorf("%d slices, want %d", len(got), len(tl.Calls)+len(tl.Tasks))
	}
	for _, w := range []string{"3000 700 AscendCL@aclrtMalloc", "10001 999 MEMCPY_ASYNC", "11400 7603 EVENT_RECORD", "12000 3100 EVENT_WAIT"} {
		if !slices.Contains(got, w) {
			t.Errorf("no %q in %q", w, got)
		}
	}
	if names["CANN"]>>10 != 4001 && names["CANN"]>>10 != 4002 || names["Ascend Hardware"]>>5&31 != hardwareLayer || names["Ascend Hardware"]&31 > 3 {
		t.Errorf("%v", names)
	}
	if len(arrows) != len(tl.Tasks) {
		t.Errorf("%d arrows for %d tasks", len(arrows), len(tl.Tasks))
	}
	for id, a := range arrows {
		if a != "sf" {
			t.Errorf("arrow %v: %s", id, a)
		}
	}
	if n := overlaps(t, events); n > 0 {
		t.Errorf("%d slices overlap", n)
	}
}

// Regression: a MindStudio file had neither names of threads nor steps, ranges and lost calls.
func TestMindStudioHasThreadsAndSteps(t *testing.T) {
	var events []event
	if err := json.Unmarshal(written(t, testtrace.Rich(t), &Options{MindStudio: true}), &events); err != nil {
		t.Fatal(err)
	}
	threads, processes := map[string]int{}, map[int64]string{}
	seen := map[string]int{}
	for _, e := range events {
		switch {
		case e.Name == "thread_name":
			threads[e.Args["name"].(string)]++
		case e.Name == "process_name":
			processes[e.PID] = e.Args["name"].(string)
		case e.Cat == "user_annotation":
			if seen[e.Name]++; e.PID != 4001 && e.PID != 4002 || processes[e.PID] != "Python" {
				t.Errorf("%+v in %q", e, processes[e.PID])
			}
		}
	}
	for _, name := range []string{"ProfilerStep#0", "ProfilerStep#2", "step 1", "across", "load 7", "calls lost"} {
		if seen[name] == 0 {
			t.Errorf("no %q in %v", name, seen)
		}
	}
	// The thread has calls, and ranges.
	if threads["Thread 4001 (train)"] != 2 || threads["Thread 4011"] == 0 || threads["Steps"] != 1 || threads["Stream 1"] == 0 {
		t.Errorf("threads %v", threads)
	}
}

func TestEmptyTraceIsValidJSON(t *testing.T) {
	for _, o := range []*Options{nil, {MindStudio: true}} {
		if b := written(t, testtrace.New(t).Load(), o); !json.Valid(b) {
			t.Errorf("%s", b)
		}
	}
}

// Any text is a JSON string that reads back.
func FuzzQuoted(f *testing.F) {
	f.Add("plain")
	f.Add("\x00\"\\\u2028é\n\x7f")
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		want := string(bytes.ToValidUTF8([]byte(s), []byte("\uFFFD")))
		if err := json.Unmarshal(appendQuoted(nil, want), &got); err != nil || got != want {
			t.Errorf("%q became %q: %v", want, got, err)
		}
	})
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }

func TestWriteError(t *testing.T) {
	full := errors.New("no space left on device")
	if _, err := Write(failing{full}, testtrace.Small(t).Reader, acl.Model, nil); !errors.Is(err, full) || !strings.HasPrefix(err.Error(), "write Chrome trace: ") {
		t.Error(err)
	}
}

func BenchmarkWrite(b *testing.B) {
	tl := testtrace.Long(b, 100_000)
	for b.Loop() {
		if _, err := Write(io.Discard, tl.Reader, acl.Model, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(tl.Calls))/b.Elapsed().Seconds()/1e6, "Mcalls/s")
}

// Without arguments, slices with one name differ only in times and flags: Speedscope identifies functions by name and
// arguments.
func TestNoArgs(t *testing.T) {
	var doc struct{ TraceEvents []event }
	if err := json.Unmarshal(written(t, testtrace.Small(t), &Options{NoArgs: true}), &doc); err != nil {
		t.Fatal(err)
	}
	slices := 0
	for _, e := range doc.TraceEvents {
		if e.Ph != "X" {
			continue
		}
		slices++
		for k, v := range e.Args {
			if v != true {
				t.Errorf("%s has %s %v", e.Name, k, v)
			}
		}
	}
	if slices == 0 {
		t.Error("no slices")
	}
}

// Two ranks with equal process and thread ids have separate rows.
func TestRanksHaveSeparateRows(t *testing.T) {
	for _, studio := range []bool{false, true} {
		file := written(t, testtrace.Ranks(t), &Options{MindStudio: studio})
		if studio {
			file = append(append([]byte(`{"TraceEvents":`), file...), '}')
		}
		var doc struct{ TraceEvents []event }
		if err := json.Unmarshal(file, &doc); err != nil {
			t.Fatal(err)
		}
		rows := map[[2]int64]int{}
		names := map[string]bool{}
		for _, e := range doc.TraceEvents {
			if e.Ph == "X" && strings.Contains(e.Name, "aclrt") {
				rows[[2]int64{e.PID, e.TID}]++
			}
			if e.Name == "process_name" {
				names[fmt.Sprint(e.Args["name"])] = true
			}
		}
		if len(rows) != 2 {
			t.Errorf("MindStudio %v: calls by row %v", studio, rows)
		}
		if !studio && !(names["train:0"] && names["npu:0 of train:1"]) {
			t.Errorf("processes %v", names)
		}
		if n := overlaps(t, doc.TraceEvents); !studio && n > 0 {
			t.Errorf("%d slices overlap", n)
		}
	}
}

// Steps are numbered, and handles are named after their objects. Without arguments, viewers sum up steps by name.
func TestNumberedStepsAndNamedHandles(t *testing.T) {
	tl := testtrace.Steps(t, 3, 20, func(_, _ int) int64 { return 100 })
	for _, noArgs := range []bool{false, true} {
		var doc struct{ TraceEvents []event }
		if err := json.Unmarshal(written(t, tl, &Options{NoArgs: noArgs}), &doc); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, e := range doc.TraceEvents {
			if e.Cat == "step" {
				seen[e.Name]++
			}
			if e.Name == "aclrtSynchronizeStream" {
				seen[fmt.Sprint(e.Args["arg.stream"])]++
			}
		}
		numbered := seen["step 0"] == 1 && seen["step 2"] == 1 && seen["stream#3"] == 3
		if numbered == noArgs || noArgs != (seen["step"] > 1) {
			t.Errorf("without arguments %t: %v", noArgs, seen)
		}
	}
}

// A run of a graph did not say which kernels it launches.
func TestGraphsListTheirKernels(t *testing.T) {
	if n := bytes.Count(written(t, testtrace.Graphs(t, 3), nil), []byte(`"acl.graph_kernels":"3 attention, 1 mlp"`)); n != 40 {
		t.Errorf("%d runs with kernels", n)
	}
}

// Values are exact, and integers have no exponent.
func TestCounterValues(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 3: "3", -2: "-2", 0.1: "0.1", -2.25: "-2.25", 123456789012: "123456789012", exact - 1: "9007199254740991",
		exact: "9.007199254740992e+15", 1e300: "1e+300", 1.0 / 3: "0.3333333333333333"} {
		if got := string(appendValue([]byte("v"), value)); got != "v"+want {
			t.Errorf("%g is %s, want %s", value, got, want)
		}
	}
}
