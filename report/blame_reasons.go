package report

import (
	"fmt"
	"strings"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/analyze/graphs"
	"github.com/acltrace/acltrace/internal/human"
)

// blameJSON is a blame.Report with its texts.
type blameJSON struct {
	*blame.Report
	Hints    []string      `json:"hints,omitempty"`        // failed kernels and tasks that the runtime or the user named
	Suspects []suspectJSON `json:"suspects"`               // most likely first
	Unknown  []string      `json:"unknown,omitempty"`      // facts that are missing from the trace
	Cause    string        `json:"cause,omitempty"`        // earlier call that made the failed call invalid
	Faults   []faultJSON   `json:"graph_faults,omitempty"` // hints if nothing else explains the failure, or nothing failed: faults of captured graphs
	Odds     []oddJSON     `json:"odd,omitempty"`          // hints if nothing failed: launches with an argument unlike those of the other launches of the kernel
}

// faultJSON is a graphs.Finding with its text.
type faultJSON struct {
	Kind  graphs.Kind `json:"kind"`  // as in findings of stats
	Count uint64      `json:"count"` // how often it happens
	Call  uint64      `json:"call"`  // task, update, copy, record or run
	Func  string      `json:"func"`  // its function
	*graphs.Finding
	Reason string `json:"reason"` // what is wrong
}

