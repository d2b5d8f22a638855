package blame

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/acltrace/acltrace/report"
)

// Text writes the report as one page.
func (rep *Report) Text(out io.Writer) error {
	w := bufio.NewWriter(out)
	report.Printf(w, "trace    %s, of %s", rep.Trace, strings.Join(rep.Argv, " "))
	if rep.Host != "" {
		report.Printf(w, " on %s", rep.Host)
	}
	if rep.Device != "" {
		report.Printf(w, ", %s", rep.Device)
	}
	report.Printf(w, "\n")
	rep.made(w)
	if f := rep.Failure; f != nil {
		what := f.Error
		if what == "" {
			what = "never returned"
		}
		report.Printf(w, "failed   call %d %s%s on thread %d at %s, %s: %s\n", f.Index, f.Func, on(f), f.TID, at(f.Start), wall(rep.Begun+f.Start), what)
		stack(w, "", f)
	}
	if rep.Failed > 1 {
		report.Printf(w, "others   %d more %s failed; --call chooses another one\n", rep.Failed-1, map[bool]string{true: "call", false: "calls"}[rep.Failed == 2])
	}
	for i := range rep.Died {
		report.Printf(w, "%-9s%s\n", head("died", i), &rep.Died[i])
	}
	if rep.Message != "" {
		for i, line := range strings.Split(strings.TrimSpace(rep.Message), "\n") {
			report.Printf(w, "%-9s%s\n", head("message", i), line)
		}
	}
	for i, line := range rep.Told {
		report.Printf(w, "%-9s%s\n", head("told", i), line)
	}
	if rep.Lost > 0 {
		report.Printf(w, "missing  %d calls before the failure are not in the trace\n", rep.Lost)
	}
	for i, line := range rep.Unknown {
		report.Printf(w, "%-9s%s\n", head("unknown", i), line)
	}
	if len(rep.Suspects) == 0 {
		report.Printf(w, "\nNo task was in flight, and nothing names one.\n")
		return w.Flush()
	}
	for i := range rep.Suspects {
		x := &rep.Suspects[i]
		verdict := "suspect"
		switch {
		case x.Certain:
			verdict = "guilty"
		case x.score < listed:
			verdict = "in flight"
		}
		report.Printf(w, "\n%s: call %d %s%s on thread %d at %s\n", verdict, x.Index, name(&x.Call), on(&x.Call), x.TID, at(x.Start))
		for _, r := range x.Reasons {
			report.Printf(w, "  because %s\n", r)
		}
		for k := range x.Arguments {
			a := &x.Arguments[k]
			report.Printf(w, "  %-8s %s = %s", a.How, a.Where, a.Value)
			if a.Place != nil {
				report.Printf(w, " = %s+%d of %d bytes", a.Place.Object, a.Place.Offset, a.Place.Size)
			}
			if a.Note != "" {
				report.Printf(w, "; %s", a.Note)
			}
			report.Printf(w, "\n")
		}
		if x.Partly {
			report.Printf(w, "  and what the trace does not have of its arguments\n")
		}
		stack(w, "  ", &x.Call)
	}
	if rep.More > 0 {
		report.Printf(w, "\n%d more %s in flight\n", rep.More, map[bool]string{true: "task was", false: "tasks were"}[rep.More == 1])
	}
	for i := range rep.History {
		rep.History[i].text(w)
	}
	return w.Flush()
}

// made says when and by what the trace was made.
func (rep *Report) made(w io.Writer) {
	report.Printf(w, "begun    %s", wall(rep.Begun))
	for _, x := range []struct{ what, version string }{{"by acltrace", rep.Acltrace}, {"runtime", rep.Runtime}, {"driver", rep.Driver}} {
		if x.version != "" {
			report.Printf(w, ", %s %s", x.what, x.version)
		}
	}
	report.Printf(w, "\n")
}

