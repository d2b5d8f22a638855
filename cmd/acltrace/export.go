package main

import (
	"github.com/spf13/cobra"
)

// An exportFormat is one row in the table of formats.
type exportFormat struct {
	name, short string
	output      string // --output help
	ext         string // default output is the trace's path with this suffix; "" for none
	lost        string // replaces lost calls in the output
	make        func() exporter
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
	{"parquet", "tables of calls, tasks, copies and kernels for DuckDB, pandas, Spark and ClickHouse: see docs/reference/parquet.md and docs/howto/fleets.md",
		"folder to write the tables into (default FILE.tables)", ".tables", inNoTable, func() exporter { return &parquetExport{} }},
}

func (a *app) exportCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "export FORMAT FILE",
		Short: "give a trace to Jaeger, Perfetto, pprof and other viewers",
		Args:  subcommands("a format"),
		RunE:  helps,
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
