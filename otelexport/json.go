package otelexport

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
)

const scopeName = "github.com/acltrace/acltrace/otelexport"

// appendBatch appends a batch in OTLP's JSON: protobuf's own, but with ids in hexadecimal and enumerations as numbers.
func appendBatch(b []byte, x *batch) []byte {
	b = append(b, `{"resourceSpans":[`...)
	for i := range x.groups {
		g := &x.groups[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"resource":{"attributes":`...)
		b = appendAttrs(b, g.res.attrs)
		b = append(b, `},"scopeSpans":[{"scope":{"name":"`+scopeName+`"},"spans":[`...)
		for j := range g.spans {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendSpan(b, &g.spans[j])
		}
		b = append(b, `],"schemaUrl":"`+schemaURL+`"}],"schemaUrl":"`+schemaURL+`"}`...)
	}
	return append(b, "]}"...)
}

func appendSpan(b []byte, s *span) []byte {
	b = append(b, `{"traceId":"`...)
	b = hex.AppendEncode(b, s.trace[:])
	b = append(b, `","spanId":"`...)
	b = hex.AppendEncode(b, s.id[:])
	if s.parent != (spanID{}) {
		b = append(b, `","parentSpanId":"`...)
		b = hex.AppendEncode(b, s.parent[:])
	}
	b = append(b, `","name":`...)
	b = appendString(b, s.name)
	b = append(b, `,"kind":`...)
	b = strconv.AppendUint(b, uint64(s.kind), 10)
	b = append(b, `,"startTimeUnixNano":"`...)
	b = strconv.AppendUint(b, uint64(s.start), 10)
	b = append(b, `","endTimeUnixNano":"`...)
	b = strconv.AppendUint(b, uint64(s.end), 10)
	b = append(b, `","attributes":`...)
	b = appendAttrs(b, s.attrs)
	if s.link != (spanID{}) {
		b = append(b, `,"links":[{"traceId":"`...)
		b = hex.AppendEncode(b, s.linkTrace[:])
		b = append(b, `","spanId":"`...)
		b = hex.AppendEncode(b, s.link[:])
		b = append(b, `"}]`...)
	}
	if s.failed {
		b = append(b, `,"status":{"message":`...)
		b = appendString(b, s.message)
		b = append(b, `,"code":2}`...)
	}
	return append(b, '}')
}

func appendAttrs(b []byte, attrs []attr) []byte {
	b = append(b, '[')
	for i := range attrs {
		a := &attrs[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"key":"`...)
		b = append(b, a.key...)
		b = append(b, `","value":{`...)
		switch a.kind {
		case isNum:
			b = append(b, `"intValue":"`...)
			b = strconv.AppendInt(b, a.num, 10)
			b = append(b, '"')
		case isText:
			b = append(b, `"stringValue":`...)
			b = appendString(b, a.str)
		case isTrue:
			b = append(b, `"boolValue":true`...)
		case isList:
			b = append(b, `"arrayValue":{"values":[`...)
			for j, v := range a.list {
				if j > 0 {
					b = append(b, ',')
				}
				b = append(b, `{"stringValue":`...)
				b = append(appendString(b, v), '}')
			}
			b = append(b, "]}"...)
		}
		b = append(b, "}}"...)
	}
	return append(b, ']')
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			q, _ := json.Marshal(s) // a string can always be marshalled
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
