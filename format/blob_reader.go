package format

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"

	"github.com/acltrace/acltrace/format/column"
)

// BlobStats are the totals of the payloads in a trace.
type BlobStats struct {
	Blobs  uint64
	Bytes  uint64 // in the program, each payload once
	Stored uint64 // in the trace or the blob file, 0 if that can't be read
}

func (b *blobReader) load() error {
	b.once.Do(func() {
		b.open()
		var t blobTable
		use := func(raw []byte) error { return b.loadMap(&t, raw) }
		for _, e := range b.maps {
			if _, b.err = b.r.read(e, use); b.err != nil {
				return
			}
		}
	})
	return b.err
}

// decode is the reverse of encode, and reuses the memory of t. It reports content of later versions to unknown.
func (t *blobTable) decode(raw []byte, unknown func(what string)) error {
	for i := range t.blobs {
		t.blobs[i] = t.blobs[i][:0]
	}
	for i := range t.extents {
		t.extents[i] = t.extents[i][:0]
	}
	t.used, t.others = 0, t.others[:0]
	b := block{unknown: unknown}
	for len(raw) > 0 {
		table, rest, err := column.NextTable(raw)
		if err != nil {
			return err
		}
		if table.Kind != kindExtents {
			t.others = append(t.others, raw[:len(raw)-len(rest)]...)
		}
		raw = rest
		switch {
		case table.Kind == kindBlobs && table.Rows <= maxCalls:
			t.first = table.ID
			err = b.columns(table, t.blobs[:], int(table.Rows))
		case table.Kind == kindExtents && table.Rows <= maxBlobSize/extentSize:
			err = b.columns(table, t.extents[:], int(table.Rows))
		case table.Kind == kindBlobs || table.Kind == kindExtents:
			err = errBlock
		default:
			unknown("kind of table")
		}
		if err != nil {
			return err
		}
	}
	for _, size := range t.blobs[blobSize] {
		n := extentsOf(size)
		if size > maxBlobSize || n > uint64(len(t.extents[0])-t.used) {
			return errBlock
		}
		t.used += int(n)
	}
	return nil
}

// loadMap adds the rows of a blobmap chunk to the table. It decodes them into t.
func (b *blobReader) loadMap(t *blobTable, raw []byte) error {
	if !b.mayHold(0, 0) { // an earlier chunk was too large: decode no more
		return errBlock
	}
	err := t.decode(raw, b.r.skip)
	n := uint64(len(t.blobs[blobSize]))
	if !b.mayHold(n, uint64(len(t.extents[0]))) || err != nil {
		return cmp.Or(err, errBlock)
	}
	// A missing chunk leaves a hole in the table. The size of the file bounds a forged first number.
	if size := uint64(b.r.file.Size()); t.first > size || n > size-t.first {
		return errBlock
	}
	for uint64(len(b.table)) < t.first+n {
		b.table = append(b.table, blobEntry{})
	}
	at := 0
	for i, size := range t.blobs[blobSize] {
		e := &b.table[t.first+uint64(i)]
		*e = blobEntry{known: true, hash: xxh3.Uint128{Lo: t.blobs[blobLo][i], Hi: t.blobs[blobHi][i]}, size: size, extents: make([]place, extentsOf(size))}
		for j := range e.extents {
			e.extents[j] = place{t.extents[extentChunk][at], uint32(t.extents[extentPlace][at])}
			at++
		}
	}
	return nil
}

// mayHold counts rows of the tables of blobs and extents, and reports if there are not too many.
func (b *blobReader) mayHold(blobs, extents uint64) bool {
	return b.r.mayHold(&b.r.tableWords, 3*blobs, maxBlockWords) && b.r.mayHold(&b.r.extents, 2*extents, 2*maxBlobSize/extentSize)
}

func (b *blobReader) entry(id BlobID) (*blobEntry, error) {
	if err := b.load(); err != nil {
		return nil, err
	}
	if id == 0 || uint64(id) > uint64(len(b.table)) || !b.table[id-1].known {
		return nil, fmt.Errorf("%s: blob %d is not in the trace", b.r.file.Path(), id)
	}
	return &b.table[id-1], nil
}

