package container

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
)

// A File is a trace opened for reading.
type File struct {
	path     string
	r        io.ReaderAt
	size     int64
	close    func() error
	header   FileHeader
	entries  []Entry
	recovery *Recovery

	mu     sync.Mutex
	damage []ErrCorrupt
}

// A Recovery describes a file without a readable end.
type Recovery struct {
	Chunks     int    `json:"chunks"`       // whole chunks found
	LostBytes  int64  `json:"lost_bytes"`   // bytes that belong to no chunk
	LostChunks uint64 `json:"lost_chunks"`  // missing chunks by the sequence numbers
	LastTime   int64  `json:"last_time_ns"` // latest time in any whole chunk, on the clock of the calls
	Reason     string `json:"reason"`       // why the index was not used
}

// Open opens the file by its index, or walks through it if it has none.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err // the error names the operation and the file
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &ErrNotTrace{Path: path, Found: kind(info.Mode())}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	file, err := NewFile(path, f, info.Size())
	if err != nil {
		f.Close()
		return nil, err
	}
	file.close = f.Close
	return file, nil
}

// kind names a file that is not a regular one.
func kind(m os.FileMode) string {
	if m.IsDir() {
		return "a folder"
	}
	return "something that is not a regular file"
}

// NewFile reads a trace of the given size from r; path is only used in messages.
func NewFile(path string, r io.ReaderAt, size int64) (*File, error) {
	f := &File{path: path, r: r, size: size, close: func() error { return nil }}
	if err := f.readHeader(); err != nil {
		return nil, err
	}
	if reason := f.readIndex(); reason != "" {
		if err := f.walk(reason); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *File) Close() error { return f.close() }

// Path is the name under which the file was opened.
func (f *File) Path() string { return f.path }

// Size is the length of the file in bytes at Open.
func (f *File) Size() int64 { return f.size }

func (f *File) Header() FileHeader { return f.header }

// Entries returns the chunks in file order, without index and end. The slice must not be changed.
func (f *File) Entries() []Entry { return f.entries }

// Recovery is nil if the file has its end and its index.
func (f *File) Recovery() *Recovery { return f.recovery }

// Damage returns the damaged places found so far; chunks are checked when they are read.
func (f *File) Damage() []ErrCorrupt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]ErrCorrupt(nil), f.damage...)
}

// Corrupt records damage in chunk e, once for each chunk, and returns it as an error.
func (f *File) Corrupt(e *Entry, what string) error {
	c := ErrCorrupt{Path: f.path, Offset: e.Offset, Chunk: e.Type, Seq: e.Seq, What: what}
	f.note(c)
	return &c
}

func (f *File) note(c ErrCorrupt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.damage {
		if f.damage[i].Offset == c.Offset {
			return
		}
	}
	f.damage = append(f.damage, c)
}

// readAt reads less than requested only at the end of the file.
func (f *File) readAt(b []byte, off int64) (int, error) {
	n, err := f.r.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("read trace: %w", err)
	}
	return n, nil
}

// Padding verifies that the bytes between the chunk and the next one are zero.
func (f *File) Padding(e *Entry) error {
	n := min(e.next(), f.size) - e.end()
	var b [8]byte
	if n <= 0 {
		return nil
	}
	if _, err := f.readAt(b[:n], e.end()); err != nil {
		return err
	}
	if b != [8]byte{} {
		return f.Corrupt(e, "padding is not zero; content is whole")
	}
	return nil
}

// Tail verifies the chunks that Entries leaves out, index and end, and their padding.
func (f *File) Tail() error {
	next := int64(f.header.length)
	if n := len(f.entries); n > 0 {
		next = f.entries[n-1].next()
	}
	for next+HeaderLen <= f.size {
		e, err := f.headerAt(next)
		if err != nil {
			return err
		}
		if e.end() > f.size && f.recovery != nil {
			return nil // half a chunk at the end: the writer died
		}
		if _, err := f.Read(&e, nil); err != nil {
			return err
		}
		if err := f.Padding(&e); err != nil {
			return err
		}
		next = e.next()
	}
	return nil
}

func (f *File) readHeader() error {
	b := make([]byte, FileHeaderLen+HeaderLen)
	n, err := f.readAt(b, 0)
	if err != nil {
		return err
	}
	b = b[:n]
	if n < FileHeaderLen {
		if n > 0 && string(b[:min(n, 8)]) == fileMagic[:min(n, 8)] {
			return fmt.Errorf("%s: %w in its header, after %d bytes", f.path, ErrTruncated, n)
		}
		return &ErrNotTrace{Path: f.path, Found: describe(b)}
	}
	var ok bool
	f.header, ok = decodeFileHeader(b)
	chunk, next := decodeHeader(b[FileHeaderLen:])
	switch {
	case ok && f.header.Major > Major:
		return &ErrVersion{Path: f.path, Major: f.header.Major, Minor: f.header.Minor}
	case ok && f.header.Incompat != 0:
		return &ErrVersion{Path: f.path, Major: f.header.Major, Minor: f.header.Minor, Incompat: f.header.Incompat}
	case ok && f.header.Major == Major && f.header.length >= FileHeaderLen && f.header.length <= 1<<16 && f.header.length%8 == 0:
		return nil
	case ok:
		return &ErrCorrupt{Path: f.path, What: "file header makes no sense"}
	case next:
		// The next chunk confirms the file. Fields that only the header has are taken from their copies.
		f.note(ErrCorrupt{Path: f.path, What: "checksum of the file header differs; content is whole"})
		f.header.Major, f.header.Incompat, f.header.length = Major, 0, FileHeaderLen
		binary.LittleEndian.PutUint32(f.header.Session[:], chunk.Tag)
		return nil
	case string(b[:8]) != fileMagic:
		return &ErrNotTrace{Path: f.path, Found: describe(b)}
	case f.header.Major > Major:
		return &ErrVersion{Path: f.path, Major: f.header.Major, Minor: f.header.Minor}
	}
	return &ErrCorrupt{Path: f.path, What: "checksum of the file header differs, and no chunk follows"}
}

