package spans

import (
	"cmp"
	"encoding/hex"
	"fmt"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
)

// emitTree emits a part's threads, nodes, tasks and lanes.
func (x *Encoder) emitTree(p *part) {
	x.fold(p)
	root := p.Span(otlp.RootSpan, 0)
	for _, m := range p.threads {
		top := root
		if len(p.threads) > 1 {
			top = m.id
			th := &x.rows.threads[m.index]
			g, b, at := x.begin(x.src.Hosts[th.process], p, m.id, root)
			b = append(b, th.name...)
			b = x.times(b, m.extent.start, m.extent.end)
			x.end(g, append(b, th.attrs...), at)
		}
		for i := int32(0); i < int32(m.nodes.n); {
			n := m.nodes.at(i)
			above := top
			if n.parent >= 0 {
				up := m.nodes.at(n.parent)
				above = p.Span(spanKind[up.kind], up.number)
			}
			if n.fold > 0 {
				x.emitFold(m, i, n.fold, above)
				i = n.fold
				continue
			}
			switch n.kind {
			case callNode:
				x.emitCall(m, n, m.stackOf(i), above)
			case rangeNode:
				x.emitRange(m, n, above)
			case gapNodeKind:
				x.emitGap(p, &m.gaps[n.more], int(n.number), m.index, above)
			}
			i++
		}
	}
	for i := range p.gaps {
		x.emitGap(p, &p.gaps[i].Gap, p.gaps[i].number, -1, root)
	}
	if x.o.Layout == Lanes {
		x.emitLanes(p, root)
	}
}

func (x *Encoder) emitCall(m *member, n *node, stack []byte, above otlp.SpanID) {
	p, s, k := m.part, n.what, (*task)(nil)
	own := false
	if n.task >= 0 {
		k = m.tasks.at(n.task)
		own = k.own
	}
	id := p.Span(otlp.CallSpan, n.number)
	g, b, at := x.begin(x.src.Hosts[x.rows.threads[m.index].process], p, id, above)
	b = append(b, s.call...)
	b = x.times(b, n.start, n.end)
	b = append(append(b, s.name...), stack...)
	b = x.out.names.call.Put(b, int64(n.number))
	switch {
	case k == nil:
		b = append(b, s.about...)
	case !own:
		b = x.putTask(b, s, k, false)
	}
	if n.more > 0 && (k == nil || k.kind != api.Wait || !own) {
		b = x.putWaited(b, m.waits[n.more-1])
	}
	b = x.putCritical(b, n.critical)
	fn := s.fn
	switch {
	case n.flags&format.Unfinished != 0:
		b = otlp.PutTrue(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyUnfinished])
	case fn != nil && (fn.RetVoid || fn.RetError && uint32(n.ret) == 0):
	case fn != nil && fn.RetError:
		b = otlp.PutNumber(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyRet], int64(int32(n.ret)))
	default:
		b = otlp.PutNumber(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyRet], int64(n.ret))
	}
	if n.flags&format.Truncated != 0 {
		b = otlp.PutTrue(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyTruncated])
	}
	if n.failed {
		name := timeline.NeverReturned
		if n.flags&format.Unfinished == 0 {
			name = x.src.m.ErrorName(int64(int32(n.ret)))
		}
		b = otlp.PutText(b, otlp.SpanAttributes, otlp.KeyErrorType, name)
		b = otlp.PutError(b, name)
	}
	x.end(g, b, at)
	if own {
		x.emitTask(m, n, k, id)
	}
}

// emitTask emits the span of a node's task.
func (x *Encoder) emitTask(m *member, n *node, k *task, launch otlp.SpanID) {
	p, l := m.part, &x.rows.lanes[k.lane]
	from, to := k.from, k.to
	if k.ending == unknown {
		from, to = n.start, n.start
	}
	g, b, at := x.begin(l.res.Resource, p, p.Span(otlp.TaskSpan, n.number), x.above(p, l, int(k.lane), launch, from, to))
	b = append(b, n.what.task[k.ending]...)
	b = x.times(b, from, to)
	b = append(b, l.res.Span...)
	b = x.putTask(b, n.what, k, x.o.Layout == Lanes)
	if n.more > 0 && k.kind == api.Wait {
		b = x.putWaited(b, m.waits[n.more-1])
	}
	b = x.putCritical(b, k.critical)
	if x.o.Layout == Lanes {
		b = otlp.PutLink(b, &p.Trace, launch)
	}
	x.end(g, b, at)
}

