package msprof_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/import/msprof"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/operator"
)

func load(t *testing.T, path string) *timeline.Timeline {
	t.Helper()
	rep, err := format.Check(path, nil)
	if err != nil || len(rep.Problems) > 0 {
		t.Fatalf("%v %+v", err, rep)
	}
	r, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	tl, err := timeline.Load(r, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

func imported(t *testing.T, p *msprof.Profile) (*msprof.Report, *timeline.Timeline) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "profile.aclt")
	rep, err := msprof.Import(p, acl.Model, out)
	if err != nil {
		t.Fatal(err)
	}
	return rep, load(t, out)
}

// tasks returns one line per task with the values that a profile has.
func tasks(tl *timeline.Timeline) []string {
	var got []string
	for i := range tl.Tasks {
		k := &tl.Tasks[i]
		call := &tl.Calls[0]
		for j := range tl.Calls {
			if tl.Calls[j].Index == k.Call {
				call = &tl.Calls[j]
			}
		}
		got = append(got, fmt.Sprintf("%s on %d:%d %d blocks %d bytes at %d for %d, called at %d for %d", k.Name, k.StreamID, k.TaskID, k.Blocks, k.Bytes,
			k.From+250, k.To-k.From, call.Start+250, call.End-call.Start))
	}
	return got
}

