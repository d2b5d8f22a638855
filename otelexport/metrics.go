package otelexport

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// A Metric is what is counted of calls and of the device's work, whether of a recording that has ended or of one that goes on.
type Metric struct {
	Name, Unit, Description string
	kind                    metricKind
}

type metricKind uint8

const (
	counter   metricKind = iota // only grows
	level                       // goes up and down, and what several processes have adds up
	gauge                       // goes up and down, and does not add up
	seconds                     // a counter of nanoseconds, told in seconds
	histogram                   // of nanoseconds, told in seconds
)

// The metrics. Those of the host are of a process's resource, the others of a device's.
var (
	calls       = &Metric{"acl.calls", "{call}", "Calls of the runtime, by function.", counter}
	failedCalls = &Metric{"acl.call.errors", "{call}", "Calls that returned an error, by function and error.", counter}
	unreturned  = &Metric{"acl.calls.unfinished", "{call}", "Calls that never returned.", counter}
	lost        = &Metric{"acl.calls.lost", "{call}", "Calls that are known to be missing.", counter}
	waited      = &Metric{"acl.synchronize.time", "s", "Time that threads spent in synchronizations.", seconds}
	launches    = &Metric{"acl.launches", "{launch}", "Kernels and graphs launched, by process and stream.", counter}
	launchTime  = &Metric{"acl.launch.duration", "s", "How long calls that launch kernels and graphs took.", histogram}
	kernelTime  = &Metric{"acl.kernel.duration", "s", "How long kernels and graphs ran, those that were measured.", histogram}
	copies      = &Metric{"acl.copies", "{copy}", "Copies, by direction, process and stream.", counter}
	copied      = &Metric{"acl.copy.io", "By", "Bytes copied, by direction, process and stream.", counter}
	memory      = &Metric{"hw.gpu.memory.usage", "By", "Device memory that the program has allocated.", level}
	memoryPeak  = &Metric{"acl.memory.peak", "By", "The most device memory that a process had allocated.", gauge}

	// Metrics are all of them, in the order in which they are told.
	Metrics = []*Metric{calls, failedCalls, unreturned, lost, waited, launches, launchTime, kernelTime, copies, copied, memory, memoryPeak}
)

// bounds of the histograms, in nanoseconds.
var bounds = []int64{1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1e8, 1e9}

// A point is the value of a metric for one resource and one set of attributes.
type point struct {
	res   *resource
	m     *Metric
	attrs attribute.Distinct
}

type value struct {
	attrs    attribute.Set
	sum      int64
	count    uint64
	min, max int64
	buckets  []uint64
}

// A meter counts what a walk tells. Its memory grows with the functions, errors, processes and devices that there are,
// and with the streams up to maxStreams.
type meter struct {
	*resources
	m       *api.Model
	threads []format.Thread
	lanes   []*laneMeter
	streams int
	byHost  []*hostMeter
	values  map[point]*value
	byFunc  map[funcKey]*funcMeter // to find them fast
}

// maxStreams is how many streams are counted apart. A program that makes streams all the time would have ever more values: those behind it
// are counted together, as otherStreams of their process.
const (
	maxStreams   = 128
	otherStreams = "other streams"
)

type funcKey struct {
	process int
	fn      *api.Func
	name    string
}

// Values that calls and tasks often go to, nil before the first one does.
type (
	funcMeter struct{ calls, waited *value }
	hostMeter struct{ launchTime *value }
	laneMeter struct {
		res             *resource
		attrs           []attribute.KeyValue
		kernels, graphs *value
		time            *value
		directions      map[string]*copyMeter
	}
	copyMeter struct{ copies, bytes *value }
)

func newMeter(rs *resources, m *api.Model, threads []format.Thread) *meter {
	return &meter{resources: rs, m: m, threads: threads, values: map[point]*value{}, byFunc: map[funcKey]*funcMeter{}}
}

// owner is the row of a thread's process.
func (x *meter) owner(thread uint32) int {
	if int(thread) >= len(x.threads) {
		return 0
	}
	return x.process(x.threads[thread].Process)
}

func (x *meter) gap(g *format.Gap) {
	if g.Calls > 0 {
		x.value(x.hosts[x.owner(g.Thread)], lost, attribute.String("acl.reason", g.Reason.String())).sum += int64(g.Calls)
	}
}

func (x *meter) value(r *resource, m *Metric, attrs ...attribute.KeyValue) *value {
	set := attribute.NewSet(attrs...)
	k := point{r, m, set.Equivalent()}
	v := x.values[k]
	if v == nil {
		v = &value{attrs: set}
		if m.kind == histogram {
			v.buckets = make([]uint64, len(bounds)+1)
		}
		x.values[k] = v
	}
	return v
}

