package main

import (
	"errors"
	"fmt"
	"github.com/acltrace/acltrace/internal/human"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/acltrace/acltrace/analyze/ranks"
	"github.com/acltrace/acltrace/export/chrome"
	"github.com/acltrace/acltrace/export/parquet"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/private"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) exportChrome() *cobra.Command {
	var o chrome.Options
	var out string
	var from, to time.Duration
	c := &cobra.Command{
		Use:   "chrome FILE",
		Short: "Chrome's trace JSON for Speedscope, the Firefox Profiler and MindStudio Insight; for Perfetto its own format is better",
		Args:  arguments(1, "one trace file"),
		RunE: func(_ *cobra.Command, args []string) error {
			var err error
			if o.From, o.To, err = window(from, to); err != nil {
				return err
			}
			if out == "" {
				out = args[0] + ".json"
			}
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			if err := a.shows(r, `a slice "calls lost" stands at each`, untilEnd); err != nil {
				return err
			}
			o.Progress = a.progress("calls")
			var res *chrome.Result
			if err := a.write(out, r, func(w io.Writer) (err error) {
				res, err = chrome.Write(w, r, m, &o)
				return err
			}); err != nil {
				return err
			}
			report.Printf(a.err, "acltrace: %d calls and %d tasks written to %s\n", res.Calls, res.Tasks, out)
			a.brackets(res.Bracketed, res.Tasks)
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&out, "output", "o", "", "file to write (default FILE.json); - for standard output")
	f.DurationVar(&from, "from", 0, "leave out what ends before this moment, counted from the beginning, as 1.5s")
	f.DurationVar(&to, "to", 0, "leave out what begins at this moment or later")
	f.BoolVar(&o.NoArgs, "no-args", false, "leave out the arguments of calls and their numbers: smaller and faster, and Speedscope sums up calls of one function")
	f.BoolVar(&o.MindStudio, "mindstudio", false, "a trace_view.json for MindStudio Insight")
	return c
}

func (a *app) exportParquet() *cobra.Command {
	var out, job string
	c := &cobra.Command{
		Use:   "parquet FILE",
		Short: "tables of calls, tasks, copies and kernels for DuckDB, pandas, Spark and ClickHouse: see docs/parquet.md and docs/fleets.md",
		Args: func(c *cobra.Command, args []string) error {
			if job != "" && len(args) > 0 {
				return nil
			}
			return arguments(1, "one trace file (with --partition as many as you like)")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("partition") {
				return a.parquetTree(out, job, args)
			}
			if out == "" {
				out = args[0] + ".tables"
			}
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			if err := a.shows(r, inNoTable, untilEnd); err != nil {
				return err
			}
			if err := os.MkdirAll(out, 0o700); err != nil {
				return err
			}
			if err := private.Folder(out); err != nil {
				return err
			}
			var res *parquet.Result
			if err := writeAll(r, func(create func(string) (io.WriteCloser, error)) (err error) {
				res, err = parquet.Write(func(table string) (io.WriteCloser, error) {
					return create(filepath.Join(out, table+".parquet"))
				}, r, m, &parquet.Options{Progress: a.progress("calls")})
				return err
			}); err != nil {
				return err
			}
			report.Printf(a.err, "acltrace: %d calls, %d tasks, %s and %s written to %s\n", res.Calls, res.Tasks, human.Plural(uint64(res.Copies), "copy"), human.Plural(uint64(res.Kernels), "kernel"), out)
			a.brackets(res.Bracketed, res.Tasks)
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "folder to write the tables into (default FILE.tables)")
	c.Flags().StringVar(&job, "partition", "", "add the traces, files and folders of them, to a tree that is partitioned by job and rank; this is the job's name: see docs/fleets.md")
	return c
}

const inNoTable = "they are in no table, and their number is in the metadata of each"

// parquetTree adds traces to a tree.
func (a *app) parquetTree(dir, job string, args []string) error {
	switch {
	case dir == "":
		return usage("acltrace export parquet --partition needs -o, the folder of the tree")
	case job == "":
		return usage("acltrace export parquet --partition needs the name of the job")
	}
	defer atomicfile.EndOnSignals()()
	files, err := ranks.Files(args)
	if err != nil {
		return err
	}
	var sum parquet.Result
	for i, file := range files {
		r, m, err := open(file)
		if err != nil {
			return err
		}
		rank, told := ranks.Rank(r.Meta())
		if !told {
			rank = i
		}
		res, err := parquet.WriteTree(r, m, &parquet.TreeOptions{Dir: dir, Job: job, Rank: rank, Progress: a.progress("calls")})
		if err == nil {
			err = a.shows(r, inNoTable, untilEnd)
			a.brackets(res.Bracketed, res.Tasks)
		}
		if err := errors.Join(err, a.close(r)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		sum.Calls, sum.Tasks = sum.Calls+res.Calls, sum.Tasks+res.Tasks
	}
	report.Printf(a.err, "acltrace: %s, %d calls and %d tasks, added to %s\n", human.Plural(uint64(len(files)), "trace"), sum.Calls, sum.Tasks, dir)
	return nil
}