type oddJSON struct {
	blame.OddLaunch
	Reason string `json:"reason"` // what is odd
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
	for i := range rep.Faults {
		f := &rep.Faults[i]
		j.Faults = append(j.Faults, faultJSON{f.Kind, f.Count, f.Call, f.Func, f, graphFault(f)})
	}
	for i := range rep.Odds {
		j.Odds = append(j.Odds, oddJSON{rep.Odds[i], oddText(&rep.Odds[i].Odd, rep.Odds[i].Kernel)})
	}
	if rep.Cause != nil {
		j.Cause = causeText(rep.Cause)
	}
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
		parts = append(parts, "kernel "+human.Kernel(h.Kernel))
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
	case blame.CapturedLaunch:
		text := fmt.Sprintf("it runs %s%s, which call %d of the capture launched, and which the runtime's message names", human.Kernel(r.Kernel), operatorText("of", &r.Operator), r.Call)
		if r.Addr != 0 {
			text += fmt.Sprintf("; the launch uses memory at %s, which the message names too", r.Addr)
		}
		return text
	case blame.RunsFunction:
		return "it runs a function of the program, which may not have returned"
	case blame.GraphFault:
		return graphFault(r.Fault)
	case blame.ExceedsCapacity:
		return fmt.Sprintf("%s is %s, but %s is %s", r.Exceeded.Size, human.Count(r.Exceeded.Value), r.Exceeded.Capacity, human.Count(r.Exceeded.Most))
	case blame.ObjectEnded:
		p := r.Place
		return fmt.Sprintf("its %s is %s (%s), which call %d (%s) had ended on thread %d at %s", r.Param, p.Object, p.Addr, p.Ended.Index, p.Ended.Func, p.Ended.TID, human.Moment(p.Ended.Start))
	case blame.SameMemory:
		return fmt.Sprintf("%s is in %s, like %s, which the message names", where, a.Place.Object, r.Addr)
	case blame.SameAddress:
		return fmt.Sprintf("%s is the address %s, which the message names", where, r.Addr)
	case blame.OddArgument:
		return oddText(r.Odd, x.Kernel)
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

func oddText(o *blame.Odd, kernel string) string {
	usual := o.Usual.String()
	if o.Address {
		usual = "an address"
	}
	value, of := o.Value.String(), human.Kernel(kernel)
	if o.Group != "" {
		of += " for a task of " + o.Group
	}
	if o.Other != "" {
		value += ", as usual for a task of " + o.Other
	}
	return fmt.Sprintf("%s is %s; in %s of %s of %s it is %s", wordText(o.Param, o.Word), value, human.Count(o.Same), human.Plural(o.Launches, "launch"), of, usual)
}

func waitText(w *blame.Wait) string {
	what := w.Object
	if what == "" && w.Addr != 0 {
		what = fmt.Sprintf("a value at %s", w.Addr)
	}
	record := map[bool]string{true: "recorded", false: "written"}[w.Object != ""]
	switch {
	case what == "":
		return "another stream"
	case w.Recorded && w.Stream == "":
		what += fmt.Sprintf(", last %s by call %d", record, w.Call)
	case w.Recorded:
		what += fmt.Sprintf(", last %s by call %d on %s", record, w.Call, w.Stream)
	default:
		what += fmt.Sprintf(", which no call has %s", record)
	}
	if w.Pending {
		what += ", which may not have run"
	}
	switch r := w.Reset; {
	case r == nil:
	case r.InGraph:
		what += fmt.Sprintf("; each run resets it after the wait (call %d of the capture)", r.Call)
	default:
		what += fmt.Sprintf("; call %d reset it after that", r.Call)
	}
	if w.Graph != "" {
		what += fmt.Sprintf("; the wait is call %d, in %s", w.By, w.Graph)
	}
	return what
}

// causeText describes the earlier call that made the failed call invalid.
func causeText(c *blame.Cause) string {
	on := func(k *blame.Call) string { return fmt.Sprintf("call %d %s on thread %d", k.Index, k.Func, k.TID) }
	place := func(device int, context string) string {
		text := "an unknown device"
		if device >= 0 {
			text = fmt.Sprintf("device %d", device)
		}
		if context != "" {
			text = fmt.Sprintf("%s (%s)", context, text)
		}
		return text
	}
	switch c.Kind {
	case blame.NoContext:
		text := fmt.Sprintf("thread %d never set a device or a context", c.TID)
		if c.Other != nil {
			return text + "; " + on(c.Other) + " did, for its own thread only"
		}
		return text + ", nor did another thread of its process in this trace"
	case blame.ContextEnded:
		return fmt.Sprintf("%s ended the device or context that thread %d had set by call %d", on(c.Ended), c.TID, c.Set.Index)
	case blame.OtherContext:
		text := fmt.Sprintf("%s belongs to %s", c.Object, place(c.MadeOn, c.MadeIn))
		if c.Made != nil {
			text += fmt.Sprintf(" (%s)", on(c.Made))
		}
		text += fmt.Sprintf(", thread %d is on %s", c.TID, place(c.Device, c.Context))
		if c.Set != nil {
			text += fmt.Sprintf(" (call %d %s)", c.Set.Index, c.Set.Func)
		}
		return text
	case blame.Uninitialized:
		if c.Other != nil {
			return on(c.Other) + " had finalized the runtime"
		}
		return "no call of its process in this trace initialized the runtime before"
	case blame.Reinitialized:
		return on(c.Other) + " had initialized the runtime"
	}
	return on(c.Other) + " had finalized the runtime already"
}

// captureLines describes the capture that a call broke.
func captureLines(c *blame.Capture, f *blame.Call) []string {
	begun := fmt.Sprintf("begun by call %d %s%s, thread %d", c.Begin.Index, c.Begin.Func, onStream(&c.Begin), c.Begin.TID)
	if c.Mode != "" {
		begun += ", mode " + c.Mode
	}
	refused := fmt.Sprintf("call %d on the same thread is the first that it refused", f.Index)
	if f.TID != c.Begin.TID {
		refused = fmt.Sprintf("call %d on another thread, %d, is the first that it refused", f.Index, f.TID)
	}
	if c.End != nil {
		return []string{begun, refused + fmt.Sprintf("; call %d ended it", *c.End)}
	}
	return []string{begun, refused + "; no call ended it"}
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
	case blame.ProgramMemory:
		return "host memory of the program"
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
