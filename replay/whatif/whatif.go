// Package whatif plays a trace in virtual time, on a device that a cost model describes. It predicts when each call and each task would
// happen with faster copies, a slower kernel, fewer cores, or no time on the host.
//
// It calls no library and touches no memory, so it says nothing about the values that calls compute: package replay checks those. The
// replay command calls Run. Runs are independent, and equal traces and options give equal reports.
package whatif

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/acltrace/acltrace/sim/virtual"
	"github.com/acltrace/acltrace/timeline"
)

// Options are the parameters of Run. The zero value of each field is its default.
type Options struct {
	// Model is the cost model of the simulated device: a preset or a file. The default belongs to the runtime's accelerator
	// (api.Accelerator).
	Model string
	// Base is the model of the recorded device. Recorded durations of copies change by the differences between Base and Model. The
	// default is Model.
	Base string
	// Pace is a replay's pace. The default is replay.PaceRecorded, which keeps the host's time between calls.
	Pace string
	// Seed starts the random numbers in a model with jitter.
	Seed uint64
	// Output is a file for the predicted trace: the same calls with new times. "" is none.
	Output string
	// Limits bound the resources that a trace can ask for.
	Limits compile.Limits
	// Progress is called now and then with the number of parts done and the total: calls read before the simulation, and calls written.
	Progress func(parts string, done, total int)
}

// Report is the result from a simulation in virtual time. Keys are only ever added.
type Report struct {
	format.Scope
	Model               string     `json:"model"`                 // cost model of the prediction
	Source              string     `json:"source"`                // data that the model is based on
	RecordedNS          int64      `json:"recorded_ns"`           // recorded duration
	VirtualNS           int64      `json:"virtual_ns"`            // predicted duration
	ChangePercent       float64    `json:"change_percent"`        // change from recorded_ns to virtual_ns
	BoundsNS            [2]int64   `json:"bounds_ns"`             // shortest and longest possible duration, if both models describe their devices
	ChangeBoundsPercent [2]float64 `json:"change_bounds_percent"` // change from recorded_ns to the bounds
	Predicted           bool       `json:"predicted"`             // the bounds are narrow enough for a prediction
	Advice              Advice     `json:"advice,omitempty"`      // why there is no prediction
	Known               Known      `json:"known"`
	Calls               uint64     `json:"calls"`     // number of calls
	Tasks               uint64     `json:"tasks"`     // number of tasks
	Durations           Durations  `json:"durations"` // tasks by the source of their duration
	Streams             []Stream   `json:"streams"`   // sums by stream
	// Unsupported are calls that only take their recorded time on the host.
	Unsupported []compile.Unsupported `json:"unsupported"`
	SimulatedIn time.Duration         `json:"simulated_in_ns"` // how long the simulation took
}

// Advice is the reason why there is no prediction. A message says what helps.
type Advice string

// The reasons.
const (
	NoTaskTimes Advice = "the trace lacks the durations of its tasks"
	InGraphs    Advice = "a run of a graph has one duration, and not one for each of its tasks"
	OtherModel  Advice = "the models do not fit the trace"
)

func (a Advice) Error() string { return string(a) }

// Known is the source for the tasks' time, as parts that add up to 1, or are 0 if no task takes time.
type Known struct {
	Measured  float64 `json:"measured"`  // measured by the device, or by a synchronous call
	Bracketed float64 `json:"bracketed"` // shared out from recorded waits
	Modelled  float64 `json:"modelled"`  // from the model
}

// MarshalJSON omits unpredicted values.
func (r *Report) MarshalJSON() ([]byte, error) {
	type plain Report
	o := struct {
		*plain
		VirtualNS           *int64      `json:"virtual_ns"`
		ChangePercent       *float64    `json:"change_percent"`
		BoundsNS            [2]*int64   `json:"bounds_ns"`
		ChangeBoundsPercent [2]*float64 `json:"change_bounds_percent"`
		Streams             []Stream    `json:"streams"`
	}{plain: (*plain)(r), Streams: []Stream{}}
	if r.Predicted {
		o.VirtualNS, o.ChangePercent, o.Streams = &r.VirtualNS, &r.ChangePercent, r.Streams
	}
	for i, ns := range r.BoundsNS {
		if ns != Unbounded {
			o.BoundsNS[i], o.ChangeBoundsPercent[i] = &r.BoundsNS[i], &r.ChangeBoundsPercent[i]
		}
	}
	return json.Marshal(&o)
}

// Unbounded is the upper bound if the trace gives none. It is null in JSON.
const Unbounded = math.MaxInt64 / 4

