package main

import (
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

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
	f.StringVar(&o.Place, "place", "auto", "on the simulator: where allocations lie, same, move or auto")
	f.StringVar(&o.Pace, "pace", "asap", "asap, recorded, or scaled:X")
	f.StringSliceVar(&o.KernelLibraries, "kernels", nil, "kernel libraries for the simulator, \"\" for none (default: those of the recording, if your recordings have loaded them)")
	limitFlags(f, &o.Limits)
	return c
}
