package main

import (
	"fmt"

	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) diffCmd() *cobra.Command {
	var asJSON, slower bool
	var percent float64
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "what is slower, faster, new or gone in run B against run A",
		Long: "diff compares two runs of a program by their steps and kernels. It ends with 0 where they are the same, and with 3 where something is\n" +
			"slower or faster beyond the threshold and beyond noise, new, gone, or done more or less often in a step.",
		Args: arguments(2, "two trace files"),
		RunE: func(_ *cobra.Command, args []string) error {
			if percent <= 0 {
				return usage("acltrace diff: --threshold %g: it is a percentage above 0", percent)
			}
			x, m, err := open(args[0])
			if err != nil {
				return err
			}
			defer a.close(x)
			y, other, err := open(args[1])
			if err != nil {
				return err
			}
			defer a.close(y)
			if m != other {
				return fmt.Errorf("%s is of the runtime %q, %s of %q: there is nothing to compare", args[0], m.Name, args[1], other.Name)
			}
			for _, r := range []*format.Reader{x, y} {
				if err := a.shows(r, "they are in no sum", untimed); err != nil {
					return err
				}
			}
			d, err := diff.New(x, y, m, &diff.Options{Threshold: percent / 100, Progress: a.progress("calls")})
			if err != nil {
				return err
			}
			if asJSON {
				err = a.printJSON(d)
			} else {
				err = report.DiffText(a.out, d, a.text())
			}
			switch {
			case err != nil:
				return err
			case slower && d.SlowerCount > 0, !slower && d.Differs:
				return &exit{exitDiffers, nil}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().Float64Var(&percent, "threshold", 5, "least change of a median that counts, in percent")
	a.strictFlag(c.Flags())
	c.Flags().BoolVar(&slower, "slower", false, "end with 3 only where something is slower")
	return c
}
