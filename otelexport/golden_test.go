package otelexport

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/testenv"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
)

// Spans show each kind of call, task, range and gap, and are equal as JSON and as protobuf.
func TestGolden(t *testing.T) {
	tl := testtrace.Rich(t)
	for _, x := range []struct {
		name string
		o    *Options
	}{
		{"otlp", nil},
		{"otlp --layout lanes --step 1", &Options{Layout: Lanes, Select: &timeline.Selection{Steps: &human.Numbers{First: 1, Last: 1}}}},
		{"otlp --brackets none --device-as attribute --from 4us --to 16us", &Options{Brackets: BracketsNone, DeviceAs: DeviceAsAttribute, NoSteps: true, Select: &timeline.Selection{From: 4_000, To: 16_000}}},
	} {
		spans, res := written(t, tl, x.o)
		text := spanText(spans)
		testenv.Golden(t, "rich.txtar", x.name, fmt.Sprintf("%d calls in %d traces\n%s", res.Calls, res.Traces, text))
		if wire := spanText(sent(t, encoder(t, tl, x.o), nil)); wire != text {
			t.Errorf("%s: the spans as protobuf are\n%s", x.name, wire)
		}
	}
}

// spanText lists resources and spans, with times in nanoseconds since the begin of the trace.
func spanText(spans []oteltest.Span) string {
	var b strings.Builder
	resources := map[string]int{}
	for i := range spans {
		s := &spans[i]
		res := attributeText(s.Resource) + " " + s.Scope + " " + s.Schema
		if _, known := resources[res]; !known {
			resources[res] = len(resources)
			fmt.Fprintf(&b, "resource %d:%s\n", resources[res], res)
		}
		fmt.Fprintf(&b, "%d %s %s %s %s %q %d %d", resources[res], s.Trace[:8], s.ID, strings.TrimLeft(s.Parent, "0"), s.Kind, s.Name, s.Start-testtrace.StartWall, s.End-s.Start)
		for _, l := range s.Links {
			fmt.Fprintf(&b, " link %s %s", l[0][:8], l[1])
		}
		if s.Status != "Unset" || s.Message != "" {
			fmt.Fprintf(&b, " %s %q", s.Status, s.Message)
		}
		fmt.Fprintf(&b, "%s\n", attributeText(s.Attrs))
	}
	return b.String()
}

func attributeText(attrs map[string]any) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(attrs)) {
		fmt.Fprintf(&b, " %s=", k)
		switch v := attrs[k].(type) {
		case string, []any:
			fmt.Fprintf(&b, "%q", v)
		default:
			fmt.Fprint(&b, v)
		}
	}
	return b.String()
}

// Metrics count each kind of call and task.
func TestGoldenMetrics(t *testing.T) {
	tl := testtrace.Rich(t)
	for _, x := range []struct {
		name string
		o    *Options
	}{
		{"otlp --metrics", &Options{}},
		{"otlp --metrics --device-as attribute --from 4us --to 20500ns --func …", &Options{DeviceAs: DeviceAsAttribute, Select: &timeline.Selection{From: 4_000, To: 20_500, Funcs: []string{"*Launch*", "*Memcpy*", "*Synchronize*"}}}},
	} {
		m, end, err := count(tl.Reader, tl.Model, x.o)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "%d calls until %d\n", m.Calls(), end)
		for _, d := range m.Data(end) {
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
