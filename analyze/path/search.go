package path

import (
	"cmp"

	"github.com/acltrace/acltrace/internal/grow"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/order"
	"github.com/acltrace/acltrace/timeline/step"
)

// A search goes backwards through a step.
type search struct {
	*Finder
	from int64
	t    int64 // current moment
	on   int   // thread, if task is -1
	task int   // position of the current task, -1 on a thread
	// next is the task that the thread has waited for until the moment due; -1 for none.
	next int
	due  int64
	// feeds is the latest thread that waited for its feeder, which does not wait for it unless it does not run; -1 for none.
	feeder, feeds int
	turned        int64 // moment at which the search went to a feeder
}

// Step returns the path of a step that has ended. It is valid until the next call of Step or Rest.
func (f *Finder) Step(s *step.Step) *Path {
	f.path = Path{Step: *s, Process: f.process, TooLong: f.tooLong, f: f, parts: f.path.parts[:0], savings: f.path.savings[:0]}
	if !f.tooLong {
		f.search(s.From, s.To, int(s.Thread))
		f.save()
	}
	f.forget(s.To)
	f.tooLong = false
	return &f.path
}

// Rest returns the path of a trace without steps, from the first to the last moment of a call. It returns nil if the trace has steps, or no calls.
func (f *Finder) Rest() *Path {
	if !f.whole || !f.begun {
		return nil
	}
	f.path = Path{Whole: true, Process: f.process, TooLong: f.tooLong, f: f, parts: f.path.parts[:0]}
	last, end := 0, f.first
	for i := range f.threads {
		for k := range f.threads[i].calls {
			if c := &f.threads[i].calls[k]; c.end > end {
				last, end = i, c.end
			}
		}
	}
	f.path.Step.From, f.path.Step.To, f.path.Step.Thread = f.first, end, uint32(last)
	if !f.tooLong {
		f.search(f.first, end, last)
		f.save()
	}
	return &f.path
}

func (f *Finder) search(from, to int64, on int) {
	grow.At(&f.threads, on)
	f.handOver()
	for i := range f.threads {
		th := &f.threads[i]
		th.at, th.worked = len(th.calls)-1, len(th.works)-1
	}
	s := &search{Finder: f, from: from, t: to, on: on, task: -1, next: -1, feeder: -1, feeds: -1}
	for s.t > s.from {
		if s.task >= 0 {
			s.inTask()
		} else {
			s.onThread()
		}
	}
}

// part adds the period from a moment, but not before the step, to the current moment, and goes there.
func (s *search) part(from int64, p part) {
	p.from, p.to = max(from, s.from), s.t
	if s.next >= 0 {
		p.from = max(p.from, s.due)
	}
	if p.from >= p.to {
		return
	}
	s.t = p.from
	parts := s.path.parts
	if n := len(parts); n > 0 && parts[n-1].kind == p.kind && parts[n-1].call == p.call && parts[n-1].atMost == p.atMost && p.kind > recording {
		parts[n-1].from = p.from
		return
	}
	s.path.parts = append(parts, p)
}

// before moves a thread's cursor to the last call that started before the current moment, and returns its index, -1 for none.
func (th *thread) before(t int64) int {
	for th.at = min(th.at, len(th.calls)-1); th.at >= 0 && th.calls[th.at].start >= t; th.at-- {
	}
	return th.at
}

// onThread follows the current thread to the begin of its call, or of its time between two calls.
func (s *search) onThread() {
	if s.next >= 0 && s.t <= s.due {
		s.task, s.next = s.next, -1
		return
	}
	th := &s.threads[s.on]
	at := th.before(s.t)
	in, end := at, s.from // the call at the moment, and the end of the calls in it or before it
	for in >= 0 && th.calls[in].end < s.t {
		end = max(end, th.calls[in].end)
		in = int(th.calls[in].outer)
	}
	switch {
	case in < 0:
		s.between(th, at, end)
	case in < at:
		s.call(&th.calls[in], end)
	default:
		s.within(&th.calls[at])
	}
}

// call adds a part of a call.
func (s *search) call(c *call, from int64) {
	s.part(from, part{kind: inCall, call: c.index, ref: c.ref, label: c.label, where: int32(s.on)})
}

