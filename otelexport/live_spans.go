package otelexport

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"

	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// A spanSampler keeps the newest calls, cuts out those of steps and requests that are chosen when these have ended, and
// has an exporter make spans of them when their tasks have ended too. It belongs to the goroutine that counts, but for
// the sending.
type spanSampler struct {
	l *Live
	x *exporter
	t *target

	calls  []liveSpan  // a ring: number n lies at n%maxRecent
	n      uint64      // calls so far
	open   []*liveTask // from gone on, those that have not ended, and some between them
	gone   int
	slab   []liveTask         // for those to come
	first  int                // Task.Index of open[0]
	failed []moment           // the newest calls that have failed
	marked *timeline.Range    // a moment that the next call names
	steps  int                // so far
	parts  map[*liveUnit]bool // that wait for tasks
	held   int                // calls of these

	client  otlptrace.Client
	queue   chan *liveUnit
	queued  int // bytes in the queue; under Live.mu
	stopped chan struct{}
	cancel  context.CancelFunc
}

const (
	// maxRecent is how many calls a step or a request may have, with all that other threads do meanwhile: 20 MiB.
	maxRecent = 1 << 16
	// maxUnitCalls bounds the calls of all that waits for its tasks to end.
	maxUnitCalls = 1 << 18
	// maxQueued bounds what waits for the receiver, in bytes.
	maxQueued = 32 << 20
	// maxFailed bounds the failures that are remembered.
	maxFailed = 1 << 10
	// livePatience is how long a request to the receiver may take with its repetitions.
	livePatience = 10 * time.Second
)

// moment is when a call began, and on which thread.
type moment struct {
	thread uint32
	at     int64
}

// A liveSpan is a call, with its task and what begins with it.
type liveSpan struct {
	call  timeline.HostCall
	task  *liveTask       // nil for none
	named *timeline.Range // nil for none
}

// A liveTask is a task, and who waits for its end.
type liveTask struct {
	timeline.Task
	done  bool
	units []*liveUnit
}

// A liveUnit is a step, or a request, that was chosen.
type liveUnit struct {
	origin
	number   int // of a step, from 0
	from, to int64
	name     string // of the program's range, "" for none
	typical  bool
	calls    []liveSpan
	waiting  int // for tasks to end

	batches []*batch
	bytes   int
	trace   traceID
	spans   int
}

func newSpanSampler(l *Live) (*spanSampler, error) {
	s := &spanSampler{l: l, calls: make([]liveSpan, maxRecent), parts: map[*liveUnit]bool{}, queue: make(chan *liveUnit, 1<<10), stopped: make(chan struct{})}
	s.x = &exporter{resources: l.rs, m: l.o.Model, functions: map[function][]byte{}, kernels: map[string]*names{}, b: &batch{},
		o: Options{Layout: l.o.Layout, MaxSpans: l.o.MaxSpans, MaxBytes: l.o.MaxBytes}}
	s.x.top = s.x
	if err := s.x.o.check(); err != nil {
		return nil, err
	}
	s.x.cut = fmt.Sprint("live ", s.x.o.Layout)
	var err error
	if s.t, err = traces.resolve(l.o.Endpoint, l.o.Protocol); err != nil {
		return nil, err
	}
	if err := traces.check(); err != nil {
		return nil, err
	}
	l.res.SpansTo = s.t.url.String()
	s.client = s.t.spans(livePatience)
	return s, nil
}

func (s *spanSampler) begin() {
	s.x.inherit()
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.send(ctx)
}

// at returns a call by its number, which must be one of the newest.
func (s *spanSampler) at(n uint64) *liveSpan { return &s.calls[n%maxRecent] }

// oldest is the number of the first call that is there.
func (s *spanSampler) oldest() uint64 { return s.n - min(s.n, maxRecent) }

// since returns the number of the first call that began at a time or later.
func (s *spanSampler) since(t int64) uint64 {
	o := s.oldest()
	return o + uint64(sort.Search(int(s.n-o), func(i int) bool { return s.at(o+uint64(i)).call.Start >= t }))
}

func (s *spanSampler) call(c *timeline.HostCall, t *timeline.Task) {
	k := s.at(s.n)
	s.n++
	*k = liveSpan{call: *c, named: s.marked}
	k.call.Raw, s.marked = nil, nil
	if t != nil {
		if len(s.slab) == 0 {
			s.slab = make([]liveTask, 64)
		}
		k.task, s.slab = &s.slab[0], s.slab[1:]
		k.task.Task = *t
		s.open = append(s.open, k.task)
	}
	if c.Failed() {
		if len(s.failed) == maxFailed {
			s.failed = slices.Delete(s.failed, 0, maxFailed/2)
		}
		s.failed = append(s.failed, moment{c.Thread, c.Start})
	}
}

// task takes a task that has ended. Those of a stream do so in their order.
func (s *spanSampler) task(t *timeline.Task) {
	i := t.Index - s.first
	if i < s.gone || i >= len(s.open) {
		return
	}
	k := s.open[i]
	k.Task, k.done = *t, true
	for _, u := range k.units {
		s.ended(u)
	}
	k.units = nil
	for s.gone < len(s.open) && s.open[s.gone].done {
		s.open[s.gone] = nil
		s.gone++
	}
	if s.gone == len(s.open) || 2*s.gone > cap(s.open) { // not at each of many that one synchronization has waited for
		s.open, s.first, s.gone = slices.Delete(s.open, 0, s.gone), s.first+s.gone, 0
	}
}

