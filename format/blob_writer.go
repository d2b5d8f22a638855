package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/acltrace/acltrace/format/column"
	"github.com/acltrace/acltrace/format/container"
)

var errBlobs = errors.New("blob table is full")

type blobKey struct {
	hash xxh3.Uint128
	size uint64
}

type blobRow struct {
	key     blobKey
	extents []uint32 // positions in blobWriter.places
}

// place is an extent's location; chunk is its offset in the file with the contents, or a special value from layout.go.
type place struct {
	chunk uint64
	at    uint32
}

// A blobWriter stores payloads in extents of 1 MiB. Extents are also identified by their content: a large payload that arrives in pieces
// is written before its own key is known, and nothing is stored twice.
type blobWriter struct {
	mu      sync.Mutex
	file    *container.Writer // the trace
	store   *container.Writer // file with the contents: the trace or its blob file
	codec   container.Codec
	keys    map[blobKey]BlobID
	unkept  map[blobKey]BlobID // stored as a hash only; the same content may be stored by another call
	extents map[blobKey]uint32
	places  []place
	count   atomic.Uint32 // blobs so far; changed under mu
	fresh   []blobRow     // not yet in a blobmap chunk
	pack    []byte        // small extents that will share a chunk
	packed  []packedExtent
	enc     column.Encoder

	hash func([]byte) xxh3.Uint128 // tests make it collide
}

// packedExtent is an extent in blobWriter.pack.
type packedExtent struct {
	key blobKey
	at  uint32 // position in places
}

func newBlobWriter(file, store *container.Writer, codec container.Codec) *blobWriter {
	return &blobWriter{
		file: file, store: store, codec: codec, keys: map[blobKey]BlobID{}, unkept: map[blobKey]BlobID{}, extents: map[blobKey]uint32{},
		places: []place{{chunk: extentHole}, {chunk: extentUnkept}}, hash: xxh3.Hash128,
	}
}

func (w *blobWriter) put(b []byte) (BlobID, error) {
	h := w.hash(b)
	key := blobKey{h, uint64(len(b))}
	w.mu.Lock()
	id, ok := w.keys[key]
	if row := w.row(id); ok && (row == nil || len(row.extents) != 1 || w.same(row.extents[0], b)) {
		w.mu.Unlock()
		return id, nil
	}
	w.mu.Unlock()
	var extents []uint32
	for rest := b; len(rest) > 0; {
		part := rest[:min(len(rest), extentSize)]
		rest = rest[len(part):]
		sum := h
		if len(part) != len(b) {
			sum = w.hash(part)
		}
		at, err := w.extent(part, sum)
		if err != nil {
			return 0, err
		}
		extents = append(extents, at)
	}
	return w.add(key, extents)
}

// name adds a blob with its key only.
func (w *blobWriter) name(key blobKey) (BlobID, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id, ok := w.keys[key]; ok {
		return id, nil
	}
	if id, ok := w.unkept[key]; ok {
		return id, nil
	}
	if w.count.Load() == math.MaxUint32-1 {
		return 0, errBlobs
	}
	id := BlobID(w.count.Add(1))
	w.unkept[key] = id
	extents := make([]uint32, extentsOf(key.size))
	for i := range extents {
		extents[i] = 1
	}
	w.fresh = append(w.fresh, blobRow{key, extents})
	return id, nil
}

// known returns the number of blobs in the table.
func (w *blobWriter) known() uint32 { return w.count.Load() }

// row returns the row of a blob that is not in the file yet, else nil.
func (w *blobWriter) row(id BlobID) *blobRow {
	first := w.count.Load() - uint32(len(w.fresh))
	if uint32(id) <= first {
		return nil
	}
	return &w.fresh[uint32(id)-1-first]
}

// same reports if an extent with the key of b has the content b. It compares content that is not in the file yet.
func (w *blobWriter) same(at uint32, b []byte) bool {
	p := w.places[at]
	return p.chunk != extentLost || bytes.Equal(w.pack[p.at:][:len(b)], b)
}

