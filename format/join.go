package format

import (
	"github.com/acltrace/acltrace/format/column"
	"github.com/acltrace/acltrace/format/container"
)

// A joiner joins consecutive small chunks. It writes pending content in the order of dependence:
// payloads, their tables, calls.
type joiner struct {
	c *copier

	block   *blockWriter
	entry   container.Entry // first chunk in block
	raw     int             // bytes of the chunks in block
	hints   []uint64        // layout hints for data, by call of a chunk
	content []byte          // small blob chunks
	at      []place         // their old offsets, and their positions in content
	maps    blobTable
}

// smallBlock is the least number of calls in a chunk that is not joined. joinedBytes bounds joined chunks.
const (
	smallBlock  = blockCalls / 2
	joinedBytes = 4 << 20
)

func newJoiner(c *copier) *joiner { return &joiner{c: c, block: newBlockWriter()} }

// events adds a block of calls that was read from chunk e, and reports if it did. strange marks a
// block with content from a later version.
func (j *joiner) events(b *block, e *container.Entry, strange bool) (bool, error) {
	size := len(b.content.Bytes())
	if strange || b.n >= smallBlock || size > joinedBytes/4 || b.n != int(e.Records) || b.n == 0 && b.rows == 0 || !j.sound(b) {
		return false, j.flush()
	}
	w := j.block
	if !w.empty() && (b.first != w.first+uint64(w.n) || w.n+b.n > blockCalls || w.full() || len(w.rowCall)+b.rows > blockCalls*4 || j.raw+size > joinedBytes ||
		e.Dropped > 0 || e.Flags != j.entry.Flags || e.Shard != j.entry.Shard) {
		if err := j.flush(); err != nil {
			return false, err
		}
	}
	if w.empty() {
		w.reset(b.first)
		j.entry, j.raw = *e, 0
	}
	j.raw += size
	schema := j.c.r.schema
	j.hints = j.hints[:0]
	b.each(nil, func(c *Call, _ error) bool {
		w.call(c)
		j.hints = append(j.hints, hint(schema.params(c.Func), c.Args))
		return true
	})
	for i := range b.rows {
		d := b.datum(i)
		var fn uint16
		if d.Call >= w.first {
			fn = w.fn[d.Call-w.first]
		}
		if d.Call >= b.first {
			d.Group = j.hints[d.Call-b.first]
		}
		w.data(d, d.Call, d.Time, fn, d.Blob)
	}
	return true, nil
}

// sound reports if a Writer would accept the data and the words of a block.
func (j *joiner) sound(b *block) bool {
	for _, f := range b.seen {
		if int(f.id) < len(j.block.funcs) && j.block.funcs[f.id] != nil && j.block.funcs[f.id].args.Width() != len(f.args.first) {
			return false
		}
	}
	for i := range b.rows {
		d := b.datum(i)
		if len(d.Bytes) > 0 && (d.Blob != 0 || d.Len != uint64(len(d.Bytes)) || len(d.Bytes) > InlineLimit) || d.Call >= b.first+uint64(b.n) {
			return false
		}
		if d.Aside && j.c.left { // a joined block would have the content
			return false
		}
	}
	return true
}

// hint returns a group for a call's data: its first object, such as the kernel of a launch. Any value is correct.
func hint(params []Param, args []uint64) uint64 {
	for i := range params {
		if p := &params[i]; p.Handle > 0 && p.Word < len(args) {
			return args[p.Word]
		}
	}
	return 0
}

// other adds a chunk with another type, and reports if it did.
func (j *joiner) other(e *container.Entry, raw []byte) (bool, error) {
	switch e.Type {
	case container.Blob:
		return j.blob(e, raw)
	case container.BlobMap:
		return j.blobMap(raw)
	case container.Meta, container.Schema, container.Dict, container.Gap:
		return false, nil
	}
	return false, j.flush() // any other chunk keeps its position
}

func (j *joiner) blob(e *container.Entry, raw []byte) (bool, error) {
	if len(raw) >= extentSize/4 {
		return false, nil
	}
	if len(j.content)+len(raw) > extentSize {
		if err := j.flushContent(); err != nil {
			return false, err
		}
	}
	j.at = append(j.at, place{uint64(e.Offset), uint32(len(j.content))})
	j.content = append(j.content, raw...)
	return true, nil
}

func (j *joiner) blobMap(raw []byte) (bool, error) {
	var t blobTable
	strange := false
	if err := t.decode(raw, func(string) { strange = true }); err != nil || strange || len(t.blobs[0]) == 0 {
		return false, j.flush()
	}
	m := &j.maps
	if len(m.blobs[0]) > 0 && (t.first != m.first+uint64(len(m.blobs[0])) || len(m.blobs[0])+len(t.blobs[0]) > 1<<16 || len(m.extents[0])+len(t.extents[0]) > 1<<16) {
		if err := j.flush(); err != nil {
			return false, err
		}
	}
	if len(m.blobs[0]) == 0 {
		m.first = t.first
	}
	for i := range m.blobs {
		m.blobs[i] = append(m.blobs[i], t.blobs[i]...)
	}
	for i := range m.extents {
		m.extents[i] = append(m.extents[i], t.extents[i][:t.used]...)
	}
	return true, nil
}

// flush writes all pending content.
func (j *joiner) flush() error {
	if err := j.flushContent(); err != nil {
		return err
	}
	if err := j.flushMaps(); err != nil {
		return err
	}
	w := j.block
	if w.empty() {
		return nil
	}
	e := j.entry
	e.Records = uint32(w.n)
	e.TMin, e.TMax = w.times()
	raw := w.encode(nil)
	made, err := j.c.append(&e, raw, frames(raw))
	if err != nil {
		return err
	}
	info := w.info(j.c.r.schema, &made)
	if err := j.c.uncrowd(&info); err != nil {
		return err
	}
	j.c.summary.add(w, j.c.r.schema, &info)
	w.reset(0)
	return j.c.summarize()
}

func (j *joiner) flushContent() error {
	if len(j.at) == 0 {
		return nil
	}
	codec := container.LZ4
	if !container.Compresses(j.content) {
		codec = container.None
	}
	made, err := j.c.append(&container.Entry{Header: container.Header{
		Type: container.Blob, Flags: container.SelfContained, Codec: codec, Records: uint32(len(j.at)),
	}}, j.content, nil)
	if err != nil {
		return err
	}
	for _, p := range j.at {
		j.c.offsets[p.chunk] = place{uint64(made.Offset), p.at}
	}
	j.at, j.content = j.at[:0], j.content[:0]
	return nil
}

func (j *joiner) flushMaps() error {
	m := &j.maps
	if len(m.blobs[0]) == 0 {
		return nil
	}
	j.c.moveAll(m)
	if err := j.c.write(container.BlobMap, m.encode(&column.Encoder{}), len(m.blobs[0])); err != nil {
		return err
	}
	*m = blobTable{}
	return nil
}
