// Package otlp encodes OTLP messages: ids, resources, spans, and batches that fit into one request.
//
// Package spans fills batches, and packages otelexport and live send or write them. A Batch belongs to one goroutine at
// a time: fill it with Begin and End until Full, then call Seal, then Messages or Request, then Reset. This package
// knows neither walks nor receivers. Its only input from outside are OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
package otlp

import (
	"hash/crc32"
	"slices"

	"github.com/acltrace/acltrace/internal/grow"
)

// Limits per request. Receivers accept it with their default limits (4 MiB over gRPC).
const (
	MaxRequestBytes = 2 << 20
	MaxRequestSpans = 12_000
)

// maxSpanBytes exceeds every span: spans have few names, each shorter than format.InlineLimit.
const maxSpanBytes = 64 << 10

// usualSpanBytes exceeds most spans.
const usualSpanBytes = 1 << 10

// A Batch holds one request's spans, by resource. Reset makes it reusable.
type Batch struct {
	Number int // request number, from 0
	groups []Group
	Spans  int
	Bytes  int // upper bound for the request size
	Calls  int // calls encoded when the batch was full
}

// A Group holds one resource's spans. Seal writes the ResourceSpans header before them.
type Group struct {
	res   *Resource
	buf   []byte // empty, or space for the header followed by spans
	start int    // message offset in buf
}

// room is an upper bound for the header size.
func (r *Resource) room() int { return len(r.wire) + 1 + maxVarint32 + len(scopeEncoded) }

const maxVarint32 = 5

func (b *Batch) group(r *Resource) *Group {
	g := grow.At(&b.groups, r.Index)
	if len(g.buf) == 0 {
		g.res, g.start = r, 0
		g.buf = append(g.buf, make([]byte, r.room())...)
		b.Bytes += r.room() + len(groupTail) + 1 + maxVarint32
	}
	return g
}

// Begin starts a span. It returns the resource's group, the buffer to append fields to, and the span's offset. Pass all
// three to End before the next Begin with this resource.
func (b *Batch) Begin(r *Resource, trace *TraceID, id, parent SpanID) (g *Group, buf []byte, at int) {
	g = b.group(r)
	at = len(g.buf)
	if cap(g.buf)-at < usualSpanBytes {
		g.buf = slices.Grow(g.buf, max(at, usualSpanBytes)) // append alone would copy several times as much
	}
	buf = openSpan(g.buf)
	buf = append(append(buf, spanTrace, 16), trace[:]...)
	buf = putID(buf, spanOwn, id)
	if parent != 0 {
		buf = putID(buf, spanParent, parent)
	}
	return g, buf, at
}

// End completes a span.
func (b *Batch) End(g *Group, buf []byte, at int) {
	g.buf = closeSpan(buf, at)
	b.Spans++
	b.Bytes += len(g.buf) - at
}

func (b *Batch) Full() bool {
	return b.Spans >= MaxRequestSpans || b.Bytes >= MaxRequestBytes-maxSpanBytes
}

func (b *Batch) Reset() {
	for i := range b.groups {
		b.groups[i].buf = b.groups[i].buf[:0]
	}
	b.Spans, b.Bytes = 0, 0
}

// Seal writes the headers and trailers around the spans. Add no span after it.
func (b *Batch) Seal() {
	for i := range b.groups {
		if g := &b.groups[i]; len(g.buf) > 0 {
			n := len(g.buf) - g.res.room()
			g.buf = append(g.buf, groupTail...)
			var head [1 + maxVarint32]byte
			tag := putLen(head[:0], resourceSpansScope, len(scopeEncoded)+n+LenBytes(len(SchemaURL)))
			g.start = g.res.room() - len(g.res.wire) - len(tag) - len(scopeEncoded)
			at := g.start + copy(g.buf[g.start:], g.res.wire)
			at += copy(g.buf[at:], tag)
			copy(g.buf[at:], scopeEncoded)
		}
	}
}

// message returns a sealed group's ResourceSpans, nil if the group is empty.
func (g *Group) message() []byte {
	if len(g.buf) == 0 {
		return nil
	}
	return g.buf[g.start:]
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns a sealed batch's checksum.
func (b *Batch) Sum() uint32 {
	sum := uint32(b.Number)
	for i := range b.groups {
		sum = crc32.Update(sum, castagnoli, b.groups[i].message())
	}
	return sum
}
