package timeline

import (
	"iter"
	"slices"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/opinfo"
	"github.com/acltrace/acltrace/format"
)

// shapesAhead reads ahead for the descriptions of launches. A thread describes a launch right after it, when the Walk may have reported the task.
type shapesAhead struct {
	next  func() (*format.Call, error, bool)
	stop  func()
	m     *api.Model
	texts *texts
	names hashed
	marks texts // names of operators and kernels in it
	read  int   // calls so far
	// By thread: the last launch read.
	last []describable
	// found are the shapes of launches that the Walk has not reached.
	found map[uint64]int32
	done  bool
}

// A describable is a launch that has no description yet, as far as calls were read.
type describable struct {
	launch uint64
	at     int  // shapesAhead.read when it was read; 0 for none
	open   bool // a description may follow
}

// maxBetween is the number of launches, descriptions and marks of all threads after which a launch gets no description.
const maxBetween = 1 << 16

// maxFound bounds shapesAhead.found. Further launches have no shapes.
const maxFound = 1 << 20

// newShapesAhead returns nil if the trace has no descriptions.
func newShapesAhead(r *format.Reader, m *api.Model, to *texts) *shapesAhead {
	a := &shapesAhead{m: m, texts: to, found: map[uint64]int32{}}
	var funcs, describing, data []uint16
	for _, f := range r.Schema().Functions {
		switch g := m.Func(api.ID(f.ID)); {
		case g == nil:
		case g.Describes() >= 0:
			describing = append(describing, f.ID)
		case g.Operator != api.NoOperatorMark || findsKernel(g):
			data = append(data, f.ID)
		case g.Task == api.Kernel:
			funcs = append(funcs, f.ID)
		}
	}
	if len(describing) == 0 {
		return nil
	}
	a.next, a.stop = iter.Pull2(r.CallsByStart(&format.Filter{Funcs: slices.Concat(funcs, data, describing), DataOf: append(data, describing...)}))
	return a
}

// shapesOf returns the number of the shapes of a launch: those that it is described with, or else the operands of its operator. 0 for none.
func (w *Walk) shapesOf(e *Event) (int32, error) {
	if w.ahead.shapes != nil {
		if id, err := w.ahead.shapes.of(e.Call); id != 0 || err != nil {
			return id, err
		}
	}
	return e.operands, nil
}

// of returns the number of the shapes of a launch, 0 if the trace does not have them.
func (a *shapesAhead) of(c *format.Call) (int32, error) {
	for {
		if id, ok := a.found[c.Index]; ok {
			delete(a.found, c.Index)
			return id, nil
		}
		last := a.thread(c.Thread)
		reached := last.at > 0 && last.launch >= c.Index
		if reached && (!last.open || last.launch > c.Index || a.read-last.at > maxBetween) || a.done {
			return 0, nil
		}
		x, err, ok := a.next()
		if err != nil {
			return 0, err
		}
		if a.done = !ok; a.done {
			continue
		}
		a.read++
		a.take(x)
	}
}

func (a *shapesAhead) thread(t uint32) *describable {
	for int(t) >= len(a.last) {
		a.last = append(a.last, describable{})
	}
	return &a.last[t]
}

// take takes the next call. The description of a task follows before another launch or the end of the operator.
func (a *shapesAhead) take(c *format.Call) {
	f, last := a.m.Func(api.ID(c.Func)), a.thread(c.Thread)
	param := f.Describes()
	switch {
	case f.Task == api.Kernel:
		*last = describable{c.Index, a.read, true}
	case param < 0:
		last.open = last.open && f.Operator == api.NoOperatorMark
		a.name(f, c)
	case last.open:
		last.open = false
		if x, ok := opinfo.Decode(c.Content(param)); ok && len(a.found) < maxFound {
			a.found[last.launch] = a.texts.id(x.AppendSignature(nil, a.names.known()))
		}
	}
}

// findsKernel reports whether a call finds a kernel by its name.
func findsKernel(f *api.Func) bool {
	return f.Names >= 0 && slices.ContainsFunc(f.Params, func(p api.Param) bool { return p.Object == api.Function && p.Role.Makes() })
}

// name takes the name that a mark or a kernel has.
func (a *shapesAhead) name(f *api.Func, c *format.Call) {
	if d := c.Content(int(f.Names)); d != nil {
		before := len(a.marks.list)
		if a.marks.id(d); len(a.marks.list) > before {
			if a.names.kernel(string(d)); f.Operator != api.NoOperatorMark {
				a.names.add(string(d))
			}
		}
	}
}
