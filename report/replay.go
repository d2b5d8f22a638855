package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/lab"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/replay/whatif"
)

// ReplayText writes the report of a replay. path is the trace's.
func ReplayText(w io.Writer, path string, rep *replay.Report, o *TextOptions) error {
	return Wrapped(w, o, 0, func(w io.Writer) { replayText(w, path, rep) })
}

func replayText(w io.Writer, path string, rep *replay.Report) {
	skippedText(w, rep)
	differencesText(w, rep)
	unprovedText(w, rep)
	if c := rep.Crash; c != nil {
		how := c.Signal
		if how == replay.TimedOut {
			how = "it did not return in time (--timeout)"
		}
		Printf(w, "%s in call %d %s(%s): %s; recorded at %s on thread %d\n", Bad("ended"), c.Call, c.Func, strings.Join(c.Args, ", "), how, human.Moment(c.StartNS), c.TID)
	}
	if rep.Log != "" {
		Printf(w, "output of the library:\n%s\n", Block(rep.Log))
	}
	if rep.Refused() {
		return
	}
	paceText(w, path, rep)
	for _, f := range rep.Findings {
		Printf(w, "%s", Block(f.Text))
	}
	if rep.Findings != nil && len(rep.Findings) == 0 && rep.Crash == nil {
		Printf(w, "strict: no mistake found\n")
	}
	for _, accesses := range rep.Unchecked {
		Printf(w, "strict: not checked: %s\n", accesses)
	}
	if rep.Repeat != nil {
		repeatText(w, rep.Repeat)
	}
	verdictText(w, rep)
}

// listText writes the first rows of a list, and the number of rows left out.
func listText[T any](w io.Writer, list []T, total int, row func(*T)) {
	for i := range list {
		if i == most {
			Printf(w, "… and %s more\n", human.Count(total-most))
			return
		}
		row(&list[i])
	}
}

// stubAdvice is how the line about an unsupported call goes on.
var stubAdvice = map[compile.Stub]string{compile.LeavesOut: "; --stub-comm leaves that out", compile.StandsIn: "; --stub-comm replaces the process"}

// WhatIfAdvice is how the line about a missing prediction goes on.
var WhatIfAdvice = map[whatif.Advice]string{
	whatif.NoTaskTimes: ": record with --device-time=all",
	whatif.OtherModel:  ": name that of the recorded device with --base",
}

// replayNote returns a replay's note, with the flag that helps.
func replayNote(rep *replay.Report) string {
	if rep.Note == replay.NotCompared {
		return rep.Note + ": use --verify"
	}
	return rep.Note
}

// skippedText lists the calls that the replay did not make.
func skippedText(w io.Writer, rep *replay.Report) {
	refused := rep.Unsupported[:len(rep.Unsupported)-len(rep.Lost)]
	leftOut := rep.LeftOut
	if rep.Simulated {
		leftOut = nil // all that they did is replayed
	}
	for _, x := range []struct {
		why  string
		list []compile.Unsupported
	}{{"not replayed", refused}, {"missing in the trace", rep.Lost}, {"left out", leftOut}} {
		listText(w, x.list, len(x.list), func(u *compile.Unsupported) { Printf(w, "%s: %s%s\n", x.why, u, stubAdvice[u.Stub]) })
	}
}

func differencesText(w io.Writer, rep *replay.Report) {
	listText(w, rep.Differences, rep.DifferingTotal, func(d *replay.Difference) {
		what := "returned"
		if d.Param != "" {
			what = fmt.Sprintf("%s at offset %d", d.Param, d.Offset)
		}
		Printf(w, "%s: call %d %s, %s: recorded %s, now %s\n", Bad("differs"), d.Call, d.Func, what, d.Want, d.Got)
		if d.Reason != "" {
			Printf(w, "  possible cause: %s\n", d.Reason)
		}
		chainText(w, d.Chain, d.ChainTotal)
		for _, x := range d.Chain {
			if x.Note != "" {
				Printf(w, "  call %d: %s\n", x.Call, x.Note)
			}
		}
	})
	if rep.ReportedTotal > 0 {
		d := &rep.Reported[0]
		Printf(w, "reported %s: call %d %s, returned: recorded %s, now %s", map[bool]string{true: "earlier", false: "later"}[d.Earlier], d.Call, d.Func, d.Want, d.Got)
		if n := rep.ReportedTotal - 1; n > 0 {
			Printf(w, "; and %s", human.Plural(n, "more call"))
		}
		Printf(w, ". When a failed task is reported depends on the device\n")
	}
	listText(w, rep.OtherMachine, rep.OtherMachineTotal, func(d *replay.Difference) {
		Printf(w, "another machine: call %d %s, %s: recorded %s, now %s\n", d.Call, d.Func, d.Param, d.Want, d.Got)
	})
}

