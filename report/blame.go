package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
)

// BlameText writes the findings as one page, as for a bug report. It ends with the commands for the next look.
func BlameText(out io.Writer, rep *blame.Report, o *TextOptions) error {
	w := newPage(out)
	if err := blameRows(rep).write(w, o); err != nil {
		return err
	}
	switch {
	case len(rep.Suspects) > 0:
	case rep.Failure == nil && len(rep.Died) == 0:
		Printf(w, "\nno call failed and none is known to hang\n")
	case rep.Failure == nil:
		Printf(w, "\nno suspect: no call failed, and none is known to hang\n")
	default:
		Printf(w, "\nno suspect: no task was in flight, and the runtime named none\n")
	}
	if n := len(rep.Suspects) + rep.More; n > 1 && rep.Suspects[0].Unlikely() {
		text := sprintf("no suspect: nothing in the trace is evidence against one of %s in flight. The oldest are listed.", human.Plural(n, "task"))
		if rep.Message == "" && rep.Failure != nil {
			text += " The runtime's message would name the kernel, but the program did not ask for it."
		}
		writeMarked(w, wrap("\n"+text, o.width(), 0)+"\n")
	}
	for i := 0; i < len(rep.Suspects); {
		alike := alikeSuspects(rep.Suspects[i:])
		suspectText(w, alike, o)
		i += len(alike)
	}
	if rep.More > 0 {
		Printf(w, "\n%s in flight\n", human.Plural(rep.More, "more task"))
	}
	hintsText(w, rep, o)
	if err := Wrapped(w, o, 0, func(w io.Writer) {
		for i := range rep.History {
			historyText(w, &rep.History[i])
		}
	}); err != nil {
		return err
	}
	nextText(w, blameNext(rep)...)
	return w.Flush()
}

// blameRows describes the failure in rows.
func blameRows(rep *blame.Report) *pairs {
	rows := &pairs{}
	made := strings.Join(rep.Argv, " ")
	for _, x := range []string{rep.Host, rep.Device} {
		if x != "" {
			made += ", " + x
		}
	}
	rows.add("trace", "%s: %s", rep.Trace, made)
	rows.add("begun", "%s", begunText(rep))
	if f := rep.Failure; f != nil {
		rows.mark(markBad, "failed", "call %d %s%s: %s", f.Index, f.Func, operatorText("in", &f.Operator), cmp.Or(f.Error, "never returned"))
		rows.add("", "%s, %s", placeOf(f), wall(rep.Begun+f.Start))
		for i, s := range f.Stack {
			rows.add(label("from", i), "%s", s)
		}
		if rep.Forked != 0 {
			rows.add("forked", "process %d was forked from process %d, which had called the runtime: its calls fail in such a process. Fork before the first call, or spawn", f.PID, rep.Forked)
		}
	}
	for i, line := range heldLines(rep.Held) {
		rows.add(label("in use", i), "%s", line)
	}
	if rep.Survived {
		ended := "ended by an error of its own"
		if rep.EndedWell {
			ended = "ended with exit code 0"
		}
		rows.add("survived", "the program went on after this call, and %s", ended)
	}
	if rep.Cause != nil {
		rows.add("cause", "%s", causeText(rep.Cause))
	}
	if c := rep.Capture; c != nil {
		for i, line := range captureLines(c, rep.Failure) {
			rows.add(label("capture", i), "%s", line)
		}
	}
	for i := range rep.Earlier {
		c := &rep.Earlier[i]
		rows.add(label("earlier", i), "call %d %s: %s, thread %d", c.Index, c.Func, c.Error, c.TID)
	}
	if n := rep.Before - len(rep.Earlier); n > 0 {
		rows.add("", "%s before them: --call N looks at another one", human.Plural(n, "failed call"))
	}
	if n := later(rep); n > 0 {
		rows.add("later", "%s failed: --call N looks at another one", human.Plural(n, "more call"))
	}
	if n := rep.Answered; n > 0 {
		rows.add("asked", "%s answered no, which is no failure", human.Plural(n, "question"))
	}
	for i := range rep.Died {
		rows.add(label("died", i), "%s", &rep.Died[i])
	}
	if rep.Message != "" {
		for i, line := range strings.Split(strings.TrimSpace(rep.Message), "\n") {
			rows.add(label("message", i), "%s", line)
		}
	}
	for i := range rep.Behind {
		x := &rep.Behind[i]
		rows.add(label("behind", i), "rank %d called %d of the %s that rank %d called on communicator %s. Next is %s, call %d of rank %d", x.Rank, x.Called,
			human.Plural(x.Of, "collective"), x.Other, x.Comm, x.Func, x.Call, x.Other)
	}
	for i := range rep.Hints {
		rows.add(label("named", i), "%s", hintText(&rep.Hints[i]))
	}
	if rep.Lost > 0 {
		rows.add("missing", "%s before the failure", human.Plural(rep.Lost, "call"))
	}
	for i := range rep.Unknown {
		rows.add(label("unknown", i), "%s", unknownText(&rep.Unknown[i]))
	}
	return rows
}