// rangeEnded takes a range, or a moment, of the program.
func (s *spanSampler) rangeEnded(r *timeline.Range) error {
	named := *r
	if r.Mark {
		s.marked = &named
		return nil
	}
	for n := s.since(r.From); n < s.n && s.at(n).call.Start == r.From; n++ {
		if k := s.at(n); k.call.Index == r.Begin {
			k.named = &named
		}
	}
	if p, rest, ok := parentIn(r.Name); ok {
		u := &liveUnit{origin: origin{parent: p, title: "request"}, from: r.From, to: r.To, name: rest}
		s.choose(u, p.sampled, "requested", func(thread uint32) bool { return thread == r.Thread })
	}
	return nil
}

// step takes a step that has ended.
func (s *spanSampler) step(st *step.Step) error {
	if st.Open {
		return nil
	}
	if s.x.w.StepRule().Source == step.ByMarker {
		s.steps = st.Index // as --steps counts them
	}
	u := &liveUnit{origin: s.x.origin, number: s.steps, from: st.From, to: st.To, name: st.Name, typical: st.Typical}
	s.steps++
	s.l.res.Steps++
	s.choose(u, s.l.o.Every > 0 && u.number%s.l.o.Every == 0, "sampled", func(uint32) bool { return true })
	return nil
}

// choose takes a step, or what a thread has done for a request, if it is to be sent.
func (s *spanSampler) choose(u *liveUnit, wanted bool, why string, of func(thread uint32) bool) {
	switch {
	case slices.ContainsFunc(s.failed, func(m moment) bool { return m.at >= u.from && m.at < u.to && of(m.thread) }):
		u.why = "error"
	case s.l.o.Slow > 0 && u.to-u.from > s.l.o.Slow.Nanoseconds():
		u.why = "slow"
	case wanted:
		u.why = why
	default:
		return
	}
	res := &s.l.res
	res.Chosen++
	first := s.since(u.from)
	if first == s.oldest() && first > 0 || s.held > maxUnitCalls {
		res.Dropped++ // its beginning is gone
		return
	}
	for n := first; n < s.n && s.at(n).call.Start < u.to; n++ {
		k := s.at(n)
		if !of(k.call.Thread) {
			continue
		}
		u.calls = append(u.calls, *k)
		if k.task != nil && !k.task.done {
			k.task.units = append(k.task.units, u)
			u.waiting++
		}
	}
	s.parts[u] = true
	s.held += len(u.calls)
	u.waiting++
	s.ended(u)
}

// ended notes that a task of a unit has ended.
func (s *spanSampler) ended(u *liveUnit) {
	if u.waiting--; u.waiting > 0 {
		return
	}
	delete(s.parts, u)
	s.held -= len(u.calls)
	err := s.encode(u)
	u.calls = nil
	switch {
	case err != nil:
		s.l.res.Unsent++
		s.l.res.SendError = err
		return
	case s.queued+u.bytes > maxQueued:
		s.l.res.Dropped++
		return
	}
	select {
	case s.queue <- u:
		s.queued += u.bytes
	default:
		s.l.res.Dropped++
	}
}

// encode makes the spans of a unit.
func (s *spanSampler) encode(u *liveUnit) error {
	x := s.x
	inherited := x.origin.parent
	x.sink = func(b *batch) (*batch, error) {
		u.batches = append(u.batches, b)
		u.bytes += b.bytes
		u.spans += b.spans
		return &batch{}, nil
	}
	x.origin, x.part, x.err = u.origin, nil, nil
	joined := x.inherited
	if u.title != "" {
		x.inherited = 0 // another parent's
	}
	var tasks []*liveTask
	for i := range u.calls {
		k := &u.calls[i]
		k.call.Step = u.number
		if k.named != nil {
			x.named, x.isNamed = *k.named, true
		}
		var t *timeline.Task
		if k.task != nil {
			t = &k.task.Task
			tasks = append(tasks, k.task)
		}
		if err := x.call(&k.call, t); err != nil {
			return err
		}
	}
	slices.SortFunc(tasks, func(a, b *liveTask) int { return cmp.Compare(a.Index, b.Index) })
	for _, t := range tasks {
		if err := x.task(&t.Task); err != nil {
			return err
		}
	}
	if err := x.stepEnded(&step.Step{Index: u.number, Name: u.name, From: u.from, To: u.to, Typical: u.typical}); err != nil {
		return err
	}
	if p := x.part; p != nil {
		u.trace = p.trace
		x.close(p)
		if p.inherits && u.title == "" {
			joined = x.inherited + p.spans
		}
	}
	x.flush()
	x.part, x.inherited, x.origin = nil, joined, origin{parent: inherited}
	return x.err
}

// send hands units over until there are no more.
func (s *spanSampler) send(ctx context.Context) {
	defer close(s.stopped)
	err := s.client.Start(ctx)
	for u := range s.queue {
		for _, b := range u.batches {
			if err != nil {
				break
			}
			err = s.client.UploadTraces(ctx, b.messages())
			if p, ok := partial(err); ok {
				err = nil
				if p.rejected > 0 {
					err = errors.New(p.message)
				}
			}
		}
		if err != nil && ctx.Err() != nil {
			err = errFarewell
		}
		s.l.mu.Lock()
		s.queued -= u.bytes
		res := &s.l.res
		if err == nil {
			res.Sent++
			res.Spans += u.spans
			res.FirstTrace = cmp.Or(res.FirstTrace, hex.EncodeToString(u.trace[:]))
		} else {
			res.Unsent++
			res.SendError = err
		}
		s.l.mu.Unlock()
		err = nil
	}
}

// end waits for what is on its way.
func (s *spanSampler) end(ctx context.Context) {
	close(s.queue)
	select {
	case <-s.stopped:
	case <-ctx.Done():
		s.cancel()
		<-s.stopped
	}
	_ = s.client.Stop(ctx)
	s.cancel()
}
