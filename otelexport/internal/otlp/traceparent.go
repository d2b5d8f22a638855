package otlp

import (
	"context"
	"encoding/binary"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// A parent is a span of somebody else's that spans of a recording belong to; its zero value is none.
type Parent struct {
	Link
	Sampled bool // is kept by whoever made it
}

// parseParent reads a parent as W3C Trace Context has it: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.
func ParseParent(s string) (p Parent, ok bool) {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": strings.TrimSpace(s)})
	c := trace.SpanContextFromContext(ctx)
	if !c.IsValid() {
		return p, false
	}
	id := c.SpanID()
	return Parent{Link{TraceID(c.TraceID()), SpanID(binary.BigEndian.Uint64(id[:]))}, c.IsSampled()}, true
}

// parentPrefix is how a program says in the name of a range that the range is its part of a request: the parent of that follows.
const parentPrefix = "traceparent="

// parentIn finds a parent in the name of a range, and returns the rest of the name.
func ParentIn(name string) (p Parent, rest string, ok bool) {
	before, after, found := strings.Cut(name, parentPrefix)
	if !found {
		return p, "", false
	}
	n := strings.IndexFunc(after, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef-", r) })
	if n < 0 {
		n = len(after)
	}
	behind := after[n:]
	p, ok = ParseParent(after[:n])
	return p, strings.TrimSpace(strings.TrimRight(before, " ,;") + " " + strings.TrimLeft(behind, " ,;")), ok
}
