package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"github.com/acltrace/acltrace/internal/human"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/acl"
	"github.com/acltrace/acltrace/api/cuda"
	"github.com/acltrace/acltrace/internal/shell"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/replay/whatif"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/sim/model"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) replayCmd() *cobra.Command {
	var o replay.Options
	var backend string
	var asJSON, planOnly bool
	var wrapper, debugger, tolerance, strict, maxMemory string
	var what whatif.Options
	c := &cobra.Command{
		Use:   "replay FILE",
		Short: "run a trace again, on the simulator or any library of the runtime",
		Long: `Makes the recorded calls again, with the recorded data, and compares what comes back.

On another library than a simulator the trace's kernels run on a device, and whatever else is in it: that needs --trust.

With --backend null no library is called: each call returns at once, and the time is that of the player alone.

With --backend virtual nothing is made again: a device that --model describes is simulated in virtual time, thousands of
times faster, and the answer is when everything would have happened there.

--verify ends with a verdict. identical: every recorded result is proved, since all that it depends on was executed here and
is equal. different: a result differs. unproved: none differs, but some results are unproved, each with its reason.

Exit code 0: done, with --verify identical. 3: different. 4: unproved, or the trace lacks calls. 1: it could not be replayed.
2: wrong use.`,
		Args: arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) error {
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			if maxMemory != "" {
				if o.MaxMemory, err = size(maxMemory); err != nil || o.MaxMemory == 0 {
					return usage("--max-memory %s: give a size, as 8G", maxMemory)
				}
			}
			switch strict {
			case "off":
			case "report", "fail":
				o.Strict = true
			default:
				return usage("--strict=%s: want off, report or fail", strict)
			}
			if err := o.Check(); err != nil {
				return usage("--%w", err)
			}
			switch backend {
			case "sim":
			case "virtual":
				what.Limits = o.Limits
				for _, name := range []string{"place", "verify", "timeout", "plan-only", "kernels", "keep", "repeat", "wrapper", "debugger", "tolerance", "strict", "stub-comm", "trust", "poison", "max-memory"} {
					if c.Flags().Changed(name) {
						return usage("--%s has no meaning with --backend virtual: there are times, and no contents", name)
					}
				}
				if c.Flags().Changed("pace") {
					what.Pace = o.Pace
				}
				return a.simulate(args[0], m, &what, asJSON)
			case replay.Null:
				for _, name := range []string{"place", "verify", "kernels", "tolerance", "strict", "trust", "poison"} {
					if c.Flags().Changed(name) {
						return usage("--%s has no meaning with --backend null: no library is called", name)
					}
				}
				o.Backend = backend
			default:
				if o.Backend, err = library(backend, m); err != nil {
					return err
				}
			}
			for _, name := range []string{"model", "base", "seed", "output"} {
				if c.Flags().Changed(name) {
					return usage("--%s is for --backend virtual", name)
				}
			}
			if planOnly {
				o.PlanOnly = a.out
			}
			o.Wrapper = strings.Fields(wrapper)
			switch {
			case debugger == "":
			case wrapper != "":
				return usage("--debugger and --wrapper exclude each other")
			case debugger == "gdb":
				o.Wrapper, o.Interactive = []string{"gdb", "--args"}, true
			case debugger == "lldb":
				o.Wrapper, o.Interactive = []string{"lldb", "--"}, true
			default:
				o.Wrapper, o.Interactive = strings.Fields(debugger), true
			}
			if tolerance != "" {
				if o.Tolerance, err = replay.ParseTolerance(tolerance); err != nil {
					return usage("--tolerance %s: %w", tolerance, err)
				}
			}
			signals := []os.Signal{syscall.SIGTERM}
			if o.Interactive {
				signal.Notify(make(chan os.Signal, 1), syscall.SIGINT) // Ctrl-C is for the debugger
			} else {
				signals = append(signals, syscall.SIGINT)
			}
			ctx, stop := signal.NotifyContext(context.Background(), signals...)
			defer stop()
			rep, err := replay.Run(ctx, args[0], m, &o)
			err = orAllow(err)
			if errors.Is(err, replay.ErrTrust) || errors.Is(err, replay.ErrSandbox) {
				return fmt.Errorf("%w: --trust allows it, for traces whose origin you know", err)
			}
			if err != nil {
				return err
			}
			if planOnly && !asJSON {
				return replayed(rep)
			}
			if asJSON {
				if err := a.printJSON(rep); err != nil {
					return err
				}
			} else {
				a.printReport(args[0], rep)
			}
			if strict == "fail" && len(rep.Findings) > 0 {
				return &exit{code: exitFailed}
			}
			return replayed(rep)
		},
	}
	f := c.Flags()
	f.StringVar(&backend, "backend", "sim", "what to replay on: sim, virtual, null (nothing), ascend or cuda (the machine's own runtime), or the path of a runtime library")
	f.StringVar(&o.Place, "place", "auto", "where allocations lie: same (as recorded), move (elsewhere, to prove the relocation), auto")
	f.StringVar(&o.Pace, "pace", "asap", "asap, recorded: each call at its time, or scaled:X: at X times its time (virtual: recorded unless told otherwise)")
	f.BoolVar(&o.Verify, "verify", false, "compare every result that came back from the device, byte for byte")
	f.DurationVar(&o.Timeout, "timeout", 0, "how long one call may take before the replay is given up (default: from the trace)")
	f.BoolVar(&planOnly, "plan-only", false, "print what would be done, and do nothing")
	f.StringSliceVar(&o.KernelLibraries, "kernels", nil, "kernel libraries for the simulator, \"\" for none (default: those of the recording, if your recordings have loaded them)")
	f.StringVar(&o.Keep, "keep", "", "folder to keep the plan in")
	f.IntVar(&o.Repeat, "repeat", 1, "play it so often, and report results that differ from one time to another")
	f.BoolVar(&o.Poison, "poison", false, "fill new device memory with a byte, another one in each run (at least 3): finds results of memory that nothing has written")
	f.BoolVar(&o.StubComm, "stub-comm", false, "stand in for processes that are not in the trace; what may come from them is not compared")
	f.StringVar(&strict, "strict", "off", "have the simulator look for what a device punishes later, as two streams that use the same memory in no order: off, report, or fail, which ends with 1 if it finds something")
	f.Lookup("strict").NoOptDefVal = "report"
	f.StringVar(&maxMemory, "max-memory", "", "end a replay whose players take more, as 8G (default: a quarter of the machine's memory; any with --trust)")
	f.BoolVar(&o.Trust, "trust", false, "let the trace run on a device, or outside the sandbox: you know where it comes from")
	f.StringVar(&wrapper, "wrapper", "", "command to put before the player, as 'valgrind -q'")
	f.StringVar(&debugger, "debugger", "", "debugger to run the player in: gdb, lldb, or a command to put before it")
	f.StringVar(&tolerance, "tolerance", "", "how far numbers in results may be off: TYPE:RELATIVE[,ABSOLUTE] with the type f16, bf16, f32 or f64")
	f.StringVar(&what.Model, "model", "", "virtual: cost model of the device, "+strings.Join(model.Presets(), ", ")+" or a file (default: the one for the devices of the trace's runtime)")
	f.StringVar(&what.Base, "base", "", "virtual: model of the device that the trace comes from: copies change by what --model differs from it (default: as --model's)")
	f.Uint64Var(&what.Seed, "seed", 0, "virtual: begin of the chance in a model with jitter")
	f.StringVarP(&what.Output, "output", "o", "", "virtual: write the calls with their new times as a trace")
	limitFlags(f, &o.Limits)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// orAllow adds to an error about kernel libraries of a trace the command that loads them.
