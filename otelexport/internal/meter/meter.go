// Package meter counts calls, tasks and device memory in a timeline walk as OpenTelemetry metrics.
//
// Package otelexport counts a whole trace file by Visitor. Package live passes events while recording and reads Data at
// any time. A Meter belongs to one goroutine, or is locked by its caller. It never sends anything.
package meter

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	sdkresource "go.opentelemetry.io/otel/sdk/resource"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/grow"
	"github.com/acltrace/acltrace/timeline"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// A Metric is a metric's name, unit and kind. A name that starts with "." gets the runtime's namespace.
type Metric struct {
	Name, Unit, Description string
	kind                    metricKind
}

// name returns the metric's full name.
func (m *Metric) name(model *api.Model) string {
	if strings.HasPrefix(m.Name, ".") {
		return otlp.Namespace(model) + m.Name
	}
	return m.Name
}

type metricKind uint8

const (
	counter   metricKind = iota // only increases
	level                       // goes up and down; processes add up
	gauge                       // goes up and down; processes do not add up
	seconds                     // counts nanoseconds, exported in seconds
	histogram                   // distribution in nanoseconds, exported in seconds
	fraction                    // part of a whole, exported as a gauge from 0 to 1
)

// The metrics. Host metrics belong to a process's resource, the others to a device's.
var (
	calls       = &Metric{".calls", "{call}", "Calls of the runtime, by function.", counter}
	failedCalls = &Metric{".call.errors", "{call}", "Calls that returned an error, by function and error.", counter}
	unreturned  = &Metric{".calls.unfinished", "{call}", "Calls that never returned.", counter}
	lost        = &Metric{".calls.lost", "{call}", "Calls that are known to be missing.", counter}
	waited      = &Metric{".synchronize.time", "s", "Time that threads spent in synchronizations.", seconds}
	launches    = &Metric{".launches", "{launch}", "Kernels and graphs launched, by process and stream.", counter}
	launchTime  = &Metric{".launch.duration", "s", "How long calls that launch kernels and graphs took.", histogram}
	kernelTime  = &Metric{".kernel.duration", "s", "How long kernels and graphs ran, those that were measured.", histogram}
	copies      = &Metric{".copies", "{copy}", "Copies, by direction, process and stream.", counter}
	copied      = &Metric{".copy.io", "By", "Bytes copied, by direction, process and stream.", counter}
	memory      = &Metric{"hw.gpu.memory.usage", "By", "Device memory that the program has allocated.", level}
	memoryLimit = &Metric{"hw.gpu.memory.limit", "By", "Size of the device memory, if the runtime reported it to the program.", level}
	memoryUsed  = &Metric{"hw.gpu.memory.utilization", "1", "Fraction of the device memory that the program has allocated.", fraction}
	faults      = &Metric{"hw.errors", "{error}", "Tasks that failed on the device, by error. A fault that several calls report counts once.", counter}
	memoryPeak  = &Metric{".memory.peak", "By", "The most device memory that a process had allocated.", gauge}

	// Metrics lists all metrics in export order.
	Metrics = []*Metric{calls, failedCalls, unreturned, lost, waited, launches, launchTime, kernelTime, copies, copied, memory, memoryLimit, memoryUsed, memoryPeak, faults}
)

// bounds are the histogram bucket bounds, in nanoseconds.
var bounds = []int64{1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1e8, 1e9}

// A point identifies a value: one metric, resource and attribute set.
type point struct {
	res   *otlp.Resource
	m     *Metric
	attrs attribute.Distinct
}

type value struct {
	attrs    attribute.Set
	sum      int64
	count    uint64
	min, max int64
	buckets  []uint64
	whole    int64 // of a fraction
}

// A Meter counts the events in a walk. Its memory grows with the functions, errors, processes and devices, and with the
// streams up to maxStreams.
type Meter struct {
	*otlp.Resources
	m           *api.Model
	walk        *timeline.Walk
	threads     []format.Thread
	lanes       []*laneMeter
	streams     int
	launchTimes []*value // by process; nil before the first launch
	values      map[point]*value
	byFunc      map[funcKey]*funcMeter // value cache
	memory      map[*otlp.Device]*value
	faulty      map[fault]bool // reported since the last successful synchronization with the device
	part        selection
}