// wall is a moment as the logs of other programs have it.
func wall(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02 15:04:05.000000 UTC") }

// stack writes the stack that a call was made from, if there is one.
func stack(w io.Writer, indent string, c *Call) {
	for i, f := range c.Stack {
		report.Printf(w, "%s%-9s%s\n", indent, head("from", i), f)
	}
}

func head(word string, line int) string {
	if line > 0 {
		return ""
	}
	return word
}

// Text writes what is known of the address.
func (x *Whereabouts) Text(out io.Writer) error {
	w := bufio.NewWriter(out)
	when := "at any time"
	if x.At != nil {
		when = fmt.Sprintf("when call %d %s began, at %s", x.At.Index, name(x.At), at(x.At.Start))
	}
	if len(x.Places) == 0 {
		report.Printf(w, "%s lay in no allocation that the trace knows, %s\n", x.Addr, when)
		if p := x.Below; p != nil {
			report.Printf(w, "%d bytes beyond the end of %s, %d bytes at %s%s\n", p.Offset-p.Size, p.Object, p.Size, p.Addr, life(p))
		}
		if p := x.Above; p != nil {
			report.Printf(w, "%d bytes before %s, %d bytes at %s%s\n", uint64(p.Addr-x.Addr), p.Object, p.Size, p.Addr, life(p))
		}
		return w.Flush()
	}
	for i := range x.Places {
		p := &x.Places[i].Place
		state := ""
		if x.At != nil {
			state = ", live then"
			if p.Ended != nil {
				state = ", freed by then"
			}
		}
		report.Printf(w, "%s lies in %s, at byte %d of %d%s\n", x.Addr, p.Object, p.Offset, p.Size, state)
		x.Places[i].text(w)
	}
	return w.Flush()
}

// Text writes the map as a table.
func (x *Map) Text(out io.Writer) error {
	when := "at the end of the trace"
	if x.At != nil {
		when = fmt.Sprintf("when call %d %s on thread %d began, at %s", x.At.Index, name(x.At), x.At.TID, at(x.At.Start))
	}
	var bytes uint64
	for i := range x.Ranges {
		bytes += x.Ranges[i].Size
	}
	report.Printf(out, "allocations that were live %s: %d, of %d bytes\n", when, len(x.Ranges)+x.More, bytes)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for i := range x.Ranges {
		p := &x.Ranges[i]
		report.Printf(w, "%d\t%s\t%d\t  %s%s", p.PID, p.Addr, p.Size, p.Object, life(&p.Place))
		if p.Made != nil && len(p.Made.Stack) > 0 {
			report.Printf(w, " from %s", strings.Join(p.Made.Stack, " < "))
		}
		report.Printf(w, "\n")
	}
	if x.More > 0 {
		report.Printf(w, "%d more, whose bytes are not counted\n", x.More)
	}
	return w.Flush()
}

func (t *Touched) text(w io.Writer) {
	p := &t.Place
	report.Printf(w, "\n%s: %d bytes at %s%s\n", p.Object, p.Size, p.Addr, life(p))
	for _, x := range []struct {
		what string
		call *Call
	}{{"made from", p.Made}, {"freed from", p.Ended}} {
		if x.call != nil && len(x.call.Stack) > 0 {
			report.Printf(w, "  %s %s\n", x.what, strings.Join(x.call.Stack, " < "))
		}
	}
	if t.Before > 0 {
		report.Printf(w, "  … %d earlier calls\n", t.Before)
	}
	for i := range t.Accesses {
		a := &t.Accesses[i]
		failed := ""
		if a.Error != "" {
			failed = ": " + a.Error
		}
		report.Printf(w, "  call %-8d %12s  %s%s%s\n", a.Index, at(a.Start), a.String(), on(&a.Call), failed)
	}
	if len(t.Accesses) == 0 {
		when := "in the trace"
		if t.Place.Ended != nil {
			when = "before it was freed"
		}
		report.Printf(w, "  no task was given it %s\n", when)
	}
}

// life tells who made and ended an allocation.
func life(p *Place) string {
	s := ", older than the trace"
	if p.Made != nil {
		s = fmt.Sprintf(", made by call %d %s at %s", p.Made.Index, p.Made.Func, at(p.Made.Start))
	}
	if p.Ended != nil {
		s += fmt.Sprintf(", freed by call %d %s on thread %d at %s", p.Ended.Index, p.Ended.Func, p.Ended.TID, at(p.Ended.Start))
	}
	return s
}

func name(c *Call) string {
	switch {
	case c.Kernel != "" && c.Blocks > 0:
		return fmt.Sprintf("%s, kernel %s with block dim %d", c.Func, c.Kernel, c.Blocks)
	case c.Kernel != "":
		return fmt.Sprintf("%s, kernel %s", c.Func, c.Kernel)
	}
	return c.Func
}

func on(c *Call) string {
	s := ""
	if c.Stream != "" {
		s = " on " + c.Stream
	}
	if c.Task != nil {
		s += fmt.Sprintf(" (stream %d, task %d, flip %d)", c.Task.Stream, c.Task.Task&0xffff, c.Task.Task>>16)
	}
	return s
}

func at(ns int64) string { return time.Duration(ns).Round(time.Microsecond).String() }
