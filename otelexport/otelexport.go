// Package otelexport exports a trace file as OpenTelemetry spans and metrics. Send and SendMetrics send them over OTLP to a
// collector or a Jaeger. Write writes spans as OTLP JSON lines, the format of the collector's file exporter.
//
// Command export otlp calls it. Each function makes one timeline.Walk, encodes each span once its times are known, and keeps
// no state afterwards. Concurrent calls need separate readers. Memory holds a few requests and the tasks in progress, so it
// does not grow with the trace. A span that cannot be sent is an error. The package never changes a trace and never decides
// the meaning of a call; package timeline does. Sub-package live exports a recording in progress, with the same spans and
// metrics.
//
// # Traces
//
// Each step of a recording (step.Step) becomes one trace with a root span "step 29" that spans the step. Calls outside
// steps, and recordings without steps, become traces with a root span "recording". Calls after the last step may join its
// trace. More than 131,072 calls become several traces, each with whole calls by start. Roots have no links, because
// Jaeger's critical path fails at a root that refers to another trace. They name the previous and the next trace by
// attributes. A device task is in the trace of its call and may end after the step. Ids derive from the recording's UUID
// and the options: a second export gives the same ids, and another layout gives others.
//
// If the program started with a W3C TRACEPARENT, the roots are children of that span and join its trace: a request and its
// device work are one picture. After MaxSpans spans, roots start traces of their own, and name the parent by attributes.
//
// A range whose name has "traceparent=" with a sampled parent adds a root span "request" under that parent, with the
// thread's calls and tasks. The same calls are in the traces of the recording too.
//
// A span is under the innermost span that contains it in time on its thread: a launch under the program's range, and a call
// under the call that makes it. If a trace has several threads, each has a span under the root. In layout "nested" a task
// is under its launch, which it may outlast. In layout "lanes" a task is under the span of its stream, with a link to its
// launch.
//
// Names say what a call is about: "launch linear", "copy HtoD 4 MiB", "wait stream 1", "record event#7". A task has the
// name of its kernel, or the name of its call. Calls about nothing of this kind have the name of their function.
//
// # Scale
//
// A trace with more than MaxSpans spans is folded. A run of small neighbours becomes one span with their count and total:
// "launch 37 kernels, 60.2 us", or "launch linear 37 times, 60.2 us" if they are equal. Below it is one such span for the
// tasks on each stream. The longest calls and tasks stay, as do failed and unfinished calls, gaps, and the critical path.
//
// # Times
//
// Times are the recorded nanoseconds. A span takes at least one nanosecond, because Jaeger warns about shorter ones.
//
// No span is longer than is known. A task without a measured time starts at its call and ends at the earliest possible
// moment. This is the start of its call, the end of a measured task before it on the stream, or the earliest moment at which
// the event that it waits for can have been recorded. Its name ends with "(not measured)", and acl.at_most_ns has the longest time that it
// can have taken. A task that nothing waited for ends at its call, and its name ends with "(end unknown)". With
// BracketsNone these tasks have no spans, and their calls have the attributes. A call without a stream does its task itself
// and has its attributes. Calls that never returned last until the end of the recording.
//
// # Attributes
//
// Attributes that the semantic conventions do not have are in a namespace named after the runtime: acl for AscendCL, as
// below, and cuda for CUDA (cuda.call, cuda.stream). The same holds for metrics (acl.calls, cuda.calls).
//
// Resources, one for each process, and one for each device of a process:
//
//	service.name                of a process: OTEL_SERVICE_NAME, or base name of the program (with ":rank" if several
//	                            processes share it); of a device: the process's name with "/npu:0", without a number if
//	                            that is unknown
//	service.instance.id         UUID of the recording
//	process.*                   pid, executable.name, executable.path, command_args (cut at 16 KiB)
//	host.name, host.id, container.id, k8s.*
//	                            as the recorder found them, and those that OTEL_RESOURCE_ATTRIBUTES of the process set
//	hw.id                       device only: its UUID, else its PCI address, else its number on the host, as the runtime
//	                            reported them to the program; on a simulator a made-up die id
//	hw.type, hw.name, hw.model, hw.vendor, hw.driver_version
//	                            device only; hw.type is "gpu", the nearest value in the conventions; hw.name is "npu:0"
//	acl.device, acl.device.uuid, acl.device.pci, acl.device.host_number
//	                            device only: number in the process, and the known identities
//	acl.simulated               true on a simulated device
//
// OTEL_SERVICE_NAME of acltrace goes before that of the process. Attributes in OTEL_RESOURCE_ATTRIBUTES of acltrace are
// added unless the recording has their keys. With DeviceAsAttribute, spans of streams and tasks are in their process's
// resource, and have hw.id and acl.device themselves.
//
// Root spans:
//
//	acl.trace                   UUID of the recording
//	acl.part                    number of this trace in the recording, from 1
//	acl.previous_trace_id, acl.next_trace_id
//	                            the recording's neighbouring traces
//	acl.parent_trace_id, acl.parent_span_id
//	                            parent of the recording or request, on a root that has a trace of its own
//	acl.cut                     true if the step, or the time between two steps, became several traces
//	acl.layout                  nested or lanes
//	acl.selection               the flags that chose the calls, if not all are exported; on each value of metrics too
//	acl.calls, acl.folded       calls in this trace, and how many of them are in folded spans
//	acl.step, acl.step.name     number of the step, from 0, and name of the range that marks it
//	acl.step.source             marked (by the program) or found (by repetition)
//	acl.step.differs            true on an atypical step, for example a warm-up
//	acl.critical_path           the five longest entries of the step's critical path, such as "linear on stream 1: 435 us"
//	acl.sampled                 package live only: sampled, error, slow or requested
//	acl.incomplete              true if the file had no end: a killed recorder or a cut file
//	thread.id, thread.name      if the trace has one thread
//
// Spans of threads and streams, and their children:
//
//	thread.id, thread.name      on threads, gaps and ranges
//	code.function.name          on calls
//	code.stacktrace             on calls that were recorded with their stack, innermost frame first; not in package live
//	acl.call                    on calls: number in the trace file, as in `acltrace cat`
//	acl.ret                     return value, unless that means success
//	error.type                  name of the error code; the span's status is Error, with the same text
//	acl.unfinished              true on a call that never returned
//	acl.truncated               true on a call with lost data
//	acl.waited_for, acl.waited_for_call
//	                            on waits of the host and of streams: name and call of the latest kernel, copy or other
//	                            work for which they waited, unless it was measured and had ended before
//	acl.end                     "unknown" on a task that nothing waited for, and on a range without an end
//	acl.range                   on mstx ranges and marks: number of the call that began it; acl.domain is the domain
//	acl.lost, acl.reason        on spans "calls lost", or "not recorded" outside the requested window: number of missing
//	                            calls, if known, and the reason
//	acl.critical, acl.critical_ns
//	                            on calls and tasks on the step's critical path (package analyze/path): true, and the
//	                            nanoseconds there. Without steps, the path is that of a recording of at most 131,072 calls
//
// Tasks, and calls whose tasks have no span of their own:
//
//	acl.kernel, acl.blocks      name and number of blocks of a kernel
//	acl.task                    otherwise: copy, fill, reduce, record, wait, reset, host, graph or system
//	acl.shapes                  kernel type and tensors of a launch that an operator described: see record --operators shapes
//	acl.graph_kernels           kernels in a graph that runs, with their counts, if its content is known
//	acl.event                   event that is recorded, reset or waited for; on calls too
//	acl.stream                  name of the stream, except under the stream's span; on waits for a stream too
//	acl.task_id                 the runtime's number of the task
//	acl.bytes                   bytes copied or filled
//	acl.device_ns               time of a measured task
//	acl.at_most_ns              longest time that another task can have taken
//
// Folded spans:
//
//	acl.count, acl.total_ns     number of calls or tasks, and time in the calls
//	acl.call, acl.last_call     first and last call
//	acl.device_ns               sum of the measured tasks
//
// The span kind is producer for a call that puts a task on a stream, consumer for that task, and internal otherwise.
package otelexport

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/otelexport/internal/endpoint"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/otelexport/internal/spans"
	"github.com/acltrace/acltrace/timeline"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Layouts of a trace.
