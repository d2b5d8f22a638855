package step

import (
	"cmp"
	"slices"
)

const (
	minSteps = 3 // that must be alike before they are taken for steps
	// alike is the least similarity of two steps, and covered the least part of the launches between the first anchor and the last
	// one that typical steps must hold; of all launches they must hold half.
	alike   = 0.7
	covered = 0.8
	// maxCandidates bounds the anchors that are tried, and maxCompared the tasks that are compared for one of them before it must have
	// shown half of what it needs.
	maxCandidates = 16
	maxCompared   = 1 << 20
)

// A pulse is one thing that a stream's host does, as much as repetition asks for.
type pulse struct {
	symbol int32 // index into rhythm.symbols
	op     int32 // index into Learner.ops
}

// symbol is a kind of pulses.
type symbol struct {
	id    uint64
	class Class
	first int // position of the first pulse
	count int
}

// ends reports whether pulses of a symbol are where a step may end: where the host learns what the device has done.
func (s *symbol) ends() bool { return s.class >= CopyOut }

// anyLane is the lane of a beat that follows a thread.
const anyLane = -2

// beat tells pulses from all else: what the threads that launch on the lane do, the lane's tasks, their copies to the host and
// synchronizations. What may end a step is told apart by what came before it.
type beat struct {
	lane    int
	threads map[uint32]bool
	last    uint64
}

// pulse returns the number of what is done, the same for the same throughout a run of the program, and false for what is no pulse.
func (b *beat) pulse(d *Op) (id uint64, ok bool) {
	switch {
	case b.lane == anyLane && b.threads[d.Thread]:
	case d.Lane != int32(b.lane) && (d.Class < CopyOut || !b.threads[d.Thread]):
		return 0, false
	}
	id = Mix(d.What, uint64(d.Class))
	if d.Class >= CopyOut {
		id = Mix(id, b.last)
	}
	b.last = id
	return id, true
}

// Mix hashes two numbers.
func Mix(a, b uint64) uint64 {
	a ^= b * 0x9e3779b97f4a7c15
	a ^= a >> 29
	return a * 1099511628211
}

// rhythm is what a stream is asked to do, in order.
type rhythm struct {
	ops      []Op
	pulses   []pulse
	symbols  []symbol
	launches int
	beat     beat
}

// cut is a way to cut a rhythm into steps: before each pulse of a symbol, or behind each of one that ends steps.
type cut struct {
	r       *rhythm
	symbol  int32
	at      []int // positions of the cuts; step i is pulses[at[i]:at[i+1]]
	typical []bool
	model   int // the step that the others are compared with
	n       int // typical steps
	cover   float64
	how     manner
	added   bool // a step before the first cut
}

// choose returns the best cut, nil for none that is good enough.
//
// Where all repeats exactly and all the time, the shortest such cut tells how many steps there are. Behind that come cuts where the
// host waits or copies, of which the shortest wins that covers nearly as much as the best one, and at last cuts at any task, of which
// the one wins that covers most: a layer repeats in a step too, but never as well as the step.
func (r *rhythm) choose() *cut {
	var tiles, ends, others *cut
	for _, id := range r.candidates(func(s *symbol) bool { return s.class == Launch }) {
		if c := r.cut(id); c.tile() && (tiles == nil || c.n > tiles.n) {
			tiles = c
		}
	}
	var all []*cut
	most := 0.0
	for _, id := range r.candidates((*symbol).ends) {
		if c := r.cut(id); c.judge(false) {
			all = append(all, c)
			most = max(most, c.cover)
		}
	}
	for _, c := range all {
		if c.cover < most-0.1 {
			continue
		}
		if ends == nil || c.n > ends.n || c.n == ends.n && r.symbols[c.symbol].class > r.symbols[ends.symbol].class {
			ends = c
		}
	}
	switch {
	case tiles != nil && (ends == nil || ends.n < tiles.n-1):
		return tiles
	case ends != nil:
		return ends
	}
	for _, exact := range []bool{true, false} {
		for _, id := range r.candidates(func(s *symbol) bool { return s.class == Launch }) {
			c := r.cut(id)
			if !c.judge(exact) || len(c.at) < 2 || c.mean() < 2 || c.interrupted() {
				continue
			}
			if others == nil || c.cover > others.cover+0.005 || c.cover > others.cover-0.005 && c.n > others.n {
				others = c
			}
		}
		if others != nil {
			break
		}
	}
	return others
}

