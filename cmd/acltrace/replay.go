package main

import (
	"github.com/acltrace/acltrace/replay/compile"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

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
				o.PlanOnly = report.PlanWriter(a.out)
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
				if o.Tolerance, err = verify.ParseTolerance(tolerance); err != nil {
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
				report.ReplayText(a.out, args[0], rep)
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
func limitFlags(f *pflag.FlagSet, l *compile.Limits) {
	f.Uint64Var(&l.Tasks, "max-tasks", compile.DefaultTasks, "refuse a trace whose graphs run more tasks")
	f.IntVar(&l.Threads, "max-threads", compile.DefaultThreads, "refuse a trace with calls of more threads")
	f.IntVar(&l.Processes, "max-processes", compile.DefaultProcesses, "refuse a trace with calls of more processes")
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
	if err := report.WhatIfText(a.out, path, rep); err != nil {
		return err
	}
	if o.Output != "" {
		report.Printf(a.out, "the simulated calls are in %s\n", o.Output)
	}
	return nil
}
