package main

import (
	"fmt"
	"os"
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
		Short: "record programs of other containers or users",
		Long: "Writes the calls of programs that run elsewhere to a trace: in another container, or as another user. DIR is the folder of a session, which " +
			"`acltrace env --install DIR` makes, or this command in an existing folder. The programs have the variables that `acltrace env DIR` prints.\n\n" +
			"SIGTERM or SIGINT ends the collector. The programs do not depend on it: their buffers (--ring-size) keep calls while no collector " +
			"runs, and count the calls that do not fit. An earlier trace is not overwritten. The next one is called NAME-2.aclt, and so on.\n\n" +
			"The flags that were given to `acltrace env --install` apply here, unless they are given again.",
		Example: "acltrace collect /dev/shm/job -o job.aclt --until-gone 5s\n" +
			"acltrace collect /acltrace -o /traces/%h-%r.aclt",
		Args: arguments(1, "the folder of a session"),
		RunE: func(c *cobra.Command, args []string) error {
			o.Dir = args[0]
			if _, err := os.Lstat(o.Dir); err != nil { // a link is checked later
				return fmt.Errorf("collect: %w: `acltrace env --install %s` makes it", err, o.Dir)
			}
			if err := storedFlags(c, o.Dir); err != nil {
				return err
			}
			if err := flags.parse(c, ""); err != nil {
				return err
			}
			ctx, stop := interruptible()
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
	f.DurationVar(&o.UntilGone, "until-gone", 0, "`TIME`: end this long after the last process")
	explain(f, "until-gone", "Before the first process, the collector waits. By default it runs until a signal ends it.")
	f.DurationVar(&o.Wait, "wait", 10*time.Second, "`TIME`: wait for another collector to end")
	f.BoolVar(&o.Share.AnyUser, "any-user", false, "record programs of all users")
	explain(f, "any-user", "Any user may then read what the programs of others record. Applies if this command makes the session.")
	return c
}

// storedFlags sets the flags that made the session in dir, unless they are given again.
func storedFlags(c *cobra.Command, dir string) error {
	stored, err := record.StoredFlags(dir)
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
	return nil
}
