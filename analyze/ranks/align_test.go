package ranks

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// A clock's correction lies between those of the windows before and after, and is constant beyond the first and the last.
func TestCorrectionIsInterpolated(t *testing.T) {
	for _, c := range []struct {
		knots []knot
		want  map[int64]int64
	}{
		{nil, map[int64]int64{-5: 95, 0: 100, 70: 170}},
		{[]knot{{10, 7}}, map[int64]int64{-5: 102, 10: 117, 70: 177}},
		{[]knot{{10, 0}, {20, 100}, {40, -100}}, map[int64]int64{9: 109, 10: 110, 11: 121, 15: 165, 20: 220, 25: 175, 30: 130, 40: 40, 41: 41}},
	} {
		k := clock{shift: 100, knots: c.knots}
		for at, want := range c.want {
			if got := k.time(at); got != want {
				t.Errorf("%v: time %d is %d, want %d", c.knots, at, got, want)
			}
		}
	}
}

// meet is a collective of all ranks: the beginning on each, and how long it took, unknown if that is negative.
type meet struct{ starts, took []int64 }

func partsOf(meets []meet) []*part {
	parts := make([]*part, len(meets[0].starts))
	fn := acl.Model.Lookup("HcclAllReduce")
	for i := range parts {
		parts[i] = newPart(1 << 20)
		for n, m := range meets {
			done := int64(unseen)
			if m.took[i] >= 0 {
				done = m.starts[i] + m.took[i]
			}
			_ = parts[i].add(Key{"c", n}, &meeting{fn: fn, start: m.starts[i], done: done})
		}
	}
	return parts
}

// No rank ends a collective before each has begun it. These bounds alone place the clocks if ends don't coincide.
func TestBoundsPlaceTheClocks(t *testing.T) {
	for _, c := range []struct {
		name   string
		meets  []meet
		lo, hi []int64
	}{
		{"two ranks", []meet{{[]int64{100, 110}, []int64{50, 30}}}, []int64{0, -40}, []int64{0, 40}},
		{"the tightest of three", []meet{{[]int64{100, 110}, []int64{50, 30}}, {[]int64{200, 195}, []int64{30, 20}}, {[]int64{300, 310}, []int64{40, 40}}}, []int64{0, -15}, []int64{0, 30}},
		{"an unknown end", []meet{{[]int64{100, 110}, []int64{-1, 30}}}, []int64{0, -40}, []int64{0, unbounded}},
		{"another unknown end", []meet{{[]int64{100, 110}, []int64{50, -1}}}, []int64{0, -unbounded}, []int64{0, 40}},
		{"over a third rank", []meet{{[]int64{100, 110, 100}, []int64{-1, 2, -1}}, {[]int64{300, 300, 200}, []int64{5, -1, 103}}}, []int64{0, -12, -3}, []int64{0, 5, 17}},
	} {
		shifts := make([]int64, len(c.meets[0].starts))
		lo, hi := bounds(matched(partsOf(c.meets)), shifts)
		if !slices.Equal(lo, c.lo) || !slices.Equal(hi, c.hi) {
			t.Errorf("%s: from %d to %d, want from %d to %d", c.name, lo, hi, c.lo, c.hi)
		}
		for i := range shifts { // a correction is besides the shift
			shifts[i] = int64(1000 * i)
		}
		lo, hi = bounds(matched(partsOf(c.meets)), shifts)
		for i := 1; i < len(lo); i++ {
			if c.hi[i] != unbounded && hi[i] != c.hi[i]-shifts[i] || c.lo[i] != -unbounded && lo[i] != c.lo[i]-shifts[i] {
				t.Errorf("%s: with shifts from %d to %d", c.name, lo, hi)
			}
		}
	}
	// With many ranks only the pairs with rank 0 count.
	many := meet{make([]int64, mostPaths+1), slices.Repeat([]int64{10}, mostPaths+1)}
	other := meet{make([]int64, mostPaths+1), slices.Repeat([]int64{10}, mostPaths+1)}
	for i := range many.starts {
		many.starts[i], other.starts[i] = 100, 200
	}
	other.starts[1], other.starts[2], other.took[0] = 195, 205, -1
	lo, hi := bounds(matched(partsOf([]meet{many, other})), make([]int64, mostPaths+1))
	if lo[1] != -5 || hi[1] != 10 || lo[2] != -10 || hi[2] != 10 {
		t.Errorf("from %d to %d", lo[:3], hi[:3])
	}
}

