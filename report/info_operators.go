package report

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
)

// InfoOperators says where a trace has the names of operators from.
type InfoOperators struct {
	Phases       uint64 `json:"phases"`             // phases with a name that the operators' library reported
	Descriptions uint64 `json:"descriptions"`       // descriptions of operators' tasks, which have kernel types and shapes
	Operands     uint64 `json:"operands,omitempty"` // calls that make, end or look up arguments of operators
	Asked        bool   `json:"asked,omitempty"`    // the recorder told operators that the runtime wants a description of each task
	Missing      string `json:"missing,omitempty"`  // why a trace of a program with operators has no phases
}

// withoutMarks returns the library of a framework that made no marks, since no tool was there; "" for none. On the simulator a tool is always there.
func withoutMarks(m *format.Meta, of *api.Model, counts *format.Counts) string {
	if m.Simulated || m.Tracer.Marks != "" || slices.ContainsFunc(counts.Functions, func(c format.FuncCount) bool {
		f := of.Func(api.ID(c.Func))
		return f != nil && f.Annotation && !f.EntryMark() && f.Operand == api.NoOperand
	}) {
		return ""
	}
	for _, l := range m.Libraries {
		if name := path.Base(l.Path); slices.Contains(of.MarkingFrameworks, name) {
			return name
		}
	}
	return ""
}

// newInfoOperators returns nil if the trace shows no operators.
func newInfoOperators(m *format.Meta, of *api.Model, counts *format.Counts) *InfoOperators {
	in := InfoOperators{Asked: m.Tracer.Operators == format.OperatorShapes}
	for _, c := range counts.Functions {
		switch f := of.Func(api.ID(c.Func)); {
		case f == nil:
		case f.EntryMark() && f.Names >= 0 && f.Operator != api.OperatorInner:
			in.Phases += c.Calls
		case f.Operand != api.NoOperand:
			in.Operands += c.Calls
		case f.Describes() >= 0:
			in.Descriptions += c.Calls
		}
	}
	loaded := slices.ContainsFunc(m.Libraries, func(l format.Library) bool { return of.OfOperators(path.Base(l.Path)) })
	switch {
	case in.Phases > 0:
	case !loaded && in.Descriptions == 0:
		return nil
	case m.Tracer.Operators == format.NoOperators:
		in.Missing = "it was recorded with --operators none"
	case m.Tracer.Operators == "":
		in.Missing = "the recorder did not record them"
	default:
		in.Missing = fmt.Sprintf("no operator called a mark of %s: none ran, or it is of CANN 8.3 or older, or was linked with -Bsymbolic", strings.Join(markLibraries(of), ", "))
	}
	return &in
}

func markLibraries(of *api.Model) (names []string) {
	for _, l := range of.Layers {
		if l.Marks {
			names = append(names, l.Libraries...)
		}
	}
	return names
}

func (in *Info) operatorRows(row RowFunc) {
	if in.Unmarked != "" {
		row("marks", "none: %s makes marks only for a tool; record --framework-marks ranges stands in for one", in.Unmarked)
	}
	o := in.Operators
	if o == nil {
		return
	}
	text := human.Plural(o.Phases, "phase") + " with names"
	if o.Operands > 0 {
		text += "; " + human.Plural(o.Operands, "call") + " about their arguments"
	}
	if o.Missing != "" {
		text = "no phases: " + o.Missing
	}
	switch {
	case o.Asked:
		text += fmt.Sprintf("; %s of tasks: the recorder told operators that the runtime wants them, and kept those that it does not want", human.Plural(o.Descriptions, "description"))
	case o.Descriptions > 0:
		text += fmt.Sprintf("; %s of captured operators", human.Plural(o.Descriptions, "description"))
	}
	row("operators", "%s", text)
}
