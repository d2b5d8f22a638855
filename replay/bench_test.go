package replay

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/record"
)

// BenchmarkPlayer is the time from one call to the next of a library whose functions do nothing: what the player adds to
// calling them directly, and what planning costs.
func BenchmarkPlayer(b *testing.B) {
	library(b)
	source := filepath.Join(b.TempDir(), "nothing.c")
	text := "int aclrtSetDevice(int d) { return d; }\nint aclrtMemset(void *p, unsigned long m, int v, unsigned long n) { return p == 0 || m < n || v; }\n" +
		"int aclrtMalloc(void **p, unsigned long n, int policy) { *p = (void *)n; return policy; }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	backend := compile(b, filepath.Join(b.TempDir(), "libnothing.so"), "-fPIC", "-shared", source)
	const calls = 1_000_000
	path := filepath.Join(b.TempDir(), "t.aclt")
	w, err := format.Create(path, &format.Meta{}, record.Schema(acl.Model), nil)
	if err != nil {
		b.Fatal(err)
	}
	_, _ = w.Process(format.Process{PID: 1})
	_, _ = w.Thread(format.Thread{TID: 1})
	for i := range int64(calls) {
		c := format.Call{Func: uint16(acl.FnMemset), Start: 20 * i, End: 20*i + 10, Args: []uint64{dev + uint64(i)%512, 512, 0, 1}}
		if i == 0 {
			c = format.Call{Func: uint16(acl.FnMalloc), End: 10, Args: []uint64{page, 4096, 0}, Outs: []format.Out{{Param: 0, Value: dev}}}
		}
		if _, err := w.Call(&c); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	best, played := int64(math.MaxInt64), int64(0)
	for b.Loop() {
		r, err := Run(context.Background(), path, acl.Model, &Options{Backend: backend, Verify: true})
		if err != nil || r.Replayed != calls || len(r.Differences) > 0 {
			b.Fatalf("%v, %+v", err, r)
		}
		played += r.ReplayedNS
		best = min(best, r.ReplayedNS)
	}
	b.ReportMetric(float64(best)/calls, "ns/call")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds()-played)/float64(b.N)/calls, "ns/call-planned")
}