// A selection is the part of a trace that a Meter counts. The zero value is the whole trace.
type selection struct {
	attrs    []attribute.KeyValue // of each value
	from, to int64                // to is 0 for no limit
	calls    bool                 // single calls, not a whole period
	n        int                  // calls counted
}

// A fault is a device error as a process's calls report it.
type fault struct {
	device *otlp.Device
	code   int32
}

// maxStreams limits the streams with their own values, because a program may create streams without end. A process's
// further streams count as otherStreams.
const (
	maxStreams   = 128
	otherStreams = "other streams"
)

type funcKey struct {
	process int
	fn      *api.Func
	name    string
}

// Cached values for frequent calls and tasks, nil before the first use.
type (
	funcMeter struct{ calls, waited *value }
	laneMeter struct {
		device          *otlp.Device
		number          int // of the device
		attrs           []attribute.KeyValue
		kernels, graphs *value
		time            *value
		directions      map[string]*copyMeter
	}
	copyMeter struct{ copies, bytes *value }
)

func New(rs *otlp.Resources, m *api.Model, threads []format.Thread) *Meter {
	return &Meter{Resources: rs, m: m, threads: threads, values: map[point]*value{}, byFunc: map[funcKey]*funcMeter{},
		memory: map[*otlp.Device]*value{}, faulty: map[fault]bool{}}
}

// Count counts the selected calls of a trace file, all calls without a selection. It returns the end of the trace too.
func Count(r *format.Reader, m *api.Model, as otlp.DeviceAs, selected *timeline.Selection, progress func(done, total int)) (x *Meter, end int64, err error) {
	rs, err := otlp.NewResources(r, m, as)
	if err != nil {
		return nil, 0, err
	}
	sel, err := timeline.NewSelector(r, m, selected)
	if err != nil {
		return nil, 0, err
	}
	w := timeline.NewWalk(r, m, &timeline.WalkOptions{Select: sel, Progress: progress})
	x = New(rs, m, r.Threads())
	x.Follow(w)
	x.Select(sel)
	from, to := sel.Window()
	for _, g := range r.Gaps() {
		if g.From < to && g.To >= from {
			x.Gap(&g)
		}
	}
	err = w.Run(x.Visitor())
	return x, w.End, err // Run may move the end
}

// Follow sets the walk that calls come from.
func (x *Meter) Follow(w *timeline.Walk) { x.walk = w }

// Select limits the Meter to the calls that the walk's Selector selects. Each value gets the selection as an attribute, since a
// receiver would otherwise replace the values of the whole trace. Memory in use belongs to a period: there is none for other
// selections.
func (x *Meter) Select(s *timeline.Selector) {
	if s.String() == "" {
		return
	}
	from, to := s.Window()
	x.part = selection{attrs: []attribute.KeyValue{attribute.String(x.Keys[otlp.KeySelection], otlp.Valid(s.String()))}, from: max(from, 0), to: to, calls: !s.Contiguous()}
}

// Calls returns the number of calls counted.
func (x *Meter) Calls() int { return x.part.n }

// AddThread adds the next thread.
func (x *Meter) AddThread(t format.Thread) { x.threads = append(x.threads, t) }

// owner returns a thread's process index.
func (x *Meter) owner(thread uint32) int {
	if int(thread) >= len(x.threads) {
		return 0
	}
	return x.Process(x.threads[thread].Process)
}

// Gap counts the calls of a gap, unless they were not to be recorded.
func (x *Meter) Gap(g *format.Gap) {
	if g.Calls > 0 && !g.Intended() {
		x.value(x.Hosts[x.owner(g.Thread)], lost, attribute.String(x.Keys[otlp.KeyReason], g.Reason.String())).sum += int64(g.Calls)
	}
}

