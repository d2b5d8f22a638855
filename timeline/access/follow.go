package access

import (
	"fmt"
	"maps"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
	"github.com/acltrace/acltrace/timeline/order"
)

// follow makes the tracker track the content of device memory if calls have arguments there.
func (t *tracker) follow() error {
	m := t.State.Model()
	needed, err := timeline.Has(t.r, m, func(f *api.Func) bool {
		return slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Role == api.DevArgs })
	})
	if err != nil || !needed {
		return err
	}
	if t.late == nil {
		t.late, err = t.r.DataByCall(&format.DataFilter{Late: true}, func(d *format.Data) bool {
			return d.Dir == format.DirIn && d.Status == format.Whole && d.Len <= maxShadow
		})
		if err != nil {
			return err
		}
	}
	spoiled := map[uint64]uint64{}
	// Spoiled arguments are unknown, and a launch with unknown arguments may write anything. So a pass may find more spoiled calls.
	for range maxPasses {
		pass := newTracker(timeline.NewState(m), t.r, t.late)
		pass.shadow = newShadow(&pass, spoiled)
		for c, err := range t.r.CallsByStart(nil) {
			if err != nil {
				return err
			}
			pass.apply(t.r.ProcessOf(c.Thread), c)
		}
		before := len(spoiled)
		maps.Copy(pass.shadow.found, spoiled)
		if spoiled = pass.shadow.found; len(spoiled) == before {
			t.shadow = newShadow(t, spoiled)
			return nil
		}
	}
	t.shadow = newShadow(t, spoiled)
	t.shadow.unseen = "too many calls may have overwritten arguments of others"
	return nil
}

// maxPasses bounds how often follow reads the trace.
const maxPasses = 8

// Follows reports whether Calls follows the content of device memory. Then it needs every call of the trace.
func (t *tracker) Follows() bool { return t.shadow != nil }

// DevArgs returns the arguments that the call applied last has in device memory, or why they are unknown.
func (t *tracker) DevArgs() (bytes []byte, known bool, why string) {
	if t.shadow == nil {
		return nil, false, noDevArgs
	}
	return t.shadow.args, t.shadow.known, t.shadow.why
}

func newShadow(t *tracker, spoiled map[uint64]uint64) *shadow {
	sh := &shadow{tracker: t, order: order.New[*timeline.Object, struct{}](), lanes: map[timeline.LaneKey]int{}, spoiled: spoiled, procs: map[uint32]*process{}, found: map[uint64]uint64{}}
	sh.order.Clocks = true
	for name, n := range t.r.Meta().Coverage.PassedBy {
		if f := t.State.Model().Lookup(name); n > 0 && f != nil && slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Object == api.Stream }) {
			sh.unseen = name + " was called and is not in the trace"
		}
	}
	if n := t.r.Meta().Coverage.Refused; n > 0 {
		sh.unseen = fmt.Sprintf("%d threads were not recorded", n)
	}
	return sh
}
