package main

import (
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) infoCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "info FILE",
		Short: "show device, processes, counts and gaps of a trace",
		Example: "acltrace info run.aclt\n" +
			"acltrace info --json run.aclt",
		Args: arguments(1, "one trace file"),
		RunE: func(_ *cobra.Command, args []string) error {
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			in, err := report.NewInfo(args[0], r, m)
			if err != nil {
				return err
			}
			in.Standing = inProgress(r.Meta().UUID, r.Complete())
			if asJSON {
				return a.printJSON(in)
			}
			return in.Text(a.out, a.text())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	a.strictFlag(c.Flags())
	return c
}
