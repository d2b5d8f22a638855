package step

import (
	"cmp"
	"slices"
)

const (
	minSteps = 3 // similar ones that are needed
	// alike is the least similarity between two steps. covered is the least part of the launches and other tasks between the first and the last cut
	// that steps of one or two kinds must hold. Typical steps must also hold half the launches.
	alike   = 0.7
	covered = 0.8
	// maxCandidates bounds the symbols that are tried. maxCompared bounds the pulses that are compared for one of them before half the needed
	// similarity must be reached.
	maxCandidates = 16
	maxCompared   = 1 << 20
	// layerLaunches is the number of launches below which a cut may be a layer of a step. maxLayers is the number of layers that a step has at most.
	layerLaunches = 10
	maxLayers     = 128
)

// A pulse is an op in a rhythm.
type pulse struct {
	symbol int32 // index into rhythm.symbols
	op     int32 // index into Learner.ops
}

// A symbol is a kind of pulse.
type symbol struct {
	id    uint64
	class Class
	first int // position of the first pulse
	count int
	// followed is the number of its pulses with a pulse that ends steps after them.
	followed int
}

// ends reports whether a step may end at pulses with this symbol, since the host learns there that the device has finished.
func (s *symbol) ends() bool { return s.class >= CopyOut }

// last reports whether a step may end at pulses with a symbol: most of them are not followed by a pulse that ends steps too. If a program waits for
// one stream and then for another, its step ends after both.
func (r *rhythm) last(s *symbol) bool { return s.ends() && 2*s.followed <= s.count }

// anyLane is the lane of a beat that follows a thread.
const anyLane = -2

// A beat selects the ops that are pulses: on a lane the launches and other tasks, and from the threads that launch there the copies to the host and
// the synchronizations. An op that may end a step also depends on the pulse before it.
type beat struct {
	lane    int
	threads map[uint32]bool
	last    uint64
}

// pulse returns the id of an op, which is equal for equal ops in one run of this program, and false if the op is not a pulse.
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

// rhythm is the sequence of pulses on a stream or a thread.
type rhythm struct {
	ops      []Op
	pulses   []pulse
	tasks    []int // number of tasks before each pulse: the run of a graph counts as its launches
	symbols  []symbol
	launches int
	beat     beat
}

// A cut divides a rhythm into steps: before each pulse with a symbol, or after it if the symbol ends steps. Of several waits in a row only the last
// one can be such a symbol.
type cut struct {
	r       *rhythm
	symbol  int32
	at      []int // positions of the cuts; step i is pulses[at[i]:at[i+1]]
	typical []bool
	model   int // index of the step that others are compared with
	n       int // number of typical steps
	cover   float64
	how     manner
	added   bool // there is a step before the first cut
}

