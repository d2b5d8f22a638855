package stats

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/internal/sample"
)

// Growth is device memory that grows from step to step.
type Growth struct {
	Steps     int    `json:"steps"`      // steps from the first to the last value
	FromBytes uint64 `json:"from_bytes"` // memory in use after the first step
	ToBytes   uint64 `json:"to_bytes"`   // memory in use after the last step
}

// stepSamples keeps evenly spaced typical steps: their index, duration, and the memory in use at their end.
type stepSamples struct{ sample.Even[stepSample] }

type stepSample struct {
	index int
	ns    int64
	bytes uint64
}

// near returns the index of a step whose duration is near ns, -1 for none.
func (s *stepSamples) near(ns int64) int {
	if len(s.Values) == 0 {
		return -1
	}
	off := func(x stepSample) int64 { return max(x.ns-ns, ns-x.ns) }
	return slices.MinFunc(s.Values, func(a, b stepSample) int { return cmp.Compare(off(a), off(b)) }).index
}

// growth returns the growth of memory, nil if there is none: every step of the last quarter ends with more memory in use than every step
// of the second quarter. The first quarter is left out, in which programs fill caches.
func (s *stepSamples) growth() *Growth {
	quarter := len(s.Values) / 4
	if quarter < 2 {
		return nil
	}
	bytes := func(a, b stepSample) int { return cmp.Compare(a.bytes, b.bytes) }
	early := slices.MaxFunc(s.Values[quarter:2*quarter], bytes)
	late := slices.MinFunc(s.Values[len(s.Values)-quarter:], bytes)
	if late.bytes <= early.bytes {
		return nil
	}
	from, to := s.Values[quarter], s.Values[len(s.Values)-1]
	return &Growth{Steps: to.index - from.index, FromBytes: from.bytes, ToBytes: to.bytes}
}
