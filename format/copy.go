package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/format/column"
	"github.com/acltrace/acltrace/format/container"
)

// CopyOptions change Copy; nil means the zero value.
type CopyOptions struct {
	Compression Compression             // compression of the copy; by default that of each chunk, LZ4 if it has none
	LeaveBlobs  bool                    // leave payloads in the trace's blob file, which the copy refers to; otherwise they become part of the copy
	Join        bool                    // join consecutive small chunks, as in a recording that is flushed often
	Progress    func(done, total int64) // called now and then with bytes of the source, and at the end
}

// A CopyReport lists the contents and the losses of a copy.
type CopyReport struct {
	Chunks    int
	Calls     uint64
	LostCalls uint64 // missing call indexes
	From, To  int64  // sizes of the files in bytes
	Damage    []ErrCorrupt
}

// Copy writes all whole parts of a trace to a new, finished file: with an index, with summaries of all its
// chunks, and with gaps for missing call indexes. Payloads in a blob file become part of
// it, unless LeaveBlobs is set. The calls keep their indexes. Unknown parts are copied unchanged. After an error there is no new
// file.
func Copy(r *Reader, path string, o *CopyOptions) (*CopyReport, error) {
	if o == nil {
		o = &CopyOptions{}
	}
	if SameFile(r.Path(), path) {
		return nil, fmt.Errorf("%s is the trace itself; name another file", path)
	}
	if of := r.meta.BlobsOf; of != "" {
		return nil, fmt.Errorf("%s has the payloads of %s; name that trace", r.Path(), of)
	}
	beside := r.BlobFile()
	if beside != nil && SameFile(beside.Path, path) {
		return nil, fmt.Errorf("%s has the payloads of the trace; name another file", path)
	}
	if err := r.PayloadsReadable(); err != nil && !o.LeaveBlobs {
		return nil, err
	}
	h := r.file.Header()
	h.Incompat = 0
	w, err := container.Create(path, &h, &container.Options{Whole: true})
	if err != nil {
		return nil, err
	}
	c := copier{r: r, w: w, path: path, o: o, offsets: map[uint64]place{}, report: &CopyReport{From: r.file.Size()}}
	if beside != nil {
		c.left, c.merge = o.LeaveBlobs, !o.LeaveBlobs
		if c.merge {
			c.report.From += beside.Size
		}
	}
	if o.Join {
		c.joiner = newJoiner(&c)
	}
	if err := c.run(); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	c.report.To = w.Size()
	c.progress(c.report.From - c.merged)
	if err := w.Finish(); err != nil {
		return nil, err
	}
	c.report.Damage = r.Damage()
	return c.report, nil
}

type copier struct {
	r       *Reader
	w       *container.Writer
	path    string // path of the copy
	o       *CopyOptions
	offsets map[uint64]place // new places of blob chunks, by their old offsets
	left    bool             // payloads stay in the blob file of the trace
	merge   bool             // payloads of the blob file are still to be copied
	merged  int64            // bytes of the blob file read so far
	joiner  *joiner          // nil if chunks are not joined
	summary summaryWriter
	next    uint64 // expected index of the next call
	last    int64  // end of the previous call
	gaps    []Gap
	raw     []byte
	report  *CopyReport
}

func (c *copier) run() error {
	entries := c.r.file.Entries()
	events := 0
	for i := range entries {
		e := &entries[i]
		c.progress(e.Offset)
		switch e.Type {
		case container.Checkpoint, container.Summary:
			continue // written anew
		case container.Gap:
			if slices.Contains(c.r.repeated, e.Offset) {
				continue
			}
		case container.Blob:
			if c.r.blobs.beside != nil {
				continue // unreferenced
			}
		case container.BlobMap:
			if err := c.mergeBlobs(e.Offset); err != nil {
				return err
			}
		case container.Events:
			if err := c.events(&c.r.events[events]); err != nil {
				return err
			}
			events++
			continue
		}
		if err := c.chunk(c.r.file, e); err != nil {
			return err
		}
	}
	if c.joiner != nil {
		if err := c.joiner.flush(); err != nil {
			return err
		}
	}
	return c.finish()
}

func (c *copier) progress(at int64) {
	if c.o.Progress != nil {
		c.o.Progress(c.merged+at, c.report.From)
	}
}

