package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/pflag"
)

// waiting prints the event that a recording waits for.
func (a *app) waiting(what string) { report.Printf(a.err, "acltrace: %s\n", what) }

// ending selects the summary after a recording.
type ending struct{ quiet, json bool }

func (e *ending) add(f *pflag.FlagSet) {
	f.BoolVarP(&e.quiet, "quiet", "q", false, "print no summary")
	f.BoolVar(&e.json, "json", false, "print the summary as JSON on standard error")
}

// recorded prints how a recording ended and returns the exit code.
func (a *app) recorded(o *record.Options, res *record.Result, err error, end *ending) error {
	if err = inFlags(err); err != nil {
		return notStarted(o, err)
	}
	if end.json {
		if err := json.NewEncoder(report.NewJSON(a.err)).Encode(resultJSON(res)); err != nil {
			return err
		}
	} else {
		a.recordedText(o, res, end.quiet)
	}
	if res.ExitCode != 0 {
		return &exit{code: res.ExitCode}
	}
	return nil
}

// notStarted gives an error exitStart if a program was to be started and did not start.
func notStarted(o *record.Options, err error) error {
	if len(o.Command) > 0 && errors.Is(err, record.ErrStart) && !errors.As(err, new(*exit)) {
		return &exit{exitStart, err}
	}
	return err
}

