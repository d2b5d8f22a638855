package format

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// short is the content of a call's data.
func short(i int) []byte {
	return fmt.Appendf(nil, "secret %d %s", i%1000, bytes.Repeat([]byte("s"), i%50))
}

// asides writes calls with two pieces of data each, one of them Aside, and late ones.
func asides(t testing.TB, path string, o *WriterOptions, calls int) {
	t.Helper()
	w := create(t, path, o)
	for i := range calls {
		c := Call{Func: 10, Start: int64(i), End: int64(i), Args: []uint64{uint64(i)}, Data: []Data{
			{Param: 0, Bytes: []byte("argument"), Len: 8},
			{Param: 0, Item: 1, Bytes: short(i), Len: uint64(len(short(i))), Aside: true},
		}}
		at, err := w.Call(&c)
		if err == nil && i%7 == 0 {
			err = w.Data(&Data{Call: at / 2, Time: int64(i), Param: 0, Item: 2, Bytes: short(i), Len: uint64(len(short(i))), Aside: true})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// packedAsides is a file with short contents in payloads.
func packedAsides(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	trace, packed := filepath.Join(dir, "a.aclt"), filepath.Join(dir, "b.aclt")
	asides(t, trace, &WriterOptions{Compression: NoCompression, BlobFile: filepath.Join(dir, "a.blobs")}, 10)
	r, err := Open(trace, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := Copy(r, packed, &CopyOptions{Compression: NoCompression}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// asideContent returns the content of all data that is Aside, and counts the data by status and reason.
func asideContent(t *testing.T, path string) (content []string, states map[string]int) {
	t.Helper()
	r, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	states = map[string]int{}
	for d, err := range r.Data(nil) {
		if err != nil {
			t.Fatal(err)
		}
		states[fmt.Sprint(d.Aside, d.Status, d.Reason)]++
		if d.Item > 0 {
			content = append(content, string(d.Bytes))
			if d.Status == Whole && d.Len != uint64(len(d.Bytes)) {
				t.Fatalf("%+v", d)
			}
		}
	}
	return content, states
}

// With a blob file, content up to 4096 bytes stayed in the trace, which counts as safe to send.
func TestShortContentGoesToTheBlobFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	const calls = blockCalls + 1000
	asides(t, at("one.aclt"), &WriterOptions{Compression: NoCompression}, calls)
	asides(t, at("two.aclt"), &WriterOptions{Compression: NoCompression, BlobFile: at("two.blobs")}, calls)
	want, _ := asideContent(t, at("one.aclt"))
	if got, states := asideContent(t, at("two.aclt")); fmt.Sprint(got) != fmt.Sprint(want) || len(states) != 2 {
		t.Errorf("%d pieces, %v; want %d", len(got), states, len(want))
	}
	b, err := os.ReadFile(at("two.aclt"))
	if err != nil || bytes.Contains(b, []byte("secret")) {
		t.Errorf("%v: the trace has the content", err)
	}
	// Copies keep it apart, or have it all.
	r, err := Open(at("two.aclt"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for name, o := range map[string]*CopyOptions{"packed.aclt": {Join: true}, "left.aclt": {Join: true, LeaveBlobs: true, Compression: NoCompression}} {
		if _, err := Copy(r, at(name), o); err != nil {
			t.Fatal(err)
		}
		if got, _ := asideContent(t, at(name)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s has %d pieces, want %d", name, len(got), len(want))
		}
	}
	if b, err := os.ReadFile(at("left.aclt")); err != nil || bytes.Contains(b, []byte("secret")) {
		t.Errorf("%v: the copy has the content", err)
	}
	w := create(t, at("appended.aclt"), &WriterOptions{Compression: NoCompression, BlobFile: at("appended.blobs")})
	if err := NewAppender(w).Append(&Source{Reader: r}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(at("appended.aclt")); err != nil || bytes.Contains(b, []byte("secret")) {
		t.Errorf("%v: the appended trace has the content", err)
	}
	for _, name := range []string{"two.aclt", "packed.aclt", "left.aclt", "appended.aclt"} {
		if rep, err := Check(at(name), nil); err != nil || len(rep.Problems) != 0 {
			t.Errorf("%s: %v %+v", name, err, rep)
		}
	}
	// Without the file the rest is readable.
	if err := os.Remove(at("two.blobs")); err != nil {
		t.Fatal(err)
	}
	got, states := asideContent(t, at("two.aclt"))
	if n := states[fmt.Sprint(true, Missing, NoBlobFile)]; n != len(want) || len(got) != len(want) || states[fmt.Sprint(false, Whole, NoReason)] != calls {
		t.Errorf("without the blob file: %v", states)
	}
}
