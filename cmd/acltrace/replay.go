package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/api/runtimes"
	"github.com/acltrace/acltrace/record/detect"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/backend"
	"github.com/acltrace/acltrace/replay/verify"
	"github.com/acltrace/acltrace/replay/whatif"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/sim/model"
)

// A replaying holds the replay command's flags.
type replaying struct {
	o                          replay.Options
	virtual                    whatif.Options
	backend, strict, maxMemory string
	wrapper, tolerance         string
	asJSON, planOnly           bool
}

func (a *app) replayCmd() *cobra.Command {
	p := &replaying{}
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
			if err := p.check(c.Flags(), m); err != nil {
				return err
			}
			if backend.New(p.backend, m).Clock() == backend.VirtualClock {
				return a.simulate(args[0], m, &p.virtual, p.asJSON)
			}
			if p.planOnly {
				p.o.PlanOnly = report.PlanWriter(a.out)
			}
			p.o.Wrapper = strings.Fields(p.wrapper)
			in, isFile := a.in.(*os.File)
			p.o.Interactive = p.wrapper != "" && isFile && term.IsTerminal(int(in.Fd()))
			return a.play(args[0], m, p)
		},
	}
	p.flags(c.Flags())
	return c
}

func (p *replaying) flags(f *pflag.FlagSet) {
	f.StringVar(&p.backend, "backend", "sim", "what to replay on: sim, virtual, null (nothing), "+list(" or ", func(m *api.Model) string { return m.Backend })+
		" (the machine's own runtime), or the path of a runtime library")
	f.StringVar(&p.o.Place, "place", "auto", "where allocations lie: same (as recorded), move or move:SEED (each at another address, to prove the relocation), auto")
	f.BoolVar(&p.o.Guess, "guess", false, "rewrite words that only look like addresses; otherwise results that depend on them are unproved")
	f.StringVar(&p.o.Pace, "pace", "asap", "asap, recorded: each call at its time, or scaled:X: at X times its time (virtual: recorded unless told otherwise)")
	f.BoolVar(&p.o.Verify, "verify", false, "compare every result that came back from the device, byte for byte")
	f.DurationVar(&p.o.Timeout, "timeout", 0, "how long one call may take before the replay is given up (default: from the trace)")
	f.BoolVar(&p.planOnly, "plan-only", false, "print what would be done, and do nothing")
	f.StringSliceVar(&p.o.KernelLibraries, "kernels", nil, "kernel libraries for the simulator, \"\" for none (default: those of the recording, if your recordings have loaded them)")
	f.StringVar(&p.o.Keep, "keep", "", "folder to keep the plan in")
	f.IntVar(&p.o.Repeat, "repeat", 1, "play it so often, and report results that differ from one time to another")
	f.BoolVar(&p.o.Poison, "poison", false, "fill new device memory with a byte, another one in each run (at least 3): finds results of memory that nothing has written")
	f.BoolVar(&p.o.StubComm, "stub-comm", false, "stand in for processes that are not in the trace; what may come from them is not compared")
	f.StringVar(&p.strict, "strict", "off", "have the simulator look for what a device punishes later, as two streams that use the same memory in no order: off, report, or fail, which ends with 1 if it finds something")
	f.Lookup("strict").NoOptDefVal = "report"
	f.StringVar(&p.maxMemory, "max-memory", "", "end a replay whose players take more, as 8G (default: a quarter of the machine's memory; any with --trust)")
	f.BoolVar(&p.o.Trust, "trust", false, "let the trace run on a device, or outside the sandbox: you know where it comes from")
	f.StringVar(&p.wrapper, "wrapper", "", "command to put before the player, as 'valgrind -q' or 'gdb --args'; it has your terminal")
	f.StringVar(&p.tolerance, "tolerance", "", "how far numbers in results may be off: TYPE:RELATIVE[,ABSOLUTE] with the type f16, bf16, f32 or f64")
	f.StringVar(&p.virtual.Model, "model", "", "virtual: cost model of the device, "+strings.Join(model.Presets(), ", ")+" or a file (default: the one for the devices of the trace's runtime)")
	f.StringVar(&p.virtual.Base, "base", "", "virtual: model of the device that the trace comes from: copies change by what --model differs from it (default: as --model's)")
	f.Uint64Var(&p.virtual.Seed, "seed", 0, "virtual: begin of the chance in a model with jitter")
	f.StringVarP(&p.virtual.Output, "output", "o", "", "virtual: write the calls with their new times as a trace")
	limitFlags(f, &p.o.Limits)
	f.BoolVar(&p.asJSON, "json", false, "print JSON")
}