// above returns the parent of a task's span: its launch, or its lane.
func (x *Encoder) above(p *part, l *lane, i int, launch otlp.SpanID, from, to int64) otlp.SpanID {
	if x.o.Layout == Nested {
		return launch
	}
	if l.in == nil || l.in.part != p {
		l.in = &laneSpan{part: p, id: p.Span(otlp.LaneSpan, uint64(i))}
		x.out.lanes = append(x.out.lanes, i)
	}
	l.in.extent.add(from, max(from+1, to))
	return l.in.id
}

// putTask adds the attributes of a task to its span, or to its call's if it has no span.
func (x *Encoder) putTask(b []byte, s *subject, k *task, onLane bool) []byte {
	if !s.launch { // else the kernel attribute says so
		b = append(b, x.out.names.kinds[k.kind]...)
	}
	b = append(b, s.about...)
	if k.async && !onLane {
		b = append(b, x.rows.lanes[k.lane].stream...)
	}
	if k.kind == api.Copy || k.kind == api.Fill {
		b = x.out.names.bytes.Put(b, int64(k.bytes))
	}
	if k.blocks > 0 {
		b = x.out.names.blocks.Put(b, int64(k.blocks))
	}
	if k.hasID {
		b = x.out.names.taskID.Put(b, int64(k.id))
	}
	switch {
	case k.ending == measured:
		b = x.out.names.deviceNS.Put(b, k.to-k.from)
	case !k.async: // it ended with its call
	case k.ending == bracket:
		b = x.out.names.atMostNS.Put(b, k.atMost)
	default:
		b = append(b, x.out.names.end...)
	}
	return b
}

// putWaited adds what a wait waited for.
func (x *Encoder) putWaited(b []byte, w *work) []byte {
	if w.what == nil {
		return b
	}
	b = append(b, w.what.waited...)
	return x.out.names.waitedForCall.Put(b, int64(w.call))
}

// putCritical adds the time on the critical path.
func (x *Encoder) putCritical(b []byte, ns int64) []byte {
	if ns == 0 {
		return b
	}
	return otlp.PutNumber(append(b, x.out.names.critical...), otlp.SpanAttributes, x.src.Keys[otlp.KeyCriticalNS], ns)
}

// emitRange emits a program's range or mark.
func (x *Encoder) emitRange(m *member, n *node, above otlp.SpanID) {
	p, th, r := m.part, &x.rows.threads[m.index], &m.ranges[n.more]
	g, b, at := x.begin(x.src.Hosts[th.process], p, p.Span(otlp.RangeSpan, n.number), above)
	b = append(b, nameField(otlp.Valid(cmp.Or(r.Name, "range")), otlp.Internal)...)
	b = x.times(b, n.start, n.end)
	b = otlp.PutNumber(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyRange], int64(n.number))
	b = otlp.PutText(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyDomain], otlp.Valid(r.Domain))
	if r.operator != "" {
		b = otlp.PutText(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyOperator], otlp.Valid(r.operator))
		b = otlp.PutText(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyPhase], r.phase.String())
	}
	if r.Open {
		b = append(b, x.out.names.end...)
	}
	x.end(g, append(b, th.attrs...), at)
}

// emitGap emits a gap on a thread, or on none (-1).
func (x *Encoder) emitGap(p *part, g *format.Gap, number, thread int, above otlp.SpanID) {
	res, attrs, name := x.src.Hosts[0], []byte(nil), "calls lost"
	if g.Intended() {
		name = "not recorded"
	}
	if thread >= 0 {
		th := &x.rows.threads[thread]
		res, attrs = x.src.Hosts[th.process], th.attrs
	}
	group, b, at := x.begin(res, p, p.Span(otlp.GapSpan, uint64(number)), above)
	b = append(b, nameField(name, otlp.Internal)...)
	b = x.times(b, g.From, g.To)
	b = append(b, attrs...)
	if g.Calls > 0 {
		b = otlp.PutNumber(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyLost], int64(g.Calls))
	}
	b = otlp.PutText(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyReason], g.Reason.String())
	if !g.Intended() {
		b = otlp.PutError(b, name+": "+g.Reason.String())
	}
	x.end(group, b, at)
}

// emitLanes emits the spans of lanes with tasks.
func (x *Encoder) emitLanes(p *part, root otlp.SpanID) {
	for _, i := range x.out.lanes {
		l := &x.rows.lanes[i]
		g, b, at := x.begin(l.res.Resource, p, l.in.id, root)
		b = append(b, l.field...)
		b = x.times(b, l.in.extent.start, l.in.extent.end)
		x.end(g, append(b, l.res.Span...), at)
	}
	x.out.lanes = x.out.lanes[:0]
}

