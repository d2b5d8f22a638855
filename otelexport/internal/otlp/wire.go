package otlp

import (
	"encoding/binary"
	"math/bits"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// OTLP messages (opentelemetry/proto/trace/v1/trace.proto and common/v1/common.proto) are appended directly as wire
// bytes: generated structs take ten times as long. A field is a tag (number << 3 | wire type) followed by a value.
// Fields that many spans share are encoded once and copied.
const (
	varint     = 0
	fixed64    = 1
	lengthened = 2

	requestResourceSpans = 1<<3 | lengthened

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
	SpanName       = 5<<3 | lengthened
	SpanKind       = 6<<3 | varint
	spanStart      = 7<<3 | fixed64
	spanEnd        = 8<<3 | fixed64
	SpanAttributes = 9<<3 | lengthened
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

// All field numbers above are below 16, so a tag is one byte.

func VarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// LenBytes is the encoded size for a field with n content bytes.
func LenBytes(n int) int { return 1 + VarintLen(uint64(n)) + n }

func putLen(b []byte, tag byte, n int) []byte { return binary.AppendUvarint(append(b, tag), uint64(n)) }

func PutString(b []byte, tag byte, s string) []byte {
	return append(putLen(b, tag, len(s)), s...)
}

const (
	ScopeName = "github.com/acltrace/acltrace/otelexport"
	SchemaURL = semconv.SchemaURL
)

var (
	scopeEncoded = PutString(putLen(nil, scopeSpansScope, LenBytes(len(ScopeName))), scopeNameField, ScopeName)
	// groupTail ends a ScopeSpans and then its ResourceSpans.
	groupTail = PutString(PutString(nil, scopeSpansSchema, SchemaURL), resourceSpansSchema, SchemaURL)
)

// Messages returns a sealed batch for OpenTelemetry's clients. The content is stored as unknown fields, which clients
// pass through. The messages are valid until Reset.
func (b *Batch) Messages() []*tracepb.ResourceSpans {
	var out []*tracepb.ResourceSpans
	for i := range b.groups {
		if m := b.groups[i].message(); m != nil {
			r := &tracepb.ResourceSpans{}
			r.ProtoReflect().SetUnknown(m)
			out = append(out, r)
		}
	}
	return out
}

// Request appends a sealed batch as an ExportTraceServiceRequest, whose layout equals TracesData.
func (b *Batch) Request(dst []byte) []byte {
	for i := range b.groups {
		if m := b.groups[i].message(); m != nil {
			dst = append(putLen(dst, requestResourceSpans, len(m)), m...)
		}
	}
	return dst
}

// Span and resource attributes.

func PutText(b []byte, tag byte, key, v string) []byte {
	if v == "" {
		return b
	}
	b = putKey(b, tag, key, LenBytes(len(v)))
	return PutString(b, valueString, v)
}

// PutTexts adds a list of texts, nothing if it is nil.
func PutTexts(b []byte, tag byte, key string, texts []string) []byte {
	if texts == nil {
		return b
	}
	var list []byte
	for _, v := range texts {
		v = Valid(v)
		list = PutString(putLen(list, arrayValue, LenBytes(len(v))), valueString, v)
	}
	b = putKey(b, tag, key, LenBytes(len(list)))
	return append(putLen(b, valueArray, len(list)), list...)
}

func PutNumber(b []byte, tag byte, key string, v int64) []byte {
	b = putKey(b, tag, key, 1+VarintLen(uint64(v)))
	return binary.AppendUvarint(append(b, valueInt), uint64(v))
}

// A NumberKey puts numbers with one key faster than PutNumber: it holds the encoded attribute up to the number, by the
// number's encoded length.
type NumberKey [binary.MaxVarintLen64 + 1]string

// NewNumberKey encodes a key of span attributes.
func NewNumberKey(key string) *NumberKey {
	var k NumberKey
	for n := 1; n < len(k); n++ {
		k[n] = string(append(putKey(nil, SpanAttributes, key, 1+n), valueInt))
	}
	return &k
}

// Put appends the attribute with a value.
func (k *NumberKey) Put(b []byte, v int64) []byte {
	return binary.AppendUvarint(append(b, k[VarintLen(uint64(v))]...), uint64(v))
}

func PutTrue(b []byte, tag byte, key string) []byte {
	return append(putKey(b, tag, key, 2), valueBool, 1)
}

// putKey starts an attribute whose value has n bytes.
func putKey(b []byte, tag byte, key string, n int) []byte {
	if whole := 2 + len(key) + 2 + n; whole < 1<<7 { // all lengths are one byte
		b = append(append(b, tag, byte(whole), keyValueKey, byte(len(key))), key...)
		return append(b, keyValueValue, byte(n))
	}
	b = putLen(b, tag, LenBytes(len(key))+LenBytes(n))
	b = PutString(b, keyValueKey, key)
	return putLen(b, keyValueValue, n)
}

// appendAttribute encodes a string, string list, integer or true attribute.
func appendAttribute(b []byte, tag byte, a attribute.KeyValue) []byte {
	switch key := string(a.Key); a.Value.Type() {
	case attribute.INT64:
		return PutNumber(b, tag, key, a.Value.AsInt64())
	case attribute.BOOL:
		return PutTrue(b, tag, key)
	case attribute.STRINGSLICE:
		return PutTexts(b, tag, key, a.Value.AsStringSlice())
	}
	return PutText(b, tag, string(a.Key), Valid(a.Value.AsString()))
}

// Span fields.

// putID appends a span id.
func putID(b []byte, tag byte, id SpanID) []byte {
	return binary.BigEndian.AppendUint64(append(b, tag, 8), uint64(id))
}

func PutTimes(b []byte, start, end int64) []byte {
	b = binary.LittleEndian.AppendUint64(append(b, spanStart), uint64(start))
	return binary.LittleEndian.AppendUint64(append(b, spanEnd), uint64(end))
}

// PutLink appends a link, which has a fixed size.
func PutLink(b []byte, trace *TraceID, id SpanID) []byte {
	b = append(b, spanLinks, 1+1+16+1+1+8, linkTrace, 16)
	b = append(b, trace[:]...)
	return putID(b, linkSpan, id)
}

func PutError(b []byte, message string) []byte {
	b = putLen(b, spanStatus, LenBytes(len(message))+2)
	return append(PutString(b, statusMessage, message), statusCode, statusError)
}

// openSpan starts a span with unknown length. closeSpan inserts the length; at is len(b) before openSpan.
func openSpan(b []byte) []byte { return append(b, scopeSpansSpan, 0, 0) }

func closeSpan(b []byte, at int) []byte {
	n := len(b) - at - 3
	if n >= 1<<7 && n < 1<<14 { // fits into the two reserved bytes
		b[at+1], b[at+2] = byte(n)|0x80, byte(n>>7)
		return b
	}
	size := VarintLen(uint64(n))
	for len(b) < at+1+size+n {
		b = append(b, 0)
	}
	copy(b[at+1+size:], b[at+3:at+3+n])
	binary.PutUvarint(b[at+1:], uint64(n))
	return b[:at+1+size+n]
}