func describe(b []byte) string {
	known := []struct{ magic, name string }{
		{"\x7fELF", "an ELF program or library"},
		{"SQLite format 3", "an SQLite database"},
		{"\x28\xb5\x2f\xfd", "zstd-compressed data"},
		{"\x1f\x8b", "gzip-compressed data"},
		{"PK\x03\x04", "a zip archive"},
		{"{", "text that looks like JSON"},
		{"#!", "a script"},
	}
	if len(b) == 0 {
		return "an empty file"
	}
	for _, k := range known {
		if bytes.HasPrefix(b, []byte(k.magic)) {
			return k.name
		}
	}
	return fmt.Sprintf("%q", b[:min(len(b), 8)])
}

const noEnd = "the file has no end"

// readIndex reads the end and the index. It returns the reason for a failure, or an empty string.
func (f *File) readIndex() string {
	b := make([]byte, HeaderLen+endLen)
	at := f.size - int64(len(b))
	if at < int64(f.header.length) {
		return noEnd
	}
	if _, err := f.readAt(b, at); err != nil {
		return err.Error()
	}
	h, ok := decodeHeader(b)
	if !ok || h.Type != End || h.Tag != f.header.Tag() || h.StoredLen != endLen || checksum(b[HeaderLen:]) != h.CRC {
		return noEnd
	}
	le := binary.LittleEndian
	end := b[HeaderLen:]
	off, chunks, total, size := le.Uint64(end), le.Uint32(end[8:]), le.Uint64(end[16:]), le.Uint64(end[24:])
	// Every entry needs a chunk with at least a header, which bounds a hostile end's claims.
	if size != uint64(f.size) || off < uint64(f.header.length) || off > uint64(at) || total > uint64(f.size)/HeaderLen || uint64(chunks) > total {
		return "the end contradicts the file"
	}
	entries := make([]Entry, 0, total)
	var raw []byte
	next := int64(off)
	for range chunks {
		e, err := f.headerAt(next)
		if err == nil && e.Type == Index && e.end() <= at {
			raw, err = f.Read(&e, raw)
		}
		if err != nil || e.Type != Index {
			return "the index is damaged"
		}
		if entries, ok = f.appendEntries(entries, raw, at); !ok {
			_ = f.Corrupt(&e, "an entry is damaged")
			return "the index is damaged"
		}
		next = e.next()
	}
	f.entries = entries
	return ""
}

// appendEntries adds the entries in raw. They name chunks before end and continue the list entries.
func (f *File) appendEntries(entries []Entry, raw []byte, end int64) ([]Entry, bool) {
	if len(raw)%entryLen != 0 {
		return entries, false
	}
	for ; len(raw) > 0; raw = raw[entryLen:] {
		c, ok := decodeEntry(raw)
		if !ok || c.Seq != uint64(len(entries)) || c.Offset < int64(f.header.length) || c.Offset >= end || c.Tag != f.header.Tag() {
			return entries, false
		}
		entries = append(entries, c)
	}
	return entries, true
}

func (f *File) headerAt(off int64) (Entry, error) {
	var b [HeaderLen]byte
	if _, err := f.r.ReadAt(b[:], off); err != nil {
		return Entry{}, err
	}
	h, ok := decodeHeader(b[:])
	if !ok || h.Tag != f.header.Tag() {
		return Entry{}, &ErrCorrupt{Path: f.path, Offset: off, What: "no chunk header"}
	}
	return Entry{Offset: off, Header: h}, nil
}

