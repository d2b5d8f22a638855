package spans

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/operator"
)

// The tree of a trace: its root, threads if there are several, and on each thread nodes within nodes. A node is the child
// of the innermost earlier node that contains it in time: a launch in its range, and a call in the call that makes it. In
// layout Nested a task is under its call, in layout Lanes under its lane.

// A nodeKind is the level of a node. Levels between ranges and calls go here.
type nodeKind uint8

const (
	callNode nodeKind = iota
	rangeNode
	gapNodeKind
)

// spanKind is the subject for a node's span id, by nodeKind.
var spanKind = [...]uint64{callNode: otlp.CallSpan, rangeNode: otlp.RangeSpan, gapNodeKind: otlp.GapSpan}

// A node is a call, range or gap on a thread.
type node struct {
	start, end int64
	number     uint64 // of the call, the call that begins the range, or the gap
	ret        uint64
	critical   int64 // nanoseconds on the step's critical path
	what       *subject
	parent     int32 // node, -1 for none
	until      int32 // end of the node's subtree
	task       int32 // in member.tasks, -1 for none
	fold       int32 // end of the run that begins here and becomes one span, 0 for none
	more       int32 // of a range or gap: in member.ranges or member.gaps; of a call that waits: after it in member.waits, or 0
	kind       nodeKind
	flags      format.CallFlags
	failed     bool
}

// A task is a node's task, with the times to draw.
type task struct {
	from, to int64 // to is the earliest end unless the task was measured
	atMost   int64 // the longest time that it can have taken, 0 if unknown
	critical int64 // nanoseconds on the step's critical path
	bytes    uint64
	lane     int32
	blocks   uint32
	id       uint32
	kind     api.Task
	ending   uint8
	hasID    bool
	async    bool // on a stream
	own      bool // has a span of its own
}

// A member is a thread with its nodes in a part.
type member struct {
	part   *part
	index  int // row
	id     otlp.SpanID
	extent extent
	nodes  slab[node]
	tasks  slab[task]
	waits  []*work
	stacks []callStack
	stack  int // next of stacks to emit
	ranges []named
	gaps   []format.Gap
	open   []int32 // nodes that may contain later nodes
}

// named is a range of the program, or a part of an operator.
type named struct {
	timeline.Range
	operator string // "" for a range
	phase    operator.Phase
}

// A slab is a list whose elements don't move when it grows.
type slab[T any] struct {
	chunks []*chunk[T]
	n      int
}

type chunk[T any] [256]T

// at returns an element.
func (s *slab[T]) at(i int32) *T { return &s.chunks[uint32(i)/256][uint32(i)%256] }

// add adds an element, with any value, in a free chunk if need be.
func (s *slab[T]) add(free *[]*chunk[T]) *T {
	if s.n == 256*len(s.chunks) {
		c := (*chunk[T])(nil)
		if n := len(*free); n > 0 {
			c, *free = (*free)[n-1], (*free)[:n-1]
		} else {
			c = new(chunk[T])
		}
		s.chunks = append(s.chunks, c)
	}
	s.n++
	return s.at(int32(s.n - 1))
}

// release makes the chunks free.
func (s *slab[T]) release(free *[]*chunk[T]) {
	*free = append(*free, s.chunks...)
	*s = slab[T]{}
}

// A gapNode is a gap on no known thread.
type gapNode struct {
	format.Gap
	number int
}

// onThread returns the part's member for a thread.
func (x *Encoder) onThread(p *part, th int) *member {
	t := &x.rows.threads[th]
	if t.in == nil || t.in.part != p {
		t.in = &member{part: p, index: th, id: p.Span(otlp.ThreadSpan, uint64(th))}
		p.threads = append(p.threads, t.in)
	}
	return t.in
}

// add adds a node, which starts after all earlier ones and may contain later ones.
func (x *Encoder) add(m *member, start, end int64, contains bool) *node {
	for len(m.open) > 0 && m.nodes.at(m.open[len(m.open)-1]).end <= start {
		m.open = m.open[:len(m.open)-1]
	}
	parent := int32(-1)
	for i := len(m.open) - 1; i >= 0; i-- {
		if m.nodes.at(m.open[i]).end >= end {
			parent = m.open[i]
			break
		}
	}
	if contains && end > start {
		m.open = append(m.open, int32(m.nodes.n))
	}
	m.extent.add(start, max(start+1, end))
	m.part.extent.add(start, max(start+1, end))
	m.part.nodes++
	x.out.held++
	n := m.nodes.add(&x.out.nodes)
	*n = node{start: start, end: end, parent: parent, task: -1}
	return n
}

