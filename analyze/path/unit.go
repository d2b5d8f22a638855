package path

import (
	"maps"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/order"
	"github.com/acltrace/acltrace/timeline/step"
)

// maxCalls bounds the calls that a Finder holds, about 100 MiB.
const maxCalls = 1 << 19

// A Finder finds the paths of steps. It takes the calls and steps of one walk, in their order. It belongs to one goroutine.
type Finder struct {
	w       *timeline.Walk
	process uint32 // of the steps
	begun   bool   // process is known
	whole   bool   // the trace has no steps
	n       int    // calls held
	most    int    // maxCalls, less in tests
	kept    int    // calls held after the latest forget
	tooLong bool   // some calls of the step were not kept
	first   int64  // start of the first call

	labels  labels
	names   []string // of threads
	threads []thread
	lanes   []lane
	tasks   []task // in the order of their indices; without pointers, like calls
	waits   []wait
	targets []int                           // of waits: indices of tasks
	follows map[int][]order.Link            // by index of a task: the tasks of other lanes that it waits for
	hosts   map[timeline.HostFunction][]int // host functions that were not called yet, by index
	path    Path
	sums    sums
	saves   bool // compute savings
	saver   saver
	hands   handovers
}

// thread holds the calls of a thread, by start.
type thread struct {
	other bool // of another process
	// queue means that the thread launches operators that another thread prepared. fills means that it is such another thread.
	queue, fills bool
	calls        []call
	works        []int32 // calls that launch, copy or wait
	poll         series
	// at and worked are cursors into calls and works: later ones start at the current moment of the search or after it.
	at, worked int
}

// series is an unbroken sequence of polls for one object.
type series struct {
	fn    *api.Func
	waits int32
	since int64
}

type call struct {
	index, ref uint64
	start, end int64
	recorded   int64 // end of the recorder's work before the call, 0 for none
	// slept and blocked are begin and end of the time before the call in which the thread did not run, 0 for none.
	slept, blocked int64
	label          int32
	outer          int32 // call on this thread that contains it, -1 for none
	wait           int32 // index into Finder.waits, -1 for none
	again          bool  // polls, as the call before it did
}

// wait is the wait of a call for tasks.
type wait struct {
	from, to int32 // in Finder.targets
	since    int64 // start of the call, or of the first of several polls
	lane     int32 // that it waits for, -1 for several
}

type lane struct {
	last   int // index of the latest task, -1 for none
	done   int // the host has seen this task and all before it complete
	doneAt int64
	lost   int // index of the latest forgotten task with an unknown end, -1 for none
}

type task struct {
	index            int
	call, ref        uint64
	issued, returned int64
	from, to         int64
	prev             int // index of the task before on the lane, -1 for none
	lane             int32
	thread           uint32
	kind             api.Task
	state            state
	seen             bool // is on the path
	waits            bool // its call may wait for it
	instant          bool // it takes no time itself
	linked           bool // it is in Finder.follows
	label            int32
}

// state says whether the end of a task is known.
type state uint8

const (
	open      state = iota // not decided
	resolving              // being decided
	known
	unknown
)

// NewFinder returns a Finder for a walk. Call the walk's FindSteps first; without steps, Rest returns the path of the whole trace.
func NewFinder(w *timeline.Walk) *Finder {
	return &Finder{w: w, most: maxCalls, labels: newLabels(), whole: w.StepRule().Source == step.None, follows: map[int][]order.Link{}, hosts: map[timeline.HostFunction][]int{}}
}

