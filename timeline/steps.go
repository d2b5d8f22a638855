package timeline

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
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
	Told    StepSource = "told"   // by a marker, which says what tells steps apart: see StepCounter
	Found   StepSource = "found"  // from repetition
	NoSteps StepSource = "none"
)

// A Step is one pass through what a program repeats: an iteration of a training, a token, a request. Steps do not overlap; what lies before
// the first one, or between ranges that mark them, is in none.
type Step struct {
	Index int    // from 0
	Name  string // of the range that marks it, "" for one that was found
	// From and To are nanoseconds since the beginning of the trace. A call belongs to the step in which it began: From <= Start < To.
	From, To int64
	// Typical reports whether the step does what most of them do, nearly. Warm-up steps and those with an evaluation do more.
	Typical bool
	// Open says that what would end the step never comes: it is what lies behind the last one, and To is the end of the trace.
	Open bool
}

// StepRule is how the steps of a trace are known: marked by ranges of the program where ranges of one name, outermost
// but for such that occur once, hold half of the launches or more; else found from repetition on the stream with the
// most launches; else marked by one range whose name says that it is a step; else none. It is made out from the first half million tasks and synchronizations, and where these show
// nothing from the next ones. The same trace has always the same steps.
type StepRule struct {
	Source  StepSource
	Process uint32 // whose steps they are
	Why     string // there are none

	marker string // of those that are told apart by one
	// Of marked steps:
	domain, stem string
	// Of found steps:
	lane    int
	threads map[uint32]bool // that launch on it
	symbol  uint64          // where to cut
	behind  bool            // or before it
	like    likeness
	early   int64 // when the first step begins, if that is before the first cut; else math.MaxInt64
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
	// maxLearned is how much of a trace is looked at at once for its steps, in tasks and synchronizations: 20 MiB. maxTries is how often.
	maxLearned = 1 << 19
	maxTries   = 8
)

// A deed is what one call does, as far as steps are known by it: a task, or a wait for the device.
type deed struct {
	start, end int64
	what       uint64 // hash of the name, and of the graph that is run
	lane       int32  // -1 for a wait
	thread     uint32
	class      class
}

// Names are only compared within a run of this program.
var nameSeed = maphash.MakeSeed()

// deedOf returns what a call has done, and false where that is of no interest.
func deedOf(h *HostCall, k *Task) (deed, bool) {
	d := deed{start: h.Start, end: h.End, lane: -1, thread: h.Thread}
	switch {
	case k != nil:
		d.lane = int32(k.Lane)
		switch {
		case launch(k):
			d.class = classLaunch
		case k.Kind == api.Copy && k.Name == copyNames["DtoH"]:
			d.class = classCopy
		}
		d.what = maphash.String(nameSeed, k.Name)
		if k.Kind == api.GraphRun && k.Object != nil {
			d.what = mix(d.what, uint64(k.Object.ID))
		}
	case h.Fn != nil && blocks(h.Fn.Sync) && !h.Failed() && h.Flags&format.Unfinished == 0:
		d.class, d.what = classSync, maphash.String(nameSeed, h.Name)
	default:
		return d, false
	}
	return d, true
}

// A learner gathers what a part of a trace does.
type learner struct {
	lanes  []Lane
	deeds  []deed
	groups map[groupKey]*group
	all    []*group
}

// learn makes out how the steps of a trace are known.
func learn(r *format.Reader, m *api.Model) (*StepRule, error) {
	w := newWalk(r, m)
	l := &learner{groups: map[groupKey]*group{}, deeds: make([]deed, 0, min(w.Calls, maxLearned))}
	w.learning = true
	var rule *StepRule
	tries := 0
	judge := func() bool {
		l.lanes = w.Lanes
		if rule = l.marked(2); rule == nil {
			rule = l.repeated()
		}
		if rule.Source == NoSteps {
			rule = cmp.Or(l.marked(1), rule)
		}
		if tries++; tries > 1 {
			rule.early = math.MaxInt64 // not the first cut of the trace
		}
		l.deeds = l.deeds[:0]
		return rule.Source != NoSteps
	}
	err := w.Run(&Visitor{
		Call: func(h *HostCall, k *Task) error {
			d, ok := deedOf(h, k)
			if !ok {
				return nil
			}
			if len(l.deeds) == maxLearned && (judge() || tries == maxTries) {
				return errEnough
			}
			l.deeds = append(l.deeds, d)
			return nil
		},
		Range: l.mark,
	})
	if err == nil && len(l.deeds) > 0 && (rule == nil || rule.Source == NoSteps) && tries < maxTries {
		if was := rule; !judge() && was != nil {
			rule = was
		}
	}
	if rule == nil {
		rule = &StepRule{Source: NoSteps, Why: "nothing is launched"}
	}
	return rule, err
}

