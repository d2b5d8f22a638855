package stats_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

// TestStatsCount compares the sums with calls and tasks counted in memory, for built traces and recorded
// examples.
func TestStatsCount(t *testing.T) {
	traces := map[string]*timeline.Timeline{"small": testtrace.Small(t), "long": testtrace.Long(t, 400), "deep": testtrace.Deep(t),
		"steps": testtrace.Steps(t, 8, 20, func(step, launch int) int64 { return int64(1000 + 100*step + launch) })}
	for name, args := range map[string][]string{"vector_add": nil, "matmul_pipeline": nil, "tiny_decoder": {"--tokens", "1", "--quiet"}} {
		path := filepath.Join(t.TempDir(), name+".aclt")
		cmd := append([]string{"record", "--sim", "-o", path, "--", testenv.Example(t, name)}, args...)
		if out, err := exec.Command(testenv.Built(t, "bin/acltrace"), cmd...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
		r, err := format.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		if traces[name], err = timeline.Load(r, acl.Model); err != nil {
			t.Fatal(err)
		}
	}
	for name, tl := range traces {
		t.Run(name, func(t *testing.T) { count(t, tl) })
	}
}

// leastOf is the nearest-rank percentile in sorted times.
func leastOf(d []int64, p int) int64 { return d[(len(d)*p+99)/100-1] }

// line is a row's compared part.
func line(v ...any) string { return fmt.Sprintln(v...) }

func count(t *testing.T, tl *timeline.Timeline) {
	s := sums(t, tl, "")
	times, failed, retried := map[string][]int64{}, map[string]int{}, 0
	host := make([]int64, len(tl.Tasks))
	for i := range tl.Calls {
		c := &tl.Calls[i]
		times[c.Name] = append(times[c.Name], c.End-c.Start)
		if c.Flags&format.Unfinished != 0 {
			times[c.Name] = times[c.Name][:len(times[c.Name])-1]
		}
		if c.Failed() {
			failed[c.Name]++
		}
		if c.Retries != timeline.NoCall {
			retried++
		}
		if c.Task >= 0 {
			host[c.Task] = c.End - c.Start
		}
	}
	var got, want []string
	for _, f := range s.Functions {
		got = append(got, line(f.Func, f.Failed, f.TotalNS, f.MinNS, f.P50NS, f.P99NS, f.MaxNS))
	}
	for name, d := range times {
		slices.Sort(d)
		var total int64
		for _, v := range d {
			total += v
		}
		if len(d) == 0 {
			d = []int64{0}
		}
		if len(d) > 512 { // percentiles are then approximate
			i := slices.IndexFunc(s.Functions, func(f stats.Function) bool { return f.Func == name })
			f := s.Functions[i]
			for _, x := range [][2]int64{{f.P50NS, leastOf(d, 50)}, {f.P99NS, leastOf(d, 99)}} {
				if off := x[0] - x[1]; 250*max(off, -off) > x[1] {
					t.Errorf("%s: percentile %d, want %d", name, x[0], x[1])
				}
			}
			want = append(want, line(name, failed[name], total, d[0], f.P50NS, f.P99NS, d[len(d)-1]))
			continue
		}
		want = append(want, line(name, failed[name], total, d[0], leastOf(d, 50), leastOf(d, 99), d[len(d)-1]))
	}
	same(t, "functions", got, want)

	type sum struct{ n, host, bytes, measured, device int64 }
	sums := map[string]*sum{}
	type stream struct{ tasks, busy, idle, until int64 }
	streams := make([]stream, len(tl.Lanes))
	for i := range tl.Tasks {
		k := &tl.Tasks[i]
		l := &streams[k.Lane]
		if l.tasks == 0 {
			l.until = k.From
		}
		l.tasks++
		l.idle += max(0, k.From-l.until)
		l.until = max(l.until, k.From)
		l.busy += max(0, k.To-l.until)
		l.until = max(l.until, k.To)
		if k.Kind != api.Kernel && k.Kind != api.Copy {
			continue
		}
		x := sums[k.Name]
		if x == nil {
			x = &sum{}
			sums[k.Name] = x
		}
		x.n, x.host, x.bytes = x.n+1, x.host+host[i], x.bytes+int64(k.Bytes)
		if k.Measured {
			x.measured, x.device = x.measured+1, x.device+k.To-k.From
		}
	}
	got, want = nil, nil
	for _, k := range append(slices.Clone(s.Kernels), s.Copies...) {
		got = append(got, line(k.Name, k.Count, k.HostNS, k.Bytes, k.Measured, k.DeviceNS))
	}
	for name, x := range sums {
		want = append(want, line(name, x.n, x.host, x.bytes, x.measured, x.device))
	}
	same(t, "kernels and copies", got, want)
	got, want = nil, nil
	for _, l := range s.Streams {
		got = append(got, line(l.Stream, l.Process, l.Tasks, l.BusyAtMostNS, l.IdleAtLeastNS, l.WaitedNS))
	}
	for i, l := range tl.Lanes {
		want = append(want, line(l.Name, tl.Reader.Processes()[l.Process].PID, streams[i].tasks, streams[i].busy, streams[i].idle, l.Waited))
	}
	same(t, "streams", got, want)

	var live, most uint64
	type change struct {
		at   int64
		size int64
	}
	var changes []change
	starts := map[uint64]int64{}
	for i := range tl.Calls {
		starts[tl.Calls[i].Index] = tl.Calls[i].Start
	}
	for _, o := range tl.Objects {
		if o.Kind == api.Device && o.Created != timeline.NoCall {
			changes = append(changes, change{starts[o.Created], int64(o.Size)})
			if o.Ended != timeline.NoCall {
				changes = append(changes, change{starts[o.Ended], -int64(o.Size)})
			}
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return int(a.at - b.at) })
	for _, c := range changes {
		live += uint64(c.size)
		most = max(most, live)
	}
	retries := 0
	for _, r := range s.Retries {
		retries += int(r.Count)
	}
	if s.PeakDeviceBytes != most || retries != retried || s.Calls != uint64(len(tl.Calls)) || s.Steps.Count != len(tl.Steps().List) {
		t.Errorf("peak %d, want %d; %d retries, want %d; %d calls; %d steps", s.PeakDeviceBytes, most, retries, retried, s.Calls, s.Steps.Count)
	}
}

func sums(t *testing.T, tl *timeline.Timeline, by string) *stats.Stats {
	t.Helper()
	s, err := stats.New(tl.Reader, acl.Model, &stats.Options{By: by})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

// Streams and idle times had the process's row in the trace instead of its id, and calls outside --steps counted as lost.
func TestProcessIDsAndLostCalls(t *testing.T) {
	b := testtrace.New(t)
	for i := range int64(3) {
		b.Call(2, 10_000*i+1000, 10_000*i+1100, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
		b.Call(2, 10_000*i+2000, 10_000*i+2100, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
	}
	b.Gap(format.Gap{Thread: 2, From: 40_000, To: 41_000, Calls: 7, Reason: format.Dropped})
	b.Gap(format.Gap{Thread: 2, From: 50_000, To: 51_000, Calls: 100, Reason: format.Detached})
	s := sums(t, b.Load(), "")
	if len(s.Streams) != 1 || s.Streams[0].Process != 4002 || len(s.Idle) != 2 || s.Idle[0].Process != 4002 {
		t.Errorf("want process 4002: streams %+v, idle times %+v", s.Streams, s.Idle)
	}
	if s.Gaps != 1 || s.CallsLost != 7 {
		t.Errorf("%d gaps, %d calls lost, want 1 and 7", s.Gaps, s.CallsLost)
	}
}

// A recording of chosen steps keeps the ranges of all steps. Those without their calls were typical ones: 10 steps of 90 % own time.
func TestStepsThatWereNotRecorded(t *testing.T) {
	for _, chosen := range []bool{true, false} {
		b := testtrace.New(t)
		for i := range int64(10) {
			at := 10_000 * (i + 1)
			b.Call(0, at, at+10, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", "step"), func(_ *api.Func, c *format.Call) { c.Ret = uint64(i + 1) })
			if i >= 4 && i < 7 {
				for j := range int64(5) {
					b.Call(0, at+100+10*j, at+105+10*j, "aclrtLaunchKernel", testtrace.A(testtrace.Function, 1, testtrace.DeviceA, 0, testtrace.StreamA))
				}
				b.Call(0, at+200, at+900, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
			}
			b.Call(0, at+1000, at+1010, "mstxRangeEnd", testtrace.A(uint64(i+1)))
		}
		if chosen {
			b.Gap(format.Gap{Thread: format.NoThread, From: 0, To: 49_000, Calls: 40, Reason: format.Detached})
			b.Gap(format.Gap{Thread: format.NoThread, From: 79_000, To: 120_000, Calls: 30, Reason: format.Detached})
		}
		s := sums(t, b.Load(), "")
		got := []int{s.Steps.Count, s.Steps.Typical, s.Steps.Unrecorded, s.Steps.All()}
		if want := map[bool][]int{true: {3, 3, 7, 10}, false: {10, 10, 0, 10}}[chosen]; !slices.Equal(got, want) || chosen && s.Steps.Longest.Index != 4 {
			t.Errorf("chosen %t: %v, want %v; longest %+v", chosen, got, want, s.Steps.Longest)
		}
	}
}

// The first step of a training took 2 s of 2.4, in which the program loaded its operators: what bounds the other steps was never said.
func TestFirstStepIsAWarmUp(t *testing.T) {
	for _, c := range []struct {
		steps, first int
		want         int64 // Steps.WarmUpNS
	}{{12, 100, 103_000}, {12, 1, 0}, {7, 100, 0}} { // of few steps none is usual
		for _, marked := range []bool{true, false} {
			b := testtrace.New(t)
			at := int64(1_000)
			call := func(took int64, name string, args []uint64, mods ...testtrace.Mod) {
				b.Call(0, at, at+took, name, args, mods...)
				at += took
			}
			for i := range c.steps {
				if marked {
					call(0, "mstxRangeStartA", testtrace.A(0x10, 0), testtrace.Text("message", "step"), func(_ *api.Func, call *format.Call) { call.Ret = uint64(i + 1) })
				}
				for j := range uint64(5) {
					call(100, "aclrtLaunchKernel", testtrace.A(testtrace.Function+j, 1, testtrace.DeviceA, 0, testtrace.StreamA))
				}
				if i == 0 {
					at += 1_000 * int64(c.first)
				}
				call(2_500, "aclrtSynchronizeStream", testtrace.A(testtrace.StreamA))
				if marked {
					call(0, "mstxRangeEnd", testtrace.A(uint64(i+1)))
				}
			}
			s := sums(t, b.Load(), "")
			typical := c.steps
			if c.want > 0 {
				typical--
			}
			if s.Steps.Count != c.steps || s.Steps.Typical != typical || s.Steps.WarmUpNS != c.want || slices.ContainsFunc(s.Findings, func(f stats.Finding) bool { return f.Kind == stats.OddSteps }) {
				t.Errorf("%+v marked %t: %+v", c, marked, s.Steps)
			}
		}
	}
}
