package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/acltrace/acltrace/analyze/blame"
	"github.com/acltrace/acltrace/internal/shell"
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
		return fmt.Errorf("invalid address %q: want for example 0x124000000000", s)
	}
	*a = address(v)
	return nil
}

func (a *app) blameCmd() *cobra.Command {
	var o blame.Options
	var at momentFlags
	var addr address
	var asJSON bool
	c := &cobra.Command{
		Use:   "blame FILE",
		Short: "find the launch that made the device fail",
		Long: "Finds the first call that returned a device error or that broke a graph's capture, or else the call that never returned, or else a wait that timed out, " +
			"or else the first failed call. Threads that wait for callbacks are no failure. Names the earlier call that made the failed one invalid, if the error code says so. " +
			"Lists the tasks that had not ended before that call, ordered by the evidence against them: reports of the runtime, memory that was freed too early, addresses " +
			"outside of allocations, ranges beyond an end. The output is a page for a bug report.\n\n" +
			"Hints come last: copies to the host without the program's usual wait, and faults of captured graphs unless other evidence explains the failure. " +
			"If nothing failed, also launches with odd arguments, long calls during which the recording ended, and threads that slept throughout an attached recording.",
		Example: "acltrace blame crash.aclt\n" +
			"acltrace blame --task 47:1564:23064 crash.aclt",
		Args: arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) error {
			if o.Call, o.Task = at.call.value, at.task.value; at.both() {
				return usage("blame: --call and --task exclude each other")
			}
			if o.History < 0 {
				return usage("--calls %d: want 0 or more", o.History)
			}
			o.Addr = uint64(addr)
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			a.stands(r)
			rep, err := blame.Blame(r, m, &o)
			if errors.Is(err, blame.ErrNothingFailed) {
				look := []string{"acltrace", "stats", args[0]}
				if r.Meta().Replayable {
					look = []string{"acltrace", "replay", "--strict", args[0]}
				}
				return &remedied{err, "acltrace: next: ", look}
			}
			if err != nil {
				return err
			}
			if addr != 0 && !named(rep, blame.Hex(addr)) {
				report.Printf(a.err, "acltrace: --addr %s: no listed suspect uses memory at this address; %s\n", &addr,
					shell.Command("acltrace", "where", "--addr", addr.String(), args[0]))
			}
			if asJSON {
				return a.printJSON(report.BlameJSON(rep))
			}
			return report.BlameText(a.out, rep, a.text())
		},
	}
	at.add(c.Flags(), "the call that failed", "the task that failed, STREAM:ID")
	c.Flags().Var(&addr, "addr", "`ADDRESS`: the address that failed, from a log")
	c.Flags().IntVar(&o.History, "calls", 8, "`N`: calls to list for each allocation")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	a.strictFlag(c.Flags())
	return c
}

// named reports whether an address is evidence against a suspect.
func named(rep *blame.Report, addr blame.Hex) bool {
	return slices.ContainsFunc(rep.Suspects, func(s blame.Suspect) bool {
		return slices.ContainsFunc(s.Reasons, func(r blame.Reason) bool { return r.Addr == addr })
	})
}

func (a *app) whereCmd() *cobra.Command {
	var o blame.WhereOptions
	var at momentFlags
	var addr address
	var all, asJSON bool
	c := &cobra.Command{
		Use:   "where --addr ADDRESS | --map FILE",
		Short: "find the allocation at an address, and its users",
		Long:  "Shows the allocations that held an address, the calls that made and freed them, and their last users. --map lists all live allocations.",
		Example: "acltrace where --addr 0x12c0c0a00100 --task 47:1564:23064 crash.aclt\n" +
			"acltrace where --map --call 4711 crash.aclt",
		Args: arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) error {
			if (addr == 0) != all {
				return usage("where needs --addr ADDRESS, or --map for all allocations")
			}
			if o.Call, o.Task = at.call.value, at.task.value; at.both() {
				return usage("where: --call and --task exclude each other")
			}
			if o.History < 0 {
				return usage("--calls %d: want 0 or more", o.History)
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
				return report.MapText(a.out, args[0], x, a.text())
			}
			x, err := blame.Where(r, m, uint64(addr), &o)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(x)
			}
			return report.WhereText(a.out, args[0], x, a.text())
		},
	}
	c.Flags().Var(&addr, "addr", "`ADDRESS`: for example 0x124000000000")
	c.Flags().BoolVar(&all, "map", false, "list all live allocations")
	explain(c.Flags(), "map", "At the moment of --call or --task, or at the end of the trace.")
	at.add(c.Flags(), "when this call began", "when this task was launched, STREAM:ID")
	c.Flags().IntVar(&o.PID, "pid", 0, "`PID`: in this process")
	c.Flags().IntVar(&o.History, "calls", 8, "`N`: calls to list for each allocation")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	a.strictFlag(c.Flags())
	return c
}
