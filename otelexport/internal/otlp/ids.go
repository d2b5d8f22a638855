package otlp

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
)

// Span kinds and the error status, as numbered by OTLP.
const (
	Internal    = 1
	Producer    = 4
	Consumer    = 5
	statusError = 2
)

type (
	TraceID [16]byte
	SpanID  uint64 // big-endian on the wire; 0 is no id
)

// A Link refers to a span.
type Link struct {
	Trace TraceID
	Id    SpanID
}

// IDs generates one trace's ids.
type IDs struct {
	Trace TraceID
	key   uint64
}

// NewIDs derives the ids for one part of a recording. cut names the rules that decide a part's contents: a backend
// would merge two different traces with one id.
func NewIDs(uuid, cut string, part int) IDs {
	h := sha256.Sum256(fmt.Appendf(nil, "acltrace %s %s %d", uuid, cut, part))
	return IDs{Trace: TraceID(h[:16]), key: binary.LittleEndian.Uint64(h[16:])}
}

// Span subjects. Combined with a number they are unique within a trace.
const (
	RootSpan = iota << 60
	ThreadSpan
	LaneSpan
	CallSpan
	TaskSpan
	GapSpan
	RangeSpan
	FoldSpan     // a run of calls, by the first
	FoldTaskSpan // their tasks on a lane, by the first
)

// Span returns a span id. Each hash step is invertible, so ids within a trace differ.
func (d *IDs) Span(kind, n uint64) SpanID {
	x := d.key ^ (kind | n)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return SpanID(max(x, 1))
}

// Valid replaces invalid UTF-8, which protobuf rejects.
func Valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Link returns a link to one of the trace's spans.
func (d *IDs) Link(kind, n uint64) Link { return Link{d.Trace, d.Span(kind, n)} }
