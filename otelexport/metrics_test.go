package otelexport

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/testtrace"
	"github.com/acltrace/acltrace/otelexport/internal/meter"
	"github.com/acltrace/acltrace/otelexport/internal/oteltest"
	"github.com/acltrace/acltrace/timeline"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// readMetrics returns the values in a collector's file, by service, metric and attributes. A histogram gives its count
// and sum.
func readMetrics(t *testing.T, lines []byte, from, to int64) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for line := range bytes.Lines(lines) {
		md, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(line)
		if err != nil {
			t.Fatal(err)
		}
		for _, rm := range md.ResourceMetrics().All() {
			service, _ := rm.Resource().Attributes().Get("service.name")
			for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
				add := func(what string, attrs pcommon.Map, start, end pcommon.Timestamp, v float64) {
					key := service.AsString() + " " + m.Name() + what
					for _, k := range []string{"code.function.name", "error.type", "acl.direction", "acl.task", "acl.reason", "acl.stream"} {
						if a, ok := attrs.Get(k); ok {
							key += " " + a.AsString()
						}
					}
					if _, twice := out[key]; twice {
						t.Errorf("%s is there twice", key)
					}
					if m.Type() != pmetric.MetricTypeGauge && int64(start) != testtrace.StartWall+from || int64(end) != testtrace.StartWall+to {
						t.Errorf("%s from %d to %d", key, start, end)
					}
					out[key] = v
				}
				number := func(p pmetric.NumberDataPoint) {
					v := p.DoubleValue()
					if p.ValueType() == pmetric.NumberDataPointValueTypeInt {
						v = float64(p.IntValue())
					}
					add("", p.Attributes(), p.StartTimestamp(), p.Timestamp(), v)
				}
				switch m.Type() {
				case pmetric.MetricTypeSum:
					if m.Sum().AggregationTemporality() != pmetric.AggregationTemporalityCumulative || m.Sum().IsMonotonic() == strings.HasPrefix(m.Name(), "hw.gpu.memory.") {
						t.Errorf("%s: %s, %t", m.Name(), m.Sum().AggregationTemporality(), m.Sum().IsMonotonic())
					}
					for _, p := range m.Sum().DataPoints().All() {
						number(p)
					}
				case pmetric.MetricTypeGauge:
					for _, p := range m.Gauge().DataPoints().All() {
						number(p)
					}
				case pmetric.MetricTypeHistogram:
					for _, p := range m.Histogram().DataPoints().All() {
						in := uint64(0)
						for _, n := range p.BucketCounts().All() {
							in += n
						}
						if in != p.Count() {
							t.Errorf("%s: %d in buckets of %d", m.Name(), in, p.Count())
						}
						add("", p.Attributes(), p.StartTimestamp(), p.Timestamp(), float64(p.Count()))
						add(".sum", p.Attributes(), p.StartTimestamp(), p.Timestamp(), p.Sum())
					}
				default:
					t.Errorf("%s is a %s", m.Name(), m.Type())
				}
			}
		}
	}
	return out
}

// A real collector receives the values that the timeline has.
func TestCollectorReceivesTheMetrics(t *testing.T) {
	for name, tl := range map[string]*timeline.Timeline{"small": testtrace.Small(t), "long": testtrace.Long(t, 3_000), "steps": testtrace.Steps(t, 5, 20, func(s, l int) int64 { return 900 + int64(s*l%7) })} {
		// In nanoseconds until the end of the loop.
		want := map[string]float64{}
		nanos := map[string]bool{}
		services := []string{"train", "loader"}
		threads := tl.Reader.Threads()
		for i := range tl.Calls {
			c := &tl.Calls[i]
			service := services[threads[c.Thread].Process]
			want[service+" acl.calls "+c.Name]++
			if c.Failed() {
				want[service+" acl.call.errors "+c.Name+" ACL_ERROR_INVALID_PARAM"]++
			}
			if c.Flags&format.Unfinished != 0 {
				want[service+" acl.calls.unfinished "+c.Name]++
			} else if strings.HasPrefix(c.Name, "aclrtSynchronize") {
				k := service + " acl.synchronize.time " + c.Name
				want[k] += float64(c.End - c.Start)
				nanos[k] = true
			}
			if c.Task < 0 {
				continue
			}
			k := &tl.Tasks[c.Task]
			on := " " + tl.Lanes[k.Lane].Name
			device := services[k.Process] + "/npu"
			if d := tl.Lanes[k.Lane].Device; d != timeline.NoDevice {
				device += fmt.Sprint(":", d)
			}
			switch k.Kind {
			case api.Kernel:
				want[service+" acl.launch.duration"]++
				want[service+" acl.launch.duration.sum"] += float64(c.End - c.Start)
				nanos[service+" acl.launch.duration.sum"] = true
				want[device+" acl.launches kernel"+on]++
				if k.Measured {
					want[device+" acl.kernel.duration"]++
					want[device+" acl.kernel.duration.sum"] += float64(k.To - k.From)
					nanos[device+" acl.kernel.duration.sum"] = true
				}
			case api.Copy:
				direction := k.Name[len("copy "):]
				want[device+" acl.copies "+direction+on]++
				want[device+" acl.copy.io "+direction+on] += float64(k.Bytes)
			}
		}
		for k := range nanos {
			want[k] /= 1e9
		}
		want["train/npu:3 acl.memory.peak"] = 2 << 20
		want["train/npu:3 hw.gpu.memory.usage"] = 2 << 20
		if name == "small" {
			want["train/npu:3 hw.gpu.memory.usage"] = 1 << 20 // one was freed
			want["train acl.calls.lost dropped"] = 17
		}
		for _, protocol := range []string{GRPC, HTTP} {
			t.Run(name+" "+protocol[:4], func(t *testing.T) {
				s, url, file := oteltest.StartCollector(t, "file")
				res, err := SendMetrics(t.Context(), tl.Reader, tl.Model, &Options{Endpoint: url[protocol], Protocol: protocol})
				if err != nil || !strings.HasPrefix(res.Endpoint, url[protocol]) || res.Values == 0 || res.Calls != len(tl.Calls) {
					t.Fatalf("%+v, %v", res, err)
				}
				s.Stop()
				lines, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				got := readMetrics(t, lines, 0, tl.End)
				for k := range nanos { // both sum up the same nanoseconds
					if d := got[k] - want[k]; d < 1e-12 && d > -1e-12 {
						got[k] = want[k]
					}
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("-want +got:\n%s", d)
				}
			})
		}
	}
}

