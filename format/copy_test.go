package format

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/format/container"
	"github.com/google/go-cmp/cmp"
)

// A copy of a whole trace has the same calls, data and payloads, with any packing.
func TestCopyIsEqualWithAnyPacking(t *testing.T) {
	path, calls := smallTrace(t)
	for _, c := range []Compression{DefaultCompression, NoCompression, LZ4, Zstd} {
		r := open(t, path)
		to := filepath.Join(t.TempDir(), "to.aclt")
		rep, err := Copy(r, to, &CopyOptions{Compression: c})
		if err != nil {
			t.Fatal(err)
		}
		if rep.Calls != uint64(len(calls)) || rep.LostCalls != 0 || len(rep.Damage) != 0 {
			t.Fatalf("%+v", rep)
		}
		got := open(t, to)
		equal(t, collect(t, got, nil), collect(t, r, nil))
		same(t, got, r)
		if check, err := Check(to, nil); err != nil || len(check.Problems) != 0 || !check.Complete {
			t.Fatalf("%+v, %v", check, err)
		}
		for a, b := range both(got, r) {
			a.seq, b.seq, a.TMax = 0, 0, b.TMax
			if !slices.Equal(a.Funcs, b.Funcs) || !slices.Equal(a.Threads, b.Threads) || a.First != b.First || a.late != b.late || a.rows != b.rows {
				t.Errorf("index %+v, want %+v", a, b)
			}
		}
	}
}

