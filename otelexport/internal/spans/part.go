package spans

import (
	"cmp"
	"encoding/hex"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline/step"
)

// parts are the traces that an encoder makes.
type parts struct {
	current   *part   // receives calls; nil before the first call
	inStep    []*part // their step has not ended
	made      int
	completed int
	origin    origin // for new parts
	inherited int    // spans of completed parts in the parent's trace
}

// A part becomes one trace. It holds a step's calls and gaps, or those between two steps, up to MaxSpans spans and
// MaxBytes.
type part struct {
	otlp.IDs
	number         int
	step           int        // -1 if none
	ended          *step.Step // nil until the step has ended
	first, last    bool       // whether it is the step's first or last part
	continued      bool       // another part follows
	spans, bytes   int
	calls          int
	extent         extent
	threads, lanes []*member
	waiting        int // tasks in progress, plus one for the step
	before, after  otlp.Link
	origin         origin
	inherits       bool // lies in the parent's trace
}

// An origin holds the properties that all parts of a recording, step or request share.
type origin struct {
	parent otlp.Parent // the roots' parent
	title  string      // the roots' title; "" if the step gives it
	why    string      // sampled attribute, "" if everything is exported
}

// A member is a thread or lane with spans in a part.
type member struct {
	part   *part
	index  int
	id     otlp.SpanID
	extent extent
}

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

// add widens the extents of the member and its part.
func (m *member) add(start, end int64) {
	m.extent.add(start, end)
	m.part.extent.add(start, end)
}

func (m *member) of(p *part) bool { return m != nil && m.part == p }

// Upper bounds for encoded sizes: the fields that every span has; a true or text attribute, without the text; a link; a
// root or gap without its names.
const (
	spanBytes = 3 + 18 + 10 + 10 + 4 + 18
	flagBytes = 3 + 2 + 14 + 2 + 3
	linkBytes = 30
	fewBytes  = 1 << 10
)

// numberBytes is an upper bound for an encoded number attribute.
func numberBytes(v uint64) int { return 2 + 2 + 9 + 2 + 1 + otlp.VarintLen(v) }

// room returns the part that takes a step's call or gap, which needs this many spans and bytes. A new thread or lane
// needs more. If the current part is full or belongs to another step, room starts the next part.
func (x *Encoder) room(step, thread, lane, spans, bytes int) *part {
	p := x.parts.current
	if p != nil && p.step == step {
		n, size := spans, bytes
		if thread >= 0 && !x.rows.threads[thread].in.of(p) {
			n, size = n+1, size+spanBytes+len(x.rows.threads[thread].name)+len(x.rows.threads[thread].attrs)
		}
		if lane >= 0 && !x.rows.lanes[lane].in.of(p) {
			n, size = n+1, size+spanBytes+len(x.rows.lanes[lane].field)+numberBytes(1<<32)
		}
		if p.spans+n <= x.o.MaxSpans && p.bytes+size <= x.o.MaxBytes {
			p.spans, p.bytes = p.spans+spans, p.bytes+bytes
			return p
		}
	}
	next := &part{IDs: otlp.NewIDs(x.src.Meta.UUID, x.cut, x.parts.made), number: x.parts.made, step: step, first: true, last: true, spans: 1 + spans, bytes: fewBytes + bytes}
	if step >= 0 {
		next.bytes += format.InlineLimit // for its name
		next.waiting++
		x.parts.inStep = append(x.parts.inStep, next)
	}
	x.parts.made++
	x.adopt(next)
	if p == nil {
		x.result.FirstTraceID = hex.EncodeToString(next.Trace[:])
	} else {
		p.continued = true
		p.last = p.step != step
		next.first = p.last
		next.before = p.Link(otlp.RootSpan, 0)
		p.after = next.Link(otlp.RootSpan, 0)
		x.close(p)
	}
	x.parts.current = next
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
		x.parts.inherited += b.spans
	}
	if p.inherits = x.parts.inherited < x.o.MaxSpans; p.inherits {
		p.Trace = p.origin.parent.Trace
	}
}

// onThread returns the part's member for a thread.
func (x *Encoder) onThread(p *part, th int) *member {
	t := &x.rows.threads[th]
	if !t.in.of(p) {
		t.in = &member{part: p, index: th, id: p.Span(otlp.ThreadSpan, uint64(th))}
		p.threads = append(p.threads, t.in)
		p.spans, p.bytes = p.spans+1, p.bytes+spanBytes+len(t.name)+len(t.attrs)
	}
	return t.in
}

