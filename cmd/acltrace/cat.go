package main

import (
	"io"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) catCmd() *cobra.Command {
	var o report.LineOptions
	var which selectFlags
	var raw bool
	c := &cobra.Command{
		Use:   "cat FILE",
		Short: "list the calls of a trace, one a line",
		Long: "Lists calls in the order of their starts: number, start, thread, call and duration. With --step, --call, --from or --to, the time since the " +
			"thread's call before follows the thread: +2.50 us.",
		Example: "acltrace cat --from 1.5s --to 2s run.aclt\n" +
			"acltrace cat --func aclrtMemcpy,aclrtMemcpyAsync --tail 20 run.aclt",
		Args: arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) error {
			if raw && c.Flags().NFlag() > 1 {
				return usage("--raw prints the whole file: give no other flag")
			}
			if o.Tail < 0 {
				return usage("--tail %d: want 0 or more", o.Tail)
			}
			if err := which.check(); err != nil {
				return err
			}
			o.Selection = which.Selection
			if raw {
				return a.wholeText(args[0])
			}
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			defer a.endOnSignals()()
			out := a.raw
			o.Progress = a.progress("calls")
			if o.JSON {
				out = report.NewJSON(out)
			} else {
				out = report.NewScreen(out)
			}
			lines := &counted{Writer: out}
			if err := report.Lines(lines, r, m, &o); err != nil {
				return err
			}
			a.stands(r)
			if lines.bytes == 0 {
				which.nothing(a, args[0], 0)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&o.JSON, "json", false, "print a JSON object per line")
	a.strictFlag(c.Flags())
	c.Flags().BoolVar(&raw, "raw", false, "print the whole file as text, without loss")
	explain(c.Flags(), "raw", "No other flag may be given. `acltrace assemble` makes the file from the text.")
	which.add(c.Flags())
	which.addGraph(c.Flags())
	c.Flags().IntVar(&o.Tail, "tail", 0, "`N`: the last N of these calls")
	exclusive(c, "first", "tail")
	return c
}

// wholeText prints a trace without loss.
func (a *app) wholeText(path string) error {
	r, err := format.Open(path, nil)
	if err != nil {
		return err
	}
	defer a.close(r)
	return r.WriteText(a.out)
}

// counted is a writer that counts bytes.
type counted struct {
	io.Writer
	bytes int
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.bytes += n
	return n, err
}