// check checks the flags against the trace's runtime and completes the options.
func (p *replaying) check(f *pflag.FlagSet, m *api.Model) (err error) {
	if p.maxMemory != "" {
		if p.o.MaxMemory, err = size(p.maxMemory); err != nil || p.o.MaxMemory == 0 {
			return usage("--max-memory %s: give a size, as 8G", p.maxMemory)
		}
	}
	switch p.strict {
	case "off":
	case "report", "fail":
		p.o.Strict = true
	default:
		return usage("--strict=%s: want off, report or fail", p.strict)
	}
	if err := p.o.Check(); err != nil {
		return usage("--%w", err)
	}
	changed := func(why string, names ...string) error {
		for _, name := range names {
			if f.Changed(name) {
				return usage("--%s %s", name, why)
			}
		}
		return nil
	}
	kind := backend.KindOf(p.backend, m)
	switch {
	case kind.Name == backend.VirtualName:
		p.virtual.Limits = p.o.Limits
		if f.Changed("pace") {
			p.virtual.Pace = p.o.Pace
		}
	case p.backend != backend.SimulatorName:
		if p.o.Backend, err = library(p.backend, m); err != nil {
			return err
		}
	}
	if err := changed("has no meaning with --backend "+kind.Name+": "+kind.Because, kind.Excludes...); err != nil {
		return err
	}
	for i := range backend.Kinds {
		if k := &backend.Kinds[i]; k != kind {
			if err := changed("is for --backend "+k.Name, k.Options...); err != nil {
				return err
			}
		}
	}
	if p.tolerance != "" {
		if p.o.Tolerance, err = verify.ParseTolerance(p.tolerance); err != nil {
			return usage("--tolerance %s: %w", p.tolerance, err)
		}
	}
	return nil
}

// play replays a trace and prints the report.
func (a *app) play(path string, m *api.Model, p *replaying) error {
	signals := []os.Signal{syscall.SIGTERM}
	if p.o.Interactive {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGINT) // Ctrl-C is for the wrapper
	} else {
		signals = append(signals, syscall.SIGINT)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	rep, err := replay.Run(ctx, path, m, &p.o)
	err = orAllow(err)
	if errors.Is(err, replay.ErrTrust) || errors.Is(err, replay.ErrSandbox) {
		return fmt.Errorf("%w: --trust allows it, for traces whose origin you know", err)
	}
	if err != nil {
		return err
	}
	switch {
	case p.asJSON:
		if err := a.printJSON(rep); err != nil {
			return err
		}
	case !p.planOnly:
		report.ReplayText(a.out, path, rep)
	}
	if p.strict == "fail" && len(rep.Findings) > 0 {
		return &exit{code: exitFailed}
	}
	return replayed(rep)
}

// library returns a backend's library: this machine's runtime, or a path.
func library(name string, m *api.Model) (string, error) {
	of := slices.IndexFunc(runtimes.All, func(m *api.Model) bool { return m.Backend == name })
	switch {
	case of < 0:
		return name, nil
	case runtimes.All[of] != m:
		return "", usage("--backend %s: the trace is one of %s", name, m.Name)
	}
	path, err := detect.Library(m, os.Environ())
	if err != nil {
		return "", fmt.Errorf("--backend %s: %w", name, err)
	}
	return path, nil
}

// simulate prints the result of a replay in virtual time.
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
