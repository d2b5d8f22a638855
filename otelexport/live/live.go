// Package live sends metrics and chosen spans of a recording while it is in progress.
//
// Command record creates a Follower with New and sets it as record.Options.Follower. The recorder calls Begin, then
// Process, Thread, Call, Gap, Measured and Drained from its goroutine, then End; read Result after End. Close releases a
// Follower whose recording never began.
//
// It shares the encoder, meter and receivers of package otelexport, so a step has the same spans and metrics as in an
// export of the finished trace file. It never delays the recorder because a receiver is slow: spans and metrics that
// cannot be sent are dropped and counted.
package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/otelexport/internal/meter"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// Options select the metrics and spans to send.
type Options struct {
	Model *api.Model // required

	Endpoint string // OTLP receiver for metrics and spans, as in otelexport.Options
	Protocol string

	// Metrics pushes metrics to an OTLP receiver every OTEL_METRIC_EXPORT_INTERVAL milliseconds (default 60000) and at
	// the end.
	Metrics bool
	// Prometheus is an address to serve metrics at, such as ":9464" or "0.0.0.0:9464"; "" for none. Without a host it
	// is localhost.
	Prometheus string

	// Spans sends spans of steps and named requests to an OTLP receiver: all that failed or took longer than Slow, and
	// one of Every other steps.
	Spans bool
	Every int // 0 for none
	Slow  time.Duration
	// StepMarker marks steps, as in step.NewCounter; "" detects them.
	StepMarker string
	Layout     string // as in otelexport.Options, like the next three
	DeviceAs   otlp.DeviceAs
	// MaxSpans and MaxBytes limit one trace.
	MaxSpans, MaxBytes int
}

// Result reports which metrics and spans were sent.
type Result struct {
	Calls uint64 // counted

	MetricsTo            string // URL, "" for none
	Pushed, PushesFailed int
	PushError            error // last error

	SpansTo     string // URL, "" for none
	Steps       int    // steps seen
	Chosen      int    // steps and requests chosen
	Sent        int    // among Chosen
	Dropped     int    // among Chosen: too long, or too many at once
	Unsent      int    // among Chosen: not accepted by the receiver
	Spans       int    // in Sent
	SendError   error  // last error
	FirstTrace  string // id of the first trace sent
	StepsSource step.Source
}

// A Follower sends metrics and chosen spans of a recording in progress. It is a record.Follower.
//
// At the end of a recording, the metrics equal those of otelexport.SendMetrics. The recorder's goroutine only copies
// calls into batches. A second goroutine counts them by start time; only calls that overlap for very long may be out of
// order. If it lags by some 100,000 calls, the recorder waits. Receivers have goroutines of their own: a slow receiver
// loses metrics or spans, which are counted.
//
// # Requests
//
// A program marks its part of a request by an mstx range whose message has traceparent=00-…-…-01 from the request's
// header. The thread's calls within the range become a trace "request", whose root is a child of that parent. If the
// parent is not sampled, only failed or slow requests are sent.
type Follower struct {
	o    Options
	work chan *batch
	free chan *batch   // counted batches, for reuse
	done chan struct{} // closed when all batches are counted
	cur  *batch
	sent struct{ until, latest int64 } // in earlier batches

	mu    sync.Mutex // protects the fields below
	rs    *otlp.Resources
	meter *meter.Meter
	walk  *timeline.LiveWalk
	held  []*heldCall // an earlier call may still arrive
	spent []*batch
	gaps  []format.Gap // of no known process yet
	at    int64        // everything before is counted
	timed map[uint64]int
	now   *heldCall // the call passed to walk
	res   Result

	spans *spanSampler
	push  *metricPusher
	serve *metricServer
	ended sync.Once
	err   error // of the walk; counting stops
}

const (
	// batchCalls is the capacity of a batch, maxBatches the number of batches that may wait.
	batchCalls, maxBatches = 1024, 96
	// maxHeldCalls limits the calls that wait for earlier ones, about 50 MiB.
	maxHeldCalls = 1 << 17
	// heartbeat is the time after which an incomplete batch is passed on.
	heartbeat = 20 * time.Millisecond
)

