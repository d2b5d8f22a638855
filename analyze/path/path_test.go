package path

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/format"
	tt "github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// measured gives the task of a call its times on the device.
func measured(from, to int64) tt.Mod {
	return func(_ *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: api.TaskStartParam, Value: uint64(from)}, format.Out{Param: api.TaskEndParam, Value: uint64(to)})
	}
}

// notRunning makes a thread not run before a call.
func notRunning(ns uint64) tt.Mod {
	return func(_ *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: api.BlockedParam, Value: ns})
	}
}

// recorded gives the recorder time before a call.
func recorded(ns uint64) tt.Mod {
	return func(_ *api.Func, c *format.Call) {
		c.Outs = append(c.Outs, format.Out{Param: api.RecordingParam, Value: ns})
	}
}

// program writes a trace with two streams, an event, a notify and kernels a, b and c. Its calls after the prologue start at 1000.
type program struct {
	*tt.Builder
	kernels map[string]uint64
}

const notify = 0x7801

func newProgram(t testing.TB) *program {
	p := &program{tt.New(t), map[string]uint64{}}
	p.Call(0, 10, 11, "aclrtSetDevice", tt.A(0))
	p.Call(0, 12, 13, "aclrtMalloc", tt.A(0x7ffe0000, 1<<20, 0), tt.Outs("devPtr", tt.DeviceA))
	p.Call(0, 14, 15, "aclrtCreateStream", tt.A(0x7ffe0008), tt.Outs("stream", tt.StreamA))
	p.Call(0, 16, 17, "aclrtCreateStream", tt.A(0x7ffe0008), tt.Outs("stream", tt.StreamB))
	p.Call(0, 18, 19, "aclrtCreateEvent", tt.A(0x7ffe0010), tt.Outs("event", tt.Event))
	p.Call(0, 20, 21, "aclrtCreateNotify", tt.A(0x7ffe0010, 0), tt.Outs("notify", notify))
	for i, name := range []string{"a", "b", "c"} {
		p.kernels[name] = tt.Function + uint64(i)
		p.Call(0, int64(30+2*i), int64(31+2*i), "aclrtBinaryGetFunction", tt.A(0x6600, 0x7ffe0020, 0x7ffe0018), tt.Text("kernelName", name), tt.Outs("funcHandle", p.kernels[name]))
	}
	// The streams get their names in the order of their first use.
	p.Call(0, 40, 41, "aclrtSynchronizeStream", tt.A(tt.StreamA))
	p.Call(0, 42, 43, "aclrtSynchronizeStream", tt.A(tt.StreamB))
	return p
}

func (p *program) launch(thread uint32, from, to int64, kernel string, stream uint64, mods ...tt.Mod) {
	p.Call(thread, from, to, "aclrtLaunchKernel", tt.A(p.kernels[kernel], 8, tt.DeviceA, 64, stream), mods...)
}

