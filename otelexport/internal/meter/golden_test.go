package meter

import (
	"bytes"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
)

// Metrics count each kind of call and task.
func TestGoldenMetrics(t *testing.T) {
	rich := testtrace.Rich(t)
	for _, x := range []struct {
		name string
		tl   *timeline.Timeline
		as   otlp.DeviceAs
		sel  *timeline.Selection
	}{
		{"otlp --metrics", rich, otlp.DeviceAsService, nil},
		{"otlp --metrics --device-as attribute --from 4us --to 20500ns --func …", rich, otlp.DeviceAsAttribute, &timeline.Selection{From: 4_000, To: 20_500, Funcs: []string{"*Launch*", "*Memcpy*", "*Synchronize*"}}},
		{"from 4us to 20500ns", rich, otlp.DeviceAsService, &timeline.Selection{From: 4_000, To: 20_500}},
		{"small", testtrace.Small(t), otlp.DeviceAsService, nil},
		{"ranks", testtrace.Ranks(t), otlp.DeviceAsAttribute, nil},
	} {
		m, end, err := Count(x.tl.Reader, x.tl.Model, x.as, x.sel, nil)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "%d calls until %d\n", m.Calls(), end)
		data := m.Data(end)
		for i, d := range data {
			if i > 0 && d.Index <= data[i-1].Index {
				t.Errorf("resource %d after %d", d.Index, data[i-1].Index)
			}
			message := d.Message()
			fmt.Fprintf(&b, "resource: %s\n", message.Resource.Encoded(attribute.DefaultEncoder()))
			for _, s := range message.ScopeMetrics {
				if s.Scope.Name != otlp.ScopeName || s.Scope.SchemaURL != otlp.SchemaURL {
					t.Errorf("scope %+v", s.Scope)
				}
				for _, metric := range s.Metrics {
					fmt.Fprintf(&b, "%s (%s), %s\n", metric.Name, metric.Unit, metric.Description)
					metricText(t, &b, metric.Data)
				}
			}
		}
		testenv.Golden(t, "metrics.txtar", x.name, b.String())
	}
}

func metricText(t *testing.T, b *bytes.Buffer, data metricdata.Aggregation) {
	t.Helper()
	encoder := attribute.DefaultEncoder()
	switch d := data.(type) {
	case metricdata.Sum[int64]:
		numberText(b, fmt.Sprint("  sum, ", d.Temporality, ", monotonic ", d.IsMonotonic), d.DataPoints)
	case metricdata.Sum[float64]:
		numberText(b, fmt.Sprint("  sum, ", d.Temporality, ", monotonic ", d.IsMonotonic), d.DataPoints)
	case metricdata.Gauge[int64]:
		numberText(b, "  gauge", d.DataPoints)
	case metricdata.Gauge[float64]:
		numberText(b, "  gauge", d.DataPoints)
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			least, _ := p.Min.Value()
			most, _ := p.Max.Value()
			fmt.Fprintf(b, "  histogram, %s, bounds %v\n    {%s} %d to %d: %v, %d values, sum %.3g, %.3g to %.3g\n", d.Temporality, p.Bounds, p.Attributes.Encoded(encoder),
				p.StartTime.UnixNano()-testtrace.StartWall, p.Time.UnixNano()-testtrace.StartWall, p.BucketCounts, p.Count, p.Sum, least, most)
		}
	default:
		t.Errorf("%T", data)
	}
}

func numberText[N int64 | float64](b *bytes.Buffer, kind string, points []metricdata.DataPoint[N]) {
	fmt.Fprintln(b, kind)
	for _, p := range points {
		from := "-"
		if !p.StartTime.IsZero() {
			from = fmt.Sprint(p.StartTime.UnixNano() - testtrace.StartWall)
		}
		fmt.Fprintf(b, "    {%s} %s to %d: %v\n", p.Attributes.Encoded(attribute.DefaultEncoder()), from, p.Time.UnixNano()-testtrace.StartWall, p.Value)
	}
}