func (v *value) observe(ns int64) {
	ns = max(ns, 0)
	if v.count == 0 {
		v.min, v.max = ns, ns
	}
	v.count++
	v.sum += ns
	v.min, v.max = min(v.min, ns), max(v.max, ns)
	i, _ := slices.BinarySearch(bounds, ns) // a bound belongs to the bucket below it
	v.buckets[i]++
}

func (x *meter) visitor() *timeline.Visitor {
	return &timeline.Visitor{Lane: x.lane, Call: x.call, Task: x.task, Memory: x.memory}
}

func (x *meter) lane(_ int, l *timeline.Lane) error {
	name := valid(l.Name)
	if l.Stream != nil && !l.Synchronous {
		if x.streams++; x.streams > maxStreams {
			name = otherStreams
		}
	}
	x.lanes = append(x.lanes, &laneMeter{res: x.device(l.Device), directions: map[string]*copyMeter{},
		attrs: []attribute.KeyValue{semconv.ProcessPID(int(x.procs[x.process(l.Process)].PID)), attribute.String("acl.stream", name)}})
	return nil
}

func (x *meter) call(c *timeline.HostCall, t *timeline.Task) error {
	p := x.owner(c.Thread)
	host := x.hosts[p]
	k := funcKey{p, c.Fn, c.Name}
	n := x.byFunc[k]
	function := func() attribute.KeyValue { return semconv.CodeFunctionName(valid(c.Name)) }
	if n == nil {
		n = &funcMeter{calls: x.value(host, calls, function())}
		x.byFunc[k] = n
	}
	n.calls.sum++
	switch {
	case c.Flags&format.Unfinished != 0:
		x.value(host, unreturned, function()).sum++
	case c.Failed():
		x.value(host, failedCalls, function(), semconv.ErrorTypeKey.String(x.m.ErrorName(int64(int32(c.Ret))))).sum++
	}
	if c.Fn != nil && c.Flags&format.Unfinished == 0 {
		switch c.Fn.Sync {
		case api.SyncDevice, api.SyncStream, api.SyncEvent:
			if n.waited == nil {
				n.waited = x.value(host, waited, function())
			}
			n.waited.sum += max(c.End-c.Start, 0)
		}
	}
	if t != nil && (t.Kind == api.Kernel || t.Kind == api.GraphRun) {
		for len(x.byHost) <= p {
			x.byHost = append(x.byHost, &hostMeter{})
		}
		h := x.byHost[p]
		if h.launchTime == nil {
			h.launchTime = x.value(host, launchTime)
		}
		h.launchTime.observe(c.End - c.Start)
	}
	return nil
}

func (x *meter) task(t *timeline.Task) error {
	l := x.lanes[t.Lane]
	with := func(a attribute.KeyValue) []attribute.KeyValue { return append(slices.Clone(l.attrs), a) }
	switch t.Kind {
	case api.Kernel, api.GraphRun:
		n := &l.kernels
		if t.Kind == api.GraphRun {
			n = &l.graphs
		}
		if *n == nil {
			*n = x.value(l.res, launches, with(attribute.String("acl.task", t.Kind.String()))...)
		}
		(*n).sum++
		if t.Measured {
			x.ran(t.Lane, t.To-t.From)
		}
	case api.Copy:
		n := l.directions[t.Name]
		if n == nil {
			attrs := with(attribute.String("acl.direction", strings.TrimPrefix(t.Name, "copy ")))
			n = &copyMeter{x.value(l.res, copies, attrs...), x.value(l.res, copied, attrs...)}
			l.directions[t.Name] = n
		}
		n.copies.sum++
		n.bytes.sum += int64(t.Bytes)
	}
	return nil
}

// ran counts how long a kernel, or a graph, has run.
func (x *meter) ran(lane int, ns int64) {
	l := x.lanes[lane]
	if l.time == nil {
		l.time = x.value(l.res, kernelTime)
	}
	l.time.observe(ns)
}

func (x *meter) memory(p *timeline.MemoryPoint) error {
	device := x.device(p.Device)
	pid := semconv.ProcessPID(int(x.procs[x.process(p.Process)].PID))
	x.value(device, memory, pid).sum = int64(p.Bytes)
	peak := x.value(device, memoryPeak, pid)
	peak.sum = max(peak.sum, int64(p.Bytes))
	return nil
}

// A resourceData is what a resource has counted.
type resourceData struct {
	*resource
	metrics []metricdata.Metrics
}

func (d *resourceData) message() *metricdata.ResourceMetrics {
	return &metricdata.ResourceMetrics{Resource: sdkresource.NewWithAttributes(schemaURL, d.attrs...),
		ScopeMetrics: []metricdata.ScopeMetrics{{Scope: meterScope, Metrics: d.metrics}}}
}

var meterScope = instrumentation.Scope{Name: scopeName, SchemaURL: schemaURL}

