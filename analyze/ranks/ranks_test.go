package ranks

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/internal/testenv"
)

// A job has a known truth. Each rank's clock begins at another time, differs from the wall clock by up to half a
// millisecond, and drifts.
type job struct {
	n         int
	steps     int
	slow      int     // this rank is late by another 2 ms
	drift     float64 // at most, nanoseconds per nanosecond
	boot, off []int64
	rate      []float64
	starts    [][]int64 // by step and rank, true time
}

const began = int64(1_790_000_000_000_000_000) // true time, since 1970

func newJob(n, steps int) *job {
	j := &job{n: n, steps: steps, slow: 3, drift: 2e-6}
	r := rand.New(rand.NewPCG(7, uint64(n)))
	for range n {
		j.boot = append(j.boot, began+r.Int64N(2e9))
		j.off = append(j.off, r.Int64N(1e6)-5e5)
		j.rate = append(j.rate, (2*r.Float64()-1)*j.drift)
	}
	at := began + int64(3e9)
	for range steps {
		at += 20e6
		s := make([]int64, n)
		for i := range s {
			s[i] = at + int64(r.ExpFloat64()*3e5)
			if i == j.slow {
				s[i] += 2e6
			}
		}
		j.starts = append(j.starts, s)
	}
	return j
}

// local converts a true time to rank i's clock, since its recording began.
func (j *job) local(i int, t int64) int64 {
	return t - j.boot[i] + int64(float64(t-j.boot[i])*j.rate[i])
}

const commHandle, stream, function = 0x7700, 0x5500, 0x6600

// write makes a rank's trace.
func (j *job) write(t *testing.T, dir string, i int, collectives bool) *format.Reader {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("%02d.aclt", i))
	w, err := format.Create(path, &format.Meta{Host: fmt.Sprintf("node%d", i), API: acl.Model.Name, Env: map[string]string{"RANK": fmt.Sprint(i)},
		StartWall: j.boot[i] + j.off[i], StartMono: 5, EndNS: j.local(i, j.starts[j.steps-1][0]+1e9)}, schema.Of(acl.Model), nil)
	check(t, err)
	_, err = w.Process(format.Process{PID: 1000 + i})
	check(t, err)
	_, err = w.Thread(format.Thread{TID: 1000 + i})
	check(t, err)
	call := func(name string, from, to int64, args []uint64, outs ...format.Out) {
		f := acl.Model.Lookup(name)
		_, err := w.Call(&format.Call{Func: uint16(f.ID), Start: j.local(i, from), End: j.local(i, to), Args: args, Outs: outs})
		check(t, err)
	}
	r := rand.New(rand.NewPCG(9, uint64(i)))
	first := j.starts[0][0] - 1e9
	call("aclrtCreateStream", first, first+1000, []uint64{1 << 20}, format.Out{Param: 0, Value: stream})
	call("HcclCommInitClusterInfo", first+2000, first+3000, []uint64{1 << 20, 0, 1 << 21}, format.Out{Param: 2, Value: commHandle})
	for k := range j.starts {
		start, last := j.starts[k][i], int64(0)
		for _, s := range j.starts[k] {
			last = max(last, s)
		}
		// The call encloses a launch that ends 8 to 18 us after the last rank has begun. The host notices up to 10 us
		// later.
		call("aclrtLaunchKernel", start+1000, start+2000, []uint64{function, 8, 1 << 40, 64, stream})
		if collectives {
			args := make([]uint64, acl.Model.Lookup("HcclAllReduce").Words)
			args[len(args)-2], args[len(args)-1] = commHandle, stream
			call("HcclAllReduce", start, start+3000, args)
		}
		call("aclrtSynchronizeStream", start+4000, max(last, start)+8000+r.Int64N(10_000)+r.Int64N(10_000), []uint64{stream})
	}
	check(t, w.Close())
	rd, err := format.Open(path, nil)
	check(t, err)
	t.Cleanup(func() { rd.Close() })
	return rd
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// worst merges the traces and returns a call's greatest time error relative to rank 0.
func (j *job) worst(t *testing.T, collectives bool) (int64, *format.Reader, *format.Meta) {
	t.Helper()
	dir := t.TempDir()
	var rs []*format.Reader
	for i := range j.n {
		rs = append(rs, j.write(t, dir, (i*7)%j.n, collectives)) // in any order
	}
	out := filepath.Join(t.TempDir(), "job.aclt")
	meta, err := Merge(out, rs, acl.Model, nil)
	check(t, err)
	r, err := format.Open(out, nil)
	check(t, err)
	t.Cleanup(func() { r.Close() })
	if len(r.Processes()) != j.n || len(meta.Merged) != j.n {
		t.Fatalf("%d processes, %d merged", len(r.Processes()), len(meta.Merged))
	}
	worst := int64(0)
	launch := uint16(acl.Model.Lookup("aclrtLaunchKernel").ID)
	seen := make([]int, j.n)
	var zero []int64 // rank 0's error by step
	for range j.starts {
		zero = append(zero, 0)
	}
	for pass := range 2 {
		clear(seen)
		for c, err := range r.Calls(&format.Filter{Funcs: []uint16{launch}, NoArgs: true, NoData: true}) {
			check(t, err)
			rank := r.Processes()[r.Threads()[c.Thread].Process].Rank
			k := seen[rank]
			seen[rank]++
			off := meta.StartWall + c.Start - (j.starts[k][rank] + 1000)
			switch {
			case pass == 0 && rank == 0:
				zero[k] = off
			case pass == 1:
				worst = max(worst, max(off-zero[k], zero[k]-off))
			}
		}
	}
	for i, n := range seen {
		if n != j.steps {
			t.Fatalf("rank %d has %d launches, want %d", i, n, j.steps)
		}
	}
	return worst, r, meta
}