// extent appends the content of one extent to dst.
func (b *blobReader) extent(dst []byte, p place, n int) ([]byte, error) {
	switch p.chunk {
	case extentHole:
		return append(dst, make([]byte, n)...), nil
	case extentUnkept:
		return dst, fmt.Errorf("%s: %w", b.r.file.Path(), ErrNotKept)
	case extentLost:
		return dst, fmt.Errorf("%s: %w", b.r.file.Path(), ErrNotWritten)
	}
	if b.file == nil {
		return dst, b.beside.missing(b.r)
	}
	e := b.chunks[int64(p.chunk)]
	if e == nil {
		return dst, b.absent(p.chunk)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.chunk != e {
		b.chunk = nil
		raw, err := b.file.Read(e, b.content)
		if err != nil {
			return dst, err
		}
		b.chunk, b.content = e, raw
	}
	if uint64(p.at)+uint64(n) > uint64(len(b.content)) {
		return dst, b.file.Corrupt(e, "blob lies outside of its chunk")
	}
	return append(dst, b.content[p.at:int(p.at)+n]...), nil
}

// BlobStats returns the totals of the payloads.
func (r *Reader) BlobStats() (BlobStats, error) {
	var s BlobStats
	if err := r.blobs.load(); err != nil {
		return s, err
	}
	for i := range r.blobs.table {
		if e := &r.blobs.table[i]; e.known {
			s.Blobs++
			s.Bytes += e.size
		}
	}
	for _, e := range r.blobs.chunks {
		s.Stored += uint64(e.StoredLen)
	}
	return s, nil
}

// BlobInfo returns a payload's key, its length, and an estimate of its bytes in the file: extents in
// one chunk share its compression, and shared extents count for each payload.
func (r *Reader) BlobInfo(id BlobID) (hash [16]byte, size, stored uint64, err error) {
	e, err := r.blobs.entry(id)
	if err != nil {
		return hash, 0, 0, err
	}
	binary.LittleEndian.PutUint64(hash[:8], e.hash.Lo)
	binary.LittleEndian.PutUint64(hash[8:], e.hash.Hi)
	left := e.size
	for _, p := range e.extents {
		n := min(left, extentSize)
		left -= n
		if c := r.blobs.chunks[int64(p.chunk)]; c != nil && p.chunk > extentUnkept && c.RawLen > 0 {
			stored += n * uint64(c.StoredLen) / uint64(c.RawLen)
		}
	}
	return hash, e.size, stored, nil
}

// Blob returns the content of a payload, verified against its key. It refuses payloads over 1 GiB:
// use BlobReader for these.
func (r *Reader) Blob(id BlobID) ([]byte, error) {
	e, err := r.blobs.entry(id)
	if err != nil {
		return nil, err
	}
	if e.size > 1<<30 {
		return nil, fmt.Errorf("%s: blob %d has %d bytes, too many to hold at once", r.file.Path(), id, e.size)
	}
	rd, err := r.BlobReader(id)
	if err != nil {
		return nil, err
	}
	// Allocate while reading: the size is trusted only when the bytes are there. Holes take no space in the file, so they are
	// bounded by the limit above.
	var b bytes.Buffer
	b.Grow(int(min(e.size, extentSize)) + bytes.MinRead) // an extent fits at once
	if _, err := b.ReadFrom(rd); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// aside returns the content of a payload with the short contents of a block, or why it is missing.
func (b *blobReader) aside(id BlobID) ([]byte, Reason) {
	if id == 0 {
		return nil, WriteFailed
	}
	e, err := b.entry(id)
	if err != nil || e.size > 8*maxBlockWords {
		return nil, FileDamaged
	}
	content, err := b.r.Blob(id)
	var absent *ErrBlobFile
	switch {
	case err == nil:
		return content, NoReason
	case errors.As(err, &absent):
		return nil, NoBlobFile
	case errors.Is(err, ErrNotWritten):
		return nil, WriteFailed
	}
	return nil, FileDamaged
}

// BlobReader returns a reader of a payload's content that holds at most 1 MiB. At the end it compares the content
// with the key, and returns ErrCorrupt instead of io.EOF if they differ.
func (r *Reader) BlobReader(id BlobID) (io.Reader, error) {
	e, err := r.blobs.entry(id)
	if err != nil {
		return nil, err
	}
	return &blobStream{b: &r.blobs, id: id, e: e, left: e.size, extents: e.extents, hash: xxh3.New()}, nil
}

type blobStream struct {
	b       *blobReader
	id      BlobID
	e       *blobEntry
	extents []place
	left    uint64
	buf     []byte
	rest    []byte
	hash    *xxh3.Hasher
	err     error
}

func (s *blobStream) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if len(s.rest) == 0 {
		if s.left == 0 {
			s.err = s.verify()
			return 0, s.err
		}
		n := int(min(s.left, extentSize))
		s.buf, s.err = s.b.extent(s.buf[:0], s.extents[0], n)
		if s.err != nil {
			return 0, s.err
		}
		s.rest, s.extents = s.buf, s.extents[1:]
		s.left -= uint64(n)
		s.hash.Write(s.rest)
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *blobStream) verify() error {
	if s.hash.Sum128() == s.e.hash {
		return io.EOF
	}
	what := fmt.Sprintf("content of blob %d differs from its key", s.id)
	for _, p := range s.e.extents {
		if c := s.b.chunks[int64(p.chunk)]; c != nil {
			return s.b.file.Corrupt(c, what)
		}
	}
	return &ErrCorrupt{Path: s.b.r.file.Path(), What: what}
}
