package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/google/uuid"

	"github.com/acltrace/acltrace/format/column"
	"github.com/acltrace/acltrace/format/container"
)

// Compression is the packing of chunks by a Writer.
type Compression uint8

const (
	DefaultCompression Compression = 0 // LZ4
	NoCompression      Compression = 1
	LZ4                Compression = 2 // while recording
	Zstd               Compression = 3 // up to a third smaller, at two thirds of the speed
)

func (c Compression) codec() container.Codec {
	switch c {
	case NoCompression:
		return container.None
	case Zstd:
		return container.Zstd
	}
	return container.LZ4
}

// WriterOptions change Create; nil means the zero value.
type WriterOptions struct {
	Compression Compression
	// BlobFile is a second file for payload contents, to keep the trace small; empty to store them in the trace.
	BlobFile string
	// Whole: the trace gets its name when Close has written everything, for files that nobody reads while they grow. Until then,
	// and after an error or Abort, an older file stays. Proof, if not nil, is called before
	// that with the file's current name; Close returns its error.
	Whole bool
	Proof func(path string) error

	container *container.Options
}

// A Writer writes a trace file. It belongs to one goroutine at a time. Payload functions (Blobber, Hasher, Named)
// and Size may be called from any goroutine meanwhile.
type Writer struct {
	file   *container.Writer
	codec  container.Codec
	schema *Schema
	blobs  *blobWriter
	beside *blobFileWriter // nil if the payloads are in the trace
	enc    column.Encoder

	next      uint64   // index of the next call
	stored    []BlobID // blobs of the current call's data
	block     *blockWriter
	raw       []byte
	meta      []byte
	schemaRaw []byte
	procs     []Process
	threads   []Thread
	newProcs  []uint32 // rows changed since the last dict chunk
	newThread []uint32
	gaps      []Gap
	dropped   uint64
	lost      uint64 // unwritten calls
	full      bool   // the last block found no space: its gap may grow
	summary   summaryWriter
	whole     bool // all or nothing
	closed    bool
}

var errClosed = errors.New("trace writer is closed")

// Create makes the trace file, readable by its owner only; an older file with the name is replaced. It fails if
// another Writer has the file open. meta may be changed later by SetMeta; schema must not be changed any more.
func Create(path string, meta *Meta, schema *Schema, opts *WriterOptions) (*Writer, error) {
	if opts == nil {
		opts = &WriterOptions{}
	}
	if meta == nil {
		meta = &Meta{}
	}
	if meta.UUID == "" {
		meta.UUID = NewUUID()
	}
	session, err := uuid.Parse(meta.UUID)
	if err != nil {
		return nil, fmt.Errorf("create trace: uuid %q is not 32 hexadecimal digits", meta.UUID)
	}
	if err := schema.index(); err != nil {
		return nil, fmt.Errorf("create trace: %w", err)
	}
	header := &container.FileHeader{
		Major: container.Major, Minor: container.Minor, Session: session, WallNS: meta.StartWall, MonoNS: meta.StartMono,
	}
	w := &Writer{codec: opts.Compression.codec(), schema: schema, block: newBlockWriter(), whole: opts.Whole}
	var o container.Options
	if opts.container != nil {
		o = *opts.container
	}
	o.Whole, o.Proof = opts.Whole, opts.Proof
	if opts.BlobFile != "" {
		o.First = func() error { return w.beside.file.Sync() }
		o.Before = func() (err error) {
			w.beside, err = createBlobFile(opts.BlobFile, path, header, meta)
			return err
		}
	}
	if w.file, err = container.Create(path, header, &o); err != nil {
		if w.beside != nil {
			err = errors.Join(err, w.beside.file.Abort(), os.Remove(opts.BlobFile))
		}
		return nil, err
	}
	store := w.file
	if w.beside != nil {
		store = w.beside.file
	}
	w.blobs = newBlobWriter(w.file, store, w.codec)
	w.block.aside.on = w.beside != nil
	if err := w.begin(meta); err != nil {
		w.closed = true
		if !opts.Whole { // the file is no trace
			err = errors.Join(err, os.Remove(path))
		}
		if w.beside != nil {
			err = errors.Join(err, os.Remove(opts.BlobFile))
		}
		return nil, errors.Join(err, w.abort())
	}
	return w, nil
}