// choose returns the best cut, nil if none is good enough.
//
// If everything repeats exactly, the shortest exact cut wins. Otherwise cuts at waits and copies to the host are tried: the shortest one wins that
// covers nearly as much as the best one. A longer one at a wait wins over both if those are layers. Last come cuts at launches, then at other tasks, by coverage: a layer repeats inside a step too, but never as well as the step.
func (r *rhythm) choose() *cut {
	var tiles, ends, others *cut
	for _, id := range r.candidates(func(s *symbol) bool { return s.class == Launch }) {
		if c := r.cut(id); c.tile() && (tiles == nil || c.n > tiles.n) {
			tiles = c
		}
	}
	var all []*cut
	most := 0.0
	for _, id := range r.candidates(r.last) {
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
	ends = ends.stepOf(all)
	switch {
	case tiles != nil && (ends == nil || ends.n < tiles.n-1 && tiles.stepOf([]*cut{ends}) == tiles):
		return tiles
	case ends != nil:
		return ends
	}
	launches := func(s *symbol) bool { return s.class == Launch }
	inputs := func(s *symbol) bool { return s.class == Other } // no layer has an input
	for _, try := range []struct {
		at           func(*symbol) bool
		exact, layer bool
	}{{launches, true, true}, {launches, false, true}, {inputs, false, false}} {
		for _, id := range r.candidates(try.at) {
			c := r.cut(id)
			if !c.judge(try.exact) || len(c.at) < 2 || c.mean() < 2 || try.layer && c.interrupted() {
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

// stepOf returns the shortest of other cuts whose steps consist of this cut's steps, if those may be layers: a few launches without any input. It
// returns the cut itself if there is none.
func (c *cut) stepOf(all []*cut) *cut {
	if c == nil {
		return nil
	}
	launches := 0
	for _, p := range c.r.pulses[c.at[c.model]:c.at[c.model+1]] {
		switch c.r.symbols[p.symbol].class {
		case Launch:
			launches++
		case Other:
			return c
		}
	}
	step := c
	for _, o := range all {
		if launches < layerLaunches && o.cover >= c.cover && 2*o.n <= c.n && c.n <= maxLayers*o.n && (step == c || o.n > step.n) {
			step = o
		}
	}
	return step
}

// candidates returns the symbols to cut at: the first two for each frequency.
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
		// Steps are neither the most frequent symbols nor the rarest, so the candidates are spread over all.
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

// tasks returns the number of tasks in a step.
func (c *cut) tasks(i int) int { return c.r.tasks[c.at[i+1]] - c.r.tasks[c.at[i]] }

// mean returns the number of pulses per step.
func (c *cut) mean() int { return (c.at[len(c.at)-1] - c.at[0]) / (len(c.at) - 1) }

// hash returns a hash for the pulses between two positions, with or without those that end steps.
func (c *cut) hash(from, to int, ends bool) uint64 {
	h := stepHash
	for _, p := range c.r.pulses[from:to] {
		if s := &c.r.symbols[p.symbol]; ends || !s.ends() {
			h = Mix(h, s.id)
		}
	}
	return h
}

// stepHash is the hash for no pulses.
const stepHash = uint64(14695981039346656037)

// tile reports whether all steps put the same tasks on the stream, with two launches or more. Up to a fifth of them may differ at the beginning.
// Copies to the host may differ, since a program may make some to show its progress.
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
		launches += int(c.r.ops[p.op].Launches)
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

// enough reports whether so many launches in so many steps cannot be an accident.
func (c *cut) enough(launches int) bool { return c.n >= minSteps && 2*launches >= c.r.launches }

// judge determines the typical steps and reports whether they are enough. With exact they must be equal, otherwise similar.
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
	in, all, compared, launches := 0, c.r.tasks[c.at[m]]-c.r.tasks[c.at[0]], 0, 0
	for i := range m {
		like, known := memo[hashes[i]]
		if !known && !exact {
			compared += lens[i]
			if compared > maxCompared && 2*in < c.r.tasks[c.at[i]]-c.r.tasks[c.at[0]] {
				return false
			}
			like = b.like(c.ids(c.at[i], c.at[i+1]))
			memo[hashes[i]] = like
		}
		if like {
			c.typical[i] = true
			c.n++
			in += c.tasks(i)
			for _, p := range c.r.pulses[c.at[i]:c.at[i+1]] {
				launches += int(c.r.ops[p.op].Launches)
			}
		}
	}
	if !exact && c.r.symbols[c.symbol].ends() {
		in += c.others(hashes)
	}
	c.cover = float64(in) / float64(all)
	before := c.n
	c.edges()
	launches += launches / max(before, 1) * (c.n - before)
	return c.cover >= covered && c.enough(launches)
}

// others returns the number of tasks in steps of a second kind, as the prompts between a decoder's tokens. There are at least two of them, and at most half
// as many as typical steps: halves of a step would be as many. They wait as often as typical steps: others are several steps.
func (c *cut) others(hashes []uint64) int {
	count, most := map[uint64]int{}, -1
	for i, h := range hashes {
		if c.typical[i] {
			continue
		}
		if count[h]++; most < 0 || count[h] > count[hashes[most]] {
			most = i
		}
	}
	if most < 0 || c.waits(most) > c.waits(c.model) {
		return 0
	}
	b, memo := newBag(c.ids(c.at[most], c.at[most+1])), map[uint64]bool{}
	n, tasks := 0, 0
	for i, h := range hashes {
		if c.typical[i] {
			continue
		}
		like, known := memo[h]
		if !known {
			like = b.like(c.ids(c.at[i], c.at[i+1]))
			memo[h] = like
		}
		if like {
			n++
			tasks += c.tasks(i)
		}
	}
	if n < 2 || 2*n > c.n {
		return 0
	}
	return tasks
}

// waits returns the number of pulses in a step that may end one.
func (c *cut) waits(i int) (n int) {
	for _, p := range c.r.pulses[c.at[i]:c.at[i+1]] {
		if c.r.symbols[p.symbol].ends() {
			n++
		}
	}
	return n
}

// interrupted reports whether the host waits in some steps but not in the model. Then the repeated sequence is only a part of a larger step.
func (c *cut) interrupted() bool {
	if c.waits(c.model) > 0 {
		return false
	}
	for i := range c.typical {
		if c.waits(i) > 0 {
			return true
		}
	}
	return false
}

// edges adds a step before the first cut and one after the last, if they resemble the model.
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

// bag returns the bag for the model.
func (c *cut) bag() *bag {
	return newBag(c.ids(c.at[c.model], c.at[c.model+1]))
}

// ids returns the ids of the pulses between two positions.
func (c *cut) ids(from, to int) []uint64 {
	out := make([]uint64, 0, to-from)
	for _, p := range c.r.pulses[from:to] {
		out = append(out, c.r.symbols[p.symbol].id)
	}
	return out
}

// likeness returns the likeness to the model.
func (c *cut) likeness() likeness {
	from, to := c.at[c.model], c.at[c.model+1]
	return likeness{how: c.how, bag: newBag(c.ids(from, to)), hash: c.hash(from, to, c.how != sameTasks)}
}

// A bag holds the contents of a step by pairs or triples of adjacent pulses. The order of those does not count.
type bag struct {
	grams map[uint64]int
	n     int
	wide  bool // triples, otherwise pairs
	other map[uint64]int
}

func newBag(ids []uint64) *bag {
	b := &bag{n: len(ids), wide: len(ids) >= 16, other: map[uint64]int{}}
	b.grams = b.of(ids, map[uint64]int{})
	return b
}

func (b *bag) of(ids []uint64, grams map[uint64]int) map[uint64]int {
	// The first pulses are not paired with those before the step.
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

// like reports whether a step is similar.
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

// manner is how similar typical steps must be.
type manner uint8

const (
	sameTasks manner = iota // equal without copies to the host and synchronizations
	same
	nearly
)

// likeness determines whether a step is typical.
type likeness struct {
	how  manner
	hash uint64 // of the model
	bag  *bag   // of the model
}
