package stats

import (
	"math/bits"
	"slices"
)

// A Histogram holds times for their percentiles: the first exactTimes of them as they are, more of them in buckets, so that a
// percentile of many is off by less than 0.4%. The least, the greatest and the sum are exact. It takes at most 60 KiB.
type Histogram struct {
	n        uint64
	sum      int64
	min, max int64
	exact    []int64
	octaves  [65]*[octave]uint64 // by the length of the number in bits
}

const (
	exactTimes = 512
	octave     = 128 // buckets for the numbers of one length
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

// Rank is the place among n sorted values of the least that p of a hundred do not exceed: one definition of percentiles, and of the median.
func Rank(n uint64, p int) uint64 { return (n*uint64(p)+99)/100 - 1 }

// Percentile returns the least of the times that p of a hundred do not exceed, p from 1 to 100.
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
			if l < 8 { // a bucket for each number
				return int64(i)
			}
			shift := l - 8
			v := int64(octave+i)<<shift + int64(1)<<shift/2
			return min(max(v, h.min), h.max)
		}
	}
	return h.max
}