// chainText writes the last writers of a byte, among total ones.
func chainText(w io.Writer, chain []lab.Writer, total int) {
	if len(chain) == 0 {
		return
	}
	var calls []string
	for _, x := range chain[max(0, len(chain)-most):] {
		calls = append(calls, fmt.Sprintf("%d %s", x.Call, human.Kernel(x.Name)))
	}
	if n := total - len(calls); n > 0 {
		calls = slices.Insert(calls, 0, human.Count(n)+" more")
	}
	Printf(w, "  written by: %s\n", strings.Join(calls, ", "))
}

func unprovedText(w io.Writer, rep *replay.Report) {
	listText(w, rep.Uninitialised, len(rep.Uninitialised), func(u *replay.Uninitialised) {
		Printf(w, "unwritten memory: call %d %s, %s at offset %d: no call in the trace wrote it, and it has other bytes now\n", u.Call, u.Func, u.Param, u.Offset)
	})
	listText(w, rep.Substituted, len(rep.Substituted), func(s *compile.Substituted) {
		Printf(w, "zeros used: call %d %s, %s, %s: %s\n", s.Call, s.Func, s.Param, human.Bytes(s.Bytes), s.Reason)
	})
	listText(w, rep.Guesses, rep.GuessesTotal, func(g *compile.Guess) {
		Printf(w, "guess: call %d %s, %s, byte %d: %s may be an address in the allocation of call %d; --guess rewrites it\n", g.Call, g.Func, g.Param, g.Offset, g.Value, g.Candidates[0].Allocation)
	})
	if d := rep.SameFailure; d != nil {
		Printf(w, "fails as in the trace: call %d %s returned %s\n", d.Call, d.Func, d.Got)
	}
	groups := unprovedGroups(rep.Unverified)
	listText(w, groups, len(groups), func(g *unprovedGroup) {
		if g.results > g.first.Results || g.first.Results > 1 {
			Printf(w, "unproved: %s, first of call %d: %s\n", human.Plural(g.results, "result"), g.first.Call, g.first.Reason)
			return
		}
		Printf(w, "unproved: %s\n", g.first)
	})
	said := map[string]bool{}
	for i := range groups {
		if text := remedies[groups[i].first.Code].text(rep); text != "" && !said[text] {
			said[text] = true
			Printf(w, "proof: %s\n", text)
		}
	}
}

// A remedy says what would prove a result, or say more about it. If the flag that first names was given, or would change nothing, otherwise is the remedy.
type remedy struct{ first, otherwise string }

// remedies has the remedy for each reason why a result is unproved.
var remedies = map[verify.Reason]remedy{
	verify.Kernel:        {first: "a library with these kernels (--kernels FILE.so)"},
	verify.Data:          {fromStart, "a recording of the data that the reason names"},
	verify.NotRecorded:   {fromStart, "a program that waits for each result before it overwrites or frees it"},
	verify.Before:        {fromStart, "a recording from the program's start (no --ring, --steps or attach)"},
	verify.Incomplete:    {first: "a recording that loses no calls (--policy block)"},
	verify.HostFunction:  {first: "an extract of the launches after the host function (acltrace extract)"},
	verify.Uninitialised: {poisoned, "a program that writes this memory before it reads it"},
	verify.Race:          {strictly, "a program that puts these accesses in order"},
	verify.Varies:        {strictly, "a program whose kernels do not race, or --tolerance if sums are in any order"},
	verify.Collective:    {first: "a recording of all ranks on the simulator (acltrace record --sim)"},
	verify.Peer:          {first: "a recording of all ranks (acltrace merge)"},
	verify.Managed:       {first: "a program that copies this memory with calls: what it writes itself is not recorded"},
	verify.Source:        {first: "a program that waits for a copy before it changes the source"},
	verify.Crash:         {first: "a library whose kernels do not crash (--kernels FILE.so)"},
	verify.ByName:        {first: "a version of acltrace that records these functions"},
	verify.NotReached:    {first: "an extract of a later launch (acltrace extract), or a replay that does not end early: the reason is above"},
	verify.Pointer:       {samePlace, "a recording with other addresses, which rarely equal the same numbers, or a library that can use the recorded ones (--place same)"},
}

