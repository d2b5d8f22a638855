package main

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/human"

	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/replay/compile"
	"github.com/acltrace/acltrace/replay/lab"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) extractCmd() *cobra.Command {
	var limits compile.Limits
	var output, task string
	var launch int64
	var asJSON bool
	c := &cobra.Command{
		Use:   "extract FILE --launch N | --task STREAM:ID -o FILE",
		Short: "make a trace of one launch, with all that it needs",
		Long: `Writes a trace with one launch of a kernel: the calls that made its binary, arguments and memory, every earlier copy
and kernel that may have written its inputs, the calls that order these tasks, the launch, and the copies that show its results.
` + "`acltrace replay --repeat N`" + ` plays it again and again and reports how long the launch took, from its call to the end of a wait for it, on
an otherwise idle device.

If the trace lacks a part of that, or an extract can't have it, nothing is written, and the reasons are listed.`,
		Args: arguments(1, "one trace file"),
		RunE: func(_ *cobra.Command, args []string) error {
			if output == "" || launch < 0 == (task == "") {
				return usage("acltrace extract needs a call or a task, and a file: --launch N or --task STREAM:ID, and -o FILE; `acltrace cat` shows the numbers of calls")
			}
			if task != "" {
				id, err := report.ParseTaskID(task)
				if err != nil {
					return usage("%w", err)
				}
				call, err := lab.LaunchOf(args[0], *id)
				if err != nil {
					return err
				}
				launch = int64(call)
			}
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			e, err := lab.Extract(ctx, args[0], m, uint64(launch), output, &limits)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(e)
			}
			report.Printf(a.out, "%s: %d calls; the launch of %s is call %d", output, e.Calls, e.Kernel, e.Launch)
			if !e.Alone {
				report.Printf(a.out, "; no wait for the launch alone can be added, so that only a repetition as a whole can be timed")
			}
			if e.Results > 0 {
				report.Printf(a.out, "; what it wrote is in %s\n", human.Plural(uint64(e.Results), "result"))
			} else {
				report.Printf(a.out, "; what it wrote can't be compared: the program did not look before something else wrote there\n")
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&output, "output", "o", "", "trace file to write")
	f.StringVar(&task, "task", "", "the task of the launch: STREAM:ID, or STREAM:FLIP:TASK as the runtime's logs have it")
	f.Int64Var(&launch, "launch", -1, "number of the call that launches the kernel")
	limitFlags(f, &limits)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *app) bundleCmd() *cobra.Command {
	var o replay.Options
	var dir string
	c := &cobra.Command{
		Use:   "bundle FILE -o DIR",
		Short: "make a reproducer of a trace that needs only a C compiler and the runtime library",
		Long: `Writes the plan of a replay, its data, the player's source and a Makefile into an empty folder.

There, "make run LIB=/path/to/libascendcl.so" makes the recorded calls again and compares what comes back.`,
		Args: arguments(1, "one trace file"),
		RunE: func(_ *cobra.Command, args []string) error {
			if dir == "" {
				return usage("acltrace bundle needs a folder: -o DIR")
			}
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			defer atomicfile.EndOnSignals()()
			rep, err := replay.Bundle(args[0], m, dir, &o)
			if err != nil {
				return orAllow(err)
			}
			report.Printf(a.out, "%s: %d calls; `make -C %s run LIB=…` makes them again\n", dir, rep.Calls, dir)
			if n := len(rep.Substituted) + len(rep.Unverified) + len(rep.Unsupported); n > 0 {
				report.Printf(a.out, "%d things are not in it; its README lists them\n", n)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&dir, "output", "o", "", "folder to write, empty or new")
	f.StringVar(&o.Place, "place", "auto", "on the simulator: where allocations lie, same, move, move:SEED or auto")
	f.StringVar(&o.Pace, "pace", "asap", "asap, recorded, or scaled:X")
	f.StringSliceVar(&o.KernelLibraries, "kernels", nil, "kernel libraries for the simulator, \"\" for none (default: those of the recording, if your recordings have loaded them)")
	limitFlags(f, &o.Limits)
	return c
}