// within follows a call back to its begin, or to the task that it has waited for.
func (s *search) within(c *call) {
	if c.wait >= 0 && s.t == c.end && s.next < 0 {
		w := &s.waits[c.wait]
		latest, due := -1, w.since
		for _, index := range s.targets[w.from:w.to] {
			i := s.find(index)
			end, ok := int64(0), false
			if i >= 0 {
				end, ok = s.end(i, s.t)
			}
			if !ok {
				s.untimed(c, w)
				return
			}
			if end > due && !s.tasks[i].seen {
				latest, due = i, end
			}
		}
		if latest >= 0 {
			s.next, s.due = latest, due
		}
	}
	s.call(c, c.start)
}

// untimed follows a call that waits for tasks whose end is not known. After a long wait it is certain that a task has ended with it, so nothing that the
// host did since the task's launch mattered, such as a wait for another stream. After a short wait the task may have ended long before.
func (s *search) untimed(c *call, w *wait) {
	p := part{kind: waiting, call: c.index, ref: c.ref, label: c.label, where: w.lane, atMost: true}
	if s.t-w.since < timeline.ShortWait {
		s.part(c.start, p)
		return
	}
	launch := -1 // the latest of the tasks that may have ended last
	from, on := s.from, s.on
	for _, index := range s.targets[w.from:w.to] {
		i := s.find(index)
		if i < 0 {
			continue // launched before the step
		}
		_, ok := s.end(i, s.t)
		if !ok {
			p.after = cmp.Or(p.after, s.unmeasured(i, s.t))
		}
		if !ok && (launch < 0 || s.tasks[i].returned > from) {
			launch, from, on = i, s.tasks[i].returned, int(s.tasks[i].thread)
		}
	}
	if launch >= 0 && s.tasks[launch].waits { // the call is its launch
		from, on = c.start, s.on
	}
	s.part(min(from, s.t-1), p)
	s.early(c.start)
	s.on = on
}

// early notes how much of the latest part was before its call.
func (s *search) early(start int64) {
	p := &s.path.parts[len(s.path.parts)-1]
	p.before = max(0, start-p.from)
}

// between follows a thread through its time between two calls, or to another thread: its feeder, or one with a whole call in that time. The call before the
// current moment is at, and the calls before end at end. If it is known when the thread ran, it has waited for no call after that.
func (s *search) between(th *thread, at int, end int64) {
	next := call{}
	if at+1 < len(th.calls) {
		next = th.calls[at+1]
	}
	on, from := -1, end
	for i := range s.threads {
		if i == s.on || s.next >= 0 {
			continue
		}
		o := &s.threads[i]
		for o.worked = min(o.worked, len(o.works)-1); o.worked >= 0 && o.calls[o.works[o.worked]].start >= s.t; o.worked-- {
		}
		k := o.worked
		until := s.t
		switch {
		case next.slept > 0 && s.t <= next.slept:
			until = end
		case next.blocked > 0 || s.on == s.feeder && i == s.feeds || th.fills && o.queue:
			until = min(until, max(end, next.blocked))
		}
		for k >= 0 && o.calls[o.works[k]].end > until { // calls that contain the moment, among others
			k--
		}
		if k < 0 {
			continue
		}
		if c := &o.calls[o.works[k]]; c.start >= end && c.end > from {
			on, from = i, c.end
		}
	}
	if h, ok := s.filledBefore(s.on, s.t); ok && th.unknown(at+1) && s.next < 0 && h.at > from {
		on, from = int(h.by), h.at
	}
	runs := part{kind: own, call: timeline.NoCall, where: int32(s.on)}
	s.part(max(from, next.recorded, next.blocked), runs)
	if since := max(end, next.recorded, next.slept); s.next < 0 && s.t <= next.blocked && s.t > max(from, since) && s.t != s.turned {
		if feeder := s.Finder.feeder(s.on, since, s.t); feeder >= 0 {
			s.feeds, s.feeder, s.on, s.turned = s.on, feeder, feeder, s.t
			return
		}
	}
	s.part(max(from, next.recorded, next.slept), part{kind: blocked, call: timeline.NoCall, where: int32(s.on)})
	s.part(max(from, next.recorded), runs)
	s.part(from, part{kind: recording, call: timeline.NoCall, where: int32(s.on)})
	if on >= 0 && s.t == from {
		s.on = on
	}
}