const (
	fromStart = "a recording with --replayable from the program's start"
	poisoned  = "a replay with --poison shows who reads it"
	strictly  = "a replay with --strict names the accesses that nothing puts in order"
	samePlace = "with --place same no address changes, so a guess does not matter"
)

func (r remedy) text(rep *replay.Report) string {
	if given := map[string]bool{fromStart: rep.Replayable, poisoned: rep.Repeat != nil, strictly: rep.Findings != nil, samePlace: rep.Seed == nil}; given[r.first] {
		return r.otherwise
	}
	return r.first
}

// An unprovedGroup is a list of results that are unproved for one reason.
type unprovedGroup struct {
	first   *compile.Unverified
	results int
}

// unprovedGroups sums up unproved results by reason, in the order of their first calls.
func unprovedGroups(list []compile.Unverified) (groups []unprovedGroup) {
	at := map[string]int{}
	for i := range list {
		u := &list[i]
		k, ok := at[u.Reason]
		if !ok {
			k = len(groups)
			at[u.Reason] = k
			groups = append(groups, unprovedGroup{first: u})
		}
		groups[k].results += max(u.Results, 1)
	}
	return groups
}

// paceText writes the replay's duration and its deviation from the recorded one.
func paceText(w io.Writer, path string, rep *replay.Report) {
	took := ""
	if rep.ReplayedNS > 0 { // a run that did not finish has no duration
		took = " in " + human.Duration(rep.ReplayedNS)
	}
	hosted := ""
	if rep.HostFunctions > 0 {
		hosted = human.Plural(rep.HostFunctions, "host function") + " not run; "
	}
	Printf(w, "%s: %s of %s replayed%s, recorded in %s; %s%s\n", path,
		human.Count(rep.Replayed), human.Plural(rep.Calls, "call"), took, human.Duration(rep.RecordedNS), hosted, map[string]string{"": replayNote(rep), "same": "allocations at the same addresses", "moved": movedText(rep)}[rep.Placement])
	if rep.Pace.Mode == replay.PaceASAP {
		return
	}
	Printf(w, "pace %s: %s off", rep.Pace.Mode, human.Change(rep.Pace.ErrorPercent/100))
	if l := rep.Pace.Late; l != nil {
		Printf(w, "; calls late by %s (median), %s (p99), %s (max), %s (last)", human.Duration(l.P50), human.Duration(l.P99), human.Duration(l.Max), human.Duration(l.Last))
	}
	Printf(w, "\n")
	if c := rep.Cores; c != nil {
		own := c.Without() - c.Library.WaitedNS - c.StolenNS
		Printf(w, "  waited for a core: program threads %s, library threads %s (they ran %s); %s stolen by the host; %s off without that\n",
			human.Duration(own), human.Duration(c.Library.WaitedNS), human.Duration(c.Library.RanNS), human.Duration(c.StolenNS), human.Change(rep.Pace.UnexplainedPercent/100))
	}
	listText(w, rep.Streams, len(rep.Streams), func(s *replay.StreamTime) {
		Printf(w, "  %s: %s, recorded %s, %s off\n", s.Stream, human.Duration(s.ReplayedNS), human.Duration(s.RecordedNS), human.Change(s.ErrorPercent/100))
	})
}

// movedText describes a replay whose allocations are elsewhere.
func movedText(rep *replay.Report) string {
	seed := ""
	if rep.Seed != nil {
		seed = fmt.Sprintf(" (seed %d)", *rep.Seed)
	}
	return fmt.Sprintf("allocations moved%s, %s in data rewritten", seed, human.Plural(rep.RelocatedTotal, "address"))
}

