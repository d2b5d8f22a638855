package main

import (
	"io"
	"strings"
	"time"

	"github.com/acltrace/acltrace/api"
	"github.com/acltrace/acltrace/export/pprof"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// An exportFormat is a format that a trace can be exported to.
type exportFormat struct {
	name, short string
	output      string // help of --output
	ext         string // default output: the name of the trace with this; "" if there is none
	lost        string // what replaces lost calls in the output
	make        func() exporter
}

// An exporter writes traces in one format. It holds the values of the format's flags.
type exporter interface {
	flags(f *pflag.FlagSet)
	// check checks the flags before a trace is opened.
	check(x *exporting, f *pflag.FlagSet) error
	// run writes a trace and reports on standard error what was written.
	run(x *exporting) error
}

// A treeExporter is an exporter that can also add any number of traces to one output.
type treeExporter interface {
	exporter
	arguments(c *cobra.Command, args []string) error
	runTree(x *exporting, args []string) (done bool, err error)
}

// exporting is one run of an export command.
type exporting struct {
	*app
	out  string
	path string // of the trace
	r    *format.Reader
	m    *api.Model
}

var exportFormats = []exportFormat{
	{"otlp", "spans for Jaeger or any OpenTelemetry collector, or a file of OTLP JSON lines",
		"file to write, as run.jsonl; - for standard output", "", `a span "calls lost" stands at each`, func() exporter { return &otlpExport{} }},
	{"perfetto", "a trace for ui.perfetto.dev: calls, streams, arrows between them, memory and queues",
		"file to write (default FILE.pftrace); - for standard output", ".pftrace", `a slice "calls lost" stands at each`, func() exporter { return &perfettoExport{} }},
	{"pprof", "a profile for `go tool pprof`: time in calls, launches and bytes by function and kernel",
		"file to write (default FILE.pb.gz); - for standard output", ".pb.gz", "they are in no sum, and named in the profile's comments", func() exporter { return pprofExport{} }},
	{"chrome", "Chrome's trace JSON for Speedscope, the Firefox Profiler and MindStudio Insight; for Perfetto its own format is better",
		"file to write (default FILE.json); - for standard output", ".json", `a slice "calls lost" stands at each`, func() exporter { return &chromeExport{} }},
	{"parquet", "tables of calls, tasks, copies and kernels for DuckDB, pandas, Spark and ClickHouse: see docs/parquet.md and docs/fleets.md",
		"folder to write the tables into (default FILE.tables)", ".tables", inNoTable, func() exporter { return &parquetExport{} }},
}

func (a *app) exportCmd() *cobra.Command {
	var names []string
	for i := range exportFormats {
		names = append(names, exportFormats[i].name)
	}
	last := len(names) - 1
	list := strings.Join(names[:last], ", ") + " and " + names[last]
	c := &cobra.Command{
		Use:   "export FORMAT FILE",
		Short: "give a trace to Jaeger, Perfetto, pprof and other viewers",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("acltrace export: there is no format %q: there are %s", args[0], list)
			}
			return usage("acltrace export needs a format: %s", list)
		},
	}
	for i := range exportFormats {
		c.AddCommand(a.exportTo(&exportFormats[i]))
	}
	return c
}

func (a *app) exportTo(f *exportFormat) *cobra.Command {
	e, x := f.make(), &exporting{app: a}
	tree, isTree := e.(treeExporter)
	c := &cobra.Command{
		Use:   f.name + " FILE",
		Short: f.short,
		Args:  arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := e.check(x, c.Flags()); err != nil {
				return err
			}
			if isTree {
				if done, err := tree.runTree(x, args); done {
					return err
				}
			}
			if x.out == "" && f.ext != "" {
				x.out = args[0] + f.ext
			}
			x.path = args[0]
			if x.r, x.m, err = open(x.path); err != nil {
				return err
			}
			defer a.close(x.r)
			if err := a.shows(x.r, f.lost, untilEnd); err != nil {
				return err
			}
			return e.run(x)
		},
	}
	if isTree {
		c.Args = tree.arguments
	}
	c.Flags().StringVarP(&x.out, "output", "o", "", f.output)
	e.flags(c.Flags())
	return c
}

// brackets reports how many tasks have no measured times.
func (a *app) brackets(bracketed, tasks int) {
	if bracketed > 0 {
		report.Printf(a.err, "acltrace: the times of %d of %d tasks are brackets, not measured\n", bracketed, tasks)
	}
}

// periodFlags select a part of a trace by time.
type periodFlags struct{ from, to time.Duration }

func (p *periodFlags) add(f *pflag.FlagSet) {
	f.DurationVar(&p.from, "from", 0, "leave out what ends before this moment, counted from the beginning, as 1.5s")
	f.DurationVar(&p.to, "to", 0, "leave out what begins at this moment or later")
}

// check returns the period in nanoseconds. It must not be empty.
func (p *periodFlags) check() (from, to int64, err error) {
	if p.from < 0 || p.to < 0 || p.to != 0 && p.to <= p.from {
		return 0, 0, usage("--from %v --to %v: there is no time between them", p.from, p.to)
	}
	return p.from.Nanoseconds(), p.to.Nanoseconds(), nil
}

type pprofExport struct{}

func (pprofExport) flags(*pflag.FlagSet) {}

func (pprofExport) check(*exporting, *pflag.FlagSet) error { return nil }

func (pprofExport) run(x *exporting) error {
	o := &pprof.Options{Progress: x.progress("calls")}
	if err := x.write(x.out, x.r, func(w io.Writer) error { return pprof.Write(w, x.r, x.m, o) }); err != nil {
		return err
	}
	report.Printf(x.err, "acltrace: %s written; look at it with: go tool pprof -http=: %s\n", x.out, x.out)
	return nil
}
