package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/internal/human"
)

// BlameText writes the findings as one page, as for a bug report.
func BlameText(out io.Writer, rep *blame.Report) error {
	w := newPage(out)
	Printf(w, "trace    %s, of %s", rep.Trace, strings.Join(rep.Argv, " "))
	if rep.Host != "" {
		Printf(w, " on %s", rep.Host)
	}
	if rep.Device != "" {
		Printf(w, ", %s", rep.Device)
	}
	Printf(w, "\n")
	madeText(w, rep)
	if f := rep.Failure; f != nil {
		what := f.Error
		if what == "" {
			what = "never returned"
		}
		Printf(w, "failed   call %d %s%s on thread %d at %s, %s: %s\n", f.Index, f.Func, onStream(f), f.TID, human.Moment(f.Start), wall(rep.Begun+f.Start), what)
		stackText(w, "", f)
	}
	if rep.Failed > 1 {
		Printf(w, "others   %s more %s failed; --call chooses another one\n", human.Count(rep.Failed-1), human.Noun(rep.Failed-1, "call"))
	}
	for i := range rep.Died {
		Printf(w, "%-9s%s\n", label("died", i), &rep.Died[i])
	}
	if rep.Message != "" {
		for i, line := range strings.Split(strings.TrimSpace(rep.Message), "\n") {
			Printf(w, "%-9s%s\n", label("message", i), line)
		}
	}
	for i := range rep.Hints {
		Printf(w, "%-9s%s\n", label("told", i), hintText(&rep.Hints[i]))
	}
	if rep.Lost > 0 {
		Printf(w, "missing  %s before the failure are not in the trace\n", human.Plural(rep.Lost, "call"))
	}
	for i := range rep.Unknown {
		Printf(w, "%-9s%s\n", label("unknown", i), unknownText(&rep.Unknown[i]))
	}
	if len(rep.Suspects) == 0 {
		Printf(w, "\nNo task was in flight, and nothing names one.\n")
		return w.Flush()
	}
	for i := range rep.Suspects {
		x := &rep.Suspects[i]
		verdict := "suspect"
		switch {
		case x.Certain:
			verdict = "guilty"
		case x.Unlikely():
			verdict = "in flight"
		}
		Printf(w, "\n%s: call %d %s%s on thread %d at %s\n", verdict, x.Index, callName(&x.Call), onStream(&x.Call), x.TID, human.Moment(x.Start))
		for k := range x.Reasons {
			Printf(w, "  because %s\n", reasonText(x, &x.Reasons[k]))
		}
		for k := range x.Arguments {
			a := &x.Arguments[k]
			Printf(w, "  %-8s %s = %s", a.How, whereText(a), a.Value)
			if a.Place != nil {
				Printf(w, " = %s+%d of %s bytes", a.Place.Object, a.Place.Offset, human.Count(a.Place.Size))
			}
			if note := noteText(a); note != "" {
				Printf(w, "; %s", note)
			}
			Printf(w, "\n")
		}
		if x.Partly {
			Printf(w, "  and what the trace does not have of its arguments\n")
		}
		stackText(w, "  ", &x.Call)
	}
	if rep.More > 0 {
		Printf(w, "\n%s in flight\n", human.Plural(rep.More, "more task"))
	}
	for i := range rep.History {
		historyText(w, &rep.History[i])
	}
	return w.Flush()
}

// madeText writes when and with which versions the trace was recorded.
func madeText(w io.Writer, rep *blame.Report) {
	Printf(w, "begun    %s", wall(rep.Begun))
	for _, x := range []struct{ what, version string }{{"by acltrace", rep.Acltrace}, {"runtime", rep.Runtime}, {"driver", rep.Driver}} {
		if x.version != "" {
			Printf(w, ", %s %s", x.what, x.version)
		}
	}
	Printf(w, "\n")
}

