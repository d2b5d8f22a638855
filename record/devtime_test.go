package record_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
)

// durations are the kernels' durations in devtimeModel's cost model, in nanoseconds.
var durations = map[string]int64{"reduce": 50e6, "add": 250_000, "mul": 120_020}

// devtimeModel makes the simulator's kernels take known times.
func devtimeModel(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(testenv.Root(t), "sim/model/presets/instant.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	var rules []any
	for name, ns := range durations {
		rules = append(rules, map[string]any{"name": name, "duration_ns": ns})
	}
	m["kernels"] = append(rules, m["kernels"].([]any)...)
	if b, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ACLSIM_MODEL", path)
	t.Setenv("ACLSIM_KERNELS", "")
}

func devtimeProgram(t *testing.T) (program, binary string) {
	t.Helper()
	t.Setenv("ACLSIM_KERNELS_BESIDE", "0") // real kernels would take their own time
	return testenv.CompileC(t, "devtime", []string{source("devtime.c")}), testenv.Built(t, "lib/aclsim_kernels.o")
}

func scene(t *testing.T, r *format.Reader) *timeline.Timeline {
	t.Helper()
	tl, err := timeline.Load(r, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// Tasks that wait for others on their streams take as long by the device's clock as the simulator's model says. They do not
// overlap, and run between their call and the synchronization.
func TestDeviceTime(t *testing.T) {
	devtimeModel(t)
	program, binary := devtimeProgram(t)
	_, _, without := run(t, record.Options{}, program, binary, "4")
	r, res, out := run(t, record.Options{Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}}, program, binary, "4")
	if res.ExitCode != 0 || res.Lost != 0 || out != without {
		t.Fatalf("%+v\n%s\nand without --device-time\n%s", res, out, without)
	}
	said := r.Meta().DeviceTime
	tl := scene(t, r)
	n, held, right, unsound := 0, 0, 0, uint64(0)
	last := map[int]int64{}
	for i := range tl.Tasks {
		k := &tl.Tasks[i]
		if !k.Fn.Task.Works() || k.Fn.Stream < 0 {
			if k.Measured {
				t.Errorf("%s of call %d is measured", k.Name, k.Call)
			}
			continue
		}
		if !k.Measured {
			unsound++
			continue
		}
		n++
		if k.From < k.Issued || k.From < last[k.Lane] {
			t.Errorf("task %d, %s: from %d, its call at %d, the task before it until %d", i, k.Name, k.From, k.Issued, last[k.Lane])
		}
		// A task that came to a busy stream begins when the earlier work is done, to a microsecond.
		if want := durations[k.Name]; want != 0 && last[k.Lane] > k.Issued && next(tl, i) < k.From {
			held++
			// The simulator's streams take longer on a busy machine.
			switch d := k.To - k.From - want; {
			case d <= 1500 && d >= -1500:
				right++
			case d < 0:
				t.Errorf("task %d, %s of call %d took %d ns, not %d", i, k.Name, k.Call, k.To-k.From, want)
			}
		}
		last[k.Lane] = k.To
	}
	if said == nil || said.Every != 1 || said.Measured != uint64(n) || said.Captured-5+said.Lost+said.Refused+said.NeverSynchronized != 0 {
		t.Errorf("%d tasks, and the trace says %+v", n, said)
	}
	// The simulated device's clock may be ahead of the host's, and the trace still has no impossible time. On a busy machine
	// more tasks wait than there are pairs of events.
	if unsound != said.Unsound+said.PoolExhausted || unsound > uint64(n) {
		t.Errorf("%d of %d tasks are not measured, %d of them since their times can't be", unsound, n, said.Unsound)
	}
	if held < 100 || right < held/10 {
		t.Errorf("%d tasks of %d were held up, %d of them took as long as they should", held, n, right)
	}
	names := count(calls(t, r), r)
	if names["aclrtRecordEvent"] != 1 || names["aclrtCreateEventExWithFlag"] != 0 || names["aclrtQueryEventStatus"] != 0 {
		t.Errorf("calls that the program has not made: %v", names)
	}
	var text bytes.Buffer
	in, err := report.NewInfo(r.Path(), r, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Text(&text, nil); err != nil || !strings.Contains(text.String(), human.Count(n)+" tasks measured (all)") || !strings.Contains(text.String(), "5 tasks: a stream was being captured") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// next returns when the following task on a stream was requested.
func next(tl *timeline.Timeline, i int) int64 {
	for j := i + 1; j < len(tl.Tasks); j++ {
		if tl.Tasks[j].Lane == tl.Tasks[i].Lane {
			return tl.Tasks[j].Issued
		}
	}
	return math.MaxInt64
}

// A call's task ids are the task's own, not those of the events around it.
func TestDeviceTimeTaskIDs(t *testing.T) {
	devtimeModel(t)
	program, binary := devtimeProgram(t)
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	r, _, _ := run(t, record.Options{Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}, Stderr: stderr}, program, binary, "1")
	b, _ := os.ReadFile(stderr.Name())
	var id uint32
	for _, line := range strings.Split(string(b), "\n") {
		_, _ = fmt.Sscanf(line, "task %d", &id)
	}
	found := false
	tl := scene(t, r)
	for i := range tl.Tasks {
		found = found || tl.Tasks[i].HasID && tl.Tasks[i].TaskID == id && tl.Tasks[i].Kind == api.Kernel
	}
	if !found {
		t.Errorf("no kernel has the id %d, which the program saw\n%s", id, b)
	}
}

// With sampling by number or by time, only some tasks are measured.
func TestDeviceTimeSampled(t *testing.T) {
	devtimeModel(t)
	program, binary := devtimeProgram(t)
	for _, c := range []struct {
		every    int
		gap      time.Duration
		from, to uint64 // with gaps: to is per gap that the program takes
	}{{10, 0, 30, 90}, {1, 200 * time.Millisecond, 1, 6}} {
		r, _, _ := run(t, record.Options{Capture: record.Capture{Calls: record.Calls{DeviceTime: c.every, DeviceTimeGap: c.gap}}}, program, binary, "2")
		measured := uint64(0)
		tl := scene(t, r)
		for i := range tl.Tasks {
			if tl.Tasks[i].Measured {
				measured++
			}
		}
		if c.gap > 0 {
			c.to *= 1 + uint64(r.Meta().EndNS/c.gap.Nanoseconds())
		}
		said := r.Meta().DeviceTime
		if chosen := measured + said.Unsound + said.PoolExhausted; said.Measured != measured || measured == 0 || chosen < c.from || chosen > c.to {
			t.Errorf("every %d, gap %v: %d tasks of about %d are measured, and the trace says %+v", c.every, c.gap, measured, 500, said)
		}
	}
}

// If the runtime refuses one of the shim's own events, measuring ends and the program does not notice.
func TestDeviceTimeRefused(t *testing.T) {
	devtimeModel(t)
	program, binary := devtimeProgram(t)
	refuse := testenv.CompileC(t, "refuse.so", []string{source("devtime_refuse.c")}, "-shared", "-fPIC")
	_, _, without := run(t, record.Options{}, program, binary, "2")
	t.Setenv("LD_PRELOAD", refuse)
	for _, n := range []string{"1", "2", "7", "494", "496", "497"} {
		t.Setenv("REFUSE", n)
		r, res, out := run(t, record.Options{Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}}, program, binary, "1")
		if n >= "496" {
			// The thread has an error that the program has not queried: its number survives, and its text does not.
			out = strings.Replace(out, "aclrtRecordEvent: event is null", "aclrtMallocHost: hostPtr is null", 1)
		}
		if said := r.Meta().DeviceTime; res.ExitCode != 0 || out != without || said.Refused != 1 {
			t.Errorf("refused at %s: %+v, %+v\n%s\nand without --device-time\n%s", n, res, said, out, without)
		}
	}
}

// A program that does not synchronize uses up the pairs of events. Further tasks are counted, the recorder says so once, and the next wait frees the pairs.
func TestDeviceTimePool(t *testing.T) {
	t.Setenv("ACLSIM_MODEL", "instant")
	t.Setenv("ACLSIM_KERNELS", "")
	program := testenv.CompileC(t, "devtime_pool", []string{source("devtime_pool.c")})
	var notes []string
	r, res, _ := run(t, record.Options{Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}, Waiting: func(what string) { notes = append(notes, what) }}, program)
	said := r.Meta().DeviceTime
	if len(notes) != 1 || !strings.Contains(notes[0], "too many tasks are not complete") {
		t.Errorf("the recorder says %q", notes)
	}
	if res.ExitCode != 0 || said.PoolExhausted != 904 || said.Measured != 4096+10 || said.NeverSynchronized != 5 {
		t.Errorf("%+v, %+v", res, said)
	}
}

// A wait queries at most 64 tasks that it does not cover: the oldest of each stream, up to the first that is not complete.
func TestDeviceTimeQueries(t *testing.T) {
	t.Setenv("ACLSIM_MODEL", "instant")
	t.Setenv("ACLSIM_KERNELS", "")
	const waits, queries, held = 10, 64, 1 // held: a query of the stream that is held, unless the other one comes first
	program := testenv.CompileC(t, "devtime_queries", []string{source("devtime_queries.c")})
	r, res, _ := run(t, record.Options{Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}}, program, "wait")
	said := r.Meta().DeviceTime
	if res.ExitCode != 0 || said.Measured < waits*(queries-held) || said.Measured > waits*queries || said.PoolExhausted != 0 {
		t.Errorf("%+v, %+v", res, said)
	}
	tl := scene(t, r)
	fills := uint64(0)
	for i := range tl.Tasks {
		k := &tl.Tasks[i]
		if loose := tl.Lanes[k.Lane].Name == "stream 2"; k.Measured != (loose && k.Kind == api.Fill && fills < said.Measured) {
			t.Errorf("call %d is fill %d on %s, measured: %t", k.Call, fills, tl.Lanes[k.Lane].Name, k.Measured)
		} else if loose {
			fills++
		}
	}
}

