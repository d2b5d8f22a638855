// Package spans turns the events from a timeline walk into OTLP spans, grouped into traces.
//
// Package otelexport encodes a whole trace file: New, then Run once. Package live encodes chosen steps and requests
// while recording: NewLive, Follow, Inherit, then AddThread and Lane for each thread and lane, and Unit for each step
// or request whose tasks have ended. An Encoder belongs to one goroutine. Its memory does not grow with the trace. It
// never sends anything: full batches go to a sink that the caller gives.
package spans

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/acltrace/acltrace/analyze/path"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/grow"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/operator"
	"github.com/acltrace/acltrace/timeline/order"
	"github.com/acltrace/acltrace/timeline/step"
)

// Layouts.
const (
	Lanes  = "lanes"  // tasks on their streams
	Nested = "nested" // tasks under the calls that made them
)

// Spans of tasks without a measured time.
const (
	BracketsEarliest = "earliest" // until the earliest moment at which the task can have ended
	BracketsNone     = "none"     // no span: the call has the task's attributes
)

// Default limits per trace. The critical path of Jaeger's page (v1.74.0) recurses twice for each span: in Chromium it
// overflows the stack at 5,000 spans, and of four steps folded to 4,000 spans in three; at 3,000 in none. By default, Elasticsearch returns at most 10,000 spans and Tempo accepts 5 MB,
// resources included.
const (
	DefaultMaxSpans = 2_500
	DefaultMaxBytes = 3_000_000
)

// Smallest limits: a root, and a few runs with their threads and streams.
const (
	MinSpans = 100
	MinBytes = 64 << 10
)

// Options select the layout and the limits per trace.
type Options struct {
	Layout   string // Nested if ""
	Brackets string // BracketsEarliest if ""
	MaxSpans int    // in one trace, DefaultMaxSpans if 0, no limit if negative
	MaxBytes int    // span bytes in one trace, as protobuf, DefaultMaxBytes if 0; no limit without MaxSpans
	NoSteps  bool   // no trace for each step
	DeviceAs otlp.DeviceAs
	Select   *timeline.Selection   // calls that New's encoder emits, nil for all
	Batch    int                   // spans in a batch, otlp.MaxRequestSpans if 0
	Traced   func(n int)           // called with the number of traces so far, after each
	Progress func(done, total int) // called now and then with the calls read and the total
}

// check sets the defaults and refuses invalid values.
func (o *Options) check() error {
	o.Layout = cmp.Or(o.Layout, Nested)
	o.Brackets = cmp.Or(o.Brackets, BracketsEarliest)
	o.DeviceAs = cmp.Or(o.DeviceAs, otlp.DeviceAsService)
	o.MaxSpans = cmp.Or(o.MaxSpans, DefaultMaxSpans)
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultMaxBytes)
	o.Batch = cmp.Or(o.Batch, otlp.MaxRequestSpans)
	if o.MaxSpans < 0 {
		o.MaxSpans = math.MaxInt
	}
	switch {
	case o.Layout != Lanes && o.Layout != Nested:
		return fmt.Errorf("layout %q: want %s or %s", o.Layout, Nested, Lanes)
	case o.Brackets != BracketsEarliest && o.Brackets != BracketsNone:
		return fmt.Errorf("brackets %q: want %s or %s", o.Brackets, BracketsEarliest, BracketsNone)
	case o.MaxSpans < MinSpans:
		return fmt.Errorf("%d spans in a trace are too few: at least %d are needed", o.MaxSpans, MinSpans)
	case o.MaxBytes < MinBytes:
		return fmt.Errorf("%d bytes in a trace are too few: at least %d are needed", o.MaxBytes, MinBytes)
	}
	return nil
}

// layout names the options that change the spans of a trace. Ids of stored traces depend on it.
func (o *Options) layout() string {
	if o.DeviceAs == otlp.DeviceAsAttribute {
		return o.Layout + " devices as attribute"
	}
	return o.Layout
}

