package report

import (
	"fmt"
	"strings"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/internal/human"
)

// blameJSON is a blame.Report with its texts.
type blameJSON struct {
	*blame.Report
	Hints    []string      `json:"told,omitempty"`    // failed kernels and tasks that the runtime or the user named
	Suspects []suspectJSON `json:"suspects"`          // most likely first
	Unknown  []string      `json:"unknown,omitempty"` // facts that are missing from the trace
}

type suspectJSON struct {
	*blame.Suspect
	Reasons   []string       `json:"reasons,omitempty"`   // why it is suspected
	Arguments []argumentJSON `json:"arguments,omitempty"` // addresses among its arguments
}

type argumentJSON struct {
	*blame.Argument
	Where string `json:"where"`          // the parameter, or a word in its data
	Note  string `json:"note,omitempty"` // what is wrong with the address
}

// BlameJSON returns the findings in the form for `acltrace blame --json`.
func BlameJSON(rep *blame.Report) any {
	j := &blameJSON{Report: rep, Hints: texts(rep.Hints, hintText), Unknown: texts(rep.Unknown, unknownText)}
	for i := range rep.Suspects {
		x := &rep.Suspects[i]
		s := suspectJSON{Suspect: x, Reasons: texts(x.Reasons, func(r *blame.Reason) string { return reasonText(x, r) })}
		for k := range x.Arguments {
			a := &x.Arguments[k]
			s.Arguments = append(s.Arguments, argumentJSON{a, whereText(a), noteText(a)})
		}
		j.Suspects = append(j.Suspects, s)
	}
	return j
}

func texts[T any](list []T, text func(*T) string) (out []string) {
	for i := range list {
		out = append(out, text(&list[i]))
	}
	return out
}

func hintText(h *blame.Hint) string {
	var parts []string
	if h.Kernel != "" {
		parts = append(parts, "kernel "+h.Kernel)
	}
	if h.Task != nil {
		parts = append(parts, "task "+taskText(h.Task))
	}
	return strings.Join(parts, ", ") + ", " + [...]string{blame.User: "named by you", blame.Callback: "reported to the program's callback for failed tasks",
		blame.Message: "named by the runtime's message"}[h.Source]
}

func unknownText(u *blame.Unknown) string {
	if u.Task != nil {
		return fmt.Sprintf("task %s: the call that made it is not in the trace", taskText(u.Task))
	}
	return fmt.Sprintf("only the oldest %s of %s in flight were examined", human.Count(u.Examined), human.Plural(u.InFlight, "task"))
}

// reasonText describes a reason against a suspect.
func reasonText(x *blame.Suspect, r *blame.Reason) string {
	var a *blame.Argument
	where := ""
	if r.Argument < len(x.Arguments) {
		a = &x.Arguments[r.Argument]
		where = whereText(a)
	}
	switch r.Kind {
	case blame.SelfFailed:
		return "the call itself returned the error"
	case blame.Unreturned:
		return "it had not returned when the trace ended"
	case blame.TaskNamed:
		return [...]string{blame.User: "you named its task", blame.Callback: "the runtime reported its task to the program's callback",
			blame.Message: "the runtime's message names its task"}[r.Source]
	case blame.KernelNamed:
		return "the runtime's message names its kernel"
	case blame.Waiting:
		return "its stream waits for " + waitText(r.Wait)
	case blame.ObjectEnded:
		p := r.Place
		return fmt.Sprintf("its %s is %s (%s), which call %d (%s) had ended on thread %d at %s", r.Param, p.Object, p.Addr, p.Ended.Index, p.Ended.Func, p.Ended.TID, human.Moment(p.Ended.Start))
	case blame.SameMemory:
		return fmt.Sprintf("%s is in %s, like %s, which the message names", where, a.Place.Object, r.Addr)
	case blame.SameAddress:
		return fmt.Sprintf("%s is the address %s, which the message names", where, r.Addr)
	case blame.OddArgument:
		o := r.Odd
		usual := o.Usual.String()
		if o.Address {
			usual = "an address"
		}
		return fmt.Sprintf("%s is %s; in %s of %s of %s it is %s", wordText(o.Param, o.Word), o.Value, human.Count(o.Same), human.Plural(o.Launches, "launch"), x.Kernel, usual)
	}
	switch a.Finding {
	case blame.NoAllocation:
		return where + " is an address in no known allocation"
	case blame.BeyondEnd:
		return fmt.Sprintf("%s reaches %s bytes beyond the end of %s", where, human.Count(a.Beyond), a.Place.Object)
	}
	freed := fmt.Sprintf("%s is in %s, which call %d (%s) ", where, a.Place.Object, a.Place.Ended.Index, a.Place.Ended.Func)
	switch {
	case a.Finding == blame.FreedMeantime:
		return freed + "freed while the task may have run"
	case a.End != "":
		return freed + "had freed, unless it is the end of " + a.End
	}
	return freed + "had freed"
}

func waitText(w *blame.Wait) string {
	switch {
	case w.Recorded:
		return fmt.Sprintf("%s, last recorded by call %d on %s", w.Object, w.Call, w.Stream)
	case w.Object != "":
		return w.Object + ", which no call has recorded"
	case w.Addr != 0:
		return fmt.Sprintf("a value at %s", w.Addr)
	}
	return "another stream"
}

// whereText describes the place of an address among the arguments.
func whereText(a *blame.Argument) string { return wordText(a.Param, a.Word) }

func wordText(param string, w blame.Word) string {
	switch {
	case w.Self:
		return param
	case w.Item == 0:
		return fmt.Sprintf("the word at byte %d of %s", w.At, param)
	}
	return fmt.Sprintf("the word at byte %d of %s[%d]", w.At, param, w.Item)
}

func noteText(a *blame.Argument) string {
	switch a.Finding {
	case blame.NoAllocation:
		return "in no known allocation"
	case blame.FreedBefore:
		return fmt.Sprintf("freed before the call began, by call %d", a.Place.Ended.Index)
	case blame.FreedMeantime:
		return fmt.Sprintf("freed while the task may have run, by call %d", a.Place.Ended.Index)
	case blame.PastEnd:
		return "one past the end"
	case blame.BeyondEnd:
		return fmt.Sprintf("reaches %s bytes beyond the end", human.Count(a.Beyond))
	}
	return ""
}
