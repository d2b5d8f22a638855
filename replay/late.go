package replay

import (
	"maps"
	"math/bits"
	"slices"
)

// exactTimes is how many exact values are kept at most.
const exactTimes = 1 << 20

// lateTimes collects the delays of calls in a paced replay. Above exactTimes values it counts them in buckets, so that its memory does
// not grow with the trace. Then quantiles are low by at most one part in 1024.
type lateTimes struct {
	exact   []int64
	buckets map[int64]int // number of values, by a bucket's lowest value
	n       int
	max     int64
}

func (l *lateTimes) add(v int64) {
	if l.n == 0 || v > l.max {
		l.max = v
	}
	l.n++
	if l.buckets == nil {
		if l.exact = append(l.exact, v); len(l.exact) < exactTimes {
			return
		}
		l.buckets = map[int64]int{}
		for _, v := range l.exact {
			l.buckets[bucketOf(v)]++
		}
		l.exact = nil
		return
	}
	l.buckets[bucketOf(v)]++
}

// bucketOf returns the lowest value in the bucket of a value, which keeps its eleven highest bits.
func bucketOf(v int64) int64 {
	size := v
	if v < 0 {
		size = -v
	}
	low := max(bits.Len64(uint64(size))-11, 0)
	return v >> low << low
}

// quantile returns the value that n values are less than or equal to, at least. The values are sorted.
func (l *lateTimes) quantile(n int) int64 {
	if l.buckets == nil {
		return l.exact[n]
	}
	for _, v := range slices.Sorted(maps.Keys(l.buckets)) {
		if n -= l.buckets[v]; n < 0 {
			return v
		}
	}
	return l.max
}

// lateness summarizes the times, nil if there are none; last is that of the last call.
func (l *lateTimes) lateness(last int64) *Lateness {
	if l.n == 0 {
		return nil
	}
	slices.Sort(l.exact)
	return &Lateness{P50: l.quantile(l.n / 2), P99: l.quantile(l.n * 99 / 100), Max: l.max, Last: last}
}