// A program that never waits for a stream or an event had used up the pairs of events after 4,096 tasks: no later task was measured.
func TestDeviceTimeWithoutWaits(t *testing.T) {
	t.Setenv("ACLSIM_MODEL", "instant")
	t.Setenv("ACLSIM_KERNELS", "")
	program := testenv.CompileC(t, "devtime_queries", []string{source("devtime_queries.c")})
	r, res, _ := run(t, record.Options{Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}}, program, "none")
	if said := r.Meta().DeviceTime; res.ExitCode != 0 || said.Measured < 20000-4096 || said.PoolExhausted != 0 {
		t.Errorf("%+v, %+v", res, said)
	}
}

// Tasks on streams that the program joins by an event, and does not wait for, were not measured, and used up the pairs of events for good.
func TestDeviceTimeOfJoinedStreams(t *testing.T) {
	t.Setenv("ACLSIM_MODEL", "instant")
	t.Setenv("ACLSIM_KERNELS", "")
	const steps, joined, loose = 60, 100, 10
	program := testenv.CompileC(t, "devtime_joined", []string{source("devtime_joined.c")})
	r, res, _ := run(t, record.Options{Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}}}, program, fmt.Sprint(steps))
	said := r.Meta().DeviceTime
	// Those that nobody waits for may run after the last wait.
	if res.ExitCode != 0 || said.PoolExhausted != 0 || said.NeverSynchronized > loose || said.Measured+said.NeverSynchronized != steps*(joined+loose+2) {
		t.Errorf("%+v, %+v", res, said)
	}
	tl := scene(t, r)
	by := map[string]int{}
	for i := range tl.Tasks {
		if tl.Tasks[i].Measured {
			by[tl.Lanes[tl.Tasks[i].Lane].Name]++
		}
	}
	if by["stream 1"] != steps*joined {
		t.Errorf("measured: %v", by)
	}
}
