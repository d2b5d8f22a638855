// Package recording words how a recording ended, and what the recordings in progress do: the last lines of record, attach and collect, and those
// of ctl. It prints and decides nothing; the command line calls it.
package recording

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/report"
)

// Text prints how a recording ended, with quiet only what a user must know.
func Text(w io.Writer, o *record.Options, res *record.Result, quiet bool) {
	if !quiet || nothing(o, res) != "" {
		summary(w, o, res)
	}
	for _, path := range res.Salvaged {
		report.Printf(w, "acltrace: %s: saved the calls of a recording whose recorder was killed\n", path)
	}
	for _, l := range res.Left {
		report.Printf(w, "acltrace: %s has unsaved calls and uses memory (%[2]v); save them: acltrace recover %[1]s -o FILE\n", l.Session, l.Err)
	}
	if res.Missed != nil {
		report.Printf(w, "acltrace: %s; mark steps with ranges named step, or with --step-marker name a function that each step calls once\n", Missed(res.Missed))
	}
	if res.Incomplete != nil {
		report.Printf(w, "acltrace: recording ended before the program: %v\n", res.Incomplete)
	}
	if res.File.Missing != "" {
		report.Printf(w, "acltrace: no file: %s\n", res.File.Missing)
	}
	if !quiet {
		nextLook(w, res)
	}
}

// nothing explains why no call was recorded. It is "" if one was, or may have been.
func nothing(o *record.Options, res *record.Result) string {
	if res.Calls > 0 || res.Refused > 0 {
		return ""
	}
	switch limit := human.Bytes(res.File.NoRoom); {
	case res.File.NoRoom > 0 && res.File.DiskFull:
		return fmt.Sprintf("no call was recorded: the disk is nearly full: a tenth of the free space, %s, is less than an empty trace needs; free space, or set --max-size", limit)
	case res.File.NoRoom > 0:
		return fmt.Sprintf("no call was recorded: --max-size %s is less than an empty trace needs", limit)
	case res.Unwritten > 0 && errors.Is(res.Incomplete, syscall.ENOSPC):
		return fmt.Sprintf("no call was recorded: the disk is full; %s could not be written", human.Plural(res.Unwritten, "call"))
	case res.Unwritten > 0:
		return fmt.Sprintf("no call was recorded: %s could not be written", human.Plural(res.Unwritten, "call"))
	case res.Processes > 0:
		return ""
	case len(res.Asleep)+len(res.Unhooked)+len(res.PassedBy) > 0: // listed below
		return "no call was recorded"
	case len(res.NoShim) > 0:
		return "no call was seen: " + report.WithoutShim(res.NoShim)
	}
	if o.Capture.Armed {
		return "no call was recorded: with --armed, `acltrace ctl start` starts recording"
	}
	if res.ExitCode == 127 { // of a loader without a library, and of a shell without a command
		why := "no call was seen: the program ended with code 127: a library or a command is missing"
		if !o.Sim {
			why += "; without a device, --sim runs it on the simulator"
		}
		return why
	}
	probe := "the shim"
	if o.Capture.Probe == "ebpf" {
		probe = "eBPF"
	}
	return fmt.Sprintf("no call was seen: the program did not call the runtime (%s: see --api), or called it in a way that %s can't see", o.Model.Name, probe)
}

// advice suggests how to lose fewer calls.
func advice(o *record.Options) string {
	switch {
	case o.Capture.Probe == "ebpf" && o.Command == nil:
		return "--sample skips calls before any is lost"
	case o.Capture.Probe == "ebpf":
		return "a larger --ring-size loses fewer, --probe shim --policy block loses none"
	case o.Limits.Block:
		return "a larger --ring-size loses fewer"
	}
	return "--policy block waits instead"
}

// saved prints the last traces of a ring, each with its calls and the reason to save it.
func saved(w io.Writer, paths []string) {
	const most = 5
	if n := len(paths) - most; n > 0 {
		report.Printf(w, "acltrace: saved %s, the last of them:\n", human.Plural(len(paths), "trace"))
		paths = paths[n:]
	}
	for _, path := range paths {
		r, err := format.Open(path, nil)
		if err != nil {
			report.Printf(w, "acltrace: saved %s\n", path)
			continue
		}
		calls := uint64(0)
		if c, err := r.Counts(); err == nil {
			calls = c.Calls
		}
		report.Printf(w, "acltrace: saved %s: the last %s; %s\n", path, human.Plural(calls, "call"), r.Meta().Sealed)
		r.Close()
	}
}

