package otelexport

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

const schemaURL = semconv.SchemaURL

// An exporter walks through a trace and gives out its spans in batches, each span when its times are known. It holds the part that calls
// are added to, and parts of which something has not ended yet.
type exporter struct {
	*resources
	r   *format.Reader
	m   *api.Model
	w   *timeline.Walk
	o   Options
	cut string // how the recording becomes traces, for their ids

	threads   []thread // the last stands for those that have no row
	counted   []int    // of these, by process
	lanes     []lane
	gaps      []format.Gap // by their beginning, those before a call that came go away
	gap       int          // number of the first of gaps
	functions map[function][]byte
	known     [][2][]byte // the same by the id of the function, for calls without and with a task on a stream
	kernels   map[string]*names
	named     timeline.Range
	isNamed   bool    // by the next call, which begins it
	inStep    []*part // whose step has not ended

	part      *part // that calls go to, nil before the first one
	parts     int
	origin    origin // of parts that begin
	inherited int    // spans of parts that have inherited a trace, but for the last one
	calls     int    // so far

	b    *batch
	sink func(*batch) (*batch, error)
	err  error // of sink
	res  Result

	// Of a request, top is the exporter that it belongs to, which has the batch; else it is the exporter itself.
	top       *exporter
	requests  []*request
	completed func() // nil, or is told of each part

	shown   int  // number of the part that StepTraceID is of
	typical bool // its step is like most others
}

type thread struct {
	process int
	name    []byte // field of the thread's span
	attrs   []byte // of the thread itself, of gaps and of ranges
	in      *member

	requests []*request // that it is in
}

type lane struct {
	res     *resource
	pid     int64
	name    string
	field   []byte // name of the lane's span
	stream  []byte // attribute with its name
	in      *member
	waiting []waiting // of tasks that have not ended, in their order, from first on
	first   int
}

// A part becomes one trace: the calls and gaps of a step or of what is between steps, or of a piece of one that has MaxSpans spans or
// MaxBytes.
type part struct {
	ids
	number         int
	step           int        // -1 for none
	ended          *step.Step // the step, once it has ended; nil for none
	first, last    bool       // of its step
	continued      bool       // by another part
	spans, bytes   int
	calls          int
	extent         extent
	threads, lanes []*member
	waiting        int // for tasks and the step to end
	before, behind link
	origin         origin
	inherits       bool // the trace of its parent
}

type link struct {
	trace traceID
	id    spanID
}

// A member is a thread or a lane that has spans in a part.
type member struct {
	part   *part
	index  int
	id     spanID
	extent extent
}

type extent struct {
	start, end int64
	any        bool
}

func (e *extent) add(start, end int64) {
	if !e.any {
		*e = extent{start, end, true}
		return
	}
	e.start, e.end = min(e.start, start), max(e.end, end)
}

// waiting is where a task belongs that has not ended.
type waiting struct {
	in       *member
	names    *names
	requests []*request // it belongs to as well
}

// function is what the fields of a call's name and kind follow from.
type function struct {
	name string
	kind byte
}

// names are fields that spans of one kernel, or of tasks of another name, share.
type names struct {
	kernel []byte // attribute of the launch
	async  []byte // name and kind of the task on a stream
	sync   []byte // and of one without
}

// maxNames bounds what is remembered of names, of which a trace has few unless it is a strange one.
const maxNames = 1 << 16

func newExporter(r *format.Reader, m *api.Model, o *Options) (*exporter, error) {
	x := &exporter{r: r, m: m, b: &batch{}, functions: map[function][]byte{}, kernels: map[string]*names{}}
	x.top = x
	if o != nil {
		x.o = *o
	}
	if err := x.o.check(); err != nil {
		return nil, err
	}
	var err error
	if x.resources, err = newResources(r, m); err != nil {
		return nil, err
	}
	x.w = timeline.NewWalk(r, m, nil)
	if !x.o.NoSteps {
		if err := x.w.FindSteps(); err != nil {
			return nil, err
		}
	}
	x.cut = fmt.Sprint(x.o.Layout, " ", x.o.MaxSpans, " ", x.o.MaxBytes, " ", x.w.StepRule().Source)
	x.gaps = slices.Clone(r.Gaps())
	slices.SortStableFunc(x.gaps, func(a, b format.Gap) int { return cmp.Compare(a.From, b.From) })
	x.inherit()
	for _, th := range append(slices.Clone(r.Threads()), format.Thread{}) {
		x.addThread(&th)
	}
	return x, nil
}

