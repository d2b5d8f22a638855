package kineto_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/import/kineto"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// second is a time in nanoseconds that the clock of a profile is sure to have.
const second = int64(1e9)

// recorded returns a recording of three steps, each with a copy and a launch on thread 4001 and a call on thread 4011.
func recorded(t *testing.T) *format.Reader {
	b := testtrace.New(t)
	b.Meta(func(m *format.Meta) { m.EndNS = 10 * second })
	b.Call(0, 100, 200, "aclrtCreateStream", testtrace.A(1<<20), testtrace.Outs("stream", testtrace.StreamA))
	for i := range int64(3) {
		at := second + i*1_000_000
		b.Call(0, at+10_000, at+40_000, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1, testtrace.StreamA))
		b.Call(0, at+100_000, at+130_000, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
		b.Call(1, at+200_000, at+230_000, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	}
	return b.Load().Reader
}

// event is an event of a profile. at is in nanoseconds since the recording began.
func event(name, cat, pid string, tid int, at, dur int64, base int64) string {
	ts := testtrace.StartWall + at - base
	return fmt.Sprintf(`{"ph":"X","cat":%q,"name":%q,"pid":%s,"tid":%d,"ts":%d.%03d,"dur":%d.%03d,"args":{"External id":7}}`, cat, name, pid, tid, ts/1000, ts%1000, dur/1000, dur%1000)
}

// operators are the events of the three steps. off is the difference of the clocks.
func operators(off, base int64) (all []string) {
	for i := range int64(3) {
		at := second + i*1_000_000 + off
		all = append(all,
			event(fmt.Sprintf("ProfilerStep#%d", 5+i), "user_annotation", "4001", 4001, at, 900_000, base),
			event("aten::copy_", "cpu_op", "4001", 4001, at+5_000, 40_000, base),
			event("aten::mm", "cpu_op", "4001", 4001, at+90_000, 50_000, base),
			event("MmBackward0", "cpu_op", "4001", 4099, at+150_000, 20_000, base))
	}
	return all
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "profile.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// torch returns a profile as torch.profiler writes it. Its base follows the events, and it has events of no process.
func torch(t *testing.T, off int64) string {
	const base = testtrace.StartWall - 5*second
	events := append(operators(off, base), `{"ph":"M","name":"thread_name","pid":4001,"tid":4099,"args":{"name":"thread 4099 (pt_autograd_0)"}}`,
		event("PyTorch Profiler (0)", "Trace", `"Spans"`, 1, second, 5_000_000, base), event("cudaLaunchKernel", "cuda_runtime", "4001", 4001, second, 5, base),
		`{"ph":"i","name":"odd","pid":4001,"tid":1,"ts":1,"args":[7]}`, `{"ph":"i","name":"odd","pid":4001,"tid":1,"ts":1,"args":"none"}`,
		`{"ph":"i","s":"g","name":"Iteration Start","pid":"Traces","tid":"Trace","ts":1}`)
	return file(t, fmt.Sprintf(`{"schemaVersion":1,"deviceProperties":[],"traceEvents":[%s],"baseTimeNanoseconds":%d}`, strings.Join(events, ",\n"), base))
}

// npu returns a profile as torch_npu.profiler writes it: absolute times in strings, and layers of the device.
func npu(t *testing.T) string {
	var events []string
	for _, e := range append(operators(0, 0), event("AscendCL@aclrtMemcpyAsync", "", "4097248", 4001, second, 100, 0), event("MatMul", "", "4097440", 3, second, 100, 0)) {
		a, b, _ := strings.Cut(e, `"ts":`)
		ts, rest, _ := strings.Cut(b, ",")
		events = append(events, a+`"ts":"`+ts+`",`+rest)
	}
	return file(t, "["+strings.Join(events, ",")+"]")
}

func add(t *testing.T, r *format.Reader, path string) (*timeline.Timeline, *kineto.Report) {
	t.Helper()
	p, err := kineto.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if of, err := p.Of([]*format.Reader{r}); of != r || err != nil {
		t.Fatal(of, err)
	}
	out := filepath.Join(t.TempDir(), "both.aclt")
	rep, err := kineto.Add(r, acl.Model, []*kineto.Profile{p}, out)
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(out)); len(left) != 1 {
		t.Errorf("files %v", left)
	}
	both, err := format.Open(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { both.Close() })
	tl, err := timeline.Load(both, acl.Model)
	if err != nil {
		t.Fatal(err)
	}
	return tl, rep
}

// Operators of both profilers are ranges around the calls of their threads, on the recording's time axis, and mark its steps.
func TestOperatorsSurroundTheirCalls(t *testing.T) {
	for name, c := range map[string]struct {
		path             func(*testing.T) string
		shift            bool // the clocks differ
		outside, autogrd int
	}{
		"torch":                 {func(t *testing.T) string { return torch(t, 0) }, false, 0, 1},
		"torch, clocks differ":  {func(t *testing.T) string { return torch(t, 7_000) }, true, 0, 1},
		"torch, clocks differ ": {func(t *testing.T) string { return torch(t, -8_000) }, true, 0, 1},
		"torch_npu":             {npu, false, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := recorded(t)
			tl, rep := add(t, r, c.path(t))
			if rep.Operators != 12 || rep.Threads != 2 || rep.Outside != c.outside || rep.Calls != 6 || rep.Crossing != 0 || (rep.Shift != 0) != c.shift {
				t.Errorf("%+v", rep)
			}
			// One domain, and two calls an operator.
			if got, want := len(tl.Calls), 10+1+2*12; got != want || len(tl.Ranges) != 12 || len(tl.Tasks) != 6 {
				t.Fatalf("%d calls, want %d; %d ranges, %d tasks", got, want, len(tl.Ranges), len(tl.Tasks))
			}
			if was, is := r.Meta(), tl.Reader.Meta(); was.UUID != is.UUID || was.EndNS != is.EndNS || was.StartMono != is.StartMono || len(is.Merged) > 0 || len(tl.Reader.Processes()) != 2 {
				t.Errorf("%+v", is)
			}
			threads := tl.Reader.Threads()
			inside := map[string]int{}
			for i := range tl.Ranges {
				x := &tl.Ranges[i]
				th := threads[x.Thread]
				if x.Open || x.Domain != "torch" || x.Thread != x.EndThread || th.Process != 0 {
					t.Errorf("%+v", x)
				}
				if strings.HasPrefix(x.Name, "Mm") {
					if th.TID != 4099 || (th.Name == "pt_autograd_0") != (c.autogrd == 1) {
						t.Errorf("%s is on thread %+v", x.Name, th)
					}
					continue
				}
				for k := range tl.Calls {
					if call := &tl.Calls[k]; call.Thread == x.Thread && call.Start >= x.From && call.End <= x.To && strings.HasPrefix(call.Name, "aclrt") {
						inside[x.Name+" "+call.Name]++
					}
				}
			}
			if inside["aten::copy_ aclrtMemcpyAsync"] != 3 || inside["aten::mm aclrtLaunchKernel"] != 3 || inside["ProfilerStep#6 aclrtMemcpyAsync"] != 1 || len(inside) != 2+6 {
				t.Errorf("%v", inside)
			}
			if steps := tl.Steps(); steps.Source != "marked" || len(steps.List) != 3 || steps.List[1].Name != "ProfilerStep#6" {
				t.Errorf("%+v", steps)
			}
		})
	}
}