func repeatText(w io.Writer, n *replay.Repeat) {
	Printf(w, "played %s times, %s to %s\n", human.Count(n.Runs), human.Duration(slices.Min(n.ReplayedNS)), human.Duration(slices.Max(n.ReplayedNS)))
	for _, l := range n.Launches[max(0, len(n.Launches)-most):] {
		alone := map[bool]string{true: "; alone on the device, from its call to the end of the wait"}[l.Alone]
		Printf(w, "  call %d, %s: min %s, median %s, max %s%s\n", l.Call, human.Kernel(l.Kernel), human.Duration(l.Min), human.Duration(l.Median), human.Duration(l.Max), alone)
	}
	listText(w, n.NotDeterministic, len(n.NotDeterministic), func(d *replay.Difference) {
		Printf(w, "not deterministic: call %d %s%s differs between runs\n", d.Call, d.Func, map[bool]string{true: ", " + d.Param}[d.Param != ""])
		chainText(w, d.Chain, 0)
	})
}

func verdictText(w io.Writer, rep *replay.Report) {
	listText(w, rep.IgnoredVariables, len(rep.IgnoredVariables), func(v *compile.IgnoredVariable) { Printf(w, "variable not set: %s\n", v) })
	for i := range rep.KernelLibraries {
		if k := &rep.KernelLibraries[i]; k.Changed {
			Printf(w, "%v\n", k)
		}
	}
	if n := rep.NotComputed; n != nil {
		Printf(w, "%s of %s not computed: no kernel library here has them\n", human.Plural(n.Launches, "launch"), human.Plural(n.Operators, "operator"))
	}
	Printf(w, "sandbox: %s\n", rep.Sandbox)
	if rep.Verdict == verify.NotCompared {
		return
	}
	compared := ""
	if rep.Verdict == verify.Identical {
		compared = fmt.Sprintf(", %s compared", human.Bytes(rep.Verified.Bytes))
		if rep.Volatile > 0 {
			compared += fmt.Sprintf("; %s that may differ left out", human.Plural(rep.Volatile, "output"))
		}
	}
	if rep.TrustsKernels {
		Printf(w, "the library does not report missing kernels: its kernels are trusted\n")
	}
	if rep.Note != "" {
		Printf(w, "%v\n", replayNote(rep))
	}
	eagerText(w, rep)
	mark := map[verify.Verdict]func(any) any{verify.Identical: Good, verify.Different: Bad, verify.Unproved: Doubtful}[rep.Verdict]
	text := strings.TrimPrefix(rep.Results.String(), string(rep.Verdict)+": ")
	Printf(w, "%s: %s%s\n", mark(string(rep.Verdict)), text, compared)
}

// eagerText describes what the launches of graphs computed one by one.
func eagerText(w io.Writer, rep *replay.Report) {
	e := rep.Eager
	if e == nil {
		return
	}
	Printf(w, "graphs eager: %s played as %s: ", human.Plural(e.Runs, "run"), human.Plural(e.Tasks, "task"))
	switch {
	case e.Runs == 0:
		Printf(w, "no call runs a graph\n")
	case e.First != nil:
		Printf(w, "the first launch whose result differs is call %d %s, in the run of call %d; call %d reads it\n", e.First.Call, human.Kernel(e.First.Name), e.First.Run, e.First.Result)
	case rep.Verdict == verify.Identical:
		Printf(w, "equal in both modes\n")
	case rep.Verdict == verify.Unproved:
		Printf(w, "nothing differs between both modes\n")
	default:
		Printf(w, "no launch of a graph made what differs\n")
	}
	for i := range min(len(e.Freed), 3) {
		f := &e.Freed[i]
		Printf(w, "  call %d %s uses the memory of call %d, which call %d freed before the run of call %d\n", f.Call, human.Kernel(f.Name), f.Memory, f.Freed, f.Run)
	}
}

