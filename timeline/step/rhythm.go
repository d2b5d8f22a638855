package step

import (
	"cmp"
	"slices"
)

const (
	minSteps  = 3 // similar ones that are needed
	manySteps = 5 // those of a short loop in a long program
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
	// The first step begins with the copies from the host with which the model begins, at most maxPrefix, or else with its first launches and copies,
	// prefix of them. It has at most maxFirst times as many pulses as the model, or as the model has kernels.
	prefix    = 3
	maxPrefix = 16
	maxFirst  = 4
	// maxTrims bounds the number of places at which the loop may begin.
	maxTrims = 32
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
	wait  bool
	// followed is the number of its pulses with a pulse that ends steps after them.
	followed int
}

// ends reports whether a step may end at pulses with this symbol, since the host learns there that the device has finished.
func (s *symbol) ends() bool { return s.class >= CopyOut }

// last reports whether a step may end at pulses with a symbol: most of them are not followed by a pulse that ends steps too. If a program waits for
// one stream and then for another, its step ends after both.
func (r *rhythm) last(s *symbol) bool { return s.ends() && 2*s.followed <= s.count }

// rhythm is the sequence of pulses on a stream or a thread.
type rhythm struct {
	ops      []Op
	pulses   []pulse
	tasks    []int // number of tasks before each pulse: the run of a graph counts as its launches
	symbols  []symbol
	launches []int // number of kernels before each pulse
	beat     *beat
	late     bool // look for a loop after other launches
}