// nextLook prints the command for the first look at a recording.
func nextLook(w io.Writer, res *record.Result) {
	trace := res.Output
	if n := len(res.Sealed); n > 0 {
		trace = res.Sealed[min(max(res.File.Look, 0), n-1)]
	}
	if res.Calls == 0 || res.File.Missing != "" || res.File.NoRoom > 0 {
		return
	}
	if len(res.Ranks) > 1 {
		words := []string{"acltrace", "merge", "-o", "job.aclt"}
		for _, f := range res.Ranks {
			words = append(words, f.Output)
		}
		report.NextMessage(w, words...)
		return
	}
	if _, remedy := refusal(res.Ringless.Why); res.Refused > 0 && remedy != "" {
		report.Printf(w, "acltrace: next: %s\n", remedy)
		return
	}
	look := report.FirstLook(res.Failed, res.NoMemory, res.ExitCode)
	// Whoever interrupts a program with a call in progress may have waited for that call.
	if res.Signal != 0 && res.Unfinished > res.Cut || slices.ContainsFunc(res.Died, func(d record.Died) bool { return !format.AsksToEnd(d.Signal) }) {
		look = "blame"
	}
	report.NextMessage(w, "acltrace", look, trace)
}

// refusal words why threads got no buffer, and a remedy.
func refusal(why ring.Refusal) (cause, remedy string) {
	switch why {
	case ring.RefusedMemory:
		return "no memory for their buffers in the folder of the session", "a larger /dev/shm (docker run --shm-size 1g) or smaller buffers (--ring-size 64K) record more threads"
	case ring.RefusedCgroup:
		return "no memory for their buffers in the memory cgroup", "a higher memory limit or smaller buffers (--ring-size 64K) record more threads"
	case ring.RefusedLimit:
		return "no room for their buffers within the limits of the process (ulimit)", "a higher limit (ulimit -v, -l, -f) or smaller buffers (--ring-size 64K) record more threads"
	case ring.RefusedSlots:
		return "more than 4,096 threads at once", ""
	}
	return "their process can't make files in the folder of the session, as another user or with its own /dev/shm", ""
}

// stopped words why a recording stopped, "" after an error, which Text prints.
func stopped(o *record.Options, res *record.Result) string {
	switch {
	case res.Stop == record.Time:
		return fmt.Sprintf("stopped after %v (--for)", o.Limits.For)
	case res.Stop == record.Selected:
		return fmt.Sprintf("stopped after step %d (--steps)", o.Steps.Range.Last)
	case res.Stop == record.Size:
		return "--max-size ENDED it early"
	case res.Stop == record.Asked:
		return "stopped on request"
	case res.Stop == record.Failed:
		return ""
	case o.Command == nil:
		return "the recorded processes ended"
	case res.Signal != 0:
		return "the program was " + report.EndedBy(res.Signal)
	case res.ExitCode != 0:
		return fmt.Sprintf("the program ended with code %d", res.ExitCode)
	}
	return "the program ended"
}

func summary(w io.Writer, o *record.Options, res *record.Result) {
	defer unseen(w, res, o.Model)
	if why := nothing(o, res); why != "" {
		if res.File.OlderKept {
			why += "; the earlier file is kept"
		}
		report.Printf(w, "acltrace: %s: %s\n", res.Output, why)
		asleep(w, res.Asleep)
		return
	}
	saved(w, res.Sealed)
	for _, f := range res.Ranks {
		report.Printf(w, "acltrace: rank %d: %s: %s, %s\n", f.Rank, f.Output, human.Plural(f.Calls, "call"), human.Bytes(f.Bytes))
	}
	calls := human.Plural(res.Calls-res.Marks, "call")
	if res.Marks > 0 {
		calls += fmt.Sprintf(" and %s of operators", human.Plural(res.Marks, "mark"))
	}
	s := fmt.Sprintf("acltrace: %s: %s", res.Output, calls)
	switch {
	case len(res.Sealed) > 0:
		s = fmt.Sprintf("acltrace: %s seen", calls)
	case len(res.Ranks) > 0:
		s = fmt.Sprintf("acltrace: %s: %s", human.Plural(len(res.Ranks), "rank"), calls)
	}
	if res.Failed > 0 {
		s += ", " + human.Count(res.Failed) + " failed"
	}
	if n := res.Unfinished - res.Cut; n > 0 {
		s += ", " + human.Count(n) + " unfinished"
	}
	if res.Cut > 0 {
		s += ", " + human.Count(res.Cut) + " in progress at the end"
	}
	if n := res.Lost - res.Nested - res.Ringless.Calls; n > 0 {
		s += fmt.Sprintf(", %s LOST (%s)", human.Count(n), advice(o))
	}
	if res.Nested > 0 {
		s += fmt.Sprintf(", %s NOT RECORDED: made inside other calls, for example by a signal handler", human.Count(res.Nested))
	}
	if res.Unwritten > 0 {
		s += ", " + human.Count(res.Unwritten) + " NOT WRITTEN"
	}
	switch {
	case res.Refused > 0:
		why, _ := refusal(res.Ringless.Why)
		s += fmt.Sprintf(", %s of %s NOT RECORDED: %s", human.Plural(res.Ringless.Calls, "call"), human.Plural(res.Refused, "thread"), why)
	case res.Ringless.Calls > 0:
		s += fmt.Sprintf(", %s NOT RECORDED: made in threads that filter system calls", human.Plural(res.Ringless.Calls, "call"))
	}
	if len(res.Sealed)+len(res.Ranks) == 0 {
		s += ", " + human.Bytes(res.File.Bytes)
	}
	if res.File.BlobFile != "" {
		s += fmt.Sprintf(" and %s of payloads in %s", human.Bytes(res.File.BlobBytes), res.File.BlobFile)
	}
	if why := stopped(o, res); why != "" {
		s += "; " + why
	}
	if res.File.OlderKept {
		s += "; no call was recorded, and the earlier file is kept"
	}
	if len(res.File.Moved) > 0 {
		s += "; earlier traces were moved to " + strings.Join(res.File.Moved, ", ")
	}
	report.Printf(w, "%s\n", s)
	died(w, res.Died)
	asleep(w, res.Asleep)
	unexecuted(w, res.Kernels.Unexecuted)
	if n := len(res.Kernels.NotComputed); n > 0 {
		report.Printf(w, "acltrace: %s not computed: %s; a replay calls results that depend on them unproved\n", human.Plural(n, "operator"), firstNames(res.Kernels.NotComputed))
	}
	if len(res.Kernels.Crashed) > 0 {
		report.Printf(w, "acltrace: kernel %s crashed: later results are unproved\n", firstNames(res.Kernels.Crashed))
	}
	if res.Kernels.Forgotten != nil {
		report.Printf(w, "acltrace: kernel libraries not listed: %v; a replay needs --kernels LIBRARY\n", res.Kernels.Forgotten)
	}
}