// An Encoder turns a recording's events into spans. It adds each span to a batch once its times are known.
type Encoder struct {
	src *source
	out *output
	o   Options
	cut string // rules that cut the recording into traces; seeds the trace ids

	selection string // attribute of roots, "" if every call is selected

	rows     rows
	order    *order.Order[*timeline.Object, placed]
	path     *path.Finder // nil if critical paths are not marked
	parts    parts
	gaps     []format.Gap // gaps that start after the last call, by start
	gap      int          // gaps already emitted
	named    *named
	requests []*request // running and idle
	result   Result
}

// A source is the recording that is encoded. An encoder shares it with its requests.
type source struct {
	*otlp.Resources
	r *format.Reader // nil for a recording in progress
	m *api.Model
	w *timeline.Walk

	stacks *stacks // nil if there are none
}

// An output collects spans into batches. An encoder shares it with its requests.
type output struct {
	batch  *otlp.Batch
	sink   func(*otlp.Batch) (*otlp.Batch, error) // takes a full batch, returns an empty one
	err    error                                  // first error from sink
	calls  int                                    // calls encoded so far, without those repeated for requests
	traces int                                    // complete ones
	names  nameCache
	held   int            // nodes of parts that are not emitted
	nodes  []*chunk[node] // free, as are tasks
	tasks  []*chunk[task]
	lanes  []int // with spans in the part that is being emitted
	run    run   // that is being emitted

	maxNodes, maxHeld int // the constants, less in tests
	maxBatch          int // spans
}

// Result reports which traces an encoder made.
type Result struct {
	Traces       int // including requests
	Calls        int
	FirstTraceID string
	StepTraceID  string // first typical step, else the first step; "" without steps

	stepPart    int  // part number for StepTraceID
	stepTypical bool // that step is typical
}

// rows are a recording's threads and lanes.
type rows struct {
	threads []thread // the last one stands for unknown threads
	counted []int    // threads, by process
	lanes   []lane
}

type thread struct {
	process  int
	name     []byte // name field for the thread's span
	attrs    []byte // attributes for the thread's span, its gaps and its ranges
	in       *member
	requests []*request // current ones
}

type lane struct {
	res     *otlp.Device
	process int
	device  int
	name    string
	field   []byte // name field for the lane's span
	stream  []byte // stream attribute
	in      *laneSpan
	waiting []waiting // tasks in progress, in order; those before first have ended
	first   int
}

// A laneSpan is the span of a lane in a part.
type laneSpan struct {
	part   *part
	id     otlp.SpanID
	extent extent
}

// waiting is a task in progress.
type waiting struct {
	in       *member
	task     int32      // in its tasks
	requests []*request // these get the task too
}

// New returns an encoder for a trace file.
func New(r *format.Reader, m *api.Model, o *Options) (*Encoder, error) {
	if o == nil {
		o = &Options{}
	}
	rs, err := otlp.NewResources(r, m, o.DeviceAs)
	if err != nil {
		return nil, err
	}
	x, err := NewLive(rs, m, o)
	if err != nil {
		return nil, err
	}
	sel, err := timeline.NewSelector(r, m, x.o.Select)
	if err != nil {
		return nil, err
	}
	stacks := newStacks(r)
	w := timeline.NewWalk(r, m, &timeline.WalkOptions{Select: sel, Stacks: stacks != nil, Shapes: true, Progress: x.o.Progress})
	if !x.o.NoSteps {
		if err := w.FindSteps(); err != nil {
			return nil, err
		}
	}
	x.src.r, x.src.w, x.src.stacks = r, w, stacks
	x.out.names.shapes = w.ShapesOf
	x.selection = sel.String()
	if !x.o.NoSteps && (w.StepRule().Source != step.None || w.Calls <= maxNodes && x.selection == "") {
		x.path = path.NewFinder(w)
	}
	x.cut = fmt.Sprint(x.o.layout(), " ", x.o.Brackets, " ", x.o.MaxSpans, " ", x.o.MaxBytes, " ", w.StepRule().Source)
	if x.selection != "" {
		x.cut += " " + x.selection
	}
	from, to := sel.Window()
	x.gaps = slices.DeleteFunc(slices.Clone(r.Gaps()), func(g format.Gap) bool { return g.From >= to || g.To < from })
	slices.SortStableFunc(x.gaps, func(a, b format.Gap) int { return cmp.Compare(a.From, b.From) })
	x.Inherit()
	for _, th := range append(slices.Clone(r.Threads()), format.Thread{}) {
		x.AddThread(&th)
	}
	return x, nil
}

