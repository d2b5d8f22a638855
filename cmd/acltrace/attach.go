package main

import (
	"context"
	"errors"
	"os/signal"
	"syscall"

	"github.com/acltrace/acltrace/api/runtimes"
	"github.com/acltrace/acltrace/probe/uprobe"
	"github.com/acltrace/acltrace/record"
	"github.com/spf13/cobra"
)

func (a *app) attachCmd() *cobra.Command {
	o := record.AttachOptions{Options: record.Options{Version: version, Capture: record.Capture{Probe: "ebpf", DropRights: true}}}
	var payload, apiName string
	var live liveFlags
	var end ending
	c := &cobra.Command{
		Use:   "attach --pid N | --comm NAME | --cgroup PATH | --all",
		Short: "record programs that run already, by eBPF, until the one ends or you press Ctrl-C",
		Args:  arguments(0, "no arguments but flags"),
		RunE: func(_ *cobra.Command, _ []string) error {
			n := 0
			for _, given := range []bool{o.PID != 0, o.Comm != "", o.Cgroup != "", o.All} {
				if given {
					n++
				}
			}
			if n != 1 || o.PID < 0 {
				return usage("acltrace attach needs one of --pid N, --comm NAME, --cgroup PATH and --all: which processes to record")
			}
			switch o.Capture.Payload = record.Payload(payload); o.Capture.Payload {
			case record.Small, record.Full, record.Hash, record.None:
			default:
				return usage("--payload %s: there are small, full, hash and none", payload)
			}
			if err := kept(&o.Options); err != nil {
				return err
			}
			var err error
			if apiName == "auto" {
				o.Model = record.RuntimeOf(runtimes.All, &o)
			} else if o.Model, err = runtime(apiName, ""); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			follower, err := live.follow(a, &o.Options)
			if err != nil {
				return err
			}
			o.Waiting = a.waiting
			res, err := record.Attach(ctx, &o)
			follower.said(a)
			if errors.Is(err, uprobe.ErrNotPermitted) || errors.Is(err, uprobe.ErrNotSupported) {
				return &exit{exitStart, err}
			}
			return a.recorded(&o.Options, res, err, &end)
		},
	}
	f := c.Flags()
	f.IntVar(&o.PID, "pid", 0, "process to record, with the children that it makes from now on")
	f.StringVar(&o.Comm, "comm", "", "record the processes of this name, as /proc/PID/comm has it, those that run and those to come")
	f.StringVar(&o.Cgroup, "cgroup", "", "record the processes in a control group and those below it: a folder under /sys/fs/cgroup")
	f.BoolVar(&o.All, "all", false, "record every process that uses the runtime")
	f.StringVarP(&o.Output, "output", "o", "run.aclt", "trace to write")
	f.StringVar(&o.Capture.Library, "library", "", "path of the runtime library, where the process maps it under another name")
	f.StringVar(&apiName, "api", "auto", apiUsage)
	f.StringVar(&payload, "payload", "small", "what to keep of copies: small (up to 64 KiB), full, hash or none")
	f.BoolVar(&o.Sample, "sample", false, "when the recorder falls behind, record only some of the calls, and count the others, before any is lost")
	f.DurationVar(&o.Limits.For, "for", 0, "how long, as 30s")
	replacing(f, &o.Options)
	blobFile(f, &o.Options)
	stepMarker(f, &o.Options)
	live.add(f)
	end.add(f)
	return c
}
