package spans

import (
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
)

// Folding bounds the spans of a trace. A run of small neighbours, with all that is in them, becomes one span with their
// count and total, and one span for their tasks on each lane. Long calls and tasks stay, as do failed and unfinished
// calls, gaps, and the critical path, as far as there is room.

// A folding is a part that is being folded.
type folding struct {
	p       *part
	weights [][]int64 // by thread and node: the longest time in its subtree, keep for nodes that stay
	stamps  []int     // by lane: the latest run with a task there
	runs    int
}

// keep is the weight of a node that stays.
const keep = math.MaxInt64

// fold marks the runs of a part that become one span each.
func (x *Encoder) fold(p *part) {
	limit := x.limit(p)
	if p.spans()+len(x.rows.lanes) <= limit {
		return
	}
	limit -= len(p.threads) + len(p.gaps) + len(x.rows.lanes) + 1
	f := &folding{p: p, stamps: make([]int, len(x.rows.lanes))}
	most := limit * 2 / 3 // spans, while runs are as long as possible
	var all []int64
	for stay := limit / 4; ; stay /= 2 {
		if all = f.weigh(stay); stay == 0 || f.count(keep, maxNodes) <= most {
			break
		}
	}
	slices.Sort(all)
	// The longest nodes stay, as long as they leave a third of the spans. Then runs are as short as possible.
	n := len(all)
	least := slices.IndexFunc(all, func(w int64) bool { return w == keep })
	if least < 0 {
		least = n
	}
	i, _ := slices.BinarySearchFunc(all[:least], most, func(w int64, want int) int {
		if f.count(w, maxNodes) <= want {
			return 1
		}
		return -1
	})
	small := int64(keep)
	if i < least {
		small = all[i]
	}
	longest, fits := 2, maxNodes
	for longest < fits {
		if half := (longest + fits) / 2; f.count(small, half) <= limit {
			fits = half
		} else {
			longest = half + 1
		}
	}
	f.mark(small, fits)
}

// limit returns the most spans of a part. Long names lower it, so that the part stays within MaxBytes.
func (x *Encoder) limit(p *part) int {
	if x.o.MaxSpans == math.MaxInt {
		return x.o.MaxSpans
	}
	bytes, count := 0, 0
	for _, m := range p.threads {
		for _, s := range m.stacks {
			bytes += len(s.attr)
		}
		for i := range int32(m.nodes.n) {
			n := m.nodes.at(i)
			bytes, count = bytes+nodeBytes, count+1
			switch n.kind {
			case callNode:
				bytes += len(n.what.call) + len(n.what.name)
				if n.more > 0 && m.waits[n.more-1].what != nil {
					bytes += len(m.waits[n.more-1].what.waited)
				}
				if n.task < 0 || !m.tasks.at(n.task).own {
					bytes += len(n.what.about)
					break
				}
				bytes, count = bytes+taskBytes+len(n.what.task[unknown])+len(n.what.about), count+1
			case rangeNode:
				bytes += len(m.ranges[n.more].Name) + len(m.ranges[n.more].Domain) + len(x.rows.threads[m.index].attrs)
			}
		}
	}
	if bytes+rootBytes <= x.o.MaxBytes {
		return x.o.MaxSpans
	}
	return min(x.o.MaxSpans, int(float64(count)*float64(x.o.MaxBytes-rootBytes)/float64(bytes)))
}

// Upper bounds for encoded sizes without names.
const (
	nodeBytes = 256
	taskBytes = 320
	rootBytes = 16 << 10
)

// weigh sets the weights, and the ends of subtrees. It returns all weights. At most so many nodes stay whatever their
// length.
func (f *folding) weigh(stay int) (all []int64) {
	f.weights = f.weights[:0]
	least := f.least(stay)
	for _, m := range f.p.threads {
		w := make([]int64, m.nodes.n)
		for i := int32(m.nodes.n) - 1; i >= 0; i-- {
			n := m.nodes.at(i)
			n.until = max(n.until, i+1)
			own := n.end - n.start
			if n.task >= 0 {
				if k := m.tasks.at(n.task); k.own && k.ending == measured {
					own = max(own, k.to-k.from)
				}
			}
			if stay > 0 && (n.exceptional() || n.onPath(m) >= least) {
				own = keep
				stay--
			}
			w[i] = max(w[i], own)
			if n.parent >= 0 {
				up := m.nodes.at(n.parent)
				w[n.parent], up.until = max(w[n.parent], w[i]), max(up.until, n.until)
			}
		}
		f.weights = append(f.weights, w)
		all = append(all, w...)
	}
	return all
}

