package timeline

import (
	"iter"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/timeline/operator"
)

// operators has the operators of a State, and their names.
type operators struct {
	operator.Operators
	names texts
}

// apply follows the marks of operators.
func (o *operators) apply(e *Event) {
	f, c := e.Fn, e.Call
	if f.Operator == api.NoOperatorMark {
		o.Call(c.Thread, f, c.End)
	} else {
		if p := o.Outermost(c.Thread); p != nil {
			e.Operator = p.Name
		}
		m := markOf(f, c, e.Process)
		m.Name = o.names.of(e.nameBytes())
		e.begun = o.Apply(m)
	}
	if p := o.Outermost(c.Thread); p != nil {
		e.Operator = p.Name
	}
}

// operator reports the part of an operator that begins with the current call.
func (w *Walk) operator(e *Event) error {
	if e.begun == nil || w.ahead == nil {
		return nil
	}
	p := *e.begun
	var err error
	if p.To, p.Open, err = w.ahead.end(p.Call); err != nil {
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

// texts holds each text once.
type texts map[string]string

// maxTexts bounds the texts that are held: the trace of a stranger may have a new one in each call.
const maxTexts = 1 << 16

func (t *texts) of(b []byte) string {
	if s, ok := (*t)[string(b)]; ok || len(b) == 0 {
		return s
	}
	if *t == nil || len(*t) == maxTexts {
		*t = texts{}
	}
	s := string(b)
	(*t)[s] = s
	return s
}
