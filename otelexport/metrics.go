package otelexport

import (
	"context"
	"fmt"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/otelexport/internal/endpoint"
	"github.com/acltrace/acltrace/otelexport/internal/meter"
)

// MetricsResult reports what SendMetrics counted and sent.
type MetricsResult struct {
	Endpoint string // of the receiver
	Values   int
	Calls    int // counted
}

// SendMetrics counts a trace and sends the final values to an OTLP receiver. It uses Endpoint, Protocol, DeviceAs, Select
// and Progress of the options. OTEL_EXPORTER_OTLP_METRICS_* variables override OTEL_EXPORTER_OTLP_*.
//
// Values of selected calls have the attribute acl.selection, so that a receiver keeps them apart from those of the whole
// trace. Their times are those of the selection's window, and calls are lost in that window. A window has the memory in
// use at its end and the largest use in it. Other selections have no memory. Nothing is sent if no call is selected.
func SendMetrics(ctx context.Context, r *format.Reader, m *api.Model, o *Options) (*MetricsResult, error) {
	if o == nil {
		o = &Options{}
	}
	t, err := endpoint.Metrics.Resolve(o.Endpoint, o.Protocol)
	if err != nil {
		return nil, err
	}
	if err := t.Check(ctx); err != nil {
		return nil, err
	}
	x, end, err := meter.Count(r, m, o.DeviceAs, o.Select, o.Progress)
	if err != nil {
		return nil, err
	}
	res := &MetricsResult{Endpoint: t.URL.String(), Calls: x.Calls()}
	if o.Select != nil && res.Calls == 0 && o.Select.String() != "" {
		return res, nil
	}
	e, err := t.Metrics(ctx, t.Timeout, true)
	if err != nil {
		return nil, err
	}
	defer e.Shutdown(context.WithoutCancel(ctx))
	data := x.Data(end)
	res.Values = x.Size()
	for _, d := range data {
		if err := e.Export(ctx, d.Message()); err != nil {
			return res, fmt.Errorf("send metrics over %s to %s: %w", t.Protocol, t.URL, err)
		}
	}
	return res, nil
}