// onLane returns the part's member for a lane.
func (x *Encoder) onLane(p *part, i int) *member {
	l := &x.rows.lanes[i]
	if !l.in.of(p) {
		l.in = &member{part: p, index: i, id: p.Span(otlp.LaneSpan, uint64(i))}
		p.lanes = append(p.lanes, l.in)
		if x.o.Layout == Lanes {
			p.spans, p.bytes = p.spans+1, p.bytes+spanBytes+len(l.field)+numberBytes(1<<32)
		}
	}
	return l.in
}

// done records that a part's task or step has ended.
func (x *Encoder) done(p *part) {
	if p.waiting--; p.waiting == 0 && p != x.parts.current {
		x.complete(p)
	}
}

// close records that a part receives no more calls.
func (x *Encoder) close(p *part) {
	if p.waiting == 0 {
		x.complete(p)
	}
}

// complete emits a part's root, thread and lane spans. Their times are known now.
func (x *Encoder) complete(p *part) {
	if s := p.ended; s != nil { // include the time before the step's first call and after its last one
		if p.first {
			p.extent.add(s.From, p.extent.end)
		}
		if p.last {
			p.extent.add(p.extent.start, s.To)
		}
	}
	root := p.Span(otlp.RootSpan, 0)
	x.emitRoot(p, root)
	for _, in := range p.threads {
		th := &x.rows.threads[in.index]
		g, b, at := x.begin(x.src.Hosts[th.process], p, in.id, root)
		b = append(b, th.name...)
		b = x.times(b, in.extent.start, in.extent.end)
		x.end(g, append(b, th.attrs...), at)
	}
	if x.o.Layout == Lanes {
		for _, in := range p.lanes {
			l := &x.rows.lanes[in.index]
			g, b, at := x.begin(l.res, p, in.id, root)
			b = append(b, l.field...)
			b = x.times(b, in.extent.start, in.extent.end)
			if l.pid != 0 {
				b = otlp.PutNumber(b, otlp.SpanAttributes, otlp.KeyPID, l.pid)
			}
			x.end(g, b, at)
		}
	}
	x.parts.completed++
	x.out.traces++
	x.result.noteStep(p)
}

func (x *Encoder) emitRoot(p *part, root otlp.SpanID) {
	above := otlp.SpanID(0)
	if p.inherits {
		above = p.origin.parent.Id
	}
	res := x.src.Hosts[0]
	if p.origin.title != "" && len(p.threads) > 0 { // from one thread
		res = x.src.Hosts[x.rows.threads[p.threads[0].index].process]
	}
	g, b, at := x.begin(res, p, root, above)
	name := "recording"
	if p.ended != nil {
		name = "step"
	}
	name = cmp.Or(p.origin.title, name)
	b = append(b, nameField(name, otlp.Internal)...)
	b = x.times(b, p.extent.start, p.extent.end)
	b = otlp.PutText(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyTrace], x.src.Meta.UUID)
	b = otlp.PutNumber(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyPart], int64(p.number+1))
	b = otlp.PutText(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyLayout], x.o.Layout)
	b = otlp.PutNumber(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyCalls], int64(p.calls))
	b = otlp.PutText(b, otlp.SpanAttributes, x.src.Keys[otlp.KeySampled], p.origin.why)
	if s := p.ended; s != nil && p.origin.title == "" {
		b = otlp.PutNumber(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyStep], int64(p.step))
		b = otlp.PutText(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyStepName], otlp.Valid(s.Name))
		b = otlp.PutText(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyStepSource], string(x.src.w.StepRule().Source))
		if !s.Typical {
			b = otlp.PutTrue(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyStepDiffers])
		}
	}
	if !p.first || !p.last {
		b = otlp.PutTrue(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyCut])
	}
	if x.src.r != nil && !x.src.r.Complete() {
		b = otlp.PutTrue(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyIncomplete])
	}
	if p.before.Id != 0 {
		b = otlp.PutLink(b, &p.before.Trace, p.before.Id)
	}
	if p.continued {
		b = otlp.PutLink(b, &p.after.Trace, p.after.Id)
	}
	if from := &p.origin.parent; from.Id != 0 && !p.inherits {
		b = otlp.PutLink(b, &from.Trace, from.Id)
	}
	x.end(g, b, at)
}
