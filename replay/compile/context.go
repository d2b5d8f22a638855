package compile

import (
	"slices"

	"github.com/acltrace/acltrace/replay/plan"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/timeline"
)

// contexts gives threads the contexts that no recorded call has made. The CUDA runtime is given a device's own context by a function
// without a name, and what a thread uses may have been made current in the same way.
type contexts struct {
	finds, selects *api.Func    // what answers with a device's own context, and what makes one current; nil where a model has none
	slots          map[int]slot // with the handle of the first device's, by thread
	current        map[int]bool // threads that have said which is current, or for which it was said
}

type slot = uint32

func newContexts(m *api.Model) contexts {
	c := contexts{slots: map[int]slot{}, current: map[int]bool{}}
	for i := range m.Funcs {
		f := &m.Funcs[i]
		switch {
		case f.Device >= 0 && len(f.Params) == 2 && f.Params[0].Role == api.Find && f.Params[0].Object == api.Context:
			c.finds = f
		case c.selects == nil && f.Selects == 0 && f.Words == 1 && f.Params[0].Role == api.Use && f.Params[0].Object == api.Context:
			c.selects = f
		}
	}
	return c
}

// ownContext is the first device's own context. Each thread asks for it itself, and so waits for no other.
func (p *callCompiler) ownContext() plan.Operand {
	s, ok := p.objects.contexts.slots[p.at.thread]
	if !ok {
		s = p.slot("the device's own context", nil)
		p.objects.contexts.slots[p.at.thread] = s
		p.aside(p.objects.contexts.finds, plan.Operand{Slot: plan.SlotSlots, Addend: 8 * uint64(s)}, imm(0))
	}
	return plan.Operand{Slot: s}
}

// settle makes the device's own context current to a thread that uses a context without having said which.
func (p *callCompiler) settle() {
	switch c := &p.objects.contexts; {
	case c.finds == nil || c.selects == nil || !p.ok || c.current[p.at.thread]:
	case p.f.Selects >= 0:
		c.current[p.at.thread] = true
	case p.usesContext():
		c.current[p.at.thread] = true
		p.aside(c.selects, p.ownContext())
	}
}

// usesContext reports whether the call at hand could not have been made, or not have had its answer, without a current context.
func (p *callCompiler) usesContext() bool {
	if p.f.Task != api.NoTask || p.f.Sync == api.SyncDevice {
		return true
	}
	return p.f != p.objects.contexts.finds && slices.ContainsFunc(p.e.Uses, func(u timeline.Use) bool {
		if u.Param < 0 || u.Param >= len(p.f.Params) {
			return false
		}
		switch q := &p.f.Params[u.Param]; q.Role {
		case api.New:
			return q.Object == api.Device || q.Object == api.Stream || q.Object == api.Event
		case api.Find:
			return q.Object == api.Context
		}
		return false
	})
}

// aside is a call of the player's own, before the one at hand.
func (p *callCompiler) aside(f *api.Func, ops ...plan.Operand) {
	p.before = append(p.before, plan.Instruction{Op: plan.OpCall, Flags: plan.InstAside, Fn: p.Function(f), Words: f.Words, Call: p.c.Index, Bits: 32, Operands: p.Operands(ops...)})
}
