package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

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
		Printf(w, "ended in call %d %s(%s): %s; recorded at %v on thread %d\n", c.Call, c.Func, strings.Join(c.Args, ", "), how, time.Duration(c.StartNS), c.TID)
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
			Printf(w, "… and %d more\n", total-most)
			return
		}
		row(&list[i])
	}
}

// skippedText lists the calls that the replay did not make.
func skippedText(w io.Writer, rep *replay.Report) {
	refused := rep.Unsupported[:len(rep.Unsupported)-len(rep.Lost)]
	for _, x := range []struct {
		why  string
		list []compile.Unsupported
	}{{"can't be replayed", refused}, {"not in the trace", rep.Lost}, {"left out", rep.LeftOut}} {
		listText(w, x.list, len(x.list), func(u *compile.Unsupported) { Printf(w, "%s: %s\n", x.why, u) })
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
		calls = slices.Insert(calls, 0, fmt.Sprintf("%d more", n))
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
		took = fmt.Sprintf(" in %v", rounded(rep.ReplayedNS))
	}
	Printf(w, "%s: %d of %d calls replayed%s, recorded in %v; %s\n", path,
		rep.Replayed, rep.Calls, took, rounded(rep.RecordedNS), map[string]string{"": rep.Note, "same": "allocations at the same addresses", "moved": movedText(rep)}[rep.Placement])
	if rep.Pace.Mode == replay.PaceASAP {
		return
	}
	Printf(w, "pace %s: %+.3f %% off", rep.Pace.Mode, rep.Pace.ErrorPercent)
	if l := rep.Pace.Late; l != nil {
		Printf(w, "; calls began late by %v (half of them), %v (99 %%), %v at most, %v the last one", time.Duration(l.P50), time.Duration(l.P99), time.Duration(l.Max), time.Duration(l.Last))
	}
	Printf(w, "\n")
	if c := rep.Cores; c != nil {
		own := c.Without() - c.Library.WaitedNS - c.StolenNS
		Printf(w, "  ready but without a core: %v the program's threads, %v the library's, which ran for %v; %v taken by the machine's host; without that %+.3f %% off\n",
			rounded(own), rounded(c.Library.WaitedNS), rounded(c.Library.RanNS), rounded(c.StolenNS), rep.Pace.UnexplainedPercent)
	}
	listText(w, rep.Streams, len(rep.Streams), func(s *replay.StreamTime) {
		Printf(w, "  %s: %v, recorded %v, %+.3f %% off\n", s.Stream, rounded(s.ReplayedNS), rounded(s.RecordedNS), s.ErrorPercent)
	})
}

// movedText describes a replay whose allocations are elsewhere.
func movedText(rep *replay.Report) string {
	seed := ""
	if rep.Seed != nil {
		seed = fmt.Sprintf(" (seed %d)", *rep.Seed)
	}
	return fmt.Sprintf("allocations at other addresses%s, as are %d addresses in data", seed, rep.RelocatedTotal)
}

func repeatText(w io.Writer, n *replay.Repeat) {
	Printf(w, "played %d times, %v to %v\n", n.Runs, rounded(slices.Min(n.ReplayedNS)), rounded(slices.Max(n.ReplayedNS)))
	for _, l := range n.Launches[max(0, len(n.Launches)-most):] {
		alone := map[bool]string{true: ", from its call to the end of a wait for it, alone on the device"}[l.Alone]
		Printf(w, "  call %d, %s: %v at least, %v median, %v at most%s\n", l.Call, l.Kernel, time.Duration(l.Min), time.Duration(l.Median), time.Duration(l.Max), alone)
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
	Printf(w, "%s%s\n", &rep.Results, compared)
	if rep.Note != "" {
		Printf(w, "%v\n", rep.Note)
	}
}

// WhatIfText writes the prediction for the trace at path.
func WhatIfText(w io.Writer, path string, rep *whatif.Report) error {
	predictionText(w, path, rep)
	Printf(w, "%d calls and %d tasks simulated in %v; durations: %d measured, %d alike, %d estimated from waits, %d by the model\n", rep.Calls, rep.Tasks,
		rep.SimulatedIn.Round(10*time.Microsecond), rep.Durations.Measured, rep.Durations.Alike, rep.Durations.Estimated, rep.Durations.Modelled)
	k := rep.Known
	Printf(w, "of the tasks' time %.0f %% is measured, %.0f %% bracketed by waits, %.0f %% modelled\n", 100*k.Measured, 100*k.Bracketed, 100*k.Modelled)
	if !rep.Predicted {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	Printf(t, "\ntasks\tbusy\tfirst to last task\trecorded\t  stream\n")
	for _, s := range rep.Streams {
		Printf(t, "%d\t%v\t%v\t%v\t  %s\n", s.Tasks, rounded(s.BusyNS), rounded(s.VirtualNS), rounded(s.RecordedNS), s.Stream)
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
	from, to := rounded(rep.BoundsNS[0]), rounded(rep.BoundsNS[1])
	change := rep.ChangeBoundsPercent
	if rep.Predicted {
		Printf(w, "%s: %v on %s, recorded %v: %+.2f %% (between %v, %+.2f %%, and %v, %+.2f %%)\n", path, rounded(rep.VirtualNS), rep.Model, rounded(rep.RecordedNS),
			rep.ChangePercent, from, change[0], to, change[1])
		return
	}
	bound := fmt.Sprintf("at most %v (%+.2f %%)", to, change[1])
	if rep.BoundsNS[1] == whatif.Unbounded {
		bound = "no upper bound"
	}
	Printf(w, "%s: no prediction for %s: at least %v (%+.2f %%), %s; recorded %v\n%s\n", path, rep.Model, from, change[0], bound, rounded(rep.RecordedNS), rep.Advice)
}

// rounded returns a duration without the digits that vary between runs.
func rounded(ns int64) time.Duration {
	if ns < 1e6 {
		return time.Duration(ns).Round(10 * time.Nanosecond)
	}
	return time.Duration(ns).Round(10 * time.Microsecond)
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
