package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/acltrace/acltrace/internal/human"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/acltrace/acltrace/export/pprof"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/otelexport"
	"github.com/acltrace/acltrace/report"
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
	var out, ui string
	var resume, metrics bool
	c := &cobra.Command{
		Use:   "otlp FILE",
		Short: "spans for Jaeger or any OpenTelemetry collector, or a file of OTLP JSON lines",
		Args:  arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) error {
			if out != "" && (o.Endpoint != "" || resume || c.Flags().Changed("ui") || metrics) {
				return usage("acltrace export otlp: --output writes a file of spans; --endpoint, --resume, --ui and --metrics are for sending to a collector")
			}
			if metrics && resume {
				return usage("acltrace export otlp: --metrics are sent as a whole, there is nothing to --resume")
			}
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			if err := a.shows(r, `a span "calls lost" stands at each`, untilEnd); err != nil {
				return err
			}
			if out != "" {
				var res *otelexport.Result
				if err := a.write(out, r, func(w io.Writer) (err error) {
					res, err = otelexport.Write(w, r, m, &o)
					return err
				}); err != nil {
					return err
				}
				report.Printf(a.err, "acltrace: %s in %s written to %s\n", human.Plural(uint64(res.Spans), "span"), human.Plural(uint64(res.Traces), "trace"), out)
				return nil
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			if metrics {
				o.Progress = a.progress("calls counted")
				endpoint, n, err := otelexport.SendMetrics(ctx, r, m, &o)
				if err != nil {
					return err
				}
				report.Printf(a.err, "acltrace: %d values of metrics sent to %s\n", n, endpoint)
				return nil
			}
			state := resumeFile(args[0] + ".otlp-state")
			if resume {
				if o.Resume, err = state.read(); err != nil {
					return err
				}
			}
			o.Save = state.save
			o.Progress = a.progress("calls sent")
			res, err := otelexport.Send(ctx, r, m, &o)
			if err != nil {
				if s, serr := os.Stat(string(state)); serr == nil && s.Size() > 0 {
					report.Printf(a.err, "acltrace: how far it came is in %s: the same command with --resume goes on there\n", state)
				}
				return err
			}
			os.Remove(string(state))
			report.Printf(a.err, "acltrace: %s in %s sent; the first trace is %s\n", human.Plural(uint64(res.Spans+res.Before), "span"), human.Plural(uint64(res.Traces), "trace"), res.FirstTraceID)
			if res.Message != "" {
				report.Printf(a.err, "acltrace: the receiver says: %s\n", res.Message)
			}
			report.Printf(a.err, "acltrace: %s\n", where(ui, res))
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&out, "output", "o", "", "file to write, as run.jsonl; - for standard output")
	f.StringVar(&o.Endpoint, "endpoint", "", "URL of a collector or a Jaeger (default: OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4317)")
	f.StringVar(&o.Protocol, "protocol", "", "grpc or http/protobuf (default: from the environment, or by the endpoint's port)")
	f.StringVar(&o.Layout, "layout", "lanes", "lanes: a lane per stream, kernels linked to their launches; nested: kernels under their launches")
	f.IntVar(&o.MaxSpans, "max-spans", 0, "spans per trace; longer steps and recordings become several traces, linked (default 10000)")
	f.IntVar(&o.MaxBytes, "max-bytes", 0, "bytes of the spans per trace, likewise (default 3000000)")
	f.BoolVar(&o.NoSteps, "no-steps", false, "no trace for each step: cut by --max-spans and --max-bytes alone")
	f.BoolVar(&resume, "resume", false, "go on where the same export was interrupted")
	f.BoolVar(&metrics, "metrics", false, "send metrics of the whole trace instead of spans: calls, launches, copies, errors, times and memory")
	f.StringVar(&ui, "ui", os.Getenv("ACLTRACE_UI"), "URL of a Jaeger's pages, as http://host:16686, or of another viewer's with {trace} for the trace's id (default: ACLTRACE_UI)")
	return c
}

