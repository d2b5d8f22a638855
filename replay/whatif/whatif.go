// Package whatif plays a trace in virtual time, on a device that a cost model describes: when would each call and each task
// have been with faster copies, a slower kernel, fewer cores, no time on the host?
//
// No library is called and no memory is touched, so nothing is said of what the calls compute: package replay does that.
// Functions of this package may be called from anywhere; each Run is on its own, and the same trace with the same options
// has the same answer.
package whatif

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/virtual"
	"github.com/acltrace/acltrace/timeline"
)

// Options are the parameters of Run. The zero value of each field is its default.
type Options struct {
	// Model is the cost model that is asked "what if": a preset or a file. The default is that of the simulator.
	Model string
	// Base is the model of the device that the trace comes from. What it differs in from Model is what changes the recorded
	// durations of copies. The default is that of the simulator.
	Base string
	// Pace is that of a replay; the default is replay.PaceRecorded: the host's time between its calls is kept.
	Pace string
	// Seed begins the chance of the model's jitter.
	Seed uint64
	// Output is a file for the trace of what would have happened: the same calls, with new times. "" is none.
	Output string
}

// Report says what a simulation in virtual time has shown. Keys are only ever added.
type Report struct {
	Model      string `json:"model"`
	Source     string `json:"source"` // what the model stands on
	RecordedNS int64  `json:"recorded_ns"`
	VirtualNS  int64  `json:"virtual_ns"`
	// ChangePercent is how much longer it takes than it did, by the two figures above.
	ChangePercent float64 `json:"change_percent"`
	Calls         uint64  `json:"calls"`
	Tasks         uint64  `json:"tasks"`
	// Durations says where those of kernels, copies and other tasks that take time come from.
	Durations struct {
		// Measured are in the trace.
		Measured uint64 `json:"measured"`
		// Estimated are shares, by the model, of the time that the program has waited for them and the tasks beside them.
		Estimated uint64 `json:"estimated"`
		// Modelled are the model's.
		Modelled uint64 `json:"modelled"`
	} `json:"durations"`
	Streams []Stream `json:"streams"`
	// Unsupported are calls that here take their time on the host and do nothing else.
	Unsupported []replay.Unsupported `json:"unsupported"`
	// SimulatedIn is the time that it took to find out.
	SimulatedIn time.Duration `json:"simulated_in_ns"`
}

// Stream is what became of the tasks of a stream.
type Stream struct {
	Stream  string `json:"stream"`
	Process uint32 `json:"process"`
	Device  int    `json:"device"` // -1 where it is not known
	Tasks   int    `json:"tasks"`
	// BusyNS is the sum of the durations, VirtualNS the time from the begin of the first task to the end of the last, and
	// RecordedNS the same in the trace, where tasks that nobody has measured end with the wait for them.
	BusyNS     int64 `json:"busy_ns"`
	VirtualNS  int64 `json:"virtual_ns"`
	RecordedNS int64 `json:"recorded_ns"`
}

