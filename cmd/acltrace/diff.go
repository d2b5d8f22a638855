package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/acltrace/acltrace/analyze/diff"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

// uncounted says what becomes of imported tasks without times.
const uncounted = "they are not counted"

func (a *app) diffCmd() *cobra.Command {
	var asJSON, slower, all bool
	var percent float64
	var which selectFlags
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "compare two runs: slower, faster, new or gone",
		Long: "Compares run B with run A by steps, operators and kernels. The exit code is 3 if something is slower or faster by more than the threshold and the noise, " +
			"new, gone, or more or less frequent in a step. Otherwise it is 5 if a change of that size may be chance, 4 if calls were lost, and 0 if not.\n\n" +
			"The flags that choose calls apply to both runs. The step itself is compared only if they choose whole steps or times.",
		Example: "acltrace diff before.aclt after.aclt\n" +
			"acltrace diff --slower --threshold 3 --step 10:99 main.aclt branch.aclt",
		Args: arguments(2, "two trace files"),
		RunE: func(_ *cobra.Command, args []string) error {
			if percent <= 0 {
				return usage("diff: --threshold %g: want a percentage above 0", percent)
			}
			if err := which.check(); err != nil {
				return err
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
				return fmt.Errorf("%s has calls of the runtime %q, and %s of %q: they can't be compared", args[0], m.Name, args[1], other.Name)
			}
			defer a.endOnSignals()()
			if err := errors.Join(a.shows(x, uncounted, untimed), a.shows(y, uncounted, untimed)); err != nil {
				return err
			}
			d, err := diff.New(x, y, m, &diff.Options{Threshold: percent / 100, Select: &which.Selection, Progress: a.progress("calls")})
			if err != nil {
				return err
			}
			which.nothing(a, args[0], d.A.Calls)
			which.nothing(a, args[1], d.B.Calls)
			if asJSON {
				err = a.printJSON(d)
			} else {
				err = report.DiffText(a.out, d, all, a.text())
			}
			if err != nil {
				return err
			}
			return differs(d, slower)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().Float64Var(&percent, "threshold", 5, "`PERCENT`: smallest change of a median that counts")
	which.addCommon(c.Flags())
	c.Flags().BoolVarP(&all, "verbose", "v", false, "show insignificant changes too")
	explain(c.Flags(), "verbose", "Changes that noise or the threshold explains, with the spread of both runs and the probability p that chance explains the change.")
	c.Flags().BoolVar(&slower, "slower", false, "end with 3 only if something is slower")
	return c
}

// differs returns the exit code for two runs. With slower, only what is slower counts.
func differs(d *diff.Diff, slower bool) error {
	switch {
	case slower && d.SlowerCount > 0, !slower && d.Differs:
		return &exit{exitDiffers, nil}
	case slices.ContainsFunc(d.Doubts, func(x diff.Doubt) bool { return x.Slower || !slower && !d.Differs }):
		return &exit{exitUnclear, nil}
	}
	return nil
}