// least returns the shortest time on the critical path with which a node stays, so that at most so many nodes do.
func (f *folding) least(stay int) int64 {
	var times []int64
	for _, m := range f.p.threads {
		for i := range int32(m.nodes.n) {
			n := m.nodes.at(i)
			if n.exceptional() {
				stay--
			} else if ns := n.onPath(m); ns > 0 {
				times = append(times, ns)
			}
		}
	}
	switch {
	case len(times) <= stay:
		return 1
	case stay <= 0:
		return keep
	}
	slices.Sort(times)
	return times[len(times)-stay]
}

// exceptional reports whether a node is an error, a gap, or not whole. It is to stay whatever its length.
func (n *node) exceptional() bool { return n.failed || n.flags != 0 || n.kind == gapNodeKind }

// onPath returns the time of a node or its task on the critical path.
func (n *node) onPath(m *member) int64 {
	if n.task < 0 {
		return n.critical
	}
	return max(n.critical, m.tasks.at(n.task).critical)
}

// each goes through the nodes that stay and the runs, if nodes lighter than small become runs of at most longest nodes. A
// run of one call is no run.
func (f *folding) each(small int64, longest int, one func(m *member, i int32), run func(m *member, i, j int32)) {
	for t, m := range f.p.threads {
		w := f.weights[t]
		for i := int32(0); i < int32(m.nodes.n); {
			if w[i] >= small {
				one(m, i)
				i++
				continue
			}
			j := m.nodes.at(i).until
			for j < int32(m.nodes.n) && m.nodes.at(j).parent == m.nodes.at(i).parent && w[j] < small && int(m.nodes.at(j).until-i) <= longest {
				j = m.nodes.at(j).until
			}
			if j == i+1 {
				one(m, i)
			} else {
				run(m, i, j)
			}
			i = j
		}
	}
}

// count returns the number of spans.
func (f *folding) count(small int64, longest int) (n int) {
	f.each(small, longest, func(m *member, i int32) {
		n++
		if k := m.nodes.at(i).task; k >= 0 && m.tasks.at(k).own {
			n++
		}
	}, func(m *member, i, j int32) {
		n++
		f.runs++
		for ; i < j; i++ {
			if k := m.nodes.at(i).task; k >= 0 && m.tasks.at(k).own && f.stamps[m.tasks.at(k).lane] != f.runs {
				f.stamps[m.tasks.at(k).lane] = f.runs
				n++
			}
		}
	})
	return n
}

// mark marks the runs.
func (f *folding) mark(small int64, longest int) {
	f.each(small, longest, func(*member, int32) {}, func(m *member, i, j int32) { m.nodes.at(i).fold = j })
}

// A run sums up nodes that become one span.
type run struct {
	calls    int
	launches int
	failed   int
	ns       int64    // of the nodes
	what     *subject // of all calls, nil if they differ
	last     uint64   // call
	lanes    []laneRun
}

// A laneRun sums up the tasks of a run on one lane.
type laneRun struct {
	lane     int32
	tasks    int
	kernels  int
	measured int
	ns       int64    // of measured tasks
	what     *subject // of all tasks, nil if they differ
	extent   extent
	first    uint64 // call
	async    bool
}

// survey sums up the nodes from i to j.
func (r *run) survey(m *member, i, j int32) {
	*r = run{lanes: r.lanes[:0]}
	for k := i; k < j; k = m.nodes.at(k).until {
		r.ns += m.nodes.at(k).end - m.nodes.at(k).start
	}
	for ; i < j; i++ {
		n := m.nodes.at(i)
		if n.kind != callNode {
			continue
		}
		if r.calls++; r.calls == 1 {
			r.what = n.what
		} else if r.what != n.what {
			r.what = nil
		}
		if n.what.launch {
			r.launches++
		}
		if n.failed {
			r.failed++
		}
		r.last = n.number
		if n.task >= 0 && m.tasks.at(n.task).own {
			r.task(n, m.tasks.at(n.task))
		}
	}
}

