package space

import "sync"

const ArenaChunk = 1 << 20

// Arena is host memory for the program that never moves: texts and argument blocks.
type Arena struct {
	mu     sync.Mutex
	chunks []uint64
	next   uint64
	end    uint64
	free   map[uint64][]uint64 // by size
}

// Get returns size bytes: a multiple of 8, at most ArenaChunk.
func (t *Arena) Get(size uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.free[size]; len(f) > 0 {
		t.free[size] = f[:len(f)-1]
		return f[len(f)-1]
	}
	if t.end-t.next < size {
		c := MapAnywhere(ArenaChunk)
		if c == 0 {
			panic("out of host memory")
		}
		t.chunks = append(t.chunks, c)
		t.next, t.end = c, c+ArenaChunk
	}
	a := t.next
	t.next += size
	return a
}

func (t *Arena) Put(a, size uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free == nil {
		t.free = map[uint64][]uint64{}
	}
	t.free[size] = append(t.free[size], a)
}

// Add stores a text permanently.
func (t *Arena) Add(s string) uint64 {
	a := t.Get(RoundUp(uint64(len(s))+1, 8))
	PutText(Bytes(a, uint64(len(s))+1), s)
	return a
}

func (t *Arena) Close() {
	for _, c := range t.chunks {
		Unmap(c, ArenaChunk)
	}
	t.chunks, t.free, t.next, t.end = nil, nil, 0, 0
}
