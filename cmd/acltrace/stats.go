package main

import (
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) statsCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "stats FILE",
		Short: "sums by function, kernel, copy direction and stream",
		Args:  arguments(1, "one trace file"),
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := load(args[0])
			if err != nil {
				return err
			}
			defer t.Reader.Close()
			s := report.NewStats(t)
			if asJSON {
				return a.printJSON(s)
			}
			return s.Text(a.out)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
