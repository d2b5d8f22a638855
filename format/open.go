package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/zeebo/xxh3"

	"github.com/acltrace/acltrace/format/column"
	"github.com/acltrace/acltrace/format/container"
	"github.com/acltrace/acltrace/internal/atomicfile"
)

// contentWhole reports if damage concerns the location of a chunk and not its content.
func contentWhole(d *ErrCorrupt) bool { return strings.HasSuffix(d.What, "content is whole") }

// Open opens a trace by its index. A file without an index, because the writer died or the end is missing, is searched for whole
// chunks; see Recovered. The error is ErrNotTrace, ErrVersion, ErrTruncated or ErrCorrupt, or comes from the file system.
func Open(path string, _ *ReaderOptions) (*Reader, error) {
	recording := atomicfile.Writing(path) // before the file is read: the recorder may end meanwhile
	file, err := container.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := newReader(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	r.recording = recording && !r.Complete()
	return r, nil
}

func newReader(file *container.File) (*Reader, error) {
	r := &Reader{
		file: file, meta: &Meta{}, schema: &Schema{}, unknown: map[string]uint64{}, lastAt: -1, sums: sums{},
	}
	r.blobs = blobReader{r: r, file: file, chunks: map[int64]*container.Entry{}}
	gaps := map[uint64]bool{} // chunks of gaps by their hash
	entries := file.Entries()
	for i := range entries {
		e := &entries[i]
		switch e.Type {
		case container.Events:
			r.events = append(r.events, eventChunk{entry: e, info: ChunkInfo{Calls: uint64(e.Records), TMin: e.TMin, TMax: e.TMax}})
		case container.Blob:
			r.blobs.chunks[e.Offset] = e
		case container.BlobMap:
			r.blobs.maps = append(r.blobs.maps, e)
		case container.Summary:
			r.summaries = append(r.summaries, e)
		case container.Dict, container.Gap:
			use := r.readDict
			if e.Type == container.Gap {
				use = func(raw []byte) error {
					h := xxh3.Hash(raw)
					if gaps[h] { // no two gaps have the same thread, time and number of calls
						r.repeated = append(r.repeated, e.Offset)
						return errors.New("the chunk repeats an earlier one")
					}
					gaps[h] = true
					return r.readGaps(raw)
				}
			}
			if _, err := r.read(e, use); err != nil {
				return nil, err
			}
		case container.Meta, container.Schema, container.Checkpoint, container.Index, container.End:
		default:
			what := e.Type.String() + " chunk"
			if e.Flags&container.Ancillary == 0 {
				what += ", which is not ancillary"
			}
			r.skip(what)
		}
	}
	if err := r.readLast(container.Meta, func(b []byte) error { return json.Unmarshal(b, r.meta) }); err != nil {
		return nil, err
	}
	if err := r.readLast(container.Schema, r.readSchema); err != nil {
		return nil, err
	}
	if r.meta.UUID == "" {
		// No copy of META is left: take its fields from other places.
		h := file.Header()
		r.meta.UUID, r.meta.StartWall, r.meta.StartMono = uuid.UUID(h.Session).String(), h.WallNS, h.MonoNS
		r.meta.API, r.meta.Ended = r.schema.API, "not known: what the trace says of itself is not in it"
	}
	if err := r.readSummaries(); err != nil {
		return nil, err
	}
	if err := r.orderCalls(); err != nil {
		return nil, err
	}
	if err := r.settleTables(); err != nil {
		return nil, err
	}
	return r, r.findHoles()
}

// findHoles adds gaps for missing call numbers between chunks. A file whose end agrees with the rest has none.
func (r *Reader) findHoles() error {
	if rec := r.file.Recovery(); rec == nil || rec.LostChunks == 0 {
		return nil
	}
	b := r.block()
	defer release(b)
	next, last, known := uint64(0), int64(0), true
	for i := range r.events {
		chunk := &r.events[i]
		ok, err := r.load(b, chunk, want{noArgs: true, noData: true})
		if err != nil {
			return err
		}
		if !ok || b.n == 0 {
			known = known && ok // a damaged chunk has a gap of its own
			continue
		}
		g := Gap{Thread: NoThread, From: last, To: max(last, chunk.entry.TMin), Calls: b.first - next, Reason: FileDamaged}
		told := func(o Gap) bool {
			return o.Reason == FileDamaged && o.Thread == NoThread && o.From >= g.From && o.To <= g.To
		}
		if known && b.first > next && !slices.ContainsFunc(r.gaps, told) {
			r.gaps = append(r.gaps, g)
		}
		next, last, known = b.first+uint64(b.n), chunk.entry.TMax, true
	}
	return nil
}

// settleTables makes the tables consistent: a thread has a process. If a missing chunk may have had rows, threads of calls
// get empty rows. Later, load refuses calls of other threads, so no other code must check.
func (r *Reader) settleTables() error {
	damagedRows := func(what string) {
		for i := range slices.Backward(r.file.Entries()) {
			if e := &r.file.Entries()[i]; e.Type == container.Dict {
				_ = r.file.Corrupt(e, what)
				return
			}
		}
	}
	rec := r.Recovered()
	if slices.ContainsFunc(r.file.Damage(), func(d ErrCorrupt) bool { return d.Chunk == container.Dict }) || rec != nil && rec.LostChunks > 0 {
		if err := r.missingThreads(); err != nil {
			return err
		}
	}
	for i := range r.threads {
		t := &r.threads[i]
		for int(t.Process) >= len(r.processes) && int64(t.Process) < r.maxRows() {
			r.processes = append(r.processes, Process{})
		}
		if int(t.Process) >= len(r.processes) {
			damagedRows(fmt.Sprintf("thread %d is of process %d, at most %d are possible", i, t.Process, r.maxRows()))
			t.Process = 0
		}
	}
	return nil
}

// missingThreads adds empty rows for threads of calls without a row.
func (r *Reader) missingThreads() error {
	last := int64(len(r.threads)) - 1
	note := func(t uint64) {
		if int64(t) < r.maxRows() {
			last = max(last, int64(t))
		}
	}
	b := r.block()
	defer release(b)
	b.of = nil
	for i := range r.events {
		c := &r.events[i]
		for _, t := range c.info.Threads {
			note(uint64(t))
		}
		if c.info.Known {
			continue
		}
		ok, err := r.load(b, c, want{columns: ThreadColumn, noArgs: true, noData: true, batches: true})
		if err != nil {
			return err
		}
		for k := 0; ok && k < b.n; k++ {
			note(b.calls[callThread].At(k))
		}
	}
	for int64(len(r.threads)) <= last {
		r.threads = append(r.threads, Thread{})
	}
	return nil
}

// maxRows bounds the tables of processes and threads: every row is or was in the file, and takes a few bytes.
func (r *Reader) maxRows() int64 { return min(1<<22, r.file.Size()) }

// readLast passes the last readable chunk with a type to use. A missing chunk is no error.
func (r *Reader) readLast(t container.Type, use func([]byte) error) error {
	for i := range slices.Backward(r.file.Entries()) {
		e := &r.file.Entries()[i]
		if e.Type != t {
			continue
		}
		if ok, err := r.read(e, use); ok || err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) readSchema(b []byte) error {
	s := &Schema{}
	if err := json.Unmarshal(b, s); err != nil {
		return err
	}
	if err := s.index(); err != nil {
		return err
	}
	r.schema = s
	return nil
}

// read passes the content of a chunk to use. It returns false without an error if the chunk is damaged, or if use fails.
func (r *Reader) read(e *container.Entry, use func([]byte) error) (bool, error) {
	// JSON takes many times its length in memory after decoding.
	if isJSON(e.Type) && uint64(e.RawLen) > 1<<20+256*uint64(e.StoredLen) {
		_ = r.file.Corrupt(e, fmt.Sprintf("%d bytes unpack to %d of JSON", e.StoredLen, e.RawLen)) // recorded
		return false, nil
	}
	raw, err := r.file.Read(e, nil)
	if err != nil {
		return false, container.IgnoreDamage(err)
	}
	if err := use(raw); err != nil {
		_ = r.file.Corrupt(e, err.Error())
		return false, nil
	}
	return true, nil
}

func isJSON(t container.Type) bool {
	return t == container.Meta || t == container.Schema || t == container.Dict
}

func (r *Reader) readDict(raw []byte) error {
	var d dict
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	for _, p := range d.Processes {
		if err := setRow(&r.processes, p.Index, r.maxRows(), p.Row); err != nil {
			return err
		}
	}
	for _, t := range d.Threads {
		if err := setRow(&r.threads, t.Index, r.maxRows(), t.Row); err != nil {
			return err
		}
	}
	return nil
}

// setRow sets row i of a table. Missing earlier rows, from damaged chunks, stay empty.
func setRow[T any](table *[]T, i uint32, limit int64, row T) error {
	if int64(i) >= limit {
		return fmt.Errorf("row %d of a table, at most %d are possible", i, limit)
	}
	for int(i) >= len(*table) {
		var zero T
		*table = append(*table, zero)
	}
	(*table)[i] = row
	return nil
}

func (r *Reader) readGaps(raw []byte) error {
	return r.readTables(raw, map[uint64]func(t column.Table) error{kindGaps: func(t column.Table) error {
		var cols [gapFields][]uint64
		if err := r.tableColumns(t, cols[:]); err != nil {
			return err
		}
		for i := range cols[0] {
			from := int64(cols[gapFrom][i])
			r.gaps = append(r.gaps, Gap{
				Thread: uint32(cols[gapThread][i]), From: from, To: from + int64(cols[gapLen][i]),
				Calls: cols[gapCalls][i], Reason: Reason(cols[gapReason][i]),
			})
		}
		return nil
	}})
}

// readTables passes each table of a chunk to the function for its kind.
func (r *Reader) readTables(raw []byte, use map[uint64]func(column.Table) error) error {
	for len(raw) > 0 {
		t, rest, err := column.NextTable(raw)
		if err != nil {
			return err
		}
		raw = rest
		f := use[t.Kind]
		if f == nil {
			r.skip("kind of table")
			continue
		}
		if err := f(t); err != nil {
			return err
		}
	}
	return nil
}

// tableColumns decodes a table outside blocks.
func (r *Reader) tableColumns(t column.Table, cols [][]uint64) error {
	words := t.Rows * uint64(len(cols))
	if t.Rows > maxCalls || !r.mayHold(&r.tableWords, words, maxBlockWords) {
		return errBlock
	}
	b := block{unknown: r.skip}
	return b.columns(t, cols, int(t.Rows))
}

// mayHold counts table words outside blocks. A few bytes can claim any number of rows, but a
// writer needs about a byte for each word, plus a constant.
func (r *Reader) mayHold(count *uint64, words, anyway uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	*count += words
	return *count <= anyway+2*uint64(r.file.Size())
}

// Close closes the file. Results of the Reader stay usable.
func (r *Reader) Close() error { return errors.Join(r.file.Close(), r.blobs.close()) }

// Complete reports if the writer finished the file and the index is whole.
func (r *Reader) Complete() bool { return r.file.Recovery() == nil }

// Recovered is nil for a complete file, otherwise it describes the file.
func (r *Reader) Recovered() *Recovery { return r.file.Recovery() }

// Damage returns the damaged places found so far. Chunks are checked when they are read: at the end of an iterator,
// Damage lists all chunks whose calls it left out.
func (r *Reader) Damage() []ErrCorrupt { return append(r.file.Damage(), r.blobs.damage()...) }

// LostCalls returns the number of calls in the damaged places found so far. It is unknown for missing chunks.
func (r *Reader) LostCalls() (calls uint64, known bool) {
	for _, g := range r.damaged() {
		calls += g.Calls
	}
	rec := r.Recovered()
	return calls, rec == nil || rec.LostChunks == 0
}

// damaged are the gaps for damaged places found so far.
func (r *Reader) damaged() (gaps []Gap) {
	for _, d := range r.file.Damage() {
		if c := r.damagedCalls(&d); c != nil {
			if n := r.unread(c); n > 0 || !c.misplaced {
				gaps = append(gaps, Gap{Thread: NoThread, From: c.entry.TMin, To: c.entry.TMax, Calls: n, Reason: FileDamaged})
			}
		}
	}
	return gaps
}

// damagedCalls returns the events chunk with damaged content, nil for other damage.
func (r *Reader) damagedCalls(d *ErrCorrupt) *eventChunk {
	for i := range r.events {
		if c := &r.events[i]; d.Chunk == container.Events && !contentWhole(d) && c.entry.Seq == d.Seq {
			return c
		}
	}
	return nil
}

// Unknown counts skipped content from later versions, by its name.
func (r *Reader) Unknown() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.unknown)
}

