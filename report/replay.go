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
func ReplayText(w io.Writer, path string, rep *replay.Report) {
	skippedText(w, rep)
	differencesText(w, rep)
	unprovedText(w, rep)
	if c := rep.Crash; c != nil {
		how := c.Signal
		if how == replay.TimedOut {
			how = "it had not returned when its time was up (--timeout)"
		}
		Printf(w, "ended in call %d %s(%s): %s; recorded at %s on thread %d\n", c.Call, c.Func, strings.Join(c.Args, ", "), how, human.Moment(c.StartNS), c.TID)
	}
	if rep.Log != "" {
		Printf(w, "the library said:\n%s\n", Block(rep.Log))
	}
	if rep.Refused() {
		return
	}
	paceText(w, path, rep)
	for _, f := range rep.Findings {
		Printf(w, "%s", Block(f.Text))
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
	for _, x := range []struct {
		why  string
		list []compile.Unsupported
	}{{"can't be replayed", refused}, {"not in the trace", rep.Lost}, {"left out", rep.LeftOut}} {
		listText(w, x.list, len(x.list), func(u *compile.Unsupported) { Printf(w, "%s: %s%s\n", x.why, u, stubAdvice[u.Stub]) })
	}
}

func differencesText(w io.Writer, rep *replay.Report) {
	listText(w, rep.Differences, rep.DifferingTotal, func(d *replay.Difference) {
		what := "returned"
		if d.Param != "" {
			what = fmt.Sprintf("%s at offset %d", d.Param, d.Offset)
		}
		Printf(w, "differs: call %d %s, %s: recorded %s, now %s\n", d.Call, d.Func, what, d.Want, d.Got)
		if d.Reason != "" {
			Printf(w, "  perhaps since %s\n", d.Reason)
		}
		chainText(w, d.Chain, d.ChainTotal)
		for _, x := range d.Chain {
			if x.Note != "" {
				Printf(w, "  call %d: %s\n", x.Call, x.Note)
			}
		}
	})
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
		calls = append(calls, fmt.Sprintf("%d %s", x.Call, x.Name))
	}
	if n := total - len(calls); n > 0 {
		calls = slices.Insert(calls, 0, human.Count(n)+" more")
	}
	Printf(w, "  written by: %s\n", strings.Join(calls, ", "))
}

func unprovedText(w io.Writer, rep *replay.Report) {
	listText(w, rep.Uninitialised, len(rep.Uninitialised), func(u *replay.Uninitialised) {
		Printf(w, "never written: call %d %s, %s at offset %d: memory that nothing in the trace has written has other bytes now\n", u.Call, u.Func, u.Param, u.Offset)
	})
	listText(w, rep.Substituted, len(rep.Substituted), func(s *compile.Substituted) {
		Printf(w, "zeros instead of data that the trace lacks: call %d %s, %s, %s: %s\n", s.Call, s.Func, s.Param, human.Bytes(s.Bytes), s.Reason)
	})
	listText(w, rep.Guesses, rep.GuessesTotal, func(g *compile.Guess) {
		Printf(w, "guess: call %d %s, %s, byte %d: %s may be an address in the allocation of call %d; --guess rewrites it\n", g.Call, g.Func, g.Param, g.Offset, g.Value, g.Candidates[0].Allocation)
	})
	listText(w, rep.Unverified, len(rep.Unverified), func(u *compile.Unverified) { Printf(w, "unproved: %s\n", u) })
}

