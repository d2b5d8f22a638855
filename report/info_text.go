package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/internal/shell"
)

// RowFunc writes a row of a table with two columns. Its arguments are those of Printf.
type RowFunc func(name, format string, args ...any)

// RowsText writes the rows of fill as a table with two columns.
func RowsText(w io.Writer, o *TextOptions, fill func(RowFunc)) error {
	var rows pairs
	fill(rows.add)
	return rows.write(w, o)
}

// Text writes the form for people: the program and whether its trace is complete come first.
func (in *Info) Text(w io.Writer, o *TextOptions) error {
	var rows pairs
	for _, part := range []func(RowFunc){in.programRows, in.completeRows, in.callRows, in.gapRows, in.processRows, in.deviceRows, in.replayRows, in.payloadRows,
		in.tracerRows, in.deviceTimeRows, in.coverageRows, in.operatorRows, in.libraryRows} {
		part(rows.add)
	}
	if err := rows.write(w, o); err != nil {
		return err
	}
	t := newTable(w, o)
	Printf(t, "\ncalls\t  function\n")
	calls := in.Calls.ByFunction
	for _, name := range slices.SortedFunc(maps.Keys(calls), func(a, b string) int { return cmp.Or(cmp.Compare(calls[b], calls[a]), cmp.Compare(a, b)) }) {
		Printf(t, "%s\t  %s\n", human.Count(calls[name]), name)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	nextText(w, in.next())
	return nil
}

// next returns the command for the next look.
func (in *Info) next() string {
	switch {
	case in.Recording:
		return acltrace("top", in.path)
	case len(in.Damage) > 0:
		return acltrace("fsck", in.path)
	case in.Recovery != nil:
		return shell.Command(RecoverCommand(in.path)...)
	case in.Calls.Unfinished > in.Coverage.NoEnd+in.Coverage.Cut:
		return acltrace("blame", in.path)
	}
	return acltrace(FirstLook(in.Calls.Failed, in.noMemory, in.ExitCode), in.path)
}

// profile reports whether the trace was imported from a profiler. Such a trace has neither exit code nor coverage.
func (in *Info) profile() bool { return in.CapturedBy == "msprof" }

func (in *Info) programRows(row RowFunc) {
	row("trace", "%s (format %d.%d)", in.path, in.Format.Major, in.Format.Minor)
	row("program", "%s", strings.Join(in.Command, " "))
	if !in.profile() {
		row("ended", "%s", in.end())
	}
	by := cmp.Or(in.CapturedBy, "unknown")
	if by == "ebpf" {
		by = "eBPF"
	}
	row("recorded", "%s on %s, %s, by %s", time.Unix(0, in.StartNS).UTC().Format("2006-01-02 15:04:05 UTC"), cmp.Or(in.Host, "an unknown host"), human.Duration(in.EndNS-in.StartNS), by)
}

// end returns how the program ended.
func (in *Info) end() string {
	switch {
	case in.Recording:
		return "not yet: " + format.BeingRecorded
	case in.Sealed != "":
		return "unknown: the ring was saved: " + in.Sealed
	case in.Recovered != "":
		return "unknown: recovered from an incomplete trace: " + in.Recovered
	case in.cut != "" && !in.ended:
		return "unknown: the recorder did not finish the file"
	case in.Ended != "":
		return in.Ended
	case in.ExitSignal != 0:
		return EndedBy(in.ExitSignal)
	}
	return fmt.Sprintf("exit code %d", in.ExitCode)
}

func (in *Info) deviceRows(row RowFunc) {
	device := in.Device.Name
	if in.Simulated {
		device = "simulated, no device was used"
	} else if device == "" {
		device = "unknown"
	}
	row("device", "%s", device)
	if in.Device.Runtime != "" || in.Device.DriverVersion != "" {
		row("versions", "runtime %s, driver %s", cmp.Or(in.Device.Runtime, "unknown"), cmp.Or(in.Device.DriverVersion, "unknown"))
	}
}

func (in *Info) processRows(row RowFunc) {
	row("processes", "%s, %s", human.Count(in.Processes), human.Plural(in.Threads, "thread"))
	for i, line := range in.processes() {
		if i == mostProcesses {
			row("", "and %s more: --json lists all", human.Count(len(in.ProcessList)-i))
			break
		}
		row("", "%s", line)
	}
}

func (in *Info) callRows(row RowFunc) {
	marks := ""
	if in.Calls.Marks > 0 {
		marks = " and " + human.Plural(in.Calls.Marks, "mark") + " of operators"
	}
	row("calls", "%s%s, %s failed%s, %s unfinished", human.Count(in.Calls.Total), marks, badCount(in.Calls.Failed), answeredText(in.Calls.Answered), human.Count(in.Calls.Unfinished-min(in.Coverage.Cut, in.Calls.Unfinished)))
	for i := range in.Standing {
		if i == mostStanding {
			row("", "and %s more threads in calls", human.Count(len(in.Standing)-i))
			break
		}
		row(label("in progress", i), "%s", &in.Standing[i])
	}
}

func (in *Info) payloadRows(row RowFunc) {
	p := &in.Payload
	f := p.BlobFile
	if f == nil {
		row("payload", "%s of data: arguments, strings, copies; %s over 4 KiB with %s, stored in %s (level %s)", human.Plural(p.Pieces, "piece"), human.Count(p.Blobs), human.Bytes(p.Bytes), human.Bytes(p.StoredBytes), p.Level)
	} else {
		row("payload", "%s of data (level %s); arguments, strings and structures up to 4 KiB are in the trace", human.Plural(p.Pieces, "piece"), p.Level)
		apart := "contents of copies and files, and larger data, " + human.Bytes(p.Bytes) + ", are in " + f.Path
		switch {
		case f.Problem != "":
			row("", "%s: cannot read it: %s; put it there or beside the trace", apart, f.Problem)
		case !f.Complete:
			row("", "%s, stored in %s; it was cut off", apart, human.Bytes(p.StoredBytes))
		default:
			row("", "%s, stored in %s", apart, human.Bytes(p.StoredBytes))
		}
	}
	if p.TakenEarly > 0 {
		row("", "%s read from pinned memory at the call; the program may have changed them before the copy", human.Plural(p.TakenEarly, "payload"))
	}
}

func (in *Info) gapRows(row RowFunc) {
	g := &in.Gaps
	if g.Count == 0 {
		row("gaps", "none")
		return
	}
	others := ""
	if n := g.CallsOlder; n > 0 {
		others = fmt.Sprintf(", %s older than the ring", human.Plural(n, "call"))
	}
	switch n := g.CallsOff; {
	case n > 0:
		others += fmt.Sprintf(", %s while recording was off", human.Plural(n, "call"))
	case g.Off > 0:
		others += ", recording was off"
		if g.Off < g.Count {
			others += fmt.Sprintf(" at %s of them", human.Count(g.Off))
		}
	}
	row("gaps", "%s, %s %s lost%s", human.Count(g.Count), badCount(g.CallsLost), human.Noun(g.CallsLost, "call"), others)
}

func (in *Info) replayRows(row RowFunc) {
	how := "yes"
	switch {
	case in.profile():
		how = "no: a profile has no arguments; only acltrace replay --backend virtual can use it"
	case in.CapturedBy == "ebpf":
		how = "in part: an eBPF trace lacks results of asynchronous copies and objects older than the recording"
	case in.Payload.VisibleMissing > 0:
		how = fmt.Sprintf("no: the content of %s of managed memory is missing", human.Bytes(in.Payload.VisibleMissing))
		if in.Payload.Level != "full" || in.Policy != "block" {
			how += "; record with --replayable"
		}
	case in.Replayable:
	case in.Payload.Level == "full" && in.Policy == "block":
		how = "in part: calls are missing"
	default:
		how = "in part: record with --replayable"
	}
	row("replayable", "%s", how)
}

func (in *Info) tracerRows(row RowFunc) {
	if n := in.Tracer.ClockJumps; n > 0 {
		row("clock", "jumped %s, for example during a suspend; times in the 100 ms before each jump are wrong", human.Plural(n, "time"))
	}
	if in.Tracer.CostNS > 0 {
		row("recording", "%s a launch with 64 bytes of arguments", human.Duration(int64(in.Tracer.CostNS+0.5)))
	}
	if ns := in.Tracer.PayloadNS; ns > 0 {
		row("", "%s of the program's time to copy payloads%s", human.Duration(ns), recordedCopies(in.Tracer.Copies, ", ", ""))
	}
}

func (in *Info) deviceTimeRows(row RowFunc) {
	d := in.DeviceTime
	if d == nil {
		return
	}
	which := "all"
	switch {
	case d.GapNS > 0:
		which = "one per thread and " + human.Duration(d.GapNS)
	case d.Every > 1:
		which = "1 in " + human.Count(d.Every)
	}
	row("device time", "%s measured%s (%s); clock error at most %s, median %s", human.Plural(d.Measured, "task"), in.ofRanks(), which, human.Duration(d.ErrorNS), human.Duration(d.TypicalErrorNS))
	for _, m := range []struct {
		n   uint64
		why string
	}{{d.NeverSynchronized, "the program never waited for them"}, {d.PoolExhausted, "too many unfinished tasks"}, {d.Captured, "a stream was being captured"},
		{d.Lost, "no room in the ring"}, {d.Refused, "the runtime refused to record events; later tasks of the process were not measured"},
		{d.Unsound, "the device's times contradict those of the calls"}} {
		if m.n > 0 {
			row("not measured", "%s: %s", human.Plural(m.n, "task"), m.why)
		}
	}
	if d.Jumps > 0 {
		row("", "the device's clock jumped against the host's clock %s", human.Plural(d.Jumps, "time"))
	}
}

// ofRanks is the word for counts that a rank's trace has from the recording of its job.
func (in *Info) ofRanks() string {
	if in.Divided {
		return " in all ranks"
	}
	return ""
}

func (in *Info) coverageRows(row RowFunc) {
	c := &in.Coverage
	binder := ""
	if c.Binder != "" {
		binder = ", bound by " + c.Binder
	}
	if !in.profile() && c.Hooked+len(c.PassedBy) > 0 { // a recording that has not ended has no counts yet
		row("coverage", "%s recorded%s; %s counted by name%s", human.Plural(c.Hooked, "function"), binder, human.Plural(len(c.PassedBy)-len(c.AskedFor), "other function"), in.ofRanks())
	}
	for _, name := range slices.Sorted(maps.Keys(c.PassedBy)) {
		if !slices.Contains(c.AskedFor, name) {
			row("by name", "%s, called %s%s", name, human.Plural(c.PassedBy[name], "time"), in.ofRanks())
		}
	}
	for _, name := range c.AskedFor {
		row("looked up", "%s, %s; unknown if it was called", name, human.Plural(c.PassedBy[name], "time"))
	}
	if n := len(c.Below); n > 0 {
		row("unseen data", "%s above under or beside the runtime: data may move without a recorded call", human.Plural(n, "function"))
	}
	for _, u := range c.Unhooked {
		row("not seen", "%s: %s", u.Subject(), UnhookedReason(&u))
	}
	if c.Refused > 0 {
		row("not recorded", "%s: no memory for their rings, or no permission", human.Plural(c.Refused, "thread"))
	}
	if n := c.Unsized; n > 0 {
		row("not recorded", "the arguments of %s: their sizes are unknown", human.Plural(n, "launch"))
	}
	if n := c.NoEnd; n > 0 {
		row("no end seen", "%s, which may be over: an exception or a jump left them, or their function's end is not seen", human.Plural(n, "call"))
	}
	for i := range c.Asleep {
		if i == mostStanding {
			row("", "and %s more threads", human.Count(len(c.Asleep)-i))
			break
		}
		row("asleep", "%s", &c.Asleep[i])
	}
	if n := c.Cut; n > 0 {
		row("in progress", "%s when the recording ended", human.Plural(n, "call"))
	}
	if len(c.Endless) > 0 {
		row("", "not seen, because they may run callbacks: the ends of %s", strings.Join(c.Endless, ", "))
	}
	if n := c.CutArguments; n > 0 {
		row("not recorded", "%s: too large", human.Plural(n, "kernel argument"))
	}
}

func (in *Info) libraryRows(row RowFunc) {
	for _, l := range in.Libraries {
		row("library", "%s %s", l.Path, l.BuildID)
	}
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		row("environment", "%s=%s", name, in.Env[name])
	}
}

