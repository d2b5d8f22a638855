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
				return a.printJSON(&versionResult{version, commit, date, versionFormat{container.Major, container.Minor}, goruntime.Version(), goruntime.GOOS, goruntime.GOARCH})
			}
			report.Printf(a.out, "acltrace %s\ncommit   %s, %s\nformat   %d.%d\nbuild    %s, %s/%s\n",
				version, commit, date, container.Major, container.Minor, goruntime.Version(), goruntime.GOOS, goruntime.GOARCH)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// versionResult is the output as JSON.
type versionResult struct {
	Version string        `json:"version"` // version of the program
	Commit  string        `json:"commit"`  // hash of the commit
	Date    string        `json:"date"`    // date of the commit
	Format  versionFormat `json:"format"`  // format of traces
	Go      string        `json:"go"`      // version of the compiler
	OS      string        `json:"os"`      // operating system
	Arch    string        `json:"arch"`    // processor architecture
}

type versionFormat struct {
	Major int `json:"major"` // changes if older versions can't read the file
	Minor int `json:"minor"` // changes with additions that older versions skip
}