// check fills in the defaults.
func (o *Options) check() error {
	o.Layout = cmp.Or(o.Layout, Lanes)
	o.MaxSpans = cmp.Or(o.MaxSpans, DefaultMaxSpans)
	o.MaxBytes = cmp.Or(o.MaxBytes, DefaultMaxBytes)
	switch {
	case o.Layout != Lanes && o.Layout != Nested:
		return fmt.Errorf("layout %q is neither %s nor %s", o.Layout, Lanes, Nested)
	case o.MaxSpans < minSpans:
		return fmt.Errorf("%d spans in a trace are too few for a call and what belongs to it: at least %d are needed", o.MaxSpans, minSpans)
	case o.MaxBytes < minBytes:
		return fmt.Errorf("%d bytes in a trace are too few for a call and what belongs to it: at least %d are needed", o.MaxBytes, minBytes)
	}
	return nil
}

// addThread takes the next thread.
func (x *exporter) addThread(th *format.Thread) {
	t := thread{process: x.process(th.Process)}
	for len(x.counted) <= t.process {
		x.counted = append(x.counted, 0)
	}
	x.counted[t.process]++
	name := valid(th.Name)
	if th.TID != 0 {
		t.attrs = putNumber(t.attrs, spanAttributes, keyThreadID, int64(th.TID))
	}
	t.attrs = putText(t.attrs, spanAttributes, keyThreadName, name)
	t.name = nameField("thread "+cmp.Or(name, strconv.Itoa(x.counted[t.process])), internal)
	x.threads = append(x.threads, t)
}

// nameField encodes the name and the kind of a span.
func nameField(name string, kind byte) []byte {
	return append(putString(nil, spanName, name), spanKind, kind)
}

// run gives all spans to sink, which returns an empty batch for the next ones. It may be called once.
func (x *exporter) run(sink func(*batch) (*batch, error)) error {
	x.sink = sink
	if err := x.w.Run(x.visitor()); err != nil {
		return err
	}
	return x.finish()
}

func (x *exporter) visitor() *timeline.Visitor {
	return &timeline.Visitor{Lane: x.lane, Call: x.call, Task: x.task, Step: x.stepEnded, Range: func(r *timeline.Range) error {
		x.named, x.isNamed = *r, true
		x.request(r)
		return nil
	}}
}

// thread returns the row of a thread.
func (x *exporter) thread(t uint32) int { return min(int(t), len(x.threads)-1) }

// flush hands over the batch.
func (x *exporter) flush() {
	if x.b.spans == 0 || x.err != nil {
		return
	}
	x.b.seal()
	x.b.calls = x.calls
	number := x.b.number
	b, err := x.sink(x.b)
	if err != nil {
		x.err = err
		return
	}
	x.b = b
	x.b.number = number + 1
}

// begin returns the buffer of a group with the beginning of a span, and the place to give to end.
func (x *exporter) begin(r *resource, p *part, id, parent spanID) (g *group, b []byte, at int) {
	g = x.top.b.group(r)
	at = len(g.buf)
	b = openSpan(g.buf)
	b = append(append(b, spanTrace, 16), p.trace[:]...)
	b = putID(b, spanOwn, id)
	if parent != 0 {
		b = putID(b, spanParent, parent)
	}
	return g, b, at
}

func (x *exporter) end(g *group, b []byte, at int) {
	g.buf = closeSpan(b, at)
	batch := x.top.b
	batch.spans++
	batch.bytes += len(g.buf) - at
	if batch.full() {
		x.top.flush()
	}
}

// times encodes times of the recording.
func (x *exporter) times(b []byte, start, end int64) []byte {
	return putTimes(b, start+x.meta.StartWall, max(start, end)+x.meta.StartWall)
}

// Sizes, no less than they are: of the fields that all spans have, of an attribute that is true or whose text is counted apart, of a
// link, and of a root or a gap without its names.
const (
	spanBytes = 3 + 18 + 10 + 10 + 4 + 18
	flagBytes = 3 + 2 + 14 + 2 + 3
	linkBytes = 30
	fewBytes  = 1 << 10
)

// numberBytes is no less than an attribute with a number takes.
func numberBytes(v uint64) int { return 2 + 2 + 9 + 2 + 1 + varintLen(v) }