// hintsText writes what may be wrong, apart from the failure.
func hintsText(w io.Writer, rep *blame.Report, o *TextOptions) {
	hint := func(title string, lines ...string) {
		writeMarked(w, "\n"+wrap(sprintf("hint: %s", title), o.width(), 4)+"\n")
		for _, l := range lines {
			writeMarked(w, wrap("  "+sprintf("%s", l), o.width(), 4)+"\n")
		}
	}
	for i := range rep.Asleep {
		hint(rep.Asleep[i].String(), "a recording from its start would show its calls")
	}
	for i := range rep.Cut {
		c := &rep.Cut[i]
		hint(fmt.Sprintf("call %d %s had taken %s when the recording ended, longer than any other call of the function", c.Index, callName(c), human.Duration(c.End-c.Start)),
			placeOf(c), fmt.Sprintf("if the program hangs, --call %d lists the tasks that it waits for", c.Index))
	}
	for i := range rep.Races {
		x := &rep.Races[i]
		title, lines := raceText(x)
		hint(title, lines...)
	}
	for i := range rep.BareReads {
		x := &rep.BareReads[i]
		hint(sprintf("call %d %s reads the memory of another process without the usual wait", x.Index, callName(&x.Call)), sprintf("%s, process %d", placeOf(&x.Call), x.PID),
			sprintf("reads %s bytes at +%d of %s (%s) of process %d, and no wait came since the read before it. %d of %s came after one, as for %s",
				human.Count(x.Bytes), x.Place.Offset, x.Place.Object, x.Place.Addr, x.Owner, x.Waited, human.Plural(x.Reads, "such read"), x.Signal))
	}
	for i := range rep.Unwaited {
		u := &rep.Unwaited[i]
		hint(fmt.Sprintf("call %d %s copies to the host at %s, and the program did not wait for it before call %d %s", u.Index, callName(&u.Call), u.Addr, u.Next.Index, callName(&u.Next)),
			placeOf(&u.Call), fmt.Sprintf("in %s of %s such copies it waited first; if it reads the destination before it waits, it reads earlier content", human.Count(u.Waited), human.Count(u.Waited+u.Times)))
	}
	for i := range rep.Faults {
		hint(graphFault(&rep.Faults[i]))
	}
	for i := range rep.Odds {
		x := &rep.Odds[i]
		hint(fmt.Sprintf("call %d %s has an argument unlike those of the other launches of the kernel", x.Index, callName(&x.Call)), placeOf(&x.Call), oddText(&x.Odd, x.Kernel))
	}
}

