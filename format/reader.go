package format

import (
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/acltrace/acltrace/format/column"
	"github.com/acltrace/acltrace/format/container"
)

// ReaderOptions change what Open does; nil stands for the zero value. There are none yet.
type ReaderOptions struct{}

// A Reader reads a trace file.
type Reader struct {
	file      *container.File
	meta      *Meta
	schema    *Schema
	processes []Process
	threads   []Thread
	gaps      []Gap
	events    []eventChunk

	summaries  []*container.Entry
	sums       sums // of the chunks that summaries have counted
	countsOnce sync.Once
	counts     *Counts
	countsErr  error

	blobs blobReader

	learnOnce sync.Once
	learned   []ChunkInfo // of events, from the summaries or from the chunks themselves
	learnErr  error

	mu         sync.Mutex
	tableWords uint64 // of tables outside of blocks, so far
	extents    uint64 // the same of extents of payloads, of which those of zeros cost no file
	unknown    map[string]uint64
	last       *block // the one that Call and DataOf used last
	lastAt     int
}

// eventChunk is an events chunk and what is known of it.
type eventChunk struct {
	entry   *container.Entry
	info    ChunkInfo
	counted bool // its calls are in the Reader's sums
}

// Counts are the totals of a trace.
type Counts struct {
	Calls      uint64
	Failed     uint64 // returned a status that is not zero
	Unfinished uint64
	Functions  []FuncCount // by ascending id, only those that were called
	GapCalls   uint64      // calls known to be missing
}

// A FuncCount is the total of one function.
type FuncCount struct {
	Func       uint16
	Calls      uint64
	Failed     uint64
	Unfinished uint64
	Time       uint64 // nanoseconds between start and end of its calls, added up
}

// A Filter selects calls. The zero value and nil select all.
type Filter struct {
	Funcs   []uint16 // any of these; all when empty
	Threads []uint32 // on any of these; all when empty
	Handles []Handle // with a parameter that is any of these; all when empty
	Task    *TaskID  // only the calls that made this task
	From    int64    // only calls that end at From or later
	To      int64    // only calls that start before To; 0 for no limit
	NoArgs  bool     // leave Args and Outs empty, and do not spend time on them
	NoData  bool     // the same for Data
	// DataOf are the functions whose calls have Data, all when nil. For calls of others no time is spent on it.
	DataOf []uint16
	// Chunk is asked just before a chunk of calls is read, in the order in which they are; false leaves it out.
	Chunk func(*ChunkInfo) bool
}

// A TaskID names a task by the runtime's own numbers of its stream and of the task.
type TaskID struct{ Stream, Task uint32 }

// A DataFilter selects data. The zero value and nil select all.
type DataFilter struct {
	From uint64 // only data of calls from this index on
	To   uint64 // only data of calls before this index; 0 for no limit
	Late bool   // only data that Calls does not give, since it lies in a later chunk than its call
}

