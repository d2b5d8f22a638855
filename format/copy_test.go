package format

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acltrace/acltrace/format/container"
)

// A copy of a whole trace has the same calls, data and payloads, whatever packs it.
func TestPack(t *testing.T) {
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

// What is recovered of a damaged trace is sound, has all that was whole, keeps the calls' numbers, and says what is missing.
func TestRecover(t *testing.T) {
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