// If enough ends are known, and they vary less than the bounds, they count as simultaneous.
func TestCloseEndsAreSimultaneous(t *testing.T) {
	for _, c := range []struct {
		apart       []int64 // the ends on rank 1 before those on rank 0
		add, spread int64
	}{
		{[]int64{1, 2, 3, 4, 5, 6, 7}, 0, unbounded},
		{[]int64{8, 1, 7, 2, 6, 3, 5, 4}, 5, 4},
		{[]int64{9, 9, 9, 9, 9, 9, 9, 9, 100}, 9, 0},
	} {
		var meets []meet
		for i, apart := range c.apart {
			at := int64(1000 * (i + 1))
			meets = append(meets, meet{[]int64{at, at + 20}, []int64{200, 180 - apart}})
		}
		meets = append(meets, meet{[]int64{1e5, 1e5}, []int64{200, -1}}, meet{[]int64{2e5, 2e5}, []int64{-1, 200}})
		add, spread := together(matched(partsOf(meets)), []int64{0, 0}, 1)
		if add != c.add || spread != c.spread {
			t.Errorf("%d: %d, spread %d, want %d and %d", c.apart, add, spread, c.add, c.spread)
		}
		if add, _ := together(matched(partsOf(meets)), []int64{70, 50}, 1); c.spread != unbounded && add != c.add+20 {
			t.Errorf("%d: %d with shifts", c.apart, add)
		}
	}
}