// died prints up to five processes killed by a signal, and where. A signal that asks for the end is an ordinary end, as of a worker at the end of a job.
func died(w io.Writer, list []record.Died) {
	const most, calls = 5, 3
	list = slices.DeleteFunc(slices.Clone(list), func(d record.Died) bool { return format.AsksToEnd(d.Signal) })
	for i, d := range list {
		if i == most {
			report.Printf(w, "acltrace: and %d more: acltrace info lists them\n", len(list)-most)
			return
		}
		report.Printf(w, "acltrace: process %d (%s) was killed by %s", d.PID, d.Command, human.Signal(d.Signal))
		if len(d.Last) > 0 {
			report.Printf(w, ": %s", strings.Join(d.Last[:min(calls, len(d.Last))], ", "))
		}
		if more := len(d.Last) - calls; more > 0 {
			report.Printf(w, ", and %s", human.Plural(more, "more thread"))
		}
		report.Printf(w, "\n")
	}
}

// asleep prints threads that made no call because they slept.
func asleep(w io.Writer, list []format.Asleep) {
	const most = 3
	for i := range list[:min(most, len(list))] {
		report.Printf(w, "acltrace: %s\n", &list[i])
	}
	if n := len(list) - most; n > 0 {
		report.Printf(w, "acltrace: and %s: acltrace info lists them\n", human.Plural(n, "more thread"))
	}
}

// unexecuted prints kernels that did not run.
func unexecuted(w io.Writer, names []string) {
	if len(names) > 0 {
		report.Printf(w, "acltrace: kernels not executed: %s; results that depend on them are invalid; implement them with --kernels LIBRARY\n", firstNames(names))
	}
}

// firstNames lists up to five names.
func firstNames(names []string) string {
	const most = 5
	shown := slices.Clone(names[:min(len(names), most)])
	for i, name := range shown {
		shown[i] = human.Kernel(name)
	}
	list := strings.Join(shown, ", ")
	if n := len(names) - most; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	return list
}

// unseen prints the functions and libraries that the recorder did not see.
func unseen(w io.Writer, res *record.Result, m *api.Model) {
	var called, calls, asked, below uint64
	for name, n := range res.PassedBy {
		if m.Counted(name) {
			called, calls = called+1, calls+n
		} else {
			asked++
			if m.Beneath(name) {
				below++
			}
		}
	}
	if called > 0 {
		report.Printf(w, "acltrace: %s passed by, counted by name only (called %s): see acltrace info\n", human.Plural(called, "function"), human.Plural(calls, "time"))
	}
	if asked > 0 {
		report.Printf(w, "acltrace: %s that it does not know were looked up or linked, and perhaps called: see acltrace info\n", human.Plural(asked, "function"))
	}
	if below > 0 {
		report.Printf(w, "acltrace: %s of these can move data that the trace does not show: they are under or beside the runtime\n", human.Count(below))
	}
	for i, u := range res.Unhooked {
		if i == 10 {
			report.Printf(w, "acltrace: NOT RECORDED: %d more\n", len(res.Unhooked)-i)
			break
		}
		report.Printf(w, "acltrace: NOT RECORDED: %s: %s\n", u.Subject(), report.UnhookedReason(&u))
	}
}

// Missed words the steps that a program has not reached.
func Missed(m *record.MissedSteps) string {
	return fmt.Sprintf("--steps %d:%d: the program made %s, counted by %s", m.Wanted.First, m.Wanted.Last, human.Plural(m.Made, "step"), m.By)
}