// Stem is a name without its numbers: "step 12" and "step 13" are of one kind.
func Stem(name string) string {
	return strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r >= '0' && r <= '9' }), "#")
}

// groupKey is what ranges have in common that may mark steps, a group what is known of them.
type groupKey struct {
	process      uint32
	domain, name string
}

type group struct {
	groupKey
	ranges   []marks
	launches int
	named    bool
	overlaps bool // nested, or of several threads
}

type marks struct {
	from, to int64
	begin    uint64
}

// mark takes in a range.
func (l *learner) mark(r *Range) error {
	if r.Mark || r.To <= r.From {
		return nil
	}
	k := groupKey{r.Process, r.Domain, Stem(r.Name)}
	g := l.groups[k]
	if g == nil {
		g = &group{groupKey: k}
		l.groups[k] = g
		l.all = append(l.all, g)
	}
	if n := len(g.ranges); n > 0 && r.From < g.ranges[n-1].to {
		g.overlaps, g.ranges = true, g.ranges[:1]
	}
	if !g.overlaps && len(g.ranges) < maxLearned {
		g.ranges = append(g.ranges, marks{r.From, r.To, r.Begin})
	}
	return nil
}

// marked returns how at least so many ranges of the program mark steps, nil where none do. One alone does where its
// name says so: a profiler is told to look at a single step.
func (l *learner) marked(least int) *StepRule {
	var all []*group
	for _, g := range l.all {
		if !g.overlaps && len(g.ranges) >= least && (len(g.ranges) > 1 || namesStep(g.name)) {
			all = append(all, g)
		}
	}
	// Of what is left, each group is a list of ranges in the order of time; one whose first lies within another one's is inner.
	within := func(in, out *group) bool {
		r := in.ranges[0]
		i := sort.Search(len(out.ranges), func(i int) bool { return out.ranges[i].from > r.from }) - 1
		if i < 0 || in.process != out.process || in == out {
			return false
		}
		o := out.ranges[i]
		return o.begin != r.begin && r.to <= o.to && (r.from > o.from || r.begin > o.begin)
	}
	issued := map[uint32][]int64{} // launches, by process
	for i := range l.deeds {
		if d := &l.deeds[i]; d.class == classLaunch && len(all) > 0 {
			p := l.lanes[d.lane].Process
			issued[p] = append(issued[p], d.start)
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
		g.launches = 0
		for _, r := range g.ranges {
			g.launches += at(r.to) - at(r.from)
		}
		if g.launches == 0 || 2*g.launches < len(issued[g.process]) {
			continue
		}
		g.named = namesStep(g.name)
		if best == nil || g.named && !best.named || g.named == best.named && g.launches > best.launches {
			best = g
		}
	}
	if best == nil {
		return nil
	}
	return &StepRule{Source: Marked, Process: best.process, domain: best.domain, stem: best.name}
}

// launch reports whether a task runs a kernel, or a graph of them.
func launch(t *Task) bool { return t.Kind == api.Kernel || t.Kind == api.GraphRun }

// A pulse is one thing that a stream's host does, as much as repetition asks for.
type pulse struct {
	symbol int32 // index into rhythm.symbols
	deed   int32 // index into learner.deeds
}

// symbol is a kind of pulses.
type symbol struct {
	id    uint64
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

// beat tells pulses from all else: what the threads that launch on the lane do, the lane's tasks, their copies to the host and
// synchronizations. What may end a step is told apart by what came before it.
type beat struct {
	lane    int
	threads map[uint32]bool
	last    uint64
}

// pulse returns the number of what is done, the same for the same throughout a run of the program, and false for what is no pulse.
func (b *beat) pulse(d *deed) (id uint64, ok bool) {
	if d.lane != int32(b.lane) && (d.class < classCopy || !b.threads[d.thread]) {
		return 0, false
	}
	id = mix(d.what, uint64(d.class))
	if d.class >= classCopy {
		id = mix(id, b.last)
	}
	b.last = id
	return id, true
}

func mix(a, b uint64) uint64 {
	a ^= b * 0x9e3779b97f4a7c15
	a ^= a >> 29
	return a * 1099511628211
}

// rhythm is what a stream is asked to do, in order.
type rhythm struct {
	deeds    []deed
	pulses   []pulse
	symbols  []symbol
	launches int
	beat     beat
}

func (l *learner) rhythm(lane int) *rhythm {
	r := &rhythm{deeds: l.deeds, pulses: make([]pulse, 0, len(l.deeds)), beat: beat{lane: lane, threads: map[uint32]bool{}}}
	for i := range l.deeds {
		if d := &l.deeds[i]; d.lane == int32(lane) && d.class == classLaunch {
			r.beat.threads[d.thread] = true
		}
	}
	ids := map[uint64]int32{}
	for i := range l.deeds {
		d := &l.deeds[i]
		id, ok := r.beat.pulse(d)
		if !ok {
			continue
		}
		at, ok := ids[id]
		if !ok {
			at = int32(len(r.symbols))
			ids[id] = at
			r.symbols = append(r.symbols, symbol{id: id, class: d.class, first: len(r.pulses)})
		}
		if d.class == classLaunch {
			r.launches++
		}
		r.symbols[at].count++
		r.pulses = append(r.pulses, pulse{at, int32(i)})
	}
	return r
}

// blocks reports whether a synchronization waits, rather than asks.
func blocks(s api.Sync) bool { return s == api.SyncDevice || s == api.SyncStream || s == api.SyncEvent }

// repeated finds steps from repetition.
func (l *learner) repeated() *StepRule {
	counts := make([]int, len(l.lanes))
	best := -1
	for i := range l.deeds {
		if d := &l.deeds[i]; d.class == classLaunch {
			counts[d.lane]++
		}
	}
	for i, n := range counts {
		if n > 0 && (best < 0 || n > counts[best]) {
			best = i
		}
	}
	if best < 0 {
		return &StepRule{Source: NoSteps, Why: "nothing is launched"}
	}
	r := l.rhythm(best)
	c := r.choose()
	if c == nil {
		return &StepRule{Source: NoSteps, Process: l.lanes[best].Process,
			Why: fmt.Sprintf("what is launched on %s does not repeat %d times or more, or with too many differences", l.lanes[best].Name, minSteps)}
	}
	rule := &StepRule{Source: Found, Process: l.lanes[best].Process, lane: best, threads: r.beat.threads, symbol: r.symbols[c.symbol].id, behind: r.symbols[c.symbol].ends(),
		like: c.likeness(), early: math.MaxInt64}
	if first := c.at[0]; c.added {
		rule.early = r.deeds[r.pulses[first].deed].start
	}
	return rule
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
			h = mix(h, s.id)
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
		g := mix(id, y)
		if b.wide {
			g = mix(g, x)
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

// A stepper cuts a trace into steps by a rule, call by call. It holds one step, at most twice as long as a typical one.
type stepper struct {
	rule *StepRule
	beat beat
	// Of the step that goes on:
	open  bool
	step  Step
	index int      // of the next one
	until int64    // end of the latest one
	due   []bounds // to come, in the order of time
	begun int64    // start of the latest call
	told  Step

	// Of the pulses behind the last cut:
	ids      []uint64
	n        int
	hash     uint64
	short    uint64 // hash without what ends steps
	early    bool   // no cut so far, and a step before the first one
	nth      int64  // end of the last pulse of a usual step
	behind   int64  // start of the pulse behind it, -1 for none
	memo     map[uint64]bool
	overlaps int64 // of marked steps: the end of the latest one

	counters map[uint32]*StepCounter // with a marker, by process
	chosen   bool                    // a process has shown a step: its steps they are
}

// bounds are a moment between steps.
type bounds struct {
	at      int64
	typical bool // the one before
	ends    bool // one
	opens   bool // one
	open    bool // the trace ends
	name    string
}

// maxMemo bounds how many different steps are remembered.
const maxMemo = 1 << 16

func newStepper(rule *StepRule) *stepper {
	if rule.Source == NoSteps {
		return nil
	}
	s := &stepper{rule: rule, beat: beat{lane: rule.lane, threads: rule.threads}, hash: stepHash, short: stepHash, behind: -1, memo: map[uint64]bool{}}
	if rule.Source == Found && rule.early != math.MaxInt64 {
		s.due = append(s.due, bounds{at: rule.early, opens: true})
		s.early = true
	}
	if rule.Source == Told {
		s.counters = map[uint32]*StepCounter{}
	}
	return s
}

// at returns the index of the step that goes on, -1 for none.
func (s *stepper) at() int {
	if s.open {
		return s.index
	}
	return -1
}

// pass goes on to a moment and returns a step that has ended by then, nil when there are no more.
func (s *stepper) pass(now int64) *Step {
	if now != math.MaxInt64 {
		s.begun = now
	}
	for len(s.due) > 0 && s.due[0].at <= now {
		b := s.due[0]
		s.due = s.due[:copy(s.due, s.due[1:])]
		ended := s.open && b.ends && b.at > s.step.From && (!b.open || s.begun >= s.step.From)
		if ended {
			s.told = s.step
			s.told.To, s.told.Typical, s.told.Open = b.at, b.typical, b.open
			s.until = b.at
			s.index++
		}
		s.open = b.opens
		if b.opens {
			s.step = Step{Index: s.index, Name: b.name, From: max(b.at, s.until)}
		}
		if ended {
			return &s.told
		}
	}
	return nil
}

// see takes in a call.
func (s *stepper) see(h *HostCall, k *Task, named *Range) {
	if s.rule.Source == Marked {
		if r := named; r != nil && !r.Mark && r.To > r.From && r.From >= s.overlaps && r.Process == s.rule.Process && r.Domain == s.rule.domain && Stem(r.Name) == s.rule.stem {
			s.overlaps = r.To
			s.due = append(s.due, bounds{at: r.From, opens: true, name: r.Name}, bounds{at: r.To, ends: true, typical: true})
		}
		return
	}
	d, ok := deedOf(h, k)
	if !ok {
		return
	}
	id, ok := s.beat.pulse(&d)
	if !ok {
		return
	}
	if id == s.rule.symbol && !s.rule.behind {
		s.cut(d.start)
	}
	n := s.rule.like.bag.n
	switch s.n++; {
	case s.n == n:
		s.nth = max(d.end, d.start+1)
	case s.n == n+1:
		s.behind = d.start
	}
	if len(s.ids) <= 2*n {
		s.ids = append(s.ids, id)
	}
	s.hash = mix(s.hash, id)
	if d.class < classCopy {
		s.short = mix(s.short, id)
	}
	if id == s.rule.symbol && s.rule.behind {
		s.cut(max(d.end, d.start+1))
	}
}

// count takes in a call where a marker tells steps apart. The first step of a program that has no beginning of its own is not told.
func (s *stepper) count(m *api.Model, process uint32, e *Event) {
	if e.Fn == nil || s.chosen && process != s.rule.Process {
		return
	}
	c := s.counters[process]
	if c == nil {
		c = NewStepCounter(m, s.rule.marker)
		s.counters[process] = c
	}
	name := ""
	if e.Fn.Range != api.NoRange {
		name = e.name()
	}
	was := c.At()
	in := c.See(e.Fn, e.Call.Thread, name)
	if c.At() == was {
		return
	}
	if !s.chosen {
		s.chosen, s.rule.Process, s.index = true, process, c.At()
	}
	at := e.Call.Start
	if in == was {
		at, name = max(e.Call.End, at+1), ""
	}
	s.due = append(s.due, bounds{at: at, ends: true, opens: true, typical: true, name: name})
}

// cut ends a step and begins another one.
func (s *stepper) cut(at int64) {
	typical := s.early || s.typical()
	s.early = false
	s.due = append(s.due, bounds{at: at, ends: true, opens: true, typical: typical})
	s.ids, s.n, s.hash, s.short, s.behind = s.ids[:0], 0, stepHash, stepHash, -1
}

func (s *stepper) typical() bool {
	l := &s.rule.like
	switch {
	case l.how == sameTasks:
		return s.short == l.hash
	case s.hash == l.hash:
		return true
	case l.how == same:
		return false
	}
	like, known := s.memo[s.hash]
	if !known {
		if len(s.memo) == maxMemo {
			clear(s.memo)
		}
		like = l.bag.like(s.ids)
		s.memo[s.hash] = like
	}
	return like
}

// finish ends what goes on at the end of a trace: as a step, where it holds one, else as one that is open.
func (s *stepper) finish(end int64) {
	if s.rule.Source == Marked {
		return
	}
	if s.rule.Source == Told {
		s.due = append(s.due, bounds{at: max(end, s.begun+1), ends: true, open: true})
		return
	}
	n := s.rule.like.bag.n
	if s.n >= n && s.rule.like.bag.like(s.ids[:n]) {
		at := s.nth
		if s.behind >= 0 {
			at = s.behind
		}
		s.due = append(s.due, bounds{at: at, ends: true, typical: true})
		return
	}
	s.due = append(s.due, bounds{at: max(end, s.begun+1), ends: true, open: true})
}