func (r *run) task(n *node, k *task) {
	i := slices.IndexFunc(r.lanes, func(l laneRun) bool { return l.lane == k.lane })
	if i < 0 {
		i = len(r.lanes)
		r.lanes = append(r.lanes, laneRun{lane: k.lane, what: n.what, first: n.number, async: k.async})
	}
	l := &r.lanes[i]
	l.tasks++
	if k.kind == api.Kernel {
		l.kernels++
	}
	if l.what != n.what {
		l.what = nil
	}
	from, to := k.from, k.to
	switch k.ending {
	case measured:
		l.measured++
		l.ns += k.to - k.from
	case unknown:
		from, to = n.start, n.start
	}
	l.extent.add(from, to)
}

// counted names a number of things: "linear 7 times", "7 kernels", "7 calls".
func counted(n int, what *subject, noun string) string {
	if what != nil && n > 1 {
		return what.text + " " + human.Count(n) + " times"
	}
	return human.Plural(n, noun)
}

// emitFold emits a run of nodes as one span, with one for its tasks on each lane.
func (x *Encoder) emitFold(m *member, i, j int32, above otlp.SpanID) {
	r, p, keys := &x.out.run, m.part, x.src.Keys
	r.survey(m, i, j)
	p.folded += r.calls
	first, end := m.nodes.at(i), int64(0)
	for k := i; k < j; k = m.nodes.at(k).until {
		end = max(end, m.nodes.at(k).end)
	}
	name := counted(r.calls, r.what, "call")
	switch {
	case first.until == j && first.kind == rangeNode:
		name = otlp.Valid(m.ranges[first.more].Name) + ": " + name
	case first.until == j:
		name = first.what.text + ": " + name
	case r.launches == r.calls:
		name = "launch " + counted(r.calls, r.what, "kernel")
	}
	id := p.Span(otlp.FoldSpan, first.number)
	g, b, at := x.begin(x.src.Hosts[x.rows.threads[m.index].process], p, id, above)
	b = append(b, nameField(name+", "+human.Duration(r.ns), otlp.Internal)...)
	b = x.times(b, first.start, end)
	b = otlp.PutNumber(b, otlp.SpanAttributes, keys[otlp.KeyCall], int64(first.number))
	b = otlp.PutNumber(b, otlp.SpanAttributes, keys[otlp.KeyLastCall], int64(r.last))
	b = otlp.PutNumber(b, otlp.SpanAttributes, keys[otlp.KeyCount], int64(r.calls))
	b = otlp.PutNumber(b, otlp.SpanAttributes, keys[otlp.KeyTotalNS], r.ns)
	if r.failed > 0 {
		b = otlp.PutError(b, human.Plural(r.failed, "failed call"))
	}
	x.end(g, b, at)
	for k := range r.lanes {
		x.emitLaneFold(p, &r.lanes[k], id)
	}
}

func (x *Encoder) emitLaneFold(p *part, r *laneRun, fold otlp.SpanID) {
	keys, l := x.src.Keys, &x.rows.lanes[r.lane]
	noun, kind := "task", byte(otlp.Internal)
	if r.kernels == r.tasks {
		noun = "kernel"
	}
	if r.async {
		kind = otlp.Consumer
	}
	name := counted(r.tasks, r.what, noun)
	switch r.measured {
	case r.tasks:
		name += ", " + human.Duration(r.ns)
	case 0:
		name += endings[bracket]
	default:
		name += ", " + human.Count(r.measured) + " measured: " + human.Duration(r.ns)
	}
	from, to := r.extent.start, r.extent.end
	g, b, at := x.begin(l.res.Resource, p, p.Span(otlp.FoldTaskSpan, r.first), x.above(p, l, int(r.lane), fold, from, to))
	b = append(b, nameField(name, kind)...)
	b = x.times(b, from, to)
	b = append(b, l.res.Span...)
	if r.what != nil {
		b = append(b, r.what.about...)
	}
	if x.o.Layout == Nested {
		b = append(b, l.stream...)
	}
	b = otlp.PutNumber(b, otlp.SpanAttributes, keys[otlp.KeyCount], int64(r.tasks))
	if r.measured > 0 {
		b = otlp.PutNumber(b, otlp.SpanAttributes, keys[otlp.KeyDeviceNS], r.ns)
	}
	if x.o.Layout == Lanes {
		b = otlp.PutLink(b, &p.Trace, fold)
	}
	x.end(g, b, at)
}
