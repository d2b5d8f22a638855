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
// Each step of a recording (step.Step) becomes one trace with a root span "step" that spans the step. Calls outside steps,
// and recordings without steps, become traces with a root span "recording". Calls after the last step may join its trace.
// More than MaxSpans spans or MaxBytes become several traces, each with whole calls by start. Each root links to the
// previous and the next root. A device task is in the trace of its call and may end after the step. Ids derive from the
// recording's UUID and the cut: a second export gives the same ids, and another layout gives others.
//
// If the program started with a W3C TRACEPARENT, the roots are children of that span and join its trace: a request and its
// device work are one picture. After MaxSpans spans, roots start traces of their own, linked to the parent.
//
// A range whose name has "traceparent=" with a sampled parent adds a root span "request" under that parent, with the
// thread's calls and tasks. The same calls are in the traces of the recording too.
//
// Layout "lanes" has a span per thread with its calls, and a span per stream with its tasks, each linked to its call.
// Layout "nested" has each task under its call, with a link to it. The link means that the child may outlast its
// parent. Jaeger shows it as FOLLOWS_FROM and leaves it out of the critical path.
//
// # Times
//
// Times are the recorded nanoseconds. A device task without a measured time has a bracket. It starts at its call, but not
// before the bracket of the previous task. It ends when the program knew that the task was done: at the end of the
// synchronization that covers it. Bracketed spans carry acl.bracketed. Tasks under one synchronization overlap and end
// together, so do not add up their durations. Tasks that nothing waited for, and calls that never returned, last until the
// end of the recording.
//
// # Attributes
//
// Attributes that the semantic conventions do not have are in a namespace named after the runtime: acl for AscendCL, as
// below, and cuda for CUDA (cuda.call, cuda.stream). The same holds for metrics (acl.calls, cuda.calls).
//
// Resources, one for each process and device:
//
//	service.name                base name of the program, or OTEL_SERVICE_NAME (with ":rank" if several processes share it);
//	                            "npu:0" for a device, without a number if that is unknown
//	service.instance.id         UUID of the recording
//	host.name, process.*        pid, executable.name, executable.path, command_args (cut at 16 KiB)
//	hw.id, hw.type, hw.name, hw.vendor, hw.driver_version
//	                            device only; hw.type is "gpu", the nearest value in the conventions
//	acl.simulated               true on a simulated device
//
// and those in OTEL_RESOURCE_ATTRIBUTES, unless the recording has better values.
//
// Root spans:
//
//	acl.trace                   UUID of the recording
//	acl.part                    number of this trace in the recording, from 1
//	acl.cut                     true if the step, or the time between two steps, became several traces
//	acl.layout                  lanes or nested
//	acl.calls                   calls in this trace
//	acl.step, acl.step.name     number of the step, from 0, and name of the range that marks it
//	acl.step.source             marked (by the program) or found (by repetition)
//	acl.step.differs            true on an atypical step, for example a warm-up
//	acl.sampled                 package live only: sampled, error, slow or requested
//	acl.incomplete              true if the file had no end: a killed recorder or a cut file
//
// Spans of threads and streams, and their children:
//
//	thread.id, thread.name      on threads, gaps and ranges
//	process.pid                 on streams
//	acl.call                    on calls: number in the trace file, as in `acltrace cat`; tasks link to their calls
//	acl.stream                  name of the stream, on calls that made its tasks, and on tasks that are not under it
//	acl.kernel                  name of the kernel, on launches
//	acl.bytes                   bytes copied or filled, on tasks and their calls
//	acl.task                    kernel, copy, fill, reduce, record, wait, reset, host, graph or system: on tasks, and on
//	                            their calls unless they have acl.kernel
//	acl.ret                     return value, unless that means success
//	code.function.name          on calls: name of the function
//	error.type                  name of the error code; the span's status is Error, with the same text
//	acl.unfinished              true on a call that never returned
//	acl.truncated               true on a call with lost data
//	acl.bracketed               true if the times are a bracket
//	acl.open                    true on a task whose end is not in the trace
//	acl.range                   on mstx ranges and marks: number of the call that began it; the span is under its thread;
//	                            acl.domain is the domain
//	acl.lost, acl.reason        on spans "calls lost", or "not recorded" outside the requested window: number of missing
//	                            calls, if known, and the reason
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
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Layouts of a trace.
const (
	Lanes  = spans.Lanes  // tasks on their streams
	Nested = spans.Nested // tasks under the calls that made them
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
	Layout   string // Lanes if ""
	MaxSpans int    // in one trace, DefaultMaxSpans if 0
	MaxBytes int    // of the spans in one trace, as protobuf, DefaultMaxBytes if 0
	NoSteps  bool   // cut by MaxSpans and MaxBytes only
	// Progress receives the approximate number of calls sent, and the total, from one goroutine at a time.
	Progress func(done, total int)
	// Resume is the state of an interrupted export to continue; nil to start from the beginning.
	Resume *State
	// Save receives the state about once a second, and at the end if Send fails, from one goroutine at a time. The
	// state is valid until Save returns.
	Save func(*State)
}

func (o *Options) spans() *spans.Options {
	return &spans.Options{Layout: o.Layout, MaxSpans: o.MaxSpans, MaxBytes: o.MaxBytes, NoSteps: o.NoSteps}
}

// Result reports the export. After an error it has the part that was sent before.
type Result struct {
	Endpoint     string // of the receiver, "" for Write
	Protocol     string // "" for Write
	Traces       int
	Spans        int // sent
	Before       int // sent earlier by the export that this one resumes
	Requests     int // or lines
	FirstTraceID string
	StepTraceID  string // first typical step, else the first step; "" without steps
	Rejected     int    // spans that the receiver rejected
	Message      string // of the receiver's last partial success, which may reject nothing
}

// made copies the traces of an encoder.
func (r *Result) made(x *spans.Encoder) {
	m := x.Result()
	r.Traces, r.FirstTraceID, r.StepTraceID = m.Traces, m.FirstTraceID, m.StepTraceID
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
	res.made(x)
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

// Write writes the spans of a trace as OTLP JSON lines. Each line is a valid body for a receiver's /v1/traces.
func Write(w io.Writer, r *format.Reader, m *api.Model, o *Options) (*Result, error) {
	if o == nil {
		o = &Options{}
	}
	x, err := spans.New(r, m, o.spans())
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
	res.made(x)
	if err != nil {
		return res, fmt.Errorf("write spans: %w", err)
	}
	return res, nil
}
