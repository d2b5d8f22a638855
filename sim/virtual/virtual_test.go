package virtual

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/sim/model"
)

// plain returns a model with round figures.
func plain(t testing.TB, change func(m *model.Model)) *model.Model {
	t.Helper()
	m, err := model.Load("instant")
	if err != nil {
		t.Fatal(err)
	}
	m.Host, m.Launch = model.Host{Call: 1, Submit: 1, Sync: 10, Function: 50}, model.Launch{Latency: 100, Overhead: 5}
	if change != nil {
		change(m)
	}
	return m
}

// Ops is a Source with all ops in a slice.
type Ops []Op

// Next stores the first op and removes it.
func (o *Ops) Next(op *Op) bool {
	if len(*o) == 0 {
		return false
	}
	*op, *o = (*o)[0], (*o)[1:]
	return true
}

type recorded struct {
	*Machine
	tasks, calls map[uint64]Result
	order        []Result
}

func machine(t testing.TB, o Options) *recorded {
	t.Helper()
	r := &recorded{tasks: map[uint64]Result{}, calls: map[uint64]Result{}}
	o.Task = func(x Result) { r.tasks[x.Tag] = x; r.order = append(r.order, x) }
	o.Call = func(x Result) { r.calls[x.Tag] = x }
	m, err := New(&o)
	if err != nil {
		t.Fatal(err)
	}
	r.Machine = m
	return r
}