// Clocks that differ by hundreds of milliseconds are found by the pattern of irregular steps, of which a part was profiled.
func TestFarClocks(t *testing.T) {
	const steps = 60
	b := testtrace.New(t)
	b.Meta(func(m *format.Meta) { m.EndNS = 100 * second })
	random := rand.New(rand.NewPCG(1, 2))
	at := 10 * second
	var starts []int64
	for range steps {
		at += 5_000_000 + random.Int64N(3_000_000)
		starts = append(starts, at)
		b.Call(0, at+10_000, at+40_000, "aclrtMemcpy", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1))
		b.Call(0, at+900_000, at+930_000, "aclrtMemcpy", testtrace.A(testtrace.HostA, 64, testtrace.DeviceA, 64, 2))
	}
	r := b.Load().Reader
	for _, off := range []int64{0, 259_000_000, -700_000_000, 1_500_000_000} {
		var events []string
		for _, at := range starts[20:40] {
			events = append(events, event("ProfilerStep#1", "cpu_op", "4001", 4001, at+off, 4_000_000, 0),
				event("aten::copy_", "cpu_op", "4001", 4001, at+off+8_000, 40_000, 0), event("aten::item", "cpu_op", "4001", 4001, at+off+898_000, 40_000, 0))
		}
		p, err := kineto.Read(file(t, "["+strings.Join(events, ",")+"]"))
		if err != nil {
			t.Fatal(err)
		}
		rep, err := kineto.Add(r, acl.Model, []*kineto.Profile{p}, filepath.Join(t.TempDir(), "both.aclt"))
		if err != nil {
			t.Fatal(err)
		}
		if rep.Crossing != 0 || rep.Calls < 38 || rep.Shift+off > 10_000 || rep.Shift+off < -10_000 {
			t.Errorf("clocks differ by %d: %+v", off, rep)
		}
	}
}

