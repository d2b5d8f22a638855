package whatif_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/whatif"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/timeline"
)

const (
	us      = 1000
	streamA = testtrace.StreamA
	streamB = testtrace.StreamB
)

// measured gives the call's task a measured start and end.
func measured(start, end int64) testtrace.Mod {
	return func(_ *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: uint64(start)}, format.Out{Param: api.TaskEndParam, Value: uint64(end)})
	}
}

// plain writes a model without latency: kernels take their recorded durations times scale, and copies run at 1 GB/s times rate.
func plain(t *testing.T, name string, scale, rate float64) string {
	t.Helper()
	return changed(t, name, func(m *model.Model) {
		m.Kernels[len(m.Kernels)-1].Scale = scale
		for k, c := range m.Copies {
			c.Sizes = []model.CopySize{{Rate: rate}}
			m.Copies[k] = c
		}
	})
}

// changed writes a model without latency, after a change.
func changed(t *testing.T, name string, change func(*model.Model)) string {
	t.Helper()
	m, err := model.Load("instant")
	if err != nil {
		t.Fatal(err)
	}
	m.Name, m.Host = name, model.Host{}
	change(m)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name+".json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pipeline records a program with two streams: a copy and a kernel on one, and a kernel that waits for them on the other.
func pipeline(t *testing.T) string {
	b := testtrace.New(t)
	b.Call(0, 0, 1*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamA))
	b.Call(0, 1*us, 2*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamB))
	b.Call(0, 2*us, 3*us, "aclrtMallocHost", testtrace.A(0x7ffe0008, 1<<20), testtrace.Outs("hostPtr", testtrace.HostA))
	b.Call(0, 10*us, 11*us, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 20*us, testtrace.HostA, 20*us, 1, streamA), measured(11*us, 31*us))
	b.Call(0, 11*us, 12*us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, streamA), measured(31*us, 131*us))
	b.Call(0, 12*us, 13*us, "aclrtRecordEvent", testtrace.A(testtrace.Event, streamA))
	b.Call(0, 13*us, 14*us, "aclrtStreamWaitEvent", testtrace.A(streamB, testtrace.Event))
	b.Call(0, 14*us, 15*us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, streamB), measured(131*us, 181*us))
	b.Call(0, 20*us, 181*us, "aclrtSynchronizeStream", testtrace.A(streamB))
	b.Call(0, 191*us, 192*us, "aclrtCreateEvent", testtrace.A(0x7ffe0010), testtrace.Outs("event", 0x7799))
	tl := b.Load()
	return tl.Reader.Path()
}

