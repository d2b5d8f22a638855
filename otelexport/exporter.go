package otelexport

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

const schemaURL = semconv.SchemaURL

// Keys of the semantic conventions, as strings.
var (
	keyThreadID   = string(semconv.ThreadIDKey)
	keyThreadName = string(semconv.ThreadNameKey)
	keyPID        = string(semconv.ProcessPIDKey)
)

// vendors says what the devices of a runtime are called and who makes them.
var vendors = map[string]struct{ device, vendor string }{"acl": {"npu", "Huawei"}}

// exporter walks a timeline and gives out its spans in batches.
type exporter struct {
	t       *timeline.Timeline
	o       Options
	meta    *format.Meta
	procs   []format.Process           // at least one
	threads []format.Thread            // the last stands for those that have no row
	names   []string                   // of the threads' spans
	gaps    []format.Gap               // by their beginning
	ranges  map[uint64]*timeline.Range // that the program has named, by the call that began them
	hosts   []*resource                // by process
	devices []*resource                // by process
	steps   *timeline.Steps
	parts   []part
	total   int // spans

	b        batch
	sink     func(*batch) error
	res      Result
	inThread []extent
	inLane   []extent
}

// part is what becomes one trace: ranges of the calls and the gaps.
type part struct {
	call, callEnd int
	gap, gapEnd   int
	step          int // that it is of, or a part of; -1 for none
}

// extent is the time that a thread's or a lane's spans of one part take, and in which part that was.
type extent struct {
	part       int // from 1
	start, end int64
}

// add widens the extent and reports whether it is the first time in the part.
func (e *extent) add(part int, start, end int64) bool {
	if e.part != part {
		*e = extent{part, start, end}
		return true
	}
	e.start, e.end = min(e.start, start), max(e.end, end)
	return false
}

func newExporter(t *timeline.Timeline, o *Options) (*exporter, error) {
	x := &exporter{t: t, meta: t.Reader.Meta()}
	if o != nil {
		x.o = *o
	}
	switch x.o.Layout {
	case "":
		x.o.Layout = Lanes
	case Lanes, Nested:
	default:
		return nil, fmt.Errorf("layout %q is neither %s nor %s", x.o.Layout, Lanes, Nested)
	}
	if x.o.MaxSpans == 0 {
		x.o.MaxSpans = DefaultMaxSpans
	}
	if x.o.MaxSpans < minSpans {
		return nil, fmt.Errorf("%d spans in a trace are too few for a call and what belongs to it: at least %d are needed", x.o.MaxSpans, minSpans)
	}
	x.procs = t.Reader.Processes()
	if len(x.procs) == 0 {
		x.procs = []format.Process{{Argv: x.meta.Argv}}
	}
	x.threads = append(slices.Clone(t.Reader.Threads()), format.Thread{})
	x.gaps = slices.Clone(t.Reader.Gaps())
	x.ranges = make(map[uint64]*timeline.Range, len(t.Ranges))
	for i := range t.Ranges {
		x.ranges[t.Ranges[i].Begin] = &t.Ranges[i]
	}
	slices.SortStableFunc(x.gaps, func(a, b format.Gap) int { return cmp.Compare(a.From, b.From) })
	counts := make([]int, len(x.procs))
	for i := range x.threads {
		th := &x.threads[i]
		if int(th.Process) >= len(x.procs) {
			th.Process = 0
		}
		counts[th.Process]++
		name := th.Name
		if name == "" {
			name = strconv.Itoa(counts[th.Process])
		}
		x.names = append(x.names, valid("thread "+name))
	}
	if err := x.resources(); err != nil {
		return nil, err
	}
	x.steps = &timeline.Steps{}
	if !x.o.NoSteps {
		x.steps = t.Steps()
	}
	x.inThread, x.inLane = make([]extent, len(x.threads)), make([]extent, len(t.Lanes))
	x.plan()
	return x, nil
}

// maxArgs bounds what is kept of a command line, which every request repeats.
const maxArgs = 16 << 10