func (w *Writer) begin(meta *Meta) (err error) {
	if w.schemaRaw, err = json.Marshal(w.schema); err != nil {
		return fmt.Errorf("create trace: %w", err)
	}
	if err := w.setMeta(meta); err != nil {
		return err
	}
	if err := w.append(container.Meta, w.meta, 1); err != nil {
		return err
	}
	return w.append(container.Schema, w.schemaRaw, len(w.schema.Functions))
}

func (w *Writer) append(t container.Type, raw []byte, records int) error {
	_, err := w.file.Append(&container.Chunk{Type: t, Flags: container.SelfContained, Codec: w.codec, Records: uint32(records), Raw: raw})
	return err
}

// SetMeta replaces the description of the recording. UUID and start times keep their values from Create.
func (w *Writer) SetMeta(m *Meta) error {
	if w.closed {
		return errClosed
	}
	if err := w.setMeta(m); err != nil {
		return err
	}
	return w.append(container.Meta, w.meta, 1)
}

func (w *Writer) setMeta(m *Meta) error {
	if w.beside != nil {
		with := *m
		with.BlobFile = w.beside.name
		m = &with
	}
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("meta: %w", err)
	}
	w.meta = b
	return nil
}

// Process appends to the process table and returns the row's index.
func (w *Writer) Process(p Process) (uint32, error) {
	if w.closed {
		return 0, errClosed
	}
	i := uint32(len(w.procs))
	w.procs = append(w.procs, p)
	w.newProcs = append(w.newProcs, i)
	return i, nil
}

// UpdateProcess replaces a row of the process table.
func (w *Writer) UpdateProcess(i uint32, p Process) error {
	if w.closed {
		return errClosed
	}
	if int(i) >= len(w.procs) {
		return fmt.Errorf("no process %d in the table", i)
	}
	w.procs[i] = p
	w.newProcs = append(w.newProcs, i)
	return nil
}

// Thread appends to the thread table and returns the row's index.
func (w *Writer) Thread(t Thread) (uint32, error) {
	if w.closed {
		return 0, errClosed
	}
	if int(t.Process) >= len(w.procs) {
		return 0, fmt.Errorf("thread %d belongs to process %d, which is not in the table", t.TID, t.Process)
	}
	i := uint32(len(w.threads))
	w.threads = append(w.threads, t)
	w.newThread = append(w.newThread, i)
	return i, nil
}

// Call adds a call with its data and returns its new index, which is also set in c. The calls of one
// thread must come in the order of their start, except that a call follows the calls that it encloses. A call that contradicts the
// schema is refused. If the file can't be written, Call returns the error, the block's calls become a
// gap, and the Writer goes on.
func (w *Writer) Call(c *Call) (uint64, error) {
	f := w.schema.Func(c.Func)
	if w.closed || f == nil || len(c.Args) != f.Words || c.End < c.Start || int(c.Thread) >= len(w.threads) || !ascending(c.Outs) {
		return 0, w.refused(c)
	}
	for i := range c.Data {
		if !c.Data[i].inline() {
			return w.callStored(c, f)
		}
	}
	index := w.next
	w.next++
	c.Index = index
	b := w.block
	b.call(c)
	for i := range c.Data {
		if b.words >= blockWords {
			return index, w.rest(c, i)
		}
		d := &c.Data[i]
		b.add(d, index, d.after(c), c.Func, 0, d.Bytes)
	}
	if b.full() {
		return index, w.flushBlock()
	}
	return index, nil
}

