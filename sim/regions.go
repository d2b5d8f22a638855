package sim

import (
	"slices"
	"sort"
	"sync/atomic"
)

// span is a range of addresses.
type span struct{ addr, size uint64 }

func (s span) end() uint64 { return s.addr + s.size }

func (s span) holds(addr, n uint64) bool {
	return addr >= s.addr && addr < s.end() && n <= s.end()-addr
}

// region is a range of addresses and what is known about it.
type region[T any] struct {
	span
	v T
}

// leafSize bounds how much a change of a set of regions copies.
const leafSize = 256

// regions are ranges in the order of their addresses, none overlapping. Looking up takes no lock: what a reader sees is
// never changed, only replaced. Who changes the set holds a lock of his own.
type regions[T any] struct {
	root atomic.Pointer[[][]region[T]] // leaves, none empty
}

// cursor is a place in a set of regions as it was at some moment.
type cursor[T any] struct {
	leaves [][]region[T]
	i, j   int
}

func (c *cursor[T]) ok() bool            { return c.i < len(c.leaves) }
func (c *cursor[T]) get() region[T]      { return c.leaves[c.i][c.j] }
func (c *cursor[T]) holds(a uint64) bool { return c.ok() && c.get().addr <= a }

func (c *cursor[T]) next() {
	if c.j++; c.j == len(c.leaves[c.i]) {
		c.i, c.j = c.i+1, 0
	}
}

// at returns the place of the first region that ends behind an address.
func (s *regions[T]) at(addr uint64) cursor[T] {
	p := s.root.Load()
	if p == nil {
		return cursor[T]{}
	}
	c := cursor[T]{leaves: *p}
	c.i = sort.Search(len(c.leaves), func(i int) bool {
		l := c.leaves[i]
		return l[len(l)-1].end() > addr
	})
	if c.ok() {
		l := c.leaves[c.i]
		c.j = sort.Search(len(l), func(j int) bool { return l[j].end() > addr })
	}
	return c
}

// find returns the region that an address lies in.
func (s *regions[T]) find(addr uint64) (region[T], bool) {
	if c := s.at(addr); c.holds(addr) {
		return c.get(), true
	}
	return region[T]{}, false
}

func (s *regions[T]) insert(r region[T]) {
	c := s.at(r.addr)
	root := slices.Clone(c.leaves)
	switch {
	case len(root) == 0:
		root = [][]region[T]{{r}}
	case !c.ok():
		c.i = len(root) - 1
		c.j = len(root[c.i])
		fallthrough
	default:
		l := slices.Insert(slices.Clone(root[c.i]), c.j, r)
		if len(l) < leafSize {
			root[c.i] = l
		} else {
			root = slices.Replace(root, c.i, c.i+1, l[:len(l)/2:len(l)/2], l[len(l)/2:])
		}
	}
	s.root.Store(&root)
}

// remove takes out the region that begins at an address.
func (s *regions[T]) remove(addr uint64) (region[T], bool) {
	c := s.at(addr)
	if !c.ok() || c.get().addr != addr {
		return region[T]{}, false
	}
	r := c.get()
	root := slices.Clone(c.leaves)
	if l := root[c.i]; len(l) == 1 {
		root = slices.Delete(root, c.i, c.i+1)
	} else {
		root[c.i] = slices.Delete(slices.Clone(l), c.j, c.j+1)
	}
	s.root.Store(&root)
	return r, true
}

// replace changes what is known about the region that begins at an address.
func (s *regions[T]) replace(addr uint64, v T) {
	c := s.at(addr)
	root := slices.Clone(c.leaves)
	root[c.i] = slices.Clone(root[c.i])
	root[c.i][c.j].v = v
	s.root.Store(&root)
}

func (s *regions[T]) all() []region[T] {
	p := s.root.Load()
	if p == nil {
		return nil
	}
	return slices.Concat(*p...)
}

func (s *regions[T]) clear() { s.root.Store(nil) }
