package format

import (
	"bytes"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A source that can't be read is an error, which names the source.
func TestUnreadableSourceIsAnError(t *testing.T) {
	path, _ := smallTrace(t)
	r, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Create(filepath.Join(t.TempDir(), "out.aclt"), r.Meta(), r.Schema(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	if err := NewAppender(w).Append(&Source{Reader: r}); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
		t.Error(err)
	}
}

// Traces are appended to one: a trace by itself is then the same, a part of it has the calls that were kept with
// their data, and two appended at once are ordered by their calls' ends.
func TestAppendedTracesKeepTheirData(t *testing.T) {
	path, calls := smallTrace(t)
	to := func(name string, sources func(a *Appender) error) *Reader {
		r := open(t, path)
		out := filepath.Join(t.TempDir(), name)
		w, err := Create(out, r.Meta(), r.Schema(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := sources(NewAppender(w)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, out)
	}
	r := open(t, path)
	whole := to("whole.aclt", func(a *Appender) error { return a.Append(&Source{Reader: r}) })
	equal(t, collect(t, whole, &Filter{NoData: true}), collect(t, r, &Filter{NoData: true}))
	data, copied := allData(t, r), allData(t, whole)
	for i := range uint64(len(calls)) {
		now, old := copied[i], data[i]
		if !slices.EqualFunc(now, old, func(a, b Data) bool {
			a.Blob, b.Blob = 0, 0
			return reflect.DeepEqual(a, b)
		}) {
			t.Fatalf("call %d has data %+v, want %+v", i, now, old)
		}
		for k := range now {
			if now[k].Blob == 0 {
				continue
			}
			a, err := whole.Blob(now[k].Blob)
			b, err2 := r.Blob(old[k].Blob)
			if !bytes.Equal(a, b) || (err == nil) != (err2 == nil) {
				t.Fatalf("call %d: payload of %d bytes (%v), want %d (%v)", i, len(a), err, len(b), err2)
			}
		}
	}
	if len(whole.Threads()) != len(r.Threads()) || len(whole.Processes()) != len(r.Processes()) || len(whole.Gaps()) != len(r.Gaps()) {
		t.Errorf("threads %v, processes %v, gaps %v", whole.Threads(), whole.Processes(), whole.Gaps())
	}

	odd := func(c *Call) bool { return c.Index%2 == 1 }
	half := to("half.aclt", func(a *Appender) error { return a.Append(&Source{Reader: r, Keep: odd}) })
	want := 0
	for i := range calls {
		if i%2 == 1 {
			want++
		}
	}
	copied = allData(t, half)
	for c, err := range half.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		was, err := r.Call(2*c.Index + 1)
		if err != nil {
			t.Fatal(err)
		}
		now, old := copied[c.Index], data[was.Index]
		if c.Start != was.Start || c.Func != was.Func || c.Thread != was.Thread || len(now) != len(old) {
			t.Fatalf("call %d is %+v with %d data, want %+v with %d", c.Index, c, len(now), was, len(old))
		}
		want--
	}
	if want != 0 {
		t.Errorf("%d calls are missing", want)
	}

	const shift = 12345
	other := open(t, path)
	both := to("both.aclt", func(a *Appender) error {
		return a.Append(&Source{Reader: r}, &Source{Reader: other, Time: func(t int64) int64 { return t + shift }, Row: func(p Process) Process { p.Rank = 1; return p }})
	})
	// Each keeps its own order, and neither waits for the other longer than it has to.
	one, two := collect(t, r, &Filter{NoData: true}), collect(t, other, &Filter{NoData: true})
	n := 0
	for c, err := range both.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if len(two) == 0 || len(one) > 0 && one[0].End <= two[0].End+shift {
			if c.End != one[0].End || c.Func != one[0].Func {
				t.Fatalf("call %d is %+v, want %+v", c.Index, c, one[0])
			}
			one = one[1:]
			continue
		}
		if c.End != two[0].End+shift || c.Start != two[0].Start+shift || c.Func != two[0].Func {
			t.Fatalf("call %d is %+v, want %+v and %d", c.Index, c, two[0], shift)
		}
		two = two[1:]
	}
	if n != 2*len(calls) || len(both.Threads()) != 2*len(r.Threads()) || both.Processes()[len(r.Processes())].Rank != 1 {
		t.Errorf("%d calls, threads %v, processes %v", n, both.Threads(), both.Processes())
	}
	a, err := r.BlobStats()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := both.BlobStats(); err != nil || a.Blobs != b.Blobs || a.Bytes != b.Bytes {
		t.Errorf("payloads %+v, %v, want those of one: %+v", b, err, a)
	}
}

// TestAppendProcesses divides a trace of two processes, which the parts of both together equal.
func TestAppendProcesses(t *testing.T) {
	path, calls := smallTrace(t)
	build := func(name string, sources ...*Source) *Reader {
		t.Helper()
		out := filepath.Join(t.TempDir(), name)
		w, err := Create(out, sources[0].Reader.Meta(), sources[0].Reader.Schema(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := NewAppender(w).Append(sources...); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return open(t, out)
	}
	one, two := open(t, path), open(t, path)
	rank := func(n int) func(Process) Process {
		return func(p Process) Process { p.Rank, p.Start = n, p.Start+int64(n); return p }
	}
	both := build("both.aclt", &Source{Reader: one, Row: rank(1)}, &Source{Reader: two, Row: rank(2), Time: func(t int64) int64 { return t + 7 }})
	for n, shift := range []int64{0, 7} {
		of := func(p uint32) bool { return both.Processes()[p].Rank == n+1 }
		part := build("part.aclt", &Source{Reader: both, Of: of})
		now, old := allData(t, part), allData(t, one)
		i := 0
		for c, err := range part.Calls(nil) {
			if err != nil {
				t.Fatal(err)
			}
			was, err := one.Call(uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			if c.Start != was.Start+shift || c.Func != was.Func || !slices.Equal(c.Args, was.Args) || len(now[c.Index]) != len(old[was.Index]) {
				t.Fatalf("rank %d: call %d is %+v, want %+v", n+1, i, c, was)
			}
			i++
		}
		if i != len(calls) || len(part.Threads()) != len(one.Threads()) || len(part.Processes()) != len(one.Processes()) || part.Processes()[0].Rank != n+1 {
			t.Errorf("rank %d: %d calls, threads %v, processes %v", n+1, i, part.Threads(), part.Processes())
		}
		// Gaps in all threads are in every part, others in that of their thread.
		all := 0
		for _, g := range both.Gaps() {
			if g.Thread == NoThread {
				all++
			}
		}
		if want := len(one.Gaps()) + all/2; len(part.Gaps()) != want {
			t.Errorf("rank %d: gaps %v of %v, want %d", n+1, part.Gaps(), both.Gaps(), want)
		}
	}
}