// raceText describes unordered accesses to shared memory.
func raceText(x *blame.Race) (title string, lines []string) {
	how := map[bool]string{false: "reads", true: "writes"}
	at := sprintf("+%d of %s (%s)", x.Place.Offset, x.Place.Object, x.Place.Addr)
	other := sprintf("call %d %s of process %d", x.Other.Index, callName(&x.Other), x.Other.PID)
	verb, text := "may access", ""
	switch {
	case x.Names && x.Named:
		text = sprintf("has %s among its arguments, and so has %s", at, other)
	case x.Names:
		text = sprintf("has %s among its arguments, which %s %s", at, other, how[x.Wrote])
	case x.Named:
		text = sprintf("%s %s, which %s has among its arguments", how[x.Writes], at, other)
	default:
		verb, text = "accesses", sprintf("%s %s bytes at %s, which %s %s", how[x.Writes], human.Count(x.Bytes), at, other, how[x.Wrote])
	}
	if x.Races > 1 {
		text += sprintf("; so do %s of calls", human.Plural(x.Races-1, "more pair"))
	}
	lines = []string{sprintf("%s, process %d", placeOf(&x.Call), x.PID), text}
	if x.Names || x.Named {
		lines = append(lines, "the trace does not show what kernels access: if one of the two writes there, this is a race")
	}
	return sprintf("call %d %s %s memory that two processes share, and no wait in the trace can have put the accesses in order", x.Index, callName(&x.Call), verb), lines
}

// heldLines describes the memory in use when an allocation failed.
func heldLines(h *blame.Held) (lines []string) {
	if h == nil {
		return nil
	}
	text := fmt.Sprintf("%s in %s; %s more did not fit", human.Bytes(h.Bytes), human.Plural(h.Allocations, "allocation"), human.Bytes(h.Wanted))
	if h.Elsewhere > 0 {
		text += fmt.Sprintf("; %s on other devices", human.Bytes(h.Elsewhere))
	}
	lines = append(lines, text)
	for i := range h.Groups {
		g := &h.Groups[i]
		text := fmt.Sprintf("%s of %s", human.Count(g.Count), human.Bytes(g.Each))
		switch {
		case g.First == nil:
			text += ", from before the trace"
		case g.Count == 1:
			text += fmt.Sprintf(", made by %s", momentOf(g.First))
		default:
			text += fmt.Sprintf(", made by %s to %s", momentOf(g.First), momentOf(g.Last))
		}
		lines = append(lines, text)
	}
	return lines
}

// later returns the number of calls that failed after the failure.
func later(rep *blame.Report) int {
	n := rep.Failed - rep.Before
	if rep.Failure != nil && rep.Failure.Error != "" {
		n--
	}
	return n
}

// callRange returns the calls around the failure, for --call. It has the calls that the page names before it, unless they are far away.
func callRange(rep *blame.Report) string {
	const near, far = 10, 1000
	at := rep.Failure.Index
	from, to := at-min(at, near), at
	named := slices.Clone(rep.Earlier)
	if rep.Capture != nil {
		named = append(named, rep.Capture.Begin) // call numbers of several threads are not in the order of time
	}
	for i := range named {
		if k := named[i].Index; max(k, at)-min(k, at) <= far {
			from, to = min(from, k), max(to, k)
		}
	}
	return fmt.Sprintf("%d:%d", from, to)
}

