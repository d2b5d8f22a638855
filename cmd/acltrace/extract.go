package main

import (
	"errors"
	"path/filepath"

	"github.com/acltrace/acltrace/internal/human"

	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/lab"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) extractCmd() *cobra.Command {
	var o lab.ExtractOptions
	var out outputFlags
	var of momentFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "extract FILE --call N | --task STREAM:ID -o FILE",
		Short: "cut out one launch with everything it needs",
		Long: "Writes a trace with one kernel launch: the calls that made its binary, arguments and memory, all earlier tasks that may have written its inputs, the " +
			"calls that order these tasks, the launch, and the copies that show its results.\n\n" +
			"`acltrace replay --repeat N` plays the extract N times on an otherwise idle device, and reports the time from the launch to the end of a wait.\n\n" +
			"If a needed part is not in the trace, or can't be in an extract, nothing is written, and the reasons are listed.",
		Example: "acltrace extract run.aclt --call 4711 -o launch.aclt\n" +
			"acltrace extract run.aclt --task 47:1564 -o launch.aclt",
		Args: arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) error {
			launch, task := of.call.value, of.task.value
			if out.path == "" || (launch == nil) == (task == nil) {
				return usage("extract needs a launch and a file: --call N or --task STREAM:ID, and -o FILE; `acltrace cat --kernel '*'` shows the launches")
			}
			if err := out.trace(c, args[0]); err != nil {
				return err
			}
			if task != nil {
				call, err := lab.LaunchOf(args[0], *task)
				if err != nil {
					return err
				}
				launch = &call
			}
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			ctx, stop := interruptible()
			defer stop()
			var end func()
			o.Progress, end = a.busy("extract")
			e, err := lab.Extract(ctx, args[0], m, *launch, out.path, &o)
			end()
			if err != nil {
				return a.lacks(args[0], err)
			}
			if asJSON {
				return a.printJSON(e)
			}
			if err := report.ExtractText(a.out, out.path, e, a.text()); err != nil {
				return err
			}
			report.NextText(a.out, "acltrace", "replay", "--verify", out.path)
			return nil
		},
	}
	f := c.Flags()
	out.add(f, "`FILE`: trace to write")
	of.add(f, "the call that launches the kernel", "the task of the launch, STREAM:ID")
	limitFlags(f, &o.Limits)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// lacks prints what a trace lacks for an extract, if that is the error, and adds the remedy.
func (a *app) lacks(trace string, err error) error {
	var lack *lab.LackError
	if !errors.As(err, &lack) {
		return err
	}
	report.Printf(a.err, "acltrace: %s lacks, for an extract:\n", trace)
	for _, l := range lack.Lacks {
		report.Printf(a.err, "  %s\n", l)
	}
	if !lack.Replayable {
		err = errors.New("nothing was written: record the program with --replayable, from its start")
	} else {
		err = errors.New("nothing was written")
	}
	return &exit{exitFailed, err}
}

func (a *app) bundleCmd() *cobra.Command {
	var o replay.Options
	var out outputFlags
	c := &cobra.Command{
		Use:   "bundle FILE -o DIR",
		Short: "write a reproducer that needs only a C compiler",
		Long: "Writes the plan of a replay, its data, the player's source and a Makefile to a folder. `make run LIB=/path/to/libascendcl.so` in the folder " +
			"makes the recorded calls again and compares the results. It needs a C compiler and the runtime library.",
		Example: "acltrace bundle launch.aclt -o bug\n" +
			"acltrace bundle --kernels ./my_kernels.so launch.aclt -o bug",
		Args: arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) error {
			if out.path == "" || out.path == "-" {
				return usage("bundle needs a folder: -o DIR")
			}
			if err := o.Check(); err != nil {
				return usage("--%w", err)
			}
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			defer a.endOnSignals()()
			if c.Flags().Changed("kernels") {
				if o.KernelLibraries, err = kernelLibraries(m, o.KernelLibraries); err != nil {
					return err
				}
			}
			o.Replace = out.force
			rep, err := replay.Bundle(args[0], m, out.path, &o)
			if err != nil {
				return orAllow(out.notEmpty(err))
			}
			report.Printf(a.out, "%s: %s\n", out.path, human.Plural(rep.Calls, "call"))
			if n := len(rep.Substituted) + len(rep.Unverified) + len(rep.Unsupported); n > 0 {
				report.Printf(a.out, "missing: %s; %s lists them\n", human.Plural(n, "part"), filepath.Join(out.path, "README"))
			}
			report.NextText(a.out, "make", "-C", out.path, "run", "LIB=/path/to/"+m.Libraries()[0])
			return nil
		},
	}
	f := c.Flags()
	out.add(f, "`DIR`: new or empty folder")
	f.StringVar(&o.Place, "place", "auto", "`HOW`: addresses: auto, same, move or move:SEED")
	f.StringVar(&o.Pace, "pace", "asap", "`PACE`: asap, recorded or scaled:X")
	f.StringSliceVar(&o.KernelLibraries, "kernels", nil, "`LIBRARY`: kernel library for the simulator")
	limitFlags(f, &o.Limits)
	return c
}
