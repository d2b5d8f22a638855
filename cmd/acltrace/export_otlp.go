package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/otelexport"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/pflag"
)

type otlpExport struct {
	o               otelexport.Options
	ui              string
	maxSpans        int
	maxBytes        optional[int64]
	slowest         int
	resume, metrics bool
}

func (e *otlpExport) flags(f *pflag.FlagSet) {
	f.StringVar(&e.o.Endpoint, "endpoint", "", "`URL`: receiver (default http://localhost:4317)")
	explain(f, "endpoint", "A Jaeger or an OpenTelemetry collector. OTEL_EXPORTER_OTLP_ENDPOINT sets another default.")
	f.StringVar(&e.o.Protocol, "protocol", "", "`NAME`: grpc or http/protobuf (default: by port)")
	f.StringVar(&e.o.Layout, "layout", otelexport.Nested, "`NAME`: place kernels: nested or lanes")
	explain(f, "layout", "nested puts kernels below their launches. lanes puts them on their streams.")
	f.StringVar(&e.o.Brackets, "brackets", otelexport.BracketsEarliest, "`NAME`: unmeasured tasks: earliest or none")
	explain(f, "brackets", "earliest shows an unmeasured task until its earliest possible end. none leaves it out.")
	f.StringVar((*string)(&e.o.DeviceAs), "device-as", "service", "`KIND`: devices as service or attribute")
	explainDeviceAs(f)
	f.IntVar(&e.maxSpans, "max-spans", otelexport.DefaultMaxSpans, "`N`: most spans of a trace; 0: no limit")
	explain(f, "max-spans", "Runs of small calls become one span each until the trace fits.")
	sizeFlag(f, &e.maxBytes, "max-bytes", strconv.Itoa(otelexport.DefaultMaxBytes), "`SIZE`: most bytes of a trace")
	explain(f, "max-bytes", "Like --max-spans, by size. --max-spans 0 removes this limit too.")
	f.BoolVar(&e.o.NoSteps, "no-steps", false, "send no trace for each step")
	f.IntVar(&e.slowest, "slowest", 0, "`N`: send only the N longest steps")
	f.BoolVar(&e.resume, "resume", false, "continue an interrupted export")
	explain(f, "resume", "An interrupted export leaves its progress in TRACE.otlp-state.")
	f.BoolVar(&e.metrics, "metrics", false, "send metrics instead of spans")
	explain(f, "metrics", "Calls, launches, copies, errors, times and memory: of the whole trace, or of the chosen calls.")
	f.StringVar(&e.ui, "ui", "", "`URL`: web page of the viewer, for links")
	explain(f, "ui", "The page of a Jaeger, for example http://host:16686, or a URL with {trace} in place of the trace id. ACLTRACE_UI sets a default.")
}

func (e *otlpExport) check(x *exporting, f *pflag.FlagSet) error {
	if x.out.path != "" && (e.o.Endpoint != "" || e.resume || f.Changed("ui") || e.metrics) {
		return usage("export otlp: --output writes spans to a file: --endpoint, --resume, --ui and --metrics need a receiver")
	}
	if e.metrics && e.resume {
		return usage("export otlp: --metrics and --resume exclude each other")
	}
	if l := e.o.Layout; l != otelexport.Nested && l != otelexport.Lanes {
		return usage("--layout %s: want nested or lanes", l)
	}
	if b := e.o.Brackets; b != otelexport.BracketsEarliest && b != otelexport.BracketsNone {
		return usage("--brackets %s: want earliest or none", b)
	}
	if e.slowest < 0 {
		return usage("export otlp: --slowest %d: want a number of steps", e.slowest)
	}
	x.which.Slowest = e.slowest
	e.o.MaxBytes = int(e.maxBytes.or(0))
	if e.o.MaxSpans = e.maxSpans; e.maxSpans == 0 {
		e.o.MaxSpans = -1
	} else if e.maxSpans < 0 {
		return usage("export otlp: --max-spans %d: want 0 for no limit, or a number of spans", e.maxSpans)
	}
	return nil
}

// manyTraces is the number of traces from which an export is announced as long: viewers list few traces, and keep a limited number.
var manyTraces = 1000