// blameNext returns the commands for the next look.
func blameNext(rep *blame.Report) (next []string) {
	add := func(words ...string) { next = append(next, acltrace(words...)) }
	if len(rep.Odds) > 0 {
		x := &rep.Odds[0]
		add("cat", rep.Trace, "--call", number(x.Index))
		add("extract", rep.Trace, "--call", number(x.Index), "-o", "launch.aclt")
		return next
	}
	switch {
	case rep.Failure == nil && len(rep.Cut) > 0:
		add("blame", rep.Trace, "--call", number(rep.Cut[0].Index))
		return next
	case len(rep.Races) > 0:
		add("cat", rep.Trace, "--call", number(rep.Races[0].Index))
		return next
	case len(rep.BareReads) > 0:
		add("cat", rep.Trace, "--call", number(rep.BareReads[0].Index))
		return next
	case len(rep.Faults) > 0:
		add("cat", rep.Trace, "--call", callsOf(&rep.Faults[0]))
		return next
	case rep.Failure == nil && len(rep.Unwaited) > 0:
		u := &rep.Unwaited[0]
		add("cat", rep.Trace, "--call", fmt.Sprintf("%d:%d", u.Index, u.Next.Index))
		return next
	}
	if len(rep.Suspects) == 0 {
		if f := rep.Failure; f == nil && len(rep.Died) > 0 && len(rep.Died[0].Last) > 0 {
			last := rep.Died[0].Last[0].Call
			add("cat", rep.Trace, "--call", fmt.Sprintf("%d:%d", last-min(last, 10), last))
		} else if f != nil {
			add("cat", rep.Trace, "--call", callRange(rep))
		} else {
			add("cat", rep.Trace, "--tail", "20")
		}
		return next
	}
	x := &rep.Suspects[0]
	if f := rep.Failure; f != nil && f.Index == x.Index && (len(rep.Earlier) > 0 || rep.Capture != nil) {
		add("cat", rep.Trace, "--call", callRange(rep))
	} else {
		add("cat", rep.Trace, "--call", number(x.Index))
	}
	for i := range x.Arguments {
		if a := &x.Arguments[i]; a.Place != nil && (a.Finding == blame.FreedBefore || a.Finding == blame.FreedMeantime || a.Finding == blame.BeyondEnd) {
			add("where", rep.Trace, "--addr", a.Value.String())
			break
		}
	}
	if x.Kernel != "" {
		add("extract", rep.Trace, "--call", number(x.Index), "-o", "launch.aclt")
	}
	return next
}

// alikeSuspects returns the suspects, from the first one on, that differ only in their numbers and times, as runs of one graph.
func alikeSuspects(list []blame.Suspect) []blame.Suspect {
	x, n := &list[0], 1
	for body := suspectBody(x); n < len(list); n++ {
		o := &list[n]
		if o.Func != x.Func || o.Kernel != x.Kernel || o.Stream != x.Stream || o.TID != x.TID || o.Certain != x.Certain || o.Unlikely() != x.Unlikely() || !slices.Equal(suspectBody(o), body) {
			break
		}
	}
	return list[:n]
}

// suspectText explains suspects that are alike.
func suspectText(w io.Writer, alike []blame.Suspect, o *TextOptions) {
	x := &alike[0]
	verdict := Doubtful("suspect")
	switch {
	case x.Certain:
		verdict = Bad("guilty")
	case x.Unlikely():
		verdict = "in flight"
	}
	writeMarked(w, "\n"+wrap(sprintf("%s: call %d %s", verdict, x.Index, callName(&x.Call)), o.width(), 4)+"\n")
	line := func(text string) { writeMarked(w, wrap("  "+text, o.width(), 4)+"\n") }
	line(sprintf("%s", placeOf(&x.Call)))
	for _, text := range suspectBody(x) {
		line(text)
	}
	for i, f := range x.Stack {
		line(sprintf("%-8s %s", label("from", i), f))
	}
	if more := alike[1:]; len(more) > 0 {
		numbers := make([]string, len(more))
		for i := range more {
			numbers[i] = number(more[i].Index)
		}
		line(sprintf("the same is true of %s, %s", human.Plural(len(more), "later call"), strings.Join(numbers, ", ")))
	}
}

// suspectBody returns the lines of evidence and arguments.
func suspectBody(x *blame.Suspect) (lines []string) {
	line := func(text string) { lines = append(lines, text) }
	for k := range x.Reasons {
		line(sprintf("because %s", reasonText(x, &x.Reasons[k])))
	}
	for k := range x.Arguments {
		a := &x.Arguments[k]
		text := sprintf("%-8s %s = %s", a.How, whereText(a), a.Value)
		if a.Place != nil {
			text += sprintf(" = %s+%d of %s bytes", a.Place.Object, a.Place.Offset, human.Count(a.Place.Size))
		}
		if note := noteText(a); note != "" {
			text += sprintf("; %s", note)
		}
		line(text)
	}
	if x.Partly {
		line("the trace lacks some of its arguments")
	}
	return lines
}

// begunText says when and with which versions the trace was recorded.
func begunText(rep *blame.Report) string {
	text := wall(rep.Begun)
	for _, x := range []struct{ what, version string }{{"acltrace", rep.Acltrace}, {"runtime", rep.Runtime}, {"driver", rep.Driver}} {
		if x.version != "" {
			text += ", " + x.what + " " + x.version
		}
	}
	return text
}

