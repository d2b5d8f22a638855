package main

import (
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
			x, err := load(args[0])
			if err != nil {
				return err
			}
			defer x.Reader.Close()
			y, err := load(args[1])
			if err != nil {
				return err
			}
			defer y.Reader.Close()
			d := report.NewDiff(x, y, &report.DiffOptions{Threshold: percent / 100})
			if asJSON {
				err = a.printJSON(d)
			} else {
				err = d.Text(a.out)
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
	c.Flags().BoolVar(&slower, "slower", false, "end with 3 only where something is slower")
	return c
}