// Run plays a trace in virtual time, on a device that a cost model describes: no library is called and no memory is
// touched, so it says when each call and each task would have been, and nothing of what they compute. The threads make their
// calls in the recorded order among each other; a call that waits, waits for the simulated device. Kernels take the time
// that the trace tells of them, where it does, as the model's rule for them changes it, and else the model's.
func Run(ctx context.Context, path string, m *api.Model, o *Options) (*Report, error) {
	v := &runner{rep: &Report{Streams: []Stream{}, Unsupported: []replay.Unsupported{}}, odd: map[string]int{}, modelled: map[launched]int64{}}
	if o != nil {
		v.o = *o
	}
	var err error
	if v.scale, err = replay.Scale(cmp.Or(v.o.Pace, replay.PaceRecorded)); err != nil {
		return nil, err
	}
	if v.model, err = model.Load(v.o.Model); err != nil {
		return nil, err
	}
	if v.base, err = model.Load(v.o.Base); err != nil {
		return nil, err
	}
	r, err := format.Open(path, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if v.t, err = timeline.Load(r, m); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if v.o.Output != "" {
		if a, err := os.Stat(path); err == nil {
			if b, err := os.Stat(v.o.Output); err == nil && os.SameFile(a, b) {
				return nil, fmt.Errorf("%s: the simulated trace can't replace the recorded one", v.o.Output)
			}
		}
	}
	began := time.Now()
	if err := v.run(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	v.rep.SimulatedIn = time.Since(began)
	v.report()
	if v.o.Output != "" {
		if err := v.write(ctx); err != nil {
			return nil, err
		}
	}
	return v.rep, nil
}

// What a call becomes where it is not what its function says.
const (
	asItIs   = iota
	wrapper  // other calls are inside: they are played in its place
	firstAsk // the first of a run of polls that ends with "complete": waits in its place
	laterAsk // the others: take no time
)

type runner struct {
	o           Options
	rep         *Report
	t           *timeline.Timeline
	model, base *model.Model
	scale       float64 // of recorded host time
	mach        *virtual.Machine
	devices     map[[2]int]int32 // process and device
	streams     []int32          // by lane
	events      map[*timeline.Object]int32
	flags       map[*timeline.Object]int32
	graphs      map[*timeline.Object]int32
	byID        []*timeline.Object
	kind        []uint8 // by call
	calls       []int   // by task
	known       []int64 // duration by task, -1 for the model's
	groups      []covered
	waits       map[int][]edge
	threads     []*hostThread
	began, end  []int64 // by call, in virtual time
	from, to    []int64 // by task
	odd         map[string]int
	modelled    map[launched]int64
	err         error
}

// launched is what the model's time of a kernel depends on: a trace does not tell how many bytes a kernel touches.
type launched struct {
	model  *model.Model
	name   string
	blocks uint32
}

// covered are tasks that followed each other on a stream, and that the program waited for at their end.
type covered struct {
	tasks  []int
	before int // the task of the stream before them, -1 for none
	// span is the time from the end of that, or the call of the first of them if it was later, to the end of the last.
	span int64
}

// calibrations is how often the estimated durations are corrected by what a simulation makes of them.
const calibrations = 3

// edge says that a call comes after the first n calls of another thread.
type edge struct{ thread, n int }

// hostThread hands out what a thread does.
type hostThread struct {
	v     *runner
	id    int32
	calls []int    // in Timeline.Calls
	ops   []uint64 // how many ops the calls so far make
	next  int
	end   int64 // of the call before
	queue []virtual.Op
	head  int
}

// Tags of ops: the call and 1, or 0 for what is no call's.
func tag(call int) uint64 { return uint64(call) + 1 }

func (v *runner) run() error {
	t := v.t
	v.began, v.end = make([]int64, len(t.Calls)), make([]int64, len(t.Calls))
	v.from, v.to = make([]int64, len(t.Tasks)), make([]int64, len(t.Tasks))
	for _, ob := range t.Objects {
		if ob.ID >= len(v.byID) {
			v.byID = append(v.byID, make([]*timeline.Object, ob.ID+1-len(v.byID))...)
		}
		v.byID[ob.ID] = ob
	}
	v.number()
	v.split()
	v.durations()
	for range calibrations {
		if len(v.groups) == 0 || v.scale != 1 {
			break
		}
		if _, err := v.play(v.base); err != nil {
			return err
		}
		v.calibrate()
	}
	v.change()
	sum, err := v.play(v.model)
	if err != nil {
		return err
	}
	v.rep.Tasks, v.rep.VirtualNS = sum.Tasks, sum.End()
	for i, l := range t.Lanes {
		if !l.Synchronous {
			v.rep.Streams = append(v.rep.Streams, Stream{Stream: l.Name, Process: l.Process, Device: l.Device, Tasks: l.Tasks, BusyNS: sum.Busy[v.streams[i]]})
		}
	}
	return nil
}

// play runs all threads on a device that the model describes.
func (v *runner) play(m *model.Model) (*virtual.Summary, error) {
	t := v.t
	clear(v.end)
	clear(v.odd)
	v.rep.Unsupported = v.rep.Unsupported[:0]
	v.events, v.flags, v.graphs = map[*timeline.Object]int32{}, map[*timeline.Object]int32{}, map[*timeline.Object]int32{}
	v.streams = v.streams[:0]
	var err error
	v.mach, err = virtual.New(&virtual.Options{Model: m, Devices: len(v.devices), Seed: v.o.Seed,
		Task: func(r virtual.Result) {
			if r.Tag == 0 {
				return
			}
			task := t.Calls[r.Tag-1].Task
			v.from[task], v.to[task] = r.Start, r.End
		},
		Call: func(r virtual.Result) {
			if r.Tag == 0 {
				return
			}
			i := r.Tag - 1
			if v.end[i] == 0 {
				v.began[i] = r.Start
			}
			v.end[i] = r.End
		}})
	if err != nil {
		return nil, err
	}
	for _, l := range t.Lanes {
		v.streams = append(v.streams, v.mach.AddStream(int(v.device(l.Process, l.Device)), 0))
	}
	for _, h := range v.threads {
		h.next, h.end, h.queue, h.head = 0, 0, h.queue[:0], 0
		h.id = v.mach.AddThread(h)
	}
	sum, err := v.mach.Run()
	return sum, errors.Join(v.err, err)
}

// number gives the devices of the processes numbers. Where the trace does not tell a device it is the first of its process.
func (v *runner) number() {
	v.devices = map[[2]int]int32{}
	first := map[uint32]int32{}
	for _, known := range []bool{true, false} {
		for _, l := range v.t.Lanes {
			k := [2]int{int(l.Process), l.Device}
			if _, ok := v.devices[k]; ok || (l.Device != timeline.NoDevice) != known {
				continue
			}
			n, ok := first[l.Process]
			if known || !ok {
				n = int32(len(v.devices))
				for _, d := range v.devices { // numbers of devices that share one
					n = max(n, d+1)
				}
			}
			if !ok {
				first[l.Process] = n
			}
			v.devices[k] = n
		}
	}
}

func (v *runner) device(process uint32, n int) int32 {
	if d, ok := v.devices[[2]int{int(process), n}]; ok {
		return d
	}
	for k, d := range v.devices {
		if k[0] == int(process) {
			return d
		}
	}
	return 0
}

// split gives each thread its calls, and finds what they wait for on the host: runs of polls, and calls of other threads.
func (v *runner) split() {
	t := v.t
	v.kind, v.calls = make([]uint8, len(t.Calls)), make([]int, len(t.Tasks))
	threads := map[uint32]*hostThread{}
	polls := map[uint32][]int{} // by thread, the polls that said no so far
	for i := range t.Calls {
		c := &t.Calls[i]
		if c.Task >= 0 {
			v.calls[c.Task] = i
		}
		h := threads[c.Thread]
		if h == nil {
			h = &hostThread{v: v}
			threads[c.Thread] = h
			v.threads = append(v.threads, h)
		}
		for n := len(h.calls); n > 0 && t.Calls[h.calls[n-1]].End > c.Start; n-- {
			v.kind[h.calls[n-1]] = wrapper
			h.calls = h.calls[:n-1]
		}
		h.calls = append(h.calls, i)
		run := polls[c.Thread]
		if len(run) > 0 && (t.Calls[run[0]].Fn != c.Fn || t.Calls[run[0]].Waits != c.Waits) {
			run = run[:0]
		}
		if c.Fn != nil && c.Waits >= 0 && (c.Fn.Sync == api.PollStream || c.Fn.Sync == api.PollEvent) {
			run = append(run, i)
			if c.Complete {
				for k, p := range run {
					v.kind[p] = laterAsk
					if k == 0 {
						v.kind[p] = firstAsk
					}
				}
				run = run[:0]
			}
		}
		polls[c.Thread] = run
	}
	v.edges()
	for _, h := range v.threads {
		h.ops = make([]uint64, len(h.calls)+1)
		for k, i := range h.calls {
			n := uint64(1 + len(v.waits[i]))
			if v.two(&t.Calls[i]) {
				n++
			}
			h.ops[k+1] = h.ops[k] + n
		}
	}
}

// edges finds, for each call, the calls of other threads that were over when it began, without those that an earlier call
// of its thread comes after anyway.
func (v *runner) edges() {
	v.waits = map[int][]edge{}
	if len(v.threads) < 2 {
		return
	}
	calls := v.t.Calls
	for a, h := range v.threads {
		seen := make([]int, len(v.threads))
		for _, i := range h.calls {
			for b, other := range v.threads {
				if a == b {
					continue
				}
				rest := other.calls[seen[b]:]
				n := seen[b] + sort.Search(len(rest), func(k int) bool { return calls[rest[k]].End >= calls[i].Start })
				if n > seen[b] {
					seen[b] = n
					v.waits[i] = append(v.waits[i], edge{b, n})
				}
			}
		}
	}
}

// two reports whether a call is two ops: a task, and the wait for it.
func (v *runner) two(c *timeline.HostCall) bool {
	if c.Task < 0 {
		return false
	}
	k := &v.t.Tasks[c.Task]
	return k.Pageable || k.Kind == api.GraphRun && v.t.Lanes[k.Lane].Synchronous
}

// copyKind is the model's kind of a copy, by its name.
func copyKind(t *timeline.Task) model.CopyKind {
	if t.Kind == api.Fill {
		return model.Fill
	}
	switch t.Name {
	case "copy HtoD":
		return model.HostToDevice
	case "copy DtoH":
		return model.DeviceToHost
	case "copy HtoH":
		return model.HostToHost
	}
	return model.DeviceToDevice
}

// takesTime reports whether tasks of the kind do.
func takesTime(k api.Task) bool {
	switch k {
	case api.Kernel, api.Copy, api.Fill, api.Reduce, api.HostFunc:
		return true
	}
	return false
}

// modelTime is what a task that takes time takes by the model.
func (v *runner) modelTime(t *timeline.Task, m *model.Model) int64 {
	switch t.Kind {
	case api.Kernel:
		k := launched{m, t.Name, max(t.Blocks, 1)}
		d, ok := v.modelled[k]
		if !ok {
			d = m.KernelTime(m.Rule(k.name), k.blocks, 0)
			v.modelled[k] = d
		}
		return d
	case api.HostFunc:
		return m.Host.Function
	}
	return m.CopyTime(copyKind(t), t.Bytes)
}

// durations finds what the trace tells of the time that tasks took: measured, or, where the program has waited for some that
// had the stream to themselves, each its share by the model of the time from their beginning to the end of the wait.
func (v *runner) durations() {
	t := v.t
	v.known = make([]int64, len(t.Tasks))
	waited := map[int64]int64{} // by the end of a wait, what it took
	for i := range t.Calls {
		if c := &t.Calls[i]; c.Waits >= 0 && (c.Fn.Sync <= api.SyncEvent || v.kind[i] == laterAsk) {
			waited[c.End] = max(waited[c.End], c.End-c.Start)
		}
	}
	open := make([]covered, len(t.Lanes))
	for i := range open {
		open[i].before = -1
	}
	close := func(lane int) {
		g := open[lane]
		if len(g.tasks) == 0 {
			return
		}
		last := g.tasks[len(g.tasks)-1]
		open[lane] = covered{before: last}
		end, begin := t.Tasks[last].To, t.Tasks[g.tasks[0]].Issued
		if g.before >= 0 {
			begin = max(begin, t.Tasks[g.before].To)
		}
		// Where the program has hardly waited, the device may have been done long before.
		if t.Tasks[last].Open || waited[end] < 4*v.base.Host.Sync {
			return
		}
		var sum int64
		for _, i := range g.tasks {
			sum += v.modelTime(&t.Tasks[i], v.base)
		}
		if g.span = end - v.base.Host.Sync - begin; sum <= 0 || g.span <= 0 {
			return
		}
		for _, i := range g.tasks {
			v.known[i] = int64(float64(g.span) * float64(v.modelTime(&t.Tasks[i], v.base)) / float64(sum))
		}
		v.groups = append(v.groups, g)
	}
	for i := range t.Tasks {
		task := &t.Tasks[i]
		v.known[i] = -1
		if task.Measured || t.Lanes[task.Lane].Synchronous {
			v.known[i] = task.To - task.From
			continue
		}
		g := &open[task.Lane]
		if len(g.tasks) > 0 && t.Tasks[g.tasks[0]].To != task.To {
			close(task.Lane)
		}
		if takesTime(task.Kind) {
			g.tasks = append(g.tasks, i)
		}
	}
	for lane := range open {
		close(lane)
	}
}

// calibrate corrects the durations of groups: what a simulation shows besides them, the gaps in which the device had
// nothing to do, was in the recorded time too.
func (v *runner) calibrate() {
	for _, g := range v.groups {
		var sum int64
		for _, i := range g.tasks {
			sum += v.known[i]
		}
		last := g.tasks[len(g.tasks)-1]
		begin := v.began[v.calls[g.tasks[0]]]
		if g.before >= 0 {
			begin = max(begin, v.to[g.before])
		}
		idle := v.to[last] - begin - sum
		f := float64(max(g.span-idle, 0)) / float64(max(sum, 1))
		for _, i := range g.tasks {
			v.known[i] = int64(float64(v.known[i]) * f)
		}
	}
}

// change has the durations that the trace tells be what the model makes of them. The rule for a kernel is applied by the
// machine; a copy takes longer as the model's copies take longer than those of the base.
func (v *runner) change() {
	for i := range v.t.Tasks {
		task := &v.t.Tasks[i]
		if !takesTime(task.Kind) {
			continue
		}
		switch {
		case task.Measured:
			v.rep.Durations.Measured++
		case v.known[i] >= 0:
			v.rep.Durations.Estimated++
		default:
			v.rep.Durations.Modelled++
			continue
		}
		if task.Kind == api.Kernel {
			continue
		}
		if b := v.modelTime(task, v.base); b > 0 {
			v.known[i] = int64(float64(v.known[i]) * float64(v.modelTime(task, v.model)) / float64(b))
		}
	}
}

// Next hands out what the thread does next.
func (h *hostThread) Next(op *virtual.Op) bool {
	if h.head == len(h.queue) {
		if h.next == len(h.calls) {
			return false
		}
		h.fill(h.calls[h.next], h.next == 0)
		h.next++
	}
	*op = h.queue[h.head]
	h.head++
	return true
}

// fill puts the ops of a call into the queue.
func (h *hostThread) fill(i int, first bool) {
	v := h.v
	c := &v.t.Calls[i]
	h.queue, h.head = h.queue[:0], 0
	before := h.end
	for _, w := range v.waits[i] {
		o := v.threads[w.thread]
		h.queue = append(h.queue, virtual.Op{Kind: virtual.Await, Object: o.id, Count: o.ops[w.n]})
		before = max(before, v.t.Calls[o.calls[w.n-1]].End)
	}
	if first && len(v.waits[i]) == 0 && len(v.t.Calls) > 0 {
		before = v.t.Calls[0].Start
	}
	h.end = c.End
	op := virtual.Op{Tag: tag(i), Gap: int64(float64(max(0, c.Start-before)) * v.scale), Host: c.End - c.Start}
	task := -1
	if c.Task >= 0 {
		task = c.Task
		v.task(&op, &v.t.Tasks[task], v.known[task])
	}
	switch {
	case c.Fn == nil || task >= 0:
	case v.kind[i] == laterAsk:
		op.Gap, op.Host = 0, 0
	case c.Waits < 0, c.Fn.Sync == api.NoSync:
	case c.Fn.Sync == api.SyncDevice:
		op.Kind, op.Host = virtual.SyncDevice, virtual.Auto
		op.Object = v.device(h.process(c), int(c.Waits))
	case c.Fn.Sync == api.SyncStream || c.Fn.Sync == api.PollStream && v.kind[i] == firstAsk:
		op.Kind, op.Stream, op.Host = virtual.SyncStream, v.streams[c.Waits], virtual.Auto
	case c.Fn.Sync == api.SyncEvent || c.Fn.Sync == api.PollEvent && v.kind[i] == firstAsk:
		if e, ok := v.events[v.byID[c.Waits]]; ok {
			op.Kind, op.Object, op.Host = virtual.SyncEvent, e, virtual.Auto
		}
	}
	h.queue = append(h.queue, op)
	if v.two(c) {
		h.queue = append(h.queue, virtual.Op{Tag: tag(i), Kind: virtual.SyncStream, Stream: op.Stream, Host: virtual.Auto})
	}
}

func (h *hostThread) process(c *timeline.HostCall) uint32 {
	if threads := h.v.t.Reader.Threads(); int(c.Thread) < len(threads) {
		return threads[c.Thread].Process
	}
	return 0
}

// task makes an op one that puts the task on its stream.
func (v *runner) task(op *virtual.Op, t *timeline.Task, known int64) {
	op.Stream, op.Device, op.Bytes = v.streams[t.Lane], known, t.Bytes
	if t.Pageable || known < 0 && v.t.Lanes[t.Lane].Synchronous {
		op.Host = virtual.Auto
	}
	switch t.Kind {
	case api.Kernel:
		op.Kind, op.Kernel, op.Blocks = virtual.Kernel, v.mach.Kernel(t.Name), t.Blocks
	case api.Copy, api.Fill, api.Reduce:
		op.Kind, op.Copy = virtual.Copy, copyKind(t)
		if v.t.Lanes[t.Lane].Synchronous {
			op.Kind = virtual.CopyNow
			if known >= 0 {
				op.Host = known
			}
		}
	case api.HostFunc:
		op.Kind = virtual.HostFunc
	case api.System:
		op.Kind, op.Device = virtual.HostFunc, 0
	case api.GraphRun:
		g, err := v.graph(t)
		if err != nil {
			v.err = errors.Join(v.err, err)
		}
		if g >= 0 {
			op.Kind, op.Object = virtual.RunGraph, g
		} else {
			v.strange(t, "the trace does not show what the graph holds")
		}
	default:
		v.mark(op, t)
	}
}

func (v *runner) strange(t *timeline.Task, reason string) {
	n, ok := v.odd[t.Fn.Name]
	if !ok {
		n = len(v.rep.Unsupported)
		v.odd[t.Fn.Name] = n
		v.rep.Unsupported = append(v.rep.Unsupported, replay.Unsupported{Func: t.Fn.Name, Reason: reason, Call: t.Call})
	}
	v.rep.Unsupported[n].Calls++
}

// mark is for tasks that put streams in order.
func (v *runner) mark(op *virtual.Op, t *timeline.Task) {
	op.Device = 0
	number := func(m map[*timeline.Object]int32, add func() int32) int32 {
		n, ok := m[t.Object]
		if !ok {
			n = add()
			m[t.Object] = n
		}
		return n
	}
	switch {
	case t.Object == nil:
		v.strange(t, "what it sets or waits for is not in the trace")
	case t.Object.Kind == api.Notify:
		op.Kind = map[api.Task]virtual.Kind{api.Record: virtual.SetFlag, api.Wait: virtual.TakeFlag, api.Reset: virtual.ClearFlag}[t.Kind]
		op.Object = number(v.flags, v.mach.AddFlag)
	case t.Object.Kind != api.Event:
		v.strange(t, fmt.Sprintf("a %s has no counterpart", t.Object.Kind))
	case t.Kind == api.Record:
		op.Kind, op.Object = virtual.RecordEvent, number(v.events, v.mach.AddEvent)
	case t.Kind == api.Wait:
		op.Kind, op.Object = virtual.WaitEvent, number(v.events, v.mach.AddEvent)
	}
}

// graph returns the number of the graph that a task runs, -1 where its content is not known.
func (v *runner) graph(t *timeline.Task) (int32, error) {
	if n, ok := v.graphs[t.Object]; ok {
		return n, nil
	}
	inside, ok := v.t.Graphs[t.Object]
	if !ok {
		return -1, nil
	}
	var lanes [][]virtual.Op
	lane := map[int]int{}
	events := map[*timeline.Object]int32{}
	for i := range inside {
		k := &inside[i]
		n, ok := lane[k.Lane]
		if !ok {
			n = len(lanes)
			lane[k.Lane] = n
			lanes = append(lanes, nil)
		}
		op := virtual.Op{Device: virtual.Auto, Bytes: k.Bytes}
		switch k.Kind {
		case api.Kernel:
			op.Kind, op.Kernel, op.Blocks = virtual.Kernel, v.mach.Kernel(k.Name), k.Blocks
		case api.Copy, api.Fill, api.Reduce:
			op.Kind, op.Copy = virtual.Copy, copyKind(k)
		case api.HostFunc:
			op.Kind = virtual.HostFunc
		case api.Record, api.Wait:
			if k.Object == nil || k.Object.Kind != api.Event {
				v.strange(k, "what it sets or waits for is not in the trace")
				continue
			}
			e, ok := events[k.Object]
			if !ok && k.Kind == api.Wait {
				continue
			}
			if !ok {
				e = int32(len(events))
				events[k.Object] = e
			}
			op.Object = e
			op.Kind = map[api.Task]virtual.Kind{api.Record: virtual.RecordEvent, api.Wait: virtual.WaitEvent}[k.Kind]
		default:
			v.strange(k, "in a graph it has no counterpart")
			continue
		}
		lanes[n] = append(lanes[n], op)
	}
	n, err := v.mach.AddGraph(int(v.device(t.Process, v.t.Lanes[t.Lane].Device)), lanes)
	if err != nil {
		return -1, err
	}
	v.graphs[t.Object] = n
	return n, nil
}

// report sums up.
func (v *runner) report() {
	rep, t := v.rep, v.t
	rep.Model, rep.Source, rep.Calls = v.model.Name, v.model.Source, uint64(len(t.Calls))
	type span struct {
		n        int
		from, to int64
	}
	then, now := make([]span, len(t.Lanes)), make([]span, len(t.Lanes))
	add := func(s *span, from, to int64) {
		if s.n++; s.n == 1 {
			s.from, s.to = from, to
		}
		s.from, s.to = min(s.from, from), max(s.to, to)
	}
	for i := range t.Tasks {
		k := &t.Tasks[i]
		add(&then[k.Lane], k.From, k.To)
		add(&now[k.Lane], v.from[i], v.to[i])
	}
	n := 0
	for i, l := range t.Lanes {
		if l.Synchronous {
			continue
		}
		s := &rep.Streams[n]
		s.RecordedNS, s.VirtualNS = then[i].to-then[i].from, now[i].to-now[i].from
		n++
	}
	if len(t.Calls) > 0 {
		rep.RecordedNS = t.End - t.Calls[0].Start
	}
	rep.ChangePercent = 100 * (float64(rep.VirtualNS)/float64(max(rep.RecordedNS, 1)) - 1)
	slices.SortFunc(rep.Unsupported, func(a, b replay.Unsupported) int { return cmp.Compare(a.Func, b.Func) })
	// What was inside of others begins and ends with the first and the last of them.
	last := map[uint32]int{}
	for i := len(t.Calls) - 1; i >= 0; i-- {
		c := &t.Calls[i]
		if v.kind[i] == wrapper {
			if k, ok := last[c.Thread]; ok {
				v.began[i], v.end[i] = v.began[k], v.end[k]
				for ; k < len(t.Calls) && t.Calls[k].Start < c.End; k++ {
					if t.Calls[k].Thread == c.Thread {
						v.end[i] = max(v.end[i], v.end[k])
					}
				}
			}
		}
		last[c.Thread] = i
	}
}

// write makes a trace of what would have happened: the calls with their arguments and what they read, at their new times.
// Payloads are named and not kept; what the device brought back is left out.
func (v *runner) write(ctx context.Context) (err error) {
	r, path := v.t.Reader, v.o.Output
	meta := *r.Meta()
	meta.UUID, meta.Simulated, meta.Replayable, meta.EndNS = "", true, false, v.rep.VirtualNS
	meta.Device.Name = "virtual " + v.model.Name
	w, err := format.Create(path, &meta, r.Schema(), nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Abort(), os.Remove(path))
		}
	}()
	for _, p := range r.Processes() {
		if _, err := w.Process(p); err != nil {
			return err
		}
	}
	for _, t := range r.Threads() {
		if _, err := w.Thread(t); err != nil {
			return err
		}
	}
	i := -1
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		if i++; i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if i >= len(v.t.Calls) || v.t.Calls[i].Index != c.Index {
			return fmt.Errorf("%s changed while it was read", r.Path())
		}
		if err := v.call(w, i, c); err != nil {
			return err
		}
	}
	return w.Close()
}