// readSummaries uses the whole summaries. Other chunks are read on demand.
func (r *Reader) readSummaries() error {
	bySeq := make(map[uint64]*eventChunk, len(r.events))
	for i := range r.events {
		bySeq[r.events[i].entry.Seq] = &r.events[i]
	}
	for _, e := range r.summaries {
		if _, err := r.read(e, func(raw []byte) error { return r.readSummary(raw, bySeq) }); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) readSummary(raw []byte, bySeq map[uint64]*eventChunk) error {
	var cols [chunkFields][]uint64
	var totals [totalFields][]uint64
	memberSets, handleSets, taskSets := map[uint64][]uint32{}, map[uint64][]Handle{}, map[uint64][]TaskRange{}
	// sets passes each row of a table, a column for each word, to the function that adds it to its set.
	sets := func(words int, add func(id uint64, m [][]uint64, i int)) func(column.Table) error {
		return func(t column.Table) error {
			m := make([][]uint64, 1+words)
			if err := r.tableColumns(t, m); err != nil {
				return err
			}
			for i, id := range m[setID] {
				add(id, m, i)
			}
			return nil
		}
	}
	err := r.readTables(raw, map[uint64]func(column.Table) error{
		kindChunks: func(t column.Table) error { return r.tableColumns(t, cols[:]) },
		kindSets: sets(1, func(id uint64, m [][]uint64, i int) {
			memberSets[id] = append(memberSets[id], uint32(m[setMember][i]))
		}),
		kindHandles: sets(2, func(id uint64, m [][]uint64, i int) {
			kind := m[handleKind][i]
			handleSets[id] = append(handleSets[id], Handle{Kind: int(kind % anyHandle), Value: m[handleValue][i], Any: kind >= anyHandle})
		}),
		kindTasks: sets(3, func(id uint64, m [][]uint64, i int) {
			low := uint32(m[taskLow][i])
			taskSets[id] = append(taskSets[id], TaskRange{uint32(m[taskStream][i]), low, low + uint32(m[taskLen][i])})
		}),
		kindTotals: func(t column.Table) error { return r.tableColumns(t, totals[:]) },
	})
	if err != nil {
		return err
	}
	// Verify everything before using any of it.
	calls, counted := uint64(0), uint64(0)
	for i, seq := range cols[chunkSeq] {
		c := bySeq[seq]
		calls += cols[chunkCalls][i]
		if c != nil && (c.info.Known || cols[chunkCalls][i] != uint64(c.entry.Records)) || cols[chunkFirst][i] > 1<<62 {
			return fmt.Errorf("summary names chunk %d, which is not like that", seq)
		}
	}
	for i, id := range totals[totalFunc] {
		counted += totals[totalCalls][i]
		if id > math.MaxUint16 {
			return errBlock
		}
	}
	if counted != calls {
		return fmt.Errorf("summary has %d calls in chunks and %d in functions", calls, counted)
	}
	whole := true
	for i, seq := range cols[chunkSeq] {
		c := bySeq[seq]
		if c == nil {
			whole = false
			continue
		}
		c.info.Known, c.info.seq, c.info.First, c.info.rows = true, seq, cols[chunkFirst][i], cols[chunkRows][i]
		c.info.late = lateRange{cols[chunkLateLo][i], cols[chunkLateLen][i]}
		c.info.Funcs, c.info.Threads = memberSets[cols[chunkFuncs][i]], memberSets[cols[chunkThreads][i]]
		c.info.Handles, c.info.Tasks = handleSets[cols[chunkHandles][i]], taskSets[cols[chunkTasks][i]]
		c.counted = true
	}
	if !whole {
		// The sums include missing chunks.
		for _, seq := range cols[chunkSeq] {
			if c := bySeq[seq]; c != nil {
				c.counted = false
			}
		}
		return nil
	}
	for i, id := range totals[totalFunc] {
		r.sums.add(FuncCount{
			Func: uint16(id), Calls: totals[totalCalls][i], Failed: totals[totalFailed][i],
			Unfinished: totals[totalUnfinished][i], Time: totals[totalTime][i],
		})
	}
	return nil
}
