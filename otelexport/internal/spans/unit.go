package spans

import (
	"cmp"
	"slices"

	"github.com/acltrace/acltrace/analyze/path"
	"github.com/acltrace/acltrace/otelexport/internal/otlp"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/step"
)

// A Unit is a step or request with its calls, from a recording in progress.
type Unit struct {
	Request otlp.Parent // the request's parent; zero for a step
	Why     string      // sampled attribute
	Step    step.Step
	Calls   []Call
}

// A Call is a call with its task, the range that it begins, and its facts from Observe. Task and Named may be nil.
type Call struct {
	timeline.HostCall
	Task  *timeline.Task
	Named *timeline.Range
	Facts Facts
}

// Unit encodes a unit whose tasks have ended. It returns the batches and the last trace id.
func (x *Encoder) Unit(u *Unit) (batches []*otlp.Batch, last otlp.TraceID, err error) {
	x.out.sink = func(b *otlp.Batch) (*otlp.Batch, error) {
		batches = append(batches, b)
		return &otlp.Batch{}, nil
	}
	recording, inherited := x.parts.origin, x.parts.inherited
	defer func() { x.parts.current, x.parts.origin, x.parts.inherited = nil, recording, inherited }()
	isRequest := u.Request.Id != 0
	if !isRequest {
		x.path = path.NewFinder(x.src.w)
		defer func() { x.path = nil }()
	}
	x.parts.origin.why = u.Why
	if isRequest {
		x.parts.origin.parent, x.parts.origin.title, x.parts.inherited = u.Request, "request", 0
	}
	x.parts.current, x.out.err = nil, nil
	var tasks []*timeline.Task
	for i := range u.Calls {
		k := &u.Calls[i]
		k.During = u.Step.Index
		if x.named = nil; k.Named != nil {
			x.named = &named{Range: *k.Named}
		}
		if k.Task != nil {
			tasks = append(tasks, k.Task)
		}
		if err := x.call(&k.HostCall, k.Task, k.Facts); err != nil {
			return batches, last, err
		}
	}
	slices.SortFunc(tasks, func(a, b *timeline.Task) int { return cmp.Compare(a.Index, b.Index) })
	for _, t := range tasks {
		if err := x.task(t); err != nil {
			return batches, last, err
		}
	}
	if err := x.stepEnded(&u.Step); err != nil {
		return batches, last, err
	}
	if p := x.parts.current; p != nil {
		last = p.Trace
		x.close(p)
		if p.inherits && !isRequest {
			inherited = x.parts.inherited + min(p.spans(), x.o.MaxSpans)
		}
	}
	x.out.flush()
	return batches, last, x.out.err
}
