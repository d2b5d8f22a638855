package pprof

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/import/msprof"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// sums returns the expected profile sums by the last frame's name.
func sums(t *timeline.Timeline) (flat map[string][types]int64, total [types]int64) {
	flat = map[string][types]int64{}
	for i := range t.Calls {
		c := &t.Calls[i]
		name, v := c.Name, [types]int64{hostTime: c.End - c.Start}
		if c.Flags&format.Unfinished != 0 {
			v[hostTime] = t.End - c.Start
		}
		if c.Task >= 0 {
			task := &t.Tasks[c.Task]
			name, v[moved] = strings.ReplaceAll("npu::"+task.Name, "\n", "\uFFFD"), int64(task.Bytes)
			if task.Kind == api.Kernel {
				v[launches] = 1
			}
			if task.Measured {
				v[deviceTime] = task.To - task.From
			}
		}
		f := flat[name]
		for j := range f {
			f[j] += v[j]
			total[j] += v[j]
		}
		flat[name] = f
	}
	return flat, total
}

func written(t *testing.T, tl *timeline.Timeline) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.pb.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Write(f, tl.Reader, acl.Model, nil)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func pprof(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"tool", "pprof"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("go tool pprof %v: %v\n%s", args, err, out)
	}
	return string(out)
}

var topLine = regexp.MustCompile(`(?m)^\s*(-?[0-9.]+)(ns|B)?\s+[0-9.]+%\s+[0-9.]+%\s+(-?[0-9.]+)(?:ns|B)?\s+[0-9.]+%\s+(.*)$`)

// `go tool pprof -top` prints the timeline's sums.
func TestTopPrintsTheTimelinesSums(t *testing.T) {
	tl := testtrace.Long(t, 3_000)
	path := written(t, tl)
	want, total := sums(tl)
	for i, index := range []string{"launches", "host_time", "moved", "device_time"} {
		unit := map[string]string{"launches": "", "host_time": "ns", "moved": "B", "device_time": "ns"}[index]
		out := pprof(t, "-top", "-nodecount=1000", "-nodefraction=0", "-unit="+unit, "-sample_index="+index, path)
		got := map[string]int64{}
		for _, m := range topLine.FindAllStringSubmatch(out, -1) {
			n, err := strconv.ParseInt(m[1], 10, 64)
			if err != nil || m[2] != unit && m[1] != "0" {
				t.Fatalf("%s: %v in\n%s", index, err, out)
			}
			got[m[4]] = n
		}
		for name, v := range want {
			if got[name] != v[i] && !(v[i] == 0 && got[name] == 0) {
				t.Errorf("%s of %s: %d, want %d\n%s", index, name, got[name], v[i], out)
			}
		}
		if !strings.Contains(out, fmt.Sprintf("of %d%s total", total[i], unit)) && total[i] != 0 {
			t.Errorf("%s: no total of %d%s in\n%s", index, total[i], unit, out)
		}
	}
	if out := pprof(t, "-top", path); !strings.Contains(out, "Type: host_time") {
		t.Errorf("host_time is not what is shown first:\n%s", out)
	}
}

// Memory belongs to the call that allocates it, until it is freed.
func TestMemoryIsOfItsAllocations(t *testing.T) {
	s := testtrace.NewSequence(t)
	for i := range uint64(4) {
		s.Malloc(testtrace.DeviceA+i<<20, 1<<20)
	}
	s.Then("aclrtMallocPhysical", testtrace.A(0x7ffe0000, 2<<20, 0, 0), testtrace.Outs("handle", 0x9900))
	for i := range uint64(3) {
		s.Then("aclrtFree", testtrace.A(testtrace.DeviceA+i<<20))
	}
	path := written(t, s.Load())
	for index, want := range map[string][]string{
		"alloc_space": {"4MB 66.67% 66.67% 4MB 66.67% aclrtMalloc", "2MB 33.33% 100% 2MB 33.33% aclrtMallocPhysical"},
		"inuse_space": {"2MB 66.67% 66.67% 2MB 66.67% aclrtMallocPhysical", "1MB 33.33% 100% 1MB 33.33% aclrtMalloc"},
	} {
		out := strings.Join(strings.Fields(pprof(t, "-top", "-unit=MB", "-sample_index="+index, path)), " ")
		for _, line := range want {
			if !strings.Contains(out, line) {
				t.Errorf("%s: no %q in %s", index, line, out)
			}
		}
	}
}

// Measured device times appear by kernel.
func TestDeviceTime(t *testing.T) {
	p, err := msprof.Find("../../import/msprof/testdata")
	if err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "profile.aclt")
	if _, err := msprof.Import(p, acl.Model, trace); err != nil {
		t.Fatal(err)
	}
	r, err := format.Open(trace, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b bytes.Buffer
	if _, err := Write(&b, r, acl.Model, nil); err != nil {
		t.Fatal(err)
	}
	got, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	took := map[string]int64{}
	for _, s := range got.Sample {
		took[s.Location[0].Line[0].Function.Name] += s.Value[deviceTime]
	}
	if took["npu::MatMul"] != 100_500 || took["npu::Add"] != 6_060 || took["npu::hcom_allReduce__1_0"] != 500_000 || took["AscendCL@aclnnMatmul"] != 0 {
		t.Errorf("%v", took)
	}
	for _, c := range got.Comments {
		if strings.Contains(c, "not measured") {
			t.Errorf("all tasks are measured, and a comment says %q", c)
		}
	}
}

