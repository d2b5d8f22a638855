package timeline

import (
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/opinfo"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/operator"
)

// operators has the operators of a State, and their names.
type operators struct {
	operator.Operators
	names texts
	known *opinfo.Names // with those of the trace, nil if it has none
}

// call takes a call that is no mark, and returns the operator that it is in, "" for none.
func (o *operators) call(f *api.Func, c *format.Call) (string, operator.Phase) {
	o.Call(c.Thread, f, c.End)
	return o.outermost(c.Thread)
}

// mark takes the mark of an event, sets the event's operator, and returns the part that begins with the mark, nil for none.
func (o *operators) mark(f *api.Func, c *format.Call, process uint32, e *Event) (begun *operator.Part) {
	e.Operator, e.Phase = o.outermost(c.Thread) // the mark may end it
	m := markOf(f, c, process)
	before := len(o.names.list)
	if m.Name = o.names.of(e.nameBytes()); len(o.names.list) > before {
		if o.known == nil {
			o.known = opinfo.Known().Extend()
		}
		o.known.Add(m.Name)
	}
	begun = o.Apply(m)
	if name, phase := o.outermost(c.Thread); name != "" {
		e.Operator, e.Phase = name, phase
	}
	return begun
}

func (o *operators) outermost(thread uint32) (string, operator.Phase) {
	if p := o.Outermost(thread); p != nil {
		return p.Name, p.Phase
	}
	return "", 0
}

// OperatorEnded calls a function with each part of an operator at its end. The part is valid until the function returns.
func (s *State) OperatorEnded(f func(*operator.Part)) { s.operators.Ended = f }

// OpenOperators finishes the State at the end of its calls, and returns for each thread the outermost operator that has begun and not ended, nil for none.
func (s *State) OpenOperators(threads int) []*operator.Part {
	s.operators.Finish()
	open := make([]*operator.Part, threads)
	for i := range open {
		open[i] = s.operators.Outermost(uint32(i))
	}
	return open
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
