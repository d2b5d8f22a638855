package space

import (
	"sync"
	"sync/atomic"
)

// Handles look like pointers but are never followed. They contain a kind, a number and a generation, so that wrong
// and stale handles are recognised.
//
//	bits 0-3 zero, 4-23 number, 24-36 generation, 37-41 kind, 42-46 mark
const (
	handleMark  = 0x16 << 42
	numberBits  = 20
	MaxHandles  = 1 << numberBits
	generations = 1 << 13
)

type Kind uint64

const (
	KindContext Kind = 1 + iota
	KindStream
	KindEvent
	KindImage
	KindBinary
	KindFunction
	KindArgs
	KindParam
	KindGraph
	KindGroup
	KindNotify
	KindPhysical
	KindPool
	KindCounter
	KindLabel
	KindLabelList
	KindGraphTask
	KindCondition
	KindAllocator
	KindBuffer
	KindDataset
	KindException
)

var kindNames = [...]string{"", "context", "stream", "event", "binary", "binary handle", "function", "argument list", "parameter",
	"model", "task group", "notify", "physical memory", "memory pool", "counting notify",
	"label", "label list", "task of a model", "condition", "allocator description", "data buffer", "dataset", "exception"}

func (k Kind) String() string { return kindNames[k] }

func NewHandle(k Kind, gen, n uint64) uint64 {
	return handleMark | uint64(k)<<37 | gen%generations<<24 | n<<4
}

// KindOf returns the kind of a handle; 0 for other values.
func KindOf(h uint64) Kind {
	if h>>42 != 0x16 || h&15 != 0 {
		return 0
	}
	if k := Kind(h >> 37 & 31); int(k) < len(kindNames) {
		return k
	}
	return 0
}

// Table holds the live objects of one kind. Lookups take no lock. The numbers of ended objects are reused in order,
// with a new generation.
type Table[T any] struct {
	Kind  Kind
	mu    sync.Mutex
	free  []uint64 // free numbers, oldest first
	gens  []uint64
	cells atomic.Pointer[[]*atomic.Pointer[entry[T]]]
}

type entry[T any] struct {
	handle uint64
	obj    *T
}

// Add returns a handle for an object; 0 if the table is full.
func (t *Table[T]) Add(o *T) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var cells []*atomic.Pointer[entry[T]]
	if p := t.cells.Load(); p != nil {
		cells = *p
	}
	var n uint64
	if len(t.free) > 0 {
		n = t.free[0]
		t.free = t.free[1:]
	} else {
		n = uint64(len(t.gens))
		if n == MaxHandles {
			return 0
		}
		t.gens = append(t.gens, 0)
		if n >= uint64(len(cells)) {
			grown := make([]*atomic.Pointer[entry[T]], max(16, 2*len(cells)))
			copy(grown, cells)
			for i := len(cells); i < len(grown); i++ {
				grown[i] = new(atomic.Pointer[entry[T]])
			}
			cells = grown
			t.cells.Store(&cells)
		}
	}
	h := NewHandle(t.Kind, t.gens[n], n)
	cells[n].Store(&entry[T]{h, o})
	return h
}

// Get returns the object of a live handle; else nil.
func (t *Table[T]) Get(h uint64) *T {
	if KindOf(h) != t.Kind {
		return nil
	}
	cells := t.cells.Load()
	n := h >> 4 & (MaxHandles - 1)
	if cells == nil || n >= uint64(len(*cells)) {
		return nil
	}
	if e := (*cells)[n].Load(); e != nil && e.handle == h {
		return e.obj
	}
	return nil
}

func (t *Table[T]) Has(h uint64) bool { return t.Get(h) != nil }

// Live counts the live objects.
func (t *Table[T]) Live() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.gens) - len(t.free)
}

// Each visits the live objects.
func (t *Table[T]) Each(f func(*T)) {
	cells := t.cells.Load()
	if cells == nil {
		return
	}
	for _, c := range *cells {
		if e := c.Load(); e != nil {
			f(e.obj)
		}
	}
}

// Remove ends a handle and returns its object; nil if it is not live.
func (t *Table[T]) Remove(h uint64) *T {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.Get(h)
	if o == nil {
		return nil
	}
	n := h >> 4 & (MaxHandles - 1)
	(*t.cells.Load())[n].Store(nil)
	t.gens[n]++
	t.free = append(t.free, n)
	return o
}