// farewell is the time that End waits for receivers. Tests change it.
var farewell = 3 * time.Second

// A batch holds calls from the recorder. It is reused once all its calls are counted.
type batch struct {
	procs   []format.Process
	threads []format.Thread
	devices []deviceFacts
	calls   []heldCall
	gaps    []format.Gap
	times   []deviceTime
	until   int64
	end     bool
	left    int // calls not counted yet

	words []uint64
	outs  []format.Out
	data  []format.Data
	bytes []byte
}

type heldCall struct {
	format.Call
	timed bool
	of    *batch
}

// reset empties the batch.
func (b *batch) reset() {
	*b = batch{procs: b.procs[:0], threads: b.threads[:0], devices: b.devices[:0], calls: b.calls[:0], gaps: b.gaps[:0], times: b.times[:0],
		words: b.words[:0], outs: b.outs[:0], data: b.data[:0], bytes: b.bytes[:0]}
}

type deviceFacts struct {
	process uint32
	format.ProcessDevice
}

type deviceTime struct {
	call     uint64
	from, to int64
}

// New prepares a Follower. It fails on invalid options, but not if a receiver is unreachable.
func New(o *Options) (*Follower, error) {
	l := &Follower{o: *o, work: make(chan *batch, maxBatches), free: make(chan *batch, maxBatches), done: make(chan struct{}), timed: map[uint64]int{}}
	var err error
	if l.rs, err = otlp.NewLiveResources(o.Model, o.DeviceAs); err != nil {
		return nil, err
	}
	l.meter = meter.New(l.rs, o.Model, nil)
	v := &timeline.Visitor{Lane: l.lane, Call: l.call, Task: l.task, Memory: l.meter.Memory}
	if o.Spans {
		if l.spans, err = newSpanSampler(l); err != nil {
			return nil, err
		}
		v.Range, v.Step = l.spans.rangeEnded, l.spans.step
	}
	l.walk = timeline.NewLiveWalk(o.Model, v, &timeline.LiveOptions{StepMarker: o.StepMarker})
	l.meter.Follow(l.walk.Walk)
	if l.spans != nil {
		l.spans.x.Follow(l.walk.Walk)
	}
	if o.Metrics {
		if l.push, err = newMetricPusher(l); err != nil {
			return nil, err
		}
	}
	if o.Prometheus != "" {
		if l.serve, err = newMetricServer(l); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Address returns the address where metrics are served, "" for none.
func (l *Follower) Address() string {
	if l.serve == nil {
		return ""
	}
	return l.serve.listener.Addr().String()
}

// trial is the time for Try. Tests change it.
var trial = time.Second

// A Refusal is the answer of a receiver that does not take metrics or spans.
type Refusal struct {
	What string // metrics, spans, or metrics and spans
	To   string // URL
	Err  error
}

// Try sends empty requests to the OTLP receivers, before the recording begins. It returns those that refuse.
func (l *Follower) Try(ctx context.Context) []Refusal {
	ctx, cancel := context.WithTimeout(ctx, trial)
	defer cancel()
	var metrics, spans error
	var all sync.WaitGroup
	if l.push != nil {
		all.Go(func() { metrics = l.push.try(ctx) })
	}
	if l.spans != nil {
		all.Go(func() { spans = l.spans.try(ctx) })
	}
	all.Wait()
	if metrics != nil && spans != nil && l.res.MetricsTo == l.res.SpansTo && metrics.Error() == spans.Error() {
		return []Refusal{{"metrics and spans", l.res.MetricsTo, metrics}}
	}
	both := []Refusal{{"metrics", l.res.MetricsTo, metrics}, {"spans", l.res.SpansTo, spans}}
	return slices.DeleteFunc(both, func(r Refusal) bool { return r.Err == nil })
}

// Begin starts the goroutines.
func (l *Follower) Begin(meta *format.Meta) {
	m := *meta
	l.mu.Lock()
	l.rs.Meta = &m
	l.mu.Unlock()
	if l.spans != nil {
		l.spans.begin()
	}
	if l.push != nil {
		go l.push.run()
	}
	if l.serve != nil {
		go l.serve.run()
	}
	go l.run()
}

func (l *Follower) batch() *batch {
	if l.cur == nil {
		select {
		case l.cur = <-l.free:
		default:
			l.cur = &batch{calls: make([]heldCall, 0, batchCalls), words: make([]uint64, 0, 8*batchCalls)}
		}
		l.cur.until = l.sent.until
	}
	return l.cur
}

// Process adds the next process.
func (l *Follower) Process(p *format.Process) { l.batch().procs = append(l.batch().procs, *p) }

// Thread adds the next thread.
func (l *Follower) Thread(t *format.Thread) { l.batch().threads = append(l.batch().threads, *t) }

// Device adds facts about a device.
func (l *Follower) Device(process uint32, d *format.ProcessDevice) {
	l.batch().devices = append(l.batch().devices, deviceFacts{process, *d})
}

// Gap adds lost calls.
func (l *Follower) Gap(g *format.Gap) { l.batch().gaps = append(l.batch().gaps, *g) }

// Measured adds the device time of a task.
func (l *Follower) Measured(call uint64, from, to int64) {
	l.batch().times = append(l.batch().times, deviceTime{call, from, to})
}

// Call adds a call.
func (l *Follower) Call(c *format.Call, timed bool) {
	b := l.batch()
	b.calls = b.calls[:len(b.calls)+1]
	k := &b.calls[len(b.calls)-1]
	k.Call, k.timed, k.of = *c, timed, b
	k.Args, k.Outs, k.Data = keep(&b.words, c.Args), keep(&b.outs, c.Outs), keep(&b.data, c.Data)
	for i := range k.Data {
		k.Data[i].Bytes = keep(&b.bytes, k.Data[i].Bytes)
	}
	l.sent.latest = max(l.sent.latest, c.End)
	if len(b.calls) == batchCalls {
		l.hand()
	}
}

// keep copies v into a shared slab.
func keep[T any](slab *[]T, v []T) []T {
	if len(v) == 0 {
		return nil
	}
	n := len(*slab)
	if cap(*slab)-n < len(v) {
		*slab, n = make([]T, 0, max(1<<10, len(v), min(2*cap(*slab), 1<<14))), 0
	}
	*slab = append(*slab, v...)
	return (*slab)[n:len(*slab):len(*slab)]
}

// Drained reports that all calls that ended before a time were passed on.
func (l *Follower) Drained(before int64) {
	if l.cur == nil && l.sent.latest <= l.sent.until || before-l.sent.until < heartbeat.Nanoseconds() {
		return // everything passed on is in order, or a batch was passed on recently
	}
	b := l.batch()
	b.until = max(b.until, before)
	l.hand()
}

// hand passes the batch on.
func (l *Follower) hand() {
	l.sent.until = l.cur.until
	l.work <- l.cur
	l.cur = nil
}

// End ends the recording. It waits for receivers, at most farewell.
func (l *Follower) End(at int64) {
	l.ended.Do(func() {
		b := l.batch()
		b.until, b.end = at, true
		l.hand()
		<-l.done
		ctx, cancel := context.WithTimeout(context.Background(), farewell)
		defer cancel()
		var all sync.WaitGroup
		if l.push != nil {
			all.Go(func() { l.push.end(ctx) })
		}
		if l.spans != nil {
			all.Go(func() { l.spans.end(ctx) })
		}
		all.Wait()
		if l.serve != nil {
			l.serve.close()
		}
	})
}

// Result returns the result. Call it after End.
func (l *Follower) Result() (*Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.res.Calls, l.res.StepsSource = l.walk.Walk.Calls, l.walk.Walk.StepRule().Source
	return &l.res, l.err
}

// Close releases a Follower whose recording never began.
func (l *Follower) Close() {
	if l.serve != nil {
		l.serve.close()
	}
}

func (l *Follower) run() {
	defer close(l.done)
	for b := range l.work {
		l.mu.Lock()
		if l.err == nil {
			l.err = l.take(b)
		}
		l.mu.Unlock()
		if b.end {
			return
		}
	}
}

// take counts a batch.
func (l *Follower) take(b *batch) error {
	for i := range b.procs {
		l.rs.Add(&b.procs[i])
	}
	for _, t := range b.threads {
		l.walk.Thread(t)
		l.meter.AddThread(t)
		if l.spans != nil {
			l.spans.x.AddThread(&t)
		}
	}
	for i := range b.devices {
		l.rs.Learn(b.devices[i].process, &b.devices[i].ProcessDevice)
	}
	b.left = len(b.calls)
	for i := range b.calls {
		l.held = append(l.held, &b.calls[i])
	}
	if err := l.count(b.until, b.end || len(l.held) > maxHeldCalls); err != nil {
		return err
	}
	if l.gaps = append(l.gaps, b.gaps...); len(l.rs.Hosts) > 0 { // else no process is known yet
		for i := range l.gaps {
			l.meter.Gap(&l.gaps[i])
		}
		l.gaps = l.gaps[:0]
	}
	for _, t := range b.times {
		if lane, ok := l.timed[t.call]; ok && t.from <= t.to {
			l.meter.Ran(lane, t.to-t.from)
		}
		delete(l.timed, t.call)
	}
	l.at = max(l.at, b.until)
	if len(b.calls) == 0 {
		l.spent = append(l.spent, b)
	}
	if b.end {
		return l.walk.Finish(b.until)
	}
	for _, b := range l.spent {
		l.again(b)
	}
	l.spent = l.spent[:0]
	return nil
}

// again makes the batch available for reuse.
func (l *Follower) again(b *batch) {
	b.reset()
	select {
	case l.free <- b:
	default:
	}
}

// count counts held calls by start, up to the first that ended after a time, or all.
func (l *Follower) count(until int64, all bool) error {
	slices.SortFunc(l.held, func(a, b *heldCall) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Index, b.Index)) })
	n := 0
	for ; n < len(l.held) && (all || l.held[n].End <= until); n++ {
		l.now = l.held[n]
		if err := l.walk.Call(&l.now.Call); err != nil {
			return err
		}
		if b := l.now.of; b.left == 1 {
			l.spent = append(l.spent, b)
		} else {
			b.left--
		}
	}
	l.held = slices.Delete(l.held, 0, n)
	return nil
}