func simulate(t testing.TB, path string, o *whatif.Options) *whatif.Report {
	t.Helper()
	r, err := whatif.Run(context.Background(), path, acl.Model, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A trace with measured times keeps them, except those that the model changes.
func TestMeasuredTimesAreKept(t *testing.T) {
	path := pipeline(t)
	same := plain(t, "same", 1, 1)
	for _, tt := range []struct {
		name string
		o    whatif.Options
		want int64
	}{
		{"as it was", whatif.Options{Model: same, Base: same}, 192 * us},
		{"kernels take twice their time", whatif.Options{Model: plain(t, "slow", 2, 1), Base: same}, 342 * us},
		{"copies at half the rate", whatif.Options{Model: plain(t, "narrow", 1, 0.5), Base: same}, 212 * us},
		{"no time between the calls", whatif.Options{Model: same, Base: same, Pace: replay.PaceASAP}, 3*us + 1*us + 20*us + 100*us + 50*us + 1*us},
	} {
		r := simulate(t, path, &tt.o)
		if r.VirtualNS != tt.want || r.RecordedNS != 192*us || len(r.Unsupported) != 0 || r.Durations.Measured != 3 || len(r.Streams) != 2 || r.Streams[1].Process != 4001 {
			t.Errorf("%s: %d ns, want %d; %+v", tt.name, r.VirtualNS, tt.want, r)
		}
	}
}

func loaded(t *testing.T, path string) *timeline.Timeline {
	t.Helper()
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

// The output is a trace with the same calls and with measured times. Its simulation takes the same time.
func TestOutputTakesTheSameTime(t *testing.T) {
	path, same := pipeline(t), plain(t, "same", 1, 1)
	out := filepath.Join(t.TempDir(), "new.aclt")
	slow := simulate(t, path, &whatif.Options{Model: plain(t, "slow", 2, 1), Base: same, Output: out})
	again := simulate(t, out, &whatif.Options{Model: same, Base: same})
	if again.VirtualNS != slow.VirtualNS || again.RecordedNS != slow.VirtualNS {
		t.Errorf("%d ns, and again %d of recorded %d", slow.VirtualNS, again.VirtualNS, again.RecordedNS)
	}
	before, after := loaded(t, path), loaded(t, out)
	if len(before.Calls) != len(after.Calls) || len(before.Tasks) != len(after.Tasks) {
		t.Fatalf("%d calls and %d tasks, want %d and %d", len(after.Calls), len(after.Tasks), len(before.Calls), len(before.Tasks))
	}
	for i, k := range after.Tasks {
		if k.Fn.Stream >= 0 && !k.Measured || k.Name != before.Tasks[i].Name {
			t.Errorf("task %d: %+v", i, k)
		}
	}
	if k := after.Tasks[1]; k.To-k.From != 200*us {
		t.Errorf("the kernel took %d ns", k.To-k.From)
	}
	if err := os.Remove(out); err != nil {
		t.Fatal(err)
	}
	if _, err := whatif.Run(context.Background(), path, acl.Model, &whatif.Options{Output: path}); err == nil || !strings.Contains(err.Error(), "can't replace") {
		t.Errorf("the trace itself as output: %v", err)
	}
}

// Without measurements, the program's waits give the total duration of tasks, and each task gets its share. That holds at any pace, and for
// streams that wait for each other.
func TestWaitsGiveTaskTimes(t *testing.T) {
	const gap = 100 * us
	for _, tt := range []struct {
		name    string
		streams []uint64
		o       whatif.Options
		gaps    float64 // kept gaps
	}{
		{"as it was", []uint64{streamA}, whatif.Options{}, 1},
		{"no time between the calls", []uint64{streamA}, whatif.Options{Pace: replay.PaceASAP}, 0},
		{"twice the time", []uint64{streamA}, whatif.Options{Pace: replay.PaceScaled + "2"}, 2},
		{"streams that share all cores", []uint64{streamA, streamB}, whatif.Options{}, 1},
		{"streams that share all cores, no time between the calls", []uint64{streamA, streamB}, whatif.Options{Pace: replay.PaceASAP}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const groups, launches = 20, 5
			b := testtrace.New(t)
			at := int64(0)
			for _, s := range tt.streams {
				b.Call(0, at, at+us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", s))
				at += us
			}
			for range groups {
				for range launches {
					for _, s := range tt.streams {
						b.Call(0, at, at+us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1000, testtrace.DeviceA, 16, s))
						at += us
					}
				}
				for _, s := range tt.streams {
					b.Call(0, at, at+200*us, "aclrtSynchronizeStream", testtrace.A(s))
					at += 200 * us
				}
				at += gap
			}
			r := simulate(t, b.Load().Reader.Path(), &tt.o)
			want := float64(r.RecordedNS) + (tt.gaps-1)*(groups-1)*gap
			if off := float64(r.VirtualNS)/want - 1; r.Durations.Estimated != uint64(groups*launches*len(tt.streams)) || off > 1e-3 || off < -1e-3 {
				t.Errorf("%d ns, want %.0f; %+v", r.VirtualNS, want, r)
			}
		})
	}
}

// Recorded times already contain the factors of the recorded device's model.
func TestScaledBase(t *testing.T) {
	model := func(name string, fixed int64) string {
		return changed(t, name, func(m *model.Model) {
			k := &m.Kernels[len(m.Kernels)-1]
			k.Fixed, k.Scale = fixed, 2
		})
	}
	slow := model("slow", 5)
	b := testtrace.New(t)
	b.Call(0, 0, 1*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamA))
	b.Call(0, 1*us, 2*us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, streamA))
	b.Call(0, 2*us, 52*us, "aclrtSynchronizeStream", testtrace.A(streamA))
	path := b.Load().Reader.Path()
	for _, name := range []string{slow, model("other", 8)} {
		if r := simulate(t, path, &whatif.Options{Model: name, Base: slow}); r.VirtualNS != 102*us {
			t.Errorf("%d ns; %+v", r.VirtualNS, r)
		}
	}
}