// room returns the part that takes a call, or a gap, of a step, with so many spans of its own, their bytes, and what these belong to. It
// begins another part where the one before is full or of another step.
func (x *exporter) room(step, thread, lane, spans, bytes int) *part {
	p := x.part
	if p != nil && p.step == step {
		n, size := spans, bytes
		if thread >= 0 && !x.threads[thread].in.of(p) {
			n, size = n+1, size+spanBytes+len(x.threads[thread].name)+len(x.threads[thread].attrs)
		}
		if lane >= 0 && !x.lanes[lane].in.of(p) {
			n, size = n+1, size+spanBytes+len(x.lanes[lane].field)+numberBytes(1<<32)
		}
		if p.spans+n <= x.o.MaxSpans && p.bytes+size <= x.o.MaxBytes {
			p.spans, p.bytes = p.spans+spans, p.bytes+bytes
			return p
		}
	}
	next := &part{ids: newIDs(x.meta.UUID, x.cut, x.parts), number: x.parts, step: step, first: true, last: true, spans: 1 + spans, bytes: fewBytes + bytes}
	if step >= 0 {
		next.bytes += format.InlineLimit // for its name
		next.waiting++
		x.inStep = append(x.inStep, next)
	}
	x.parts++
	x.adopt(next)
	if p == nil {
		x.res.FirstTraceID = hex.EncodeToString(next.trace[:])
	} else {
		p.continued = true
		p.last = p.step != step
		next.first = p.last
		next.before = link{p.trace, p.span(rootSpan, 0)}
		p.behind = link{next.trace, next.span(rootSpan, 0)}
		x.close(p)
	}
	x.part = next
	return next
}

func (m *member) of(p *part) bool { return m != nil && m.part == p }

// onThread returns the thread as a member of the part.
func (x *exporter) onThread(p *part, th int) *member {
	t := &x.threads[th]
	if !t.in.of(p) {
		t.in = &member{part: p, index: th, id: p.span(threadSpan, uint64(th))}
		p.threads = append(p.threads, t.in)
		p.spans, p.bytes = p.spans+1, p.bytes+spanBytes+len(t.name)+len(t.attrs)
	}
	return t.in
}

// onLane returns the lane as a member of the part.
func (x *exporter) onLane(p *part, i int) *member {
	l := &x.lanes[i]
	if !l.in.of(p) {
		l.in = &member{part: p, index: i, id: p.span(laneSpan, uint64(i))}
		p.lanes = append(p.lanes, l.in)
		if x.o.Layout == Lanes {
			p.spans, p.bytes = p.spans+1, p.bytes+spanBytes+len(l.field)+numberBytes(1<<32)
		}
	}
	return l.in
}

// add widens the extents of the member and of its part.
func (m *member) add(start, end int64) {
	m.extent.add(start, end)
	m.part.extent.add(start, end)
}

// lane takes note of a lane.
func (x *exporter) lane(_ int, l *timeline.Lane) error {
	n := lane{res: x.device(l.Device), pid: int64(x.procs[x.process(l.Process)].PID), name: valid(l.Name)}
	n.field, n.stream = nameField(n.name, internal), putText(nil, spanAttributes, "acl.stream", n.name)
	x.lanes = append(x.lanes, n)
	for _, q := range x.requests {
		q.lanes = append(q.lanes, n)
	}
	return nil
}

// name returns the name and the kind of a call.
func (x *exporter) name(c *timeline.HostCall, kind byte) []byte {
	if c.Fn == nil {
		return x.function(c.Name, kind)
	}
	for len(x.top.known) <= int(c.Fn.ID) {
		x.top.known = append(x.top.known, [2][]byte{})
	}
	f := &x.top.known[c.Fn.ID][kind/producer]
	if *f == nil {
		*f = x.function(c.Name, kind)
	}
	return *f
}

// function encodes a name and a kind.
func (x *exporter) function(name string, kind byte) []byte {
	k := function{name, kind}
	f := x.top.functions[k]
	if f == nil {
		if len(x.top.functions) >= maxNames {
			clear(x.top.functions)
		}
		f = nameField(valid(name), kind)
		x.top.functions[k] = f
	}
	return f
}

