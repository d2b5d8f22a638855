package compile

import (
	"github.com/acltrace/acltrace/api"

	"github.com/acltrace/acltrace/replay/plan"
)

// poisons are the bytes that Options.Poison fills new device memory with, in turn.
var Poisons = [...]byte{0xa5, 0x5a}

// poison fills the device memory that the current call has allocated, on the stream of the call if it has one. Memory that the host can
// access without a call and mapped physical memory stay as they are.
func (p *callCompiler) poison() {
	if !p.o.Poison || !p.ok {
		return
	}
	f, value := p.Model.Fill(p.f.Stream >= 0)
	if f == nil {
		return
	}
	for _, u := range p.e.Uses {
		o := u.Object
		if o.Created != p.c.Index || o.Kind != api.Device || o.Hosted || o.Parent != nil || o.Size == 0 || u.Param < 0 || u.Param >= len(p.f.Params) || p.f.Params[u.Param].Role != api.New {
			continue
		}
		ops := make([]plan.Operand, f.Words)
		for k := range f.Params {
			switch q := &f.Params[k]; {
			case q.Role == api.Fills:
				ops[q.Word] = p.objects.operands[o]
			case k == value:
				ops[q.Word] = plan.Operand{Slot: plan.SlotPoison}
			case k == int(f.Stream):
				if s, ok := p.e.Use(int(p.f.Stream)); ok {
					ops[q.Word] = p.object(s.Object)
				}
			default:
				ops[q.Word] = imm(o.Size)
			}
		}
		p.after = append(p.after, plan.Instruction{Op: plan.OpCall, Flags: plan.InstAside, Fn: p.Function(f), Words: f.Words, Call: p.c.Index, Bits: 32, Operands: p.Operands(ops...)})
	}
}
