package main

import (
	"errors"
	"fmt"
	"github.com/acltrace/acltrace/internal/human"
	"os"
	"time"

	"github.com/acltrace/acltrace/analyze/ranks"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
)

func (a *app) mergeCmd() *cobra.Command {
	var out string
	var wall bool
	c := &cobra.Command{
		Use:   "merge -o FILE TRACE|FOLDER …",
		Short: "join the traces of a job's ranks into one, with one clock",
		Long: `Joins the traces of a job's ranks, of files and of all *.aclt in folders. The rank of each is what its environment said (RANK and its
like), else its place among the arguments. Clocks are brought together by the wall clocks when the recordings began, and then by
collectives at which all ranks meet: none is done before all have begun it. stats shows who waited for whom.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || out == "" {
				return usage("acltrace merge needs traces and a name: acltrace merge -o job.aclt rank0.aclt rank1.aclt")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			files, err := ranks.Files(args)
			if err != nil {
				return err
			}
			defer atomicfile.EndOnSignals()()
			var readers []*format.Reader
			for _, f := range files {
				if same(f, out) {
					return fmt.Errorf("%s is one of the traces; name another file", out)
				}
				r, m, err := open(f)
				if err != nil {
					return err
				}
				defer a.close(r)
				if readers = append(readers, r); m != models[readers[0].Meta().API] {
					return fmt.Errorf("%s is of another runtime than %s", f, files[0])
				}
			}
			meta, err := ranks.Merge(out, readers, models[readers[0].Meta().API], &ranks.MergeOptions{WallOnly: wall, Progress: a.progress("traces")})
			if err != nil {
				return err
			}
			report.Printf(a.err, "acltrace: %s: %s\n", out, human.Plural(uint64(len(meta.Merged)), "rank"))
			for _, p := range meta.Merged[1:] {
				how := "by the wall clocks"
				if p.Matched > 0 {
					how = fmt.Sprintf("by %d collectives, within %v", p.Matched, time.Duration(p.ErrorNS))
				}
				report.Printf(a.err, "  rank %d on %s: clock set %s\n", p.Rank, p.Host, how)
			}
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "trace to write")
	c.Flags().BoolVar(&wall, "wall", false, "leave the clocks as the wall clocks say")
	return c
}

// same reports whether two names are of one file.
func same(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return errors.Join(err, err2) == nil && os.SameFile(x, y)
}