const (
	Lanes  = spans.Lanes  // tasks on their streams
	Nested = spans.Nested // tasks under the calls that made them
)

// Spans of tasks without a measured time.
const (
	BracketsEarliest = spans.BracketsEarliest // until the earliest moment at which the task can have ended
	BracketsNone     = spans.BracketsNone     // no span: the call has the task's attributes
)

// DeviceAs says how spans and metrics show devices: DeviceAsService if "", or DeviceAsAttribute.
type DeviceAs = otlp.DeviceAs

const (
	DeviceAsService   = otlp.DeviceAsService   // each device of a process is a service: train/npu:0
	DeviceAsAttribute = otlp.DeviceAsAttribute // tasks are in the process's service, with the device as an attribute
)

// Protocols of Send.
const (
	GRPC = endpoint.GRPC
	HTTP = endpoint.HTTP
)

// Default limits of one trace.
const (
	DefaultMaxSpans = spans.DefaultMaxSpans
	DefaultMaxBytes = spans.DefaultMaxBytes
)

// Options configure Send, Write and SendMetrics; nil means the zero value.
type Options struct {
	// Endpoint is the receiver's URL. If "", it is OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT,
	// else http://localhost:4317. Headers, certificates, compression and timeout always come from the other
	// OTEL_EXPORTER_OTLP_* variables.
	Endpoint string
	// Protocol is GRPC or HTTP. If "", it is OTEL_EXPORTER_OTLP_TRACES_PROTOCOL or OTEL_EXPORTER_OTLP_PROTOCOL, else
	// HTTP if the endpoint has port 4318 or a path, else GRPC.
	Protocol string
	Layout   string // Nested if ""
	Brackets string // BracketsEarliest if ""
	// MaxSpans and MaxBytes (as protobuf) limit one trace. Beyond them, runs of small calls become one span each. 0 is
	// DefaultMaxSpans or DefaultMaxBytes. A negative MaxSpans is no limit of either kind.
	MaxSpans, MaxBytes int
	NoSteps            bool // no trace for each step
	DeviceAs           DeviceAs
	Select             *timeline.Selection // calls, nil for all
	// Progress receives the approximate number of calls sent or written, and the total, from one goroutine at a time.
	Progress func(done, total int)
	// Traced receives the number of traces made so far, after each, from one goroutine at a time; nil for nobody.
	Traced func(n int)
	// Resume is the state of an interrupted export to continue; nil to start from the beginning.
	Resume *State
	// Save receives the state about once a second, and at the end if Send fails, from one goroutine at a time. The
	// state is valid until Save returns.
	Save func(*State)
}