// A trace that was flushed often is the same when its small chunks have been joined: every call, all of its data and
// every payload, in every way to read them.
func TestJoinedChunksReadTheSame(t *testing.T) {
	for seed := range uint64(6) {
		r := newRandom(seed)
		path := tempFile(t)
		w := create(t, path, nil)
		payloads := 0
		for i := range 4000 {
			c := r.call()
			if r.IntN(60) == 0 {
				c.Data = append(c.Data, Data{Bytes: r.bytes(5000 + r.IntN(3)*200_000 + r.IntN(9)), Time: c.Start})
				payloads++
			}
			if _, err := w.Call(c); err != nil {
				t.Fatal(err)
			}
			if r.IntN(9) == 0 {
				d := r.data(c.End)
				d.Call = uint64(max(0, i-r.IntN(40)))
				if err := w.Data(&d); err != nil {
					t.Fatal(err)
				}
			}
			if r.IntN(900) == 0 {
				if err := w.Gap(Gap{From: c.Start, To: c.End, Calls: 3, Reason: Dropped}); err != nil {
					t.Fatal(err)
				}
			}
			if r.IntN(25) == 0 {
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		from := open(t, path)
		to := filepath.Join(t.TempDir(), "to.aclt")
		rep, err := Copy(from, to, &CopyOptions{Compression: Zstd, Join: true})
		if err != nil || rep.LostCalls != 0 || len(rep.Damage) != 0 || rep.To >= rep.From {
			t.Fatalf("%+v, %v", rep, err)
		}
		got := open(t, to)
		if len(got.events)*8 > len(from.events) || len(got.blobs.maps)*4 > len(from.blobs.maps) {
			t.Errorf("%d chunks of calls and %d maps of payloads are left of %d and %d", len(got.events), len(got.blobs.maps), len(from.events), len(from.blobs.maps))
		}
		plain := func(r *Reader) []*Call {
			calls := collect(t, r, nil)
			for _, c := range calls {
				c.Data = nil
			}
			return calls
		}
		equal(t, plain(got), plain(from))
		if seed == 0 {
			joinDamaged(t, path, from)
		}
		copied, data := allData(t, got), allData(t, from)
		for i := range uint64(4000) {
			a, b := copied[i], data[i]
			if d := cmp.Diff(b, a); d != "" && len(a)+len(b) > 0 {
				t.Fatalf("data of call %d (-want +got):\n%s", i, d)
			}
			for k := range a {
				if a[k].Blob == 0 {
					continue
				}
				x, err := got.Blob(a[k].Blob)
				if err != nil {
					t.Fatal(err)
				}
				if y, err := from.Blob(b[k].Blob); err != nil || !bytes.Equal(x, y) {
					t.Fatalf("payload of call %d differs, %v", i, err)
				}
				payloads--
			}
		}
		if payloads != 0 {
			t.Errorf("%d payloads are missing", payloads)
		}
		if d := cmp.Diff(from.Gaps(), got.Gaps()); d != "" {
			t.Error(d)
		}
		a, err := got.Counts()
		if err != nil {
			t.Fatal(err)
		}
		b, err := from.Counts()
		if d := cmp.Diff(b, a); d != "" || err != nil {
			t.Errorf("%s %v", d, err)
		}
		if check, err := Check(to, nil); err != nil || len(check.Problems) != 0 || !check.Complete {
			t.Fatalf("%+v, %v", check, err)
		}
	}
}

// joinDamaged joins the chunks of a trace with one damaged chunk: its content is missing, and all calls keep their numbers.
func joinDamaged(t *testing.T, path string, whole *Reader) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lost := whole.events[len(whole.events)/2]
	b[lost.entry.Offset+70] ^= 1
	from, to := filepath.Join(t.TempDir(), "from.aclt"), filepath.Join(t.TempDir(), "to.aclt")
	if err := os.WriteFile(from, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, from)
	rep, err := Copy(r, to, &CopyOptions{Join: true})
	if err != nil || rep.LostCalls != uint64(lost.entry.Records) || lost.entry.Records == 0 || len(rep.Damage) != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if !slices.Equal(indexes(t, open(t, to)), indexes(t, r)) {
		t.Error("other calls than those that were whole")
	}
	if check, err := Check(to, nil); err != nil || len(check.Problems) != 0 {
		t.Errorf("%+v, %v", check, err)
	}
}

func both(a, b *Reader) func(func(ChunkInfo, ChunkInfo) bool) {
	return func(yield func(ChunkInfo, ChunkInfo) bool) {
		for i := range a.events {
			if !yield(a.events[i].info, b.events[i].info) {
				return
			}
		}
	}
}

// same compares all data and all payloads.
func same(t *testing.T, got, want *Reader) {
	t.Helper()
	all := func(r *Reader) (data []Data, blobs [][]byte) {
		for d, err := range r.Data(nil) {
			if err != nil {
				t.Fatal(err)
			}
			c := *d
			c.Bytes = bytes.Clone(d.Bytes)
			data = append(data, c)
			if d.Blob != 0 {
				b, err := r.Blob(d.Blob)
				if err != nil {
					t.Fatal(err)
				}
				blobs = append(blobs, b)
			}
		}
		return data, blobs
	}
	gotData, gotBlobs := all(got)
	wantData, wantBlobs := all(want)
	if len(gotData) != len(wantData) || len(wantBlobs) == 0 || !slices.EqualFunc(gotBlobs, wantBlobs, bytes.Equal) {
		t.Fatalf("%d data and %d payloads, want %d and %d", len(gotData), len(gotBlobs), len(wantData), len(wantBlobs))
	}
	for i := range gotData {
		g, w := gotData[i], wantData[i]
		if !bytes.Equal(g.Bytes, w.Bytes) {
			t.Fatalf("data %d: %v, want %v", i, g, w)
		}
		g.Bytes, w.Bytes = nil, nil
		if g.Call != w.Call || g.Addr != w.Addr || g.Len != w.Len || g.Time != w.Time || g.Blob != w.Blob {
			t.Fatalf("data %d: %v, want %v", i, g, w)
		}
	}
}

// A recovered trace is sound, has all whole parts of the damaged one, keeps the calls' numbers, and reports the missing parts.
func TestRecoveredTraceKeepsWholeParts(t *testing.T) {
	path, calls := smallTrace(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var events []span
	for _, s := range layout(t, whole) {
		if s.Type == container.Events && s.Records > 0 {
			events = append(events, s)
		}
	}
	flipped := bytes.Clone(whole)
	flipped[events[1].Offset+70] ^= 1
	for name, c := range map[string]struct {
		b    []byte
		want uint64
		lost uint64
	}{
		"cut":     {whole[:events[1].next], uint64(events[0].Records + events[1].Records), 0},
		"damaged": {flipped, uint64(len(calls)) - uint64(events[1].Records), uint64(events[1].Records)},
	} {
		dir := t.TempDir()
		from, to := filepath.Join(dir, "from.aclt"), filepath.Join(dir, "to.aclt")
		if err := os.WriteFile(from, c.b, 0o600); err != nil {
			t.Fatal(err)
		}
		r := open(t, from)
		rep, err := Copy(r, to, nil)
		if err != nil || rep.Calls != c.want || rep.LostCalls != c.lost {
			t.Fatalf("%s: %+v, %v", name, rep, err)
		}
		got := open(t, to)
		if !slices.Equal(indexes(t, got), indexes(t, r)) {
			t.Errorf("%s: other calls", name)
		}
		if check, err := Check(to, nil); err != nil || len(check.Problems) != 0 || !check.Complete {
			t.Errorf("%s: %+v, %v", name, check, err)
		}
		gaps := uint64(0)
		for _, g := range got.Gaps() {
			if g.Reason == FileDamaged {
				gaps += g.Calls
			}
		}
		if gaps != c.lost || got.Meta().Recovered == "" || got.Meta().Host != "h" {
			t.Errorf("%s: gaps of %d calls, meta %+v", name, gaps, got.Meta())
		}
		if _, err := Copy(got, to, nil); err == nil {
			t.Errorf("%s: a trace was copied onto itself", name)
		}
	}
}

// The copy replaces an older file only when it is complete, and never a trace that is being written.
func TestCopyIsWhole(t *testing.T) {
	path, calls := smallTrace(t)
	dir := t.TempDir()
	to := filepath.Join(dir, "to.aclt")
	if err := os.WriteFile(to, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	looked := 0
	rep, err := Copy(open(t, path), to, &CopyOptions{Progress: func(done, total int64) {
		looked++
		if b, err := os.ReadFile(to); err != nil || string(b) != "before" {
			t.Errorf("at %d of %d: %d bytes, %v", done, total, len(b), err)
		}
	}})
	if err != nil || rep.Calls != uint64(len(calls)) || looked == 0 {
		t.Fatalf("%+v, %v, looked %d times", rep, err, looked)
	}
	if check, err := Check(to, nil); err != nil || !check.Complete {
		t.Errorf("%+v, %v", check, err)
	}
	busy := filepath.Join(dir, "busy.aclt")
	w := create(t, busy, nil)
	if _, err := Copy(open(t, path), busy, nil); err == nil {
		t.Error("a trace was replaced while it was written")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("%v, %v", files, err)
	}
}