// inTask follows a task back to its begin, and then to its last predecessor.
func (s *search) inTask() {
	t := &s.tasks[s.task]
	t.seen = true
	s.part(t.from, part{kind: onDevice, call: t.call, ref: t.ref, label: t.label, where: t.lane})
	launched := min(t.returned, s.t)
	since := launched // when the task could start
	if t.waits {
		since = min(t.issued, s.t)
	}
	latest, end, why, all := s.latest(s.task, s.t)
	if latest >= 0 && s.tasks[latest].seen {
		latest = -1
	}
	p := part{kind: starting, call: t.call, ref: t.ref, label: t.label, where: t.lane, atMost: !all}
	if !all {
		s.predecessors(s.task, s.t, func(int, int64, order.Why) {}, func(k int) { p.after = cmp.Or(p.after, s.unmeasured(k, s.t)) })
	}
	if latest >= 0 && end >= since {
		s.part(end, p)
		s.follows(why, latest)
		s.task = latest
		return
	}
	s.part(launched, p)
	s.task, s.on = -1, int(t.thread)
}

// follows notes in the latest part why it follows a task on another lane. Tasks that take no time, such as the wait for an event, have no part.
func (s *search) follows(why order.Why, task int) {
	n := len(s.path.parts)
	if why == order.SameLane || n == 0 {
		return
	}
	if p := &s.path.parts[n-1]; p.from == s.t && p.kind >= onDevice && p.why == 0 {
		t := &s.tasks[task]
		p.why, p.setter, p.on = why, t.call, t.lane
	}
}

// latest returns a task's last predecessor to end, -1 for none, when it ended, and why it precedes. all is false if the end of some predecessor is unknown.
func (f *Finder) latest(i int, until int64) (task int, end int64, why order.Why, all bool) {
	task, end = -1, 0
	all = f.predecessors(i, until, func(k int, e int64, w order.Why) {
		if task < 0 || e > end {
			task, end, why = k, e, w
		}
	}, nil)
	return task, end, why, all
}

// unmeasured returns the label of the task without a measured time because of which the end of a task is not known: the task itself, or one that it
// waits for. It returns 0 if the trace has no device times.
func (f *Finder) unmeasured(i int, until int64) int32 {
	if f.w.Reader == nil || f.w.Reader.Meta().DeviceTime == nil { // a live walk has no reader
		return 0
	}
	for {
		if t := &f.tasks[i]; !t.instant {
			return t.label
		}
		next := -1
		f.predecessors(i, until, func(int, int64, order.Why) {}, func(k int) { next = max(next, k) })
		if next < 0 || next >= i {
			return 0
		}
		i = next
	}
}

// predecessors visits the predecessors of a task whose end is known, with the end and why they precede it. It calls missing, unless it is nil, for the others
// that it has. all is false if the end of some predecessor is not known.
func (f *Finder) predecessors(i int, until int64, visit func(task int, end int64, why order.Why), missing func(task int)) (all bool) {
	t := &f.tasks[i]
	all = true
	add := func(k int, why order.Why) {
		if e, ok := f.end(k, until); ok {
			visit(k, e, why)
		} else {
			all = false
			if missing != nil {
				missing(k)
			}
		}
	}
	if k := f.find(t.prev); k >= 0 {
		add(k, order.SameLane)
	} else if t.prev >= 0 && t.prev <= f.lanes[t.lane].lost {
		all = false
	}
	if !t.linked {
		return all
	}
	for _, l := range f.follows[t.index] {
		if k := f.find(l.Before); k >= 0 {
			add(k, l.Why)
		} else if l.Before <= f.lanes[l.Lane].lost {
			all = false
		}
	}
	return all
}

// end returns the end of a task, which is at most until, and whether it is known. A task that takes no time itself ends with its predecessors, or
// when it is issued.
func (f *Finder) end(i int, until int64) (end int64, ok bool) {
	t := &f.tasks[i]
	if t.state == open {
		t.state = resolving
		latest, end, _, all := f.latest(i, until)
		t.to, t.state = t.issued, known
		if latest >= 0 {
			t.to = max(t.to, end)
		}
		if !all {
			t.state = unknown
		}
		t.from = t.to
	}
	return min(t.to, until), t.state == known
}