func (l *Follower) lane(i int, lane *timeline.Lane) error {
	if l.spans != nil {
		if err := l.spans.x.Lane(i, lane); err != nil {
			return err
		}
	}
	return l.meter.Lane(i, lane)
}

func (l *Follower) call(c *timeline.HostCall, t *timeline.Task) error {
	if l.now.timed && t != nil && (t.Kind == api.Kernel || t.Kind == api.GraphRun) {
		if len(l.timed) >= 1<<16 { // their tasks were never waited for
			clear(l.timed)
		}
		l.timed[c.Index] = t.Lane
	}
	if l.spans != nil {
		l.spans.call(c, t)
	}
	return l.meter.Call(c, t)
}

func (l *Follower) task(t *timeline.Task) error {
	if l.spans != nil {
		l.spans.task(t)
	}
	return l.meter.Task(t)
}

// snapshot returns the metrics so far.
func (l *Follower) snapshot() []meter.ResourceData {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rs.Meta == nil {
		return nil
	}
	return l.meter.Data(l.at)
}

// Warnings returns one line a problem.
func (r *Result) Warnings() []string {
	var out []string
	if r.PushesFailed > 0 {
		out = append(out, fmt.Sprintf("metrics: %d of %d pushes to %s failed: %v", r.PushesFailed, r.Pushed+r.PushesFailed, r.MetricsTo, r.PushError))
	}
	if r.Dropped > 0 {
		out = append(out, fmt.Sprintf("spans: %d of %d chosen steps and requests were DROPPED: they were too long, or too many at once", r.Dropped, r.Chosen))
	}
	if r.Unsent > 0 {
		out = append(out, fmt.Sprintf("spans: %d of %d chosen steps and requests were NOT SENT to %s: %v", r.Unsent, r.Chosen, r.SpansTo, r.SendError))
	}
	return out
}

var errFarewell = errors.New("the program has ended, and the receiver was too slow")