func (r *recorded) run(t testing.TB) *Summary {
	t.Helper()
	s, err := r.Run()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (r *recorded) wantTask(t *testing.T, tag uint64, start, end int64) {
	t.Helper()
	if x := r.tasks[tag]; x.Start != start || x.End != end {
		t.Errorf("task %d ran from %d to %d, want %d to %d", tag, x.Start, x.End, start, end)
	}
}

func (r *recorded) wantCall(t *testing.T, tag uint64, start, end int64) {
	t.Helper()
	if x := r.calls[tag]; x.Start != start || x.End != end {
		t.Errorf("op %d lasted from %d to %d, want %d to %d", tag, x.Start, x.End, start, end)
	}
}

func launch(s int32, d int64, tag uint64) Op {
	return Op{Kind: Kernel, Stream: s, Host: 10, Device: d, Tag: tag}
}

func TestLaunchesAndSynchronization(t *testing.T) {
	r := machine(t, Options{Model: plain(t, nil)})
	s := r.AddStream(0, 0)
	r.AddThread(&Ops{launch(s, 1000, 1), launch(s, 500, 2), {Kind: SyncStream, Stream: s, Host: Auto, Tag: 3}, {Gap: 7, Host: 3, Tag: 4}, launch(s, 1, 5)})
	sum := r.run(t)
	r.wantTask(t, 1, 110, 1110)
	r.wantTask(t, 2, 1115, 1615)
	r.wantCall(t, 2, 10, 20)
	r.wantCall(t, 3, 20, 1625)
	r.wantCall(t, 4, 1632, 1635)
	r.wantTask(t, 5, 1745, 1746)
	if sum.Tasks != 3 || sum.Calls != 5 || sum.End() != 1746 || sum.Busy[s] != 1501 {
		t.Errorf("%+v", sum)
	}
}

// Regression: the time between two events around a task was used as the task's time, including earlier waits.
func TestTimesBetweenEvents(t *testing.T) {
	between := func(s int32, d int64, tag uint64) Op {
		o := launch(s, d, tag)
		o.Between = true
		return o
	}
	r := machine(t, Options{Model: plain(t, nil)})
	s := r.AddStream(0, 0)
	r.AddThread(&Ops{between(s, 1010, 1), between(s, 505, 2)})
	r.run(t)
	// The first event is done when its call begins, and the launch when it ends. After another task the overhead
	// passes.
	r.wantTask(t, 1, 110, 1110)
	r.wantTask(t, 2, 1115, 1615)
}

func TestEventsAcrossStreams(t *testing.T) {
	r := machine(t, Options{Model: plain(t, nil)})
	a, b, ev := r.AddStream(0, 0), r.AddStream(0, 0), r.AddEvent()
	r.AddThread(&Ops{
		{Kind: WaitEvent, Stream: b, Object: ev}, // never recorded
		launch(a, 1000, 1),
		{Kind: RecordEvent, Stream: a, Object: ev, Tag: 2},
		{Kind: WaitEvent, Stream: b, Object: ev, Tag: 3},
		launch(a, 5000, 4),
		{Kind: RecordEvent, Stream: a, Object: ev}, // the wait above is for the earlier record
		launch(b, 10, 5),
		{Kind: SyncEvent, Object: ev, Host: 1, Tag: 6},
	})
	r.run(t)
	r.wantTask(t, 2, 1110, 1110)
	r.wantTask(t, 3, 1110, 1110)
	r.wantTask(t, 5, 1110, 1120)
	r.wantCall(t, 6, 30, 6116)
}

func TestFlagsBetweenThreadsAndDevices(t *testing.T) {
	r := machine(t, Options{Model: plain(t, nil), Devices: 2})
	a, b, f := r.AddStream(0, 0), r.AddStream(1, 0), r.AddFlag()
	r.AddThread(&Ops{{Kind: TakeFlag, Stream: b, Object: f}, launch(b, 10, 1), {Kind: TakeFlag, Stream: b, Object: f}, launch(b, 10, 2),
		{Kind: SyncDevice, Object: 1, Tag: 3}})
	r.AddThread(&Ops{{Gap: 900, Host: 100}, {Kind: SetFlag, Stream: a, Object: f}, {Gap: 1000}, {Kind: SetFlag, Stream: a, Object: f}})
	r.run(t)
	r.wantTask(t, 1, 1100, 1110)
	r.wantTask(t, 2, 2100, 2110)
	r.wantCall(t, 3, 20, 2110)
}

func TestThreadsAwaitEachOther(t *testing.T) {
	r := machine(t, Options{Model: plain(t, nil)})
	one := r.AddThread(&Ops{{Host: 100}, {Host: 100}, {Host: 100}})
	r.AddThread(&Ops{{Kind: Await, Object: one, Count: 2, Tag: 1}, {Kind: Await, Object: one, Count: 1, Host: 5, Tag: 2}})
	r.run(t)
	r.wantCall(t, 1, 0, 200)
	r.wantCall(t, 2, 200, 205)
}

func TestSharedCores(t *testing.T) {
	m := plain(t, func(m *model.Model) {
		m.Cores.Vector, m.Launch = 4, model.Launch{}
		m.Kernels = slices.Insert(m.Kernels, 0, model.Kernel{Name: "cube*", Cores: "cube"})
		m.Cores.Cube = 2
	})
	r := machine(t, Options{Model: m})
	var s [5]int32
	for i := range s {
		s[i] = r.AddStream(0, 4-i)
	}
	cube := r.Kernel("cube_a")
	vec := func(n int, blocks uint32, tag uint64) Op {
		return Op{Kind: Kernel, Stream: s[n], Blocks: blocks, Device: 100, Tag: tag}
	}
	r.AddThread(&Ops{
		vec(0, 3, 1), vec(1, 2, 2), // does not fit
		vec(2, 1, 3), // would fit, with a higher priority
		vec(3, 1, 4), // does not fit
		{Kind: Kernel, Kernel: cube, Stream: s[4], Blocks: 9, Device: 100, Tag: 5}, // other cores
	})
	r.run(t)
	r.wantTask(t, 1, 0, 100)
	r.wantTask(t, 3, 0, 100)
	r.wantTask(t, 5, 0, 100)
	r.wantTask(t, 2, 100, 200)
	r.wantTask(t, 4, 100, 200)
}

func TestCopyEnginesAndStreams(t *testing.T) {
	m := plain(t, func(m *model.Model) {
		m.Launch = model.Launch{}
		m.Copies[model.HostToDevice] = model.Copy{Engines: 1, Sizes: []model.CopySize{{Latency: 10, Rate: 1}}}
		m.Streams = 2
	})
	r := machine(t, Options{Model: m})
	a, b, c := r.AddStream(0, 0), r.AddStream(0, 0), r.AddStream(0, 0)
	r.AddThread(&Ops{
		{Kind: Copy, Stream: a, Bytes: 90, Device: Auto, Tag: 1}, {Kind: Copy, Stream: b, Bytes: 90, Device: Auto, Tag: 2},
		{Kind: Kernel, Stream: c, Device: 500, Tag: 3}, {Kind: CopyNow, Bytes: 5, Host: Auto, Tag: 4},
	})
	r.run(t)
	r.wantTask(t, 1, 0, 100)
	r.wantTask(t, 2, 100, 200)
	r.wantTask(t, 3, 0, 500)
	r.wantCall(t, 4, 0, 25)
}

func TestGraphRunsOneAtATime(t *testing.T) {
	r := machine(t, Options{Model: plain(t, func(m *model.Model) { m.Launch = model.Launch{} })})
	a, b := r.AddStream(0, 0), r.AddStream(0, 0)
	g, err := r.AddGraph(0, [][]Op{
		{{Kind: Kernel, Device: 100, Tag: 10}, {Kind: RecordEvent, Object: 0}, {Kind: Kernel, Device: 100, Tag: 11}, {Kind: WaitEvent, Object: 1}},
		{{Kind: WaitEvent, Object: 0}, {Kind: HostFunc, Device: 300, Tag: 12}, {Kind: RecordEvent, Object: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.AddThread(&Ops{
		{Kind: RunGraph, Stream: a, Object: g, Tag: 1}, {Kind: RunGraph, Stream: b, Object: g, Tag: 2},
		{Kind: Kernel, Stream: a, Device: 1, Tag: 3}, {Kind: Kernel, Stream: b, Device: 1, Tag: 4},
	})
	r.run(t)
	r.wantTask(t, 1, 0, 400)
	r.wantTask(t, 2, 400, 800)
	r.wantTask(t, 3, 400, 401)
	r.wantTask(t, 4, 800, 801)
	r.wantTask(t, 12, 500, 800) // second run
	if _, err := r.AddGraph(0, [][]Op{{{Kind: SyncStream}}}); err == nil {
		t.Error("a synchronization is a task of a graph")
	}
}

func TestFullStream(t *testing.T) {
	r := machine(t, Options{Model: plain(t, func(m *model.Model) { m.Launch = model.Launch{} }), Depth: 2})
	s := r.AddStream(0, 0)
	r.AddThread(&Ops{launch(s, 100, 1), launch(s, 100, 2), launch(s, 100, 3), launch(s, 100, 4)})
	r.run(t)
	r.wantCall(t, 3, 20, 110)
	r.wantCall(t, 4, 110, 210)
	r.wantTask(t, 4, 310, 410)
}

func TestModelChangesTimes(t *testing.T) {
	m := plain(t, func(m *model.Model) {
		m.Launch = model.Launch{}
		m.Kernels = slices.Insert(m.Kernels, 0, model.Kernel{Name: "MatMul*", Scale: 0.5, Fixed: 40, Rate: 1})
	})
	r := machine(t, Options{Model: m})
	s, k := r.AddStream(0, 0), r.Kernel("MatMulV3")
	r.AddThread(&Ops{{Kind: Kernel, Kernel: k, Stream: s, Device: 100, Tag: 1}, {Kind: Kernel, Kernel: k, Stream: s, Device: Auto, Bytes: 60, Tag: 2}})
	r.run(t)
	r.wantTask(t, 1, 0, 50)
	r.wantTask(t, 2, 50, 100)
}

func TestWhatNeverComes(t *testing.T) {
	r := machine(t, Options{Model: plain(t, nil)})
	s, f := r.AddStream(0, 0), r.AddFlag()
	r.AddThread(&Ops{{Kind: WaitFlag, Stream: s, Object: f}, {Kind: SyncStream, Stream: s}})
	_, err := r.Run()
	if err == nil || !strings.Contains(err.Error(), "thread 0 in its op 1, a synchronization of a stream; stream 0 at its task 0, a wait for a flag") {
		t.Error(err)
	}
}

// random adds programs with several threads. Their waits are only for submitted work.
func random(m *Machine, seed uint64, threads, streams, n int) (waits map[uint64]uint64) {
	waits = map[uint64]uint64{}
	for range streams {
		m.AddStream(0, 0)
	}
	for th := range threads {
		rng := rand.New(rand.NewPCG(seed, uint64(th)))
		ev, last := m.AddEvent(), uint64(0)
		var ops Ops
		for i := range n {
			tag := uint64(th)<<32 | uint64(i) + 1
			s := int32(rng.IntN(streams))
			op := Op{Stream: s, Gap: rng.Int64N(50), Host: rng.Int64N(30), Device: rng.Int64N(400), Tag: tag}
			switch rng.IntN(8) {
			case 0:
				op.Kind, op.Object, last = RecordEvent, ev, tag
			case 1:
				op.Kind, op.Object = WaitEvent, ev
				if last != 0 {
					waits[tag] = last
				}
			case 2:
				op.Kind = Copy
				op.Copy = model.CopyKind(rng.IntN(2))
			case 3:
				if rng.IntN(8) == 0 {
					op.Kind = SyncStream
				}
			default:
				op.Kind, op.Blocks = Kernel, rng.Uint32N(6)
			}
			ops = append(ops, op)
		}
		m.AddThread(&ops)
	}
	return waits
}

// Random programs obey streams, events, cores and engines, and every run has the same times.
func TestRandomPrograms(t *testing.T) {
	for seed := range uint64(200) {
		mod := plain(t, func(m *model.Model) {
			m.Cores.Vector, m.Streams, m.Jitter = 4, 3, 0.1
			m.Copies[model.HostToDevice] = model.Copy{Engines: 1, Sizes: m.Copies[model.HostToDevice].Sizes}
		})
		run := func() (*recorded, map[uint64]uint64) {
			r := machine(t, Options{Model: mod, Seed: seed, Depth: 20})
			w := random(r.Machine, seed, 3, 5, 200)
			r.run(t)
			return r, w
		}
		r, waits := run()
		again, _ := run()
		if !reflect.DeepEqual(r.order, again.order) || !reflect.DeepEqual(r.calls, again.calls) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
		ends := map[int32]int64{}
		type change struct {
			at     int64
			copies int
			slots  int
		}
		var changes []change
		for _, x := range r.order {
			if x.Start < ends[x.Stream] || x.Start < x.Submitted || x.End < x.Start {
				t.Fatalf("seed %d: %+v, and the task before it ended at %d", seed, x, ends[x.Stream])
			}
			ends[x.Stream] = x.End
			if x.Kind == Kernel || x.Kind == Copy {
				c := change{at: x.Start, slots: 1}
				if x.Kind == Copy {
					c.copies = 1
				}
				changes = append(changes, c, change{at: x.End, slots: -1, copies: -c.copies})
			}
		}
		slices.SortFunc(changes, func(a, b change) int {
			if a.at != b.at {
				return int(a.at - b.at)
			}
			return a.slots - b.slots
		})
		n := 0
		for _, c := range changes {
			if n += c.slots; n > 3 {
				t.Fatalf("seed %d: %d tasks at once at %d", seed, n, c.at)
			}
		}
		for w, rec := range waits {
			if r.tasks[w].End < r.tasks[rec].End {
				t.Fatalf("seed %d: the wait %x ended at %d, the record %x at %d", seed, w, r.tasks[w].End, rec, r.tasks[rec].End)
			}
		}
	}
}

// endless is a thread that launches kernels on its streams, with occasional events between them.
type endless struct {
	streams []int32
	event   int32
	host    int64
	n, end  int
}

func (e *endless) Next(op *Op) bool {
	if e.n == e.end {
		return false
	}
	e.n++
	op.Stream, op.Host, op.Device, op.Tag = e.streams[e.n/3%len(e.streams)], e.host, 1000, uint64(e.n)
	switch e.n % 64 {
	case 0:
		op.Kind, op.Object = RecordEvent, e.event
	case 1:
		op.Kind, op.Object = WaitEvent, e.event
	default:
		op.Kind, op.Blocks = Kernel, 4
	}
	return true
}

// BenchmarkTasks measures tasks a second with a result callback.
func BenchmarkTasks(b *testing.B) {
	for _, c := range []struct{ threads, streams int }{{1, 1}, {1, 4}, {8, 32}} {
		b.Run(fmt.Sprintf("%d threads, %d streams", c.threads, c.streams), func(b *testing.B) {
			mod, err := model.Load("")
			if err != nil {
				b.Fatal(err)
			}
			var last int64
			m, err := New(&Options{Model: mod, Task: func(r Result) { last = r.End }})
			if err != nil {
				b.Fatal(err)
			}
			for i := range c.threads {
				// As fast as the device, which runs ten such kernels at once.
				e := &endless{event: m.AddEvent(), end: b.N / c.threads, host: 1000 * int64(c.threads) / int64(min(c.streams, 10))}
				if i == 0 {
					e.end += b.N % c.threads
				}
				for range c.streams / c.threads {
					e.streams = append(e.streams, m.AddStream(0, 0))
				}
				m.AddThread(e)
			}
			b.ReportAllocs()
			b.ResetTimer()
			sum, err := m.Run()
			if err != nil || sum.Tasks != uint64(b.N) || last == 0 {
				b.Fatal(err, sum)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtasks/s")
		})
	}
}
