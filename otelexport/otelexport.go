// Package otelexport turns a trace into OpenTelemetry spans and hands them to a collector or a Jaeger over OTLP (Send),
// or writes them as OTLP JSON lines (Write), the format of the collector's file exporter. SendMetrics sends what is
// counted of a trace (Metrics).
//
// Each goes through the trace by one timeline.Walk; Send and Write encode each span when its times are known. What they
// hold is a few requests and where tasks belong that have not ended, so their memory does not grow with the trace. They
// only read the trace, keep no state between calls and may be called from several goroutines, each with a reader of its
// own. Nothing here changes a trace, times anything or decides what a call means: that is package timeline's business.
// A span that could not be handed over is an error, never silence.
//
// # Traces
//
// Each step of a recording (step.Step) becomes one trace with a root span "step", which takes the whole time of the
// step. What is in no step, and a recording without steps, becomes traces with a root span "recording"; what follows
// the last step may lie in its trace. More than MaxSpans spans or MaxBytes become several traces, each with whole calls
// in the order of their beginnings. Each root is linked to the root before it and to the one behind it; a device task
// lies in the trace of the call that made it, and may end there behind the step. The ids follow from the recording's
// UUID and from how it was cut: exporting again gives the same ones, and the same recording in another layout is
// another trace.
//
// Where the recorded program was started with a TRACEPARENT, as W3C Trace Context has it in the environment, the roots
// are children of that span and lie in its trace, so that a request and its device work are one picture. A trace of all
// that a long job does could not be shown, so that this ends after MaxSpans: what follows is traces as above, each root
// linked to the parent.
//
// What a thread does in a range whose name has "traceparent=" with a parent that is sampled is a root span "request"
// under that parent, with the calls of the thread and their tasks, beside the same calls in the traces of the
// recording, and by the same rules.
//
// Layout "lanes" has a span for each thread with its calls, and a span for each stream with its tasks, each
// linked to the call that made it. Layout "nested" has each task under the call that made it, and also linked to it: a link
// to the parent tells viewers that the child runs on behind it (Jaeger shows it as FOLLOWS_FROM and leaves it out of the critical
// path).
//
// # Times
//
// Times are the recorded nanoseconds. The times of device tasks are not measured: a task's span is the bracket
// that is known for it, from the earliest moment at which it can have begun (its call's start, not before the
// bracket of the task before it) to the first moment at which the program knew it done (the end of the synchronization that covers it).
// Such spans carry acl.bracketed. Tasks that one synchronization waited for end together and overlap, since nothing recorded
// says where one ended and the next began; their lengths must not be added up. A task that nothing waited for, and a call that
// never returned, last until the end of the recording.
//
// # Attributes
//
// Resources, one for each process and device:
//
//	service.name                the program's base name, or OTEL_SERVICE_NAME (with ":rank" where several processes share it);
//	                            "npu:0" for a device, without the number where the trace does not tell it
//	service.instance.id         UUID of the recording
//	host.name, process.*        pid, executable.name, executable.path, command_args (cut at 16 KiB)
//	hw.id, hw.type, hw.name, hw.vendor, hw.driver_version
//	                            of a device; hw.type is "gpu", which is the nearest that the conventions have
//	acl.simulated               true on a device that the simulator stood for
//
// and those of OTEL_RESOURCE_ATTRIBUTES, where the recording does not know better.
//
// Root spans:
//
//	acl.trace                   UUID of the recording
//	acl.part                    number of this trace among those of the recording, from 1
//	acl.cut                     true where the step, or what lies between two, became several traces
//	acl.layout                  lanes or nested
//	acl.calls                   calls in this trace
//	acl.step, acl.step.name     number of the step, from 0, and the name of the program's range that marks it
//	acl.step.source             marked, by the program, or found, from repetition
//	acl.step.differs            true on a step that is not like most others, as one to warm up
//	acl.sampled                 of a recording that goes on (Live): why this one was chosen: sampled, error, slow or requested
//	acl.incomplete              true where the file had no end: the recorder was killed, or the file was cut
//
// Spans of threads, streams and what is in them:
//
//	thread.id, thread.name      of threads, which calls lie under, and of gaps and ranges
//	process.pid                 of streams
//	acl.call                    number of the call in the trace file, on calls, as `acltrace cat` shows it; a task is linked to its call
//	acl.stream                  name of the stream, on the calls that made its tasks, and on tasks that do not lie under it
//	acl.kernel                  name of the launched kernel, on launches
//	acl.bytes                   bytes copied or filled, on tasks and their calls
//	acl.task                    kernel, copy, fill, reduce, record, wait, reset, host, graph or system, on tasks, and on the calls that
//	                            made them but for those with acl.kernel
//	acl.ret                     what the call returned, as a number; not on one that returned success
//	acl.error                   name of the error code; the span's status is Error, with the same text
//	acl.unfinished              true on a call that never returned
//	acl.truncated               true on a call some of whose data was lost
//	acl.bracketed               true where the times are a bracket, not a measurement
//	acl.open                    true on a task of which nothing in the trace shows the end
//	acl.range                   on what the program itself has named (a range or a moment of mstx): the call that began it, under whose
//	                            thread it lies; acl.domain is its domain
//	acl.lost, acl.reason        on spans "calls lost", or "not recorded" where that was asked for, which lie where calls are missing: how many
//	                            (left out where not known), why
//
// The span kind is producer for a call that puts a task on a stream, consumer for that task, internal for the rest.
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

