package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/acltrace/acltrace/export/perfetto"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) exportPerfetto() *cobra.Command {
	var o perfetto.Options
	var out, maxSize string
	var from, to time.Duration
	c := &cobra.Command{
		Use:   "perfetto FILE",
		Short: "a trace for ui.perfetto.dev: calls, streams, arrows between them, memory and queues",
		Args:  arguments(1, "one trace file"),
		RunE: func(_ *cobra.Command, args []string) error {
			var err error
			if o.MaxSize, err = size(maxSize); err != nil {
				return usage("--max-size: %w", err)
			}
			if o.MaxSize != 0 && o.MaxSize < perfetto.MinSize {
				return usage("--max-size %s: at least %dK are needed", maxSize, perfetto.MinSize>>10)
			}
			if o.From, o.To, err = window(from, to); err != nil {
				return err
			}
			if out == "" {
				out = args[0] + ".pftrace"
			}
			if out == "-" && o.MaxSize != 0 {
				return usage("--max-size makes several files: they can't go to standard output")
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
			var res *perfetto.Result
			var names []string
			if o.MaxSize == 0 {
				names = []string{out}
				err = a.write(out, r, func(w io.Writer) (err error) {
					res, err = perfetto.Write(w, r, m, &o)
					return err
				})
			} else {
				err = writeAll(r, func(create func(string) (io.WriteCloser, error)) (err error) {
					res, err = perfetto.Files(func(part int) (io.WriteCloser, error) {
						names = append(names, numbered(out, part))
						return create(names[part-1])
					}, r, m, &o)
					return err
				})
			}
			if err != nil {
				return err
			}
			report.Printf(a.err, "acltrace: %d calls and %d tasks written to %s; open it at https://ui.perfetto.dev\n", res.Calls, res.Tasks, strings.Join(shorten(names), ", "))
			a.brackets(res.Bracketed, res.Tasks)
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&out, "output", "o", "", "file to write (default FILE.pftrace); - for standard output")
	f.DurationVar(&from, "from", 0, "leave out what ends before this moment, counted from the beginning, as 1.5s")
	f.DurationVar(&to, "to", 0, "leave out what begins at this moment or later")
	f.StringVar(&maxSize, "max-size", "", "make several files of at most this size, as 100M: the page takes up to about 2G of memory for 100M of trace")
	f.BoolVar(&o.NoArgs, "no-args", false, "leave out the arguments of calls: smaller and faster")
	f.BoolVar(&o.GPU, "gpu", false, "tasks as stages of a GPU, which Perfetto v55 and newer have pages and tables for")
	f.BoolVar(&o.Zstd, "zstd", false, "compress with zstd instead of deflate: smaller, needs Perfetto v58 or newer")
	return c
}

// window turns times into a window, which must hold some.
func window(from, to time.Duration) (int64, int64, error) {
	if from < 0 || to < 0 || to != 0 && to <= from {
		return 0, 0, usage("--from %v --to %v: there is no time between them", from, to)
	}
	return from.Nanoseconds(), to.Nanoseconds(), nil
}

// numbered puts a number before the extension of a file's name.
func numbered(path string, n int) string {
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%03d%s", strings.TrimSuffix(path, ext), n, ext)
}

// shorten leaves the first and the last of many names.
func shorten(names []string) []string {
	if len(names) <= 3 {
		return names
	}
	return []string{names[0], fmt.Sprintf("… (%d files)", len(names)), names[len(names)-1]}
}
