package replay

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/report"
)

// Print writes the plan for people: what it needs, and every instruction of every thread.
func (p *Plan) Print(w io.Writer) error {
	b, f := bufio.NewWriter(w), p.written
	report.Printf(b, "plan: %d calls, %d instructions, %d threads, %d functions, %d slots, %d bytes of data, %d of scratch\n",
		p.found.calls, f.Header.Instructions.Count, len(p.threads), len(f.Funcs), len(p.slots), f.Header.Data, f.Header.Scratch)
	for _, u := range p.found.unsupported {
		report.Printf(b, "unsupported: %s\n", &u)
	}
	for _, u := range p.found.leftOut {
		report.Printf(b, "left out: %s\n", &u)
	}
	for _, u := range p.found.absent {
		report.Printf(b, "absent: %s\n", &u)
	}
	for _, s := range p.found.substituted {
		report.Printf(b, "substituted: call %d %s, parameter %s: %d bytes: %s\n", s.Call, s.Func, s.Param, s.Bytes, s.Reason)
	}
	for _, u := range p.found.unverified {
		report.Printf(b, "unverified: %s\n", &u)
	}
	for t := range p.threads {
		report.Printf(b, "thread %d\n", p.threads[t].thread)
		first := -1
		for i, in := range f.Instructions(t) {
			if first < 0 {
				first = i
			}
			p.printInstruction(b, i-first, in)
		}
	}
	return b.Flush()
}

func (p *Plan) printInstruction(w io.Writer, n int, in *plan.Instruction) {
	report.Printf(w, "%7d  %-5s  call %-6d ", n, plan.OpNames[in.Op], in.Call)
	op := func(i uint32) string { return p.operandText(p.written.Operand(in.Operands + i)) }
	switch in.Op {
	case plan.OpCall, plan.OpUntil:
		f := p.written.Funcs[in.Fn]
		var args []string
		for i := range f.Params {
			var ws []string
			for k := range f.Params[i].Words {
				ws = append(ws, op(uint32(f.Params[i].Word+k)))
			}
			args = append(args, f.Params[i].Name+"="+strings.Join(ws, ","))
		}
		report.Printf(w, "%s(%s)", f.Name, strings.Join(args, ", "))
		if in.Op == plan.OpUntil && in.Width > 0 {
			report.Printf(w, " until %s is %d", op(uint32(in.Words)), in.Len)
		}
		if in.RetSlot != 0 {
			report.Printf(w, " -> slot %d", in.RetSlot)
		}
		if in.Bits != 0 {
			report.Printf(w, " = %s", returned(f, p.model, in.Want))
		}
	case plan.OpStore, plan.OpCheck:
		report.Printf(w, "%s, %d bytes", op(0), in.Len)
		if in.Width != in.Len {
			report.Printf(w, " in rows of %d at distance %d", in.Width, p.written.Operand(in.Operands+2).Addend)
		}
		report.Printf(w, " with %s", op(1))
	case plan.OpTake:
		report.Printf(w, "%s with descriptor %s of process %s", op(0), op(2), op(1))
	case plan.OpMark:
		report.Printf(w, "%s, %d bytes: %s", op(0), in.Len, verify.ByCode(in.Bits))
	case plan.OpFork:
		report.Printf(w, "process %d", p.procs[in.Fn].pid)
	case plan.OpPlace:
		report.Printf(w, "%s", op(0))
	case plan.OpWait:
		report.Printf(w, "thread %d, instruction %d", p.threads[in.Fn].thread, in.Want)
	}
	if in.NRelocs > 0 {
		report.Printf(w, "  [")
		for i, r := range p.written.Relocs(in) {
			if i == 8 {
				report.Printf(w, " and %d more", int(in.NRelocs)-i)
				break
			}
			if i > 0 {
				report.Printf(w, " ")
			}
			report.Printf(w, "data+%#x:%s", r.At, p.operandText(plan.Operand{Addend: r.Addend, Slot: r.Slot}))
		}
		report.Printf(w, "]")
	}
	report.Printf(w, "\n")
}

func (p *Plan) operandText(o plan.Operand) string {
	plus := ""
	if o.Addend != 0 {
		plus = fmt.Sprintf("+%#x", o.Addend)
	}
	switch {
	case o.Slot == plan.SlotZero:
		return fmt.Sprintf("%#x", o.Addend)
	case o.Slot == plan.SlotSlots:
		return fmt.Sprintf("&slot %d", o.Addend/8)
	}
	return p.slots[o.Slot].what + plus
}

// returned is the text of a returned value.
func returned(f *api.Func, m *api.Model, v uint64) string {
	if f.RetError {
		return m.ErrorName(int64(int32(v)))
	}
	return fmt.Sprintf("%#x", v)
}