// Options change what Send and Write do; nil stands for the zero value.
type Options struct {
	// Endpoint is the URL of the receiver, for Send. "" stands for what OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or
	// OTEL_EXPORTER_OTLP_ENDPOINT say, else http://localhost:4317. Headers, certificates, compression and timeout are always
	// taken from the other OTEL_EXPORTER_OTLP_* variables.
	Endpoint string
	// Protocol is GRPC or HTTP. "" stands for what OTEL_EXPORTER_OTLP_TRACES_PROTOCOL or OTEL_EXPORTER_OTLP_PROTOCOL say, else for
	// HTTP where the endpoint has port 4318 or a path, and GRPC elsewhere.
	Protocol string
	Layout   string // Lanes when ""
	MaxSpans int    // in one trace, DefaultMaxSpans when 0
	MaxBytes int    // of the spans in one trace, as protobuf, DefaultMaxBytes when 0
	NoSteps  bool   // cut by MaxSpans and MaxBytes alone
	// Progress is called by Send with the number of calls whose spans were handed over, nearly, and with all, from one goroutine at a time.
	Progress func(done, total int)
	// Resume is how far an export had come, for one that goes on behind it; nil for all of the trace.
	Resume *State
	// Save is called by Send, from one goroutine at a time, about once a second and when it ends with an error, with
	// how far it has come. The state is valid until Save returns.
	Save func(*State)
}

func (o *Options) spans() *spans.Options {
	return &spans.Options{Layout: o.Layout, MaxSpans: o.MaxSpans, MaxBytes: o.MaxBytes, NoSteps: o.NoSteps}
}

// Result says what was exported, also beside an error: then it is what was handed over before.
type Result struct {
	Endpoint     string // URL that the spans went to, "" for Write
	Protocol     string // "" for Write
	Traces       int
	Spans        int // handed over
	Before       int // and those that an export had handed over which this one has resumed
	Requests     int // or lines
	FirstTraceID string
	StepTraceID  string // of the first step that is like most others, else of the first step; "" without steps
	Rejected     int    // of all spans, by a receiver that took the others
	Message      string // what the receiver said with its last partial success, also where it rejected nothing
}

// made adds the traces that an encoder made.
func (r *Result) made(x *spans.Encoder) {
	m := x.Result()
	r.Traces, r.FirstTraceID, r.StepTraceID = m.Traces, m.FirstTraceID, m.StepTraceID
}

// A RejectedError says that the receiver did not take some of the spans.
type RejectedError struct {
	Endpoint        string
	Rejected, Spans int
	Message         string // what the receiver said
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("%s rejected %d of %d spans: %s", e.Endpoint, e.Rejected, e.Spans, e.Message)
}

// Send hands the spans of a trace to an OTLP receiver: a collector, a Jaeger. It repeats what the receiver asks to repeat, goes on
// behind a request of which the receiver has rejected a part, and then ends with a *RejectedError. Where it ends with another error,
// Resume goes on: what was on its way then is sent again, so that a receiver may get spans twice, with the same ids.
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
	res := &Result{Endpoint: t.Url.String(), Protocol: t.Protocol}
	s, err := dial(ctx, t, x.Calls(), o, res)
	if err != nil {
		return nil, err
	}
	err = s.resume(o.Resume, fmt.Sprintf("%s to %s", x.Name(), t.Url))
	if err == nil {
		err = x.Run(s.take)
	}
	if err == nil {
		err = s.same()
	}
	// What is on its way when something else goes wrong is given up, and its error says nothing.
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
		return res, fmt.Errorf("send over %s to %s: %d spans were handed over, those of %d of %d calls: %w", t.Protocol, t.Url, res.Spans+res.Before, s.calls, s.total, err)
	}
	if res.Rejected > 0 {
		return res, &RejectedError{Endpoint: res.Endpoint, Rejected: res.Rejected, Spans: res.Spans + res.Before, Message: res.Message}
	}
	return res, nil
}

// Write writes the spans of a trace as OTLP JSON lines, each of which is also a valid body of a request to a receiver's
// /v1/traces.
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
