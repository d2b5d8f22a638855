package compile

import (
	"fmt"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// identity returns the slot for a thread's pthread_t, processID the slot for a process id.
func (p *Plan) identity(thread int) uint32 { return uint32(plan.SlotThreads + len(p.Threads) + thread) }

// ownSlot returns the slot for the address of the data that a thread's current call uses.
func (p *Plan) ownSlot(thread int) uint32 { return plan.OwnSlot(len(p.Threads), len(p.procs), thread) }

func (p *Plan) processID(proc int) uint32 { return uint32(plan.SlotThreads + 2*len(p.Threads) + proc) }

// newSlot makes a slot for a new object's handle or address.
func (p *compiler) newSlot(o *timeline.Object) uint32 {
	s := p.slot(fmt.Sprintf("%s %d", o.Kind, o.ID), o)
	p.bind(o, plan.Operand{Slot: s})
	return s
}

func (p *compiler) bind(o *timeline.Object, op plan.Operand) {
	p.launches.bound++
	p.objects.operands.Set(o, op)
	p.objects.former[objectKey{o.Process, o.Kind, o.Handle}] = op
}

// constant reports whether a handle is zero, or a constant that no call makes.
func (p *compiler) constant(kind api.Object, w uint64) bool {
	return w == 0 || kind == api.Stream && w <= p.Model.Constants
}

// owner returns the process that makes the call.
func (p *callCompiler) owner() uint32 { return p.e.Process }

// slotAddress returns the operand for a slot's address.
func slotAddress(slot uint32) plan.Operand {
	return plan.Operand{Slot: plan.SlotSlots, Addend: 8 * uint64(slot)}
}

// put adds data to the plan, and returns the operand for its address.
func (p *compiler) put(b []byte) (plan.Operand, error) {
	at, err := p.Put(b)
	return plan.Operand{Slot: plan.SlotData, Addend: at}, err
}

func imm(v uint64) plan.Operand { return plan.Operand{Addend: v} }

func (p *callCompiler) stored(param int) (uint64, bool) {
	for _, o := range p.c.Outs {
		if int(o.Param) == param {
			return o.Value, true
		}
	}
	return 0, false
}

func (p *callCompiler) unverified(code verify.Reason, reason string) {
	p.Found.Unverified = AddUnverified(p.Found.Unverified, p.c.Index, code, reason)
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// slot makes a new slot.
func (p *Plan) slot(what string, o *timeline.Object) uint32 {
	p.slots = append(p.slots, slotInfo{what, o})
	return uint32(len(p.slots) - 1)
}