// kernel returns the fields of a name of kernels and tasks.
func (x *exporter) kernel(name string) *names {
	n := x.top.kernels[name]
	if n == nil {
		if len(x.top.kernels) >= maxNames {
			clear(x.top.kernels)
		}
		v := valid(name)
		n = &names{kernel: putText(nil, spanAttributes, "acl.kernel", v), async: nameField(v, consumer), sync: nameField(v, internal)}
		x.top.kernels[name] = n
	}
	return n
}

// kinds are the attributes that tell the kinds of tasks.
var kinds = func() (out [api.System + 1][]byte) {
	for k := range out {
		out[k] = putText(nil, spanAttributes, "acl.task", api.Task(k).String())
	}
	return out
}()

var (
	bracketed = putTrue(nil, spanAttributes, "acl.bracketed")
	open      = putTrue(nil, spanAttributes, "acl.open")
)

func (x *exporter) call(c *timeline.HostCall, t *timeline.Task) error {
	for len(x.gaps) > 0 && x.gaps[0].From < c.Start {
		x.nextGap()
	}
	x.calls++
	th := x.thread(c.Thread)
	var requests []*request
	if len(x.threads[th].requests) > 0 {
		requests = x.inRequests(c, t)
	}
	spans, size, on := 1, spanBytes+len(c.Name)+numberBytes(c.Index)+numberBytes(c.Ret), -1
	if c.Flags != 0 {
		size += 2 * flagBytes
	}
	var kernel, task *names
	if c.Kernel != "" {
		kernel = x.kernel(c.Kernel)
		size += len(kernel.kernel)
	}
	if t != nil {
		if task = kernel; task == nil || t.Name != c.Kernel {
			task = x.kernel(t.Name)
		}
		spans++
		size += spanBytes + len(bracketed) + len(open) + linkBytes + len(task.async) + 2*(len(kinds[t.Kind])+len(x.lanes[t.Lane].stream))
		if t.Bytes > 0 {
			size += 2 * numberBytes(t.Bytes)
		}
		if x.o.Layout == Lanes {
			on = t.Lane
		}
	}
	failed := ""
	if c.Failed() {
		failed = x.m.ErrorName(int64(int32(c.Ret)))
		size += 2 * (len(failed) + flagBytes)
	}
	if x.isNamed {
		spans++
		size += spanBytes + numberBytes(c.Index) + len(x.named.Name) + len(x.named.Domain) + 2*flagBytes + len(x.threads[th].attrs)
	}
	p := x.room(c.Step, th, on, spans, size)
	p.calls++
	in := x.onThread(p, th)
	if t != nil {
		p.waiting++
		l := &x.lanes[t.Lane]
		l.waiting = append(l.waiting, waiting{x.onLane(p, t.Lane), task, requests})
	}
	x.emitCall(in, c, kernel, t, failed)
	if x.isNamed {
		x.isNamed = false
		x.emitRange(in, &x.named)
	}
	return x.err
}

func (x *exporter) emitCall(in *member, c *timeline.HostCall, kernel *names, t *timeline.Task, failed string) {
	end := x.w.CallEnd(c)
	in.add(c.Start, end)
	p := in.part
	kind := byte(internal)
	if t != nil && t.Fn.Stream >= 0 {
		kind = producer
	}
	g, b, at := x.begin(x.hosts[x.threads[in.index].process], p, p.span(callSpan, c.Index), in.id)
	b = append(b, x.name(c, kind)...)
	b = x.times(b, c.Start, end)
	b = putNumber(b, spanAttributes, "acl.call", int64(c.Index))
	if kernel != nil {
		b = append(b, kernel.kernel...)
	}
	if t != nil {
		if kernel == nil {
			b = append(b, kinds[t.Kind]...)
		}
		b = append(b, x.lanes[t.Lane].stream...)
		b = putBytes(b, t.Kind, t.Bytes)
	}
	switch {
	case c.Flags&format.Unfinished != 0:
		b = putTrue(b, spanAttributes, "acl.unfinished")
	case c.Fn != nil && (c.Fn.RetVoid || c.Fn.RetError && uint32(c.Ret) == 0):
	case c.Fn != nil && c.Fn.RetError:
		b = putNumber(b, spanAttributes, "acl.ret", int64(int32(c.Ret)))
	default:
		b = putNumber(b, spanAttributes, "acl.ret", int64(c.Ret))
	}
	b = putText(b, spanAttributes, "acl.error", failed)
	if c.Flags&format.Truncated != 0 {
		b = putTrue(b, spanAttributes, "acl.truncated")
	}
	if failed != "" {
		b = putError(b, failed)
	}
	x.end(g, b, at)
}