// Successive polls are one wait, threads keep their order, graphs run captured tasks, and calls without a counterpart are listed.
func TestPollsThreadsGraphsAndUnsupportedCalls(t *testing.T) {
	same := plain(t, "same", 1, 1)
	t.Run("polls", func(t *testing.T) {
		b := testtrace.New(t)
		b.Call(0, 0, 1*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamA))
		b.Call(0, 1*us, 2*us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, streamA), measured(2*us, 52*us))
		for i := range int64(9) {
			b.Call(0, (5+5*i)*us, (6+5*i)*us, "aclrtStreamQuery", testtrace.A(streamA, 0x7ffe0010), testtrace.Outs("status", 1))
		}
		b.Call(0, 53*us, 54*us, "aclrtStreamQuery", testtrace.A(streamA, 0x7ffe0010), testtrace.Outs("status", 0))
		r := simulate(t, b.Load().Reader.Path(), &whatif.Options{Model: plain(t, "slow", 4, 1), Base: same})
		// The next poll begins half a poll interval later and takes its recorded time.
		if r.VirtualNS != 202*us+4*us+1*us {
			t.Errorf("%d ns", r.VirtualNS)
		}
	})
	t.Run("threads", func(t *testing.T) {
		b := testtrace.New(t)
		b.Call(0, 0, 1*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamA))
		b.Call(0, 1*us, 2*us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, streamA), measured(2*us, 52*us))
		b.Call(0, 2*us, 52*us, "aclrtSynchronizeStream", testtrace.A(streamA))
		b.Call(1, 60*us, 61*us, "aclrtCreateEvent", testtrace.A(0x7ffe0010), testtrace.Outs("event", 0x7799))
		r := simulate(t, b.Load().Reader.Path(), &whatif.Options{Model: plain(t, "slow", 2, 1), Base: same})
		if r.VirtualNS != 111*us {
			t.Errorf("%d ns", r.VirtualNS)
		}
	})
	t.Run("graph", func(t *testing.T) {
		const graph = 0x77
		b := testtrace.New(t)
		b.Call(0, 0, 1*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamA))
		b.Call(0, 1*us, 2*us, "aclmdlRICaptureBegin", testtrace.A(streamA, 0))
		b.Call(0, 2*us, 3*us, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 30*us, testtrace.DeviceB, 30*us, 3, streamA))
		b.Call(0, 3*us, 4*us, "aclrtMemcpyAsync", testtrace.A(testtrace.DeviceA, 20*us, testtrace.DeviceB, 20*us, 3, streamA))
		b.Call(0, 4*us, 5*us, "aclmdlRICaptureEnd", testtrace.A(streamA, 0x7ffe0000), testtrace.Outs("modelRI", graph))
		b.Call(0, 5*us, 6*us, "aclmdlRIExecuteAsync", testtrace.A(graph, streamA))
		b.Call(0, 6*us, 7*us, "aclmdlRIExecuteAsync", testtrace.A(0x99, streamA))
		b.Call(0, 7*us, 56*us, "aclrtSynchronizeStream", testtrace.A(streamA))
		r := simulate(t, b.Load().Reader.Path(), &whatif.Options{Model: plain(t, "narrow", 1, 0.5), Base: same})
		if r.VirtualNS != 106*us || len(r.Unsupported) != 1 || r.Unsupported[0].Calls != 1 || r.Unsupported[0].Call != 6 {
			t.Errorf("%+v", r)
		}
	})
}

