package container

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// checkpointed writes n chunks, with a checkpoint every few, and leaves the file without an end.
func checkpointed(t *testing.T, n int) (path string, bodies [][]byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "run.aclt")
	w, err := Create(path, &FileHeader{Major: Major, Session: [16]byte{1, 2, 3, 4}}, &Options{CheckpointChunks: 8})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		body := bytes.Repeat(fmt.Appendf(nil, "chunk %d ", i), 1+i%50)
		if _, err := w.Append(&Chunk{Type: Events, Codec: Codec(i % 3), TMin: int64(i), TMax: int64(i + 1), Raw: body, Frames: []int{4, len(body) / 2}}); err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, body)
		w.background.Wait()
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	return path, bodies
}

func contents(t *testing.T, f *File) (events [][]byte, checkpoints []Entry) {
	t.Helper()
	for i := range f.Entries() {
		e := &f.Entries()[i]
		if e.Type == Checkpoint {
			checkpoints = append(checkpoints, *e)
			continue
		}
		raw, err := f.Read(e, nil)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, raw)
	}
	return events, checkpoints
}

// A file without an end is opened from its last checkpoint. A damaged header before it shows that: it
// is not read then. A damaged checkpoint costs nothing.
func TestOpenFromTheLastCheckpoint(t *testing.T) {
	path, bodies := checkpointed(t, 100)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	open := func(b []byte) *File {
		f, err := NewFile(path, bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	check := func(f *File, why string) {
		t.Helper()
		if got, _ := contents(t, f); len(got) != len(bodies) || !bytes.Equal(bytes.Join(got, nil), bytes.Join(bodies, nil)) {
			t.Fatalf("%s: %d chunks, want %d, all as they were written", why, len(got), len(bodies))
		}
		if r := f.Recovery(); r == nil || r.LostChunks != 0 || r.LastTime != 100 {
			t.Fatalf("%s: recovery %+v", why, r)
		}
	}
	f := open(b)
	check(f, "whole")
	_, checkpoints := contents(t, f)
	if n := len(checkpoints); n < 10 {
		t.Fatalf("%d checkpoints", n)
	}
	early := f.Entries()[2]
	cut := bytes.Clone(b)
	cut[early.Offset] ^= 1
	check(open(cut), "the header of an early chunk is damaged")
	for _, c := range checkpoints {
		damaged := bytes.Clone(b)
		damaged[c.Offset+HeaderLen+3] ^= 4
		check(open(damaged), fmt.Sprintf("checkpoint at %d is damaged", c.Offset))
	}
	if got := open(b[:early.Offset]); len(got.Entries()) != 2 {
		t.Fatalf("%d chunks in a file cut behind two", len(got.Entries()))
	}
}

// An error of the work before a checkpoint is not lost, and nothing is synchronized after it.
func TestFailedFirstWorkFailsTheWriter(t *testing.T) {
	failure, synced := errors.New("no blobs"), false
	o := &Options{CheckpointChunks: 1, First: func() error { return failure }, datasync: func(*os.File) error { synced = true; return nil }}
	w, err := Create(filepath.Join(t.TempDir(), "run.aclt"), &FileHeader{Major: Major}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for range 2 {
		if _, err = w.Append(&Chunk{Type: Events, Raw: []byte("chunk")}); err != nil {
			break
		}
		w.background.Wait()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !errors.Is(w.syncErr, failure) || synced {
		t.Errorf("%v, then %v; synchronized: %t", err, w.syncErr, synced)
	}
}

// Only requested frames are unpacked.
func TestRequestedFramesAreUnpacked(t *testing.T) {
	path, bodies := checkpointed(t, 60)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var c Content
	at, partly := 0, 0
	for i := range f.Entries() {
		e := &f.Entries()[i]
		if e.Type == Checkpoint {
			continue
		}
		want := bodies[at]
		at++
		if err := f.ReadContent(e, &c); err != nil {
			t.Fatal(err)
		}
		clear(c.Bytes())
		end, err := c.Frame(len(want) - 1)
		if err != nil || end != len(want) || c.Unpack(len(want), len(want)) != nil {
			t.Fatalf("the last frame of chunk %d ends at %d of %d: %v", at, end, len(want), err)
		}
		if e.Codec != None {
			if bytes.Equal(c.Bytes(), want) || !bytes.Equal(c.Bytes()[len(want)/2:], want[len(want)/2:]) {
				t.Fatalf("chunk %d packed by %v, its last frame: %q", at, e.Codec, c.Bytes())
			}
			partly++
		}
		if err := c.Unpack(0, len(want)); err != nil || !bytes.Equal(c.Bytes(), want) {
			t.Fatalf("chunk %d packed by %v: %q, %v", at, e.Codec, c.Bytes(), err)
		}
	}
	if partly == 0 {
		t.Fatal("no chunk has frames")
	}
}

// Chunks in a checkpoint survive a loss of power. Take a disk that has kept all synchronized data and any
// other pages in any order: it has every chunk that a whole checkpoint on it names.
func TestPowerLoss(t *testing.T) {
	const page = 512
	type sync struct{ kept, done int64 } // length of the file when it began and when it ended
	var syncs []sync
	path := filepath.Join(t.TempDir(), "run.aclt")
	var w *Writer
	size := func(f *os.File) int64 {
		info, err := f.Stat()
		if err != nil {
			t.Error(err)
		}
		return info.Size()
	}
	var until atomic.Int64 // target of the writer while the disk writes; 0 before
	o := &Options{CheckpointChunks: 6, datasync: func(f *os.File) error {
		begin := size(f)
		until.Store(begin + 900)
		for w.Size() < begin+900 {
			time.Sleep(50 * time.Microsecond)
		}
		syncs = append(syncs, sync{begin, size(f)})
		until.Store(0)
		return nil
	}}
	w, err := Create(path, &FileHeader{Major: Major, Session: [16]byte{1, 2, 3, 4}}, o)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 400 {
		body := bytes.Repeat(fmt.Appendf(nil, "chunk %d ", i), 1+i%50)
		if _, err := w.Append(&Chunk{Type: Events, Raw: body}); err != nil {
			t.Fatal(err)
		}
		syncing := func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.syncing
		}
		for syncing() && w.Size() >= until.Load() {
			time.Sleep(50 * time.Microsecond)
		}
	}
	for busy := true; busy; {
		if _, err := w.Append(&Chunk{Type: Events, Raw: make([]byte, 100)}); err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		busy = w.syncing
		w.mu.Unlock()
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := NewFile(path, bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	believed := 0
	for range 60 {
		lost := bytes.Clone(b[:FileHeaderLen+rng.IntN(len(b)-FileHeaderLen)]) // a file without its header can't be opened
		kept := int64(FileHeaderLen)
		for _, s := range syncs {
			if s.done <= int64(len(lost)) {
				kept = max(kept, s.kept)
			}
		}
		for at := kept &^ (page - 1); at < int64(len(lost)); at += page {
			if rng.IntN(2) == 0 {
				clear(lost[max(at, kept):min(at+page, int64(len(lost)))])
			}
		}
		f, err := NewFile(path, bytes.NewReader(lost), int64(len(lost)))
		if err != nil {
			t.Fatal(err)
		}
		named := uint64(0)
		checkpoints := 0
		for i := range f.Entries() {
			if e := &f.Entries()[i]; e.Type == Checkpoint {
				raw, err := f.Read(e, nil)
				if err != nil {
					continue
				}
				named = binary.LittleEndian.Uint64(raw[8:]) + uint64(len(raw)-checkpointHead)/entryLen
				checkpoints++
			}
		}
		if checkpoints > 0 {
			believed++
		}
		for i := range named {
			e := f.Entries()[i]
			if e != whole.Entries()[i] {
				t.Fatalf("%d bytes, of which %d were kept: chunk %d is %+v", len(lost), kept, i, e)
			}
			if _, err := f.Read(&e, nil); err != nil {
				t.Fatalf("%d bytes, of which %d were kept: %v", len(lost), kept, err)
			}
		}
	}
	if believed < 20 {
		t.Errorf("only %d of the files had a checkpoint", believed)
	}
}
