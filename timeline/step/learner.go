package step

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
)

// maxLearned is the number of ops that are examined at once, 20 MiB. maxTries is the number of such examinations.
const (
	maxLearned = 1 << 19
	maxTries   = 8
)

// A Learner determines the Rule for a trace from its beginning. It takes the ops of calls in order, and ranges in any order.
type Learner struct {
	lanes  func() []Lane // so far
	ops    []Op
	groups map[groupKey]*group
	all    []*group
	tries  int
	best   *Rule // so far
	pass   pass  // latest captures
}

// NewLearner returns a Learner for a trace with a number of calls. lanes returns the lanes so far; Op.Lane is an index into them.
func NewLearner(lanes func() []Lane, calls uint64) *Learner {
	return &Learner{lanes: lanes, groups: map[groupKey]*group{}, ops: make([]Op, 0, min(calls, maxLearned))}
}

// Op takes an op. It returns false if the rule is known, or if the search is over.
func (l *Learner) Op(op Op) (more bool) {
	if len(l.ops) == maxLearned && (l.judge() || l.tries == maxTries) {
		return false
	}
	l.ops = append(l.ops, op)
	return true
}

// warmUps is the number of times that a program runs kernels eagerly before it captures them.
const warmUps = 3

// Captured takes a capture after the call that ends it. The ops of the warm-up runs before captures are dropped. They are no steps, though a program that
// captures many graphs repeats them often.
func (l *Learner) Captured(c *Capture) {
	p := &l.pass
	between := 0
	for i := p.to; i < len(l.ops); i++ {
		if d := &l.ops[i]; d.Class == Launch && d.Process == c.Process {
			between += int(d.Launches)
		}
	}
	if len(p.parts) == 0 || p.process != c.Process || 2*between > p.kernels {
		l.dropWarmUps()
		p.process, p.from = c.Process, len(l.ops)
	}
	p.parts, p.kernels, p.to = append(p.parts, c.Kernels), p.kernels+len(c.Kernels), len(l.ops)
}

// A pass is captures with few launches between them: the parts of a model, or a graph for each of several sizes.
type pass struct {
	process  uint32
	parts    [][]uint64 // kernels by capture
	kernels  int
	from, to int // length of Learner.ops after the first and after the last capture
}

// dropWarmUps drops the ops of the latest pass and of the warm-up runs before it. A run has the kernels of all captures, or of the first ones.
func (l *Learner) dropWarmUps() {
	p := l.pass
	l.pass = pass{}
	for n := len(p.parts); n > 0; n-- {
		at, threads := p.from, map[uint32]bool{}
		for range warmUps {
			at = l.runBefore(at, slices.Concat(p.parts[:n]...), p.process, threads)
		}
		if at == p.from {
			continue
		}
		kept := slices.DeleteFunc(l.ops[at:p.to], func(d Op) bool { return d.Process == p.process && (d.Class < Sync || threads[d.Thread]) })
		l.ops = append(l.ops[:at+len(kept)], l.ops[p.to:]...)
		return
	}
}

// runBefore returns the position in Learner.ops of a run of kernels that ends at a position, with other launches between the kernels, as attention between the
// parts of a model. It adds the threads of the run. Without such a run it returns the end.
func (l *Learner) runBefore(end int, kernels []uint64, process uint32, threads map[uint32]bool) int {
	n := len(kernels)
	if n < 2 {
		return end // a step may be a single kernel
	}
	missing := map[uint64]int{}
	for _, k := range kernels {
		missing[k]++
	}
	at, found, others, in := end, 0, 0, map[uint32]bool{}
	for i := end - 1; i >= 0 && found < n && others <= found+n/8; i-- {
		d := &l.ops[i]
		if d.Class != Launch || d.Process != process {
			continue
		}
		in[d.Thread] = true
		if missing[d.What] == 0 {
			others++
			continue
		}
		missing[d.What]--
		at, found = i, found+1
	}
	if float64(found) < alike*float64(n) {
		return end
	}
	maps.Copy(threads, in)
	return at
}

// Rule returns the rule at the end of the trace, or after Op has returned false. Its Source is None if there is none.
func (l *Learner) Rule() *Rule {
	l.dropWarmUps()
	if was := l.best; len(l.ops) > 0 && (was == nil || was.Source == None) && l.tries < maxTries {
		all := l.ops
		if !l.judge() && was != nil {
			l.best = was
		}
		if l.tries == 1 && l.best.Source == Found {
			l.best.whole = newStepper(l.best)
			l.best.whole.all(all)
		}
	}
	if l.best == nil {
		l.best = &Rule{Source: None, Why: "nothing is launched"}
	}
	return l.best
}

// fewestWarm is the least number of steps of which the first one may be a warm-up, one that takes longer than warmFactor medians.
const (
	fewestWarm = 8
	warmFactor = 10
)

