package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/acltrace/acltrace/export/perfetto"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/spf13/pflag"
)

type perfettoExport struct {
	o       perfetto.Options
	maxSize optional[int64]
}

func (e *perfettoExport) flags(f *pflag.FlagSet) {
	sizeFlag(f, &e.maxSize, "max-size", "", "`SIZE`: write several files of this size")
	explain(f, "max-size", "The page needs about 2G of memory for 100M of trace.")
	f.BoolVar(&e.o.NoArgs, "no-args", false, "leave out call arguments")
	f.BoolVar(&e.o.GPU, "gpu", false, "show tasks as GPU stages (Perfetto 55)")
	f.BoolVar(&e.o.Zstd, "zstd", false, "compress with zstd (Perfetto 58)")
}

func (e *perfettoExport) check(x *exporting, _ *pflag.FlagSet) (err error) {
	if e.o.MaxSize = e.maxSize.or(0); e.o.MaxSize != 0 && e.o.MaxSize < perfetto.MinSize {
		return usage("--max-size %s: want at least %dK", &e.maxSize, perfetto.MinSize>>10)
	}
	if x.out.path == "-" && e.o.MaxSize != 0 {
		return usage("--max-size makes several files: they can't go to standard output")
	}
	return nil
}

func (e *perfettoExport) run(x *exporting) (err error) {
	e.o.Select, e.o.Progress = &x.which.Selection, x.writing()
	var res *perfetto.Result
	var names []string
	if e.o.MaxSize == 0 {
		names = []string{x.out.path}
		res, err = file(x, func(w io.Writer) (*perfetto.Result, error) { return perfetto.Write(w, x.r, x.m, &e.o) })
	} else {
		err = x.out.writeAll(x.app, x.r, func(create func(string) (io.WriteCloser, error)) (err error) {
			res, err = perfetto.Files(func(part int) (io.WriteCloser, error) {
				names = append(names, numbered(x.out.path, part))
				return create(names[part-1])
			}, x.r, x.m, &e.o)
			return err
		})
	}
	if err != nil {
		return err
	}
	x.written(res.Calls, x.calls(res.Calls)+" and "+human.Plural(res.Tasks, "task"), strings.Join(shorten(names), ", "), "open "+names[0]+" at https://ui.perfetto.dev", res.Tasks, res.Bracketed)
	return nil
}

// numbered inserts a number before a file name's extension.
func numbered(path string, n int) string {
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%03d%s", strings.TrimSuffix(path, ext), n, ext)
}

// shorten keeps the first and last name if there are many.
func shorten(names []string) []string {
	if len(names) <= 3 {
		return names
	}
	return []string{names[0], fmt.Sprintf("… (%d files)", len(names)), names[len(names)-1]}
}
