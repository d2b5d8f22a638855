// Package sample keeps evenly spaced samples of a sequence in bounded memory.
//
// Packages analyze/stats and analyze/diff keep the steps of a trace with it.
package sample

// Max limits the samples that are kept. Among more, every second, fourth, … is kept.
const Max = 1024

// Even holds evenly spaced samples in the order of Add. The zero value is empty.
type Even[T any] struct {
	Values []T
	n      int // samples so far
	every  int
}

// Add adds a sample, and drops every second one if there are too many.
func (s *Even[T]) Add(v T) {
	s.every = max(s.every, 1)
	s.n++
	if (s.n-1)%s.every != 0 {
		return
	}
	if len(s.Values) == Max {
		for i := range Max / 2 {
			s.Values[i] = s.Values[2*i]
		}
		s.Values = s.Values[:Max/2]
		s.every *= 2
	}
	s.Values = append(s.Values, v) // the first of the next s.every
}

// Zeros returns as many zero samples. Further samples are kept or dropped like those of s.
func (s *Even[T]) Zeros() Even[T] {
	return Even[T]{Values: make([]T, len(s.Values)), n: s.n, every: s.every}
}