// title names a part's root.
func (x *Encoder) title(p *part) string {
	name := "recording"
	if p.step >= 0 {
		name = fmt.Sprintf("step %d", p.step)
	}
	if name = cmp.Or(p.origin.title, name); !p.first {
		name += " (continued)"
	}
	return name
}

// emitRoot emits a part's root.
func (x *Encoder) emitRoot(p *part) {
	s := p.ended
	if s != nil { // include the time before the step's first call and after its last one
		if p.first {
			p.extent.add(s.From, max(s.From, p.extent.end))
		}
		if p.last {
			p.extent.add(min(s.To, p.extent.start), s.To)
		}
	}
	above := otlp.SpanID(0)
	if p.inherits {
		above = p.origin.parent.Id
	}
	res, attrs, keys := x.src.Hosts[0], []byte(nil), x.src.Keys
	switch {
	case p.thread >= 0:
		th := &x.rows.threads[p.thread]
		res, attrs = x.src.Hosts[th.process], th.attrs
	case p.step >= 0:
		res = x.src.Hosts[x.src.Process(x.src.w.StepRule().Process)]
	}
	g, b, at := x.begin(res, p, p.Span(otlp.RootSpan, 0), above)
	b = append(b, nameField(x.title(p), otlp.Internal)...)
	b = x.times(b, p.extent.start, p.extent.end)
	b = otlp.PutText(b, otlp.SpanAttributes, keys[otlp.KeyTrace], x.src.Meta.UUID)
	b = otlp.PutNumber(b, otlp.SpanAttributes, keys[otlp.KeyPart], int64(p.number+1))
	b = otlp.PutText(b, otlp.SpanAttributes, keys[otlp.KeyLayout], x.o.Layout)
	if x.selection != "" {
		b = otlp.PutText(b, otlp.SpanAttributes, keys[otlp.KeySelection], otlp.Valid(x.selection))
	}
	b = otlp.PutNumber(b, otlp.SpanAttributes, keys[otlp.KeyCalls], int64(p.calls))
	if p.folded > 0 {
		b = otlp.PutNumber(b, otlp.SpanAttributes, keys[otlp.KeyFolded], int64(p.folded))
	}
	b = otlp.PutTexts(b, otlp.SpanAttributes, keys[otlp.KeyCriticalPath], p.entries)
	b = otlp.PutText(b, otlp.SpanAttributes, keys[otlp.KeySampled], p.origin.why)
	if s != nil && p.origin.title == "" {
		b = otlp.PutNumber(b, otlp.SpanAttributes, keys[otlp.KeyStep], int64(p.step))
		b = otlp.PutText(b, otlp.SpanAttributes, keys[otlp.KeyStepName], otlp.Valid(s.Name))
		b = otlp.PutText(b, otlp.SpanAttributes, keys[otlp.KeyStepSource], string(x.src.w.StepRule().Source))
		if !s.Typical {
			b = otlp.PutTrue(b, otlp.SpanAttributes, keys[otlp.KeyStepDiffers])
		}
	}
	if !p.first || !p.last {
		b = otlp.PutTrue(b, otlp.SpanAttributes, keys[otlp.KeyCut])
	}
	if x.src.r != nil && !x.src.r.Complete() {
		b = otlp.PutTrue(b, otlp.SpanAttributes, keys[otlp.KeyIncomplete])
	}
	x.end(g, append(x.putNeighbours(b, p), attrs...), at)
}

// putNeighbours adds the ids of the recording's previous and next traces, and of a parent in another trace. They are
// attributes, not links: Jaeger's critical path fails at a root that refers to another trace.
func (x *Encoder) putNeighbours(b []byte, p *part) []byte {
	put := func(key otlp.Key, id otlp.TraceID) {
		if id != (otlp.TraceID{}) && id != p.Trace {
			b = otlp.PutText(b, otlp.SpanAttributes, x.src.Keys[key], hex.EncodeToString(id[:]))
		}
	}
	put(otlp.KeyPreviousTrace, p.neighbours.before)
	put(otlp.KeyNextTrace, p.neighbours.after)
	if from := &p.origin.parent; from.Id != 0 && !p.inherits {
		put(otlp.KeyParentTrace, from.Trace)
		b = otlp.PutText(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyParentSpan], fmt.Sprintf("%016x", uint64(from.Id)))
	}
	return b
}
