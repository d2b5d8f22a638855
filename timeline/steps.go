package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
)

// A StepSource says how steps are known.
type StepSource string

const (
	Marked  StepSource = "marked" // by ranges that the program has named
	Found   StepSource = "found"  // from repetition
	NoSteps StepSource = "none"
)

// A Step is one pass through what a program repeats: an iteration of a training, a token, a request.
type Step struct {
	Index int    // from 0
	Name  string // of the range that marks it, "" for one that was found
	// From and To are nanoseconds since the beginning of the trace. A call belongs to the step in which it began: From <= Start < To.
	From, To   int64
	Begin, End int // the calls of the step are Calls[Begin:End], of all threads and processes
	// Typical reports whether the step does what most of them do, nearly. Warm-up steps and those with an evaluation do more.
	Typical bool
}

// Steps are the steps of a trace, in the order of time. They do not overlap; what lies before, after, or between ranges that mark
// them is in none.
type Steps struct {
	Source  StepSource
	List    []Step
	Process uint32 // whose steps they are
	Why     string // there are none
}

// At returns the index of the step that holds a moment, -1 for none.
func (s *Steps) At(t int64) int {
	i := sort.Search(len(s.List), func(i int) bool { return s.List[i].To > t })
	if i < len(s.List) && s.List[i].From <= t {
		return i
	}
	return -1
}

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

// Steps returns the steps: marked by ranges of the program where ranges of one name, outermost but for such that occur once, hold
// half of the launches or more; else found from repetition on the stream with the most launches; else none. The same trace has
// always the same steps. The first call takes time that grows with the number of calls, up to a microsecond for each; it may be made from
// several goroutines.
func (t *Timeline) Steps() *Steps {
	t.stepsOnce.Do(func() {
		s := t.marked()
		if s == nil {
			s = t.repeated()
		}
		for i := range s.List {
			step := &s.List[i]
			step.Index = i
			step.Begin = sort.Search(len(t.Calls), func(i int) bool { return t.Calls[i].Start >= step.From })
			step.End = sort.Search(len(t.Calls), func(i int) bool { return t.Calls[i].Start >= step.To })
		}
		t.steps = s
	})
	return t.steps
}

// stem is a name without its numbers: "step 12" and "step 13" are of one kind.
func stem(name string) string {
	return strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r >= '0' && r <= '9' }), "#")
}

// marked returns the steps that ranges of the program mark, nil where none do.
func (t *Timeline) marked() *Steps {
	type key struct {
		process      uint32
		domain, name string
	}
	type group struct {
		key
		ranges   []*Range
		launches int
		named    bool
	}
	groups := map[key]*group{}
	var all []*group
	for i := range t.Ranges {
		r := &t.Ranges[i]
		if r.Mark || r.To <= r.From {
			continue
		}
		k := key{r.Process, r.Domain, stem(r.Name)}
		g := groups[k]
		if g == nil {
			g = &group{key: k}
			groups[k] = g
			all = append(all, g)
		}
		g.ranges = append(g.ranges, r)
	}
	all = slices.DeleteFunc(all, func(g *group) bool {
		for i := 1; i < len(g.ranges); i++ {
			if g.ranges[i].From < g.ranges[i-1].To {
				return true // they overlap: nested, or of several threads
			}
		}
		return len(g.ranges) < 2
	})
	// Of what is left, each group is a list of ranges in the order of time; one whose first lies within another one's is inner.
	within := func(in, out *group) bool {
		r := in.ranges[0]
		i := sort.Search(len(out.ranges), func(i int) bool { return out.ranges[i].From > r.From }) - 1
		if i < 0 || in.process != out.process || in == out {
			return false
		}
		o := out.ranges[i]
		return o.Begin != r.Begin && r.To <= o.To && (r.From > o.From || r.Begin > o.Begin)
	}
	total := map[uint32]int{}
	issued := map[uint32][]int64{}
	for i := range t.Tasks {
		if k := &t.Tasks[i]; launch(k) {
			total[k.Process]++
			issued[k.Process] = append(issued[k.Process], k.Issued)
		}
	}
	var best *group
	for _, g := range all {
		if slices.ContainsFunc(all, func(o *group) bool { return within(g, o) }) {
			continue
		}
		at := func(v int64) int {
			i, _ := slices.BinarySearch(issued[g.process], v)
			return i
		}
		for _, r := range g.ranges {
			g.launches += at(r.To) - at(r.From)
		}
		if g.launches == 0 || 2*g.launches < total[g.process] {
			continue
		}
		lower := strings.ToLower(g.name)
		g.named = strings.Contains(lower, "step") || strings.Contains(lower, "iter")
		if best == nil || g.named && !best.named || g.named == best.named && g.launches > best.launches {
			best = g
		}
	}
	if best == nil {
		return nil
	}
	s := &Steps{Source: Marked, Process: best.process}
	for _, r := range best.ranges {
		s.List = append(s.List, Step{Name: r.Name, From: r.From, To: r.To, Typical: true})
	}
	return s
}

