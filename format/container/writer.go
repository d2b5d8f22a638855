package container

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"syscall"

	"github.com/acltrace/acltrace/internal/atomicfile"
)

// A Chunk is what Append takes.
type Chunk struct {
	Type    Type
	Flags   Flags
	Codec   Codec // wanted; None is used when it does not make the bytes fewer
	TMin    int64
	TMax    int64
	Records uint32
	Dropped uint32
	Raw     []byte
	// Frames are the places in Raw at which packing begins anew, ascending, so that a reader can stop there.
	Frames []int
}

// Options change what Create does; nil stands for the zero value.
type Options struct {
	CheckpointBytes  int64 // of the file between two checkpoints, 64 MiB when 0
	CheckpointChunks int   // the same in chunks, 256 when 0
	// First, where it is not nil, makes durable what chunks refer to in another file, before a checkpoint says that they are.
	First func() error
	// Before, where it is not nil, is called when Create has the file to itself and has changed nothing of it. Its
	// error leaves an older file as it is.
	Before func() error
	// Whole has the file get its name when Finish has written all of it, see package whole: until then, and after an
	// error or Abort, an older file is as it was. Proof, where it is not nil, is called before that with the name that
	// the file has, and its error is one of Finish.
	Whole bool
	Proof func(path string) error

	datasync func(*os.File) error // that of the operating system when nil
}

// A Writer writes one file, from any number of goroutines.
type Writer struct {
	path string
	tag  uint32
	part *atomicfile.File // nil where it has its name already

	mu      sync.Mutex
	f       *os.File
	off     int64
	seq     uint64
	entries []Entry
	closed  bool

	o          Options
	lastOff    int64 // of the last checkpoint, 0 for none
	covered    int   // entries that checkpoints have
	coveredOff int64 // length of the file when the last checkpoint was begun
	syncing    bool
	syncErr    error
	background sync.WaitGroup

	reserved int64 // the file system has promised room up to here; -1 where it makes no promises
	closing  bool  // what is written may use the room that is kept for the end
}

var bufPool = sync.Pool{New: func() any { return new([]byte) }}

// Create makes the file, readable by its owner only, or empties one that is there, and writes the file header. It fails when another
// Writer, in this process or any other, has the file open.
func Create(path string, h *FileHeader, o *Options) (*Writer, error) {
	if o == nil {
		o = &Options{}
	}
	f, part, made, err := create(path, o.Whole)
	if err != nil {
		return nil, fmt.Errorf("create trace: %w", err)
	}
	w := &Writer{path: path, tag: h.Tag(), part: part, f: f, off: FileHeaderLen, o: *o}
	w.o.CheckpointBytes = cmp.Or(w.o.CheckpointBytes, 64<<20)
	w.o.CheckpointChunks = cmp.Or(w.o.CheckpointChunks, 256)
	if w.o.datasync == nil {
		w.o.datasync = datasync
	}
	empty, err := w.begin(h, made)
	if err == nil {
		return w, nil
	}
	if part != nil {
		return nil, errors.Join(err, part.Drop())
	}
	if empty {
		err = errors.Join(err, os.Remove(path)) // nobody is to take it for a trace
	}
	f.Close()
	return nil, err
}

// create opens the file to write into, and tells whether it has made it.
func create(path string, all bool) (f *os.File, part *atomicfile.File, made bool, err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && (all || !info.IsDir()) {
		return nil, nil, false, notRegular(path)
	}
	if !all {
		f, made, err = atomicfile.Open(path)
		return f, nil, made, err
	}
	if part, err = atomicfile.Create(path); err != nil {
		return nil, nil, false, err
	}
	return part.File, part, true, nil
}

func notRegular(path string) error { return fmt.Errorf("%s is not a regular file; name one", path) }

