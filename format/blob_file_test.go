package format

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acltrace/acltrace/format/container"
)

// beside makes a trace whose payloads are in a file of their own, in another folder, and the same one with all in one file.
func beside(t *testing.T) (trace, blobs, alone string) {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"near", "far"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	trace, blobs, alone = filepath.Join(dir, "near", "run.aclt"), filepath.Join(dir, "far", "run.blobs"), filepath.Join(dir, "alone.aclt")
	for path, o := range map[string]*WriterOptions{trace: {BlobFile: blobs}, alone: nil} {
		w := create(t, path, o)
		r := newRandom(5)
		for i := range 300 {
			c := r.call()
			if i%3 == 0 {
				c.Data = append(c.Data, Data{Bytes: r.bytes(5000 + i%2*300_000), Time: c.Start})
			}
			if _, err := w.Call(c); err != nil {
				t.Fatal(err)
			}
			if i%20 == 0 {
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return trace, blobs, alone
}

// If the blob file can't be made, an older trace with the name stays unchanged, and no new one is left; if the
// trace can't, an older blob file does.
func TestBlobFileRefused(t *testing.T) {
	trace, blobs, _ := beside(t)
	same := func(path string) func() {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			t.Helper()
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes of %d are left, %v", path, len(got), len(want), err)
			}
		}
	}
	oldTrace, oldBlobs := same(trace), same(blobs)
	refuse := func(path, blobs, want string) {
		t.Helper()
		w, err := Create(path, testMeta(), testSchema(), &WriterOptions{BlobFile: blobs})
		if err == nil {
			w.Abort()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s and %s: %v, want %q", path, blobs, err, want)
		}
		oldTrace()
		oldBlobs()
	}
	dir := filepath.Dir(trace)
	nowhere, fresh := filepath.Join(dir, "nowhere", "x.blobs"), filepath.Join(dir, "new.aclt")
	refuse(trace, nowhere, nowhere)
	refuse(trace, dir, dir)
	refuse(trace, trace, "is the trace itself")
	refuse(fresh, fresh, "is the trace itself")
	refuse(fresh, nowhere, nowhere)
	refuse(filepath.Join(dir, "nowhere", "x.aclt"), blobs, "x.aclt")
	busy, err := Create(filepath.Join(dir, "busy.aclt"), testMeta(), testSchema(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Abort()
	refuse(filepath.Join(dir, "busy.aclt"), blobs, "is being written")
	refuse(trace, filepath.Join(dir, "busy.aclt"), "is being written")
	if _, err := os.Stat(fresh); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a trace is left that was not begun: %v", err)
	}
}

func chunksOf(t *testing.T, path string, typ container.Type) (n int) {
	t.Helper()
	f, err := container.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, e := range f.Entries() {
		if e.Type == typ {
			n++
		}
	}
	return n
}

// Payloads in a separate file are the same as in the trace, which stays small.
func TestBlobFile(t *testing.T) {
	trace, blobs, alone := beside(t)
	r, want := open(t, trace), open(t, alone)
	equal(t, collect(t, r, nil), collect(t, want, nil))
	same(t, r, want)
	if r.Meta().BlobFile != "../far/run.blobs" {
		t.Errorf("the trace names %q", r.Meta().BlobFile)
	}
	if n, all := chunksOf(t, trace, container.Blob), chunksOf(t, alone, container.Blob); n != 0 || chunksOf(t, blobs, container.Blob) != all {
		t.Errorf("%d of %d chunks of payloads are in the trace", n, all)
	}
	a, err := r.BlobStats()
	if b, err2 := want.BlobStats(); a != b || err != nil || err2 != nil {
		t.Errorf("%+v, want %+v; %v %v", a, b, err, err2)
	}
	check, err := Check(trace, nil)
	if err != nil || len(check.Problems) != 0 || !check.Complete {
		t.Errorf("%+v, %v", check, err)
	}
	if check, err := Check(blobs, nil); err != nil || len(check.Problems) != 0 || !check.Complete {
		t.Errorf("the blob file alone: %+v, %v", check, err)
	}
	if of := open(t, blobs).Meta().BlobsOf; of != "run.aclt" {
		t.Errorf("the blob file is said to be of %q", of)
	}
	if _, err := Copy(open(t, blobs), filepath.Join(t.TempDir(), "x.aclt"), nil); err == nil || !strings.Contains(err.Error(), "run.aclt") {
		t.Errorf("the blob file was copied as a trace: %v", err)
	}
	if _, err := Create(trace, testMeta(), testSchema(), &WriterOptions{BlobFile: filepath.Dir(trace) + "/./run.aclt"}); err == nil || !strings.Contains(err.Error(), "is the trace itself") {
		t.Errorf("a trace is its own blob file: %v", err)
	}
}

// A copy contains the payloads, or refers to the blob file relative to the copy.
func TestBlobFileCopy(t *testing.T) {
	trace, blobs, alone := beside(t)
	want := open(t, alone)
	for _, o := range []CopyOptions{{}, {Join: true, Compression: Zstd}, {LeaveBlobs: true}, {LeaveBlobs: true, Join: true}} {
		to := filepath.Join(t.TempDir(), "to.aclt")
		var last, all int64
		o.Progress = func(done, total int64) {
			if done < last {
				t.Errorf("%+v: progress goes from %d back to %d", o, last, done)
			}
			last, all = done, total
		}
		rep, err := Copy(open(t, trace), to, &o)
		if err != nil || len(rep.Damage) != 0 {
			t.Fatalf("%+v: %+v, %v", o, rep, err)
		}
		if last == 0 || last != all {
			t.Errorf("progress ends at %d of %d", last, all)
		}
		got := open(t, to)
		equal(t, collect(t, got, nil), collect(t, want, nil))
		same(t, got, want)
		if check, err := Check(to, nil); err != nil || len(check.Problems) != 0 || !check.Complete {
			t.Fatalf("%+v: %+v, %v", o, check, err)
		}
		f := got.BlobFile()
		if (f != nil) != o.LeaveBlobs {
			t.Errorf("%+v: blob file %+v", o, f)
		}
		if f != nil && !SameFile(f.Path, blobs) {
			t.Errorf("the copy has its payloads in %s", f.Path)
		}
		if _, err := Copy(open(t, trace), blobs, &o); err == nil {
			t.Fatal("the blob file was written over")
		}
	}
}

// Without its blob file a trace has everything except the payloads, and names the missing file.
func TestBlobFileMissing(t *testing.T) {
	trace, blobs, alone := beside(t)
	want := open(t, alone)
	_, other, _ := beside(t)
	stranger := tempFile(t)
	m := testMeta()
	m.UUID = "99112233-4455-6677-8899-aabbccddeeff"
	w, err := Create(tempFile(t), m, testSchema(), &WriterOptions{BlobFile: stranger})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		put  func() error
		want error
		says string
	}{
		"none":     {func() error { return nil }, fs.ErrNotExist, "no such file"},
		"stranger": {func() error { return os.Rename(stranger, blobs) }, errOtherSession, "belongs to another recording"},
		"fifo":     {func() error { return syscall.Mkfifo(blobs, 0o600) }, nil, "not a regular file"},
		"text": {func() error {
			return os.WriteFile(blobs, []byte("some text, quite long enough to be looked at as if it were a trace"), 0o600)
		}, nil, "not an acltrace trace"},
	} {
		if err := os.RemoveAll(blobs); err != nil {
			t.Fatal(err)
		}
		if err := c.put(); err != nil {
			t.Fatal(err)
		}
		r := open(t, trace)
		equal(t, collect(t, r, nil), collect(t, want, nil))
		hash, size, _, err := r.BlobInfo(1)
		if h, s, _, _ := want.BlobInfo(1); hash != h || size != s || err != nil {
			t.Errorf("%s: key %x and length %d; %v", name, hash, size, err)
		}
		_, err = r.Blob(1)
		var missing *ErrBlobFile
		if !errors.As(err, &missing) || missing.File != blobs || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), trace) {
			t.Errorf("%s: %v", name, err)
		}
		if f := r.BlobFile(); f == nil || f.Path != blobs || f.Err == nil {
			t.Errorf("%s: %+v", name, f)
		}
		check, err := Check(trace, nil)
		if err != nil || len(check.Problems) != 1 || check.Problems[0].File != blobs || !strings.Contains(check.Problems[0].String(), c.says) || check.Calls != 300 {
			t.Errorf("%s: %+v, %v", name, check, err)
		}
		to := filepath.Join(t.TempDir(), "to.aclt")
		if _, err := Copy(r, to, nil); !errors.As(err, &missing) {
			t.Errorf("%s: copied all the same: %v", name, err)
		}
		if _, err := os.Stat(to); err == nil {
			t.Errorf("%s: half a copy is left", name)
		}
		if _, err := Copy(r, to, &CopyOptions{LeaveBlobs: true, Join: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if f := open(t, to).BlobFile(); f == nil || f.Path != blobs {
			t.Errorf("%s: the copy names %+v", name, f)
		}
	}
	// Beside the trace it is found too, with any other file in its old place.
	if err := os.Rename(other, filepath.Join(filepath.Dir(trace), "run.blobs")); err != nil {
		t.Fatal(err)
	}
	same(t, open(t, trace), want)
}

// The whole parts of a cut or damaged blob file are read, and the rest is reported.
func TestBlobFileDamaged(t *testing.T) {
	trace, blobs, alone := beside(t)
	want := open(t, alone)
	whole, err := os.ReadFile(blobs)
	if err != nil {
		t.Fatal(err)
	}
	spans := layout(t, whole)
	flipped := bytes.Clone(whole)
	flipped[spans[3].Offset+70] ^= 1
	header := bytes.Clone(whole)
	header[30] ^= 1
	for name, c := range map[string]struct {
		b    []byte
		left []int // chunks
		bad  string
	}{
		"cut in the middle": {whole[:spans[5].Offset+100], []int{1, 2, 3, 4}, "the file has no end"},
		"cut to its header": {whole[:64], nil, "the file has no end"},
		"flipped":           {flipped, nil, "checksum"},
		"header":            {header, nil, "checksum of the file header"},
	} {
		if err := os.WriteFile(blobs, c.b, 0o600); err != nil {
			t.Fatal(err)
		}
		r := open(t, trace)
		to := filepath.Join(t.TempDir(), "to.aclt")
		rep, err := Copy(r, to, &CopyOptions{Join: true})
		if err != nil || len(rep.Damage) == 0 {
			t.Fatalf("%s: %+v, %v", name, rep, err)
		}
		got := open(t, to)
		if got.Meta().Recovered == "" || got.BlobFile() != nil {
			t.Errorf("%s: %+v", name, got.Meta())
		}
		stats, err := want.BlobStats()
		if err != nil {
			t.Fatal(err)
		}
		read := 0
		for id := BlobID(1); id <= BlobID(stats.Blobs); id++ {
			b, err := want.Blob(id)
			if err != nil {
				t.Fatal(err)
			}
			e, err := r.blobs.entry(id)
			if err != nil {
				t.Fatal(err)
			}
			there := true
			for _, x := range e.extents {
				k := slices.IndexFunc(spans, func(s span) bool { return s.Offset == int64(x.chunk) })
				switch {
				case strings.HasPrefix(name, "cut"):
					there = there && slices.Contains(c.left, k)
				case name == "flipped":
					there = there && k != 3
				}
			}
			for _, rd := range []*Reader{r, got} {
				a, err := rd.Blob(id)
				if there && (err != nil || !bytes.Equal(a, b)) {
					t.Errorf("%s: blob %d: %v", name, id, err)
				}
				if !there && err == nil {
					t.Errorf("%s: blob %d is read, and its chunk is not there", name, id)
				}
			}
			if there {
				read++
			}
		}
		if read == 0 != (name == "cut to its header") {
			t.Errorf("%s: %d payloads", name, read)
		}
		check, err := Check(trace, nil)
		if err != nil || !slices.ContainsFunc(check.Problems, func(p Problem) bool { return p.File == blobs && strings.Contains(p.What, c.bad) }) {
			t.Errorf("%s: %+v, %v", name, check, err)
		}
	}
}

// A reader without support for blob files finds no payload in the trace, and no wrong one.
func TestBlobFileUnknown(t *testing.T) {
	trace, _, _ := beside(t)
	r := open(t, trace)
	r.meta.BlobFile = ""
	stats, err := r.BlobStats()
	if err != nil || stats.Blobs == 0 || stats.Stored != 0 {
		t.Fatalf("%+v, %v", stats, err)
	}
	for id := BlobID(1); id <= BlobID(stats.Blobs); id++ {
		if b, err := r.Blob(id); err == nil {
			t.Fatalf("blob %d has %d bytes", id, len(b))
		}
	}
}

// A checkpoint of the trace promises that the payloads are durable too: there is none if the disk has not taken the blob file.
func TestBlobFileDurable(t *testing.T) {
	for _, lost := range []bool{false, true} {
		path := tempFile(t)
		w := create(t, path, &WriterOptions{BlobFile: path + ".blobs", container: &container.Options{CheckpointChunks: 4}})
		if lost {
			if err := w.beside.file.Abort(); err != nil {
				t.Fatal(err)
			}
		}
		r := newRandom(5)
		for range 20 {
			if _, err := w.Call(r.call()); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); (err != nil) != lost {
			t.Error(err)
		}
		if n := chunksOf(t, path, container.Checkpoint); (n == 0) != lost {
			t.Errorf("%d checkpoints; the blob file is closed: %v", n, lost)
		}
	}
}
