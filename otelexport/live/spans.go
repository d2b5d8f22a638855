package live

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/acltrace/acltrace/otelexport/internal/endpoint"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/otelexport/internal/spans"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
)

// A spanSampler keeps the newest calls. When a chosen step or request ends, it copies its calls. When their tasks have
// ended too, it encodes and queues them. Except for sending, it runs in the counting goroutine.
type spanSampler struct {
	l *Follower
	x *spans.Encoder
	t *endpoint.Target

	calls  []recentCall // ring: call number n is at n%maxRecent
	n      uint64       // calls so far
	open   []*openTask  // from gone on: tasks in progress, and ended ones between them
	gone   int
	slab   []openTask      // unused tasks
	first  int             // Task.Index of open[0]
	failed []moment        // newest failed calls
	marked *timeline.Range // mark that the next call carries
	steps  int             // so far
	held   int             // calls of units that wait for tasks

	client  otlptrace.Client
	refusal error // of the first request; nil once the receiver has taken spans
	queue   chan *chosen
	queued  int // bytes in the queue, protected by Follower.mu
	stopped chan struct{}
	cancel  context.CancelFunc
}

const (
	// maxRecent limits the calls of a step or request, including concurrent calls of other threads: 20 MiB.
	maxRecent = 1 << 16
	// maxUnitCalls limits the calls of all units that wait for tasks.
	maxUnitCalls = 1 << 18
	// maxQueued limits the bytes that wait for the receiver.
	maxQueued = 32 << 20
	// maxFailed limits the failed calls that are kept.
	maxFailed = 1 << 10
	// sendTimeout limits a request to the receiver, with its retries.
	sendTimeout = 10 * time.Second
)

// moment is when and on which thread a call began.
type moment struct {
	thread uint32
	at     int64
}

// A recentCall is a call with its task, nil if it has none.
type recentCall struct {
	spans.Call
	task *openTask
}

// An openTask is a task in progress and the units that wait for it.
type openTask struct {
	timeline.Task
	done  bool
	units []*chosen
}

// A chosen unit is a step or request to send.
type chosen struct {
	spans.Unit
	waiting int // tasks in progress

	batches []*otlp.Batch
	bytes   int
	trace   otlp.TraceID
	spans   int
}

func newSpanSampler(l *Follower) (*spanSampler, error) {
	s := &spanSampler{l: l, calls: make([]recentCall, maxRecent), queue: make(chan *chosen, 1<<10), stopped: make(chan struct{})}
	var err error
	s.x, err = spans.NewLive(l.rs, l.o.Model, &spans.Options{Layout: l.o.Layout, DeviceAs: l.o.DeviceAs, MaxSpans: l.o.MaxSpans, MaxBytes: l.o.MaxBytes})
	if err != nil {
		return nil, err
	}
	if s.t, err = endpoint.Traces.Resolve(l.o.Endpoint, l.o.Protocol); err != nil {
		return nil, err
	}
	l.res.SpansTo = s.t.URL.String()
	s.client = s.t.Spans(sendTimeout)
	return s, nil
}

// try sends an empty request.
func (s *spanSampler) try(ctx context.Context) error {
	s.refusal = s.t.Try(ctx)
	return s.refusal
}

func (s *spanSampler) begin() {
	s.x.Inherit()
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.send(ctx)
}

// at returns a call by number. It must be in the ring.
func (s *spanSampler) at(n uint64) *recentCall { return &s.calls[n%maxRecent] }

// oldest returns the number of the oldest call in the ring.
func (s *spanSampler) oldest() uint64 { return s.n - min(s.n, maxRecent) }

// since returns the number of the first call that starts at t or later.
func (s *spanSampler) since(t int64) uint64 {
	o := s.oldest()
	return o + uint64(sort.Search(int(s.n-o), func(i int) bool { return s.at(o+uint64(i)).Start >= t }))
}

func (s *spanSampler) call(c *timeline.HostCall, t *timeline.Task) {
	k := s.at(s.n)
	s.n++
	*k = recentCall{Call: spans.Call{HostCall: *c, Named: s.marked, Facts: s.x.Observe(c, t)}}
	k.Raw, s.marked = nil, nil
	if t != nil {
		if len(s.slab) == 0 {
			s.slab = make([]openTask, 64)
		}
		k.task, s.slab = &s.slab[0], s.slab[1:]
		k.task.Task = *t
		k.Task = &k.task.Task
		s.open = append(s.open, k.task)
	}
	if c.Wrong() {
		if len(s.failed) == maxFailed {
			s.failed = slices.Delete(s.failed, 0, maxFailed/2)
		}
		s.failed = append(s.failed, moment{c.Thread, c.Start})
	}
}

