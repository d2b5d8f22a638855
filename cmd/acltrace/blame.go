package main

import (
	"fmt"
	"strconv"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

// address is a flag for an address, hexadecimal after 0x.
type address uint64

func (a *address) String() string {
	if *a == 0 {
		return ""
	}
	return fmt.Sprintf("%#x", uint64(*a))
}

func (a *address) Type() string { return "address" }

func (a *address) Set(s string) error {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil || v == 0 {
		return fmt.Errorf("%q is no address such as 0x124000000000", s)
	}
	*a = address(v)
	return nil
}

func (a *app) blameCmd() *cobra.Command {
	var o blame.Options
	var call uint64
	var task string
	var addr address
	var asJSON bool
	c := &cobra.Command{
		Use:   "blame FILE",
		Short: "which launch made the device fail, what it was given, and who wrote and freed that",
		Long: "blame looks for the first call that returned an error of the device (else for one that never returned, else for the last that failed),\n" +
			"takes the tasks that had not ended by then, and orders them by what speaks against them: what the runtime told of the failed task,\n" +
			"memory that was freed before or meanwhile, addresses in no allocation, ranges beyond an end. It prints a page for a bug report.",
		Args: arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := moment(c, call, task, &o.Call, &o.Task); err != nil {
				return err
			}
			o.Addr = uint64(addr)
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			a.stands(r)
			rep, err := blame.Blame(r, m, &o)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(report.BlameJSON(rep))
			}
			return report.BlameText(a.out, rep)
		},
	}
	c.Flags().Uint64Var(&call, "call", 0, "the number of the call that failed")
	c.Flags().StringVar(&task, "task", "", "the task that failed: STREAM:ID, or STREAM:FLIP:TASK as the runtime's logs have it")
	c.Flags().Var(&addr, "addr", "the address at which it failed, as a log names it")
	c.Flags().IntVar(&o.History, "calls", 8, "how many calls are listed for each allocation")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	a.strictFlag(c.Flags())
	return c
}

func (a *app) whereCmd() *cobra.Command {
	var o blame.WhereOptions
	var call uint64
	var task string
	var addr address
	var all, asJSON bool
	c := &cobra.Command{
		Use:   "where FILE --addr ADDRESS | --map",
		Short: "the allocation that holds an address, who made and freed it, and who used it last; or all that were live",
		Args:  arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) error {
			if (addr == 0) != all {
				return usage("acltrace where needs --addr ADDRESS, or --map for all allocations")
			}
			if err := moment(c, call, task, &o.Call, &o.Task); err != nil {
				return err
			}
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			if all {
				x, err := blame.MapAt(r, m, &o)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(x)
				}
				return report.MapText(a.out, x)
			}
			x, err := blame.Where(r, m, uint64(addr), &o)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(x)
			}
			return report.WhereText(a.out, x)
		},
	}
	c.Flags().Var(&addr, "addr", "the address, as 0x124000000000")
	c.Flags().BoolVar(&all, "map", false, "the allocations that were live, at the moment that --at or --call names or at the end of the trace")
	c.Flags().StringVar(&task, "at", "", "look when the call that made this task began: STREAM:ID or STREAM:FLIP:TASK")
	c.Flags().Uint64Var(&call, "call", 0, "look when this call began")
	c.Flags().IntVar(&o.PID, "pid", 0, "only in this process")
	c.Flags().IntVar(&o.History, "calls", 8, "how many calls are listed for each allocation")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	a.strictFlag(c.Flags())
	return c
}

// moment reads the flags that name a call or task.
func moment(c *cobra.Command, call uint64, task string, to **uint64, id **report.TaskID) error {
	if task != "" && c.Flags().Changed("call") {
		return usage("%s: name a call or a task, not both", c.CommandPath())
	}
	if c.Flags().Changed("call") {
		*to = &call
	}
	if task != "" {
		var err error
		if *id, err = report.ParseTaskID(task); err != nil {
			return usage("%w", err)
		}
	}
	return nil
}
