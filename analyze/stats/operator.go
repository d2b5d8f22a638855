package stats

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/operator"
)

const (
	// manyRuns is the least number of runs of an operator in a typical step that are a finding. A decoder with a hundred layers calls an operator some hundred
	// times for a token, which is no fault.
	manyRuns = 500
	// fewBlocks is the least number of blocks of a launch that may fill a device: the smallest devices have as many cores.
	fewBlocks = 8
)

// operatorHabits sums up the operators of the process that has the steps, in typical steps.
type operatorHabits struct {
	process uint32
	byName  map[string]*operatorHabit
	steps   int64
}

// operatorHabit sums up an operator in the current step and in typical steps.
type operatorHabit struct {
	now, typical operatorRuns
	steps        int64 // typical steps with the operator
	step         int   // the latest of them
}

// operatorRuns sums up runs of an operator, with their launches.
type operatorRuns struct {
	runs, launches uint64
	ns             int64  // in both phases
	measured       uint64 // launches
	deviceNS       int64  // of these launches
	large          uint64 // other launches, which may fill a device, or whose size is not known
}

func (r *operatorRuns) add(o *operatorRuns) {
	r.runs, r.launches, r.ns, r.measured, r.deviceNS, r.large = r.runs+o.runs, r.launches+o.launches, r.ns+o.ns, r.measured+o.measured, r.deviceNS+o.deviceNS, r.large+o.large
}

// small reports whether the device needs less time for the launches than the host for the operator. Launches without a measured time are small if they leave
// cores of a device idle.
func (r *operatorRuns) small() bool { return r.launches > 0 && r.large == 0 && r.deviceNS < r.ns }

func (x *operatorHabits) of(name string) *operatorHabit {
	h := x.byName[name]
	if h == nil {
		if x.byName == nil {
			x.byName = map[string]*operatorHabit{}
		}
		h = &operatorHabit{}
		x.byName[name] = h
	}
	return h
}

// part takes a part of an operator that has ended in a step. Parts inside another operator count for the outer one.
func (x *operatorHabits) part(w *timeline.Walk, p *operator.Part) {
	if p.Process != x.process || p.Depth > 0 || p.Phase == operator.Inner || p.Name == "" || w.StepNow() < 0 {
		return
	}
	h := x.of(p.Name)
	if h.now.ns += p.To - p.From; p.Phase == operator.Two {
		h.now.runs++
	}
}

// launched takes the launch of an operator.
func (x *operatorHabits) launched(w *timeline.Walk, h *timeline.HostCall, k *timeline.Task) {
	if k == nil || k.Operator == 0 || k.Kind != api.Kernel || h.Step < 0 || h.Wrong() || k.Process != x.process {
		return
	}
	r := &x.of(w.OperatorOf(k)).now
	r.launches++
	switch {
	case k.Measured:
		r.measured, r.deviceNS = r.measured+1, r.deviceNS+k.To-k.From
	case k.Blocks == 0 || k.Blocks >= fewBlocks:
		r.large++
	}
}

// step ends a step.
func (x *operatorHabits) step(index int, counts bool) {
	for _, h := range x.byName {
		if counts && h.now.runs > 0 {
			h.typical.add(&h.now)
			h.steps, h.step = h.steps+1, index
		}
		h.now = operatorRuns{}
	}
	if counts {
		x.steps++
	}
}
