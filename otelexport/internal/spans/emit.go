package spans

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
)

func (x *Encoder) call(c *timeline.HostCall, t *timeline.Task) error {
	th := x.rows.thread(c.Thread)
	var requests []*request
	if len(x.rows.threads[th].requests) > 0 {
		requests = x.inRequests(c, t)
	}
	spans, size, on := 1, spanBytes+2*len(c.Name)+flagBytes+numberBytes(c.Index)+numberBytes(c.Ret), -1
	if c.Flags != 0 {
		size += 2 * flagBytes
	}
	var kernel, task *kernelNames
	if c.Kernel != "" {
		kernel = x.out.names.kernel(c.Kernel)
		size += len(kernel.kernel)
	}
	if t != nil {
		if task = kernel; task == nil || t.Name != c.Kernel {
			task = x.out.names.kernel(t.Name)
		}
		spans++
		size += spanBytes + len(x.out.names.bracketed) + len(x.out.names.open) + linkBytes + len(task.async) + 2*(len(x.out.names.kinds[t.Kind])+len(x.rows.lanes[t.Lane].stream))
		if t.Bytes > 0 {
			size += 2 * numberBytes(t.Bytes)
		}
		if x.o.Layout == Lanes {
			on = t.Lane
		}
	}
	failed := ""
	if c.Failed() {
		failed = x.src.m.ErrorName(int64(int32(c.Ret)))
		size += 2 * (len(failed) + flagBytes)
	}
	if x.named != nil {
		spans++
		size += spanBytes + numberBytes(c.Index) + len(x.named.Name) + len(x.named.Domain) + 2*flagBytes + len(x.rows.threads[th].attrs)
	}
	p := x.room(c.Step, th, on, spans, size)
	p.calls++
	in := x.onThread(p, th)
	if t != nil {
		p.waiting++
		l := &x.rows.lanes[t.Lane]
		l.waiting = append(l.waiting, waiting{x.onLane(p, t.Lane), task, requests})
	}
	x.emitCall(in, c, kernel, t, failed)
	if x.named != nil {
		x.emitRange(in, x.named)
		x.named = nil
	}
	return x.out.err
}

func (x *Encoder) emitCall(in *member, c *timeline.HostCall, kernel *kernelNames, t *timeline.Task, failed string) {
	end := x.src.w.CallEnd(c)
	in.add(c.Start, end)
	p := in.part
	kind := byte(otlp.Internal)
	if t != nil && t.Fn.Stream >= 0 {
		kind = otlp.Producer
	}
	g, b, at := x.begin(x.src.Hosts[x.rows.threads[in.index].process], p, p.Span(otlp.CallSpan, c.Index), in.id)
	names := x.out.names.call(c, kind)
	b = append(b, names.name...)
	b = x.times(b, c.Start, end)
	b = append(b, names.function...)
	b = otlp.PutNumber(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyCall], int64(c.Index))
	if kernel != nil {
		b = append(b, kernel.kernel...)
	}
	if t != nil {
		if kernel == nil {
			b = append(b, x.out.names.kinds[t.Kind]...)
		}
		b = append(b, x.rows.lanes[t.Lane].stream...)
		b = x.putBytes(b, t.Kind, t.Bytes)
	}
	switch {
	case c.Flags&format.Unfinished != 0:
		b = otlp.PutTrue(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyUnfinished])
	case c.Fn != nil && (c.Fn.RetVoid || c.Fn.RetError && uint32(c.Ret) == 0):
	case c.Fn != nil && c.Fn.RetError:
		b = otlp.PutNumber(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyRet], int64(int32(c.Ret)))
	default:
		b = otlp.PutNumber(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyRet], int64(c.Ret))
	}
	b = otlp.PutText(b, otlp.SpanAttributes, otlp.KeyErrorType, failed)
	if c.Flags&format.Truncated != 0 {
		b = otlp.PutTrue(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyTruncated])
	}
	if failed != "" {
		b = otlp.PutError(b, failed)
	}
	x.end(g, b, at)
}