// walk goes from chunk to chunk. After an invalid header it searches in 8-byte steps, the alignment of chunks,
// for the next one with a higher sequence number.
func (f *File) walk(reason string) error {
	rec := &Recovery{Reason: reason}
	f.recovery = rec
	covered := int64(f.header.length)
	next := uint64(0)
	ended := false
	s := scanner{f: f}
	entries, err := s.checkpoints()
	if err != nil {
		return err
	}
	if n := len(entries); n > 0 {
		f.entries = entries
		covered, next = entries[n-1].next(), uint64(n)
		for i := range entries {
			rec.LastTime = max(rec.LastTime, entries[i].TMax)
		}
	}
	for off := covered; ; {
		e, ok, err := s.find(off, next)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if e.Offset > off {
			f.note(ErrCorrupt{Path: f.path, Offset: off, What: fmt.Sprintf("%d bytes that are no chunk", e.Offset-off)})
		}
		rec.LostChunks += e.Seq - next
		next = e.Seq + 1
		covered += min(e.next(), f.size) - e.Offset
		off = e.next()
		ended = e.Type == End
		if e.Type == Index || e.Type == End {
			continue
		}
		f.entries = append(f.entries, e)
		rec.LastTime = max(rec.LastTime, e.TMax)
	}
	rec.Chunks = len(f.entries)
	rec.LostBytes = f.size - covered
	if ended && reason == noEnd && rec.LostBytes > 0 {
		rec.Reason = "the end is not the last of the file"
	}
	if ended && rec.LostBytes > 0 && len(f.damage) == 0 {
		f.note(ErrCorrupt{Path: f.path, Offset: covered, What: fmt.Sprintf("%d bytes after the end", rec.LostBytes)})
	}
	return nil
}

// A scanner finds chunk headers. It reads the file in windows, and only to search.
type scanner struct {
	f   *File
	buf []byte
}

func (s *scanner) find(off int64, seq uint64) (Entry, bool, error) {
	var head [HeaderLen]byte
	n, err := s.f.readAt(head[:], off)
	if err != nil {
		return Entry{}, false, err
	}
	if e, ok := s.chunk(head[:n], off, seq); ok {
		return e, true, nil
	}
	const window = 1 << 20
	if s.buf == nil {
		s.buf = make([]byte, min(window+HeaderLen, max(s.f.size-off, 0)))
	}
	for ; off+HeaderLen <= s.f.size; off += window {
		n, err := s.f.readAt(s.buf, off)
		if err != nil {
			return Entry{}, false, err
		}
		for i := 0; i < window && i+HeaderLen <= n; i += 8 {
			if string(s.buf[i:i+4]) != chunkMagic {
				continue
			}
			if e, ok := s.chunk(s.buf[i:i+HeaderLen], off+int64(i), seq); ok {
				return e, true, nil
			}
		}
	}
	return Entry{}, false, nil
}

// chunk accepts a header that belongs to this file, has a later sequence number, and whose bytes are all in the file.
func (s *scanner) chunk(b []byte, off int64, seq uint64) (Entry, bool) {
	h, ok := decodeHeader(b)
	e := Entry{Offset: off, Header: h}
	if !ok || h.Tag != s.f.header.Tag() || h.Seq < seq || e.end() > s.f.size {
		return e, false
	}
	// Earlier chunks need room in the file: this bounds a forged jump of the sequence.
	return e, h.Seq <= uint64(off)/HeaderLen
}

// checkpoints returns the entries in the last checkpoint and all earlier ones, nothing if any of them is damaged.
func (s *scanner) checkpoints() ([]Entry, error) {
	// The distance of checkpoints, twice: data written while the disk was slow may follow the last one.
	const far = 128 << 20
	last, ok, err := s.lastCheckpoint(max(s.f.size-far, int64(s.f.header.length)))
	if err != nil || !ok {
		return nil, err
	}
	type part struct {
		raw []byte
		at  int64
	}
	var parts []part
	for e := last; ; {
		raw, err := s.f.Read(&e, nil)
		if err != nil || len(raw) < checkpointHead {
			return nil, IgnoreDamage(err)
		}
		parts = append(parts, part{raw, e.Offset})
		before := binary.LittleEndian.Uint64(raw)
		if before == 0 {
			break
		}
		if before >= uint64(e.Offset) {
			return nil, nil
		}
		if e, err = s.f.headerAt(int64(before)); err != nil || e.Type != Checkpoint || e.end() > s.f.size {
			return nil, IgnoreDamage(err)
		}
	}
	var entries []Entry
	for _, p := range slices.Backward(parts) {
		if binary.LittleEndian.Uint64(p.raw[8:]) != uint64(len(entries)) {
			return nil, nil
		}
		if entries, ok = s.f.appendEntries(entries, p.raw[checkpointHead:], p.at); !ok {
			return nil, nil
		}
	}
	return entries, nil
}

// lastCheckpoint searches backwards, down to an offset.
func (s *scanner) lastCheckpoint(to int64) (Entry, bool, error) {
	const window = 1 << 20
	buf := make([]byte, min(window+HeaderLen, s.f.size))
	for off := (s.f.size - 1) &^ (window - 1); off+window > to && off >= 0; off -= window {
		n, err := s.f.readAt(buf, off)
		if err != nil {
			return Entry{}, false, err
		}
		for i := (n - HeaderLen) &^ 7; i >= 0; i -= 8 {
			if buf[i] != chunkMagic[0] || string(buf[i:i+4]) != chunkMagic || Type(buf[i+4]) != Checkpoint || off+int64(i) < to {
				continue
			}
			if e, ok := s.chunk(buf[i:i+HeaderLen], off+int64(i), 0); ok {
				return e, true, nil
			}
		}
	}
	return Entry{}, false, nil
}