// wall formats a moment in UTC, as logs do.
func wall(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02 15:04:05.000000 UTC") }

func label(word string, line int) string {
	if line > 0 {
		return ""
	}
	return word
}

// WhereText writes the findings about an address in the trace at path.
func WhereText(out io.Writer, path string, x *blame.Whereabouts, o *TextOptions) error {
	var latest *blame.Call
	for i := range x.Places {
		if a := x.Places[i].Accesses; len(a) > 0 {
			latest = &a[len(a)-1].Call
		}
	}
	if err := Wrapped(out, o, 0, func(w io.Writer) { placesText(w, x) }); err != nil {
		return err
	}
	if latest != nil {
		nextText(out, acltrace("cat", path, "--call", number(latest.Index)))
	} else {
		nextText(out, acltrace("where", path, "--map"))
	}
	return nil
}

func placesText(w io.Writer, x *blame.Whereabouts) {
	when := "at any time"
	if x.At != nil {
		when = fmt.Sprintf("at the start of call %d %s", x.At.Index, callName(x.At))
	}
	if len(x.Places) == 0 {
		Printf(w, "%s is in no known allocation %s\n", x.Addr, when)
		if p := x.Below; p != nil {
			Printf(w, "%s bytes beyond the end of %s\n", human.Count(p.Offset-p.Size), p.Object)
			placeLines(w, p)
		}
		if p := x.Above; p != nil {
			Printf(w, "%s bytes before the start of %s\n", human.Count(uint64(p.Addr-x.Addr)), p.Object)
			placeLines(w, p)
		}
	}
	for i := range x.Places {
		p := &x.Places[i].Place
		state := ""
		if x.At != nil {
			state = ", live " + when
			if p.Ended != nil {
				state = ", freed " + when
			}
		}
		Printf(w, "%s is byte %s of %s in %s%s\n", x.Addr, human.Count(p.Offset), human.Count(p.Size), p.Object, state)
		historyText(w, &x.Places[i])
	}
}

// MapText writes the live allocations of the trace at path as a table.
func MapText(out io.Writer, path string, x *blame.Map, o *TextOptions) error {
	when := "at the end of the trace"
	if x.At != nil {
		when = fmt.Sprintf("at the start of call %d %s on thread %d at %s", x.At.Index, callName(x.At), x.At.TID, human.Moment(x.At.Start))
	}
	var bytes uint64
	for i := range x.Ranges {
		bytes += x.Ranges[i].Size
	}
	heading := sprintf("%s live %s: %s\n", human.Plural(len(x.Ranges)+x.More, "allocation"), when, human.Bytes(bytes))
	writeMarked(out, wrap(heading, o.width(), 2))
	if len(x.Ranges)+x.More == 0 {
		return nil
	}
	w := newTable(out, o)
	w.wraps = true // clipping would drop the call's number
	Printf(w, "\nprocess\taddress\tbytes\t  allocation, made by\n")
	for i := range x.Ranges {
		p := &x.Ranges[i]
		Printf(w, "%d\t%s\t%s\t  %s, %s", p.PID, p.Addr, human.Count(p.Size), p.Object, madeBy(&p.Place))
		if p.Ended != nil {
			Printf(w, ", freed by %s", momentOf(p.Ended))
		}
		if p.Made != nil && len(p.Made.Stack) > 0 {
			Printf(w, " from %s", strings.Join(p.Made.Stack, " < "))
		}
		Printf(w, "\n")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if x.More > 0 {
		Printf(out, "(%s, whose bytes are not counted)\n", human.Plural(x.More, "more allocation"))
	}
	if len(x.Ranges) > 0 {
		nextText(out, acltrace("where", path, "--addr", x.Ranges[0].Addr.String()))
	}
	return nil
}

func historyText(w io.Writer, t *blame.Lifetime) {
	p := &t.Place
	Printf(w, "\n%s: %s bytes at %s\n", p.Object, human.Count(p.Size), p.Addr)
	placeLines(w, p)
	if t.Before > 0 {
		Printf(w, "  … %s\n", human.Plural(t.Before, "earlier call"))
	}
	for i := range t.Accesses {
		a := &t.Accesses[i]
		failed := ""
		if a.Error != "" {
			failed = ": " + a.Error
		}
		Printf(w, "  call %d  %s  %s%s%s\n", a.Index, human.Moment(a.Start), AccessText(a), onStream(&a.Call), failed)
	}
	if len(t.Accesses) == 0 {
		when := "in the trace"
		if t.Place.Ended != nil {
			when = "before it was freed"
		}
		Printf(w, "  no task used it %s\n", when)
	}
}

// placeLines writes the beginning and the end of an allocation, each with its stack.
func placeLines(w io.Writer, p *blame.Place) {
	Printf(w, "  made by %s%s\n", madeBy(p), fromText(p.Made))
	if p.Ended != nil {
		Printf(w, "  freed by %s, thread %d%s\n", momentOf(p.Ended), p.Ended.TID, fromText(p.Ended))
	}
}

func fromText(c *blame.Call) string {
	if c == nil || len(c.Stack) == 0 {
		return ""
	}
	return " from " + strings.Join(c.Stack, " < ")
}

// madeBy names the call that made an allocation.
func madeBy(p *blame.Place) string {
	if p.Made == nil {
		return "a call from before the trace"
	}
	return momentOf(p.Made)
}

func momentOf(c *blame.Call) string {
	return fmt.Sprintf("call %d %s at %s", c.Index, c.Func, human.Moment(c.Start))
}

func callName(c *blame.Call) string {
	switch {
	case c.Kernel != "" && c.Blocks > 0:
		return fmt.Sprintf("%s, kernel %s with block dim %d%s", c.Func, human.Kernel(c.Kernel), c.Blocks, operatorText("of", &c.Operator))
	case c.Kernel != "":
		return fmt.Sprintf("%s, kernel %s%s", c.Func, human.Kernel(c.Kernel), operatorText("of", &c.Operator))
	}
	return c.Func + operatorText("in", &c.Operator)
}

// operatorText names an operator and its phase: " of operator aclnnAdd (phase two)". It returns "" for none.
func operatorText(preposition string, o *blame.Operator) string {
	if o.Operator == "" {
		return ""
	}
	return fmt.Sprintf(" %s operator %s (%s)", preposition, o.Operator, o.Phase)
}

// placeOf says on which stream and thread a call was made, and when.
func placeOf(c *blame.Call) string {
	return strings.TrimPrefix(onStream(c)+fmt.Sprintf(", thread %d, at %s", c.TID, human.Moment(c.Start)), ", ")
}

// onStream names a call's stream and task: ", stream#2, task 1:12004".
func onStream(c *blame.Call) string {
	s := ""
	if c.Stream != "" {
		s = ", " + c.Stream
	}
	if c.Task != nil {
		s += ", task " + taskText(c.Task)
	}
	return s
}

// taskText returns a task in the form that --task takes: STREAM:TASK, or STREAM:FLIP:TASK as in the runtime's logs.
func taskText(t *format.TaskID) string {
	if flip := t.Task >> 16; flip != 0 {
		return fmt.Sprintf("%d:%d:%d", t.Stream, flip, t.Task&0xffff)
	}
	return fmt.Sprintf("%d:%d", t.Stream, t.Task)
}

// AccessText describes an access.
func AccessText(a *blame.Access) string {
	s := accessText(a)
	if a.Captured {
		s += ", when its graph runs"
	}
	if a.Replaces != nil {
		s += fmt.Sprintf(", in place of call %d", *a.Replaces)
	}
	if a.ReplacedBy != nil {
		s += fmt.Sprintf(", until call %d replaced it", *a.ReplacedBy)
	}
	return s
}

func accessText(a *blame.Access) string {
	what := a.Func
	if a.Kernel != "" {
		what = human.Kernel(a.Kernel)
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
