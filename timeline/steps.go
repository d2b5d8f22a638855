package timeline

import (
	"hash/maphash"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/step"
)

// stepState finds the steps of a Walk.
type stepState struct {
	*step.Finder           // nil if no steps are needed, or if there are none
	none         step.Rule // the StepRule without a Finder
	hashes       nameHashes
}

// FindSteps determines the step rule from the beginning of the trace, so that Run reports steps. It reads up to half a million calls, or eight
// times as many if it finds none.
func (w *Walk) FindSteps() error {
	l := NewWalk(w.Reader, w.Model, nil)
	l.o.Untimed = true
	learner := step.NewLearner(l.stepLanes, l.Calls)
	err := l.Run(&Visitor{
		Call: func(h *HostCall, k *Task) error {
			if c := l.captured(h); c != nil {
				learner.Captured(c)
			}
			if op, ok := l.opOf(h, k); ok && !learner.Op(op) {
				return ErrEnough
			}
			return nil
		},
		Range: func(r *Range) error {
			if named := rangeOfSteps(r); named != nil {
				learner.Range(named)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	if rule := learner.Rule(); rule.Source != step.None {
		w.steps.Finder = step.New(rule)
	} else {
		w.steps.none = *rule
	}
	return nil
}

// StepNow returns the index of the step in which the current call begins, before the call itself begins or ends one; -1 for none.
func (w *Walk) StepNow() int {
	if w.steps.Finder == nil {
		return -1
	}
	return w.steps.At()
}

func (w *Walk) stepLanes() []step.Lane {
	lanes := make([]step.Lane, len(w.Lanes))
	for i := range w.Lanes {
		lanes[i] = step.Lane{Process: w.Lanes[i].Process, Name: w.Lanes[i].Name}
	}
	return lanes
}

// seeStep passes a call to the step finder.
func (w *Walk) seeStep(e *Event, h *HostCall, task *Task, named *Range) {
	if w.steps.Counts() {
		name := ""
		if e.Fn != nil && e.Fn.Range != api.NoRange {
			name = e.name()
		}
		w.steps.Count(w.Model, e.Process, e.Fn, e.Call, name)
		return
	}
	if c := w.captured(h); c != nil {
		w.steps.Captured(c)
	}
	var op *step.Op
	if o, ok := w.opOf(h, task); ok {
		op = &o
	}
	w.steps.See(op, rangeOfSteps(named))
}

// passSteps reports the steps that have ended by now.
func (w *Walk) passSteps(now int64) error {
	for {
		s := w.steps.Pass(now)
		if s == nil {
			return nil
		}
		if w.v.Step == nil {
			continue
		}
		if s.Unrecorded = s.Unrecorded && w.unrecorded(s); s.Unrecorded {
			s.Typical = false
		}
		if w.now.selected = w.sel.all || w.sel.step(s); !w.now.selected && !w.v.All {
			continue
		}
		if err := w.v.Step(s); err != nil {
			return err
		}
	}
}

// unrecorded reports whether a step is in a period of which the trace lacks calls because nobody asked for them. A LiveWalk has no trace, and sees all calls.
func (w *Walk) unrecorded(s *step.Step) bool {
	return w.Reader != nil && slices.ContainsFunc(w.Reader.Gaps(), func(g format.Gap) bool { return g.Reason == format.Detached && g.From < s.To && s.From < g.To })
}

// Names are compared within one run of this program only.
var nameSeed = maphash.MakeSeed()

// nameHashes has the hashes of names that came lately.
type nameHashes [256]struct {
	name string
	hash uint64
}

func (n *nameHashes) of(name string) uint64 {
	at := uint(len(name))
	if at > 0 {
		at = (at*31+uint(name[at/2]))*31 + uint(name[at-1])
	}
	recent := &n[at%uint(len(n))]
	if recent.name != name || name == "" {
		recent.name, recent.hash = name, maphash.String(nameSeed, name)
	}
	return recent.hash
}

// opOf returns the step.Op of the current call, false if steps do not depend on the call.
func (w *Walk) opOf(h *HostCall, k *Task) (step.Op, bool) {
	s := &w.steps
	op := step.Op{Start: h.Start, End: h.End, Thread: h.Thread, Process: w.now.event.Process, Device: NoDevice}
	switch {
	case k != nil:
		op.Lane, op.Device, op.Host = int32(k.Lane), int32(w.Lanes[k.Lane].Device), k.Fn.Stream < 0
		switch {
		case k.Kind == api.Kernel || k.Kind == api.GraphRun:
			op.Class, op.Launches = step.Launch, 1
		case k.Kind == api.Copy && k.Name == copyNames["HtoD"]:
			op.Class = step.CopyIn
		case k.Kind == api.Copy && k.Name == copyNames["DtoH"]:
			op.Class = step.CopyOut
		}
		op.What = s.hashes.of(k.Name)
		if k.Kind == api.GraphRun {
			op.Launches = k.Content.launches()
			if k.Content != nil {
				op.What = step.Mix(op.What, uint64(k.Content.role))
			}
		}
	case h.Fn != nil && step.Waits(h.Fn) && !h.Failed() && h.Flags&format.Unfinished == 0:
		op.Class, op.What, op.Lane = step.Sync, s.hashes.of(h.Name), w.waitedLane(h)
		op.Event = h.Fn.Sync == api.SyncEvent
		if h.Fn.Sync == api.SyncDevice {
			op.Device = h.Waits
		}
	default:
		return op, false
	}
	return op, true
}

// waitedLane returns the lane that a synchronization waits for.
func (w *Walk) waitedLane(h *HostCall) int32 {
	switch h.Fn.Sync {
	case api.SyncStream:
		return h.Waits
	case api.SyncEvent:
		for i := range w.queue.order.edges {
			return int32(w.queue.order.edges[i].Before.Lane)
		}
	}
	return step.AllLanes
}

// rangeOfSteps returns a range that may mark a step, nil if r is nil or a moment.
func rangeOfSteps(r *Range) *step.Range {
	if r == nil || r.Mark {
		return nil
	}
	return &step.Range{Process: r.Process, Domain: r.Domain, Name: r.Name, From: r.From, To: r.To, Begin: r.Begin, EndThread: r.EndThread}
}

// captured returns the capture that a call has ended, nil if it ended none.
func (w *Walk) captured(h *HostCall) *step.Capture {
	if h.Fn == nil || h.Fn.Capture != api.CaptureEnd || !w.now.event.OK() {
		return nil
	}
	g := w.graphs.Known(w.now.event.Object(api.Graph))
	if g == nil {
		return nil
	}
	c := &step.Capture{Process: w.now.event.Process}
	g.Running(func(t *Task) {
		if t.Kind == api.Kernel {
			c.Kernels = append(c.Kernels, w.steps.hashes.of(t.Name))
		}
	})
	return c
}
