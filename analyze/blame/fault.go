package blame

import (
	"slices"

	faults "github.com/acltrace/acltrace/analyze/graphs"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// graphFaults checks the captured graphs up to the failure.
func (b *blamer) graphFaults() error {
	w := timeline.NewWalk(b.r, b.m, &timeline.WalkOptions{Untimed: true})
	x, err := faults.New(w)
	if err != nil || x == nil {
		return err
	}
	err = w.Run(&timeline.Visitor{Call: func(h *timeline.HostCall, k *timeline.Task) error {
		if b.failure != nil && h.Start > b.until {
			return timeline.ErrEnough
		}
		return x.Call(h, k)
	}})
	b.rep.Faults = x.Findings()
	return err
}

// faulty returns the faults of the graph that a suspect runs.
func (b *blamer) faulty(x *Suspect) (of []faults.Finding) {
	for _, f := range b.rep.Faults {
		if x.graph != "" && f.Graph == x.graph && f.Kind != faults.CapturedStreams {
			of = append(of, f)
		}
	}
	return of
}

// unexplained drops the faults of graphs that are no hints, since other evidence explains the failure. Faults that took the streams stay for a call
// that needs one.
func (b *blamer) unexplained() {
	if b.failure == nil {
		return
	}
	known := b.rep.Cause != nil || b.rep.Capture != nil || len(b.rep.Suspects) > 0 && !b.rep.Suspects[0].Unlikely()
	streams := takesStream(b.m.Func(api.ID(b.failure.Func)))
	b.rep.Faults = slices.DeleteFunc(b.rep.Faults, func(f faults.Finding) bool { return known && !(streams && f.Kind == faults.CapturedStreams) })
}

// takesStream reports whether a call may fail because a device has no stream left.
func takesStream(f *api.Func) bool {
	return f != nil && (f.Capture != api.NoCapture || slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Role == api.New && p.Object == api.Stream }))
}
