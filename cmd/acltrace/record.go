package main

import (
	"context"

	"github.com/acltrace/acltrace/record"
	"github.com/spf13/cobra"
)

func (a *app) recordCmd() *cobra.Command {
	o := record.Options{Version: version, Capture: record.Capture{DropRights: true}, Stdout: a.stdout, Stderr: a.stderr}
	flags := recordFlags{Options: &o}
	var end ending
	var kernels string
	var live liveFlags
	c := &cobra.Command{
		Use:   "record [flags] -- PROGRAM [ARGUMENT …]",
		Short: "run a program and record its calls",
		Long: "Runs a program and writes each of its runtime calls to a trace.\n\n" +
			"The exit code is the program's, or 125 if recording could not start.",
		Example: "acltrace record -o run.aclt -- python train.py\n" +
			"acltrace record --ring 64M --slow 5s -o crash.aclt -- python serve.py",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("record needs a program: acltrace record -o run.aclt -- ./app")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.Command = args
			if err := flags.parse(c, args[0]); err != nil {
				return err
			}
			if err := kept(&o); err != nil {
				return err
			}
			if o.Capture.Library != "" && o.Capture.Probe != "ebpf" {
				return usage("--library needs --probe ebpf")
			}
			if c.Flags().Changed("kernels") {
				if !o.Sim {
					return usage("--kernels needs --sim")
				}
				if err := setKernels(o.Model, kernels); err != nil {
					return err
				}
			}
			if !end.quiet {
				o.Waiting = a.waiting
				a.toolkits(o.Model, o.Sim)
			}
			follower, err := live.follow(a, &o)
			if err != nil {
				return err
			}
			res, err := record.Run(context.Background(), &o)
			follower.said(a)
			return a.recorded(&o, res, err, &end)
		},
	}
	f := c.Flags()
	f.SetInterspersed(false)
	flags.add(c)
	flags.program(c)
	blobFile(f, &o)
	choose(f, &o.Capture.Probe, "probe", "`NAME`: capture by shim or ebpf", "shim", "ebpf")
	explain(f, "probe", "shim is a library that is loaded into the program. ebpf uses probes in the kernel, and needs CAP_BPF and CAP_PERFMON.")
	f.StringVar(&o.Capture.Library, "library", "", "`FILE`: with --probe ebpf: the runtime library")
	explain(f, "library", "Needed if the program is not linked to the runtime library.")
	f.StringVar(&kernels, "kernels", "", kernelsUsage)
	explainKernels(f)
	live.add(f)
	replacing(f, &o)
	end.add(f)
	return c
}
