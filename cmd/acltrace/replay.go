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
	o                  replay.Options
	virtual            whatif.Options
	backend, strict    string
	out                outputFlags
	maxMemory          optional[int64]
	wrapper, tolerance string
	asJSON, planOnly   bool
}

func (a *app) replayCmd() *cobra.Command {
	p := &replaying{}
	c := &cobra.Command{
		Use:   "replay FILE",
		Short: "make the recorded calls again, and compare results",
		Long: `Makes the recorded calls again with the recorded data. The simulator needs no device. Any other library runs the trace's kernels on a device,
and needs --trust.

--verify ends with a verdict:

  identical  all recorded results are proved: everything that they depend on
             ran here, and is equal
  different  a result differs
  unproved   nothing differs, but some results are unproved, each with a reason

--backend null calls no library, and measures the player alone. --backend virtual makes no call: it simulates the device of --model in virtual
time, thousands of times faster, and reports when each task would run.

Exit codes: 0 done, with --verify identical; 3 different; 4 unproved, or the trace lacks calls; 1 the trace could not be replayed; 2 wrong usage.`,
		Example: "acltrace replay --verify run.aclt\n" +
			"acltrace replay --backend virtual --model h100 run.aclt",
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
				if p.virtual.Output = p.out.path; p.out.path != "" {
					if err := p.out.trace(c, args[0]); err != nil {
						return err
					}
				}
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
	names, texts := backends()
	f.StringVar(&p.backend, "backend", backend.SimulatorName, "`NAME`: "+strings.Join(names, ", ")+", FILE")
	explain(f, "backend", "What to replay on: "+strings.Join(texts, ", ")+", "+list(" or ", func(m *api.Model) string { return m.Backend })+
		" (the runtime of this machine), or the path of a runtime library.")
	f.StringVar(&p.o.Place, "place", "auto", "`HOW`: addresses: auto, same, move or move:SEED")
	explain(f, "place", "same uses the recorded addresses. move gives each allocation another address, which proves the relocation; move:SEED repeats the addresses. auto is same if "+
		"possible.")
	choose(f, &p.o.Graphs, "graphs", "`HOW`: run graphs: captured or eager", replay.GraphsCaptured, replay.GraphsEager)
	explain(f, "graphs", "eager makes the captured launches one by one in place of each run of a graph, on the simulator, and compares as --verify does. It names the first launch "+
		"whose result differs. Memory of captured launches stays allocated, so a launch never uses what has its address later.")
	f.BoolVar(&p.o.Guess, "guess", false, "rewrite words that only look like addresses")
	explain(f, "guess", "Without it, results that depend on such words are unproved.")
	f.StringVar(&p.o.Pace, "pace", "asap", "`PACE`: asap, recorded or scaled:X")
	explain(f, "pace", "asap makes each call as soon as possible, recorded at its time, and scaled:X at X times its time. --backend virtual uses recorded by default.")
	f.BoolVar(&p.o.Verify, "verify", false, "compare each result with the recorded one")
	f.DurationVar(&p.o.Timeout, "timeout", 0, "`TIME`: limit of one call (default: from the trace)")
	f.BoolVar(&p.planOnly, "plan-only", false, "print the plan and run nothing")
	f.StringSliceVar(&p.o.KernelLibraries, "kernels", nil, "`LIBRARY`: kernel library for the simulator")
	explain(f, "kernels", "\"\" uses no library. By default the libraries of the recording are loaded, if your own recordings have loaded them.")
	f.StringVar(&p.o.Keep, "keep", "", "`DIR`: keep the plan in this folder")
	f.IntVar(&p.o.Repeat, "repeat", 1, "`N`: play N times and report results that vary")
	f.BoolVar(&p.o.Poison, "poison", false, "fill new device memory, to find uninitialised data")
	explain(f, "poison", "Fills new memory with another byte in each run, at least three runs. A result that differs depends on memory that nothing has written.")
	f.BoolVar(&p.o.StubComm, "stub-comm", false, "replace processes that the trace lacks")
	explain(f, "stub-comm", "Results that may depend on these processes are not compared.")
	choose(f, &p.strict, "strict", "`LEVEL`: find races: off, report or fail", "off", "report", "fail")
	f.Lookup("strict").NoOptDefVal = "report"
	explain(f, "strict", "The simulator looks for mistakes that a device punishes later, such as two streams that use the same memory in no order. The exit code is 3 if it "+
		"finds one. fail means the same as report.")
	sizeFlag(f, &p.maxMemory, "max-memory", "", "`SIZE`: end if players use more (default: 1/4 of RAM)")
	explain(f, "max-memory", "With --trust there is no limit by default.")
	f.BoolVar(&p.o.Trust, "trust", false, "allow a device, or a run without the sandbox")
	explain(f, "trust", "The trace's kernels run with your rights. Use it for traces whose origin you know.")
	f.StringVar(&p.wrapper, "wrapper", "", "`COMMAND`: run the player under gdb or valgrind")
	explain(f, "wrapper", "For example 'gdb --args' or 'valgrind -q'. The command has your terminal.")
	f.StringVar(&p.tolerance, "tolerance", "", "`LIMIT`: TYPE:RELATIVE[,ABSOLUTE] for numbers in results")
	explain(f, "tolerance", "The type is f16, bf16, f32 or f64. For example f16:0.001.")
	f.StringVar(&p.virtual.Model, "model", "", "`MODEL`: cost model of the device to simulate")
	explain(f, "model", "A preset ("+strings.Join(model.Presets(), ", ")+") or a JSON file. By default the preset for the trace's runtime.")
	f.StringVar(&p.virtual.Base, "base", "", "`MODEL`: cost model of the recorded device")
	explain(f, "base", "With it, copies change by the difference between both models. By default it is --model.")
	f.Uint64Var(&p.virtual.Seed, "seed", 0, "`N`: seed of random times")
	p.out.add(f, "`FILE`: write the simulated calls as a trace")
	limitFlags(f, &p.o.Limits)
	f.BoolVar(&p.asJSON, "json", false, "print JSON")
}

// backends returns the names that --backend takes besides paths, and what those stand for that are not a runtime.
func backends() (names, texts []string) {
	for _, k := range backend.Kinds {
		if k.Name != "" {
			names, texts = append(names, k.Name), append(texts, k.Text)
		}
	}
	for _, m := range runtimes.All {
		names = append(names, m.Backend)
	}
	return names, texts
}

// check checks the flags against the trace's runtime and completes the options.
func (p *replaying) check(f *pflag.FlagSet, m *api.Model) (err error) {
	if p.o.MaxMemory = p.maxMemory.or(0); p.maxMemory.value != nil && p.o.MaxMemory == 0 {
		return usage("--max-memory %s: want at least 1 byte, for example 8G", &p.maxMemory)
	}
	p.o.Strict = p.strict != "off"
	p.o.Verify = p.o.Verify || p.o.Graphs == replay.GraphsEager
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
	if err := changed("does not apply to --backend "+kind.Name+": "+kind.Because, kind.Excludes...); err != nil {
		return err
	}
	for i := range backend.Kinds {
		if k := &backend.Kinds[i]; k != kind {
			if err := changed("needs --backend "+k.Name, k.Options...); err != nil {
				return err
			}
		}
	}
	if f.Changed("kernels") {
		if p.o.KernelLibraries, err = kernelLibraries(m, p.o.KernelLibraries); err != nil {
			return err
		}
	}
	if p.tolerance != "" && !p.o.Verify && p.o.Repeat < 2 {
		return usage("--tolerance needs --verify or --repeat")
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
	end := func() {}
	if !p.o.Interactive && !p.planOnly { // else there is output meanwhile
		p.o.Progress, end = a.busy("replay")
	}
	rep, err := replay.Run(ctx, path, m, &p.o)
	end()
	err = orAllow(err)
	if errors.Is(err, replay.ErrTrust) || errors.Is(err, replay.ErrSandbox) {
		return fmt.Errorf("%w; --trust allows it, if you know the origin of the trace", err)
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
		if err := report.ReplayText(a.out, path, rep, a.text()); err != nil {
			return err
		}
		if p.o.Keep != "" {
			report.Printf(a.out, "the plan is in %s\n", p.o.Keep)
		}
		report.ReplayNext(a.out, path, rep)
	}
	return replayed(rep)
}

// library returns a backend's library: this machine's runtime, or a path.
func library(name string, m *api.Model) (string, error) {
	of := slices.IndexFunc(runtimes.All, func(m *api.Model) bool { return m.Backend == name })
	switch {
	case of < 0:
		if err := backend.Check(name); err != nil {
			names, _ := backends()
			return "", fmt.Errorf("--backend %s: no such file: want %s or the path of a library", name, strings.Join(names, ", "))
		}
		return name, nil
	case runtimes.All[of] != m:
		return "", usage("--backend %s: the trace has calls of %s: use --backend %s or %s", name, m.Title, m.Backend, backend.SimulatorName)
	}
	path, err := detect.Library(m, os.Environ())
	if err != nil {
		return "", fmt.Errorf("--backend %s: %w", name, err)
	}
	return path, nil
}

// simulate prints the result of a replay in virtual time.
func (a *app) simulate(path string, m *api.Model, o *whatif.Options, asJSON bool) error {
	ctx, stop := interruptible()
	defer stop()
	progress, end := a.busy("simulation")
	o.Progress = progress
	rep, err := whatif.Run(ctx, path, m, o)
	end()
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(rep)
	}
	if err := report.WhatIfText(a.out, path, rep, a.text()); err != nil {
		return err
	}
	if o.Output != "" {
		report.Printf(a.out, "the simulated calls were written to %s\n", o.Output)
		report.NextText(a.out, "acltrace", "stats", o.Output)
	}
	return nil
}