func lines(parts []Part) string {
	var b strings.Builder
	for _, p := range parts {
		name := strings.TrimSpace(strings.TrimPrefix(p.Func, "aclrt") + " " + p.Name)
		least := ""
		if p.AtMost {
			least = "<="
		}
		fmt.Fprintf(&b, "%d %s%d %s %s, %s", p.From, least, p.To-p.From, p.Kind, name, p.Where)
		if p.Waits != "" {
			b.WriteString(", " + p.Waits)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// path returns the path of the whole trace.
func (p *program) path(t *testing.T) *Path {
	t.Helper()
	tl := p.Load()
	w := timeline.NewWalk(tl.Reader, acl.Model, nil)
	f := NewFinder(w)
	if err := w.Run(&timeline.Visitor{Call: func(h *timeline.HostCall, k *timeline.Task) error { f.Call(h, k, w.Links(), 0); return nil }}); err != nil {
		t.Fatal(err)
	}
	path := f.Rest()
	check(t, path)
	return path
}

// check checks that the parts have no gaps and do not overlap.
func check(t *testing.T, p *Path) {
	t.Helper()
	at, parts := p.Step.From, p.Parts()
	for i := range parts {
		if q := &parts[i]; q.From != at || q.To <= q.From {
			t.Fatalf("part %d is from %d to %d, want it to begin at %d\n%s", i, q.From, q.To, at, lines(parts))
		} else {
			at = q.To
		}
	}
	if at != p.Step.To {
		t.Fatalf("the parts end at %d, want %d", at, p.Step.To)
	}
	sum := int64(0)
	for _, e := range p.Entries(0) {
		sum += e.NS
	}
	if sum != p.Step.To-p.Step.From {
		t.Fatalf("the entries take %d, want %d", sum, p.Step.To-p.Step.From)
	}
}

// Times has the time of each call and each task, without the threads' own time and the starts of tasks.
func TestTimesOfCallsAndTasks(t *testing.T) {
	p := newProgram(t)
	p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1012, 1018))
	p.launch(0, 1020, 1030, "b", tt.StreamA, measured(1035, 5000))
	p.Call(0, 1040, 5012, "aclrtSynchronizeStream", tt.A(tt.StreamA))
	p.Call(0, 5020, 5021, "aclrtGetDevice", tt.A(0x7ffe0000))
	p.launch(0, 6000, 6010, "c", tt.StreamB)
	p.Call(0, 6010, 7000, "aclrtSynchronizeStream", tt.A(tt.StreamB))
	tl := p.Load()
	w := timeline.NewWalk(tl.Reader, acl.Model, nil)
	f := NewFinder(w)
	err := w.Run(&timeline.Visitor{Call: func(h *timeline.HostCall, k *timeline.Task) error {
		f.Call(h, k, w.Links(), uint64(h.Start))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	path := f.Rest()
	calls, tasks := map[uint64]int64{}, map[uint64]int64{}
	path.Times(func(ref uint64, inTask bool, ns int64) {
		if ref < 1000 {
			return // the prologue
		}
		if inTask {
			tasks[ref] += ns
		} else {
			calls[ref] += ns
		}
	})
	if want := map[uint64]int64{1000: 10, 1020: 10, 1040: 12, 5020: 1, 6000: 10, 6010: 990}; !maps.Equal(calls, want) {
		t.Errorf("calls %v, want %v\n%s", calls, want, lines(path.Parts()))
	}
	if want := map[uint64]int64{1020: 3965}; !maps.Equal(tasks, want) {
		t.Errorf("tasks %v, want %v", tasks, want)
	}
}

// The paths of programs whose order is known.
func TestKnownPaths(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(p *program)
		want string
	}{
		{"the host is slow", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1012, 1020))
			p.launch(0, 1500, 1510, "b", tt.StreamA, measured(1515, 1530))
			p.Call(0, 1520, 1540, "aclrtSynchronizeStream", tt.A(tt.StreamA))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 490 own , thread 4001 train
1500 10 call LaunchKernel b, thread 4001 train
1510 5 start b, stream 1
1515 15 task b, stream 1
1530 10 call SynchronizeStream, thread 4001 train
`},
		{"one kernel is slow", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1012, 1018))
			p.launch(0, 1010, 1020, "b", tt.StreamA, measured(1021, 5000))
			p.launch(0, 1020, 1030, "c", tt.StreamA, measured(5003, 5010))
			p.Call(0, 1040, 5012, "aclrtSynchronizeStream", tt.A(tt.StreamA))
			p.Call(0, 5020, 5021, "aclrtSynchronizeStream", tt.A(tt.StreamA))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 10 call LaunchKernel b, thread 4001 train
1020 1 start b, stream 1
1021 3979 task b, stream 1
5000 3 start c, stream 1
5003 7 task c, stream 1
5010 2 call SynchronizeStream, thread 4001 train
5012 8 own , thread 4001 train
5020 1 call SynchronizeStream, thread 4001 train
`},
		{"two streams with an event", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1015, 2000))
			p.Call(0, 1010, 1015, "aclrtRecordEvent", tt.A(tt.Event, tt.StreamA))
			p.launch(0, 1020, 1030, "b", tt.StreamB, measured(1035, 1500))
			p.Call(0, 1030, 1035, "aclrtStreamWaitEvent", tt.A(tt.StreamB, tt.Event))
			p.launch(0, 1040, 1050, "c", tt.StreamB, measured(2010, 2100))
			p.Call(0, 1060, 2110, "aclrtSynchronizeDevice", tt.A())
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 5 start a, stream 1
1015 985 task a, stream 1
2000 10 start c, stream 2, waits for an event, recorded by call 12 on stream 1
2010 90 task c, stream 2
2100 10 call SynchronizeDevice, thread 4001 train
`},
		{"the wait for the event is not what held the stream up", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1015, 1400))
			p.Call(0, 1010, 1015, "aclrtRecordEvent", tt.A(tt.Event, tt.StreamA))
			p.launch(0, 1020, 1030, "b", tt.StreamB, measured(1035, 1500))
			p.Call(0, 1030, 1035, "aclrtStreamWaitEvent", tt.A(tt.StreamB, tt.Event))
			p.launch(0, 1040, 1050, "c", tt.StreamB, measured(1510, 1600))
			p.Call(0, 1060, 1620, "aclrtSynchronizeStream", tt.A(tt.StreamB))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 5 call RecordEvent record, thread 4001 train
1015 5 own , thread 4001 train
1020 10 call LaunchKernel b, thread 4001 train
1030 5 start b, stream 2
1035 465 task b, stream 2
1500 10 start c, stream 2
1510 90 task c, stream 2
1600 20 call SynchronizeStream, thread 4001 train
`},
		{"the host waits for an event before the last kernel", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1015, 1400))
			p.Call(0, 1010, 1015, "aclrtRecordEvent", tt.A(tt.Event, tt.StreamA))
			p.launch(0, 1020, 1030, "b", tt.StreamA, measured(1405, 9000))
			p.Call(0, 1040, 1410, "aclrtSynchronizeEvent", tt.A(tt.Event))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 5 start a, stream 1
