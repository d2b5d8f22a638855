package otelexport

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
)

// Kinds of spans and the status of a failed one, as OTLP numbers them.
const (
	internal    = 1
	producer    = 4
	consumer    = 5
	statusError = 2
)

type (
	traceID [16]byte
	spanID  uint64 // its bytes are big-endian; zero is no id
)

// ids makes the ids of one trace.
type ids struct {
	trace traceID
	key   uint64
}

// newIDs derives the ids of a part of a recording. The way to cut it is a part of the name because it decides what a part holds:
// a backend would merge different traces of one id.
func newIDs(uuid, cut string, part int) ids {
	h := sha256.Sum256(fmt.Appendf(nil, "acltrace %s %s %d", uuid, cut, part))
	return ids{trace: traceID(h[:16]), key: binary.LittleEndian.Uint64(h[16:])}
}

// What a span stands for; with a number it names a span within its trace.
const (
	rootSpan = iota << 60
	threadSpan
	laneSpan
	callSpan
	taskSpan
	gapSpan
	rangeSpan
)

// span returns the id of a span. Each step below can be undone, so different spans of a trace have different ids.
func (d *ids) span(kind, n uint64) spanID {
	x := d.key ^ (kind | n)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return spanID(max(x, 1))
}

// valid makes a string from a trace one that protobuf takes.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// A resource is what spans belong to: a process or a device.
type resource struct {
	index int // of its group in a batch
	attrs []attribute.KeyValue
	// What goes before the spans in a ResourceSpans, but for the length of the ScopeSpans.
	wire []byte
}

// newResource leaves out attributes that are empty. Of two with one key the first counts.
func newResource(index int, attrs ...attribute.KeyValue) *resource {
	r := &resource{index: index}
	var b []byte
	seen := map[attribute.Key]bool{}
	for _, a := range attrs {
		if seen[a.Key] || a.Value.Type() == attribute.STRING && a.Value.AsString() == "" {
			continue
		}
		seen[a.Key] = true
		r.attrs = append(r.attrs, a)
		b = appendAttribute(b, resourceAttributes, a)
	}
	r.wire = append(putLen(nil, resourceSpansResource, len(b)), b...)
	return r
}

// Limits of one request, so that receivers with their default limits (4 MiB over gRPC) take it.
const (
	maxRequestBytes = 2 << 20
	maxRequestSpans = 12_000
)

// maxSpanBytes is more than a span can have: the names in a trace are shorter than format.InlineLimit, and a span has few.
const maxSpanBytes = 64 << 10

// A batch is what goes out in one request, by resource. Its memory is used again.
type batch struct {
	number int // of the request, from 0
	groups []group
	spans  int
	bytes  int // no less than the request has
	calls  int // of the trace that were looked at when the batch was full
}

// A group is the spans of a resource: a ResourceSpans whose head is put before the spans when they are complete.
type group struct {
	res   *resource
	buf   []byte // empty, or as much room as the head takes and then the spans
	start int    // of the complete message in buf
}

// room is no less than the head of the resource's groups takes.
func (r *resource) room() int { return len(r.wire) + 1 + maxVarint32 + len(scopeEncoded) }

const maxVarint32 = 5

// group returns the group of a resource.
func (b *batch) group(r *resource) *group {
	for len(b.groups) <= r.index {
		b.groups = append(b.groups, group{})
	}
	g := &b.groups[r.index]
	if len(g.buf) == 0 {
		g.res, g.start = r, 0
		g.buf = append(g.buf, make([]byte, r.room())...)
		b.bytes += r.room() + len(groupTail) + 1 + maxVarint32
	}
	return g
}

func (b *batch) full() bool {
	return b.spans >= maxRequestSpans || b.bytes >= maxRequestBytes-maxSpanBytes
}

func (b *batch) reset() {
	for i := range b.groups {
		b.groups[i].buf = b.groups[i].buf[:0]
	}
	b.spans, b.bytes = 0, 0
}

// seal puts heads and tails around the spans. No span may be added after it.
func (b *batch) seal() {
	for i := range b.groups {
		if g := &b.groups[i]; len(g.buf) > 0 {
			n := len(g.buf) - g.res.room()
			g.buf = append(g.buf, groupTail...)
			var head [1 + maxVarint32]byte
			tag := putLen(head[:0], resourceSpansScope, len(scopeEncoded)+n+lenBytes(len(schemaURL)))
			g.start = g.res.room() - len(g.res.wire) - len(tag) - len(scopeEncoded)
			at := g.start + copy(g.buf[g.start:], g.res.wire)
			at += copy(g.buf[at:], tag)
			copy(g.buf[at:], scopeEncoded)
		}
	}
}

// message is the content of a sealed group's ResourceSpans, empty where the batch has no spans of the resource.
func (g *group) message() []byte {
	if len(g.buf) == 0 {
		return nil
	}
	return g.buf[g.start:]
}
