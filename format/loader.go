package format

import (
	"math"
	"runtime"
	"slices"

	"github.com/acltrace/acltrace/format/container"
)

// A loader reads and decodes the chunks that a matcher selects, in file order. If there are spare processors,
// it decodes the next chunks while the current one is in use. It belongs to one
// goroutine.
type loader struct {
	r      *Reader
	m      *matcher
	chunks []*eventChunk
	at     int // next chunk to start
	ahead  int // chunks in flight
	flight []flight
}

// flight is a chunk being decoded.
type flight struct {
	at   int
	done chan loaded
}

type loaded struct {
	b   *block
	err error
}

// maxAhead bounds the memory: a block takes a few megabytes.
const maxAhead = 4

func (r *Reader) newLoader(m *matcher, ahead int) *loader {
	l := &loader{r: r, m: m, ahead: min(runtime.GOMAXPROCS(0), ahead)}
	if l.ahead <= 1 || m.Chunk != nil {
		l.ahead = 0 // the caller's choice of a chunk may depend on earlier calls
	}
	for i := range r.events {
		if m.chunk(&r.events[i]) {
			l.chunks = append(l.chunks, &r.events[i])
		}
	}
	return l
}

// next returns the next block and its index in chunks, nil after the last. Damaged chunks are left out. The caller
// releases the block.
func (l *loader) next() (*block, int, error) {
	for {
		for l.at < len(l.chunks) && len(l.flight) < max(l.ahead, 1) {
			c := l.chunks[l.at]
			if l.m.Chunk == nil || l.m.Chunk(&c.info) {
				l.begin(c)
			}
			l.at++
		}
		if len(l.flight) == 0 {
			return nil, 0, nil
		}
		f := l.flight[0]
		l.flight = l.flight[1:]
		got := <-f.done
		if got.b != nil || got.err != nil {
			return got.b, f.at, got.err
		}
	}
}

func (l *loader) begin(c *eventChunk) {
	f := flight{l.at, make(chan loaded, 1)}
	l.flight = append(l.flight, f)
	decode := func() {
		b := l.r.block()
		ok, err := l.r.load(b, c, l.m.want)
		if !ok {
			release(b)
			b = nil
		}
		f.done <- loaded{b, err}
	}
	if l.ahead > 0 {
		go decode()
	} else {
		decode()
	}
}

// close waits for chunks in flight.
func (l *loader) close() {
	for _, f := range l.flight {
		if got := <-f.done; got.b != nil {
			release(got.b)
		}
	}
	l.flight = nil
	l.at = math.MaxInt
}

func (r *Reader) skip(what string) {
	r.mu.Lock()
	r.unknown[what]++
	r.mu.Unlock()
}

func (r *Reader) block() *block {
	b := blocks.Get().(*block)
	b.unknown, b.payload, b.of = r.skip, r.blobs.aside, r
	return b
}

// release returns a block for reuse. Its calls must not be used any more.
func release(b *block) {
	b.unknown, b.payload, b.of = nil, nil, nil
	blocks.Put(b)
}

// load reads chunk c into b. It returns false without an error if the chunk is damaged.
func (r *Reader) load(b *block, c *eventChunk, w want) (bool, error) {
	if c.misplaced {
		return false, nil // orderCalls has recorded the damage
	}
	if w.dataOf != nil && c.info.Known && !slices.ContainsFunc(c.info.Funcs, func(id uint32) bool { return id > 0xffff || w.dataOf[id] }) {
		w.noData = true
	}
	err := r.file.ReadContent(c.entry, &b.content)
	if err == nil {
		if err = b.load(w); err == nil {
			err = c.agrees(b)
		}
		if err != nil {
			err = r.file.Corrupt(c.entry, err.Error())
		}
	}
	if err != nil {
		return false, container.IgnoreDamage(err)
	}
	if w.noData {
		b.rows = 0
	}
	return true, nil
}