// NewLive returns an encoder for a recording in progress. Set its walk with Follow and add every thread and lane. Then
// Unit encodes chosen steps and requests.
func NewLive(rs *otlp.Resources, m *api.Model, o *Options) (*Encoder, error) {
	x := &Encoder{src: &source{Resources: rs, m: m}, out: &output{batch: &otlp.Batch{}, names: newNameCache(rs.Keys), maxNodes: maxNodes, maxHeld: maxHeld}}
	if o != nil {
		x.o = *o
	}
	if err := x.o.check(); err != nil {
		return nil, err
	}
	x.out.maxBatch = x.o.Batch
	x.cut = fmt.Sprint("live ", x.o.Layout)
	return x, nil
}

// Follow sets the walk that calls come from.
func (x *Encoder) Follow(w *timeline.Walk) { x.src.w = w }

// Name identifies the encoder's input and options. Encoders with equal names emit equal spans.
func (x *Encoder) Name() string { return fmt.Sprintf("%s as %s", x.src.Meta.UUID, x.cut) }

// Result returns the traces made so far.
func (x *Encoder) Result() Result {
	r := x.result
	r.Traces, r.Calls = x.out.traces, x.out.calls
	return r
}

// Calls returns the trace file's call count.
func (x *Encoder) Calls() int { return int(x.src.w.Calls) }

// AddThread adds the next thread.
func (x *Encoder) AddThread(th *format.Thread) {
	t := thread{process: x.src.Process(th.Process)}
	counted := grow.At(&x.rows.counted, t.process)
	*counted++
	name := otlp.Valid(th.Name)
	if th.TID != 0 {
		t.attrs = otlp.PutNumber(t.attrs, otlp.SpanAttributes, otlp.KeyThreadID, int64(th.TID))
	}
	t.attrs = otlp.PutText(t.attrs, otlp.SpanAttributes, otlp.KeyThreadName, name)
	t.name = nameField("thread "+cmp.Or(name, strconv.Itoa(*counted)), otlp.Internal)
	x.rows.threads = append(x.rows.threads, t)
}

// Lane adds the next lane.
func (x *Encoder) Lane(_ int, l *timeline.Lane) error {
	process := x.src.Process(l.Process)
	n := lane{res: x.src.Device(l.Process, l.Device), process: process, device: l.Device, name: otlp.Valid(l.Name)}
	n.field, n.stream = nameField(n.name, otlp.Internal), otlp.PutText(nil, otlp.SpanAttributes, x.src.Keys[otlp.KeyStream], n.name)
	x.rows.lanes = append(x.rows.lanes, n)
	for _, q := range x.requests {
		q.rows.lanes = append(q.rows.lanes, n)
	}
	return nil
}

// thread returns a thread's row.
func (r *rows) thread(t uint32) int { return min(int(t), len(r.threads)-1) }

// Run encodes the whole trace file. It passes full batches to sink, which returns an empty batch. Call it once.
func (x *Encoder) Run(sink func(*otlp.Batch) (*otlp.Batch, error)) error {
	x.out.sink = sink
	if err := x.src.w.Run(x.visitor()); err != nil {
		return err
	}
	return x.finish()
}

func (x *Encoder) visitor() *timeline.Visitor {
	return &timeline.Visitor{All: x.selection != "", Marks: true, Lane: x.Lane, Task: x.task, Step: x.step, Call: func(c *timeline.HostCall, t *timeline.Task) error {
		if !x.src.w.Selected() {
			x.other(c, t)
			return x.out.err
		}
		for len(x.gaps) > 0 && x.gaps[0].From < c.Start {
			x.nextGap()
		}
		if c.Fn == nil || !c.Fn.EntryMark() {
			x.out.calls++
		}
		return x.call(c, t, x.Observe(c, t))
	}, Range: func(r *timeline.Range) error {
		x.named = &named{Range: *r}
		x.request(r)
		return nil
	}, Operator: func(p *operator.Part) error {
		x.named = &named{timeline.Range{Name: p.String(), From: p.From, To: p.To, Begin: p.Call, Process: p.Process, Thread: p.Thread, EndThread: p.Thread, Open: p.Open}, p.Name, p.Phase}
		return nil
	}}
}