// putBytes adds how much a copy or a fill moves.
func putBytes(b []byte, k api.Task, n uint64) []byte {
	if k != api.Copy && k != api.Fill {
		return b
	}
	return putNumber(b, spanAttributes, "acl.bytes", int64(n))
}

// task emits a task: those of a lane end in their order.
func (x *exporter) task(t *timeline.Task) error {
	l := &x.lanes[t.Lane]
	in, names := l.waiting[l.first].in, l.waiting[l.first].names
	for _, q := range l.waiting[l.first].requests {
		q.task(t)
	}
	if l.first++; l.first == len(l.waiting) {
		l.waiting, l.first = l.waiting[:0], 0
	} else if 2*l.first > cap(l.waiting) {
		l.waiting, l.first = append(l.waiting[:0], l.waiting[l.first:]...), 0
	}
	in.add(t.From, t.To)
	p := in.part
	launch := p.span(callSpan, t.Call)
	parent, name := launch, names.sync
	if x.o.Layout == Lanes {
		parent = in.id
	}
	if t.Fn.Stream >= 0 {
		name = names.async
	}
	g, b, at := x.begin(l.res, p, p.span(taskSpan, t.Call), parent)
	b = append(b, name...)
	b = x.times(b, t.From, t.To)
	b = append(b, kinds[t.Kind]...)
	if x.o.Layout == Nested {
		b = append(b, l.stream...)
	}
	b = putBytes(b, t.Kind, t.Bytes)
	if !t.Measured {
		b = append(b, bracketed...)
	}
	if t.Open {
		b = append(b, open...)
	}
	b = putLink(b, &p.trace, launch)
	x.end(g, b, at)
	x.done(p)
	return x.err
}

// emitRange emits what the program has named: a range, or a moment.
func (x *exporter) emitRange(in *member, r *timeline.Range) {
	in.add(r.From, r.To)
	p, th := in.part, &x.threads[in.index]
	g, b, at := x.begin(x.hosts[th.process], p, p.span(rangeSpan, r.Begin), in.id)
	b = append(b, nameField(valid(r.Name), internal)...)
	b = x.times(b, r.From, r.To)
	b = putNumber(b, spanAttributes, "acl.range", int64(r.Begin))
	b = putText(b, spanAttributes, "acl.domain", valid(r.Domain))
	if r.Open {
		b = append(b, open...)
	}
	x.end(g, append(b, th.attrs...), at)
}

// stepEnded takes note of a step, which its parts have waited for.
func (x *exporter) stepEnded(s *step.Step) error {
	ended := *s
	for len(x.inStep) > 0 && x.inStep[0].step <= s.Index {
		p := x.inStep[0]
		x.inStep = x.inStep[1:]
		if p.step == s.Index && !s.Open {
			p.ended = &ended
		}
		x.done(p)
	}
	return x.err
}

// nextGap emits the next gap.
func (x *exporter) nextGap() {
	g, n := &x.gaps[0], x.gap
	x.gaps, x.gap = x.gaps[1:], x.gap+1
	th := -1
	if g.Thread != format.NoThread {
		th = x.thread(g.Thread)
	}
	name := "calls lost"
	if g.Intended() {
		name = "not recorded"
	}
	step := -1
	if x.part != nil {
		step = x.part.step
	}
	p := x.room(step, th, -1, 1, fewBytes)
	res, parent := x.hosts[0], p.span(rootSpan, 0)
	if th >= 0 {
		in := x.onThread(p, th)
		in.add(g.From, g.To)
		res, parent = x.hosts[x.threads[th].process], in.id
	}
	p.extent.add(g.From, g.To)
	group, b, at := x.begin(res, p, p.span(gapSpan, uint64(n)), parent)
	b = append(b, nameField(name, internal)...)
	b = x.times(b, g.From, g.To)
	if th >= 0 {
		b = append(b, x.threads[th].attrs...)
	}
	if g.Calls > 0 {
		b = putNumber(b, spanAttributes, "acl.lost", int64(g.Calls))
	}
	b = putText(b, spanAttributes, "acl.reason", g.Reason.String())
	if !g.Intended() {
		b = putError(b, name+": "+g.Reason.String())
	}
	x.end(group, b, at)
}

// done takes note that something of a part has ended.
func (x *exporter) done(p *part) {
	if p.waiting--; p.waiting == 0 && p != x.part {
		x.complete(p)
	}
}

