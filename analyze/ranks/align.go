package ranks

import (
	"cmp"
	"math"
	"slices"

	"github.com/acltrace/acltrace/format"
)

// window is the time in nanoseconds during which the offset between two clocks counts as constant. Offsets are
// interpolated between the middles of windows.
const window = 10e9

// mostKept limits the collectives that are kept for all ranks together. Beyond it, every rank keeps every second
// one, or every fourth.
const mostKept = 1 << 22

// A moment has one rank's times at a collective. There are millions.
type moment struct {
	start   int64
	took    uint32 // nanoseconds until the work was done, or unknown
	fn      uint16
	present bool // false: the rank has no such collective
}

const unknown = math.MaxUint32

// done returns when the work was done, if that is known.
func (m *moment) done() (int64, bool) { return m.start + int64(m.took), m.took != unknown }

// A part has one rank's collectives.
type part struct {
	most   int
	stride int
	kept   map[string][]moment // by communicator, every stride-th
	held   int                 // total length in kept
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

// thin removes every second collective.
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

// matched returns the collectives that all ranks have, ordered by their start on rank 0.
func matched(parts []*part) []row {
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
			if !slices.ContainsFunc(of, func(at []moment) bool { return !at[k].present || at[k].fn != first[k].fn }) {
				rows = append(rows, row{of, k})
			}
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.on(0).start, b.on(0).start) })
	return rows
}

// A row is a collective that all ranks have.
type row struct {
	of [][]moment // its communicator's collectives, by rank
	k  int
}

func (r row) on(rank int) *moment { return &r.of[rank][r.k] }

// A clock converts one rank's times to the job's.
type clock struct {
	shift   int64 // wall clock difference
	knots   []knot
	matched int
	err     int64 // greatest error in nanoseconds, 0 if no collective was matched
	shared  bool  // it is the clock of an earlier rank on the same host
}

// A knot is a correction to add, besides shift, at a time on the rank's clock.
type knot struct{ at, add int64 }

// time converts the rank's time to the job's.
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

// align finds the clocks. No rank can finish a collective before every rank has begun its call. Therefore the clock of
// rank j leads the clock of rank i by at most the end on i minus the beginning on j, and each pair of ranks bounds the
// other. The bounds are wide if one rank is always the last to begin. Then the ends on two ranks count as simultaneous,
// if their difference varies less than the bounds. Otherwise align takes the middle of the bounds.
func align(parts []*part, shifts []int64) []clock {
	n := len(parts)
	clocks := make([]clock, n)
	for i := range clocks {
		clocks[i].shift = shifts[i]
	}
	for rows := matched(parts); len(rows) > 0; {
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

// sameBoot is how much the start of CLOCK_MONOTONIC may differ, in wall clock nanoseconds, between recordings that began on one host. The
// wall clock is slewed by at most half a millisecond a second.
const sameBoot = 10e6

// starts returns when each recording began, by wall clocks, and the first rank with the same clock. Ranks on one host have one clock: an
// estimate is off by microseconds, and then a rank may use an object before another one has made it.
func starts(metas []*format.Meta) (at []int64, first []int) {
	at, first = make([]int64, len(metas)), make([]int, len(metas))
	for i, m := range metas {
		at[i], first[i] = m.StartWall, i
		for k, of := range metas[:i] {
			boots := m.StartWall - m.StartMono - (of.StartWall - of.StartMono)
			if m.Host != "" && m.Host == of.Host && max(boots, -boots) <= sameBoot {
				at[i], first[i] = at[k]+m.StartMono-of.StartMono, first[k]
				break
			}
		}
	}
	return at, first
}

// shareClocks gives each rank the clock of the first rank that has the same one.
func shareClocks(clocks []clock, first []int) {
	for i, k := range first {
		if i == k {
			continue
		}
		c, ahead := &clocks[i], clocks[i].shift-clocks[k].shift
		c.shared, c.matched, c.err, c.knots = true, 0, 0, nil
		for _, x := range clocks[k].knots {
			c.knots = append(c.knots, knot{x.at - ahead, x.add})
		}
	}
}

// together returns the median correction that makes the ends on rank i coincide with those on rank 0, and the
// interquartile range.
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

// leastTogether is how many known ends a median needs.
const leastTogether = 8

const unbounded = math.MaxInt64 / 4

// mostPaths is the rank count up to which the bounds of all pairs are combined. Above it only pairs with rank 0
// count.
const mostPaths = 128

// bounds returns each rank's least and greatest correction, besides its shift, that leave rank 0 as it is.
func bounds(all []row, shifts []int64) (lo, hi []int64) {
	n := len(shifts)
	lo, hi = make([]int64, n), make([]int64, n)
	// most[i][j] bounds j's correction minus i's.
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