func launch(t *Task) bool { return t.Kind == api.Kernel || t.Kind == api.GraphRun }

// pulse is one thing that a stream's host does, as much as repetition asks for.
type pulse struct {
	symbol int32
	call   int32 // index into Timeline.Calls
}

// symbol is a kind of pulses.
type symbol struct {
	class class
	first int // position of the first pulse
	count int
}

type class uint8

const (
	classOther  class = iota
	classLaunch       // a kernel or a graph
	classCopy         // to the host
	classSync
)

// ends reports whether pulses of a symbol are where a step may end: where the host learns what the device has done.
func (s *symbol) ends() bool { return s.class >= classCopy }

// rhythm is what a stream is asked to do, in order.
type rhythm struct {
	t        *Timeline
	pulses   []pulse
	symbols  []symbol
	launches int
}

// rhythm returns what the threads that launch on the lane do: the lane's tasks, their copies to the host and synchronizations. What
// may end a step is told apart by what came before it.
func (t *Timeline) rhythm(lane int) *rhythm {
	r := &rhythm{t: t}
	threads := map[uint32]bool{}
	for i := range t.Tasks {
		if k := &t.Tasks[i]; k.Lane == lane && launch(k) {
			threads[k.Thread] = true
		}
	}
	type key struct {
		name   string
		object int
		before int32 // symbol, -1 where it does not matter
	}
	ids := map[key]int32{}
	last := int32(-1)
	for i := range t.Calls {
		c := &t.Calls[i]
		k, cl := key{before: -1}, classOther
		switch {
		case c.Task >= 0:
			task := &t.Tasks[c.Task]
			toHost := task.Kind == api.Copy && task.Name == copyNames["DtoH"]
			if task.Lane != lane && !(toHost && threads[c.Thread]) {
				continue
			}
			k.name = task.Name
			switch {
			case launch(task):
				cl = classLaunch
				r.launches++
			case toHost:
				cl, k.before = classCopy, last
			}
			if task.Kind == api.GraphRun && task.Object != nil {
				k.object = task.Object.ID
			}
		case c.Fn != nil && threads[c.Thread] && blocks(c.Fn.Sync) && !c.Failed() && c.Flags&format.Unfinished == 0:
			cl, k.name, k.before = classSync, c.Name, last
		default:
			continue
		}
		id, ok := ids[k]
		if !ok {
			id = int32(len(r.symbols))
			ids[k] = id
			r.symbols = append(r.symbols, symbol{class: cl, first: len(r.pulses)})
		}
		r.symbols[id].count++
		r.pulses = append(r.pulses, pulse{id, int32(i)})
		last = id
	}
	return r
}

// blocks reports whether a synchronization waits, rather than asks.
func blocks(s api.Sync) bool { return s == api.SyncDevice || s == api.SyncStream || s == api.SyncEvent }

// repeated finds steps from repetition.
func (t *Timeline) repeated() *Steps {
	counts := make([]int, len(t.Lanes))
	best := -1
	for i := range t.Tasks {
		if launch(&t.Tasks[i]) {
			counts[t.Tasks[i].Lane]++
		}
	}
	for i, n := range counts {
		if n > 0 && (best < 0 || n > counts[best]) {
			best = i
		}
	}
	if best < 0 {
		return &Steps{Source: NoSteps, Why: "nothing is launched"}
	}
	r := t.rhythm(best)
	s := &Steps{Source: Found, Process: t.Lanes[best].Process}
	c := r.choose()
	if c == nil {
		s.Source, s.Why = NoSteps, fmt.Sprintf("what is launched on %s does not repeat %d times or more, or with too many differences", t.Lanes[best].Name, minSteps)
		return s
	}
	s.List = c.steps(t)
	return s
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
}

