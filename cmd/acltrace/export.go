package main

import (
	"github.com/spf13/cobra"
)

// An exportFormat is one row in the table of formats.
type exportFormat struct {
	name, short string
	examples    string
	output      string // --output help
	ext         string // default output is the trace's path with this suffix; "" for none
	lost        string // replaces lost calls in the output
	make        func() exporter
}

var exportFormats = []exportFormat{
	{"otlp", "spans for Jaeger or an OpenTelemetry collector", "acltrace export otlp run.aclt --endpoint http://localhost:4317\nacltrace export otlp run.aclt -o run.jsonl",
		"`FILE`: write OTLP JSON lines instead of sending", "", `each place has a span "calls lost"`, func() exporter { return &otlpExport{} }},
	{"perfetto", "trace for ui.perfetto.dev, with memory and queues", "acltrace export perfetto run.aclt\nacltrace export perfetto --from 1s --to 2s run.aclt -o second.pftrace",
		"`FILE`: file to write (default TRACE.pftrace)", ".pftrace", `each place has a slice "calls lost"`, func() exporter { return &perfettoExport{} }},
	{"pprof", "profile for `go tool pprof`", "acltrace export pprof run.aclt\nacltrace export pprof run.aclt -o run.pb.gz",
		"`FILE`: file to write (default TRACE.pb.gz)", ".pb.gz", "they are not counted; the profile has their number in its comments", func() exporter { return pprofExport{} }},
	{"chrome", "Chrome's trace JSON for Speedscope and MindStudio Insight", "acltrace export chrome run.aclt\nacltrace export chrome --mindstudio run.aclt -o trace_view.json",
		"`FILE`: file to write (default TRACE.json)", ".json", `each place has a slice "calls lost"`, func() exporter { return &chromeExport{} }},
	{"html", "one page for a browser: steps, lanes, tables, memory", "acltrace export html run.aclt\nacltrace export html run.aclt --compare yesterday.aclt -o run.html",
		"`FILE`: file to write (default TRACE.html)", ".html", "the page lists them", func() exporter { return &htmlExport{} }},
	{"parquet", "tables for DuckDB, pandas, Spark and ClickHouse", "acltrace export parquet run.aclt -o tables\nacltrace export parquet --partition job7 -o fleet rank0.aclt rank1.aclt",
		"`DIR`: folder for the tables (default TRACE.tables)", ".tables", inNoTable, func() exporter { return &parquetExport{} }},
}

// folder reports whether the output is a folder.
func (f *exportFormat) folder() bool { return f.ext == ".tables" }

func (a *app) exportCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "export FORMAT FILE",
		Short: "convert a trace for Jaeger, Perfetto, pprof and others",
		Example: "acltrace export perfetto run.aclt\n" +
			"acltrace export otlp run.aclt --endpoint http://localhost:4317",
		Args: subcommands("a format"),
		RunE: helps,
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
		Use:     f.name + " FILE",
		Short:   f.short,
		Example: f.examples,
		Args:    arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := x.which.check(); err != nil {
				return err
			}
			if err := e.check(x, c.Flags()); err != nil {
				return err
			}
			if isTree {
				if done, err := tree.runTree(x, args); done {
					return err
				}
			}
			if x.out.path == "" && f.ext != "" {
				x.out.path = args[0] + f.ext
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
	x.out.add(c.Flags(), f.output)
	if !f.folder() {
		explain(c.Flags(), "output", "- writes to standard output.")
	}
	if _, own := e.(interface{ choosesItself() }); !own {
		x.which.add(c.Flags())
	}
	e.flags(c.Flags())
	return c
}
