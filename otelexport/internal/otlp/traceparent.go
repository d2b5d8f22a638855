package otlp

import (
	"context"
	"encoding/binary"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// A Parent is an external span with the recording's spans as children. The zero value is no parent.
type Parent struct {
	Link
	Sampled bool // the trace is kept by its owner
}

// ParseParent parses a W3C traceparent such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.
func ParseParent(s string) (p Parent, ok bool) {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": strings.TrimSpace(s)})
	c := trace.SpanContextFromContext(ctx)
	if !c.IsValid() {
		return p, false
	}
	id := c.SpanID()
	return Parent{Link{TraceID(c.TraceID()), SpanID(binary.BigEndian.Uint64(id[:]))}, c.IsSampled()}, true
}

// parentPrefix precedes a request's traceparent in a range name.
const parentPrefix = "traceparent="

// ParentIn returns the parent in a range name, and the rest of the name.
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
