package plan

import "slices"

// A sharedSpool is a spool of lists. A list that equals a recent one is not stored again, so the calls of a loop share theirs.
type sharedSpool[T comparable] struct {
	spool[T]
	recent [recentLists]recentList[T] // by hash
}

const recentLists = 1 << 12

// maxShared is how many elements the largest shared list has.
const maxShared = 64

type recentList[T any] struct {
	list  []T
	first int
}

// share returns the number of the first element in a stored list that equals vs, whose hash the caller provides.
func (s *sharedSpool[T]) share(vs []T, hash uint64) int {
	if len(vs) == 0 || len(vs) > maxShared {
		return s.add(vs...)
	}
	r := &s.recent[hash>>32%recentLists]
	if !slices.Equal(r.list, vs) {
		r.first, r.list = s.add(vs...), append(r.list[:0], vs...)
	}
	return r.first
}

// mix adds a word to a hash.
func mix(hash, word uint64) uint64 { return (hash ^ word) * 0x9e3779b97f4a7c15 }
