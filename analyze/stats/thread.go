package stats

import (
	"cmp"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/grow"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// Thread divides a typical step's mean time on one thread.
type Thread struct {
	Thread  string `json:"thread"`  // thread name
	Process int    `json:"process"` // process id
	Parts
	DeviceNS int64 `json:"device_ns"` // measured task time that the thread issued in the step
}

// A Splitter sums up what threads do in steps, and in the whole trace. It keeps a few numbers a thread, and the times between
// the calls of a step. Package diff compares two runs by it.
type Splitter struct {
	w       *timeline.Walk
	steps   bool // the trace has steps
	divided bool // gaps are divided into running and blocked
	threads []doing
	named   named
	latest  int64 // latest call's start
	// launched is the start of the latest launch of the process that has the steps.
	launched  int64
	operators inSteps // launched
	n, took   int64   // typical steps, and their total duration
	from      int64   // end of the latest step
	gaps      gapBudget
	longest   LongStep    // among typical steps
	calls     []longCalls // of that step
	current   Parts       // of the latest typical step, on the thread that made it
}

type doing struct {
	now, sum       [PartOwn]int64 // in the current step, and in all typical ones
	all            [PartOwn]int64 // in the trace
	device, onSum  int64
	first, last    int64   // start of the first selected call, and end of the last one
	until, carried int64   // latest call end; the same before the current step
	what, before   Part    // these calls' activities
	tails          int64   // time since the latest call in typical steps that have ended
	some           bool    // has calls in a typical step
	polls          bool    // serves callbacks
	made           int64   // typical steps that the thread made
	prepared       inSteps // operators
	issued         issued
	paced          paced
	gaps           gaps
	calls          topCalls
}

// inSteps is a number in the current step, and in all typical ones.
type inSteps struct{ now, sum uint64 }

// step ends a step.
func (n *inSteps) step(counts bool) {
	if counts {
		n.sum += n.now
	}
	n.now = 0
}

// NewSplitter returns a Splitter for a walk that has found its steps. Call and Step take the events of its visitor.
func NewSplitter(w *timeline.Walk) *Splitter {
	return &Splitter{w: w, named: named{model: w.Model}, steps: w.StepRule().Source != step.None, divided: w.Reader.Meta().Tracer.GapNS > 0}
}

// Undivided makes the time between calls own time, whether the thread ran or not, as in a recording that did not measure it.
func (x *Splitter) Undivided() { x.divided = false }

// waits reports whether a function waits for the device, or polls it.
func waits(f *api.Func) bool { return f != nil && f.Sync != api.NoSync }

// named finds functions by the names in a profile.
type named struct {
	model *api.Model
	of    map[string]*api.Func
}

// function returns a call's function. Calls in a profile have names such as AscendCL@aclrtSynchronizeStream, or
// Runtime@StreamSynchronize for rtStreamSynchronize, and no arguments.
func (n *named) function(h *timeline.HostCall) *api.Func {
	if h.Fn != nil {
		return h.Fn
	}
	f, known := n.of[h.Name]
	if !known {
		if n.of == nil {
			n.of = map[string]*api.Func{}
		}
		if _, of, ok := strings.Cut(h.Name, "@"); ok {
			f = cmp.Or(n.model.Lookup(of), n.model.Lookup("rt"+of))
		}
		n.of[h.Name] = f
	}
	return f
}

func (x *Splitter) doing(h *timeline.HostCall, k *timeline.Task) Part {
	kind, f := api.NoTask, x.named.function(h)
	switch {
	case k != nil:
		kind = k.Kind
	case f != nil:
		kind = f.Task
	}
	switch {
	case waits(f):
		return PartWaiting
	case kind == api.Kernel || kind == api.GraphRun:
		return PartLaunching
	case kind == api.Copy || kind == api.Fill || kind == api.Reduce:
		return PartCopying
	}
	return PartOther
}

// Call takes a call and its task, nil for none. It is in the sums of the whole trace if it is selected.
func (x *Splitter) Call(h *timeline.HostCall, k *timeline.Task, selected bool) {
	d, end := grow.At(&x.threads, int(h.Thread)), x.w.CallEnd(h)
	x.latest = h.Start
	whole := x.between(d, h)
	d.settle(whole)
	if selected {
		if d.last == 0 {
			d.first = h.Start
		} else {
			d.all[PartRecording] += whole.recording
			d.all[PartBlocked] += whole.blocked
		}
		d.last = max(d.last, end)
	}
	if h.During >= 0 {
		since := max(d.until, x.from)
		in := whole.part(h.Start - since)
		d.now[PartRecording] += in.recording
		d.now[PartBlocked] += in.blocked
		if h.Start >= since || d.gaps.calls == 0 { // not in another call
			d.gaps.call(&x.gaps, h, k, in, x.launched > h.Start-whole.program()/2)
		}
	}
	what := x.doing(h, k)
	if what == PartLaunching && x.w.Process(h.Thread) == x.w.StepRule().Process {
		x.launched = h.Start
		if k != nil && k.Operator != 0 && h.During >= 0 {
			x.operators.now++
			if by, ok := x.w.Preparer(h.Thread); ok {
				grow.At(&x.threads, int(by)).prepared.now++
				d = &x.threads[h.Thread]
			}
		}
	}
	d.polls = d.polls || h.Fn != nil && h.Fn.PollsCallbacks
	if selected && what == PartLaunching && k != nil {
		d.paced.launch(h.Start, &d.all)
	}
	d.issued.call(what, h, k, selected)
	if end > d.until {
		took := end - max(h.Start, d.until) // a profile's nested call is part of the outer one
		if selected {
			d.all[what] += took
			if h.During >= 0 || !x.steps {
				d.calls.add(what, h, k, took)
			}
		}
		if h.During >= 0 {
			d.now[what] += took
		} else {
			d.carried, d.before = end, what
		}
		d.until, d.what = end, what
	}
	if h.During >= 0 && k != nil && k.Measured {
		d.device += k.To - k.From
	}
}

// between returns the time between a call of a thread and the one before, negative in another call.
func (x *Splitter) between(d *doing, h *timeline.HostCall) (out idle) {
	if d.until == 0 {
		return out
	}
	if out.ns = h.Start - d.until; out.ns <= 0 {
		return out
	}
	out.recording = min(h.Recording, out.ns)
	if x.divided {
		out.blocked = min(h.Blocked, out.program())
	}
	return out
}

// settle divides the time of typical steps that have ended since the thread's latest call.
func (d *doing) settle(whole idle) {
	of := whole.part(d.tails)
	d.sum[PartRecording] += of.recording
	d.sum[PartBlocked] += of.blocked
	d.tails = 0
	d.gaps.settle(whole)
}

// End ends the walk. After its last call a thread is blocked until the step ends, as one that hands on launches: its processor time is not known.
func (x *Splitter) End() {
	for i := range x.threads {
		if d := &x.threads[i]; x.divided && d.tails > 0 {
			d.sum[PartBlocked] += d.tails
			d.gaps.settle(idle{ns: d.tails, blocked: d.tails})
		}
	}
}

// Step takes a step that has ended. It is in the sums if it is selected and typical. A call may begin before the step or end after it. The last step's end
// is known late, and later calls may have been added to it: such a step does not count. Step returns the parts of a step that counts, on the thread that
// made it.
func (x *Splitter) Step(p *step.Step, selected bool) (parts Parts, counts bool) {
	counts = selected && p.Typical && !p.Open && x.latest < p.To
	if counts {
		x.n, x.took = x.n+1, x.took+p.To-p.From
	}
	for i := range x.threads {
		d := &x.threads[i]
		if in := min(d.carried, p.To) - p.From; in > 0 {
			d.now[d.before] += in
		}
		if over := d.until - max(p.To, d.carried); over > 0 {
			d.now[d.what] -= over
		}
		before := d.gaps.outside(p)
		d.now[PartRecording] -= before.recording
		d.now[PartBlocked] -= before.blocked
		if counts {
			for j, ns := range d.now {
				d.sum[j] += ns
				d.some = d.some || ns > 0
			}
			d.onSum += d.device
			d.tails += max(p.To-max(d.until, p.From), 0)
			d.issued.typical.add(&d.issued.now)
		}
	}
	if counts {
		x.typical(p)
	}
	for i := range x.threads {
		d := &x.threads[i]
		d.gaps.step(&x.gaps, counts, p, p.To-max(d.until, p.From))
		d.calls.step(counts)
		d.issued.now = work{}
		d.prepared.step(counts)
		d.now, d.device, d.carried, d.before = [PartOwn]int64{}, 0, d.until, d.what
	}
	x.operators.step(counts)
	x.from = p.To
	return x.current, counts
}

// preparer returns the other thread that prepares most operators in typical steps, and how many of them a step it prepares, at least: of a cached one the thread may
// be unknown. It returns "" if no other thread prepares a good part, or if that thread works for less than half of the time in which the steps' thread
// does not run: that one then sleeps, or waits for something else.
func (x *Splitter) preparer() (thread string, prepared, operators uint64) {
	steps, main := x.main()
	if steps == nil || x.n == 0 {
		return "", 0, 0
	}
	at := -1
	for i := range x.threads {
		if n := x.threads[i].prepared.sum; i != main && n > 0 && (at < 0 || n > x.threads[at].prepared.sum) {
			at = i
		}
	}
	if at < 0 || float64(x.threads[at].prepared.sum) < preparedShare*float64(x.operators.sum) {
		return "", 0, 0
	}
	works, waits := x.mean(&x.threads[at]), x.mean(steps)
	if 2*works.busy() < waits.BlockedNS {
		return "", 0, 0
	}
	thread, _ = x.thread(at)
	n := uint64(max(x.n, 1))
	return thread, x.threads[at].prepared.sum / n, x.operators.sum / n
}

// preparedShare is the least part of the operators that a thread prepares while another one waits for it.
const preparedShare = 0.25

// typical looks at a typical step that has ended.
func (x *Splitter) typical(p *step.Step) {
	d, at := x.maker(p)
	x.current = Parts{OwnNS: p.To - p.From}
	if d == nil {
		return
	}
	d.made++
	x.current = partsOf(&d.now, p.To-p.From)
	if p.To-p.From > x.longest.NS {
		x.longest = LongStep{Index: p.Index, NS: p.To - p.From, Parts: x.current, Call: d.gaps.long, Gap: d.gaps.widest(p.Index, p.To-max(d.until, p.From), x.n-1)}
		x.longest.Thread, _ = x.thread(at)
		x.calls = x.calls[:0]
		for i := range x.threads {
			for _, g := range x.threads[i].calls.groups {
				if g.now.Calls > 0 && x.w.Process(uint32(i)) == x.w.Process(uint32(at)) {
					x.calls = append(x.calls, longCalls{g, i, g.now})
				}
			}
		}
	}
}

// long returns the longest typical step.
func (x *Splitter) long() *LongStep {
	if x.n > 1 {
		x.longest.More = x.more()
	}
	return &x.longest
}

// maker returns the thread that made a step: the one that ended it, if it issued a task or waited in the step. Otherwise, as when a range on
// another thread marks the step, the thread of the same process that issued most. It returns nil if none did, and the index.
func (x *Splitter) maker(p *step.Step) (d *doing, thread int) {
	if int(p.Thread) < len(x.threads) && x.threads[p.Thread].issued.now.n > 0 {
		return &x.threads[p.Thread], int(p.Thread)
	}
	for i := range x.threads {
		t := &x.threads[i]
		if n := t.issued.now.n; n > 0 && (d == nil || n > d.issued.now.n) && x.w.Process(uint32(i)) == x.w.Process(p.Thread) {
			d, thread = t, i
		}
	}
	return d, thread
}

// main returns the thread that made most typical steps, and its index. Without typical steps it is the thread that launched most, or that spent most
// time in calls. It returns nil and -1 for none.
func (x *Splitter) main() (d *doing, thread int) {
	thread = -1
	by := func(a, b *doing) int {
		return cmp.Or(cmp.Compare(a.made, b.made), cmp.Compare(a.issued.all.launches, b.issued.all.launches), cmp.Compare(inCalls(&a.all), inCalls(&b.all)))
	}
	for i := range x.threads {
		if t := &x.threads[i]; inCalls(&t.all) > 0 && (x.n == 0 || t.made > 0) && (d == nil || by(t, d) > 0) {
			d, thread = t, i
		}
	}
	return d, thread
}

func inCalls(of *[PartOwn]int64) int64 {
	return of[PartWaiting] + of[PartLaunching] + of[PartCopying] + of[PartOther]
}

// list returns the thread that makes the steps, then the others of its process ordered by time in calls, and a step's mean duration.
func (x *Splitter) list() (out []Thread, mean int64) {
	if x.n == 0 {
		return nil, 0
	}
	n, mean := x.n, x.took/x.n
	main, _ := x.main()
	first := 0
	for i := range x.threads {
		d := &x.threads[i]
		if d != main && (!x.known(d) || x.w.Process(uint32(i)) != x.w.StepRule().Process) {
			continue
		}
		of := d.sum
		for j := range of {
			of[j] /= n
		}
		t := Thread{Parts: partsOf(&of, mean), DeviceNS: d.onSum / n}
		t.Thread, t.Process = x.thread(i)
		if d == main {
			out, first = slices.Insert(out, 0, t), 1
			continue
		}
		out = append(out, t)
	}
	slices.SortStableFunc(out[first:], func(a, b Thread) int { return cmp.Compare(b.InCallsNS(), a.InCallsNS()) })
	return out, mean
}

// known reports whether the recording shows what a thread does in typical steps: it has calls in some, and its last call is not before most of them. What a thread
// does after its last call is in no recording.
func (x *Splitter) known(d *doing) bool { return d.some && 2*d.tails <= x.took }

// thread returns a thread's name and its process id.
func (x *Splitter) thread(i int) (name string, pid int) {
	return x.w.ThreadName(uint32(i)), x.w.PID(x.w.Process(uint32(i)))
}

// Gaps returns the mean own times between the calls of a typical step, on the thread that makes the steps.
func (x *Splitter) Gaps() []Gap {
	d, _ := x.main()
	if d == nil || x.n == 0 {
		return nil
	}
	return d.gaps.means(x.n)
}

// Most returns the function with most time in the waits, launches, copies or other calls of steps, on the thread that makes the steps. It
// returns "" for none.
func (x *Splitter) Most(part Part) string {
	if c := x.most(part); c != nil {
		return c.Func
	}
	return ""
}

// most returns the calls with most time in an activity on the thread that makes the steps, nil for none.
func (x *Splitter) most(part Part) *CallSum {
	d, _ := x.main()
	if d == nil {
		return nil
	}
	return d.calls.most(part, x.n > 0)
}