// A device that the trace does not name, as in a recording that began later, was not waited for: a faster kernel changed nothing.
func TestUnknownDeviceIsWaitedFor(t *testing.T) {
	for _, named := range []bool{false, true} {
		b := testtrace.New(t)
		if named {
			b.Call(0, 0, 1*us, "aclrtSetDevice", testtrace.A(0))
		}
		b.Call(0, 2*us, 3*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamA))
		b.Call(0, 3*us, 4*us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, streamA), measured(4*us, 104*us))
		b.Call(0, 5*us, 104*us, "aclrtSynchronizeDevice", nil)
		r := simulate(t, b.Load().Reader.Path(), &whatif.Options{Model: plain(t, "fast", 0.1, 1), Base: plain(t, "same", 1, 1)})
		if got := r.RecordedNS - r.VirtualNS; got != 90*us {
			t.Errorf("named %v: %d ns shorter", named, got)
		}
	}
}

// A notify that another process imports by its key was a different one in virtual time, so the stream that waits for it never went on.
func TestNotifyOfAnotherProcess(t *testing.T) {
	const notify, imported, key = 0x7711, 0x7722, "notify-1"
	b := testtrace.New(t)
	b.Call(0, 0, 1*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamA))
	b.Call(0, 1*us, 2*us, "aclrtCreateNotify", testtrace.A(0x7ffe0010, 0), testtrace.Outs("notify", notify))
	b.Call(0, 2*us, 3*us, "aclrtNotifyGetExportKey", testtrace.A(notify, 0x7ffe0020, 65, 0), func(f *api.Func, c *format.Call) {
		c.Data = append(c.Data, format.Data{Param: uint8(f.Param("key")), Dir: format.DirOut, Len: uint64(len(key)), Bytes: []byte(key), Time: c.End})
	})
	b.Call(0, 3*us, 4*us, "aclrtWaitAndResetNotify", testtrace.A(notify, streamA, 0))
	b.Call(2, 4*us, 5*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", testtrace.StreamB))
	b.Call(2, 5*us, 6*us, "aclrtNotifyImportByKey", testtrace.A(0x7ffe0010, 0x7ffe0020, 0), testtrace.Text("key", key), testtrace.Outs("notify", imported))
	b.Call(2, 6*us, 7*us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, testtrace.StreamB), measured(7*us, 57*us))
	b.Call(2, 7*us, 8*us, "aclrtRecordNotify", testtrace.A(imported, testtrace.StreamB))
	b.Call(0, 8*us, 58*us, "aclrtSynchronizeStream", testtrace.A(streamA))
	r := simulate(t, b.Load().Reader.Path(), &whatif.Options{Model: plain(t, "slow", 2, 1), Base: plain(t, "same", 1, 1)})
	if r.VirtualNS < 100*us || len(r.Unsupported) != 0 {
		t.Errorf("%d ns, want the kernel's 100 us and more: %+v", r.VirtualNS, r.Unsupported)
	}
}

