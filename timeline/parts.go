package timeline

import (
	"iter"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/operator"
)

// operator reports the part of an operator that begins with the current call.
func (w *Walk) operator(e *Event) error {
	if e.Begun == nil || w.ahead.operators == nil {
		return nil
	}
	p := *e.Begun
	var err error
	if p.To, p.Open, err = w.ahead.operators.end(p.Call); err != nil {
		return err
	}
	if p.Open {
		p.To = max(p.From, w.End)
	}
	if !w.within(p.From, p.To) {
		return nil
	}
	return w.v.Operator(&p)
}

// operatorsAhead reads marks and launches ahead of a Walk, so that the Walk knows the end of a part at its begin.
type operatorsAhead struct {
	next  func() (*format.Call, error, bool)
	stop  func()
	r     *format.Reader
	m     *api.Model
	o     operator.Operators
	ended map[uint64]int64 // by the first call of a part
	done  bool
}

func newOperatorsAhead(r *format.Reader, m *api.Model) *operatorsAhead {
	a := &operatorsAhead{r: r, m: m, ended: map[uint64]int64{}}
	a.o.Ended = func(p *operator.Part) { a.ended[p.Call] = p.To }
	var funcs []uint16
	for _, f := range r.Schema().Functions {
		if g := m.Func(api.ID(f.ID)); g != nil && (g.Operator != api.NoOperatorMark || g.Task == api.Kernel) {
			funcs = append(funcs, f.ID)
		}
	}
	a.next, a.stop = iter.Pull2(r.CallsByStart(&format.Filter{Funcs: funcs, NoData: true}))
	return a
}

// end returns the end of the part that begins with a call. open means that the trace shows none, or only after 1,048,576 more ends.
func (a *operatorsAhead) end(call uint64) (at int64, open bool, err error) {
	for {
		if at, ok := a.ended[call]; ok {
			delete(a.ended, call)
			return at, false, nil
		}
		if a.done || len(a.ended) >= maxAhead {
			return 0, true, nil
		}
		c, err, ok := a.next()
		if err != nil {
			return 0, false, err
		}
		if a.done = !ok; a.done {
			a.o.Finish()
			continue
		}
		switch f := a.m.Func(api.ID(c.Func)); {
		case f == nil:
		case f.Operator == api.NoOperatorMark:
			a.o.Call(c.Thread, f, c.End)
		default:
			a.o.Apply(markOf(f, c, a.r.ProcessOf(c.Thread)))
		}
	}
}

// OperatorEnded calls a function with each part of an operator at its end, also if the Visitor has no Operator function. The part is valid until the function
// returns.
func (w *Walk) OperatorEnded(f func(*operator.Part)) { w.s.OperatorEnded(f) }

// Preparer returns the thread that prepared the operator whose phase two is open on a thread. ok is false if none is open, or if the trace does not show the
// thread: see operator.Part.
func (w *Walk) Preparer(thread uint32) (preparer uint32, ok bool) {
	p := w.s.operators.Outermost(thread)
	if p == nil || p.Phase != operator.Two || p.Preparer < 0 {
		return 0, false
	}
	return uint32(p.Preparer), true
}

// Operators returns the names of the operators so far, by Task.Operator. The list only grows.
func (w *Walk) Operators() []string { return w.s.operators.names.list }

// OperatorOf returns the operator to which a task belongs, "" for none: the outermost one that was open on the thread at the launch.
func (w *Walk) OperatorOf(t *Task) string {
	if t.Operator == 0 {
		return ""
	}
	return w.s.operators.names.list[t.Operator]
}

// Shapes returns the texts of shapes so far, by Task.Shapes. The list only grows.
func (w *Walk) Shapes() []string {
	return w.s.operators.shapes.list
}

// ShapesOf returns the kernel type and the tensors that a launch was described with, as "MatMulV3(float16[2,3], float16[3,4]) -> float16[2,4]", or
// the tensors that its operator was called with, as "(float16[2,3], float16[3,4], float16[2,4])". It is "" if the trace does not have them, or if WalkOptions.Shapes is not set.
func (w *Walk) ShapesOf(t *Task) string {
	if t.Shapes == 0 {
		return ""
	}
	return w.s.operators.shapes.list[t.Shapes]
}