// close takes note that nothing more comes into a part.
func (x *exporter) close(p *part) {
	if p.waiting == 0 {
		x.complete(p)
	}
}

// complete emits what the spans of a part lie under, now that it is known how long these last.
func (x *exporter) complete(p *part) {
	if s := p.ended; s != nil { // the time before a step's first call, and behind its last one, is the step's too
		if p.first {
			p.extent.add(s.From, p.extent.end)
		}
		if p.last {
			p.extent.add(p.extent.start, s.To)
		}
	}
	root := p.span(rootSpan, 0)
	above := spanID(0)
	if p.inherits {
		above = p.origin.parent.id
	}
	res := x.hosts[0]
	if p.origin.title != "" && len(p.threads) > 0 { // of one thread
		res = x.hosts[x.threads[p.threads[0].index].process]
	}
	g, b, at := x.begin(res, p, root, above)
	name := "recording"
	if p.ended != nil {
		name = "step"
	}
	name = cmp.Or(p.origin.title, name)
	b = append(b, nameField(name, internal)...)
	b = x.times(b, p.extent.start, p.extent.end)
	b = putText(b, spanAttributes, "acl.trace", x.meta.UUID)
	b = putNumber(b, spanAttributes, "acl.part", int64(p.number+1))
	b = putText(b, spanAttributes, "acl.layout", x.o.Layout)
	b = putNumber(b, spanAttributes, "acl.calls", int64(p.calls))
	b = putText(b, spanAttributes, "acl.sampled", p.origin.why)
	if s := p.ended; s != nil && p.origin.title == "" {
		b = putNumber(b, spanAttributes, "acl.step", int64(p.step))
		b = putText(b, spanAttributes, "acl.step.name", valid(s.Name))
		b = putText(b, spanAttributes, "acl.step.source", string(x.w.StepRule().Source))
		if !s.Typical {
			b = putTrue(b, spanAttributes, "acl.step.differs")
		}
	}
	if !p.first || !p.last {
		b = putTrue(b, spanAttributes, "acl.cut")
	}
	if x.r != nil && !x.r.Complete() {
		b = putTrue(b, spanAttributes, "acl.incomplete")
	}
	if p.before.id != 0 {
		b = putLink(b, &p.before.trace, p.before.id)
	}
	if p.continued {
		b = putLink(b, &p.behind.trace, p.behind.id)
	}
	if from := &p.origin.parent; from.id != 0 && !p.inherits {
		b = putLink(b, &from.trace, from.id)
	}
	x.end(g, b, at)
	for _, in := range p.threads {
		th := &x.threads[in.index]
		g, b, at := x.begin(x.hosts[th.process], p, in.id, root)
		b = append(b, th.name...)
		b = x.times(b, in.extent.start, in.extent.end)
		x.end(g, append(b, th.attrs...), at)
	}
	if x.o.Layout == Lanes {
		for _, in := range p.lanes {
			l := &x.lanes[in.index]
			g, b, at := x.begin(l.res, p, in.id, root)
			b = append(b, l.field...)
			b = x.times(b, in.extent.start, in.extent.end)
			if l.pid != 0 {
				b = putNumber(b, spanAttributes, keyPID, l.pid)
			}
			x.end(g, b, at)
		}
	}
	x.top.res.Traces++
	x.show(p)
	if x.completed != nil {
		x.completed()
	}
}

// show notes the first step that a user would want to see. Parts are not complete in their order.
func (x *exporter) show(p *part) {
	if p.ended == nil || !p.first || x.typical && !p.ended.Typical {
		return
	}
	if x.res.StepTraceID == "" || p.number < x.shown || p.ended.Typical && !x.typical {
		x.res.StepTraceID, x.shown, x.typical = hex.EncodeToString(p.trace[:]), p.number, p.ended.Typical
	}
}

// finish emits what has waited for the end of the trace.
func (x *exporter) finish() error {
	for len(x.gaps) > 0 {
		x.nextGap()
	}
	last := x.part
	if last == nil {
		last = x.room(-1, -1, -1, 0, 0)
		last.extent.add(0, x.meta.EndNS)
	}
	for _, p := range x.inStep {
		x.done(p)
	}
	x.close(last)
	for i := range x.threads {
		for _, q := range x.threads[i].requests {
			q.over()
		}
	}
	x.flush()
	return x.err
}