func (o *Options) spans() *spans.Options {
	return &spans.Options{Layout: o.Layout, Brackets: o.Brackets, MaxSpans: o.MaxSpans, MaxBytes: o.MaxBytes, NoSteps: o.NoSteps, DeviceAs: o.DeviceAs, Select: o.Select, Traced: o.Traced}
}

// Result reports the export. After an error it has the part that was sent before.
type Result struct {
	Endpoint string // of the receiver, "" for Write
	Protocol string // "" for Write
	spans.Result
	Spans    int    // sent
	Before   int    // sent earlier by the export that this one resumes
	Requests int    // or lines
	Rejected int    // spans that the receiver rejected
	Message  string // of the receiver's last partial success, which may reject nothing
}

// A RejectedError reports that the receiver rejected some spans.
type RejectedError struct {
	Endpoint        string
	Rejected, Spans int
	Message         string // from the receiver
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("%s rejected %d of %d spans: %s", e.Endpoint, e.Rejected, e.Spans, e.Message)
}

// Send sends the spans of a trace to an OTLP receiver. It retries requests if the receiver asks for that. If the
// receiver rejects a part of a request, Send continues and finally returns a *RejectedError. After any other error,
// Resume continues. Requests in flight at the error are sent again, with the same span ids.
func Send(ctx context.Context, r *format.Reader, m *api.Model, o *Options) (*Result, error) {
	if o == nil {
		o = &Options{}
	}
	t, err := endpoint.Traces.Resolve(o.Endpoint, o.Protocol)
	if err != nil {
		return nil, err
	}
	x, err := spans.New(r, m, o.spans())
	if err != nil {
		return nil, err
	}
	res := &Result{Endpoint: t.URL.String(), Protocol: t.Protocol}
	s, err := dial(ctx, t, x.Calls(), o, res)
	if err != nil {
		return nil, err
	}
	err = s.resume(o.Resume, fmt.Sprintf("%s to %s", x.Name(), t.URL))
	if err == nil {
		err = x.Run(s.take)
	}
	if err == nil {
		err = s.same()
	}
	// Requests in flight are canceled after an error. Their own errors do not matter.
	if e := s.close(err != nil); e != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = e
	}
	res.Result = x.Result()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if o.Save != nil && (s.state.Requests > 0 || len(s.state.Later) > 0) && !errors.Is(err, ErrOtherExport) {
			o.Save(&s.state)
		}
		return res, fmt.Errorf("send over %s to %s: %d spans were handed over, those of %d of %d calls: %w", t.Protocol, t.URL, res.Spans+res.Before, s.calls, s.total, err)
	}
	if res.Rejected > 0 {
		return res, &RejectedError{Endpoint: res.Endpoint, Rejected: res.Rejected, Spans: res.Spans + res.Before, Message: res.Message}
	}
	return res, nil
}

// lineSpans is the maximum number of spans in a line. A longer line does not stay in a processor's cache while it is made.
const lineSpans = 1000

// Write writes the spans of a trace as OTLP JSON lines. Each line is a valid body for a receiver's /v1/traces.
func Write(w io.Writer, r *format.Reader, m *api.Model, o *Options) (*Result, error) {
	if o == nil {
		o = &Options{}
	}
	so := o.spans()
	so.Batch, so.Progress = lineSpans, o.Progress
	x, err := spans.New(r, m, so)
	if err != nil {
		return nil, err
	}
	res := &Result{}
	var wire []byte
	err = x.Run(func(b *otlp.Batch) (*otlp.Batch, error) {
		wire = b.Request(wire[:0])
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(wire)
		if err != nil {
			return nil, err
		}
		line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return nil, err
		}
		res.Requests++
		res.Spans += b.Spans
		b.Reset()
		return b, nil
	})
	res.Result = x.Result()
	if err != nil {
		return res, fmt.Errorf("write spans: %w", err)
	}
	return res, nil
}
