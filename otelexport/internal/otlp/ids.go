package otlp

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
)

// Kinds of spans and the status of a failed one, as OTLP numbers them.
const (
	Internal    = 1
	Producer    = 4
	Consumer    = 5
	statusError = 2
)

type (
	TraceID [16]byte
	SpanID  uint64 // its bytes are big-endian; zero is no id
)

// A link names a span.
type Link struct {
	Trace TraceID
	Id    SpanID
}

// ids makes the ids of one trace.
type IDs struct {
	Trace TraceID
	key   uint64
}

// newIDs derives the ids of a part of a recording. The way to cut it is a part of the name because it decides what a part holds:
// a backend would merge different traces of one id.
func NewIDs(uuid, cut string, part int) IDs {
	h := sha256.Sum256(fmt.Appendf(nil, "acltrace %s %s %d", uuid, cut, part))
	return IDs{Trace: TraceID(h[:16]), key: binary.LittleEndian.Uint64(h[16:])}
}

// What a span stands for; with a number it names a span within its trace.
const (
	RootSpan = iota << 60
	ThreadSpan
	LaneSpan
	CallSpan
	TaskSpan
	GapSpan
	RangeSpan
)

// span returns the id of a span. Each step below can be undone, so different spans of a trace have different ids.
func (d *IDs) Span(kind, n uint64) SpanID {
	x := d.key ^ (kind | n)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return SpanID(max(x, 1))
}

// valid makes a string from a trace one that protobuf takes.
func Valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Link returns a link to a span of the trace.
func (d *IDs) Link(kind, n uint64) Link { return Link{d.Trace, d.Span(kind, n)} }
