package main

import (
	"slices"
	"strings"

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
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer r.Close()
			if by != "" && !slices.Contains(report.By, by) {
				return usage("acltrace stats --by %s: there are sums by %s", by, strings.Join(report.By, ", "))
			}
			s, err := report.NewStats(r, m, &report.StatsOptions{By: by, Progress: a.progress("calls")})
			switch {
			case err != nil:
				return err
			case by != "" && asJSON:
				return a.printJSON(map[string]any{"by": by, "groups": s.Groups})
			case by != "" && asCSV:
				return report.GroupsCSV(a.out, s.Groups)
			case by != "":
				return report.Groups(a.out, by, s.Groups)
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
