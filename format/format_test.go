package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/acltrace/acltrace/format/container"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zeebo/xxh3"
)

func TestRoundTrip(t *testing.T) {
	for name, opts := range map[string]*WriterOptions{
		"default": nil, "none": {Compression: NoCompression}, "zstd": {Compression: Zstd},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(4) {
				roundTrip(t, seed, opts)
			}
		})
	}
}

// roundTrip writes calls with flushes at random places, data that comes later, gaps and table updates, and reads all of it back.
func roundTrip(t *testing.T, seed uint64, opts *WriterOptions) {
	path := tempFile(t)
	w := create(t, path, opts)
	r := newRandom(seed)
	var want []*Call
	var gaps []Gap
	late := map[uint64][]Data{}
	for i := range 3000 {
		c := r.call()
		index, err := w.Call(c)
		if err != nil {
			t.Fatal(err)
		}
		if index != uint64(i) {
			t.Fatalf("index %d, want %d", index, i)
		}
		want = append(want, written(c))
		if r.IntN(10) == 0 {
			d := r.data(c.End)
			d.Call = uint64(r.IntN(i + 1))
			if err := w.Data(&d); err != nil {
				t.Fatal(err)
			}
			d.Group = 0
			late[d.Call] = append(late[d.Call], d)
		}
		if r.IntN(400) == 0 {
			g := Gap{Thread: c.Thread, From: c.Start, To: c.End, Calls: uint64(r.IntN(9)), Reason: Dropped}
			gaps = append(gaps, g)
			if err := w.Gap(g); err != nil {
				t.Fatal(err)
			}
		}
		if r.IntN(500) == 0 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := testMeta()
	m.EndNS, m.ExitCode = 99, 3
	if err := w.SetMeta(m); err != nil {
		t.Fatal(err)
	}
	if err := w.UpdateProcess(0, Process{PID: 42, ExitCode: 3}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	rd := open(t, path)
	if !rd.Complete() || rd.Recovered() != nil {
		t.Fatal("not complete")
	}
	data := allData(t, rd)
	for i, c := range want {
		if _, ok := late[c.Index]; !ok && i%20 != 0 {
			continue
		}
		data := data[uint64(i)]
		if d := cmp.Diff(append(slices.Clone(c.Data), late[c.Index]...), data); d != "" && len(data)+len(c.Data) > 0 {
			t.Fatalf("data of call %d (-want +got):\n%s", i, d)
		}
	}
	// Calls returns data in the same chunk too; compare the data that was passed with the call.
	got := collect(t, rd, nil)
	for i, c := range got {
		if n := len(want[i].Data); len(c.Data) > n {
			c.Data = c.Data[:n]
		}
	}
	equal(t, got, want)
	if d := cmp.Diff(gaps, rd.Gaps()); d != "" {
		t.Fatal(d)
	}
	if d := cmp.Diff(m, rd.Meta()); d != "" {
		t.Fatal(d)
	}
	if p := rd.Processes(); len(p) != 1 || p[0].ExitCode != 3 {
		t.Fatalf("processes %v", p)
	}
	if n := len(rd.Threads()); n != 4 {
		t.Fatalf("%d threads", n)
	}
	schema := testSchema()
	if d := cmp.Diff(schema.Functions, rd.Schema().Functions, cmpopts.IgnoreUnexported(Function{})); d != "" {
		t.Fatal(d)
	}
	if len(rd.Damage()) > 0 || len(rd.Unknown()) > 0 {
		t.Fatalf("damage %v, unknown %v", rd.Damage(), rd.Unknown())
	}
	checkCounts(t, rd, want)
	checkFilters(t, rd, want)
}

func checkCounts(t *testing.T, rd *Reader, want []*Call) {
	t.Helper()
	counts, err := rd.Counts()
	if err != nil {
		t.Fatal(err)
	}
	scan := sums{}
	if err := rd.count(scan, func(*eventChunk) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(scan.counts().Functions, counts.Functions); d != "" {
		t.Fatalf("counts by scan and by summary differ:\n%s", d)
	}
	var failed, unfinished uint64
	for _, c := range want {
		if c.Flags&Unfinished != 0 {
			unfinished++
		} else if c.Ret != 0 {
			failed++
		}
	}
	if counts.Calls != uint64(len(want)) || counts.Failed != failed || counts.Unfinished != unfinished {
		t.Fatalf("counts %+v, want %d failed, %d unfinished", counts, failed, unfinished)
	}
}

func checkFilters(t *testing.T, rd *Reader, want []*Call) {
	t.Helper()
	from, to := want[len(want)/3].Start, want[len(want)/2].Start
	for _, f := range []*Filter{
		{Funcs: []uint16{10, 24}}, {Threads: []uint32{2}}, {From: from, To: to}, {From: from}, {To: to},
		{Funcs: []uint16{17}, Threads: []uint32{0, 3}, From: from, To: to},
	} {
		var match []uint64
		for _, c := range want {
			if (len(f.Funcs) == 0 || slices.Contains(f.Funcs, c.Func)) && (len(f.Threads) == 0 || slices.Contains(f.Threads, c.Thread)) &&
				(f.From == 0 || c.End >= f.From) && (f.To == 0 || c.Start < f.To) {
				match = append(match, c.Index)
			}
		}
		var got []uint64
		for _, c := range collect(t, rd, f) {
			got = append(got, c.Index)
			if !slices.Equal(c.Args, want[c.Index].Args) {
				t.Fatalf("arguments of call %d differ", c.Index)
			}
		}
		if !slices.Equal(got, match) {
			t.Fatalf("filter %+v gives %d calls, want %d", f, len(got), len(match))
		}
	}
	var got, all []uint64
	for c, err := range rd.CallsByStart(nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c.Index)
	}
	for _, c := range sortedByStart(want) {
		all = append(all, c.Index)
	}
	if !slices.Equal(got, all) {
		t.Fatal("calls by start are not in order")
	}
}

func TestEqualPayloadsAreStoredOnce(t *testing.T) {
	path := tempFile(t)
	w := create(t, path, nil)
	r := newRandom(1)
	big := append(r.bytes(3<<20+17), make([]byte, 2<<20)...)
	payloads := [][]byte{r.bytes(5000), {}, make([]byte, 5<<20+1), big, bytes.Repeat([]byte("abcd"), 1<<19), r.bytes(300 << 10)}
	var ids []BlobID
	for _, p := range payloads {
		id, err := putBlob(w, p)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	size := w.Size()
	for i, p := range payloads {
		id, err := putBlob(w, p)
		if err != nil || id != ids[i] {
			t.Fatalf("blob %d written again is %d, %v", ids[i], id, err)
		}
		b := w.Blobber()
		for rest := p; len(rest) > 0; {
			n := min(len(rest), 1+r.IntN(1<<19))
			if _, err := b.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if id, err = b.Close(); err != nil || id != ids[i] {
			t.Fatalf("blob %d in pieces is %d, %v", ids[i], id, err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if w.Size() != size {
		t.Fatalf("the same payloads took %d bytes again", w.Size()-size)
	}
	c := &Call{Func: 3, Data: []Data{{Bytes: payloads[0]}, {Blob: ids[3], Len: uint64(len(big))}}}
	if _, err := w.Call(c); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Call(&Call{Func: 3, Data: []Data{{Blob: 99}}}); err == nil {
		t.Fatal("a blob that does not exist was accepted")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	rd := open(t, path)
	for i, p := range payloads {
		got, err := rd.Blob(ids[i])
		if err != nil || !bytes.Equal(got, p) {
			t.Fatalf("blob %d: %d bytes, %v", ids[i], len(got), err)
		}
		_, n, stored, err := rd.BlobInfo(ids[i])
		if err != nil || n != uint64(len(p)) || i == 2 && stored != 0 {
			t.Fatalf("blob %d: size %d, stored %d, %v", ids[i], n, stored, err)
		}
	}
	calls := collect(t, rd, nil)
	if calls[0].Data[0].Blob != ids[0] || calls[0].Data[0].Len != 5000 || calls[0].Data[1].Blob != ids[3] {
		t.Fatalf("%+v", calls[0].Data)
	}
	stats, err := rd.BlobStats()
	if err != nil || stats.Blobs != uint64(len(payloads)) {
		t.Fatalf("%+v, %v", stats, err)
	}
	if _, err := rd.Blob(99); err == nil {
		t.Fatal("blob 99 exists")
	}
}

// A key is in the table once with content and at most once without, and the stored content serves both.
func TestBlobKeys(t *testing.T) {
	path := tempFile(t)
	w := create(t, path, nil)
	b := newRandom(1).bytes(9000)
	h := xxh3.Hash128(b)
	named := func() BlobID {
		id, err := w.Named(h.Lo, h.Hi, uint64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	hasher := w.Hasher()
	if _, err := hasher.Write(b); err != nil {
		t.Fatal(err)
	}
	unkept, err := hasher.Close()
	if err != nil || named() != unkept || named() != unkept {
		t.Fatalf("a hash is named %d and %d, %v", unkept, named(), err)
	}
	kept, err := putBlob(w, b)
	if err != nil || kept == unkept || named() != kept {
		t.Fatalf("content is named %d, its hash %d and %d, %v", kept, unkept, named(), err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := open(t, path)
	if got, err := r.Blob(kept); err != nil || !bytes.Equal(got, b) {
		t.Error(err)
	}
	if _, err := r.Blob(unkept); !errors.Is(err, ErrNotKept) {
		t.Error(err)
	}
	if s, err := r.BlobStats(); err != nil || s.Blobs != 2 {
		t.Errorf("%+v, %v", s, err)
	}
}

// Two contents with one key are both stored if the first is still in memory when the second comes.
func TestBlobCollision(t *testing.T) {
	path := tempFile(t)
	w := create(t, path, nil)
	w.blobs.hash = func(b []byte) xxh3.Uint128 { return xxh3.Uint128{Lo: uint64(b[0])} }
	var ids []BlobID
	payloads := [][]byte{bytes.Repeat([]byte{1, 2}, 3000), bytes.Repeat([]byte{1, 3}, 3000), bytes.Repeat([]byte{2, 2}, 3000)}
	for range 2 {
		for _, p := range payloads {
			id, err := putBlob(w, p)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
	}
	if ids[0] == ids[1] || ids[0] == ids[2] || ids[5] != ids[2] {
		t.Fatalf("blobs %v", ids)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := open(t, path)
	for i, id := range ids {
		e, err := r.blobs.entry(id)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.blobs.extent(nil, e.extents[0], int(e.size)); err != nil || !bytes.Equal(got, payloads[i%3]) {
			t.Errorf("blob %d has other content than was given: %v", id, err)
		}
	}
}

// Payloads are packed if a sample shrinks, and stored unchanged otherwise, at any size; extents have 1 MiB.
func TestBlobCompression(t *testing.T) {
	path := tempFile(t)
	w := create(t, path, nil)
	r := newRandom(3)
	noise := r.bytes(2<<20 + 5000)
	text := bytes.Repeat([]byte("layer 17: weights of attention; "), 1<<15)
	for _, p := range [][]byte{noise, text} {
		if _, err := putBlob(w, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var packed, plain int
	for _, e := range open(t, path).file.Entries() {
		if e.Type != container.Blob {
			continue
		}
		if e.RawLen > extentSize {
			t.Errorf("a chunk of %d bytes", e.RawLen)
		}
		if e.Codec == container.None {
			plain += int(e.RawLen)
		} else {
			packed += int(e.RawLen)
		}
	}
	if plain != len(noise) || packed != len(text) {
		t.Errorf("%d bytes are packed and %d are not, want %d and %d", packed, plain, len(text), len(noise))
	}
}

// A call with more data than a block holds is read whole.
func TestLargeCall(t *testing.T) {
	path := tempFile(t)
	w := create(t, path, nil)
	r := newRandom(3)
	c := &Call{Func: 3, Start: 1, End: 2}
	for i := range 6000 {
		c.Data = append(c.Data, Data{Item: uint32(i), Bytes: r.bytes(InlineLimit), Len: InlineLimit, Time: 1})
	}
	if _, err := w.Call(c); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rd := open(t, path)
	data := allData(t, rd)[0]
	if len(data) != len(c.Data) {
		t.Fatalf("%d pieces, want %d", len(data), len(c.Data))
	}
	for i := range data {
		if data[i].Item != uint32(i) || !bytes.Equal(data[i].Bytes, c.Data[i].Bytes) {
			t.Fatalf("piece %d differs", i)
		}
	}
}

// Payloads come from several goroutines, beside calls that come from one after another.
func TestConcurrentWrite(t *testing.T) {
	path := tempFile(t)
	w := create(t, path, nil)
	const each = 300
	var wg sync.WaitGroup
	var turn sync.Mutex
	for thread := range uint32(4) {
		wg.Go(func() {
			r := newRandom(uint64(thread))
			for i := range each {
				id, err := putBlob(w, r.bytes(5000+i%3))
				if err != nil {
					t.Error(err)
					return
				}
				c := &Call{Func: 10, Thread: thread, Start: int64(i), End: int64(i), Args: []uint64{uint64(i)}, Data: []Data{{Blob: id}}}
				turn.Lock()
				if _, err := w.Call(c); err != nil {
					t.Error(err)
				}
				if i%50 == 0 {
					if err := w.Flush(); err != nil {
						t.Error(err)
					}
				}
				turn.Unlock()
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rd := open(t, path)
	var next [4]uint64
	for c, err := range rd.Calls(nil) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Args[0] != next[c.Thread] {
			t.Fatalf("thread %d: call %d, want %d", c.Thread, c.Args[0], next[c.Thread])
		}
		next[c.Thread]++
		if _, err := rd.Blob(c.Data[0].Blob); err != nil {
			t.Fatal(err)
		}
	}
	if next != [4]uint64{each, each, each, each} {
		t.Fatal(next)
	}
}

// A write that fails costs the block and is accounted for; the file before it and after it is whole.
func TestWriteFails(t *testing.T) {
	path := tempFile(t)
	w := create(t, path, nil)
	call := func(n int) {
		for range n {
			if _, err := w.Call(&Call{Func: 3, Start: 5, End: 9}); err != nil {
				t.Fatal(err)
			}
		}
	}
	call(3)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	call(4)
	w.lose(w.block)
	w.block.reset(w.next)
	call(5)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rd := open(t, path)
	if got := indexes(t, rd); !slices.Equal(got, []uint64{0, 1, 2, 7, 8, 9, 10, 11}) {
		t.Fatalf("calls %v", got)
	}
	want := []Gap{{Thread: NoThread, From: 5, To: 9, Calls: 4, Reason: WriteFailed}}
	if d := cmp.Diff(want, rd.Gaps()); d != "" {
		t.Fatal(d)
	}
	counts, err := rd.Counts()
	if err != nil || counts.Calls != 8 || counts.GapCalls != 4 {
		t.Fatalf("%+v, %v", counts, err)
	}
	if report, err := Check(path, nil); err != nil || len(report.Problems) > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
}

// Argument blocks of a kernel with few shapes are grouped by shape, as long as there are many of each, and
// read back as they were.
func TestArgumentsAreGroupedByShape(t *testing.T) {
	path := tempFile(t)
	w := create(t, path, nil)
	var want []*Call
	var tables []int
	for block, shapes := range []int{3, 3, 40, 3, 3, 3} {
		n := 600
		if block >= 4 {
			n = 20
		}
		for i := range n {
			shape := uint64(i*5) % uint64(shapes)
			content := make([]byte, 20*8+3)
			for k := range 20 {
				binary.LittleEndian.PutUint64(content[k*8:], 1000+shape*uint64(k%4))
			}
			binary.LittleEndian.PutUint64(content, uint64(i))
			c := &Call{Func: 3, Start: int64(len(want)) * 10, End: int64(len(want))*10 + 5, Data: []Data{{Param: 1, Group: 7, Addr: 8, Time: int64(len(want)) * 10, Len: uint64(len(content)), Bytes: content}}}
			if _, err := w.Call(c); err != nil {
				t.Fatal(err)
			}
			want = append(want, written(c))
		}
		tables = append(tables, len(w.block.live))
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// Variants begin in the block after the one that shows them, are eight at most, of which three were there before,
	// and end when there are few calls of each.
	if fmt.Sprint(tables) != "[1 3 7 3 3 1]" {
		t.Errorf("tables of the blocks: %v", tables)
	}
	equal(t, collect(t, open(t, path), nil), want)
}
