package compile

import (
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/timeline"
)

// ownContext returns the first device's primary context. Each thread obtains it by a call of its own, so that it waits for no other
// thread.
func (p *callCompiler) ownContext() plan.Operand {
	s, ok := p.objects.contexts.slots[p.at.thread]
	if !ok {
		s = p.slot("the device's own context", nil)
		p.objects.contexts.slots[p.at.thread] = s
		p.before = append(p.before, p.aside(p.objects.contexts.finds, slotAddress(s), imm(0)))
	}
	return plan.Operand{Slot: s}
}

// settle makes the primary context current in a thread that uses a context without a recorded selection.
func (p *callCompiler) settle() {
	switch c := &p.objects.contexts; {
	case c.finds == nil || c.selects == nil || !p.ok || c.current[p.at.thread]:
	case p.f.Selects >= 0:
		c.current[p.at.thread] = true
	case p.usesContext():
		c.current[p.at.thread] = true
		context := p.ownContext()
		p.before = append(p.before, p.aside(c.selects, context))
	}
}

// usesContext reports whether the current call needs a current context.
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

// aside returns a player's own call, to be made before or after the current call.
func (p *callCompiler) aside(f *api.Func, ops ...plan.Operand) plan.Instruction {
	return plan.Instruction{Op: plan.OpCall, Flags: plan.InstAside, Fn: p.Function(f), Words: f.Words, Call: p.c.Index, Bits: 32, Operands: p.Operands(ops...)}
}

// aliased returns the allocation that contains a registration, and the offset in it. Other objects are returned unchanged.
func aliased(o *timeline.Object, off uint64) (*timeline.Object, uint64) {
	if o != nil && o.Kind == api.Registered && o.Parent != nil {
		return o.Parent, off + o.Handle - o.Parent.Handle
	}
	return o, off
}

// object returns the operand for an object's handle.
func (p *callCompiler) object(o *timeline.Object) plan.Operand {
	if op, ok := p.objects.operands.Get(o); ok {
		return op
	}
	if op, ok := p.shareable(o); ok {
		return op
	}
	// Pass a destroyed object's handle, for the same error.
	if op, ok := p.objects.former[objectKey{o.Process, o.Kind, o.Handle}]; ok && !p.ok {
		return op
	}
	if o.Kind == api.Context && p.objects.contexts.finds != nil && p.ok {
		return p.ownContext()
	}
	p.refuse("its %s %#x is older than the trace, or was made by a call that can't be replayed", o.Kind, o.Handle)
	return imm(o.Handle)
}

func (p *callCompiler) handle(i int, w uint64) (plan.Operand, error) {
	if p.constant(p.f.Params[i].Object, w) {
		return imm(w), nil
	}
	u, ok := p.e.Use(i)
	switch {
	case ok && u.Object.Kind == api.Descriptor && p.ok:
		return p.descriptor(w), nil
	case ok:
		op := p.object(u.Object)
		if p.f.Params[i].Role == api.Launch {
			if err := p.fillBuffers(i, u.Object); err != nil {
				return op, err
			}
		}
		return op, nil
	}
	// The program freed memory that is not live.
	if op, ok := p.objects.former[objectKey{p.owner(), p.f.Params[i].Object, w}]; ok {
		return op, nil
	}
	p.refuse("no call in the trace makes its parameter %s, %#x", p.f.Params[i].Name, w)
	return imm(w), nil
}