func (x *exporter) resources() error {
	devices, err := x.deviceNumbers()
	if err != nil {
		return err
	}
	m := x.meta
	service := x.serviceNames()
	kind := vendors[m.API]
	for i := range x.procs {
		p := &x.procs[i]
		attrs := []attr{
			text(string(semconv.ServiceNameKey), service[i]),
			text(string(semconv.ServiceInstanceIDKey), m.UUID),
			text(string(semconv.HostNameKey), m.Host),
		}
		if p.PID != 0 {
			attrs = append(attrs, number(keyPID, int64(p.PID)))
		}
		if p.Exe != "" {
			attrs = append(attrs, text(string(semconv.ProcessExecutableNameKey), filepath.Base(p.Exe)), text(string(semconv.ProcessExecutablePathKey), p.Exe))
		}
		if len(p.Argv) > 0 {
			list, n := []string{}, 0
			for j, v := range p.Argv {
				if n += len(v); n > maxArgs {
					list = append(list, fmt.Sprintf("(%d more)", len(p.Argv)-j))
					break
				}
				list = append(list, valid(v))
			}
			attrs = append(attrs, attr{key: string(semconv.ProcessCommandArgsKey), kind: isList, list: list})
		}
		x.hosts = append(x.hosts, newResource(attrs...))

		name, id := kind.device, ""
		if name == "" {
			name = "device"
		}
		if n := devices[i]; n >= 0 {
			id = strconv.Itoa(n)
			name += ":" + id
		}
		attrs = []attr{
			text(string(semconv.ServiceNameKey), name),
			text(string(semconv.ServiceInstanceIDKey), m.UUID),
			text(string(semconv.HostNameKey), m.Host),
			text(string(semconv.HwIDKey), id),
			fromSemconv(semconv.HwTypeGpu),
			text(string(semconv.HwNameKey), m.Device.Name),
			text(string(semconv.HwDriverVersionKey), m.Device.DriverVersion),
		}
		if m.Simulated {
			attrs = append(attrs, yes("acl.simulated"))
		} else {
			attrs = append(attrs, text(string(semconv.HwVendorKey), kind.vendor))
		}
		r := newResource(attrs...)
		for _, old := range x.devices { // processes on one device share its resource
			if old.attrs[0].str == r.attrs[0].str {
				r = old
				break
			}
		}
		x.devices = append(x.devices, r)
	}
	return nil
}

func fromSemconv(kv attribute.KeyValue) attr { return text(string(kv.Key), kv.Value.AsString()) }

// serviceNames returns a short name for each process: that of its program, with a number where several share it.
func (x *exporter) serviceNames() []string {
	names := make([]string, len(x.procs))
	count := map[string]int{}
	ranks := map[int]bool{}
	for i := range x.procs {
		p := &x.procs[i]
		switch {
		case p.Exe != "":
			names[i] = filepath.Base(p.Exe)
		case len(p.Argv) > 0:
			names[i] = filepath.Base(p.Argv[0])
		default:
			names[i] = "program"
		}
		count[names[i]]++
		ranks[p.Rank] = true
	}
	for i, n := range names {
		if count[n] == 1 {
			continue
		}
		number := i
		if len(ranks) == len(x.procs) {
			number = x.procs[i].Rank
		}
		names[i] = fmt.Sprintf("%s:%d", n, number)
	}
	return names
}

// deviceNumbers returns, for each process, the device that it uses: the only number that it has ever given as a deviceId,
// 0 where it gave none, -1 where it gave several. Which stream is on which of several devices nothing here knows.
func (x *exporter) deviceNumbers() ([]int, error) {
	numbers := make([]int, len(x.procs))
	param := map[uint16]uint8{}
	f := format.Filter{NoData: true}
	for i := range x.t.Model.Funcs {
		fn := &x.t.Model.Funcs[i]
		if p := fn.Param("deviceId"); p >= 0 && fn.Modelled && fn.RetError && fn.Params[p].Role == api.Value {
			param[uint16(fn.ID)] = fn.Params[p].Word
			f.Funcs = append(f.Funcs, uint16(fn.ID))
		}
	}
	if len(f.Funcs) == 0 {
		return numbers, nil
	}
	seen := make([]bool, len(x.procs))
	for c, err := range x.t.Reader.Calls(&f) {
		if err != nil {
			return nil, err
		}
		w := int(param[c.Func])
		if w >= len(c.Args) || c.Flags&format.Unfinished != 0 || uint32(c.Ret) != 0 {
			continue
		}
		p, n := x.threads[x.thread(c.Thread)].Process, int(int32(c.Args[w]))
		if seen[p] && numbers[p] != n {
			n = -1
		}
		seen[p], numbers[p] = true, n
	}
	return numbers, nil
}

