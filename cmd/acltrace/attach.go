package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/acltrace/acltrace/api/runtimes"
	"github.com/acltrace/acltrace/record"
	"github.com/spf13/cobra"
)

func (a *app) attachCmd() *cobra.Command {
	o := record.AttachOptions{Options: record.Options{Version: version, Capture: record.Capture{Probe: "ebpf", DropRights: true}}}
	var apiName, operators string
	var live liveFlags
	var end ending
	c := &cobra.Command{
		Use:   "attach PID | --comm NAME | --cgroup DIR | --all",
		Short: "record running programs with eBPF",
		Long: "Records programs that run already, until they end, the time is over, or you press Ctrl-C.\n\n" +
			"Attaching needs CAP_BPF and CAP_PERFMON. `acltrace doctor` checks this.",
		Example: "acltrace attach 4242 --for 30s -o server.aclt\n" +
			"acltrace attach --comm python --payload none",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			pid, err := strconv.Atoi(args[0])
			if err != nil || pid < 1 || len(args) > 1 || o.PID != 0 {
				return usage("attach %s: want one process id", strings.Join(args, " "))
			}
			o.PID = pid
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			n := 0
			for _, given := range []bool{o.PID != 0, o.Comm != "", o.Cgroup != "", o.All} {
				if given {
					n++
				}
			}
			if n != 1 || o.PID < 0 {
				return usage("attach needs the processes to record: one of PID, --comm NAME, --cgroup DIR and --all")
			}
			if err := errors.Join(seekable(c, o.Output), kept(&o.Options)); err != nil {
				return err
			}
			o.Capture.Operators = operatorLevels[operators]
			var err error
			if apiName == "auto" {
				o.Model = record.RuntimeOf(runtimes.All, &o)
			} else if o.Model, err = runtime(apiName, ""); err != nil {
				return err
			}
			ctx, stop := interruptible()
			defer stop()
			follower, err := live.follow(a, &o.Options)
			if err != nil {
				return err
			}
			o.Waiting = a.waiting
			res, err := record.Attach(ctx, &o)
			follower.said(a)
			return a.recorded(&o.Options, res, err, &end)
		},
	}
	f := c.Flags()
	f.IntVarP(&o.PID, "pid", "p", 0, "`PID`: record this process and its new children")
	f.StringVar(&o.Comm, "comm", "", "`NAME`: record processes with this name")
	explain(f, "comm", "The name in /proc/PID/comm. Processes that start later are recorded as well.")
	f.StringVar(&o.Cgroup, "cgroup", "", "`DIR`: record a control group: DIR is below /sys/fs/cgroup")
	f.BoolVar(&o.All, "all", false, "record all processes that use the runtime")
	f.StringVarP(&o.Output, "output", "o", "run.aclt", "`FILE`: trace to write")
	f.StringVar(&o.Capture.Library, "library", "", "`FILE`: runtime library, if it has an unusual name")
	apiFlag(f, &apiName)
	payloadFlag(f, &o.Options)
	choose(f, &operators, "operators", "`LEVEL`: names, none", "names", "none")
	explain(f, "operators", operatorNames)
	f.BoolVar(&o.Sample, "sample", false, "skip and count calls before any is lost")
	explain(f, "sample", "If the recorder is too slow, only some calls are recorded, and the skipped calls are counted.")
	forFlag(f, &o.Options)
	replacing(f, &o.Options)
	blobFile(f, &o.Options)
	stepMarker(f, &o.Options)
	live.add(f)
	end.add(f)
	return c
}