// limits is how the line about a complete trace goes on, if the program had calls that are not recorded. Nothing of them was lost.
func (in *Info) limits() string {
	c := &in.Coverage
	others, unseen := len(c.PassedBy)-len(c.AskedFor), len(c.Unhooked)
	if others+unseen == 0 {
		return ""
	}
	text := ": every call of the functions that acltrace knows"
	if others > 0 {
		text += fmt.Sprintf("; calls of %s are counted by name", human.Plural(others, "other"))
	}
	if unseen > 0 {
		text += fmt.Sprintf("; %s not seen", human.Plural(unseen, "program or library file"))
	}
	return text
}

func (in *Info) completeRows(row RowFunc) {
	switch {
	case in.Complete:
		word := "yes"
		if len(in.Coverage.Unhooked) > 0 {
			word = "in part"
		}
		row("complete", "%s%s", word, in.limits())
	case in.Recording:
		row("complete", "not yet: %s", strings.Join(slices.Concat([]string{format.BeingRecorded}, in.losses), ", "))
	default:
		row("complete", "%s: %s", Bad("no"), strings.Join(in.losses, ", "))
	}
	if in.Window != format.WindowWhole {
		row("window", "%s", in.Window)
	}
	if r := in.Recovery; r != nil && !in.Recording {
		row("cut", "%s: %s readable, %s unreadable, %s missing", r.Reason, human.Plural(r.Chunks, "chunk"), human.Bytes(r.LostBytes), human.Plural(r.LostChunks, "chunk"))
	}
	for _, kind := range slices.Sorted(maps.Keys(in.Unknown)) {
		row("unknown", "%s: %s (a newer acltrace wrote this file)", kind, human.Count(in.Unknown[kind]))
	}
	for _, d := range in.Damage {
		row("damaged", "%s", d)
	}
}
