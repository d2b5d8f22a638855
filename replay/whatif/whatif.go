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
	"encoding/json"
	"fmt"
	"math"
	"os"
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
	// Model is the cost model that is asked "what if": a preset or a file. The default is that of the runtime's accelerator (api.Accelerator).
	Model string
	// Base is the model of the device that the trace comes from. What it differs in from Model is what changes the recorded
	// durations of copies. The default is the same.
	Base string
	// Pace is that of a replay; the default is replay.PaceRecorded: the host's time between its calls is kept.
	Pace string
	// Seed begins the chance of the model's jitter.
	Seed uint64
	// Output is a file for the trace of what would have happened: the same calls, with new times. "" is none.
	Output string
	// Limits bound what a trace may ask for.
	Limits compile.Limits
}

// Report says what a simulation in virtual time has shown. Keys are only ever added.
type Report struct {
	format.Scope
	Model      string `json:"model"`
	Source     string `json:"source"` // what the model stands on
	RecordedNS int64  `json:"recorded_ns"`
	VirtualNS  int64  `json:"virtual_ns"`
	// ChangePercent is how much longer it takes than it did, by the two figures above.
	ChangePercent float64 `json:"change_percent"`
	// BoundsNS are between what the time lies if the models are true to the two devices, whatever the tasks took that nobody has measured.
	BoundsNS            [2]int64   `json:"bounds_ns"`
	ChangeBoundsPercent [2]float64 `json:"change_bounds_percent"`
	// Predicted says that the bounds are near enough for a prediction. Else VirtualNS and ChangePercent are null, Streams is empty, and
	// Advice says what to do.
	Predicted bool      `json:"predicted"`
	Advice    string    `json:"advice,omitempty"`
	Known     Known     `json:"known"`
	Calls     uint64    `json:"calls"`
	Tasks     uint64    `json:"tasks"`
	Durations Durations `json:"durations"`
	Streams   []Stream  `json:"streams"`
	// Unsupported are calls that here take their time on the host and do nothing else.
	Unsupported []compile.Unsupported `json:"unsupported"`
	// SimulatedIn is the time that it took to find out.
	SimulatedIn time.Duration `json:"simulated_in_ns"`
}

// Known says what part of the tasks' time stands on what: the three make 1, or 0 where no task takes time.
type Known struct {
	Measured  float64 `json:"measured"`  // by the device, or by the call that did the work itself
	Bracketed float64 `json:"bracketed"` // shares of the time that the program waited for them
	Modelled  float64 `json:"modelled"`
}

// MarshalJSON leaves out what is not predicted.
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

// Durations says where those of kernels, copies and other tasks that take time come from.
type Durations struct {
	// Measured are in the trace: by the device, and, of functions of the program's, by their runs.
	Measured uint64 `json:"measured"`
	// Alike are the mean of measured launches of the same kernel with as many blocks.
	Alike uint64 `json:"alike"`
	// Estimated are shares, by the model, of the time that the program has waited for them and the tasks beside them.
	Estimated uint64 `json:"estimated"`
	// Modelled are the model's.
	Modelled uint64 `json:"modelled"`
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
	if v.p, err = newProgram(r, m); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if d := r.Damage(); len(d) > 0 {
		return nil, &d[0] // as of any replay: what is left would be another program
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
		if !v.rep.Predicted {
			return nil, fmt.Errorf("write %s: %s", v.o.Output, v.rep.Advice)
		}
		if err := v.write(ctx); err != nil {
			return nil, err
		}
	}
	return v.rep, nil
}

type runner struct {
	o           Options
	rep         *Report
	p           *program
	model, base *model.Model
	playing     *model.Model
	scale       float64          // of recorded host time
	devices     map[[2]int]int32 // process and device
	first       map[uint32]int32 // device of a process
	groups      []covered
	settled     bool    // the durations of groups are what a simulation would make of them
	lanes       []span  // of the tasks of each, in virtual time
	measuring   bool    // times between events become durations
	quiet       bool    // times of calls and tasks are not kept
	given       []int64 // durations that are played instead of those of the prediction; nil for none
	bounds      bounds
}

// recorded is a model of the device that a trace comes from: what was recorded is not scaled there.
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

// The estimated durations are corrected by what a simulation makes of them, at most so often, and until no more than such a part changes.
const (
	calibrations = 3
	calibrated   = 1e-4
)

func (v *runner) run() error {
	v.number()
	v.fit(v.base)
	v.durations()
	var sum *virtual.Summary
	if v.p.between {
		if err := v.measure(); err != nil {
			return err
		}
	}
	original := int64(-1) // how long it takes on the recorded device, with no calls at other times
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
			sum = nil // of other durations
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
			v.rep.Streams = append(v.rep.Streams, Stream{Stream: l.Name, Process: l.Process, Device: l.Device, Tasks: l.Tasks, BusyNS: sum.Busy[i],
				RecordedNS: v.p.lanes[i].length(), VirtualNS: v.lanes[i].length()})
		}
	}
	return v.limit()
}

// recordedNS is how long the recorded program took.
func (v *runner) recordedNS() int64 {
	if v.p.calls.n == 0 {
		return 0
	}
	return v.p.walk.End - v.p.calls.at(0).start
}

// source hands out what a thread does, with the durations that are known.
type source struct {
	v     *runner
	ops   *list[virtual.Op]
	next  int
	scale float64 // of the time between calls
}

// Next hands out what the thread does next.
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

// play runs all threads on a device that the model describes, with so much of the recorded time between their calls.
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
	// The program has the numbers that the machine gives out.
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
	for _, g := range p.graphs.all {
		if _, err := mach.AddGraph(int(v.device(g.process, g.device)), g.lanes); err != nil {
			return nil, err
		}
	}
	for _, h := range p.threads {
		mach.AddThread(&source{v: v, ops: &h.ops, scale: scale})
	}
	return mach.Run()
}

// number gives the devices of the processes numbers. Where the trace does not tell a device it is the first of its process.
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

// report sums up.
func (v *runner) report() {
	rep, p := v.rep, v.p
	rep.Model, rep.Source, rep.Calls = v.model.Name, v.model.Source, uint64(p.calls.n)
	v.conclude()
	slices.SortFunc(rep.Unsupported, func(a, b compile.Unsupported) int { return cmp.Compare(a.Func, b.Func) })
	if !p.nested {
		return
	}
	// A function of the program's runs when its task does; what was inside of others begins and ends with the first and the last of them.
	next := make([]int, len(p.threads)) // call
	for i := p.calls.n - 1; i >= 0; i-- {
		c := p.calls.at(i)
		switch k := next[c.thread]; {
		case c.kind == inTask && c.task >= 0:
			t := p.tasks.at(int(c.task))
			c.began, c.over = t.began, t.over
		case c.kind == inTask && (k == 0 || p.calls.at(k).start >= c.end):
			// Nothing tells which task it was of.
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

// write makes a trace of what would have happened: the calls with their arguments and what they read, at their new times.
// Payloads are named and not kept; what the device brought back is left out.
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
			_ = w.Abort() // which has nothing to say where it was Close that failed
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
	i, out := -1, &format.Call{}
	for c, err := range r.CallsByStart(nil) {
		if err != nil {
			return err
		}
		if i++; i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
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

// call writes one call at its new time; out has the memory for it.
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
			hash, size, _, err := v.p.walk.Reader.BlobInfo(d.Blob)
			if err != nil {
				return err
			}
			if d.Blob, err = w.Named(binary.LittleEndian.Uint64(hash[:8]), binary.LittleEndian.Uint64(hash[8:]), size); err != nil {
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