// inline reports if d is valid and has content short enough for the block.
func (d *Data) inline() bool {
	n := len(d.Bytes)
	return uint(n-1) < InlineLimit && uint64(n) == d.Len && d.Blob == 0
}

// callStored is Call for data that may be too long for the block.
func (w *Writer) callStored(c *Call, f *Function) (uint64, error) {
	w.stored = w.stored[:0]
	for i := range c.Data {
		d := &c.Data[i]
		if d.inline() {
			continue
		}
		blob, err := w.store(d)
		if err != nil {
			return 0, fmt.Errorf("call of %s: %w", f.Name, err)
		}
		if len(d.Bytes) > InlineLimit {
			w.stored = append(w.stored, blob)
		}
	}
	c.Index = w.next
	w.next++
	w.block.call(c)
	return c.Index, w.rest(c, 0)
}

// rest adds a call's data from the i-th piece on, and ends the block if it is full.
func (w *Writer) rest(c *Call, i int) (err error) {
	stored := w.stored
	for ; i < len(c.Data); i++ {
		// A call with thousands of buffers may fill the block; the rest is then data of an earlier chunk.
		if w.block.words >= blockWords {
			err = errors.Join(err, w.flushBlock())
		}
		d := &c.Data[i]
		time, blob := d.Time, d.Blob
		if time == 0 {
			time = c.Start
		}
		if len(d.Bytes) > InlineLimit {
			blob, stored = stored[0], stored[1:]
		}
		w.block.data(d, c.Index, time, c.Func, blob)
	}
	if w.block.full() {
		err = errors.Join(err, w.flushBlock())
	}
	return err
}

func ascending(outs []Out) bool {
	for i := 1; i < len(outs); i++ {
		if outs[i].Param <= outs[i-1].Param {
			return false
		}
	}
	return true
}

func (w *Writer) refused(c *Call) error {
	f := w.schema.Func(c.Func)
	switch {
	case w.closed:
		return errClosed
	case f == nil:
		return fmt.Errorf("call of function %d, which is not in the schema", c.Func)
	case len(c.Args) != f.Words:
		return fmt.Errorf("call of %s has %d argument words, the schema says %d", f.Name, len(c.Args), f.Words)
	case c.End < c.Start:
		return fmt.Errorf("call of %s ends at %d ns, before its start at %d ns", f.Name, c.End, c.Start)
	case !ascending(c.Outs):
		return fmt.Errorf("call of %s: outputs are not in ascending order of parameters", f.Name)
	}
	return fmt.Errorf("call of %s on thread %d, which is not in the table", f.Name, c.Thread)
}

// Data adds data to an earlier call, such as the result of an asynchronous copy.
func (w *Writer) Data(d *Data) error {
	if w.closed {
		return errClosed
	}
	if d.Call >= w.next {
		return fmt.Errorf("data of call %d, which is not in the trace", d.Call)
	}
	blob, err := w.store(d)
	if err != nil {
		return err
	}
	var fn uint16
	if d.Call >= w.block.first {
		fn = w.block.fn[d.Call-w.block.first]
	}
	w.block.data(d, d.Call, d.Time, fn, blob)
	if w.block.full() || len(w.block.rowCall) >= blockCalls*4 {
		return w.flushBlock()
	}
	return nil
}

// store checks d and returns its blob; content that is too long for the block becomes one.
func (w *Writer) store(d *Data) (BlobID, error) {
	if len(d.Bytes) == 0 {
		if d.Blob > BlobID(w.blobs.known()) {
			return 0, fmt.Errorf("data names blob %d, which is not in the trace", d.Blob)
		}
		return d.Blob, nil
	}
	if d.Blob != 0 {
		return 0, fmt.Errorf("data has both bytes and a blob")
	}
	if d.Len != 0 && d.Len != uint64(len(d.Bytes)) {
		return 0, fmt.Errorf("data has %d bytes and says %d", len(d.Bytes), d.Len)
	}
	if len(d.Bytes) <= InlineLimit {
		return 0, nil
	}
	return w.blobs.put(d.Bytes)
}

