package timeline_test

import (
	"slices"
	"testing"

	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/timeline"
)

func TestMemoryAfterEachCall(t *testing.T) {
	s := newSequence(t)
	s.Malloc(devA, 0x100)
	s.Malloc(devB, 0x40)
	s.Then("aclrtFree", testtrace.A(devA))
	s.on(2).Malloc(devA, 0x1000)
	s.Malloc(devA, 0x10) // without an end of the allocation before
	tl := s.Load()
	var got []uint64
	var peak uint64
	w := walk(t, tl, nil, &timeline.Visitor{Memory: func(p *timeline.MemoryPoint) error {
		got = append(got, p.Call.Index, p.Bytes, p.Total)
		if p.Call.Start != p.Time || p.Freed != (p.Object.Ended == p.Call.Index) {
			t.Errorf("%+v", p)
		}
		peak = max(peak, p.Total)
		return nil
	}})
	if want := []uint64{0, 0x100, 0x100, 1, 0x140, 0x140, 2, 0x40, 0x40, 3, 0x1000, 0x1040, 4, 0, 0x40, 4, 0x10, 0x50}; !slices.Equal(got, want) {
		t.Errorf("%#x, want %#x", got, want)
	}
	if peak != w.PeakDevice {
		t.Errorf("peak %d, want %d", peak, w.PeakDevice)
	}
}

func TestDepthCountsUnfinishedTasks(t *testing.T) {
	tl := testtrace.Small(t)
	depth := make([]int, len(tl.Lanes))
	last := int64(0)
	var most, points int
	moments := map[[2]int64]bool{}
	for i := range tl.Tasks {
		if k := &tl.Tasks[i]; !tl.Lanes[k.Lane].Synchronous {
			moments[[2]int64{int64(k.Lane), k.Issued}], moments[[2]int64{int64(k.Lane), k.To}] = true, true
		}
	}
	walk(t, tl, nil, &timeline.Visitor{Depth: func(p *timeline.DepthPoint) error {
		points++
		if p.Time < last || p.Depth < 0 || tl.Lanes[p.Lane].Synchronous {
			t.Errorf("%+v behind %d", p, last)
		}
		last, depth[p.Lane] = p.Time, p.Depth
		most = max(most, p.Depth)
		// The queue holds the tasks that were issued and have not ended.
		want := 0
		for i := range tl.Tasks {
			if k := &tl.Tasks[i]; k.Lane == p.Lane && k.Issued <= p.Time && (k.To > p.Time) {
				want++
			}
		}
		if p.Depth != want {
			t.Errorf("depth %d of lane %d at %d, want %d", p.Depth, p.Lane, p.Time, want)
		}
		return nil
	}})
	if most < 3 || slices.Max(depth) != 0 || points != len(moments) {
		t.Errorf("at most %d, at the end %v, %d points of %d", most, depth, points, len(moments))
	}
}

func TestRatesOfCopies(t *testing.T) {
	for n, want := range map[uint64]string{0: "<=4KiB", 4096: "<=4KiB", 4097: "<=64KiB", 1 << 20: "<=1MiB", 1 << 40: ">256MiB"} {
		if got := timeline.SizeClasses[timeline.SizeClass(n)].Name; got != want {
			t.Errorf("%d bytes are %s, want %s", n, got, want)
		}
	}
	tl := testtrace.Small(t)
	var got []string
	for i := range tl.Tasks {
		if d := tl.Tasks[i].Direction(); d != "" {
			got = append(got, d)
		}
	}
	if want := []string{"HtoD", "DtoH", "DtoD"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	k := timeline.Task{Bytes: 1000, From: 10, To: 510}
	if rate, atLeast := k.Rate(); rate != 2e9 || !atLeast {
		t.Errorf("%v, %v", rate, atLeast)
	}
	k.Measured = true
	if _, atLeast := k.Rate(); atLeast {
		t.Error("a measured copy was at least that fast")
	}
	k.To = 10
	if rate, _ := k.Rate(); rate != 0 {
		t.Errorf("%v in no time", rate)
	}
}

func TestIdleTimesNameTheCall(t *testing.T) {
	s := newSequence(t)
	s.Stream(strA)
	s.function(fn, "k")
	launch := func() { s.Then("aclrtLaunchKernel", testtrace.A(fn, 1, devA, 0, strA)) }
	sync := func() { s.Then("aclrtSynchronizeStream", testtrace.A(strA)) }
	launch()
	sync()
	s.Now += 1000 // time in the program
	launch()
	sync()
	from := s.Now + 10
	s.Call(1, s.Now+30, s.Now+900, "aclrtSynchronizeDevice", nil) // on another thread
	s.Call(0, s.Now+20, s.Now+600, "aclrtMalloc", testtrace.A(0x7ffe0000, 64, 0), testtrace.Outs("devPtr", devA))
	s.Now += 680
	launch()
	sync()
	tl := s.Load()
	idles := func(n int) []timeline.Idle {
		f := timeline.NewIdles(n)
		walk(t, tl, nil, &timeline.Visitor{Task: func(k *timeline.Task) error { f.Task(k); return nil }})
		got, err := f.Longest(tl.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := idles(10)
	if len(got) != 2 || got[0].To-got[0].From != 1010 || got[0].InCallsNS != 0 || got[0].Call != timeline.NoCall {
		t.Fatalf("%+v", got)
	}
	if d := got[1]; d.From != from || d.To != s.Now-20 || d.Func != "aclrtMalloc" || d.InCallNS != 580 || d.InCallsNS != 580 || d.Task.Issued != d.To {
		t.Errorf("%+v", d)
	}
	if got := idles(1); len(got) != 1 || got[0].From == from {
		t.Errorf("the longest: %+v", got)
	}
}