// other follows a call that is not selected. The critical path and later waits depend on it.
func (x *Encoder) other(c *timeline.HostCall, t *timeline.Task) {
	x.named = nil
	f := x.Observe(c, t)
	if x.path != nil {
		x.path.Call(c, t, f.links, noRef)
	}
}

// step takes a step that has ended.
func (x *Encoder) step(s *step.Step) error {
	if !x.src.w.Selected() {
		if x.path != nil && !s.Open {
			x.path.Step(s) // forgets the calls
		}
		return x.out.err
	}
	return x.stepEnded(s)
}

// finish emits the remaining gaps and every span that lasts until the trace ends.
func (x *Encoder) finish() error {
	for len(x.gaps) > 0 {
		x.nextGap()
	}
	last := x.parts.current
	if last == nil && x.selection != "" {
		return x.out.err
	}
	if last == nil {
		last = x.room(-1)
		last.extent.add(0, x.src.Meta.EndNS)
	}
	x.wholePath(last)
	x.close(last)
	for _, p := range x.parts.inStep {
		p.inStep = false
		x.done(p)
	}
	for i := range x.rows.threads {
		for _, q := range x.rows.threads[i].requests {
			q.over()
		}
	}
	x.out.flush()
	return x.out.err
}

// begin starts a span. The caller appends fields to b and passes all results to end.
func (x *Encoder) begin(r *otlp.Resource, p *part, id, parent otlp.SpanID) (g *otlp.Group, b []byte, at int) {
	return x.out.batch.Begin(r, &p.Trace, id, parent)
}

func (x *Encoder) end(g *otlp.Group, b []byte, at int) {
	x.out.batch.End(g, b, at)
	if b := x.out.batch; b.Spans >= x.out.maxBatch || b.Full() {
		x.out.flush()
	}
}

// flush passes the batch to the sink.
func (o *output) flush() {
	if o.batch.Spans == 0 || o.err != nil {
		return
	}
	o.batch.Seal()
	o.batch.Calls = o.calls
	number := o.batch.Number
	b, err := o.sink(o.batch)
	if err != nil {
		o.err = err
		return
	}
	o.batch = b
	o.batch.Number = number + 1
}

// times encodes recording times as wall time. A span takes at least a nanosecond: Jaeger warns about shorter ones.
func (x *Encoder) times(b []byte, start, end int64) []byte {
	return otlp.PutTimes(b, start+x.src.Meta.StartWall, max(start+1, end)+x.src.Meta.StartWall)
}

// stepEnded completes a step's parts.
func (x *Encoder) stepEnded(s *step.Step) error {
	ended := *s
	x.stepPath(s)
	for len(x.parts.inStep) > 0 && x.parts.inStep[0].step <= s.Index {
		p := x.parts.inStep[0]
		x.parts.inStep = x.parts.inStep[1:]
		switch {
		case p.step != s.Index:
		case s.Open:
			p.step = -1 // the trace ends before the step: its calls are in no step, as in stats
		default:
			p.ended = &ended
		}
		p.inStep = false
		x.done(p)
	}
	return x.out.err
}

// noteStep keeps the first typical step's trace id, else the first step's. Parts complete in any order.
func (r *Result) noteStep(p *part) {
	if p.ended == nil || !p.first || r.stepTypical && !p.ended.Typical {
		return
	}
	if r.StepTraceID == "" || p.number < r.stepPart || p.ended.Typical && !r.stepTypical {
		r.StepTraceID, r.stepPart, r.stepTypical = hex.EncodeToString(p.Trace[:]), p.number, p.ended.Typical
	}
}
