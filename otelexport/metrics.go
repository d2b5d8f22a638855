package otelexport

import (
	"context"
	"fmt"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/otelexport/internal/endpoint"
	"github.com/acltrace/acltrace/otelexport/internal/meter"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
)

// SendMetrics counts a trace and sends the final values to an OTLP receiver. It uses Endpoint, Protocol, DeviceAs and
// Progress of the options. OTEL_EXPORTER_OTLP_METRICS_* variables override OTEL_EXPORTER_OTLP_*. It returns the receiver's URL and
// the number of values.
func SendMetrics(ctx context.Context, r *format.Reader, m *api.Model, o *Options) (to string, values int, err error) {
	if o == nil {
		o = &Options{}
	}
	t, err := endpoint.Metrics.Resolve(o.Endpoint, o.Protocol)
	if err != nil {
		return "", 0, err
	}
	if err := endpoint.Metrics.Check(); err != nil {
		return "", 0, err
	}
	limit, err := endpoint.Metrics.Timeout()
	if err != nil {
		return "", 0, err
	}
	if err := t.Check(ctx); err != nil {
		return "", 0, err
	}
	rs, err := otlp.NewResources(r, m, o.DeviceAs)
	if err != nil {
		return "", 0, err
	}
	w := timeline.NewWalk(r, m, &timeline.WalkOptions{Progress: o.Progress})
	x := meter.New(rs, m, r.Threads())
	x.Follow(w)
	for _, g := range r.Gaps() {
		x.Gap(&g)
	}
	if err := w.Run(x.Visitor()); err != nil {
		return "", 0, err
	}
	e, err := t.Metrics(ctx, limit, true)
	if err != nil {
		return "", 0, err
	}
	defer e.Shutdown(context.WithoutCancel(ctx))
	for _, d := range x.Data(w.End) {
		if err := e.Export(ctx, d.Message()); err != nil {
			return t.URL.String(), x.Size(), fmt.Errorf("send metrics over %s to %s: %w", t.Protocol, t.URL, err)
		}
	}
	return t.URL.String(), x.Size(), nil
}