// paceText writes the replay's duration and its deviation from the recorded one.
func paceText(w io.Writer, path string, rep *replay.Report) {
	took := ""
	if rep.ReplayedNS > 0 { // a run that did not finish has no duration
		took = " in " + human.Duration(rep.ReplayedNS)
	}
	Printf(w, "%s: %s of %s replayed%s, recorded in %s; %s\n", path,
		human.Count(rep.Replayed), human.Plural(rep.Calls, "call"), took, human.Duration(rep.RecordedNS), map[string]string{"": replayNote(rep), "same": "allocations at the same addresses", "moved": movedText(rep)}[rep.Placement])
	if rep.Pace.Mode == replay.PaceASAP {
		return
	}
	Printf(w, "pace %s: %s off", rep.Pace.Mode, human.Change(rep.Pace.ErrorPercent/100))
	if l := rep.Pace.Late; l != nil {
		Printf(w, "; calls began late by %s (half of them), %s (99%%), %s at most, %s the last one", human.Duration(l.P50), human.Duration(l.P99), human.Duration(l.Max), human.Duration(l.Last))
	}
	Printf(w, "\n")
	if c := rep.Cores; c != nil {
		own := c.Without() - c.Library.WaitedNS - c.StolenNS
		Printf(w, "  ready but without a core: %s the program's threads, %s the library's, which ran for %s; %s taken by the machine's host; without that %s off\n",
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
	return fmt.Sprintf("allocations at other addresses%s, as are %s in data", seed, human.Plural(rep.RelocatedTotal, "address"))
}

func repeatText(w io.Writer, n *replay.Repeat) {
	Printf(w, "played %s times, %s to %s\n", human.Count(n.Runs), human.Duration(slices.Min(n.ReplayedNS)), human.Duration(slices.Max(n.ReplayedNS)))
	for _, l := range n.Launches[max(0, len(n.Launches)-most):] {
		alone := map[bool]string{true: ", from its call to the end of a wait for it, alone on the device"}[l.Alone]
		Printf(w, "  call %d, %s: %s at least, %s median, %s at most%s\n", l.Call, l.Kernel, human.Duration(l.Min), human.Duration(l.Median), human.Duration(l.Max), alone)
	}
	listText(w, n.NotDeterministic, len(n.NotDeterministic), func(d *replay.Difference) {
		Printf(w, "not deterministic: call %d %s%s differs from one time to another\n", d.Call, d.Func, map[bool]string{true: ", " + d.Param}[d.Param != ""])
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
	Printf(w, "sandbox: %s\n", rep.Sandbox)
	if rep.Verdict == verify.NotCompared {
		return
	}
	compared := ""
	if rep.Verdict == verify.Identical {
		compared = fmt.Sprintf(", %s compared; %s that may differ left out", human.Bytes(rep.Verified.Bytes), human.Plural(rep.Volatile, "output"))
	}
	if rep.TrustsKernels {
		Printf(w, "the library does not report kernels that it lacks: its kernels are trusted\n")
	}
	verdict, text := string(rep.Verdict), rep.Results.String()
	if rest, ok := strings.CutPrefix(text, verdict); ok {
		mark := map[verify.Verdict]func(any) any{verify.Identical: Good, verify.Different: Bad, verify.Unproved: Doubtful}[rep.Verdict]
		Printf(w, "%s%s%s\n", mark(verdict), rest, compared)
	} else {
		Printf(w, "%s%s\n", text, compared)
	}
	if rep.Note != "" {
		Printf(w, "%v\n", replayNote(rep))
	}
}

// WhatIfText writes the prediction for the trace at path.
func WhatIfText(w io.Writer, path string, rep *whatif.Report, o *TextOptions) error {
	predictionText(w, path, rep)
	Printf(w, "%s and %s simulated in %s; durations: %s measured, %s alike, %s estimated from waits, %s by the model\n", human.Plural(rep.Calls, "call"), human.Plural(rep.Tasks, "task"),
		human.Duration(rep.SimulatedIn.Nanoseconds()), human.Count(rep.Durations.Measured), human.Count(rep.Durations.Alike), human.Count(rep.Durations.Estimated), human.Count(rep.Durations.Modelled))
	k := rep.Known
	Printf(w, "of the tasks' time %s is measured, %s bracketed by waits, %s modelled\n", human.Share(k.Measured), human.Share(k.Bracketed), human.Share(k.Modelled))
	if !rep.Predicted {
		return nil
	}
	t := newTable(w, o)
	Printf(t, "\ntasks\tbusy\tfirst to last task\trecorded\t  stream\n")
	for _, s := range rep.Streams {
		Printf(t, "%s\t%s\t%s\t%s\t  %s\n", human.Count(s.Tasks), human.Duration(s.BusyNS), human.Duration(s.VirtualNS), human.Duration(s.RecordedNS), s.Stream)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, u := range rep.Unsupported {
		Printf(w, "takes its time on the host and does nothing else: %s\n", &u)
	}
	return nil
}

// predictionText writes the predicted duration, or only its bounds if the trace allows no prediction.
func predictionText(w io.Writer, path string, rep *whatif.Report) {
	from, to := human.Duration(rep.BoundsNS[0]), human.Duration(rep.BoundsNS[1])
	change := rep.ChangeBoundsPercent
	if rep.Predicted {
		Printf(w, "%s: %s on %s, recorded %s: %s (between %s, %s, and %s, %s)\n", path, human.Duration(rep.VirtualNS), rep.Model, human.Duration(rep.RecordedNS),
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