func (a *app) recordedText(o *record.Options, res *record.Result, quiet bool) {
	if !quiet {
		a.recordSummary(o, res)
	}
	for _, path := range res.Salvaged {
		report.Printf(a.err, "acltrace: %s: saved the calls of a recording whose recorder was killed\n", path)
	}
	for _, l := range res.Left {
		report.Printf(a.err, "acltrace: %s has unsaved calls and uses memory (%[2]v); save them: acltrace recover %[1]s -o FILE\n", l.Session, l.Err)
	}
	if res.Missed != nil {
		report.Printf(a.err, "acltrace: %s; mark steps with ranges named step, or with --step-marker name a function that each step calls once\n", missed(res.Missed))
	}
	if res.Incomplete != nil {
		report.Printf(a.err, "acltrace: recording ended before the program: %v\n", res.Incomplete)
	}
	if res.File.Missing != "" {
		report.Printf(a.err, "acltrace: no file: %s\n", res.File.Missing)
	}
	if !quiet {
		a.nextLook(res)
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
	case len(res.Asleep) > 0:
		return "no call was recorded"
	case len(res.Unhooked)+len(res.PassedBy) > 0:
		return "no call was recorded; calls that passed by the recorder:" // unseen prints the list
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
func (a *app) saved(paths []string) {
	const most = 5
	if n := len(paths) - most; n > 0 {
		report.Printf(a.err, "acltrace: saved %s, the last of them:\n", human.Plural(len(paths), "trace"))
		paths = paths[n:]
	}
	for _, path := range paths {
		r, err := format.Open(path, nil)
		if err != nil {
			report.Printf(a.err, "acltrace: saved %s\n", path)
			continue
		}
		calls := uint64(0)
		if c, err := r.Counts(); err == nil {
			calls = c.Calls
		}
		report.Printf(a.err, "acltrace: saved %s: the last %s; %s\n", path, human.Plural(calls, "call"), r.Meta().Sealed)
		r.Close()
	}
}

// nextLook prints the command for the first look at a recording.
func (a *app) nextLook(res *record.Result) {
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
		a.next(words...)
		return
	}
	if _, remedy := refusal(res.Ringless.Why); res.Refused > 0 && remedy != "" {
		report.Printf(a.err, "acltrace: next: %s\n", remedy)
		return
	}
	look := report.FirstLook(res.Failed, res.ExitCode)
	if slices.ContainsFunc(res.Died, func(d record.Died) bool { return !format.AsksToEnd(d.Signal) }) {
		look = "blame"
	}
	a.next("acltrace", look, trace)
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

// stopped words why a recording stopped, "" after an error, which recordedText prints.
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

func (a *app) recordSummary(o *record.Options, res *record.Result) {
	defer a.unseen(res, o.Model)
	if why := nothing(o, res); why != "" {
		if res.File.OlderKept {
			why += "; the earlier file is kept"
		}
		report.Printf(a.err, "acltrace: %s: %s\n", res.Output, why)
		a.asleep(res.Asleep)
		return
	}
	a.saved(res.Sealed)
	for _, f := range res.Ranks {
		report.Printf(a.err, "acltrace: rank %d: %s: %s, %s\n", f.Rank, f.Output, human.Plural(f.Calls, "call"), human.Bytes(f.Bytes))
	}
	s := fmt.Sprintf("acltrace: %s: %s", res.Output, human.Plural(res.Calls, "call"))
	switch {
	case len(res.Sealed) > 0:
		s = fmt.Sprintf("acltrace: %s seen", human.Plural(res.Calls, "call"))
	case len(res.Ranks) > 0:
		s = fmt.Sprintf("acltrace: %s: %s", human.Plural(len(res.Ranks), "rank"), human.Plural(res.Calls, "call"))
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
	report.Printf(a.err, "%s\n", s)
	a.died(res.Died)
	a.asleep(res.Asleep)
	a.unexecuted(res.Kernels.Unexecuted)
	if n := len(res.Kernels.NotComputed); n > 0 {
		report.Printf(a.err, "acltrace: %s not computed: %s; a replay calls results that depend on them unproved\n", human.Plural(n, "operator"), firstNames(res.Kernels.NotComputed))
	}
	if len(res.Kernels.Crashed) > 0 {
		report.Printf(a.err, "acltrace: kernel %s crashed: later results are unproved\n", firstNames(res.Kernels.Crashed))
	}
	if res.Kernels.Forgotten != nil {
		report.Printf(a.err, "acltrace: kernel libraries not listed: %v; a replay needs --kernels LIBRARY\n", res.Kernels.Forgotten)
	}
}

// died prints up to five processes killed by a signal, and where. A signal that asks for the end is an ordinary end, as of a worker at the end of a job.
func (a *app) died(list []record.Died) {
	const most, calls = 5, 3
	list = slices.DeleteFunc(slices.Clone(list), func(d record.Died) bool { return format.AsksToEnd(d.Signal) })
	for i, d := range list {
		if i == most {
			report.Printf(a.err, "acltrace: and %d more: acltrace info lists them\n", len(list)-most)
			return
		}
		report.Printf(a.err, "acltrace: process %d (%s) was killed by %s", d.PID, d.Command, human.Signal(d.Signal))
		if len(d.Last) > 0 {
			report.Printf(a.err, ": %s", strings.Join(d.Last[:min(calls, len(d.Last))], ", "))
		}
		if more := len(d.Last) - calls; more > 0 {
			report.Printf(a.err, ", and %d more threads", more)
		}
		report.Printf(a.err, "\n")
	}
}

// asleep prints threads that made no call because they slept.
func (a *app) asleep(list []format.Asleep) {
	const most = 3
	for i := range list[:min(most, len(list))] {
		report.Printf(a.err, "acltrace: %s\n", &list[i])
	}
	if n := len(list) - most; n > 0 {
		report.Printf(a.err, "acltrace: and %d more threads: acltrace info lists them\n", n)
	}
}

// unexecuted prints kernels that did not run.
func (a *app) unexecuted(names []string) {
	if len(names) > 0 {
		report.Printf(a.err, "acltrace: kernels not executed: %s; results that depend on them are invalid; implement them with --kernels LIBRARY\n", firstNames(names))
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
func (a *app) unseen(res *record.Result, m *api.Model) {
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
		report.Printf(a.err, "acltrace: %s passed by, counted by name only (called %s): see acltrace info\n", human.Plural(called, "function"), human.Plural(calls, "time"))
	}
	if asked > 0 {
		report.Printf(a.err, "acltrace: %s that it does not know were looked up or linked, and perhaps called: see acltrace info\n", human.Plural(asked, "function"))
	}
	if below > 0 {
		report.Printf(a.err, "acltrace: %s of these can move data that the trace does not show: they are under or beside the runtime\n", human.Count(below))
	}
	for i, u := range res.Unhooked {
		if i == 10 {
			report.Printf(a.err, "acltrace: NOT RECORDED: %d more\n", len(res.Unhooked)-i)
			break
		}
		report.Printf(a.err, "acltrace: NOT RECORDED: %s: %s\n", u.Subject(), report.UnhookedReason(&u))
	}
}

// A recordResult is record's summary as JSON.
type recordResult struct {
	Output     string            `json:"output"`               // file of the trace
	NoFile     string            `json:"no_file,omitempty"`    // why there is no trace
	OlderKept  bool              `json:"older_kept,omitempty"` // no call was recorded, and the earlier trace is kept
	Moved      []string          `json:"moved"`                // new names of earlier traces
	Ranks      []recordedRank    `json:"ranks,omitempty"`      // traces of single ranks
	Stopped    record.Stop       `json:"stopped"`              // why recording stopped: ended, time, steps, size, asked or failed
	Sealed     []string          `json:"sealed,omitempty"`     // traces of a ring
	Bytes      int64             `json:"bytes"`                // size of the trace
	BlobFile   string            `json:"blob_file,omitempty"`  // file of --blobs
	BlobBytes  int64             `json:"blob_bytes,omitempty"` // size of the --blobs file
	Calls      uint64            `json:"calls"`                // number of recorded calls
	Failed     uint64            `json:"failed"`               // calls that returned an error
	Unfinished uint64            `json:"unfinished"`           // calls that had not returned at the end
	Cut        uint64            `json:"cut,omitempty"`        // of them, calls during which the recording ended
	Lost       uint64            `json:"lost"`                 // calls known to be lost
	Unwritten  uint64            `json:"unwritten"`            // calls that could not be written
	Threads    int               `json:"threads_not_recorded"` // threads without a buffer, which were not recorded
	Processes  int               `json:"processes"`            // number of recorded processes
	Asleep     []format.Asleep   `json:"asleep,omitempty"`     // threads that slept throughout an attached recording
	Unseen     []format.Unhooked `json:"not_recorded"`         // processes and libraries that the recorder did not see
	Full       bool              `json:"full"`                 // --max-size ended the recording
	Incomplete string            `json:"incomplete,omitempty"` // why the recording ended before the program
	ExitCode   int               `json:"exit_code"`            // the program's exit code; 128 and the signal if one killed it
	Signal     int               `json:"signal,omitempty"`     // signal that killed the program
	// NotComputed are the operators that no kernel library computes: results that depend on them are unknown.
	NotComputed []string `json:"not_computed,omitempty"`
}

// A recordedRank is the trace of one rank.
type recordedRank struct {
	Rank   int    `json:"rank"`   // number of the rank
	Output string `json:"output"` // file of its trace
	Calls  uint64 `json:"calls"`  // number of recorded calls
	Bytes  int64  `json:"bytes"`  // size of its trace
}

func resultJSON(res *record.Result) *recordResult {
	r := &recordResult{
		Stopped: res.Stop,
		Output:  res.Output, NoFile: res.File.Missing, OlderKept: res.File.OlderKept, Moved: append([]string{}, res.File.Moved...), Sealed: res.Sealed, Bytes: res.File.Bytes, BlobFile: res.File.BlobFile, BlobBytes: res.File.BlobBytes,
		Calls: res.Calls, Failed: res.Failed, Unfinished: res.Unfinished, Cut: res.Cut, Lost: res.Lost, Unwritten: res.Unwritten, Threads: res.Refused, Processes: res.Processes, Asleep: res.Asleep,
		Unseen: append([]format.Unhooked{}, res.Unhooked...), Full: res.File.Full, ExitCode: res.ExitCode, Signal: res.Signal, NotComputed: res.Kernels.NotComputed,
	}
	for _, f := range res.Ranks {
		r.Ranks = append(r.Ranks, recordedRank(f))
	}
	if res.Incomplete != nil {
		r.Incomplete = res.Incomplete.Error()
	}
	return r
}