// begin writes the file header into a file that may just have been made. empty tells, where that fails, that nothing is
// in the file and that nobody else writes it.
func (w *Writer) begin(h *FileHeader, made bool) (empty bool, err error) {
	info, err := w.f.Stat()
	if err != nil {
		return false, fmt.Errorf("create trace: %w", err)
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("create trace: %w", notRegular(w.path))
	}
	// The lock comes before anything that changes the file: it may be a trace that is being written.
	if err := atomicfile.Lock(w.f); err != nil {
		return false, fmt.Errorf("create trace: %s %w: %w", w.path, atomicfile.ErrTaken, err)
	}
	if w.o.Before != nil {
		if err := w.o.Before(); err != nil {
			return made, err
		}
	}
	// A file that was there may be open to others; what will be in it is not for them.
	if err := w.f.Chmod(0o600); err != nil {
		return made, fmt.Errorf("create trace: %w", err)
	}
	if err := w.f.Truncate(0); err != nil {
		return made, fmt.Errorf("create trace: %w", err)
	}
	if _, err := w.f.WriteAt(h.encode(), 0); err != nil {
		return true, fmt.Errorf("create trace: %w", err)
	}
	return false, nil
}

// Append packs the chunk and writes it. After an error the file ends where it ended before, and Append may be tried again.
func (w *Writer) Append(c *Chunk) (Entry, error) {
	if len(c.Raw) > MaxRaw {
		return Entry{}, fmt.Errorf("%s: %s chunk of %d bytes is larger than %d", w.path, c.Type, len(c.Raw), MaxRaw)
	}
	p := bufPool.Get().(*[]byte)
	defer bufPool.Put(p)
	buf, codec := compress(append((*p)[:0], make([]byte, HeaderLen)...), c.Raw, c.Frames, c.Codec)
	stored := len(buf) - HeaderLen
	e := Entry{Header: Header{
		Type: c.Type, Flags: c.Flags, Codec: codec,
		StoredLen: uint32(stored), RawLen: uint32(len(c.Raw)),
		TMin: c.TMin, TMax: c.TMax, Records: c.Records, Tag: w.tag, Dropped: c.Dropped,
		CRC: checksum(buf[HeaderLen:]),
	}}
	buf = append(buf, make([]byte, align(int64(stored))-int64(stored))...)
	*p = buf

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return Entry{}, os.ErrClosed
	}
	e.Offset, e.Seq = w.off, w.seq
	e.Header.encode(buf)
	if err := w.room(int64(len(buf))); err != nil {
		return Entry{}, err
	}
	if _, err := w.f.WriteAt(buf, w.off); err != nil {
		// Best effort: a reader finds its way past half a chunk too, and the next one is written over it.
		_ = w.f.Truncate(w.off)
		w.reserved = min(w.reserved, w.off) // what lies behind is given back by that
		return Entry{}, fmt.Errorf("write trace: %w", err)
	}
	w.off += int64(len(buf))
	w.seq++
	w.entries = append(w.entries, e)
	// The index stands for all checkpoints: one that began behind it would come behind the end, or when the file is closed.
	if !w.syncing && !w.closing && (len(w.entries)-w.covered >= w.o.CheckpointChunks || w.off-w.coveredOff >= w.o.CheckpointBytes) {
		w.syncing = true
		n, off := len(w.entries), w.off
		w.background.Go(func() { w.checkpoint(n, off) })
	}
	return e, nil
}

// What is kept free for the end of the file, for what a writer of events writes there and for an entry of each chunk;
// and how much room is asked for at once.
const (
	endRoom   = 256 << 10
	roomAhead = 4 << 20
)

// room has the file system promise room for n bytes and, behind them, for the end of the file: a disk that is full must
// not cost the index and the account of what could not be written.
func (w *Writer) room(n int64) error {
	if w.closing || w.reserved < 0 {
		return nil
	}
	end := w.off + n + endRoom + int64(len(w.entries))*2*entryLen
	if end <= w.reserved {
		return nil
	}
	to := end + roomAhead
	err := allocate(w.f, w.reserved, to-w.reserved)
	if errors.Is(err, syscall.ENOSPC) {
		to = end
		err = allocate(w.f, w.reserved, to-w.reserved)
	}
	switch {
	case err == nil:
		w.reserved = to
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("write trace: %s: %w", w.path, err)
	default:
		w.reserved = -1
	}
	return nil
}

// Closing lets what is appended from now on have the room that was kept for the end of the file.
func (w *Writer) Closing() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
}