// where tells where a step can be looked at, or the first trace of a recording without steps.
func where(ui string, res *otelexport.Result) string {
	id, look, in := res.FirstTraceID, "look at ", "in a Jaeger there: "
	if res.StepTraceID != "" {
		id, look, in = res.StepTraceID, "look at a step: ", "a step in a Jaeger there: "
	}
	switch {
	case strings.Contains(ui, "{trace}"):
		return look + strings.ReplaceAll(ui, "{trace}", id)
	case ui != "":
		return look + strings.TrimRight(ui, "/") + "/trace/" + id
	}
	host := "HOST"
	if u, err := url.Parse(res.Endpoint); err == nil {
		host = u.Hostname()
	}
	return fmt.Sprintf("%shttp://%s/trace/%s (--ui names the pages of another viewer)", in, net.JoinHostPort(host, "16686"), id)
}

// What becomes of calls that never returned, in what is made of a trace.
const (
	untilEnd = "shown until the end of the trace"
	untimed  = "counted, and in no sum of times"
)

// brackets says how many tasks are not shown as they were.
func (a *app) brackets(bracketed, tasks int) {
	if bracketed > 0 {
		report.Printf(a.err, "acltrace: the times of %d of %d tasks are brackets, not measured\n", bracketed, tasks)
	}
}

// resumeFile holds how far an export has come.
type resumeFile string

func (f resumeFile) read() (*otelexport.State, error) {
	b, err := os.ReadFile(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no export of this trace was interrupted: there is no %s", f)
	}
	if err != nil {
		return nil, err
	}
	s := &otelexport.State{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%s: %w; without --resume the export begins anew", f, err)
	}
	return s, nil
}

// save replaces the file as a whole. An export that can't be resumed is no reason to end it.
func (f resumeFile) save(s *otelexport.State) {
	b, _ := json.Marshal(s) // a state can always be marshalled
	_ = atomicfile.WriteFile(string(f), b)
}

func (a *app) exportPprof() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "pprof FILE",
		Short: "a profile for `go tool pprof`: time in calls, launches and bytes by function and kernel",
		Args:  arguments(1, "one trace file"),
		RunE: func(_ *cobra.Command, args []string) error {
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			if err := a.shows(r, "they are in no sum, and named in the profile's comments", untilEnd); err != nil {
				return err
			}
			if out == "" {
				out = args[0] + ".pb.gz"
			}
			if err := a.write(out, r, func(w io.Writer) error { return pprof.Write(w, r, m, &pprof.Options{Progress: a.progress("calls")}) }); err != nil {
				return err
			}
			report.Printf(a.err, "acltrace: %s written; look at it with: go tool pprof -http=: %s\n", out, out)
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "file to write (default FILE.pb.gz); - for standard output")
	return c
}

// create makes a file for what is made of a trace: not in place of the trace, which is read meanwhile.
func create(path string, of *format.Reader) (*atomicfile.File, error) {
	if same(path, of.Path()) {
		return nil, usage("--output %s is the trace itself", path)
	}
	return atomicfile.Create(path)
}

// write gives a new file, or standard output for "-", to a function.
func (a *app) write(path string, of *format.Reader, use func(io.Writer) error) error {
	if path == "-" {
		return use(a.raw)
	}
	defer atomicfile.EndOnSignals()()
	f, err := create(path, of)
	if err != nil {
		return err
	}
	if err = use(f); err == nil {
		err = f.Keep()
	}
	return errors.Join(err, f.Drop())
}

// writeAll gives files to a function that makes any number of them, and gives them their names together.
func writeAll(of *format.Reader, use func(create func(path string) (io.WriteCloser, error)) error) error {
	defer atomicfile.EndOnSignals()()
	var files []*atomicfile.File
	err := use(func(path string) (io.WriteCloser, error) {
		f, err := create(path, of)
		if err == nil {
			files = append(files, f)
		}
		return f, err
	})
	if err == nil {
		err = atomicfile.KeepTogether(files...)
	}
	for _, f := range files {
		err = errors.Join(err, f.Drop())
	}
	return err
}
