package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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
	var out outputFlags
	c := &cobra.Command{
		Use:   "recover FILE|SESSION -o FILE",
		Short: "repair a damaged trace, or save a killed recording",
		Long: "Copies all undamaged chunks to a new trace with an index, and with gaps for missing calls. Calls keep their numbers. A damaged trace can be read " +
			"as it is; a recovered one opens faster and lists its losses.\n\n" +
			"SESSION is the folder of a recording whose recorder was killed (/dev/shm/acltrace-...). The trace has the calls in its buffers and ring, also if " +
			"FILE is what that recorder had begun. The next `acltrace record` does the same.",
		Example: "acltrace recover damaged.aclt -o whole.aclt\n" +
			"acltrace recover /dev/shm/acltrace-1000-4242 -o saved.aclt",
		Args: arguments(1, "one trace file, or the folder of a session"),
		RunE: func(c *cobra.Command, args []string) error {
			dir := args[0]
			if !session.IsSession(dir) {
				dir = sessionOf(dir)
			}
			if dir != "" {
				if err := errors.Join(seekable(c, out.path), out.free(out.path)); err != nil {
					return err
				}
				made, err := salvage(dir, out.path)
				if err != nil {
					return err
				}
				report.Printf(a.out, "%s: saved the calls in %s\n", made, strings.Join(slices.Compact([]string{args[0], dir}), " and "))
				report.NextText(a.out, "acltrace", "info", made)
				return nil
			}
			var gone *format.BlobFile
			rep, err := a.copy(c, args[0], &out, func(r *format.Reader) *format.CopyOptions {
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
				report.Printf(a.out, "%s with the payloads: %v; %s refers to it as before\n", gone.Path, gone.Err, out.path)
			}
			report.Printf(a.out, "%s: %s, %s known to be lost\n", out.path, human.Plural(rep.Calls, "call"), human.Count(rep.LostCalls))
			report.NextText(a.out, "acltrace", "info", out.path)
			return nil
		},
	}
	out.add(c.Flags(), "`FILE`: trace to write")
	return c
}

// sessionOf returns the session of a killed recorder by the trace that it had begun, "" if there is none.
func sessionOf(path string) string {
	r, err := format.Open(path, nil)
	if err != nil {
		return "" // who copies the trace says why
	}
	defer r.Close()
	return session.Killed(r)
}

// salvage writes a trace from a session's remains, whatever its runtime.
func salvage(dir, out string) (made string, err error) {
	defer atomicfile.EndOnSignals(nil)()
	for _, m := range runtimes.All {
		if made, err = record.Salvage(m, dir, out); !errors.Is(err, ring.ErrVersion) {
			break
		}
	}
	return made, err
}

func (a *app) packCmd() *cobra.Command {
	var out outputFlags
	o := format.CopyOptions{Compression: format.Zstd, Join: true}
	c := &cobra.Command{
		Use:   "pack FILE -o FILE",
		Short: "compress a trace",
		Long: "Compresses a trace with zstd. A recording uses lz4, which costs the program less. Small chunks are joined. Calls, payloads and call numbers stay the " +
			"same.\n\n" +
			"Payloads in a second file (`record --blobs`) are added to the new trace, unless --leave-blobs is given.",
		Example: "acltrace pack run.aclt -o small.aclt\n" +
			"acltrace pack --leave-blobs run.aclt -o small.aclt",
		Args: arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) error {
			rep, err := a.copy(c, args[0], &out, func(*format.Reader) *format.CopyOptions { return &o })
			if missing := (*format.ErrBlobFile)(nil); errors.As(err, &missing) {
				return fmt.Errorf("%w, or pack without them: --leave-blobs", err)
			}
			if err != nil {
				return err
			}
			report.Printf(a.out, "%s: %s, %s, was %s\n", out.path, human.Plural(rep.Calls, "call"), human.Bytes(rep.To), human.Bytes(rep.From))
			report.NextText(a.out, "acltrace", "info", out.path)
			return nil
		},
	}
	out.add(c.Flags(), "`FILE`: trace to write")
	c.Flags().BoolVar(&o.LeaveBlobs, "leave-blobs", false, "leave payloads in the file of record --blobs")
	return c
}

