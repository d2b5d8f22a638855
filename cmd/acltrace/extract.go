package main

import (
	"context"
	"github.com/acltrace/acltrace/internal/human"
	"os/signal"
	"syscall"

	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) extractCmd() *cobra.Command {
	var o replay.Options
	var output, task string
	var launch int64
	var asJSON bool
	c := &cobra.Command{
		Use:   "extract FILE --launch N | --task STREAM:ID -o FILE",
		Short: "make a trace of one launch, with all that it needs",
		Long: `Writes a trace with one launch of a kernel: the calls that made its binary, arguments and memory, every earlier copy
and kernel that may have written its inputs, the launch, and the copies that show what it did. ` + "`acltrace replay --repeat N`" + `
plays it again and again and tells how long the launch took, from its call to the end of a wait for it, on a device that has nothing else to do.

Where the trace lacks something of that, nothing is written, and what is missing is listed.`,
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
				call, err := replay.LaunchOf(args[0], *id)
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
			e, err := replay.Extract(ctx, args[0], m, uint64(launch), output, &o)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(e)
			}
			report.Printf(a.out, "%s: %d calls; the launch of %s is call %d", output, e.Calls, e.Kernel, e.Launch)
			if !e.Alone {
				report.Printf(a.out, "; the runtime has no call that waits for it, so that only a repetition as a whole can be timed")
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
	limitFlags(f, &o.Limits)
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
