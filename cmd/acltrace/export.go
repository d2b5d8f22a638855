package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/acltrace/acltrace/export/pprof"
	"github.com/acltrace/acltrace/otelexport"
	"github.com/spf13/cobra"
)

const exportFormats = "otlp, perfetto, pprof, chrome and parquet"

func (a *app) exportCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "export FORMAT FILE",
		Short: "give a trace to Jaeger, Perfetto, pprof and other viewers",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("acltrace export: there is no format %q: there are %s", args[0], exportFormats)
			}
			return usage("acltrace export needs a format: %s", exportFormats)
		},
	}
	c.AddCommand(a.exportOTLP(), a.exportPerfetto(), a.exportPprof(), a.exportChrome(), a.exportParquet())
	return c
}

func (a *app) exportOTLP() *cobra.Command {
	var o otelexport.Options
	var out string
	c := &cobra.Command{
		Use:   "otlp FILE",
		Short: "spans for Jaeger or any OpenTelemetry collector, or a file of OTLP JSON lines",
		Args:  arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) error {
			if out != "" && o.Endpoint != "" {
				return usage("acltrace export otlp: --output writes a file, --endpoint sends to a collector: give one of them")
			}
			t, err := load(args[0])
			if err != nil {
				return err
			}
			defer t.Reader.Close()
			if out != "" {
				var res *otelexport.Result
				if err := a.write(out, func(w io.Writer) (err error) {
					res, err = otelexport.Write(w, t, &o)
					return err
				}); err != nil {
					return err
				}
				fmt.Fprintf(a.err, "acltrace: %d spans in %d traces written to %s\n", res.Spans, res.Traces, out)
				return nil
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			o.Progress = a.progress("spans sent")
			res, err := otelexport.Send(ctx, t, &o)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err, "acltrace: %d spans in %d traces sent; the first trace is %s\n", res.Spans, res.Traces, res.FirstTraceID)
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&out, "output", "o", "", "file to write, as run.jsonl; - for standard output")
	f.StringVar(&o.Endpoint, "endpoint", "", "URL of a collector or a Jaeger (default: OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4317)")
	f.StringVar(&o.Protocol, "protocol", "", "grpc or http/protobuf (default: from the environment, or by the endpoint's port)")
	f.StringVar(&o.Layout, "layout", "lanes", "lanes: a lane per stream, kernels linked to their launches; nested: kernels under their launches")
	f.IntVar(&o.MaxSpans, "max-spans", 0, "spans per trace; longer steps and recordings become several traces, linked (default 10000)")
	f.BoolVar(&o.NoSteps, "no-steps", false, "no trace for each step: cut by --max-spans alone")
	return c
}

func (a *app) exportPprof() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "pprof FILE",
		Short: "a profile for `go tool pprof`: time in calls, launches and bytes by function and kernel",
		Args:  arguments(1, "one trace file"),
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := load(args[0])
			if err != nil {
				return err
			}
			defer t.Reader.Close()
			if out == "" {
				out = args[0] + ".pb.gz"
			}
			if err := a.write(out, func(w io.Writer) error { return pprof.Write(w, t) }); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "acltrace: %s written; look at it with: go tool pprof -http=: %s\n", out, out)
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "file to write (default FILE.pb.gz); - for standard output")
	return c
}

// write gives a new file, or standard output for "-", to a function, and leaves nothing half written.
func (a *app) write(path string, use func(io.Writer) error) error {
	if path == "-" {
		return use(a.out)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := use(f); err != nil {
		f.Close()
		os.Remove(path)
		return err
	}
	return f.Close()
}