func (a *app) copy(c *cobra.Command, from string, to *outputFlags, options func(*format.Reader) *format.CopyOptions) (*format.CopyReport, error) {
	if err := to.trace(c, from); err != nil {
		return nil, err
	}
	r, err := format.Open(from, nil)
	if err != nil {
		return nil, err
	}
	defer a.close(r)
	defer a.endOnSignals()()
	o := options(r)
	o.Progress = a.bytes()
	return format.Copy(r, to.path, o)
}

func (a *app) assembleCmd() *cobra.Command {
	var out outputFlags
	c := &cobra.Command{
		Use:   "assemble TEXT -o FILE",
		Short: "make a trace from its text form",
		Example: "acltrace cat --raw run.aclt >run.txt\n" +
			"acltrace assemble run.txt -o run.aclt",
		Args: arguments(1, "one text file"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.trace(c, args[0]); err != nil {
				return err
			}
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			defer a.endOnSignals()()
			err = format.Assemble(f, out.path, nil)
			if err != nil && !errors.As(err, new(*fs.PathError)) {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if err != nil {
				return err // a file system error names the file
			}
			report.NextText(a.out, "acltrace", "info", out.path)
			return nil
		},
	}
	out.add(c.Flags(), "`FILE`: trace to write")
	return c
}

func (a *app) fsckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "fsck FILE",
		Short: "check a trace for damage",
		Long:  "Checks all checksums and all payloads. The exit code is 1 if the trace is damaged or not finished.",
		Example: "acltrace fsck run.aclt\n" +
			"acltrace recover run.aclt -o whole.aclt",
		Args: arguments(1, "one trace file"),
		RunE: func(c *cobra.Command, args []string) error {
			defer a.endOnSignals()()
			rep, err := format.Check(args[0], &format.CheckOptions{Progress: a.bytes()})
			if err != nil {
				return err
			}
			for _, p := range rep.Problems {
				report.Printf(a.out, "%s: %v\n", p.File, p)
			}
			for what, n := range rep.Unknown {
				report.Printf(a.out, "%s: %s from a newer version: %s\n", args[0], human.Count(n), what)
			}
			report.Printf(a.out, "%s: %s, %s, %s, %s\n", args[0], human.Plural(rep.Chunks, "chunk"), human.Plural(rep.Calls, "call"), human.Plural(rep.Blobs, "payload"), human.Bytes(rep.Bytes))
			if rep.Lost > 0 {
				report.Printf(a.out, "%s: %s could not be written during the recording\n", args[0], human.Plural(rep.Lost, "payload"))
			}
			if err := unsound(args[0], rep); err != nil {
				return err
			}
			report.Printf(a.out, "%s: sound\n", args[0])
			report.NextText(a.out, "acltrace", "info", args[0])
			return nil
		},
	}
}

// unsound returns the error for a trace with problems, with the command that helps.
func unsound(path string, rep *format.CheckReport) error {
	if len(rep.Problems) == 0 {
		return nil
	}
	damage, lacks := len(rep.Problems), ""
	for _, p := range rep.Problems {
		if p.File != path && p.Offset == 0 {
			damage, lacks = damage-1, "the payload file can't be read"
		}
	}
	if !rep.Complete {
		end := "not finished: the recorder did not write the end"
		if lacks != "" {
			end += ", and " + lacks
		}
		damage, lacks = damage-1, end
	}
	state, next := lacks+"; the rest is undamaged", report.RecoverCommand(path)
	switch {
	case damage > 0:
		state = "damaged"
	case !rep.Complete && atomicfile.Writing(path):
		state, next = "not finished: "+format.BeingRecorded, []string{"acltrace", "top", path}
	case rep.Complete:
		return &exit{exitFailed, errors.New(path + ": " + state)} // acltrace recover does not find the payloads
	}
	return &exit{exitFailed, &remedied{errors.New(path + ": " + state), "acltrace: next: ", next}}
}
