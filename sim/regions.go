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

// nodeSize bounds how much a change of a set of regions copies: a leaf, a branch, and the branches. A million regions are 122 branches.
const nodeSize = 128

type leaf[T any] []region[T]

type branch[T any] []leaf[T]

// regions are ranges in the order of their addresses, none overlapping. Looking up takes no lock: what a reader sees is
// never changed, only replaced. Who changes the set holds a lock of his own.
type regions[T any] struct {
	root atomic.Pointer[[]branch[T]] // neither branches nor leaves are empty
}

// cursor is a place in a set of regions as it was at some moment.
type cursor[T any] struct {
	root    []branch[T]
	b, i, j int
}

func (c *cursor[T]) ok() bool            { return c.b < len(c.root) }
func (c *cursor[T]) leaf() leaf[T]       { return c.root[c.b][c.i] }
func (c *cursor[T]) get() region[T]      { return c.root[c.b][c.i][c.j] }
func (c *cursor[T]) holds(a uint64) bool { return c.ok() && c.get().addr <= a }

func (c *cursor[T]) next() {
	if c.j++; c.j == len(c.leaf()) {
		c.i, c.j = c.i+1, 0
	}
	if c.i == len(c.root[c.b]) {
		c.b, c.i = c.b+1, 0
	}
}

func (l leaf[T]) end() uint64   { return l[len(l)-1].end() }
func (b branch[T]) end() uint64 { return b[len(b)-1].end() }

// at returns the place of the first region that ends behind an address.
func (s *regions[T]) at(addr uint64) cursor[T] {
	p := s.root.Load()
	if p == nil {
		return cursor[T]{}
	}
	c := cursor[T]{root: *p}
	c.b = sort.Search(len(c.root), func(i int) bool { return c.root[i].end() > addr })
	if c.ok() {
		b := c.root[c.b]
		c.i = sort.Search(len(b), func(i int) bool { return b[i].end() > addr })
		l := b[c.i]
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
	if len(c.root) == 0 {
		s.root.Store(&[]branch[T]{{{r}}})
		return
	}
	if !c.ok() { // behind the last
		c.b = len(c.root) - 1
		c.i = len(c.root[c.b]) - 1
		c.j = len(c.leaf())
	}
	s.put(&c, slices.Insert(slices.Clone(c.leaf()), c.j, r))
}

// put replaces the leaf of a place, which may have become empty or too large.
func (s *regions[T]) put(c *cursor[T], l leaf[T]) {
	b := slices.Replace(slices.Clone(c.root[c.b]), c.i, c.i+1, halves(l)...)
	root := slices.Replace(slices.Clone(c.root), c.b, c.b+1, halves(b)...)
	s.root.Store(&root)
}

// halves splits a list that is too large, and leaves out an empty one.
func halves[S ~[]E, E any](s S) []S {
	switch n := len(s); {
	case n == 0:
		return nil
	case n < nodeSize:
		return []S{s}
	default:
		return []S{s[: n/2 : n/2], s[n/2:]}
	}
}

// remove takes out the region that begins at an address.
func (s *regions[T]) remove(addr uint64) (region[T], bool) {
	c := s.at(addr)
	if !c.ok() || c.get().addr != addr {
		return region[T]{}, false
	}
	r := c.get()
	s.put(&c, slices.Delete(slices.Clone(c.leaf()), c.j, c.j+1))
	return r, true
}

// replace changes what is known about the region that begins at an address.
func (s *regions[T]) replace(addr uint64, v T) {
	c := s.at(addr)
	l := slices.Clone(c.leaf())
	l[c.j].v = v
	s.put(&c, l)
}

func (s *regions[T]) all() []region[T] {
	var all []region[T]
	for c := s.at(0); c.ok(); c.next() {
		all = append(all, c.get())
	}
	return all
}

func (s *regions[T]) clear() { s.root.Store(nil) }
