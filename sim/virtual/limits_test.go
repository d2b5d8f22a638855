package virtual

import (
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/sim/model"
)

// Kernels hold cores of both kinds until they end. One that needs more than are left waits, and later ones that need the same kind do not overtake it.
func TestKindsOfCores(t *testing.T) {
	m := plain(t, func(m *model.Model) {
		m.Launch, m.Host = model.Launch{}, model.Host{}
		m.Cores = model.Cores{Cube: 2, Vector: 4}
		m.Kernels = slices.Insert(m.Kernels, 0, model.Kernel{Name: "cube*", Cores: "cube"}, model.Kernel{Name: "mix*", Cores: "mix"})
	})
	for name, c := range map[string]struct {
		kernels []string // name and blocks
		starts  []int64
	}{
		"cube":             {[]string{"cube 1", "cube 1", "cube 1"}, []int64{0, 0, 100}},
		"mix, then cube":   {[]string{"mix 1", "cube 1", "cube 1"}, []int64{0, 0, 100}},
		"mix, then vector": {[]string{"mix 1", "v 2", "v 1"}, []int64{0, 0, 100}},
		"cube, then mix":   {[]string{"cube 2", "mix 1", "v 4"}, []int64{0, 100, 200}},
		"vector, then mix": {[]string{"v 3", "mix 1", "cube 2"}, []int64{0, 100, 200}},
		"two mixed":        {[]string{"mix 1", "mix 1", "mix 1"}, []int64{0, 0, 100}},
		"all mixed":        {[]string{"mix 9", "v 1", "cube 1"}, []int64{0, 100, 100}},
	} {
		r := machine(t, Options{Model: m})
		kinds := map[string]int32{"cube": r.Kernel("cube"), "mix": r.Kernel("mix"), "v": 0}
		var ops Ops
		for i, k := range c.kernels {
			kind, blocks, _ := strings.Cut(k, " ")
			ops = append(ops, Op{Kind: Kernel, Kernel: kinds[kind], Stream: r.AddStream(0, 0), Blocks: uint32(blocks[0] - '0'), Device: 100, Tag: uint64(i)})
		}
		r.AddThread(&ops)
		r.run(t)
		for i, at := range c.starts {
			if got := r.tasks[uint64(i)].Start; got != at {
				t.Errorf("%s: %s starts at %d, want %d", name, c.kernels[i], got, at)
			}
		}
	}
}

// Times that a program leaves to the model are the model's, and 0 is a time.
func TestAutomaticTimes(t *testing.T) {
	r := machine(t, Options{Model: plain(t, func(m *model.Model) {
		m.Launch = model.Launch{}
		m.Host = model.Host{Call: 2, Submit: 3, Sync: 10, Function: 50}
		m.Kernels = slices.Insert(m.Kernels, 0, model.Kernel{Name: "k", Fixed: 70})
	})})
	s, k, e, free := r.AddStream(0, 0), r.Kernel("k"), r.AddEvent(), r.AddEvent()
	r.AddThread(&Ops{
		{Kind: HostFunc, Stream: s, Device: Auto, Host: Auto, Tag: 1}, {Kind: HostFunc, Stream: s, Device: 7, Tag: 2}, {Kind: Kernel, Kernel: k, Stream: s, Tag: 3}, {Kind: Kernel, Kernel: k, Stream: s, Device: Auto, Tag: 4},
		{Kind: RecordEvent, Object: e, Stream: s, Host: Auto, Tag: 5}, {Kind: Call, Host: Auto, Tag: 6}, {Kind: SyncEvent, Object: free, Host: 1, Tag: 7}, {Kind: SyncEvent, Object: e, Host: Auto, Tag: 8},
		{Kind: SyncEvent, Object: e, Host: 4, Tag: 9},
	})
	sum := r.run(t)
	r.wantCall(t, 1, 0, 3)
	r.wantTask(t, 1, 3, 53)
	r.wantTask(t, 2, 53, 60)
	r.wantTask(t, 3, 60, 60)
	r.wantTask(t, 4, 60, 130)
	r.wantCall(t, 5, 3, 6)
	r.wantCall(t, 6, 6, 8)
	r.wantCall(t, 7, 8, 9)
	r.wantCall(t, 8, 9, 140)
	r.wantCall(t, 9, 140, 144)
	if sum.Calls != 9 || sum.End() != 144 {
		t.Errorf("%+v", sum)
	}
}

// Random times stay within the model's jitter, depend on the seed only, and reach both sides.
func TestJitterDependsOnTheSeed(t *testing.T) {
	m := plain(t, func(m *model.Model) {
		m.Launch, m.Jitter = model.Launch{}, 0.25
		m.Kernels = slices.Insert(m.Kernels, 0, model.Kernel{Name: "k", Fixed: 1000})
	})
	times := func(seed uint64) (all []int64) {
		r := machine(t, Options{Model: m, Seed: seed})
		s, k := r.AddStream(0, 0), r.Kernel("k")
		var ops Ops
		for i := range 200 {
			ops = append(ops, Op{Kind: Kernel, Kernel: k, Stream: s, Device: Auto, Tag: uint64(i)})
		}
		r.AddThread(&ops)
		r.run(t)
		for i := range uint64(200) {
			all = append(all, r.tasks[i].End-r.tasks[i].Start)
		}
		return all
	}
	a := times(1)
	if least, most := slices.Min(a), slices.Max(a); least < 750 || least > 800 || most < 1200 || most > 1250 {
		t.Errorf("from %d to %d ns", least, most)
	}
	if !slices.Equal(a, times(1)) || slices.Equal(a, times(2)) {
		t.Error("times do not follow from the seed")
	}
}