// thread returns the row of a thread.
func (x *exporter) thread(t uint32) int { return min(int(t), len(x.threads)-1) }

// plan cuts the recording into parts: a step each, and what is before, between and behind steps, and each of these into as many as
// it takes to have at most MaxSpans spans in one.
func (x *exporter) plan() {
	calls := x.t.Calls
	p := part{step: -1}
	spans, n := 1, 1 // of the part, with its root; number of the part
	for p.callEnd < len(calls) || p.gapEnd < len(x.gaps) {
		need, thread, lane := 1, -1, -1
		gap := x.gapNext(p.callEnd, p.gapEnd)
		var at int64
		if gap {
			g := &x.gaps[p.gapEnd]
			at = g.From
			if g.Thread != format.NoThread {
				thread = x.thread(g.Thread)
			}
		} else {
			c := &calls[p.callEnd]
			at = c.Start
			thread = x.thread(c.Thread)
			if x.ranges[c.Index] != nil {
				need++
			}
			if c.Task >= 0 {
				need++
				if x.o.Layout == Lanes {
					lane = x.t.Tasks[c.Task].Lane
				}
			}
		}
		if thread >= 0 && x.inThread[thread].part != n {
			need++
		}
		if lane >= 0 && x.inLane[lane].part != n {
			need++
		}
		step := x.steps.At(at)
		if spans == 1 {
			p.step = step
		}
		if spans+need > x.o.MaxSpans || step != p.step {
			x.parts = append(x.parts, p)
			x.total += spans
			p = part{call: p.callEnd, callEnd: p.callEnd, gap: p.gapEnd, gapEnd: p.gapEnd}
			spans, n = 1, n+1
			continue
		}
		spans += need
		if thread >= 0 {
			x.inThread[thread].part = n
		}
		if lane >= 0 {
			x.inLane[lane].part = n
		}
		if gap {
			p.gapEnd++
		} else {
			p.callEnd++
		}
	}
	x.parts = append(x.parts, p)
	x.total += spans
	clear(x.inThread)
	clear(x.inLane)
}

// gapNext reports whether a gap comes before a call.
func (x *exporter) gapNext(call, gap int) bool {
	return gap < len(x.gaps) && (call == len(x.t.Calls) || x.gaps[gap].From < x.t.Calls[call].Start)
}

// run gives all spans to sink, in batches that are valid until it returns.
func (x *exporter) run(sink func(*batch) error) error {
	x.sink = sink
	for n := range x.parts {
		if err := x.part(n); err != nil {
			return err
		}
	}
	return x.flush()
}

func (x *exporter) flush() error {
	if x.b.spans == 0 {
		return nil
	}
	if err := x.sink(&x.b); err != nil {
		return err
	}
	x.res.Requests++
	x.res.Spans += x.b.spans
	x.b.reset()
	if x.o.Progress != nil {
		x.o.Progress(x.res.Spans, x.total)
	}
	return nil
}

func (x *exporter) ids(part int) ids {
	layout := x.o.Layout
	if len(x.steps.List) > 0 {
		layout += " steps"
	}
	return newIDs(x.meta.UUID, layout, x.o.MaxSpans, part)
}

// emit adds a span of the trace that fill completes. Its times come in as times of the recording.
func (x *exporter) emit(d *ids, r *resource, fill func(s *span)) error {
	s := x.b.span(r)
	s.trace = d.trace
	fill(s)
	s.start, s.end = s.start+x.meta.StartWall, max(s.start, s.end)+x.meta.StartWall
	x.b.done(s)
	if x.b.full() {
		return x.flush()
	}
	return nil
}

