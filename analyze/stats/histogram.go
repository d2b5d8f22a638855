package stats

import (
	"math/bits"
	"slices"
)

// A Histogram computes percentiles. It keeps the first exactTimes times exactly, and more times in buckets with
// an error below 0.4%. Minimum, maximum and sum are exact. It takes at most 60 KiB.
type Histogram struct {
	n        uint64
	sum      int64
	min, max int64
	exact    []int64
	octaves  [65]*[octave]uint64 // by bit length
}

const (
	exactTimes = 512
	octave     = 128 // buckets for one bit length
)

func (h *Histogram) Add(v int64) {
	if h.n == 0 || v < h.min {
		h.min = v
	}
	if h.n == 0 || v > h.max {
		h.max = v
	}
	h.n++
	h.sum += v
	switch {
	case h.n <= exactTimes:
		h.exact = append(h.exact, v)
		return
	case h.exact != nil:
		for _, x := range h.exact {
			h.count(x)
		}
		h.exact = nil
	}
	h.count(v)
}

func (h *Histogram) count(v int64) {
	u := uint64(max(v, 0))
	l := bits.Len64(u)
	if h.octaves[l] == nil {
		h.octaves[l] = new([octave]uint64)
	}
	h.octaves[l][u>>max(l-8, 0)%octave]++
}

// merge adds the values of another histogram.
func (h *Histogram) merge(o *Histogram) {
	if o.n <= exactTimes {
		for _, v := range o.exact {
			h.Add(v)
		}
		return
	}
	for _, v := range h.exact {
		h.count(v)
	}
	h.exact = nil
	if h.n == 0 || o.min < h.min {
		h.min = o.min
	}
	h.n, h.sum, h.max = h.n+o.n, h.sum+o.sum, max(h.max, o.max)
	for l, from := range o.octaves {
		if from == nil {
			continue
		}
		if h.octaves[l] == nil {
			h.octaves[l] = new([octave]uint64)
		}
		for i, n := range from {
			h.octaves[l][i] += n
		}
	}
}

// Rank returns the index of percentile p among n sorted values, by the nearest-rank definition. Every percentile and
// median of acltrace uses it.
func Rank(n uint64, p int) uint64 { return (n*uint64(p)+99)/100 - 1 }

// above returns the number of values above limit and their sum.
func (h *Histogram) above(limit int64) (n uint64, sum int64) {
	for _, v := range h.exact {
		if v > limit {
			n, sum = n+1, sum+v
		}
	}
	for l, o := range h.octaves {
		if o == nil {
			continue
		}
		for i, k := range o {
			if v := h.value(l, i); k > 0 && v > limit {
				n, sum = n+k, sum+int64(k)*v
			}
		}
	}
	return n, sum
}

// value returns the value that stands for bucket i of an octave.
func (h *Histogram) value(l, i int) int64 {
	if l < 8 { // one bucket for each number
		return int64(i)
	}
	shift := l - 8
	v := int64(octave+i)<<shift + int64(1)<<shift/2
	return min(max(v, h.min), h.max)
}

// Percentile returns percentile p, from 1 to 100, by nearest rank.
func (h *Histogram) Percentile(p int) int64 {
	if h.n == 0 {
		return 0
	}
	if h.exact != nil {
		slices.Sort(h.exact)
		return h.exact[Rank(h.n, p)]
	}
	rank := Rank(h.n, p)
	for l, o := range h.octaves {
		if o == nil {
			continue
		}
		for i, k := range o {
			if rank >= k {
				rank -= k
				continue
			}
			return h.value(l, i)
		}
	}
	return h.max
}