1015 385 task a, stream 1
1400 10 call SynchronizeEvent, thread 4001 train
`},
		{"a copy that waits", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1015, 3000))
			p.Call(0, 1010, 3200, "aclrtMemcpyAsync", tt.A(0x10, 4096, tt.DeviceA, 4096, 2, tt.StreamA), measured(3005, 3100))
			p.Call(0, 3300, 3400, "aclrtMemcpy", tt.A(0x10, 4096, tt.DeviceA, 4096, 2))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 5 start a, stream 1
1015 1985 task a, stream 1
3000 5 start copy DtoH, stream 1
3005 95 task copy DtoH, stream 1
3100 100 call MemcpyAsync copy DtoH, thread 4001 train
3200 100 own , thread 4001 train
3300 100 call Memcpy copy DtoH, thread 4001 train
`},
		{"a value that another stream writes", func(p *program) {
			p.Call(0, 1000, 1010, "aclrtValueWait", tt.A(tt.DeviceA, 1, 0, tt.StreamB))
			p.launch(0, 1010, 1020, "b", tt.StreamB, measured(1530, 1600))
			p.launch(0, 1020, 1030, "a", tt.StreamA, measured(1035, 1500))
			p.Call(0, 1030, 1040, "aclrtValueWrite", tt.A(tt.DeviceA, 1, 0, tt.StreamA), measured(1505, 1520))
			p.launch(0, 1040, 1050, "c", tt.StreamA, measured(1525, 1550))
			p.Call(0, 1060, 1610, "aclrtSynchronizeStream", tt.A(tt.StreamB))
		}, `
1000 10 call ValueWait wait, thread 4001 train
1010 10 call LaunchKernel b, thread 4001 train
1020 10 call LaunchKernel a, thread 4001 train
1030 5 start a, stream 1
1035 465 task a, stream 1
1500 5 start fill, stream 1
1505 15 task fill, stream 1
1520 10 start b, stream 2, waits for a value, written by call 14 on stream 1
1530 70 task b, stream 2
1600 10 call SynchronizeStream, thread 4001 train
`},
		{"a notify that another stream sets", func(p *program) {
			p.Call(0, 1000, 1010, "aclrtWaitAndResetNotify", tt.A(notify, tt.StreamB, 0))
			p.launch(0, 1010, 1020, "b", tt.StreamB, measured(1530, 1600))
			p.launch(0, 1020, 1030, "a", tt.StreamA, measured(1035, 1500))
			p.Call(0, 1030, 1040, "aclrtRecordNotify", tt.A(notify, tt.StreamA))
			p.Call(0, 1060, 1610, "aclrtSynchronizeStream", tt.A(tt.StreamB))
		}, `
1000 10 call WaitAndResetNotify wait, thread 4001 train
1010 10 call LaunchKernel b, thread 4001 train
1020 10 call LaunchKernel a, thread 4001 train
1030 5 start a, stream 1
1035 465 task a, stream 1
1500 30 start b, stream 2, waits for a notify, recorded by call 14 on stream 1
1530 70 task b, stream 2
1600 10 call SynchronizeStream, thread 4001 train
`},
		{"a thread that another thread waits for", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1015, 1020))
			p.launch(1, 1100, 1110, "b", tt.StreamB, measured(1115, 1200))
			p.Call(1, 1120, 1210, "aclrtSynchronizeStream", tt.A(tt.StreamB))
			p.launch(0, 1250, 1260, "c", tt.StreamA, measured(1262, 1270))
			p.Call(0, 1260, 1280, "aclrtSynchronizeStream", tt.A(tt.StreamA))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 90 own , thread 4011