// A cut divides a rhythm into steps: before each pulse with a symbol, or after it if the symbol ends steps. Of several waits in a row only the last
// one can be such a symbol.
type cut struct {
	r       *rhythm
	symbol  int32
	other   int32 // further symbol, at which steps of a second kind are cut; symbol if there is none
	at      []int // positions of the cuts; step i is pulses[at[i]:at[i+1]]
	typical []bool
	model   int // index of the step that others are compared with
	n       int // number of typical steps
	both    int // batches of two kinds, see twoKinds
	second  int // kernels in steps that do the same work in another way
	cover   float64
	how     manner
	where   place
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
	many := false
	for _, id := range r.candidates(r.last) {
		if c := r.cut(id); c.judge(false) {
			all = append(all, c)
			many = many || c.n >= manySteps && c.copies(c.model) > 0
		}
	}
	most := 0.0
	for _, c := range all {
		if !many || c.n >= manySteps { // a few long steps, as requests, cover all between them
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
	inputs := func(s *symbol) bool { return s.class == Other || s.class == CopyIn } // no layer has an input
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
		case Other, CopyIn:
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

// cut returns the cut at a symbol: after it if it ends steps, otherwise before it.
func (r *rhythm) cut(id int32) *cut {
	if r.symbols[id].ends() {
		return r.cutAt(id, after)
	}
	return r.cutAt(id, before)
}

func (r *rhythm) cutAt(id int32, where place) *cut { return r.cutAtBoth(id, id, where) }

func (r *rhythm) cutAtBoth(id, other int32, where place) *cut {
	c := &cut{r: r, symbol: id, other: other, where: where, at: make([]int, 0, r.symbols[id].count+2)}
	var t turn
	for i := min(r.symbols[id].first, r.symbols[other].first); i < len(r.pulses); i++ {
		s := r.pulses[i].symbol
		cut := s == id || s == other
		switch {
		case where >= beforeNext:
			if t.next(where, r.symbols[s].class, cut) {
				c.at = append(c.at, i)
			}
		case !cut:
		case where == after:
			c.at = append(c.at, i+1)
		default:
			c.at = append(c.at, i)
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
	if c.kernels(m-1) < 2 || 5*first > m {
		return false
	}
	c.typical = make([]bool, m)
	for i := first; i < m; i++ {
		c.typical[i] = true
	}
	c.model = m - 1
	c.n = m - first
	c.edges()
	return c.enough()
}

// enough reports whether typical steps are so many and have so many launches that they cannot be an accident: half of all launches. Steps of a late
// loop have half of the launches from the first step on, and an input or a result.
func (c *cut) enough() bool {
	in := c.second
	for i, typical := range c.typical {
		if typical {
			in += c.kernels(i)
		}
	}
	all := c.r.launches[len(c.r.launches)-1]
	if !c.r.late {
		return c.n >= minSteps && 2*in >= all
	}
	return c.n >= manySteps && 2*in >= all-c.r.launches[c.at[0]] && c.waits(c.model)+c.copies(c.model) > 0
}

// kernels returns the number of kernels in a step.
func (c *cut) kernels(i int) int { return c.r.launches[c.at[i+1]] - c.r.launches[c.at[i]] }

// judge determines the typical steps and reports whether they are enough. With exact they must be equal, otherwise similar.
func (c *cut) judge(exact bool) bool {
	if c.how = nearly; exact {
		c.how = same
	}
	hashes := c.mark()
	if hashes == nil {
		return false
	}
	c.cover = c.covers(0, hashes)
	for i, tries := 1, 0; c.r.late && c.cover < covered && i < len(c.typical) && tries < maxTrims; i++ {
		// What comes before the loop may be cut too.
		if !c.typical[i] || c.typical[i-1] {
			continue
		}
		tries++
		if cover := c.covers(i, hashes); cover >= covered {
			c.trim(i)
			c.cover = cover
		}
	}
	c.edges()
	return c.cover >= covered && c.enough()
}

// trim drops the first steps.
func (c *cut) trim(n int) {
	for _, typical := range c.typical[:n] {
		if typical {
			c.n--
		}
	}
	c.at, c.typical = c.at[n:], c.typical[n:]
	if c.model -= n; c.model < 0 {
		c.model = 0
	}
}

// mark chooses the model and determines the typical steps. It returns the hashes of all steps, nil if there are too many different ones.
func (c *cut) mark() []uint64 {
	m := len(c.at) - 1
	if m < 1 {
		return nil
	}
	hashes := c.hashes()
	count := map[uint64]int{}
	lens := make([]int, m)
	for i := range m {
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
	if !c.compare(hashes) {
		return nil
	}
	return hashes
}

// hashes returns the hashes of the steps.
func (c *cut) hashes() []uint64 {
	hashes := make([]uint64, len(c.at)-1)
	for i := range hashes {
		hashes[i] = c.hash(c.at[i], c.at[i+1], true)
	}
	return hashes
}

// compare determines the typical steps, those like the model. It returns false if too many have to be compared.
func (c *cut) compare(hashes []uint64) bool {
	c.typical, c.n = make([]bool, len(hashes)), 0
	memo := map[uint64]bool{hashes[c.model]: true}
	b := c.bag()
	in, compared := 0, 0
	for i := range hashes {
		like, known := memo[hashes[i]]
		if !known && c.how == nearly {
			compared += c.at[i+1] - c.at[i]
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
		}
	}
	return true
}

// covers returns the part of the tasks, from a step to the last cut, that is in steps of one or two kinds.
func (c *cut) covers(from int, hashes []uint64) float64 {
	in, all := 0, c.r.tasks[c.at[len(c.at)-1]]-c.r.tasks[c.at[from]]
	for i := from; i < len(c.typical); i++ {
		if c.typical[i] {
			in += c.tasks(i)
		}
	}
	if c.how != same && c.r.symbols[c.symbol].ends() {
		in += c.others(from, hashes)
	}
	return float64(in) / float64(all)
}

// others returns the number of tasks in steps of a second kind, as the prompts between a decoder's tokens. There are at least two of them, and at most half
// as many as typical steps: halves of a step would be as many, unless they do the same work in another way, as with a graph and without. They wait as often
// as typical steps, as others are several steps, or do other work too, as an evaluation after each tenth step.
func (c *cut) others(from int, hashes []uint64) int {
	c.second = 0
	count, most := map[uint64]int{}, -1
	for i, h := range hashes {
		if c.typical[i] || i < from {
			continue
		}
		if count[h]++; most < 0 || count[h] > count[hashes[most]] {
			most = i
		}
	}
	if most < 0 || c.waits(most) > c.waits(c.model) && !c.extends(most) {
		return 0
	}
	b, memo := newBag(c.ids(c.at[most], c.at[most+1])), map[uint64]bool{}
	n, tasks, kernels := 0, 0, 0
	for i, h := range hashes {
		if c.typical[i] || i < from {
			continue
		}
		like, known := memo[h]
		if !known {
			like = b.like(c.ids(c.at[i], c.at[i+1]))
			memo[h] = like
		}
		if like {
			n++
			tasks, kernels = tasks+c.tasks(i), kernels+c.kernels(i)
		}
	}
	same := c.alternates(most)
	if n < 2 || 2*n > c.n && !same {
		return 0
	}
	if same {
		c.second = kernels
	}
	return tasks
}

// extends reports whether a step has the model's launches once, and others that the model lacks.
func (c *cut) extends(i int) bool {
	in := map[int32]int{}
	for _, p := range c.r.pulses[c.at[c.model]:c.at[c.model+1]] {
		if c.r.symbols[p.symbol].class == Launch {
			in[p.symbol]++
		}
	}
	once := false
	for s, n := range in {
		k := 0
		for _, p := range c.r.pulses[c.at[i]:c.at[i+1]] {
			if p.symbol == s {
				k++
			}
		}
		if k < n {
			return false
		}
		once = once || k == n
	}
	return once
}

// alternates reports whether a step does the work of the model in another way: it begins with the same inputs and has as many kernels.
func (c *cut) alternates(i int) bool {
	inputs := func(i int) (out []uint64) {
		for _, p := range c.r.pulses[c.at[i]:c.at[i+1]] {
			switch s := &c.r.symbols[p.symbol]; s.class {
			case CopyIn:
				out = append(out, s.id)
			case Launch:
				return out
			}
		}
		return nil
	}
	in := inputs(c.model)
	return len(in) > 0 && slices.Equal(in, inputs(i)) && c.kernels(i) == c.kernels(c.model)
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

// copies returns the number of copies from the host in a step.
func (c *cut) copies(i int) (n int) {
	for _, p := range c.r.pulses[c.at[i]:c.at[i+1]] {
		if c.r.symbols[p.symbol].class == CopyIn {
			n++
		}
	}
	return n
}

// interrupted reports whether the host waits in some steps but not in the model. Then the repeated sequence is only a part of a larger step.
func (c *cut) interrupted() bool {
	if c.waits(c.model)+c.copies(c.model) > 0 {
		return false
	}
	for i := range c.typical {
		if c.waits(i) > 0 {
			return true
		}
	}
	return false
}

// edges adds a step before the first cut and one after the last. The first step may do more than the model, or be of another kind.
func (c *cut) edges() {
	b := c.bag()
	n := c.at[c.model+1] - c.at[c.model]
	if from := c.at[0] - n; from >= 0 && b.like(c.ids(from, c.at[0])) {
		c.firstAt(from, b)
	}
	if last := c.at[len(c.at)-1]; last+n <= len(c.r.pulses) && b.like(c.ids(last, last+n)) {
		c.at, c.typical = append(c.at, last+n), append(c.typical, true)
		c.n++
	}
}

// firstAt adds a first step.
func (c *cut) firstAt(from int, b *bag) {
	c.added = true
	c.at = slices.Insert(c.at, 0, from)
	c.typical = slices.Insert(c.typical, 0, b.like(c.ids(from, c.at[1])))
	c.model++
	if c.typical[0] {
		c.n++
	}
}

// first adds a step before the first cut where it begins like the model and contains it: the first step may do more. If there is no such place, the
// step is of another kind, and begins with the same copies from the host. More such steps may be before it, as prompts that arrive one by one.
func (c *cut) first() {
	b := c.bag()
	to := c.at[0]
	if c.added {
		to = c.at[1]
	}
	from := c.firstBefore(to, b)
	switch {
	case from >= 0 && c.added:
		c.at[0] = from
	case from >= 0:
		c.firstAt(from, b)
	}
	for from > 0 && c.where == after && c.r.pulses[from-1].symbol == c.symbol { // a step ends there
		if from = c.firstBefore(from, b); from >= 0 {
			c.firstAt(from, b)
		}
	}
}

// firstBefore returns the begin of a first step that ends at a position, -1 if there is none.
func (c *cut) firstBefore(to int, b *bag) int {
	begin := c.work(c.at[c.model], c.at[c.model+1])
	best, most, latest := -1, 0.0, -1
	size := max(b.n, c.kernels(c.model)) // a run of a graph is one pulse: the first step may launch its kernels
	for from := to - 1; from >= max(0, to-maxFirst*size); from-- {
		if s := &c.r.symbols[c.r.pulses[from].symbol]; s.class == Other || !slices.Equal(c.work(from, to), begin) {
			continue
		}
		if part := b.part(c.ids(from, to)); part >= alike && part > most {
			best, most = from, part
		}
		latest = max(latest, from)
	}
	if best < 0 && len(begin) > 0 && c.r.symbols[begin[0]].class == CopyIn {
		best = latest
	}
	return best
}

// work returns the symbols with which a step begins: the copies from the host, or else the first launches and copies.
func (c *cut) work(from, to int) []int32 {
	var symbols []int32
	for i := from; i < to && len(symbols) < maxPrefix; i++ {
		s := c.r.pulses[i].symbol
		class := c.r.symbols[s].class
		switch {
		case class == Other || c.r.symbols[s].wait:
			continue
		case class != CopyIn && len(symbols) > 0 && c.r.symbols[symbols[0]].class == CopyIn:
			return symbols
		}
		if symbols = append(symbols, s); len(symbols) == prefix && class != CopyIn {
			return symbols
		}
	}
	return symbols
}

// bag returns the bag for the model.
func (c *cut) bag() *bag {
	return newBag(c.ids(c.at[c.model], c.at[c.model+1]))
}

func (c *cut) ids(from, to int) []uint64 { return c.r.ids(from, to) }

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

// part returns the part of the bag that a step contains.
func (b *bag) part(ids []uint64) float64 {
	clear(b.other)
	common := 0
	for g, k := range b.of(ids, b.other) {
		common += min(k, b.grams[g])
	}
	return float64(common) / float64(b.n)
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

// ids returns the ids of the pulses between two positions.
func (r *rhythm) ids(from, to int) []uint64 {
	out := make([]uint64, 0, to-from)
	for _, p := range r.pulses[from:to] {
		out = append(out, r.symbols[p.symbol].id)
	}
	return out
}
