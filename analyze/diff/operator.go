package diff

import (
	"cmp"
	"math"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/operator"
)

// Values of Operator.Only.
const (
	OnlyInB = "new"
	OnlyInA = "gone"
)

// Operator compares an operator of both runs by name, without tests. A launch by a run of a graph belongs to the operator that was open at its capture, so
// an eager program and its captured form have the same launches.
type Operator struct {
	Name string      `json:"name"`           // name of the operator
	Only string      `json:"only,omitempty"` // new: only in the second run; gone: only in the first
	A    OperatorUse `json:"a"`              // first run
	B    OperatorUse `json:"b"`              // second run
}

// OperatorUse sums up an operator in one run: the mean of a typical step, or the whole run if samples are launches.
type OperatorUse struct {
	Calls    float64 `json:"calls"`     // how often it ran
	Launches float64 `json:"launches"`  // its kernel launches, with those by runs of graphs
	InGraphs float64 `json:"in_graphs"` // of them by runs of graphs
	HostNS   float64 `json:"host_ns"`   // time in both phases
	DeviceNS float64 `json:"device_ns"` // time of its measured tasks
	Measured bool    `json:"measured"`  // device_ns has all its launches
}

func (u *OperatorUse) add(o *OperatorUse, times float64) {
	u.Calls, u.Launches, u.InGraphs = u.Calls+times*o.Calls, u.Launches+times*o.Launches, u.InGraphs+times*o.InGraphs
	u.HostNS, u.DeviceNS = u.HostNS+times*o.HostNS, u.DeviceNS+times*o.DeviceNS
}

// operators collects the operators of a run.
type operators struct {
	w      *timeline.Walk
	all    bool // calls are not selected
	byName map[string]*operatorSums
	steps  float64 // typical steps
}

// operatorSums are an operator's sums: in the run, in the current step, and in typical steps.
type operatorSums struct {
	all, now, steps OperatorUse
	unmeasured      bool
}

// marked reports whether a trace has marks of operators.
func marked(r *format.Reader, m *api.Model) (bool, error) {
	return timeline.Has(r, m, (*api.Func).EntryMark)
}

func (x *operators) of(name string) *operatorSums {
	s := x.byName[name]
	if s == nil {
		s = &operatorSums{}
		x.byName[name] = s
	}
	return s
}

func (x *operators) add(name string, step int, u *OperatorUse) {
	s := x.of(name)
	s.all.add(u, 1)
	if step >= 0 {
		s.now.add(u, 1)
	}
}

// part takes a part of an operator. Parts inside another operator count for the outer one.
func (x *operators) part(p *operator.Part) error {
	if !x.all && !x.w.Selected() || p.Depth > 0 || p.Phase == operator.Inner || p.Name == "" {
		return nil
	}
	u := OperatorUse{HostNS: float64(p.To - p.From)}
	if p.Phase == operator.Two {
		u.Calls = 1
	}
	x.add(p.Name, x.w.StepNow(), &u)
	return nil
}

// task takes the task of a selected call.
func (x *operators) task(h *timeline.HostCall, k *timeline.Task) {
	for _, in := range k.Content.Operators() {
		if in.Name != "" {
			x.add(in.Name, h.During, &OperatorUse{Launches: float64(in.Count), InGraphs: float64(in.Count)})
			x.of(in.Name).unmeasured = true
		}
	}
	name := x.w.OperatorOf(k)
	if name == "" {
		return
	}
	u := OperatorUse{}
	if k.Kind == api.Kernel {
		u.Launches = 1
	}
	if k.Measured {
		u.DeviceNS = float64(k.To - k.From)
	} else {
		x.of(name).unmeasured = true
	}
	x.add(name, h.During, &u)
}

// step ends a step.
func (x *operators) step(typical bool) {
	if typical {
		x.steps++
	}
	for _, s := range x.byName {
		if typical {
			s.steps.add(&s.now, 1)
		}
		s.now = OperatorUse{}
	}
}

// use returns the sums of an operator, nil if it did not run.
func (x *operators) use(name string, bySteps bool) *OperatorUse {
	s := x.byName[name]
	if s == nil {
		return nil
	}
	u := s.all
	if bySteps {
		u = OperatorUse{}
		u.add(&s.steps, 1/x.steps)
	}
	if u.Measured = u.Launches > 0 && !s.unmeasured; !u.Measured {
		u.DeviceNS = 0
	}
	return &u
}

// operators compares the operators of both runs, if both have some.
func (d *Diff) operators(a, b *operators, bySteps bool) {
	if len(a.byName) == 0 || len(b.byName) == 0 {
		return
	}
	names := map[string]bool{}
	for _, x := range []*operators{a, b} {
		for name := range x.byName {
			names[name] = true
		}
	}
	count := func(x *operators, name string) uint64 {
		u := x.use(name, false)
		return uint64(cmp.Or(u.Calls, u.Launches, 1))
	}
	for name := range names {
		o, inA, inB := Operator{Name: name}, a.use(name, bySteps), b.use(name, bySteps)
		switch {
		case inA == nil:
			o.Only, o.B = OnlyInB, *inB
			d.New = append(d.New, Only{"operator", name, count(b, name)})
		case inB == nil:
			o.Only, o.A = OnlyInA, *inA
			d.Gone = append(d.Gone, Only{"operator", name, count(a, name)})
		default:
			o.A, o.B = *inA, *inB
		}
		if o.Only != "" || o.A != (OperatorUse{}) || o.B != (OperatorUse{}) { // otherwise it is not in steps
			d.Operators = append(d.Operators, o)
		}
	}
	slices.SortFunc(d.Operators, func(x, y Operator) int {
		return cmp.Or(-cmp.Compare(x.Only, y.Only), cmp.Compare(y.moved(), x.moved()), cmp.Compare(x.Name, y.Name))
	})
}

// moved returns the change of an operator's time: on the device if both runs have measured it, otherwise in its calls.
func (o *Operator) moved() float64 {
	if o.A.Measured && o.B.Measured {
		return math.Abs(o.B.DeviceNS - o.A.DeviceNS)
	}
	return math.Abs(o.B.HostNS - o.A.HostNS)
}

// Moved reports whether an operator is new or gone, or whether its calls, its launches or its time changed by the threshold, the time also by a hundredth of a
// step, or of the run without steps. Noise may move times.
func (d *Diff) Moved(o *Operator) bool {
	const least = 0.01
	whole := float64(d.A.SpanNS)
	if d.By == "steps" {
		whole = float64(d.A.Steps.P50NS)
	}
	by := func(a, b float64) bool { return math.Abs(b-a) > 0 && math.Abs(b-a) >= d.Threshold*a }
	return o.Only != "" || by(o.A.Calls, o.B.Calls) || by(o.A.Launches, o.B.Launches) ||
		o.moved() >= least*whole && (by(o.A.HostNS, o.B.HostNS) || o.A.Measured && o.B.Measured && by(o.A.DeviceNS, o.B.DeviceNS))
}
