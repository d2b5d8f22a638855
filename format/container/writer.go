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

// A Chunk is the argument of Append.
type Chunk struct {
	Type    Type
	Flags   Flags
	Codec   Codec // wanted; None is used if packing does not reduce the size
	TMin    int64
	TMax    int64
	Records uint32
	Dropped uint32
	Raw     []byte
	// Frames are the places in Raw at which a new frame begins, ascending, so a reader can stop there.
	Frames []int
}

// Options change Create; nil means the zero value.
type Options struct {
	CheckpointBytes  int64 // file bytes between two checkpoints, 64 MiB if 0
	CheckpointChunks int   // the same in chunks, 256 if 0
	// First, if not nil, makes data in another file durable before a checkpoint covers chunks that refer to it.
	First func() error
	// Before, if not nil, is called when Create has the file to itself and has changed nothing. Its
	// error leaves an older file as it is.
	Before func() error
	// Whole: the file gets its name when Finish has written everything, see package atomicfile. Until then, and after an
	// error or Abort, an older file stays. Proof, if not nil, is called before that with the current
	// name of the file; Finish returns its error.
	Whole bool
	Proof func(path string) error

	datasync func(*os.File) error // the operating system's if nil
}

// A Writer writes one file, from any number of goroutines.
type Writer struct {
	path string
	tag  uint32
	part *atomicfile.File // nil if the file has its name already

	mu      sync.Mutex
	f       *os.File
	off     int64
	seq     uint64
	entries []Entry
	closed  bool

	o          Options
	lastOff    int64 // offset of the last checkpoint, 0 for none
	covered    int   // entries in checkpoints
	coveredOff int64 // file length at the start of the last checkpoint
	syncing    bool
	syncErr    error
	background sync.WaitGroup

	reserved int64 // the file system has reserved space up to here; -1 if it can't reserve
	closing  bool  // appends may use the space that is kept for the end
}

var bufPool = sync.Pool{New: func() any { return new([]byte) }}

// Create makes the file, readable by its owner only, or empties an existing one, and writes the file header. It fails if another
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
		err = errors.Join(err, os.Remove(path)) // the file is no trace
	}
	f.Close()
	return nil, err
}

// create opens the file for writing, and reports if it has made it.
func create(path string, all bool) (f *os.File, part *atomicfile.File, made bool, err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
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

func notRegular(path string) error { return fmt.Errorf("%s is not a regular file: name one", path) }

// begin writes the file header into a file that may be new. If it fails, empty reports that the file is
// empty and has no other writer.
func (w *Writer) begin(h *FileHeader, made bool) (empty bool, err error) {
	info, err := w.f.Stat()
	if err != nil {
		return false, fmt.Errorf("create trace: %w", err)
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("create trace: %w", notRegular(w.path))
	}
	// Lock before any change: another process may be writing the file.
	if err := atomicfile.Lock(w.f); err != nil {
		return false, fmt.Errorf("create trace: %s %w: %w", w.path, atomicfile.ErrTaken, err)
	}
	if w.o.Before != nil {
		if err := w.o.Before(); err != nil {
			return made, err
		}
	}
	// An existing file may be readable by others; the new content must not be.
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

// Append packs the chunk and writes it. After an error the file ends at its previous end, and Append may be repeated.
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
		// Best effort: a reader skips half a chunk, and the next one is written over it.
		_ = w.f.Truncate(w.off)
		w.reserved = min(w.reserved, w.off) // truncation frees the space after it
		return Entry{}, fmt.Errorf("write trace: %w", err)
	}
	w.off += int64(len(buf))
	w.seq++
	w.entries = append(w.entries, e)
	// The index replaces all checkpoints: one that began now would end up after the end, or after the close.
	if !w.syncing && !w.closing && (len(w.entries)-w.covered >= w.o.CheckpointChunks || w.off-w.coveredOff >= w.o.CheckpointBytes) {
		w.syncing = true
		n, off := len(w.entries), w.off
		w.background.Go(func() { w.checkpoint(n, off) })
	}
	return e, nil
}

// Space kept for the file's end, for an event writer's last chunks, and for each chunk's entry;
// and the size of one reservation.
const (
	endRoom   = 256 << 10
	roomAhead = 4 << 20
)

// room reserves n bytes and space for the end of the file. A full disk must
// not cost the index and the count of unwritten calls.
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

// Closing lets all later appends use the space that was kept for the end of the file.
func (w *Writer) Closing() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
}

// checkpoint makes the first n chunks durable, which end at off, and then appends the checkpoint. It runs
// beside Append, which never waits for the disk. After an error the next checkpoint covers these chunks.
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

// Sync makes all written data durable.
func (w *Writer) Sync() error { return w.f.Sync() }

// Finish writes index and end, and closes the file. The Writer is unusable afterwards, even after an error. The file is then
// readable like a truncated one, unless it was to be Whole.
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

// Abort closes the file in its current state, and removes it if it was to be Whole.
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

// release frees the reserved space after the end of the file.
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
