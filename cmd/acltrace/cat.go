package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) catCmd() *cobra.Command {
	var o report.LineOptions
	var from, to time.Duration
	var task string
	var raw bool
	c := &cobra.Command{
		Use:   "cat FILE",
		Short: "list the calls of a trace, one a line",
		Example: "acltrace cat --from 1.5s --to 2s run.aclt\n" +
			"acltrace cat --func aclrtMemcpy,aclrtMemcpyAsync --tail 20 run.aclt",
		Args: arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) error {
			if raw && c.Flags().NFlag() > 1 {
				return usage("--raw shows the whole file and goes with no other option")
			}
			if task != "" {
				var err error
				if o.Task, err = report.ParseTaskID(task); err != nil {
					return usage("%w", err)
				}
			}
			if o.Tail < 0 || o.Stream < 0 || o.TID < 0 {
				return usage("--tail, --stream and --thread take numbers from 0 on")
			}
			if to != 0 && to < from {
				return usage("--to %v is before --from %v", to, from)
			}
			if raw {
				r, err := format.Open(args[0], nil)
				if err != nil {
					return err
				}
				defer a.close(r)
				return r.WriteText(a.out)
			}
			r, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(r)
			o.From, o.To = from.Nanoseconds(), to.Nanoseconds()
			out := a.raw
			if o.Progress = a.progress("calls"); o.Progress != nil {
				out = a.above()
			}
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
				a.endProgress()
				var asked []string
				c.Flags().Visit(func(f *pflag.Flag) {
					if f.Name != "json" {
						asked = append(asked, fmt.Sprintf("--%s %s", f.Name, strings.Trim(f.Value.String(), "[]")))
					}
				})
				report.Printf(a.err, "acltrace: %s: no call is as asked for: %s\n", args[0], cmp.Or(strings.Join(asked, " "), "there is none"))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&o.JSON, "json", false, "print a JSON object per line")
	a.strictFlag(c.Flags())
	c.Flags().BoolVar(&raw, "raw", false, "print the whole file as text, without loss")
	explain(c.Flags(), "raw", "No other flag may be given. `acltrace assemble` makes the file from the text.")
	c.Flags().DurationVar(&from, "from", 0, "`TIME`: calls that start this long after the beginning")
	c.Flags().DurationVar(&to, "to", 0, "`TIME`: calls that start before this time")
	c.Flags().StringSliceVar(&o.Funcs, "func", nil, "`NAME`: calls of these functions")
	c.Flags().IntVar(&o.Stream, "stream", 0, "`N`: calls on stream#N")
	c.Flags().IntVar(&o.TID, "thread", 0, "`TID`: calls of this thread")
	c.Flags().StringVar(&task, "task", "", "`TASK`: calls of this task, STREAM:ID")
	explain(c.Flags(), "task", taskForms)
	c.Flags().IntVar(&o.Tail, "tail", 0, "`N`: the last N calls")
	return c
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
