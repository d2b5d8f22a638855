package format

import (
	"iter"
	"sync"
	"sync/atomic"

	"github.com/acltrace/acltrace/format/container"
	"github.com/zeebo/xxh3"
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

// blocks are free ones of all readers, so that many open traces hold no more of them than what reads at a time.
var blocks = sync.Pool{New: func() any { return new(block) }}

// A BlobFile is the file that has the contents of a trace's payloads, where the trace has none.
type BlobFile struct {
	Path      string    // where it is, or should be
	Size      int64     // in bytes
	Recovered *Recovery // nil for a whole file, else what was found
	Err       error     // why it can't be read, nil where it can
}

// A blobReader resolves blobs. The table is read when the first of them is asked for.
type blobReader struct {
	r    *Reader
	maps []*container.Entry

	find   sync.Once
	beside *BlobFile                      // nil where the payloads are in the trace
	file   *container.File                // what has the contents: the trace, or its blob file, nil where that can't be read
	chunks map[int64]*container.Entry     // of this file, by their offsets
	opened atomic.Pointer[container.File] // the blob file, for those who do not need it opened

	once  sync.Once
	err   error
	table []blobEntry // by BlobID-1; size and extents are empty for those whose chunk is damaged

	mu      sync.Mutex
	chunk   *container.Entry // the one unpacked last
	content []byte
}

type blobEntry struct {
	known   bool
	hash    xxh3.Uint128
	size    uint64
	extents []place
}