// data returns a copy of what was counted by a moment of the recording, in OpenTelemetry's data model, by resource.
func (x *meter) data(at int64) []resourceData {
	start, end := time.Unix(0, x.meta.StartWall), time.Unix(0, x.meta.StartWall+at)
	found := map[*resource]map[*Metric][]*value{}
	for k, v := range x.values {
		if found[k.res] == nil {
			found[k.res] = map[*Metric][]*value{}
		}
		found[k.res][k.m] = append(found[k.res][k.m], v)
	}
	var out []resourceData
	for _, r := range slices.SortedFunc(maps.Keys(found), func(a, b *resource) int { return cmp.Compare(a.index, b.index) }) {
		d := resourceData{resource: r}
		for _, m := range Metrics {
			values := found[r][m]
			if len(values) == 0 {
				continue
			}
			slices.SortFunc(values, func(a, b *value) int {
				return cmp.Compare(a.attrs.Encoded(attribute.DefaultEncoder()), b.attrs.Encoded(attribute.DefaultEncoder()))
			})
			d.metrics = append(d.metrics, metricdata.Metrics{Name: m.Name, Description: m.Description, Unit: m.Unit, Data: m.aggregate(values, start, end)})
		}
		out = append(out, d)
	}
	return out
}

// aggregate returns the values of a metric as their kind is told.
func (m *Metric) aggregate(values []*value, start, end time.Time) metricdata.Aggregation {
	const second = float64(time.Second)
	switch m.kind {
	case histogram:
		h := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
		limits := make([]float64, len(bounds))
		for i, b := range bounds {
			limits[i] = float64(b) / second
		}
		for _, v := range values {
			h.DataPoints = append(h.DataPoints, metricdata.HistogramDataPoint[float64]{Attributes: v.attrs, StartTime: start, Time: end, Count: v.count, Bounds: limits,
				BucketCounts: slices.Clone(v.buckets), Min: metricdata.NewExtrema(float64(v.min) / second), Max: metricdata.NewExtrema(float64(v.max) / second), Sum: float64(v.sum) / second})
		}
		return h
	case seconds:
		s := metricdata.Sum[float64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
		for _, v := range values {
			s.DataPoints = append(s.DataPoints, metricdata.DataPoint[float64]{Attributes: v.attrs, StartTime: start, Time: end, Value: float64(v.sum) / second})
		}
		return s
	}
	var points []metricdata.DataPoint[int64]
	for _, v := range values {
		points = append(points, metricdata.DataPoint[int64]{Attributes: v.attrs, StartTime: start, Time: end, Value: v.sum})
	}
	if m.kind == gauge {
		return metricdata.Gauge[int64]{DataPoints: points}
	}
	return metricdata.Sum[int64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality, IsMonotonic: m.kind == counter}
}

// SendMetrics counts a trace and hands the metrics, as they are at its end, to an OTLP receiver. Of the options it
// takes Endpoint, Protocol and Progress; the environment's OTEL_EXPORTER_OTLP_METRICS_* go before OTEL_EXPORTER_OTLP_*.
// It returns the URL that they went to and how many values they have.
func SendMetrics(ctx context.Context, r *format.Reader, m *api.Model, o *Options) (endpoint string, values int, err error) {
	if o == nil {
		o = &Options{}
	}
	t, err := metrics.resolve(o.Endpoint, o.Protocol)
	if err != nil {
		return "", 0, err
	}
	if err := metrics.check(); err != nil {
		return "", 0, err
	}
	limit, err := metrics.timeout()
	if err != nil {
		return "", 0, err
	}
	if err := t.check(ctx); err != nil {
		return "", 0, err
	}
	rs, err := newResources(r, m)
	if err != nil {
		return "", 0, err
	}
	w := timeline.NewWalk(r, m, &timeline.WalkOptions{Progress: o.Progress})
	x := newMeter(rs, m, r.Threads())
	for _, g := range r.Gaps() {
		x.gap(&g)
	}
	if err := w.Run(x.visitor()); err != nil {
		return "", 0, err
	}
	e, err := t.metrics(ctx, limit, true)
	if err != nil {
		return "", 0, err
	}
	defer e.Shutdown(context.WithoutCancel(ctx))
	for _, d := range x.data(w.End) {
		if err := e.Export(ctx, d.message()); err != nil {
			return t.url.String(), len(x.values), fmt.Errorf("send metrics over %s to %s: %w", t.protocol, t.url, err)
		}
	}
	return t.url.String(), len(x.values), nil
}

// metrics connects to a receiver of metrics.
func (t *target) metrics(ctx context.Context, limit time.Duration, retry bool) (e sdkmetric.Exporter, err error) {
	if t.protocol == HTTP {
		e, err = otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(t.url.String()), otlpmetrichttp.WithTimeout(limit),
			otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: retry, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: limit}))
	} else {
		e, err = otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(t.url.String()), otlpmetricgrpc.WithTimeout(limit),
			otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{Enabled: retry, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: limit}))
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", t.url, err)
	}
	return e, nil
}
