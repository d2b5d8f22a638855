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
)

// rowFunc writes a row of a table with two columns. Its arguments are those of Printf.
type rowFunc func(name, format string, args ...any)

// Text writes the form for people.
func (in *Info) Text(w io.Writer, o *TextOptions) error {
	var rows pairs
	for _, part := range []func(rowFunc){in.programRows, in.deviceRows, in.processRows, in.callRows, in.payloadRows, in.gapRows, in.replayRows, in.tracerRows,
		in.deviceTimeRows, in.coverageRows, in.integrityRows} {
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
	return t.Flush()
}

// profile reports whether the trace was imported from a profiler. Such a trace has neither exit code nor coverage.
func (in *Info) profile() bool { return in.CapturedBy == "msprof" }

func (in *Info) programRows(row rowFunc) {
	row("trace", "%s (format %d.%d)", in.path, in.Format.Major, in.Format.Minor)
	row("command", "%s", strings.Join(in.Command, " "))
	if !in.profile() {
		row("ended", "%s", in.end())
	}
	by := "not known"
	switch {
	case in.CapturedBy == "ebpf":
		by = "eBPF"
	case in.profile():
		by = in.CapturedBy
	case in.CapturedBy != "":
		by = "the " + in.CapturedBy
	}
	row("recorded", "%s on %s, %s, by %s", time.Unix(0, in.StartNS).UTC().Format("2006-01-02 15:04:05 UTC"), cmp.Or(in.Host, "not known"), human.Duration(in.EndNS-in.StartNS), by)
}

// end returns how the program ended.
func (in *Info) end() string {
	switch {
	case in.Sealed != "":
		return "the newest calls, sealed by a flight recorder: " + in.Sealed
	case in.Recovered != "":
		return "not known: recovered from a trace that was not whole: " + in.Recovered
	case in.cut != "" && !in.ended:
		return "not known: the recorder did not finish the file"
	case in.Ended != "":
		return in.Ended
	case in.ExitSignal != 0:
		return fmt.Sprintf("killed by signal %d", in.ExitSignal)
	}
	return fmt.Sprintf("exit code %d", in.ExitCode)
}

func (in *Info) deviceRows(row rowFunc) {
	device := in.Device.Name
	if in.Simulated {
		device = "simulated: no device was involved"
	} else if device == "" {
		device = "not known"
	}
	row("device", "%s", device)
	if in.Device.Runtime != "" || in.Device.DriverVersion != "" {
		row("versions", "runtime %s, driver %s", cmp.Or(in.Device.Runtime, "not known"), cmp.Or(in.Device.DriverVersion, "not known"))
	}
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		row("environment", "%s=%s", name, in.Env[name])
	}
}

func (in *Info) processRows(row rowFunc) {
	row("processes", "%s, %s", human.Count(in.Processes), human.Plural(in.Threads, "thread"))
	for i, line := range in.processes() {
		if i == mostProcesses {
			row("", "and %s more: --json lists all", human.Count(len(in.ProcessList)-i))
			break
		}
		row("", "%s", line)
	}
}

func (in *Info) callRows(row rowFunc) {
	row("calls", "%s, %s failed, %s unfinished", human.Count(in.Calls.Total), badCount(in.Calls.Failed), human.Count(in.Calls.Unfinished))
	for i := range in.Standing {
		name := ""
		if i == 0 {
			name = "in progress"
		}
		if i == mostStanding {
			row("", "and %s more threads in calls", human.Count(len(in.Standing)-i))
			break
		}
		row(name, "%s", &in.Standing[i])
	}
}

func (in *Info) payloadRows(row rowFunc) {
	p := &in.Payload
	row("payload", "%s of the program's data (arguments, strings, what copies moved); longer ones are %s, %s, %s stored (level %s)", human.Plural(p.Pieces, "piece"), human.Plural(p.Blobs, "blob"), human.Bytes(p.Bytes), human.Bytes(p.StoredBytes), p.Level)
	if f := p.BlobFile; f != nil {
		switch {
		case f.Problem != "":
			row("", "in %s, which can't be read: %s; put it there, or beside the trace", f.Path, f.Problem)
		case !f.Complete:
			row("", "in %s, which was cut off", f.Path)
		default:
			row("", "in %s", f.Path)
		}
	}
	if p.TakenEarly > 0 {
		row("", "%s taken at the call from pinned memory, which the program may have changed before the copy", human.Plural(p.TakenEarly, "payload"))
	}
}