1100 10 call LaunchKernel b, thread 4011
1110 5 start b, stream 2
1115 85 task b, stream 2
1200 10 call SynchronizeStream, thread 4011
1210 40 own , thread 4001 train
1250 10 call LaunchKernel c, thread 4001 train
1260 2 start c, stream 1
1262 8 task c, stream 1
1270 10 call SynchronizeStream, thread 4001 train
`},
		{"a thread that only looks", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1015, 9000))
			p.Call(1, 1100, 1110, "aclrtStreamQuery", tt.A(tt.StreamA, 0x7ffe0000), tt.Outs("status", 1))
			p.launch(0, 1250, 1260, "b", tt.StreamB, measured(1262, 1270))
			p.Call(0, 1260, 1280, "aclrtSynchronizeStream", tt.A(tt.StreamB))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 240 own , thread 4001 train
1250 10 call LaunchKernel b, thread 4001 train
1260 2 start b, stream 2
1262 8 task b, stream 2
1270 10 call SynchronizeStream, thread 4001 train
`},
		{"a loop of polls", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1015, 1045))
			p.Call(0, 1020, 1025, "aclrtStreamQuery", tt.A(tt.StreamA, 0x7ffe0000), tt.Outs("status", 1))
			p.Call(0, 1040, 1050, "aclrtStreamQuery", tt.A(tt.StreamA, 0x7ffe0000), tt.Outs("status", 1))
			p.Call(0, 1060, 1065, "aclrtStreamQuery", tt.A(tt.StreamA, 0x7ffe0000), tt.Outs("status", 0))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 5 start a, stream 1
1015 30 task a, stream 1
1045 5 call StreamQuery, thread 4001 train
1050 10 own , thread 4001 train
1060 5 call StreamQuery, thread 4001 train
`},
		{"nothing is measured", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA)
			p.launch(0, 1010, 1020, "b", tt.StreamA)
			p.Call(0, 1030, 2000, "aclrtSynchronizeStream", tt.A(tt.StreamA))
			p.Call(0, 2010, 2020, "aclrtSynchronizeStream", tt.A(tt.StreamA))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 10 call LaunchKernel b, thread 4001 train
1020 10 own , thread 4001 train
1030 <=970 wait SynchronizeStream, stream 1
2000 10 own , thread 4001 train
2010 10 call SynchronizeStream, thread 4001 train
`},
		{"nothing is measured, and two waits for streams that run at once", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA)
			p.launch(0, 1010, 1020, "b", tt.StreamB)
			p.Call(0, 1030, 200_000, "aclrtSynchronizeStream", tt.A(tt.StreamA))
			p.Call(0, 200_010, 300_000, "aclrtSynchronizeStream", tt.A(tt.StreamB))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 10 call LaunchKernel b, thread 4001 train
1020 <=298980 wait SynchronizeStream, stream 2
`},
		{"nothing is measured, and the second stream ends before the first", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA)
			p.launch(0, 1010, 1020, "b", tt.StreamB)
			p.Call(0, 1030, 200_000, "aclrtSynchronizeStream", tt.A(tt.StreamA))
			p.Call(0, 200_010, 201_000, "aclrtSynchronizeStream", tt.A(tt.StreamB))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 <=198990 wait SynchronizeStream, stream 1
200000 10 own , thread 4001 train
200010 <=990 wait SynchronizeStream, stream 2
`},
		{"nothing is measured, and the host works before it waits", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA)
			p.Call(0, 5_000, 5_010, "aclrtSetDevice", tt.A(0))
			p.Call(0, 50_000, 90_000, "aclrtSynchronizeStream", tt.A(tt.StreamA))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 <=88990 wait SynchronizeStream, stream 1
`},
		{"some tasks are measured", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA)
			p.launch(0, 1010, 1020, "b", tt.StreamA, measured(1800, 1900))
			p.Call(0, 1030, 2000, "aclrtSynchronizeStream", tt.A(tt.StreamA))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 10 call LaunchKernel b, thread 4001 train
1020 <=780 start b, stream 1
1800 100 task b, stream 1
1900 100 call SynchronizeStream, thread 4001 train
`},
		{"the recorder takes time", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA)
			p.Call(0, 1100, 1110, "aclrtSetDevice", tt.A(0), recorded(30))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 30 recording , thread 4001 train
1040 60 own , thread 4001 train
1100 10 call SetDevice, thread 4001 train
`},
		{"a thread does not run", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA)
			p.Call(0, 1100, 1110, "aclrtSetDevice", tt.A(0), recorded(30), notRunning(45))
			p.Call(0, 1200, 1210, "aclrtSetDevice", tt.A(0), notRunning(500))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 30 recording , thread 4001 train
1040 45 blocked , thread 4001 train
1085 15 own , thread 4001 train
1100 10 call SetDevice, thread 4001 train
1110 90 blocked , thread 4001 train
1200 10 call SetDevice, thread 4001 train
`},
		{"a thread does not run until another one has launched", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA)
			p.launch(1, 1030, 1060, "b", tt.StreamA)
			p.Call(0, 1100, 1110, "aclrtSetDevice", tt.A(0), notRunning(70))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 20 own , thread 4011