func (e *otlpExport) run(x *exporting) error {
	e.o.Select = &x.which.Selection
	e.o.Traced = func(n int) {
		if n == manyTraces+1 {
			report.Printf(x.err, "acltrace: more than %s traces, one a step: --slowest 10 sends the longest steps alone\n", human.Count(manyTraces))
		}
	}
	if x.out.path != "" {
		return e.write(x)
	}
	ctx, stop := interruptible()
	defer stop()
	if e.metrics {
		e.o.Progress = x.progress("calls counted")
		res, err := otelexport.SendMetrics(ctx, x.r, x.m, &e.o)
		if err != nil {
			return err
		}
		if x.which.nothing(x.app, x.path, uint64(res.Calls)) {
			return nil
		}
		report.Printf(x.err, "acltrace: %s of metrics%s sent to %s\n", human.Plural(res.Values, "value"), x.ofCalls(res.Calls), res.Endpoint)
		x.next("acltrace", "stats", x.path)
		return nil
	}
	return e.send(ctx, x)
}

// write writes spans to a file.
func (e *otlpExport) write(x *exporting) error {
	e.o.Progress = x.writing()
	res, err := file(x, func(w io.Writer) (*otelexport.Result, error) { return otelexport.Write(w, x.r, x.m, &e.o) })
	if err != nil {
		return err
	}
	x.written(res.Calls, e.spans(x, res)+" in "+human.Plural(res.Traces, "trace"), x.out.path, "read "+x.out.path+" in a collector with its otlpjsonfile receiver", 0, 0)
	return nil
}

// spans describes the spans of a result.
func (e *otlpExport) spans(x *exporting, res *otelexport.Result) string {
	return human.Plural(res.Spans+res.Before, "span") + x.ofCalls(res.Calls)
}

// ofCalls says how many calls were chosen, "" if all were.
func (x *exporting) ofCalls(n int) string {
	if !x.which.given() {
		return ""
	}
	return " of " + x.calls(n)
}

// send sends spans to a receiver.
func (e *otlpExport) send(ctx context.Context, x *exporting) (err error) {
	state := resumeFile(x.path + ".otlp-state")
	if e.resume {
		if e.o.Resume, err = state.read(); err != nil {
			return err
		}
	}
	e.o.Save = state.save
	e.o.Progress = x.progress("calls sent")
	res, err := otelexport.Send(ctx, x.r, x.m, &e.o)
	if err != nil {
		if s, serr := os.Stat(string(state)); serr == nil && s.Size() > 0 {
			report.Printf(x.err, "acltrace: the progress is saved in %s: repeat the command with --resume\n", state)
		}
		return err
	}
	os.Remove(string(state))
	if res.Traces == 0 {
		x.which.nothing(x.app, x.path, 0)
		return nil
	}
	report.Printf(x.err, "acltrace: %s in %s sent; the first trace is %s\n", e.spans(x, res), human.Plural(res.Traces, "trace"), res.FirstTraceID)
	if res.Message != "" {
		report.Printf(x.err, "acltrace: the receiver says: %s\n", res.Message)
	}
	report.Printf(x.err, "acltrace: %s\n", where(cmp.Or(e.ui, os.Getenv("ACLTRACE_UI")), res))
	return nil
}

// where returns where to view a step, or the first trace if the recording has no steps.
func where(ui string, res *otelexport.Result) string {
	id, look, in := res.FirstTraceID, "look at ", "in a Jaeger there: "
	if res.StepTraceID != "" {
		id, look, in = res.StepTraceID, "look at a step: ", "a step in a Jaeger there: "
	}
	switch {
	case strings.Contains(ui, "{trace}"):
		return look + strings.ReplaceAll(ui, "{trace}", id)
	case ui != "":
		return look + strings.TrimRight(ui, "/") + "/trace/" + id
	}
	host := "HOST"
	if u, err := url.Parse(res.Endpoint); err == nil {
		host = u.Hostname()
	}
	return fmt.Sprintf("%shttp://%s/trace/%s (--ui names the pages of another viewer)", in, net.JoinHostPort(host, "16686"), id)
}

// resumeFile is the path with an interrupted export's progress.
type resumeFile string

func (f resumeFile) read() (*otelexport.State, error) {
	b, err := os.ReadFile(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no export of this trace was interrupted: there is no %s", f)
	}
	if err != nil {
		return nil, err
	}
	s := &otelexport.State{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%s: %w; without --resume the export begins anew", f, err)
	}
	return s, nil
}

// save replaces the file atomically. It ignores errors: the export can continue without it.
func (f resumeFile) save(s *otelexport.State) {
	b, _ := json.Marshal(s) // cannot fail
	_ = atomicfile.WriteFile(string(f), b)
}