// Regression: calls outside --steps were counted as lost.
func TestCallsLeftOutAreNotLost(t *testing.T) {
	b := testtrace.New(t)
	b.Call(2, 1000, 1100, "aclrtSynchronizeDevice", nil)
	b.Gap(format.Gap{Thread: 2, From: 2000, To: 3000, Calls: 7, Reason: format.Dropped})
	b.Gap(format.Gap{Thread: 2, From: 4000, To: 5000, Calls: 100, Reason: format.Detached})
	out := pprof(t, "-raw", written(t, b.Load()))
	for _, want := range []string{"places where calls were lost: 1, at least 7 calls", "calls that were not to be recorded: at least 100"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestSamplesHaveLabelsAndAddUp(t *testing.T) {
	tl := testtrace.Small(t)
	out := pprof(t, "-raw", written(t, tl))
	for _, want := range []string{
		"launches/count host_time/nanoseconds[dflt] moved/bytes device_time/nanoseconds", "tasks: the others were not measured",
		"the device was simulated", "calls that never returned: 1", "places where calls were lost: 2, at least 17 calls",
		"thread:[thread 4001 (train)]", "thread:[thread 4011]", "stream:[stream 1]", "stream:[synchronous]",
		"npu::copy HtoD", "/opt/app/train", "/opt/app/loader",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var total [types]int64
	for _, m := range regexp.MustCompile(`(?m)^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+): \d`).FindAllStringSubmatch(out, -1) {
		for i := range total {
			n, _ := strconv.ParseInt(m[i+1], 10, 64)
			total[i] += n
		}
	}
	_, want := sums(tl)
	want[allocated], want[inUse] = memoryOf(t, tl)
	if total != want || total[inUse] == 0 || total[inUse] == total[allocated] {
		t.Errorf("samples add up to %d, want %d\n%s", total, want, out)
	}
}

// memoryOf returns the bytes that a trace allocates, and those that are left.
func memoryOf(t *testing.T, tl *timeline.Timeline) (allocated, left int64) {
	t.Helper()
	err := timeline.NewWalk(tl.Reader, acl.Model, nil).Run(&timeline.Visitor{Memory: func(p *timeline.MemoryPoint) error {
		if left = int64(p.Total); !p.Freed {
			allocated += int64(p.Object.Size)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return allocated, left
}

// Each stack has process, thread, function and task.
func TestStacksFromProcessToTask(t *testing.T) {
	var b bytes.Buffer
	if _, err := Write(&b, testtrace.Small(t).Reader, acl.Model, nil); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	stacks := map[string][]int64{}
	for _, s := range p.Sample {
		var names []string
		for _, l := range s.Location {
			names = append([]string{l.Line[0].Function.Name}, names...)
		}
		k := strings.Join(names, ";")
		if stacks[k] != nil {
			t.Errorf("stack %s twice", k)
		}
		stacks[k] = s.Value
	}
	for k, want := range map[string][]int64{
		"train 4001;thread 4001 (train);aclrtMalloc":                               {0, 1000, 0},
		"train 4001;thread 4001 (train);aclrtLaunchKernel;npu::MatMul \"é\"\uFFFD": {1, 300, 0},
		"train 4001;thread 4011;aclrtLaunchKernel;npu::MatMul \"é\"\uFFFD":         {1, 800, 0},
		"train 4001;thread 4001 (train);aclrtLaunchKernel":                         {0, 111, 0},  // failed, so no launch
		"loader 4002;thread 4002 (loader);aclrtMemcpy":                             {0, 1200, 0}, // the thread waited in the call
		"loader 4002;thread 4002 (loader);aclrtMemcpy;npu::copy DtoH":              {0, 0, 4096},
		"train 4001;thread 4001 (train);aclrtMemsetAsync;npu::fill":                {0, 250, 1024},
		"train 4001;thread 4011;aclrtMemcpyAsync;npu::copy DtoD":                   {0, 200, 2048},
		"train 4001;thread 4001 (train);aclrtSynchronizeStream":                    {0, 4003 + 10_400, 0}, // the second one never returned
	} {
		if len(stacks[k]) != types || fmt.Sprint(stacks[k][:deviceTime]) != fmt.Sprint(want) {
			t.Errorf("%q: %d, want %d", k, stacks[k], want)
		}
	}
	if p.TimeNanos != testtrace.StartWall || p.DurationNanos != 1_000_000 {
		t.Errorf("time %d, duration %d", p.TimeNanos, p.DurationNanos)
	}
	if p.Mapping[0].File != "/opt/app/train" || p.Mapping[1].File != "/opt/app/loader" {
		t.Errorf("mappings %v", p.Mapping)
	}
}

func TestEmptyTraceHasNoSamples(t *testing.T) {
	var b bytes.Buffer
	if _, err := Write(&b, testtrace.New(t).Load().Reader, acl.Model, nil); err != nil {
		t.Fatal(err)
	}
	if p, err := profile.Parse(&b); err != nil || len(p.Sample) != 0 {
		t.Errorf("%v, %v", p, err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestWriteError(t *testing.T) {
	full := errors.New("no space left on device")
	if _, err := Write(failingWriter{full}, testtrace.Small(t).Reader, acl.Model, nil); !errors.Is(err, full) {
		t.Error(err)
	}
}

func BenchmarkWrite(b *testing.B) {
	tl := testtrace.Long(b, 100_000)
	for b.Loop() {
		if _, err := Write(&bytes.Buffer{}, tl.Reader, acl.Model, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(tl.Calls))/b.Elapsed().Seconds()/1e6, "Mcalls/s")
}

// The program's ranges are between a thread and its calls; tasks have their device.
func TestRangesSurroundTheirCalls(t *testing.T) {
	b := testtrace.New(t)
	ret := func(id uint64) testtrace.Mod { return func(_ *api.Func, c *format.Call) { c.Ret = id } }
	b.Call(0, 100, 200, "aclrtSetDevice", testtrace.A(3))
	b.Call(0, 300, 400, "aclrtCreateStream", testtrace.A(0x10), testtrace.Outs("stream", testtrace.StreamA))
	at := int64(1000)
	for i := range uint64(2) {
		b.Call(0, at, at+10, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", fmt.Sprintf("step %d", i)), ret(2*i+1))
		b.Call(0, at+100, at+110, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", "forward"), ret(2*i+2))
		b.Call(0, at+200, at+210, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 64, testtrace.HostA, 64, 1, testtrace.StreamA))
		b.Call(0, at+300, at+310, "mstxRangeEnd", testtrace.A(2*i+2))
		b.Call(0, at+400, at+410, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
		b.Call(0, at+500, at+510, "mstxRangeEnd", testtrace.A(2*i+1))
		b.Call(0, at+600, at+610, "aclrtSynchronizeDevice", nil)
		at += 1000
	}
	f, err := os.Open(written(t, b.Load()))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, s := range p.Sample {
		var stack []string
		for i := len(s.Location) - 1; i >= 0; i-- {
			stack = append(stack, s.Location[i].Line[0].Function.Name)
		}
		got[strings.Join(append(stack, s.Label["device"]...), ";")] = s.Value[hostTime]
	}
	for stack, want := range map[string]int64{
		"train 4001;thread 4001 (train);step;forward;aclrtMemcpyAsync;npu::copy HtoD;npu:3": 20,
		"train 4001;thread 4001 (train);step;aclrtSynchronizeStream":                        20,
		"train 4001;thread 4001 (train);step;mstxRangeStartA":                               20,
		"train 4001;thread 4001 (train);aclrtSynchronizeDevice":                             20,
	} {
		if got[stack] != want {
			t.Errorf("%s has %d, want %d of %v", stack, got[stack], want, got)
		}
	}
}

// Two ranks with equal pids are two frames.
func TestRanksHaveTheirOwnFrames(t *testing.T) {
	f, err := os.Open(written(t, testtrace.Ranks(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, s := range p.Sample {
		got[s.Location[len(s.Location)-1].Line[0].Function.Name] += s.Value[hostTime]
	}
	if len(got) != 2 || got["train:0"] != 1500 || got["train:1"] != 1500 {
		t.Errorf("%v", got)
	}
}

// A nested call, as in profiles, is a frame below its caller, and its time counts once.
func TestNestedCalls(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 1000, 2000, "aclrtSynchronizeDevice", nil)
	b.Call(0, 1100, 1400, "aclrtSynchronizeStream", testtrace.A(0))
	b.Call(1, 1150, 1250, "aclrtSynchronizeDevice", nil)
	b.Call(0, 1200, 1300, "aclrtSetDevice", testtrace.A(0))
	b.Call(0, 1400, 1900, "aclrtSynchronizeStream", testtrace.A(0))
	b.Call(0, 2000, 2500, "aclrtSetDevice", testtrace.A(0))
	tl := b.Load()
	var out bytes.Buffer
	if _, err := Write(&out, tl.Reader, acl.Model, nil); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&out)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, s := range p.Sample {
		var path []string
		for _, l := range s.Location[:len(s.Location)-1] {
			path = append(path, l.Line[0].Function.Name)
		}
		got[strings.Join(path, " < ")] += s.Value[hostTime]
	}
	const one, other = " < thread 4001 (train)", " < thread 4011"
	want := map[string]int64{
		"aclrtSynchronizeDevice" + one: 200, "aclrtSynchronizeStream < aclrtSynchronizeDevice" + one: 700,
		"aclrtSetDevice < aclrtSynchronizeStream < aclrtSynchronizeDevice" + one: 100, "aclrtSetDevice" + one: 500, "aclrtSynchronizeDevice" + other: 100,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
