package space

import (
	"slices"
	"sort"
	"sync/atomic"
)

// Span is an address range.
type Span struct{ Addr, Size uint64 }

func (s Span) End() uint64 { return s.Addr + s.Size }

func (s Span) Holds(addr, n uint64) bool {
	return addr >= s.Addr && addr < s.End() && n <= s.End()-addr
}

// With returns the smallest range with both ranges. An empty range has no part in it.
func (s Span) With(o Span) Span {
	switch {
	case s.Size == 0:
		return o
	case o.Size == 0:
		return s
	}
	from := min(s.Addr, o.Addr)
	return Span{Addr: from, Size: max(s.End(), o.End()) - from}
}

// Region is an address range with a value.
type Region[T any] struct {
	Span
	Value T
}

// nodeSize bounds the copied bytes of a change: one leaf, one branch and the list of branches. A million regions have
// 122 branches.
const nodeSize = 128

type leaf[T any] []Region[T]

type branch[T any] []leaf[T]

// Regions is a sorted set of disjoint ranges. Lookups take no lock, since nodes are replaced and never changed.
// Callers lock changes.
type Regions[T any] struct {
	root atomic.Pointer[[]branch[T]] // branches and leaves are never empty
}

// Cursor is a position in a snapshot of Regions.
type Cursor[T any] struct {
	root    []branch[T]
	b, i, j int
}

func (c *Cursor[T]) OK() bool            { return c.b < len(c.root) }
func (c *Cursor[T]) leaf() leaf[T]       { return c.root[c.b][c.i] }
func (c *Cursor[T]) Get() Region[T]      { return c.root[c.b][c.i][c.j] }
func (c *Cursor[T]) Holds(a uint64) bool { return c.OK() && c.Get().Addr <= a }

func (c *Cursor[T]) Next() {
	if c.j++; c.j == len(c.leaf()) {
		c.i, c.j = c.i+1, 0
	}
	if c.i == len(c.root[c.b]) {
		c.b, c.i = c.b+1, 0
	}
}

func (l leaf[T]) end() uint64   { return l[len(l)-1].End() }
func (b branch[T]) end() uint64 { return b[len(b)-1].end() }

// At returns the first region that ends after an address.
func (s *Regions[T]) At(addr uint64) Cursor[T] {
	p := s.root.Load()
	if p == nil {
		return Cursor[T]{}
	}
	c := Cursor[T]{root: *p}
	c.b = sort.Search(len(c.root), func(i int) bool { return c.root[i].end() > addr })
	if c.OK() {
		b := c.root[c.b]
		c.i = sort.Search(len(b), func(i int) bool { return b[i].end() > addr })
		l := b[c.i]
		c.j = sort.Search(len(l), func(j int) bool { return l[j].End() > addr })
	}
	return c
}

// Find returns the region at an address.
func (s *Regions[T]) Find(addr uint64) (Region[T], bool) {
	if c := s.At(addr); c.Holds(addr) {
		return c.Get(), true
	}
	return Region[T]{}, false
}

func (s *Regions[T]) Insert(r Region[T]) {
	c := s.At(r.Addr)
	if len(c.root) == 0 {
		s.root.Store(&[]branch[T]{{{r}}})
		return
	}
	if !c.OK() { // after the last region
		c.b = len(c.root) - 1
		c.i = len(c.root[c.b]) - 1
		c.j = len(c.leaf())
	}
	s.put(&c, slices.Insert(slices.Clone(c.leaf()), c.j, r))
}

// put replaces the leaf at a cursor. The new leaf may be empty or too large.
func (s *Regions[T]) put(c *Cursor[T], l leaf[T]) {
	b := slices.Replace(slices.Clone(c.root[c.b]), c.i, c.i+1, halves(l)...)
	root := slices.Replace(slices.Clone(c.root), c.b, c.b+1, halves(b)...)
	s.root.Store(&root)
}

// halves splits a large list and drops an empty one.
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

// Remove removes the region that begins at an address.
func (s *Regions[T]) Remove(addr uint64) (Region[T], bool) {
	c := s.At(addr)
	if !c.OK() || c.Get().Addr != addr {
		return Region[T]{}, false
	}
	r := c.Get()
	s.put(&c, slices.Delete(slices.Clone(c.leaf()), c.j, c.j+1))
	return r, true
}

// Replace changes the value of the region that begins at an address.
func (s *Regions[T]) Replace(addr uint64, v T) {
	c := s.At(addr)
	l := slices.Clone(c.leaf())
	l[c.j].Value = v
	s.put(&c, l)
}

// Bounds returns the smallest range with all regions.
func (s *Regions[T]) Bounds() Span {
	p := s.root.Load()
	if p == nil || len(*p) == 0 {
		return Span{}
	}
	root := *p
	from := root[0][0][0].Addr
	return Span{Addr: from, Size: root[len(root)-1].end() - from}
}

func (s *Regions[T]) All() []Region[T] {
	var all []Region[T]
	for c := s.At(0); c.OK(); c.Next() {
		all = append(all, c.Get())
	}
	return all
}

func (s *Regions[T]) Clear() { s.root.Store(nil) }

// TakeOut removes and returns all regions that touch a range.
func TakeOut[T any](set *Regions[T], s Span) (out []Region[T]) {
	for {
		at := set.At(s.Addr)
		if !at.OK() || at.Get().Addr >= s.End() {
			return out
		}
		r, _ := set.Remove(at.Get().Addr)
		out = append(out, r)
	}
}