// A small profile with trace and table is imported exactly, to the nanosecond.
func TestProfileIsImportedExactly(t *testing.T) {
	p, err := msprof.Find("testdata")
	if err != nil {
		t.Fatal(err)
	}
	rep, tl := imported(t, p)
	if got, want := fmt.Sprintf("%+v", *rep), "{Calls:6 Kernels:4 Copies:1 Tasks:6 Collectives:1 Steps:1 Operators:1 Marks:0 Shapes:1 Untied:2 Left:map[part of collectives, which the device's streams have as well:1 "+
		"task of the scheduler: Write Value:1 value of counters:1]}"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	const first = 1700000000000000250
	if w := tl.Reader.Meta().StartWall; w != first {
		t.Errorf("begins at %d", w)
	}
	for i := range tl.Tasks {
		if k := &tl.Tasks[i]; !k.Measured || k.Pageable() {
			t.Errorf("%s: %+v", k.Name, k)
		}
	}
	got := tasks(tl)
	want := []string{
		"copy HtoD on 2:40 0 blocks 4096 bytes at 110020 for 8000, called at 100000 for 0",
		"MatMul on 2:41 20 blocks 0 bytes at 140000 for 100500, called at 130000 for 0",
		"Add on 2:42 40 blocks 0 bytes at 241000 for 3020, called at 150000 for 0",
		"hcom_allReduce__1_0 on 0:0 0 blocks 0 bytes at 280000 for 500000, called at 200000 for 0",
		"Add on 3:7 8 blocks 0 bytes at 250000 for 3040, called at 250000 for 0",
		"record on 2:43 0 blocks 0 bytes at 260000 for 20, called at 260000 for 0",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("tasks\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	profileRanges(t, tl)
}

// profileRanges checks the step, the framework's operator and the operator of the profile in testdata.
func profileRanges(t *testing.T, tl *timeline.Timeline) {
	t.Helper()
	var got []string
	for _, r := range tl.Ranges {
		got = append(got, fmt.Sprintf("%s %q from %d to %d on %d", r.Name, r.Domain, r.From, r.To, tl.Reader.Threads()[r.Thread].TID))
	}
	if want := []string{`ProfilerStep#7 "" from 0 to 900500 on 0`, `aten::mm "torch" from 9750 to 29750 on 900`}; !slices.Equal(got, want) {
		t.Errorf("ranges %q, want %q", got, want)
	}
	w := timeline.NewWalk(tl.Reader, acl.Model, &timeline.WalkOptions{Shapes: true})
	var parts, launches []string
	err := w.Run(&timeline.Visitor{
		Operator: func(p *operator.Part) error {
			parts = append(parts, fmt.Sprintf("%s from %d to %d", p, p.From, p.To))
			return nil
		},
		Call: func(_ *timeline.HostCall, k *timeline.Task) error {
			if k != nil && k.Kind == api.Kernel {
				launches = append(launches, fmt.Sprintf("%s of %q %s", k.Name, w.OperatorOf(k), w.ShapesOf(k)))
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"aclnnMatmul from 119750 to 149750"}; !slices.Equal(parts, want) {
		t.Errorf("operators %q, want %q", parts, want)
	}
	if want := []string{`MatMul of "aclnnMatmul" MatMulV3(float16[2,3], bfloat16[3,4]) -> float16[2,4]`, `Add of "" `, `hcom_allReduce__1_0 of "" `, `Add of "" `}; !slices.Equal(launches, want) {
		t.Errorf("launches %q, want %q", launches, want)
	}
}

// A kernel whose launch is in no operator's call belongs to the operator in its name.
func TestOperatorsInNamesOfKernels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kernel_details.csv")
	const table = "Name,Type,Start Time(us),Duration(us),Stream ID,Task ID,Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats\n" +
		"aclnnMine_MineCommon_Mine,Secret,10.0,2.0,1,1,\"\"\"4,8;;8\"\"\",DT_BF16;;INT64,ND;;FRACTAL_NZ,\"\"\"4,8\"\"\",DT_BF16,ND\n" +
		"trans_TransData_0,TransData,20.0,2.0,1,2,\"\"\"4,8,9\"\"\",FLOAT;FLOAT,ND,N/A,N/A,N/A\n"
	if err := os.WriteFile(path, []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	rep, tl := imported(t, &msprof.Profile{Kernels: path})
	s, err := stats.New(tl.Reader, acl.Model, &stats.Options{By: "shape"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range s.Groups {
		got = append(got, fmt.Sprintf("%s %s: %d launches, %d ns", g.Name, g.Shapes, g.Launches, g.DeviceNS))
	}
	want := []string{"aclnnMine Secret(bfloat16[4,8], none, int64[8]:FRACTAL_NZ) -> bfloat16[4,8]: 1 launches, 2000 ns", "no operator : 1 launches, 2000 ns"}
	if !slices.Equal(got, want) || rep.Shapes != 1 {
		t.Errorf("%+v, got %q\nwant %q", rep, got, want)
	}
}

// A table alone gives tasks and surrounding steps.
func TestTableAloneGivesTasksAndSteps(t *testing.T) {
	p, err := msprof.Find("testdata/kernel_details.csv")
	if err != nil {
		t.Fatal(err)
	}
	rep, tl := imported(t, p)
	if rep.Kernels != 4 || rep.Collectives != 1 || rep.Untied != 4 || rep.Steps != 1 || len(tl.Tasks) != 4 || len(tl.Ranges) != 1 || tl.Ranges[0].To != 640_000 {
		t.Errorf("%+v, %d tasks, ranges %+v", rep, len(tl.Tasks), tl.Ranges)
	}
}

// For real profiles, if available, the trace equals the profile's own counts and sums.
func TestRealProfiles(t *testing.T) {
	dir := os.Getenv("ACLTRACE_PROFILES")
	if dir == "" {
		t.Skip("ACLTRACE_PROFILES names no folder with real profiles")
	}
	tables, _ := filepath.Glob(filepath.Join(dir, "*kernel_details.csv"))
	for _, path := range tables {
		_, tl := imported(t, &msprof.Profile{Kernels: path})
		sums := map[string]float64{}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		rows, err := csv.NewReader(f).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]int{}
		for i, h := range rows[0] {
			at[h] = i
		}
		for _, r := range rows[1:] {
			us, _ := strconv.ParseFloat(r[at["Duration(us)"]], 64)
			sums[r[at["Name"]]] += us
		}
		same(t, path, len(rows)-1, sums, tl, func(k *timeline.Task) bool { return true })
	}
	traces, _ := filepath.Glob(filepath.Join(dir, "*trace_view.json"))
	for _, path := range traces {
		_, tl := imported(t, &msprof.Profile{Trace: path})
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var events []map[string]any
		if err := json.Unmarshal(b, &events); err != nil {
			t.Fatal(err)
		}
		hardware, cann := -1.0, -1.0
		for _, e := range events {
			if a, _ := e["args"].(map[string]any); e["name"] == "process_name" {
				switch a["name"] {
				case "Ascend Hardware":
					hardware = e["pid"].(float64)
				case "CANN":
					cann = e["pid"].(float64)
				}
			}
		}
		sums, calls, n := map[string]float64{}, map[string]int{}, 0
		for _, e := range events {
			if e["ph"] != "X" {
				continue
			}
			name, _ := e["name"].(string)
			a, _ := e["args"].(map[string]any)
			typ, _ := a["Task Type"].(string)
			switch {
			case e["pid"] == hardware && (strings.Contains(typ, "CORE") || strings.HasPrefix(typ, "MIX") || strings.HasPrefix(typ, "DSA") || typ == "AI_CPU" || typ == "Other" && name != "MEMCPY_ASYNC"): // profilers of early 2024 say "Other"
				sums[name] += e["dur"].(float64)
				n++
			case e["pid"] == cann:
				calls[name]++
			}
		}
		same(t, path, n, sums, tl, func(k *timeline.Task) bool { return k.Kind == api.Kernel && !strings.HasPrefix(k.Name, "hcom_") })
		for i := range tl.Calls {
			calls[tl.Calls[i].Name]--
		}
		for name, left := range calls {
			if strings.Contains(name, "@") && left != 0 {
				t.Errorf("%s: %s: the profile has %d calls more", path, name, left)
			}
		}
	}
}

func same(t *testing.T, path string, n int, sums map[string]float64, tl *timeline.Timeline, which func(*timeline.Task) bool) {
	t.Helper()
	if n == 0 {
		t.Errorf("%s: nothing to compare", path)
	}
	for i := range tl.Tasks {
		if k := &tl.Tasks[i]; which(k) {
			n--
			sums[k.Name] -= float64(k.To-k.From) / 1000
		}
	}
	if n != 0 {
		t.Errorf("%s: the profile has %d kernels more", path, n)
	}
	for name, left := range sums {
		if math.Abs(left) > 0.5 {
			t.Errorf("%s: %s: the profile has %v us more", path, name, left)
		}
	}
}

// Unreadable input is named with its position and a remedy.
func TestBadInput(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"trace_view.json", `[{"ph": "X", "name": "a", "ts": "1", "dur": 1,` + "\n", `trace_view.json:1:2: the file ends within the trace: it was cut off`},
		{"trace_view.json", `{"a": [1], "b": 2}`, "no list of events"},
		{"trace_view.json", ``, "trace_view.json:1:1: the file ends"},
		{"trace_view.json", `[` + "\n" + `{"ph": "X", "name": "k", "ts": "soon", "dur": 1}]`, `trace_view.json:2:1: ts "soon" of "k" is no time in microseconds`},
		{"trace_view.json", `[{"ph": "X", "name": "k", "ts": 1, "dur": 1}]`, "no call and no task in it"},
		{"trace_view.json", "[{]", "trace_view.json:1:"},
		{"kernel_details.csv", "", "the table is empty"},
		{"kernel_details.csv", "a,b\n1,2\n", `kernel_details.csv:1: no column "Name" or "Op Name"`},
		{"kernel_details.csv", "Name,Start Time(us),Duration(us)\nk,1.5,x\n", `kernel_details.csv:2:7: Duration(us) "x": no time in microseconds`},
		{"kernel_details.csv", "Name,Start Time(us),Duration(us)\nk,1.5\n", "line 2"},
		{"ascend_pytorch_profiler_0.db", "SQLite format 3\x00", "ascend_pytorch_profiler_0.db: no sound SQLite database"},
		{"msprof_20260101120000.db", "", "msprof_20260101120000.db: a database, but none of a profile"},
		{"readme.txt", "x", "no profile in it: the profiler of torch_npu writes trace_view.json"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, c.name), []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := msprof.Find(dir)
		out := filepath.Join(dir, "x.aclt")
		if err == nil {
			_, err = msprof.Import(p, acl.Model, out)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: %v, want %q", c.name, c.content, err, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s with %q left a trace behind", c.name, c.content)
		}
	}
	dir := t.TempDir()
	for _, n := range []string{"a.trace_view.json", "b.kernel_details.csv"} {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := msprof.Find(dir); err == nil || !strings.Contains(err.Error(), "2 profiles: name one of") {
		t.Errorf("two profiles: %v", err)
	}
}

// A thread's activity in a step follows from the call names.
func TestActivityFollowsFromCallNames(t *testing.T) {
	text := `[{"ph": "X", "name": "ProfilerStep#7", "pid": 900, "tid": 900, "ts": "1000.000", "dur": 1000, "cat": "cpu_op"},
{"name": "process_name", "pid": 901, "tid": 0, "args": {"name": "CANN"}, "ph": "M"},
{"name": "process_name", "pid": 902, "tid": 0, "args": {"name": "Ascend Hardware"}, "ph": "M"},
{"name": "MatMul", "pid": 902, "tid": 2, "ts": "1200.000", "dur": 50, "args": {"Task Type": "AI_CORE", "Physic Stream Id": 2, "Task Id": 41}, "ph": "X"}`
	at := 1000
	call := func(thread, dur int, name string, within ...string) {
		for _, n := range append([]string{name}, within...) {
			text += fmt.Sprintf(",\n"+`{"name": %q, "pid": 901, "tid": %d, "ts": "%d.000", "dur": %d, "ph": "X"}`, n, thread, at, dur)
			dur--
		}
		at += dur + 10
	}
	call(1, 100, "AscendCL@aclrtSynchronizeStreamWithTimeout", "Runtime@StreamSynchronize")
	call(1, 30, "AscendCL@aclrtLaunchKernel", "Runtime@KernelLaunch")
	call(1, 20, "AscendCL@aclrtMemcpyAsync")
	call(1, 5, "AscendCL@aclrtSetDevice")
	at = 1900 // what a thread does after its last call is not known
	call(2, 7, "Runtime@EventSynchronize")
	call(2, 3, "AscendCL@aclnnAdd")
	path := filepath.Join(t.TempDir(), "trace_view.json")
	if err := os.WriteFile(path, []byte(text+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := msprof.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	_, tl := imported(t, p)
	s, err := stats.New(tl.Reader, acl.Model, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, th := range s.Steps.Threads {
		got = append(got, fmt.Sprintf("waits %d launches %d copies %d other %d own %d", th.WaitingNS, th.LaunchingNS, th.CopyingNS, th.OtherNS, th.OwnNS))
	}
	want := []string{"waits 100000 launches 30000 copies 20000 other 5000 own 845000", "waits 7000 launches 0 copies 0 other 3000 own 990000"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