// Call takes the next call, its task, nil for none, and its links: see timeline.Walk.Links. The parts of paths have ref, a number for the caller.
func (f *Finder) Call(h *timeline.HostCall, k *timeline.Task, links []order.Link, ref uint64) {
	if h.Profiled() {
		return
	}
	if !f.begun {
		f.begin(h)
	}
	for int(h.Thread) >= len(f.threads) {
		f.threads = append(f.threads, thread{other: f.w.Process(uint32(len(f.threads))) != f.process})
	}
	if !f.whole && h.During < 0 && f.n > 2*f.kept+1024 {
		f.forget(h.Start)
	}
	th := &f.threads[h.Thread]
	if th.other {
		return
	}
	if f.n == f.most {
		f.tooLong = true
		f.clear()
	}
	f.n++
	n := len(th.calls)
	th.calls = append(th.calls, call{index: h.Index, ref: ref, start: h.Start, end: f.w.CallEnd(h), outer: int32(n) - 1, wait: -1})
	c := &th.calls[n]
	for c.outer >= 0 && th.calls[c.outer].end <= c.start {
		c.outer = th.calls[c.outer].outer
	}
	if h.Recording > 0 {
		c.recorded = h.RecordingFrom + h.Recording
	}
	if h.Blocked > 0 { // it ran last: the call that it makes shows that it had what it waited for
		c.slept = h.RecordingFrom + h.Recording
		c.blocked = c.slept + h.Blocked
	}
	works := k != nil
	if k == nil {
		c.label = f.labels.id(h.Name, "")
	} else {
		c.label = f.labels.id(h.Name, k.Name)
		f.task(c, h, k)
	}
	for i := range links {
		if l := &links[i]; l.After >= 0 {
			f.link(h.Start, l)
		}
	}
	switch {
	case h.Fn == nil || h.Failed() || h.Flags&format.Unfinished != 0:
	case h.Fn.Sync != api.NoSync:
		works = f.sync(th, c, h, links) || works
	case h.Fn.HostCallback:
		f.ran(h, c)
	}
	if works {
		th.works = append(th.works, int32(n))
	}
}

// begin chooses the process: that of the steps, or of the first call.
func (f *Finder) begin(h *timeline.HostCall) {
	f.begun, f.process, f.first = true, f.w.Process(h.Thread), h.Start
	if !f.whole {
		f.process = f.w.StepRule().Process
	}
}

func (f *Finder) lane(i int) *lane {
	for i >= len(f.lanes) {
		f.lanes = append(f.lanes, lane{last: -1, done: -1, lost: -1})
	}
	return &f.lanes[i]
}

// task adds the task of a call. A synchronous task is its call.
func (f *Finder) task(c *call, h *timeline.HostCall, k *timeline.Task) {
	if f.w.Lanes[k.Lane].Synchronous {
		return
	}
	f.hand(h, k)
	l := f.lane(k.Lane)
	f.tasks = append(f.tasks, task{index: k.Index, call: k.Call, ref: c.ref, issued: k.Issued, returned: c.end, prev: l.last, lane: int32(k.Lane),
		thread: h.Thread, kind: k.Kind, waits: k.Pageable(), label: f.labels.all[c.label].task})
	t := &f.tasks[len(f.tasks)-1]
	if t.prev <= l.done && l.doneAt <= k.Issued {
		t.prev = -1
	}
	l.last = k.Index
	t.instant = k.Kind == api.Record || k.Kind == api.Wait || k.Kind == api.Reset || k.Kind == api.Fill && k.Bytes <= 8
	switch {
	case k.Measured:
		t.from, t.to, t.state = k.From, k.To, known
	case !t.instant:
		t.state = unknown
	}
	if k.Kind == api.HostFunc {
		if fn, ok := timeline.HostFunctionOf(k.Process, k.Fn, words(h)); ok {
			f.hosts[fn] = append(f.hosts[fn], k.Index)
		}
	}
	if k.Pageable() {
		f.await(c, c.start, k.Lane, k.Index)
	}
}

// link makes a task follow a task of another lane, unless the host knew that it had ended, or a task before on the lane follows a later one.
func (f *Finder) link(now int64, l *order.Link) {
	i := f.find(l.After)
	if i < 0 {
		return
	}
	on, t := f.lane(l.Lane), &f.tasks[i]
	if l.Why == order.DefaultStream && (l.Before <= t.prev || l.Before <= on.done && on.doneAt <= now) {
		return
	}
	t.linked = true
	f.follows[l.After] = append(f.follows[l.After], *l)
}

// sync adds the wait of a synchronization or of a poll. It returns false for a poll that was not complete.
func (f *Finder) sync(th *thread, c *call, h *timeline.HostCall, links []order.Link) bool {
	since := c.start
	if h.Fn.Sync.Polls() {
		if th.poll.fn == h.Fn && th.poll.waits == h.Waits {
			since = th.poll.since
		}
		th.poll = series{h.Fn, h.Waits, since}
		c.again = since < c.start
		if !h.Complete {
			return false
		}
		th.poll = series{}
	}
	for i := range links {
		l := &links[i]
		if l.Why == order.EventWait && f.find(l.Before) < 0 {
			continue
		}
		f.covers(c, since, l.Lane, l.Before)
	}
	return true
}