// candidates returns the symbols to cut at: the first two of each number of pulses.
func (r *rhythm) candidates(which func(*symbol) bool) []int32 {
	var ids []int32
	for i := range r.symbols {
		if s := &r.symbols[i]; s.count >= minSteps-1 && which(s) {
			ids = append(ids, int32(i))
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int {
		x, y := &r.symbols[a], &r.symbols[b]
		return cmp.Or(cmp.Compare(y.count, x.count), cmp.Compare(y.class, x.class))
	})
	var out []int32
	same := 0
	for i, id := range ids {
		if i > 0 && r.symbols[id].count == r.symbols[ids[i-1]].count {
			same++
		} else {
			same = 0
		}
		if same < 2 {
			out = append(out, id)
		}
	}
	if n := len(out); n > maxCandidates {
		// Steps are neither the most frequent thing nor the rarest: what is left is spread over both.
		spread := make([]int32, maxCandidates)
		for i := range spread {
			spread[i] = out[i*n/maxCandidates]
		}
		out = spread
	}
	return out
}

func (r *rhythm) cut(id int32) *cut {
	c := &cut{r: r, symbol: id, at: make([]int, 0, r.symbols[id].count+2)}
	behind := 0
	if r.symbols[id].ends() {
		behind = 1
	}
	for i := r.symbols[id].first; i < len(r.pulses); i++ {
		if r.pulses[i].symbol == id {
			c.at = append(c.at, i+behind)
		}
	}
	return c
}

// mean is the number of pulses in a step.
func (c *cut) mean() int { return (c.at[len(c.at)-1] - c.at[0]) / (len(c.at) - 1) }

// hash stands for what is between two positions, with or without what ends steps.
func (c *cut) hash(from, to int, ends bool) uint64 {
	h := stepHash
	for _, p := range c.r.pulses[from:to] {
		if s := &c.r.symbols[p.symbol]; ends || !s.ends() {
			h = Mix(h, s.id)
		}
	}
	return h
}

// stepHash is the hash of nothing.
const stepHash = uint64(14695981039346656037)

// tile reports whether all steps put the same on the stream, two launches or more, but for at most a fifth of them at the beginning
// and for copies to the host, which a program may make now and then to show how far it is.
func (c *cut) tile() bool {
	c.how = sameTasks
	if len(c.at) < minSteps || c.mean() < 2 {
		return false
	}
	m := len(c.at) - 1
	want := c.hash(c.at[m-1], c.at[m], false)
	first := m
	for first > 0 && c.hash(c.at[first-1], c.at[first], false) == want {
		first--
	}
	launches := 0
	for _, p := range c.r.pulses[c.at[m-1]:c.at[m]] {
		if c.r.symbols[p.symbol].class == Launch {
			launches++
		}
	}
	if launches < 2 || 5*first > m {
		return false
	}
	c.typical = make([]bool, m)
	for i := first; i < m; i++ {
		c.typical[i] = true
	}
	c.model = m - 1
	c.n = m - first
	c.edges()
	return c.enough(launches * c.n)
}

// enough reports whether so many launches in so many steps are no accident.
func (c *cut) enough(launches int) bool { return c.n >= minSteps && 2*launches >= c.r.launches }

// judge tells the typical steps and reports whether they are enough. Where exact is set, they must be the same.
func (c *cut) judge(exact bool) bool {
	if c.how = nearly; exact {
		c.how = same
	}
	m := len(c.at) - 1
	if m < 1 {
		return false
	}
	hashes := make([]uint64, m)
	count := map[uint64]int{}
	lens := make([]int, m)
	for i := range m {
		hashes[i] = c.hash(c.at[i], c.at[i+1], true)
		count[hashes[i]]++
		lens[i] = c.at[i+1] - c.at[i]
	}
	sorted := slices.Clone(lens)
	slices.Sort(sorted)
	median := sorted[m/2]
	off := func(i int) int { return max(lens[i]-median, median-lens[i]) }
	for i := range m {
		if a, b := count[hashes[i]], count[hashes[c.model]]; a > b || a == b && off(i) < off(c.model) {
			c.model = i
		}
	}
	c.typical = make([]bool, m)
	memo := map[uint64]bool{hashes[c.model]: true}
	b := c.bag()
	in, all, compared, launches := 0, c.at[m]-c.at[0], 0, 0
	for i := range m {
		like, known := memo[hashes[i]]
		if !known && !exact {
			compared += lens[i]
			if compared > maxCompared && 2*in < c.at[i]-c.at[0] {
				return false
			}
			like = b.like(c.ids(c.at[i], c.at[i+1]))
			memo[hashes[i]] = like
		}
		if like {
			c.typical[i] = true
			c.n++
			in += lens[i]
			for _, p := range c.r.pulses[c.at[i]:c.at[i+1]] {
				if c.r.symbols[p.symbol].class == Launch {
					launches++
				}
			}
		}
	}
	c.cover = float64(in) / float64(all)
	before := c.n
	c.edges()
	launches += launches / max(before, 1) * (c.n - before)
	return c.cover >= covered && c.enough(launches)
}

// interrupted reports whether the host waits in some step and not in the usual one: what repeats is then in what a larger step is
// made of.
func (c *cut) interrupted() bool {
	waits := func(i int) bool {
		return slices.ContainsFunc(c.r.pulses[c.at[i]:c.at[i+1]], func(p pulse) bool { return c.r.symbols[p.symbol].ends() })
	}
	for i := range c.typical {
		if waits(i) && !waits(c.model) {
			return true
		}
	}
	return false
}

// edges adds the step before the first cut and the one behind the last cut, where they are like the others.
func (c *cut) edges() {
	b := c.bag()
	n := c.at[c.model+1] - c.at[c.model]
	if from := c.at[0] - n; from >= 0 && b.like(c.ids(from, c.at[0])) {
		c.added = true
		c.at = slices.Insert(c.at, 0, from)
		c.typical = slices.Insert(c.typical, 0, true)
		c.model++
		c.n++
	}
	if last := c.at[len(c.at)-1]; last+n <= len(c.r.pulses) && b.like(c.ids(last, last+n)) {
		c.at, c.typical = append(c.at, last+n), append(c.typical, true)
		c.n++
	}
}

// bag returns that of the model.
func (c *cut) bag() *bag {
	return newBag(c.ids(c.at[c.model], c.at[c.model+1]))
}

// ids are the pulses between two positions.
func (c *cut) ids(from, to int) []uint64 {
	out := make([]uint64, 0, to-from)
	for _, p := range c.r.pulses[from:to] {
		out = append(out, c.r.symbols[p.symbol].id)
	}
	return out
}

// likeness returns what tells typical steps.
func (c *cut) likeness() likeness {
	from, to := c.at[c.model], c.at[c.model+1]
	return likeness{how: c.how, bag: newBag(c.ids(from, to)), hash: c.hash(from, to, c.how != sameTasks)}
}

// bag is what a step holds, in no order but that of two or three pulses next to each other.
type bag struct {
	grams map[uint64]int
	n     int
	wide  bool // three rather than two
	other map[uint64]int
}

func newBag(ids []uint64) *bag {
	b := &bag{n: len(ids), wide: len(ids) >= 16, other: map[uint64]int{}}
	b.grams = b.of(ids, map[uint64]int{})
	return b
}

func (b *bag) of(ids []uint64, grams map[uint64]int) map[uint64]int {
	// What came before the step does not count: its first pulses stand alone.
	x, y := uint64(0), uint64(0)
	for _, id := range ids {
		g := Mix(id, y)
		if b.wide {
			g = Mix(g, x)
		}
		grams[g]++
		x, y = y, id
	}
	return grams
}

// like reports whether a step is nearly the same.
func (b *bag) like(ids []uint64) bool {
	n := len(ids)
	if n > 2*b.n || b.n > 2*n {
		return false
	}
	clear(b.other)
	common := 0
	for g, k := range b.of(ids, b.other) {
		common += min(k, b.grams[g])
	}
	return float64(2*common) >= alike*float64(n+b.n)
}

// manner is in how far typical steps must be the same.
type manner uint8

const (
	sameTasks manner = iota // but for copies to the host and synchronizations
	same
	nearly
)

// likeness tells typical steps.
type likeness struct {
	how  manner
	hash uint64 // of the model
	bag  *bag   // the same
}