// Host functions take their recorded durations, on the runtime's threads and on threads that process reports, where they wait for their turn.
// Calls inside them keep their places.
func TestHostFunctions(t *testing.T) {
	const fn, data, launched, reported = 0x4000, 0x7ffe2000, 0x10, 0x20
	b := testtrace.New(t)
	b.Call(0, 0, 1*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamA))
	b.Call(0, 1*us, 2*us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, streamA), measured(2*us, 52*us))
	b.Call(0, 2*us, 3*us, "aclrtLaunchHostFunc", testtrace.A(streamA, fn, data+launched))
	b.Call(0, 3*us, 4*us, "aclrtLaunchCallback", testtrace.A(fn, data+reported, 1, streamA))
	b.Call(0, 4*us, 92*us, "aclrtSynchronizeStream", testtrace.A(streamA))
	b.Call(1, 52*us, 82*us, "hostFunction", testtrace.A(fn, data+launched))
	b.Call(1, 82*us, 93*us, "aclrtProcessReport", testtrace.A(100))
	b.Call(1, 82*us, 92*us, "hostFunction", testtrace.A(fn, data+reported))
	path := b.Load().Reader.Path()

	same := plain(t, "same", 1, 1)
	out := filepath.Join(t.TempDir(), "new.aclt")
	for _, tt := range []struct {
		scale float64
		want  int64
	}{{1, 93 * us}, {2, 143 * us}} {
		r := simulate(t, path, &whatif.Options{Model: plain(t, "slow", tt.scale, 1), Base: same, Output: out})
		if r.VirtualNS != tt.want || r.Durations.Measured != 3 || r.Tasks != 3 || len(r.Unsupported) != 0 {
			t.Errorf("scale %v: %d ns, want %d; %+v", tt.scale, r.VirtualNS, tt.want, r)
		}
		tl := loaded(t, out)
		for _, c := range tl.Calls {
			if c.Index == 5 && (c.Start != tt.want-41*us || c.End != tt.want-11*us) {
				t.Errorf("scale %v: the run is from %d to %d", tt.scale, c.Start, c.End)
			}
		}
	}
}

// An unmeasured launch takes as long as measured launches of its kernel. Fewer cores run more rows of blocks. A duration in the model replaces the
// recorded one.
func TestKernelDurations(t *testing.T) {
	b := testtrace.New(t)
	b.Call(0, 0, 1*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamA))
	b.Call(0, 1*us, 2*us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, streamA), measured(2*us, 52*us))
	b.Call(0, 2*us, 3*us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, streamA))
	path := b.Load().Reader.Path()
	cores := func(n int) func(*model.Model) { return func(m *model.Model) { m.Cores.Vector = n } }
	for name, tt := range map[string]struct {
		base, model func(*model.Model)
		want        int64
	}{
		"as it was":      {cores(8), cores(8), 102 * us},
		"half the cores": {cores(8), cores(4), 202 * us},
		"no limit":       {cores(8), cores(0), 102 * us},
		"given":          {cores(8), func(m *model.Model) { m.Kernels[len(m.Kernels)-1].Duration = 5 * us }, 12 * us},
	} {
		r := simulate(t, path, &whatif.Options{Model: changed(t, "new", tt.model), Base: changed(t, "base", tt.base)})
		if d := r.Durations; r.VirtualNS != tt.want || name != "given" && (d.Measured != 1 || d.Alike != 1) || name == "given" && d.Modelled != 2 {
			t.Errorf("%s: %d ns, want %d; %+v", name, r.VirtualNS, tt.want, r)
		}
	}
}

// Cost models name kernels by their symbols. Since views show C++ kernels by their source names, a model's kernel was not found.
func TestModelsNameKernelsBySymbol(t *testing.T) {
	const symbol = "_Z3addPKfPfi"
	b := testtrace.New(t)
	b.Call(0, 0, 1*us, "aclrtCreateStream", testtrace.A(0x7ffe0008), testtrace.Outs("stream", streamA))
	b.Call(0, 1*us, 2*us, "aclrtBinaryGetFunction", testtrace.A(0x6600, 0x10, 0x20), testtrace.Text("kernelName", symbol), testtrace.Outs("funcHandle", testtrace.Function))
	b.Call(0, 2*us, 3*us, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 8, testtrace.DeviceA, 16, streamA))
	given := changed(t, "given", func(m *model.Model) {
		m.Kernels = slices.Insert(m.Kernels, 0, model.Kernel{Name: symbol, Duration: 5 * us})
	})
	if r := simulate(t, b.Load().Reader.Path(), &whatif.Options{Model: given, Base: given}); r.Durations.Modelled != 1 {
		t.Errorf("%+v", r.Durations)
	}
}