// Durations counts tasks that take time, by the source for their duration.
type Durations struct {
	Measured  uint64 `json:"measured"`  // measured by the device, or by host function runs
	Alike     uint64 `json:"alike"`     // mean over measured launches with the same kernel and block count
	Estimated uint64 `json:"estimated"` // shared out from a wait for several tasks, by the model
	Modelled  uint64 `json:"modelled"`  // from the model
}

// Stream summarizes a stream's tasks.
type Stream struct {
	Stream     string `json:"stream"`      // stream name
	Process    int    `json:"process"`     // process id
	Device     int    `json:"device"`      // device number, -1 if not known
	Tasks      int    `json:"tasks"`       // number of tasks
	BusyNS     int64  `json:"busy_ns"`     // predicted sum of the tasks' durations
	VirtualNS  int64  `json:"virtual_ns"`  // predicted time from the first task's start to the last task's end
	RecordedNS int64  `json:"recorded_ns"` // the same in the trace; an unmeasured task ends with the wait for it
}

// Run plays a trace in virtual time. The threads make their calls in the recorded order among each other, and a waiting call waits for
// the simulated device. Kernels take their recorded time, changed by the model's rule for them, or the model's time if none was recorded.
func Run(ctx context.Context, path string, m *api.Model, o *Options) (*Report, error) {
	v := &runner{rep: &Report{Streams: []Stream{}}}
	if o != nil {
		v.o = *o
	}
	var err error
	if v.scale, err = replay.Scale(cmp.Or(v.o.Pace, replay.PaceRecorded)); err != nil {
		return nil, err
	}
	v.o.Model, v.o.Base = cmp.Or(v.o.Model, m.Accelerator.Costs), cmp.Or(v.o.Base, m.Accelerator.Costs)
	if v.model, err = model.Load(v.o.Model); err != nil {
		return nil, err
	}
	if v.base = v.model; v.o.Base != v.o.Model {
		if v.base, err = model.Load(v.o.Base); err != nil {
			return nil, err
		}
	}
	r, err := format.Open(path, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	v.base = recorded(v.base)
	if err := v.o.Limits.Check(r, m); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	v.rep.Scope = r.Completeness().Scope()
	if v.p, err = newProgram(r, m, func(done, total int) { v.progress("calls read", done, total) }); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if d := r.Damage(); len(d) > 0 {
		return nil, &d[0] // as in any replay: the remaining calls would be another program
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if format.SameFile(path, v.o.Output) {
		return nil, fmt.Errorf("%s: the simulated trace can't replace the recorded one", v.o.Output)
	}
	began := time.Now()
	if err := v.run(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	v.rep.SimulatedIn = time.Since(began)
	v.report()
	if v.o.Output != "" {
		if !v.rep.Predicted {
			return nil, fmt.Errorf("write %s: %w", v.o.Output, v.rep.Advice)
		}
		if err := v.write(ctx); err != nil {
			return nil, err
		}
	}
	return v.rep, nil
}

func (v *runner) progress(parts string, done, total int) {
	if v.o.Progress != nil {
		v.o.Progress(parts, done, total)
	}
}

type runner struct {
	o           Options
	rep         *Report
	p           *program
	model, base *model.Model
	playing     *model.Model
	scale       float64          // factor for recorded host time
	devices     map[[2]int]int32 // by process and device
	first       map[uint32]int32 // device number, by process
	groups      []covered
	settled     bool    // group durations agree with a simulation
	lanes       []span  // by lane, its tasks in virtual time
	measuring   bool    // measure times between events
	quiet       bool    // do not keep call and task times
	given       []int64 // durations to play instead, nil to play the predicted ones
	bounds      bounds
}

// recorded returns a model for the recorded device, which leaves recorded times unchanged.
func recorded(m *model.Model) *model.Model {
	if !slices.ContainsFunc(m.Kernels, func(k model.Kernel) bool { return k.Scale != 0 && k.Scale != 1 }) {
		return m
	}
	c := *m
	c.Kernels = slices.Clone(m.Kernels)
	for i := range c.Kernels {
		c.Kernels[i].Scale = 1
	}
	return &c
}

// Simulations correct the estimated durations: at most so many times, until no more than such a part changes.
const (
	calibrations = 3
	calibrated   = 1e-4
)

func (v *runner) run() error {
	v.number()
	v.fit(v.base)
	v.measureGraphs()
	v.durations()
	var sum *virtual.Summary
	if v.p.between {
		if err := v.measure(); err != nil {
			return err
		}
	}
	original := int64(-1) // duration on the recorded device, with all calls at their times
	if len(v.groups) > 0 && !v.settled {
		for range calibrations {
			var err error
			if sum, err = v.play(v.base, 1); err != nil {
				return err
			}
			original = sum.End()
			if !v.calibrate() {
				break
			}
			sum = nil // for other durations
		}
	}
	if changed := v.model != v.base || v.scale != 1; sum == nil || changed {
		var err error
		if original < 0 && changed {
			if original, err = v.extreme(v.base, 1, nil); err != nil {
				return err
			}
		}
		if sum, err = v.play(v.model, v.scale); err != nil {
			return err
		}
		if !changed {
			original = sum.End()
		}
	}
	v.bounds.err = max(original-v.recordedNS(), v.recordedNS()-original)
	v.rep.RecordedNS = v.recordedNS()
	v.rep.Tasks, v.rep.VirtualNS, v.rep.Unsupported = sum.Tasks-v.p.extra, sum.End(), v.p.left.calls
	for i, l := range v.p.walk.Lanes {
		if !l.Synchronous {
			v.rep.Streams = append(v.rep.Streams, Stream{Stream: l.Name, Process: v.p.walk.PID(l.Process), Device: l.Device, Tasks: l.Tasks, BusyNS: sum.Busy[i],
				RecordedNS: v.p.lanes[i].length(), VirtualNS: v.lanes[i].length()})
		}
	}
	return v.limit()
}

// recordedNS returns how long the recorded program took.
func (v *runner) recordedNS() int64 {
	if v.p.calls.n == 0 {
		return 0
	}
	return v.p.walk.End - v.p.calls.at(0).start
}

// source supplies a thread's ops, with the known durations.
type source struct {
	v     *runner
	ops   *list[virtual.Op]
	next  int
	scale float64 // factor for the time between calls
}

// Next returns the thread's next op.
func (h *source) Next(op *virtual.Op) bool {
	if h.next == h.ops.n {
		return false
	}
	*op = *h.ops.at(h.next)
	h.next++
	if h.scale != 1 {
		op.Gap = int64(float64(op.Gap) * h.scale)
	}
	if _, i, _ := tagged(op.Tag); i >= 0 {
		if t := h.v.p.tasks.at(i); takesTime(t.kind) {
			if h.v.given != nil {
				op.Device = h.v.given[i]
			} else {
				op.Device = h.v.duration(t)
			}
			op.Between = h.v.measuring && t.between
			if op.Kind == virtual.CopyNow && op.Device != unknown {
				op.Host = op.Device
			}
		}
	}
	return true
}

// play runs all threads on the modelled device, with the recorded time between calls multiplied by scale.
func (v *runner) play(m *model.Model, scale float64) (*virtual.Summary, error) {
	p := v.p
	calls, tasks := &p.calls, &p.tasks
	o := &virtual.Options{Model: m, Devices: len(v.devices), Seed: v.o.Seed}
	v.rep.Durations = Durations{}
	v.fit(m)
	if !v.quiet {
		v.lanes = nothings(len(p.walk.Lanes))
		o.Task = func(r virtual.Result) {
			if _, task, _ := tagged(r.Tag); task >= 0 {
				t := tasks.at(task)
				t.began, t.over = r.Start, r.End
				v.lanes[t.lane].add(r.Start, r.End)
			}
		}
		o.Call = func(r virtual.Result) {
			call, _, again := tagged(r.Tag)
			if call < 0 {
				return
			}
			c := calls.at(call)
			if !again {
				c.began = r.Start
			}
			c.over = r.End
		}
	}
	mach, err := virtual.New(o)
	if err != nil {
		return nil, err
	}
	// The machine assigns the numbers.
	for i := range p.kernels.all {
		mach.Kernel(p.kernels.all[i].name)
	}
	for _, l := range p.walk.Lanes {
		mach.AddStream(int(v.device(l.Process, l.Device)), 0)
	}
	for range p.ids.events {
		mach.AddEvent()
	}
	for range p.ids.flags {
		mach.AddFlag()
	}
	for i := range p.graphs.all {
		g := &p.graphs.all[i]
		if _, err := mach.AddGraph(int(v.device(g.process, g.device)), v.graphLanes(g)); err != nil {
			return nil, err
		}
	}
	for _, h := range p.threads {
		mach.AddThread(&source{v: v, ops: &h.ops, scale: scale})
	}
	return mach.Run()
}

// number assigns device numbers. If the trace lacks a task's device, it is the first device in the process.
func (v *runner) number() {
	v.devices, v.first = map[[2]int]int32{}, map[uint32]int32{}
	first := v.first
	for _, known := range []bool{true, false} {
		for _, l := range v.p.walk.Lanes {
			k := [2]int{int(l.Process), l.Device}
			if _, ok := v.devices[k]; ok || (l.Device != timeline.NoDevice) != known {
				continue
			}
			n, ok := first[l.Process]
			if known || !ok {
				n = int32(len(v.devices))
				for _, d := range v.devices { // shared devices' numbers
					n = max(n, d+1)
				}
			}
			if !ok {
				first[l.Process] = n
			}
			v.devices[k] = n
		}
	}
	for _, s := range v.p.waits.devices {
		s.op.Object = v.device(s.process, s.device)
	}
}

func (v *runner) device(process uint32, n int) int32 {
	if d, ok := v.devices[[2]int{int(process), n}]; ok {
		return d
	}
	return v.first[process]
}

// report completes the report.
func (v *runner) report() {
	rep, p := v.rep, v.p
	rep.Model, rep.Source, rep.Calls = v.model.Name, v.model.Source, uint64(p.calls.n)
	v.conclude()
	slices.SortFunc(rep.Unsupported, func(a, b compile.Unsupported) int { return cmp.Compare(a.Func, b.Func) })
	if !p.nested {
		return
	}
	// A host function runs with its task. A composite call lasts from the first to the last call inside.
	next := make([]int, len(p.threads)) // call
	for i := p.calls.n - 1; i >= 0; i-- {
		c := p.calls.at(i)
		switch k := next[c.thread]; {
		case c.kind == inTask && c.task >= 0:
			t := p.tasks.at(int(c.task))
			c.began, c.over = t.began, t.over
		case c.kind == inTask && (k == 0 || p.calls.at(k).start >= c.end):
			// The task is unknown.
			if c.began = rep.VirtualNS; k > 0 {
				c.began = p.calls.at(k).began
			}
			c.over = c.began
		case c.kind != asItIs && k > 0:
			inner := p.calls.at(k)
			for c.began, c.over = inner.began, inner.over; k < p.calls.n && p.calls.at(k).start < c.end; k++ {
				if inner = p.calls.at(k); inner.thread == c.thread {
					c.over = max(c.over, inner.over)
				}
			}
		}
		next[c.thread] = i
	}
}

// write writes the predicted trace: the calls with their arguments and input at their new times. Payloads are stored as references, and
// results are omitted.
func (v *runner) write(ctx context.Context) (err error) {
	r := v.p.walk.Reader
	meta := *r.Meta()
	meta.UUID, meta.Simulated, meta.Replayable, meta.EndNS = "", true, false, v.rep.VirtualNS
	meta.Device.Name = "virtual " + v.model.Name
	w, err := format.Create(v.o.Output, &meta, r.Schema(), &format.WriterOptions{Whole: true})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = w.Abort() // it fails only if Close failed
		}
	}()
	if err := w.TablesOf(r); err != nil {
		return err
	}
	i, out := -1, &format.Call{}
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		if i++; i%4096 == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			v.progress("calls written", i, v.p.calls.n)
		}
		if i >= v.p.calls.n || v.p.calls.at(i).start != c.Start {
			return fmt.Errorf("%s changed while it was read", r.Path())
		}
		if err := v.call(w, i, c, out); err != nil {
			return err
		}
	}
	return w.Close()
}

