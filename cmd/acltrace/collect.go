package main

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) collectCmd() *cobra.Command {
	o := record.CollectOptions{Options: record.Options{Version: version, Capture: record.Capture{Bind: "auto"}}}
	flags := recordFlags{Options: &o.Options}
	var end ending
	var live liveFlags
	c := &cobra.Command{
		Use:   "collect DIR",
		Short: "record programs that run elsewhere, as in another container, by way of a folder that both reach",
		Long: `Drains the session in DIR, which acltrace env --install has made or is made now, into a trace, until it is told to end by SIGTERM or SIGINT. The programs have in
their environment what acltrace env DIR prints. They run on whether a collector is there or not: what they write while none is there is kept as far as
their rings have room (--ring-size), and counted beyond that. A collector may come late, be stopped, be killed and come back. A trace that is there is not overwritten: the next one is
called NAME-2.aclt and so on.

Flags that were given to acltrace env --install hold here, unless they are given again.`,
		Args: arguments(1, "the folder of a session"),
		RunE: func(c *cobra.Command, args []string) error {
			o.Dir = args[0]
			stored, err := record.StoredFlags(o.Dir)
			if err != nil {
				return err
			}
			for _, name := range sortedKeys(stored) {
				if f := c.Flags().Lookup(name); f != nil && !f.Changed {
					if err := c.Flags().Set(name, stored[name]); err != nil {
						return usage("--%s, which was given to acltrace env: %w", name, err)
					}
				}
			}
			if err := flags.parse(""); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			o.Log = func(line string) { report.Printf(a.err, "acltrace: %s\n", line) }
			follower, err := live.follow(a, &o.Options)
			if err != nil {
				return err
			}
			res, err := record.Collect(ctx, &o)
			follower.said(a)
			return a.recorded(&o.Options, res, err, &end)
		},
	}
	flags.add(c)
	f := c.Flags()
	noGuard(f, &o.NoGuard)
	end.add(f)
	live.add(f)
	blobFile(f, &o.Options)
	f.DurationVar(&o.UntilGone, "until-gone", 0, "end when no process has been there for so long, as 5s, after one was (default: when told to)")
	f.DurationVar(&o.Wait, "wait", 10*time.Second, "how long to wait for another collector of DIR to end")
	f.BoolVar(&o.Share.AnyUser, "any-user", false, "where the session is made: programs of any user are recorded, and may read what others write")
	return c
}