// covers makes a synchronization wait for a task, after which the host knows that the task has ended.
func (f *Finder) covers(c *call, since int64, on, task int) {
	f.await(c, since, on, task)
	if l := f.lane(on); task > l.done {
		l.done, l.doneAt = task, c.end
	}
}

// await makes a call wait for a task, unless the host knew before the call that it has ended.
func (f *Finder) await(c *call, since int64, on, task int) {
	if l := f.lane(on); task < 0 || task <= l.done && l.doneAt <= since {
		return
	}
	f.targets = append(f.targets, task)
	n := int32(len(f.targets))
	if c.wait < 0 {
		c.wait = int32(len(f.waits))
		f.waits = append(f.waits, wait{from: n - 1, to: n, since: since, lane: int32(on)})
		return
	}
	w := &f.waits[c.wait]
	w.to, w.lane = n, -1
}

// ran sets the times of the task that calls a host function.
func (f *Finder) ran(h *timeline.HostCall, c *call) {
	fn, ok := timeline.HostFunctionOf(f.process, h.Fn, words(h))
	if !ok || len(f.hosts[fn]) == 0 {
		return
	}
	if i := f.find(f.hosts[fn][0]); i >= 0 {
		t := &f.tasks[i]
		t.from, t.to, t.state = c.start, c.end, known
	}
	if f.hosts[fn] = f.hosts[fn][1:]; len(f.hosts[fn]) == 0 {
		delete(f.hosts, fn)
	}
}

// find returns the position of a task in Finder.tasks, -1 if there is none.
func (f *Finder) find(index int) int {
	n := len(f.tasks)
	if index < 0 || n == 0 || index < f.tasks[0].index {
		return -1
	}
	if i := n - 1 - (f.tasks[n-1].index - index); i >= 0 && i < n && f.tasks[i].index == index {
		return i
	}
	i, ok := slices.BinarySearchFunc(f.tasks, index, func(t task, index int) int { return t.index - index })
	if !ok {
		return -1
	}
	return i
}

// forget drops calls and tasks that ended by a moment, and tasks whose end is not known.
func (f *Finder) forget(at int64) {
	f.forgetTasks(at)
	f.forgetCalls(at)
}

func (f *Finder) forgetTasks(at int64) {
	for i := range f.tasks {
		f.end(i, math.MaxInt64)
	}
	for i := range f.lanes {
		l := &f.lanes[i]
		if k := f.find(l.last); k >= 0 && f.tasks[k].state == unknown {
			l.lost = l.last
		}
	}
	n := 0
	for i := range f.tasks {
		if t := &f.tasks[i]; t.state == known && t.to > at {
			t.seen = false
			f.tasks[n] = *t
			n++
		}
	}
	f.tasks = f.tasks[:n]
	clear(f.hosts)
	maps.DeleteFunc(f.follows, func(index int, _ []order.Link) bool { return f.find(index) < 0 })
}

func (f *Finder) forgetCalls(at int64) {
	waits, targets := f.waits, f.targets
	f.n, f.waits, f.targets = 0, nil, nil
	for i := range f.threads {
		th := &f.threads[i]
		n := int32(0)
		for _, c := range th.calls {
			if c.end <= at {
				continue
			}
			c.outer = n - 1
			if c.wait >= 0 {
				w := waits[c.wait]
				c.wait = int32(len(f.waits))
				f.targets = append(f.targets, targets[w.from:w.to]...)
				w.from, w.to = int32(len(f.targets))-(w.to-w.from), int32(len(f.targets))
				f.waits = append(f.waits, w)
			}
			th.calls[n] = c
			n++
		}
		th.calls, th.works = th.calls[:n], th.works[:0]
		f.n += int(n)
	}
	if len(f.waits) == 0 {
		f.waits, f.targets = waits[:0], targets[:0]
	}
	f.kept = f.n
	f.hands.forget(at)
}

// clear drops all calls and tasks.
func (f *Finder) clear() {
	f.forget(math.MaxInt64)
	for i := range f.lanes {
		f.lanes[i].lost = f.lanes[i].last
	}
}

func words(h *timeline.HostCall) []uint64 {
	if h.Raw == nil {
		return nil
	}
	return h.Raw.Args
}
