package replay

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/internal/schema"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
)

// BenchmarkPlayer measures the time between calls of a library whose functions do nothing, beside direct calls
// in the same run and one read of the player's clock. It reports medians over stretches of 10,000 calls, because other work on the
// machine interrupts few of them. It also measures planning.
func BenchmarkPlayer(b *testing.B) {
	b.Run("one thread", func(b *testing.B) { benchmarkPlayer(b, 1) })
	b.Run("beside another", func(b *testing.B) { benchmarkPlayer(b, 2) })
}

// With threads 2, a second thread makes a call that is older than all calls of the first one.
func benchmarkPlayer(b *testing.B, threads int) {
	library(b)
	dir := b.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		return path
	}
	lib := buildC(b, filepath.Join(dir, "libnothing.so"), "-fPIC", "-shared", write("nothing.c",
		"int aclrtMemset(void *p, unsigned long m, int v, unsigned long n) { return p == 0 || m < n || v; }\n"+
			"int aclrtSynchronizeDevice(void) { return 0; }\n"+
			"int aclrtMalloc(void **p, unsigned long n, int policy) { *p = (void *)n; return policy; }\n"))
	direct := buildC(b, filepath.Join(dir, "direct"), "testdata/direct.c", "-ldl")
	const calls, stretch = 1_000_000, 10_000
	path := filepath.Join(dir, "t.aclt")
	w, err := format.Create(path, &format.Meta{}, schema.Of(acl.Model), nil)
	if err != nil {
		b.Fatal(err)
	}
	_, _ = w.Process(format.Process{PID: 1})
	for i := range threads {
		_, _ = w.Thread(format.Thread{TID: 1 + i})
	}
	if threads > 1 {
		if _, err := w.Call(&format.Call{Func: uint16(acl.FnSynchronizeDevice), Thread: 1, End: 20 * calls}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range int64(calls) {
		c := format.Call{Func: uint16(acl.FnMemset), Start: 20 * i, End: 20*i + 10, Args: []uint64{dev + uint64(i)%512, 512, 0, 1}}
		switch {
		case i == 0:
			c = format.Call{Func: uint16(acl.FnMalloc), End: 10, Args: []uint64{page, 4096, 0}, Outs: []format.Out{{Param: 0, Value: dev}}}
		case i%stretch == 0: // the player reads its clock
			c = format.Call{Func: uint16(acl.FnSynchronizeDevice), Start: 20 * i, End: 20*i + 10}
		}
		if _, err := w.Call(&c); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	o, r, err := begin(path, acl.Model, &Options{Backend: lib, Verify: true})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	start := time.Now()
	p, err := compile.Trace(r, acl.Model, dir, o.forCompiler(acl.Model))
	if err != nil {
		b.Fatal(err)
	}
	planned := time.Since(start)
	s := &session{p: &judge{p, o, backend.New(o.Backend, acl.Model)}, o: o, dir: dir, meta: r.Meta()}
	var played, call, clock []float64
	for b.Loop() {
		out, err := s.play(context.Background(), 0)
		if err != nil || out.crash != nil {
			b.Fatalf("%v, %+v", err, out)
		}
		h := out.header
		ns := float64(h.NS[1]-h.NS[0]) / float64(h.Counter[1]-h.Counter[0])
		for i := 2 * stretch; i < calls; i += stretch {
			if out.insts[i].Flags != plan.ResultDone {
				b.Fatalf("call %d: %+v", i, out.insts[i])
			}
			played = append(played, float64(out.insts[i].Start-out.insts[i-stretch].Start)*ns/stretch)
		}
		text, err := exec.Command(direct, lib).Output()
		if err != nil {
			b.Fatal(err)
		}
		var x, y float64
		if _, err := fmt.Sscan(string(text), &x, &y); err != nil {
			b.Fatal(err)
		}
		call, clock = append(call, x), append(clock, y)
	}
	b.ReportMetric(median(played), "ns/call")
	b.ReportMetric(median(call), "ns/direct-call")
	b.ReportMetric(median(clock), "ns/clock-read")
	b.ReportMetric(median(played)-median(call), "ns/over-direct")
	b.ReportMetric(float64(planned.Nanoseconds())/calls, "ns/call-planned")
}

func median(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }
