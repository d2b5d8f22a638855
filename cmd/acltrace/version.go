package main

import (
	goruntime "runtime"

	"github.com/acltrace/acltrace/format/container"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

// Set by the build: the version, and the hash and the date of the commit.
var (
	version = "unknown"
	commit  = "unknown"
	date    = "unknown"
)

func (a *app) versionCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "print version, commit and trace format",
		Example: "acltrace version\n" +
			"acltrace version --json",
		Args: arguments(0, "no arguments"),
		RunE: func(_ *cobra.Command, _ []string) error {
			if asJSON {
				return a.printJSON(map[string]any{
					"version": version, "commit": commit, "date": date, "format": map[string]int{"major": container.Major, "minor": container.Minor},
					"go": goruntime.Version(), "os": goruntime.GOOS, "arch": goruntime.GOARCH,
				})
			}
			report.Printf(a.out, "acltrace %s\ncommit   %s, %s\nformat   %d.%d\nbuild    %s, %s/%s\n",
				version, commit, date, container.Major, container.Minor, goruntime.Version(), goruntime.GOOS, goruntime.GOARCH)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
