package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/acltrace/acltrace/analyze/memory"
	"github.com/acltrace/acltrace/analyze/path"
	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/report"
	"github.com/acltrace/acltrace/timeline"
	"github.com/spf13/cobra"
)

// shown is the default row limit for a table.
const shown = 1000

type statsFlags struct {
	json, csv, paths, memories bool
	by                         string
	top                        int
	which                      selectFlags
}

func (a *app) statsCmd() *cobra.Command {
	var f statsFlags
	c := &cobra.Command{
		Use:   "stats FILE",
		Short: "show where the time went: steps, kernels, copies, idle time",
		Example: "acltrace stats run.aclt\n" +
			"acltrace stats --by kernel --top 20 run.aclt",
		Args: arguments(1, "one trace file"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := f.which.check(); err != nil {
				return err
			}
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			defer a.endOnSignals()()
			switch {
			case f.by != "" && !slices.Contains(stats.By, f.by):
				return usage("stats --by %s: there are sums by %s", f.by, strings.Join(stats.By, ", "))
			case f.by == "" && f.top >= 0:
				return usage("stats --top %d: add --by", f.top)
			}
			if err := a.shows(r, uncounted, untimed); err != nil {
				return err
			}
			switch {
			case f.paths:
				return a.criticalPaths(r, m, &f.which, f.json)
			case f.memories:
				return a.memory(r, m, &f.which, f.json)
			}
			return a.stats(args[0], r, m, &f)
		},
	}
	c.Flags().BoolVar(&f.json, "json", false, "print JSON")
	c.Flags().BoolVar(&f.csv, "csv", false, "print CSV: functions, or the sums of --by")
	c.Flags().StringVar(&f.by, "by", "", "`KEY`: sum by step, operator, kernel or another key")
	explain(c.Flags(), "by", "KEY is step, thread, stream, kernel, operator, shape or function.")
	c.Flags().IntVar(&f.top, "top", -1, "`N`: with --by: N rows and the sum of the rest; 0: all")
	explain(c.Flags(), "top", "The rows are those with the most time in calls, or the longest steps. By default a table has 1000 rows, and JSON and CSV have all.")
	c.Flags().BoolVar(&f.paths, "critical-path", false, "show the calls and tasks that bound the step time")
	explain(c.Flags(), "critical-path", "Calls, device tasks and own time of the program that determined when a step ended: the mean of all steps.")
	c.Flags().BoolVar(&f.memories, "memory", false, "show which code allocates device memory")
	explain(c.Flags(), "memory", "By call stack if the recording has stacks, otherwise by function, thread and size: at the peak, never freed, freed after the last step, growing from step to step.")
	f.which.add(c.Flags())
	a.strictFlag(c.Flags())
	exclusive(c, "json", "csv")
	for _, other := range []string{"csv", "by", "top", "critical-path"} {
		exclusive(c, "memory", other)
	}
	exclusive(c, "critical-path", "csv")
	exclusive(c, "critical-path", "by")
	exclusive(c, "critical-path", "top")
	return c
}

// stats prints the times of a trace. JSON and CSV have all rows unless top says how many, and are printed while they are found.
func (a *app) stats(path string, r *format.Reader, m *api.Model, f *statsFlags) (err error) {
	o := &stats.Options{Select: &f.which.Selection, By: f.by, Top: f.top, Progress: a.progress("calls")}
	var list *report.GroupWriter
	switch {
	case f.by != "" && (f.json || f.csv):
		to := io.Writer(a.out)
		if f.json {
			to = report.NewJSON(a.raw)
		}
		if list, err = report.NewGroupWriter(to, f.by, f.csv); err != nil {
			return err
		}
		if f.by == "step" && f.top < 0 {
			o.Step = list.Group
		}
	case f.top < 0:
		o.Top = shown
	}
	s, err := stats.New(r, m, o)
	if err != nil {
		return err
	}
	f.which.nothing(a, path, s.Calls)
	switch {
	case list != nil:
		for i := range s.Groups {
			if err := list.Group(&s.Groups[i]); err != nil {
				return err
			}
		}
		return list.Close(s)
	case f.by != "":
		return report.Groups(a.out, f.by, s, a.text())
	case f.csv:
		return report.StatsCSV(a.out, s)
	case f.json:
		return a.printJSON(s)
	}
	return report.StatsText(a.out, path, s, a.text())
}

// memory prints the sites that allocate device memory.
func (a *app) memory(r *format.Reader, m *api.Model, which *selectFlags, asJSON bool) error {
	if which.String() != (&timeline.Selection{}).String() {
		return usage("stats --memory: memory is that of the whole trace, without %s", which)
	}
	s, err := memory.New(r, m, &memory.Options{Progress: a.progress("calls")})
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(s)
	}
	return report.MemoryText(a.out, r.Path(), s, a.text())
}

// criticalPaths prints the critical paths of steps.
func (a *app) criticalPaths(r *format.Reader, m *api.Model, which *selectFlags, asJSON bool) error {
	if only := (timeline.Selection{Steps: which.Steps}); which.String() != only.String() {
		return usage("stats --critical-path: a path is that of whole steps; choose them with --step, not with %s", which)
	}
	var list *report.PathWriter
	var one *path.Path
	o := &path.Options{Steps: which.Steps, Progress: a.progress("calls"), Each: func(p *path.Path) error {
		if s := which.Steps; s != nil && s.First == s.Last {
			one = p.Clone()
		}
		if list != nil {
			return list.Path(p)
		}
		return nil
	}}
	if asJSON {
		var err error
		if list, err = report.NewPathWriter(report.NewJSON(a.raw)); err != nil {
			return err
		}
	}
	s, err := path.New(r, m, o)
	if err != nil {
		return err
	}
	if list != nil {
		err = list.Close(s)
	}
	if err == nil && which.Steps != nil && s.Steps == 0 {
		err = fmt.Errorf("%s has no whole step %v", r.Path(), which.Steps)
	}
	if err != nil || list != nil {
		return err
	}
	return report.PathsText(a.out, r.Path(), s, one, a.text())
}
