package compile

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/replay/plan"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/timeline"
)

// A Plan is a trace compiled for the player, with the findings for the report.
type Plan struct {
	File  *plan.File // the player's input
	Model *api.Model
	Found Findings

	// Threads are the captured threads, grouped by process.
	Threads []Thread
	Streams []Stream
	Files   []File // written for calls that read files, in call order

	Scale   float64 // factor for recorded times, 0 if they are not kept
	UntilNS uint64  // longest polling time

	// Env are variables that the player's processes set before they load the library, by name. Each value has the maximum length among
	// the processes.
	Env map[string]string

	procs []planned
	slots []slotInfo
}

// A Stream is a lane that calls name.
type Stream struct {
	Name string
	Lane timeline.LaneKey
}

// planned is a captured process in the plan.
type planned struct {
	process      uint32 // index into the trace's processes
	first, count int    // in Plan.Threads
	pid          int
	forked       bool // by plan.OpFork
	begun        bool // its first call is compiled
}

// slotInfo describes a slot.
type slotInfo struct {
	what   string
	object *timeline.Object
}

// File is a file that the compiler wrote for a call.
type File struct {
	Name string // in the replay's folder
	Hash string // SHA-256
}

// Close closes the plan's file. Its findings stay readable.
func (p *Plan) Close() { _ = p.File.Close() }

// MissingFunctions returns findings about functions that a library lacks.
func (p *Plan) MissingFunctions(names []string) []Unsupported {
	us := make([]Unsupported, len(names))
	for i, n := range names {
		us[i] = Unsupported{Func: n, Reason: "the library does not have it"}
	}
	for t := range p.Threads {
		for _, in := range p.File.Instructions(t) {
			if !in.Calls() {
				continue
			}
			if i := slices.Index(names, p.File.Funcs[in.Fn].Name); i >= 0 {
				if u := &us[i]; u.Calls == 0 || in.Call < u.Call {
					u.Call = in.Call
				}
				us[i].Calls++
			}
		}
	}
	return us
}

// Print writes the plan as text: its requirements, and every instruction. Each Write to w is one line, which the caller escapes, since it
// contains recorded names.
func (p *Plan) Print(w io.Writer) error {
	var err error
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format, args...)
		}
	}
	f := p.File
	line("plan: %s, %s, %s, %s, %s, %s data, %s scratch\n", human.Plural(p.Found.Calls, "call"), human.Plural(f.Count(), "instruction"),
		human.Plural(len(p.Threads), "thread"), human.Plural(len(f.Funcs), "function"), human.Plural(len(p.slots), "slot"), human.Bytes(f.Header.Data), human.Bytes(f.Header.Scratch))
	for _, l := range []struct {
		name  string
		calls []Unsupported
	}{{"unsupported", p.Found.Unsupported}, {"left out", p.Found.LeftOut}, {"absent", p.Found.Absent}} {
		for _, u := range l.calls {
			line("%s: %s\n", l.name, &u)
		}
	}
	for _, s := range p.Found.Substituted {
		line("substituted: call %d %s, parameter %s: %s: %s\n", s.Call, s.Func, s.Param, human.Bytes(s.Bytes), s.Reason)
	}
	for _, u := range p.Found.Unverified {
		line("unverified: %s\n", &u)
	}
	var b bytes.Buffer
	for t := range p.Threads {
		line("thread %d\n", p.Threads[t].thread)
		first := -1
		for i, in := range f.Instructions(t) {
			if first < 0 {
				first = i
			}
			b.Reset()
			p.printInstruction(&b, i-first, in)
			line("%s", b.Bytes())
		}
	}
	return err
}

func (p *Plan) printInstruction(w io.Writer, n int, in *plan.Instruction) {
	fmt.Fprintf(w, "%7d  %-5s  call %-6d ", n, plan.OpNames[in.Op], in.Call)
	op := func(k int) string { return p.operandText(p.File.Operand(in, k)) }
	switch in.Op {
	case plan.OpCall, plan.OpUntil:
		f := p.File.Funcs[in.Fn]
		var args []string
		for i := range f.Params {
			var ws []string
			for k := range f.Params[i].Words {
				ws = append(ws, op(int(f.Params[i].Word+k)))
			}
			args = append(args, f.Params[i].Name+"="+strings.Join(ws, ","))
		}
		fmt.Fprintf(w, "%s(%s)", f.Name, strings.Join(args, ", "))
		if in.Op == plan.OpUntil && in.Width > 0 {
			fmt.Fprintf(w, " until %s is %d", op(int(in.Words)), in.Len)
		}
		if in.RetSlot != 0 {
			fmt.Fprintf(w, " -> slot %d", in.RetSlot)
		}
		if in.Bits != 0 {
			fmt.Fprintf(w, " = %s", Returned(f, p.Model, in.Want))
		}
	case plan.OpStore, plan.OpCheck:
		fmt.Fprintf(w, "%s, %d bytes", op(0), in.Len)
		if in.Width != in.Len {
			fmt.Fprintf(w, " in rows of %d at distance %d", in.Width, p.File.Operand(in, 2).Addend)
		}
		fmt.Fprintf(w, " with %s", op(1))
	case plan.OpTake:
		fmt.Fprintf(w, "%s with descriptor %s from process %s", op(0), op(2), op(1))
	case plan.OpMark:
		fmt.Fprintf(w, "%s, %d bytes: %s", op(0), in.Len, verify.ByCode(in.Bits))
	case plan.OpFork:
		fmt.Fprintf(w, "process %d", p.procs[in.Fn].pid)
	case plan.OpPlace:
		fmt.Fprintf(w, "%s", op(0))
	case plan.OpWait:
		fmt.Fprintf(w, "thread %d, instruction %d", p.Threads[in.Fn].thread, in.At)
	}
	if rs := p.File.Relocs(in); len(rs) > 0 {
		fmt.Fprintf(w, "  [")
		for i, r := range rs {
			if i == 8 {
				fmt.Fprintf(w, " and %d more", len(rs)-i)
				break
			}
			if i > 0 {
				fmt.Fprintf(w, " ")
			}
			fmt.Fprintf(w, "data+%#x:%s", r.At, p.operandText(plan.Operand{Addend: r.Addend, Slot: r.Slot}))
		}
		fmt.Fprintf(w, "]")
	}
	fmt.Fprintf(w, "\n")
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

// Returned returns the text for a returned value.
func Returned(f *api.Func, m *api.Model, v uint64) string {
	if f.RetError {
		return m.ErrorName(int64(int32(v)))
	}
	return fmt.Sprintf("%#x", v)
}
