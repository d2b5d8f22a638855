package otelexport

import (
	"encoding/binary"
	"math/bits"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// The messages of OTLP (opentelemetry/proto/trace/v1/trace.proto and common/v1/common.proto) are appended to a buffer as they
// go over the wire: going through generated structures takes ten times as long. A field is its number << 3 with its wire
// type, then its value.
const (
	varint     = 0
	fixed64    = 1
	lengthened = 2

	resourceSpansResource = 1<<3 | lengthened
	resourceSpansScope    = 2<<3 | lengthened
	resourceSpansSchema   = 3<<3 | lengthened
	resourceAttributes    = 1<<3 | lengthened
	scopeSpansScope       = 1<<3 | lengthened
	scopeSpansSpan        = 2<<3 | lengthened
	scopeSpansSchema      = 3<<3 | lengthened
	scopeNameField        = 1<<3 | lengthened

	spanTrace      = 1<<3 | lengthened
	spanOwn        = 2<<3 | lengthened
	spanParent     = 4<<3 | lengthened
	spanName       = 5<<3 | lengthened
	spanKind       = 6<<3 | varint
	spanStart      = 7<<3 | fixed64
	spanEnd        = 8<<3 | fixed64
	spanAttributes = 9<<3 | lengthened
	spanLinks      = 13<<3 | lengthened
	spanStatus     = 15<<3 | lengthened
	linkTrace      = 1<<3 | lengthened
	linkSpan       = 2<<3 | lengthened
	statusMessage  = 2<<3 | lengthened
	statusCode     = 3<<3 | varint

	keyValueKey   = 1<<3 | lengthened
	keyValueValue = 2<<3 | lengthened
	valueString   = 1<<3 | lengthened
	valueBool     = 2<<3 | varint
	valueInt      = 3<<3 | varint
	valueArray    = 5<<3 | lengthened
	arrayValue    = 1<<3 | lengthened
)

// All numbers of fields above are below 16, so that a tag is one byte.

func varintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// lenBytes is the length of a field with n bytes of content.
func lenBytes(n int) int { return 1 + varintLen(uint64(n)) + n }

func putLen(b []byte, tag byte, n int) []byte { return binary.AppendUvarint(append(b, tag), uint64(n)) }

func putString(b []byte, tag byte, s string) []byte {
	return append(putLen(b, tag, len(s)), s...)
}

// messages returns a batch as the messages that OpenTelemetry's clients take. What they hold is encoded already: to a client it
// is fields that it passes on without knowing them. They are valid until the next call.
func (b *batch) messages() []*tracepb.ResourceSpans {
	out := make([]*tracepb.ResourceSpans, len(b.groups))
	for i := range b.groups {
		g := &b.groups[i]
		g.wire = appendGroup(g.wire[:0], g)
		out[i] = &tracepb.ResourceSpans{}
		out[i].ProtoReflect().SetUnknown(g.wire)
	}
	return out
}

// appendGroup appends the spans of a resource as the content of a ResourceSpans.
func appendGroup(b []byte, g *group) []byte {
	b = append(b, g.res.encoded()...)
	n := 0
	for i := range g.spans {
		n += lenBytes(g.spans[i].wireLen())
	}
	b = putLen(b, resourceSpansScope, len(scopeEncoded)+n+lenBytes(len(schemaURL)))
	b = append(b, scopeEncoded...)
	for i := range g.spans {
		b = g.spans[i].append(b)
	}
	b = putString(b, scopeSpansSchema, schemaURL)
	return putString(b, resourceSpansSchema, schemaURL)
}

var scopeEncoded = putString(putLen(nil, scopeSpansScope, lenBytes(len(scopeName))), scopeNameField, scopeName)

// encoded is the field of a ResourceSpans with the resource.
func (r *resource) encoded() []byte {
	if r.wire == nil {
		n := 0
		for i := range r.attrs {
			n += lenBytes(r.attrs[i].wireLen())
		}
		r.wire = putLen(nil, resourceSpansResource, n)
		for i := range r.attrs {
			r.wire = r.attrs[i].append(r.wire, resourceAttributes)
		}
	}
	return r.wire
}

const (
	idsLen  = 1 + 1 + 16 + 1 + 1 + 8 // a trace id and a span id with their tags and lengths
	timeLen = 1 + 8
)

// wireLen is the length of the span's content.
func (s *span) wireLen() int {
	n := idsLen + lenBytes(len(s.name)) + 2 + 2*timeLen
	if s.parent != (spanID{}) {
		n += 1 + 1 + 8
	}
	for i := range s.attrs {
		n += lenBytes(s.attrs[i].wireLen())
	}
	if s.link != (spanID{}) {
		n += lenBytes(idsLen)
	}
	if s.failed {
		n += lenBytes(lenBytes(len(s.message)) + 2)
	}
	return n
}

// append appends the span as a field of a ScopeSpans.
func (s *span) append(b []byte) []byte {
	b = putLen(b, scopeSpansSpan, s.wireLen())
	b = append(append(b, spanTrace, 16), s.trace[:]...)
	b = append(append(b, spanOwn, 8), s.id[:]...)
	if s.parent != (spanID{}) {
		b = append(append(b, spanParent, 8), s.parent[:]...)
	}
	b = putString(b, spanName, s.name)
	b = append(b, spanKind, s.kind)
	b = binary.LittleEndian.AppendUint64(append(b, spanStart), uint64(s.start))
	b = binary.LittleEndian.AppendUint64(append(b, spanEnd), uint64(s.end))
	for i := range s.attrs {
		b = s.attrs[i].append(b, spanAttributes)
	}
	if s.link != (spanID{}) {
		b = append(b, spanLinks, idsLen, linkTrace, 16)
		b = append(append(append(b, s.linkTrace[:]...), linkSpan, 8), s.link[:]...)
	}
	if s.failed {
		b = putLen(b, spanStatus, lenBytes(len(s.message))+2)
		b = append(putString(b, statusMessage, s.message), statusCode, statusError)
	}
	return b
}

// wireLen is the length of the attribute as the content of a KeyValue.
func (a *attr) wireLen() int { return lenBytes(len(a.key)) + lenBytes(a.valueLen()) }

func (a *attr) valueLen() int {
	switch a.kind {
	case isNum:
		return 1 + varintLen(uint64(a.num))
	case isTrue:
		return 2
	case isList:
		return lenBytes(a.listLen())
	}
	return lenBytes(len(a.str))
}

func (a *attr) listLen() int {
	n := 0
	for _, v := range a.list {
		n += lenBytes(lenBytes(len(v)))
	}
	return n
}

// append appends the attribute as a field of a span or a resource.
func (a *attr) append(b []byte, tag byte) []byte {
	b = putLen(b, tag, a.wireLen())
	b = putString(b, keyValueKey, a.key)
	b = putLen(b, keyValueValue, a.valueLen())
	switch a.kind {
	case isNum:
		return binary.AppendUvarint(append(b, valueInt), uint64(a.num))
	case isTrue:
		return append(b, valueBool, 1)
	case isList:
		b = putLen(b, valueArray, a.listLen())
		for _, v := range a.list {
			b = putLen(b, arrayValue, lenBytes(len(v)))
			b = putString(b, valueString, v)
		}
		return b
	}
	return putString(b, valueString, a.str)
}