func TestClocksOfManyRanksAreAligned(t *testing.T) {
	j := newJob(64, 1000)
	worst, r, meta := j.worst(t, true)
	t.Logf("64 ranks: off by at most %d ns; said: %d", worst, meta.Merged[1].ErrorNS)
	if worst > 20_000 {
		t.Errorf("a rank is off by %d ns", worst)
	}
	for _, p := range meta.Merged[1:] {
		if p.Matched != j.steps || p.ErrorNS == 0 || p.ErrorNS > 40_000 {
			t.Errorf("%+v", p)
		}
	}
	m, err := Compare(r, acl.Model, 5)
	check(t, err)
	if m == nil || m.Count != uint64(j.steps) || len(m.Ranks) != j.n || len(m.Longest) != 5 {
		t.Fatalf("%+v", m)
	}
	for _, s := range m.Ranks {
		if s.Met != uint64(j.steps) || s.Rank == j.slow && s.Last < uint64(j.steps)/2 || s.Rank != j.slow && s.Last > uint64(j.steps)/4 {
			t.Errorf("%+v", s)
		}
	}
}

// A rank that started a second late caused more waits than a rank that was late at every collective.
func TestLongestWaitIsApart(t *testing.T) {
	j := newJob(4, 30)
	for k := range j.starts[0] {
		j.starts[0][k] -= 1e9
	}
	j.starts[0][1] += 1e9
	_, r, _ := j.worst(t, true)
	m, err := Compare(r, acl.Model, 5)
	check(t, err)
	late, slow := m.Ranks[1], m.Ranks[j.slow]
	if late.Caused < slow.Caused || late.Longest < 2.9e9 || late.Caused-late.Longest > slow.Caused-slow.Longest {
		t.Errorf("%+v, %+v", late, slow)
	}
}

// holds checks the memory that `acltrace merge` takes for 64 ranks.
func holds(t *testing.T, collectives int, limit int64) {
	t.Helper()
	j, dir := newJob(64, collectives), t.TempDir()
	for i := range j.n {
		j.write(t, dir, i, true)
	}
	peak := testenv.Peak(t, testenv.Built(t, "bin/acltrace"), "merge", "-o", filepath.Join(t.TempDir(), "job.aclt"), dir)
	t.Logf("64 ranks, %d collectives: at most %d MiB", collectives, peak>>20)
	if peak > limit {
		t.Errorf("%d collectives: %d MiB, more than %d", collectives, peak>>20, limit>>20)
	}
}

// Merge keeps one chunk a rank, and only the times at each collective.
func TestMergeMemory(t *testing.T) { holds(t, 5_000, 144<<20) }

// TestSoakMerge merges a job of 4 million calls and checks the command's memory.
func TestSoakMerge(t *testing.T) {
	if os.Getenv("ACLTRACE_SOAK") == "" {
		t.Skip("takes a minute: make soak")
	}
	holds(t, 2_000, 192<<20)
	holds(t, 20_000, 192<<20)
	holds(t, 70_000, 320<<20) // more than a rank keeps
	j := newJob(64, 20_000)
	worst, _, meta := j.worst(t, true)
	t.Logf("64 ranks, %d collectives: off by at most %d ns; said: %d", j.steps, worst, meta.Merged[1].ErrorNS)
	if worst > 20_000 {
		t.Errorf("a rank is off by %d ns", worst)
	}
}

