package spans

import (
	"encoding/hex"

	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline/step"
)

// parts are the traces that an encoder makes.
type parts struct {
	current   *part   // receives calls; nil before the first call
	inStep    []*part // their step has not ended
	full      []*part // their spans are held, in order; the last one is current
	made      int
	completed int
	origin    origin // for new parts
	inherited int    // spans of earlier parts in the parent's trace
}

// A part becomes one trace. It holds a step's calls and gaps, or those between two steps, up to maxNodes. It is emitted in
// two steps: its tree once it is closed and all its tasks have ended, and its root once the step has ended too.
type part struct {
	otlp.IDs
	number      int
	step        int        // -1 if none
	ended       *step.Step // nil until the step has ended
	first, last bool       // whether it is the step's first or last part
	closed      bool       // receives no more calls
	emitted     bool       // except for its root
	inStep      bool       // the step has not ended
	nodes       int
	tasks       int
	calls       int
	folded      int // calls
	extent      extent
	threads     []*member
	gaps        []gapNode
	waiting     int // tasks in progress
	neighbours  neighbours
	entries     []string // longest entries of the step's critical path
	origin      origin
	inherits    bool // lies in the parent's trace
	thread      int  // the only thread; -1 if there are several or none
}

// neighbours are the recording's previous and next trace; zero for none.
type neighbours struct{ before, after otlp.TraceID }

// An origin holds the properties that all parts of a recording, step or request share.
type origin struct {
	parent otlp.Parent // the roots' parent
	title  string      // the roots' title; "" if the step gives it
	why    string      // sampled attribute, "" if everything is exported
}

const (
	// maxNodes limits the calls, ranges and gaps of one trace.
	maxNodes = 1 << 17
	// maxHeld limits the nodes that are held: about 60 MiB with their tasks. Beyond it, the oldest part is emitted. Its tasks
	// in progress then have an unknown end.
	maxHeld = 1 << 18
)

type extent struct {
	start, end int64
	any        bool
}

func (e *extent) add(start, end int64) {
	if !e.any {
		*e = extent{start, end, true}
		return
	}
	e.start, e.end = min(e.start, start), max(e.end, end)
}

// spans is an upper bound for the part's spans before folding, without its lanes.
func (p *part) spans() int { return 1 + len(p.threads) + p.nodes + p.tasks }

// room returns the part that takes a step's next call or gap. If the current part is full or belongs to another step, room
// starts the next part.
func (x *Encoder) room(step int) *part {
	p := x.parts.current
	if p != nil && p.step == step && p.nodes < x.out.maxNodes {
		return p
	}
	next := &part{IDs: otlp.NewIDs(x.src.Meta.UUID, x.cut, x.parts.made), number: x.parts.made, step: step, first: true, last: true, thread: -1}
	if step >= 0 {
		next.inStep = true
		x.parts.inStep = append(x.parts.inStep, next)
	}
	x.parts.made++
	x.adopt(next)
	if p == nil {
		x.result.FirstTraceID = hex.EncodeToString(next.Trace[:])
	} else {
		p.last = p.step != step
		next.first = p.last
		next.neighbours.before, p.neighbours.after = p.Trace, next.Trace
		x.close(p)
	}
	x.parts.current = next
	x.parts.full = append(x.parts.full, next)
	for x.out.held > x.out.maxHeld && x.parts.full[0] != next {
		old := x.parts.full[0]
		x.emit(old)
		x.done(old)
	}
	return next
}

// Inherit makes a recording's roots children of the span in its TRACEPARENT.
func (x *Encoder) Inherit() {
	x.parts.origin.parent, _ = otlp.ParseParent(x.src.Meta.Env["TRACEPARENT"])
}

// adopt sets a new part's origin. Viewers show a trace as a whole, so a part joins its parent's trace only until the
// recording has MaxSpans spans there. Later parts have their own traces.
func (x *Encoder) adopt(p *part) {
	p.origin = x.parts.origin
	if p.origin.parent.Id == 0 {
		return
	}
	if b := x.parts.current; b != nil && b.inherits {
		x.parts.inherited += min(b.spans(), x.o.MaxSpans)
	}
	if p.inherits = x.parts.inherited < x.o.MaxSpans; p.inherits {
		p.Trace = p.origin.parent.Trace
	}
}

// close records that a part receives no more calls.
func (x *Encoder) close(p *part) {
	p.closed = true
	x.done(p)
}

// done emits the spans of a part that are complete.
func (x *Encoder) done(p *part) {
	if p.closed && p.waiting == 0 && !p.emitted && !(p.inStep && x.path != nil) {
		x.emit(p)
	}
	if p.emitted && !p.inStep {
		x.emitRoot(p)
		x.parts.completed++
		if x.out.traces++; x.o.Traced != nil {
			x.o.Traced(x.out.traces)
		}
		x.result.noteStep(p)
	}
}

// emit emits a part's spans except for its root.
func (x *Encoder) emit(p *part) {
	for i, q := range x.parts.full {
		if q == p {
			x.parts.full = append(x.parts.full[:i], x.parts.full[i+1:]...)
			break
		}
	}
	p.emitted = true
	x.out.held -= p.nodes
	if len(p.threads) == 1 {
		p.thread = p.threads[0].index
	}
	x.emitTree(p)
	for _, m := range p.threads {
		m.nodes.release(&x.out.nodes)
		m.tasks.release(&x.out.tasks)
		*m = member{part: p} // tasks in progress, which are given up, refer to it
	}
}