// call adds a call, the range that it begins, and its task.
func (x *Encoder) call(c *timeline.HostCall, t *timeline.Task, f Facts) error {
	th := x.rows.thread(c.Thread)
	var requests []*request
	if len(x.rows.threads[th].requests) > 0 {
		requests = x.inRequests(c, t, f)
	}
	p := x.room(c.During)
	p.calls++
	m := x.onThread(p, th)
	if r := x.named; r != nil {
		x.named = nil
		// Where an open range ends is unknown, so it contains nothing.
		n := x.add(m, r.From, max(r.From, r.To), !r.Open)
		n.number, n.kind, n.more = r.Begin, rangeNode, int32(len(m.ranges))
		m.ranges = append(m.ranges, *r)
	}
	if c.Fn != nil && c.Fn.EntryMark() { // the operator's part shows it
		if x.path != nil {
			x.path.Call(c, t, f.links, noRef)
		}
		return x.out.err
	}
	n := x.add(m, c.Start, x.src.w.CallEnd(c), true)
	n.number, n.ret, n.what, n.flags, n.failed = c.Index, c.Ret, f.what, c.Flags, c.Wrong() || c.Hung()
	if x.path != nil {
		x.path.Call(c, t, f.links, ref(m))
	}
	if f.stack != nil {
		m.stacks = append(m.stacks, callStack{int32(m.nodes.n - 1), f.stack})
	}
	if f.waited != nil {
		m.waits = append(m.waits, f.waited)
		n.more = int32(len(m.waits))
	}
	if t == nil {
		return x.out.err
	}
	n.task = int32(m.tasks.n)
	own := t.Measured || t.Fn.Stream >= 0 && x.o.Brackets != BracketsNone
	*m.tasks.add(&x.out.tasks) = task{from: f.from, to: f.earliest, bytes: t.Bytes, lane: int32(t.Lane), blocks: t.Blocks, id: t.TaskID, hasID: t.HasID, kind: t.Kind,
		ending: unknown, async: t.Fn.Stream >= 0, own: own}
	if t.Measured {
		m.tasks.at(n.task).ending = measured
	}
	if own {
		p.tasks++
	}
	p.waiting++
	l := &x.rows.lanes[t.Lane]
	l.waiting = append(l.waiting, waiting{m, n.task, requests})
	return x.out.err
}

// task ends a task. On each lane, tasks end in call order.
func (x *Encoder) task(t *timeline.Task) error {
	l := &x.rows.lanes[t.Lane]
	w := l.waiting[l.first]
	for _, q := range w.requests {
		q.task(t)
	}
	if l.first++; l.first == len(l.waiting) {
		l.waiting, l.first = l.waiting[:0], 0
	} else if 2*l.first > cap(l.waiting) {
		l.waiting, l.first = append(l.waiting[:0], l.waiting[l.first:]...), 0
	}
	p := w.in.part
	p.waiting--
	if p.emitted {
		return x.out.err // it was given up
	}
	k := w.in.tasks.at(w.task)
	switch {
	case t.Measured, t.Open:
	case t.Kind == api.Wait:
		k.ending, k.atMost = bracket, t.To-k.from
	default: // it began when the task before it had ended
		k.ending, k.atMost = bracket, t.To-k.to
	}
	x.done(p)
	return x.out.err
}

// nextGap adds the next gap.
func (x *Encoder) nextGap() {
	g, number := x.gaps[0], x.gap
	x.gaps, x.gap = x.gaps[1:], x.gap+1
	step := -1
	if x.parts.current != nil {
		step = x.parts.current.step
	}
	p := x.room(step)
	if g.Thread == format.NoThread {
		p.extent.add(g.From, g.To)
		p.nodes++
		x.out.held++
		p.gaps = append(p.gaps, gapNode{g, number})
		return
	}
	m := x.onThread(p, x.rows.thread(g.Thread))
	n := x.add(m, g.From, max(g.From, g.To), false)
	n.number, n.kind, n.more = uint64(number), gapNodeKind, int32(len(m.gaps))
	m.gaps = append(m.gaps, g)
}
