package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/acltrace/acltrace/internal/human"

	"github.com/acltrace/acltrace/analyze/ranks"
	"github.com/acltrace/acltrace/export/parquet"
	"github.com/acltrace/acltrace/internal/private"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type parquetExport struct {
	job    string
	intree bool // --partition was given
}

func (e *parquetExport) flags(f *pflag.FlagSet) {
	f.StringVar(&e.job, "partition", "", "`JOB`: add traces to a tree by job and rank")
	explain(f, "partition", "Adds traces, or all traces in folders, to the tables in -o, which are partitioned by job and rank. JOB is the name of the job. See docs/howto/fleets.md.")
}

func (e *parquetExport) check(x *exporting, f *pflag.FlagSet) error {
	if x.out.path == "-" {
		return usage("export parquet -o -: tables are several files: name a folder")
	}
	e.intree = f.Changed("partition")
	return nil
}

func (e *parquetExport) arguments(c *cobra.Command, args []string) error {
	if e.job != "" && len(args) > 0 {
		return nil
	}
	return arguments(1, "one trace file (with --partition as many as you like)")(c, args)
}

func (e *parquetExport) run(x *exporting) error {
	_, err := os.Stat(x.out.path)
	made := errors.Is(err, fs.ErrNotExist)
	if err := private.MakeFolder(x.out.path); err != nil {
		return err
	}
	if err := private.Folder(x.out.path); err != nil {
		return err
	}
	var res *parquet.Result
	if err := x.out.writeAll(x.app, x.r, func(create func(string) (io.WriteCloser, error)) (err error) {
		res, err = parquet.Write(func(table string) (io.WriteCloser, error) {
			f, err := create(filepath.Join(x.out.path, table+".parquet"))
			return &partFile{f, &x.size}, err
		}, x.r, x.m, &parquet.Options{Select: &x.which.Selection, Progress: x.writing()})
		return err
	}); err != nil {
		if made {
			_ = os.Remove(x.out.path) // unless it has other files
		}
		return err
	}
	x.written(res.Calls, strings.Join([]string{x.calls(res.Calls), human.Plural(res.Tasks, "task"), human.Plural(res.Copies, "copy")}, ", ")+" and "+human.Plural(res.Kernels, "kernel"), x.out.path, "", res.Tasks, res.Bracketed)
	x.query(res.Calls, filepath.Join(x.out.path, "calls.parquet"))
	return nil
}

// query prints a command that shows the n calls in a file, or in the files of a pattern.
func (x *exporting) query(n int, files string) {
	if n == 0 {
		return
	}
	x.next("duckdb", "-c", `from "`+strings.ReplaceAll(files, `"`, `""`)+`" limit 10`)
}

const inNoTable = "they are in no table; its metadata has their number"

// runTree adds traces to a tree.
func (e *parquetExport) runTree(x *exporting, args []string) (done bool, err error) {
	switch {
	case !e.intree:
		return false, nil
	case x.out.path == "":
		return true, usage("export parquet --partition needs -o, the folder of the tree")
	case e.job == "":
		return true, usage("export parquet --partition needs the name of the job")
	}
	defer x.endOnSignals()()
	files, err := ranks.Files(args)
	if err != nil {
		return true, err
	}
	var sum parquet.Result
	total := uint64(0)
	for i, file := range files {
		r, m, err := open(file)
		if err != nil {
			return true, err
		}
		rank, told := ranks.Rank(r.Meta())
		if !told {
			rank = i
		}
		res, err := parquet.WriteTree(r, m, &parquet.TreeOptions{Dir: x.out.path, Job: e.job, Rank: rank, Select: &x.which.Selection, Progress: x.progress("calls")})
		total += recorded(r)
		if err == nil {
			err = x.shows(r, inNoTable, untilEnd)
			x.brackets(res.Bracketed, res.Tasks)
		}
		if err := errors.Join(err, x.close(r)); err != nil {
			return true, fmt.Errorf("%s: %w", file, err)
		}
		sum.Calls, sum.Tasks = sum.Calls+res.Calls, sum.Tasks+res.Tasks
	}
	x.which.nothing(x.app, strings.Join(args, ", "), uint64(sum.Calls))
	report.Printf(x.err, "acltrace: %s, %s and %s, added to %s\n", human.Plural(len(files), "trace"), x.which.calls(sum.Calls, total), human.Plural(sum.Tasks, "task"), x.out.path)
	x.query(sum.Calls, filepath.Join(x.out.path, "calls", "*", "*", "*.parquet"))
	return true, nil
}
