package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/acltrace/acltrace/analyze/ranks"
	"github.com/acltrace/acltrace/api/runtimes"
	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/internal/human"
	"github.com/acltrace/acltrace/probe/ring"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/record/session"
	"github.com/acltrace/acltrace/report"
)

func (a *app) recoverCmd() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "recover FILE|SESSION -o FILE",
		Short: "make a whole trace of what is left of one that was cut off or damaged, or of a recorder that was killed",
		Long: `Copies every whole chunk to a new trace, with an index, and with gaps where calls are missing. The calls keep their numbers.

A trace that was cut off can be read as it is; recovering it once saves every reader the search, and says what is lost.

Of the folder of a session (/dev/shm/acltrace-...) whose recorder was killed, it makes a trace of what its ring held and what the programs wrote after it. The next
acltrace record does so by itself.`,
		Args: arguments(1, "one trace file, or the folder of a session"),
		RunE: func(_ *cobra.Command, args []string) error {
			if session.IsSession(args[0]) {
				made, err := salvage(args[0], out)
				if err != nil {
					return err
				}
				report.Printf(a.out, "%s: what was left in %s\n", made, args[0])
				return nil
			}
			var gone *format.BlobFile
			rep, err := a.copy(args[0], out, "recover", func(r *format.Reader) *format.CopyOptions {
				if f := r.BlobFile(); f != nil && f.Err != nil {
					gone = f
				}
				return &format.CopyOptions{LeaveBlobs: gone != nil}
			})
			if err != nil {
				return err
			}
			for i := range rep.Damage {
				report.Printf(a.out, "%v\n", &rep.Damage[i])
			}
			if gone != nil {
				report.Printf(a.out, "%s: has the payloads, %v; %s names it as before\n", gone.Path, gone.Err, out)
			}
			report.Printf(a.out, "%s: %d calls, %d lost for certain\n", out, rep.Calls, rep.LostCalls)
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "trace to write")
	return c
}

// salvage writes a trace from a session's remains, whatever its runtime.
func salvage(dir, out string) (made string, err error) {
	defer atomicfile.EndOnSignals()()
	for _, m := range runtimes.All {
		if made, err = record.Salvage(m, dir, out); !errors.Is(err, ring.ErrVersion) {
			break
		}
	}
	return made, err
}

func (a *app) packCmd() *cobra.Command {
	var out string
	o := format.CopyOptions{Compression: format.Zstd, Join: true}
	c := &cobra.Command{
		Use:   "pack FILE -o FILE",
		Short: "make a trace smaller, to be kept or sent",
		Long: `Packs a trace with zstd. Recording uses lz4, which costs the program less. Small chunks that follow each other, as a recording has that was written to the disk every
second, become large ones. The calls, their data, their payloads and their numbers stay what they are.

Payloads that were recorded into a file of their own (record --blobs) come into the new trace, which then is one file. With --leave-blobs they stay where they are, and the
new trace names that file: as for a trace that is to be sent without them.`,
		Args: arguments(1, "one trace file"),
		RunE: func(_ *cobra.Command, args []string) error {
			rep, err := a.copy(args[0], out, "pack", func(*format.Reader) *format.CopyOptions { return &o })
			if missing := (*format.ErrBlobFile)(nil); errors.As(err, &missing) {
				return fmt.Errorf("%w, or pack without them: --leave-blobs", err)
			}
			if err != nil {
				return err
			}
			report.Printf(a.out, "%s: %d calls, %s, was %s\n", out, rep.Calls, human.Bytes(uint64(rep.To)), human.Bytes(uint64(rep.From)))
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "trace to write")
	c.Flags().BoolVar(&o.LeaveBlobs, "leave-blobs", false, "leave the payloads in the file that record --blobs has made")
	return c
}

func (a *app) copy(from, to, command string, options func(*format.Reader) *format.CopyOptions) (*format.CopyReport, error) {
	if to == "" {
		return nil, usage("acltrace %s needs a file to write: -o FILE", command)
	}
	r, err := format.Open(from, nil)
	if err != nil {
		return nil, err
	}
	defer a.close(r)
	defer atomicfile.EndOnSignals()()
	o := options(r)
	o.Progress = a.bytes()
	return format.Copy(r, to, o)
}

func (a *app) assembleCmd() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "assemble TEXT -o FILE",
		Short: "make a trace of its text, as `cat --raw` writes it",
		Args:  arguments(1, "one text file"),
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				return usage("acltrace assemble needs a file to write: -o FILE")
			}
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			defer atomicfile.EndOnSignals()()
			err = format.Assemble(f, out, nil)
			if err != nil && !errors.As(err, new(*fs.PathError)) {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return err // a file system error names the file
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "trace to write")
	return c
}

func (a *app) fsckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "fsck FILE",
		Short: "check every checksum and every payload of a trace",
		Args:  arguments(1, "one trace file"),
		RunE: func(_ *cobra.Command, args []string) error {
			rep, err := format.Check(args[0], &format.CheckOptions{Progress: a.bytes()})
			if err != nil {
				return err
			}
			for _, p := range rep.Problems {
				report.Printf(a.out, "%s: %v\n", p.File, p)
			}
			for what, n := range rep.Unknown {
				report.Printf(a.out, "%s: %d of a newer version: %s\n", args[0], n, what)
			}
			report.Printf(a.out, "%s: %d chunks, %d calls, %d payloads, %s\n", args[0], rep.Chunks, rep.Calls, rep.Blobs, human.Bytes(uint64(rep.Bytes)))
			if rep.Lost > 0 {
				report.Printf(a.out, "%s: %s could not be written when it was made\n", args[0], human.Plural(rep.Lost, "payload"))
			}
			if len(rep.Problems) > 0 {
				return &exit{exitFailed, errors.New(args[0] + ": damaged")}
			}
			if !rep.Complete {
				return &exit{exitFailed, errors.New(args[0] + ": not finished: the recorder was stopped before it wrote the end; what is there is sound")}
			}
			report.Printf(a.out, "%s: sound\n", args[0])
			return nil
		},
	}
}

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
				if readers = append(readers, r); m != runtimes.Named(readers[0].Meta().API) {
					return fmt.Errorf("%s is of another runtime than %s", f, files[0])
				}
			}
			meta, err := ranks.Merge(out, readers, runtimes.Named(readers[0].Meta().API), &ranks.MergeOptions{WallOnly: wall, Progress: a.progress("traces")})
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