// wall formats a moment in UTC, as logs do.
func wall(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02 15:04:05.000000 UTC") }

// stackText writes the stack of a call, if it has one.
func stackText(w io.Writer, indent string, c *blame.Call) {
	for i, f := range c.Stack {
		Printf(w, "%s%-9s%s\n", indent, label("from", i), f)
	}
}

func label(word string, line int) string {
	if line > 0 {
		return ""
	}
	return word
}

// WhereText writes the findings about an address.
func WhereText(out io.Writer, x *blame.Whereabouts) error {
	w := newPage(out)
	when := "at any time"
	if x.At != nil {
		when = fmt.Sprintf("when call %d %s began, at %s", x.At.Index, callName(x.At), human.Moment(x.At.Start))
	}
	if len(x.Places) == 0 {
		Printf(w, "%s lay in no allocation that the trace knows, %s\n", x.Addr, when)
		if p := x.Below; p != nil {
			Printf(w, "%s bytes beyond the end of %s, %s bytes at %s%s\n", human.Count(p.Offset-p.Size), p.Object, human.Count(p.Size), p.Addr, life(p))
		}
		if p := x.Above; p != nil {
			Printf(w, "%s bytes before %s, %s bytes at %s%s\n", human.Count(p.Addr-x.Addr), p.Object, human.Count(p.Size), p.Addr, life(p))
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
		Printf(w, "%s lies in %s, at byte %s of %s%s\n", x.Addr, p.Object, human.Count(p.Offset), human.Count(p.Size), state)
		historyText(w, &x.Places[i])
	}
	return w.Flush()
}

// MapText writes the live allocations as a table.
func MapText(out io.Writer, x *blame.Map, o *TextOptions) error {
	when := "at the end of the trace"
	if x.At != nil {
		when = fmt.Sprintf("when call %d %s on thread %d began, at %s", x.At.Index, callName(x.At), x.At.TID, human.Moment(x.At.Start))
	}
	var bytes uint64
	for i := range x.Ranges {
		bytes += x.Ranges[i].Size
	}
	Printf(out, "allocations that were live %s: %s, of %s\n", when, human.Count(len(x.Ranges)+x.More), human.Bytes(bytes))
	w := newTable(out, o)
	Printf(w, "\nprocess\taddress\tbytes\t  allocation\n")
	for i := range x.Ranges {
		p := &x.Ranges[i]
		Printf(w, "%d\t%s\t%s\t  %s%s", p.PID, p.Addr, human.Count(p.Size), p.Object, life(&p.Place))
		if p.Made != nil && len(p.Made.Stack) > 0 {
			Printf(w, " from %s", strings.Join(p.Made.Stack, " < "))
		}
		Printf(w, "\n")
	}
	if x.More > 0 {
		Printf(w, "%s more, whose bytes are not counted\n", human.Count(x.More))
	}
	return w.Flush()
}

func historyText(w io.Writer, t *blame.Lifetime) {
	p := &t.Place
	Printf(w, "\n%s: %s bytes at %s%s\n", p.Object, human.Count(p.Size), p.Addr, life(p))
	for _, x := range []struct {
		what string
		call *blame.Call
	}{{"made from", p.Made}, {"freed from", p.Ended}} {
		if x.call != nil && len(x.call.Stack) > 0 {
			Printf(w, "  %s %s\n", x.what, strings.Join(x.call.Stack, " < "))
		}
	}
	if t.Before > 0 {
		Printf(w, "  … %s\n", human.Plural(t.Before, "earlier call"))
	}
	for i := range t.Accesses {
		a := &t.Accesses[i]
		failed := ""
		if a.Error != "" {
			failed = ": " + a.Error
		}
		Printf(w, "  call %-8d %12s  %s%s%s\n", a.Index, human.Moment(a.Start), AccessText(a), onStream(&a.Call), failed)
	}
	if len(t.Accesses) == 0 {
		when := "in the trace"
		if t.Place.Ended != nil {
			when = "before it was freed"
		}
		Printf(w, "  no task was given it %s\n", when)
	}
}

// life describes the beginning and the end of an allocation.
func life(p *blame.Place) string {
	s := ", older than the trace"
	if p.Made != nil {
		s = fmt.Sprintf(", made by call %d %s at %s", p.Made.Index, p.Made.Func, human.Moment(p.Made.Start))
	}
	if p.Ended != nil {
		s += fmt.Sprintf(", freed by call %d %s on thread %d at %s", p.Ended.Index, p.Ended.Func, p.Ended.TID, human.Moment(p.Ended.Start))
	}
	return s
}

func callName(c *blame.Call) string {
	switch {
	case c.Kernel != "" && c.Blocks > 0:
		return fmt.Sprintf("%s, kernel %s with block dim %d", c.Func, c.Kernel, c.Blocks)
	case c.Kernel != "":
		return fmt.Sprintf("%s, kernel %s", c.Func, c.Kernel)
	}
	return c.Func
}

func onStream(c *blame.Call) string {
	s := ""
	if c.Stream != "" {
		s = " on " + c.Stream
	}
	if c.Task != nil {
		s += fmt.Sprintf(" (stream %d, task %d, flip %d)", c.Task.Stream, c.Task.Task&0xffff, c.Task.Task>>16)
	}
	return s
}

// AccessText describes an access.
func AccessText(a *blame.Access) string {
	what := a.Func
	if a.Kernel != "" {
		what = a.Kernel
	}
	switch {
	case a.How == blame.AddressCopied:
		return fmt.Sprintf("%s put its address into %s", what, a.Via)
	case a.Via != "":
		return fmt.Sprintf("%s %s it, through %s", what, a.How, a.Via)
	case a.Size > 0:
		return fmt.Sprintf("%s %s %s bytes at +%d", what, a.How, human.Count(a.Size), a.Offset)
	}
	return fmt.Sprintf("%s %s it, from +%d", what, a.How, a.Offset)
}
