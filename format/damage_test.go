package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/acltrace/acltrace/format/container"
)

// smallTrace is a complete file with several events chunks, late data, blobs, gaps and tables.
func smallTrace(t testing.TB) (path string, calls []*Call) {
	t.Helper()
	path = tempFile(t)
	w := create(t, path, nil)
	r := newRandom(5)
	for i := range 30 {
		c := r.call()
		if i%14 == 0 {
			c.Data = append(c.Data, Data{Bytes: bytes.Repeat(r.bytes(64+i), 80), Time: c.Start})
		}
		if _, err := w.Call(c); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, written(c))
		if i%10 == 9 {
			d := r.data(c.End)
			d.Call = uint64(i / 2)
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := w.Data(&d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Gap(Gap{Thread: 1, From: 5, To: 9, Calls: 3, Reason: Dropped}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path, calls
}

type span struct {
	container.Entry
	last int64 // offset after the stored bytes
	next int64
}

// layout lists all chunks of a file, index and end too, without the package's help.
func layout(t testing.TB, b []byte) []span {
	t.Helper()
	var spans []span
	for off := int64(64); off < int64(len(b)); {
		if string(b[off:off+4]) != "ACLK" {
			t.Fatalf("no chunk at %d", off)
		}
		s := span{}
		s.Offset = off
		s.Type = container.Type(b[off+4])
		s.Seq = binary.LittleEndian.Uint64(b[off+16:])
		s.Records = binary.LittleEndian.Uint32(b[off+40:])
		s.last = off + 64 + int64(binary.LittleEndian.Uint32(b[off+8:]))
		s.next = (s.last + 7) &^ 7
		spans = append(spans, s)
		off = s.next
	}
	return spans
}

func readBytes(t testing.TB, path string, b []byte) (*Reader, error) {
	t.Helper()
	f, err := container.NewFile(path, strings.NewReader(string(b)), int64(len(b)))
	if err != nil {
		return nil, err
	}
	return newReader(f)
}

func indexes(t testing.TB, r *Reader) []uint64 {
	t.Helper()
	var got []uint64
	for c, err := range r.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c.Index)
	}
	return got
}

// A file that ends anywhere reads as exactly the whole chunks before.
func TestCutFileKeepsWholeChunks(t *testing.T) {
	path, _ := smallTrace(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spans := layout(t, b)
	for n := range b {
		r, err := readBytes(t, path, b[:n])
		if n < 64 {
			var not *ErrNotTrace
			if !errors.Is(err, ErrTruncated) && !(n == 0 && errors.As(err, &not)) {
				t.Fatalf("%d bytes: %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		chunks, calls := 0, 0
		for _, s := range spans {
			if s.last > int64(n) {
				break
			}
			if s.Type != container.Index && s.Type != container.End {
				chunks++
			}
			if s.Type == container.Events {
				calls += int(s.Records)
			}
		}
		// The end is 128 bytes of whole words: a cut in it makes the file incomplete.
		rec := r.Recovered()
		if rec == nil || rec.Chunks != chunks || rec.LostChunks != 0 {
			t.Fatalf("%d bytes: recovered %+v, want %d chunks", n, rec, chunks)
		}
		if got := indexes(t, r); len(got) != calls || calls > 0 && got[calls-1] != uint64(calls-1) {
			t.Fatalf("%d bytes: %d calls, want %d", n, len(got), calls)
		}
		if len(r.Damage()) != 0 {
			t.Fatalf("%d bytes: damage %v", n, r.Damage())
		}
		for d, err := range r.Data(nil) {
			if err != nil {
				t.Fatal(err)
			}
			if d.Blob == 0 {
				continue
			}
			if _, err := r.Blob(d.Blob); err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
	}
}

// One flipped bit costs at most its chunk, and Check names the place.
func TestFlippedBit(t *testing.T) {
	path, _ := smallTrace(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spans := layout(t, b)
	total := 0
	for _, s := range spans {
		if s.Type == container.Events {
			total += int(s.Records)
		}
	}
	flipped := filepath.Join(t.TempDir(), "flipped.aclt")
	step := 1
	if testing.Short() {
		step = 7
	}
	for at := 0; at < len(b); at += step {
		b[at] ^= 1 << (at % 8)
		r, err := readBytes(t, flipped, b)
		if err != nil {
			t.Fatalf("byte %d: %v", at, err)
		}
		var hit *span
		for i := range spans {
			if int64(at) >= spans[i].Offset && int64(at) < spans[i].next {
				hit = &spans[i]
			}
		}
		want := total
		got := indexes(t, r)
		if hit != nil && hit.Type == container.Events && len(got) != total {
			want -= int(hit.Records)
		}
		if len(got) != want {
			t.Fatalf("byte %d: %d calls, want %d", at, len(got), want)
		}
		if lost, known := r.LostCalls(); known && lost != uint64(total-want) || !known && r.Complete() {
			t.Fatalf("byte %d: %d calls are said to be lost, %d are", at, lost, total-want)
		}
		if r.Meta().Host != "h" || r.Schema().Func(3) == nil || len(r.Threads()) != 4 {
			t.Fatalf("byte %d: meta, schema or tables are gone", at)
		}
		if err := os.WriteFile(flipped, b, 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := Check(flipped, nil)
		if err != nil {
			t.Fatalf("byte %d: %v", at, err)
		}
		if hit == nil && len(report.Problems) == 0 || hit != nil && !names(report, hit) {
			t.Fatalf("byte %d of %v: problems %v", at, hit, report.Problems)
		}
		b[at] ^= 1 << (at % 8)
	}
	if err := os.WriteFile(flipped, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if report, err := Check(flipped, nil); err != nil || len(report.Problems) != 0 {
		t.Fatalf("sound file: %v, %v", report, err)
	}
}

// Check reports if another chunk repeats a damaged one's content, and a trace whose descriptions are all
// damaged is read all the same.
func TestCheckOfCopies(t *testing.T) {
	path, _ := smallTrace(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spans := layout(t, b)
	hurt := filepath.Join(t.TempDir(), "hurt.aclt")
	number := func(typ container.Type) (n int) {
		for _, s := range spans {
			if s.Type == typ {
				n++
			}
		}
		if n < 2 {
			t.Fatalf("%d chunks of type %v", n, typ)
		}
		return n
	}
	complete := int64(len(b))
	// damage damages chunks of a type, and returns Check's remedies.
	damage := func(typ container.Type, bad func(n int) bool) (all []string) {
		t.Helper()
		c := bytes.Clone(b[:complete])
		n := 0
		for _, s := range spans {
			if s.Type == typ && s.next <= complete {
				if bad(n) {
					c[s.Offset+64]++
				}
				n++
			}
		}
		if err := os.WriteFile(hurt, c, 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := Check(hurt, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range report.Problems {
			if p.Chunk == typ.String() {
				all = append(all, p.Remedy)
			}
		}
		return all
	}
	// remedies damages all chunks of a type, or all except one.
	remedies := func(typ container.Type, but int) []string {
		t.Helper()
		return damage(typ, func(n int) bool { return n != but })
	}
	for typ, gone := range map[container.Type]string{container.Meta: "no copy is left of what", container.Schema: "no copy is left of the names", container.Dict: "may be lost"} {
		for _, r := range remedies(typ, -1) {
			if !strings.Contains(r, gone) {
				t.Errorf("no %v is whole: %q", typ, r)
			}
		}
		last := number(typ) - 1
		for _, r := range remedies(typ, last) {
			if r != "the other copy in the file is used" {
				t.Errorf("the last %v is whole: %q", typ, r)
			}
		}
	}
	// The rows of processes and threads are in one chunk each, and again in the last chunk of a complete file.
	last := number(container.Dict) - 1
	only := func(of ...int) func(int) bool { return func(n int) bool { return slices.Contains(of, n) } }
	const copied, lost = "the other copy in the file is used", "rows of processes or threads may be lost; all else is readable"
	check := func(want string, bad ...int) {
		t.Helper()
		if got := damage(container.Dict, only(bad...)); len(got) != len(bad) || slices.ContainsFunc(got, func(r string) bool { return r != want }) {
			t.Errorf("rows %d of %d, file of %d bytes: %q", bad, last, complete, got)
		}
	}
	check(copied, 0)
	check(copied, last)
	check(lost, 0, last)
	complete = spans[len(spans)-1].Offset // a file without its end
	check(lost, 0)
	complete = int64(len(b))

	remedies(container.Meta, -1)
	r := open(t, hurt)
	if m, want := r.Meta(), testMeta(); m.UUID == "" || m.API != testSchema().API || m.StartWall != want.StartWall || m.StartMono != want.StartMono {
		t.Errorf("without META: %+v", m)
	}
	if n := len(indexes(t, r)); n != 30 {
		t.Errorf("without META: %d calls", n)
	}
}

func names(r *CheckReport, s *span) bool {
	for _, p := range r.Problems {
		if p.Offset >= s.Offset && p.Offset <= s.next {
			return true
		}
	}
	return false
}

// seal makes the checksums of a changed file header or chunk right again.
func seal(b []byte) {
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crc32.MakeTable(crc32.Castagnoli)))
}

func TestNewerMajorVersionIsRefused(t *testing.T) {
	path, calls := smallTrace(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[8] = 2
	seal(b)
	var version *ErrVersion
	if _, err := readBytes(t, path, b); !errors.As(err, &version) || version.Major != 2 || !strings.Contains(err.Error(), "upgrade") {
		t.Fatalf("newer major: %v", err)
	}
	b[8], b[12] = 1, 4
	seal(b)
	if _, err := readBytes(t, path, b); !errors.As(err, &version) || version.Incompat != 4 {
		t.Fatalf("unknown feature: %v", err)
	}
	b[10], b[12], b[16] = 9, 0, 0xff
	seal(b)
	r, err := readBytes(t, path, b)
	if err != nil {
		t.Fatalf("newer minor: %v", err)
	}
	if _, minor := r.Version(); minor != 9 || len(indexes(t, r)) != len(calls) {
		t.Fatal("newer minor reads otherwise")
	}
}

func TestUnknownChunk(t *testing.T) {
	path := tempFile(t)
	w := create(t, path, nil)
	for _, typ := range []container.Type{0x30, 0x85} {
		if _, err := w.file.Append(&container.Chunk{Type: typ, Flags: container.Ancillary, Raw: []byte("from the future")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Call(&Call{Func: 3}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := open(t, path)
	if len(indexes(t, r)) != 1 || r.Unknown()["type 48 chunk"] != 1 || r.Unknown()["type 133 chunk"] != 1 {
		t.Fatalf("unknown %v", r.Unknown())
	}
}

// A block of a later version has fields, encodings and tables that are not known; all else in it is read.
func TestUnknownColumns(t *testing.T) {
	b := newBlockWriter()
	b.call(&Call{Func: 3, Start: 5, End: 7, Ret: 0})
	raw := b.encode(nil)
	// A table of kind 99 with one column, and a function table with an unknown field and an unknown encoding.
	raw = append(raw, 99, 0, 1, 1, 3, 0, 0, 0)
	skipped := map[string]int{}
	d := block{unknown: func(what string) { skipped[what]++ }}
	d.content.Set(raw)
	if err := d.load(want{columns: AllColumns, random: true}); err != nil {
		t.Fatal(err)
	}
	if d.n != 1 || d.rowIndex.start[d.reach(0)] != 5 || skipped["kind of table"] != 1 {
		t.Fatalf("%d calls, skipped %v", d.n, skipped)
	}

	// func 3, two calls, one word, columns: word 0 in encoding 77, field 500000 constant.
	raw = []byte{blockVersion, 0, 10}
	raw = append(raw, kindCalls, 0, 2, callFields, 4, callFunc, 0, 1, 3)
	raw = append(raw, kindFunc, 3, 2, 1, 4+6, 0, 77, 1, 0xee, 0xa0, 0xc2, 0x1e, 0, 1, 9)
	d.content.Set(raw)
	if err := d.load(want{columns: AllColumns, random: true}); err != nil {
		t.Fatal(err)
	}
	c := d.call(d.reach(1))
	if c.Func != 3 || len(c.Args) != 1 || c.Args[0] != 0 || skipped["encoding 77"] != 1 || skipped["column"] != 1 {
		t.Fatalf("%+v, skipped %v", c, skipped)
	}
}

func TestTwoWriters(t *testing.T) {
	path := tempFile(t)
	w := create(t, path, nil)
	if _, err := Create(path, testMeta(), testSchema(), nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("second writer: %v", err)
	}
	if _, err := w.Call(&Call{Func: 3}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(indexes(t, open(t, path))); n != 1 {
		t.Fatalf("%d calls: the second writer changed the file", n)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	again := create(t, path, nil)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNotTrace(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"an empty file": "", "an ELF program or library": "\x7fELF" + strings.Repeat("x", 200), `"hello wo"`: strings.Repeat("hello world ", 20),
	} {
		path := filepath.Join(dir, "f")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(path, nil)
		var not *ErrNotTrace
		if !errors.As(err, &not) || not.Found != name || not.Path != path {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(dir, "absent"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	var not *ErrNotTrace
	if _, err := Open(dir, nil); !errors.As(err, &not) {
		t.Error(err)
	}
}

func TestWriterRefusesInvalidCalls(t *testing.T) {
	w := create(t, tempFile(t), nil)
	defer w.Close()
	for name, c := range map[string]*Call{
		"not in the schema": {Func: 4}, "argument words": {Func: 10}, "before its start": {Func: 3, Start: 5, End: 4}, "not in the table": {Func: 3, Thread: 4},
		"ascending": {Func: 3, Outs: []Out{{1, 0}, {1, 0}}}, "says": {Func: 3, Data: []Data{{Bytes: []byte("abc"), Len: 4}}},
	} {
		if _, err := w.Call(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.Data(&Data{Call: 0}); err == nil {
		t.Error("data of a call that was not made was accepted")
	}
}

// A killed writer leaves its flushed data.
func TestNoClose(t *testing.T) {
	path := tempFile(t)
	w := create(t, path, nil)
	for i := range 10 {
		if _, err := w.Call(&Call{Func: 10, Args: []uint64{uint64(i)}, Start: int64(i), End: int64(i) + 1}); err != nil {
			t.Fatal(err)
		}
		if i == 6 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	r := open(t, path)
	if r.Complete() || len(indexes(t, r)) != 7 || r.Recovered().LastTime != 7 {
		t.Fatalf("%+v", r.Recovered())
	}
	if counts, err := r.Counts(); err != nil || counts.Calls != 7 {
		t.Fatalf("%+v, %v", counts, err)
	}
}

// A file that may be anything neither makes the reader panic nor allocate out of proportion. The seeds are small and one processor decodes:
// of large files whose coverage differs from run to run, ten were tried in 76 seconds, and all else was spent on making them smaller.
func FuzzOpen(f *testing.F) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	b := tinyTrace(f)
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Add(b[:100])
	f.Add(packedAsides(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = reseal(b)
		bounded(t, len(b), func() { readAll(t, b) })
	})
}

// tinyTrace is a file with a chunk of each type, and hardly more.
func tinyTrace(t testing.TB) []byte {
	t.Helper()
	path := tempFile(t)
	schema := &Schema{API: "acl", Functions: []Function{{ID: 3, Name: "f", Ret: "aclError", Words: 1, Params: []Param{{Name: "p", Type: "void*", Words: 1}}}}}
	w, err := Create(path, &Meta{API: "acl"}, schema, &WriterOptions{Compression: NoCompression})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	_, err = w.Process(Process{PID: 1})
	must(err)
	_, err = w.Thread(Thread{TID: 1})
	must(err)
	for i := range int64(4) {
		_, err := w.Call(&Call{Func: 3, Start: 100 * i, End: 100*i + 10, Args: []uint64{uint64(i)}, Outs: []Out{{0, 7}}, Data: []Data{{Bytes: []byte("1234567"), Len: 7}}})
		must(err)
	}
	must(w.Flush())
	must(w.Data(&Data{Call: 1, Bytes: bytes.Repeat([]byte("x"), InlineLimit+1)}))
	must(w.Gap(Gap{From: 5, To: 9, Calls: 3, Reason: Dropped}))
	must(w.Close())
	b, err := os.ReadFile(path)
	must(err)
	return b
}

// Changed bytes with right checksums never make the reader panic or allocate out of proportion.
func TestChangedBytesNeverPanic(t *testing.T) {
	path, _ := smallTrace(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := newRandom(11)
	for i := range 2000 {
		m := bytes.Clone(b)
		for range 1 + r.IntN(4) {
			m[r.IntN(len(m))] ^= 1 << r.IntN(8)
		}
		m = reseal(m)
		var rd *Reader
		bounded(t, len(m), func() { rd = readAll(t, m) })
		if rd != nil && i%8 == 0 {
			copyAll(t, rd)
		}
	}
}

// bounded fails if f allocates more than the input's size justifies. The bound includes one chunk that
// claims the largest size, and the best compression ratio for each byte.
func bounded(t *testing.T, size int, f func()) {
	t.Helper()
	const chunk, unpacked = 256 << 20, 16 << 10
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	before := s[0].Value.Uint64()
	f()
	metrics.Read(s)
	if n := s[0].Value.Uint64() - before; n > chunk+unpacked*uint64(size) {
		t.Fatalf("%d bytes allocated for input of %d", n, size)
	}
}

// reseal makes checksums right, so the content is reached.
func reseal(b []byte) []byte {
	b = bytes.Clone(b)
	for i := 0; i+64 <= len(b); i++ {
		if string(b[i:i+4]) != "ACLK" {
			continue
		}
		if n := int(binary.LittleEndian.Uint32(b[i+8:])); n <= len(b)-i-64 {
			binary.LittleEndian.PutUint32(b[i+56:], crc32.Checksum(b[i+64:i+64+n], crc32.MakeTable(crc32.Castagnoli)))
		}
		seal(b[i : i+64])
	}
	return b
}

// readAll reads everything from an arbitrary file, and returns its Reader, nil if it can't be opened.
func readAll(t *testing.T, b []byte) *Reader {
	r, err := readBytes(t, "fuzz", b)
	if err != nil {
		return nil
	}
	for c, err := range r.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Index < 1000 {
			_ = c.Clone()
		}
	}
	for _, err := range r.CallsByStart(&Filter{From: 1}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for d, err := range r.Data(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Blob == 0 {
			continue
		}
		if _, size, _, err := r.BlobInfo(d.Blob); err == nil && size < 16<<20 { // zeros cost no file
			_, _ = r.Blob(d.Blob)
		}
	}
	for _, err := range r.Batches(&Filter{Funcs: []uint16{1, 3}}, AllColumns) {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, _ = r.Counts()
	_, _ = r.Call(0)
	_, _ = r.BlobStats()
	return r
}

// copyAll joins the small chunks of a file that may be anything: the copy has the same calls.
func copyAll(t *testing.T, r *Reader) {
	to := filepath.Join(t.TempDir(), "to.aclt")
	if _, err := Copy(r, to, &CopyOptions{Join: true}); err != nil {
		t.Fatal(err)
	}
	want, got := collect(t, r, nil), collect(t, open(t, to), nil)
	for _, calls := range [][]*Call{want, got} {
		for _, c := range calls {
			c.Data = nil // late data is compared elsewhere
		}
	}
	equal(t, got, want)
}
