package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/operand"
	"github.com/acltrace/acltrace/timeline/operator"
)

// operators has the operators of a State, and their names.
type operators struct {
	operator.Operators
	names    texts
	named    hashed
	operands operand.Operands
	shapes   texts // of launches, if they are wanted
	wanted   bool
}

// call takes a call that is no mark, and returns the operator that it is in, "" for none.
func (o *operators) call(f *api.Func, c *format.Call, process uint32) (in string, phase operator.Phase, shapes int32) {
	o.Call(c.Thread, f, c.End)
	p := o.Outermost(c.Thread)
	switch {
	case p != nil:
		return p.Name, p.Phase, p.Operands
	case f.Operand != api.NoOperand && o.wanted:
		if k := o.operands.Call(f, c, process); k.Text != 0 {
			o.Keep(process, c.Thread, c.Ret, k.Operator, k.Text)
		}
	}
	return "", 0, 0
}

// mark takes a mark, and returns the part that begins with it, nil for none, and the operator that it is in, which it may end.
func (o *operators) mark(f *api.Func, c *format.Call, process uint32, name []byte) (begun *operator.Part, in string, phase operator.Phase) {
	in, phase = o.outermost(c.Thread)
	m := markOf(f, c, process)
	before := len(o.names.list)
	if m.Name = o.names.of(name); len(o.names.list) > before {
		o.named.add(m.Name)
	}
	if in == "" && o.wanted && (m.Kind == api.OperatorPhaseOne || m.Kind == api.GeneratedPhaseOne) {
		m.Operands = o.operands.Begin(c.Thread, m.Name)
	}
	begun = o.Apply(m)
	if name, of := o.outermost(c.Thread); name != "" {
		in, phase = name, of
	}
	return begun, in, phase
}

func (o *operators) outermost(thread uint32) (string, operator.Phase) {
	if p := o.Outermost(thread); p != nil {
		return p.Name, p.Phase
	}
	return "", 0
}

// markOf returns the mark of a call, without its name.
func markOf(f *api.Func, c *format.Call, process uint32) *operator.Mark {
	m := &operator.Mark{Kind: f.Operator, Process: process, Thread: c.Thread, Call: c.Index, At: c.Start}
	for i := range f.Params {
		if p := &f.Params[i]; p.Object == api.Executor && f.Operator != api.OperatorPhaseOne && int(p.Word) < len(c.Args) { // of phase one it is an address
			m.Executor = c.Args[p.Word]
		}
	}
	return m
}