1030 30 call LaunchKernel b, thread 4011
1060 20 blocked , thread 4001 train
1080 20 own , thread 4001 train
1100 10 call SetDevice, thread 4001 train
`},
		{"a queue waits for the thread that fills it", func(p *program) {
			p.Call(1, 1000, 1010, "aclrtGetDevice", tt.A(0x7ffe0000))
			p.launch(0, 1015, 1020, "a", tt.StreamA)
			p.Call(1, 1100, 1110, "aclrtGetDevice", tt.A(0x7ffe0000))
			p.launch(0, 1115, 1120, "b", tt.StreamA, notRunning(90))
			p.Call(1, 1300, 1310, "aclrtGetDevice", tt.A(0x7ffe0000), notRunning(30))
			p.launch(0, 1305, 1330, "c", tt.StreamA, notRunning(175))
			p.Call(1, 1400, 1410, "aclrtGetDevice", tt.A(0x7ffe0000))
			p.Call(0, 1410, 1420, "aclrtSetDevice", tt.A(0))
		}, `
1000 10 call GetDevice, thread 4011
1010 90 own , thread 4011
1100 10 call GetDevice, thread 4011
1110 5 own , thread 4001 train
1115 5 call LaunchKernel b, thread 4001 train
1120 20 blocked , thread 4011
1140 155 own , thread 4011
1295 10 own , thread 4001 train
1305 25 call LaunchKernel c, thread 4001 train
1330 80 own , thread 4001 train
1410 10 call SetDevice, thread 4001 train
`},
		{"a queue waits for no thread that sleeps, waits for the device, asks again and again, or ends", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA)
			p.Call(1, 1000, 1010, "aclrtGetDevice", tt.A(0x7ffe0000))
			p.Call(1, 1200, 1210, "aclrtGetDevice", tt.A(0x7ffe0000), notRunning(150))
			p.launch(0, 1210, 1220, "b", tt.StreamA, notRunning(190))
			p.Call(1, 1230, 1490, "aclrtSynchronizeStream", tt.A(tt.StreamA))
			p.launch(0, 1480, 1500, "c", tt.StreamA, notRunning(250))
			for at := int64(1500); at < 1700; at += 20 {
				p.Call(1, at, at+5, "aclrtStreamQuery", tt.A(tt.StreamA, 0x7ffe0000), tt.Outs("status", 1))
			}
			p.launch(0, 1695, 1700, "a", tt.StreamA, notRunning(190))
			p.launch(0, 1800, 1810, "b", tt.StreamA, notRunning(90))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 190 blocked , thread 4001 train
1200 10 own , thread 4001 train
1210 10 call LaunchKernel b, thread 4001 train
1220 250 blocked , thread 4001 train
1470 10 own , thread 4001 train
1480 20 call LaunchKernel c, thread 4001 train
1500 190 blocked , thread 4001 train
1690 5 own , thread 4001 train
1695 5 call LaunchKernel a, thread 4001 train
1700 90 blocked , thread 4001 train
1790 10 own , thread 4001 train
1800 10 call LaunchKernel b, thread 4001 train
`},
		{"a call never returns", func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1015, 9000))
			p.Call(0, 1020, 1030, "aclrtSynchronizeStream", tt.A(tt.StreamA), tt.Hangs)
			p.Call(1, 1040, 1050, "aclrtSetDevice", tt.A(0))
		}, `
1000 10 call LaunchKernel a, thread 4001 train
1010 10 own , thread 4001 train
1020 7980 call SynchronizeStream, thread 4001 train
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t)
			c.run(p)
			got := ""
			for _, part := range p.path(t).Parts() {
				if part.From >= 1000 {
					got += lines([]Part{part})
				}
			}
			if got != c.want[1:] {
				t.Errorf("got\n%s\nwant%s", got, c.want)
			}
		})
	}
}

// Work saves at most the time by which it was longer than the work beside it. A thread that waits for another thread ends earlier with it.
func TestParallelWorkLimitsSavings(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(p *program)
		want map[string]int64
	}{
		"two streams": {func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1010, 1210))
			p.launch(0, 1010, 1020, "b", tt.StreamB, measured(1020, 1320))
			p.Call(0, 1020, 1210, "aclrtSynchronizeStream", tt.A(tt.StreamA))
			p.Call(0, 1210, 1320, "aclrtSynchronizeStream", tt.A(tt.StreamB))
		}, map[string]int64{"b on stream 2": 110}},
		"an event": {func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1010, 1210))
			p.Call(0, 1010, 1015, "aclrtRecordEvent", tt.A(tt.Event, tt.StreamA))
			p.launch(0, 1015, 1020, "b", tt.StreamB, measured(1020, 1170))
			p.Call(0, 1020, 1025, "aclrtStreamWaitEvent", tt.A(tt.StreamB, tt.Event))
			p.launch(0, 1025, 1030, "c", tt.StreamB, measured(1210, 1300))
			p.Call(0, 1030, 1300, "aclrtSynchronizeDevice", nil)
		}, map[string]int64{"a on stream 1": 40, "c on stream 2": 90}},
		"a thread": {func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1015, 1020))
			p.launch(1, 1100, 1110, "b", tt.StreamB, measured(1110, 1200))
			p.Call(1, 1120, 1200, "aclrtSynchronizeStream", tt.A(tt.StreamB))
			p.launch(0, 1250, 1260, "c", tt.StreamA, measured(1260, 1270))
			p.Call(0, 1260, 1270, "aclrtSynchronizeStream", tt.A(tt.StreamA))
		}, map[string]int64{"b on stream 2": 80, "own time, thread 4001 train": 1029}},
		"a queue": {func(p *program) {
			p.Call(1, 1000, 1010, "aclrtGetDevice", tt.A(0x7ffe0000))
			p.launch(0, 1015, 1020, "a", tt.StreamA)
			p.Call(1, 1300, 1310, "aclrtGetDevice", tt.A(0x7ffe0000))
			p.launch(0, 1315, 1320, "b", tt.StreamA, notRunning(290))
			p.Call(1, 1500, 1510, "aclrtGetDevice", tt.A(0x7ffe0000), notRunning(60))
			p.launch(0, 1510, 1520, "c", tt.StreamA, notRunning(185))
			p.Call(1, 1515, 1518, "aclrtGetDevice", tt.A(0x7ffe0000))
		}, map[string]int64{"own time, thread 4011": 420, "blocked, thread 4011": 50}},
		"a call": {func(p *program) {
			p.launch(0, 1000, 1010, "a", tt.StreamA, measured(1010, 1100))
			p.Call(0, 1010, 1400, "aclrtSetDevice", tt.A(0))
			p.Call(0, 1400, 1400, "aclrtSynchronizeStream", tt.A(tt.StreamA))
		}, map[string]int64{"aclrtSetDevice in thread 4001 train": 301}},
	} {
		p := newProgram(t)
		c.run(p)
		s, err := New(p.Load().Reader, acl.Model, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int64{}
		for _, e := range s.Entries {
			if _, ok := c.want[e.String()]; ok && !e.SavesAtMost {
				got[e.String()] = e.SavesNS
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v; %+v", name, got, c.want, s.Entries)
		}
	}
}

// random adds calls to a trace: steps of launches, copies, events, notifies, values, polls and waits on two threads and two streams, some of them
// measured, with times that need not agree.
func (p *program) random(seed uint64, calls int) {
	r := rand.New(rand.NewPCG(seed, 1))
	now, open, steps, turn := [3]int64{1000, 1000, 1000}, false, 0, 0 // turn is when the step begins or ends
	streams := []uint64{tt.StreamA, tt.StreamB}
	for i := range calls {
		th := 0
		for k := range now {
			if now[k] < now[th] {
				th = k
			}
		}
		from := now[th] + r.Int64N(40)
		to := from + r.Int64N(60)
		now[th] = to + r.Int64N(30)*int64(r.IntN(2))
		thread, stream := uint32(th), streams[r.IntN(2)]
		if th == 0 && i >= turn {
			if open {
				p.Call(0, from, to, "mstxRangeEnd", tt.A(uint64(steps)))
			} else {
				steps++
				p.Call(0, from, to, "mstxRangeStartA", tt.A(0x10, 0), tt.Text("message", fmt.Sprint("step ", steps)), func(_ *api.Func, c *format.Call) { c.Ret = uint64(steps) })
			}
			open, turn = !open, i+10
			if open {
				turn = i + 80
			}
			continue
		}
		var mods []tt.Mod
		if r.IntN(5) == 0 {
			mods = append(mods, recorded(uint64(r.IntN(20))))
		}
		if r.IntN(4) > 0 {
			at := from + r.Int64N(200) - 10
			mods = append(mods, measured(at, at+r.Int64N(100)))
		}
		if i%5 == 0 {
			mods = append(mods, notRunning(uint64(i%40)))
		}
		switch r.IntN(12) {
		case 0:
			p.Call(thread, from, to, "aclrtSynchronizeStream", tt.A(stream))
		case 1:
			p.Call(thread, from, to+50, "aclrtSynchronizeDevice", tt.A())
			now[th] += 50
		case 2:
			p.Call(thread, from, to, "aclrtRecordEvent", tt.A(tt.Event, stream))
		case 3:
			p.Call(thread, from, to, "aclrtStreamWaitEvent", tt.A(stream, tt.Event))
		case 4:
			p.Call(thread, from, to, "aclrtSynchronizeEvent", tt.A(tt.Event))
		case 5:
			p.Call(thread, from, to, "aclrtStreamQuery", tt.A(stream, 0x7ffe0000), tt.Outs("status", uint64(r.IntN(2))))
		case 6:
			p.Call(thread, from, to, []string{"aclrtValueWait", "aclrtValueWrite"}[r.IntN(2)], tt.A(tt.DeviceA, 1, 0, stream), mods...)
		case 7:
			p.Call(thread, from, to, "aclrtRecordNotify", tt.A(notify, stream))
		case 8:
			p.Call(thread, from, to, "aclrtWaitAndResetNotify", tt.A(notify, stream, 0))
		case 9:
			p.Call(thread, from, to, "aclrtMemcpyAsync", tt.A(0x10, 4096, tt.DeviceA, 4096, 2, stream), mods...)
		default:
			p.launch(thread, from, to, string("abc"[r.IntN(3)]), stream, mods...)
		}
	}
}

// The parts of each path add up to the step, and each is within the call or the task that it names. A thread has no call in its own time.
func TestPathsAddUp(t *testing.T) {
	found := map[Kind]int{}
	for seed := range uint64(18) {
		p := newProgram(t)
		p.random(seed, 1500)
		tl := p.Load()
		calls, tasks := map[uint64]*timeline.HostCall{}, map[uint64]*timeline.Task{}
		for i := range tl.Calls {
			calls[tl.Calls[i].Index] = &tl.Calls[i]
		}
		for i := range tl.Tasks {
			tasks[tl.Tasks[i].Call] = &tl.Tasks[i]
		}
		w := timeline.NewWalk(tl.Reader, acl.Model, nil)
		paths, entries, total := 0, int64(0), int64(0)
		each := func(path *Path) error {
			paths++
			total += path.Step.To - path.Step.From
			check(t, path)
			for _, part := range path.Parts() {
				q := &part
				found[q.Kind]++
				in := [2]int64{}
				switch k, h := tasks[q.Call], calls[q.Call]; q.Kind {
				case Call, Wait:
					in = [2]int64{h.Start, h.End}
				case Task:
					if in = [2]int64{k.From, k.To}; !k.Measured {
						t.Errorf("seed %d: %+v is not measured", seed, *q)
					}
				case Own, Blocked, Recording:
					in = [2]int64{q.From, q.To}
					for j := range tl.Calls {
						if h := &tl.Calls[j]; h.Start < q.To && h.End > q.From && w.ThreadName(h.Thread) == q.Where {
							t.Errorf("seed %d: call %d is in %+v", seed, h.Index, *q)
						}
					}
				default:
					continue
				}
				if q.From < in[0] || q.To > in[1] {
					t.Errorf("seed %d: %+v is not within %d", seed, *q, in)
				}
			}
			return nil
		}
		s, err := New(tl.Reader, acl.Model, &Options{Each: each})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range s.Entries {
			entries += e.NS
		}
		if paths < 10 || s.Paths != paths || entries != total || s.NS != total {
			t.Errorf("seed %d: %d paths of %d take %d, their entries %d; want %d", seed, s.Paths, paths, s.NS, entries, total)
		}
		q := newProgram(t)
		q.random(seed+1000, 500)
		q.path(t) // of the whole trace
	}
	for _, k := range []Kind{Own, Blocked, Recording, Call, Wait, Task, Start} {
		if found[k] < 100 {
			t.Errorf("%d parts of kind %s: the test misses them", found[k], k)
		}
	}
}

// A step with too many calls has no path. The steps around it do, and their calls alone are held.
func TestTooLongStep(t *testing.T) {
	p := newProgram(t)
	now := int64(1000)
	for n, launches := range []int{50, 300, 50} {
		p.Call(0, now, now+1, "mstxRangeStartA", tt.A(0x10, 0), tt.Text("message", fmt.Sprint("step ", n)), func(_ *api.Func, c *format.Call) { c.Ret = uint64(n + 1) })
		for range launches {
			now += 10
			p.launch(0, now, now+5, "a", tt.StreamA, measured(now+2, now+8))
		}
		p.Call(0, now+6, now+9, "aclrtSynchronizeStream", tt.A(tt.StreamA))
		p.Call(0, now+10, now+11, "mstxRangeEnd", tt.A(uint64(n+1)))
		now += 20
	}
	tl := p.Load()
	w := timeline.NewWalk(tl.Reader, acl.Model, nil)
	if err := w.FindSteps(); err != nil {
		t.Fatal(err)
	}
	f, held := NewFinder(w), 0
	f.most = 200
	var long []bool
	err := w.Run(&timeline.Visitor{
		Call: func(h *timeline.HostCall, k *timeline.Task) error {
			f.Call(h, k, w.Links(), 0)
			held = max(held, len(f.threads[0].calls), len(f.tasks))
			return nil
		},
		Step: func(s *step.Step) error {
			path := f.Step(s)
			long = append(long, path.TooLong)
			if !path.TooLong {
				check(t, path)
			} else if len(path.Parts()) > 0 {
				t.Errorf("%d parts", len(path.Parts()))
			}
			if n := len(f.threads[0].calls) + len(f.tasks); n > 2 {
				t.Errorf("%d calls and tasks are held after the step", n)
			}
			return nil
		},
	})
	if err != nil || fmt.Sprint(long) != "[false true false]" || held > 200 {
		t.Errorf("%v: %v, at most %d held", err, long, held)
	}
}

// A task on the default stream of CUDA follows the tasks of other streams, and the reverse. A stream may opt out.
func TestDefaultStream(t *testing.T) {
	const apart, legacy = 0x5503, 0
	for name, c := range map[string]struct {
		first, second uint64
		follows       bool
	}{
		"the default stream after a stream": {tt.StreamA, legacy, true},
		"a stream after the default stream": {legacy, tt.StreamA, true},
		"a stream after another one":        {tt.StreamA, tt.StreamB, false},
		"a stream that does not block":      {legacy, apart, false},
	} {
		b := tt.NewOf(t, cuda.Model)
		b.Call(0, 100, 200, "cuMemAlloc_v2", tt.A(0x7000, 1<<20), tt.Outs("dptr", tt.DeviceA))
		for i, s := range []uint64{tt.StreamA, tt.StreamB, apart} {
			flags := map[bool]uint64{true: cuda.Model.NonBlocking}[s == apart]
			b.Call(0, int64(300+10*i), int64(305+10*i), "cuStreamCreate", tt.A(0x7000, flags), tt.Outs("phStream", s))
		}
		b.Call(0, 1000, 1010, "cuMemsetD32Async", tt.A(tt.DeviceA, 0, 1000, c.first), measured(1015, 3000))
		b.Call(0, 1020, 1030, "cuMemsetD32Async", tt.A(tt.DeviceA, 1, 1000, c.second), measured(3010, 3100))
		b.Call(0, 1040, 3110, "cuStreamSynchronize", tt.A(c.second))
		tl := b.Load()
		longest := ""
		_, err := New(tl.Reader, cuda.Model, &Options{Each: func(p *Path) error {
			check(t, p)
			longest = fmt.Sprint(p.Entries(1)[0].Kind, " ", p.Entries(1)[0].NS)
			return nil
		}})
		if want := map[bool]string{true: "task 1985", false: "start 1980"}[c.follows]; err != nil || longest != want {
			t.Errorf("%s: %v, the longest entry is %s, want %s", name, err, longest, want)
		}
	}
}

// A path said only "start of b", and named the kernel launched before it, while an unmeasured kernel on another stream decided when b starts.
func TestPathNamesTheUnmeasuredTask(t *testing.T) {
	for _, timed := range []bool{true, false} {
		p := newProgram(t)
		if timed {
			p.Meta(func(m *format.Meta) { m.DeviceTime = &format.DeviceTime{Every: 1} })
		}
		p.launch(0, 1000, 1010, "a", tt.StreamA)
		p.Call(0, 1020, 1025, "aclrtRecordEvent", tt.A(tt.Event, tt.StreamA))
		p.launch(0, 1030, 1035, "c", tt.StreamB, measured(1040, 1100))
		p.Call(0, 1050, 1055, "aclrtStreamWaitEvent", tt.A(tt.StreamB, tt.Event))
		p.launch(0, 1060, 1065, "b", tt.StreamB, measured(9000, 9500))
		p.Call(0, 1070, 9500, "aclrtSynchronizeStream", tt.A(tt.StreamB))
		found := 0
		for _, e := range p.path(t).Entries(0) {
			switch {
			case e.Kind == Start && e.Name == "b":
				found++
				if want := map[bool]string{true: "start of b on stream 2, after a (not measured)", false: "start of b on stream 2"}[timed]; e.String() != want {
					t.Errorf("device times %v: %s, want %s", timed, &e, want)
				}
			case e.After != "":
				t.Errorf("device times %v: %s", timed, &e)
			}
		}
		if found != 1 {
			t.Errorf("device times %v: no start of b", timed)
		}
	}
}

// A summary counts the steps that have too many calls for a path.
func TestSummaryCountsTooLongSteps(t *testing.T) {
	x := &summer{s: &Summary{}}
	for range 2 {
		if err := x.add(&Path{TooLong: true}); err != nil {
			t.Fatal(err)
		}
	}
	if x.s.TooLong != 2 || x.s.Paths != 0 {
		t.Errorf("%+v", x.s)
	}
}
