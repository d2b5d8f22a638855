package main

import (
	"maps"
	"slices"

	"github.com/acltrace/acltrace/internal/human"

	"github.com/acltrace/acltrace/api/runtimes"
	"github.com/acltrace/acltrace/import/msprof"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) importCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "import",
		Short: "make a trace of another profiler's output",
		Args:  subcommands("a profiler"),
		RunE:  helps,
	}
	c.AddCommand(a.importMsprofCmd())
	return c
}

func (a *app) importMsprofCmd() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "msprof DIR -o FILE",
		Short: "of what msprof or the profiler of torch_npu has written",
		Long: `Makes a trace of a profile: the calls of the host, the tasks of the device with the times that were measured, collectives and steps. stats, top, diff, every export
and replay --backend virtual work on it. There are no arguments and no payloads in a profile, so nothing else can be replayed.

DIR is a folder with trace_view.json and kernel_details.csv (ASCEND_PROFILER_OUTPUT), or with msprof_*.json and op_summary_*.csv, or one of these files; or a folder
with a database, ascend_pytorch_profiler_*.db or msprof_*.db, or that file.`,
		Args: arguments(1, "one folder or file of a profile"),
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				return usage("acltrace import msprof needs a name for the trace: -o profile.aclt")
			}
			defer atomicfile.EndOnSignals()()
			p, err := msprof.Find(args[0])
			if err != nil {
				return err
			}
			rep, err := msprof.Import(p, runtimes.Named(msprof.Runtime), out)
			if err != nil {
				return err
			}
			report.Printf(a.out, "%s: %d calls of the host, %d tasks of the device: %s (%d collectives), %s; %s\n",
				out, rep.Calls, rep.Tasks, human.Plural(uint64(rep.Kernels), "kernel"), rep.Collectives, human.Plural(uint64(rep.Copies), "copy"), human.Plural(uint64(rep.Steps), "step"))
			if rep.Untied > 0 {
				report.Printf(a.out, "%d tasks are tied to no call: when they were launched is not known\n", rep.Untied)
			}
			for _, what := range slices.Sorted(maps.Keys(rep.Left)) {
				report.Printf(a.out, "left out: %d %s\n", rep.Left[what], what)
			}
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "trace to write")
	return c
}
