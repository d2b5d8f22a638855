package ranks

import (
	"cmp"
	"math"
	"slices"
)

// window is how long the distance of two clocks is taken to be constant, nanoseconds; between the middles of windows it is interpolated.
const window = 10e9

// mostKept is how many collectives of a rank are held. Where there are more, every second one is, or every fourth: the same of each rank.
const mostKept = 1 << 16

// A part is what one rank tells of the collectives.
type part struct {
	stride int
	kept   map[Key]meeting
}

func (p *part) add(k Key, m *meeting) error {
	if p.kept == nil {
		p.kept, p.stride = map[Key]meeting{}, 1
	}
	if k.N%p.stride != 0 {
		return nil
	}
	p.kept[k] = *m
	for len(p.kept) > mostKept {
		p.stride *= 2
		for k := range p.kept {
			if k.N%p.stride != 0 {
				delete(p.kept, k)
			}
		}
	}
	return nil
}

// A clock brings the times of one rank to those of the job.
type clock struct {
	shift   int64 // by the wall clocks
	knots   []knot
	matched int
	err     int64 // nanoseconds, the greatest of all windows; 0 where no collective tells
}

// A knot is what is to be added at a time of the rank's own clock, beside the shift.
type knot struct{ at, add int64 }

// time is what a time of the rank is on the clock of the job.
func (c *clock) time(t int64) int64 {
	return t + c.shift + c.add(t)
}

func (c *clock) add(t int64) int64 {
	if len(c.knots) == 0 {
		return 0
	}
	i, _ := slices.BinarySearchFunc(c.knots, t, func(k knot, t int64) int { return cmp.Compare(k.at, t) })
	switch i {
	case 0:
		return c.knots[0].add
	case len(c.knots):
		return c.knots[i-1].add
	}
	a, b := c.knots[i-1], c.knots[i]
	return a.add + int64(float64(b.add-a.add)*float64(t-a.at)/float64(b.at-a.at))
}

// align finds the clocks. A collective is done on no rank before its call has begun on every rank: so the clock of rank j is at most as far
// ahead of that of rank i as the end on i lies behind the beginning on j. Each pair bounds the other. Within the bounds, which are wide where one rank is always
// the last, the ends on two ranks are taken to be one moment, where they differ less from collective to collective than the bounds do; else the middle is taken.
func align(parts []part, shifts []int64) []clock {
	n := len(parts)
	clocks := make([]clock, n)
	for i := range clocks {
		clocks[i].shift = shifts[i]
	}
	// By window of the first rank that has it, the meetings of the others.
	windows := map[int64][][]meeting{}
	for k := range parts[0].kept {
		all := make([]meeting, n)
		whole := true
		for i := range parts {
			m, ok := parts[i].kept[k]
			whole = whole && ok && m.fn == parts[0].kept[k].fn
			all[i] = m
		}
		if whole {
			w := all[0].start / window
			windows[w] = append(windows[w], all)
		}
	}
	order := make([]int64, 0, len(windows))
	for w := range windows {
		order = append(order, w)
	}
	slices.Sort(order)
	for _, w := range order {
		lo, hi := bounds(windows[w], shifts)
		var at int64
		for _, all := range windows[w] {
			at += all[0].start / int64(len(windows[w]))
		}
		at += shifts[0]
		for i := 1; i < n; i++ {
			if lo[i] == -unbounded || hi[i] == unbounded || lo[i] > hi[i] {
				continue
			}
			c := &clocks[i]
			add, off := lo[i]+(hi[i]-lo[i])/2, (hi[i]-lo[i]+1)/2
			if at, spread := together(windows[w], shifts, i); spread < off {
				add, off = min(max(at, lo[i]), hi[i]), spread
			}
			c.knots = append(c.knots, knot{at - shifts[i] - add, add})
			c.matched += len(windows[w])
			c.err = max(c.err, off)
		}
	}
	return clocks
}

// together returns what is to be added to a rank's clock for the ends on it to be those on rank 0, in the middle of all, and how far half of them
// lie apart from each other.
func together(all [][]meeting, shifts []int64, i int) (add, spread int64) {
	var apart []int64
	for _, ms := range all {
		if ms[0].done != unseen && ms[i].done != unseen {
			apart = append(apart, ms[0].done+shifts[0]-ms[i].done-shifts[i])
		}
	}
	if len(apart) < leastTogether {
		return 0, unbounded
	}
	slices.Sort(apart)
	return apart[len(apart)/2], apart[len(apart)*3/4] - apart[len(apart)/4]
}

// leastTogether is how many ends must be known for their middle to mean something.
const leastTogether = 8

const unbounded = math.MaxInt64 / 4

// mostPaths is the number of ranks up to which the bounds between all pairs are combined; beyond, those with the first rank count alone.
const mostPaths = 128

// bounds returns what is to be added to each rank's clock, beside its shift, at least and at most, for rank 0 to stay as it is.
func bounds(all [][]meeting, shifts []int64) (lo, hi []int64) {
	n := len(shifts)
	lo, hi = make([]int64, n), make([]int64, n)
	// most[i][j] bounds what is added to j less what is added to i.
	most := make([][]int64, n)
	for i := range most {
		most[i] = make([]int64, n)
		for j := range most[i] {
			if i != j {
				most[i][j] = unbounded
			}
		}
	}
	for _, ms := range all {
		for i := range ms {
			if ms[i].done == unseen {
				continue
			}
			for j := range ms {
				if i != j && (n <= mostPaths || i == 0 || j == 0) {
					most[i][j] = min(most[i][j], ms[i].done+shifts[i]-ms[j].start-shifts[j])
				}
			}
		}
	}
	if n <= mostPaths {
		for k := range n {
			for i := range n {
				if most[i][k] == unbounded {
					continue
				}
				for j := range n {
					if most[k][j] != unbounded {
						most[i][j] = min(most[i][j], most[i][k]+most[k][j])
					}
				}
			}
		}
	}
	for i := 1; i < n; i++ {
		hi[i] = most[0][i]
		lo[i] = -most[i][0]
	}
	return lo, hi
}