func orAllow(err error) error {
	var refused *replay.KernelError
	if !errors.As(err, &refused) {
		return err
	}
	var list strings.Builder
	w := csv.NewWriter(&list) // as the flag is read
	_ = w.Write(refused.Paths())
	w.Flush()
	words := append(append([]string{"acltrace"}, os.Args[1:]...), "--kernels="+strings.TrimSuffix(list.String(), "\n"))
	return &remedied{err, "To load them all the same, if you know where the trace comes from, or none of them with --kernels=:\n  " + shell.Command(words...)}
}

// limitFlags are for commands that plan a replay.
func limitFlags(f *pflag.FlagSet, l *replay.Limits) {
	f.Uint64Var(&l.Tasks, "max-tasks", replay.DefaultTasks, "refuse a trace whose graphs run more tasks")
	f.IntVar(&l.Threads, "max-threads", replay.DefaultThreads, "refuse a trace with calls of more threads")
	f.IntVar(&l.Processes, "max-processes", replay.DefaultProcesses, "refuse a trace with calls of more processes")
}

// library is the path of what a backend names: the runtime of this machine, or a library by its own path.
func library(backend string, m *api.Model) (string, error) {
	of := map[string]string{"ascend": acl.Model.Name, "cuda": cuda.Model.Name}[backend]
	switch {
	case of == "":
		return backend, nil
	case of != m.Name:
		return "", usage("--backend %s: the trace is one of %s", backend, m.Name)
	}
	path, err := record.Library(m, os.Environ())
	if err != nil {
		return "", fmt.Errorf("--backend %s: %w", backend, err)
	}
	return path, nil
}