// ReplayNext writes the commands for the next look after a replay of the trace at path.
func ReplayNext(w io.Writer, path string, rep *replay.Report) {
	cat := func(call uint64) string { return acltrace("cat", path, "--call", number(call)) }
	switch {
	case rep.Refused():
	case rep.Calls == 0:
		nextText(w, acltrace("fsck", path))
	case rep.Crash != nil:
		nextText(w, cat(rep.Crash.Call))
	case len(rep.Differences) > 0:
		d := &rep.Differences[0]
		if n := len(d.Chain); n > 0 {
			nextText(w, cat(d.Chain[n-1].Call), cat(d.Call))
			return
		}
		nextText(w, cat(d.Call))
	case rep.Verdict == verify.NotCompared && rep.Findings != nil && len(rep.Findings) == 0: // strict found nothing, and does not check unwritten memory
		nextText(w, acltrace("replay", "--verify", "--poison", path))
	case rep.Verdict == verify.NotCompared:
		nextText(w, acltrace("replay", "--verify", path))
	case rep.Verdict == verify.Unproved && len(rep.Unverified) > 0 && rep.Unverified[0].Call > 0:
		nextText(w, cat(rep.Unverified[0].Call))
	case rep.Placement == "same":
		nextText(w, acltrace("replay", "--verify", "--place", "move", path))
	default:
		nextText(w, acltrace("stats", path))
	}
}

// WhatIfText writes the prediction for the trace at path.
func WhatIfText(w io.Writer, path string, rep *whatif.Report, o *TextOptions) error {
	err := Wrapped(w, o, 0, func(w io.Writer) {
		predictionText(w, path, rep)
		d, k := &rep.Durations, &rep.Known
		Printf(w, "%s and %s simulated in %s\n", human.Plural(rep.Calls, "call"), human.Plural(rep.Tasks, "task"), human.Duration(rep.SimulatedIn.Nanoseconds()))
		Printf(w, "durations: %s measured, %s from like tasks, %s from waits, %s from the model\n", human.Count(d.Measured), human.Count(d.Alike), human.Count(d.Estimated), human.Count(d.Modelled))
		Printf(w, "task time: %s measured by the device or a synchronous call, %s bracketed by waits, %s modelled\n", human.Share(k.Measured), human.Share(k.Bracketed), human.Share(k.Modelled))
	})
	if err != nil || !rep.Predicted {
		return err
	}
	t := newTable(w, o)
	Printf(t, "\ntasks\tbusy\tfirst to last task\trecorded\t  stream\n")
	for _, s := range rep.Streams {
		Printf(t, "%s\t%s\t%s\t%s\t  %s\n", human.Count(s.Tasks), human.Duration(s.BusyNS), human.Duration(s.VirtualNS), human.Duration(s.RecordedNS), s.Stream)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return Wrapped(w, o, 0, func(w io.Writer) {
		for _, u := range rep.Unsupported {
			Printf(w, "simulated as host time only: %s\n", &u)
		}
	})
}

// predictionText writes the predicted duration, or only its bounds if the trace allows no prediction.
func predictionText(w io.Writer, path string, rep *whatif.Report) {
	from, to := human.Duration(rep.BoundsNS[0]), human.Duration(rep.BoundsNS[1])
	change := rep.ChangeBoundsPercent
	if rep.Predicted {
		Printf(w, "%s: %s on %s, recorded %s: %s (bounds: %s, %s, to %s, %s)\n", path, human.Duration(rep.VirtualNS), rep.Model, human.Duration(rep.RecordedNS),
			human.Change(rep.ChangePercent/100), from, human.Change(change[0]/100), to, human.Change(change[1]/100))
		return
	}
	bound := fmt.Sprintf("at most %s (%s)", to, human.Change(change[1]/100))
	if rep.BoundsNS[1] == whatif.Unbounded {
		bound = "no upper bound"
	}
	Printf(w, "%s: no prediction for %s: at least %s (%s), %s; recorded %s\n%s%s\n", path, rep.Model, from, human.Change(change[0]/100), bound, human.Duration(rep.RecordedNS), rep.Advice, WhatIfAdvice[rep.Advice])
}

// PlanWriter returns a writer for replay.Options.PlanOnly: each Write is one line, whose text it escapes.
func PlanWriter(w io.Writer) io.Writer { return planWriter{w} }

type planWriter struct{ w io.Writer }

func (p planWriter) Write(line []byte) (int, error) {
	if _, err := Printf(p.w, "%s\n", bytes.TrimSuffix(line, []byte("\n"))); err != nil {
		return 0, err
	}
	return len(line), nil
}