// Open opens a trace by its index. A file without one, because the writer died or the end was cut off, is searched for whole
// chunks; see Recovered. The error is ErrNotTrace, ErrVersion, ErrTruncated or ErrCorrupt, or comes from the file system.
func Open(path string, _ *ReaderOptions) (*Reader, error) {
	file, err := container.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := newReader(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	return r, nil
}

func newReader(file *container.File) (*Reader, error) {
	r := &Reader{
		file: file, meta: &Meta{}, schema: &Schema{}, unknown: map[string]uint64{}, lastAt: -1, sums: sums{},
	}
	r.blobs = blobReader{r: r, file: file, chunks: map[int64]*container.Entry{}}
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
			if err := r.readTable(e); err != nil {
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
		// No copy of META is left: what it has of others is taken from these.
		h := file.Header()
		r.meta.UUID, r.meta.StartWall, r.meta.StartMono = uuidText(h.Session), h.WallNS, h.MonoNS
		r.meta.API, r.meta.Ended = r.schema.API, "not known: what the trace says of itself is not in it"
	}
	if err := r.readSummaries(); err != nil {
		return nil, err
	}
	if err := r.settleTables(); err != nil {
		return nil, err
	}
	return r, r.findHoles()
}

// findHoles adds gaps where the numbers of the calls show that chunks between them are missing. A file whose end agrees with the rest has all.
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
			known = known && ok // damage of a chunk is a gap of its own
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

// settleTables makes the tables agree: a thread has a process, and if rows may be missing because a chunk is, threads that calls
// name have empty ones. After it, load refuses calls of other threads, so that nobody else has to look.
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

// missingThreads adds empty rows for threads that calls name and that have none.
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

// maxRows bounds the tables of processes and threads: every row is in the file, or was, and takes a few bytes.
func (r *Reader) maxRows() int64 { return min(1<<22, r.file.Size()) }

// readLast gives the last chunk of a type that can be read to use. It is no error when there is none.
func (r *Reader) readLast(t container.Type, use func([]byte) error) error {
	for i := range slices.Backward(r.file.Entries()) {
		e := &r.file.Entries()[i]
		if e.Type != t {
			continue
		}
		raw, err := r.readJSON(e)
		if err == nil {
			if err = use(raw); err == nil {
				return nil
			}
			err = r.file.Corrupt(e, err.Error())
		}
		if !damaged(err) {
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

// damaged tells damage, which costs a chunk, from an error that ends everything.
func damaged(err error) bool {
	var c *ErrCorrupt
	return errors.As(err, &c)
}

// readJSON reads a chunk of JSON, which takes many times its length in memory once it is decoded.
func (r *Reader) readJSON(e *container.Entry) ([]byte, error) {
	if uint64(e.RawLen) > 1<<20+256*uint64(e.StoredLen) {
		return nil, r.file.Corrupt(e, fmt.Sprintf("%d bytes unpack to %d of JSON", e.StoredLen, e.RawLen))
	}
	return r.file.Read(e, nil)
}

func (r *Reader) readTable(e *container.Entry) error {
	read, use := r.readJSON, r.readDict
	if e.Type == container.Gap {
		read, use = func(e *container.Entry) ([]byte, error) { return r.file.Read(e, nil) }, r.readGaps
	}
	raw, err := read(e)
	if err == nil {
		err = use(raw)
		if err == nil {
			return nil
		}
		err = r.file.Corrupt(e, err.Error())
	}
	if damaged(err) {
		return nil
	}
	return err
}

func (r *Reader) readDict(raw []byte) error {
	var d dict
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	for _, p := range d.Processes {
		if err := place1(&r.processes, p.Index, r.maxRows(), p.Row); err != nil {
			return err
		}
	}
	for _, t := range d.Threads {
		if err := place1(&r.threads, t.Index, r.maxRows(), t.Row); err != nil {
			return err
		}
	}
	return nil
}

// place1 sets row i of a table. Rows before it that are not there, because their chunk was damaged, stay empty.
func place1[T any](table *[]T, i uint32, limit int64, row T) error {
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
		var cols [5][]uint64
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

// readTables gives each table of a chunk to the function for its kind.
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

// tableColumns decodes a table that is not part of a block.
func (r *Reader) tableColumns(t column.Table, cols [][]uint64) error {
	words := t.Rows * uint64(len(cols))
	if t.Rows > maxCalls || !r.mayHold(&r.tableWords, words, maxBlockWords) {
		return errBlock
	}
	b := block{unknown: r.skip}
	return b.columns(t, cols, int(t.Rows))
}

// mayHold accounts for words of tables outside of blocks. A few bytes can stand for as many rows as they like, but what
// a writer makes has about a byte for each word, but for some that are there anyway.
func (r *Reader) mayHold(count *uint64, words, anyway uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	*count += words
	return *count <= anyway+2*uint64(r.file.Size())
}

func (r *Reader) skip(what string) {
	r.mu.Lock()
	r.unknown[what]++
	r.mu.Unlock()
}

// Close closes the file. What the Reader gave stays usable.
func (r *Reader) Close() error { return errors.Join(r.file.Close(), r.blobs.close()) }

// Path returns the name that the trace was opened by.
func (r *Reader) Path() string { return r.file.Path() }

// Meta says what was recorded. It must not be changed; nor must the tables below.
func (r *Reader) Meta() *Meta          { return r.meta }
func (r *Reader) Schema() *Schema      { return r.schema }
func (r *Reader) Processes() []Process { return r.processes }
func (r *Reader) Threads() []Thread    { return r.threads }
func (r *Reader) Gaps() []Gap          { return r.gaps }

// Version is the version of the format that the file has.
func (r *Reader) Version() (major, minor uint16) {
	h := r.file.Header()
	return h.Major, h.Minor
}

// Complete reports whether the file was finished by its writer and its index is whole.
func (r *Reader) Complete() bool { return r.file.Recovery() == nil }

// Recovered is nil for a complete file, and else says what was found.
func (r *Reader) Recovered() *Recovery { return r.file.Recovery() }

// Damage returns the damaged places found so far. Chunks are looked at only when they are read: after an iterator has come to its
// end, Damage names all chunks whose calls it had to leave out.
func (r *Reader) Damage() []ErrCorrupt { return append(r.file.Damage(), r.blobs.damage()...) }

// LostCalls returns how many calls the damaged places found so far have cost. It is not known where chunks are missing altogether.
func (r *Reader) LostCalls() (calls uint64, known bool) {
	for _, g := range r.damaged() {
		calls += g.Calls
	}
	rec := r.Recovered()
	return calls, rec == nil || rec.LostChunks == 0
}

// damaged are the gaps that the damaged places found so far have made.
func (r *Reader) damaged() (gaps []Gap) {
	for _, d := range r.file.Damage() {
		if d.Chunk != container.Events || contentWhole(&d) {
			continue
		}
		for i := range r.events {
			if e := r.events[i].entry; e.Seq == d.Seq {
				gaps = append(gaps, Gap{Thread: NoThread, From: e.TMin, To: e.TMax, Calls: uint64(e.Records), Reason: FileDamaged})
			}
		}
	}
	return gaps
}

// Unknown counts what was stepped over because it is of a later version, by its name.
func (r *Reader) Unknown() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := make(map[string]uint64, len(r.unknown))
	for k, v := range r.unknown {
		m[k] = v
	}
	return m
}

// Chunks iterates over what is known of the chunks of calls and data, in the order of the file.
func (r *Reader) Chunks() iter.Seq[*ChunkInfo] {
	return func(yield func(*ChunkInfo) bool) {
		for i := range r.events {
			if !yield(&r.events[i].info) {
				return
			}
		}
	}
}

// matcher is a Filter made fast.
type matcher struct {
	Filter
	schema  *Schema
	funcs   []bool
	threads map[uint32]bool
	want    want
}

func newMatcher(f *Filter, s *Schema) *matcher {
	m := &matcher{schema: s}
	if f != nil {
		m.Filter = *f
	}
	if m.To == 0 {
		m.To = math.MaxInt64
	}
	m.want = want{columns: AllColumns, noArgs: m.NoArgs && m.Handles == nil && m.Task == nil, noData: m.NoData}
	if m.DataOf != nil {
		m.want.dataOf = make([]bool, 1<<16)
		for _, id := range m.DataOf {
			m.want.dataOf[id] = true
		}
	}
	if len(m.Funcs) > 0 {
		m.funcs = make([]bool, 1<<16)
		for _, id := range m.Funcs {
			m.funcs[id] = true
		}
		m.want.funcs = func(id uint16) bool { return m.funcs[id] }
	}
	if len(m.Threads) > 0 {
		m.threads = map[uint32]bool{}
		for _, t := range m.Threads {
			m.threads[t] = true
		}
	}
	return m
}

// chunk reports whether the chunk can hold a call that matches.
func (m *matcher) chunk(c *eventChunk) bool {
	if c.entry.Records == 0 || c.entry.TMin >= m.To || m.From > 0 && c.entry.TMax < m.From {
		return false
	}
	in := &c.info
	if in.Known && (m.funcs != nil && !slices.ContainsFunc(in.Funcs, func(id uint32) bool { return id <= 0xffff && m.funcs[id] }) ||
		m.threads != nil && !slices.ContainsFunc(in.Threads, func(t uint32) bool { return m.threads[t] })) {
		return false
	}
	return (m.Handles == nil || slices.ContainsFunc(m.Handles, in.Handle)) && (m.Task == nil || in.Task(m.Task.Stream, m.Task.Task))
}

// all reports whether every call matches.
func (m *matcher) all() bool {
	return m.funcs == nil && m.threads == nil && m.From <= 0 && m.To == math.MaxInt64 && m.Handles == nil && m.Task == nil
}

// fits reports whether the call at a place in the stretch of a block matches by what is known without its arguments.
func (m *matcher) fits(b *block, i int) bool {
	t := &b.ties
	if m.funcs != nil && !m.funcs[t.fn[i]] || m.threads != nil && !m.threads[b.thread(i)] {
		return false
	}
	return t.start[i] < m.To && (m.From <= 0 || t.end[i] >= m.From)
}

// holds reports whether a call that fits matches.
func (m *matcher) holds(c *Call) bool {
	return (m.Handles == nil || m.names(c)) && (m.Task == nil || m.made(c))
}

// names reports whether a parameter of the call is one of the handles.
func (m *matcher) names(c *Call) bool {
	f := m.schema.Func(c.Func)
	if f == nil {
		return false
	}
	for _, p := range f.Params {
		if p.Handle == 0 || p.Word >= len(c.Args) {
			continue
		}
		for _, h := range m.Handles {
			if h.Kind == p.Handle && (h.Any || h.Value == c.Args[p.Word]) {
				return true
			}
		}
	}
	return false
}

// made reports whether the call made the task.
func (m *matcher) made(c *Call) bool {
	return slices.Contains(c.Outs, Out{TaskParam, uint64(m.Task.Stream)<<32 | uint64(m.Task.Task)})
}

// blocks are free ones of all readers, so that many open traces hold no more of them than what reads at a time.
var blocks = sync.Pool{New: func() any { return new(block) }}

func (r *Reader) block() *block {
	b := blocks.Get().(*block)
	b.unknown, b.of = r.skip, r
	return b
}

// release gives a block back, whose calls must not be looked at any more.
func release(b *block) {
	b.unknown, b.of = nil, nil
	blocks.Put(b)
}

// load reads chunk c into b. It returns false, and no error, when the chunk is damaged.
func (r *Reader) load(b *block, c *eventChunk, w want) (bool, error) {
	if w.dataOf != nil && c.info.Known && !slices.ContainsFunc(c.info.Funcs, func(id uint32) bool { return id > 0xffff || w.dataOf[id] }) {
		w.noData = true
	}
	err := r.file.ReadContent(c.entry, &b.content)
	if err == nil {
		if err = b.load(w); err != nil {
			err = r.file.Corrupt(c.entry, err.Error())
		}
	}
	if err != nil {
		return false, ignoreDamage(err)
	}
	if w.noData {
		b.rows = 0
	}
	return true, nil
}

func ignoreDamage(err error) error {
	if damaged(err) {
		return nil
	}
	return err
}

// Calls iterates over the calls that match f in the order of the file, in which the calls of a thread are in the order
// of their start, those that enclose others behind them. The call and all that it points to must not be changed and are
// used again for the next step: Clone what is to be kept. Damaged chunks are left out and named by Damage; an error
// comes only from the file system, and ends the iteration. Chunks are decoded ahead on other processors; Calls holds at
// most a few of them.
func (r *Reader) Calls(f *Filter) iter.Seq2[*Call, error] { return r.callsAhead(f, maxAhead) }

// callsAhead is Calls with at most so many blocks that are decoded ahead.
func (r *Reader) callsAhead(f *Filter, ahead int) iter.Seq2[*Call, error] {
	return func(yield func(*Call, error) bool) {
		m := newMatcher(f, r.schema)
		l := r.newLoader(m, ahead)
		defer l.close()
		some := m
		if m.all() {
			some = nil
		}
		for {
			b, _, err := l.next()
			if err != nil {
				yield(nil, err)
			}
			if b == nil {
				return
			}
			going := b.each(some, yield)
			release(b)
			if !going {
				return
			}
		}
	}
}

// cursor is a block whose calls are given out by their start.
type cursor struct {
	b     *block
	order []uint32
	index int // of the chunk: calls of one start come in the order of the file
}

func (c *cursor) start() int64 { return c.b.ties.start[c.order[0]] }

type cursors []*cursor

func (h cursors) Len() int { return len(h) }
func (h cursors) Less(i, j int) bool {
	if a, b := h[i].start(), h[j].start(); a != b {
		return a < b
	}
	return h[i].index < h[j].index
}
func (h cursors) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(x any)   { *h = append(*h, x.(*cursor)) }
func (h *cursors) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// CallsByStart is Calls in the order of Start. It holds the chunks that overlap in time, and no others.
func (r *Reader) CallsByStart(f *Filter) iter.Seq2[*Call, error] {
	return func(yield func(*Call, error) bool) {
		m := newMatcher(f, r.schema)
		m.want.random = true
		l := r.newLoader(m, maxAhead)
		defer l.close()
		chunks := l.chunks
		// earliest[i] is the earliest start in chunk i and all after it: what starts before can be given out.
		earliest := make([]int64, len(chunks)+1)
		earliest[len(chunks)] = math.MaxInt64
		for i := len(chunks) - 1; i >= 0; i-- {
			earliest[i] = min(earliest[i+1], chunks[i].entry.TMin)
		}
		var open cursors
		defer func() {
			for _, c := range open {
				release(c.b)
			}
		}()
		next := 0
		for {
			for next < len(chunks) && (len(open) == 0 || open[0].start() >= earliest[next]) {
				b, at, err := l.next()
				if err != nil {
					yield(nil, err)
					return
				}
				if b == nil {
					next = len(chunks)
					break
				}
				next = at + 1
				if c := r.cursor(b, m, at); c != nil {
					heap.Push(&open, c)
				}
			}
			if len(open) == 0 {
				return
			}
			// Give out calls of the first block until another block or a chunk to come may be earlier.
			c := open[0]
			limit := earliest[next]
			if len(open) > 1 {
				limit = min(limit, open[1].start())
			}
			if len(open) > 2 {
				limit = min(limit, open[2].start())
			}
			n, starts := 1, c.b.ties.start
			for n < len(c.order) && starts[c.order[n]] < limit {
				n++
			}
			for _, k := range c.order[:n] {
				if !yield(c.b.call(int(k)), nil) {
					return
				}
			}
			c.order = c.order[n:]
			if len(c.order) > 0 {
				heap.Fix(&open, 0)
				continue
			}
			heap.Pop(&open)
			release(c.b)
		}
	}
}

// cursor returns nil when nothing in the block matches.
func (r *Reader) cursor(b *block, m *matcher, index int) *cursor {
	order := make([]uint32, 0, b.n)
	sorted := true
	if b.n > 0 {
		b.reach(0) // which holds all calls
	}
	starts := b.ties.start
	for i := range b.n {
		if m.fits(b, i) && (m.Handles == nil && m.Task == nil || m.holds(b.call(i))) {
			if n := len(order); n > 0 && starts[i] < starts[order[n-1]] {
				sorted = false
			}
			order = append(order, uint32(i))
		}
	}
	if len(order) == 0 {
		release(b)
		return nil
	}
	if !sorted {
		sort.SliceStable(order, func(i, j int) bool { return starts[order[i]] < starts[order[j]] })
	}
	return &cursor{b, order, index}
}

// learn finds out what is in the events chunks that no summary told about, once.
func (r *Reader) learn() error {
	r.learnOnce.Do(func() {
		r.learned = make([]ChunkInfo, len(r.events))
		b := r.block()
		defer release(b)
		for i := range r.events {
			c, info := &r.events[i], &r.learned[i]
			*info = c.info
			if info.Known {
				continue
			}
			ok, err := r.load(b, c, want{noArgs: true})
			if err != nil {
				r.learnErr = err
				return
			}
			if !ok {
				info.Calls = 0
				continue
			}
			info.First, info.Calls, info.rows = b.first, uint64(b.n), uint64(b.rows)
			for k := range b.rows {
				if b.late(k) {
					info.late.add(b.first + b.ownersOf()[k])
				}
			}
		}
	})
	return r.learnErr
}

// Pieces returns how many pieces of the program's data the trace has beside its calls: arguments, strings, what copies moved, whether they
// lie among the calls or in blobs.
func (r *Reader) Pieces() (n uint64, err error) {
	err = r.learn()
	for i := range r.learned {
		n += r.learned[i].rows
	}
	return n, err
}

// find returns the chunk that holds the call.
func (r *Reader) find(call uint64) (int, error) {
	if err := r.learn(); err != nil {
		return 0, err
	}
	for i := range r.learned {
		if c := &r.learned[i]; call-c.First < c.Calls {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s: call %d is not in the trace", r.file.Path(), call)
}

// with loads chunk i, or uses it again when it is the one that was loaded last, and gives it to use.
func (r *Reader) with(i int, use func(*block)) error {
	r.mu.Lock()
	b, at := r.last, r.lastAt
	r.last, r.lastAt = nil, -1
	r.mu.Unlock()
	if b == nil || at != i {
		if b == nil {
			b = r.block()
		}
		ok, err := r.load(b, &r.events[i], want{columns: AllColumns, random: true})
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%s: events chunk %d is damaged", r.file.Path(), r.events[i].entry.Seq)
		}
	}
	use(b)
	r.mu.Lock()
	r.last, r.lastAt = b, i
	r.mu.Unlock()
	return nil
}

// Call returns the call with the index, with all data that lies in its chunk.
func (r *Reader) Call(index uint64) (*Call, error) {
	i, err := r.find(index)
	if err != nil {
		return nil, err
	}
	var c Call
	found := false
	err = r.with(i, func(b *block) {
		if found = index-b.first < uint64(b.n); found { // else the summary is wrong about the chunk
			c = *b.call(b.reach(int(index - b.first))).Clone()
		}
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: call %d is not in the trace", r.file.Path(), index)
	}
	return &c, err
}

// DataOf returns all data of the call: what Call.Data has, and after it what was captured later, as the results of asynchronous copies.
func (r *Reader) DataOf(call uint64) ([]Data, error) {
	c, err := r.Call(call)
	if err != nil {
		return nil, err
	}
	data := c.Data
	for i := range r.events {
		late := r.learned[i].late
		if call-late.lo >= late.n {
			continue
		}
		err := r.with(i, func(b *block) {
			for k := range b.rows {
				if b.late(k) && b.first+b.ownersOf()[k] == call {
					data = append(data, b.clone(k))
				}
			}
		})
		if err != nil {
			return data, err
		}
	}
	return data, nil
}

func (b *block) clone(row int) Data {
	var d Data
	b.arena = b.arena[:0]
	b.datum(&d, row)
	d.Bytes = slices.Clone(d.Bytes)
	return d
}

// chunk reports whether a chunk has data that may match.
func (f *DataFilter) chunk(c *ChunkInfo) bool {
	late := c.late.n > 0 && (f.To == 0 || c.late.lo < f.To) && c.late.lo+c.late.n > f.From
	own := !f.Late && (f.To == 0 || c.First < f.To) && c.First+c.Calls > f.From
	return c.rows > 0 && (late || own)
}

// Data iterates over data in the order in which it lies in the file. The data and its bytes are used again for the next
// step. Damage and errors are as for Calls.
func (r *Reader) Data(f *DataFilter) iter.Seq2[*Data, error] {
	return func(yield func(*Data, error) bool) {
		if f == nil {
			f = &DataFilter{}
		}
		b := r.block()
		defer release(b)
		w := want{noArgs: true}
		if !f.Late { // the time of data is counted from the start of its call, unless that is in another chunk
			w.columns = AllColumns
		}
		var d Data
		for k := range r.events {
			c := &r.events[k]
			if c.info.Known && !f.chunk(&c.info) {
				continue
			}
			ok, err := r.load(b, c, w)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := 0; ok && i < b.rows; i++ {
				if f.Late && !b.late(i) {
					continue
				}
				b.arena = b.arena[:0]
				b.datum(&d, i)
				if d.Call < f.From || f.To != 0 && d.Call >= f.To {
					continue
				}
				if !yield(&d, nil) {
					return
				}
			}
		}
	}
}

// Counts returns the totals, from the summaries where there are some, and else by reading calls.
func (r *Reader) Counts() (*Counts, error) {
	r.countsOnce.Do(func() {
		total := sums{}
		for _, f := range r.sums {
			total.add(*f)
		}
		if r.countsErr = r.count(total, func(c *eventChunk) bool { return !c.counted }); r.countsErr != nil {
			return
		}
		r.counts = total.counts()
		for _, g := range r.gaps {
			r.counts.GapCalls += g.Calls
		}
	})
	return r.counts, r.countsErr
}

// count adds up the calls of some chunks.
func (r *Reader) count(total sums, which func(*eventChunk) bool) error {
	b := r.block()
	defer release(b)
	for i := range r.events {
		c := &r.events[i]
		if c.entry.Records == 0 || !which(c) {
			continue
		}
		ok, err := r.load(b, c, want{columns: AllColumns, noArgs: true, noData: true})
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		for i := range b.n {
			id := b.calls[callFunc].At(i)
			one := FuncCount{Func: uint16(id), Calls: 1, Time: b.calls[callDur].At(i)}
			if CallFlags(b.calls[callFlags].At(i))&Unfinished != 0 {
				one.Unfinished = 1
			} else if f := r.schema.Func(uint16(id)); f != nil && f.Failed(b.calls[callRet].At(i)) {
				one.Failed = 1
			}
			total.add(one)
		}
	}
	return nil
}