// Regression: acl.calls.lost counted calls outside --steps.
func TestMetricsOfCallsLeftOut(t *testing.T) {
	b := testtrace.New(t)
	b.Call(2, 1000, 1100, "aclrtSynchronizeDevice", nil)
	b.Gap(format.Gap{Thread: 2, From: 2000, To: 3000, Calls: 7, Reason: format.Dropped})
	b.Gap(format.Gap{Thread: 2, From: 4000, To: 5000, Calls: 100, Reason: format.Detached})
	tl := b.Load()
	x, _, err := meter.Count(tl.Reader, tl.Model, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range x.Data(tl.End) {
		for _, s := range d.Message().ScopeMetrics {
			for _, m := range s.Metrics {
				if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "acl.calls.lost" {
					for _, p := range sum.DataPoints {
						got = append(got, fmt.Sprint(p.Attributes.Encoded(attribute.DefaultEncoder()), " ", p.Value))
					}
				}
			}
		}
	}
	if want := []string{"acl.reason=dropped 7"}; !slices.Equal(got, want) {
		t.Errorf("%q calls lost, want %q", got, want)
	}
}

// Metrics of a selection count its calls, name it in each value, and have the memory of its window.
func TestMetricsOfSelection(t *testing.T) {
	tl := testtrace.Small(t)
	for _, x := range []struct {
		name     string
		sel      timeline.Selection
		calls    int
		from, to int64
		want     map[string]float64
	}{
		{"function", timeline.Selection{Funcs: []string{"aclrtMalloc", "aclrtMemcpyAsync"}}, 4, 0, tl.End, map[string]float64{
			"train acl.calls aclrtMalloc": 2, "train acl.calls aclrtMemcpyAsync": 2, "train acl.calls.lost dropped": 17,
			"train/npu:3 acl.copies HtoD stream 1": 1, "train/npu:3 acl.copy.io HtoD stream 1": 65536,
			"train/npu:3 acl.copies DtoD stream 2": 1, "train/npu:3 acl.copy.io DtoD stream 2": 2048,
		}},
		// The first allocation and the lost calls are outside. The free at 40 us is too.
		{"window", timeline.Selection{From: 3_900, To: 4_250}, 2, 3_900, 4_250, map[string]float64{
			"train acl.calls aclrtMalloc": 1, "train acl.calls aclrtCreateStream": 1,
			"train/npu:3 acl.memory.peak": 2 << 20, "train/npu:3 hw.gpu.memory.usage": 2 << 20,
		}},
		{"end", timeline.Selection{From: 20_500}, 2, 20_500, tl.End, map[string]float64{
			"train acl.calls aclrtSynchronizeStream": 1, "train acl.calls.unfinished aclrtSynchronizeStream": 1, "train acl.calls aclrtFree": 1,
			"train acl.calls.lost dropped": 17, "train/npu:3 acl.memory.peak": 2 << 20, "train/npu:3 hw.gpu.memory.usage": 1 << 20,
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			s, url, file := oteltest.StartCollector(t, "file")
			res, err := SendMetrics(t.Context(), tl.Reader, tl.Model, &Options{Endpoint: url[GRPC], Protocol: GRPC, Select: &x.sel})
			if err != nil || res.Calls != x.calls {
				t.Fatalf("%+v, %v", res, err)
			}
			s.Stop()
			lines, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(lines, fmt.Appendf(nil, `{"key":"acl.selection","value":{"stringValue":"%s"}}`, &x.sel)); n != res.Values {
				t.Errorf("%d of %d values name the selection", n, res.Values)
			}
			if d := cmp.Diff(x.want, readMetrics(t, lines, x.from, x.to)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		s, url, file := oteltest.StartCollector(t, "file")
		res, err := SendMetrics(t.Context(), tl.Reader, tl.Model, &Options{Endpoint: url[GRPC], Protocol: GRPC, Select: &timeline.Selection{Longer: time.Hour}})
		s.Stop()
		if lines, _ := os.ReadFile(file); err != nil || res.Calls != 0 || len(lines) > 0 {
			t.Errorf("%+v, %v, %s", res, err, lines)
		}
	})
}

// Nothing is sent of a trace that can't be read.
func TestMetricsOfAClosedTrace(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tl := testtrace.Small(t)
	tl.Reader.Close()
	if res, err := SendMetrics(t.Context(), tl.Reader, tl.Model, &Options{Endpoint: "http://" + l.Addr().String()}); err == nil || res != nil {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestMetricsNowhere(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:2")
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1/own")
	tl := testtrace.Small(t)
	_, err := SendMetrics(t.Context(), tl.Reader, tl.Model, nil)
	if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "http://127.0.0.1:1/own") {
		t.Error(err)
	}
}