// Gap records missing calls.
func (w *Writer) Gap(g Gap) error {
	if w.closed {
		return errClosed
	}
	w.addGap(g)
	return nil
}

func (w *Writer) addGap(g Gap) {
	w.gaps = append(w.gaps, g)
	w.dropped += g.Calls
}

// Calls returns the number of calls so far.
func (w *Writer) Calls() uint64 { return w.next }

// Lost returns the number of unwritten calls.
func (w *Writer) Lost() uint64 { return w.lost }

// Size returns the file's length so far, in bytes, including its blob file.
func (w *Writer) Size() int64 {
	n := w.file.Size()
	if w.beside != nil {
		n += w.beside.file.Size()
	}
	return n
}

// TakeOver gives w, which has no call yet, the buffers of a Writer with the same schema: up to about 50 MiB if calls have small
// payloads. The other Writer flushes its content. Few calls should follow there; data of its calls may.
func (w *Writer) TakeOver(from *Writer) error {
	err := from.Flush()
	from.block, w.block = w.block, from.block
	from.raw, w.raw = w.raw, from.raw
	from.block.reset(from.next)
	w.block.reset(w.next)
	return err
}

// Flush writes all data so far: from then on it survives the death of the process, but not a loss of power.
func (w *Writer) Flush() error {
	if w.closed {
		return errClosed
	}
	return w.flush()
}

func (w *Writer) flush() error {
	return errors.Join(w.flushBlock(), w.flushTables())
}

// flushTables writes the tables that blocks refer to. They come first, so a truncated file resolves all its content.
func (w *Writer) flushTables() error {
	return errors.Join(w.blobs.flush(), w.flushDict(), w.flushGaps())
}

func (w *Writer) flushBlock() error {
	b := w.block
	if b.empty() {
		return nil
	}
	var err error
	if len(b.aside.content) > 0 {
		b.aside.in, err = w.blobs.put(b.aside.content)
	}
	err = errors.Join(err, w.flushTables())
	w.raw = b.encode(w.raw[:0])
	dropped := min(w.dropped, 1<<32-1)
	tMin, tMax := b.times()
	e, e2 := w.file.Append(&container.Chunk{
		Type: container.Events, Flags: container.SelfContained, Codec: w.codec,
		TMin: tMin, TMax: tMax, Records: uint32(b.n), Dropped: uint32(dropped), Raw: w.raw, Frames: frames(w.raw),
	})
	if e2 == nil {
		w.dropped -= dropped
		w.full = false
		c := b.info(w.schema, &e)
		if w.summary.crowded(&c) {
			err = errors.Join(err, w.flushSummary())
		}
		w.summary.add(b, w.schema, &c)
	} else {
		w.lose(b)
	}
	b.reset(w.next)
	if len(w.summary.chunks) >= summaryChunks {
		err = errors.Join(err, w.flushSummary())
	}
	return errors.Join(err, e2)
}

// lose records a block that could not be written.
func (w *Writer) lose(b *blockWriter) {
	w.full = true
	w.lost += uint64(b.n)
	tMin, tMax := b.times()
	// On a disk that stays full one gap grows, instead of a list of gaps.
	if n := len(w.gaps); n > 0 && w.gaps[n-1].Reason == WriteFailed {
		g := &w.gaps[n-1]
		g.From, g.To = min(g.From, tMin), max(g.To, tMax)
		g.Calls += uint64(b.n)
		w.dropped += uint64(b.n)
		return
	}
	w.addGap(Gap{Thread: NoThread, From: tMin, To: tMax, Calls: uint64(b.n), Reason: WriteFailed})
}

// dict is a dict chunk's content: rows of the two tables, each with its index. A later row replaces an earlier one.
type dict struct {
	Processes []dictRow[Process] `json:"processes,omitempty"`
	Threads   []dictRow[Thread]  `json:"threads,omitempty"`
}