// A rank keeps no more collectives than its limit, on any number of communicators. Clocks are aligned by the collectives
// that all ranks keep.
func TestKeptCollectivesAreLimited(t *testing.T) {
	fn := acl.Model.Lookup("HcclAllReduce")
	long, short := newPart(64), newPart(64)
	for n := range 1000 {
		check(t, long.add(Key{"a", n}, &meeting{fn: fn, start: int64(n), done: int64(n) + 5}))
		if n < 100 {
			check(t, short.add(Key{"a", n}, &meeting{fn: fn, start: int64(n), done: unseen}))
		}
		check(t, short.add(Key{fmt.Sprint(n), 0}, &meeting{fn: fn, start: 1, done: 1 << 40}))
		if long.held > 64 || short.held > 64 {
			t.Fatalf("%d and %d are held", long.held, short.held)
		}
	}
	rows := matched([]*part{long, short})
	if len(rows) < 2 || long.stride == 1 {
		t.Fatalf("%d rows of %d and %d", len(rows), long.held, short.held)
	}
	for i, r := range rows {
		a, b := r.on(0), r.on(1)
		if a.start != int64(i*long.stride) || b.start != a.start {
			t.Errorf("row %d: %+v and %+v, stride %d", i, a, b, long.stride)
		}
		if done, ok := a.done(); !ok || done != a.start+5 {
			t.Errorf("row %d is done at %d, %v", i, done, ok)
		}
		if _, ok := b.done(); ok {
			t.Errorf("row %d: nothing shows its end", i)
		}
	}
}

// TestMergeByWall has only the wall clocks, with their error and drift.
func TestMergeByWall(t *testing.T) {
	worst, r, meta := newJob(4, 500).worst(t, false)
	if worst > 1_100_000 || worst < 50_000 {
		t.Errorf("off by %d ns", worst)
	}
	if meta.Merged[1].Matched != 0 || meta.Merged[1].ErrorNS != 0 {
		t.Errorf("%+v", meta.Merged)
	}
	if m, err := Compare(r, acl.Model, 5); m != nil || err != nil {
		t.Errorf("%+v, %v", m, err)
	}
}

// The merged trace ends as the first rank that did not succeed.
func TestMergeEnds(t *testing.T) {
	for want, ends := range map[string][]format.Meta{
		"":                              {{}, {}},
		"rank 1 with exit code 3":       {{}, {ExitCode: 3}, {ExitCode: 137, ExitSignal: 9}},
		"rank 1 was killed by signal 9": {{}, {ExitCode: 137, ExitSignal: 9}, {ExitCode: 1}},
		"rank 0: not seen":              {{Ended: "not seen"}, {ExitCode: 1}},
	} {
		var m format.Meta
		for i := range ends {
			ended(&m, &ends[i], i)
		}
		if m.Ended != want || (m.ExitCode == 0) != (want == "") {
			t.Errorf("%q, code %d, want %q", m.Ended, m.ExitCode, want)
		}
	}
}

// The merged trace says what the traces of the ranks lack: calls after a cut, and calls outside a rank's window.
func TestMergeLacks(t *testing.T) {
	j, dir := newJob(2, 10), t.TempDir()
	whole := j.write(t, dir, 0, true)
	path := j.write(t, dir, 1, true).Path()
	st, err := os.Stat(path)
	check(t, err)
	check(t, os.Truncate(path, st.Size()-1)) // the end of the index
	cut, err := format.Open(path, nil)
	check(t, err)
	defer cut.Close()
	out := filepath.Join(dir, "merged.aclt")
	_, err = Merge(out, []*format.Reader{whole, cut}, acl.Model, nil)
	check(t, err)
	r, err := format.Open(out, nil)
	check(t, err)
	defer r.Close()
	if c := r.Completeness(); !strings.HasPrefix(c.Cut, "rank 1: ") || c.Window != format.WindowWhole {
		t.Errorf("%+v", c)
	}
	m := format.Meta{}
	m.Window = format.WindowWhole
	lacks(&m, &format.Completeness{Window: format.WindowWhole}, 0)
	lacks(&m, &format.Completeness{Window: format.WindowRing, Cut: "killed"}, 1)
	lacks(&m, &format.Completeness{Window: format.WindowSteps, Cut: "full"}, 2)
	if m.Window != format.WindowRing || m.Recovered != "rank 1: killed" {
		t.Errorf("%+v", m)
	}
}

func TestMergeRefuses(t *testing.T) {
	j := newJob(2, 10)
	a := j.write(t, t.TempDir(), 1, true)
	b := j.write(t, t.TempDir(), 1, true)
	out := filepath.Join(t.TempDir(), "x.aclt")
	if _, err := Merge(out, []*format.Reader{a, b}, acl.Model, nil); err == nil || !strings.Contains(err.Error(), "both of rank 1") {
		t.Errorf("%v", err)
	}
	if _, err := Files([]string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), ".aclt") {
		t.Errorf("%v", err)
	}
}