// replayed returns the exit code of a report.
func replayed(rep *replay.Report) error {
	switch {
	case rep.Crash != nil || rep.Refused():
		return &exit{code: exitFailed}
	case rep.Verdict == verify.Different:
		return &exit{code: exitDiffers}
	case rep.Verdict == verify.Unproved, len(rep.Lost) > 0:
		return &exit{code: exitLacks}
	case rep.DifferingTotal > 0:
		return &exit{code: exitFailed} // nothing was compared, and calls returned other errors
	}
	return nil
}

// most bounds what is listed for people; --json has more.
const most = 10

func (a *app) printReport(path string, rep *replay.Report) {
	refused := rep.Unsupported[:len(rep.Unsupported)-len(rep.Lost)]
	for i, u := range refused {
		if i == most {
			report.Printf(a.out, "… and %d more\n", len(refused)-most)
			break
		}
		report.Printf(a.out, "can't be replayed: %s\n", &u)
	}
	for i, u := range rep.Lost {
		if i == most {
			report.Printf(a.out, "… and %d more\n", len(rep.Lost)-most)
			break
		}
		report.Printf(a.out, "not in the trace: %s\n", &u)
	}
	for i, u := range rep.LeftOut {
		if i == most {
			report.Printf(a.out, "… and %d more\n", len(rep.LeftOut)-most)
			break
		}
		report.Printf(a.out, "left out: %s\n", &u)
	}
	for i, d := range rep.Differences {
		if i == most {
			report.Printf(a.out, "… and %d more\n", rep.DifferingTotal-most)
			break
		}
		what := "returned"
		if d.Param != "" {
			what = fmt.Sprintf("%s at offset %d", d.Param, d.Offset)
		}
		report.Printf(a.out, "differs: call %d %s, %s: recorded %s, now %s\n", d.Call, d.Func, what, d.Want, d.Got)
		if d.Reason != "" {
			report.Printf(a.out, "  perhaps since %s\n", d.Reason)
		}
		if len(d.Chain) > 0 {
			var calls []string
			for _, w := range d.Chain[max(0, len(d.Chain)-most):] {
				calls = append(calls, fmt.Sprintf("%d %s", w.Call, w.Name))
			}
			if n := d.ChainTotal - len(calls); n > 0 {
				calls = append([]string{fmt.Sprintf("%d more", n)}, calls...)
			}
			report.Printf(a.out, "  written by: %s\n", strings.Join(calls, ", "))
			for _, w := range d.Chain {
				if w.Note != "" {
					report.Printf(a.out, "  call %d: %s\n", w.Call, w.Note)
				}
			}
		}
	}
	for i, d := range rep.OtherMachine {
		if i == most {
			report.Printf(a.out, "… and %d more\n", rep.OtherMachineTotal-most)
			break
		}
		report.Printf(a.out, "another machine: call %d %s, %s: recorded %s, now %s\n", d.Call, d.Func, d.Param, d.Want, d.Got)
	}
	for i, u := range rep.Uninitialised {
		if i == most {
			report.Printf(a.out, "… and %d more\n", len(rep.Uninitialised)-most)
			break
		}
		report.Printf(a.out, "never written: call %d %s, %s at offset %d: memory that nothing in the trace has written has other bytes now\n", u.Call, u.Func, u.Param, u.Offset)
	}
	for i, s := range rep.Substituted {
		if i == most {
			report.Printf(a.out, "… and %d more\n", len(rep.Substituted)-most)
			break
		}
		report.Printf(a.out, "zeros instead of data that the trace lacks: call %d %s, %s, %s: %s\n", s.Call, s.Func, s.Param, human.Bytes(s.Bytes), s.Reason)
	}
	for i, u := range rep.Unverified {
		if i == most {
			report.Printf(a.out, "… and %d more\n", len(rep.Unverified)-most)
			break
		}
		report.Printf(a.out, "unproved: %s\n", &u)
	}
	if c := rep.Crash; c != nil {
		how := c.Signal
		if how == replay.TimedOut {
			how = "it had not returned when its time was up (--timeout)"
		}
		report.Printf(a.out, "ended in call %d %s(%s): %s; recorded at %v on thread %d\n", c.Call, c.Func, strings.Join(c.Args, ", "), how, time.Duration(c.StartNS), c.TID)
	}
	if rep.Log != "" {
		report.Printf(a.out, "the library said:\n%s\n", report.Block(rep.Log))
	}
	if rep.Refused() {
		return
	}
	took := ""
	if rep.ReplayedNS > 0 { // which a run that does not come to its end can't tell
		took = fmt.Sprintf(" in %v", round(rep.ReplayedNS))
	}
	report.Printf(a.out, "%s: %d of %d calls replayed%s, recorded in %v; %s\n", path,
		rep.Replayed, rep.Calls, took, round(rep.RecordedNS), map[string]string{"": rep.Note, "same": "allocations at the same addresses",
			"moved": fmt.Sprintf("allocations at other addresses, as are %d addresses in data", rep.RelocatedTotal)}[rep.Placement])
	if rep.Pace.Mode != replay.PaceASAP {
		report.Printf(a.out, "pace %s: %+.3f %% off", rep.Pace.Mode, rep.Pace.ErrorPercent)
		if l := rep.Pace.Late; l != nil {
			report.Printf(a.out, "; calls began late by %v (half of them), %v (99 %%), %v at most, %v the last one", time.Duration(l.P50), time.Duration(l.P99), time.Duration(l.Max), time.Duration(l.Last))
		}
		report.Printf(a.out, "\n")
		if c := rep.Cores; c != nil {
			own := c.Without() - c.Library.WaitedNS - c.StolenNS
			report.Printf(a.out, "  ready but without a core: %v the program's threads, %v the library's, which ran for %v; %v taken by the machine's host; without that %+.3f %% off\n",
				round(own), round(c.Library.WaitedNS), round(c.Library.RanNS), round(c.StolenNS), rep.Pace.UnexplainedPercent)
		}
		for i, s := range rep.Streams {
			if i == most {
				report.Printf(a.out, "… and %d more\n", len(rep.Streams)-most)
				break
			}
			report.Printf(a.out, "  %s: %v, recorded %v, %+.3f %% off\n", s.Stream, round(s.ReplayedNS),
				round(s.RecordedNS), s.ErrorPercent)
		}
	}
	for _, f := range rep.Findings {
		report.Printf(a.out, "%s", report.Block(f.Text))
	}
	if n := rep.Repeat; n != nil {
		report.Printf(a.out, "played %d times, %v to %v\n", n.Runs, round(slices.Min(n.ReplayedNS)),
			round(slices.Max(n.ReplayedNS)))
		for _, l := range n.Launches[max(0, len(n.Launches)-most):] {
			alone := map[bool]string{true: ", from its call to the end of a wait for it, alone on the device"}[l.Alone]
			report.Printf(a.out, "  call %d, %s: %v at least, %v median, %v at most%s\n", l.Call, l.Kernel, time.Duration(l.Min), time.Duration(l.Median), time.Duration(l.Max), alone)
		}
		for i, d := range n.NotDeterministic {
			if i == most {
				report.Printf(a.out, "… and %d more\n", len(n.NotDeterministic)-most)
				break
			}
			report.Printf(a.out, "not deterministic: call %d %s%s differs from one time to another\n", d.Call, d.Func, map[bool]string{true: ", " + d.Param}[d.Param != ""])
			if len(d.Chain) > 0 {
				var calls []string
				for _, w := range d.Chain[max(0, len(d.Chain)-most):] {
					calls = append(calls, fmt.Sprintf("%d %s", w.Call, w.Name))
				}
				report.Printf(a.out, "  written by: %s\n", strings.Join(calls, ", "))
			}
		}
	}
	for i, v := range rep.IgnoredVariables {
		if i == most {
			report.Printf(a.out, "… and %d more\n", len(rep.IgnoredVariables)-most)
			break
		}
		report.Printf(a.out, "variable not set: %s\n", &v)
	}
	for i := range rep.KernelLibraries {
		if k := &rep.KernelLibraries[i]; k.Changed {
			report.Printf(a.out, "%v\n", k)
		}
	}
	report.Printf(a.out, "sandbox: %s\n", rep.Sandbox)
	if rep.Verdict == verify.NotCompared {
		return
	}
	compared := ""
	if rep.Verdict == verify.Identical {
		compared = fmt.Sprintf(", %s compared; %s that may differ left out", human.Bytes(rep.Verified.Bytes), human.Plural(rep.Volatile, "output"))
	}
	if rep.TrustsKernels {
		report.Printf(a.out, "the library does not report kernels that it lacks: its kernels are trusted\n")
	}
	report.Printf(a.out, "%s%s\n", &rep.Results, compared)
	if rep.Note != "" {
		report.Printf(a.out, "%v\n", rep.Note)
	}
}

