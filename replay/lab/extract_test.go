package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/replay/compile"
)

// randomTrace returns a trace of random tasks on two streams, with buffers that live for the whole trace or for some calls.
func randomTrace(t testing.TB, calls int) *format.Reader {
	b := testtrace.New(t)
	rnd := rand.New(rand.NewPCG(7, 1))
	at := int64(0)
	call := func(thread uint32, name string, args []uint64, mods ...testtrace.Mod) {
		at += 1000
		b.Call(thread, at, at+int64(rnd.IntN(3000)), name, args, mods...)
	}
	const page, function, buffer = 0x7ffe0000, 0x3000, 0x100000
	call(0, "aclInit", testtrace.A(0))
	call(0, "aclrtSetDevice", testtrace.A(0))
	call(1, "aclrtSetDevice", testtrace.A(0))
	call(0, "aclrtBinaryLoadFromFile", testtrace.A(page, 0, page), testtrace.Outs("binHandle", 0x2000))
	call(0, "aclrtBinaryGetFunction", testtrace.A(0x2000, page, page), testtrace.Text("kernelName", "k"), testtrace.Outs("funcHandle", function))
	for i := range uint64(2) {
		call(0, "aclrtCreateStream", testtrace.A(page), testtrace.Outs("stream", 0x100*(i+1)))
		call(0, "aclrtCreateEvent", testtrace.A(page), testtrace.Outs("event", 0x9000+i))
	}
	live := [12]bool{}
	address := func() uint64 {
		i := rnd.Uint64N(uint64(len(live)))
		if a := buffer + i*0x1000; !live[i] {
			call(0, "aclrtMalloc", testtrace.A(page, 256, 0), testtrace.Outs("devPtr", a))
			live[i] = true
		}
		return buffer + i*0x1000
	}
	for range calls {
		a, c, thread := address(), address(), rnd.Uint32N(2)
		s, e := 0x100*(1+rnd.Uint64N(2)), 0x9000+rnd.Uint64N(2)
		switch rnd.IntN(12) {
		case 0, 1:
			args := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, a), c)
			call(thread, "aclrtLaunchKernelWithHostArgs", testtrace.A(function, 1, s, 0, page, 16, 0, 0), func(f *api.Func, c *format.Call) {
				c.Data = append(c.Data, format.Data{Param: uint8(f.Param("hostArgs")), Len: 16, Bytes: args, Time: c.Start})
			})
		case 2:
			call(thread, "aclrtMemsetAsync", testtrace.A(a, 256, 1, 256, s))
		case 3:
			call(thread, "aclrtMemcpyAsync", testtrace.A(a, 128, c, 128, 3, s))
		case 4, 5:
			call(thread, "aclrtRecordEvent", testtrace.A(e, s))
		case 6, 7:
			call(thread, "aclrtStreamWaitEvent", testtrace.A(s, e))
		case 8:
			call(thread, "aclrtSynchronizeStream", testtrace.A(s))
		case 9:
			call(thread, "aclrtSetDevice", testtrace.A(0))
		case 10:
			if i := (a - buffer) / 0x1000; i > 3 {
				call(thread, "aclrtFree", testtrace.A(a))
				live[i] = false
			}
		case 11:
			call(thread, "aclrtSynchronizeEvent", testtrace.A(e))
		}
	}
	return b.Load().Reader
}

// A closure does not depend on the slabs that its passes skip.
func TestClosureSkipsSlabs(t *testing.T) {
	r := randomTrace(t, 600)
	launches, sizes := 0, map[int]bool{}
	for c, err := range r.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if f := acl.Model.Func(api.ID(c.Func)); f.Task != api.Kernel {
			continue
		}
		launches++
		var keep bits
		for _, size := range []int{slabSize, 1, 100} {
			x := &extractor{r: r, m: acl.Model, slab: size}
			if err := errors.Join(x.launchable(c.Index), x.close(context.Background())); err != nil && !errors.Is(err, compile.ErrMissing) {
				t.Fatal(err)
			}
			if keep == nil {
				keep = x.keep
			} else if !slices.Equal(keep, x.keep) {
				t.Errorf("launch %d: slabs of %d bytes change the closure", c.Index, size)
			}
		}
		n := 0
		for i := range keep.last() + 1 {
			if keep.has(i) {
				n++
			}
		}
		sizes[n] = true
	}
	if launches < 50 || len(sizes) < 10 {
		t.Errorf("%d launches with closures of %d sizes", launches, len(sizes))
	}
}

