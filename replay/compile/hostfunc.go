package compile

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// A trace does not contain the program's functions that the runtime calls. Stubs replace them. The stub of a stream's host function takes
// as long as the recorded run, in a paced replay and if the recording has the runs (api.Func.HostCallback).
//
// The functions may have written host memory. The trace has the data that a later task read there if the program had waited for the function
// when it made the call. Otherwise the device marks what the task writes, see doubtTask.

func (p *compiler) own(k timeline.HostFunction) *own {
	o := p.graphs.owns[k]
	if o == nil {
		o = &own{}
		p.graphs.owns[k] = o
	}
	return o
}

// called takes in a host function run.
func (p *compiler) called(e *timeline.Event) {
	c := e.Call
	if k, ok := timeline.HostFunctionOf(e.Process, e.Fn, c.Args); ok && c.Flags&format.Unfinished == 0 {
		o := p.own(k)
		o.took = append(o.took, max(c.End-c.Start, 0))
	}
}

// callback returns the stub for a program function.
func (p *callCompiler) callback(q *api.Param) plan.Operand {
	if p.f.Task != api.HostFunc {
		if p.ok {
			p.doubt(verify.HostFunction, "a stub replaces the program's function "+q.Name+": its effects are not repeated")
		}
		return plan.Operand{Slot: plan.SlotCallback}
	}
	if q.Before == 2 {
		return plan.Operand{Slot: plan.SlotStreamFunction}
	}
	return plan.Operand{Slot: plan.SlotHostFunction}
}

// hostLaunch records that the current call, whose operands start at ops, adds a host function to a stream.
func (p *callCompiler) hostLaunch(ops uint32) {
	if p.f.Task != api.HostFunc || !p.ok {
		return
	}
	k, ok := timeline.HostFunctionOf(p.owner(), p.f, p.c.Args)
	if !ok {
		return
	}
	data := slices.IndexFunc(p.f.Params, func(q api.Param) bool { return q.Role == api.Opaque })
	l := &hostLaunch{key: k, ops: ops + uint32(p.f.Params[data].Word), stub: len(p.Found.Stubs)}
	p.Found.Stubs = append(p.Found.Stubs, Stubbed{Call: p.c.Index})
	p.hosts = append(p.hosts, l)
	if p.e.Captured != nil {
		w := p.taskWork()
		w.hosts = append(w.hosts, l)
		return
	}
	p.ask(l)
}

// ask records one expected run of a host function, by a launch or in a graph run.
func (p *compiler) ask(l *hostLaunch) {
	l.want++
	o := p.own(l.key)
	o.asked = append(o.asked, l)
}

// hostFunctions assigns the durations of runs to launches, once all are known. Runs of one function with one argument are assigned in the
// order of the launches.
func (p *compiler) hostFunctions() error {
	for _, o := range p.graphs.owns {
		for i, l := range o.asked[:min(len(o.asked), len(o.took))] {
			l.runs = append(l.runs, o.took[i])
		}
	}
	for _, l := range p.hosts {
		u := &p.Found.Stubs[l.stub]
		how := "takes no time"
		switch {
		case p.Scale == 0:
		case len(l.runs) == 0 && l.want > 0:
			how = "takes no time, since its runs were not recorded,"
		case len(l.runs) > 0:
			how = "takes the recorded time"
			if len(l.runs) < l.want {
				how = fmt.Sprintf("takes the recorded time in %d of %d runs", len(l.runs), l.want)
			}
			b := binary.LittleEndian.AppendUint64(make([]byte, 8), uint64(len(l.runs)))
			for _, ns := range l.runs {
				b = binary.LittleEndian.AppendUint64(b, uint64(float64(ns)*p.Scale))
			}
			at, err := p.Put(b)
			if err != nil {
				return err
			}
			p.SetOperand(l.ops, plan.Operand{Slot: plan.SlotData, Addend: at})
		}
		u.Reason = "its host function is a stub that " + how + " and writes nothing"
	}
	return nil
}

// runsHost reports whether the current call makes a task that runs host functions.
func (p *callCompiler) runsHost() bool {
	if p.f.Task == api.GraphRun {
		return p.hosted
	}
	return p.f.Task == api.HostFunc
}

// hostTask records that the current call runs a host function on its stream.
func (p *callCompiler) hostTask() {
	if p.f.Stream < 0 {
		return
	}
	g := p.here()
	p.visible.hosts[g.lane] = g.task
}

// afterHost reports whether the current task runs after a host function that may not have ended when the call was made. Functions on streams
// for which the task does not wait count as ended: a program must not rely on their order.
func (p *callCompiler) afterHost() bool {
	g := p.here()
	for lane, task := range p.visible.hosts {
		if lane == g.lane || g.before.At(int32(lane)) >= uint64(task) {
			return true
		}
	}
	return false
}

// staged reports whether a copy's recorded content is what it copies, whatever host functions write meanwhile. The program must not rely on their
// order. eBPF does not mark data from pinned memory.
func (p *callCompiler) staged(d *format.Data) bool {
	return p.Model.Staged && d != nil && d.Status == format.Whole && d.Reason == format.NoReason && p.r.Meta().CapturedBy != "ebpf"
}

// weak is added to the code of a reason that makes a result unproved only if it differs.
const weak = 128

// doubtTask makes the device mark all that the current task writes: it may have read other host memory than the trace has.
func (p *callCompiler) doubtTask(code uint8) {
	if p.o.Compare && (p.doubtful == 0 || p.doubtful >= weak) {
		p.doubtful = code
	}
}

// doubted adds the marks to the instructions of the current call.
func (p *callCompiler) doubted() {
	if p.doubtful == 0 {
		return
	}
	mark := plan.Instruction{Op: plan.OpMark, Bits: p.doubtful, Operands: p.Operands(imm(0))}
	p.before = append(p.before, mark)
	mark.Bits = 0
	p.after = slices.Insert(p.after, 0, mark)
}

// handler notes that the current call registers a function for exceptions.
func (p *callCompiler) handler() {
	for _, q := range p.f.Params {
		if q.Role == api.Callback && q.Object == api.Exception && p.c.Args[q.Word] != 0 {
			p.objects.exceptionHandlers[p.owner()] = &exceptionHandler{name: fmt.Sprintf("%s in call %d, %s", q.Name, p.c.Index, p.f.Name)}
			return
		}
	}
}

// exception lists a call that reads an exception. It is left out, since the stub of a handler reads nothing.
func (p *callCompiler) exception() {
	h := p.objects.exceptionHandlers[p.owner()]
	if h == nil {
		h = &exceptionHandler{name: "which was set before the trace begins"}
		p.objects.exceptionHandlers[p.owner()] = h
	}
	if h.left++; h.left == 1 {
		h.fate = p.doubt(verify.HostFunction, "")
	}
	p.Found.Doubts[h.fate].Reason = fmt.Sprintf("left out: %d calls that read an exception, which only the program's function receives: %s", h.left, h.name)
}

// doubt records an effect that the replay does not reproduce and that concerns no single result. It returns the effect's index in Doubts.
func (p *callCompiler) doubt(code verify.Reason, reason string) int {
	p.Found.Doubts = AddUnverified(p.Found.Doubts, p.c.Index, code, reason)
	return len(p.Found.Doubts) - 1
}