// mergeBlobs copies the blob file's payloads, before the first chunk in the trace that refers to any.
func (c *copier) mergeBlobs(at int64) error {
	if !c.merge {
		return nil
	}
	c.merge = false
	file := c.r.blobs.file
	entries := file.Entries()
	for i := range entries {
		e := &entries[i]
		if e.Type != container.Blob {
			continue
		}
		if err := c.chunk(file, e); err != nil {
			return err
		}
		c.merged = e.Offset
		c.progress(at)
	}
	return nil
}

// chunk copies a chunk that is not an events chunk.
func (c *copier) chunk(file *container.File, e *container.Entry) error {
	raw, err := file.Read(e, c.raw)
	if err != nil {
		return container.IgnoreDamage(err)
	}
	c.raw = raw
	if c.joiner != nil {
		if joined, err := c.joiner.other(e, raw); joined || err != nil {
			return err
		}
	}
	switch e.Type {
	case container.BlobMap:
		raw, err = c.blobMap(raw)
	case container.Meta:
		raw, err = c.meta(raw)
	}
	if err != nil {
		_ = file.Corrupt(e, err.Error()) // recorded
		return nil
	}
	_, err = c.append(e, raw, nil)
	return err
}

// meta updates a trace's reference to its blob file for the copy.
func (c *copier) meta(raw []byte) ([]byte, error) {
	if c.r.blobs.beside == nil {
		return raw, nil
	}
	var m Meta
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	return c.metaOf(m)
}

func (c *copier) metaOf(m Meta) ([]byte, error) {
	m.BlobFile = ""
	if c.left {
		name, err := wayTo(c.r.blobs.beside.Path, c.path)
		if err != nil {
			return nil, err
		}
		m.BlobFile = name
	}
	return json.Marshal(&m)
}

func (c *copier) append(e *container.Entry, raw []byte, frames []int) (container.Entry, error) {
	codec := e.Codec
	switch c.o.Compression {
	case DefaultCompression:
		if codec == container.None && e.Type != container.Blob {
			codec = container.LZ4
		}
	case Zstd:
		codec = container.Zstd
		if e.Type == container.Blob && e.Codec == container.None && !container.Compresses(raw) {
			codec = container.None
		}
	default:
		codec = c.o.Compression.codec()
	}
	made, err := c.w.Append(&container.Chunk{
		Type: e.Type, Flags: e.Flags, Codec: codec, TMin: e.TMin, TMax: e.TMax, Records: e.Records, Dropped: e.Dropped, Raw: raw, Frames: frames,
	})
	if err != nil {
		return made, err
	}
	c.report.Chunks++
	if e.Type == container.Blob {
		c.offsets[uint64(e.Offset)] = place{chunk: uint64(made.Offset)}
	}
	return made, nil
}

func (c *copier) events(chunk *eventChunk) error {
	b := c.r.block()
	strange := false // some content is of a later version
	b.unknown = func(what string) {
		strange = true
		c.r.skip(what)
	}
	defer func() {
		b.unknown = c.r.skip
		release(b)
	}()
	ok, err := c.r.load(b, chunk, want{columns: AllColumns, whole: true})
	if err != nil || !ok {
		return err
	}
	if b.n > 0 {
		if b.first > c.next {
			c.gaps = append(c.gaps, Gap{Thread: NoThread, From: c.last, To: max(c.last, chunk.entry.TMin), Calls: b.first - c.next, Reason: FileDamaged})
			c.report.LostCalls += b.first - c.next
		}
		c.next, c.last = b.first+uint64(b.n), chunk.entry.TMax
		c.report.Calls += uint64(b.n)
	}
	raw := b.content.Bytes()
	if c.joiner != nil {
		if joined, err := c.joiner.events(b, chunk.entry, strange); joined || err != nil {
			return err
		}
	}
	made, err := c.append(chunk.entry, raw, frames(raw))
	if err != nil {
		return err
	}
	if uint32(b.n) == made.Records { // otherwise it is of a later version, and unknown
		info := b.info(&made, c.r.schema)
		if err := c.uncrowd(&info); err != nil {
			return err
		}
		c.summary.take(b, c.r.schema, &info)
	}
	return c.summarize()
}

// uncrowd writes the summary if it has no room for another chunk.
func (c *copier) uncrowd(next *ChunkInfo) error {
	if !c.summary.crowded(next) {
		return nil
	}
	return c.flushSummary()
}

