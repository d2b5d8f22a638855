package otelexport

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
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
	spanID  [8]byte
)

// span is one span on its way to an encoder. Its trace is that of the batch's part, so spans of several traces may share a batch.
type span struct {
	trace      traceID
	id, parent spanID // the parent is zero for a root
	linkTrace  traceID
	link       spanID // zero for none
	name       string
	kind       uint8
	failed     bool
	message    string // of the status
	start, end int64  // nanoseconds since 1970
	attrs      []attr
}

// attr is an attribute; kind says which field is its value.
type attr struct {
	key  string
	list []string
	str  string
	num  int64
	kind attrKind
}

type attrKind uint8

const (
	isNum attrKind = iota
	isText
	isTrue
	isList
)

func text(key, v string) attr         { return attr{key: key, str: valid(v), kind: isText} }
func number(key string, v int64) attr { return attr{key: key, num: v, kind: isNum} }
func yes(key string) attr             { return attr{key: key, kind: isTrue} }

// valid makes a string from a trace one that protobuf takes.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func (s *span) text(key, v string) {
	if v != "" {
		s.attrs = append(s.attrs, text(key, v))
	}
}

func (s *span) number(key string, v int64) { s.attrs = append(s.attrs, number(key, v)) }
func (s *span) yes(key string)             { s.attrs = append(s.attrs, yes(key)) }

// fail marks the span as failed.
func (s *span) fail(message string) { s.failed, s.message = true, valid(message) }

// resource is what spans belong to: a process or a device.
type resource struct {
	attrs []attr
	size  int
	wire  []byte // once it was encoded
}

func newResource(attrs ...attr) *resource {
	r := &resource{size: 64}
	for _, a := range attrs {
		if a.kind == isText && a.str == "" {
			continue
		}
		r.attrs = append(r.attrs, a)
		r.size += a.size()
	}
	return r
}

// ids makes the ids of one trace.
type ids struct {
	trace traceID
	key   uint64
}

// newIDs derives the ids of a part of a recording. Layout and limit are a part of the name because they decide what a part holds:
// a backend would merge different traces of one id.
func newIDs(uuid, layout string, maxSpans, part int) ids {
	h := sha256.Sum256(fmt.Appendf(nil, "acltrace %s %s %d %d", uuid, layout, maxSpans, part))
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
func (d *ids) span(kind, n uint64) (id spanID) {
	x := d.key ^ (kind | n)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	binary.BigEndian.PutUint64(id[:], max(x, 1)) // zero is no id
	return id
}

// Limits of one request, so that receivers with their default limits (4 MiB over gRPC) take it.
const (
	maxRequestBytes = 2 << 20
	maxRequestSpans = 8_000
)

// batch is what goes out in one request, by resource. Its memory is used again.
type batch struct {
	groups []group
	spans  int
	bytes  int // at most this long as protobuf
}

type group struct {
	res   *resource
	spans []span
	wire  []byte // of messages
}

// span returns a new span to be filled in and then closed by done.
func (b *batch) span(r *resource) *span {
	i := 0
	for i < len(b.groups) && b.groups[i].res != r {
		i++
	}
	if i == len(b.groups) {
		if i < cap(b.groups) {
			b.groups = b.groups[:i+1]
		} else {
			b.groups = append(b.groups, group{})
		}
		b.groups[i].res = r
		b.groups[i].spans = b.groups[i].spans[:0]
		b.bytes += r.size
	}
	g := &b.groups[i]
	n := len(g.spans)
	if n < cap(g.spans) {
		g.spans = g.spans[:n+1]
	} else {
		g.spans = append(g.spans, span{})
	}
	s := &g.spans[n]
	*s = span{attrs: s.attrs[:0], kind: internal}
	return s
}

func (b *batch) done(s *span) {
	b.spans++
	b.bytes += s.size()
}

func (b *batch) full() bool {
	return b.spans >= maxRequestSpans || b.bytes >= maxRequestBytes-maxSpanBytes
}

func (b *batch) reset() { b.groups, b.spans, b.bytes = b.groups[:0], 0, 0 }

// maxSpanBytes is more than a span can have: the names in a trace are shorter than format.InlineLimit.
const maxSpanBytes = 64 << 10

// size is at least the length of the span as protobuf.
func (s *span) size() int {
	n := 128 + len(s.name) + len(s.message)
	for i := range s.attrs {
		n += s.attrs[i].size()
	}
	return n
}

func (a *attr) size() int {
	n := 24 + len(a.key) + len(a.str)
	for _, v := range a.list {
		n += 10 + len(v)
	}
	return n
}
