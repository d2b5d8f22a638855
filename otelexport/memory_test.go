package otelexport

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/stream"
	"github.com/acltrace/acltrace/record"
)

// decoding writes a trace of so many calls, as a language model makes them, and opens it.
func decoding(tb testing.TB, calls int) *format.Reader {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "run.aclt")
	schema := record.Schema(acl.Model)
	w, err := format.Create(path, &format.Meta{UUID: "5a1e0c9d-7b34-4f6e-9d21-0123456789ab", API: acl.Model.Name, EndNS: 1}, schema, nil)
	if err != nil {
		tb.Fatal(err)
	}
	p, err := w.Process(format.Process{PID: 7, Exe: "/bin/decode"})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := w.Thread(format.Thread{Process: p, TID: 7}); err != nil {
		tb.Fatal(err)
	}
	s := stream.New(schema)
	var c format.Call
	for range calls {
		s.Next(&c)
		if _, err := w.Call(&c); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	r, err := format.Open(path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close() })
	return r
}

// What an export holds does not grow with the trace.
func TestMemory(t *testing.T) {
	sizes := []int{100_000, 500_000}
	if os.Getenv("ACLTRACE_SOAK") != "" {
		sizes = append(sizes, 100_000_000)
	}
	held := func(calls int) (most uint64) {
		x, err := newExporter(decoding(t, calls), acl.Model, nil)
		if err != nil {
			t.Fatal(err)
		}
		every := max(calls/100_000, 2)
		if err := x.run(func(b *batch) (*batch, error) {
			if b.number%every == 0 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
			b.reset()
			return b, nil
		}); err != nil {
			t.Fatal(err)
		}
		if x.res.Traces < calls/1000 {
			t.Errorf("%d traces of %d calls", x.res.Traces, calls)
		}
		t.Logf("%s calls: %.1f MB held at most, %d traces", strconv.Itoa(calls), float64(most)/1e6, x.res.Traces)
		return most
	}
	first := held(sizes[0])
	for _, n := range sizes[1:] {
		if m := held(n); m > first+16<<20 {
			t.Errorf("an export of %d calls holds %d bytes, one of %d held %d", n, m, sizes[0], first)
		}
	}
}
