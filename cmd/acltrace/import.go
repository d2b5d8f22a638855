package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/internal/human"

	"github.com/acltrace/acltrace/api/runtimes"
	"github.com/acltrace/acltrace/import/msprof"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) importCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "import",
		Short: "convert the profile of another profiler to a trace",
		Example: "acltrace import msprof PROF_000001 -o profile.aclt\n" +
			"acltrace stats profile.aclt",
		Args: subcommands("a profiler"),
		RunE: helps,
	}
	c.AddCommand(a.importMsprofCmd())
	return c
}

func (a *app) importMsprofCmd() *cobra.Command {
	var out outputFlags
	c := &cobra.Command{
		Use:   "msprof DIR -o FILE",
		Short: "convert a profile of msprof or torch_npu",
		Long: "Converts a profile to a trace with host calls, operators, shapes, device tasks with measured times, collectives, steps, and the framework's operators and Python frames as ranges. `stats`, `top`, `diff`, all exports and " +
			"`replay --backend virtual` read it. A profile has no arguments and no payloads, so no other replay is possible.\n\n" +
			"DIR is a folder with trace_view.json and kernel_details.csv (ASCEND_PROFILER_OUTPUT), with msprof_*.json and op_summary_*.csv, or with " +
			"a database (ascend_pytorch_profiler_*.db, msprof_*.db). It may also be one of these files.",
		Example: "acltrace import msprof PROF_000001 -o profile.aclt\n" +
			"acltrace import msprof msprof_20260101.db -o profile.aclt",
		Args: arguments(1, "one folder or file of a profile"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.trace(c); err != nil {
				return err
			}
			defer a.endOnSignals()()
			p, err := msprof.Find(args[0])
			if err != nil {
				return err
			}
			rep, err := msprof.Import(p, runtimes.Named(msprof.Runtime), out.path)
			if err != nil {
				return err
			}
			report.Printf(a.out, "%s: %s of the host, %s of the device: %s (%s), %s; %s\n",
				out.path, human.Plural(rep.Calls, "call"), human.Plural(rep.Tasks, "task"), human.Plural(rep.Kernels, "kernel"), human.Plural(rep.Collectives, "collective"), human.Plural(rep.Copies, "copy"), human.Plural(rep.Steps, "step"))
			if rep.Operators > 0 {
				report.Printf(a.out, "%s of the framework: operators, frames of Python and its queue\n", human.Plural(rep.Operators, "range"))
			}
			if rep.Marks > 0 {
				report.Printf(a.out, "%s of mstx\n", human.Plural(rep.Marks, "range"))
			}
			if rep.Shapes > 0 {
				report.Printf(a.out, "%s with shapes: acltrace stats --by shape %s\n", human.Plural(rep.Shapes, "kernel"), out.path)
			}
			if rep.Untied > 0 {
				report.Printf(a.out, "%s without a call: their launch times are unknown\n", human.Plural(rep.Untied, "task"))
			}
			for _, what := range slices.Sorted(maps.Keys(rep.Left)) {
				noun, of, _ := strings.Cut(what, " ")
				report.Printf(a.out, "left out: %s %s\n", human.Plural(rep.Left[what], noun), of)
			}
			report.NextText(a.out, "acltrace", "stats", out.path)
			return nil
		},
	}
	out.add(c.Flags(), "`FILE`: trace to write")
	return c
}