// Each window of ten seconds has a correction of its own, in its middle.
func TestEachWindowHasACorrection(t *testing.T) {
	var meets []meet
	for i := range int64(20) {
		at := int64(1e9) * (i + 1)
		lead := int64(1000) // of rank 1's clock
		if at >= window {
			lead = 3000
		}
		meets = append(meets, meet{[]int64{at, at + lead, at}, []int64{500, 500, -1}})
	}
	clocks := align(partsOf(meets), []int64{0, 50, 7})
	c := clocks[1]
	// Windows begin at 0, 10 and 20 s, with 9, 10 and 1 collectives. One alone is too few for a median: its correction is the middle of the bounds.
	want := []knot{{5e9 - 50 + 1050, -1050}, {14.5e9 - 50 + 3050, -3050}, {20e9 - 50 + 3050, -3050}}
	if !slices.EqualFunc(c.knots, want, func(a, b knot) bool { return a.add == b.add && max(a.at-b.at, b.at-a.at) < 10 }) || c.matched != 20 || c.err != 500 || c.shift != 50 {
		t.Errorf("%+v, want the knots %v", c, want)
	}
	if c := clocks[0]; c.knots != nil || c.matched != 0 || c.err != 0 {
		t.Errorf("rank 0: %+v", c)
	}
	// Nothing bounds a rank whose ends are unknown from below.
	if c := clocks[2]; c.knots != nil || c.matched != 0 || c.err != 0 || c.shift != 7 {
		t.Errorf("a rank without ends: %+v", c)
	}
	// Bounds may leave one correction, or none: clocks that drift within a window contradict each other.
	exact := []meet{{[]int64{100, 110}, []int64{0, 0}}}
	if c := align(partsOf(exact), []int64{0, 0})[1]; !slices.Equal(c.knots, []knot{{110, -10}}) || c.matched != 1 || c.err != 0 {
		t.Errorf("exact bounds: %+v", c)
	}
	for name, meets := range map[string][]meet{
		"contradiction": append(exact, meet{[]int64{200, 230}, []int64{0, 0}}), "an end of rank 0 is unknown": {{[]int64{100, 110}, []int64{-1, 0}}},
	} {
		if c := align(partsOf(meets), []int64{0, 0})[1]; c.knots != nil || c.matched != 0 || c.err != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	// Ends that are apart by more than the bounds allow count as far as these go.
	meets = nil
	for i := range int64(9) {
		at := 1000 * (i + 1)
		meets = append(meets, meet{[]int64{at, at}, []int64{500, 100}})
	}
	if c := align(partsOf(meets), []int64{0, 0})[1]; len(c.knots) != 1 || c.knots[0].add != 400 || c.err != 0 {
		t.Errorf("%+v", c)
	}
	for i := range meets {
		meets[i].starts[1] -= 450
		meets[i].took[1] = 10
	}
	if c := align(partsOf(meets), []int64{0, 0})[1]; len(c.knots) != 1 || c.knots[0].add < 440 || c.knots[0].add > 950 {
		t.Errorf("%+v", c)
	}
}

// Only collectives that all ranks have count: of one function, with one number.
func TestCollectivesOfAllRanksAreMatched(t *testing.T) {
	parts := partsOf([]meet{{[]int64{30, 31}, []int64{1, 1}}, {[]int64{20, 21}, []int64{1, 1}}, {[]int64{10, 11}, []int64{1, 1}}})
	other := acl.Model.Lookup("HcclBroadcast")
	add := func(rank int, comm string, n int, start int64) {
		_ = parts[rank].add(Key{comm, n}, &meeting{fn: other, start: start, done: start + 1<<33})
	}
	add(0, "c", 3, 40)
	add(0, "other", 0, 50)
	add(0, "gap", 1, 60)
	add(1, "gap", 0, 60)
	add(1, "gap", 1, 61)
	add(1, "more", 0, 1)
	add(1, "c", 1, 22) // another function
	var got []string
	for _, r := range matched(parts) {
		_, ok := r.on(0).done()
		got = append(got, fmt.Sprint(r.on(0).start, r.on(1).start, ok))
	}
	if want := []string{"10 11 true", "30 31 true", "60 61 false"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Each rank's waits are summed up, and the longest are kept in order. A collective that some ranks lack counts for the others.
func TestWaitsOfEachRankAreSummed(t *testing.T) {
	g := gatherer{ranks: map[int]*Standing{}, open: map[Key]*gathered{}, of: []format.Process{{Rank: 2}, {Rank: 0}, {Rank: 5}}, all: 3, longest: 2}
	fn := acl.Model.Lookup("HcclAllReduce")
	arrive := func(n int, at ...int64) {
		for p, start := range at {
			if start > 0 {
				_ = g.add(Key{"c", n}, &meeting{fn: fn, process: uint32(p), start: start})
			}
		}
	}
	arrive(0, 10, 30, 20)
	arrive(1, 100, 101, 0)
	arrive(2, 250, 200, 210)
	arrive(3, 300, 300, 300)
	arrive(4, 400, 0, 0)
	if len(g.order) != 2 || len(g.open) != 2 {
		t.Errorf("%d collectives are open", len(g.order))
	}
	for len(g.order) > 0 {
		g.close(g.order[0])
	}
	want := map[int]Standing{
		2: {Rank: 2, Met: 4, Last: 1, Waited: 20 + 1, Caused: 50 + 40, Longest: 90},
		0: {Rank: 0, Met: 4, Last: 2, Waited: 50, Caused: 30 + 1, Longest: 30},
		5: {Rank: 5, Met: 3, Last: 1, Waited: 10 + 40, Caused: 0},
	}
	for rank, want := range want {
		if got := *g.ranks[rank]; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	longest := []Wait{{Key: Key{"c", 2}, Func: "HcclAllReduce", Start: 200, Spread: 50, Straggler: 2}, {Key: Key{"c", 0}, Func: "HcclAllReduce", Start: 10, Spread: 20, Straggler: 0}}
	if !reflect.DeepEqual(g.out.Longest, longest) || g.out.Count != 4 {
		t.Errorf("%d collectives, the longest %+v", g.out.Count, g.out.Longest)
	}
	// The oldest one is closed if too many are open.
	for n := range mostOpen + 1 {
		arrive(10+n, 1, 2, 0)
	}
	if len(g.open) != mostOpen || len(g.order) != mostOpen || g.order[0].N != 11 || g.out.Count != 5 {
		t.Errorf("%d are open from %d on, %d are closed", len(g.open), g.order[0].N, g.out.Count)
	}
	g.longest = 0
	g.close(g.order[0])
	if len(g.out.Longest) != 2 || g.out.Count != 6 {
		t.Error("a wait was kept")
	}
}

// A collective's end is known when its call has returned and all its tasks have ended. It is emitted once.
func TestCollectiveEndsWithItsTasks(t *testing.T) {
	for _, c := range []struct {
		name string
		h    pending
		want []meeting
	}{
		{"running", pending{meeting: meeting{done: 5}}, nil},
		{"with a task", pending{meeting: meeting{done: 5}, closed: true, left: 1}, nil},
		{"done", pending{meeting: meeting{done: 5}, closed: true}, []meeting{{done: 5}}},
		{"without a task", pending{closed: true}, []meeting{{done: unseen}}},
		{"with an end that is unknown", pending{meeting: meeting{done: 5}, open: true, closed: true}, []meeting{{done: unseen}}},
	} {
		var got []meeting
		l := &walker{emit: func(k Key, m *meeting) error {
			if k != (Key{"#3", 0}) {
				t.Errorf("%+v", k)
			}
			got = append(got, *m)
			return nil
		}}
		c.h.comm = &comm{number: "#3"}
		c.h.comm.o = &timeline.Object{}
		for range 2 {
			check(t, l.finish(&c.h))
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// thin keeps every second collective, so that equal strides on all ranks keep the same ones.
func TestEverySecondCollectiveIsKept(t *testing.T) {
	fn := acl.Model.Lookup("HcclAllReduce")
	p := newPart(8)
	for n := range 20 {
		check(t, p.add(Key{"c", n}, &meeting{fn: fn, start: int64(n), done: int64(n)}))
	}
	var starts []int64
	for _, m := range p.kept["c"] {
		starts = append(starts, m.start)
	}
	if !slices.Equal(starts, []int64{0, 4, 8, 12, 16}) || p.stride != 4 || p.held != 5 {
		t.Errorf("%d of %d with stride %d", starts, p.held, p.stride)
	}
	for i := range 9 { // there is room for as many communicators as half of the moments
		check(t, p.add(Key{fmt.Sprint(i), 0}, &meeting{fn: fn}))
	}
	if len(p.kept) != 4 || p.held > 8 {
		t.Errorf("%d communicators, %d moments", len(p.kept), p.held)
	}
}

// Files names each file, and those in folders that are traces.
func TestFoldersGiveTheirTraces(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.aclt", "a.aclt", "c.txt"} {
		check(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	got, err := Files([]string{at("c.txt"), dir})
	if check(t, err); !slices.Equal(got, []string{at("c.txt"), at("a.aclt"), at("b.aclt")}) {
		t.Errorf("%q", got)
	}
	for _, name := range []string{at("missing"), t.TempDir()} {
		if got, err := Files([]string{dir, name}); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// One rank is not compared with itself, nor is one recording merged twice.
func TestRanksOfTraces(t *testing.T) {
	j := newJob(3, 3)
	dir := t.TempDir()
	var rs []*format.Reader
	for i := range 3 {
		rs = append(rs, j.write(t, dir, 2-i, true))
	}
	if got, err := number(rs); err != nil || !slices.Equal(got, []int{2, 1, 0}) {
		t.Errorf("%d, %v", got, err)
	}
	if m, err := Compare(rs[0], acl.Model, 5); m != nil || err != nil {
		t.Errorf("%+v, %v", m, err)
	}
	merged := filepath.Join(dir, "merged")
	meta, err := Merge(merged, rs, acl.Model, &MergeOptions{WallOnly: true, Progress: func(done, all int) {
		if done < 1 || done > all || all != 6 {
			t.Errorf("%d of %d", done, all)
		}
	}})
	check(t, err)
	for i, m := range meta.Merged {
		if m.Rank != i || m.Matched != 0 || m.ErrorNS != 0 || meta.StartWall+m.Shift != j.boot[i]+j.off[i] {
			t.Errorf("%+v, the merged trace begins at %d", m, meta.StartWall)
		}
	}
	end := int64(0)
	for _, r := range rs {
		end = max(end, r.Meta().StartWall+r.Meta().EndNS)
	}
	if meta.StartWall+meta.EndNS != end || meta.StartMono != 0 {
		t.Errorf("the merged trace ends at %d, want %d", meta.StartWall+meta.EndNS, end)
	}
	r, err := format.Open(merged, nil)
	check(t, err)
	defer r.Close()
	m, err := Compare(r, acl.Model, 1)
	check(t, err)
	if m == nil || m.Count != 3 || len(m.Ranks) != 3 || m.Ranks[0].Rank != 0 || m.Ranks[2].Rank != 2 || len(m.Longest) != 1 {
		t.Errorf("%+v", m)
	}
	for want, bad := range map[string][]*format.Reader{"has 3 ranks already": {rs[0], r}, "are one recording": {rs[0], rs[1], rs[0]}} {
		if _, err := number(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