// Profiles of other runs, and files that are no profile, are refused. Nothing is written.
func TestProfilesOfOtherRunsAreRefused(t *testing.T) {
	r := recorded(t)
	for name, c := range map[string]struct{ text, want string }{
		"other process": {"[" + event("aten::mm", "cpu_op", "77", 77, second, 1000, 0) + "]", "has no operator of a process, and in the time, of"},
		"other time":    {"[" + event("aten::mm", "cpu_op", "4001", 4001, 20*second, 1000, 0) + "]", "profile the run that is recorded"},
		"empty":         {`{"traceEvents":[]}`, "has no operators of the host"},
		"no list":       {`{"a":1}`, "no list of events"},
		"cut":           {`{"traceEvents":[` + event("aten::mm", "cpu_op", "4001", 4001, second, 1000, 0), "it was cut off"},
		"cut behind":    {`{"traceEvents":[],"baseTime`, "it was cut off"},
		"gzip":          {"\x1f\x8b\x08", "compressed by gzip: unpack it first"},
		"no time":       {`[{"ph":"X","name":"x","pid":1,"tid":1,"ts":"soon"}]`, `ts "soon" of "x" is no time`},
		"base":          {`{"baseTimeNanoseconds":9223372036854775807,"traceEvents":[` + event("aten::mm", "cpu_op", "4001", 4001, second, 1000, 0) + "]}", "is no time of this age"},
		"deep":          {strings.Repeat("[", 1<<20), "nested more than 10,000 levels deep"},
	} {
		p, err := kineto.Read(file(t, c.text))
		if err == nil {
			_, err = p.Of([]*format.Reader{r})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := kineto.Read(filepath.Join(t.TempDir(), "missing.json")); err == nil {
		t.Error("a missing file")
	}
}

// Two profiles of one run, such as two schedules, are added without mixing their ranges.
func TestTwoProfiles(t *testing.T) {
	r := recorded(t)
	var both []*kineto.Profile
	for _, path := range []string{torch(t, 0), npu(t)} {
		p, err := kineto.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, p)
	}
	out := filepath.Join(t.TempDir(), "both.aclt")
	rep, err := kineto.Add(r, acl.Model, both, out)
	if err != nil || rep.Operators != 24 || rep.Outside != 2 {
		t.Fatalf("%+v, %v", rep, err)
	}
	opened, err := format.Open(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	tl, err := timeline.Load(opened, acl.Model)
	if err != nil || len(tl.Ranges) != 24 {
		t.Fatal(len(tl.Ranges), err)
	}
	for i := range tl.Ranges {
		if x := &tl.Ranges[i]; x.Open {
			t.Errorf("%+v", x)
		}
	}
}
