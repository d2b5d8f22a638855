package format

import (
	"iter"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/format/container"
	"github.com/zeebo/xxh3"
)

// ReaderOptions change Open; nil means the zero value. There are none yet.
type ReaderOptions struct{}

// A Reader reads a trace file.
type Reader struct {
	file      *container.File
	meta      *Meta
	schema    *Schema
	processes []Process
	threads   []Thread
	gaps      []Gap
	repeated  []int64 // offsets of chunks with gaps that an earlier chunk has
	events    []eventChunk

	recording  bool // at Open, a recorder was writing the file
	summaries  []*container.Entry
	sums       sums // from chunks that summaries have counted
	countsOnce sync.Once
	counts     *Counts
	countsErr  error

	blobs blobReader

	learnOnce sync.Once
	learned   []ChunkInfo // event chunks, from the summaries or the chunks themselves
	learnErr  error

	mu         sync.Mutex
	tableWords uint64 // in tables outside blocks, so far
	extents    uint64 // payload extents, so far; zero extents take no space in the file
	unknown    map[string]uint64
	last       *block // block that Call used last
	lastAt     int
}

// eventChunk is an events chunk with its known facts.
type eventChunk struct {
	entry   *container.Entry
	info    ChunkInfo
	counted bool // its calls are in the Reader's sums
	// misplaced: its calls, of which first is the first, do not follow those of earlier chunks. It is not read.
	misplaced bool
	first     uint64
}

// Path returns the name under which the trace was opened.
func (r *Reader) Path() string { return r.file.Path() }

// Meta describes the recording. It must not be changed; nor must the tables below.
func (r *Reader) Meta() *Meta          { return r.meta }
func (r *Reader) Schema() *Schema      { return r.schema }
func (r *Reader) Processes() []Process { return r.processes }
func (r *Reader) Threads() []Thread    { return r.threads }
func (r *Reader) Gaps() []Gap          { return r.gaps }

// ProcessOf returns the process of a thread, by its row; 0 for a thread without a row, which a damaged trace may have.
func (r *Reader) ProcessOf(thread uint32) uint32 {
	if int(thread) < len(r.threads) {
		return r.threads[thread].Process
	}
	return 0
}

// Version is the file's format version.
func (r *Reader) Version() (major, minor uint16) {
	h := r.file.Header()
	return h.Major, h.Minor
}

// Chunks iterates over the known facts about chunks of calls and data, in file order.
func (r *Reader) Chunks() iter.Seq[*ChunkInfo] {
	return func(yield func(*ChunkInfo) bool) {
		for i := range r.events {
			if !yield(&r.events[i].info) {
				return
			}
		}
	}
}

// blocks are free blocks, shared by all readers: many open traces need only as many as read at a time.
var blocks = sync.Pool{New: func() any { return new(block) }}

// A BlobFile is the file with a trace's payload contents, if they are not in the trace.
type BlobFile struct {
	Path      string    // actual or expected path
	Size      int64     // in bytes
	Recovered *Recovery // nil for a whole file, otherwise its description
	Err       error     // reason why it is unreadable, nil if readable
}

// A blobReader resolves blobs. The table is read when the first one is requested.
type blobReader struct {
	r    *Reader
	maps []*container.Entry

	find   sync.Once
	beside *BlobFile                      // nil if the payloads are in the trace
	file   *container.File                // file with the contents: the trace, or its blob file; nil if unreadable
	chunks map[int64]*container.Entry     // chunks of this file, by offset
	opened atomic.Pointer[container.File] // the blob file, for readers that do not need it opened

	once  sync.Once
	err   error
	table []blobEntry // by BlobID-1; size and extents are empty if the chunk is damaged

	mu      sync.Mutex
	chunk   *container.Entry // last unpacked chunk
	content []byte
}

type blobEntry struct {
	known   bool
	hash    xxh3.Uint128
	size    uint64
	extents []place
}
