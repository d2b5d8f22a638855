package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/acltrace/acltrace/analyze/stats"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/replay/compile"

	"github.com/acltrace/acltrace/api/runtimes"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/artifacts"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/replay"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) demoCmd() *cobra.Command {
	var out string
	var tokens int
	c := &cobra.Command{
		Use:   "demo",
		Short: "record, show and replay a sample program",
		Long:  "Records a bundled program on the simulator, checks the trace, and replays it twice. It needs no device.",
		Example: "acltrace demo\n" +
			"acltrace demo -o demo.aclt --tokens 64",
		Args: arguments(0, "no arguments"),
		RunE: func(_ *cobra.Command, _ []string) error {
			if tokens < 1 || tokens > 100_000 {
				return usage("--tokens %d: want 1 to 100000", tokens)
			}
			return a.demo(out, tokens)
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "demo.aclt", "`FILE`: trace to write")
	c.Flags().IntVar(&tokens, "tokens", 16, "`N`: tokens to decode, 400 launches each")
	return c
}

// demo records, checks and replays tiny_decoder. It fails if any part fails.
func (a *app) demo(out string, tokens int) error {
	rt := runtimes.All[0]
	program, err := artifacts.Example("tiny_decoder")
	if err != nil {
		return err
	}
	kernels, err := artifacts.Example("decoder_kernels.so")
	if err != nil {
		return err
	}
	const steps = 4
	step := func(n int, format string, args ...any) {
		report.Printf(a.out, "\n[%d/%d] %s\n", n, steps, fmt.Sprintf(format, args...))
	}

	step(1, "Record tiny_decoder on the simulator: a transformer decodes %d tokens.", tokens)
	o := record.Options{Model: rt, Output: out, Version: version, Sim: true, Capture: record.Capture{Calls: record.Calls{DeviceTime: 1}, Replayable: true}, Stdout: a.stdout, Stderr: a.stderr,
		Command: []string{program, "--tokens", fmt.Sprint(tokens)}, Env: append(os.Environ(), rt.Simulator.Kernels+"="+kernels)}
	res, err := record.Run(context.Background(), &o)
	if err != nil {
		return err
	}
	if res.Incomplete != nil {
		return res.Incomplete
	}
	if res.ExitCode != 0 {
		return fmt.Errorf("tiny_decoder ended with %d", res.ExitCode)
	}

	step(2, "Look at the recording: %s", out)
	if err := a.demoSummary(out); err != nil {
		return err
	}

	step(3, "Check the file, byte for byte.")
	rep, err := format.Check(out, nil)
	if err != nil {
		return err
	}
	if len(rep.Problems) > 0 || !rep.Complete {
		return fmt.Errorf("%s is damaged: %v", out, rep.Problems)
	}
	report.Printf(a.out, "%s, %s, %s: sound\n", human.Plural(rep.Chunks, "chunk"), human.Plural(rep.Calls, "call"), human.Plural(rep.Blobs, "payload"))

	step(4, "Replay it at the same addresses, then at others, and compare results.")
	for _, place := range []string{compile.PlaceSame, compile.PlaceMove} {
		rep, err := replay.Run(context.Background(), out, rt, &replay.Options{Place: place, Verify: true})
		if err != nil {
			return err
		}
		if err := report.ReplayText(a.out, out, rep, a.text()); err != nil {
			return err
		}
		if err := replayed(rep); err != nil {
			return errors.New("the replay is not identical")
		}
	}
	a.demoNext(out)
	return nil
}

func (a *app) demoSummary(path string) error {
	r, m, err := open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	s, err := stats.New(r, m, nil)
	if err != nil {
		return err
	}
	report.Printf(a.out, "%s in %s, %s failed; at most %s of device memory in use\n", human.Plural(s.Calls, "call"), human.Duration(s.SpanNS), human.Count(s.Failed), human.Bytes(s.PeakDeviceBytes))
	var launches uint64
	var names []string
	for _, k := range s.Kernels {
		launches += k.Count
		names = append(names, k.Name+" "+human.Count(k.Count))
	}
	return report.Wrapped(a.out, a.text(), 0, func(w io.Writer) {
		report.Printf(w, "%s: %s\n", human.Plural(launches, "launch"), strings.Join(names, ", "))
		for _, c := range s.Copies {
			report.Printf(w, "%s: %s, %s\n", c.Name, human.Count(c.Count), human.Bytes(c.Bytes))
		}
	})
}

func (a *app) demoNext(out string) {
	report.Printf(a.out, "\nThe demo is done. Next:\n")
	for _, x := range []struct{ command, text string }{
		{"acltrace stats " + out, "sums by function, kernel and stream"},
		{"acltrace cat " + out + " | less", "each call with its arguments"},
		{"acltrace export html " + out, "a page for a browser: steps, lanes, memory"},
		{"acltrace export perfetto " + out, "timeline for ui.perfetto.dev"},
		{"acltrace export otlp " + out, "spans for a Jaeger on this machine"},
		{"acltrace record --sim -- PROGRAM", "your program, without a device"},
	} {
		report.Printf(a.out, "  %-36s  %s\n", x.command, x.text)
	}
}
