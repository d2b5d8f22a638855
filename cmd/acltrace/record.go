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
		Long: `Runs a program and writes every call that it makes to the runtime into a trace.

The program's own exit code is passed on. 125 means that it was not run: recording could not start.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("acltrace record needs a program: acltrace record -o run.aclt -- ./app")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.Command = args
			if err := flags.parse(args[0]); err != nil {
				return err
			}
			if err := kept(&o); err != nil {
				return err
			}
			if o.Capture.Probe != "shim" && o.Capture.Probe != "ebpf" {
				return usage("--probe %s: there are shim and ebpf", o.Capture.Probe)
			}
			if c.Flags().Changed("kernels") {
				if !o.Sim {
					return usage("--kernels is for --sim")
				}
				setKernels(o.Model, kernels)
			}
			if !end.quiet {
				o.Waiting = a.waiting
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
	f.StringVar(&o.Capture.Probe, "probe", "shim", "how to capture: shim or ebpf")
	f.StringVar(&o.Capture.Library, "library", "", "with --probe ebpf: path of the runtime library, for a program that is not linked to it")
	f.StringVar(&kernels, "kernels", "", "with --sim: "+kernelsUsage)
	live.add(f)
	replacing(f, &o)
	end.add(f)
	return c
}