type dictRow[T any] struct {
	Index uint32 `json:"index"`
	Row   T      `json:"row"`
}

func (w *Writer) flushDict() error {
	const batch = 4096
	for len(w.newProcs) > 0 || len(w.newThread) > 0 {
		var d dict
		procs := w.newProcs[:min(batch, len(w.newProcs))]
		for _, i := range procs {
			d.Processes = append(d.Processes, dictRow[Process]{i, w.procs[i]})
		}
		threads := w.newThread[:min(batch, len(w.newThread))]
		for _, i := range threads {
			d.Threads = append(d.Threads, dictRow[Thread]{i, w.threads[i]})
		}
		raw, err := json.Marshal(&d)
		if err != nil {
			return fmt.Errorf("dict: %w", err)
		}
		if err := w.append(container.Dict, raw, len(procs)+len(threads)); err != nil {
			return err
		}
		w.newProcs, w.newThread = w.newProcs[len(procs):], w.newThread[len(threads):]
	}
	return nil
}

func encodeGaps(enc *column.Encoder, gaps []Gap) []byte {
	var cols [gapFields][]uint64
	for _, g := range gaps {
		for field, v := range [...]uint64{gapThread: uint64(g.Thread), gapFrom: uint64(g.From), gapLen: uint64(g.To - g.From), gapCalls: g.Calls, gapReason: uint64(g.Reason)} {
			cols[field] = append(cols[field], v)
		}
	}
	return enc.Table(nil, kindGaps, 0, cols[:]...)
}

func (w *Writer) flushGaps() error {
	const batch = 1 << 16
	for len(w.gaps) > 0 && !w.full {
		gaps := w.gaps[:min(batch, len(w.gaps))]
		if err := w.append(container.Gap, encodeGaps(&w.enc, gaps), len(gaps)); err != nil {
			return err
		}
		if w.gaps = w.gaps[len(gaps):]; len(w.gaps) == 0 {
			w.gaps = nil
		}
	}
	return nil
}

// Close writes pending data, the summary and the index, and closes the file. The file is readable even after an error,
// unless it was to be Whole.
func (w *Writer) Close() error {
	if w.closed {
		return errClosed
	}
	w.closed = true
	// Calls lost now for lack of space are in a gap below. The end has reserved space.
	lost := w.flush()
	w.file.Closing()
	w.full = false
	// These are in the file already. A second copy costs little, and everything else depends on them.
	w.newProcs, w.newThread = upTo(len(w.procs)), upTo(len(w.threads))
	err := errors.Join(w.flushDict(), w.flushGaps(), w.append(container.Schema, w.schemaRaw, len(w.schema.Functions)),
		w.append(container.Meta, w.meta, 1), w.flushSummary())
	if err != nil || lost != nil && w.whole {
		return errors.Join(lost, err, w.abort())
	}
	err = w.file.Finish()
	if w.beside != nil {
		err = errors.Join(err, w.beside.file.Finish()) // not before: a checkpoint of the trace may still synchronize it
	}
	return errors.Join(lost, err)
}

// Abort closes the file without unflushed data, and removes it if it was to be Whole.
func (w *Writer) Abort() error {
	if w.closed {
		return errClosed
	}
	w.closed = true
	return w.abort()
}

func (w *Writer) abort() error {
	err := w.file.Abort()
	if w.beside != nil {
		err = errors.Join(err, w.beside.file.Abort())
	}
	return err
}

func upTo(n int) []uint32 {
	s := make([]uint32, n)
	for i := range s {
		s[i] = uint32(i)
	}
	return s
}

// flushSummary writes a summary, which saves readers from reading events.
func (w *Writer) flushSummary() error {
	if len(w.summary.chunks) == 0 {
		return nil
	}
	if err := w.append(container.Summary, w.summary.encode(), len(w.summary.chunks)); err != nil {
		return err
	}
	w.summary.reset()
	return nil
}