// choose returns the best cut, nil for none that is good enough.
//
// Where all repeats exactly and all the time, the shortest such cut tells how many steps there are. Behind that come cuts where the
// host waits or copies, of which the shortest wins that covers nearly as much as the best one, and at last cuts at any task, of which
// the one wins that covers most: a layer repeats in a step too, but never as well as the step.
func (r *rhythm) choose() *cut {
	var tiles, ends, others *cut
	for _, id := range r.candidates(func(s *symbol) bool { return s.class == classLaunch }) {
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
		for _, id := range r.candidates(func(s *symbol) bool { return s.class == classLaunch }) {
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
	c := &cut{r: r, symbol: id}
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
	h := uint64(14695981039346656037)
	for _, p := range c.r.pulses[from:to] {
		if ends || !c.r.symbols[p.symbol].ends() {
			h = (h ^ uint64(p.symbol+1)) * 1099511628211
			h ^= h >> 29
		}
	}
	return h
}

// tile reports whether all steps put the same on the stream, two launches or more, but for at most a fifth of them at the beginning
// and for copies to the host, which a program may make now and then to show how far it is.
func (c *cut) tile() bool {
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
		if c.r.symbols[p.symbol].class == classLaunch {
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
			like = b.like(c.at[i], c.at[i+1])
			memo[hashes[i]] = like
		}
		if like {
			c.typical[i] = true
			c.n++
			in += lens[i]
			for _, p := range c.r.pulses[c.at[i]:c.at[i+1]] {
				if c.r.symbols[p.symbol].class == classLaunch {
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
	if from := c.at[0] - n; from >= 0 && b.like(from, c.at[0]) {
		c.at = slices.Insert(c.at, 0, from)
		c.typical = slices.Insert(c.typical, 0, true)
		c.model++
		c.n++
	}
	if last := c.at[len(c.at)-1]; last+n <= len(c.r.pulses) && b.like(last, last+n) {
		c.at, c.typical = append(c.at, last+n), append(c.typical, true)
		c.n++
	}
}

// bag is what a step holds, in no order but that of two or three pulses next to each other.
type bag struct {
	c     *cut
	grams map[uint64]int
	n     int
	wide  bool // three rather than two
}

// bag returns that of the model.
func (c *cut) bag() *bag {
	from, to := c.at[c.model], c.at[c.model+1]
	b := &bag{c: c, n: to - from, wide: to-from >= 16}
	b.grams = b.of(from, to)
	return b
}

func (b *bag) of(from, to int) map[uint64]int {
	grams := make(map[uint64]int, b.n)
	p := b.c.r.pulses
	// What came before the step does not count: its first pulses stand alone.
	x, y := uint64(0), uint64(0)
	for i := from; i < to; i++ {
		s := uint64(p[i].symbol) + 1
		g := s | y<<21
		if b.wide {
			g |= x << 42
		}
		grams[g]++
		x, y = y, s
	}
	return grams
}

// like reports whether what lies between two positions is nearly the same.
func (b *bag) like(from, to int) bool {
	n := to - from
	if n > 2*b.n || b.n > 2*n {
		return false
	}
	common := 0
	for g, k := range b.of(from, to) {
		common += min(k, b.grams[g])
	}
	return float64(2*common) >= alike*float64(n+b.n)
}

// steps returns the steps of the cut.
func (c *cut) steps(t *Timeline) []Step {
	var out []Step
	behind := c.r.symbols[c.symbol].ends()
	moment := func(pos int) int64 {
		// Behind a pulse that ends steps, else before one.
		if behind && pos > 0 && c.r.pulses[pos-1].symbol == c.symbol || pos == len(c.r.pulses) {
			h := &t.Calls[c.r.pulses[pos-1].call]
			return max(h.End, h.Start+1)
		}
		return t.Calls[c.r.pulses[pos].call].Start
	}
	for i := range c.typical {
		from, to := moment(c.at[i]), moment(c.at[i+1])
		if len(out) > 0 {
			from = max(from, out[len(out)-1].To)
		}
		if to > from {
			out = append(out, Step{From: from, To: to, Typical: c.typical[i]})
		}
	}
	return out
}