// part emits the spans of one trace: the root, the threads, the streams, and then what is in them.
func (x *exporter) part(n int) error {
	p := &x.parts[n]
	d := x.ids(n)
	var all extent
	var threads, lanes []int
	for i := p.call; i < p.callEnd; i++ {
		c := &x.t.Calls[i]
		end := x.callEnd(c)
		all.add(n+1, c.Start, end)
		if r := x.ranges[c.Index]; r != nil {
			end = max(end, r.To)
			all.add(n+1, c.Start, end)
		}
		if th := x.thread(c.Thread); x.inThread[th].add(n+1, c.Start, end) {
			threads = append(threads, th)
		}
		if c.Task < 0 {
			continue
		}
		t := &x.t.Tasks[c.Task]
		all.add(n+1, t.From, t.To)
		if x.inLane[t.Lane].add(n+1, t.From, t.To) {
			lanes = append(lanes, t.Lane)
		}
	}
	for i := p.gap; i < p.gapEnd; i++ {
		g := &x.gaps[i]
		all.add(n+1, g.From, g.To)
		if g.Thread != format.NoThread {
			if th := x.thread(g.Thread); x.inThread[th].add(n+1, g.From, g.To) {
				threads = append(threads, th)
			}
		}
	}
	if all.part == 0 {
		all.end = x.meta.EndNS
	}
	if p.step >= 0 { // the time before a step's first call, and behind its last one, is the step's too
		step := &x.steps.List[p.step]
		if n == 0 || x.parts[n-1].step != p.step {
			all.start = min(all.start, step.From)
		}
		if n == len(x.parts)-1 || x.parts[n+1].step != p.step {
			all.end = max(all.end, step.To)
		}
	}
	if n == 0 {
		x.res.FirstTraceID = hex.EncodeToString(d.trace[:])
	}
	if err := x.root(&d, n, &all); err != nil {
		return err
	}
	for _, th := range threads {
		if err := x.threadSpan(&d, th); err != nil {
			return err
		}
	}
	if x.o.Layout == Lanes {
		for _, l := range lanes {
			if err := x.laneSpan(&d, l); err != nil {
				return err
			}
		}
	}
	for i, g := p.call, p.gap; i < p.callEnd || g < p.gapEnd; {
		if x.gapNext(i, g) {
			if err := x.gap(&d, g); err != nil {
				return err
			}
			g++
			continue
		}
		c := &x.t.Calls[i]
		if err := x.call(&d, c); err != nil {
			return err
		}
		if r := x.ranges[c.Index]; r != nil {
			if err := x.named(&d, r); err != nil {
				return err
			}
		}
		if c.Task >= 0 {
			if err := x.task(&d, &x.t.Tasks[c.Task]); err != nil {
				return err
			}
		}
		i++
	}
	x.res.Traces++
	return nil
}

// callEnd is the end of a call, and that of the recording for one that never returned.
func (x *exporter) callEnd(c *timeline.HostCall) int64 {
	if c.Flags&format.Unfinished != 0 {
		return max(c.End, x.t.End)
	}
	return c.End
}

func (x *exporter) root(d *ids, n int, all *extent) error {
	p := &x.parts[n]
	return x.emit(d, x.hosts[0], func(s *span) {
		s.id = d.span(rootSpan, 0)
		s.name = "recording"
		s.start, s.end = all.start, all.end
		s.text("acl.trace", x.meta.UUID)
		s.number("acl.part", int64(n+1))
		s.number("acl.parts", int64(len(x.parts)))
		s.text("acl.layout", x.o.Layout)
		s.number("acl.calls", int64(p.callEnd-p.call))
		if p.step >= 0 {
			step := &x.steps.List[p.step]
			s.name = "step"
			s.number("acl.step", int64(p.step))
			s.text("acl.step.name", step.Name)
			s.text("acl.step.source", string(x.steps.Source))
			if !step.Typical {
				s.yes("acl.step.differs")
			}
		}
		if !x.t.Reader.Complete() {
			s.yes("acl.incomplete")
		}
		if n > 0 {
			before := x.ids(n - 1)
			s.linkTrace, s.link = before.trace, before.span(rootSpan, 0)
		}
	})
}

func (x *exporter) threadSpan(d *ids, th int) error {
	return x.emit(d, x.hosts[x.threads[th].Process], func(s *span) {
		s.id, s.parent = d.span(threadSpan, uint64(th)), d.span(rootSpan, 0)
		s.name = x.names[th]
		s.start, s.end = x.inThread[th].start, x.inThread[th].end
		x.threadAttrs(s, th)
	})
}

func (x *exporter) threadAttrs(s *span, th int) {
	if tid := x.threads[th].TID; tid != 0 {
		s.number(keyThreadID, int64(tid))
	}
	s.text(keyThreadName, x.threads[th].Name)
}

// process is the process of a lane.
func (x *exporter) process(l *timeline.Lane) int {
	if int(l.Process) < len(x.procs) {
		return int(l.Process)
	}
	return 0
}