// add adds a blob with stored extents to the table.
func (w *blobWriter) add(key blobKey, extents []uint32) (BlobID, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id, ok := w.keys[key]; ok {
		// Equal contents have equal extents.
		if row := w.row(id); row == nil || slices.Equal(row.extents, extents) {
			return id, nil
		}
	}
	if w.count.Load() == math.MaxUint32-1 {
		return 0, errBlobs
	}
	id := BlobID(w.count.Add(1))
	w.keys[key] = id
	w.fresh = append(w.fresh, blobRow{key, extents})
	return id, nil
}

// extent stores at most 1 MiB and returns its position in places.
func (w *blobWriter) extent(b []byte, sum xxh3.Uint128) (uint32, error) {
	if zero(b) {
		return 0, nil
	}
	key := blobKey{sum, uint64(len(b))}
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.extents[key]; ok && w.same(at, b) {
		return at, nil
	}
	const alone = extentSize / 4
	if len(w.pack)+len(b) > extentSize && len(b) < alone {
		if err := w.flushPack(); err != nil {
			return 0, err
		}
	}
	at := uint32(len(w.places))
	if len(b) >= alone {
		off, err := w.write(b, 1)
		if err != nil {
			return 0, err
		}
		w.places = append(w.places, place{chunk: off})
	} else {
		w.places = append(w.places, place{chunk: extentLost, at: uint32(len(w.pack))})
		w.pack = append(w.pack, b...)
		w.packed = append(w.packed, packedExtent{key, at})
	}
	w.extents[key] = at
	return at, nil
}

func (w *blobWriter) write(b []byte, records int) (uint64, error) {
	codec := w.codec
	if !container.Compresses(b) {
		codec = container.None
	}
	e, err := w.store.Append(&container.Chunk{
		Type: container.Blob, Flags: container.SelfContained, Codec: codec, Records: uint32(records), Raw: b,
	})
	return uint64(e.Offset), err
}

// flushPack writes the pending small extents. After an error they are lost, and the same content may be stored again later.
func (w *blobWriter) flushPack() error {
	if len(w.pack) == 0 {
		return nil
	}
	off, err := w.write(w.pack, len(w.packed))
	for _, p := range w.packed {
		if err == nil {
			w.places[p.at].chunk = off
		} else {
			delete(w.extents, p.key)
		}
	}
	if err != nil {
		// Payloads in the pack also have keys of their own, which must not refer to lost extents.
		for _, row := range w.fresh {
			for _, at := range row.extents {
				if w.places[at].chunk == extentLost {
					delete(w.keys, row.key)
				}
			}
		}
	}
	w.pack, w.packed = w.pack[:0], w.packed[:0]
	return err
}

// flush writes all pending data, so every blob so far can be resolved from the file.
func (w *blobWriter) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.flushPack()
	for len(w.fresh) > 0 {
		// A payload of a terabyte has a million extents: extents bound a chunk, not payloads.
		n, extents := 0, 0
		for n < len(w.fresh) && (n == 0 || extents+len(w.fresh[n].extents) <= 1<<16) && n < 1<<16 {
			extents += len(w.fresh[n].extents)
			n++
		}
		first := w.count.Load() - uint32(len(w.fresh))
		raw := w.encodeMap(first, w.fresh[:n])
		if _, e := w.file.Append(&container.Chunk{
			Type: container.BlobMap, Flags: container.SelfContained, Codec: container.LZ4, Records: uint32(n), Raw: raw,
		}); e != nil {
			return errors.Join(err, e)
		}
		w.fresh = w.fresh[n:]
	}
	w.fresh = nil
	return err
}