// printPrediction prints how long the program would take, or that the trace does not say it.
func (a *app) printPrediction(path string, rep *whatif.Report) {
	from, to := round(rep.BoundsNS[0]), round(rep.BoundsNS[1])
	change := rep.ChangeBoundsPercent
	if rep.Predicted {
		report.Printf(a.out, "%s: %v on %s, recorded %v: %+.2f %% (between %v, %+.2f %%, and %v, %+.2f %%)\n", path, round(rep.VirtualNS), rep.Model, round(rep.RecordedNS),
			rep.ChangePercent, from, change[0], to, change[1])
		return
	}
	most := fmt.Sprintf("at most %v (%+.2f %%)", to, change[1])
	if rep.BoundsNS[1] == whatif.Unbounded {
		most = "no upper bound"
	}
	report.Printf(a.out, "%s: no prediction for %s: at least %v (%+.2f %%), %s; recorded %v\n%s\n", path, rep.Model, from, change[0], most, round(rep.RecordedNS), rep.Advice)
}

// simulate prints what a replay in virtual time has shown.
func (a *app) simulate(path string, m *api.Model, o *whatif.Options, asJSON bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rep, err := whatif.Run(ctx, path, m, o)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(rep)
	}
	a.printPrediction(path, rep)
	report.Printf(a.out, "%d calls and %d tasks simulated in %v; durations: %d measured, %d alike, %d estimated from waits, %d by the model\n", rep.Calls, rep.Tasks,
		rep.SimulatedIn.Round(10*time.Microsecond), rep.Durations.Measured, rep.Durations.Alike, rep.Durations.Estimated, rep.Durations.Modelled)
	k := rep.Known
	report.Printf(a.out, "of the tasks' time %.0f %% is measured, %.0f %% bracketed by waits, %.0f %% modelled\n", 100*k.Measured, 100*k.Bracketed, 100*k.Modelled)
	if !rep.Predicted {
		return nil
	}
	t := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	report.Printf(t, "\ntasks\tbusy\tfirst to last task\trecorded\t  stream\n")
	for _, s := range rep.Streams {
		report.Printf(t, "%d\t%v\t%v\t%v\t  %s\n", s.Tasks, round(s.BusyNS), round(s.VirtualNS), round(s.RecordedNS), s.Stream)
	}
	t.Flush()
	for _, u := range rep.Unsupported {
		report.Printf(a.out, "takes its time on the host and does nothing else: %s\n", &u)
	}
	if o.Output != "" {
		report.Printf(a.out, "the simulated calls are in %s\n", o.Output)
	}
	return nil
}

func round(ns int64) time.Duration {
	if ns < 1e6 {
		return time.Duration(ns).Round(10 * time.Nanosecond)
	}
	return time.Duration(ns).Round(10 * time.Microsecond)
}
