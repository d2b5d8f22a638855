package ranks

import (
	"cmp"
	"math"
	"slices"
)

// window is how long the distance of two clocks is taken to be constant, nanoseconds; between the middles of windows it is interpolated.
const window = 10e9

// mostKept is how many collectives are held, of all ranks together. Where there are more, every second one is, or every
// fourth: the same of each rank.
const mostKept = 1 << 22

// A moment is what sets the clocks of a rank's part of a collective. There are millions.
type moment struct {
	start int64
	took  uint32 // nanoseconds until the work was done, unknown where nothing shows that or it is longer
	fn    uint16
	came  bool // else the rank tells of no such collective
}

const unknown = math.MaxUint32

// done is when the work was done, and whether that is known.
func (m *moment) done() (int64, bool) { return m.start + int64(m.took), m.took != unknown }

// A part is what one rank tells of the collectives.
type part struct {
	most   int
	stride int
	kept   map[string][]moment // by communicator, every stride-th
	held   int                 // in all of kept
}

func newPart(most int) *part { return &part{most: most, stride: 1, kept: map[string][]moment{}} }

func (p *part) add(k Key, m *meeting) error {
	at, ok := p.kept[k.Comm]
	if k.N%p.stride != 0 || !ok && len(p.kept) >= p.most/2 {
		return nil
	}
	i := k.N / p.stride
	for len(at) <= i {
		at = append(at, moment{})
		p.held++
	}
	at[i] = moment{m.start, unknown, uint16(m.fn.ID), true}
	if took := m.done - m.start; took >= 0 && took < unknown {
		at[i].took = uint32(took)
	}
	p.kept[k.Comm] = at
	for p.held > p.most {
		p.thin()
	}
	return nil
}

// thin leaves every second one.
func (p *part) thin() {
	p.stride *= 2
	p.held = 0
	for comm, at := range p.kept {
		n := (len(at) + 1) / 2
		for i := range n {
			at[i] = at[2*i]
		}
		p.kept[comm] = at[:n]
		p.held += n
	}
}

// whole returns the collectives that all ranks tell of, by the start on the first.
func whole(parts []*part) []row {
	stride := slices.MaxFunc(parts, func(a, b *part) int { return a.stride - b.stride }).stride
	for _, p := range parts {
		for p.stride < stride {
			p.thin()
		}
	}
	var rows []row
	for comm, first := range parts[0].kept {
		of, n := make([][]moment, len(parts)), len(first)
		for i, p := range parts {
			of[i] = p.kept[comm]
			n = min(n, len(of[i]))
		}
		for k := range n {
			if !slices.ContainsFunc(of, func(at []moment) bool { return !at[k].came || at[k].fn != first[k].fn }) {
				rows = append(rows, row{of, k})
			}
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.on(0).start, b.on(0).start) })
	return rows
}

// A row is a collective that all ranks tell of.
type row struct {
	of [][]moment // those of its communicator, by rank
	k  int
}

func (r row) on(rank int) *moment { return &r.of[rank][r.k] }

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

// align finds the clocks. A collective is done on no rank before its call has begun on every rank: so the clock of rank
// j is at most as far ahead of that of rank i as the end on i lies behind the beginning on j. Each pair bounds the
// other. Within the bounds, which are wide where one rank is always the last, the ends on two ranks are taken to be one
// moment, where they differ less from collective to collective than the bounds do; else the middle is taken.
func align(parts []*part, shifts []int64) []clock {
	n := len(parts)
	clocks := make([]clock, n)
	for i := range clocks {
		clocks[i].shift = shifts[i]
	}
	for rows := whole(parts); len(rows) > 0; {
		w := rows[0].on(0).start / window
		in := 1
		for in < len(rows) && rows[in].on(0).start/window == w {
			in++
		}
		all := rows[:in]
		rows = rows[in:]
		lo, hi := bounds(all, shifts)
		var at int64
		for _, r := range all {
			at += r.on(0).start / int64(in)
		}
		at += shifts[0]
		for i := 1; i < n; i++ {
			if lo[i] == -unbounded || hi[i] == unbounded || lo[i] > hi[i] {
				continue
			}
			c := &clocks[i]
			add, off := lo[i]+(hi[i]-lo[i])/2, (hi[i]-lo[i]+1)/2
			if at, spread := together(all, shifts, i); spread < off {
				add, off = min(max(at, lo[i]), hi[i]), spread
			}
			c.knots = append(c.knots, knot{at - shifts[i] - add, add})
			c.matched += in
			c.err = max(c.err, off)
		}
	}
	return clocks
}

// together returns what is to be added to a rank's clock for the ends on it to be those on rank 0, in the middle of
// all, and how far half of them lie apart from each other.
func together(all []row, shifts []int64, i int) (add, spread int64) {
	var apart []int64
	for _, r := range all {
		a, ok := r.on(0).done()
		b, ok2 := r.on(i).done()
		if ok && ok2 {
			apart = append(apart, a+shifts[0]-b-shifts[i])
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
func bounds(all []row, shifts []int64) (lo, hi []int64) {
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
	starts := make([]int64, n)
	for _, r := range all {
		for i := range starts {
			starts[i] = r.on(i).start + shifts[i]
		}
		for i := range starts {
			done, ok := r.on(i).done()
			if !ok {
				continue
			}
			done += shifts[i]
			for j, start := range starts {
				if i != j && (n <= mostPaths || i == 0 || j == 0) {
					most[i][j] = min(most[i][j], done-start)
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