// call writes one call at its new time; out is memory for it.
func (v *runner) call(w *format.Writer, i int, c, out *format.Call) error {
	outs, data := out.Outs[:0], out.Data[:0]
	*out = *c
	now := v.p.calls.at(i)
	out.Start, out.End = now.began, now.over
	if now.kind == asItIs && now.task >= 0 && v.p.tasks.at(int(now.task)).named {
		t := v.p.tasks.at(int(now.task))
		for _, o := range c.Outs {
			if o.Param < api.TaskStartParam {
				outs = append(outs, o)
			}
		}
		outs = append(outs, format.Out{Param: api.TaskStartParam, Value: uint64(t.began)}, format.Out{Param: api.TaskEndParam, Value: uint64(t.over)})
		for _, o := range c.Outs {
			if o.Param > api.TaskEndParam {
				outs = append(outs, o)
			}
		}
		out.Outs = outs
	}
	for _, d := range c.Data {
		d.Time = out.Start
		if d.Blob != 0 {
			var err error
			if d.Blob, err = w.NamedLike(v.p.walk.Reader, d.Blob); err != nil {
				return err
			}
			d.Status = format.HashOnly
		}
		data = append(data, d)
	}
	out.Data = data
	_, err := w.Call(out)
	out.Outs = outs
	return err
}