// A deadlock names four of those that wait, and counts the others.
func TestDeadlockOfMany(t *testing.T) {
	for waiting, want := range map[int]string{4: "thread 3 in its op 0, a synchronization of a stream", 5: " and 1 more", 7: " and 3 more"} {
		r := machine(t, Options{Model: plain(t, nil)})
		never := r.AddFlag()
		for i := range waiting {
			s := r.AddStream(0, 0)
			if i > 0 {
				r.AddThread(&Ops{{Kind: SyncStream, Stream: 0}})
			} else {
				r.AddThread(&Ops{{Kind: WaitFlag, Stream: s, Object: never}})
			}
		}
		_, err := r.Run()
		if err == nil || strings.Count(err.Error(), ";") != 3 || strings.Contains(err.Error(), " more") != (waiting > 4) || waiting > 4 && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d wait: %v", waiting, err)
		}
	}
}

// A graph runs again as it ran first: its events are not recorded yet, and its tasks are submitted when it begins.
func TestGraphRunsAgain(t *testing.T) {
	r := machine(t, Options{Model: plain(t, func(m *model.Model) { m.Launch, m.Host = model.Launch{}, model.Host{} })})
	s := r.AddStream(0, 0)
	inside := func(kind Kind, object int32) Op { return Op{Kind: kind, Object: object} }
	k := func(tag uint64, d int64) Op { return Op{Kind: Kernel, Device: d, Tag: tag} }
	g, err := r.AddGraph(0, [][]Op{{k(1, 100), inside(RecordEvent, 3), k(2, 10)}, {inside(WaitEvent, 3), k(3, 1), inside(RecordEvent, 0)}, {inside(WaitEvent, 0), k(4, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	other, err := r.AddGraph(0, [][]Op{{inside(WaitEvent, 0), k(5, 1)}, {k(6, 30), inside(RecordEvent, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	run := func(n int32) Op { return Op{Kind: RunGraph, Stream: s, Object: n} }
	r.AddThread(&Ops{run(g), {Kind: SyncStream, Stream: s}, {Gap: 1000}, run(g), run(other)})
	sum := r.run(t)
	for tag, want := range map[uint64]Result{1: {Submitted: 1110, Start: 1110, End: 1210}, 2: {Submitted: 1110, Start: 1210, End: 1220}, 3: {Submitted: 1110, Start: 1210, End: 1211}, 4: {Submitted: 1110, Start: 1211, End: 1212},
		5: {Submitted: 1220, Start: 1250, End: 1251}, 6: {Submitted: 1220, Start: 1220, End: 1250}} {
		if got := r.tasks[tag]; got.Submitted != want.Submitted || got.Start != want.Start || got.End != want.End {
			t.Errorf("task %d: %+v, want %+v", tag, got, want)
		}
	}
	if sum.Busy[s] != 110+110+31 {
		t.Errorf("the stream was busy for %d", sum.Busy[s])
	}
	for name, op := range map[string]Op{"a negative event": inside(RecordEvent, -1), "a far event": inside(WaitEvent, 1<<20+1), "a synchronization": inside(SyncStream, 0), "a graph": inside(RunGraph, g)} {
		if _, err := r.AddGraph(0, [][]Op{{k(1, 1)}, {k(1, 1), op}}); err == nil || !strings.Contains(err.Error(), "lane 1, task 1: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.AddGraph(0, [][]Op{{inside(RecordEvent, 1<<20)}}); err != nil {
		t.Error(err)
	}
}

// Records of events that nobody waits for any more take no memory.
func TestOldRecordsAreForgotten(t *testing.T) {
	r := machine(t, Options{Model: plain(t, nil)})
	a, b, ev := r.AddStream(0, 0), r.AddStream(0, 0), r.AddEvent()
	var ops Ops
	for i := range 1000 {
		ops = append(ops, launch(a, 1, 0), Op{Kind: RecordEvent, Stream: a, Object: ev}, Op{Kind: WaitEvent, Stream: b, Object: ev}, launch(b, 1, 0))
		if i%10 == 9 {
			ops = append(ops, Op{Kind: SyncEvent, Object: ev}, Op{Kind: SyncDevice})
		}
	}
	r.AddThread(&ops)
	if sum := r.run(t); sum.Tasks != 4000 || sum.Calls != 4200 {
		t.Errorf("%+v", sum)
	}
	if n := len(r.marks); n > 30 || len(r.free) != n-1 {
		t.Errorf("%d records, %d of them free", n, len(r.free))
	}
}
