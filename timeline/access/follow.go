package access

import (
	"fmt"
	"maps"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline"
)

// Follow makes the Tracker track the content of device memory, for DevArgs. It must be called before the first call. It does nothing if no
// call of the trace has arguments in device memory. Otherwise it reads the trace, several times if needed, to find the launches whose arguments a
// later call may overwrite too early.
func (t *Tracker) Follow() error {
	m := t.s.Model()
	needed, err := timeline.Has(t.r, m, func(f *api.Func) bool {
		return slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Role == api.DevArgs })
	})
	if err != nil || !needed {
		return err
	}
	late, err := t.r.DataByCall(&format.DataFilter{Late: true}, func(d *format.Data) bool {
		return d.Dir == format.DirIn && d.Status == format.Whole && d.Len <= maxShadow
	})
	if err != nil {
		return err
	}
	spoiled := map[uint64]uint64{}
	// Spoiled arguments are unknown, and a launch with unknown arguments may write anything. So a pass may find more spoiled calls.
	for range maxPasses {
		pass := New(timeline.NewState(m), t.r)
		pass.shadow = newShadow(pass.s, t.r, late, spoiled)
		for c, err := range t.r.CallsByStart(nil) {
			if err != nil {
				return err
			}
			pass.Apply(t.r.ProcessOf(c.Thread), c)
		}
		before := len(spoiled)
		maps.Copy(pass.shadow.found, spoiled)
		if spoiled = pass.shadow.found; len(spoiled) == before {
			t.shadow = newShadow(t.s, t.r, late, spoiled)
			return nil
		}
	}
	t.shadow = newShadow(t.s, t.r, late, spoiled)
	t.shadow.unseen = "too many calls may have overwritten arguments of others"
	return nil
}

// maxPasses bounds how often Follow reads the trace.
const maxPasses = 8

// Follows reports whether the Tracker tracks the content of device memory. Then it needs every call of the trace.
func (t *Tracker) Follows() bool { return t.shadow != nil }

// DevArgs returns the arguments that the call applied last has in device memory, or why they are unknown. They are unknown without Follow.
func (t *Tracker) DevArgs(e *timeline.Event) (bytes []byte, known bool, why string) {
	if t.shadow == nil || e != t.shadow.e {
		return nil, false, "device memory was not followed"
	}
	return t.shadow.bytes, t.shadow.known, t.shadow.why
}

func newShadow(s *timeline.State, r *format.Reader, late map[uint64][]format.Data, spoiled map[uint64]uint64) *shadow {
	sh := &shadow{
		s: s, r: r, spoiled: spoiled, procs: map[uint32]*process{}, found: map[uint64]uint64{},
		accesses: newTracker(s, r, late, 4),
	}
	sh.accesses.shadow = sh
	for name, n := range r.Meta().Coverage.PassedBy {
		if f := s.Model().Lookup(name); n > 0 && f != nil && slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Object == api.Stream }) {
			sh.unseen = name + " was called and is not in the trace"
		}
	}
	if n := r.Meta().Coverage.Refused; n > 0 {
		sh.unseen = fmt.Sprintf("%d threads were not recorded", n)
	}
	return sh
}