// warm returns the longest duration of a first step that is no warm-up, 0 if too few steps are known.
func (l *Learner) warm(r *Rule) int64 {
	var took []int64
	switch r.Source {
	case Marked:
		for _, g := range l.all {
			if g.process == r.Process && g.domain == r.domain && g.name == r.stem {
				for _, m := range g.ranges {
					took = append(took, m.to-m.from)
				}
			}
		}
	case Found:
		s := newStepper(r)
		s.all(l.ops)
		for p := s.pass(math.MaxInt64); p != nil; p = s.pass(math.MaxInt64) {
			if p.Typical {
				took = append(took, p.To-p.From)
			}
		}
	}
	if len(took) < fewestWarm {
		return 0
	}
	slices.Sort(took)
	return warmFactor * took[len(took)/2]
}

// judge determines a rule from the ops so far, drops them, and returns false if there is none.
func (l *Learner) judge() bool {
	rule := l.found()
	if rule.Source == None {
		rule = cmp.Or(l.marked(1), rule)
	}
	if l.tries++; l.tries > 1 {
		rule.early = math.MaxInt64 // these ops are not at the beginning of the trace
	} else {
		rule.warm = l.warm(rule)
	}
	l.best, l.ops = rule, l.ops[:0]
	return rule.Source != None
}

// found returns the rule by ranges that mark steps, otherwise by repetition.
func (l *Learner) found() *Rule {
	l.dropWarmUps()
	if rule := l.marked(2); rule != nil {
		return rule
	}
	return l.repeated()
}

// Stem returns a name without its numbers: "step 12" and "step 13" have the same stem.
func Stem(name string) string {
	return strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r >= '0' && r <= '9' }), "#")
}

// groupKey identifies a group: ranges with the same stem, which may mark steps.
type groupKey struct {
	process      uint32
	domain, name string
}

type group struct {
	groupKey
	ranges   []marks
	launches int
	named    bool
	overlaps bool // its ranges are nested, or on several threads
}

type marks struct {
	from, to int64
	begin    uint64
}

