package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/otelexport/live"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/pflag"
)

// liveFlags select the data that a recording sends while in progress.
type liveFlags struct {
	metrics []string
	every   int
	slow    time.Duration
	o       live.Options
	flags   *pflag.FlagSet
}

func (l *liveFlags) add(f *pflag.FlagSet) {
	l.flags = f
	f.StringSliceVar(&l.metrics, "metrics", nil, "`TO`: send metrics: otlp or prometheus=[HOST]:PORT")
	explain(f, "metrics", "otlp pushes metrics to the receiver. prometheus=:9464 serves them to this machine, and prometheus=0.0.0.0:9464 to all. Both may be "+
		"given.")
	f.IntVar(&l.every, "sample-steps", 0, "`N`: send spans of one step in N, and of errors")
	explain(f, "sample-steps", "Sends one step in N while recording, each step with a failed call, and requests that the program names. 0 sends errors and "+
		"requests only.")
	f.DurationVar(&l.slow, "slow-step", 0, "`TIME`: send spans of steps that take longer")
	explain(f, "slow-step", "Sends each step and each request that takes longer than TIME, for example 50ms.")
	f.StringVar(&l.o.Endpoint, "otlp", "", "`URL`: receiver (default http://localhost:4317)")
	explain(f, "otlp", "An OpenTelemetry collector or a Jaeger. OTEL_EXPORTER_OTLP_ENDPOINT sets another default.")
	f.StringVar(&l.o.Protocol, "otlp-protocol", "", "`NAME`: grpc or http/protobuf (default: by port)")
	f.StringVar(&l.o.Layout, "span-layout", "nested", "`NAME`: place kernels: nested or lanes")
	explain(f, "span-layout", "The same as --layout of `acltrace export otlp`.")
	f.StringVar((*string)(&l.o.DeviceAs), "device-as", "service", "`KIND`: devices as service or attribute")
	explainDeviceAs(f)
}

func explainDeviceAs(f *pflag.FlagSet) {
	explain(f, "device-as", "service makes each device a service, for example train/npu:0. attribute puts its tasks into the program's service.")
}

// A follower sends data while recording; nil if there is none.
type follower struct{ *live.Follower }

// follow creates the follower and attaches it to the recording.
func (l *liveFlags) follow(a *app, o *record.Options) (*follower, error) {
	l.o.Spans = l.flags.Changed("sample-steps") || l.slow > 0
	if o.Steps.Marker != "" && o.Steps.Range == nil && !l.o.Spans {
		return nil, usage("--step-marker needs --steps A:B, --sample-steps N or --slow-step TIME")
	}
	if len(l.metrics) == 0 && !l.o.Spans {
		for _, name := range []string{"otlp", "otlp-protocol", "span-layout", "device-as"} {
			if l.flags.Changed(name) {
				return nil, usage("--%s needs --metrics otlp or --sample-steps N", name)
			}
		}
		return nil, nil
	}
	for _, m := range l.metrics {
		address, ok := strings.CutPrefix(m, "prometheus=")
		switch {
		case m == "otlp":
			l.o.Metrics = true
		case ok && strings.Contains(address, ":"):
			l.o.Prometheus = address
		default:
			return nil, usage("--metrics %s: want otlp or prometheus=ADDRESS, for example prometheus=:9464", m)
		}
	}
	if l.every < 0 || l.slow < 0 {
		return nil, usage("--sample-steps and --slow-step: want 0 or more")
	}
	l.o.Model, l.o.Every, l.o.Slow, l.o.StepMarker = o.Model, l.every, l.slow, o.Steps.Marker
	followed, err := live.New(&l.o)
	if err != nil {
		return nil, notStarted(o, fmt.Errorf("%w: %w", record.ErrStart, err))
	}
	o.Follower = followed
	if at := followed.Address(); at != "" {
		report.Printf(a.err, "acltrace: metrics for Prometheus at http://%s/metrics\n", at)
	}
	for _, r := range followed.Try(context.Background()) {
		report.Printf(a.err, "acltrace: %s can't be sent to %s: %v; recording starts nevertheless\n", r.What, r.To, r.Err)
	}
	return &follower{followed}, nil
}

// said prints a summary.
func (f *follower) said(a *app) {
	if f == nil {
		return
	}
	f.Close()
	res, err := f.Result()
	if err != nil {
		report.Printf(a.err, "acltrace: live metrics and spans stopped: %v\n", err)
	}
	for _, w := range res.Warnings() {
		report.Printf(a.err, "acltrace: %s\n", w)
	}
	switch {
	case res.Sent > 0:
		report.Printf(a.err, "acltrace: %s steps and requests sent as %s to %s, of %s that were seen; the first trace is %s\n", human.Count(res.Sent), human.Plural(res.Spans, "span"), res.SpansTo, human.Plural(res.Steps, "step"), res.FirstTrace)
	case res.SpansTo != "" && res.Chosen == 0 && res.Steps == 0:
		report.Printf(a.err, "acltrace: no spans were sent: no step was seen while recording, and no request was named; --step-marker NAME says what separates steps\n")
	case res.SpansTo != "" && res.Chosen == 0:
		report.Printf(a.err, "acltrace: no spans were sent: none of %s was chosen\n", human.Plural(res.Steps, "step"))
	}

}
