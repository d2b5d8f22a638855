package otlp

import (
	"github.com/acltrace/acltrace/api"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Attribute keys from the semantic conventions. They are the same for each runtime.
var (
	KeyThreadID   = string(semconv.ThreadIDKey)
	KeyThreadName = string(semconv.ThreadNameKey)
	KeyPID        = string(semconv.ProcessPIDKey)
	KeyFunction   = string(semconv.CodeFunctionNameKey)
	KeyErrorType  = string(semconv.ErrorTypeKey)
)

// A Key is one of acltrace's own attributes. Keys has its full name, which starts with the runtime's namespace.
type Key uint8

const (
	KeyBracketed Key = iota
	KeyBytes
	KeyCall
	KeyCalls
	KeyCut
	KeyDirection
	KeyDomain
	KeyIncomplete
	KeyKernel
	KeyLayout
	KeyLost
	KeyOpen
	KeyPart
	KeyRange
	KeyReason
	KeyRet
	KeySampled
	KeySimulated
	KeyStep
	KeyStepDiffers
	KeyStepName
	KeyStepSource
	KeyStream
	KeyTask
	KeyTrace
	KeyTruncated
	KeyUnfinished
	numKeys
)

var keyNames = [numKeys]string{
	KeyBracketed:   "bracketed",
	KeyBytes:       "bytes",
	KeyCall:        "call",
	KeyCalls:       "calls",
	KeyCut:         "cut",
	KeyDirection:   "direction",
	KeyDomain:      "domain",
	KeyIncomplete:  "incomplete",
	KeyKernel:      "kernel",
	KeyLayout:      "layout",
	KeyLost:        "lost",
	KeyOpen:        "open",
	KeyPart:        "part",
	KeyRange:       "range",
	KeyReason:      "reason",
	KeyRet:         "ret",
	KeySampled:     "sampled",
	KeySimulated:   "simulated",
	KeyStep:        "step",
	KeyStepDiffers: "step.differs",
	KeyStepName:    "step.name",
	KeyStepSource:  "step.source",
	KeyStream:      "stream",
	KeyTask:        "task",
	KeyTrace:       "trace",
	KeyTruncated:   "truncated",
	KeyUnfinished:  "unfinished",
}

// Keys are the full names of all keys for one runtime, such as "acl.call" or "cuda.call".
type Keys [numKeys]string

// Namespace starts the names of acltrace's own attributes and metrics for a runtime.
func Namespace(m *api.Model) string { return m.Name }

// NewKeys returns a runtime's keys.
func NewKeys(m *api.Model) *Keys {
	var k Keys
	for i, name := range keyNames {
		k[i] = Namespace(m) + "." + name
	}
	return &k
}