func (x *exporter) laneSpan(d *ids, lane int) error {
	l := &x.t.Lanes[lane]
	p := x.process(l)
	return x.emit(d, x.devices[p], func(s *span) {
		s.id, s.parent = d.span(laneSpan, uint64(lane)), d.span(rootSpan, 0)
		s.name = valid(l.Name)
		s.start, s.end = x.inLane[lane].start, x.inLane[lane].end
		if pid := x.procs[p].PID; pid != 0 {
			s.number(keyPID, int64(pid))
		}
	})
}

func (x *exporter) call(d *ids, c *timeline.HostCall) error {
	th := x.thread(c.Thread)
	return x.emit(d, x.hosts[x.threads[th].Process], func(s *span) {
		s.id, s.parent = d.span(callSpan, c.Index), d.span(threadSpan, uint64(th))
		s.name = valid(c.Name)
		s.start, s.end = c.Start, x.callEnd(c)
		s.number("acl.call", int64(c.Index))
		x.threadAttrs(s, th)
		s.text("acl.kernel", c.Kernel)
		if c.Task >= 0 {
			t := &x.t.Tasks[c.Task]
			if t.Fn.Stream >= 0 {
				s.kind = producer
			}
			x.taskAttrs(s, t)
		}
		switch {
		case c.Flags&format.Unfinished != 0:
			s.yes("acl.unfinished")
		case c.Fn == nil:
			s.number("acl.ret", int64(c.Ret))
		case c.Fn.RetError:
			s.number("acl.ret", int64(int32(c.Ret)))
		case !c.Fn.RetVoid:
			s.number("acl.ret", int64(c.Ret))
		}
		if c.Failed() {
			name := x.t.Model.ErrorName(int64(int32(c.Ret)))
			s.text("acl.error", name)
			s.fail(name)
		}
		if c.Flags&format.Truncated != 0 {
			s.yes("acl.truncated")
		}
	})
}

// taskAttrs adds what a call and its task have in common.
func (x *exporter) taskAttrs(s *span, t *timeline.Task) {
	s.text("acl.task", t.Kind.String())
	s.text("acl.stream", x.t.Lanes[t.Lane].Name)
	if t.Kind == api.Copy || t.Kind == api.Fill {
		s.number("acl.bytes", int64(t.Bytes))
	}
}

func (x *exporter) task(d *ids, t *timeline.Task) error {
	lane := &x.t.Lanes[t.Lane]
	return x.emit(d, x.devices[x.process(lane)], func(s *span) {
		launch := d.span(callSpan, t.Call)
		s.id, s.parent = d.span(taskSpan, t.Call), launch
		if x.o.Layout == Lanes {
			s.parent = d.span(laneSpan, uint64(t.Lane))
		}
		s.linkTrace, s.link = d.trace, launch
		s.name = valid(t.Name)
		s.start, s.end = t.From, t.To
		if t.Fn.Stream >= 0 {
			s.kind = consumer
		}
		s.number("acl.call", int64(t.Call))
		x.taskAttrs(s, t)
		if !t.Measured {
			s.yes("acl.bracketed")
		}
		if t.Open {
			s.yes("acl.open")
		}
	})
}

// named emits what the program has named: a range, or a moment.
func (x *exporter) named(d *ids, r *timeline.Range) error {
	th := x.thread(r.Thread)
	return x.emit(d, x.hosts[x.threads[th].Process], func(s *span) {
		s.id, s.parent = d.span(rangeSpan, r.Begin), d.span(threadSpan, uint64(th))
		s.name = valid(r.Name)
		s.start, s.end = r.From, r.To
		s.number("acl.range", int64(r.Begin))
		s.text("acl.domain", r.Domain)
		if r.Open {
			s.yes("acl.open")
		}
		x.threadAttrs(s, th)
	})
}

func (x *exporter) gap(d *ids, i int) error {
	g := &x.gaps[i]
	r, parent, th := x.hosts[0], d.span(rootSpan, 0), -1
	if g.Thread != format.NoThread {
		th = x.thread(g.Thread)
		r, parent = x.hosts[x.threads[th].Process], d.span(threadSpan, uint64(th))
	}
	return x.emit(d, r, func(s *span) {
		s.id, s.parent = d.span(gapSpan, uint64(i)), parent
		s.name = "calls lost"
		s.start, s.end = g.From, g.To
		if th >= 0 {
			x.threadAttrs(s, th)
		}
		if g.Calls > 0 {
			s.number("acl.lost", int64(g.Calls))
		}
		s.text("acl.reason", g.Reason.String())
		s.fail("calls lost: " + g.Reason.String())
	})
}