// call writes one call at its new time.
func (v *runner) call(w *format.Writer, i int, c *format.Call) error {
	out := *c
	out.Start, out.End = v.began[i], v.end[i]
	if task := v.t.Calls[i].Task; task >= 0 && v.t.Tasks[task].Fn.Stream >= 0 {
		out.Outs = slices.DeleteFunc(slices.Clone(c.Outs), func(o format.Out) bool { return o.Param == api.TaskStartParam || o.Param == api.TaskEndParam })
		at, _ := slices.BinarySearchFunc(out.Outs, uint8(api.TaskStartParam), func(o format.Out, p uint8) int { return cmp.Compare(o.Param, p) })
		out.Outs = slices.Insert(out.Outs, at, format.Out{Param: api.TaskStartParam, Value: uint64(v.from[task])}, format.Out{Param: api.TaskEndParam, Value: uint64(v.to[task])})
	}
	out.Data = nil
	for _, d := range c.Data {
		d.Time = out.Start
		if d.Blob != 0 {
			hash, size, _, err := v.t.Reader.BlobInfo(d.Blob)
			if err != nil {
				return err
			}
			if d.Blob, err = w.Named(binary.LittleEndian.Uint64(hash[:8]), binary.LittleEndian.Uint64(hash[8:]), size); err != nil {
				return err
			}
			d.Status = format.HashOnly
		}
		out.Data = append(out.Data, d)
	}
	_, err := w.Call(&out)
	return err
}