func (x *Meter) value(r *otlp.Resource, m *Metric, attrs ...attribute.KeyValue) *value {
	set := attribute.NewSet(slices.Concat(attrs, x.part.attrs)...)
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

// Size returns the value count.
func (x *Meter) Size() int { return len(x.values) }

func (v *value) observe(ns int64) {
	ns = max(ns, 0)
	if v.count == 0 {
		v.min, v.max = ns, ns
	}
	v.count++
	v.sum += ns
	v.min, v.max = min(v.min, ns), max(v.max, ns)
	i, _ := slices.BinarySearch(bounds, ns) // a bucket includes its upper bound
	v.buckets[i]++
}

func (x *Meter) Visitor() *timeline.Visitor {
	v := &timeline.Visitor{All: x.part.attrs != nil, Lane: x.Lane, Call: x.Call, Task: x.Task}
	if !x.part.calls {
		v.Memory = x.Memory
	}
	return v
}

func (x *Meter) Lane(_ int, l *timeline.Lane) error {
	name := otlp.Valid(l.Name)
	if l.Stream != nil && !l.Synchronous {
		if x.streams++; x.streams > maxStreams {
			name = otherStreams
		}
	}
	d := x.Device(l.Process, l.Device)
	x.lanes = append(x.lanes, &laneMeter{device: d, number: l.Device, directions: map[string]*copyMeter{}, attrs: append(slices.Clone(d.Points), attribute.String(x.Keys[otlp.KeyStream], name))})
	return nil
}

func (x *Meter) Call(c *timeline.HostCall, t *timeline.Task) error {
	p := x.owner(c.Thread)
	if x.part.attrs != nil && !x.walk.Selected() {
		if !c.Failed() {
			x.fault(c, t, p) // a synchronization ends the faults before it
		}
		return nil
	}
	x.part.n++
	host := x.Hosts[p]
	k := funcKey{p, c.Fn, c.Name}
	n := x.byFunc[k]
	function := func() attribute.KeyValue { return semconv.CodeFunctionName(otlp.Valid(c.Name)) }
	if n == nil {
		n = &funcMeter{calls: x.value(host, calls, function())}
		x.byFunc[k] = n
	}
	n.calls.sum++
	switch {
	case c.Flags&format.Unfinished != 0:
		x.value(host, unreturned, function()).sum++
	case c.Wrong():
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
	x.fault(c, t, p)
	if t != nil && (t.Kind == api.Kernel || t.Kind == api.GraphRun) {
		v := grow.At(&x.launchTimes, p)
		if *v == nil {
			*v = x.value(host, launchTime)
		}
		(*v).observe(c.End - c.Start)
	}
	return nil
}

func (x *Meter) Task(t *timeline.Task) error {
	l := x.lanes[t.Lane]
	with := func(a attribute.KeyValue) []attribute.KeyValue { return append(slices.Clone(l.attrs), a) }
	switch t.Kind {
	case api.Kernel, api.GraphRun:
		n := &l.kernels
		if t.Kind == api.GraphRun {
			n = &l.graphs
		}
		if *n == nil {
			*n = x.value(l.device.Resource, launches, with(attribute.String(x.Keys[otlp.KeyTask], t.Kind.String()))...)
		}
		(*n).sum++
		if t.Measured {
			x.Ran(t.Lane, t.To-t.From)
		}
	case api.Copy:
		n := l.directions[t.Name]
		if n == nil {
			attrs := with(attribute.String(x.Keys[otlp.KeyDirection], strings.TrimPrefix(t.Name, "copy ")))
			n = &copyMeter{x.value(l.device.Resource, copies, attrs...), x.value(l.device.Resource, copied, attrs...)}
			l.directions[t.Name] = n
		}
		n.copies.sum++
		n.bytes.sum += int64(t.Bytes)
	}
	return nil
}

// Ran counts a kernel's or graph's duration.
func (x *Meter) Ran(lane int, ns int64) {
	l := x.lanes[lane]
	if l.time == nil {
		l.time = x.value(l.device.Resource, kernelTime, l.device.Points...)
	}
	l.time.observe(ns)
}

func (x *Meter) Memory(p *timeline.MemoryPoint) error {
	d := x.Device(p.Process, p.Device)
	used := x.memory[d]
	if used == nil {
		used = x.value(d.Resource, memory, d.Points...)
		x.memory[d] = used
	}
	used.sum = int64(p.Bytes)
	if p.Time < x.part.from { // the memory in use when the window begins
		used.max = 0
	}
	used.max = max(used.max, used.sum)
	return nil
}

// memoryValues derives the other values of device memory.
func (x *Meter) memoryValues() {
	for d, used := range x.memory {
		x.value(d.Resource, memoryPeak, d.Points...).sum = used.max
		if size := int64(x.Facts(d).MemoryBytes); size > 0 {
			x.value(d.Resource, memoryLimit, d.Points...).sum = size
			f := x.value(d.Resource, memoryUsed, d.Points...)
			f.sum, f.whole = used.sum, size
		}
	}
}

// fault counts a device error. The calls after it report it again, until a synchronization with the device succeeds.
func (x *Meter) fault(c *timeline.HostCall, t *timeline.Task, process int) {
	code := int32(c.Ret)
	switch failed := c.Failed(); {
	case failed && x.m.DeviceFault(code):
	case failed || len(x.faulty) == 0 || c.Fn == nil || c.Fn.Sync == api.NoSync:
		return
	}
	device := x.walk.CurrentDevice(c.Thread)
	if t != nil {
		device = x.lanes[t.Lane].number
	}
	d := x.Device(uint32(process), device)
	if !c.Failed() {
		maps.DeleteFunc(x.faulty, func(f fault, _ bool) bool { return f.device == d })
	} else if k := (fault{d, code}); !x.faulty[k] {
		x.faulty[k] = true
		x.value(d.Resource, faults, append(slices.Clone(d.Points), semconv.HwTypeGpu, semconv.ErrorTypeKey.String(x.m.ErrorName(int64(code))))...).sum++
	}
}

// A ResourceData holds one resource's metrics.
type ResourceData struct {
	*otlp.Resource
	Metrics []metricdata.Metrics
}

func (d *ResourceData) Message() *metricdata.ResourceMetrics {
	return &metricdata.ResourceMetrics{Resource: sdkresource.NewWithAttributes(otlp.SchemaURL, d.Attrs...),
		ScopeMetrics: []metricdata.ScopeMetrics{{Scope: MeterScope, Metrics: d.Metrics}}}
}

var MeterScope = instrumentation.Scope{Name: otlp.ScopeName, SchemaURL: otlp.SchemaURL}

// Data returns a copy of all values up to a recording time, by resource.
func (x *Meter) Data(at int64) []ResourceData {
	x.memoryValues()
	if x.part.to != 0 {
		at = min(at, x.part.to)
	}
	start, end := time.Unix(0, x.Meta.StartWall+x.part.from), time.Unix(0, x.Meta.StartWall+at)
	found := map[*otlp.Resource]map[*Metric][]*value{}
	for k, v := range x.values {
		if found[k.res] == nil {
			found[k.res] = map[*Metric][]*value{}
		}
		found[k.res][k.m] = append(found[k.res][k.m], v)
	}
	var out []ResourceData
	for _, r := range slices.SortedFunc(maps.Keys(found), func(a, b *otlp.Resource) int { return cmp.Compare(a.Index, b.Index) }) {
		d := ResourceData{Resource: r}
		for _, m := range Metrics {
			values := found[r][m]
			if len(values) == 0 {
				continue
			}
			slices.SortFunc(values, func(a, b *value) int {
				return cmp.Compare(a.attrs.Encoded(attribute.DefaultEncoder()), b.attrs.Encoded(attribute.DefaultEncoder()))
			})
			d.Metrics = append(d.Metrics, metricdata.Metrics{Name: m.name(x.m), Description: m.Description, Unit: m.Unit, Data: m.aggregate(values, start, end)})
		}
		out = append(out, d)
	}
	return out
}

// aggregate converts a metric's values to OpenTelemetry's data model.
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
	if m.kind == fraction {
		var g metricdata.Gauge[float64]
		for _, v := range values {
			g.DataPoints = append(g.DataPoints, metricdata.DataPoint[float64]{Attributes: v.attrs, Time: end, Value: float64(v.sum) / float64(v.whole)})
		}
		return g
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