// summarize writes a summary if one is due.
func (c *copier) summarize() error {
	if len(c.summary.chunks) < summaryChunks {
		return nil
	}
	return c.flushSummary()
}

func (c *copier) flushSummary() error {
	if len(c.summary.chunks) == 0 {
		return nil
	}
	raw := c.summary.encode()
	n := len(c.summary.chunks)
	c.summary.reset()
	return c.write(container.Summary, raw, n)
}

func (c *copier) write(t container.Type, raw []byte, records int) error {
	_, err := c.append(&container.Entry{Header: container.Header{Type: t, Flags: container.SelfContained, Codec: container.LZ4, Records: uint32(records)}}, raw, nil)
	return err
}

// blobMap updates the chunk offsets of the extents.
func (c *copier) blobMap(raw []byte) ([]byte, error) {
	var t blobTable
	if err := t.decode(raw, c.r.skip); err != nil {
		return nil, err
	}
	c.moveAll(&t)
	return new(column.Encoder).Table(t.others, kindExtents, t.first, t.extents[:]...), nil
}

// moveAll updates the places of extents.
func (c *copier) moveAll(t *blobTable) {
	for i, chunk := range t.extents[extentChunk] {
		t.extents[extentChunk][i], t.extents[extentPlace][i] = c.moved(chunk, t.extents[extentPlace][i])
	}
}

// moved returns the new place of an extent.
func (c *copier) moved(chunk, at uint64) (uint64, uint64) {
	if chunk <= extentUnkept || c.left {
		return chunk, at
	}
	to, ok := c.offsets[chunk]
	if !ok {
		_ = c.r.blobs.absent(chunk) // recorded
		return extentLost, 0
	}
	return to.chunk, at + uint64(to.at)
}

// finish writes the same end of the file as a writer.
func (c *copier) finish() error {
	if rec := c.r.Recovered(); rec != nil || len(c.r.Damage()) > 0 {
		meta := *c.r.meta
		meta.Recovered = "the file was damaged"
		if rec != nil {
			meta.Recovered = rec.Reason
			meta.EndNS = max(meta.EndNS, rec.LastTime)
		}
		raw, err := c.metaOf(meta)
		if err != nil {
			return err
		}
		if err := c.write(container.Meta, raw, 1); err != nil {
			return err
		}
	}
	if len(c.gaps) > 0 {
		if err := c.write(container.Gap, encodeGaps(&column.Encoder{}, c.gaps), len(c.gaps)); err != nil {
			return err
		}
	}
	return c.flushSummary()
}

// info describes the block, which is in chunk e.
func (b *block) info(e *container.Entry, schema *Schema) ChunkInfo {
	streams := map[uint32]int{}
	c := ChunkInfo{First: b.first, Calls: uint64(b.n), TMin: e.TMin, TMax: e.TMax, Known: true, seq: e.Seq, rows: uint64(b.rows), late: b.lateCalls()}
	threads := make([]uint32, b.n)
	for i := range threads {
		threads[i] = uint32(b.calls[callThread].At(i))
	}
	c.Threads = threadsOf(threads)
	kinds := make([]distinct, len(schema.Handles)+1)
	for _, f := range b.seen {
		c.Funcs = append(c.Funcs, uint32(f.id))
		fn := schema.Func(f.id)
		for row := 0; fn != nil && row < f.rows; row++ {
			args := f.call(b, uint(row)).Args
			for _, p := range fn.Params {
				if p.Handle > 0 && p.Word < len(args) {
					kinds[p.Handle].add(args[p.Word])
				}
			}
		}
		for k := range f.outs {
			o := &f.outs[k]
			for row := 0; o.param == TaskParam && row < f.rows; row++ {
				if o.has(uint(row)) {
					c.Tasks = addTasks(c.Tasks, streams, []uint64{o.values.At(row)})
				}
			}
		}
	}
	slices.Sort(c.Funcs)
	c.Handles = handlesOf(kinds)
	return c
}

// take counts a block that was read, which c describes.
func (s *summaryWriter) take(b *block, schema *Schema, c *ChunkInfo) {
	s.put(c)
	for i := range b.n {
		id := uint16(b.calls[callFunc].At(i))
		t := s.total(id)
		t.Calls++
		t.Time += b.calls[callDur].At(i)
		s.outcome(schema, id, CallFlags(b.calls[callFlags].At(i)), b.calls[callRet].At(i))
	}
}