// putBytes adds the size that a copy or fill moves.
func (x *Encoder) putBytes(b []byte, k api.Task, n uint64) []byte {
	if k != api.Copy && k != api.Fill {
		return b
	}
	return otlp.PutNumber(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyBytes], int64(n))
}

// task emits a task. On each lane, tasks end in call order.
func (x *Encoder) task(t *timeline.Task) error {
	l := &x.rows.lanes[t.Lane]
	in, names := l.waiting[l.first].in, l.waiting[l.first].names
	for _, q := range l.waiting[l.first].requests {
		q.task(t)
	}
	if l.first++; l.first == len(l.waiting) {
		l.waiting, l.first = l.waiting[:0], 0
	} else if 2*l.first > cap(l.waiting) {
		l.waiting, l.first = append(l.waiting[:0], l.waiting[l.first:]...), 0
	}
	in.add(t.From, t.To)
	p := in.part
	launch := p.Span(otlp.CallSpan, t.Call)
	parent, name := launch, names.sync
	if x.o.Layout == Lanes {
		parent = in.id
	}
	if t.Fn.Stream >= 0 {
		name = names.async
	}
	g, b, at := x.begin(l.res, p, p.Span(otlp.TaskSpan, t.Call), parent)
	b = append(b, name...)
	b = x.times(b, t.From, t.To)
	b = append(b, x.out.names.kinds[t.Kind]...)
	if x.o.Layout == Nested {
		b = append(b, l.stream...)
	}
	b = x.putBytes(b, t.Kind, t.Bytes)
	if !t.Measured {
		b = append(b, x.out.names.bracketed...)
	}
	if t.Open {
		b = append(b, x.out.names.open...)
	}
	b = otlp.PutLink(b, &p.Trace, launch)
	x.end(g, b, at)
	x.done(p)
	return x.out.err
}

// emitRange emits a program's range or mark.
func (x *Encoder) emitRange(in *member, r *timeline.Range) {
	in.add(r.From, r.To)
	p, th := in.part, &x.rows.threads[in.index]
	g, b, at := x.begin(x.src.Hosts[th.process], p, p.Span(otlp.RangeSpan, r.Begin), in.id)
	b = append(b, nameField(otlp.Valid(r.Name), otlp.Internal)...)
	b = x.times(b, r.From, r.To)
	b = otlp.PutNumber(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyRange], int64(r.Begin))
	b = otlp.PutText(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyDomain], otlp.Valid(r.Domain))
	if r.Open {
		b = append(b, x.out.names.open...)
	}
	x.end(g, append(b, th.attrs...), at)
}

// nextGap emits the next gap.
func (x *Encoder) nextGap() {
	g, n := &x.gaps[0], x.gap
	x.gaps, x.gap = x.gaps[1:], x.gap+1
	th := -1
	if g.Thread != format.NoThread {
		th = x.rows.thread(g.Thread)
	}
	name := "calls lost"
	if g.Intended() {
		name = "not recorded"
	}
	step := -1
	if x.parts.current != nil {
		step = x.parts.current.step
	}
	p := x.room(step, th, -1, 1, fewBytes)
	res, parent := x.src.Hosts[0], p.Span(otlp.RootSpan, 0)
	if th >= 0 {
		in := x.onThread(p, th)
		in.add(g.From, g.To)
		res, parent = x.src.Hosts[x.rows.threads[th].process], in.id
	}
	p.extent.add(g.From, g.To)
	group, b, at := x.begin(res, p, p.Span(otlp.GapSpan, uint64(n)), parent)
	b = append(b, nameField(name, otlp.Internal)...)
	b = x.times(b, g.From, g.To)
	if th >= 0 {
		b = append(b, x.rows.threads[th].attrs...)
	}
	if g.Calls > 0 {
		b = otlp.PutNumber(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyLost], int64(g.Calls))
	}
	b = otlp.PutText(b, otlp.SpanAttributes, x.src.Keys[otlp.KeyReason], g.Reason.String())
	if !g.Intended() {
		b = otlp.PutError(b, name+": "+g.Reason.String())
	}
	x.end(group, b, at)
}
