package otelexport

import (
	"context"
	"encoding/binary"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// A parent is a span of somebody else's that spans of a recording belong to; its zero value is none.
type parent struct {
	link
	sampled bool // is kept by whoever made it
}

// parseParent reads a parent as W3C Trace Context has it: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.
func parseParent(s string) (p parent, ok bool) {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": strings.TrimSpace(s)})
	c := trace.SpanContextFromContext(ctx)
	if !c.IsValid() {
		return p, false
	}
	id := c.SpanID()
	return parent{link{traceID(c.TraceID()), spanID(binary.BigEndian.Uint64(id[:]))}, c.IsSampled()}, true
}

// parentPrefix is how a program says in the name of a range that the range is its part of a request: the parent of that follows.
const parentPrefix = "traceparent="

// parentIn finds a parent in the name of a range, and returns the rest of the name.
func parentIn(name string) (p parent, rest string, ok bool) {
	before, after, found := strings.Cut(name, parentPrefix)
	if !found {
		return p, "", false
	}
	n := strings.IndexFunc(after, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef-", r) })
	if n < 0 {
		n = len(after)
	}
	behind := after[n:]
	p, ok = parseParent(after[:n])
	return p, strings.TrimSpace(strings.TrimRight(before, " ,;") + " " + strings.TrimLeft(behind, " ,;")), ok
}

// An origin is what parts have in common that become of one thing: a recording, a step, a request.
type origin struct {
	parent parent // of the roots
	title  string // of the roots, "" for what follows from the step
	why    string // it was chosen, "" where all is
}

// inherit makes the roots of a recording children of the span that its program was started under. A trace is to be
// shown as a whole, so that this ends when the parent's trace has MaxSpans: what comes then is traces of its own, whose
// roots are linked to the parent.
func (x *exporter) inherit() {
	x.origin.parent, _ = parseParent(x.meta.Env["TRACEPARENT"])
}

// adopt gives a new part its trace: its own, or that of its parent.
func (x *exporter) adopt(p *part) {
	p.origin = x.origin
	if p.origin.parent.id == 0 {
		return
	}
	if b := x.part; b != nil && b.inherits {
		x.inherited += b.spans
	}
	if p.inherits = x.inherited < x.o.MaxSpans; p.inherits {
		p.trace = p.origin.parent.trace
	}
}
