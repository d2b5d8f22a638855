package main

import (
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) statsCmd() *cobra.Command {
	var asJSON, asCSV bool
	var by string
	c := &cobra.Command{
		Use:   "stats FILE",
		Short: "where the time went: totals, functions, kernels, copies, streams, idle times, errors",
		Args:  arguments(1, "one trace file"),
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := load(args[0])
			if err != nil {
				return err
			}
			defer t.Reader.Close()
			s := report.NewStats(t)
			if by != "" {
				groups, err := s.By(by)
				switch {
				case err != nil:
					return usage("%w", err)
				case asJSON:
					return a.printJSON(map[string]any{"by": by, "groups": groups})
				case asCSV:
					return report.GroupsCSV(a.out, groups)
				}
				return report.Groups(a.out, by, groups)
			}
			if asCSV {
				return s.CSV(a.out)
			}
			if asJSON {
				return a.printJSON(s)
			}
			return s.Text(a.out)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&asCSV, "csv", false, "print comma-separated values: the functions, or what --by asks for")
	c.Flags().StringVar(&by, "by", "", "sums by step, thread, stream or kernel")
	c.MarkFlagsMutuallyExclusive("json", "csv")
	return c
}
