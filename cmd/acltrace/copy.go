package main

import (
	"errors"
	"fmt"
	"github.com/acltrace/acltrace/internal/human"
	"io/fs"
	"os"

	"github.com/acltrace/acltrace/format"
	"github.com/acltrace/acltrace/internal/atomicfile"
	"github.com/acltrace/acltrace/probe"
	"github.com/acltrace/acltrace/record"
	"github.com/acltrace/acltrace/report"
	"github.com/spf13/cobra"
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
			if record.IsSession(args[0]) {
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

// salvage makes a trace of what is left in a session, of whichever runtime that is.
func salvage(dir, out string) (made string, err error) {
	defer atomicfile.EndOnSignals()()
	for _, m := range runtimes {
		if made, err = record.Salvage(m, dir, out); !errors.Is(err, probe.ErrVersion) {
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
			return err // one of the file system says which file
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "trace to write")
	return c
}