// checkpoint has the disk take the first n chunks, which end at off, and then says in the file that it has. It runs
// beside Append, which never waits for the disk. What an error leaves out the next checkpoint has.
func (w *Writer) checkpoint(n int, off int64) {
	var err error
	if w.o.First != nil {
		err = w.o.First()
	}
	if err == nil {
		err = w.o.datasync(w.f)
	}
	w.mu.Lock()
	defer func() {
		w.syncing, w.coveredOff = false, off
		w.syncErr = errors.Join(w.syncErr, err)
		w.mu.Unlock()
	}()
	if err != nil {
		return
	}
	le := binary.LittleEndian
	first := w.covered
	entries := w.entries[first:min(n, first+indexBatch)]
	raw := le.AppendUint64(nil, uint64(w.lastOff))
	raw = le.AppendUint64(raw, uint64(first))
	for i := range entries {
		raw = appendEntry(raw, &entries[i])
	}
	w.mu.Unlock()
	e, appendErr := w.Append(&Chunk{Type: Checkpoint, Flags: SelfContained | Ancillary, Codec: LZ4, Records: uint32(len(entries)), Raw: raw})
	w.mu.Lock()
	if err = appendErr; err == nil {
		w.lastOff = e.Offset
		w.covered = first + len(entries)
	}
}

// Size is the length of the file so far, in bytes.
func (w *Writer) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.off
}

// Sync makes what was written survive a loss of power.
func (w *Writer) Sync() error { return w.f.Sync() }

// Finish writes index and end, and closes the file. The Writer is of no use afterwards, even when it fails; the file is then
// readable as one that was cut off, unless it was to be Whole.
func (w *Writer) Finish() error {
	w.background.Wait()
	w.Closing()
	err := w.finish()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	err = errors.Join(err, w.syncErr, w.release())
	if w.part == nil {
		return errors.Join(err, w.f.Close())
	}
	if err == nil && w.o.Proof != nil {
		err = w.o.Proof(w.f.Name())
	}
	if err == nil {
		err = w.part.Keep()
	}
	return errors.Join(err, w.part.Drop())
}

func (w *Writer) finish() error {
	w.mu.Lock()
	entries := w.entries
	first := w.off
	w.mu.Unlock()
	var raw []byte
	chunks := uint32(0)
	for len(entries) > 0 {
		n := min(len(entries), indexBatch)
		raw = raw[:0]
		for i := range entries[:n] {
			raw = appendEntry(raw, &entries[i])
		}
		if _, err := w.Append(&Chunk{Type: Index, Flags: SelfContained | Ancillary, Codec: LZ4, Records: uint32(n), Raw: raw}); err != nil {
			return err
		}
		entries = entries[n:]
		chunks++
	}
	le := binary.LittleEndian
	b := make([]byte, endLen)
	le.PutUint64(b[0:], uint64(first))
	le.PutUint32(b[8:], chunks)
	le.PutUint64(b[16:], w.seq+1)
	le.PutUint64(b[24:], uint64(w.off)+HeaderLen+endLen)
	_, err := w.Append(&Chunk{Type: End, Flags: SelfContained | Ancillary, Records: chunks, Raw: b})
	return err
}

// Abort closes the file as it is, and removes it where it was to be Whole.
func (w *Writer) Abort() error {
	w.background.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.part != nil {
		return w.part.Drop()
	}
	return errors.Join(w.release(), w.f.Close())
}

// release gives back the room behind the end of the file.
func (w *Writer) release() error {
	if w.reserved <= w.off {
		return nil
	}
	return w.f.Truncate(w.off)
}

func appendEntry(b []byte, e *Entry) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(e.Offset))
	at := len(b)
	b = append(b, make([]byte, HeaderLen)...)
	e.Header.encode(b[at:])
	return b
}

func decodeEntry(b []byte) (e Entry, ok bool) {
	off := binary.LittleEndian.Uint64(b)
	e.Header, ok = decodeHeader(b[8:entryLen])
	e.Offset = int64(off)
	return e, ok && off <= math.MaxInt64-MaxRaw-HeaderLen-8
}