// A launch for which the program never waited can't be extracted if the trace has no function that waits.
func TestExtractNeedsAWait(t *testing.T) {
	s := testtrace.NewSequence(t)
	s.Then("aclInit", testtrace.A(0))
	s.Then("aclrtSetDevice", testtrace.A(0))
	s.Malloc(testtrace.DeviceA, 64)
	s.Stream(testtrace.StreamA)
	binary := testenv.KernelBinary(0, nil, "k")
	s.Then("aclrtBinaryLoadFromData", testtrace.A(0x7ffe0000, uint64(len(binary)), 0, 0x7ffe0000), testtrace.Reads("data", 0, binary), testtrace.Outs("binHandle", 0x2000))
	s.Then("aclrtBinaryGetFunction", testtrace.A(0x2000, 0x7ffe0000, 0x7ffe0000), testtrace.Text("kernelName", "k"), testtrace.Outs("funcHandle", 0x3000))
	s.Then("aclrtMemsetAsync", testtrace.A(testtrace.DeviceA, 64, 0, 64, testtrace.StreamA))
	s.Then("aclrtLaunchKernel", testtrace.A(0x3000, 1, 0, 0, testtrace.StreamA))
	r := s.Load().Reader
	for _, waits := range []bool{true, false} {
		known := *r.Schema()
		if !waits {
			known.Functions = slices.DeleteFunc(slices.Clone(known.Functions), func(f format.Function) bool {
				return f.ID == uint16(acl.FnSynchronizeDevice) || f.ID == uint16(acl.FnSynchronizeStream)
			})
		}
		path, to := filepath.Join(t.TempDir(), "trace"), filepath.Join(t.TempDir(), "extract")
		w, err := format.Create(path, r.Meta(), &known, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.TablesOf(r); err != nil {
			t.Fatal(err)
		}
		for c, err := range r.CallsByStart(nil) {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Call(c.Clone()); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		e, err := Extract(context.Background(), path, acl.Model, 7, to, nil)
		_, left := os.Stat(to)
		if waits && (err != nil || e == nil || left != nil) || !waits && (!errors.Is(err, compile.ErrMissing) || !strings.Contains(err.Error(), "never waited for the launch") || left == nil) {
			t.Errorf("a wait is known: %v: %v, file: %v", waits, err, left)
		}
	}
}

// A journal returns the steps that were added, in both directions.
func TestStepsAreReturnedInBothDirections(t *testing.T) {
	j, err := newJournal(acl.Model, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	var want []step
	for i := range 100 {
		f := &acl.Model.Funcs[i*7%len(acl.Model.Funcs)]
		s := step{index: uint64(i * 3 % 101), start: int64(i) * timeUnit, end: int64(i) * timeUnit, fn: f, process: uint32(i % 2), thread: uint32(i % 5), is: stepOK, lane: i % 4, graph: i % 3, updated: i % 5,
			uses: []int{i, i * 300}, made: []int{2 * i}, areas: []area{{object: 2, root: 3, kind: 1, exact: true, lo: 5, hi: uint64(i + 5), all: i%2 == 0}}}
		if i%4 == 0 {
			s.is, s.end = s.is|stepWaits, s.end+int64(i)*timeUnit
		}
		if i%9 == 0 {
			s.is, s.flag = s.is|stepSignals, flag{i, uint64(i), 1 << 40}
		}
		j.add(&s)
		want = append(want, s)
	}
	none := func(*digest) bool { return false }
	for _, back := range []bool{false, true} {
		n := 0
		for s, err := range j.iterate(back, none) {
			if err != nil {
				t.Fatal(err)
			}
			w := want[n]
			if back {
				w = want[len(want)-1-n]
			}
			if s.index != w.index || s.start != w.start || s.end != w.end || s.fn != w.fn || s.is != w.is || s.lane != w.lane || s.flag != w.flag || s.thread != w.thread || s.graph != w.graph || s.updated != w.updated ||
				!slices.Equal(s.uses, w.uses) || !slices.Equal(s.made, w.made) || !slices.Equal(s.areas, w.areas) {
				t.Fatalf("step %d: %+v, %+v was added", n, s, w)
			}
			n++
		}
		if n != len(want) {
			t.Errorf("%d steps of %d", n, len(want))
		}
	}
}

// BenchmarkClosure finds the closure of the last launch of a trace.
func BenchmarkClosure(b *testing.B) {
	r := randomTrace(b, 300_000)
	counts, err := r.Counts()
	if err != nil {
		b.Fatal(err)
	}
	last := uint64(0)
	for c, err := range r.Calls(&format.Filter{Funcs: []uint16{uint16(acl.Model.Lookup("aclrtLaunchKernelWithHostArgs").ID)}, NoData: true}) {
		if err != nil {
			b.Fatal(err)
		}
		last = c.Index
	}
	for b.Loop() {
		x := &extractor{r: r, m: acl.Model}
		if err := errors.Join(x.launchable(last), x.close(context.Background())); err != nil && !errors.Is(err, compile.ErrMissing) {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(counts.Calls), "ns/call")
}