func (in *Info) gapRows(row rowFunc) {
	g := &in.Gaps
	if g.Count == 0 {
		row("gaps", "none")
		return
	}
	others := ""
	if n := g.CallsOlder; n > 0 {
		others = fmt.Sprintf(", %s older than what the flight recorder kept", human.Plural(n, "call"))
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

func (in *Info) replayRows(row rowFunc) {
	how := "yes"
	switch {
	case in.profile():
		how = "no: a profile has neither arguments nor data; acltrace replay --backend virtual plays its times"
	case in.CapturedBy == "ebpf":
		how = "not in full: results of asynchronous copies, and what was made before the recording are not in it"
	case in.Payload.VisibleMissing > 0:
		how = fmt.Sprintf("no, managed memory: the content of %s that the program accesses without a call is missing", human.Bytes(in.Payload.VisibleMissing))
		if in.Payload.Level != "full" || in.Policy != "block" {
			how += "; record with --replayable"
		}
	case in.Replayable:
	case in.Payload.Level == "full" && in.Policy == "block":
		how = "not in full: calls are missing"
	default:
		how = "not in full: record with --replayable"
	}
	row("replayable", "%s", how)
}

func (in *Info) tracerRows(row rowFunc) {
	if n := in.Tracer.ClockJumps; n > 0 {
		row("clock", "jumped %s, as in a suspended machine: times in the 100 ms before are wrong", human.Plural(n, "time"))
	}
	if in.Tracer.CostNS > 0 {
		row("cost", "%s added to a launch with 64 bytes of arguments", human.Duration(int64(in.Tracer.CostNS+0.5)))
	}
	if ns := in.Tracer.PayloadNS; ns > 0 {
		row("recording", "%s%s of the program's threads in all", recordedCopies(in.Tracer.Copies, "", "; "), human.Duration(ns))
	}
}

func (in *Info) deviceTimeRows(row rowFunc) {
	d := in.DeviceTime
	if d == nil {
		return
	}
	which := "all"
	switch {
	case d.GapNS > 0:
		which = "one of a thread every " + human.Duration(d.GapNS)
	case d.Every > 1:
		which = "one of " + human.Count(d.Every)
	}
	row("device time", "%s measured (%s), placed within %s of the calls' clock, half of them within %s", human.Plural(d.Measured, "task"), which, human.Duration(d.ErrorNS), human.Duration(d.TypicalErrorNS))
	for _, m := range []struct {
		n   uint64
		why string
	}{{d.NeverSynchronized, "the program never waited for them"}, {d.PoolExhausted, "too many at once that the program had not waited for"}, {d.Captured, "a stream was being captured"},
		{d.Lost, "no room in the ring"}, {d.Refused, "the runtime lacks what it takes or has refused, and its process was not measured from then on"},
		{d.Unsound, "the device's time does not go with the calls'"}} {
		if m.n > 0 {
			row("not measured", "%s: %s", human.Plural(m.n, "task"), m.why)
		}
	}
	if d.Jumps > 0 {
		row("", "the device's clock and the calls' went apart %s", human.Plural(d.Jumps, "time"))
	}
}

func (in *Info) coverageRows(row rowFunc) {
	c := &in.Coverage
	binder := ""
	if c.Binder != "" {
		binder = ", bound by " + c.Binder
	}
	if !in.profile() {
		row("coverage", "%s hooked%s, %s passed by", human.Plural(c.Hooked, "function"), binder, human.Plural(len(c.PassedBy)-len(c.AskedFor), "other"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.PassedBy)) {
		if !slices.Contains(c.AskedFor, name) {
			row("passed by", "%s, called %s", name, human.Plural(c.PassedBy[name], "time"))
		}
	}
	for _, name := range c.AskedFor {
		row("asked for", "%s, %s; whether it was called is not known", name, human.Plural(c.PassedBy[name], "time"))
	}
	for _, u := range c.Unhooked {
		row("not seen", "%s: %s", u.Subject(), UnhookedReason(&u))
	}
	if c.Refused > 0 {
		row("not recorded", "%s: their rings could not be made, for want of memory or of the right to", human.Plural(c.Refused, "thread"))
	}
	if n := c.Unsized; n > 0 {
		row("not recorded", "the arguments of %s by an array of pointers: nothing told their sizes", human.Plural(n, "launch"))
	}
	if n := c.CutArguments; n > 0 {
		row("not recorded", "%s of kernels, for their size", human.Plural(n, "argument"))
	}
}

func (in *Info) integrityRows(row rowFunc) {
	for _, l := range in.Libraries {
		row("library", "%s %s", l.Path, l.BuildID)
	}
	complete := "yes"
	if !in.Complete {
		complete = "no: " + strings.Join(in.losses, ", ")
	}
	row("complete", "%s", complete)
	if in.Window != format.WindowWhole {
		row("window", "%s", in.Window)
	}
	if r := in.Recovery; r != nil {
		row("cut", "%s: read by its %s; %s in none of them, %s missing (acltrace recover makes a whole file of it)", r.Reason,
			human.Plural(r.Chunks, "whole chunk"), human.Bytes(r.LostBytes), human.Plural(r.LostChunks, "chunk"))
	}
	for _, kind := range slices.Sorted(maps.Keys(in.Unknown)) {
		row("unknown", "%s: %s (a newer acltrace wrote this file)", kind, human.Count(in.Unknown[kind]))
	}
	for _, d := range in.Damage {
		row("damaged", "%s", d)
	}
}