func (w *blobWriter) encodeMap(first uint32, rows []blobRow) []byte {
	t := blobTable{first: uint64(first)}
	for _, r := range rows {
		for field, v := range [...]uint64{blobLo: r.key.hash.Lo, blobHi: r.key.hash.Hi, blobSize: r.key.size} {
			t.blobs[field] = append(t.blobs[field], v)
		}
		for _, x := range r.extents {
			t.extents[extentChunk] = append(t.extents[extentChunk], w.places[x].chunk)
			t.extents[extentPlace] = append(t.extents[extentPlace], uint64(w.places[x].at))
		}
	}
	return t.encode(&w.enc)
}

func zero(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// A Blobber takes a payload in pieces. It belongs to one goroutine, holds at most 1 MiB, and must be closed.
type Blobber struct {
	w       *Writer
	buf     []byte
	hash    *xxh3.Hasher
	size    uint64
	extents []uint32
	unkept  bool // store the key only
	err     error
}

var extentPool = sync.Pool{New: func() any { return new([extentSize]byte) }}

// Blobber starts a payload that arrives in pieces.
func (w *Writer) Blobber() *Blobber {
	return &Blobber{w: w, buf: extentPool.Get().(*[extentSize]byte)[:0], hash: xxh3.New()}
}

// Named adds a payload with a known length and XXH3-128 and without content.
func (w *Writer) Named(lo, hi, size uint64) (BlobID, error) {
	return w.blobs.name(blobKey{xxh3.Uint128{Lo: lo, Hi: hi}, size})
}

// Hasher starts a payload that arrives in pieces and is stored as hash and length only.
func (w *Writer) Hasher() *Blobber {
	b := w.Blobber()
	b.unkept = true
	return b
}

// Write adds a piece. After an error the payload can't be completed.
func (b *Blobber) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && b.err == nil {
		if len(b.buf) == extentSize {
			b.flush(b.buf)
		}
		if len(b.buf) == 0 && len(p) >= extentSize {
			// A whole extent is stored without a copy.
			b.flush(p[:extentSize])
			b.size += extentSize
			p = p[extentSize:]
			continue
		}
		k := copy(b.buf[len(b.buf):extentSize], p)
		b.buf = b.buf[:len(b.buf)+k]
		b.size += uint64(k)
		p = p[k:]
	}
	return n - len(p), b.err
}

// flush stores the pending extent.
func (b *Blobber) flush(extent []byte) {
	b.hash.Write(extent)
	if !b.unkept {
		var at uint32
		at, b.err = b.w.blobs.extent(extent, b.w.blobs.hash(extent))
		b.extents = append(b.extents, at)
	}
	b.buf = b.buf[:0]
}

// Close ends the payload and returns its id.
func (b *Blobber) Close() (BlobID, error) {
	if b.buf == nil {
		return 0, fmt.Errorf("blob is closed already")
	}
	defer b.release()
	if b.err != nil {
		return 0, b.err
	}
	if b.unkept {
		b.flush(b.buf)
		return b.w.blobs.name(blobKey{b.hash.Sum128(), b.size})
	}
	if len(b.extents) == 0 {
		return b.w.blobs.put(b.buf)
	}
	if len(b.buf) > 0 {
		b.flush(b.buf)
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.w.blobs.add(blobKey{b.hash.Sum128(), b.size}, b.extents)
}

// Abort discards the payload. Unreferenced parts of it may stay in the file.
func (b *Blobber) Abort() {
	if b.buf != nil {
		b.release()
	}
}

func (b *Blobber) release() {
	extentPool.Put((*[extentSize]byte)(b.buf[:extentSize]))
	b.buf = nil
}

// blobTable is a run of blob table rows: the content of a blobmap chunk.
type blobTable struct {
	first   uint64
	blobs   [3][]uint64
	extents [2][]uint64
	used    int    // extents of the blobs, from the first on
	others  []byte // all tables but the extents, as in the chunk
}

// encode makes the content of a blobmap chunk.
func (t *blobTable) encode(enc *column.Encoder) []byte {
	return enc.Table(enc.Table(nil, kindBlobs, t.first, t.blobs[:]...), kindExtents, t.first, t.extents[:]...)
}