// Range takes a range.
func (l *Learner) Range(r *Range) {
	if r.To <= r.From {
		return
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
}

// Framework is the domain of a framework's operators from an imported profile. An operator is a part of a step: other threads launch while it waits.
const Framework = "torch"

// marked returns the rule by ranges that mark steps, nil if there are none. A group needs at least as many ranges as least. A single range counts
// only if its name says step, as when a profiler records a single step.
func (l *Learner) marked(least int) *Rule {
	var all []*group
	for _, g := range l.all {
		if !g.overlaps && len(g.ranges) >= least && (len(g.ranges) > 1 && g.domain != Framework || namesStep(g.name)) {
			all = append(all, g)
		}
	}
	// Each remaining group is a list of ranges in the order of time. It is inside another group if its first range is inside a range there.
	within := func(in, out *group) bool {
		r := in.ranges[0]
		i := sort.Search(len(out.ranges), func(i int) bool { return out.ranges[i].from > r.from }) - 1
		if i < 0 || in.process != out.process || in == out {
			return false
		}
		o := out.ranges[i]
		return o.begin != r.begin && r.to <= o.to && (r.from > o.from || r.begin > o.begin)
	}
	issued := map[uint32][]int64{} // launch times, by process
	for i := range l.ops {
		if d := &l.ops[i]; d.Class == Launch && len(all) > 0 {
			issued[d.Process] = append(issued[d.Process], d.Start)
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
	return &Rule{Source: Marked, Process: best.process, domain: best.domain, stem: best.name}
}

// beat returns the beat on a lane, or for anyLane on a thread.
func (l *Learner) beat(process uint32, lane int, thread uint32) *beat {
	b := &beat{process: process, lane: lane, thread: thread, threads: map[uint32]bool{}, others: map[int32]bool{}}
	devices := map[int32]int32{} // of the lanes
	for i := range l.ops {
		switch d := &l.ops[i]; {
		case d.Class != Launch || d.Process != process:
		case d.Lane == int32(lane) || lane == anyLane && d.Thread == thread:
			b.threads[d.Thread], devices[d.Lane] = true, d.Device
		default:
			b.others[d.Lane] = true
		}
	}
	for lane := range devices {
		delete(b.others, lane)
	}
	waited := func(d *Op) bool {
		if d.Lane != AllLanes {
			_, ok := devices[d.Lane]
			return ok
		}
		for _, device := range devices {
			if d.Device < 0 || device < 0 || d.Device == device {
				return true
			}
		}
		return false
	}
	for i := range l.ops {
		if d := &l.ops[i]; d.Class == Sync && !d.Event && d.Process == process && waited(d) {
			b.threads[d.Thread] = true
		}
	}
	b.reset()
	return b
}

// rhythm returns the pulses of a beat.
func (l *Learner) rhythm(b *beat) *rhythm {
	r := &rhythm{ops: l.ops, pulses: make([]pulse, 0, len(l.ops)), tasks: make([]int, 1, len(l.ops)+1), launches: make([]int, 1, len(l.ops)+1), beat: b}
	ids := map[uint64]int32{}
	for i := range l.ops {
		d := &l.ops[i]
		id, class, ok := r.beat.pulse(d)
		if !ok {
			continue
		}
		at, ok := ids[id]
		if !ok {
			at = int32(len(r.symbols))
			ids[id] = at
			r.symbols = append(r.symbols, symbol{id: id, class: class, first: len(r.pulses), wait: d.Class == Sync})
		}
		n := len(r.pulses)
		if n > 0 && class >= CopyOut {
			r.symbols[r.pulses[n-1].symbol].followed++
		}
		r.symbols[at].count++
		r.pulses = append(r.pulses, pulse{at, int32(i)})
		r.tasks = append(r.tasks, r.tasks[n]+max(1, int(d.Launches)))
		r.launches = append(r.launches, r.launches[n]+int(d.Launches))
	}
	return r
}

// repeated finds steps by repetition on the lane, or on the thread, with the most launches. The thread comes first if it launches mostly on other
// lanes, or the same kernels there, as in a server with a stream for each request.
func (l *Learner) repeated() *Rule {
	lanes := l.lanes()
	lane, onLane := most(l.ops, func(d *Op) int { return int(d.Lane) })
	if lane < 0 {
		return &Rule{Source: None, Why: "nothing is launched"}
	}
	process := lanes[lane].Process
	thread, ofThread := most(l.ops, func(d *Op) int { return int(d.Thread) })
	byLane := func() *Rule { return l.rhythm(l.beat(process, lane, 0)).rule() }
	byThread := func() *Rule { return l.rhythm(l.beat(l.processOf(thread), anyLane, uint32(thread))).rule() }
	tries := []func() *Rule{byLane, byThread}
	if 2*onLane < ofThread || l.interchangeable(int32(lane), uint32(thread)) {
		slices.Reverse(tries)
	}
	for _, try := range tries {
		if rule := try(); rule != nil {
			return rule
		}
	}
	return &Rule{Source: None, Process: process, Why: fmt.Sprintf("no range, wait, copy or kernel repeats %d times with like work between, on %s and on the thread that launches most",
		minSteps, lanes[lane].Name)}
}

// interchangeable reports whether most launches by a thread on other lanes than one are launches of kernels that it launches there too. A few
// launches elsewhere are not enough.
func (l *Learner) interchangeable(lane int32, thread uint32) bool {
	here := map[uint64]bool{}
	same, others, on := 0, 0, 0
	for i := range l.ops {
		if d := &l.ops[i]; d.Class == Launch && d.Lane == lane && d.Thread == thread {
			here[d.What] = true
			on++
		}
	}
	for i := range l.ops {
		if d := &l.ops[i]; d.Class == Launch && d.Lane != lane && d.Thread == thread {
			others++
			if here[d.What] {
				same++
			}
		}
	}
	return 2*same > others && 2*others >= on
}

// most returns the key with the most launches and their number: the lowest key if several have as many, -1 without launches.
func most(ops []Op, key func(*Op) int) (best, launches int) {
	counts := map[int]int{}
	for i := range ops {
		if d := &ops[i]; d.Class == Launch {
			counts[key(d)] += int(d.Launches)
		}
	}
	best = -1
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		if counts[k] > launches {
			best, launches = k, counts[k]
		}
	}
	return best, launches
}

// processOf returns the process for a thread that launches something.
func (l *Learner) processOf(thread int) uint32 {
	i := slices.IndexFunc(l.ops, func(d Op) bool { return d.Class == Launch && int(d.Thread) == thread })
	return l.ops[i].Process
}

// rule returns the rule for the best cut, nil if there is none.
func (r *rhythm) rule() *Rule {
	two := r.twoKinds()
	c := r.choose()
	if c == nil {
		r.late = true
		c = r.choose()
	}
	if c == nil && two == nil {
		return nil
	}
	if c != nil {
		c = c.align().apart()
		c.first()
	}
	if c == nil || two != nil && (c.where == before || two.both > len(c.at)) { // a cut before a kernel may be one of a part of a step
		c = two
		c.first()
	}
	return &Rule{Source: Found, Process: r.beat.process, beat: r.beat, symbol: r.symbols[c.symbol].id, other: r.symbols[c.other].id,
		class: r.symbols[c.symbol].class, where: c.where, like: c.likeness(), early: c.begin()}
}

// begin returns the begin of the first step.
func (c *cut) begin() int64 {
	if c.where == after && !c.added {
		return c.r.ops[c.r.pulses[c.at[0]-1].op].end()
	}
	return c.r.ops[c.r.pulses[c.at[0]].op].Start
}