// task records that a task has ended. A stream's tasks end in order.
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
	if s.gone == len(s.open) || 2*s.gone > cap(s.open) { // seldom: one synchronization may end many tasks
		s.open, s.first, s.gone = slices.Delete(s.open, 0, s.gone), s.first+s.gone, 0
	}
}

// rangeEnded adds a program's range or mark.
func (s *spanSampler) rangeEnded(r *timeline.Range) error {
	named := *r
	if r.Mark {
		s.marked = &named
		return nil
	}
	for n := s.since(r.From); n < s.n && s.at(n).Start == r.From; n++ {
		if k := s.at(n); k.Index == r.Begin {
			k.Named = &named
		}
	}
	if p, rest, ok := otlp.ParentIn(r.Name); ok {
		u := &chosen{Unit: spans.Unit{Request: p, Step: step.Step{From: r.From, To: r.To, Name: rest}}}
		s.choose(u, p.Sampled, "requested", func(thread uint32) bool { return thread == r.Thread })
	}
	return nil
}

// step records that a step has ended.
func (s *spanSampler) step(st *step.Step) error {
	if st.Open {
		return nil
	}
	if s.l.walk.Walk.StepRule().Source == step.ByMarker {
		s.steps = st.Index // the numbers of --steps
	}
	u := &chosen{Unit: spans.Unit{Step: step.Step{Index: s.steps, From: st.From, To: st.To, Thread: st.Thread, Name: st.Name, Typical: st.Typical}}}
	s.steps++
	s.l.res.Steps++
	s.choose(u, s.l.o.Every > 0 && u.Step.Index%s.l.o.Every == 0, "sampled", func(uint32) bool { return true })
	return nil
}

// choose copies a step, or a thread's part of a request, if it is to be sent.
func (s *spanSampler) choose(u *chosen, wanted bool, why string, of func(thread uint32) bool) {
	switch {
	case slices.ContainsFunc(s.failed, func(m moment) bool { return m.at >= u.Step.From && m.at < u.Step.To && of(m.thread) }):
		u.Why = "error"
	case s.l.o.Slow > 0 && u.Step.To-u.Step.From > s.l.o.Slow.Nanoseconds():
		u.Why = "slow"
	case wanted:
		u.Why = why
	default:
		return
	}
	res := &s.l.res
	res.Chosen++
	first := s.since(u.Step.From)
	if first == s.oldest() && first > 0 || s.held > maxUnitCalls {
		res.Dropped++ // its beginning is no longer in the ring
		return
	}
	for n := first; n < s.n && s.at(n).Start < u.Step.To; n++ {
		k := s.at(n)
		if !of(k.Thread) {
			continue
		}
		u.Calls = append(u.Calls, k.Call)
		if k.task != nil && !k.task.done {
			k.task.units = append(k.task.units, u)
			u.waiting++
		}
	}
	s.held += len(u.Calls)
	u.waiting++
	s.ended(u)
}

// ended records that one task in a unit has ended.
func (s *spanSampler) ended(u *chosen) {
	if u.waiting--; u.waiting > 0 {
		return
	}
	s.held -= len(u.Calls)
	err := s.encode(u)
	u.Calls = nil
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

// encode encodes the spans of a unit.
func (s *spanSampler) encode(u *chosen) (err error) {
	u.batches, u.trace, err = s.x.Unit(&u.Unit)
	for _, b := range u.batches {
		u.bytes += b.Bytes
		u.spans += b.Spans
	}
	return err
}

// send sends queued units until the queue is closed.
func (s *spanSampler) send(ctx context.Context) {
	defer close(s.stopped)
	err := s.client.Start(ctx)
	for u := range s.queue {
		for _, b := range u.batches {
			if err != nil {
				break
			}
			err = s.client.UploadTraces(ctx, b.Messages())
			if p, ok := endpoint.Partial(err); ok {
				err = nil
				if p.Rejected > 0 {
					err = errors.New(p.Message)
				}
			}
		}
		if err != nil && ctx.Err() != nil {
			err = cmp.Or(s.refusal, errFarewell)
		}
		s.l.mu.Lock()
		s.queued -= u.bytes
		res := &s.l.res
		if err == nil {
			s.refusal = nil
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

// end waits for the queue.
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
