package otlp

import (
	"github.com/acltrace/acltrace/api"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Attribute keys from the semantic conventions. They are the same for each runtime.
var (
	KeyThreadID   = string(semconv.ThreadIDKey)
	KeyThreadName = string(semconv.ThreadNameKey)
	KeyFunction   = string(semconv.CodeFunctionNameKey)
	KeyErrorType  = string(semconv.ErrorTypeKey)
	KeyStackTrace = string(semconv.CodeStacktraceKey)
)

// A Key is one of acltrace's own attributes. Keys has its full name, which starts with the runtime's namespace.
type Key uint8

const (
	KeyAtMostNS Key = iota
	KeyBlocks
	KeyBytes
	KeyCall
	KeyCalls
	KeyCount
	KeyCritical
	KeyCriticalNS
	KeyCriticalPath
	KeyCut
	KeyDevice
	KeyDeviceHostNumber
	KeyDeviceNS
	KeyDevicePCI
	KeyDeviceUUID
	KeyDirection
	KeyDomain
	KeyEnd
	KeyEvent
	KeyFolded
	KeyGraphKernels
	KeyIncomplete
	KeyKernel
	KeyLastCall
	KeyLayout
	KeyLost
	KeyNextTrace
	KeyOperator
	KeyParentSpan
	KeyParentTrace
	KeyPart
	KeyPhase
	KeyPreviousTrace
	KeyRange
	KeyReason
	KeyRet
	KeySampled
	KeySelection
	KeyShapes
	KeySimulated
	KeyStep
	KeyStepDiffers
	KeyStepName
	KeyStepSource
	KeyStream
	KeyTask
	KeyTaskID
	KeyTotalNS
	KeyTrace
	KeyTruncated
	KeyUnfinished
	KeyWaitedFor
	KeyWaitedForCall
	numKeys
)

var keyNames = [numKeys]string{
	KeyAtMostNS:         "at_most_ns",
	KeyBlocks:           "blocks",
	KeyBytes:            "bytes",
	KeyCall:             "call",
	KeyCalls:            "calls",
	KeyCount:            "count",
	KeyCritical:         "critical",
	KeyCriticalNS:       "critical_ns",
	KeyCriticalPath:     "critical_path",
	KeyCut:              "cut",
	KeyDevice:           "device",
	KeyDeviceHostNumber: "device.host_number",
	KeyDeviceNS:         "device_ns",
	KeyDevicePCI:        "device.pci",
	KeyDeviceUUID:       "device.uuid",
	KeyDirection:        "direction",
	KeyDomain:           "domain",
	KeyEnd:              "end",
	KeyEvent:            "event",
	KeyFolded:           "folded",
	KeyGraphKernels:     "graph_kernels",
	KeyIncomplete:       "incomplete",
	KeyKernel:           "kernel",
	KeyLastCall:         "last_call",
	KeyLayout:           "layout",
	KeyLost:             "lost",
	KeyNextTrace:        "next_trace_id",
	KeyOperator:         "operator",
	KeyParentSpan:       "parent_span_id",
	KeyParentTrace:      "parent_trace_id",
	KeyPart:             "part",
	KeyPhase:            "phase",
	KeyPreviousTrace:    "previous_trace_id",
	KeyRange:            "range",
	KeyReason:           "reason",
	KeyRet:              "ret",
	KeySampled:          "sampled",
	KeySelection:        "selection",
	KeyShapes:           "shapes",
	KeySimulated:        "simulated",
	KeyStep:             "step",
	KeyStepDiffers:      "step.differs",
	KeyStepName:         "step.name",
	KeyStepSource:       "step.source",
	KeyStream:           "stream",
	KeyTask:             "task",
	KeyTaskID:           "task_id",
	KeyTotalNS:          "total_ns",
	KeyTrace:            "trace",
	KeyTruncated:        "truncated",
	KeyUnfinished:       "unfinished",
	KeyWaitedFor:        "waited_for",
	KeyWaitedForCall:    "waited_for_call",
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
